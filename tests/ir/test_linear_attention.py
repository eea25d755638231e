"""LinearAttention, CausalConvWithState and SwiGLU against NumPy in float64, in one call and
continued from the state of one before."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc

from ..support import worst_error

RANDOM = np.random.default_rng(9)
BATCH, STEPS, KEY, VALUE = 2, 6, 4, 5


def drawn(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def compiled(op, inputs, outputs, opset=28, sizes=None, **attributes):
    """The module of one node; inputs that are None are left out, `sizes` are names of the first two
    axes where they are open."""

    def port(name, array):
        shape = [*sizes, *array.shape[len(sizes) :]] if sizes and array.ndim == 3 else array.shape
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), shape
        )

    names = [name if array is not None else "" for name, array in inputs.items()]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph(
        [node],
        "row",
        [port(name, array) for name, array in inputs.items() if array is not None],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    return tc.compile(
        helper.make_model(
            graph, ir_version=12, opset_imports=[helper.make_opsetid("", opset)]
        ).SerializeToString(),
        log=False,
    )


def given(inputs):
    return {name: array for name, array in inputs.items() if array is not None}


# {name: (rule, heads of queries, heads of keys, whether decay is of each key's element, elements of
# beta)}
RULES = {
    "linear": ("linear", 2, 2, False, 0),
    "linear, shared heads": ("linear", 4, 2, False, 0),
    "gated by head": ("gated", 2, 2, False, 0),
    "gated by element": ("gated", 4, 2, True, 0),
    "delta": ("delta", 2, 2, False, 2),
    "delta, one rate": ("delta", 4, 1, False, 1),
    "gated delta": ("gated_delta", 4, 2, True, 2),
    "gated delta by head, one rate": ("gated_delta", 2, 2, False, 1),
}


def operands(rule, queries, keys, by_element, rates, steps=STEPS):
    decay = (
        -abs(drawn(BATCH, steps, keys * (KEY if by_element else 1)))
        if rule.startswith("gated")
        else None
    )
    beta = abs(drawn(BATCH, steps, rates)) if rates else None
    return {
        "q": drawn(BATCH, steps, queries * KEY),
        "k": drawn(BATCH, steps, keys * KEY),
        "v": drawn(BATCH, steps, keys * VALUE),
        "past": None,
        "decay": decay,
        "beta": beta,
    }


def recurrence(inputs, queries, keys, scale=None):
    """(output, state) of each position in turn."""
    wide = {
        name: None if array is None else array.astype(np.float64) for name, array in inputs.items()
    }
    steps = wide["q"].shape[1]
    q, k, v = (
        wide[name].reshape(BATCH, steps, heads, -1)
        for name, heads in (("q", queries), ("k", keys), ("v", keys))
    )
    state = np.zeros((BATCH, keys, KEY, VALUE)) if wide["past"] is None else wide["past"]
    rows = []
    for t in range(steps):
        if wide["decay"] is not None:
            state = state * np.exp(wide["decay"][:, t].reshape(BATCH, keys, -1))[..., None]
        update = v[:, t]
        if wide["beta"] is not None:
            update = wide["beta"][:, t][..., None] * (
                update - np.einsum("bhkv,bhk->bhv", state, k[:, t])
            )
        state = state + k[:, t][..., None] * update[:, :, None, :]
        shared = np.repeat(state, queries // keys, 1)
        rows.append(np.einsum("bhk,bhkv->bhv", q[:, t], shared) * (scale or KEY**-0.5))
    return np.stack(rows, 1).reshape(BATCH, steps, -1), state


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    rule, queries, keys, by_element, rates = RULES[name]
    for steps in (STEPS, 1):
        inputs = operands(rule, queries, keys, by_element, rates, steps)
        inputs["past"] = drawn(BATCH, keys, KEY, VALUE) if steps == 1 else None
        module = compiled(
            "LinearAttention",
            inputs,
            ["y", "state"],
            update_rule=rule,
            q_num_heads=queries,
            kv_num_heads=keys,
        )
        found = module.run(given(inputs))
        y, state = recurrence(inputs, queries, keys)
        assert worst_error(found["y"], y) < 2e-6 and worst_error(found["state"], state) < 2e-6


def test_open_sizes_go_on_from_a_state():
    attributes = {"update_rule": "gated_delta", "q_num_heads": 4, "kv_num_heads": 2, "scale": 0.3}
    inputs = operands("gated_delta", 4, 2, True, 2)
    inputs["past"] = drawn(BATCH, 2, KEY, VALUE)
    module = compiled(
        "LinearAttention", inputs, ["y", "state"], sizes=("batch", "steps"), **attributes
    )
    y, state = recurrence(inputs, 4, 2, 0.3)
    past, rows = inputs["past"], []
    for first, last in ((0, 3), (3, 4), (4, STEPS)):
        part = {
            name: array if name == "past" else array[:, first:last]
            for name, array in inputs.items()
        }
        found = module.run({**part, "past": past})
        past = found["state"]
        rows.append(found["y"])
    assert worst_error(np.concatenate(rows, 1), y) < 2e-6 and worst_error(past, state) < 2e-6


@pytest.mark.parametrize(
    "change, message",
    [
        ({"decay": None}, "update_rule gated_delta needs decay"),
        ({"update_rule": "linear"}, "update_rule linear has no decay"),
        (
            {"beta": drawn(BATCH, STEPS, 3)},
            r"beta has shape \[2, 6, 3\]; \[2, 6, 2\] or \[2, 6, 1\] is needed",
        ),
        (
            {"k": drawn(BATCH, STEPS, 9)},
            r"the key has shape \[2, 6, 9\]; \[batch, positions, 2 heads \* size\] is needed",
        ),
        (
            {"v": drawn(BATCH, STEPS + 1, 10)},
            r"the value has shape \[2, 7, 10\]; \[2, 6, 10\] is needed",
        ),
        (
            {"past": drawn(BATCH, 2, VALUE, KEY)},
            r"past_state has shape \[2, 2, 5, 4\]; \[2, 2, 4, 5\] is needed",
        ),
        (
            {"q_num_heads": 3, "q": drawn(BATCH, STEPS, 12)},
            "3 heads of queries do not share 2 heads of keys evenly",
        ),
    ],
)
def test_refusals(change, message):
    attributes = {
        "update_rule": "gated_delta",
        "q_num_heads": 4,
        "kv_num_heads": 2,
        **{name: value for name, value in change.items() if not hasattr(value, "shape")},
    }
    attributes.pop("decay", None)
    inputs = {
        **operands("gated_delta", 4, 2, True, 2),
        **{
            name: value
            for name, value in change.items()
            if value is None or hasattr(value, "shape")
        },
    }
    with pytest.raises(tc.ShapeError, match=message):
        compiled("LinearAttention", inputs, ["y", "state"], **attributes)


def convolution(x, weight, bias=None, past=None, activation="none"):
    """(output, state)"""
    taps = weight.shape[2]
    padded = np.concatenate(
        (np.zeros((*x.shape[:2], taps - 1)) if past is None else past, x), 2
    ).astype(np.float64)
    y = sum(padded[:, :, i : i + x.shape[2]] * weight[:, 0, i][:, None] for i in range(taps)) + (
        0 if bias is None else bias[:, None]
    )
    return (y if activation == "none" else y / (1 + np.exp(-y))), padded[
        :, :, padded.shape[2] - taps + 1 :
    ]


@pytest.mark.parametrize(
    "length, taps, bias, past, activation",
    [
        (7, 4, True, True, "silu"),
        (7, 4, False, False, "none"),
        (1, 4, True, True, "swish"),
        (2, 4, False, False, "none"),
        (2, 5, True, True, "none"),
        (5, 1, True, False, "silu"),
    ],
)
def test_causal_convolution(length, taps, bias, past, activation):
    inputs = {
        "x": drawn(BATCH, 3, length),
        "weight": drawn(3, 1, taps),
        "bias": drawn(3) if bias else None,
        "past": drawn(BATCH, 3, taps - 1) if past else None,
    }
    found = compiled("CausalConvWithState", inputs, ["y", "state"], activation=activation).run(
        given(inputs)
    )
    y, state = convolution(**inputs, activation=activation)
    assert worst_error(found["y"], y) < 2e-6
    np.testing.assert_array_equal(found["state"], state.astype(np.float32))


def test_a_weight_of_several_channels():
    with pytest.raises(tc.ShapeError) as caught:
        compiled(
            "CausalConvWithState",
            {"x": drawn(BATCH, 3, 7), "weight": drawn(3, 2, 4)},
            ["y", "state"],
        )
    assert "the weight has shape [3, 2, 4]; [channels, 1, taps] is needed" in str(caught.value)


def test_swiglu():
    a, b = drawn(3, 40) * 6, drawn(3, 40)
    for alpha in (1.0, 1.702):
        found = compiled("SwiGLU", {"a": a, "b": b}, ["y"], alpha=alpha).run({"a": a, "b": b})["y"]
        wide = a.astype(np.float64)
        assert worst_error(found, wide / (1 + np.exp(-alpha * wide)) * b) < 1e-6
