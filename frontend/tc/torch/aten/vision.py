"""Operators of torchvision."""

import torch

from .table import aten


@aten("torchvision::roi_align", ops="RoiAlign")
def roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    batch = g.cast(g.reshape(g.slice(rois, 1, 0, 1), [-1]), torch.int64, rois.dtype)
    return g.node(
        "RoiAlign",
        [input, g.slice(rois, 1, 1, 5), batch],
        spatial_scale=float(spatial_scale),
        output_height=pooled_height,
        output_width=pooled_width,
        sampling_ratio=max(sampling_ratio, 0),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )


@aten("torchvision::deform_conv2d", ops="DeformConv")
def deform_conv2d(
    g,
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
    return g.node(
        "DeformConv",
        [input, weight, offset, bias, mask if use_mask else None],
        kernel_shape=list(weight.shape[2:]),
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
    )


@aten("torchvision::nms", ops="NonMaxSuppression")
def nms(g, dets, scores, iou_threshold):
    """Returns indices of boxes. (Whether a corner has x or y first makes no difference.)"""
    count = dets.shape[0]
    limit = g.ints([count])
    chosen = g.node(
        "NonMaxSuppression",
        [
            g.reshape(dets, [1, count, 4]),
            g.reshape(scores, [1, 1, count]),
            limit,
            g.constant([iou_threshold], torch.float32),
        ],
    )
    return g.node("Squeeze", [g.slice(chosen, 1, 2, 3), g.ints([1])])
