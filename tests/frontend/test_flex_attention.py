"""FlexAttention of the preview domain, whose subgraphs change scores and probabilities; against
NumPy in float64."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import worst_error

RANDOM = np.random.default_rng(6)
BATCH, HEADS, QUERIES, KEYS, SIZE, VALUE = 2, 4, 3, 5, 8, 6


def drawn(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


Q = drawn(BATCH, HEADS, QUERIES, SIZE)
SHIFT = drawn(HEADS, 1, 1)  # captured from around the subgraph


def keys_and_values(heads):
    return drawn(BATCH, heads, KEYS, SIZE), drawn(BATCH, heads, KEYS, VALUE)


def subgraph(nodes, constants=(), kind=TensorProto.FLOAT):
    """A graph from `a` to `b`."""
    port = [helper.make_tensor_value_info(name, kind, ["B", "H", "L", "S"]) for name in "ab"]
    return helper.make_graph(
        nodes,
        "change",
        port[:1],
        port[1:],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants],
    )


def relative_places():
    """b = a + (query - key), and -inf where a key lies behind its query."""

    def number(name, value):
        return name, np.array(value, np.int64)

    nodes = [
        helper.make_node("Shape", ["a"], ["shape"]),
        helper.make_node("Gather", ["shape", "two"], ["l"]),
        helper.make_node("Gather", ["shape", "three"], ["s"]),
        helper.make_node("Range", ["zero", "l", "one"], ["rows"]),
        helper.make_node("Range", ["zero", "s", "one"], ["columns"]),
        helper.make_node("Unsqueeze", ["rows", "last"], ["column"]),
        helper.make_node("Sub", ["column", "columns"], ["apart"]),
        helper.make_node("Cast", ["apart"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["a", "wide"], ["sum"]),
        helper.make_node("GreaterOrEqual", ["apart", "zero"], ["seen"]),
        helper.make_node("Where", ["seen", "sum", "none"], ["b"]),
    ]
    return subgraph(
        nodes,
        [
            number("two", 2),
            number("three", 3),
            number("zero", 0),
            number("one", 1),
            number("last", [1]),
            ("none", np.float32(-np.inf)),
        ],
    )


def apart(scores):
    places = np.arange(QUERIES)[:, None] - np.arange(KEYS)
    return np.where(places >= 0, scores + places, -np.inf)


CASES = {
    "plain": (4, {}, None, None),
    "shared heads": (2, {}, None, None),
    "scale": (1, {"scale": 0.3}, None, None),
    "scores": (4, {}, (subgraph([helper.make_node("Tanh", ["a"], ["b"])]), np.tanh), None),
    "scores by place": (2, {}, (relative_places(), apart), None),
    "scores with what is around": (
        4,
        {},
        (subgraph([helper.make_node("Add", ["a", "shift"], ["b"])]), lambda scores: scores + SHIFT),
        None,
    ),
    "probabilities": (
        4,
        {},
        None,
        (
            subgraph([helper.make_node("Mul", ["a", "k"], ["b"])], [("k", np.float32(0.5))]),
            lambda weights: weights * 0.5,
        ),
    ),
    "both": (
        2,
        {},
        (subgraph([helper.make_node("Neg", ["a"], ["b"])]), np.negative),
        (subgraph([helper.make_node("Sqrt", ["a"], ["b"])]), np.sqrt),
    ),
}


def model(key, value, attributes, sizes=None, kind=TensorProto.FLOAT):
    shapes = sizes or {"q": Q.shape, "k": key.shape, "v": value.shape}
    inputs = [helper.make_tensor_value_info(name, kind, shapes[name]) for name in "qkv"]
    node = helper.make_node(
        "FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **attributes
    )
    graph = helper.make_graph(
        [node],
        "attention",
        inputs,
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(SHIFT, "shift")],
    )
    imports = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
    return helper.make_model(graph, ir_version=11, opset_imports=imports).SerializeToString()


def expected(key, value, scale, scores_change, weights_change):
    key, value = (
        np.repeat(array.astype(np.float64), HEADS // array.shape[1], 1) for array in (key, value)
    )
    scores = scores_change(Q.astype(np.float64) @ key.swapaxes(-1, -2) * scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights_change(weights / weights.sum(-1, keepdims=True)) @ value


@pytest.mark.parametrize("name", CASES)
def test_subgraphs(name):
    heads, attributes, scores, weights = CASES[name]
    key, value = keys_and_values(heads)
    graphs = {
        which: given[0] for which, given in (("score_mod", scores), ("prob_mod", weights)) if given
    }
    wanted = expected(
        key,
        value,
        attributes.get("scale", SIZE**-0.5),
        *(given[1] if given else lambda each: each for given in (scores, weights)),
    )
    sizes = {
        "q": [BATCH, HEADS, "s", SIZE],
        "k": [BATCH, heads, "t", SIZE],
        "v": [BATCH, heads, "t", VALUE],
    }
    for open_sizes in (None, sizes):
        found = tc.compile(model(key, value, {**attributes, **graphs}, open_sizes), log=False).run(
            {"q": Q, "k": key, "v": value}
        )["y"]
        assert worst_error(found, wanted) < 2e-6


def test_halves_are_computed_in_floats():
    key, value = (array.astype(np.float16) for array in keys_and_values(4))
    half = Q.astype(np.float16)
    found = tc.compile(model(key, value, {}, kind=TensorProto.FLOAT16), log=False).run(
        {"q": half, "k": key, "v": value}
    )["y"]
    scores = half.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2) * SIZE**-0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert (
        found.dtype == np.float16
        and worst_error(found, weights / weights.sum(-1, keepdims=True) @ value.astype(np.float64))
        < 1e-3
    )


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (
            {"score_mod": subgraph([helper.make_node("ReduceSum", ["a"], ["b"])])},
            tc.ShapeError,
            "subgraph 'score_mod' makes f32.*the same type and shape are needed",
        ),
        (
            {"prob_mod": subgraph([helper.make_node("Cast", ["a"], ["b"], to=TensorProto.DOUBLE)])},
            tc.ShapeError,
            "subgraph 'prob_mod' makes f64",
        ),
        (
            {"softmax_precision": TensorProto.INT32},
            tc.ShapeError,
            "softmax_precision is i32; a float type of 16 bits or more is needed",
        ),
        (
            {"score_mod": helper.make_graph([], "none", [], [])},
            tc.ModelError,
            "subgraph 'score_mod' has 0 inputs and 0 outputs; one of each is needed",
        ),
    ],
)
def test_refusals(change, kind, message):
    key, value = keys_and_values(4)
    with pytest.raises(kind, match=message):
        tc.compile(model(key, value, change), log=False)


@pytest.mark.parametrize(
    "sizes, message",
    [
        (
            {"q": Q.shape, "k": (BATCH, 3, KEYS, SIZE), "v": (BATCH, 3, KEYS, VALUE)},
            "; [batch, heads, queries, size], [batch, fewer heads, keys, size] and [batch, fewer heads, keys, any size] are needed",
        ),
        (
            {"q": Q.shape, "k": (BATCH, KEYS, SIZE), "v": (BATCH, HEADS, KEYS, VALUE)},
            "input 1 is f32[2, 5, 8]; floats of one type and rank 4 are needed",
        ),
    ],
)
def test_shapes_that_do_not_fit(sizes, message):
    with pytest.raises(tc.ShapeError) as caught:
        tc.compile(model(*keys_and_values(4), {}, sizes), log=False)
    assert message in str(caught.value)


def test_operands_that_are_missing():
    made = onnx.load_from_string(model(*keys_and_values(4), {}))
    del made.graph.node[0].input[2]
    with pytest.raises(
        tc.ModelError, match="has 2 inputs and 1 outputs; Q, K and V, and one output are needed"
    ):
        tc.compile(made.SerializeToString(), log=False)
