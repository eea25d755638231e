"""Kinds of artefacts and texts of kernels' code come from the rows of the back ends, and plans are
made for what a back end has code for."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc import cli
from tc.kinds import kind_row, runnable_kind
from tc.native import compiler
from tests.runtime.c_models import CModel, compiler_of
from tests.support import worst_error

AMX = "sapphirerapids"


def product(rows=128, depth=256, columns=256):
    weights = numpy.random.default_rng(0).standard_normal((depth, columns)).astype(numpy.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    ), weights


def test_kinds_are_rows():
    names = [row["name"] for row in compiler.kinds()]
    assert names == ["shared", "static", "executable", "object", "bare", "c", "loops"]
    assert all(row["doc"] for row in compiler.kinds())
    assert [kind_row(name)["suffix"] for name in names] == [
        ".so",
        ".a",
        "",
        ".o",
        ".o",
        ".c",
        ".loops",
    ]
    assert [name for name in names if kind_row(name)["backend"] != "llvm"] == ["c", "loops"]
    with pytest.raises(
        tc.TargetError,
        match="unknown kind of artefact 'zip'; the kinds are shared, static, executable, object, bare, c, loops",
    ):
        kind_row("zip")


@pytest.mark.parametrize("target, kind", [("rv64gcv", "executable"), ("rv32imfc", "bare")])
def test_what_a_model_for_another_machine_is_written_as(target, kind):
    assert runnable_kind(target) == kind


def test_the_command_line_lists_the_kinds(capsys):
    with pytest.raises(SystemExit) as raised:
        cli.main(["compile", "model.onnx", "--kind", "zip"])
    assert raised.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"tc: 'zip' is no value of --kind; known are {', '.join(row['name'] for row in compiler.kinds())};"
    )


@pytest.mark.parametrize("form", ["file", "bytes"])
def test_c_source_has_a_plan_without_matrix_units(form, tmp_path):
    model, weights = product()
    onnx.save(model, tmp_path / "product.onnx")
    module = tc.compile(
        tmp_path / "product.onnx" if form == "file" else model.SerializeToString(),
        AMX,
        threads=1,
        log=False,
    )
    assert any(
        line.startswith("tensorize ") for kernel in module.kernels for line in kernel["trace"]
    )
    module.export(tmp_path / "product.c", kind="c")
    text = (tmp_path / "product.c").read_text()
    assert "tc_f32x16_axpy(" in text  # the products are of float32, along the vectors of the target
    x = numpy.random.default_rng(1).standard_normal((128, 256)).astype(numpy.float32)
    wanted = x.astype(numpy.float64) @ weights.astype(numpy.float64)
    (found,) = CModel(tmp_path / "product.c", compiler_of("gcc")).run(
        [x], [wanted.astype(numpy.float32)]
    )
    assert worst_error(found, wanted) <= 1e-4


def test_a_file_that_changed_is_not_compiled_again(tmp_path):
    onnx.save(product()[0], tmp_path / "product.onnx")
    module = tc.compile(tmp_path / "product.onnx", AMX, threads=1, log=False)
    onnx.save(product(rows=64)[0], tmp_path / "product.onnx")
    with pytest.raises(
        tc.ModelError,
        match="product.onnx is not the file any more from which the model was compiled; compile it again",
    ):
        module.export(tmp_path / "product.c", kind="c")
    assert not (tmp_path / "product.c").exists()


def test_texts_of_a_kernel(tmp_path):
    kernel = tc.kernels(product()[0].SerializeToString(), "x86-64-v3")[0].schedule()
    assert "define" in kernel.code_text("llvm") and "vfmadd" in kernel.code_text("assembly")
    assert "void kernel(" in kernel.code_text("c")
    with pytest.raises(
        tc.ModelError,
        match="unknown text of a kernel's code 'poem'; there are llvm, assembly, lower_maximum_chains, ",
    ):
        kernel.code_text("poem")
