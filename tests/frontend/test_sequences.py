"""Sequences and optionals: resolved while importing, a version for each form of inputs, lists and
None in Python."""

import json
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import helper

import tc

from .sequence_models import (
    BOOL,
    FLOAT,
    FORMS,
    INT64,
    arrays,
    joined,
    loop,
    model_of,
    node,
    number,
    optional,
    sequence,
    tensor,
)
from .test_errors import refusal


def optional_sequence(name):
    return optional(
        name, helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    )


def same(found, expected):
    assert isinstance(found, list) and len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


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
