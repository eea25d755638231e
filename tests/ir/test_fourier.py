"""Inverse transforms of half a spectrum, against numpy.fft, and SpaceToDepth's orders, against
NumPy's transposes."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import worst_error

RANDOM = np.random.default_rng(4)


def half_spectrum(shape, kind=np.float32):
    return RANDOM.standard_normal((*shape, 2)).astype(kind)


def inverse(spectrum, axis, length, opset):
    constants = [] if length is None else [numpy_helper.from_array(np.array(length, np.int64), "n")]
    inputs, attributes = ["x", "n" if constants else ""], {"inverse": 1, "onesided": 1}
    if opset >= 20:
        constants.append(numpy_helper.from_array(np.array(axis, np.int64), "axis"))
        inputs.append("axis")
    else:
        attributes["axis"] = axis
    kind = helper.np_dtype_to_tensor_dtype(spectrum.dtype)
    graph = helper.make_graph(
        [helper.make_node("DFT", inputs, ["y"], **attributes)],
        "dft",
        [helper.make_tensor_value_info("x", kind, spectrum.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        constants,
    )
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])
    return tc.compile(model.SerializeToString(), log=False).run({"x": spectrum})["y"]


@pytest.mark.parametrize(
    "shape, axis, length",
    [
        ((2, 9), 1, None),
        ((2, 9), 1, 16),
        ((2, 9), 1, 17),
        ((2, 9), 1, 12),
        ((2, 9), 1, 30),
        ((2, 1), 1, 1),
        ((3, 5, 4), 1, None),
        ((3, 5, 4), 0, None),
        ((3, 5, 4), -2, 7),
        ((1, 301), 1, None),
        ((1, 301), 1, 601),
        ((2, 100), 1, 700),
        ((1, 515), 1, 1023),
    ],
)
def test_inverse_of_half_a_spectrum(shape, axis, length):
    for kind, bound in ((np.float32, 2e-6), (np.float64, 1e-13)):
        spectrum = half_spectrum(shape, kind)
        wide = spectrum[..., 0].astype(np.float64) + 1j * spectrum[..., 1]
        # The spectrum's last axis holds real and imaginary parts.
        real_axis = axis + 1 if axis < 0 else axis
        expected = np.fft.irfft(wide, length, real_axis)[..., None]
        for opset in (17, 20):
            assert worst_error(inverse(spectrum, axis, length, opset), expected) < bound


def test_a_real_half_spectrum():
    with pytest.raises(
        tc.ShapeError,
        match=r"with `inverse` and `onesided` it is half a spectrum, \[..., numbers, 2\]",
    ):
        inverse(half_spectrum((2, 5))[..., :1], 1, None, 20)


@pytest.mark.parametrize("mode", [None, "DCR", "CRD"])
@pytest.mark.parametrize("op", ["SpaceToDepth", "DepthToSpace"])
def test_orders_of_depth(op, mode):
    channels, block = 3, 2
    x = RANDOM.standard_normal(
        (2, channels, 4, 6) if op == "SpaceToDepth" else (2, channels * block * block, 2, 3)
    ).astype(np.float32)
    if op == "SpaceToDepth":
        blocks = x.reshape(2, channels, 2, block, 3, block)
        expected = blocks.transpose(
            (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
        ).reshape(2, -1, 2, 3)
    elif mode == "CRD":
        expected = (
            x.reshape(2, channels, block, block, 2, 3)
            .transpose(0, 1, 4, 2, 5, 3)
            .reshape(2, channels, 4, 6)
        )
    else:
        expected = (
            x.reshape(2, block, block, channels, 2, 3)
            .transpose(0, 3, 4, 1, 5, 2)
            .reshape(2, channels, 4, 6)
        )
    node = helper.make_node(
        op, ["x"], ["y"], blocksize=block, **({} if mode is None else {"mode": mode})
    )
    graph = helper.make_graph(
        [node],
        "blocks",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, ir_version=12, opset_imports=[helper.make_opsetid("", 28)])
    np.testing.assert_array_equal(
        tc.compile(model.SerializeToString(), log=False).run({"x": x})["y"], expected
    )
