"""Logistic function and tanh in fixed point with 16 bits, as the kernels of integer LSTMs compute
them; for all 65,536 numbers at once.

A number has a sign, so many bits before the binary point ("integer bits"), and the other bits after
it: it is raw / 2 ** (15 - integer bits). Products are rounded to 16 bits; without integer bits,
32767 stands for 1. For the exponential of a number up to 0, the number is split into a multiple of
1/4 and a remainder. The result is a polynomial of the remainder (around -1/8) times the
exponentials of the powers of two that make up the multiple. 1 / (1 + x) takes three steps of
Newton's method.
"""

import numpy as np

_ONE = 32767
# exp(-2 ** n) for n = -2, -1, 0 …, in units of 2 ** -31.
_POWERS = [
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
]


def _constant(raw):
    """A constant of 32 bits rounded to 16."""
    return _divided(np.int64(raw), 16)


def _short(values):
    return np.clip(values, -32768, 32767)


def _divided(values, shift):
    """Divided by 2 ** shift and rounded, halves away from 0."""
    return (values + (1 << shift >> 1) - (values < 0)) >> shift


def _product(a, b):
    """The product of two numbers of 16 bits: the upper half of the doubled product."""
    return np.minimum((a * b + (1 << 14)) >> 15, 32767)


def _exponential_near_0(a):
    """exp(a) for a from -1/4 to 0; operand and result have no integer bits."""
    x = a + (1 << 12)
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    rest = _divided(_product(_divided(fourth, 2) + cube, _constant(715827883)) + square, 1)
    term = _constant(1895147668)
    return _short(term + _product(term, x + rest))


def _exponential(a, integer_bits):
    """exp(a) for a up to 0; the result has no integer bits."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    part = (a & (quarter - 1)) - quarter
    result = _exponential_near_0(_short(part << integer_bits))
    quarters = part - a
    for exponent, factor in _POWERS:
        if integer_bits > exponent:
            result = np.where(
                quarters & (1 << (fraction + exponent)), _product(result, _constant(factor)), result
            )
    if integer_bits > 5:
        result = np.where(a < -(32 << fraction), 0, result)
    return np.where(a == 0, _ONE, result)


def _newton(a):
    """2 / (1 + a) for a from 0 to 1; the result has two integer bits."""
    half = (a + _ONE + 1) >> 1
    x = _constant(1515870810) + _product(half, _constant(-1010580540))
    for _ in range(3):
        x = x + _short(_product(x, (1 << 13) - _product(half, x)) << 2)
    return x


def logistic_table():
    """The logistic function of every number of 16 bits with 3 integer bits, in rising order; the
    results have none."""
    a = np.arange(-32768, 32768, dtype=np.int64)
    positive = _short(_newton(_exponential(-np.abs(a), 3)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, _ONE - positive)).astype(np.int16)


def tanh_table(integer_bits):
    """The same for tanh, of numbers with so many integer bits."""
    a = np.arange(-32768, 32768, dtype=np.int64)
    magnitude = _short((_newton(_exponential(-np.abs(a), integer_bits + 1)) - (1 << 13)) << 2)
    return np.where(a == 0, 0, np.where(a > 0, magnitude, -magnitude)).astype(np.int16)
