"""Operators of single elements: arithmetic, comparisons, activations, casts."""

import math
import numbers

import torch

from ..describe import Value
from .table import aten

_UNARY = {
    "abs": "Abs", "neg": "Neg", "sign": "Sign", "ceil": "Ceil", "floor": "Floor", "relu": "Relu", "bitwise_not": "BitwiseNot",
}
# Of whole numbers and truth values they give floats.
_FLOAT_UNARY = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
    "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "reciprocal": "Reciprocal", "sigmoid": "Sigmoid", "tanh": "Tanh", "round": "Round", "mish": "Mish",
    "hardswish": "HardSwish", "selu": "Selu",
}
_ROUNDING = ("ceil", "floor", "round")


def _unary(name, op, to_float):
    @aten(name, ops=op)
    def describe(g, self):
        if self.dtype == torch.bool:
            if op == "BitwiseNot":
                return g.node("Not", [self])
            if op in ("Abs", "Sign", "Relu"):
                return self
        if name in _ROUNDING and not self.dtype.is_floating_point:
            return self
        return g.node(op, [g.cast(self, g.out.dtype) if to_float else self])
    return describe


for _name, _op in _UNARY.items():
    _unary(_name, _op, False)
for _name, _op in _FLOAT_UNARY.items():
    _unary(_name, _op, True)


@aten("positive", "alias", "detach", "detach_", "contiguous", "clone", "lift_fresh_copy", "lift_fresh", "lift", "detach_copy", "alias_copy",
      "resolve_conj", "resolve_neg", ops="Identity")
def same(g, self, **_):
    return self


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
        return g.full(self.shape, False, torch.bool) if self.dtype == torch.bool else g.node("Less", [self, g.constant(0, self.dtype)])
    # The reciprocal tells the two zeros apart.
    zero = g.constant(0, self.dtype)
    return g.node("Or", [g.node("Less", [self, zero]), g.node("Less", [g.node("Reciprocal", [self]), zero])])


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
    # Relative to the larger one, so that no square overflows.
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


def _small(g, value, dtype, limit):
    return g.node("Less", [g.node("Abs", [value]), g.constant(limit, dtype)])


@aten("expm1", ops="Tanh, Exp, Where")
def expm1(g, self):
    # Near 0, exp(x) - 1 loses the digits of x: there 2 t / (1 - t) with t = tanh(x / 2).
    dtype = g.out.dtype
    x = g.cast(self, dtype)
    one, two = g.constant(1, dtype), g.constant(2, dtype)
    t = g.node("Tanh", [g.node("Div", [x, two])])
    near = g.node("Div", [g.node("Mul", [two, t]), g.node("Sub", [one, t])])
    return g.node("Where", [_small(g, x, dtype, 0.5), near, g.node("Sub", [g.node("Exp", [x]), one])])


@aten("log1p", ops="Atanh, Log, Where")
def log1p(g, self):
    # Near 0, log(1 + x) loses the digits of x: there 2 atanh(x / (2 + x)).
    dtype = g.out.dtype
    x = g.cast(self, dtype)
    one, two = g.constant(1, dtype), g.constant(2, dtype)
    near = g.node("Mul", [two, g.node("Atanh", [g.node("Div", [x, g.node("Add", [two, x])])])])
    return g.node("Where", [_small(g, x, dtype, 0.5), near, g.node("Log", [g.node("Add", [one, x])])])


def _log_of_base(base):
    def describe(g, self):
        return g.node("Mul", [g.node("Log", [g.cast(self, g.out.dtype)]), g.constant(1 / math.log(base), g.out.dtype)])
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
    dtype = g.out.dtype
    y, x = g.like(self, dtype), g.like(other, dtype)
    zero, pi = g.constant(0, dtype), g.constant(math.pi, dtype)
    angle = g.node("Atan", [g.node("Div", [y, x])])
    behind = g.node("Where", [g.node("Less", [y, zero]), g.node("Sub", [angle, pi]), g.node("Add", [angle, pi])])
    result = g.node("Where", [g.node("Less", [x, zero]), behind, angle])
    half = g.node("Mul", [g.node("Sign", [y]), g.constant(math.pi / 2, dtype)])
    return g.node("Where", [g.node("Equal", [x, zero]), half, result])


# --- two operands -------------------------------------------------------------------------------------------------------


def _scaled(g, value, alpha, dtype):
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
    return g.node("Add", [g.like(self, dtype), _scaled(g, other, alpha, dtype)])


@aten("sub.Tensor", "sub.Scalar", ops="Sub")
def sub(g, self, other, alpha=1):
    dtype = g.out.dtype
    return g.node("Sub", [g.like(self, dtype), _scaled(g, other, alpha, dtype)])


@aten("rsub.Tensor", "rsub.Scalar", ops="Sub")
def rsub(g, self, other, alpha=1):
    dtype = g.out.dtype
    return g.node("Sub", [g.like(other, dtype), _scaled(g, self, alpha, dtype)])


@aten("mul.Tensor", "mul.Scalar", ops="Mul")
def mul(g, self, other):
    dtype = g.out.dtype
    if dtype == torch.bool:
        return g.node("And", [truth(g, self), truth(g, other)])
    return g.node("Mul", [g.like(self, dtype), g.like(other, dtype)])


def _floor_quotient(g, a, b, dtype):
    """a // b rounded down, operands in the type."""
    if dtype.is_floating_point:
        # As PyTorch: what the remainder leaves is divided exactly, so that 1 // 0.1 is 9.
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
    remainder = g.node("Mod", [a, b])
    return g.node("Div", [g.node("Sub", [a, remainder]), b])


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", ops="Div")
def div(g, self, other):
    dtype = g.out.dtype
    return g.node("Div", [g.like(self, dtype), g.like(other, dtype)])


@aten("div.Tensor_mode", "div.Scalar_mode", ops="Div, Mod")
def div_mode(g, self, other, rounding_mode=None):
    dtype = g.out.dtype
    a, b = g.like(self, dtype), g.like(other, dtype)
    if rounding_mode == "floor":
        return _floor_quotient(g, a, b, dtype)
    quotient = g.node("Div", [a, b])
    if rounding_mode is None or not dtype.is_floating_point:
        return quotient
    return trunc(g, Value(quotient, g.out))


@aten("floor_divide", "floor_divide.Scalar", ops="Div, Mod")
def floor_divide(g, self, other):
    dtype = g.out.dtype
    return _floor_quotient(g, g.like(self, dtype), g.like(other, dtype), dtype)


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
    """The type in which PyTorch compares or chooses between them."""
    given = [each.fake if isinstance(each, Value) else each for each in operands]
    given = [int(each) if isinstance(each, torch.SymInt) else each for each in given]
    dtype = torch.result_type(given[0], given[1]) if len(given) == 2 else torch.result_type(given[0], given[0])
    return dtype


for _name, _op in {"eq": "Equal", "ne": "NotEqual", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                   "ge": "GreaterOrEqual"}.items():
    _compared(_name, _op)


def _logical(name, op):
    @aten(name, ops=op)
    def describe(g, self, other):
        return g.node(op, [truth(g, self), truth(g, other)])
    return describe


for _name in "and", "or", "xor":
    _logical(f"logical_{_name}", _name.capitalize())


def _bitwise(name, op, bitwise):
    @aten(f"bitwise_{name}.Tensor", f"bitwise_{name}.Scalar", f"bitwise_{name}.Scalar_Tensor", f"__{name}__.Tensor",
          f"__{name}__.Scalar", ops=bitwise)
    def describe(g, self, other):
        dtype = g.out.dtype
        return g.node(op if dtype == torch.bool else bitwise, [g.like(self, dtype), g.like(other, dtype)])
    return describe


for _name, _op in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    _bitwise(_name, _op, "Bitwise" + _op)


def _shift(direction, *names):
    @aten(*names, ops="Mul, Div")
    def describe(g, self, other):
        dtype = g.out.dtype
        factor = g.cast(g.node("Pow", [g.constant(2, torch.int64), g.like(other, torch.int64)]), dtype, torch.int64)
        if direction == "LEFT":
            return g.node("Mul", [g.like(self, dtype), factor])
        return _floor_quotient(g, g.like(self, dtype), factor, dtype)
    return describe


_shift("LEFT", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Tensor", "__lshift__.Scalar")
_shift("RIGHT", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Tensor", "__rshift__.Scalar")


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


@aten("clamp", "clamp.Tensor", "clip", "clip.Tensor", "hardtanh", "clamp_min", "clamp_max", ops="Clip, Min, Max")
def clamp(g, self, min=None, max=None, min_val=None, max_val=None):
    low, high = min if min_val is None else min_val, max if max_val is None else max_val
    dtype = g.out.dtype
    value = g.cast(self, dtype)
    if not isinstance(low, Value) and not isinstance(high, Value):
        return g.node("Clip", [value, *(None if end is None else g.constant(end, dtype) for end in (low, high))])
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


@aten("lerp.Scalar", "lerp.Tensor", ops="Mul, Add")
def lerp(g, self, end, weight):
    dtype = g.out.dtype
    return g.node("Add", [self, g.node("Mul", [g.like(weight, dtype), g.node("Sub", [end, self])])])


@aten("addcmul", ops="Mul, Add")
def addcmul(g, self, tensor1, tensor2, value=1):
    dtype = g.out.dtype
    product = g.node("Mul", [g.like(tensor1, dtype), g.like(tensor2, dtype)])
    return g.node("Add", [g.like(self, dtype), product if value == 1 else g.node("Mul", [product, g.constant(value, dtype)])])


@aten("addcdiv", ops="Div, Add")
def addcdiv(g, self, tensor1, tensor2, value=1):
    dtype = g.out.dtype
    quotient = g.node("Div", [g.like(tensor1, dtype), g.like(tensor2, dtype)])
    return g.node("Add", [g.like(self, dtype), quotient if value == 1 else g.node("Mul", [quotient, g.constant(value, dtype)])])


# --- casts --------------------------------------------------------------------------------------------------------------


@aten("_to_copy", "to.dtype", "to.device", "to.dtype_layout", "to.other", "to.prim_Device", "to.prim_dtype", "type_as", ops="Cast")
def to_copy(g, self, **_):
    return g.cast(self, g.out.dtype)


@aten("copy", ops="Cast, Expand")
def copy(g, self, src, non_blocking=False):
    value = g.cast(src, self.dtype)
    return value if src.shape == self.shape else g.node("Expand", [value, g.ints(self.shape)])


# --- activations --------------------------------------------------------------------------------------------------------


# As PyTorch's exporter writes them for ONNX, so that both roads give one graph.


@aten("silu", ops="Sigmoid, Mul")
def silu(g, self):
    return g.node("Mul", [self, g.node("Sigmoid", [self])])


@aten("gelu", ops="Erf, Mul")
def gelu(g, self, approximate="none"):
    if approximate != "none":
        return g.node("Gelu", [self], approximate=approximate)
    scaled = g.node("Div", [self, g.constant(2 ** 0.5, self.dtype)])
    share = g.node("Add", [g.node("Erf", [scaled]), g.constant(1.0, self.dtype)])
    return g.node("Mul", [g.node("Mul", [self, share]), g.constant(0.5, self.dtype)])


@aten("leaky_relu", ops="LeakyRelu")
def leaky_relu(g, self, negative_slope=0.01):
    return g.node("LeakyRelu", [self], alpha=float(negative_slope))


@aten("elu", ops="Elu")
def elu(g, self, alpha=1, scale=1, input_scale=1):
    if scale != 1 or input_scale != 1:
        dtype = g.out.dtype
        low = g.node("Mul", [expm1_of(g, g.node("Mul", [self, g.constant(input_scale, dtype)])), g.constant(alpha * scale, dtype)])
        high = g.node("Mul", [self, g.constant(scale, dtype)])
        return g.node("Where", [g.node("Greater", [self, g.constant(0, dtype)]), high, low])
    return g.node("Elu", [self], alpha=float(alpha))


def expm1_of(g, name):
    return expm1(g, Value(name, g.out))


@aten("celu", ops="Celu")
def celu(g, self, alpha=1.0):
    return g.node("Celu", [self], alpha=float(alpha))


@aten("hardsigmoid", ops="HardSigmoid")
def hardsigmoid(g, self):
    return g.node("HardSigmoid", [self], alpha=1 / 6, beta=0.5)


@aten("relu6", ops="Clip")
def relu6(g, self):
    return g.node("Clip", [self, g.constant(0, self.dtype), g.constant(6, self.dtype)])


# From there on float32 has no digit for the difference to the identity.
_SOFTPLUS_IS_LINEAR = 17


@aten("softplus", ops="Softplus")
def softplus(g, self, beta=1, threshold=20):
    factor = g.constant(beta, g.out.dtype)
    scaled = g.node("Mul", [self, factor]) if beta != 1 else self
    result = g.node("Softplus", [scaled])
    if beta != 1:
        result = g.node("Div", [result, factor])
    if threshold >= _SOFTPLUS_IS_LINEAR:
        return result
    return g.node("Where", [g.node("Greater", [scaled, g.constant(threshold, g.out.dtype)]), self, result])


@aten("log_sigmoid", "log_sigmoid_forward", ops="Softplus, Neg")
def log_sigmoid(g, self):
    result = g.node("Neg", [g.node("Softplus", [g.node("Neg", [self])])])
    return (result, result) if isinstance(g.out, (tuple, list)) else result


@aten("threshold", ops="Where")
def threshold(g, self, threshold, value):
    over = g.node("Greater", [self, g.constant(threshold, self.dtype)])
    return g.node("Where", [over, self, g.constant(value, self.dtype)])


@aten("prelu", "_prelu_kernel", ops="PRelu")
def prelu(g, self, weight):
    if weight.rank == 1 and self.rank > 2 and weight.shape[0] != 1:
        weight = g.reshape(weight, [weight.shape[0]] + [1] * (self.rank - 2))
    elif weight.rank == 1 and self.rank == 0:
        weight = g.reshape(weight, [])
    return g.node("PRelu", [self, weight])


@aten("softshrink", ops="Shrink")
def softshrink(g, self, lambd=0.5):
    return g.node("Shrink", [self], lambd=float(lambd), bias=float(lambd))


@aten("hardshrink", ops="Where")
def hardshrink(g, self, lambd=0.5):
    small = g.node("LessOrEqual", [g.node("Abs", [self]), g.constant(lambd, self.dtype)])
    return g.node("Where", [small, g.constant(0, self.dtype), self])


@aten("dropout", "native_dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", ops="Identity")
def dropout(g, p, train, input):
    if train and p:
        g.refuse("dropout of a module in training mode is random; call .eval() on the module first")
    return (input, g.full(input.shape, True, torch.bool)) if isinstance(g.out, (tuple, list)) else input
