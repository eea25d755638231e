"""Elements chosen or written by index."""

import numpy as np
import torch

from ..describe import Value, is_static
from .arithmetic import floor_quotient
from .pointwise import truth
from .table import aten


@aten("embedding", ops="Gather")
def embedding(g, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return g.node("Gather", [weight, g.cast(indices, torch.int64)], axis=0)


@aten("index_select", ops="Gather")
def index_select(g, self, dim, index):
    if not self.rank:
        return self if index.rank == 0 else g.reshape(self, g.out.shape)
    places = g.cast(index, torch.int64)
    return g.node(
        "Gather", [self, places if index.rank else g.reshape(places, [1])], axis=self.axis(dim)
    )


@aten("gather", ops="GatherElements")
def gather(g, self, dim, index, sparse_grad=False):
    places = g.cast(index, torch.int64)
    if not self.rank or not index.rank:
        value = self if self.rank else g.reshape(self, [1])
        flat = g.node(
            "GatherElements", [value, places if index.rank else g.reshape(places, [1])], axis=0
        )
        return g.reshape(flat, g.out.shape)
    return g.node("GatherElements", [self, places], axis=self.axis(dim))


@aten("take", ops="Gather")
def take(g, self, index):
    return g.node("Gather", [g.reshape(self, [-1]), g.cast(index, torch.int64)], axis=0)


@aten("take_along_dim", ops="GatherElements")
def take_along_dim(g, self, indices, dim=None):
    places = g.cast(indices, torch.int64)
    if dim is None:
        return g.node("GatherElements", [g.reshape(self, [-1]), g.reshape(places, [-1])], axis=0)
    axis = self.axis(dim)
    shape = list(g.out.shape)
    data = list(shape)
    data[axis] = self.shape[axis]
    if list(self.shape) != data:
        self = g.node("Expand", [self, g.ints(data)])
    if list(indices.shape) != shape:
        places = g.node("Expand", [places, g.ints(shape)])
    return g.node("GatherElements", [self, places], axis=axis)


# --- x[i, :, j] and x[i, :, j] = v ----------------------------------------------------------------


class _Places:
    """The elements that index tensors choose. `front` is the order of axes that brings the indexed
    ones to the front; `indices` broadcast together to `shape`; the result has the axes of `shape`
    at `position`. A mask chooses `count` elements."""

    def __init__(self, g, self_value, indices, count=None):
        value = self_value
        given = [part for index in indices for part in _without_mask(g, index, count)]
        given += [None] * (value.rank - len(given))
        self.axes = [axis for axis, index in enumerate(given) if index is not None]
        self.indices = [index for index in given if index is not None]
        others = [axis for axis in range(value.rank) if axis not in self.axes]
        self.front = self.axes + others
        self.rest = [value.shape[axis] for axis in others]
        self.shape = _broadcast([index.shape for index in self.indices])
        contiguous = self.axes == list(range(self.axes[0], self.axes[0] + len(self.axes)))
        self.position = self.axes[0] if contiguous else 0

    def order(self):
        """The order of axes that turns (chosen axes, other axes) into those of the result."""
        chosen, count = len(self.shape), len(self.rest)
        return [
            *range(chosen, chosen + self.position),
            *range(chosen),
            *range(chosen + self.position, chosen + count),
        ]

    def tuples(self, g):
        """The indices as tuples along an additional last axis."""
        parts = []
        for index in self.indices:
            part = g.cast(index, torch.int64)
            if index.shape != self.shape:
                part = g.node("Expand", [part, g.ints(self.shape)])
            parts.append(g.node("Unsqueeze", [part, g.ints([len(self.shape)])]))
        return parts[0] if len(parts) == 1 else g.node("Concat", parts, axis=len(self.shape))


def _without_mask(g, index, count):
    """An index unchanged; for a mask, the coordinates at which it is true, as one index per
    axis."""
    if not _is_mask(index):
        return [index]
    if not index.rank or count is None:
        g.refuse("the number of elements that a mask chooses depends on data")
    if index.name not in g.found:  # the same mask always chooses the same elements
        g.found[index.name] = g.node("NonZero", [index]), count
    found, known = g.found[index.name]
    if known.node.expr != count.node.expr:
        g.refuse("nothing says that a mask chooses as many elements as are written")
    fake = torch.empty((count,), dtype=torch.int64, device="meta")
    parts = [
        g.node("Squeeze", [g.slice(found, 0, axis, axis + 1), g.ints([0])])
        for axis in range(index.rank)
    ]
    return [Value(part, fake) for part in parts]


def _is_mask(index):
    return isinstance(index, Value) and index.dtype in (torch.bool, torch.uint8)


def _count_of_mask(indices, result):
    """The number of elements that a mask among the indices chooses: the only size of the result
    that depends on data alone."""
    if not any(map(_is_mask, indices)):
        return None
    unknown = [
        size for size in result if isinstance(size, torch.SymInt) and not size.node.has_hint()
    ]
    return unknown[0] if len(unknown) == 1 else None


def _broadcast(shapes):
    return tuple(torch.broadcast_shapes(*shapes))


@aten("index.Tensor", "_unsafe_index.Tensor", ops="Gather, GatherND")
def index(g, self, indices):
    if all(each is None for each in indices):
        return self
    places = _Places(g, self, indices, _count_of_mask(indices, g.out.shape))
    if len(places.indices) == 1:
        return g.node("Gather", [self, g.cast(places.indices[0], torch.int64)], axis=places.axes[0])
    chosen = g.node("GatherND", [g.transpose(self, places.front), places.tuples(g)])
    return g.transpose(chosen, places.order())


@aten("index_put", "_unsafe_index_put", ops="ScatterND, Where")
def index_put(g, self, indices, values, accumulate=False):
    masks = [each for each in indices if each is not None]
    if (
        len(masks) == 1
        and _is_mask(masks[0])
        and is_static(values.shape)
        and values.fake.numel() == 1
        and not accumulate
    ):
        return _put_under_mask(g, self, indices, masks[0], values)
    if any(_is_mask(each) and each.name not in g.found for each in masks):
        g.refuse("the number of elements that a mask chooses depends on data")
    places = _Places(g, self, indices, _count_of_mask(indices, values.shape))
    shape = [*places.shape, *places.rest]
    # `values` are broadcast to the shape of x[indices], then transposed to (chosen axes, other
    # axes).
    order = places.order()
    result = [shape[axis] for axis in order]
    given = g.cast(values, self.dtype)
    if list(values.shape) != result:
        given = g.node("Expand", [given, g.ints(result)])
    inverse = [order.index(axis) for axis in range(len(order))]
    given = g.transpose(given, inverse)
    written = _reduced(
        g,
        self.dtype,
        [g.transpose(self, places.front), places.tuples(g), given],
        "ScatterND",
        "add" if accumulate else "none",
    )
    return g.transpose(written, [places.front.index(axis) for axis in range(self.rank)])


def _put_under_mask(g, self, indices, mask, values):
    before = next(axis for axis, each in enumerate(indices) if each is not None)
    shape = [*mask.shape, *[1] * (self.rank - before - mask.rank)]
    condition = g.reshape(truth(g, mask), shape) if len(shape) != mask.rank else truth(g, mask)
    return g.node("Where", [condition, g.reshape(g.cast(values, self.dtype), []), self])


def _flat(g, value, *others):
    """Turns scalars into vectors of one element."""
    return [
        each if each.rank else Value(g.reshape(each, [1]), each.fake.reshape(1))
        for each in (value, *others)
    ]


def _scattered(g, self, dim, index, src, reduction):
    """Writes `src`, a Value or a number, at indices along an axis."""
    shape = g.out.shape
    self, index = _flat(g, self, index)
    places = g.cast(index, torch.int64)
    if isinstance(src, Value):
        (src,) = _flat(g, src)
        updates = g.cast(src, self.dtype)
        if tuple(src.shape) != tuple(index.shape):
            starts, ends = [0] * src.rank, list(index.shape)
            updates = g.node(
                "Slice", [updates, g.ints(starts), g.ints(ends), g.ints(range(src.rank))]
            )
    else:
        updates = g.full(index.shape, src, self.dtype)
    result = _reduced(
        g, self.dtype, [self, places, updates], "ScatterElements", reduction, axis=self.axis(dim)
    )
    return result if len(shape) else g.reshape(result, [])


# Reductions of truth values, as maximum or minimum of 0 and 1.
_OF_TRUTHS = {"add": "max", "mul": "min", "max": "max", "min": "min"}


def _reduced(g, dtype, inputs, op, reduction, **attributes):
    """ScatterElements or ScatterND of `inputs` (values, indices, updates), also for truth
    values."""
    if dtype != torch.bool or reduction == "none":
        return g.node(op, inputs, reduction=reduction, **attributes)
    value, places, updates = inputs
    value, updates = (g.cast(each, torch.uint8, torch.bool) for each in (value, updates))
    return g.cast(
        g.node(op, [value, places, updates], reduction=_OF_TRUTHS[reduction], **attributes),
        torch.bool,
        torch.uint8,
    )


@aten("scatter.src", "scatter.value", ops="ScatterElements")
def scatter(g, self, dim, index, src=None, value=None):
    return _scattered(g, self, dim, index, value if src is None else src, "none")


@aten("scatter_add", ops="ScatterElements")
def scatter_add(g, self, dim, index, src):
    return _scattered(g, self, dim, index, src, "add")


@aten("scatter.reduce", "scatter.value_reduce", ops="ScatterElements")
def scatter_with(g, self, dim, index, src=None, value=None, reduce="add"):
    return _scattered(
        g,
        self,
        dim,
        index,
        value if src is None else src,
        {"add": "add", "multiply": "mul"}[reduce],
    )


def _bounds(dtype):
    """The smallest and the largest value of a type."""
    if dtype == torch.bool:
        return False, True
    if dtype.is_floating_point:
        return -float("inf"), float("inf")
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


@aten("scatter_reduce.two", ops="ScatterElements")
def scatter_reduce(g, self, dim, index, src, reduce, include_self=True):
    before = self
    if not include_self:
        self = Value(
            _scattered(g, self, dim, index, _neutral(reduce, self.dtype), "none"), self.fake
        )
    result = _scattered(g, self, dim, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    count = Value(g.full(before.shape, 1, before.dtype), before.fake)
    if not include_self:
        count = Value(_scattered(g, count, dim, index, 0, "none"), before.fake)
    return _mean(g, result, _scattered(g, count, dim, index, 1, "add"), self.dtype)


# ONNX's reduction for each of PyTorch's; a mean is a sum that is divided afterwards.
_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def _neutral(reduce, dtype):
    low, high = _bounds(dtype)
    return {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce]


def _mean(g, total, count, dtype):
    """Totals divided by counts of elements; unchanged where the count is 0."""
    count = g.node("Max", [count, g.constant(1, dtype)])
    return (
        g.node("Div", [total, count])
        if dtype.is_floating_point
        else floor_quotient(g, total, count, dtype)
    )


@aten("index_reduce", ops="ScatterND")
def index_reduce(g, self, dim, index, source, reduce, include_self=True):
    def along(value, updates, reduction):
        return Value(_along(g, value, dim, index, updates, source, reduction), self.fake)

    value, count = self, Value(g.full(self.shape, 1, self.dtype), self.fake)
    if not include_self:
        value = along(value, g.full(source.shape, _neutral(reduce, self.dtype), self.dtype), "none")
        count = along(count, g.full(source.shape, 0, self.dtype), "none")
    result = along(value, g.cast(source, self.dtype), _REDUCTIONS[reduce]).name
    if reduce != "mean":
        return result
    return _mean(g, result, along(count, g.full(source.shape, 1, self.dtype), "add"), self.dtype)


@aten("put", ops="ScatterElements")
def put(g, self, index, source, accumulate=False):
    places, updates = (
        g.reshape(each, [-1]) for each in (g.cast(index, torch.int64), g.cast(source, self.dtype))
    )
    inputs = [g.reshape(self, [-1]), places, updates]
    return g.reshape(
        _reduced(g, self.dtype, inputs, "ScatterElements", "add" if accumulate else "none", axis=0),
        self.shape,
    )


@aten("index_add", ops="ScatterND")
def index_add(g, self, dim, index, source, alpha=1):
    given = g.cast(source, self.dtype)
    if alpha != 1 and self.dtype != torch.bool:
        given = g.node("Mul", [given, g.constant(alpha, self.dtype)])
    return _along(g, self, dim, index, given, source, "add")


@aten("index_copy", ops="ScatterND")
def index_copy(g, self, dim, index, source):
    return _along(g, self, dim, index, g.cast(source, self.dtype), source, "none")


@aten("index_fill.int_Scalar", "index_fill.int_Tensor", ops="ScatterND")
def index_fill(g, self, dim, index, value):
    if not self.rank:
        return g.like(value, self.dtype)
    axis = self.axis(dim)
    count = index.shape[0] if index.rank else 1
    shape = [*self.shape[:axis], count, *self.shape[axis + 1 :]]
    return _along(g, self, dim, index, g.full(shape, value, self.dtype), None, "none")


def _along(g, self, dim, index, updates, source, reduction):
    """Writes slices along an axis at the given indices."""
    places = g.cast(index, torch.int64)
    if not self.rank:
        value = _reduced(
            g,
            self.dtype,
            [g.reshape(self, [1]), g.reshape(places, [1, 1]), g.reshape(updates, [1])],
            "ScatterND",
            reduction,
        )
        return g.reshape(value, [])
    axis = self.axis(dim)
    front = [axis, *(a for a in range(self.rank) if a != axis)]
    places = g.node("Unsqueeze", [places if index.rank else g.reshape(places, [1]), g.ints([1])])
    if source is not None and source.rank < self.rank:
        updates = g.node("Unsqueeze", [updates, g.ints([axis])])
    written = _reduced(
        g,
        self.dtype,
        [g.transpose(self, front), places, g.transpose(updates, front)],
        "ScatterND",
        reduction,
    )
    return g.transpose(written, [front.index(a) for a in range(self.rank)])


# --- results of writing to views, as functionalisation makes them ---------------------------------


@aten("select_scatter", ops="Where, ScatterND")
def select_scatter(g, self, src, dim, index):
    axis = self.axis(dim)
    size = self.shape[axis]
    if not isinstance(index, int):
        g.refuse("the index is not known while compiling")
    if index < 0:
        index = size + index
    update = g.node("Unsqueeze", [g.cast(src, self.dtype), g.ints([axis])])
    return _replaced(g, self, update, axis, index, index + 1, 1)


@aten("slice_scatter", ops="Concat, ScatterND")
def slice_scatter(g, self, src, dim=0, start=None, end=None, step=1):
    axis = self.axis(dim)
    size = self.shape[axis]
    start, end = 0 if start is None else start, size if end is None else end
    if is_static((size, start, end, step)):
        start, end = (min(max(each + size if each < 0 else each, 0), size) for each in (start, end))
    elif not is_static((start, step)) or step != 1:
        g.refuse("the slice is not known while compiling")
    elif isinstance(end, int) and end >= 2**62:
        end = size
    update = g.cast(src, self.dtype)
    return _replaced(g, self, update, axis, start, end, step)


def _replaced(g, self, update, axis, start, end, step):
    size = self.shape[axis]
    if step == 1:
        parts = [] if isinstance(start, int) and start == 0 else [g.slice(self, axis, 0, start)]
        parts.append(update)
        if not (is_static((end, size)) and end >= size):
            parts.append(g.slice(self, axis, end, 2**63 - 1))
        return parts[0] if len(parts) == 1 else g.node("Concat", parts, axis=axis)
    places = np.arange(start, end, step, dtype=np.int64)[:, None]
    front = [axis, *(a for a in range(self.rank) if a != axis)]
    written = g.node(
        "ScatterND", [g.transpose(self, front), g.array(places), g.transpose(update, front)]
    )
    return g.transpose(written, [front.index(a) for a in range(self.rank)])


@aten("diagonal_scatter", ops="Reshape, ScatterND")
def diagonal_scatter(g, self, src, offset=0, dim1=0, dim2=1):
    places = torch.arange(self.fake.numel()).reshape(self.shape).diagonal(offset, dim1, dim2)
    return _written_flat(g, self, places, g.cast(src, self.dtype))


@aten("as_strided_scatter", ops="Reshape, ScatterND")
def as_strided_scatter(g, self, src, size, stride, storage_offset=None):
    if not is_static([*self.shape, *size, *stride]) or not self.fake.is_contiguous():
        g.refuse("its operand is not dense in memory, or sizes are not known while compiling")
    places = torch.arange(self.fake.numel()).as_strided(size, stride, storage_offset or 0)
    return _written_flat(g, self, places, g.cast(src, self.dtype))


def _written_flat(g, self, places, update):
    flat = g.node(
        "ScatterND",
        [g.reshape(self, [-1]), g.array(places.reshape(-1, 1).numpy()), g.reshape(update, [-1])],
    )
    return g.reshape(flat, self.shape)


@aten("repeat_interleave.self_int", ops="Expand, Reshape")
def repeat_interleave(g, self, repeats, dim=None, output_size=None):
    value, shape = (
        (self, list(self.shape))
        if dim is not None
        else (g.reshape(self, [-1]), [_count(self.shape)])
    )
    axis = self.axis(dim) if dim is not None else 0
    value = g.node("Unsqueeze", [value, g.ints([axis + 1])])
    value = g.node("Expand", [value, g.ints([*shape[: axis + 1], repeats, *shape[axis + 1 :]])])
    return g.reshape(value, [*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]])


def _count(sizes):
    count = 1
    for size in sizes:
        count = count * size
    return count


@aten("one_hot", ops="OneHot")
def one_hot(g, self, num_classes=-1):
    if num_classes < 0:
        g.refuse("the number of classes depends on data; give num_classes")
    places = g.node("Unsqueeze", [g.cast(self, torch.int64), g.ints([self.rank])])
    return g.cast(
        g.node("Equal", [places, g.array(np.arange(num_classes))]), torch.int64, torch.bool
    )


@aten("bucketize.Tensor", "searchsorted.Tensor", ops="Less, ReduceSum")
def bucketize(
    g,
    self=None,
    boundaries=None,
    sorted_sequence=None,
    out_int32=False,
    right=False,
    side=None,
    sorter=None,
):
    edges = sorted_sequence if boundaries is None else boundaries
    if edges.rank != 1 or sorter is not None:
        g.refuse("several rows of edges are not supported")
    right = side == "right" if side else right
    value = g.node("Unsqueeze", [self, g.ints([self.rank])])
    kind = torch.result_type(self.fake, edges.fake)
    value, limits = g.cast(value, kind, self.dtype), g.cast(edges, kind)
    below = g.node("LessOrEqual" if right else "Less", [limits, value])
    return g.cast(
        g.node(
            "ReduceSum", [g.cast(below, torch.int64, torch.bool), g.ints([self.rank])], keepdims=0
        ),
        g.out.dtype,
        torch.int64,
    )
