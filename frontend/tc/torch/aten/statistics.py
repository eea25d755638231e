"""Elements chosen by their order, and counts of elements."""

import torch

from ..describe import Value
from .reduction import sort
from .table import aten


def _chosen(g, self, axis, places, keepdim):
    """[values, indices] of the elements that are at `places`, one per row, when the axis is sorted
    in rising order."""
    values, indices = sort(g, self, axis)
    chosen = [g.node("GatherElements", [each, places], axis=axis) for each in (values, indices)]
    return chosen if keepdim else [g.node("Squeeze", [each, g.ints([axis])]) for each in chosen]


def _as_vector(g, self):
    return Value(g.reshape(self, [-1]), self.fake.reshape(-1))


def _row_shape(self, axis):
    return [1 if number == axis else size for number, size in enumerate(self.shape)]


@aten("kthvalue", ops="TopK, GatherElements")
def kthvalue(g, self, k, dim=-1, keepdim=False):
    if not self.rank:
        return self, g.constant(0, torch.int64)
    axis = self.axis(dim)
    place = g.full(_row_shape(self, axis), k - 1, torch.int64)
    return tuple(_chosen(g, self, axis, place, keepdim))


def _middle(g, self, axis):
    """The position of the median among the sorted elements that are not NaN; the lower one of
    two."""
    size = self.shape[axis]
    if not self.dtype.is_floating_point:
        return g.full(_row_shape(self, axis), (size - 1) // 2, torch.int64)
    missing = g.cast(g.node("IsNaN", [self]), torch.int64, torch.bool)
    count = g.node("ReduceSum", [missing, g.ints([axis])], keepdims=1)
    known = g.node("Sub", [g.scalar(size - 1, torch.int64), count])
    return g.node(
        "Div", [g.node("Max", [known, g.constant(0, torch.int64)]), g.constant(2, torch.int64)]
    )


def _median(g, self, axis, keepdim, skips):
    """The median. Unless NaNs are skipped, it is NaN where there is one, and its index is that of
    the first."""
    if skips or not self.dtype.is_floating_point:
        return _chosen(g, self, axis, _middle(g, self, axis), keepdim)
    place = g.full(_row_shape(self, axis), (self.shape[axis] - 1) // 2, torch.int64)
    values, indices = _chosen(g, self, axis, place, keepdim)
    missing = g.cast(g.node("IsNaN", [self]), torch.int64, torch.bool)
    any_missing = g.cast(
        g.node("ReduceMax", [missing, g.ints([axis])], keepdims=int(keepdim)),
        torch.bool,
        torch.int64,
    )
    first = g.node("ArgMax", [missing], axis=axis, keepdims=int(keepdim))
    nan = g.constant(float("nan"), self.dtype)
    return [
        g.node("Where", [any_missing, nan, values]),
        g.node("Where", [any_missing, first, indices]),
    ]


def _medians(name, skips):
    @aten(name, ops="TopK, GatherElements, IsNaN, Where")
    def whole(g, self):
        return _median(g, _as_vector(g, self), 0, False, skips)[0]

    @aten(f"{name}.dim", ops="TopK, GatherElements, IsNaN, Where")
    def along(g, self, dim, keepdim=False):
        if not self.rank:
            return self, g.constant(0, torch.int64)
        return tuple(_median(g, self, self.axis(dim), keepdim, skips))


_medians("median", False)
_medians("nanmedian", True)


@aten("histc", ops="Sub, Floor, ScatterElements")
def histc(g, self, bins=100, min=0, max=0):
    dtype = g.out.dtype
    value = _as_vector(g, self)
    low, high = g.constant(min, dtype), g.constant(max, dtype)
    if min == max:
        low, high = (g.node(op, [value], keepdims=0) for op in ("ReduceMin", "ReduceMax"))
        # If all numbers are equal, the range is extended by 1 on both sides.
        alike = g.node("Equal", [low, high])
        one = g.constant(1, dtype)
        low, high = (
            g.node("Where", [alike, g.node(op, [each, one]), each])
            for op, each in (("Sub", low), ("Add", high))
        )
    above = g.node("Sub", [value, low])
    place = g.node(
        "Div", [g.node("Mul", [above, g.constant(bins, dtype)]), g.node("Sub", [high, low])]
    )
    inside = g.node(
        "And", [g.node("GreaterOrEqual", [value, low]), g.node("LessOrEqual", [value, high])]
    )
    place = g.node("Where", [inside, g.node("Floor", [place]), g.constant(0, dtype)])
    # The last bin includes its end.
    place = g.node("Min", [g.cast(place, torch.int64, dtype), g.constant(bins - 1, torch.int64)])
    counts = [g.full([bins], 0, dtype), place, g.cast(inside, dtype, torch.bool)]
    return g.node("ScatterElements", counts, axis=0, reduction="add")
