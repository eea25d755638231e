"""Complex numbers: a complex tensor is two real ones, its parts, and a complex operator becomes
operators on the parts.

COMPLEX is a second table in addition to that of real operators; the walk uses it where an operand
or a result is complex. A row gets complex tensors as Complex, and returns a pair of names for a
complex result. Results agree with PyTorch's formulas up to rounding. Where a part is infinite or
not a number, the parts of the result may be infinite or not a number in another way.
"""

import numbers

import torch

from ..describe import Complex, Value, part_type, real_fake

# Families with rows that are also used for each part.
from . import creation, indexing, linear, pointwise, reduction, shape  # noqa: F401
from .complex_parts import (
    COMPLEX,
    complex_row,
    contraction,
    described_parts,
    filled,
    operand,
    paired,
    part_of,
    product_of,
    quotient_of,
    resulting,
    sum_of,
    times,
)
from .table import TABLE, aten, describe_name, key_name

# Arguments of operators that hold the numbers, as opposed to indices, masks or sizes.
_NUMBERS = ("self", "tensors", "input", "other", "src", "source", "values", "value", "fill_value")


def _by_parts(overload):
    """Adds an operator that applies the real one to each part."""
    row = TABLE[key_name(overload)]

    @complex_row(overload)
    def describe(g, **arguments):
        # The result may be real if only the shape of a complex tensor is used.
        first = g.out[0] if isinstance(g.out, (list, tuple)) else g.out
        parts = [
            {
                name: part_of(g, value, imaginary) if name in _NUMBERS else value
                for name, value in arguments.items()
            }
            for imaginary in ((False, True) if first.dtype.is_complex else (False,))
        ]
        results = described_parts(g, row.describe, parts)
        return paired(results) if len(results) == 2 else results[0]


# The whole family of views and movement, except for operators that read memory by strides.
for _name, _row in list(TABLE.items()):
    if _row.family == "shape" and "as_strided" not in _name and "unfold_backward" not in _name:
        _by_parts(_name)
for _name in (
    "index_select",
    "gather",
    "take",
    "take_along_dim",
    "index.Tensor",
    "_unsafe_index.Tensor",
    "index_put",
    "_unsafe_index_put",
    "scatter.src",
    "scatter.value",
    "scatter_add",
    "index_copy",
    "index_fill.int_Scalar",
    "index_fill.int_Tensor",
    "select_scatter",
    "slice_scatter",
    "diagonal_scatter",
    "index_add",
    "repeat_interleave.self_int",
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "where.self",
    "where.ScalarSelf",
    "where.ScalarOther",
    "where.Scalar",
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
    "positive",
    "neg",
    "sum",
    "sum.dim_IntList",
    "mean",
    "mean.dim",
    "cumsum",
    "full",
    "full_like",
    "new_full",
    "fill.Scalar",
    "fill.Tensor",
    "copy",
    "zeros",
    "zeros_like",
    "new_zeros",
    "empty.memory_format",
    "empty_like",
    "new_empty",
):
    _by_parts(_name)


def _real_alone(overload):
    """Adds an operator that creates a tensor, whose imaginary part is 0."""
    row = TABLE[key_name(overload)]

    @complex_row(overload)
    def describe(g, **arguments):
        (re,) = described_parts(g, row.describe, [arguments])
        return re, g.full(g.out.shape, 0, part_type(g.out.dtype))


for _name in ("ones", "ones_like", "new_ones", "eye", "eye.m"):
    _real_alone(_name)


# --- parts, and parts put together ----------------------------------------------------------------


@aten("real", "view_as_real", "view_as_real_copy", ops="Unsqueeze, Concat")
@complex_row("view_as_real", "view_as_real_copy")
def view_as_real(g, self):
    return self if isinstance(self, Value) else g.interleaved((self.re, self.im), self.rank)


@complex_row("real")
def real(g, self):
    return self.re


@aten("imag", "complex", "view_as_complex", "view_as_complex_copy", "polar", ops="Slice, Squeeze")
def needs_complex_row(g, **_):
    g.refuse("its operand is not complex")


@complex_row("imag")
def imag(g, self):
    return self.im


@complex_row("view_as_complex", "view_as_complex_copy")
def view_as_complex(g, self):
    return g.split_parts(self, self.rank - 1)


@complex_row("complex")
def complex_of(g, real, imag):
    return tuple(
        g.node("Expand", [each, g.ints(g.out.shape)]) if each.shape != tuple(g.out.shape) else each
        for each in (real, imag)
    )


@complex_row("polar")
def polar(g, abs, angle):
    return _polar(g, abs, angle)


def _polar(g, size, angle):
    return tuple(g.node("Mul", [size, g.node(op, [angle])]) for op in ("Cos", "Sin"))


@aten("_conj", "conj", "_conj_physical", "conj_physical", ops="Neg")
def unchanged(g, self):
    return self


@aten("_neg_view", ops="Neg")
def negated(g, self):
    """The imaginary part of a conjugate."""
    return g.node("Neg", [self])


@complex_row("_conj", "conj", "_conj_physical", "conj_physical")
def conj(g, self):
    return self.re, g.node("Neg", [self.im])


@complex_row(
    "_to_copy", "to.dtype", "to.device", "to.dtype_layout", "to.other", "to.prim_dtype", "type_as"
)
def to_copy(g, self, **_):
    if not g.out.dtype.is_complex:
        return g.cast(part_of(g, self, False), g.out.dtype)
    return filled(g, operand(g, self))


@complex_row("add.Tensor", "add.Scalar")
def add(g, self, other, alpha=1):
    return filled(g, sum_of(g, operand(g, self), times(g, other, alpha)))


@complex_row("sub.Tensor", "sub.Scalar")
def sub(g, self, other, alpha=1):
    return filled(g, sum_of(g, operand(g, self), times(g, other, alpha), "Sub"))


@complex_row("rsub.Tensor", "rsub.Scalar")
def rsub(g, self, other, alpha=1):
    return filled(g, sum_of(g, operand(g, other), times(g, self, alpha), "Sub"))


@complex_row("mul.Tensor", "mul.Scalar")
def mul(g, self, other):
    return filled(g, product_of(g, operand(g, self), operand(g, other)))


@complex_row("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(g, self, other):
    return filled(g, quotient_of(g, operand(g, self), operand(g, other)))


@complex_row("reciprocal")
def reciprocal(g, self):
    return quotient_of(g, (g.constant(1, self.re.dtype), None), operand(g, self))


@complex_row("square")
def square(g, self):
    return product_of(g, operand(g, self), operand(g, self))


@complex_row("addcmul")
def addcmul(g, self, tensor1, tensor2, value=1):
    product = product_of(g, times(g, tensor1, value), operand(g, tensor2))
    return filled(g, sum_of(g, operand(g, self), product))


@complex_row("addcdiv")
def addcdiv(g, self, tensor1, tensor2, value=1):
    return filled(
        g,
        sum_of(g, operand(g, self), quotient_of(g, times(g, tensor1, value), operand(g, tensor2))),
    )


def _compared(name, join):
    @complex_row(f"{name}.Tensor", f"{name}.Scalar")
    def describe(g, self, other):
        dtype = part_type(pointwise.common_type(self, other))
        # The imaginary part of a real operand is the number 0.
        sides = [
            (part_of(g, self, False), part_of(g, other, False)),
            [0.0 if isinstance(each, Value) else part_of(g, each, True) for each in (self, other)],
        ]
        parts = [g.node("Equal", [g.like(each, dtype) for each in pair]) for pair in sides]
        return g.node(join, [g.node("Not", [part]) for part in parts] if name == "ne" else parts)


_compared("eq", "And")
_compared("ne", "Or")


def _either(name):
    row = TABLE[key_name(name)]

    @complex_row(name)
    def describe(g, self):
        parts = [describe_name(row.describe(g, self=each)) for each in (self.re, self.im)]
        return g.node("And" if name == "isfinite" else "Or", parts)


for _name in ("isnan", "isinf", "isfinite"):
    _either(_name)


# --- functions ------------------------------------------------------------------------------------


def _real_row(g, function, dtype, **arguments):
    """Describes a real operator in the type of the parts; returns the result as a Value."""
    fake = torch.empty((), dtype=dtype, device="meta")
    with resulting(g, fake):
        return Value(describe_name(function(g, **arguments)), fake)


def _size(g, value):
    return _real_row(g, pointwise.hypot, value.re.dtype, self=value.re, other=value.im)


def _angle(g, value):
    return _real_row(g, pointwise.atan2, value.re.dtype, self=value.im, other=value.re)


@complex_row("abs")
def size(g, self):
    return _size(g, self)


@complex_row("angle")
def angle(g, self):
    return _angle(g, self)


@aten("sgn", ops="Sign, IsNaN, Where")
def real_sgn(g, self):
    return pointwise.sign(g, self)


@complex_row("sgn")
def sgn(g, self):
    length, zero = _size(g, self), g.constant(0, self.re.dtype)
    nothing = g.node("Equal", [length, zero])
    return tuple(
        g.node("Where", [nothing, zero, g.node("Div", [part, length])])
        for part in (self.re, self.im)
    )


@complex_row("exp")
def exp(g, self):
    return _polar(g, g.node("Exp", [self.re]), self.im)


@complex_row("log")
def log(g, self):
    return g.node("Log", [_size(g, self)]), _angle(g, self)


@complex_row("sqrt")
def sqrt(g, self):
    """Without cancellation: one part is t = sqrt((|re| + |z|) / 2), the other im / (2 t)."""
    dtype = self.re.dtype
    zero, half = g.constant(0, dtype), g.constant(0.5, dtype)
    t = g.node(
        "Sqrt", [g.node("Mul", [half, g.node("Add", [g.node("Abs", [self.re]), _size(g, self)])])]
    )
    other = g.node(
        "Where",
        [
            g.node("Equal", [t, zero]),
            zero,
            g.node("Div", [g.node("Mul", [half, g.node("Abs", [self.im])]), t]),
        ],
    )
    negative = g.node("Less", [self.re, zero])
    re, im = g.node("Where", [negative, other, t]), g.node("Where", [negative, t, other])
    return re, g.node("Where", [pointwise.signbit(g, self.im), g.node("Neg", [im]), im])


@complex_row("rsqrt")
def rsqrt(g, self):
    return quotient_of(g, (g.constant(1, self.re.dtype), None), sqrt(g, self))


@complex_row("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(g, self, exponent):
    base = operand(g, self)
    if isinstance(exponent, numbers.Number) and exponent in (1, 2, 3) and isinstance(self, Complex):
        result = base
        for _ in range(int(exponent.real) - 1):
            result = product_of(g, result, base)
        return result
    if isinstance(exponent, numbers.Number) and exponent == 0.5:
        return sqrt(g, self)
    dtype = part_type(g.out.dtype)
    full = _complex(filled(g, base), dtype, g.out)
    result = exp(
        g, _complex(filled(g, product_of(g, log(g, full), operand(g, exponent))), dtype, g.out)
    )
    # 0 to the power 0 is 1, and 0 to any other power is 0.
    zero, one = g.constant(0, dtype), g.constant(1, dtype)
    nothing = g.node("Equal", [_size(g, full), zero])
    exponent_re, exponent_im = operand(g, exponent)
    none = g.node("Equal", [exponent_re, zero])
    if exponent_im is not None:
        none = g.node("And", [none, g.node("Equal", [exponent_im, zero])])
    of_nothing = g.node("Where", [none, one, zero])
    return g.node("Where", [nothing, of_nothing, result[0]]), g.node(
        "Where", [nothing, zero, result[1]]
    )


def _complex(pair, dtype, fake):
    return Complex(
        *(Value(describe_name(each), torch.empty((), dtype=dtype, device="meta")) for each in pair),
        fake,
    )


def _function(name, formula):
    @complex_row(name)
    def describe(g, self):
        return formula(lambda op, *operands: g.node(op, list(operands)), self.re, self.im)


# Functions of x + iy, expressed by functions of x and y.
_function(
    "sin",
    lambda f, x, y: (f("Mul", f("Sin", x), f("Cosh", y)), f("Mul", f("Cos", x), f("Sinh", y))),
)
_function(
    "cos",
    lambda f, x, y: (
        f("Mul", f("Cos", x), f("Cosh", y)),
        f("Neg", f("Mul", f("Sin", x), f("Sinh", y))),
    ),
)
_function(
    "sinh",
    lambda f, x, y: (f("Mul", f("Sinh", x), f("Cos", y)), f("Mul", f("Cosh", x), f("Sin", y))),
)
_function(
    "cosh",
    lambda f, x, y: (f("Mul", f("Cosh", x), f("Cos", y)), f("Mul", f("Sinh", x), f("Sin", y))),
)


def _tanh(f, constant, x, y):
    """Uses e = exp(-2 |x|), which cannot overflow: (tanh 2x (1 + e^2), 2 e sin 2y) / (1 + e^2 + 2 e
    cos 2y)."""
    one, two = constant(1), constant(2)
    e, twice = f("Exp", f("Neg", f("Mul", two, f("Abs", x)))), f("Mul", two, y)
    square = f("Add", one, f("Mul", e, e))
    below = f("Add", square, f("Mul", f("Mul", two, e), f("Cos", twice)))
    re = f("Div", f("Mul", f("Tanh", f("Mul", two, x)), square), below)
    return re, f("Div", f("Mul", f("Mul", two, e), f("Sin", twice)), below)


@complex_row("tanh")
def tanh(g, self):
    return _tanh(
        lambda op, *operands: g.node(op, list(operands)),
        lambda number: g.constant(number, self.re.dtype),
        self.re,
        self.im,
    )


@complex_row("tan")
def tan(g, self):
    """-i tanh(iz)"""
    turned = Complex(Value(g.node("Neg", [self.im]), self.im.fake), self.re, self.fake)
    re, im = tanh(g, turned)
    return im, g.node("Neg", [re])


@complex_row("sigmoid")
def sigmoid(g, self):
    one = g.constant(1, self.re.dtype)
    re, im = exp(
        g,
        Complex(
            *(Value(g.node("Neg", [part]), part.fake) for part in (self.re, self.im)), self.fake
        ),
    )
    return quotient_of(g, (one, None), (g.node("Add", [one, re]), im))


# --- reductions and products ----------------------------------------------------------------------


@complex_row("linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim")
def norm(g, self, **arguments):
    length = Value(_size(g, self).name, real_fake(self.fake))
    return TABLE["aten::linalg_vector_norm"].describe(g, self=length, **arguments)


def _contracted(overload):
    """Adds a product of two tensors that sums over axes: as four real ones, or two where an operand
    is real."""
    describe_real = TABLE[key_name(overload)].describe

    @complex_row(overload)
    def describe(g, self=None, **arguments):
        name, other = next((name, value) for name, value in arguments.items() if value is not None)
        return filled(
            g,
            contraction(
                g, self, other, lambda one, another: describe_real(g, self=one, **{name: another})
            ),
        )


for _name in ("mm", "bmm", "matmul", "mv", "dot", "outer", "ger"):
    _contracted(_name)


@complex_row("vdot")
def vdot(g, self, other):
    turned = (
        Complex(self.re, Value(g.node("Neg", [self.im]), self.im.fake), self.fake)
        if isinstance(self, Complex)
        else self
    )
    return COMPLEX["aten::dot"](g, self=turned, tensor=other)


def _matmul(g):
    return lambda one, another: linear.matmul(g, one, another)


@complex_row("addmm", "baddbmm", "addmv")
def addmm(
    g, self, mat1=None, mat2=None, batch1=None, batch2=None, mat=None, vec=None, beta=1, alpha=1
):
    one, other = mat1 or batch1 or mat, mat2 or batch2 or vec
    product = contraction(g, one, other, _matmul(g))
    if alpha != 1:
        product = product_of(g, product, operand(g, alpha))
    return filled(g, product if beta == 0 else sum_of(g, times(g, self, beta), product))


@complex_row("linear")
def linear_layer(g, input, weight, bias=None):
    product = contraction(g, input, weight, lambda one, another: linear.linear(g, one, another))
    return filled(g, product if bias is None else sum_of(g, product, operand(g, bias)))


@complex_row("einsum")
def einsum(g, equation, tensors, path=None):
    if len(tensors) == 1:
        return tuple(linear.einsum(g, equation, [part]) for part in (tensors[0].re, tensors[0].im))
    if len(tensors) != 2:
        g.refuse(
            "of complex numbers it has more than two operands; multiply them one after another"
        )
    return filled(
        g, contraction(g, *tensors, lambda one, another: linear.einsum(g, equation, [one, another]))
    )
