"""Resizing images, and turning blocks of pixels into channels and back."""

import numpy as np

from ..describe import Refusal
from . import quantised_windows
from .integers import ENDS, same_scale, zero_of
from .table import operator


def _sizes(call):
    sizes = call.ints(1, "the size of the result")
    if len(sizes) != 2 or min(sizes) < 1:
        raise Refusal(
            f"the result has the sizes {sizes}; height and width of at least 1 are needed"
        )
    call.need_few(max(sizes), "an axis of the result")
    return sizes


def _transformation(call):
    corners, centres = bool(call.option("AlignCorners")), bool(call.option("HalfPixelCenters"))
    if corners and centres:
        raise Refusal("its options AlignCorners and HalfPixelCenters exclude each other")
    return "align_corners" if corners else "half_pixel" if centres else "asymmetric"


def _resize(g, call, sizes, **attributes):
    x = call.inputs[0]
    name = g.node(
        "Resize",
        [g.channels_first(x), None, None, g.ints([x.shape[0], x.shape[3], *sizes])],
        **attributes,
    )
    g.give(call.out, name, channels_first=True)


@operator("RESIZE_BILINEAR", options="ResizeBilinearOptions", inputs=(2, 2))
def resize_bilinear(g, call):
    x, sizes, transformation = call.inputs[0], _sizes(call), _transformation(call)
    call.need_rank(x, 4)
    if x.dtype in ENDS:
        quantised_windows.resize_bilinear(g, call, sizes)
        return
    if x.dtype != "f32":
        raise Refusal(
            f"'{x.tensor.name}' is {x.dtype}, and only f32, {', '.join(ENDS)} is supported here"
        )
    _resize(g, call, sizes, mode="linear", coordinate_transformation_mode=transformation)


def _nearest(size, result, transformation):
    """Which elements are taken along an axis, computed in float32 as the reference kernels do."""
    corners = transformation == "align_corners"
    scale = (
        np.float32(size - 1) / np.float32(result - 1)
        if corners and result > 1
        else np.float32(size) / np.float32(result)
    )
    places = (
        np.arange(result, dtype=np.float32)
        + np.float32(0.5 if transformation == "half_pixel" else 0)
    ) * scale
    whole = np.floor(places.astype(np.float64) + 0.5) if corners else np.floor(places)
    return np.minimum(whole.astype(np.int64), size - 1)


@operator("RESIZE_NEAREST_NEIGHBOR", options="ResizeNearestNeighborOptions", inputs=(2, 2))
def resize_nearest_neighbor(g, call):
    x, sizes, transformation = call.inputs[0], _sizes(call), _transformation(call)
    call.need_rank(x, 4)
    same_scale(call, [x, call.out])
    if x.dtype == "f32":
        rounding = "floor" if transformation == "asymmetric" else "round_prefer_ceil"
        _resize(
            g,
            call,
            sizes,
            mode="nearest",
            coordinate_transformation_mode=transformation,
            nearest_mode=rounding,
        )
        return
    name = g.channels_first(x)
    for axis in range(2):
        name = g.node(
            "Gather",
            [name, g.ints(_nearest(x.shape[1 + axis], sizes[axis], transformation))],
            axis=2 + axis,
        )
    g.give(call.out, name, channels_first=True)


@operator("DEPTH_TO_SPACE", options="DepthToSpaceOptions")
def depth_to_space(g, call):
    call.need_rank(call.inputs[0], 4)
    g.give(
        call.out,
        g.node(
            "DepthToSpace",
            [g.channels_first(call.inputs[0])],
            blocksize=call.positive("BlockSize"),
            mode="DCR",
        ),
        True,
    )


@operator("SPACE_TO_DEPTH", options="SpaceToDepthOptions")
def space_to_depth(g, call):
    call.need_rank(call.inputs[0], 4)
    g.give(
        call.out,
        g.node(
            "SpaceToDepth", [g.channels_first(call.inputs[0])], blocksize=call.positive("BlockSize")
        ),
        True,
    )


def _blocks(call, pairs):
    """(block sizes, pairs (elements before, elements after)) of the spatial axes."""
    x, blocks = call.inputs[0], call.ints(1, "the list of block sizes")
    data = call.constant(2, pairs)
    if (
        not blocks
        or min(blocks) < 1
        or x.rank < 1 + len(blocks)
        or data.shape != (len(blocks), 2)
        or data.min() < 0
    ):
        raise Refusal(
            f"blocks of {blocks} with {pairs} of shape {list(data.shape)} do not fit the shape {list(x.shape)}"
        )
    return blocks, [[int(each) for each in row] for row in data]


@operator("SPACE_TO_BATCH_ND", inputs=(3, 3))
def space_to_batch(g, call):
    x = call.inputs[0]
    blocks, pads = _blocks(call, "padding")
    same_scale(call, [x, call.out])
    rank, spatial = x.rank, len(blocks)
    name = g.plain(x)
    if any(map(any, pads)):
        before, after = [0] * rank, [0] * rank
        before[1 : 1 + spatial], after[1 : 1 + spatial] = (
            [low for low, _ in pads],
            [high for _, high in pads],
        )
        name = g.node("Pad", [name, g.ints(before + after), g.number(zero_of(x), x.dtype)])
    padded = [size + low + high for size, (low, high) in zip(x.shape[1:], pads)]
    if any(size % block for size, block in zip(padded, blocks)):
        raise Refusal(f"sizes {padded} are no multiples of the blocks {blocks}")
    split = [x.shape[0]]
    for size, block in zip(padded, blocks):
        split += [size // block, block]
    rest = list(range(len(split), len(split) + rank - 1 - spatial))
    name = g.reshape(name, split + list(x.shape[1 + spatial :]))
    order = (
        [2 * axis + 2 for axis in range(spatial)]
        + [0]
        + [2 * axis + 1 for axis in range(spatial)]
        + rest
    )
    name = g.node("Transpose", [name], perm=order)
    batch = x.shape[0]
    for block in blocks:
        batch *= block
    g.give(
        call.out,
        g.reshape(
            name,
            [batch]
            + [size // block for size, block in zip(padded, blocks)]
            + list(x.shape[1 + spatial :]),
        ),
    )


@operator("BATCH_TO_SPACE_ND", inputs=(3, 3))
def batch_to_space(g, call):
    x = call.inputs[0]
    blocks, crops = _blocks(call, "crops")
    spatial, batch = len(blocks), x.shape[0]
    for block in blocks:
        if batch % block:
            raise Refusal(f"a batch of {x.shape[0]} is no multiple of the blocks {blocks}")
        batch //= block
    name = g.reshape(g.plain(x), [*blocks, batch, *x.shape[1:]])
    order = [spatial]
    for axis in range(spatial):
        order += [spatial + 1 + axis, axis]
    name = g.node("Transpose", [name], perm=order + list(range(2 * spatial + 1, spatial + x.rank)))
    whole = [size * block for size, block in zip(x.shape[1:], blocks)]
    name = g.reshape(name, [batch, *whole, *x.shape[1 + spatial :]])
    if any(map(any, crops)):
        axes = list(range(1, 1 + spatial))
        name = g.node(
            "Slice",
            [
                name,
                g.ints([low for low, _ in crops]),
                g.ints([size - high for size, (_, high) in zip(whole, crops)]),
                g.ints(axes),
            ],
        )
    g.give(call.out, name)
