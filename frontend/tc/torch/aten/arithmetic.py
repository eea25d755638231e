"""Elementwise arithmetic of two or three operands: sums, products, quotients, powers, shifts."""

import numbers

import torch

from ..describe import Value
from .pointwise import small, truth, trunc
from .table import aten


def scaled(g, value, alpha, dtype):
    if isinstance(alpha, numbers.Number) and alpha == 1:
        return g.like(value, dtype)
    if isinstance(value, numbers.Number) and isinstance(alpha, numbers.Number):
        return g.constant(value * alpha, dtype)
    return g.node("Mul", [g.like(value, dtype), g.like(alpha, dtype)])


@aten("add.Tensor", "add.Scalar", ops="Add")
def add(g, self, other, alpha=1):
    dtype = g.out.dtype
    if dtype == torch.bool:
        return g.node("Or", [truth(g, self), truth(g, other)]) if alpha else truth(g, self)
    return g.node("Add", [g.like(self, dtype), scaled(g, other, alpha, dtype)])


@aten("sub.Tensor", "sub.Scalar", ops="Sub")
def sub(g, self, other, alpha=1):
    dtype = g.out.dtype
    return g.node("Sub", [g.like(self, dtype), scaled(g, other, alpha, dtype)])


@aten("rsub.Tensor", "rsub.Scalar", ops="Sub")
def rsub(g, self, other, alpha=1):
    dtype = g.out.dtype
    return g.node("Sub", [g.like(other, dtype), scaled(g, self, alpha, dtype)])


@aten("mul.Tensor", "mul.Scalar", ops="Mul")
def mul(g, self, other):
    dtype = g.out.dtype
    if dtype == torch.bool:
        return g.node("And", [truth(g, self), truth(g, other)])
    return g.node("Mul", [g.like(self, dtype), g.like(other, dtype)])


def floor_quotient(g, a, b, dtype):
    """a // b, rounded down; both operands have the type."""
    if dtype.is_floating_point:
        # As in PyTorch, the remainder is subtracted first and the rest is divided exactly, so that
        # 1 // 0.1 is 9.
        remainder = g.node("Mod", [a, b], fmod=1)
        zero = g.constant(0, dtype)
        quotient = g.node("Div", [g.node("Sub", [a, remainder]), b])
        unlike = g.node("Xor", [g.node("Less", [remainder, zero]), g.node("Less", [b, zero])])
        wrong = g.node("And", [g.node("Not", [g.node("Equal", [remainder, zero])]), unlike])
        lower = g.node("Sub", [quotient, g.constant(1, dtype)])
        rounded = g.node("Round", [g.node("Where", [wrong, lower, quotient])])
        return g.node("Where", [g.node("Equal", [b, zero]), g.node("Div", [a, b]), rounded])
    if not dtype.is_signed:
        return g.node("Div", [a, b])
    # The division truncates, so 1 is subtracted where quotient * b is beyond a. (a - a % b would
    # overflow near the smallest number.)
    quotient = g.node("Div", [a, b])
    product = g.node("Mul", [quotient, b])
    over = g.node(
        "Where",
        [
            g.node("Less", [b, g.constant(0, dtype)]),
            g.node("Less", [product, a]),
            g.node("Less", [a, product]),
        ],
    )
    return g.node("Sub", [quotient, g.cast(over, dtype, torch.bool)])


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", ops="Div")
def div(g, self, other):
    dtype = g.out.dtype
    return g.node("Div", [g.like(self, dtype), g.like(other, dtype)])


@aten("div.Tensor_mode", "div.Scalar_mode", ops="Div, Mod")
def div_mode(g, self, other, rounding_mode=None):
    dtype = g.out.dtype
    a, b = g.like(self, dtype), g.like(other, dtype)
    if rounding_mode == "floor":
        return floor_quotient(g, a, b, dtype)
    quotient = g.node("Div", [a, b])
    if rounding_mode is None or not dtype.is_floating_point:
        return quotient
    return trunc(g, Value(quotient, g.out))


@aten("floor_divide", "floor_divide.Scalar", ops="Div, Mod")
def floor_divide(g, self, other):
    dtype = g.out.dtype
    return floor_quotient(g, g.like(self, dtype), g.like(other, dtype), dtype)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", ops="Mod")
def remainder(g, self, other):
    dtype = g.out.dtype
    a, b = g.like(self, dtype), g.like(other, dtype)
    if not dtype.is_floating_point:
        return g.node("Mod", [a, b])
    rest, zero = g.node("Mod", [a, b], fmod=1), g.constant(0, dtype)
    unlike = g.node("Xor", [g.node("Less", [rest, zero]), g.node("Less", [b, zero])])
    wrong = g.node("And", [g.node("Not", [g.node("Equal", [rest, zero])]), unlike])
    return g.node("Where", [wrong, g.node("Add", [rest, b]), rest])


@aten("fmod.Tensor", "fmod.Scalar", ops="Mod")
def fmod(g, self, other):
    dtype = g.out.dtype
    return g.node("Mod", [g.like(self, dtype), g.like(other, dtype)], fmod=1)


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", ops="Pow, Mul, Sqrt")
def power(g, self, exponent):
    dtype = g.out.dtype
    base = g.like(self, dtype)
    if isinstance(exponent, numbers.Number):
        if exponent == 2:
            return g.node("Mul", [base, base])
        if exponent == 1:
            return base
        if exponent == 0.5 and dtype.is_floating_point:
            return g.node("Sqrt", [base])
        if exponent == -0.5 and dtype.is_floating_point:
            return g.node("Reciprocal", [g.node("Sqrt", [base])])
        if exponent == 3:
            return g.node("Mul", [g.node("Mul", [base, base]), base])
    return g.node("Pow", [base, g.like(exponent, dtype)])


def _power_of_two(g, exponent, dtype):
    return g.cast(g.node("Pow", [g.constant(2, torch.int64), exponent]), dtype, torch.int64)


@aten(
    "bitwise_left_shift.Tensor",
    "bitwise_left_shift.Tensor_Scalar",
    "__lshift__.Tensor",
    "__lshift__.Scalar",
    ops="Mul, Pow",
)
def left_shift(g, self, other):
    dtype = g.out.dtype
    return g.node("Mul", [g.like(self, dtype), _power_of_two(g, g.like(other, torch.int64), dtype)])


@aten(
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Tensor",
    "__rshift__.Scalar",
    ops="Div, Pow, Where",
)
def right_shift(g, self, other):
    """A shift by a negative number, or by all bits or more, leaves only the sign."""
    dtype = g.out.dtype
    value, places = g.like(self, dtype), g.like(other, torch.int64)
    most, zero = torch.iinfo(dtype).bits - dtype.is_signed, g.constant(0, torch.int64)
    beyond = g.node(
        "Or",
        [
            g.node("Less", [places, zero]),
            g.node("GreaterOrEqual", [places, g.constant(most, torch.int64)]),
        ],
    )
    factor = _power_of_two(g, g.node("Where", [beyond, zero, places]), dtype)
    nothing = g.constant(0, dtype)
    sign = (
        g.node("Where", [g.node("Less", [value, nothing]), g.constant(-1, dtype), nothing])
        if dtype.is_signed
        else nothing
    )
    return g.node("Where", [beyond, sign, floor_quotient(g, value, factor, dtype)])


@aten("lerp.Scalar", "lerp.Tensor", ops="Mul, Add, Sub, Where")
def lerp(g, self, end, weight):
    # Interpolates from the nearer end, so that both ends are exact.
    dtype = g.out.dtype
    share, apart = g.like(weight, dtype), g.node("Sub", [end, self])
    from_start = g.node("Add", [self, g.node("Mul", [share, apart])])
    rest = (
        g.constant(1 - weight, dtype)
        if isinstance(weight, numbers.Number)
        else g.node("Sub", [g.constant(1, dtype), share])
    )
    from_end = g.node("Sub", [end, g.node("Mul", [rest, apart])])
    if isinstance(weight, numbers.Number):
        return from_start if abs(weight) < 0.5 else from_end
    return g.node("Where", [small(g, share, dtype, 0.5), from_start, from_end])


@aten("addcmul", ops="Mul, Add")
def addcmul(g, self, tensor1, tensor2, value=1):
    dtype = g.out.dtype
    product = g.node("Mul", [g.like(tensor1, dtype), g.like(tensor2, dtype)])
    return g.node(
        "Add",
        [
            g.like(self, dtype),
            product if value == 1 else g.node("Mul", [product, g.constant(value, dtype)]),
        ],
    )


@aten("addcdiv", ops="Div, Add")
def addcdiv(g, self, tensor1, tensor2, value=1):
    dtype = g.out.dtype
    quotient = g.node("Div", [g.like(tensor1, dtype), g.like(tensor2, dtype)])
    return g.node(
        "Add",
        [
            g.like(self, dtype),
            quotient if value == 1 else g.node("Mul", [quotient, g.constant(value, dtype)]),
        ],
    )
