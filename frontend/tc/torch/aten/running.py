"""Cumulative operators along an axis: extremes and logarithms of sums so far; and the most frequent
element, found by runs of equal ones.

Each takes several passes. Every pass doubles the distance over which an element looks back, and
computes all elements in parallel.
"""

import math

import numpy as np
import torch

from ..describe import Value
from .indexing import _bounds
from .pointwise import log1p
from .reduction import sort
from .table import aten


def _length(g, self, axis):
    size = self.shape[axis]
    if not isinstance(size, int):
        g.refuse("the length of its axis is not known while compiling; bind it with shapes=")
    return size


def _moved(g, value, axis, distance, size, fill):
    """The elements moved by `distance` positions, with `fill` before them."""
    kept = g.slice(value, axis, 0, size - distance)
    ends = [distance, 0]
    return g.node("Pad", [kept, g.ints(ends), fill, g.ints([axis])])


def _doubling(size):
    distance = 1
    while distance < size:
        yield distance
        distance *= 2


def _largest_so_far(g, value, axis, rank):
    """The values alone, in one pass over the rows; nothing else remains of a cummax whose indices
    are not used."""
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return g.transpose(g.node("tc::CumMax", [g.transpose(value, order)]), order)


def _running_extreme(name, compare, op):
    @aten(name, ops="CumMax, Pad, Slice, Where" if op == "max" else "Pad, Slice, Where")
    def describe(g, self, dim):
        if not self.rank:
            return self, g.constant(0, torch.int64)
        axis = self.axis(dim)
        size, dtype = (
            _length(g, self, axis),
            torch.uint8 if self.dtype == torch.bool else self.dtype,
        )
        value = g.cast(self, dtype)
        shape = [size if number == axis else 1 for number in range(self.rank)]
        place = g.node("Expand", [g.array(np.arange(size).reshape(shape)), g.ints(self.shape)])
        fill, first = (
            g.constant(_bounds(dtype)[0 if op == "max" else 1], dtype),
            g.constant(0, torch.int64),
        )
        operand = value
        for distance in _doubling(size):
            before, before_place = (
                _moved(g, value, axis, distance, size, fill),
                _moved(g, place, axis, distance, size, first),
            )
            # Among equal elements, and among NaNs, the last one is taken.
            takes = g.node(compare, [value, before])
            if dtype.is_floating_point:
                takes = g.node(
                    "Or",
                    [
                        g.node("IsNaN", [value]),
                        g.node("And", [g.node("Not", [g.node("IsNaN", [before])]), takes]),
                    ],
                )
            value, place = (
                g.node("Where", [takes, value, before]),
                g.node("Where", [takes, place, before_place]),
            )
        if op == "max":
            value = _largest_so_far(g, operand, axis, self.rank)
        return g.cast(value, self.dtype, dtype), place


_running_extreme("cummax", "GreaterOrEqual", "max")
_running_extreme("cummin", "LessOrEqual", "min")


@aten("logcumsumexp", ops="Pad, Slice, Max, Min, Exp, Log, Where")
def logcumsumexp(g, self, dim):
    if not self.rank:
        return self
    axis, dtype = self.axis(dim), torch.float64 if self.dtype == torch.float64 else torch.float32
    size, value = _length(g, self, axis), g.cast(self, dtype)
    fill = g.constant(-math.inf, dtype)
    for distance in _doubling(size):
        before = _moved(g, value, axis, distance, size, fill)
        low, high = g.node("Min", [value, before]), g.node("Max", [value, before])
        share = g.node("Exp", [g.node("Sub", [low, high])])
        result = g.node(
            "Add",
            [high, log1p(g, Value(share, torch.empty((), dtype=dtype, device="meta")), dtype)],
        )
        # The difference of two equal infinities would be NaN.
        alike = g.node("And", [g.node("Equal", [low, high]), g.node("IsInf", [low])])
        value = g.node("Where", [alike, low, result])
    return g.cast(value, self.dtype, dtype)


@aten("mode", ops="TopK, Equal, Pad, Max, ArgMax, GatherElements")
def mode(g, self, dim=-1, keepdim=False):
    """The smallest of the most frequent elements, and the index of the last element equal to it."""
    if not self.rank:
        return self, g.constant(0, torch.int64)
    axis = self.axis(dim)
    size = _length(g, self, axis)
    values, places = sort(g, self, axis)
    shape = [size if number == axis else 1 for number in range(self.rank)]
    number = g.array(np.arange(size).reshape(shape))
    # The beginning of each run of equal elements, and each element's number within its run.
    begins = g.node("Expand", [number, g.ints(self.shape)])
    if size > 1:
        alike = g.node(
            "Equal", [g.slice(values, axis, 1, size), g.slice(values, axis, 0, size - 1)]
        )
        alike = g.node(
            "Pad",
            [
                g.cast(alike, torch.uint8, torch.bool),
                g.ints([1, 0]),
                g.constant(0, torch.uint8),
                g.ints([axis]),
            ],
        )
        begins = g.node(
            "Where", [g.cast(alike, torch.bool, torch.uint8), g.constant(0, torch.int64), begins]
        )
    for distance in _doubling(size):
        begins = g.node(
            "Max", [begins, _moved(g, begins, axis, distance, size, g.constant(0, torch.int64))]
        )
    best = g.node("ArgMax", [g.node("Sub", [number, begins])], axis=axis, keepdims=1)
    chosen = [g.node("GatherElements", [each, best], axis=axis) for each in (values, places)]
    return (
        tuple(chosen)
        if keepdim
        else tuple(g.node("Squeeze", [each, g.ints([axis])]) for each in chosen)
    )
