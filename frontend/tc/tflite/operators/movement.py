"""Operators whose results consist of elements of their operands: reshaping, slicing, joining,
transposing."""

import math

import numpy as np

from ..describe import NUMPY_TYPES, TO_CHANNELS_FIRST, TO_FILE_ORDER, Refusal
from .integers import need_same_units, same_scale, zero_of
from .table import operator


def reshaped(g, call, shape):
    """Sets the result to a view of the operand. After an image with one pixel or one channel, no
    Transpose is needed."""
    x = call.inputs[0]
    if math.prod(shape) != math.prod(x.shape):
        raise Refusal(
            f"'{x.tensor.name}' of shape {list(x.shape)} cannot have the shape {list(shape)}"
        )
    if x.is_image and len([size for size in x.shape[1:3] if size != 1]) == 0:
        g.give(call.out, g.reshape(x.channels_first, shape))
    else:
        g.give(call.out, g.reshape(g.plain(x), shape))


@operator("RESHAPE", inputs=(1, 2))
def reshape(g, call):
    same_scale(call, [call.inputs[0], call.out])
    asked = call.inputs[1]
    if asked is not None and asked.data is not None:
        shape = [int(size) for size in asked.data.reshape(-1)]
    elif asked is None and "NewShape" in call.operator.options:
        shape = [int(size) for size in call.option("NewShape")]
    elif asked is None:
        shape = list(call.out.shape)
    else:
        g.give(
            call.out,
            g.node(
                "Reshape",
                [g.plain(call.inputs[0]), g.cast(g.plain(asked), asked.dtype, "i64")],
                allowzero=1,
            ),
        )
        return
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        shape[shape.index(-1)] = math.prod(call.inputs[0].shape) // rest if rest else 0
    if any(size < 0 for size in shape):
        raise Refusal(f"the shape {shape} has sizes under 0")
    reshaped(g, call, shape)


@operator("DENSIFY")
def densify(g, call):
    """DENSIFY of a constant: it was made dense when the file was read."""
    x = call.inputs[0]
    if x.data is None:
        raise Refusal(
            f"'{x.tensor.name}' is computed while the model runs; only constants are supported"
        )
    call.out.tensor.data = x.data
    call.out.tensor.quantisation = call.out.tensor.quantisation or x.tensor.quantisation


@operator("SQUEEZE", options="SqueezeOptions")
def squeeze(g, call):
    x = call.inputs[0]
    axes = {call.axis(axis, x.rank) for axis in call.option("SqueezeDims", [])} or {
        i for i, size in enumerate(x.shape) if size == 1
    }
    if any(x.shape[axis] != 1 for axis in axes):
        raise Refusal(f"axes {sorted(axes)} of {list(x.shape)} are not all of size 1")
    reshaped(g, call, [size for i, size in enumerate(x.shape) if i not in axes])


@operator("EXPAND_DIMS", inputs=(2, 2))
def expand_dims(g, call):
    x = call.inputs[0]
    axes = call.ints(1, "the axis")
    if len(axes) != 1:
        raise Refusal(f"it has {len(axes)} axes and takes one")
    shape = list(x.shape)
    shape.insert(call.axis(axes[0], x.rank + 1), 1)
    reshaped(g, call, shape)


@operator("TRANSPOSE", inputs=(2, 2))
def transpose(g, call):
    x = call.inputs[0]
    order = call.ints(1, "the order of axes")
    if sorted(order) != list(range(x.rank)):
        raise Refusal(f"the order {order} is none of {x.rank} axes")
    if x.is_image and tuple(order) == TO_CHANNELS_FIRST:
        g.give(call.out, x.channels_first)
    elif tuple(order) == TO_FILE_ORDER and x.rank == 4:
        # The file has the channels in front here, so the value becomes an image.
        g.give(call.out, g.plain(x), channels_first=True)
    else:
        g.give(call.out, g.moved(g.plain(x), x.shape, order))


@operator("CONCATENATION", options="ConcatenationOptions", inputs=(1, -1))
def concatenation(g, call):
    same_scale(call, [*call.inputs, call.out])
    rank = call.out.rank
    if any(value.rank != rank for value in call.inputs):
        raise Refusal("its operands have different numbers of axes")
    axis = call.axis(int(call.option("Axis")), rank)
    if call.activation != "NONE" and call.out.dtype != "f32":
        raise Refusal(
            f"the fused activation {call.activation} of {call.out.dtype} is not supported"
        )
    names, images = g.aligned(call.inputs, rank)
    name = g.node("Concat", names, axis=TO_CHANNELS_FIRST.index(axis) if images else axis)
    g.give(call.out, g.activated(name, call.activation), images)


def _split(g, call, x, axis, sizes):
    if len(sizes) != len(call.outputs) or sum(sizes) != x.shape[axis]:
        raise Refusal(
            f"parts of {sizes} for {len(call.outputs)} outputs do not fit axis {axis} of {list(x.shape)}"
        )
    same_scale(call, [x, *call.outputs])
    (name,), images = g.aligned([x], x.rank)
    axis = TO_CHANNELS_FIRST.index(axis) if images else axis
    if len(sizes) == 1:
        names = [g.node("Identity", [name])]
    else:
        names = g.node("Split", [name, g.ints(sizes)], outputs=len(sizes), axis=axis)
    for value, each in zip(call.outputs, names):
        g.give(value, each, images)


@operator("SPLIT", options="SplitOptions", inputs=(2, 2))
def split(g, call):
    x = call.inputs[1]
    axes, parts = call.axes(0, x.rank), len(call.outputs)
    if len(axes) != 1 or x.shape[axes[0]] % parts:
        raise Refusal(f"axis {axes} of {list(x.shape)} cannot be split into {parts} equal parts")
    _split(g, call, x, axes[0], [x.shape[axes[0]] // parts] * parts)


@operator("SPLIT_V", options="SplitVOptions", inputs=(3, 3))
def split_v(g, call):
    x = call.inputs[0]
    sizes, axes = call.ints(1, "the list of sizes"), call.axes(2, x.rank)
    if len(axes) != 1:
        raise Refusal(f"it has {len(axes)} axes and takes one")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axes[0]] - sum(sizes) - 1
    if any(size < 0 for size in sizes):
        raise Refusal(f"the sizes {sizes} are not all at least 0")
    _split(g, call, x, axes[0], sizes)


@operator("PACK", options="PackOptions", inputs=(1, -1))
def pack(g, call):
    same_scale(call, [*call.inputs, call.out])
    shape = list(call.inputs[0].shape)
    axis = call.axis(int(call.option("Axis")), len(shape) + 1)
    shape.insert(axis, 1)
    if any(value.shape != call.inputs[0].shape for value in call.inputs):
        raise Refusal("its operands have different shapes")
    names = [g.reshape(g.plain(value), shape) for value in call.inputs]
    g.give(call.out, names[0] if len(names) == 1 else g.node("Concat", names, axis=axis))


@operator("UNPACK", options="UnpackOptions")
def unpack(g, call):
    x = call.inputs[0]
    axis = call.axis(int(call.option("Axis")), x.rank)
    if x.shape[axis] != len(call.outputs):
        raise Refusal(
            f"axis {axis} of {list(x.shape)} makes {x.shape[axis]} parts, and it has {len(call.outputs)} outputs"
        )
    same_scale(call, [x, *call.outputs])
    shape = [size for i, size in enumerate(x.shape) if i != axis]
    names = (
        [g.plain(x)]
        if len(call.outputs) == 1
        else g.node(
            "Split",
            [g.plain(x), g.ints([1] * len(call.outputs))],
            outputs=len(call.outputs),
            axis=axis,
        )
    )
    for value, name in zip(call.outputs, names):
        g.give(value, g.reshape(name, shape))


def sliced(g, x, begins, ends, steps):
    """(name, whether the channels are in front) of the part of a value between these indices of
    each axis."""
    (name,), images = g.aligned([x], x.rank)
    axes = [
        axis
        for axis in range(x.rank)
        if (begins[axis], ends[axis], steps[axis]) != (0, x.shape[axis], 1)
    ]
    if not axes:
        return name, images
    places = [TO_CHANNELS_FIRST.index(axis) if images else axis for axis in axes]
    # If a negative step is to include the first element, the end has to be before the array.
    ends = [-(1 << 31) if steps[axis] < 0 and ends[axis] < 0 else ends[axis] for axis in axes]
    return g.node(
        "Slice",
        [
            name,
            g.ints(begins[axis] for axis in axes),
            g.ints(ends),
            g.ints(places),
            g.ints(steps[axis] for axis in axes),
        ],
    ), images


@operator("SLICE", inputs=(3, 3))
def slice_(g, call):
    x = call.inputs[0]
    begins, sizes = call.ints(1, "the begin"), call.ints(2, "the size")
    if len(begins) != x.rank or len(sizes) != x.rank:
        raise Refusal(
            f"{len(begins)} begins and {len(sizes)} sizes do not fit the shape {list(x.shape)}"
        )
    ends = [
        x.shape[i] if size == -1 else begin + size
        for i, (begin, size) in enumerate(zip(begins, sizes))
    ]
    if any(not 0 <= begin <= end <= size for begin, end, size in zip(begins, ends, x.shape)):
        raise Refusal(f"the part from {begins} to {ends} is not inside the shape {list(x.shape)}")
    g.give(call.out, *sliced(g, x, begins, ends, [1] * x.rank))


@operator("STRIDED_SLICE", options="StridedSliceOptions", inputs=(4, 4))
def strided_slice(g, call):
    x = call.inputs[0]
    begins, ends, steps = (
        call.ints(i, what)
        for i, what in ((1, "the begin"), (2, "the end"), (3, "the list of steps"))
    )
    if not len(begins) == len(ends) == len(steps) or 0 in steps:
        raise Refusal(f"begins {begins}, ends {ends} and steps {steps} do not fit each other")
    masks = {
        field: int(call.option(field))
        for field in ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
    }
    places, shape = _places(call, x, (begins, ends, steps), masks)
    name, images = sliced(g, x, *places)
    if len(shape) == x.rank and not masks["ShrinkAxisMask"] and not masks["NewAxisMask"]:
        g.give(call.out, name, images)
    else:
        name = (
            g.moved(
                name,
                [_extent(*each) for each in _channels_first(list(zip(*places)))],
                TO_FILE_ORDER,
            )
            if images
            else name
        )
        g.give(call.out, g.reshape(name, shape))


def _channels_first(rows):
    return [rows[axis] for axis in TO_CHANNELS_FIRST]


def _extent(begin, end, step):
    return max(-((begin - end) // step), 0)


def _places(call, x, given, masks):
    """((begins, ends, steps) of every axis, the shape of the result) of a strided slice, its masks
    applied."""

    def bit(mask, i):
        return masks[mask] >> i & 1

    count = len(given[0])
    axes_of_slice = [i for i in range(count) if not bit("NewAxisMask", i) or bit("EllipsisMask", i)]
    skipped = x.rank - len([i for i in axes_of_slice if not bit("EllipsisMask", i)])
    begins, ends, steps, shape = [], [], [], []

    def whole():
        size = x.shape[len(begins)]
        begins.append(0), ends.append(size), steps.append(1), shape.append(size)

    for i in range(count):
        if bit("EllipsisMask", i):
            for _ in range(max(skipped, 0)):
                whole()
            skipped = 0
            continue
        if bit("NewAxisMask", i):
            shape.append(1)
            continue
        if len(begins) >= x.rank:
            raise Refusal(f"a slice of {count} places does not fit the shape {list(x.shape)}")
        size, step = x.shape[len(begins)], given[2][i]
        begin = (
            _clamped(given[0][i], size, step)
            if not bit("BeginMask", i)
            else (0 if step > 0 else size - 1)
        )
        end = (
            _clamped(given[1][i], size, step)
            if not bit("EndMask", i)
            else (size if step > 0 else -1)
        )
        if bit("ShrinkAxisMask", i):
            if not 0 <= begin < size:
                raise Refusal(
                    f"index {given[0][i]} is outside of axis {len(begins)} of {list(x.shape)}"
                )
            end, step = begin + 1, 1
        else:
            shape.append(_extent(begin, end, step))
        begins.append(begin), ends.append(end), steps.append(step)
    while len(begins) < x.rank:
        whole()
    return (begins, ends, steps), shape


def _clamped(place, size, step):
    place = place + size if place < 0 else place
    return min(max(place, 0), size) if step > 0 else min(max(place, -1), size - 1)


def _padding(call, x):
    pads = call.constant(1, "the padding")
    if pads.shape != (x.rank, 2) or pads.dtype.kind not in "iu" or (pads.size and pads.min() < 0):
        raise Refusal(f"padding of shape {list(pads.shape)} does not fit the shape {list(x.shape)}")
    return [[int(each) for each in row] for row in pads]


def _pad(g, call, value=None, **attributes):
    x = call.inputs[0]
    same_scale(call, [x, call.out])
    rows = _padding(call, x)
    (name,), images = g.aligned([x], x.rank)
    rows = _channels_first(rows) if images else rows
    ends = [row[0] for row in rows] + [row[1] for row in rows]
    if any(ends):
        name = g.node("Pad", [name, g.ints(ends), value], **attributes)
    g.give(call.out, name, images)


@operator("PAD", inputs=(2, 2))
def pad(g, call):
    x = call.inputs[0]
    _pad(g, call, g.number(zero_of(x), x.dtype))


@operator("PADV2", inputs=(3, 3))
def pad_v2(g, call):
    x, value = call.inputs[0], call.inputs[2]
    need_same_units(x, value)
    if math.prod(value.shape) != 1:
        raise Refusal(f"the value has the shape {list(value.shape)}; one number is needed")
    _pad(g, call, g.reshape(g.plain(value), []))


def _mirrored(size, before, after, edge):
    """The indices along an axis that is padded with its mirror images; `edge` is 1 where the first
    and the last element are not repeated."""
    places = list(range(size))
    left = [places[edge + i] for i in range(before)][::-1]
    return left + places + [places[size - 1 - edge - i] for i in range(after)]


@operator("MIRROR_PAD", options="MirrorPadOptions", inputs=(2, 2))
def mirror_pad(g, call):
    x = call.inputs[0]
    same_scale(call, [x, call.out])
    edge = 0 if call.option("Mode") else 1  # mode 0 is reflection, 1 symmetry
    rows = _padding(call, x)
    if any(max(row) > max(size - edge, 0) for row, size in zip(rows, x.shape)):
        raise Refusal(f"padding of {rows} is more than the shape {list(x.shape)} can mirror")
    if edge:
        _pad(g, call, mode="reflect")
        return
    (name,), images = g.aligned([x], x.rank)
    for axis, ((before, after), size) in enumerate(zip(rows, x.shape)):
        if before or after:
            call.need_few(before + size + after, "a mirrored axis")
            name = g.node(
                "Gather",
                [name, g.ints(_mirrored(size, before, after, edge))],
                axis=TO_CHANNELS_FIRST.index(axis) if images else axis,
            )
    g.give(call.out, name, images)


@operator("GATHER", options="GatherOptions", inputs=(2, 2))
def gather(g, call):
    x, indices = call.inputs
    if call.option("BatchDims"):
        raise Refusal("batches of indices are not supported")
    same_scale(call, [x, call.out])
    size = x.shape[call.axis(int(call.option("Axis")), x.rank)]
    if (
        indices.data is not None
        and indices.data.size
        and not (0 <= indices.data.min() and indices.data.max() < size)
    ):
        raise Refusal(
            f"its indices are {indices.data.min()} to {indices.data.max()}, and the axis has {size} elements"
        )
    g.give(
        call.out,
        g.node(
            "Gather",
            [g.plain(x), g.plain(indices)],
            axis=call.axis(int(call.option("Axis")), x.rank),
        ),
    )


@operator("GATHER_ND", inputs=(2, 2))
def gather_nd(g, call):
    x, indices = call.inputs
    g.give(
        call.out, g.node("GatherND", [g.plain(x), g.cast(g.plain(indices), indices.dtype, "i64")])
    )


@operator("TILE", inputs=(2, 2))
def tile(g, call):
    g.give(
        call.out,
        g.node(
            "Tile", [g.plain(call.inputs[0]), g.ints(call.ints(1, "the numbers of repetitions"))]
        ),
    )


@operator("BROADCAST_TO", inputs=(2, 2))
def broadcast_to(g, call):
    g.give(call.out, g.node("Expand", [g.plain(call.inputs[0]), g.ints(call.ints(1, "the shape"))]))


@operator("FILL", inputs=(2, 2))
def fill(g, call):
    need_same_units(call.inputs[1], call.out)
    g.give(call.out, g.node("Expand", [g.plain(call.inputs[1]), g.ints(call.ints(0, "the shape"))]))


@operator("RANGE", inputs=(3, 3))
def range_(g, call):
    g.give(call.out, g.node("Range", [g.plain(value) for value in call.inputs]))


@operator("SHAPE", options="ShapeOptions")
def shape_(g, call):
    kind = np.int64 if call.out.dtype == "i64" else np.int32
    call.out.tensor.data = np.array(call.inputs[0].shape, kind)


@operator("ZEROS_LIKE")
def zeros_like(g, call):
    x = call.inputs[0]
    g.give(
        call.out, g.node("Expand", [g.number(zero_of(call.out), call.out.dtype), g.ints(x.shape)])
    )


@operator("REVERSE_V2", inputs=(2, 2))
def reverse(g, call):
    x = call.inputs[0]
    axes = set(call.axes(1, x.rank))
    begins = [size - 1 if i in axes else 0 for i, size in enumerate(x.shape)]
    ends = [-1 if i in axes else size for i, size in enumerate(x.shape)]
    g.give(call.out, *sliced(g, x, begins, ends, [-1 if i in axes else 1 for i in range(x.rank)]))


@operator("DYNAMIC_UPDATE_SLICE", inputs=(3, 3))
def dynamic_update_slice(g, call):
    """Clamps the begin of the part so that all of it is inside of the array. Comparing indices
    along each axis then tells which elements are replaced."""
    x, part, begins = call.inputs
    need_same_units(x, part)
    need_same_units(x, call.out)
    if (
        part.rank != x.rank
        or begins.shape != (x.rank,)
        or any(size > whole for size, whole in zip(part.shape, x.shape))
    ):
        raise Refusal(
            f"a part of shape {list(part.shape)} at {list(begins.shape)} begins does not fit the shape {list(x.shape)}"
        )
    name, inside = g.plain(part), None
    first = g.cast(g.plain(begins), begins.dtype, "i64")
    most = g.ints(whole - size for whole, size in zip(x.shape, part.shape))
    first = g.node("Min", [g.node("Max", [first, g.number(0, "i64")]), most])
    for axis, (size, whole) in enumerate(zip(part.shape, x.shape)):
        if size == whole:
            continue
        call.need_few(whole, "an axis")
        places = g.node(
            "Sub",
            [
                g.ints(range(whole)),
                g.node("Slice", [first, g.ints([axis]), g.ints([axis + 1]), g.ints([0])]),
            ],
        )
        name = g.node(
            "Gather",
            [name, g.node("Clip", [places, g.number(0, "i64"), g.number(size - 1, "i64")])],
            axis=axis,
        )
        here = g.node(
            "And",
            [
                g.node("GreaterOrEqual", [places, g.number(0, "i64")]),
                g.node("Less", [places, g.number(size, "i64")]),
            ],
        )
        here = g.reshape(here, [whole if i == axis else 1 for i in range(x.rank)])
        inside = here if inside is None else g.node("And", [inside, here])
    g.give(call.out, name if inside is None else g.node("Where", [inside, name, g.plain(x)]))


@operator("SPARSE_TO_DENSE", options="SparseToDenseOptions", inputs=(4, 4))
def sparse_to_dense(g, call):
    indices, sizes, values, fallback = call.inputs
    need_same_units(values, call.out)
    need_same_units(fallback, call.out)
    shape = call.ints(1, "the shape")
    whole = g.node("Expand", [g.reshape(g.plain(fallback), []), g.ints(shape)])
    count = indices.shape[0] if indices.rank else 1
    if (
        indices.rank > 2
        or (indices.rank < 2 and len(shape) != 1)
        or (indices.rank == 2 and indices.shape[1] != len(shape))
    ):
        raise Refusal(f"indices of shape {list(indices.shape)} do not fit the shape {shape}")
    places = g.reshape(g.cast(g.plain(indices), indices.dtype, "i64"), [count, len(shape)])
    given = (
        g.reshape(g.plain(values), [count])
        if values.rank
        else g.node("Expand", [g.plain(values), g.ints([count])])
    )
    g.give(call.out, g.node("ScatterND", [whole, places, given]))


@operator("ONE_HOT", options="OneHotOptions", inputs=(4, 4))
def one_hot(g, call):
    indices, depth, on, off = call.inputs
    need_same_units(on, call.out)
    need_same_units(off, call.out)
    count = call.ints(1, "the depth")
    if len(count) != 1 or count[0] < 0:
        raise Refusal(f"its depth is {count}; one number of at least 0 is needed")
    call.need_few(count[0], "the axis of its depth")
    axis = int(call.option("Axis"))
    axis = indices.rank if axis == -1 else call.axis(axis, indices.rank + 1)
    shape = list(indices.shape)
    shape.insert(axis, 1)
    # An index outside of the depth, or a negative one, equals none of the positions.
    places = np.arange(count[0], dtype=NUMPY_TYPES[indices.dtype]).reshape(
        [-1 if i == axis else 1 for i in range(len(shape))]
    )
    here = g.node("Equal", [g.reshape(g.plain(indices), shape), g.constant(places)])
    g.give(
        call.out, g.node("Where", [here, g.reshape(g.plain(on), []), g.reshape(g.plain(off), [])])
    )
