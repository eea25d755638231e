"""Functions of one integer with a scale, comparisons, softmax and conversions, bit for bit as
TensorFlow Lite's reference kernels compute them.

There are only 256 integers of 8 bits: the kernel's result for each is computed while importing and
becomes a table.
"""

import math

import numpy as np

from ..describe import NUMPY_TYPES, ONNX_NUMBERS, Refusal
from . import quantised_shorts
from .integers import (
    BYTES,
    ENDS,
    by_table,
    centred,
    clamped,
    ends,
    every_integer,
    farthest,
    need_integers,
    same_scale,
    stored,
    units,
)
from .rescaling import multiplier_of, rescaled, rescaled_numbers

# The largest float32 below a half. Adding it to a number of at least 0 and truncating rounds halves
# away from 0, and rounds a number just below a half to 0, as adding 0.5 would not.
BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))


def rounded(values):
    """Rounded to the nearest whole number, halves away from 0."""
    values = np.asarray(values, np.float64)
    return np.copysign(np.floor(np.abs(values) + 0.5), values).astype(np.int64)


def away_from_zero(g, name):
    """f32: the nearest whole numbers, halves away from 0."""
    away = g.node("Floor", [g.node("Add", [g.node("Abs", [name]), g.constant(BELOW_HALF)])])
    return g.node("Mul", [g.node("Sign", [name]), away])


# --- functions of one integer ---------------------------------------------------------------------


def _logarithm(x, least):
    return np.where(x > 0, np.log(np.maximum(x, np.finfo(np.float64).tiny)), least)


def _gauss(x):
    """The cumulative normal distribution at x."""
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


# Functions of the float that an integer stands for, and of the smallest float that the result can
# represent.
_BY_FLOATS = {
    "ELU": lambda x, _: np.where(x < 0, np.expm1(x), x),
    "EXP": lambda x, _: np.exp(x),
    "GELU": lambda x, _: x * _gauss(x),
    "GELU by tanh": lambda x, _: (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "LOG": _logarithm,
    "LOGISTIC": lambda x, _: 1 / (1 + np.exp(-x)),
    "TANH": lambda x, _: np.tanh(x),
}


def by_floats(g, call, name=None):
    """Applies a function to the float32 that each integer stands for: the function of the operator,
    or of `name`."""
    x, out, name = call.inputs[0], call.out, name or call.name
    if x.dtype == "i16" and name in ("LOGISTIC", "TANH"):
        (quantised_shorts.logistic if name == "LOGISTIC" else quantised_shorts.tanh)(g, call)
        return
    if x.dtype == "i16" and name != "ELU":
        quantised_shorts.by_table(g, call, _BY_FLOATS[name])
        return
    need_integers(x, out, types=("i8",) if name in ("ELU", "EXP", "LOG") else BYTES)
    (scale, zero), (out_scale, out_zero) = units(x), units(out)
    reals = (scale * (every_integer(x) - zero).astype(np.float32)).astype(np.float64)
    least = np.float32(ENDS[out.dtype][0] - out_zero) * out_scale
    with np.errstate(over="ignore"):
        results = _BY_FLOATS[name](reals, np.float64(least)).astype(np.float32)
    limit = np.float32(1 << 20)
    by_table(
        g, call, rounded(np.clip(results * (np.float32(1) / out_scale), -limit, limit)) + out_zero
    )


def clamp(g, call):
    """RELU and similar activations, also where the result has another scale."""
    x, out = call.inputs[0], call.out
    need_integers(x, out)
    limits = ends(call, out, call.name)
    if units(x) == units(out):
        (name,), images = g.aligned([x], x.rank)
        g.give(out, clamped(g, name, out, limits), images)
    elif x.dtype in BYTES:
        results = rescaled_numbers(
            every_integer(x) - units(x)[1], np.float64(units(x)[0] / units(out)[0])
        )
        by_table(g, call, np.clip(results + units(out)[1], *limits))
    else:
        (name,), images = g.aligned([x], x.rank)
        name = rescaled(
            g, centred(g, name, x), np.float64(units(x)[0] / units(out)[0]), farthest(x)
        )
        g.give(out, stored(g, name, out, limits), images)


def _in_two_parts(g, call, above, below):
    """Sets the result: integers minus their zero point, times `above` where that is at least 0 and
    times `below` otherwise."""
    x, out = call.inputs[0], call.out
    if x.dtype in BYTES:
        whole = every_integer(x) - units(x)[1]
        by_table(
            g,
            call,
            np.where(whole >= 0, _times(whole, above), _times(whole, below)) + units(out)[1],
        )
        return
    (name,), images = g.aligned([x], x.rank)
    whole = centred(g, name, x)
    parts = [
        rescaled(
            g,
            g.node("Mul", [whole, g.number(-1, "i32")]) if real < 0 else whole,
            abs(real),
            farthest(x),
        )
        for real in (above, below)
    ]
    chosen = g.node("Where", [g.node("GreaterOrEqual", [whole, g.number(0, "i32")]), *parts])
    g.give(out, stored(g, chosen, out), images)


def _times(whole, real):
    return (
        np.sign(real).astype(np.int64) * rescaled_numbers(whole, abs(real))
        if real
        else np.zeros_like(whole)
    )


def leaky_relu(g, call):
    x, out = call.inputs[0], call.out
    need_integers(x, out)
    scale, out_scale = units(x)[0], units(out)[0]
    _in_two_parts(
        g,
        call,
        np.float64(scale / out_scale),
        np.float64(scale * np.float32(call.option("Alpha")) / out_scale),
    )


def absolute(g, call):
    x, out = call.inputs[0], call.out
    need_integers(x, out, types=("i8", "i16"))
    real = np.float64(units(x)[0] / units(out)[0])
    _in_two_parts(g, call, real, -real)


def prelu(g, call):
    x, slopes, out = call.inputs[0], call.inputs[1], call.out
    need_integers(x, out)
    need_integers(slopes, types=("i8",) if x.dtype == "i16" else (x.dtype,))
    names, images = g.aligned([x, slopes], out.rank)
    whole, slope = centred(g, names[0], x), centred(g, names[1], slopes)
    (scale, _), (slope_scale, _), (out_scale, _) = units(x), units(slopes), units(out)
    above = rescaled(g, whole, np.float64(scale / out_scale), farthest(x))
    below = rescaled(
        g,
        g.node("Mul", [whole, slope]),
        np.float64(scale * slope_scale / out_scale),
        farthest(x) * 255,
    )
    chosen = g.node("Where", [g.node("GreaterOrEqual", [whole, g.number(0, "i32")]), above, below])
    g.give(out, stored(g, chosen, out), images)


def _high_product(a, b):
    """The upper half of the doubled product of two integers of 16 bits, rounded; the only product
    that overflows is clamped."""
    return np.minimum((a * b + (1 << 14)) >> 15, 32767)


def _divided(values, shift):
    """By a power of two, halves away from 0."""
    return (values + (1 << shift >> 1) - (values < 0)) >> shift if shift else values


def _short(values):
    return np.clip(values, -32768, 32767)


def _short_multiplier(real):
    """(integer of 15 bits, exponent)"""
    integer, exponent = multiplier_of(real)
    return min((integer + (1 << 15)) >> 16, 0x7FFF), exponent


def hard_swish(g, call):
    """x * min(max(x + 3, 0), 6) / 6, in 16 bits: x in the result's units before a shift, times (x +
    3) / 6 in units of 1 / 32768."""
    x, out = call.inputs[0], call.out
    need_integers(x, out, types=BYTES)
    fine = np.float32(1 / 128) * units(x)[0]
    multiplier, exponent = _short_multiplier(np.float64(fine / units(out)[0]))
    if exponent > 0:
        raise Refusal(
            f"its result's scale {float(units(out)[0]):g} is under 1 / 128 of its operand's {float(units(x)[0]):g}"
        )
    values = (every_integer(x) - units(x)[1]) << 7
    products = _high_product(values, multiplier)
    gate, shift = _short_multiplier(np.float64(fine / np.float32(3 / 32768)))
    gates = _short(values << max(shift - 1, 0))
    gates = _high_product(gates, gate)
    gates = _short(gates << 1) if shift > 0 else _divided(gates, -shift)
    gates = (gates + (1 << 15)) >> 1
    results = products * gates
    results = np.sign(results) * (np.abs(results) >> 15)  # truncated towards 0
    by_table(g, call, _divided(results, -exponent) + units(out)[1])


# --- others ---------------------------------------------------------------------------------------


def larger_or_smaller(g, call, op):
    """MAXIMUM and MINIMUM, of integers of one scale."""
    need_integers(*call.inputs[:2], call.out)
    same_scale(call, [*call.inputs[:2], call.out])
    names, images = g.aligned(call.inputs[:2], call.out.rank)
    g.give(call.out, g.node(op, names), images)


def compared(g, call, op):
    """Compares the numbers that the integers stand for, as whole numbers in units of 1 / 256. For
    i16 the kernels compare the integers themselves."""
    need_integers(*call.inputs[:2])
    names, images = g.aligned(call.inputs[:2], call.out.rank)
    if call.inputs[0].dtype == "i16" and call.name not in ("EQUAL", "NOT_EQUAL"):
        same_scale(call, call.inputs[:2])
        parts = [g.node("Cast", [name], to=ONNX_NUMBERS["i32"]) for name in names]
    else:
        parts = [
            rescaled(
                g,
                g.node("Mul", [centred(g, name, value), g.number(256, "i32")]),
                np.float64(units(value)[0]),
                farthest(value) << 8,
            )
            for name, value in zip(names, call.inputs)
        ]
    name = g.node(op, parts)
    g.give(call.out, g.node("Not", [name]) if call.name == "NOT_EQUAL" else name, images)


def squared_difference(g, call):
    need_integers(*call.inputs[:2], call.out, types=("i8",))
    names, images = g.aligned(call.inputs[:2], call.out.rank)
    twice = 2 * np.float64(max(units(value)[0] for value in call.inputs[:2]))
    parts = [
        rescaled(
            g,
            g.node("Mul", [centred(g, name, value), g.number(128, "i32")]),
            np.float64(units(value)[0]) / twice,
            255 << 7,
        )
        for name, value in zip(names, call.inputs)
    ]
    difference = g.node("Sub", parts)
    real = twice * twice / np.float64(np.float32(1 << 14) * units(call.out)[0])
    name = rescaled(g, g.node("Mul", [difference, difference]), real, (255 << 7) ** 2)
    g.give(call.out, stored(g, name, call.out), images)


def softmax(g, call, beta):
    """Uses a table of exponentials, which are added as floats in the order of the elements."""
    x = call.inputs[0]
    if x.dtype == "i16":
        quantised_shorts.softmax(g, call, beta)
        return
    need_integers(x, call.out, types=BYTES)
    (scale, _), (out, zero), columns = units(x), units(call.out), x.shape[-1]
    if columns > 256:
        raise Refusal(f"softmax of {columns} integers in a row is not supported; at most 256 are")
    exponents = (-scale * np.float32(beta)) * np.arange(256, dtype=np.float32)
    whole = g.node("Cast", [g.plain(x)], to=6)
    below = g.node("Sub", [g.node("ReduceMax", [whole, g.ints([-1])], keepdims=1), whole])
    powers = g.node(
        "Gather",
        [g.constant(np.exp(exponents.astype(np.float64)).astype(np.float32)), below],
        axis=0,
    )
    parts = (
        [powers]
        if columns == 1
        else g.node("Split", [powers, g.ints([1] * columns)], outputs=columns, axis=-1)
    )
    total = parts[0]
    for part in parts[1:]:
        total = g.node("Add", [total, part])
    inverse = g.node("Div", [g.number(1, "f32"), g.node("Mul", [total, g.number(out, "f32")])])
    steps = g.node(
        "Floor", [g.node("Add", [g.node("Mul", [powers, inverse]), g.number(0.5, "f32")])]
    )
    g.give(call.out, stored(g, g.node("Cast", [steps], to=6), call.out))


def _rescale_words(g, call):
    """QUANTIZE from i32 to a shorter type, or to i32."""
    x, out = call.inputs[0], call.out
    for value, other in ((x, out), (out, x)):
        need_integers(value, types=("i32", "i16") if other.dtype == "i32" else ("i32",))
        if units(value)[1]:
            raise Refusal(f"'{value.tensor.name}' is {value.dtype} with a zero point")
    (name,), images = g.aligned([x], x.rank)
    name = g.node("Cast", [name], to=6)
    most = 1 << 31 if x.dtype == "i32" else farthest(x)
    name = rescaled(g, name, np.float64(units(x)[0]) / np.float64(units(out)[0]), most)
    g.give(out, name if out.dtype == "i32" else stored(g, name, out), images)


def quantize(g, call):
    """QUANTIZE, from floats or from integers with another scale or type. Integers of 32 bits have
    no zero point."""
    x = call.inputs[0]
    if "i32" in (x.dtype, call.out.dtype):
        return _rescale_words(g, call)
    need_integers(call.out)
    (name,), images = g.aligned([x], x.rank)
    out, _ = units(call.out)
    if x.dtype == "f32":
        steps = g.node("Div", [name, g.number(out, "f32")])
        away = g.node(
            "Clip", [away_from_zero(g, steps), g.number(-1e6, "f32"), g.number(1e6, "f32")]
        )
        name = g.node("Cast", [away], to=6)
    else:
        need_integers(x)
        name = rescaled(
            g, centred(g, name, x), np.float64(units(x)[0]) / np.float64(out), farthest(x)
        )
    g.give(call.out, stored(g, name, call.out), images)
