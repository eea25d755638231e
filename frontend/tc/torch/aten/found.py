"""Results whose size depends on data: elements that a mask chooses, coordinates, distinct
values."""

import torch

from ..describe import is_static
from .pointwise import truth
from .table import aten


@aten("nonzero", ops="NonZero")
def nonzero(g, self):
    if not self.rank:
        found = g.node("NonZero", [g.reshape(self, [1])])
        return g.slice(g.transpose(found, [1, 0]), 1, 0, 0)
    return g.transpose(g.node("NonZero", [self]), [1, 0])


@aten("masked_select", ops="Compress")
def masked_select(g, self, mask):
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    value, condition = (
        each if tuple(each.shape) == tuple(shape) else g.node("Expand", [each, g.ints(shape)])
        for each in (self, mask)
    )
    return g.node("Compress", [g.reshape(value, [-1]), g.reshape(condition, [-1])], axis=0)


@aten("masked_scatter", ops="Where, Gather")
def masked_scatter(g, self, mask, source):
    """Where the mask is true, takes elements of the source one after the other."""
    shape = list(g.out.shape)
    condition = truth(g, mask)
    if list(mask.shape) != shape:
        condition = g.node("Expand", [condition, g.ints(shape)])
    flags = g.cast(g.node("Reshape", [condition, g.ints([-1])]), torch.int64, torch.bool)
    places = g.node(
        "Max",
        [
            g.node("Sub", [g.node("CumSum", [flags, g.ints([0])]), g.constant(1, torch.int64)]),
            g.constant(0, torch.int64),
        ],
    )
    if is_static(source.shape) and not source.fake.numel():
        return self
    # Positions beyond the source only occur where the mask is false, and are clamped.
    last = g.size(source.fake.numel() - 1)
    chosen = g.node("Gather", [g.reshape(source, [-1]), g.node("Min", [places, last])], axis=0)
    return g.node("Where", [condition, g.reshape(chosen, shape), self])


@aten("_unique2", "unique_dim", ops="Unique")
def unique(g, self, dim=None, sorted=True, return_inverse=False, return_counts=False):
    value = self if dim is not None else g.reshape(self, [-1])
    kind = torch.uint8 if self.dtype == torch.bool else self.dtype
    value = g.cast(value, kind, self.dtype)
    axis = None if dim is None else self.axis(dim)
    values, _, inverse, counts = g.node("Unique", [value], outputs=4, sorted=1, axis=axis)
    if dim is None:
        inverse = g.reshape(inverse, self.shape)
    return g.cast(values, self.dtype, kind), inverse, counts


@aten("nonzero_static", "unique_consecutive", "bincount", "repeat_interleave.Tensor", ops="refused")
def depends_on_data(g, **_):
    g.refuse("the size of its result depends on data")
