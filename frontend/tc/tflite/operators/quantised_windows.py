"""Pooling, reductions and resizing of integers with a scale, bit for bit as TensorFlow Lite's
reference kernels compute them."""

import numpy as np

from ..describe import NUMPY_TYPES, ONNX_NUMBERS, Refusal
from .integers import (
    BYTES,
    centred,
    clamped,
    ends,
    farthest,
    need_integers,
    same_scale,
    stored,
    units,
)
from .quantised import products_of_shorts
from .quantised_elements import away_from_zero
from .rescaling import multiplied, multiplier_of, rescaled


def average_pool(g, call, attributes):
    x, out = call.inputs[0], call.out
    need_integers(x, out)
    same_scale(call, [x, out])
    ones = np.ones((x.shape[3], 1, *attributes["kernel_shape"]), np.int8)
    if x.dtype == "i16":
        sums = products_of_shorts(
            g, "ConvInteger", g.channels_first(x), ones, "i32", group=x.shape[3], **attributes
        )
    else:
        sums = g.node(
            "ConvInteger", [g.channels_first(x), g.constant(ones)], group=x.shape[3], **attributes
        )
    call.need_few(out.shape[1] * out.shape[2], "the result")
    counts = np.ones((1, 1, 1, 1), np.int64)
    for axis in range(2):
        kernel, stride, size = (
            attributes["kernel_shape"][axis],
            attributes["strides"][axis],
            x.shape[1 + axis],
        )
        result = out.shape[1 + axis]
        before = (
            max((result - 1) * stride + kernel - size, 0) // 2
            if attributes["auto_pad"] != "VALID"
            else 0
        )
        begins = np.arange(result) * stride - before
        inside = np.maximum(np.minimum(begins + kernel, size) - np.maximum(begins, 0), 1)
        counts = counts * inside.reshape((1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1))
    if np.all(counts == counts.flat[0]):
        counts = counts.flat[0].reshape(())
    half = g.node("Mul", [g.node("Sign", [sums]), g.constant((counts // 2).astype(np.int32))])
    name = g.node("Div", [g.node("Add", [sums, half]), g.constant(counts.astype(np.int32))])
    g.give(out, stored(g, name, out, ends(call, out), zero=0), channels_first=True)


def max_pool(g, call, attributes):
    """The reference kernels ignore padding, so padded elements must never be the largest of a
    window."""
    x, out = call.inputs[0], call.out
    need_integers(x, out)
    same_scale(call, [x, out])
    name, images = g.channels_first(x), True
    if x.dtype == "i16":
        name = g.node("Cast", [name], to=ONNX_NUMBERS["f32"])
    name = g.node("MaxPool", [name], **attributes)
    if x.dtype == "i16":
        name = g.node("Cast", [name], to=ONNX_NUMBERS["i16"])
    g.give(out, clamped(g, name, out, ends(call, out)), images)


def mean_or_sum(g, call, operand, axes, keep):
    """The name of the MEAN or SUM along axes; `operand` is the name of the first input, or of a
    reordered form of it."""
    x, out = call.inputs[0], call.out
    need_integers(x, out)
    count = 1
    for axis in set(call.axes(1, x.rank)):
        count *= x.shape[axis]
    most = farthest(x) * max(count, 1)
    if most >= 1 << 31:
        raise Refusal("its sums have no room in 32 bits")
    sums = g.node("ReduceSum", [centred(g, operand, x), g.ints(axes)], keepdims=int(keep))
    scale, out_scale = (np.float64(units(value)[0]) for value in (x, out))
    if call.name == "SUM" and x.dtype != "u8":
        # Follows the optimised kernels: the reference kernels read the bytes of these types as u8.
        reals = g.node(
            "Mul",
            [
                g.node("Cast", [sums], to=ONNX_NUMBERS["f32"]),
                g.constant(np.float32(units(x)[0] / units(out)[0])),
            ],
        )
        whole = g.node(
            "Clip", [away_from_zero(g, reals), g.number(-1e6, "f32"), g.number(1e6, "f32")]
        )
        return stored(g, g.node("Cast", [whole], to=ONNX_NUMBERS["i32"]), out)
    if call.name == "SUM":
        return stored(g, rescaled(g, sums, scale / out_scale, most), out)
    # The multiplier is divided by the number of elements; the shift keeps as many more bits as that
    # number has.
    integer, exponent = multiplier_of(scale / out_scale)
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    return stored(
        g, multiplied(g, sums, [((integer << shift) // count, exponent - shift)], most), out
    )


def _places(size, result, corners, centres):
    """For each result along an axis: (first element, second element, weight of the second in units
    of 1 / 1024), computed in integers with 10 fractional bits."""
    scale = ((1 << 10) * size + result // 2) // result
    if corners and result > 1:
        scale = ((1 << 10) * (size - 1) + (result - 1) // 2) // (result - 1)
    places = np.arange(result, dtype=np.int64) * scale
    if centres:
        places += scale // 2 - (1 << 9)

    def cut(numbers):
        return np.sign(numbers) * (np.abs(numbers) >> 10)

    first = np.maximum(cut(places), 0)
    second = np.minimum(cut(places + (1 << 10) - 1), size - 1)
    return first, second, places - (first << 10)


def resize_bilinear(g, call, sizes):
    """Sums of four elements times weights, which have 10 bits per axis."""
    x, out = call.inputs[0], call.out
    need_integers(x, out)
    same_scale(call, [x, out])
    if x.dtype == "u8":
        _resize_by_floats(g, call, sizes)
        return
    corners, centres = bool(call.option("AlignCorners")), bool(call.option("HalfPixelCenters"))
    name = g.node(
        "Cast", [g.channels_first(x)], to=ONNX_NUMBERS["i64" if x.dtype == "i16" else "i32"]
    )
    dtype = "i64" if x.dtype == "i16" else "i32"
    for axis, (size, result) in enumerate(zip(x.shape[1:3], sizes)):
        first, second, weights = _places(size, result, corners, centres)
        shape = (1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1)
        parts = [
            g.node(
                "Mul",
                [
                    g.node("Gather", [name, g.ints(places)], axis=2 + axis),
                    g.constant(each.reshape(shape).astype(NUMPY_TYPES[dtype])),
                ],
            )
            for places, each in ((first, (1 << 10) - weights), (second, weights))
        ]
        name = g.node("Add", parts)
    # Adds half with the sign of the number and truncates towards 0: halves are rounded away from 0.
    positive = g.node(
        "Cast", [g.node("Greater", [name, g.number(0, dtype)])], to=ONNX_NUMBERS[dtype]
    )
    half = g.node(
        "Sub", [g.node("Mul", [positive, g.number(1 << 20, dtype)]), g.number(1 << 19, dtype)]
    )
    name = g.node("Div", [g.node("Add", [name, half]), g.number(1 << 20, dtype)])
    g.give(out, g.node("Cast", [name], to=ONNX_NUMBERS[out.dtype]), channels_first=True)


def _resize_by_floats(g, call, sizes):
    """For u8, which the reference kernels resize in float32: sums of four elements times weights,
    rounded by adding a half and truncating."""
    x, corners, centres = (
        call.inputs[0],
        bool(call.option("AlignCorners")),
        bool(call.option("HalfPixelCenters")),
    )
    places, weights = [], []
    for axis, (size, result) in enumerate(zip(x.shape[1:3], sizes)):
        scale = (
            np.float32(size - 1) / np.float32(result - 1)
            if corners and result > 1
            else np.float32(size) / np.float32(result)
        )
        at = np.arange(result, dtype=np.float32)
        at = (at + np.float32(0.5)) * scale - np.float32(0.5) if centres else at * scale
        first = np.maximum(np.floor(at), 0).astype(np.int64)
        places.append((first, np.minimum(np.ceil(at).astype(np.int64), size - 1)))
        shape = (1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1)
        second = (at - first.astype(np.float32)).reshape(shape)
        weights.append((np.float32(1) - second, second))
    name, total = g.node("Cast", [g.channels_first(x)], to=ONNX_NUMBERS["f32"]), None
    for column in range(2):
        for row in range(2):
            part = g.node(
                "Gather",
                [
                    g.node("Gather", [name, g.ints(places[0][row])], axis=2),
                    g.ints(places[1][column]),
                ],
                axis=3,
            )
            part = g.node(
                "Mul",
                [
                    g.node("Mul", [part, g.constant(weights[0][row])]),
                    g.constant(weights[1][column]),
                ],
            )
            total = part if total is None else g.node("Add", [total, part])
    total = g.node("Floor", [g.node("Add", [total, g.number(0.5, "f32")])])
    g.give(call.out, g.node("Cast", [total], to=ONNX_NUMBERS["u8"]), channels_first=True)
