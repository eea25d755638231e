"""Float16 and bfloat16 on RISC-V: by instructions of Zfh, Zvfh and Zvfbfmin where the target has
them, else on the bits; the same numbers."""

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
    single = numpy.concatenate(
        [
            draw.standard_normal(4000) * 10.0 ** draw.uniform(-9, 6, 4000),
            [0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 65519, 65520, 2**-25, 2**-24],
        ]
    )
    inputs = {
        "single": single.astype(numpy.float32),
        "half": numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16),
    }
    types = {
        "single": (TensorProto.FLOAT, TensorProto.FLOAT16),
        "half": (TensorProto.FLOAT16, TensorProto.FLOAT),
    }
    tensors = [
        [
            helper.make_tensor_value_info(name + suffix, types[name][at], x.shape)
            for name, x in inputs.items()
        ]
        for at, suffix in enumerate(("", "_out"))
    ]
    nodes = [
        helper.make_node("Cast", [name], [name + "_out"], to=types[name][1]) for name in inputs
    ]
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "casts", *tensors),
            opset_imports=[helper.make_opsetid("", 20)],
            ir_version=9,
        ),
        folder / "casts.onnx",
    )
    return folder / "casts.onnx", inputs


@pytest.mark.parametrize(
    "target", ["rv64gc", "rv64gc+zfh", "rv64gc+zfhmin", "rv64gcv", "rv64gcv+zfhmin", "rv64gcv+zvfh"]
)
def test_the_same_numbers(casts, target, tmp_path):
    path, inputs = casts
    tc.compile(path, target=target, threads=1, log=False).export(
        tmp_path / "casts", kind="executable"
    )
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    code, _, error, _ = run_riscv64(
        tmp_path / "casts",
        [*input_options(inputs, tmp_path), "--output-dir", str(tmp_path)],
        vlen=128,
        extensions=["Zfh"],
    )
    assert code == 0, error.decode()
    single, half = (numpy.load(tmp_path / output_file(f"{name}_out")) for name in inputs)
    assert numpy.array_equal(single, inputs["single"].astype(numpy.float16), equal_nan=True)
    assert numpy.array_equal(half, inputs["half"].astype(numpy.float32), equal_nan=True)


def assembly_of(path, target):
    return "".join(
        kernel.schedule().assembly for kernel in tc.kernels(str(path), target, threads=1)
    )


@pytest.mark.parametrize(
    "target, has",
    [("rv64gc", False), ("rv64gc+zfh", True), ("rv64gc+zfhmin", True), ("rv64gcv+zvfh", False)],
)
def test_scalars_are_converted_by_instructions(casts, target, has):
    """`rv64gcv` has no scalars here."""
    assembly = assembly_of(casts[0], target)
    assert ("fcvt.s.h" in assembly and "fcvt.h.s" in assembly) == has


@pytest.mark.parametrize(
    "target, has",
    [("rv64gcv", False), ("rv64gcv+zfh", False), ("rv64gcv+zvfhmin", True), ("rv64gcv+zvfh", True)],
)
def test_vectors_are_converted_by_instructions(casts, target, has):
    """The code is read. It also runs above: Debian 12's qemu has no option for Zvfh, but executes
    its instructions where it has Zfh."""
    assembly = assembly_of(casts[0], target)
    assert ("vfwcvt.f.f.v" in assembly and "vfncvt.f.f.w" in assembly) == has
    assert ("vsll" not in assembly and "vmerge" not in assembly) == has


@pytest.mark.parametrize(
    "target, has", [("rv64gcv", False), ("rv64gcv+zvfbfmin", True), ("rv64gcv+zvfbfwma", True)]
)
def test_bfloats_are_converted_by_instructions(target, has, tmp_path):
    ports = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [100]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "powers", ports[:1], ports[1:]),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    onnx.save(model, tmp_path / "powers.onnx")
    assembly = assembly_of(tmp_path / "powers.onnx", target)
    assert ("vfwcvtbf16.f.f.v" in assembly and "vfncvtbf16.f.f.w" in assembly) == has


def test_scalars_without_their_instructions_are_converted_on_the_bits(tmp_path):
    """Zvfhmin does not imply Zfhmin; LLVM would call a function that is nowhere."""
    ports = [
        helper.make_tensor_value_info(name, kind, [1])
        for name, kind in (("x", TensorProto.FLOAT16), ("y", TensorProto.FLOAT))
    ]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], "one", ports[:1], ports[1:]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "one.onnx",
    )
    assert "call" not in assembly_of(tmp_path / "one.onnx", "rv64gcv+zvfhmin")
    assert "fcvt.s.h" in assembly_of(tmp_path / "one.onnx", "rv64gcv+zvfh")
