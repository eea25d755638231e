"""Elementwise special functions for which ONNX has no operator, composed of others.

Half types are computed in float32, which is precise enough for the coefficients.
"""

import math

import torch

from ..describe import Value
from .table import aten


def _computed(g, self, describe):
    """`describe(g, x, dtype)` applied to the operand, which is cast to float32 or float64; the
    result is cast back."""
    dtype = torch.float64 if g.out.dtype == torch.float64 else torch.float32
    return g.cast(describe(g, g.cast(self, dtype), dtype), g.out.dtype, dtype)


def _polynomial(g, x, dtype, coefficients):
    """A polynomial of x; the coefficients begin with the constant one."""
    result = g.constant(coefficients[-1], dtype)
    for coefficient in reversed(coefficients[:-1]):
        result = g.node("Add", [g.node("Mul", [result, x]), g.constant(coefficient, dtype)])
    return result


# --- erfinv ---------------------------------------------------------------------------------------

# Giles, "Approximating the erfinv function" (2010): erfinv(x) / x as a polynomial of w = -log(1 -
# x^2) around 2.5, and of sqrt(w) around 3.
_GILES_MIDDLE = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
_GILES_TAIL = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)
# PyTorch's first approximation in float64: quotients of polynomials of x^2, and of sqrt(-log((1 -
# |x|) / 2)).
_GUESS_MIDDLE = (
    (0.886226899, -1.645349621, 0.914624893, -0.140543331),
    (1, -2.118377725, 1.442710462, -0.329097515, 0.012229801),
)
_GUESS_TAIL = (-1.970840454, -1.624906493, 3.429567803, 1.641345311), (1, 3.543889200, 1.637067800)


@aten("erfinv", "special_erfinv", ops="Log, Sqrt, Mul, Add, Where")
def erfinv(g, self):
    return _computed(g, self, _erfinv)


def _erfinv(g, x, dtype):
    one, size = g.constant(1, dtype), g.node("Abs", [x])
    result = (_erfinv_by_steps if dtype == torch.float64 else _erfinv_by_series)(g, x, dtype)
    ends = g.node("Mul", [x, g.constant(math.inf, dtype)])
    return g.node("Where", [g.node("Equal", [size, one]), ends, result])


def _erfinv_by_series(g, x, dtype):
    one = g.constant(1, dtype)
    w = g.node(
        "Neg", [g.node("Log", [g.node("Mul", [g.node("Sub", [one, x]), g.node("Add", [one, x])])])]
    )
    middle = _polynomial(g, g.node("Sub", [w, g.constant(2.5, dtype)]), dtype, _GILES_MIDDLE)
    tail = _polynomial(
        g, g.node("Sub", [g.node("Sqrt", [w]), g.constant(3, dtype)]), dtype, _GILES_TAIL
    )
    return g.node(
        "Mul", [g.node("Where", [g.node("Less", [w, g.constant(5, dtype)]), middle, tail]), x]
    )


def _erfinv_by_steps(g, x, dtype):
    """An approximation with seven digits, improved by two steps of Newton's method."""
    size, one = g.node("Abs", [x]), g.constant(1, dtype)

    def quotient(of, parts):
        return g.node("Div", [_polynomial(g, of, dtype, part) for part in parts])

    middle = g.node("Mul", [x, quotient(g.node("Mul", [x, x]), _GUESS_MIDDLE)])
    rest = g.node("Log", [g.node("Mul", [g.node("Sub", [one, size]), g.constant(0.5, dtype)])])
    tail = quotient(g.node("Sqrt", [g.node("Neg", [rest])]), _GUESS_TAIL)
    result = g.node(
        "Where",
        [
            g.node("LessOrEqual", [size, g.constant(0.7, dtype)]),
            middle,
            g.node("Mul", [g.node("Sign", [x]), tail]),
        ],
    )
    for _ in range(2):
        slope = g.node(
            "Mul",
            [
                g.constant(2 / math.sqrt(math.pi), dtype),
                g.node("Exp", [g.node("Neg", [g.node("Mul", [result, result])])]),
            ],
        )
        result = g.node(
            "Sub", [result, g.node("Div", [g.node("Sub", [g.node("Erf", [result]), x]), slope])]
        )
    return result


# --- lgamma ---------------------------------------------------------------------------------------

# For arguments from 1 to 2: Chebyshev series of lgamma(1 + t) / (t (t - 1)) in s = 2 t - 1, with
# relative errors of 6e-10 and 1e-18.
_LGAMMA_32 = (
    0.483128950495983,
    -0.0729799510504546,
    0.015727853479238753,
    -0.00391349979280726,
    0.0010497816773023122,
    -0.0002948871806554151,
    8.525577522215422e-05,
    -2.434717637839731e-05,
    7.22187185157695e-06,
    -2.9794039552436527e-06,
    9.36653023804758e-07,
)
_LGAMMA_64 = (
    0.4831289505409809,
    -0.07297994795715304,
    0.015727850268641094,
    -0.003913560937626182,
    0.0010498186644547402,
    -0.0002945507015196472,
    8.510090373499432e-05,
    -2.5094328668947195e-05,
    7.511391855641883e-06,
    -2.2742474102383936e-06,
    6.948428064186312e-07,
    -2.1386323384115519e-07,
    6.623878077265301e-08,
    -2.0621027431854287e-08,
    6.430260727636965e-09,
    -2.016947955623982e-09,
    6.566403819263112e-10,
    -2.0874620693971093e-10,
    5.0258222095609345e-11,
    -1.5395748006420787e-11,
    1.1586115295157278e-11,
    -3.803618166622364e-12,
)
# Stirling's series: coefficients B(2k) / (2k (2k - 1)) of powers of 1 / x^2. From x = 8 on, terms
# that are left out are too small for the type.
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
    43867 / 244188,
    -174611 / 125400,
)
_STIRLING_FROM = 8


@aten("lgamma", "special_gammaln", ops="Log, Sin, Mul, Add, Where")
def lgamma(g, self):
    return _computed(g, self, _lgamma)


def _lgamma(g, x, dtype):
    """For negative numbers the reflection is used: log(pi / |sin(pi x)|) - lgamma(1 - x)."""
    zero, one = g.constant(0, dtype), g.constant(1, dtype)
    negative = g.node("Less", [x, zero])
    size = g.node("Abs", [x])
    positive = _lgamma_positive(g, size, dtype)
    apart = g.node("Sub", [size, g.node("Round", [size])])
    wave = g.node("Abs", [g.node("Sin", [g.node("Mul", [apart, g.constant(math.pi, dtype)])])])
    # lgamma(1 - x) is lgamma(-x) + log(-x).
    product = g.node("Where", [negative, g.node("Mul", [wave, size]), one])
    reflected = g.node(
        "Sub",
        [g.constant(math.log(math.pi), dtype), g.node("Add", [g.node("Log", [product]), positive])],
    )
    whole = g.node("And", [negative, g.node("Equal", [apart, zero])])
    result = g.node("Where", [negative, reflected, positive])
    # Also infinite for -inf, and for numbers so large that all are whole.
    return g.node(
        "Where", [g.node("Or", [whole, g.node("IsInf", [x])]), g.constant(math.inf, dtype), result]
    )


def _lgamma_positive(g, x, dtype):
    one, two = g.constant(1, dtype), g.constant(2, dtype)
    # Moves x to the range from 1 to 2 and collects the factor: a step down divides, a step up
    # multiplies.
    place, factor = x, one
    for _ in range(_STIRLING_FROM - 2):
        above = g.node("Greater", [place, two])
        lower = g.node("Sub", [place, one])
        factor = g.node("Where", [above, g.node("Mul", [factor, lower]), factor])
        place = g.node("Where", [above, lower, place])
    below = g.node("Less", [x, one])
    place = g.node("Where", [below, g.node("Add", [x, one]), place])
    t = g.node("Sub", [place, one])
    s = g.node("Sub", [g.node("Mul", [t, two]), one])
    series = _polynomial(g, s, dtype, _LGAMMA_64 if dtype == torch.float64 else _LGAMMA_32)
    series = g.node("Mul", [g.node("Mul", [t, g.node("Sub", [t, one])]), series])
    steps = g.node("Log", [g.node("Where", [below, x, factor])])
    near = g.node("Where", [below, g.node("Sub", [series, steps]), g.node("Add", [series, steps])])
    return g.node(
        "Where",
        [g.node("Less", [x, g.constant(_STIRLING_FROM, dtype)]), near, _stirling(g, x, dtype)],
    )


def _stirling(g, x, dtype):
    half = g.constant(0.5, dtype)
    inverse = g.node("Reciprocal", [g.node("Max", [x, g.constant(_STIRLING_FROM, dtype)])])
    rest = g.node(
        "Mul",
        [
            inverse,
            _polynomial(
                g,
                g.node("Mul", [inverse, inverse]),
                dtype,
                _STIRLING[: 10 if dtype == torch.float64 else 4],
            ),
        ],
    )
    main = g.node(
        "Mul", [g.node("Sub", [x, half]), g.node("Sub", [g.node("Log", [x]), g.constant(1, dtype)])]
    )
    return g.node(
        "Add", [main, g.node("Add", [rest, g.constant(0.5 * math.log(2 * math.pi) - 0.5, dtype)])]
    )


@aten("mvlgamma", ops="Log, Sin, Mul, Add, Where")
def mvlgamma(g, self, p):
    dtype, total = g.out.dtype, g.constant(p * (p - 1) / 4 * math.log(math.pi), g.out.dtype)
    for number in range(p):
        moved = g.node("Sub", [g.cast(self, dtype), g.constant(number / 2, dtype)])
        total = g.node("Add", [total, lgamma(g, Value(moved, g.out))])
    return total
