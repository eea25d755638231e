"""The package torchvision, with its operators. Where its library does not load, because it is built
for another PyTorch, they are declared here and run as plain PyTorch: what a model computes by them
is what the table of tc is compared with."""

import sys
import types

import numpy
import torch

_NO_GRADIENT = (
    "(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
)
_ROI = "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_DEFORMED = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask"
)
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align" + _ROI + ", int sampling_ratio, bool aligned) -> Tensor",
    "qroi_align(Tensor input, Tensor rois) -> Tensor",
    "roi_pool" + _ROI + ") -> (Tensor, Tensor)",
    "ps_roi_pool" + _ROI + ") -> (Tensor, Tensor)",
    "ps_roi_align" + _ROI + ", int sampling_ratio) -> (Tensor, Tensor)",
    f"deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_DEFORMED}) -> Tensor",
    *(
        f"_{name}_backward{_NO_GRADIENT}) -> Tensor"
        for name in ("roi_align", "roi_pool", "ps_roi_pool", "ps_roi_align")
    ),
    "_deform_conv2d_backward(Tensor grad, Tensor input) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
)
_kept = []  # the declarations last as long as this


def import_torchvision():
    if "torchvision" not in sys.modules and not _loads():
        _declare()
    import torchvision

    return torchvision


def _loads():
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        return False
    return True


def _declare():
    library = torch.library.Library("torchvision", "DEF")
    _kept.append(library)
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("nms", _suppressed, "CPU")
    library.impl("roi_align", _aligned, "CPU")
    library.impl("deform_conv2d", _deformed, "CPU")
    extension = types.ModuleType("torchvision.extension")
    extension._has_ops, extension._assert_has_ops, extension._check_cuda_version = (
        _true,
        _nothing,
        _no_cuda,
    )
    extension._load_library = lambda name: False
    sys.modules["torchvision.extension"] = extension


def _true() -> bool:
    return True


def _no_cuda():
    return -1


def _nothing() -> None:
    pass


def _suppressed(dets, scores, iou_threshold):
    """The boxes in the order of their scores, without those that a better one overlaps by more than
    the threshold."""
    order = scores.sort(stable=True, descending=True).indices
    boxes = dets[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    sides = (
        torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        - torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    ).clamp(min=0)
    common = sides.prod(dim=2)
    overlaps = common / (areas[:, None] + areas[None, :] - common) > iou_threshold
    apart, kept = (~overlaps).numpy(), numpy.ones(len(order), bool)
    for number in range(len(order)):
        if kept[number]:
            kept[number + 1 :] &= apart[number, number + 1 :]
    return order[torch.from_numpy(kept)]


def _aligned(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Means of samples of a grid in each part of each box, one box after the other."""
    offset = 0.5 if aligned else 0.0
    results = [
        _aligned_box(
            input[int(roi[0])],
            *(roi[1:] * spatial_scale - offset).tolist(),
            (pooled_height, pooled_width),
            sampling_ratio,
            aligned,
        )
        for roi in rois
    ]
    return (
        torch.stack(results)
        if results
        else input.new_zeros(0, input.shape[1], pooled_height, pooled_width)
    )


def _aligned_box(image, left, top, right, bottom, sizes, ratio, aligned):
    rows = _weights(top, bottom, sizes[0], image.shape[1], ratio, aligned)
    columns = _weights(left, right, sizes[1], image.shape[2], ratio, aligned)
    return torch.einsum("chw,ph,qw->cpq", image.double(), rows, columns).to(image.dtype)


def _weights(start, end, parts, extent, ratio, aligned):
    """For each part of the side of a box, the weight of each row of the image: bilinear weights of
    the part's samples, averaged."""
    length = end - start if aligned else max(end - start, 1.0)
    count = ratio if ratio > 0 else max(-int(-length // parts), 1)
    weights = torch.zeros(parts, extent, dtype=torch.float64)
    for part in range(parts):
        for sample in range(count):
            place = start + (part + (sample + 0.5) / count) * length / parts
            if place < -1.0 or place > extent:
                continue
            place = min(max(place, 0.0), extent - 1.0)
            low = int(place)
            weights[part, low] += (1 - (place - low)) / count
            weights[part, min(low + 1, extent - 1)] += (place - low) / count
    return weights


def _columns_of_taps(input, offset, mask, kernel, strides, paddings, dilations, groups):
    """The elements that each tap meets: [batch, channels, taps, height, width]."""
    batch, channels, height, width = input.shape
    out_height, out_width = offset.shape[2:]
    rows, columns = kernel
    moves = offset.reshape(batch, groups, rows * columns, 2, out_height, out_width)
    taps = torch.arange(rows * columns)
    y = (
        (torch.arange(out_height) * strides[0] - paddings[0]).view(-1, 1)
        + ((taps // columns) * dilations[0]).view(-1, 1, 1)
        + moves[:, :, :, 0]
    )
    x = (
        (torch.arange(out_width) * strides[1] - paddings[1]).view(1, -1)
        + ((taps % columns) * dilations[1]).view(-1, 1, 1)
        + moves[:, :, :, 1]
    )
    grid = torch.stack((2 * (x + 0.5) / width - 1, 2 * (y + 0.5) / height - 1), -1)
    parts = input.reshape(batch * groups, channels // groups, height, width)
    grid = grid.reshape(batch * groups, rows * columns * out_height, out_width, 2)
    found = torch.nn.functional.grid_sample(parts, grid, align_corners=False).reshape(
        batch, groups, channels // groups, rows * columns, out_height, out_width
    )
    if mask is not None:
        found = found * mask.reshape(batch, groups, 1, rows * columns, out_height, out_width)
    return found.reshape(batch, channels, rows * columns, out_height, out_width)


def _deformed(
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
):
    found = _columns_of_taps(
        input,
        offset,
        mask if use_mask else None,
        weight.shape[2:],
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        offset_groups,
    )
    batch, channels, taps, height, width = found.shape
    parts = found.reshape(batch, groups, channels // groups * taps, height * width)
    result = torch.einsum(
        "ngkp,gok->ngop", parts, weight.reshape(groups, -1, channels // groups * taps)
    )
    return result.reshape(batch, -1, height, width) + bias.view(1, -1, 1, 1)
