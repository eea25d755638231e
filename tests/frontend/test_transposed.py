"""Transposed convolutions of one axis, whose sums keep the residues of the stride apart until they
are put beside each other."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

CHANNELS, FILTERS = 4, 6
CASES = list(
    itertools.product(
        (2, 3, 4),
        (1, 2, 3, 5),
        ((0, 0), (1, 0), (1, 2)),
        (0, 1),
        (1, 2),
        (False, True),
        (False, True),
    )
)


def scattered(x, weights, bias, stride, pads, extra, groups):
    """The definition, in float64: each element of the input adds its multiple of the filters to the
    full result, which is then cut."""
    batch, channels, length = x.shape
    each, kernel = channels // groups, weights.shape[2]
    full = np.zeros((batch, FILTERS, (length - 1) * stride + kernel + extra))
    for group, place in itertools.product(range(groups), range(length)):
        part = slice(group * each, (group + 1) * each)
        rows = slice(group * weights.shape[1], (group + 1) * weights.shape[1])
        full[:, rows, place * stride : place * stride + kernel] += np.einsum(
            "nc,cfk->nfk", x[:, part, place].astype(np.float64), weights[part].astype(np.float64)
        )
    return full[:, :, pads[0] : full.shape[2] - pads[1]] + bias[:, None]


@pytest.mark.parametrize("number", range(0, len(CASES), 9))
def test_strided(number):
    stride, kernel, pads, extra, groups, has_bias, is_open = CASES[number]
    random = np.random.default_rng(number)
    x = random.standard_normal((2, CHANNELS, int(random.integers(5, 20)))).astype(np.float32)
    weights = random.standard_normal((CHANNELS, FILTERS // groups, kernel)).astype(np.float32)
    bias = random.standard_normal(FILTERS).astype(np.float32) * has_bias
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w", "b"][: 2 + has_bias],
        ["y"],
        strides=[stride],
        pads=list(pads),
        output_padding=[extra],
        group=groups,
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                "x", TensorProto.FLOAT, [2, CHANNELS, "n" if is_open else x.shape[2]]
            )
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    found = tc.compile(model, log=False, threads=2).run({"x": x})["y"]
    expected = scattered(x, weights, bias, stride, pads, extra, groups)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("size", [15, 17, 31, 33])
def test_residues_of_other_sizes_in_one_loop(size):
    """Behind a stride of 2 the tail of the sums has another number of lanes than what follows in
    the same loop: masks of lanes are not shared."""
    random = np.random.default_rng(size)
    x = random.standard_normal((1, 8, size)).astype(np.float32)
    weights = random.standard_normal((8, 2, 1)).astype(np.float32)
    bias = random.standard_normal(4).astype(np.float32)
    nodes = [
        helper.make_node(
            "ConvTranspose", ["x", "w", "b"], ["s"], strides=[2], pads=[2, 2], group=2
        ),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    full = np.zeros((1, 4, 2 * size - 1))
    for group in range(2):
        part = slice(4 * group, 4 * group + 4)
        full[:, 2 * group : 2 * group + 2, ::2] = np.einsum(
            "ncl,cfk->nfl", x[:, part].astype(np.float64), weights[part]
        )
    expected = np.maximum(full[:, :, 2:-2] + bias[:, None], 0)
    found = tc.compile(model, log=False, threads=1).run({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
