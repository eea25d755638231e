"""Layers of float operands with weights of 8 bits, as post-training quantisation of weights alone makes them.

The reference kernels quantise the operand while the model runs: symmetrically, each row of a fully connected layer, each image of a
convolution for itself, so that its largest magnitude becomes 127; the sums of products are integers and are scaled once.
"""

import numpy as np

from ..describe import Refusal
from .quantised import padded
from .quantised_elements import away_from_zero

_TINY = 1e-30     # in place of a range of 0, whose numbers are all 0


def is_hybrid(x, weights):
    return x.dtype == "f32" and weights.dtype in ("i8", "i4")


def weight_scale(weights, axis):
    """The scales of the weights, one or one for each index of the axis."""
    found = weights.tensor.quantisation
    if found is None or weights.data is None:
        raise Refusal(f"'{weights.tensor.name}' is {weights.dtype} without scales or computed, and its operand is f32")
    if np.any(found.zero_point):
        raise Refusal(f"'{weights.tensor.name}' has zero points; weights beside an operand of f32 have none")
    if len(found.scale) > 1 and found.axis != axis:
        raise Refusal(f"'{weights.tensor.name}' has scales for axis {found.axis}; axis {axis} is supported")
    return found.scale


def quantised_while_running(g, name, axes):
    """(integers, scale) of a value over these axes."""
    largest = g.node("ReduceMax", [g.node("Abs", [name]), g.ints(axes)], keepdims=1)
    largest = g.node("Max", [largest, g.number(_TINY, "f32")])
    units = g.node("Mul", [name, g.node("Div", [g.number(127, "f32"), largest])])
    integers = g.node("Cast", [away_from_zero(g, units)], to=3)
    return integers, g.node("Div", [largest, g.number(127, "f32")])


def scaled(g, call, sums_and_scale, weight_scales, bias):
    """Floats of the sums, with bias and activation; `weight_scales` and `bias` are constants that broadcast."""
    sums, scale = sums_and_scale
    factor = g.node("Mul", [scale, g.constant(weight_scales)])
    name = g.node("Mul", [g.node("Cast", [sums], to=1), factor])
    if bias is not None:
        name = g.node("Add", [name, bias])
    return g.activated(name, call.activation)


def refuse_asymmetric(call):
    if call.option("AsymmetricQuantizeInputs"):
        raise Refusal("operands that are quantised with a zero point while the model runs are not supported")


def convolution(g, call, kernel, axis, attributes):
    """A convolution; `kernel` has the weights as ONNX has them, `axis` counts their output channels in the file."""
    x, weights, bias = call.inputs
    scales, channels = weight_scale(weights, axis), kernel.shape[0]
    integers, scale = quantised_while_running(g, g.channels_first(x), [1, 2, 3])
    integers, attributes = padded(g, integers, x, attributes, g.number(0, "i8"))
    sums = g.node("ConvInteger", [integers, g.constant(kernel)], **attributes)
    name = g.reshape(g.plain(bias), [1, channels, 1, 1]) if bias is not None else None
    g.give(call.out, scaled(g, call, (sums, scale), np.broadcast_to(scales, (channels,)).reshape(1, -1, 1, 1), name), channels_first=True)


def fully_connected(g, call, rows, weights, bias):
    """The name of a matrix: the rows times the weights."""
    scales = weight_scale(weights, 0)
    integers, scale = quantised_while_running(g, rows, [1])
    sums = g.node("MatMulInteger", [integers, g.constant(np.ascontiguousarray(weights.data.T))])
    return scaled(g, call, (sums, scale), np.broadcast_to(scales, (weights.shape[0],)), bias and g.plain(bias))
