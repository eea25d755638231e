"""Integers of 32 bits with a scale, and a transposed convolution whose shape a run computes: the
results of TensorFlow Lite's kernels, bit for bit."""

import numpy as np
import pytest

import tc

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from tc.tflite.operators.rescaling import rescaled_numbers  # noqa: E402

from .test_tflite_variables import kernels_results  # noqa: E402
from .tflite_files import Operator, Tensor, file_of  # noqa: E402

_COUNT = 500


def quantised(given, result, scales, zero=0):
    tensors = [
        Tensor("x", (_COUNT,), given, scale=scales[0], zero=zero),
        Tensor("y", (_COUNT,), result, scale=scales[1]),
    ]
    return file_of(tensors, [Operator("QUANTIZE", [0], [1])], [0], [1])


@pytest.mark.parametrize(
    "given, result, scales",
    [
        (np.int32, np.int16, (1.49e-7, 0.000922)),
        (np.int32, np.int16, (0.5, 0.25)),
        (np.int16, np.int32, (0.0004943, 1.49e-7)),
        (np.int16, np.int32, (0.25, 0.5)),
        (np.int32, np.int32, (0.3, 0.7)),
    ],
)
def test_words_get_another_scale(given, result, scales):
    random, kind = np.random.default_rng(3), np.iinfo(given)
    x = random.integers(kind.min, kind.max, _COUNT) >> random.integers(0, kind.bits, _COUNT)
    x[:4] = kind.min, kind.max, -1, 1
    # Where a doubled number has no room, the kernels' results are undefined.
    x = (x // max(1, 2 * round(scales[0] / scales[1])) if given == np.int32 else x).astype(given)
    model = quantised(given, result, scales)
    found = tc.compile(model, log=False)(x)
    ends = np.iinfo(result)
    wanted = rescaled_numbers(
        x, np.float64(np.float32(scales[0])) / np.float64(np.float32(scales[1]))
    )
    np.testing.assert_array_equal(found, np.clip(wanted, ends.min, ends.max))
    exact = None if result == given else kernels_results(model, [x])
    if exact is not None:
        np.testing.assert_array_equal(found, exact[0])


def test_words_have_no_zero_point():
    with pytest.raises(tc.UnsupportedError, match="'x' is i32 with a zero point"):
        tc.compile(quantised(np.int32, np.int16, (0.5, 0.25), zero=3), log=False)


def transposed(given):
    random = np.random.default_rng(0)
    shape = np.array([1, 3, 12, 8], np.int32)
    tensors = [
        Tensor("shape", data=shape) if given else Tensor("shape", (4,), np.int32),
        Tensor(
            "w",
            data=random.integers(-127, 128, (8, 3, 4, 6)).astype(np.int8),
            scale=random.uniform(1e-3, 4e-3, 8),
            zero=[0] * 8,
        ),
        Tensor("x", (1, 1, 5, 6), np.int16, scale=9e-4),
        Tensor("b", data=random.integers(-(10**6), 10**6, 8)),
        Tensor("y", tuple(shape), np.int16, scale=9.5e-4),
    ]
    options = {"Padding": 1, "StrideH": 1, "StrideW": 2}
    operator = Operator("TRANSPOSE_CONV", [0, 1, 2, 3], [4], "TransposeConvOptions", **options)
    return file_of(tensors, [operator], [2] if given else [0, 2], [4])


def test_a_shape_that_a_run_computes():
    """It is the one that the file has for the result: sizes are those of the file."""
    x = np.random.default_rng(1).integers(-32768, 32768, (1, 1, 5, 6)).astype(np.int16)
    found = tc.compile(transposed(False), log=False)(np.array([1, 3, 12, 8], np.int32), x)
    np.testing.assert_array_equal(found, tc.compile(transposed(True), log=False)(x))
    exact = kernels_results(transposed(True), [x])
    if exact is not None:
        np.testing.assert_array_equal(found, exact[0])
