"""Convolutions along an axis whose length is a multiple of the lanes, though it is not known: with
few filters the lanes lie along it, as they do where it is known; with more there are blocks of
channels."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..levels import NATIVE_AND_LEVELS

CHANNELS = 5
CASES = [
    (filters, times, kernel, dilation, stride)
    for filters in (3, 24)
    for times in (8, 16, 64, 96)
    for kernel, dilation, stride in ((1, 1, 1), (3, 1, 1), (7, 3, 1), (4, 1, 2))
]


def convolution(filters, times, kernel, dilation, stride):
    """A model of x [2, CHANNELS, n, times], whose last two axes become one, and its weights."""
    random = np.random.default_rng(times + kernel)
    weights = random.standard_normal((filters, CHANNELS, kernel)).astype(np.float32)
    reach = dilation * (kernel - 1)
    nodes = [
        helper.make_node("Reshape", ["x", "sizes"], ["sound"]),
        helper.make_node(
            "Conv",
            ["sound", "w"],
            ["sums"],
            dilations=[dilation],
            strides=[stride],
            pads=[reach // 2, reach - reach // 2],
        ),
        helper.make_node("LeakyRelu", ["sums"], ["y"], alpha=0.1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, CHANNELS, "n", times])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.array([2, CHANNELS, -1]), "sizes"),
        ],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString(), weights


def reference(x, weights, dilation, stride):
    """The definition, in float64."""
    reach = dilation * (weights.shape[2] - 1)
    sound = np.pad(
        x.reshape(2, CHANNELS, -1).astype(np.float64),
        ((0, 0), (0, 0), (reach // 2, reach - reach // 2)),
    )
    count = (sound.shape[2] - reach - 1) // stride + 1
    sums = sum(
        np.einsum(
            "fc,ncl->nfl",
            weights[:, :, tap].astype(np.float64),
            sound[:, :, tap * dilation :][:, :, : (count - 1) * stride + 1 : stride],
        )
        for tap in range(weights.shape[2])
    )
    return np.where(sums < 0, 0.1 * sums, sums)


@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_the_definition(case, target):
    _, times, _, dilation, stride = case
    model, weights = convolution(*case)
    module = tc.compile(model, target, log=False, threads=2, specialise=0)
    for count in (1, 2, 3, 7):
        x = (
            np.random.default_rng(count)
            .standard_normal((2, CHANNELS, count, times))
            .astype(np.float32)
        )
        expected = reference(x, weights, dilation, stride)
        found = module.run({"x": x})["y"]
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_lanes_lie_along_the_length():
    """Of accumulators [batch, feature, position], dimension 2 is in blocks of lanes; where the last
    block may be shorter, dimension 1."""

    def blocked_dimension(times):
        traces = [
            kernel["trace"]
            for kernel in tc.compile(
                convolution(3, times, 3, 1, 1)[0], "x86-64-v3", log=False
            ).kernels
        ]
        return next(
            line.split()[2] for trace in traces for line in trace if line.startswith("layout tmp0")
        )

    assert blocked_dimension(64) == "2"
    assert blocked_dimension(7) == "1"
