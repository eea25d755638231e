"""torchvision's operators in Python, for a torchvision whose binary part does not fit the torch that is installed.

The exporters need the operators' schemas, their shapes, and one run; `import_torchvision()` imports torchvision with these in place of
the missing ones."""

import sys

import torch


def _suppressed(boxes, scores, limit):
    """Indices of the boxes that no better box overlaps by more than the limit, the best first."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept, rest = [], torch.argsort(scores, descending=True, stable=True)
    while rest.numel():
        best, rest = rest[0], rest[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        sides = (torch.minimum(boxes[best, 2:], boxes[rest, 2:]) - low).clamp(min=0)
        common = sides[:, 0] * sides[:, 1]
        rest = rest[common <= limit * (areas[best] + areas[rest] - common)]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.int64)


def _aligned(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    from torchvision.ops.roi_align import _roi_align

    return _roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


def _columns_of_taps(input, offset, mask, kernel, strides, paddings, dilations, groups):
    """The elements that each tap meets: [batch, channels, taps, height, width]."""
    batch, channels, height, width = input.shape
    out_height, out_width = offset.shape[2:]
    rows, columns = kernel
    moves = offset.reshape(batch, groups, rows * columns, 2, out_height, out_width)
    taps = torch.arange(rows * columns)
    y = (torch.arange(out_height) * strides[0] - paddings[0]).view(-1, 1) + ((taps // columns) * dilations[0]).view(-1, 1, 1) + moves[:, :, :, 0]
    x = (torch.arange(out_width) * strides[1] - paddings[1]).view(1, -1) + ((taps % columns) * dilations[1]).view(-1, 1, 1) + moves[:, :, :, 1]
    grid = torch.stack((2 * (x + 0.5) / width - 1, 2 * (y + 0.5) / height - 1), -1)
    parts = input.reshape(batch * groups, channels // groups, height, width)
    grid = grid.reshape(batch * groups, rows * columns * out_height, out_width, 2)
    found = torch.nn.functional.grid_sample(parts, grid, align_corners=False).reshape(
        batch, groups, channels // groups, rows * columns, out_height, out_width)
    if mask is not None:
        found = found * mask.reshape(batch, groups, 1, rows * columns, out_height, out_width)
    return found.reshape(batch, channels, rows * columns, out_height, out_width)


def _deformed(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask):
    found = _columns_of_taps(input, offset, mask if use_mask else None, weight.shape[2:], (stride_h, stride_w), (pad_h, pad_w),
                             (dilation_h, dilation_w), offset_groups)
    batch, channels, taps, height, width = found.shape
    parts = found.reshape(batch, groups, channels // groups * taps, height * width)
    result = torch.einsum("ngkp,gok->ngop", parts, weight.reshape(groups, -1, channels // groups * taps))
    return result.reshape(batch, -1, height, width) + bias.view(1, -1, 1, 1)


def _aligned_shape(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty((rois.shape[0], input.shape[1], pooled_height, pooled_width))


def _deformed_shape(input, weight, offset, *rest):
    return input.new_empty((input.shape[0], weight.shape[0], *offset.shape[2:]))


OPERATORS = {
    "nms": ("(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", _suppressed, None),
    "qnms": ("(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", None, None),
    "roi_align": ("(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
                  "bool aligned) -> Tensor", _aligned, _aligned_shape),
    "deform_conv2d": ("(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
                      "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
                      "bool use_mask) -> Tensor", _deformed, _deformed_shape),
}
_KEPT = []          # The library's definitions end with it.


def _has_operators():
    """What takes the place of torchvision's own function; TorchScript compiles it, too."""
    return True


def import_torchvision():
    """torchvision, with its own operators where they load."""
    import importlib.util

    found = importlib.util.find_spec("torchvision")
    if found is None:
        raise ImportError("torchvision is not installed")
    if _KEPT or not _lacks_operators(found):
        import torchvision

        return torchvision
    library = torch.library.Library("torchvision", "DEF")
    _KEPT.append(library)
    for name, (schema, run, shape) in OPERATORS.items():
        library.define(name + schema)
        if run:
            library.impl(name, run, "CPU")
        if shape:
            library.impl(name, shape, "Meta")
    import torchvision
    from torchvision import extension
    from torchvision.ops import roi_align

    extension._has_ops = _has_operators
    # The module, which the function of the same name hides.
    sys.modules[roi_align.__module__]._has_ops = _has_operators
    return torchvision


def _lacks_operators(found):
    from pathlib import Path

    for path in Path(found.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(path))
            return False
        except OSError:
            pass
    return True
