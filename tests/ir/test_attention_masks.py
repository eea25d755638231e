"""What comes between the products of Attention: softcap, masks, windows and the scores as an
output; against NumPy in float64, by the corrected text of the standard, in which the softcap comes
before the mask at every version."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc

from ..support import worst_error

RANDOM = np.random.default_rng(8)
BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 2, 4, 7, 8
Q, K, V = (
    RANDOM.standard_normal((BATCH, HEADS, n, SIZE)).astype(np.float32)
    for n in (QUERIES, KEYS, KEYS)
)
PAST = [RANDOM.standard_normal((BATCH, HEADS, 3, SIZE)).astype(np.float32) for _ in range(2)]
BIAS = RANDOM.standard_normal((BATCH, 1, QUERIES, KEYS)).astype(np.float32)
HOLES = np.where(RANDOM.random((QUERIES, KEYS)) < 0.4, -np.inf, 0.5).astype(np.float32)
HOLES[2] = -np.inf  # a query that sees nothing
SEEN = RANDOM.random((BATCH, HEADS, QUERIES, KEYS)) < 0.5
LENGTHS = np.array([6, 2])  # of the second, queries stand before its first key

CASES = {
    "softcap before a mask of numbers": ({"mask": BIAS}, {"softcap": 0.7}),
    "softcap, -inf in the mask": ({"mask": HOLES}, {"softcap": 0.7}),
    "softcap, a mask of bools": ({"mask": SEEN}, {"softcap": 0.7}),
    "softcap, causal and a mask": ({"mask": BIAS}, {"softcap": 0.7, "is_causal": 1}),
    "softcap, a short mask": ({"mask": BIAS[..., :5]}, {"softcap": 0.7}),
    "softcap behind a past": ({"past": PAST}, {"softcap": 0.7, "is_causal": 1}),
    "products": ({"mask": BIAS}, {"softcap": 0.7, "qk_matmul_output_mode": 0}),
    "after the softcap": ({"mask": BIAS}, {"softcap": 0.7, "qk_matmul_output_mode": 1}),
    "after the softcap, without one": ({"mask": BIAS}, {"qk_matmul_output_mode": 1}),
    "after the mask": ({"mask": BIAS}, {"softcap": 0.7, "qk_matmul_output_mode": 2}),
    "after the softmax": ({"mask": HOLES}, {"softcap": 0.7, "qk_matmul_output_mode": 3}),
    "window": ({}, {"left_window_size": 1, "right_window_size": 2}),
    "window of the position itself": ({}, {"left_window_size": 0, "right_window_size": 0}),
    "window to the left": ({}, {"left_window_size": 2}),
    "window to the right": ({}, {"right_window_size": 1}),
    "window that is wider than all": ({}, {"left_window_size": 2**62, "right_window_size": 100}),
    "window, causal": ({}, {"left_window_size": 1, "right_window_size": 3, "is_causal": 1}),
    "window behind a past": ({"past": PAST}, {"left_window_size": 2, "right_window_size": 0}),
    "window and lengths": ({"lengths": LENGTHS}, {"left_window_size": 2, "right_window_size": 1}),
    "window, lengths, causal and a mask": (
        {"lengths": LENGTHS, "mask": SEEN},
        {"left_window_size": 3, "is_causal": 1, "softcap": 0.7},
    ),
    "window before all keys": ({"keys": 2}, {"left_window_size": 1}),
}


def expected(given, attributes, query, key, value):
    """(Y, scores as the mode asks for them)"""
    if "past" in given:
        key, value = (
            np.concatenate((past, new), 2) for past, new in zip(given["past"], (key, value))
        )
    total, lengths = key.shape[2], given.get("lengths")
    offset = given["past"][0].shape[2] if "past" in given else 0
    place = (np.arange(QUERIES) + offset)[None, None, :, None]
    if lengths is not None:
        place = place + (lengths - QUERIES)[:, None, None, None]
    keys = np.arange(total)
    seen = np.ones((BATCH, HEADS, QUERIES, total), bool)
    if lengths is not None:
        seen &= keys < lengths[:, None, None, None]
    if attributes.get("left_window_size", -1) >= 0:
        seen &= keys >= place - attributes["left_window_size"]
    if attributes.get("right_window_size", -1) >= 0:
        seen &= keys <= place + attributes["right_window_size"]
    if attributes.get("is_causal"):
        seen &= keys <= place
    scores = [query.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2) / np.sqrt(SIZE)]
    cap = attributes.get("softcap", 0)
    scores.append(np.tanh(scores[0] / cap) * cap if cap else scores[0])
    mask = given.get("mask")
    bias = np.zeros(())
    if mask is not None:
        bias = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        bias = np.concatenate(
            (bias, np.full((*bias.shape[:-1], total - bias.shape[-1]), -np.inf)), -1
        )
    scores.append(np.where(seen, scores[1] + bias, -np.inf))
    highest = scores[2].max(-1, keepdims=True)
    weights = np.exp(scores[2] - np.where(np.isinf(highest), 0, highest))
    scores.append(weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300))
    return scores[3] @ value.astype(np.float64), scores[attributes.get("qk_matmul_output_mode", 0)]


def model(inputs, attributes, opset, sizes=None):
    ports = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            sizes[name] if sizes else array.shape,
        )
        for name, array in inputs.items()
        if array is not None
    ]
    names = [name if array is not None else "" for name, array in inputs.items()]
    outputs = ["y", "", "", "scores"] if "qk_matmul_output_mode" in attributes else ["y"]
    node = helper.make_node("Attention", names, outputs, **attributes)
    graph = helper.make_graph(
        [node],
        "attention",
        ports,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name],
    )
    return helper.make_model(
        graph, ir_version=11, opset_imports=[helper.make_opsetid("", opset)]
    ).SerializeToString()


def inputs_of(given):
    keys = given.get("keys", KEYS)
    past = given.get("past", (None, None))
    inputs = {
        "q": Q,
        "k": K[:, :, :keys],
        "v": V[:, :, :keys],
        "mask": given.get("mask"),
        "past_key": past[0],
        "past_value": past[1],
        "lengths": given.get("lengths"),
    }
    while inputs[list(inputs)[-1]] is None:
        inputs.popitem()
    return inputs


def opsets_of(given, attributes):
    """The versions that have these inputs and attributes."""
    windows = any("window" in name for name in attributes)
    return [25] if windows else [24, 25] if "lengths" in given else [23, 24, 25]


@pytest.mark.parametrize("name", CASES)
def test_what_comes_between_the_products(name):
    given, attributes = CASES[name]
    inputs = inputs_of(given)
    y, scores = expected(given, attributes, inputs["q"], inputs["k"], inputs["v"])
    for opset in opsets_of(given, attributes):
        found = tc.compile(model(inputs, attributes, opset), log=False).run(
            {name: array for name, array in inputs.items() if array is not None}
        )
        assert worst_error(found["y"], y) < 2e-6
        if "scores" in found:
            np.testing.assert_allclose(found["scores"], scores, rtol=1e-5, atol=1e-6)


def test_open_sizes():
    sizes = {
        "q": ["b", 2, "s", 8],
        "k": ["b", 2, "t", 8],
        "v": ["b", 2, "t", 8],
        "mask": ["b", 1, "s", "t"],
    }
    attributes = {"softcap": 0.7, "left_window_size": 2, "right_window_size": 1}
    compiled = tc.compile(
        model({"q": Q, "k": K, "v": V, "mask": BIAS}, attributes, 25, sizes), log=False
    )
    for keys in (7, 5):
        given = {"q": Q, "k": K[:, :, :keys], "v": V[:, :, :keys], "mask": BIAS[..., :keys]}
        y, _ = expected({"mask": given["mask"]}, attributes, given["q"], given["k"], given["v"])
        assert worst_error(compiled.run(given)["y"], y) < 2e-6


def test_a_window_below_no_bound():
    with pytest.raises(
        tc.ShapeError, match=r"left_window_size is -2; -1 \(no bound\) or more is needed"
    ):
        tc.compile(model({"q": Q, "k": K, "v": V}, {"left_window_size": -2}, 25), log=False)
