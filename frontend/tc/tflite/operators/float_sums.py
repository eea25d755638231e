"""Sums of two quantised operands by floats that round to the same integers as TensorFlow Lite's
fixed point.

The reference kernels bring both operands and their sum to another scale in fixed point, by three
products of 64 bits. Since operands are bytes, all 65,536 pairs can be tried while importing, to
find factors ca and cb with which round(a * ca + b * cb) is the same integer for each pair. The
critical pairs are so near a tie that float32 may round them either way; changing factors by a few
units in the last place changes which way.
"""

import itertools

import numpy as np

_BYTES = np.arange(-128, 128)
_FARTHEST = 8  # units in the last place that a factor may differ from the nearest float32


def _neighbours(real):
    """The float32 nearest to a number and its neighbours, each with its distance in units in the
    last place."""
    found = [(0, np.float32(real))]
    for end in (np.float32(np.inf), np.float32(-np.inf)):
        each = np.float32(real)
        for distance in range(1, _FARTHEST + 1):
            each = np.nextafter(each, end)
            found.append((distance, each))
    return found


def _fused(x, factor, added):
    """x * factor + added in float32 with one rounding: float64 is exact for the product of a byte
    and a factor, and has more bits than the float32 sum."""
    return (x.astype(np.float64) * np.float64(factor) + added.astype(np.float64)).astype(np.float32)


def _sums(a, b, ca, cb):
    """The results that targets may compute for the sum: with both products rounded, or with either
    one fused with the addition."""
    first, second = a * ca, b * cb
    return first + second, _fused(a, ca, second), _fused(b, cb, first)


def factors(real_a, zero_a, real_b, zero_b, wanted, limits):
    """Factors (ca, cb), near two real numbers, for operands a and b (bytes minus their zero
    points); None where none that were tried are right for all pairs. `wanted` gives the integers
    for a column of a and a row of b; beyond `limits`, to which the result is clamped, they need not
    be equal."""
    a, b = (_BYTES - zero_a)[:, None], (_BYTES - zero_b)[None, :]
    expected = np.clip(wanted(a, b), *limits)
    a, b = a.astype(np.float32), b.astype(np.float32)
    pairs = sorted(
        itertools.product(_neighbours(real_a), _neighbours(real_b)),
        key=lambda pair: pair[0][0] + pair[1][0],
    )
    for (_, ca), (_, cb) in pairs:
        if all(
            np.array_equal(np.clip(np.rint(found), *limits), expected)
            for found in _sums(a, b, ca, cb)
        ):
            return ca, cb
    return None
