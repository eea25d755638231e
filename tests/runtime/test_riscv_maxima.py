"""Maximum pooling on vectors of RISC-V keeps NaN, infinities and large numbers apart
(codegen/llvm/passes/lower_maximum_chains.h)."""

import subprocess

import numpy
import pytest
import tc
from onnx import TensorProto, helper, save

from ..qemu import qemu_path


def test_pooling_of_nan_and_infinities(tmp_path):
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    graph = helper.make_graph(
        [
            helper.make_node(
                "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
            )
        ],
        "pooling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 40, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "model.onnx",
    )
    draw = numpy.random.default_rng(0)
    x = draw.standard_normal((1, 32, 40, 40)).astype(numpy.float32)
    flat, places = x.reshape(-1), draw.permutation(x.size)
    # The square of the last is infinite.
    for i, value in enumerate([numpy.nan, numpy.inf, -numpy.inf, -numpy.nan, 3e38]):
        flat[places[300 * i : 300 * (i + 1)]] = value
    x[0, 3, :8, :8] = -numpy.inf
    numpy.save(tmp_path / "x.npy", x)
    tc.compile(str(tmp_path / "model.onnx"), target="rv64gcv_zvl256b", threads=1, log=False).export(
        str(tmp_path / "pool"), kind="executable"
    )
    subprocess.run(
        [
            qemu_path(),
            "-cpu",
            "rv64,v=true,vlen=256",
            str(tmp_path / "pool"),
            "--input",
            f"x={tmp_path / 'x.npy'}",
            "--output-dir",
            str(tmp_path / "out"),
        ],
        check=True,
        capture_output=True,
    )
    padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-numpy.inf)
    wanted = numpy.stack(
        [padded[:, :, i : i + 39 : 2, j : j + 39 : 2] for i in range(3) for j in range(3)]
    ).max(0)
    assert numpy.isnan(wanted).any() and numpy.isinf(wanted).any()
    assert numpy.array_equal(numpy.load(tmp_path / "out" / "y.npy"), wanted, equal_nan=True)
