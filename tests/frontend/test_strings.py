"""Strings: operators on them run on the host, before and after what is compiled."""

import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc

from .string_models import BOOL, FLOAT, INT64, LEARNING, STRING, model_of, node, one, port
from .test_errors import refusal


def texts(*rows):
    return np.array(rows, object)


def test_what_is_compiled_stands_between_strings():
    """Labels become numbers, rows of a table, a class and its name."""
    nodes = [
        node("StringNormalizer", ["x"], ["lower"], "lower", case_change_action="LOWER"),
        node(
            "LabelEncoder",
            ["lower"],
            ["ids"],
            "ids",
            domain=LEARNING,
            keys_strings=["a", "b", "c"],
            values_int64s=[0, 1, 2],
            default_int64=0,
        ),
        node("Gather", ["table", "ids"], ["rows"], "rows"),
        node("MatMul", ["rows", "w"], ["scores"], "scores"),
        node("ArgMax", ["scores"], ["best"], "best", axis=1, keepdims=0),
        node(
            "LabelEncoder",
            ["best"],
            ["names"],
            "names",
            domain=LEARNING,
            keys_int64s=[0, 1],
            values_strings=["no", "yes"],
        ),
        node("StringConcat", ["names", "mark"], ["marked"], "mark"),
    ]
    random = np.random.default_rng(3)
    table, w = (
        random.standard_normal((3, 4)).astype(np.float32),
        random.standard_normal((4, 2)).astype(np.float32),
    )
    initializers = [
        onnx.numpy_helper.from_array(table, "table"),
        onnx.numpy_helper.from_array(w, "w"),
        helper.make_tensor("mark", STRING, [], [b"!"]),
    ]
    module = tc.compile(
        model_of(
            nodes, [port("x")], [port("marked"), port("scores", FLOAT, ["N", 2])], initializers
        )
    )
    assert module.inputs == (tc.Port("x", "string", ("N",)),)
    assert [(p.name, p.dtype) for p in module.outputs] == [
        ("marked", "string"),
        ("scores", "float32"),
    ]
    for given in (["A", "c", "B"], ["b"]):
        marked, scores = module(given)
        expected = table[["abc".index(each.lower()) for each in given]] @ w
        np.testing.assert_allclose(scores, expected, rtol=1e-5)
        assert marked.dtype == object
        assert marked.tolist() == [("no!", "yes!")[i] for i in expected.argmax(1)]
    text = module.explain()
    assert (
        "on the host, before what is compiled: node 'ids' (ai.onnx.ml::LabelEncoder, opset 4) of model.onnx"
        in text
    )
    assert "on the host, after what is compiled: node 'mark' (StringConcat, opset 20)" in text
    assert module.run({"x": ["b"]})["marked"].shape == (1,)
    assert module.kernels and module.memory.constants > 0


def test_arrays_of_strings_that_numpy_has():
    module = one("StringConcat", ("x", "z"))
    for given in (
        ["ab", "c"],
        ("ab", "c"),
        np.array(["ab", "c"]),
        texts("ab", "c"),
        np.array(["ab", "c"], np.dtypes.StringDType()),
    ):
        assert module(given, "é").tolist() == ["abé", "cé"]
    assert module(np.array("a"), np.array("b")).shape == () and module("a", "b").item() == "ab"
    for wrong in (np.ones(2), [1, 2], np.array([b"a"]), texts("a", None)):
        refusal(
            tc.ShapeError,
            lambda: module(wrong, "a"),
            "input 'x' of model 'g' is ",
            "pass an array of Python's strings",
        )


def test_constants_are_folded():
    nodes = [
        node("StringConcat", ["a", "b"], ["c"], "join"),
        node("StringConcat", ["x", "c"], ["y"], "add"),
        node("Constant", [], ["b"], value_strings=["1", "2"]),
    ]
    nodes = [nodes[2]] + nodes[:2]
    module = tc.compile(
        model_of(
            nodes,
            [port("x")],
            [port("y"), port("c")],
            [helper.make_tensor("a", STRING, [], [b"n"])],
        )
    )
    assert "join" not in module.explain() and "add" in module.explain()
    y, c = module(["x"])
    assert y.tolist() == ["xn1", "xn2"] and c.tolist() == ["n1", "n2"]
    nodes = [
        node("Constant", [], ["s"], value_string="7"),
        node("Cast", ["s"], ["number"], "number", to=FLOAT),
        node("Mul", ["t", "number"], ["y"], "mul"),
    ]
    np.testing.assert_array_equal(
        tc.compile(model_of(nodes, [port("t", FLOAT, [2])], [port("y", FLOAT, [2])]))(
            np.ones(2, np.float32)
        ),
        [7, 7],
    )


@pytest.mark.parametrize(
    "attributes, given, parts, counts",
    [
        ({"delimiter": "."}, ["a.b", "c..d."], [["a", "b", "", ""], ["c", "", "d", ""]], [2, 4]),
        ({}, [" a  b ", "", "c"], [["a", "b"], ["", ""], ["c", ""]], [2, 0, 1]),
        ({"delimiter": ",", "maxsplit": 1}, ["a,b,c"], [["a", "b,c"]], [2]),
    ],
)
def test_splitting(attributes, given, parts, counts):
    y, n = one("StringSplit", ("x",), ("y", "n"), **attributes)(given)
    assert y.tolist() == parts and n.tolist() == counts and n.dtype == np.int64


def test_normalizing():
    words = dict(stopwords=["Monday"], case_change_action="UPPER")
    assert one("StringNormalizer", **words)(["monday", "MONDAY", "Straße"]).tolist() == ["STRASSE"]
    assert one("StringNormalizer", is_case_sensitive=1, **words)(["monday", "Monday"]).tolist() == [
        "MONDAY"
    ]
    assert one("StringNormalizer", **words)([["monday"]]).tolist() == [[""]]
    refusal(
        tc.ShapeError,
        lambda: one("StringNormalizer")([["a"], ["b"]]),
        "node 'node'",
        "takes strings of shape [C] or [1, C], not [2, 1]",
    )
    refusal(
        tc.UnsupportedError,
        lambda: one("StringNormalizer", case_change_action="TITLE")(["a"]),
        "attribute 'case_change_action' is 'TITLE'; known are NONE, LOWER, UPPER",
    )


def test_regular_expressions():
    module = one(
        "RegexFullMatch", dtype=BOOL, pattern=r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)"
    )
    assert module(["a@gmail.com", "a@gmail.org", ""]).tolist() == [True, False, False]
    assert one("RegexFullMatch", dtype=BOOL, pattern=r"\p{Lu}.*")(["Ä.", "ä"]).tolist() == [
        True,
        False,
    ]
    refusal(
        tc.ModelError,
        lambda: one("RegexFullMatch", dtype=BOOL, pattern="(a")(["a"]),
        "node 'node' (RegexFullMatch, opset 20)",
        "attribute 'pattern' is no regular expression of RE2: missing ): (a",
    )
    refusal(
        tc.ModelError, lambda: one("RegexFullMatch", dtype=BOOL)(["a"]), "lacks attribute 'pattern'"
    )
    refusal(
        tc.UnsupportedError,
        lambda: one("RegexFullMatch", dtype=BOOL, pattern="a" * 70000)(["a"]),
        "has a pattern of 70000 characters; at most 65536 are supported",
    )


def test_hostile_patterns_do_not_hang():
    begin = time.monotonic()
    for pattern in ("(a+)+b", "(a|aa)+$b", "((a*)*)*b", "(?:a?){200}a{200}b"):
        assert not one("RegexFullMatch", dtype=BOOL, pattern=pattern)(["a" * 20000 + "c"]).any()
    assert time.monotonic() - begin < 20
    refusal(
        tc.ModelError,
        lambda: one("RegexFullMatch", dtype=BOOL, pattern="((((a{1000}){1000}){1000}){1000})")(
            ["a"]
        ),
        "no regular expression of RE2",
    )


def test_without_the_package_of_regular_expressions(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    refusal(
        tc.UnsupportedError,
        lambda: one("RegexFullMatch", dtype=BOOL, pattern="only here")(["a"]),
        "needs the regular expressions of the package google-re2, which take linear time for any pattern: pip install "
        "'tc-compiler[strings]'",
    )


def test_equality():
    nodes = [
        node("Equal", ["x", "z"], ["same"], "same"),
        node("Where", ["same", "x", "z"], ["y"], "pick"),
    ]
    module = tc.compile(
        model_of(
            nodes,
            [port("x", shape=None), port("z", shape=None)],
            [port("same", BOOL, None), port("y", shape=None)],
        )
    )
    same, y = module([["a", "b"], ["c", "a"]], ["a", "b"])
    assert (
        same.dtype == bool
        and same.tolist() == [[True, True], [False, False]]
        and y.tolist() == [["a", "b"], ["a", "b"]]
    )
    refusal(
        tc.ShapeError,
        lambda: module(["a", "b"], ["a", "b", "c"]),
        "node 'same' (Equal, opset 20) of model.onnx cannot take inputs of object [2], object [3]",
    )


def test_label_encoders():
    tensor = helper.make_tensor
    encoder = one(
        "LabelEncoder",
        domain=LEARNING,
        dtype=TensorProto.INT16,
        keys_strings=["a", "b", "a"],
        values_tensor=tensor("v", TensorProto.INT16, [3], [1, 2, 3]),
        default_tensor=tensor("d", TensorProto.INT16, [1], [9]),
    )
    found = encoder([["a", "b", "?"]])
    assert found.tolist() == [[3, 2, 9]] and found.dtype == np.int16
    assert one("LabelEncoder", domain=LEARNING, keys_strings=["a"], values_strings=["b"])(
        ["a", "c"]
    ).tolist() == ["b", "_Unused"]
    assert one(
        "LabelEncoder",
        domain=LEARNING,
        keys_tensor=tensor("k", STRING, [1], [b"a"]),
        values_floats=[0.5],
        dtype=FLOAT,
    )(["a", "b"]).tolist() == [0.5, 0]
    module = tc.compile(
        model_of(
            [
                node(
                    "LabelEncoder",
                    ["t"],
                    ["y"],
                    "node",
                    domain=LEARNING,
                    keys_floats=[1.0, float("nan")],
                    values_strings=["one", "none"],
                )
            ],
            [port("t", FLOAT, ["N"])],
            [port("y")],
        )
    )
    assert module(np.array([np.nan, 1, 2], np.float32)).tolist() == ["none", "one", "_Unused"]
    refusal(
        tc.ModelError,
        lambda: one("LabelEncoder", domain=LEARNING, keys_strings=["a"], values_int64s=[1, 2])(
            ["a"]
        ),
        "node 'node' (ai.onnx.ml::LabelEncoder, opset 4) of model.onnx has 1 keys and 2 values; each key needs one value",
    )
    refusal(
        tc.ModelError,
        lambda: one("LabelEncoder", domain=LEARNING, keys_int64s=[1], values_strings=["a"])(["a"]),
        "has numbers as keys and takes strings",
    )
    refusal(
        tc.ModelError,
        lambda: one("LabelEncoder", domain=LEARNING, keys_strings=["a"])(["a"]),
        "lacks attribute 'values_strings'",
    )


def test_one_hot_encoders():
    module = one("OneHotEncoder", domain=LEARNING, dtype=FLOAT, cats_strings=["a", "b"])
    assert module([["a"], ["c"]]).tolist() == [[[1, 0]], [[0, 0]]]
    refusal(
        tc.ShapeError,
        lambda: one("OneHotEncoder", domain=LEARNING, dtype=FLOAT, cats_strings=["a"], zeros=0)(
            ["c"]
        ),
        "has no category 'c'",
    )


def test_numbers_and_texts():
    assert one("Cast", dtype=FLOAT, to=FLOAT)(["1.5", "1e-5", "-INF", "nan"]).tolist()[:3] == [
        1.5,
        np.float32(1e-5),
        -np.inf,
    ]
    assert one("Cast", dtype=INT64, to=INT64)(["12", "100.5", str(2**62 + 1)]).tolist() == [
        12,
        100,
        2**62 + 1,
    ]
    for wrong in ("Hello", "1_0", ""):
        refusal(
            tc.ShapeError,
            lambda: one("Cast", dtype=FLOAT, to=FLOAT)([wrong]),
            f"takes '{wrong}', which is no number of type float32",
        )
    refusal(
        tc.ShapeError,
        lambda: one("Cast", dtype=TensorProto.INT8, to=TensorProto.INT8)(["300"]),
        "takes a number that int8 has not",
    )
    module = tc.compile(
        model_of([node("Cast", ["t"], ["y"], to=STRING)], [port("t", FLOAT, ["N"])], [port("y")])
    )
    assert module(np.array([0.1, 2, -np.inf, np.nan], np.float32)).tolist() == [
        "0.1",
        "2",
        "-INF",
        "NaN",
    ]
    refusal(
        tc.UnsupportedError,
        lambda: one("Cast", dtype=TensorProto.BFLOAT16, to=TensorProto.BFLOAT16),
        "turns strings into bfloat16, which is not supported",
    )


def test_strings_that_are_moved():
    x = texts(["a", "b"], ["c", "d"])
    integers = [helper.make_tensor("k", INT64, [1], [1])]
    assert one("Reshape", ("x", "k"), initializers=[helper.make_tensor("k", INT64, [2], [-1, 1])])(
        x
    ).shape == (4, 1)
    assert one("Concat", ("x", "z"), axis=1)(x, x).shape == (2, 4)
    assert one("Gather", ("x", "k"), initializers=integers)(x).tolist() == [["c", "d"]]
    assert one("Transpose", perm=[1, 0])(x).tolist() == [["a", "c"], ["b", "d"]]
    assert one("Flatten")(x[None]).shape == (1, 4)
    assert one("Unsqueeze", ("x", "k"), initializers=integers)(x).shape == (2, 1, 2)
    assert one("Squeeze")(x[None]).shape == (2, 2)
    assert one("Identity")(x) is not None
    assert (
        one("Shape", dtype=INT64)(x).tolist() == [2, 2] and one("Size", dtype=INT64)(x).item() == 4
    )


def test_strings_in_functions():
    function = helper.make_function(
        "mine",
        "F",
        [],
        ["c"],
        [node("Constant", [], ["c"], "text", value_string="a")],
        [helper.make_opsetid("", 20)],
    )
    graph = helper.make_graph(
        [node("F", [], ["s"], domain="mine"), node("Identity", ["t"], ["y"])],
        "g",
        [port("t", FLOAT, [1])],
        [port("y", FLOAT, [1])],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)],
        functions=[function],
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model),
        "node 'text' (Constant, opset 20) of model.onnx: a constant of strings is not supported",
    )


def test_nothing_in_what_is_compiled_depends_on_the_strings():
    """A version for each value of an input that decides, beside strings."""
    nodes = [
        node("ReduceSum", ["t", "axes"], ["sums"], "sum", keepdims=0),
        node("Cast", ["sums"], ["y"], to=STRING),
    ]
    module = tc.compile(
        model_of(
            nodes, [port("t", FLOAT, [2, 3]), port("axes", INT64, [1])], [port("y", shape=None)]
        )
    )
    t = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert module(t, np.array([0])).tolist() == ["3", "5", "7"]
    assert module(t, np.array([1])).tolist() == ["3", "12"]
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(
            model_of(
                nodes, [port("t", FLOAT, [2, 3]), port("axes", INT64, [1])], [port("y", shape=None)]
            ),
            values={"axes": [0]},
        ),
        "model.onnx works on strings, and values= is not supported for such models; make the inputs constants of the file: axes",
    )
