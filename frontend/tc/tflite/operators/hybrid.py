"""Layers with float operands and weights of 8 bits, as post-training quantisation of only the
weights makes them.

The reference kernels quantise the operand while the model runs: each row of a fully connected
layer, and each image of a convolution, separately. This is either symmetric, so that the largest
magnitude becomes 127, or has a zero point, so that the range including 0 becomes -128 to 127. The
sums of products are integers and are scaled once. Convolutions have zero points where the scales of
their channels differ and where they are depthwise, fully connected layers where the file says so.
"""

import numpy as np

from ..describe import ONNX_NUMBERS, Refusal
from .quantised import padded
from .quantised_elements import away_from_zero

_TINY = 1e-30  # replaces a range of 0, in which all numbers are 0


def is_hybrid(x, weights):
    return x.dtype == "f32" and weights.dtype in ("i8", "i4")


def weight_scale(weights, axis):
    """The scales of the weights: one, or one for each index of the axis."""
    found = weights.tensor.quantisation
    if found is None or weights.data is None:
        raise Refusal(
            f"'{weights.tensor.name}' is {weights.dtype} without scales or computed, and its operand is f32"
        )
    if np.any(found.zero_point):
        raise Refusal(
            f"'{weights.tensor.name}' has zero points; weights beside an operand of f32 have none"
        )
    if len(found.scale) > 1 and found.axis != axis:
        raise Refusal(
            f"'{weights.tensor.name}' has scales for axis {found.axis}; axis {axis} is supported"
        )
    return found.scale


def quantised_while_running(g, name, axes):
    """(integers, scale) of a value that is quantised symmetrically over these axes."""
    largest = g.node("ReduceMax", [g.node("Abs", [name]), g.ints(axes)], keepdims=1)
    largest = g.node("Max", [largest, g.number(_TINY, "f32")])
    units = g.node("Mul", [name, g.node("Div", [g.number(127, "f32"), largest])])
    integers = g.node("Cast", [away_from_zero(g, units)], to=3)
    return integers, g.node("Div", [largest, g.number(127, "f32")])


def quantised_with_zero_points(g, name, axes):
    """(integers, scale, zero point as i32) of a value that is quantised with zero points over these
    axes. Numbers that are computed once for all elements are float64, as in the kernels."""
    ends = []
    for op, limit in (("ReduceMin", "Min"), ("ReduceMax", "Max")):
        end = g.node(limit, [g.node(op, [name, g.ints(axes)], keepdims=1), g.number(0, "f32")])
        ends.append(g.node("Cast", [end], to=ONNX_NUMBERS["f64"]))
    span = g.node("Max", [g.node("Sub", [ends[1], ends[0]]), g.number(_TINY, "f64")])
    scale = g.node("Div", [span, g.number(255, "f64")])
    low, high = (g.node("Div", [end, scale]) for end in ends)
    from_low, from_high = (
        g.node("Sub", [g.number(-128, "f64"), low]),
        g.node("Sub", [g.number(127, "f64"), high]),
    )
    # Of both candidates the one with the smaller bound of the rounding error.
    nearer = g.node(
        "Less",
        [g.node("Sub", [g.number(128, "f64"), low]), g.node("Add", [g.number(127, "f64"), high])],
    )
    zero = g.node(
        "Clip",
        [
            g.node("Where", [nearer, from_low, from_high]),
            g.number(-128, "f64"),
            g.number(127, "f64"),
        ],
    )
    zero = g.node(
        "Mul",
        [
            g.node("Sign", [zero]),
            g.node("Floor", [g.node("Add", [g.node("Abs", [zero]), g.number(0.5, "f64")])]),
        ],
    )
    scale, zero_float = (g.node("Cast", [each], to=ONNX_NUMBERS["f32"]) for each in (scale, zero))
    units = g.node(
        "Add", [zero_float, g.node("Mul", [name, g.node("Div", [g.number(1, "f32"), scale])])]
    )
    whole = g.node("Clip", [away_from_zero(g, units), g.number(-128, "f32"), g.number(127, "f32")])
    return (
        g.node("Cast", [whole], to=ONNX_NUMBERS["i8"]),
        scale,
        g.node("Cast", [zero], to=ONNX_NUMBERS["i32"]),
    )


def scaled(g, call, sums_and_scale, weight_scales, bias):
    """The sums as floats, with bias and activation; `weight_scales` and `bias` are constants that
    broadcast."""
    sums, scale = sums_and_scale
    factor = g.node("Mul", [scale, g.constant(weight_scales)])
    name = g.node("Mul", [g.node("Cast", [sums], to=ONNX_NUMBERS["f32"]), factor])
    if bias is not None:
        name = g.node("Add", [name, bias])
    return g.activated(name, call.activation)


def _without_zero(g, sums, zero, weights):
    """Sums of products minus the zero point's contribution; `weights` are the sums of each
    channel's weights, in a shape that broadcasts."""
    return g.node("Sub", [sums, g.node("Mul", [zero, g.constant(weights.astype(np.int32))])])


def _zero_points_around(g, call, name, attributes, zero):
    """(integers surrounded by their own zero point where the padding adds elements, the attributes
    without padding)."""
    x = call.inputs[0]
    call.need_few(x.shape[1] * x.shape[2], "an image")
    wide, without = padded(g, name, x, attributes, g.number(0, "i8"))
    if wide == name:
        return name, without
    inside, _ = padded(
        g, g.constant(np.ones((1, 1, *x.shape[1:3]), np.int8)), x, attributes, g.number(0, "i8")
    )
    return g.node(
        "Where",
        [
            g.node("Cast", [inside], to=ONNX_NUMBERS["bool"]),
            wide,
            g.node("Cast", [zero], to=ONNX_NUMBERS["i8"]),
        ],
    ), without


def convolution(g, call, kernel, axis, attributes):
    """A convolution; `kernel` has the weights in ONNX's order, `axis` is that of the output
    channels in the file."""
    x, weights, bias = call.inputs
    scales, channels = weight_scale(weights, axis), kernel.shape[0]
    name = g.reshape(g.plain(bias), [1, channels, 1, 1]) if bias is not None else None
    if len(set(scales.tolist())) > 1 or call.name == "DEPTHWISE_CONV_2D":
        integers, scale, zero = quantised_with_zero_points(g, g.channels_first(x), [1, 2, 3])
        integers, attributes = _zero_points_around(g, call, integers, attributes, zero)
        sums = g.node("ConvInteger", [integers, g.constant(kernel)], **attributes)
        sums = _without_zero(
            g, sums, zero, kernel.reshape(channels, -1).astype(np.int64).sum(1).reshape(1, -1, 1, 1)
        )
    else:
        integers, scale = quantised_while_running(g, g.channels_first(x), [1, 2, 3])
        integers, attributes = padded(g, integers, x, attributes, g.number(0, "i8"))
        sums = g.node("ConvInteger", [integers, g.constant(kernel)], **attributes)
    g.give(
        call.out,
        scaled(
            g, call, (sums, scale), np.broadcast_to(scales, (channels,)).reshape(1, -1, 1, 1), name
        ),
        channels_first=True,
    )


def product(g, rows, weights, scales, has_zero_points):
    """f32: rows times the transpose of the weights, which have a scale for each of their rows."""
    matrix = g.constant(np.ascontiguousarray(weights.T))
    if has_zero_points:
        integers, scale, zero = quantised_with_zero_points(g, rows, [1])
        sums = _without_zero(
            g, g.node("MatMulInteger", [integers, matrix]), zero, weights.astype(np.int64).sum(1)
        )
    else:
        integers, scale = quantised_while_running(g, rows, [1])
        sums = g.node("MatMulInteger", [integers, matrix])
    return g.node(
        "Mul",
        [
            g.node("Cast", [sums], to=ONNX_NUMBERS["f32"]),
            g.node("Mul", [scale, g.constant(scales)]),
        ],
    )


def fully_connected(g, call, rows, weights, bias):
    """The name of the product of the rows and the weights."""
    scales = np.broadcast_to(weight_scale(weights, 0), (weights.shape[0],))
    name = product(g, rows, weights.data, scales, bool(call.option("AsymmetricQuantizeInputs")))
    name = g.node("Add", [name, g.plain(bias)]) if bias is not None else name
    return g.activated(name, call.activation)
