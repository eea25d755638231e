"""Activations of recurrent operators and their parameters, which are consumed in order by the
functions that take one; against NumPy in float64."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import worst_error

RANDOM = np.random.default_rng(5)
STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# {name: (function, the values of alpha and beta where none is given; None: the function takes
# none)}
FUNCTIONS = {
    "Sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), None, None),
    "Tanh": (lambda x, a, b: np.tanh(x), None, None),
    "Relu": (lambda x, a, b: np.maximum(x, 0), None, None),
    "Softsign": (lambda x, a, b: x / (1 + abs(x)), None, None),
    "Softplus": (lambda x, a, b: np.log1p(np.exp(x)), None, None),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "LeakyRelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, None),
    "Elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(x), x), 1.0, None),
    "ThresholdedRelu": (lambda x, a, b: np.where(x > a, x, 0), 1.0, None),
    "Affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
}
# {name: (operator, direction, activations, alphas, betas)}
CASES = {
    "forward and backward": (
        "GRU",
        "bidirectional",
        ["HardSigmoid", "Tanh"] * 2,
        [0.3, 0.15],
        [0.45, 0.55],
    ),
    "the second function alone takes one": ("GRU", "forward", ["Sigmoid", "LeakyRelu"], [0.4], []),
    "one of each direction": (
        "GRU",
        "bidirectional",
        ["Sigmoid", "Elu", "HardSigmoid", "Tanh"],
        [0.7, 0.25],
        [0.4],
    ),
    "beta without alpha": ("GRU", "reverse", ["HardSigmoid", "Tanh"], [], [0.35]),
    "alpha without beta between those with it": (
        "LSTM",
        "forward",
        ["HardSigmoid", "LeakyRelu", "ScaledTanh"],
        [0.3, 0.2, 0.8],
        [0.4, 0.9],
    ),
    "fewer than take one": (
        "LSTM",
        "bidirectional",
        ["HardSigmoid", "ScaledTanh", "Tanh", "HardSigmoid", "Affine", "Softsign"],
        [0.25, 0.6],
        [0.45],
    ),
    "the last alone": ("LSTM", "reverse", ["Sigmoid", "Tanh", "ThresholdedRelu"], [0.1], []),
    "all of one direction": (
        "LSTM",
        "bidirectional",
        ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Elu", "LeakyRelu"],
        [0.3, 0.5, 0.05],
        [0.6],
    ),
    "of an RNN": ("RNN", "bidirectional", ["Affine", "ScaledTanh"], [0.4, 0.9], [0.1, 0.7]),
    "backward alone takes one": ("RNN", "bidirectional", ["Softplus", "Elu"], [0.3], []),
    "names without case": ("RNN", "reverse", ["leakyrelu"], [0.3], []),
    "values that nobody takes": ("GRU", "forward", ["Sigmoid", "Tanh"], [0.5, 0.5], [0.5]),
}


def functions_of(activations, alphas, betas):
    """Each function with its parameters: the next of each list where it takes one."""
    by_name = {name.lower(): entry for name, entry in FUNCTIONS.items()}
    alphas, betas, result = list(alphas), list(betas), []
    for name in activations:
        function, alpha, beta = by_name[name.lower()]
        alpha = alphas.pop(0) if alpha is not None and alphas else alpha
        beta = betas.pop(0) if beta is not None and betas else beta
        result.append(lambda x, f=function, a=alpha, b=beta: f(x, a, b))
    return result


def step(op, functions, sums, inner, state, cell):
    """The next states; `sums` are the products of the input, `inner` gives those of a state with
    the recurrent weights."""
    if op == "RNN":
        return functions[0](sums + inner(state)), cell
    if op == "GRU":
        z, r = (
            functions[0](sums[:, : 2 * HIDDEN] + inner(state)[:, : 2 * HIDDEN])
            .reshape(BATCH, 2, HIDDEN)
            .transpose(1, 0, 2)
        )
        fresh = functions[1](sums[:, 2 * HIDDEN :] + inner(r * state)[:, 2 * HIDDEN :])
        return (1 - z) * fresh + z * state, cell
    i, o, f, c = (sums + inner(state)).reshape(BATCH, 4, HIDDEN).transpose(1, 0, 2)
    cell = functions[0](f) * cell + functions[0](i) * functions[1](c)
    return functions[0](o) * functions[2](cell), cell


def expected(op, direction, functions, x, w, r):
    each = len(functions) // len(w)
    results = []
    for d in range(len(w)):
        backwards = d == 1 or direction == "reverse"
        state = cell = np.zeros((BATCH, HIDDEN))
        rows = []
        for row in x[::-1] if backwards else x:
            state, cell = step(
                op,
                functions[d * each : (d + 1) * each],
                row @ w[d].T,
                lambda h, d=d: h @ r[d].T,
                state,
                cell,
            )
            rows.append(state)
        results.append(rows[::-1] if backwards else rows)
    return np.stack(results, 1)


def model(op, direction, activations, weights, **attributes):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, SIZE])]
    node = helper.make_node(
        op,
        ["x", "w", "r"],
        ["y"],
        direction=direction,
        activations=activations,
        hidden_size=HIDDEN,
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "cell",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)]
    ).SerializeToString()


def weights_of(op, direction):
    directions = 2 if direction == "bidirectional" else 1
    return {
        name: RANDOM.uniform(-1, 1, (directions, GATES[op] * HIDDEN, size)).astype(np.float32)
        for name, size in (("w", SIZE), ("r", HIDDEN))
    }


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_consumed_in_order(name):
    op, direction, activations, alphas, betas = CASES[name]
    weights = weights_of(op, direction)
    x = RANDOM.uniform(-1.5, 1.5, (STEPS, BATCH, SIZE)).astype(np.float32)
    given = {
        key: values
        for key, values in (("activation_alpha", alphas), ("activation_beta", betas))
        if values
    }
    found = tc.compile(model(op, direction, activations, weights, **given), log=False)(x)
    value = expected(
        op,
        direction,
        functions_of(activations, alphas, betas),
        x.astype(np.float64),
        weights["w"].astype(np.float64),
        weights["r"].astype(np.float64),
    )
    assert worst_error(found, value) < 2e-6


def test_more_values_than_functions_that_take_one():
    wrong = model(
        "GRU",
        "forward",
        ["Sigmoid", "LeakyRelu"],
        weights_of("GRU", "forward"),
        activation_alpha=[0.0, 0.3],
    )
    with pytest.raises(
        tc.ShapeError,
        match=r"activation_alpha has 2 values, but 1 of its activations take one; give one value to each of these, in their order",
    ):
        tc.compile(wrong, log=False)
