"""Everything of a model that cannot be compiled is told at once: by tc.check, by its command and by
the error."""

import json

import onnx
import pytest
from onnx import parser

import tc
from tc.cli import main

# Ten nodes that are refused, for operators, attributes, types and operands; the others are fine.
TEN = """g (float[2,3] x, string[2] s, int64[1] n, float[4,4] m) => (float[2,3] y, float[2,3] z) <int64[2,3] k = {1,2,3,4,5,6}> {
    one = FancyOne(x)
    two = Relu<alpha = 1.0>(x)
    fine = Neg(x)
    three = FancyTwo(fine)
    four = Sigmoid(k)
    five = my.domain.Thing(fine)
    six = Softplus<beta = 2.0>(fine)
    seven = Erf(k)
    behind = Abs(seven)
    eight = Exp<base = 2.0>(behind)
    nine = Tanh<fast = 1>(fine)
    ten = Ceil(k)
    y = Add(fine, fine)
    z = Mul(fine, two)
}""".replace(", string[2] s", "")


def model_of(text, infos=()):
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17, "my.domain": 1]> {text.replace("my.domain.Thing", "Thing")}'
    )
    for node in model.graph.node:
        node.name = node.output[0]
        node.domain = "my.domain" if node.op_type == "Thing" else ""
    for name in infos:
        model.graph.value_info.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (2, 3))
        )
    return model


NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def named(problems):
    return {problem.split("'")[1] for problem in problems}


def test_ten_at_once():
    """What refused nodes make is as the file declares it: so node 'eight' is looked at, behind
    'seven'."""
    model = model_of(TEN, infos=("two", "seven"))
    problems = tc.check(model)
    assert named(problems) == set(NUMBERS) and len(problems) == 10
    with pytest.raises(tc.UnsupportedError) as error:
        tc.compile(model)
    assert str(error.value).startswith("10 nodes of model.onnx are not supported: ")
    assert str(error.value).endswith("; docs/operators.md lists what is")
    assert error.value.problems == tuple(problems)
    assert all(problem in str(error.value) for problem in problems)
    by_node = {problem.split("'")[1]: problem for problem in problems}
    assert (
        by_node["one"]
        == "node 'one' (FancyOne, opset 17): no operator of this name and version; it reads 'x' f32[2, 3]"
    )
    assert (
        by_node["five"]
        == "node 'five' (my.domain::Thing, opset 1): no operator of this name and version; it reads 'fine' f32[2, 3]"
    )
    assert (
        by_node["two"]
        == "node 'two' (Relu, opset 17) of model.onnx: attribute 'alpha' is not supported; it reads 'x' f32[2, 3]"
    )
    assert by_node["four"].endswith("; it reads 'k' i64[2, 3]") and "i64" in by_node["four"]


def test_what_cannot_be_looked_at_is_left_out():
    """Without declared types nobody knows what a refused node makes; what reads it is not
    blamed."""
    problems = tc.check(model_of(TEN))
    assert named(problems) == set(NUMBERS) - {"eight"}


def test_wrong_declarations_count_as_none():
    model = model_of(TEN, infos=("two", "seven"))
    model.graph.value_info[1].type.tensor_type.elem_type = 99
    assert named(tc.check(model)) == set(NUMBERS) - {"eight"}
    model.graph.value_info[1].type.tensor_type.elem_type = 1
    model.graph.value_info[1].type.tensor_type.shape.dim[0].dim_value = 1 << 60
    assert named(tc.check(model)) == set(NUMBERS) - {"eight"}


def test_one_problem_is_told_as_it_was():
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu<alpha = 1.0>(x) y = Neg(a) }")
    with pytest.raises(
        tc.UnsupportedError,
        match="^node 'a' .Relu, opset 17. of model.onnx: attribute 'alpha' is not supported$",
    ):
        tc.compile(model)
    assert len(tc.check(model)) == 1
    assert tc.check(model_of("g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }")) == []


def test_in_branches_too():
    model = model_of("""g (float[2,3] x, bool c) => (float[2,3] y) {
        a = FancyOne(x)
        b = If<then_branch = t () => (float[2,3] p) { p = Neg(a) }, else_branch = e () => (float[2,3] q) { q = FancyTwo(x) }>(c)
        d = Relu<alpha = 1.0>(x)
        y = Add(b, d)
    }""")
    assert named(tc.check(model)) == {"a", "q", "d"}


def test_the_command(tmp_path, capsys):
    onnx.save(model_of(TEN, infos=("two", "seven")), tmp_path / "ten.onnx")
    assert main(["check", str(tmp_path / "ten.onnx"), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["compiles"] and named(result["problems"]) == set(NUMBERS)
    assert main(["check", str(tmp_path / "ten.onnx")]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 11


def test_many_are_counted():
    nodes = " ".join(f"v{i} = Relu<alpha = 1.0>(x)" for i in range(30))
    model = model_of(f"g (float[2] x) => (float[2] y) {{ {nodes} y = Neg(x) }}")
    with pytest.raises(
        tc.UnsupportedError,
        match="^30 nodes of model.onnx are not supported: .*; and 10 more; docs/operators.md lists what is$",
    ):
        tc.compile(model)
    assert len(tc.check(model)) == 30


def test_an_option_of_another_name():
    with pytest.raises(TypeError) as told:
        tc.check("model.onnx", shape={"n": 1})
    assert str(told.value) == "check() got an unexpected keyword argument 'shape'"
