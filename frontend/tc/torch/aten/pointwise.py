"""Elementwise operators: functions of one operand, comparisons, logic, choices, casts."""

import math

import torch

from ..describe import Complex, Value
from .table import aten


_UNARY = {
    "abs": "Abs",
    "neg": "Neg",
    "ceil": "Ceil",
    "floor": "Floor",
    "relu": "Relu",
    "bitwise_not": "BitwiseNot",
}
# For whole numbers and truth values these give floats.
_FLOAT_UNARY = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "erf": "Erf",
    "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "round": "Round",
    "mish": "Mish",
    "hardswish": "HardSwish",
    "selu": "Selu",
}
_ROUNDING = ("ceil", "floor", "round")


def _unary(name, op, to_float):
    @aten(name, ops=op)
    def describe(g, self):
        if self.dtype == torch.bool:
            if op == "BitwiseNot":
                return g.node("Not", [self])
            if op in ("Abs", "Relu"):
                return self
        if name in _ROUNDING and not self.dtype.is_floating_point:
            return self
        return g.node(op, [g.cast(self, g.out.dtype) if to_float else self])

    return describe


for _name, _op in _UNARY.items():
    _unary(_name, _op, False)
for _name, _op in _FLOAT_UNARY.items():
    _unary(_name, _op, True)


@aten(
    "positive",
    "alias",
    "detach",
    "detach_",
    "contiguous",
    "clone",
    "lift_fresh_copy",
    "lift_fresh",
    "lift",
    "detach_copy",
    "alias_copy",
    "resolve_conj",
    "resolve_neg",
    ops="Identity",
)
def same(g, self, **_):
    return self


@aten("sign", ops="Sign, IsNaN, Where")
def sign(g, self):
    if self.dtype == torch.bool:
        return self
    result = g.node("Sign", [self])
    return (
        unless_nan(g, self, result, g.constant(0, self.dtype))
        if self.dtype.is_floating_point
        else result
    )


def unless_nan(g, operand, result, otherwise):
    """The result, but another value where the operand is not a number."""
    return g.node("Where", [g.node("IsNaN", [operand]), otherwise, result])


@aten("logical_not", ops="Not")
def logical_not(g, self):
    return g.node("Not", [truth(g, self)])


def truth(g, value):
    """True where an element is not 0."""
    if not isinstance(value, Value):
        return g.constant(bool(value), torch.bool)
    return g.cast(value, torch.bool)


@aten("isnan", ops="IsNaN")
def isnan(g, self):
    if not self.dtype.is_floating_point:
        return g.full(self.shape, False, torch.bool)
    return g.node("IsNaN", [self])


@aten("isinf", ops="IsInf")
def isinf(g, self):
    if not self.dtype.is_floating_point:
        return g.full(self.shape, False, torch.bool)
    return g.node("IsInf", [self])


@aten("isfinite", ops="IsInf, IsNaN")
def isfinite(g, self):
    if not self.dtype.is_floating_point:
        return g.full(self.shape, True, torch.bool)
    return g.node("Not", [g.node("Or", [g.node("IsNaN", [self]), g.node("IsInf", [self])])])


@aten("rsqrt", ops="Sqrt, Reciprocal")
def rsqrt(g, self):
    return g.node("Reciprocal", [g.node("Sqrt", [g.cast(self, g.out.dtype)])])


@aten("square", ops="Mul")
def square(g, self):
    return g.node("Mul", [self, self]) if self.dtype != torch.bool else g.cast(self, g.out.dtype)


@aten("signbit", ops="Less, Reciprocal")
def signbit(g, self):
    if not self.dtype.is_floating_point:
        return (
            g.full(self.shape, False, torch.bool)
            if self.dtype == torch.bool
            else g.node("Less", [self, g.constant(0, self.dtype)])
        )
    # The sign of the reciprocal tells -0 from 0.
    zero = g.constant(0, self.dtype)
    return g.node(
        "Or", [g.node("Less", [self, zero]), g.node("Less", [g.node("Reciprocal", [self]), zero])]
    )


@aten("copysign.Tensor", "copysign.Scalar", ops="Abs, Neg, Where")
def copysign(g, self, other):
    dtype = g.out.dtype
    sign = Value(g.like(other, dtype), torch.empty((), dtype=dtype, device="meta"))
    size = g.node("Abs", [g.cast(self, dtype)])
    return g.node("Where", [signbit(g, sign), g.node("Neg", [size]), size])


@aten("angle", ops="Less, Where")
def angle(g, self):
    dtype = g.out.dtype
    if self.dtype == torch.bool:
        return g.full(self.shape, 0, dtype)
    zero = g.constant(0, dtype)
    value = g.cast(self, dtype)
    result = g.node("Where", [g.node("Less", [value, zero]), g.constant(math.pi, dtype), zero])
    return g.node("Where", [g.node("IsNaN", [value]), value, result])


@aten("hypot", ops="Max, Min, Div, Sqrt")
def hypot(g, self, other):
    # Both are divided by the larger one, so that no square overflows.
    dtype = g.out.dtype
    a, b = (g.node("Abs", [g.cast(each, dtype)]) for each in (self, other))
    large, small = g.node("Max", [a, b]), g.node("Min", [a, b])
    one, zero, infinite = (g.constant(each, dtype) for each in (1, 0, math.inf))
    part = g.node("Div", [small, large])
    root = g.node("Sqrt", [g.node("Add", [one, g.node("Mul", [part, part])])])
    ends = g.node("Or", [g.node("Equal", [large, zero]), g.node("Equal", [large, infinite])])
    return g.node("Where", [ends, large, g.node("Mul", [large, root])])


@aten("round.decimals", ops="Mul, Round, Div")
def round_decimals(g, self, decimals):
    if not self.dtype.is_floating_point:
        return self
    if decimals == 0:
        return g.node("Round", [self])
    factor = g.constant(10.0 ** abs(decimals), self.dtype)
    there, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return g.node(back, [g.node("Round", [g.node(there, [self, factor])]), factor])


@aten("trunc", "fix", ops="Floor, Ceil, Where")
def trunc(g, self):
    if not self.dtype.is_floating_point:
        return self
    below = g.node("Less", [self, g.constant(0, self.dtype)])
    return g.node("Where", [below, g.node("Ceil", [self]), g.node("Floor", [self])])


def small(g, value, dtype, limit):
    return g.node("Less", [g.node("Abs", [value]), g.constant(limit, dtype)])


@aten("expm1", ops="Tanh, Exp, Where")
def expm1(g, self):
    # Near 0, exp(x) - 1 loses digits of x; 2 t / (1 - t) with t = tanh(x / 2) is used there.
    dtype = g.out.dtype
    x = g.cast(self, dtype)
    one, two = g.constant(1, dtype), g.constant(2, dtype)
    t = g.node("Tanh", [g.node("Div", [x, two])])
    near = g.node("Div", [g.node("Mul", [two, t]), g.node("Sub", [one, t])])
    return g.node(
        "Where", [small(g, x, dtype, 0.5), near, g.node("Sub", [g.node("Exp", [x]), one])]
    )


@aten("log1p", ops="Atanh, Log, Where")
def log1p(g, self, dtype=None):
    # Near 0, log(1 + x) loses digits of x; 2 atanh(x / (2 + x)) is used there.
    dtype = dtype or g.out.dtype
    x = g.cast(self, dtype)
    one, two = g.constant(1, dtype), g.constant(2, dtype)
    near = g.node("Mul", [two, g.node("Atanh", [g.node("Div", [x, g.node("Add", [two, x])])])])
    return g.node(
        "Where", [small(g, x, dtype, 0.5), near, g.node("Log", [g.node("Add", [one, x])])]
    )


def _log_of_base(base):
    def describe(g, self):
        return g.node(
            "Mul",
            [
                g.node("Log", [g.cast(self, g.out.dtype)]),
                g.constant(1 / math.log(base), g.out.dtype),
            ],
        )

    return describe


aten("log2", ops="Log, Mul")(_log_of_base(2))
aten("log10", ops="Log, Mul")(_log_of_base(10))


@aten("exp2", ops="Pow")
def exp2(g, self):
    return g.node("Pow", [g.constant(2, g.out.dtype), g.cast(self, g.out.dtype)])


@aten("erfc", ops="Erf, Sub")
def erfc(g, self):
    return g.node("Sub", [g.constant(1, g.out.dtype), g.node("Erf", [g.cast(self, g.out.dtype)])])


@aten("atan2", ops="Atan, Where")
def atan2(g, self, other):
    # Computes the angle in the first quadrant; the signs, also those of zeros, then choose the
    # quadrant.
    dtype = g.out.dtype
    sides = [
        Value(g.like(each, dtype), torch.empty((), dtype=dtype, device="meta"))
        for each in (self, other)
    ]
    y, x = (g.node("Abs", [side]) for side in sides)
    zero, infinite, pi = (g.constant(each, dtype) for each in (0, math.inf, math.pi))
    angle = g.node("Atan", [g.node("Div", [y, x])])
    for both, there in ((zero, zero), (infinite, g.constant(math.pi / 4, dtype))):
        angle = g.node(
            "Where",
            [g.node("And", [g.node("Equal", [y, both]), g.node("Equal", [x, both])]), there, angle],
        )
    angle = g.node("Where", [signbit(g, sides[1]), g.node("Sub", [pi, angle]), angle])
    return g.node("Where", [signbit(g, sides[0]), g.node("Neg", [angle]), angle])


def _compared(name, op):
    @aten(f"{name}.Tensor", f"{name}.Scalar", ops=op)
    def describe(g, self, other):
        dtype = common_type(self, other)
        a, b = g.like(self, dtype), g.like(other, dtype)
        if dtype == torch.bool and op not in ("Equal", "NotEqual"):
            a, b = (g.cast(each, torch.uint8, torch.bool) for each in (a, b))
        if op == "NotEqual":
            return g.node("Not", [g.node("Equal", [a, b])])
        return g.node(op, [a, b])

    return describe


def common_type(*operands):
    """The type in which PyTorch compares the operands or chooses between them."""
    given = [each.fake if isinstance(each, (Value, Complex)) else each for each in operands]
    given = [int(each) if isinstance(each, torch.SymInt) else each for each in given]
    dtype = (
        torch.result_type(given[0], given[1])
        if len(given) == 2
        else torch.result_type(given[0], given[0])
    )
    return dtype


for _name, _op in {
    "eq": "Equal",
    "ne": "NotEqual",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}.items():
    _compared(_name, _op)


def _logical(name, op):
    @aten(name, ops=op)
    def describe(g, self, other):
        return g.node(op, [truth(g, self), truth(g, other)])

    return describe


for _name in "and", "or", "xor":
    _logical(f"logical_{_name}", _name.capitalize())


def _bitwise(name, op, bitwise):
    @aten(
        f"bitwise_{name}.Tensor",
        f"bitwise_{name}.Scalar",
        f"bitwise_{name}.Scalar_Tensor",
        f"__{name}__.Tensor",
        f"__{name}__.Scalar",
        ops=bitwise,
    )
    def describe(g, self, other):
        dtype = g.out.dtype
        return g.node(
            op if dtype == torch.bool else bitwise, [g.like(self, dtype), g.like(other, dtype)]
        )

    return describe


for _name, _op in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    _bitwise(_name, _op, "Bitwise" + _op)


def _extreme(op, *names):
    @aten(*names, ops=op)
    def describe(g, self, other=None, min=None, max=None):
        dtype = g.out.dtype
        other = next(each for each in (other, min, max) if each is not None)
        if dtype == torch.bool:
            return g.node("Or" if op == "Max" else "And", [truth(g, self), truth(g, other)])
        return g.node(op, [g.like(self, dtype), g.like(other, dtype)])

    return describe


_extreme("Max", "maximum", "max.other", "clamp_min.Tensor")
_extreme("Min", "minimum", "min.other", "clamp_max.Tensor")


def _extreme_number(op, name):
    @aten(name, ops=f"{op}, IsNaN, Where")
    def describe(g, self, other):
        one, another = g.cast(self, g.out.dtype), g.cast(other, g.out.dtype)
        if g.out.dtype == torch.bool:
            return g.node("Or" if op == "Max" else "And", [one, another])
        result = g.node(op, [one, another])
        if not g.out.dtype.is_floating_point:
            return result
        result = g.node("Where", [g.node("IsNaN", [another]), one, result])
        return g.node("Where", [g.node("IsNaN", [one]), another, result])


_extreme_number("Max", "fmax")
_extreme_number("Min", "fmin")


@aten(
    "clamp",
    "clamp.Tensor",
    "clip",
    "clip.Tensor",
    "hardtanh",
    "clamp_min",
    "clamp_max",
    ops="Clip, Min, Max",
)
def clamp(g, self, min=None, max=None, min_val=None, max_val=None):
    low, high = min if min_val is None else min_val, max if max_val is None else max_val
    dtype = g.out.dtype
    value = g.cast(self, dtype)
    if not isinstance(low, Value) and not isinstance(high, Value):
        return g.node(
            "Clip",
            [value, *(None if end is None else g.constant(end, dtype) for end in (low, high))],
        )
    if low is not None:
        value = g.node("Max", [value, g.like(low, dtype)])
    return value if high is None else g.node("Min", [value, g.like(high, dtype)])


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar", ops="Where")
def where(g, condition, self, other):
    dtype = g.out.dtype
    return g.node("Where", [truth(g, condition), g.like(self, dtype), g.like(other, dtype)])


@aten("masked_fill.Scalar", "masked_fill.Tensor", ops="Where")
def masked_fill(g, self, mask, value):
    dtype = g.out.dtype
    return g.node("Where", [mask, g.like(value, dtype), self])


# --- casts ----------------------------------------------------------------------------------------


@aten(
    "_to_copy",
    "to.dtype",
    "to.device",
    "to.dtype_layout",
    "to.other",
    "to.prim_Device",
    "to.prim_dtype",
    "type_as",
    ops="Cast",
)
def to_copy(g, self, **_):
    return g.cast(self, g.out.dtype)


@aten("copy", ops="Cast, Expand")
def copy(g, self, src, non_blocking=False):
    value = g.cast(src, self.dtype)
    return value if src.shape == self.shape else g.node("Expand", [value, g.ints(self.shape)])
