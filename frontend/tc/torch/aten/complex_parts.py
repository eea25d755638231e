"""The table of complex operators, and what its rows share: the parts of an argument, and sums,
products and quotients of pairs of real tensors."""

import contextlib
import numbers

from ..describe import Complex, Value, part_type, real_fake
from .table import describe_name, key_name

COMPLEX = {}


def complex_row(*overloads):
    """Adds a row for complex numbers to each overload."""

    def add(function):
        for overload in overloads:
            COMPLEX[key_name(overload)] = function
        return function

    return add


# --- each part by itself --------------------------------------------------------------------------


def part_of(g, value, imaginary):
    """The real or the imaginary part of an argument, which may be real."""
    if isinstance(value, (list, tuple)):
        return [part_of(g, each, imaginary) for each in value]
    if isinstance(value, Complex):
        return value.im if imaginary else value.re
    if isinstance(value, numbers.Number):
        return value.imag if imaginary else value.real
    if isinstance(value, Value) and imaginary:
        return Value(g.full(value.shape, 0, value.dtype), value.fake)
    return value


@contextlib.contextmanager
def resulting(g, out):
    """In this context `g.out` is `out`, so that rows of real operators describe a part of the
    result."""
    whole, g.out = g.out, out
    try:
        yield
    finally:
        g.out = whole


def described_parts(g, function, parts):
    """Describes `function` for each of two sets of arguments, with results that are real."""
    with resulting(
        g,
        [real_fake(each) for each in g.out]
        if isinstance(g.out, (list, tuple))
        else real_fake(g.out),
    ):
        return [function(g, **arguments) for arguments in parts]


def paired(results):
    re, im = results
    return tuple(zip(re, im)) if isinstance(re, (list, tuple)) else (re, im)


# --- arithmetic -----------------------------------------------------------------------------------


def operand(g, value):
    """A tensor or number as a pair of names in the type of the result's parts; None for an
    imaginary part that is 0."""
    dtype = part_type(g.out.dtype)
    if isinstance(value, Complex):
        return g.cast(value.re, dtype), g.cast(value.im, dtype)
    if isinstance(value, complex) and value.imag:
        return g.constant(value.real, dtype), g.constant(value.imag, dtype)
    return g.like(value.real if isinstance(value, complex) else value, dtype), None


def filled(g, pair):
    """The pair with an imaginary part (0 if there was none), both in the result's shape."""
    re, im = pair
    if im is None:
        im = g.full(g.out.shape, 0, part_type(g.out.dtype))
    return re, im


def sum_of(g, a, b, op="Add"):
    (a_re, a_im), (b_re, b_im) = a, b
    re = g.node(op, [a_re, b_re])
    if a_im is None and b_im is None:
        return re, None
    if a_im is None or b_im is None:
        # The imaginary part has to be broadcast, since the real operand may be the larger one.
        zero = g.constant(0, part_type(g.out.dtype))
        one, other = (
            g.node("Mul", [each[0], zero]) if each[1] is None else each[1] for each in (a, b)
        )
        return re, g.node(op, [one, other])
    return re, g.node(op, [a_im, b_im])


def product_of(g, a, b, product=None):
    """The complex product from a real product of two names; either operand may be real."""
    product = product or (lambda one, other: g.node("Mul", [one, other]))
    (a_re, a_im), (b_re, b_im) = a, b
    if a_im is None or b_im is None:
        im = (
            None
            if a_im is None and b_im is None
            else product(a_re, b_im)
            if a_im is None
            else product(a_im, b_re)
        )
        return product(a_re, b_re), im
    re = g.node("Sub", [product(a_re, b_re), product(a_im, b_im)])
    return re, g.node("Add", [product(a_re, b_im), product(a_im, b_re)])


def quotient_of(g, a, b):
    """First divides by the larger part of the divisor, so that no square overflows (Smith,
    1962)."""
    if b[1] is None:
        return tuple(each and g.node("Div", [each, b[0]]) for each in a)
    b_re, b_im = b
    size = g.node("Max", [g.node("Abs", [b_re]), g.node("Abs", [b_im])])
    scaled = [g.node("Div", [each, size]) for each in b]
    square = g.node("Add", [g.node("Mul", [each, each]) for each in scaled])
    re, im = product_of(g, a, (scaled[0], g.node("Neg", [scaled[1]])))
    return tuple(g.node("Div", [g.node("Div", [each, square]), size]) for each in (re, im))


def times(g, value, factor):
    pair = operand(g, value)
    return (
        pair
        if isinstance(factor, numbers.Number) and factor == 1
        else product_of(g, pair, operand(g, factor))
    )


def contraction(g, one, other, product):
    """`product` describes the real product of two Values."""
    dtype = part_type(g.out.dtype)

    def parts(value):
        if isinstance(value, Complex):
            return value.re, value.im
        return Value(g.cast(value, dtype), real_fake(value.fake, dtype)), None

    with resulting(g, real_fake(g.out)):
        return product_of(g, parts(one), parts(other), lambda a, b: describe_name(product(a, b)))
