"""What is refused of sequences and optionals, while compiling and of the values of a run: each in a
sentence."""

import numpy as np
import onnx
import pytest
from onnx import helper

import tc

from .sequence_models import (
    BOOL,
    FLOAT,
    INT64,
    arrays,
    joined,
    loop,
    model_of,
    node,
    number,
    one,
    optional,
    sequence,
    tensor,
)
from .test_errors import refusal


def test_a_loop_that_data_end_is_refused():
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(loop("below", 2000), values={"n": 3}),
        "node 'loop' (Loop, opset 18)",
        "condition of iterations 'below' depends on data",
    )


def test_loops_in_loops_are_bounded():
    keep = [
        node("SequenceInsert", ["s", "x"], ["u"], "insert"),
        node("SequenceErase", ["u"], ["t"], "erase"),
    ]

    def nest(depth):
        inner = (
            [node("Loop", ["n", "", "s"], ["t"], "inner", body=nest(depth - 1))] if depth else keep
        )
        return helper.make_graph(
            inner + [node("Identity", ["c"], ["d"])],
            "b",
            [tensor("i", INT64, []), tensor("c", BOOL, []), sequence("s")],
            [tensor("d", BOOL, []), sequence("t")],
        )

    nodes = [
        node("SequenceEmpty", [], ["e"]),
        node("Loop", ["n", "", "e"], ["y"], "outer", body=nest(3)),
    ]
    model = model_of(nodes, [tensor("x", FLOAT, [1])], [sequence("y")], [number("n", 1000)])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "is in a loop over sequences, whose iterations are compiled one by one; more than 4096 nodes",
    )
    nodes = [
        node("SequenceEmpty", [], ["e"]),
        node("Loop", ["n", "", "e"], ["y"], "outer", body=nest(0)),
    ]
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(
            model_of(nodes, [tensor("x", FLOAT, [1])], [sequence("y")], [number("n", 1 << 40)])
        ),
        "node 'outer'",
        "works on sequences, for which its iterations are compiled one by one; it has more than 1024",
    )
    nodes = [node("SequenceConstruct", ["x"] * 4097, ["y"], "many")]
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model_of(nodes, [tensor("x", FLOAT, [1])], [sequence("y")])),
        "node 'many'",
        "makes a sequence of 4097 tensors; at most 4096 are supported",
    )
    nodes = [node("SplitToSequence", ["x"], [f"y{i}"]) for i in range(5)]
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model_of(nodes, [tensor("x", FLOAT, [4000])], [sequence("y4")])),
        "'y4' and the sequences before it hold 33554432 tensors or make 16384 values in all; more are not supported",
    )


def test_wrong_values_of_a_run():
    module = tc.compile(joined())
    refusal(
        tc.ShapeError,
        lambda: module(np.ones(3, np.float32)),
        "input 'x' of model 'g' is a sequence: pass a list of arrays of float32, not a ndarray",
    )
    refusal(
        tc.ShapeError,
        lambda: module(None),
        "input 'x' of model 'g' is a sequence: pass a list of arrays of float32, not a NoneType",
    )
    refusal(
        tc.ShapeError,
        lambda: module([np.ones(3)]),
        "input 'x[0]' of model 'g' is float64",
        "x.astype('float32')",
    )
    refusal(
        tc.ModelError,
        lambda: module([]),
        "node 'join' (ConcatFromSequence, opset 18) of model.onnx joins the tensors of an empty sequence",
    )
    refusal(
        tc.UnsupportedError,
        lambda: module([np.ones(1, np.float32)] * 5000),
        "input 'x' of model.onnx is given 5000 tensors; at most 4096 are supported",
    )
    np.testing.assert_array_equal(module(arrays((2, 1)))[0], arrays((2, 1))[0])
    refusal(
        tc.ShapeError,
        lambda: tc.compile(joined(), shapes={"x": None}),
        "input 'x' of model.onnx",
        "is a sequence, which cannot be left out",
    )
    refusal(
        tc.ShapeError,
        lambda: tc.compile(joined(), shapes={"x": [(2, -3)]}),
        "shapes: 'x' has the tensor shape (2, -3); give numbers, None leaves a size open",
    )
    refusal(
        tc.ShapeError,
        lambda: tc.compile(joined(), shapes={"x": [(2, 3)], "z": [(1,)]}),
        "shapes of tensors are given for 'z', which is neither a sequence nor an optional among the inputs of model.onnx",
    )
    refusal(
        tc.ShapeError,
        lambda: tc.compile(joined(), shapes={"x": [(1,) * 17]}),
        "is given a shape of 17 dimensions; at most 16 are allowed",
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(joined(), values={"x": [1]}),
        "values: input 'x' of model.onnx is no tensor (sequence); give the shapes of its tensors with shapes={'x': [...]}",
    )


REFUSED = [
    (
        "SequenceAt",
        ["x", "k"],
        [number("k", 2)],
        {},
        tc.ModelError,
        "has position 2, which is not among the 2 of its sequence",
    ),
    (
        "SequenceAt",
        ["x", "k"],
        [helper.make_tensor("k", INT64, [2], [0, 1])],
        {},
        tc.ModelError,
        "takes one position, but 'k' has 2 numbers",
    ),
    ("SequenceAt", ["x", "f"], [], {}, tc.ModelError, "takes position of integers, but 'f' is f32"),
    ("SequenceAt", ["x"], [], {}, tc.ModelError, "lacks input 1"),
    (
        "SequenceAt",
        ["t", "k"],
        [number("k", 0)],
        {},
        tc.ModelError,
        "takes a sequence, but 't' is a tensor",
    ),
    ("SequenceLength", ["o"], [], {}, tc.ModelError, "takes a sequence, but 'o' is an optional"),
    (
        "SequenceLength",
        ["nowhere"],
        [],
        {},
        tc.ModelError,
        "reads tensor 'nowhere', which no earlier node",
    ),
    (
        "SequenceInsert",
        ["x", "k"],
        [number("k", 2)],
        {},
        tc.ModelError,
        "puts i64 into a sequence of f32",
    ),
    ("Neg", ["x"], [], {}, tc.ModelError, "takes a tensor, but 'x' is a sequence"),
    (
        "SplitToSequence",
        ["t"],
        [],
        {},
        tc.UnsupportedError,
        "splits axis 0, whose size 'N' is not known, so that the number of tensors is not; bind the symbols to numbers: shapes={\"N\": …}",
    ),
    (
        "SplitToSequence",
        ["k"],
        [helper.make_tensor("k", INT64, [2], [0, 1])],
        {"axis": 1},
        tc.ModelError,
        "splits along axis 1 of 1 axes",
    ),
    (
        "SplitToSequence",
        ["k", "k"],
        [helper.make_tensor("k", INT64, [2], [0, 1])],
        {},
        tc.ModelError,
        "splits 2 elements into parts whose sizes do not fit",
    ),
    (
        "SplitToSequence",
        ["k", "n"],
        [helper.make_tensor("k", INT64, [2], [0, 1]), number("n", 0)],
        {},
        tc.ModelError,
        "splits into parts of no element",
    ),
    (
        "SplitToSequence",
        ["k"],
        [helper.make_tensor("k", INT64, [5000], [0] * 5000)],
        {},
        tc.UnsupportedError,
        "splits 5000 elements into parts of 1; at most 4096 parts are supported",
    ),
    ("ConcatFromSequence", ["x"], [], {}, tc.ModelError, "lacks attribute 'axis'"),
    ("SequenceMap", ["x"], [], {}, tc.ModelError, "lacks attribute 'body'"),
    (
        "SequenceMap",
        ["x"],
        [],
        {"body": helper.make_graph([], "b", [], [])},
        tc.ModelError,
        "has a body of 0 inputs and 0 outputs, which do not fit its own",
    ),
    (
        "Optional",
        ["o"],
        [],
        {},
        tc.UnsupportedError,
        "makes an optional of an optional, which is not supported",
    ),
    ("Optional", [], [], {}, tc.ModelError, "has neither an input nor attribute 'type'"),
    (
        "OptionalGetElement",
        ["o"],
        [],
        {},
        tc.ShapeError,
        "takes what optional 'o' has, but it is empty",
    ),
]


@pytest.mark.parametrize(
    "op, inputs, initializers, attributes, kind, words",
    REFUSED,
    ids=[f"{row[0]}-{i}" for i, row in enumerate(REFUSED)],
)
def test_refusals(op, inputs, initializers, attributes, kind, words):
    model = one(op, inputs, initializers=initializers, **attributes)
    shapes = {
        port.name: {"x": [(2,), (2,)], "o": None}[port.name]
        for port in model.graph.input
        if port.name in ("x", "o")
    }
    text = refusal(kind, lambda: tc.compile(model, shapes=shapes), words)
    assert "node 'node'" in text


def test_maps_of_unequal_sequences():
    body = helper.make_graph(
        [node("Add", ["a", "b"], ["c"])], "b", [tensor("a"), tensor("b")], [tensor("c")]
    )
    model = model_of(
        [node("SequenceMap", ["x", "z"], ["y"], "map", body=body)],
        [sequence("x"), sequence("z")],
        [sequence("y")],
    )
    refusal(
        tc.ModelError,
        lambda: tc.compile(model)(arrays((1,), (1,)), arrays((1,))),
        "node 'map'",
        "maps sequences of 2 and 1 tensors; they must have as many",
    )


def test_types_that_are_not_supported():
    inner = helper.make_sequence_type_proto(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    )
    model = model_of(
        [node("Identity", ["t"], ["y"])],
        [helper.make_value_info("x", inner), tensor("t", FLOAT, [1])],
        [tensor("y")],
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "input 'x' of model.onnx is neither a tensor nor a sequence or an optional of tensors; maps, sparse tensors and nested sequences are not supported",
    )


def test_a_loop_without_a_body_that_fits():
    model = loop()
    model.graph.node[1].attribute[0].g.input.pop()
    refusal(
        tc.ModelError,
        lambda: tc.compile(model, values={"n": 2}),
        "node 'loop'",
        "has a body of 3 inputs and 4 outputs, which do not fit its own",
    )
    del model.graph.node[1].attribute[:]
    refusal(
        tc.ModelError,
        lambda: tc.compile(model, values={"n": 2}),
        "node 'loop'",
        "lacks attribute 'body'",
    )


def test_all_that_is_missing_is_told_at_once(tmp_path):
    model = model_of(
        [node("SequenceLength", ["x"], ["n"]), node("OptionalHasElement", ["o"], ["h"])],
        [sequence("x"), optional("o", helper.make_tensor_type_proto(FLOAT, None))],
        [tensor("n", INT64, []), tensor("h", BOOL, [])],
    )
    assert tc.compile(model).deciding_inputs == ("x", "o")
    assert tc.check(model) == []
    n, h = tc.compile(model)([], None)
    assert n == 0 and not h
    with pytest.raises(tc.UnsupportedError) as caught:
        tc.tune(model, time_limit=1, log=tmp_path / "log")
    assert str(caught.value) == (
        "the structure of model.onnx depends on how many tensors of which shapes there are in its inputs 'x' (sequence), "
        "'o' (optional); give them with shapes={'x': [(…), …]}, None for an empty optional"
    )


def test_training_operators_are_refused_by_name():
    graph = helper.make_graph(
        [
            node(
                "Adam",
                ["r", "t", "x", "g", "v", "h"],
                ["y"],
                "step",
                domain="ai.onnx.preview.training",
            )
        ],
        "g",
        [tensor(name, FLOAT, [1]) for name in "rxgvh"] + [tensor("t", INT64, [])],
        [tensor("y")],
    )
    model = helper.make_model(
        graph,
        opset_imports=[
            onnx.helper.make_opsetid("ai.onnx.preview.training", 1),
            onnx.helper.make_opsetid("", 18),
        ],
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "ai.onnx.preview.training::Adam (node 'step', opset 1); operators of ai.onnx.preview.training train models, and models are only run",
    )
    assert "it trains models, which is not supported" in tc.check(model)[0]
