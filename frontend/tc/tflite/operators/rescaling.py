"""Sums of integers brought to the scale of a result, bit for bit as TensorFlow Lite's reference
kernels do it: by a multiplier of 31 bits and a power of two.

Fully connected layers round the product of 64 bits once, halves away from 0. All others round in
two steps: first the doubled product to its upper 32 bits, halves up, then the division by the power
of two, halves away from 0. Here the product has 64 bits, and the steps after it have 32 wherever
that is enough.
"""

import math

import numpy as np

from ..describe import NUMPY_TYPES, ONNX_NUMBERS, Refusal


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
    """i32: an i32 times real numbers. The magnitude of the i32 is at most `most`, which is one
    number or one per factor, or a pair: the least and the largest i32 of each factor. `reals` is
    one number or a list that broadcasts in `shape`. The result is rounded once ("once") or in two
    steps ("steps"). With "positive", results below 0 need not be right, only at most 0.

    Shifts are arithmetic: adding half of what they drop rounds halves up. For negative numbers one
    less is added, so that halves are rounded away from 0."""
    found = [multiplier_of(real) for real in np.atleast_1d(reals)]
    return multiplied(g, name, found, most, shape, rounding)


def multiplied(g, name, found, most, shape=(), rounding="steps"):
    """Like `rescaled`, with multipliers as `multiplier_of` returns them."""

    def constant(numbers, dtype):
        numbers = np.array(numbers, NUMPY_TYPES[dtype])
        return g.constant(
            numbers[0].reshape(()) if np.all(numbers == numbers[0]) else numbers.reshape(shape)
        )

    def narrow(value, largest):
        if largest >= 1 << 31:
            value = g.node(
                "Min",
                [
                    g.node("Max", [value, g.number(-(1 << 31), "i64")]),
                    g.number((1 << 31) - 1, "i64"),
                ],
            )
        return g.node("Cast", [value], to=ONNX_NUMBERS["i32"])

    between = most if isinstance(most, tuple) else None
    if between is not None:
        most = np.max(np.abs(between), 0)
    factors = [
        (*factor, each, None)
        for factor, each in zip(found, np.broadcast_to(most, len(found)).tolist())
    ]
    upper = _by_upper_half(g, name, factors, rounding, constant)
    if upper is None and between is not None and rounding != "once":
        factors = [
            factor if result is None else (0, 0, 0, result)
            for factor, result in zip(factors, _steady(found, *between))
        ]
        upper = _by_upper_half(g, name, factors, rounding, constant)
    if upper is not None:
        return upper
    most = int(np.max(most))
    largest = max(most * (integer << max(exponent, 0)) for integer, exponent in found) >> 31
    value = g.node("Cast", [name], to=ONNX_NUMBERS["i64"])
    # Where both shifts drop bits, rounding once means adding half before the second shift only; the
    # first one truncates.
    cut_first = rounding == "once" and all(exponent < 0 for _, exponent in found)
    if rounding == "once" and not cut_first:
        shifts = [31 - exponent for _, exponent in found]
        value = g.node("Mul", [value, constant([integer for integer, _ in found], "i64")])
        value = g.node("Add", [value, constant([1 << shift >> 1 for shift in shifts], "i64")])
        return narrow(
            g.node("BitShift", [value, constant(shifts, "i64")], direction="RIGHT"), largest + 1
        )
    value = g.node(
        "Mul",
        [value, constant([integer << max(exponent, 0) for integer, exponent in found], "i64")],
    )
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
            sign = g.node(
                "BitShift", [high, g.number(31 if dtype == "i32" else 63, dtype)], direction="RIGHT"
            )
            if not all(shifts):
                sign = g.node("Mul", [sign, constant([int(shift > 0) for shift in shifts], dtype)])
            half = g.node("Add", [half, sign])
        high = g.node("BitShift", [half, constant(shifts, dtype)], direction="RIGHT")
    return high if dtype == "i32" else narrow(high, largest + 1)


def _moves(shifts, most, rounding):
    """(bits by which each operand is shifted left, bits by which the upper half of its product is
    shifted right) for _by_upper_half, or None where 32 bits are not enough. One distance to the
    right for all is preferred, because it can be an immediate operand of the instruction."""
    least = [max(0, 2 - shift) if rounding == "once" else 2 for shift in shifts]
    last = [shift + ahead - 1 for shift, ahead in zip(shifts, least)]
    if min(last) < 1:
        return None
    for ends_at in ([max(last)] * len(shifts), last):
        ahead = [end + 1 - shift for end, shift in zip(ends_at, shifts)]
        # The upper half is less than half of the shifted operand; each rounding constant is at most
        # 1 << end.
        if (
            max(ends_at) <= 28
            and max(largest << bits for largest, bits in zip(most, ahead)) < 1 << 30
        ):
            return ahead, ends_at
    return None


def results_between(found, least, largest):
    """For each factor the results, rounded in two steps, of the least and of the largest number;
    those of numbers between them are between these."""

    def result(x, integer, exponent):
        high = (int(x) * (integer << max(exponent, 0)) + (1 << 30)) >> 31
        shift = max(-exponent, 0)
        return (high + (1 << shift >> 1) - (high < 0)) >> shift if shift else high

    return [
        (result(low, *factor), result(high, *factor))
        for low, high, factor in zip(least, largest, found)
    ]


def _steady(found, least, largest):
    """For each factor the result that all numbers from `least` to `largest` have, or None. Channels
    that are never active have scales so small, and constants so large, that their sums change
    nothing."""
    return [low if low == high else None for low, high in results_between(found, least, largest)]


def _by_upper_half(g, name, factors, rounding, constant):
    """The result of `rescaled`, computed from a product's upper 32 bits alone, for which most
    targets have a vector instruction; None where 32 bits are not enough.

    The operand is first shifted left so far that the dropped lower 32 bits cannot matter. The
    halves that both rounding steps add are then added to the upper half as one constant, and both
    shifts become one. The second step's correction for negative numbers uses the sign of the upper
    half, which is the operand's sign. (The only negative operand whose first step gives 0 is -1,
    for which the second step gives 0 with or without the correction.)

    Factors are (integer, exponent, largest operand, result). Where there is such a result, it is
    that of all operands: the integer is 0, and what is added is the result itself."""
    found = [(integer, exponent) for integer, exponent, _, _ in factors]
    most, steady = ([factor[i] for factor in factors] for i in (2, 3))
    shifts = [-exponent for _, exponent in found]
    # 0 times anything is 0 with every shift.
    shifts = [shift if integer else max(shifts) for shift, (integer, _) in zip(shifts, found)]
    moves = _moves(shifts, most, rounding)
    if moves is None:
        return None
    ahead, last = moves
    moved = [1 << bits if result is None else 0 for bits, result in zip(ahead, steady)]
    value = g.node("Mul", [name, constant(moved, "i32")]) if moved != [1] * len(moved) else name
    value = g.node(
        "Mul",
        [
            g.node("Cast", [value], to=ONNX_NUMBERS["i64"]),
            constant([integer for integer, _ in found], "i64"),
        ],
    )
    high = g.node(
        "Cast",
        [g.node("BitShift", [value, g.number(32, "i64")], direction="RIGHT")],
        to=ONNX_NUMBERS["i32"],
    )
    added = [1 << end >> 1 for end in last]
    if rounding != "once":
        added = [
            (1 << bits >> 2) + (half if shift else 0)
            for bits, half, shift in zip(ahead, added, shifts)
        ]
    added = [
        half if result is None else result << end for half, result, end in zip(added, steady, last)
    ]
    if max(map(abs, added)) >= 1 << 30:
        return None
    if rounding == "steps" and any(shifts):
        below = constant(
            [-(1 << bits >> 1) if shift else 0 for bits, shift in zip(ahead, shifts)], "i32"
        )
        high = g.node(
            "Add",
            [
                high,
                g.node(
                    "BitwiseAnd",
                    [g.node("BitShift", [high, g.number(31, "i32")], direction="RIGHT"), below],
                ),
            ],
        )
    return g.node(
        "BitShift",
        [g.node("Add", [high, constant(added, "i32")]), constant(last, "i32")],
        direction="RIGHT",
    )


def rescaled_long(g, name, reals, shape):
    """i32: sums of 64 bits times real numbers, with multipliers of 15 bits; rounded once, halves
    up."""
    found = [multiplier_of(real) for real in np.atleast_1d(reals)]
    short = np.array([min((integer + (1 << 15)) >> 16, 0x7FFF) for integer, _ in found], np.int64)
    shifts = np.array([15 - exponent for _, exponent in found], np.int64)

    def constant(numbers):
        return g.constant(numbers[0].reshape(()) if len(numbers) == 1 else numbers.reshape(shape))

    value = g.node(
        "Add", [g.node("Mul", [name, constant(short)]), constant(np.int64(1) << shifts >> 1)]
    )
    value = g.node("BitShift", [value, constant(shifts)], direction="RIGHT")
    value = g.node(
        "Min", [g.node("Max", [value, g.number(-(1 << 31), "i64")]), g.number((1 << 31) - 1, "i64")]
    )
    return g.node("Cast", [value], to=ONNX_NUMBERS["i32"])


def rescaled_by_double(g, name, reals):
    """i32: sums times real numbers in float64, rounded with halves away from 0."""
    real = np.array(reals)
    value = g.node(
        "Mul",
        [
            g.node("Cast", [name], to=ONNX_NUMBERS["f64"]),
            g.constant(real[0].reshape(()) if len(real) == 1 else real),
        ],
    )
    whole = g.node("Floor", [g.node("Add", [g.node("Abs", [value]), g.number(0.5, "f64")])])
    whole = g.node(
        "Clip",
        [
            g.node("Mul", [g.node("Sign", [value]), whole]),
            g.number(-(1 << 30), "f64"),
            g.number(1 << 30, "f64"),
        ],
    )
    return g.node("Cast", [whole], to=ONNX_NUMBERS["i32"])


def rescaled_numbers(x, real):
    """What `rescaled` computes in two steps, for an array of whole numbers."""
    integer, exponent = multiplier_of(real)
    high = (x.astype(np.int64) * (integer << max(exponent, 0)) + (1 << 30)) >> 31
    shift = max(-exponent, 0)
    return (high + (1 << shift >> 1) + (high >> 63)) >> shift if shift else high
