"""Views and movement: shapes, axes, slices, joining and splitting."""

import numpy as np
import torch

from ..describe import Value, is_static
from .table import aten


@aten(
    "view",
    "reshape",
    "_unsafe_view",
    "view_copy",
    "_reshape_alias",
    "_reshape_copy",
    "unflatten.int",
    "flatten.using_ints",
    "reshape_as",
    "view_as",
    ops="Reshape",
)
def view(g, self, **_):
    return g.reshape(self, _sizes_like(g, self, g.out.shape))


def _sizes_like(g, value, sizes):
    """Replaces a single open size by -1, which follows from the others and keeps shapes simple."""
    open_sizes = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
    if len(open_sizes) == 1 and all(size != 0 for size in sizes if isinstance(size, int)):
        return [-1 if axis == open_sizes[0] else size for axis, size in enumerate(sizes)]
    return sizes


@aten("expand", "expand_copy", "expand_as", "broadcast_to", ops="Expand")
def expand(g, self, **_):
    if self.shape == tuple(g.out.shape) and is_static(self.shape):
        return self
    return g.node("Expand", [self, g.ints(g.out.shape)])


@aten("permute", "permute_copy", ops="Transpose")
def permute(g, self, dims):
    return g.transpose(self, [self.axis(axis) for axis in dims])


@aten("transpose.int", "transpose_copy.int", ops="Transpose")
def transpose(g, self, dim0, dim1):
    order = list(range(self.rank))
    if order:
        a, b = self.axis(dim0), self.axis(dim1)
        order[a], order[b] = order[b], order[a]
    return g.transpose(self, order)


@aten("t", "t_copy", "numpy_T", ops="Transpose")
def t(g, self):
    return g.transpose(self, reversed(range(self.rank)))


@aten("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dims", ops="Reshape")
def squeeze(g, self, dim=None):
    return g.reshape(self, _sizes_like(g, self, g.out.shape))


@aten("unsqueeze", "unsqueeze_copy", ops="Unsqueeze")
def unsqueeze(g, self, dim):
    return g.node("Unsqueeze", [self, g.ints([dim + self.rank + 1 if dim < 0 else dim])])


@aten("select.int", "select_copy.int", ops="Gather")
def select(g, self, dim, index):
    if isinstance(index, (torch.SymInt, Value)):
        return g.node("Gather", [self, g.scalar(index, torch.int64)], axis=self.axis(dim))
    return g.node("Gather", [self, g.constant(int(index), torch.int64)], axis=self.axis(dim))


@aten("slice.Tensor", "slice_copy.Tensor", ops="Slice")
def slice_tensor(g, self, dim=0, start=None, end=None, step=1):
    start = 0 if start is None else start
    end = 2**63 - 1 if end is None else end
    if (
        isinstance(start, int)
        and start == 0
        and isinstance(end, int)
        and end >= 2**62
        and step == 1
    ):
        return self
    size = self.shape[self.axis(dim)]
    if (
        isinstance(end, torch.SymInt)
        and isinstance(size, torch.SymInt)
        and end.node.expr == size.node.expr
    ):
        end = 2**63 - 1
        if isinstance(start, int) and start == 0 and step == 1:
            return self
    return g.slice(self, self.axis(dim), start, end, step)


@aten("cat", "concat", ops="Concat")
def cat(g, tensors, dim=0):
    # PyTorch allows empty vectors among tensors of any rank.
    dtype, rank = g.out.dtype, g.out.dim()
    kept = [
        each for each in tensors if not (each.rank == 1 and rank > 1 and each.shape[0] == 0)
    ] or tensors[:1]
    axis = dim + rank if dim < 0 else dim
    if len(kept) == 1:
        return g.cast(kept[0], dtype)
    return g.node("Concat", [g.cast(each, dtype) for each in kept], axis=axis)


@aten("stack", ops="Unsqueeze, Concat")
def stack(g, tensors, dim=0):
    dtype, rank = g.out.dtype, g.out.dim()
    axis = dim + rank if dim < 0 else dim
    parts = [g.node("Unsqueeze", [g.cast(each, dtype), g.ints([axis])]) for each in tensors]
    return parts[0] if len(parts) == 1 else g.node("Concat", parts, axis=axis)


def _split(g, self, sizes, axis):
    if len(sizes) == 1:
        return (self,)
    return g.node("Split", [self, g.ints(sizes)], outputs=len(sizes), axis=axis)


@aten(
    "split.Tensor",
    "split_with_sizes",
    "split_copy.Tensor",
    "split_with_sizes_copy",
    "chunk",
    "split.sizes",
    "tensor_split.sections",
    ops="Split",
)
def split(g, self, dim=0, **_):
    axis = self.axis(dim)
    return _split(g, self, [each.shape[axis] for each in g.out], axis)


@aten("unbind.int", "unbind_copy.int", ops="Split, Squeeze")
def unbind(g, self, dim=0):
    axis = self.axis(dim)
    parts = _split(g, self, [1] * len(g.out), axis)
    return tuple(g.node("Squeeze", [part, g.ints([axis])]) for part in parts)


@aten("repeat", "tile", ops="Tile")
def repeat(g, self, repeats=None, dims=None):
    repeats = list(dims if repeats is None else repeats)
    repeats = [1] * (self.rank - len(repeats)) + repeats
    added = len(repeats) - self.rank
    value = g.reshape(self, [1] * added + list(self.shape)) if added else self
    return value if not repeats else g.node("Tile", [value, g.ints(repeats)])


@aten("flip", ops="Slice")
def flip(g, self, dims):
    if not dims or not self.rank:
        return self
    axes = [self.axis(axis) for axis in dims]
    count = len(axes)
    return g.node(
        "Slice",
        [
            self,
            g.ints([-1] * count),
            g.ints([-(2**63) + 1] * count),
            g.ints(axes),
            g.ints([-1] * count),
        ],
    )


@aten("roll", ops="Slice, Concat")
def roll(g, self, shifts, dims=()):
    if not dims:
        flat = g.reshape(self, [-1]) if self.rank != 1 else self
        rolled = _rolled(g, flat, 0, shifts[0], _count(self.shape))
        return g.reshape(rolled, self.shape)
    value = self
    for shift, axis in zip(shifts, dims):
        axis = self.axis(axis)
        value = _rolled(g, value, axis, shift, self.shape[axis])
    return value


def _count(sizes):
    count = 1
    for size in sizes:
        count = count * size
    return count


def _rolled(g, value, axis, shift, size):
    if isinstance(size, int):
        if not size or not shift % size:
            return value
        shift %= size
    elif not isinstance(shift, int):
        g.refuse("the distance is not known while compiling")
    elif shift == 0:
        return value
    end = 2**63 - 1
    return g.node(
        "Concat", [g.slice(value, axis, -shift, end), g.slice(value, axis, 0, -shift)], axis=axis
    )


@aten("unfold", "unfold_copy", ops="Gather")
def unfold(g, self, dimension, size, step):
    axis = self.axis(dimension)
    if not self.rank:
        return g.reshape(self, [size])
    extent = self.shape[axis]
    if not isinstance(extent, int):
        g.refuse("the size of the unfolded axis is not known while compiling")
    places = np.arange((extent - size) // step + 1)[:, None] * step + np.arange(size)
    gathered = g.node("Gather", [self, g.array(places.astype(np.int64))], axis=axis)
    order = [a for a in range(self.rank + 1) if a != axis + 1] + [axis + 1]
    return g.transpose(gathered, order)


@aten("unfold_backward", ops="Pad, Slice, Reshape, Add")
def unfold_backward(g, grad_in, input_sizes, dim, size, step):
    """Adds up overlapping windows: if windows are cut into pieces as long as a step, piece k of
    window n goes to position n + k."""
    axis = dim + len(input_sizes) if dim < 0 else dim
    count, length = grad_in.shape[axis], input_sizes[axis]
    if not is_static([count, length]):
        g.refuse("the number of windows is not known while compiling")
    pieces = -(-size // step)
    value = _padded(g, grad_in, [0, pieces * step - size], "constant", 0)
    # Moves the axis of positions in a window after the axis of windows.
    order = (
        [a for a in range(grad_in.rank - 1) if a <= axis]
        + [grad_in.rank - 1]
        + [a for a in range(grad_in.rank - 1) if a > axis]
    )
    value, total = g.transpose(value, order), None
    for piece in range(pieces):
        part = g.slice(value, axis + 1, piece * step, (piece + 1) * step)
        ends = [0] * (2 * grad_in.rank)
        ends[axis], ends[grad_in.rank + axis] = piece, pieces - 1 - piece
        part = g.node("Pad", [part, g.ints(ends)]) if pieces > 1 else part
        total = part if total is None else g.node("Add", [total, part])
    sizes = list(grad_in.shape[:-1])
    sizes[axis] = covered = (count + pieces - 1) * step
    total = g.reshape(total, sizes)
    if covered > length:
        total = g.slice(total, axis, 0, length)
    elif covered < length:
        ends = [length - covered if a == axis else 0 for a in range(len(sizes))]
        total = g.node("Pad", [total, g.ints([0] * len(sizes) + ends)])
    sizes[axis] = length
    # PyTorch's own decomposition of istft has one set of windows for all signals.
    return total if sizes == list(input_sizes) else g.node("Expand", [total, g.ints(input_sizes)])


@aten("as_strided", "as_strided_copy", ops="Reshape, Gather")
def as_strided(g, self, size, stride, storage_offset=None):
    if not (is_static(self.shape) and is_static(size) and is_static(stride)):
        g.refuse("sizes are not known while compiling")
    base_offset = self.fake.storage_offset()
    offset = base_offset if storage_offset is None else storage_offset
    flat, begin = _stored(g, self), base_offset
    places = np.full([1] * len(size), offset - begin, np.int64)
    for axis, (extent, step) in enumerate(zip(size, stride)):
        places = places + (np.arange(extent) * step).reshape([-1] + [1] * (len(size) - axis - 1))
    count = _count(self.shape)
    if places.size and (places.min() < 0 or places.max() >= count):
        g.refuse("it reads memory of its base that is outside of the operand")
    return g.node("Gather", [flat, g.array(places.reshape(size))], axis=0)


def _stored(g, value):
    """The elements of a dense tensor in the order in which PyTorch stores them."""
    strides = value.fake.stride()
    order = sorted(range(value.rank), key=lambda axis: (-strides[axis], axis))
    expected = 1
    for axis in reversed(order):
        if value.shape[axis] != 1 and strides[axis] != expected:
            g.refuse("its operand is not dense in memory")
        expected *= value.shape[axis]
    return g.reshape(g.transpose(value, order), [-1])


@aten("diagonal", "diagonal_copy", ops="Gather")
def diagonal(g, self, offset=0, dim1=0, dim2=1):
    a, b = self.axis(dim1), self.axis(dim2)
    rows, columns = self.shape[a], self.shape[b]
    if not is_static((rows, columns)):
        g.refuse("sizes are not known while compiling")
    others = [axis for axis in range(self.rank) if axis not in (a, b)]
    value = g.transpose(self, others + [a, b])
    value = g.reshape(value, [self.shape[axis] for axis in others] + [rows * columns])
    count = g.out.shape[-1]
    begin = offset if offset >= 0 else -offset * columns
    places = begin + np.arange(count, dtype=np.int64) * (columns + 1)
    return g.node("Gather", [value, g.array(places)], axis=len(others))


@aten("constant_pad_nd", ops="Pad")
def constant_pad(g, self, pad, value=0):
    return _padded(g, self, pad, "constant", value)


@aten("pad", ops="Pad")
def pad(g, self, pad, mode="constant", value=None):
    return _padded(
        g, self, pad, {"replicate": "edge", "circular": "wrap"}.get(mode, mode), value or 0
    )


def _padded(g, self, pad, mode, value=None):
    begins, ends = [0] * self.rank, [0] * self.rank
    for number in range(len(pad) // 2):
        begins[self.rank - 1 - number], ends[self.rank - 1 - number] = (
            pad[2 * number],
            pad[2 * number + 1],
        )
    if is_static(begins + ends) and not any(begins + ends):
        return self
    given = [g.constant(value, self.dtype)] if mode == "constant" else []
    return g.node("Pad", [self, g.ints(begins + ends), *given], mode=mode)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", ops="Pad")
def reflection_pad(g, self, padding):
    return _padded(g, self, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d", ops="Pad")
def replication_pad(g, self, padding):
    return _padded(g, self, padding, "edge")


@aten("pixel_shuffle", ops="DepthToSpace")
def pixel_shuffle(g, self, upscale_factor):
    if self.rank != 4:
        value = g.node(
            "DepthToSpace",
            [g.reshape(self, [-1, *self.shape[-3:]])],
            blocksize=upscale_factor,
            mode="CRD",
        )
        return g.reshape(value, g.out.shape)
    return g.node("DepthToSpace", [self], blocksize=upscale_factor, mode="CRD")


@aten("pixel_unshuffle", ops="Reshape, Transpose")
def pixel_unshuffle(g, self, downscale_factor):
    r = downscale_factor
    *batch, channels, height, width = self.shape
    lead = len(batch)
    value = g.reshape(self, [*batch, channels, height // r, r, width // r, r])
    value = g.transpose(value, [*range(lead), lead, lead + 2, lead + 4, lead + 1, lead + 3])
    return g.reshape(value, g.out.shape)


@aten("channel_shuffle", "native_channel_shuffle", ops="Reshape, Transpose")
def channel_shuffle(g, self, groups):
    batch, channels, *rest = self.shape
    value = g.reshape(self, [batch, groups, channels // groups, *rest])
    value = g.transpose(value, [0, 2, 1, *range(3, 3 + len(rest))])
    return g.reshape(value, self.shape)


@aten("tril", ops="Trilu")
def tril(g, self, diagonal=0):
    return _triangle(g, self, diagonal, 0)


@aten("triu", ops="Trilu")
def triu(g, self, diagonal=0):
    return _triangle(g, self, diagonal, 1)


def _triangle(g, self, diagonal, upper):
    if self.dtype == torch.bool:
        value = g.node(
            "Trilu", [g.cast(self, torch.uint8), g.constant(diagonal, torch.int64)], upper=upper
        )
        return g.cast(value, torch.bool, torch.uint8)
    return g.node("Trilu", [self, g.scalar(diagonal, torch.int64)], upper=upper)
