"""Float16 on RISC-V: by instructions of Zfh and Zvfh where the target has them, else on the bits; the same numbers."""

import numpy
import onnx
import pytest
import tc
from onnx import TensorProto, helper

from ..qemu import qemu_path, run_riscv64
from ..support import input_options, output_file


@pytest.fixture(name="casts", scope="module")
def model_of_casts(tmp_path_factory):
    """To float16 and from it."""
    folder = tmp_path_factory.mktemp("half")
    draw = numpy.random.default_rng(0)
    single = numpy.concatenate([draw.standard_normal(4000) * 10.0 ** draw.uniform(-9, 6, 4000), [0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 65519, 65520, 2**-25, 2**-24]])
    inputs = {"single": single.astype(numpy.float32), "half": numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16)}
    types = {"single": (TensorProto.FLOAT, TensorProto.FLOAT16), "half": (TensorProto.FLOAT16, TensorProto.FLOAT)}
    tensors = [[helper.make_tensor_value_info(name + suffix, types[name][at], x.shape) for name, x in inputs.items()] for at, suffix in enumerate(("", "_out"))]
    nodes = [helper.make_node("Cast", [name], [name + "_out"], to=types[name][1]) for name in inputs]
    onnx.save(helper.make_model(helper.make_graph(nodes, "casts", *tensors), opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "casts.onnx")
    return folder / "casts.onnx", inputs


@pytest.mark.parametrize("target", ["rv64gc", "rv64gc+zfh", "rv64gcv", "rv64gcv+zfhmin"])
def test_the_same_numbers(casts, target, tmp_path):
    path, inputs = casts
    tc.compile(path, target=target, threads=1, log=False).export(tmp_path / "casts", kind="executable")
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    code, _, error, _ = run_riscv64(tmp_path / "casts", [*input_options(inputs, tmp_path), "--output-dir", str(tmp_path)], vlen=128, extensions=["Zfh"])
    assert code == 0, error.decode()
    single, half = (numpy.load(tmp_path / output_file(f"{name}_out")) for name in inputs)
    assert numpy.array_equal(single, inputs["single"].astype(numpy.float16), equal_nan=True)
    assert numpy.array_equal(half, inputs["half"].astype(numpy.float32), equal_nan=True)


def test_vectors_are_converted_by_instructions(casts):
    """Debian 12's qemu does not know Zvfh: the code is read, not run."""
    assembly = "".join(kernel.schedule().assembly for kernel in tc.kernels(str(casts[0]), "rv64gcv+zvfhmin", threads=1))
    assert "vfwcvt.f.f.v" in assembly and "vfncvt.f.f.w" in assembly
    assert "vsll" not in assembly and "vmerge" not in assembly
