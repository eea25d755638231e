"""Functions of one integer of 16 bits, bit for bit as TensorFlow Lite's reference kernels compute
them: by tables with linear interpolation."""

import math

import numpy as np

from ..describe import ONNX_NUMBERS, Refusal
from .integers import ENDS, need_integers, units
from .rescaling import rescaled

# The kernels' table has the logistic function at i / 24 in units of 1 / 65536. At these indices its
# entry is the nearest integer plus one.
_ABOVE_NEAREST = (
    4,
    8,
    12,
    14,
    15,
    16,
    17,
    19,
    20,
    21,
    22,
    25,
    27,
    28,
    29,
    30,
    31,
    33,
    34,
    35,
    37,
    39,
    40,
    41,
    43,
    44,
    45,
    46,
    49,
    50,
    54,
    62,
    63,
    64,
    66,
    82,
    86,
    93,
    100,
    103,
    112,
    116,
    135,
    255,
)
_PLACES = 256


def _logistic_table():
    """(values, differences to the next value) of the logistic function, which is constant after the
    last entry but one."""
    values = np.floor(65536 / (1 + np.exp(-np.arange(_PLACES) / 24)) + 0.5).astype(np.int64)
    values[list(_ABOVE_NEAREST)] += 1
    return values, np.append(np.diff(values), 0)


def _symmetric(call, result_scale, most_shift):
    """(multiplier, shift), whole numbers that bring the operand to units of 1 / 12288."""
    x, out = call.inputs[0], call.out
    need_integers(x, out, types=("i16",))
    if units(out) != (np.float32(result_scale), 0):
        raise Refusal(
            f"its result has the scale {float(units(out)[0]):g}; of i16 it is {result_scale:g}"
        )
    scale = units(x)[0]
    fraction, exponent = math.frexp(float(scale))
    shift = 12 + exponent - 1
    if fraction == 0.5 and 0 <= shift <= most_shift:
        return 3 << shift, 0
    multiplier, shift = float(scale) * 4096 * 3, 0
    while multiplier <= 32767 / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    if multiplier >= 1 << 16:
        raise Refusal(
            f"the scale {float(scale):g} of '{x.tensor.name}' is too large for this function of i16"
        )
    return int(multiplier), shift


def _interpolated(g, call, moved, bits, saturated):
    """(i32 values of the logistic function of the operand's magnitude, i32: whether the operand is
    at least 0). The `bits` lower bits of the magnitude interpolate between entries of the table."""
    multiplier, shift = moved
    (name,), images = g.aligned(call.inputs[:1], call.inputs[0].rank)
    value = g.node(
        "Mul", [g.node("Cast", [name], to=ONNX_NUMBERS["i32"]), g.number(multiplier, "i32")]
    )
    if shift:
        value = g.node(
            "BitShift",
            [g.node("Add", [value, g.number(1 << shift >> 1, "i32")]), g.number(shift, "i32")],
            direction="RIGHT",
        )
    magnitude = g.node("Abs", [value])
    place = g.node(
        "Min",
        [
            g.node("BitShift", [magnitude, g.number(bits, "i32")], direction="RIGHT"),
            g.number(_PLACES - 1, "i32"),
        ],
    )
    values, differences = _logistic_table()
    values[-1] = saturated
    differences[-1] = 0
    behind = g.node("BitwiseAnd", [magnitude, g.number((1 << bits) - 1, "i32")])
    base = g.node(
        "Mul",
        [
            g.node("Gather", [g.constant(values.astype(np.int32)), place]),
            g.number(1 << bits, "i32"),
        ],
    )
    slope = g.node(
        "Mul", [g.node("Gather", [g.constant(differences.astype(np.int32)), place]), behind]
    )
    return (
        g.node("Add", [base, slope]),
        g.node("GreaterOrEqual", [value, g.number(0, "i32")]),
        images,
    )


def _mirrored(g, call, results, added, shift):
    """Sets the result: `results`, or their mirror image for operands below 0, shifted right by
    `shift` bits; `added` are the constants that are added in the two cases."""
    values, positive, images = results
    above = g.node("Add", [values, g.number(added[0], "i32")])
    below = g.node("Sub", [g.number(added[1], "i32"), values])
    name = g.node(
        "BitShift",
        [g.node("Where", [positive, above, below]), g.number(shift, "i32")],
        direction="RIGHT",
    )
    g.give(call.out, g.node("Cast", [name], to=ONNX_NUMBERS["i16"]), images)


def logistic(g, call):
    results = _interpolated(g, call, _symmetric(call, 1 / 32768, 0), 9, 65534)
    _mirrored(g, call, results, (1 << 9, (1 << 25) + (1 << 9) - 1), 10)


def tanh(g, call):
    """2 * logistic(2 * x) - 1"""
    results = _interpolated(g, call, _symmetric(call, 1 / 32768, 1), 8, 65535)
    _mirrored(g, call, results, (128 - (1 << 23), (1 << 23) + 127), 8)


def _rounded(values):
    return np.copysign(np.floor(np.abs(values) + values.dtype.type(0.5)), values)


def table_of(function, operand, result):
    """A table of 513 values of a function, equally spaced over all integers of 16 bits and in the
    result's units. Entries are adjusted so that interpolation is most accurate in the middle
    between two of them. `operand` and `result` are (scale, zero point); the type of these floats is
    that of the arithmetic."""
    kind = type(operand[0])
    least, most = (kind(end) for end in ENDS["i16"])

    def span(units_of):
        return [units_of[0] * (end - kind(units_of[1])) for end in (least, most)]

    (first, last), (low, high) = span(operand), span(result)
    step = (last - first) / kind(512)
    inverse = kind(1 << 16) / (high - low)
    places = np.arange(513, dtype=kind)
    with np.errstate(over="ignore"):
        values = function(first + places[:-1] * step).astype(kind)
        between = function(first + places[:-1] * step + step / kind(2)).astype(kind)
        following = function(first + places[1:] * step).astype(kind)
    with np.errstate(all="ignore"):
        whole = _rounded(values * inverse)
        middle = _rounded((following * inverse + whole) / kind(2))
        bias = _rounded((middle - _rounded(between * inverse)) / kind(2))
        end = _rounded(function(np.array([last])).astype(kind) * inverse)
        return np.clip(np.nan_to_num(np.append(whole - bias, end), nan=0), least, most).astype(
            np.int64
        )


def looked_up(g, name, table):
    """i32: values from a table of 513 entries for an i32 that holds 16 bits, interpolated by its 7
    lower bits."""
    place = g.node(
        "Add",
        [g.node("BitShift", [name, g.number(7, "i32")], direction="RIGHT"), g.number(256, "i32")],
    )
    behind = g.node("BitwiseAnd", [name, g.number(127, "i32")])
    base = g.node("Gather", [g.constant(table[:-1].astype(np.int32)), place])
    # As in the kernels, differences are kept in 16 bits, also where the function jumps by more than
    # half of all integers.
    differences = np.diff(table).astype(np.int16).astype(np.int32)
    slope = g.node("Mul", [g.node("Gather", [g.constant(differences), place]), behind])
    slope = g.node(
        "BitShift",
        [g.node("Add", [slope, g.number(64, "i32")]), g.number(7, "i32")],
        direction="RIGHT",
    )
    return g.node("Add", [base, slope])


def by_table(g, call, function):
    """Applies a function of floats by a table; `function` takes an array and the smallest float
    that the result can represent."""
    x, out = call.inputs[0], call.out
    need_integers(x, out, types=("i16",))
    least = np.float64(np.float32(ENDS["i16"][0]) * units(out)[0])
    table = table_of(lambda reals: function(reals.astype(np.float64), least), units(x), units(out))
    (name,), images = g.aligned([x], x.rank)
    name = looked_up(g, g.node("Cast", [name], to=ONNX_NUMBERS["i32"]), table)
    g.give(out, g.node("Cast", [name], to=ONNX_NUMBERS["i16"]), images)


_LONGEST_ROW = 60000  # sums of exponentials in units of 1 / 32767 have to fit in 32 bits


def softmax(g, call, beta):
    """Uses a table of exponentials down to exp(-10), and one of 1 / (1 + x), for which their sum is
    written as a number from 1 to 2 times a power of two."""
    x, out = call.inputs[0], call.out
    need_integers(x, out, types=("i16",))
    if x.shape[-1] > _LONGEST_ROW:
        raise Refusal(
            f"softmax of {x.shape[-1]} integers in a row is not supported; at most {_LONGEST_ROW} are"
        )
    unit = np.float64(65535)
    exponentials = table_of(np.exp, (10 / unit, 32767), (2 / unit, 0))
    reciprocals = table_of(lambda values: 1 / (1 + values), (1 / unit, -32768), (2 / unit, 0))
    whole = g.node("Cast", [g.plain(x)], to=ONNX_NUMBERS["i32"])
    below = g.node("Sub", [whole, g.node("ReduceMax", [whole, g.ints([-1])], keepdims=1)])
    below = rescaled(g, below, np.float64(units(x)[0] * np.float32(beta)) / (10 / unit), 65535)
    powers = looked_up(g, _short(g, g.node("Add", [below, g.number(32767, "i32")])), exponentials)
    total = g.node("ReduceSum", [powers, g.ints([-1])], keepdims=1)
    # The number of bits of the sum. Shifts by it, which are known only in a run, become products,
    # or shifts by one number per row.
    bits = g.node(
        "Cast",
        [
            g.node(
                "GreaterOrEqual", [total, g.constant(np.int32(1) << np.arange(31, dtype=np.int32))]
            )
        ],
        to=ONNX_NUMBERS["i64"],
    )
    bits = g.node("ReduceSum", [bits, g.ints([-1])], keepdims=1)
    doubled = g.constant(np.int64(1) << np.arange(32, dtype=np.int64))
    wide = g.node(
        "Mul",
        [
            g.node("Cast", [total], to=ONNX_NUMBERS["i64"]),
            g.node("Gather", [doubled, g.node("Sub", [g.number(31, "i64"), bits])]),
        ],
    )
    wide = g.node(
        "BitShift",
        [g.node("Add", [wide, g.number(1 << 13, "i64")]), g.number(14, "i64")],
        direction="RIGHT",
    )
    wide = g.node(
        "Cast",
        [g.node("Sub", [wide, g.number((1 << 15) + (1 << 16), "i64")])],
        to=ONNX_NUMBERS["i32"],
    )
    factor = g.node("Cast", [looked_up(g, _short(g, wide), reciprocals)], to=ONNX_NUMBERS["i64"])
    shift = g.node("Sub", [bits, g.number(1, "i64")])
    half = g.node("Gather", [doubled, g.node("Sub", [shift, g.number(1, "i64")])])
    result = g.node(
        "Add", [g.node("Mul", [g.node("Cast", [powers], to=ONNX_NUMBERS["i64"]), factor]), half]
    )
    result = g.node("BitShift", [result, shift], direction="RIGHT")
    result = g.node("Min", [g.node("Max", [result, g.number(0, "i64")]), g.number(32767, "i64")])
    g.give(out, g.node("Cast", [result], to=ONNX_NUMBERS["i16"]))


def _short(g, name):
    return g.node("Min", [g.node("Max", [name, g.number(-32768, "i32")]), g.number(32767, "i32")])
