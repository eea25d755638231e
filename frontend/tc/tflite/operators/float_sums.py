"""Sums of two quantised operands by floats that round to the same integers as TensorFlow Lite's fixed point.

The reference kernels bring both operands and their sum to another scale in fixed point, by three products of 64 bits. Operands are bytes, so that all
65,536 pairs of them can be tried while importing: factors are looked for with which round(a * ca + b * cb) is the same integer for each
pair. The pairs that decide lie so near a tie that a float32 may round to either side; factors a few units in the last place apart move these.
"""

import itertools

import numpy as np

_BYTES = np.arange(-128, 128)
_FARTHEST = 8   # units in the last place from the nearest float32


def _neighbours(real):
    """The float32 nearest to a number and those beside it, with how many units in the last place they are apart."""
    found = [(0, np.float32(real))]
    for end in (np.float32(np.inf), np.float32(-np.inf)):
        each = np.float32(real)
        for distance in range(1, _FARTHEST + 1):
            each = np.nextafter(each, end)
            found.append((distance, each))
    return found


def _fused(x, factor, added):
    """x * factor + added in float32, rounded once: float64 holds the product of a byte's and a factor's bits and what float32 keeps of the sum."""
    return (x.astype(np.float64) * np.float64(factor) + added.astype(np.float64)).astype(np.float32)


def _sums(a, b, ca, cb):
    """What targets may make of the sum: each product rounded, or either one fused with the addition."""
    first, second = a * ca, b * cb
    return first + second, _fused(a, ca, second), _fused(b, cb, first)


def factors(real_a, zero_a, real_b, zero_b, wanted, limits):
    """(ca, cb) for operands a and b, bytes less their zero points, near two real numbers; or None where none of those tried does it for all pairs.
    `wanted` gives the integers of a column of a and a row of b; beyond the limits, which the result is cut at, they need not be the same."""
    a, b = (_BYTES - zero_a)[:, None], (_BYTES - zero_b)[None, :]
    expected = np.clip(wanted(a, b), *limits)
    a, b = a.astype(np.float32), b.astype(np.float32)
    pairs = sorted(itertools.product(_neighbours(real_a), _neighbours(real_b)), key=lambda pair: pair[0][0] + pair[1][0])
    for (_, ca), (_, cb) in pairs:
        if all(np.array_equal(np.clip(np.rint(found), *limits), expected) for found in _sums(a, b, ca, cb)):
            return ca, cb
    return None
