"""Networks of int16 with weights of int8 on cores of 32 bits: what tc computes here, which equals
TensorFlow Lite's reference kernels (tests/frontend/test_tflite_integers.py)."""

import numpy
import pytest

import tc

from .bare_models import run_arrays


def convolution(shape, weights, result, long):
    """A model of one convolution with constants of int64, whose sums have 64 bits, or of int32."""
    pytest.importorskip("flatbuffers")
    from ..frontend.tflite_files import Operator, Tensor, file_of

    random, channels = numpy.random.default_rng(1), weights[0]
    bias = random.integers(-(10**6), 10**6, channels).astype(numpy.int64 if long else numpy.int32)
    tensors = [
        Tensor("x", shape, numpy.int16, scale=1e-3),
        Tensor(
            "w",
            data=random.integers(-127, 128, weights).astype(numpy.int8),
            scale=random.uniform(1e-3, 1e-2, channels),
            zero=[0] * channels,
        ),
        Tensor("b", data=bias),
        Tensor("y", result, numpy.int16, scale=4e-3),
    ]
    options = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 1}
    operator = Operator("CONV_2D", [0, 1, 2], [3], "Conv2DOptions", **options)
    return file_of(tensors, [operator], [0], [3])


@pytest.mark.parametrize("target", ["cortex-m4", "rv32imfc"])
@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("window", [(1, 1), (3, 3)])
def test_convolutions(target, long, window, tmp_path):
    shape, count = (1, 6, 5, 8), 12
    model = convolution(shape, (count, *window, shape[3]), (*shape[:3], count), long)
    most = 32767 if long else 3000
    x = numpy.random.default_rng(0).integers(-most, most, shape).astype(numpy.int16)
    wanted = tc.compile(model, threads=1, log=False)(x)
    tc.compile(model, target=target, log=False).export(tmp_path / "model.o", kind="bare")
    (found,) = run_arrays(tmp_path, target, [x], [wanted])
    numpy.testing.assert_array_equal(found, wanted)
    assert len(numpy.unique(found)) > 50
