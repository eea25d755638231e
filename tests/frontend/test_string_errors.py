"""What is refused of models with strings, in a sentence: artefacts, operators in the wrong place,
and damaged files."""

import pytest
from onnx import helper

import tc

from .string_models import BOOL, FLOAT, INT64, STRING, model_of, node, one, port
from .test_errors import refusal


def test_no_artefact(tmp_path):
    text = refusal(
        tc.UnsupportedError, lambda: one("StringConcat", ("x", "z")).export(tmp_path / "a.so")
    )
    assert text == (
        "model 'g' works on strings (x, y, z), which no compiled code does, so that there is no artefact of it; run it from Python, "
        "or export the part between the operators on strings"
    )
    assert list(tmp_path.iterdir()) == []
    refusal(
        tc.TargetError,
        lambda: one("Identity").profile(["a"]),
        "works on strings and is not profiled as a whole; profile the part between "
        "the operators on strings",
    )
    refusal(
        tc.UnsupportedError,
        lambda: one("Identity").of_tensors(),
        "works on strings, which the command line has not; run it from Python",
    )


def test_what_would_stand_between_strings_is_refused():
    nodes = [
        node("Relu", ["t"], ["r"]),
        node("Cast", ["r"], ["s"], "text", to=STRING),
        node("Cast", ["s"], ["n"], "number", to=FLOAT),
        node("Neg", ["n"], ["y"], "neg"),
    ]
    model = model_of(nodes, [port("t", FLOAT, ["N"])], [port("y", FLOAT)])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "node 'neg' (Neg, opset 20) of model.onnx reads what is computed from strings "
        "that a compiled part gives; operators on strings run before everything that is compiled or after it",
    )
    assert "reads what is computed from strings" in tc.check(model)[0]


def test_other_operators_are_refused_by_name():
    refusal(
        tc.UnsupportedError,
        lambda: one("Tile", ("x", "k"), initializers=[helper.make_tensor("k", INT64, [1], [2])]),
        "node 'node' (Tile, opset 20) of model.onnx works on strings; on these there are StringConcat, StringSplit",
    )
    branch = helper.make_graph(
        [node("StringConcat", ["x", "x"], ["b"], "inside")], "b", [], [port("b")]
    )
    model = model_of(
        [node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch)],
        [port("c", BOOL, []), port("x")],
        [port("y")],
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "node 'if' (If, opset 20) of model.onnx has a subgraph that works on strings "
        "(node 'inside'), which is supported outside of subgraphs only",
    )
    sequence = helper.make_tensor_sequence_value_info("s", STRING, None)
    model = model_of([node("SequenceLength", ["s"], ["y"])], [sequence], [port("y", INT64, [])])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "input 's' of model.onnx is no tensor, and the model has strings; "
        "sequences and optionals are not supported beside them",
    )
    nodes = [node("Cast", ["x"], ["n"], to=FLOAT), node("Neg", ["n"], ["y"])]
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model_of(nodes, [port("x", shape=None)], [port("y", FLOAT, None)])),
        "tensor 'n' of model.onnx is computed from strings, and its number of dimensions is not known, for which the rest would be compiled",
    )
    module = tc.compile(
        model_of(nodes, [port("x", shape=None)], [port("y", FLOAT, None)]), shapes={"x": (2,)}
    )
    assert module(["1", "2"]).tolist() == [-1, -2]
    refusal(
        tc.ShapeError,
        lambda: module(["1"]),
        "input 'x' of model 'g' has shape [1]; expected string [2]",
    )


@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda t: t.string_data.append(b"\xff"),
            "tensor 'a' of model.onnx: its shape needs 1 elements but string_data holds 2",
        ),
        (
            lambda t: t.string_data.__setitem__(0, b"\xff"),
            "tensor 'a' of model.onnx holds the string '",
        ),
        (
            lambda t: t.dims.extend([1] * 17),
            "tensor 'a' of model.onnx has 17 dimensions; at most 16 are allowed",
        ),
        (lambda t: t.dims.extend([1 << 62, 1 << 62]), "tensor 'a' of model.onnx: "),
    ],
)
def test_damaged_constants(change, words):
    tensor = helper.make_tensor("a", STRING, [], [b"n"])
    change(tensor)
    refusal(
        tc.ModelError,
        lambda: tc.compile(
            model_of([node("StringConcat", ["x", "a"], ["y"])], [port("x")], [port("y")], [tensor])
        ),
        words,
    )


def test_damaged_models():
    refusal(
        tc.ModelError,
        lambda: one("StringConcat", ("x", "nowhere")),
        "reads tensor 'nowhere', which no earlier node, input or initializer defines",
    )
    model = model_of([node("Identity", ["x"], ["z"])], [port("x")], [port("y")])
    refusal(
        tc.ModelError,
        lambda: tc.compile(model),
        "output 'y'",
        "which no earlier node, input or initializer defines",
    )
    model = model_of(
        [
            node("Constant", [], ["c"], "two", value_string="a", value_int=1),
            node("StringConcat", ["x", "c"], ["y"]),
        ],
        [port("x")],
        [port("y")],
    )
    refusal(
        tc.ModelError, lambda: tc.compile(model), "node 'two'", "must have one value and one output"
    )
    refusal(
        tc.ShapeError,
        lambda: one("StringConcat", ("x", "z"))([["a"] * 20000] * 1, [["a"]] * 20000),
        "would make 400000000 elements; at most 268435456",
    )
    refusal(
        tc.ShapeError,
        lambda: one("StringSplit", ("x",), ("y", "n"), delimiter=",")(
            ["," * 100000] + ["a"] * 3000
        ),
        "splits 3001 strings into up to 100001 parts each; at most 268435456 parts in all are supported",
    )
