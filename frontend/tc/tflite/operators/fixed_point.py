"""The logistic function and tanh of numbers of 16 bits in fixed point, as the kernels of integer LSTMs compute them: all 65,536 results at once.

A number has so many bits before its point ("integer bits"), a sign, and the rest behind it: raw / 2 ** (15 - integer bits). Products round
to 16 bits, 1 is 32767 where no bits are before the point. The exponential of a number below 0 is a polynomial around -1/8 of what is left
of it by quarters, times the exponentials of those powers of two of which the quarters consist; 1 / (1 + x) is three steps of Newton's
method.
"""

import numpy as np

_ONE = 32767
# exp(-2 ** n) for n = -2, -1, 0 …, in units of 2 ** -31.
_POWERS = [(-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242)]


def _constant(raw):
    """A constant of 32 bits in 16."""
    return _divided(np.int64(raw), 16)


def _short(values):
    return np.clip(values, -32768, 32767)


def _divided(values, shift):
    """By a power of two, halves away from 0."""
    return (values + (1 << shift >> 1) - (values < 0)) >> shift


def _product(a, b):
    """Of two numbers in 16 bits, the upper half of the doubled product."""
    return np.minimum((a * b + (1 << 14)) >> 15, 32767)


def _exponential_near_0(a):
    """exp(a) for a from -1/4 to 0 without bits before the point."""
    x = a + (1 << 12)
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    rest = _divided(_product(_divided(fourth, 2) + cube, _constant(715827883)) + square, 1)
    term = _constant(1895147668)
    return _short(term + _product(term, x + rest))


def _exponential(a, integer_bits):
    """exp(a) for a up to 0, without bits before the point."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    part = (a & (quarter - 1)) - quarter
    result = _exponential_near_0(_short(part << integer_bits))
    quarters = part - a
    for exponent, factor in _POWERS:
        if integer_bits > exponent:
            result = np.where(quarters & (1 << (fraction + exponent)), _product(result, _constant(factor)), result)
    if integer_bits > 5:
        result = np.where(a < -(32 << fraction), 0, result)
    return np.where(a == 0, _ONE, result)


def _newton(a):
    """2 / (1 + a), with two bits before the point, for a from 0 to 1."""
    half = (a + _ONE + 1) >> 1
    x = _constant(1515870810) + _product(half, _constant(-1010580540))
    for _ in range(3):
        x = x + _short(_product(x, (1 << 13) - _product(half, x)) << 2)
    return x


def logistic_table():
    """The logistic function of every number of 16 bits, from the least on, with 3 bits before the point; the results have none."""
    a = np.arange(-32768, 32768, dtype=np.int64)
    positive = _short(_newton(_exponential(-np.abs(a), 3)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, _ONE - positive)).astype(np.int16)


def tanh_table(integer_bits):
    """Likewise tanh, with so many bits before the point."""
    a = np.arange(-32768, 32768, dtype=np.int64)
    magnitude = _short((_newton(_exponential(-np.abs(a), integer_bits + 1)) - (1 << 13)) << 2)
    return np.where(a == 0, 0, np.where(a > 0, magnitude, -magnitude)).astype(np.int16)
