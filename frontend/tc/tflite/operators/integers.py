"""Integers with a scale, real = scale * (integer - zero point): limits of their types, fused
activations, and functions of one integer by tables."""

import numpy as np

from ..describe import NUMPY_TYPES, ONNX_NUMBERS, Refusal

ENDS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767)}
BYTES = ("i8", "u8")


def is_quantised(value):
    return value.dtype in ENDS and value.tensor.quantisation is not None


def units(value):
    """(scale, zero point) of a value that has a single one of each."""
    found = value.tensor.quantisation
    if found is None or len(found.scale) != 1:
        raise Refusal(f"'{value.tensor.name}' is {value.dtype} without one scale")
    return found.scale[0], int(found.zero_point[0])


def need_integers(*values, types=tuple(ENDS)):
    """Refuses values that are not all of the same one of these types, or that have more than one
    scale. In this format, integers of 16 bits have no zero point."""
    for value in values:
        if value.dtype not in types or value.tensor.quantisation is None:
            raise Refusal(
                f"'{value.tensor.name}' is {value.dtype}{'' if value.is_quantised else ' without a scale'}; "
                f"{' or '.join(types)} with a scale is needed here"
            )
        if value.dtype != values[0].dtype:
            raise Refusal(
                f"'{value.tensor.name}' is {value.dtype} and '{values[0].tensor.name}' {values[0].dtype}; one type is needed here"
            )
        if value.dtype == "i16" and units(value)[1]:
            raise Refusal(
                f"'{value.tensor.name}' is i16 with the zero point {units(value)[1]}; only 0 is supported"
            )
        units(value)


def zero_of(value):
    """The integer that stands for 0 in a value: operators put it around or between elements."""
    if not value.is_quantised or value.dtype not in ENDS:
        return 0
    zero, (low, high) = units(value)[1], ENDS[value.dtype]
    if not low <= zero <= high:
        raise Refusal(
            f"'{value.tensor.name}' is {value.dtype} with the zero point {zero}, which the type does not have"
        )
    return zero


def same_scale(call, values):
    """Refuses integers whose scales differ, because the operator moves or compares them
    unchanged."""
    found = [
        value.tensor.quantisation for value in values if value is not None and value.is_quantised
    ]
    for other in found[1:]:
        if not (
            np.array_equal(other.scale, found[0].scale)
            and np.array_equal(other.zero_point, found[0].zero_point)
        ):
            raise Refusal("its operands and results have different scales")


def need_same_units(value, other):
    """For operators that put integers of one value among those of another: refuses them where equal
    integers stand for different numbers. A value without a scale fits only one without a scale."""

    def stands_for(each):
        found = each.tensor.quantisation if each.is_quantised else None
        return None if found is None else (found.scale.tolist(), found.zero_point.tolist())

    if value.dtype != other.dtype or stands_for(value) != stands_for(other):
        raise Refusal(
            f"'{value.tensor.name}' and '{other.tensor.name}' have different types or scales"
        )


def farthest(value):
    """The largest distance of an integer from its zero point."""
    return 255 if value.dtype in BYTES else 32768


# Limits of clamping activations, as real numbers.
CLAMPS = {
    "NONE": (None, None),
    "RELU": (0, None),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
    "RELU_0_TO_1": (0, 1),
}


def ends(call, value, activation=None):
    """The smallest and the largest integer that an activation allows; by default the fused one."""
    activation = call.activation if activation is None else activation
    (scale, zero), (least, most) = units(value), ENDS[value.dtype]
    if activation not in CLAMPS:
        raise Refusal(f"the fused activation {activation} is not supported")
    low, high = CLAMPS[activation]

    def integer(real):
        quotient = np.float32(real) / scale
        return zero + int(np.copysign(np.floor(np.abs(quotient) + np.float32(0.5)), quotient))

    return (least if low is None else max(least, integer(low))), (
        most if high is None else min(most, integer(high))
    )


def stored(g, name, value, limits=None, zero=None):
    """Integers of a result's type: an i32 with the zero point added, within limits."""
    low, high = ENDS[value.dtype] if limits is None else limits
    zero = units(value)[1] if zero is None else zero
    name = g.node(
        "Min", [g.node("Max", [name, g.number(low - zero, "i32")]), g.number(high - zero, "i32")]
    )
    name = g.node("Add", [name, g.number(zero, "i32")]) if zero else name
    return g.node("Cast", [name], to=ONNX_NUMBERS[value.dtype])


def centred(g, name, value):
    """i32: integers minus their zero point."""
    whole, zero = g.node("Cast", [name], to=ONNX_NUMBERS["i32"]), units(value)[1]
    return g.node("Sub", [whole, g.number(zero, "i32")]) if zero else whole


def clamped(g, name, value, limits):
    """Integers of the value's type within limits."""
    least, most = ENDS[value.dtype]
    name = g.node("Max", [name, g.number(limits[0], value.dtype)]) if limits[0] > least else name
    return g.node("Min", [name, g.number(limits[1], value.dtype)]) if limits[1] < most else name


def every_integer(value):
    """All integers of a type of 8 bits, in the order of a table's entries."""
    least, most = ENDS[value.dtype]
    return np.arange(least, most + 1, dtype=np.int64)


def by_table(g, call, results):
    """Sets the result by looking up each integer of 8 bits in a table; `results` are those for
    `every_integer`."""
    x, out = call.inputs[0], call.out
    table = np.clip(results, *ENDS[out.dtype]).astype(NUMPY_TYPES[out.dtype])
    (name,), images = g.aligned([x], x.rank)
    place, least = g.node("Cast", [name], to=ONNX_NUMBERS["i32"]), ENDS[x.dtype][0]
    place = g.node("Add", [place, g.number(-least, "i32")]) if least else place
    g.give(out, g.node("Gather", [g.constant(table), place], axis=0), images)
