"""Reductions, sorting and running sums."""

import torch

from ..describe import Value
from .pointwise import truth
from .table import aten


def _axes(self, dim):
    dim = [dim] if isinstance(dim, int) else list(dim or [])
    return sorted({self.axis(axis) for axis in dim}) or list(range(self.rank))


def reduce(g, op, value, dim, keepdim, dtype=None):
    """Casts a Value to the type and reduces it."""
    given = g.cast(value, dtype or value.dtype)
    if not value.rank:
        # A scalar is reduced as a vector of one element.
        return g.node(op, [g.reshape(given, [1]), g.ints([0])], keepdims=0)
    return g.node(op, [given, g.ints(_axes(value, dim))], keepdims=int(keepdim))


@aten("sum", "sum.dim_IntList", ops="ReduceSum")
def total(g, self, dim=None, keepdim=False, dtype=None):
    return reduce(g, "ReduceSum", self, dim, keepdim, g.out.dtype)


@aten("mean", "mean.dim", ops="ReduceMean")
def mean(g, self, dim=None, keepdim=False, dtype=None):
    return reduce(g, "ReduceMean", self, dim, keepdim, g.out.dtype)


@aten("prod", "prod.dim_int", ops="ReduceProd")
def prod(g, self, dim=None, keepdim=False, dtype=None):
    return reduce(g, "ReduceProd", self, dim, keepdim, g.out.dtype)


def _extreme(op, names, values):
    @aten(*names, ops=op)
    def describe(g, self, dim=None, keepdim=False):
        if self.dtype == torch.bool:
            result = reduce(
                g, op, Value(g.cast(self, torch.uint8), self.fake.to(torch.uint8)), dim, keepdim
            )
            return g.cast(result, torch.bool, torch.uint8)
        return reduce(g, op, self, dim, keepdim)

    @aten(*values, ops=f"{op}, Arg{op.removeprefix('Reduce')}")
    def with_index(g, self, dim, keepdim=False):
        return describe(g, self, dim, keepdim), _position(
            g, self, dim, keepdim, "Arg" + op.removeprefix("Reduce")
        )


def _position(g, self, dim, keepdim, op):
    value = g.cast(self, torch.uint8) if self.dtype == torch.bool else self
    if dim is None:
        result = g.node(op, [g.reshape(value, [-1])], axis=0, keepdims=0)
        return g.reshape(result, [1] * self.rank) if keepdim else result
    if not self.rank:
        return g.constant(0, torch.int64)
    return g.node(op, [value], axis=self.axis(dim), keepdims=int(keepdim))


_extreme("ReduceMax", ("amax", "max"), ("max.dim",))
_extreme("ReduceMin", ("amin", "min"), ("min.dim",))


@aten("argmax", ops="ArgMax")
def argmax(g, self, dim=None, keepdim=False):
    return _position(g, self, dim, keepdim, "ArgMax")


@aten("argmin", ops="ArgMin")
def argmin(g, self, dim=None, keepdim=False):
    return _position(g, self, dim, keepdim, "ArgMin")


def _truth(op, *names):
    @aten(*names, ops=op)
    def describe(g, self, dim=None, keepdim=False):
        value = g.cast(truth(g, self), torch.uint8, torch.bool)
        result = reduce(g, op, Value(value, self.fake.to(torch.uint8)), dim, keepdim)
        # For an empty reduction ONNX gives the largest number of the type, which the cast turns
        # into true.
        return g.cast(g.cast(result, torch.bool, torch.uint8), g.out.dtype, torch.bool)

    return describe


_truth("ReduceMax", "any", "any.dim", "any.dims")
_truth("ReduceMin", "all", "all.dim", "all.dims")


def _variance(g, self, dim, keepdim, correction):
    dtype = self.dtype
    axes = _axes(self, dim)
    count = 1
    for axis in axes:
        count = count * self.shape[axis]
    middle = reduce(g, "ReduceMean", self, dim, True)
    apart = g.node("Sub", [self, middle])
    squares = Value(g.node("Mul", [apart, apart]), self.fake)
    correction = 1 if correction is None else correction
    average = reduce(g, "ReduceMean", squares, dim, keepdim)
    if correction:
        if not isinstance(count, int):
            g.refuse(
                "the number of elements is not known while compiling, and the result is corrected by it"
            )
        ratio = (
            count / max(count - correction, 0)
            if count > correction
            else float("nan" if count <= 1 else "inf")
        )
        average = g.node("Mul", [average, g.constant(ratio, dtype)])
    return average, middle


@aten("var.correction", "var.dim", "var", ops="ReduceMean, Sub, Mul")
def var(g, self, dim=None, correction=None, keepdim=False, unbiased=True):
    return _variance(
        g, self, dim, keepdim, correction if correction is not None else int(unbiased)
    )[0]


@aten("std.correction", "std.dim", "std", ops="ReduceMean, Sub, Mul, Sqrt")
def std(g, self, dim=None, correction=None, keepdim=False, unbiased=True):
    return g.node("Sqrt", [var(g, self, dim, correction, keepdim, unbiased)])


@aten("var_mean.correction", ops="ReduceMean, Sub, Mul")
def var_mean(g, self, dim=None, correction=None, keepdim=False):
    return _variance(g, self, dim, keepdim, correction)[0], reduce(
        g, "ReduceMean", self, dim, keepdim
    )


@aten("logsumexp", ops="ReduceLogSumExp")
def logsumexp(g, self, dim, keepdim=False):
    return reduce(g, "ReduceLogSumExp", self, dim, keepdim, g.out.dtype)


@aten(
    "linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim", ops="ReduceL1, ReduceL2, ReduceMax"
)
def vector_norm(g, self, ord=2, dim=None, keepdim=False, dtype=None, p=None):
    order = ord if p is None else p
    dtype = g.out.dtype
    if order in (1, 2):
        return reduce(g, f"ReduceL{int(order)}", self, dim, keepdim, dtype)
    size = Value(g.node("Abs", [g.cast(self, dtype)]), self.fake.to(dtype))
    if order in (float("inf"), float("-inf")):
        return reduce(g, "ReduceMax" if order > 0 else "ReduceMin", size, dim, keepdim)
    if order == 0:
        one = g.node("Not", [g.node("Equal", [size, g.constant(0, dtype)])])
        return reduce(
            g, "ReduceSum", Value(g.cast(one, dtype, torch.bool), size.fake), dim, keepdim
        )
    powers = Value(g.node("Pow", [size, g.constant(order, dtype)]), size.fake)
    return g.node(
        "Pow", [reduce(g, "ReduceSum", powers, dim, keepdim), g.constant(1 / order, dtype)]
    )


def _running(op, name):
    @aten(name, ops=op)
    def describe(g, self, dim, dtype=None):
        value = g.cast(self, g.out.dtype)
        return (
            value if not self.rank else g.node(op, [value, g.constant(self.axis(dim), torch.int64)])
        )

    return describe


_running("CumSum", "cumsum")
_running("CumProd", "cumprod")


@aten("topk", ops="TopK")
def topk(g, self, k, dim=-1, largest=True, sorted=True):
    if not self.rank:
        return self, g.constant(0, torch.int64)
    return g.node(
        "TopK", [self, g.size(k)], outputs=2, axis=self.axis(dim), largest=int(largest), sorted=1
    )


@aten("sort", "sort.stable", ops="TopK")
def sort(g, self, dim=-1, descending=False, stable=None):
    if not self.rank:
        return self, g.constant(0, torch.int64)
    axis = self.axis(dim)
    dtype = self.dtype
    value = g.cast(self, torch.uint8) if dtype == torch.bool else self
    values, places = g.node(
        "TopK",
        [value, g.size(self.shape[axis])],
        outputs=2,
        axis=axis,
        largest=int(descending),
        sorted=1,
    )
    return g.cast(values, dtype, torch.uint8 if dtype == torch.bool else dtype), places


@aten("argsort", "argsort.stable", ops="TopK")
def argsort(g, self, dim=-1, descending=False, stable=False):
    return sort(g, self, dim, descending)[1]


@aten("aminmax", ops="ReduceMin, ReduceMax")
def aminmax(g, self, dim=None, keepdim=False):
    return reduce(g, "ReduceMin", self, dim, keepdim), reduce(g, "ReduceMax", self, dim, keepdim)
