"""Operators on integers of 8 bits, bit for bit as TensorFlow Lite's reference kernels compute them.

Sums are exact in 32 bits. They are brought to the result's scale by a multiplier of 31 bits and a power of two. Fully connected layers
round the product of 64 bits once, halves up; all others in two steps: the product, doubled, to its upper 32 bits, halves up, and the division by
the power of two, halves away from 0. The product is one of 64 bits here, what follows of 32 wherever it has room. Functions of one element are tables.
"""

import math

import numpy as np

from ..describe import NUMPY_TYPES, ONNX_NUMBERS, Refusal
from . import float_sums

_LEAST, _MOST = -128, 127
_FARTHEST = _MOST - _LEAST   # from a zero point


def is_quantised(value):
    return value.dtype == "i8" and value.tensor.quantisation is not None


def units(value):
    """(scale, zero point) of a value that has one of each."""
    found = value.tensor.quantisation
    if found is None or len(found.scale) != 1:
        raise Refusal(f"'{value.tensor.name}' is {value.dtype} without one scale")
    return found.scale[0], int(found.zero_point[0])


def need_bytes(*values):
    for value in values:
        if not is_quantised(value):
            raise Refusal(f"'{value.tensor.name}' is {value.dtype}; i8 with a scale is needed here")
        units(value)


def multiplier_of(real):
    """(integer of 31 bits, exponent) of a number: real = integer * 2 ** (exponent - 31)."""
    fraction, exponent = math.frexp(float(real))
    integer = math.floor(fraction * (1 << 31) + 0.5)
    if integer == 1 << 31:
        integer, exponent = integer // 2, exponent + 1
    if exponent > 30:
        raise Refusal(f"a scale times {real:g} has no room in 32 bits")
    return (0, 0) if exponent < -31 else (integer, exponent)


def rescaled(g, name, reals, most, shape=(), rounding="steps"):
    """i32: an i32 whose magnitude is at most `most`, one number or one for each factor, times real numbers, one or a list that broadcasts in that shape; rounded once ("once") or in
    two steps ("steps"); of "positive" results those below 0 are only known to be at most 0.

    The shifts keep the sign, so that adding half of what they cut off rounds halves up; of negative numbers one less, away from 0."""
    found = [multiplier_of(real) for real in np.atleast_1d(reals)]

    def constant(numbers, dtype):
        numbers = np.array(numbers, NUMPY_TYPES[dtype])
        return g.constant(numbers[0].reshape(()) if np.all(numbers == numbers[0]) else numbers.reshape(shape))

    def narrow(value, largest):
        if largest >= 1 << 31:
            value = g.node("Min", [g.node("Max", [value, g.number(-(1 << 31), "i64")]), g.number((1 << 31) - 1, "i64")])
        return g.node("Cast", [value], to=ONNX_NUMBERS["i32"])

    upper = _by_upper_half(g, name, found, np.broadcast_to(most, len(found)).tolist(), rounding, constant)
    if upper is not None:
        return upper
    most = int(np.max(most))
    largest = max(most * (integer << max(exponent, 0)) for integer, exponent in found) >> 31
    value = g.node("Cast", [name], to=ONNX_NUMBERS["i64"])
    # Where both shifts cut something off, rounding once is adding half before the second: the first only cuts.
    cut_first = rounding == "once" and all(exponent < 0 for _, exponent in found)
    if rounding == "once" and not cut_first:
        shifts = [31 - exponent for _, exponent in found]
        value = g.node("Mul", [value, constant([integer for integer, _ in found], "i64")])
        value = g.node("Add", [value, constant([1 << shift >> 1 for shift in shifts], "i64")])
        return narrow(g.node("BitShift", [value, constant(shifts, "i64")], direction="RIGHT"), largest + 1)
    value = g.node("Mul", [value, constant([integer << max(exponent, 0) for integer, exponent in found], "i64")])
    if not cut_first:
        value = g.node("Add", [value, g.number(1 << 30, "i64")])
    high = g.node("BitShift", [value, g.number(31, "i64")], direction="RIGHT")
    shifts = [max(-exponent, 0) for _, exponent in found]
    dtype = "i64"
    if largest < (1 << 30) - 1:
        high, dtype = narrow(high, largest), "i32"
    if any(shifts):
        half = g.node("Add", [high, constant([1 << shift >> 1 for shift in shifts], dtype)])
        if rounding == "steps":
            sign = g.node("BitShift", [high, g.number(31 if dtype == "i32" else 63, dtype)], direction="RIGHT")
            if not all(shifts):
                sign = g.node("Mul", [sign, constant([int(shift > 0) for shift in shifts], dtype)])
            half = g.node("Add", [half, sign])
        high = g.node("BitShift", [half, constant(shifts, dtype)], direction="RIGHT")
    return high if dtype == "i32" else narrow(high, largest + 1)


def _moves(shifts, most, rounding):
    """(bits that each operand is moved to the left, bits that its product's upper half is moved to the right) of _by_upper_half, or None where 32
    bits have no room. One distance to the right for all is preferred: it is an instruction's own number."""
    least = [max(0, 2 - shift) if rounding == "once" else 2 for shift in shifts]
    last = [shift + ahead - 1 for shift, ahead in zip(shifts, least)]
    if min(last) < 1:
        return None
    for ends_at in ([max(last)] * len(shifts), last):
        ahead = [end + 1 - shift for end, shift in zip(ends_at, shifts)]
        # The upper half is below half of the operand that was moved; each rounding constant is at most 1 << end.
        if max(ends_at) <= 28 and max(largest << bits for largest, bits in zip(most, ahead)) < 1 << 30:
            return ahead, ends_at
    return None


def _by_upper_half(g, name, found, most, rounding, constant):
    """What `rescaled` gives, of a product's upper 32 bits alone, which most vectors multiply at once; or None where 32 bits have no room.

    The operand is moved to the left so far that what is cut off with the lower 32 bits is never asked for again: the halves of both steps
    are added to the upper half, as one constant, and both shifts are one. The correction of the second step below 0 takes the sign of the
    upper half, which is the operand's: the only operand below 0 whose first step gives 0 is -1, and there the second one gives 0 with it and without."""
    shifts = [-exponent for _, exponent in found]
    shifts = [shift if integer else max(shifts) for shift, (integer, _) in zip(shifts, found)]   # 0 times anything is 0 with every shift
    moves = _moves(shifts, most, rounding)
    if moves is None:
        return None
    ahead, last = moves
    value = g.node("Mul", [name, constant([1 << bits for bits in ahead], "i32")]) if any(ahead) else name
    value = g.node("Mul", [g.node("Cast", [value], to=ONNX_NUMBERS["i64"]), constant([integer for integer, _ in found], "i64")])
    high = g.node("Cast", [g.node("BitShift", [value, g.number(32, "i64")], direction="RIGHT")], to=ONNX_NUMBERS["i32"])
    added = [1 << end >> 1 for end in last]
    if rounding != "once":
        added = [(1 << bits >> 2) + (half if shift else 0) for bits, half, shift in zip(ahead, added, shifts)]
    if rounding == "steps" and any(shifts):
        below = constant([-(1 << bits >> 1) if shift else 0 for bits, shift in zip(ahead, shifts)], "i32")
        high = g.node("Add", [high, g.node("BitwiseAnd", [g.node("BitShift", [high, g.number(31, "i32")], direction="RIGHT"), below])])
    return g.node("BitShift", [g.node("Add", [high, constant(added, "i32")]), constant(last, "i32")], direction="RIGHT")


def ends(call, value):
    """The integers that the fused activation allows."""
    scale, zero = units(value)
    low, high = {"NONE": (None, None), "RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}.get(call.activation, (None, "no"))
    if high == "no":
        raise Refusal(f"the fused activation {call.activation} is not supported")

    def integer(real):
        quotient = np.float32(real) / scale
        return zero + int(np.copysign(np.floor(np.abs(quotient) + np.float32(0.5)), quotient))

    return (_LEAST if low is None else max(_LEAST, integer(low))), (_MOST if high is None else min(_MOST, integer(high)))


def _rounding(limits, zero):
    return "positive" if limits[0] >= zero else "steps"


def stored(g, name, zero, limits):
    """i8 of an i32 with the zero point added, within limits."""
    low, high = limits[0] - zero, limits[1] - zero
    name = g.node("Min", [g.node("Max", [name, g.number(low, "i32")]), g.number(high, "i32")])
    name = g.node("Add", [name, g.number(zero, "i32")]) if zero else name
    return g.node("Cast", [name], to=3)


def _sums_of(call, numbers, axis):
    """(multipliers, constants added to the sums, the largest magnitude of each channel's sums) of a layer whose weights are `numbers` with output channels first."""
    x, weights, bias = call.inputs
    need_bytes(x, call.out)
    found = weights.tensor.quantisation
    if weights.dtype != "i8" or found is None or np.any(found.zero_point) or (len(found.scale) > 1 and found.axis != axis):
        raise Refusal(f"'{weights.tensor.name}' is no i8 with zero points of 0 and scales for axis {axis}")
    (scale, zero), (out_scale, _) = units(x), units(call.out)
    rows = numbers.reshape(len(numbers), -1).astype(np.int64)
    added = -zero * rows.sum(1)
    if bias is not None:
        if bias.dtype != "i32" or bias.shape != (len(numbers),):
            raise Refusal(f"the bias is {bias.dtype} of shape {list(bias.shape)}")
        added = added + call.constant(2, "the bias").astype(np.int64)
    most = np.abs(rows).sum(1) * 128 + np.abs(added)
    if np.max(most) >= 1 << 31:
        raise Refusal("its sums have no room in 32 bits")
    if call.name == "FULLY_CONNECTED" and len(found.scale) == 1:
        return [np.float64(scale * found.scale[0]) / np.float64(out_scale)], added.astype(np.int32), int(np.max(most))
    return [np.float64(scale) * np.float64(each) / np.float64(out_scale) for each in found.scale], added.astype(np.int32), most if len(found.scale) > 1 else int(np.max(most))


def padded(g, name, x, attributes, border):
    """Integers of the operand x with `border` around them, where the padding adds elements, and the attributes without padding."""
    if attributes["auto_pad"] == "VALID":
        return name, attributes
    before, after = [0, 0], [0, 0]
    for axis in range(2):
        stride, size = attributes["strides"][axis], x.shape[1 + axis]
        extent = (attributes["kernel_shape"][axis] - 1) * attributes.get("dilations", [1, 1])[axis] + 1
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    if any(before + after):
        name = g.node("Pad", [name, g.ints(before + after), g.number(border, "i8")])
    return name, {**attributes, "auto_pad": "VALID"}


def convolution(g, call, kernel, axis, attributes):
    """A convolution; `kernel` has the weights as ONNX has them, `axis` counts their output channels in the file."""
    reals, added, most = _sums_of(call, kernel, axis)
    x = call.inputs[0]
    name, attributes = padded(g, g.channels_first(x), x, attributes, units(x)[1])
    sums = g.node("ConvInteger", [name, g.constant(kernel)], **attributes)
    sums = g.node("Add", [sums, g.constant(added.reshape(1, -1, 1, 1))])
    zero, limits = units(call.out)[1], ends(call, call.out)
    name = rescaled(g, sums, reals, most, (1, -1, 1, 1), _rounding(limits, zero))
    g.give(call.out, stored(g, name, zero, limits), channels_first=True)


def fully_connected(g, call, rows):
    """The name of a matrix: the rows times the weights."""
    weights = call.constant(1, "the list of weights")
    reals, added, most = _sums_of(call, weights, 0)
    sums = g.node("Add", [g.node("MatMulInteger", [rows, g.constant(np.ascontiguousarray(weights.T))]), g.constant(added)])
    return stored(g, rescaled(g, sums, reals, most, (-1,), "once"), units(call.out)[1], ends(call, call.out))


def _centred(g, name, zero):
    whole = g.node("Cast", [name], to=ONNX_NUMBERS["i32"])
    return g.node("Sub", [whole, g.number(zero, "i32")]) if zero else whole


def two_operands(g, call):
    """ADD, SUB and MUL."""
    need_bytes(*call.inputs[:2], call.out)
    names, images = g.aligned(call.inputs[:2], call.out.rank)
    (a, a_zero), (b, b_zero), (out, zero) = units(call.inputs[0]), units(call.inputs[1]), units(call.out)
    operands = [_centred(g, names[0], a_zero), _centred(g, names[1], b_zero)]
    limits = ends(call, call.out)
    rounding = _rounding(limits, zero)
    if call.name == "MUL":
        name = rescaled(g, g.node("Mul", operands), np.float64(a * b / out), _FARTHEST * _FARTHEST, (), rounding)
    elif (by_floats := _sum_by_floats(g, operands, call, limits)) is not None:
        name = by_floats
    else:
        twice = 2 * np.float64(max(a, b))
        parts = [_part_of_sum(g, each, np.float64(scale) / twice, zero_point)
                 for each, scale, zero_point in zip(operands, (a, b), (a_zero, b_zero))]
        name = rescaled(g, g.node("Add" if call.name == "ADD" else "Sub", parts), twice / (np.float64(1 << 20) * np.float64(out)), _FARTHEST << 20, (), rounding)
    g.give(call.out, stored(g, name, zero, limits), images)


def rescaled_numbers(x, real):
    """What `rescaled` computes in two steps, of an array of whole numbers."""
    integer, exponent = multiplier_of(real)
    high = (x.astype(np.int64) * (integer << max(exponent, 0)) + (1 << 30)) >> 31
    shift = max(-exponent, 0)
    return (high + (1 << shift >> 1) + (high >> 63)) >> shift if shift else high


def _sum_by_floats(g, operands, call, limits):
    """The sum or difference of two operands by floats, where these give the integers of fixed point; else None."""
    (a, a_zero), (b, b_zero), (out, zero) = units(call.inputs[0]), units(call.inputs[1]), units(call.out)
    sign, twice = (1 if call.name == "ADD" else -1), 2 * np.float64(max(a, b))

    def integers(left, right):
        parts = [rescaled_numbers(each << 20, np.float64(scale) / twice) for each, scale in ((left, a), (right, b))]
        return rescaled_numbers(parts[0] + sign * parts[1], twice / (np.float64(1 << 20) * np.float64(out)))

    found = float_sums.factors(np.float64(a) / out, a_zero, sign * np.float64(b) / out, b_zero, integers, (limits[0] - zero, limits[1] - zero))
    if found is None:
        return None
    terms = [g.node("Mul", [g.node("Cast", [each], to=ONNX_NUMBERS["f32"]), g.number(factor, "f32")]) for each, factor in zip(operands, found)]
    return g.node("Cast", [g.node("Round", [g.node("Add", terms)])], to=ONNX_NUMBERS["i32"])


def _part_of_sum(g, name, real, zero):
    """An operand of a sum, of bytes less their zero point, in units with 20 more bits, times a number of at most half; half of it needs no rounding.

    Both steps of `rescaled` are one here: the operand's 20 lower bits are 0, so that of the multiplier only as many bits as are cut off are
    multiplied apart, and all of it has room in 32 bits."""
    if real == 0.5:
        return g.node("Mul", [name, g.number(1 << 19, "i32")])
    integer, exponent = multiplier_of(real)
    cut = 11 - exponent
    added = (1 << 10) + (1 << cut >> 1)
    if not 12 <= cut <= 22:
        return rescaled(g, g.node("Mul", [name, g.number(1 << 20, "i32")]), real, _FARTHEST << 20)
    below = g.node("Add", [g.node("Mul", [name, g.number(integer & ((1 << cut) - 1), "i32")]), g.number(added, "i32")])
    if zero != _LEAST:   # halves of what is below 0 away from it
        below = g.node("Add", [below, g.node("Mul", [g.node("BitShift", [name, g.number(31, "i32")], direction="RIGHT"), g.number(1 << 11, "i32")])])
    below = g.node("BitShift", [below, g.number(cut, "i32")], direction="RIGHT")
    return g.node("Add", [g.node("Mul", [name, g.number(integer >> cut, "i32")]), below])


def average_pool(g, call, attributes):
    need_bytes(call.inputs[0], call.out)
    x = call.inputs[0]
    ones = np.ones((x.shape[3], 1, *attributes["kernel_shape"]), np.int8)
    sums = g.node("ConvInteger", [g.channels_first(x), g.constant(ones)], group=x.shape[3], **attributes)
    counts = np.ones((1, 1, 1, 1), np.int64)
    for axis in range(2):
        kernel, stride, size = attributes["kernel_shape"][axis], attributes["strides"][axis], x.shape[1 + axis]
        result = call.out.shape[1 + axis]
        before = max((result - 1) * stride + kernel - size, 0) // 2 if attributes["auto_pad"] != "VALID" else 0
        begins = np.arange(result) * stride - before
        inside = np.maximum(np.minimum(begins + kernel, size) - np.maximum(begins, 0), 1)
        counts = counts * inside.reshape((1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1))
    if np.all(counts == counts.flat[0]):
        counts = counts.flat[0].reshape(())
    half = g.node("Mul", [g.node("Sign", [sums]), g.constant((counts // 2).astype(np.int32))])
    name = g.node("Div", [g.node("Add", [sums, half]), g.constant(counts.astype(np.int32))])
    g.give(call.out, stored(g, name, 0, ends(call, call.out)), channels_first=True)


def _rounded(values):
    """Halves away from 0, in float32."""
    return np.copysign(np.floor(np.abs(values) + np.float32(0.5)), values)


def by_table(g, call, function):
    """A function of one element: of the float32 that each integer stands for."""
    need_bytes(call.inputs[0], call.out)
    (scale, zero), (out, out_zero) = units(call.inputs[0]), units(call.out)
    reals = scale * (np.arange(_LEAST, _MOST + 1) - zero).astype(np.float32)
    results = function(reals.astype(np.float64)).astype(np.float32)
    table = np.clip(_rounded(results * (np.float32(1) / out)).astype(np.int64) + out_zero, _LEAST, _MOST).astype(np.int8)
    (name,), images = g.aligned(call.inputs[:1], call.inputs[0].rank)
    place = g.node("Add", [g.node("Cast", [name], to=6), g.number(-_LEAST, "i32")])
    g.give(call.out, g.node("Gather", [g.constant(table), place], axis=0), images)


def softmax(g, call, beta):
    """By a table of exponentials; they are added in the order of the elements, as floats."""
    x = call.inputs[0]
    need_bytes(x, call.out)
    (scale, _), (out, zero), columns = units(x), units(call.out), x.shape[-1]
    if columns > 256:
        raise Refusal(f"softmax of {columns} integers in a row is not supported; at most 256 are")
    exponents = (-scale * np.float32(beta)) * np.arange(256, dtype=np.float32)
    whole = g.node("Cast", [g.plain(x)], to=6)
    below = g.node("Sub", [g.node("ReduceMax", [whole, g.ints([-1])], keepdims=1), whole])
    powers = g.node("Gather", [g.constant(np.exp(exponents.astype(np.float64)).astype(np.float32)), below], axis=0)
    parts = [powers] if columns == 1 else g.node("Split", [powers, g.ints([1] * columns)], outputs=columns, axis=-1)
    total = parts[0]
    for part in parts[1:]:
        total = g.node("Add", [total, part])
    inverse = g.node("Div", [g.number(1, "f32"), g.node("Mul", [total, g.number(out, "f32")])])
    steps = g.node("Floor", [g.node("Add", [g.node("Mul", [powers, inverse]), g.number(0.5, "f32")])])
    g.give(call.out, stored(g, g.node("Cast", [steps], to=6), zero, (_LEAST, _MOST)))


def quantize(g, call):
    """QUANTIZE: of floats, or of integers with another scale."""
    x = call.inputs[0]
    need_bytes(call.out)
    (name,), images = g.aligned([x], x.rank)
    out, zero = units(call.out)
    if x.dtype == "f32":
        steps = g.node("Div", [name, g.number(out, "f32")])
        away = g.node("Floor", [g.node("Add", [g.node("Abs", [steps]), g.number(0.5, "f32")])])
        away = g.node("Clip", [g.node("Mul", [g.node("Sign", [steps]), away]), g.number(-1e6, "f32"), g.number(1e6, "f32")])
        name = g.node("Cast", [away], to=6)
    else:
        need_bytes(x)
        scale, own = units(x)
        name = rescaled(g, _centred(g, name, own), np.float64(scale) / np.float64(out), _FARTHEST)
    g.give(call.out, stored(g, name, zero, (_LEAST, _MOST)), images)
