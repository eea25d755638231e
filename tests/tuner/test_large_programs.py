"""Programs that are larger than many a board's room for them: kernels and whole models with their
weights inside, sent to an agent and measured, or refused by their size."""

import re
import shutil

import numpy as np
import pytest

import tc
from tc import fleet

onnx = pytest.importorskip("onnx")

COLUMNS = 1_100_000  # of weights, in 24 rows; packed for the board, they have 75 MB


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An average, which has a faster schedule than the untuned one, and a large product."""
    if not shutil.which("qemu-riscv64"):
        pytest.skip("there is no qemu-riscv64")
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(3).standard_normal((24, COLUMNS), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["x"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["y"]),
        ],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 24, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, COLUMNS])],
        [numpy_helper.from_array(weights, "m")],
    )
    path = tmp_path_factory.mktemp("model") / "large.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def tune(model, tmp_path, *options):
    """The result of a session on one simulated board."""
    with fleet.Local(["--name", "board", "--runner", "qemu", *options]) as local:
        return tc.tune(
            model,
            "rv64gcv_zvl256b",
            threads=1,
            trials=6,
            log=tmp_path / "log.db",
            tracker=local.address,
            insecure=True,
        )


def test_a_model_larger_than_64_mib_is_measured_as_a_whole(model, tmp_path):
    result = tune(model, tmp_path)
    assert result.measured == 6 and not any(kernel.failures for kernel in result.kernels)
    assert result.model_gain > 1, result.summary()


def test_what_a_board_has_no_room_for_is_said_with_size_and_bound(model, tmp_path):
    result = tune(model, tmp_path, "--store-mib", "64")
    text = result.summary()
    found = re.search(
        r"is not tuned: its untuned schedule is .*: a file of (\d+) bytes is too large for the device 'board', "
        r"whose agent takes files of up to 67108864 bytes; start the agent with a larger --store-mib",
        text,
    )
    assert found and 64 << 20 < int(found[1]) < 80 << 20, text
    # The board is not at fault, and measures the other kernel.
    assert any(kernel.best for kernel in result.kernels), text
