"""Layers of floats with weights of bytes: what they are multiplied with is quantised while the
model runs, as NumPy and TensorFlow Lite's kernels do it."""

import numpy as np
import pytest

import tc

from ..support import worst_error

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .test_tflite_variables import kernels_results  # noqa: E402
from .tflite_files import Operator, Tensor, file_of  # noqa: E402

CONVOLUTION = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
LAYERS = {
    "fully connected": ("FULLY_CONNECTED", (4, 16), (5, 16), (4, 5), 0, {}, False),
    "fully connected with zero points": (
        "FULLY_CONNECTED",
        (4, 16),
        (5, 16),
        (4, 5),
        0,
        {"AsymmetricQuantizeInputs": True},
        True,
    ),
    "convolution": ("CONV_2D", (2, 6, 5, 4), (5, 3, 3, 4), (2, 6, 5, 5), 0, CONVOLUTION, None),
    "convolution without padding": (
        "CONV_2D",
        (2, 6, 5, 4),
        (5, 3, 3, 4),
        (2, 4, 3, 5),
        0,
        {**CONVOLUTION, "Padding": 1},
        None,
    ),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        (2, 6, 5, 4),
        (1, 3, 3, 4),
        (2, 6, 5, 4),
        3,
        {**CONVOLUTION, "DepthMultiplier": 1},
        True,
    ),
}
TABLES = {
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
}


def away(values):
    return np.copysign(np.floor(np.abs(values.astype(np.float64)) + 0.5), values)


def quantised(rows, has_zero_points):
    """What the rows are, once quantised and multiplied by their scale again, in float64."""
    result = np.zeros(rows.shape)
    for number, row in enumerate(rows):
        if not np.any(row):
            continue
        if not has_zero_points:
            largest = np.float32(np.abs(row).max())
            result[number] = away(row * np.float32(127 / largest)) * np.float64(
                largest / np.float32(127)
            )
            continue
        low, high = np.float64(min(row.min(), 0)), np.float64(max(row.max(), 0))
        scale = (high - low) / 255
        zero = -128 - low / scale if 128 - low / scale < 127 + high / scale else 127 - high / scale
        zero = away(np.clip(np.array(zero), -128, 127))
        integers = np.clip(
            away(np.float32(zero) + row * (np.float32(1) / np.float32(scale))), -128, 127
        )
        result[number] = (integers - zero) * np.float64(np.float32(scale))
    return result


def convolved(x, kernel, padding, depthwise):
    """Of images and weights [output, height, width, input], in float64."""
    if padding:
        x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1] - 2, x.shape[2] - 2
    # [n, y, x, 9, c].
    windows = np.stack([x[:, i : i + height, j : j + width] for i in range(3) for j in range(3)], 3)
    if depthwise:
        return np.einsum("nyxkc,kc->nyxc", windows, kernel.reshape(9, -1))
    return np.einsum("nyxkc,okc->nyxo", windows, kernel.reshape(len(kernel), 9, -1))


@pytest.mark.parametrize("scales", ["one scale", "equal scales", "a scale for each channel"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_quantise_their_operand(name, scales):
    operator, shape, weight_shape, result, axis, options, has_zero_points = LAYERS[name]
    if name == "depthwise" and scales == "one scale":
        scales = "equal scales"  # the kernels take no other
    random, count = np.random.default_rng(5), weight_shape[axis]
    # The kernels of convolutions make one of equal scales.
    zero_points = (
        scales == "a scale for each channel" if has_zero_points is None else has_zero_points
    )
    each = (
        random.uniform(0.001, 0.02, count)
        if scales == "a scale for each channel"
        else np.full(1 if scales == "one scale" else count, 0.01)
    )
    each = each.astype(np.float32)
    weights, bias = (
        random.integers(-127, 128, weight_shape).astype(np.int8),
        random.standard_normal(count).astype(np.float32),
    )
    tensors = [
        Tensor("x", shape),
        Tensor("w", data=weights, scale=each, zero=[0] * len(each), axis=axis),
        Tensor("b", data=bias),
        Tensor("y", result),
    ]
    data = file_of(
        tensors, [Operator(operator, [0, 1, 2], [3], TABLES[operator], **options)], [0], [3]
    )
    module = tc.compile(data, log=False)
    floats = weights * np.broadcast_to(each.astype(np.float64), (count,)).reshape(
        [-1 if i == axis else 1 for i in range(weights.ndim)]
    )
    x = random.standard_normal(shape).astype(np.float32)
    x[0] = np.abs(x[0]) + 1  # a row without 0 in its range, and one of zeros
    x[-1] = 0 if operator == "FULLY_CONNECTED" else -np.abs(x[-1])
    rows = quantised(x.reshape(len(x), -1), zero_points).reshape(shape)
    right = (
        rows @ floats.T
        if operator == "FULLY_CONNECTED"
        else convolved(rows, floats, "Padding" not in options, axis == 3)
    )
    assert worst_error(module(x), right + bias) <= 1e-6
    if (expected := kernels_results(data, [x])) is not None:
        assert worst_error(module(x), expected[0]) <= 1e-6


def test_the_least_bytes_multiplied():
    """-128 times -128 is 16384 (the vector code of some kernels takes it for -16384)."""
    weights = np.full((1, 16), -128, np.int8)
    tensors = [Tensor("x", (2, 16)), Tensor("w", data=weights, scale=0.01), Tensor("y", (2, 1))]
    data = file_of(
        tensors,
        [
            Operator(
                "FULLY_CONNECTED",
                [0, 1],
                [2],
                "FullyConnectedOptions",
                AsymmetricQuantizeInputs=True,
            )
        ],
        [0],
        [2],
    )
    x = np.array([[-1.0] * 15 + [0.5], [0.25] * 8 + [-3.0] * 8], np.float32)
    assert (
        worst_error(
            tc.compile(data, log=False)(x), quantised(x, True).sum(1, keepdims=True) * -1.28
        )
        <= 1e-6
    )
