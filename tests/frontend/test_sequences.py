"""Sequences and optionals: resolved while importing, a version for each form of inputs, lists and
None in Python."""

import json
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc

from .test_errors import refusal

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def tensor(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence(name, dtype=FLOAT):
    return helper.make_tensor_sequence_value_info(name, dtype, None)


def optional(name, inner):
    return helper.make_value_info(name, helper.make_optional_type_proto(inner))


def optional_sequence(name):
    return optional(
        name, helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    )


def model_of(nodes, inputs, outputs, initializers=(), opset=18, functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + [
        helper.make_opsetid(domain, 1) for domain in {f.domain for f in functions}
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=list(functions))


def number(name, value, dtype=INT64):
    return helper.make_tensor(name, dtype, [], [value])


node = helper.make_node


def arrays(*shapes):
    return [
        np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + index
        for index, shape in enumerate(shapes)
    ]


def same(found, expected):
    assert isinstance(found, list) and len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def joined():
    """The tensors of a sequence behind each other, and how many there are."""
    return model_of(
        [
            node("ConcatFromSequence", ["x"], ["y"], "join", axis=0),
            node("SequenceLength", ["x"], ["n"], "count"),
        ],
        [sequence("x")],
        [tensor("y"), tensor("n", INT64, [])],
    )


def reversed_with(position="last"):
    """A sequence without its last element, which is put in front."""
    nodes = [
        node("SequenceAt", ["x", "last"], ["end"], "end"),
        node("SequenceErase", ["x", "last"], ["rest"], "rest"),
        node("Neg", ["end"], ["negated"], "neg"),
        node("SequenceInsert", ["rest", "negated", position], ["y"], "insert"),
    ]
    return model_of(
        nodes,
        [sequence("x")],
        [sequence("y")],
        [number("last", -1), number("first", 0), number("far", 9)],
    )


def test_a_version_for_each_form():
    module = tc.compile(joined())
    assert module.deciding_inputs == ("x",)
    assert module.inputs == (tc.Port("x", "float32", None, "sequence"),)
    for shapes in [[(2, 3), (4, 3)], [(1, 2)], [(2, 3), (4, 3)]]:
        given = arrays(*shapes)
        y, n = module(given)
        np.testing.assert_array_equal(y, np.concatenate(given))
        assert n == len(given)
    text = module.explain()
    assert "input  x: sequence of float32" in text
    assert "x = 2 tensors: (2, 3), (4, 3) (last run)" in text and "x = 1 tensors: (1, 2)\n" in text
    same_tuple = module.run({"x": tuple(arrays((1, 2)))})
    np.testing.assert_array_equal(same_tuple["y"], arrays((1, 2))[0])


def test_operators_act_on_positions():
    given = arrays((2,), (3,), (1, 2))
    same(tc.compile(reversed_with("first"))(given), [-given[2], given[0], given[1]])
    # Before the last one, as lists have it.
    same(tc.compile(reversed_with("last"))(given), [given[0], -given[2], given[1]])


def test_a_graph_whose_outputs_are_sequences_of_tensors():
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["parts"], "split", axis=1),
        node("SequenceAt", ["parts", "second"], ["p"], "at"),
        node("Relu", ["p"], ["positive"], "relu"),
        node("SequenceConstruct", ["positive", "positive", "x"], ["y"], "make"),
    ]
    sizes = helper.make_tensor("sizes", INT64, [2], [1, 3])
    module = tc.compile(
        model_of(
            nodes,
            [tensor("x", FLOAT, [2, 4])],
            [sequence("parts"), sequence("y")],
            [sizes, number("second", 1)],
        )
    )
    assert module.outputs == (
        tc.Port("parts", "float32", None, "sequence"),
        tc.Port("y", "float32", None, "sequence"),
    )
    x = np.arange(8, dtype=np.float32).reshape(2, 4) - 4
    parts, y = module(x)
    same(parts, [x[:, :1], x[:, 1:]])
    same(y, [np.maximum(x[:, 1:], 0)] * 2 + [x])


def test_many_parts():
    x = np.arange(100, dtype=np.float32)
    found = tc.compile(
        model_of(
            [node("SplitToSequence", ["x"], ["y"])], [tensor("x", FLOAT, [100])], [sequence("y")]
        )
    )(x)
    same(found, [x[i : i + 1] for i in range(100)])


@pytest.mark.parametrize("split, sizes", [([], [1] * 6), ([4], [4, 2])])
def test_equal_parts(split, sizes):
    initializers = [number("split", *split)] if split else []
    nodes = [node("SplitToSequence", ["x"] + ["split"] * len(split), ["y"], "split", axis=-1)]
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    found = tc.compile(
        model_of(nodes, [tensor("x", FLOAT, [2, 6])], [sequence("y")], initializers)
    )(x)
    same(found, np.split(x, np.cumsum(sizes)[:-1], 1))


def test_a_new_axis():
    given = arrays((2, 3), (2, 3))
    nodes = [node("ConcatFromSequence", ["x"], ["y"], "join", axis=-1, new_axis=1)]
    np.testing.assert_array_equal(
        tc.compile(model_of(nodes, [sequence("x")], [tensor("y")]))(given), np.stack(given, -1)
    )


def test_optionals_are_there_or_not():
    nodes = [
        node("OptionalHasElement", ["x"], ["has"], "has"),
        node(
            "If",
            ["has"],
            ["y"],
            "if",
            then_branch=helper.make_graph(
                [node("OptionalGetElement", ["x"], ["v"], "get")], "t", [], [tensor("v")]
            ),
            else_branch=helper.make_graph([node("Identity", ["z"], ["w"])], "e", [], [tensor("w")]),
        ),
    ]
    module = tc.compile(
        model_of(
            nodes,
            [optional("x", helper.make_tensor_type_proto(FLOAT, None)), tensor("z", FLOAT, [2])],
            [tensor("y"), tensor("has", BOOL, [])],
        )
    )
    x, z = arrays((3,), (2,))
    for value, expected in ((x, x), (None, z), (x, x)):
        y, has = module(value, z)
        np.testing.assert_array_equal(y, expected)
        assert has == (value is not None)
    np.testing.assert_array_equal(module.run({"z": z})["y"], z)  # what is left out is not there
    assert "x = None (last run)" in module.explain()


def test_optional_outputs():
    kind = helper.make_tensor_type_proto(FLOAT, None)
    nodes = [
        node("Optional", ["x"], ["full"], "full"),
        node("Optional", [], ["none"], "none", type=kind),
    ]
    module = tc.compile(
        model_of(nodes, [tensor("x", FLOAT, [2])], [optional("full", kind), optional("none", kind)])
    )
    full, none = module(np.ones(2, np.float32))
    np.testing.assert_array_equal(full, [1, 1])
    assert none is None
    assert [port.kind for port in module.outputs] == ["optional", "optional"]


def branches(first, second):
    """Sequences of so many tensors by a condition."""

    def branch(name, count):
        return helper.make_graph(
            [node("SequenceConstruct", ["x"] * count, [name], name)], name, [], [sequence(name)]
        )

    return model_of(
        [
            node(
                "If",
                ["c"],
                ["y"],
                "if",
                then_branch=branch("then", first),
                else_branch=branch("else", second),
            )
        ],
        [tensor("c", BOOL, []), tensor("x", FLOAT, [2])],
        [sequence("y")],
    )


def test_branches_that_give_as_many_are_compiled_once():
    module = tc.compile(branches(2, 2))
    assert not hasattr(module, "deciding_inputs")
    x = np.ones(2, np.float32)
    same(module(True, x), [x, x])


def test_branches_that_give_more_or_less_are_versions():
    module = tc.compile(branches(3, 1))
    assert module.deciding_inputs == ("c",)
    x = np.ones(2, np.float32)
    same(module(True, x), [x] * 3)
    same(module(False, x), [x])


def loop(condition="more", size=2):
    """Doubles `x` and keeps each result, as often as `n` says."""
    body = helper.make_graph(
        [
            node("Add", ["v", "v"], ["w"], "double"),
            node("SequenceInsert", ["kept", "w"], ["grown"], "keep"),
            node("Identity", ["go"], ["more"]),
            node("ReduceMax", ["w"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["below"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("go", BOOL, []), tensor("v"), sequence("kept")],
        [tensor(condition, BOOL, []), tensor("w"), sequence("grown"), tensor("most")],
    )
    nodes = [
        node("SequenceEmpty", [], ["s"], "empty"),
        node("Loop", ["n", "", "x", "s"], ["last", "all", "tops"], "loop", body=body),
    ]
    return model_of(
        nodes,
        [tensor("n", INT64, []), tensor("x", FLOAT, [size])],
        [tensor("last"), sequence("all"), tensor("tops")],
        [number("limit", 100, FLOAT)],
    )


def test_loops_over_sequences():
    module = tc.compile(loop())
    x = np.array([1, 2], np.float32)
    for count in (3, 1):
        last, kept, tops = module(np.int64(count), x)
        np.testing.assert_array_equal(last, x * 2**count)
        same(kept, [x * 2 ** (i + 1) for i in range(count)])
        np.testing.assert_array_equal(tops, [2 ** (i + 2) for i in range(count)])
    refusal(
        tc.UnsupportedError,
        lambda: module(np.int64(0), x),
        "node 'loop'",
        "works on sequences and has no iteration, from which the shape of output 'tops' would follow",
    )


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


def test_sequences_in_functions_and_subgraphs():
    function = helper.make_function(
        "mine",
        "Ends",
        ["s"],
        ["ends"],
        [
            node("Constant", [], ["zero"], value_int=0),
            node("Constant", [], ["one"], value_int=-1),
            node("SequenceAt", ["s", "zero"], ["a"]),
            node("SequenceAt", ["s", "one"], ["b"]),
            node("SequenceConstruct", ["a", "b"], ["ends"]),
        ],
        [helper.make_opsetid("", 18)],
    )
    nodes = [
        node("Ends", ["x"], ["e"], "ends", domain="mine"),
        node(
            "If",
            ["c"],
            ["y"],
            "if",
            then_branch=helper.make_graph(
                [node("SequenceAt", ["e", "k"], ["p"])], "t", [], [tensor("p")]
            ),
            else_branch=helper.make_graph(
                [node("SequenceAt", ["e", "k"], ["q"]), node("Neg", ["q"], ["r"])],
                "e",
                [],
                [tensor("r")],
            ),
        ),
    ]
    module = tc.compile(
        model_of(
            nodes,
            [sequence("x"), tensor("c", BOOL, [])],
            [tensor("y")],
            [number("k", 1)],
            functions=[function],
        )
    )
    given = arrays((2,), (4,), (3,))
    np.testing.assert_array_equal(module(given, True), given[2])
    np.testing.assert_array_equal(module(given, False), -given[2])


def test_a_map_of_sequences():
    body = helper.make_graph(
        [node("Mul", ["a", "b"], ["c"]), node("Shape", ["c"], ["d"])],
        "b",
        [tensor("a"), tensor("b")],
        [tensor("c"), tensor("d", INT64)],
    )
    module = tc.compile(
        model_of(
            [node("SequenceMap", ["x", "t"], ["y", "s"], "map", body=body)],
            [sequence("x"), tensor("t", FLOAT, [1])],
            [sequence("y"), sequence("s", INT64)],
        )
    )
    given = arrays((2, 3), (4,))
    y, shapes = module(given, np.full(1, 3, np.float32))
    same(y, [3 * each for each in given])
    same(shapes, [np.array([2, 3]), np.array([4])])


def test_an_artefact_has_tensors(tmp_path):
    model = reversed_with("first")
    text = refusal(tc.UnsupportedError, lambda: tc.compile(model).export(tmp_path / "a.so"))
    assert text == (
        "model 'g' has another structure for other values of 'x', and an artefact has one: compile it with "
        "tc.compile(..., shapes={'x': ...})"
    )
    given = arrays((2, 3), (2, 3), (4,))
    module = tc.compile(model, shapes={"x": [(2, 3), (None, 3), (4,)]})
    same(module(given), [-given[2], given[0], given[1]])
    module.save(tmp_path / "a.so")
    loaded = tc.load(tmp_path / "a.so")
    assert [port.name for port in loaded.inputs] == ["x[0]", "x[1]", "x[2]"]
    assert [port.name for port in loaded.outputs] == ["y[0]", "y[1]", "y[2]"]
    same(list(loaded(*given)), [-given[2], given[0], given[1]])
    refusal(
        tc.ShapeError,
        lambda: module(given[:2]),
        "input 'x' of model",
        "has 2 tensors, but it was compiled for 3; compile it without shapes={'x': ...}",
    )
    refusal(tc.ShapeError, lambda: module([given[0], given[1], given[1]]), "x[2]")


def test_the_form_of_an_optional_while_compiling():
    kind = helper.make_tensor_type_proto(FLOAT, None)
    model = model_of(
        [
            node("OptionalHasElement", ["x"], ["y"], "has"),
            node("OptionalHasElement", ["s"], ["z"], "had"),
        ],
        [optional("x", kind), optional_sequence("s")],
        [tensor("y", BOOL, []), tensor("z", BOOL, [])],
    )
    y, z = tc.compile(model, shapes={"x": (2, 3), "s": None})(np.ones((2, 3), np.float32), None)
    assert y and not z
    y, z = tc.compile(model, shapes={"x": None, "s": []})(None, [])
    assert not y and z
    refusal(
        tc.ShapeError,
        lambda: tc.compile(model, shapes={"x": [(2,), (3,)], "s": None}),
        "input 'x' of model.onnx",
        "is one tensor or none, but is given the shapes of 2",
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


def one(op, inputs, outputs=("y",), initializers=(), opset=18, **attributes):
    """A model of one node over the sequence `x`, the optional `o` and the tensor `t` of unknown
    size."""
    ports = [
        sequence("x"),
        optional("o", helper.make_tensor_type_proto(FLOAT, None)),
        tensor("t", FLOAT, ["N"]),
        tensor("f", FLOAT, []),
    ]
    given = [port for port in ports if port.name in inputs] or [ports[0]]
    return model_of(
        [node(op, inputs, list(outputs), "node", **attributes)],
        given,
        [tensor(name) for name in outputs],
        initializers,
        opset,
    )


FORMS = {"x": [(2,), (2,)]}
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


def test_the_command_line_has_tensors(tmp_path):
    """As artefacts do."""
    onnx.save(reversed_with("first"), tmp_path / "m.onnx")
    given, command = (
        arrays((2, 3), (4,)),
        ["run", str(tmp_path / "m.onnx"), "--output-dir", str(tmp_path), "--json"],
    )
    for index, each in enumerate(given):
        np.save(tmp_path / f"{index}.npy", each)
        command += ["--input", f"x[{index}]={tmp_path / str(index)}.npy"]
    done = run_command(*command, "--shape", "x=2,3;4")
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in json.loads(done.stdout)["outputs"]] == ["y[0]", "y[1]"]
    text = run_command(*command).stderr
    assert (
        "input 'x' of model 'm.onnx' is no tensor (sequence); say what it has with --shape 'x=2,3;4,3' (the shapes of its tensors) or x=none"
    ) in text
    onnx.save(loop(), tmp_path / "b.onnx")
    text = run_command("run", str(tmp_path / "b.onnx"), "--random").stderr
    assert (
        "output 'all' of model 'b.onnx' is no tensor (sequence), and what it has depends on n; give their values with --value NAME=NUMBERS"
        in text
    )
    done = run_command("run", str(tmp_path / "b.onnx"), "--random", "--value", "n=2", "--json")
    assert [row["name"] for row in json.loads(done.stdout)["outputs"]] == [
        "last",
        "all[0]",
        "all[1]",
        "tops",
    ]


def run_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tc", *arguments], capture_output=True, text=True, check=False
    )


def test_branches_of_different_kinds():
    model = branches(1, 1)
    attribute = next(a for a in model.graph.node[0].attribute if a.name == "else_branch")
    attribute.g.CopyFrom(
        helper.make_graph([node("Identity", ["x"], ["e"])], "e", [], [tensor("e")])
    )
    refusal(
        tc.ModelError,
        lambda: tc.compile(model),
        "node 'if'",
        "gives as output 0 the sequence 'then' in one branch and the tensor 'e' in the other",
    )


def test_a_position_that_a_run_computes():
    nodes = [
        node("ReduceMax", ["t"], ["m"], keepdims=0),
        node("Cast", ["m"], ["k"], to=INT64),
        node("SequenceAt", ["x", "k"], ["y"], "at"),
    ]
    model = model_of(nodes, [sequence("x"), tensor("t", FLOAT, [2000])], [tensor("y")])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model, shapes=FORMS),
        "node 'at' (SequenceAt, opset 18) of model.onnx: position 'k' depends on data",
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


def test_threads_share_the_versions():
    module, wrong = tc.compile(joined()), []

    def work(count):
        given = arrays(*[(2, 2)] * count)
        for _ in range(5):
            if not np.array_equal(module(given)[0], np.concatenate(given)):
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(index % 3 + 1,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for folder in tmp_path / "a", tmp_path / "b":
        folder.mkdir()
        tc.compile(joined(), shapes={"x": [(2, 3), (4, 3)]}).save(folder / "model.so")
    assert (tmp_path / "a/model.so").read_bytes() == (tmp_path / "b/model.so").read_bytes()


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
