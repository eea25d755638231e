"""Tuning of a quantised network: records for sums of bytes, whose results are the same integers
with every schedule."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import tc
from tc import fleet

from ..support import count_under_qemu, output_file

pytest.importorskip("onnx")

SIZE = 12


def quantised_model():
    """A convolution and a product of bytes, with scales for each channel, as a quantiser writes
    them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(11)
    arrays = {
        "xs": np.float32(0.02),
        "xz": np.uint8(117),
        "ws": random.uniform(0.002, 0.01, 32).astype(np.float32),
        "wz": np.zeros(32, np.int8),
        "w": random.integers(-128, 128, (32, 16, 3, 3)).astype(np.int8),
        "hs": np.float32(0.11),
        "hz": np.uint8(0),
        "ms": random.uniform(0.002, 0.01, 24).astype(np.float32),
        "mz": np.zeros(24, np.int8),
        "m": random.integers(-128, 128, (32, 24)).astype(np.int8),
        "ys": np.float32(0.05),
        "yz": np.uint8(128),
        "rows": np.array([SIZE * SIZE, 32], np.int64),
    }
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
            helper.make_node("Conv", ["xf", "wf"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("QuantizeLinear", ["r", "hs", "hz"], ["h"]),
            helper.make_node("Transpose", ["h"], ["t"], perm=[0, 2, 3, 1]),
            helper.make_node("Reshape", ["t", "rows"], ["f"]),
            helper.make_node("DequantizeLinear", ["f", "hs", "hz"], ["ff"]),
            helper.make_node("DequantizeLinear", ["m", "ms", "mz"], ["mf"], axis=1),
            helper.make_node("MatMul", ["ff", "mf"], ["p"]),
            helper.make_node("QuantizeLinear", ["p", "ys", "yz"], ["y"]),
        ],
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 16, SIZE, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [SIZE * SIZE, 24])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def picture():
    return np.random.default_rng(0).integers(0, 256, (1, 16, SIZE, SIZE)).astype(np.uint8)


def judged(result, log, counts):
    """That all schedules were measured and gave the reference's integers; the records of those that
    count."""
    assert result.measured == counts and not any(
        set(kernel.failures) - {"noisy"} for kernel in result.kernels
    ), result.summary()
    records = [record for record in tc.Log(log).records() if record.outcome == "ok"]
    assert records and all(record.worst_error == 0 for record in records)
    return records


@pytest.mark.parametrize("meaning", ["exact", "fast"])
def test_schedules_of_bytes_give_the_same_integers_here(tmp_path, meaning):
    model, log = quantised_model(), tmp_path / "log.db"
    result = tc.tune(model, threads=1, trials=14, log=log, quantised=meaning)
    judged(result, log, 14)
    untuned = tc.compile(model, threads=1, log=False, quantised=meaning)
    tuned = tc.compile(model, threads=1, log=log, quantised=meaning)
    np.testing.assert_array_equal(tuned(picture()), untuned(picture()))
    again = tc.tune(model, threads=1, trials=14, log=log, quantised=meaning)
    assert again.measured == 0 and again.trials == 14


@pytest.mark.skipif(shutil.which("qemu-riscv64") is None, reason="qemu-riscv64 is not installed")
def test_schedules_of_bytes_on_a_simulated_board(tmp_path):
    model, log = quantised_model(), tmp_path / "log.db"
    with fleet.Local(["--name", "board", "--runner", "qemu", "--vector-bits", "256"]) as programs:
        result = tc.tune(
            model, "rv64gcv", threads=1, trials=12, log=log, insecure=True, tracker=programs.address
        )
    assert result.unit == "simulated cycles" and all(
        kernel.best <= kernel.untuned for kernel in result.kernels
    )
    judged(result, log, 12)
    found = []
    for chosen in (False, log):
        path = Path(tmp_path) / "model"
        tc.compile(model, "rv64gcv", threads=1, log=chosen).export(str(path), kind="executable")
        outputs, _ = count_under_qemu(
            path, {"x": picture()}, tmp_path, vlen=256, arguments=["--threads", "1"]
        )
        found.append(outputs[output_file("y")])
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[0], tc.compile(model, threads=1, log=False)(picture()))
