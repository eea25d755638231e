"""Replaces what torchvision's detectors compute box by box in Python by computations for all boxes
at once, while torch.export traces them."""

import contextlib
import sys
from unittest import mock

import torch

# The most values of a box's heatmaps, for all keypoints together, if each covers the whole image: 8
# MiB for each box.
_MAX_PLACES = 1 << 21


@contextlib.contextmanager
def known_torchvision():
    """In this context torchvision does not ask for numbers that depend on data and would only
    choose between ways to compute the same result."""
    names = "ops.boxes", "ops.poolers", "models.detection.transform", "models.detection.roi_heads"
    modules = [sys.modules.get(f"torchvision.{name}") for name in names]
    if None in modules:
        yield
        return
    boxes, poolers, transform, heads = modules
    with (
        mock.patch.object(boxes, "batched_nms", _suppressed_by_class),
        mock.patch.object(poolers, "len", _length, create=True),
        mock.patch.object(transform, "paste_masks_in_image", _pasted),
        _known_keypoints(heads),
    ):
        yield


def _suppressed_by_class(boxes, scores, idxs, iou_threshold):
    """Moves boxes of different classes apart so that they do not overlap. torchvision does this
    only where boxes are few, and otherwise goes class by class."""
    largest = torch.cat([boxes.reshape(-1), boxes.new_zeros(1)]).max()
    offsets = idxs.to(boxes) * (largest + 1)
    return torch.ops.torchvision.nms(boxes + offsets[:, None], scores, iou_threshold)


def _length(value):
    """The length of a value. len() of a tensor is always a Python number, while its size may be a
    symbol."""
    return value.shape[0] if isinstance(value, torch.Tensor) else len(value)


# --- masks ----------------------------------------------------------------------------------------


def _pasted(masks, boxes, img_shape, padding=1):
    """Each mask, resized to its box, in an image of zeros; computed with weights of the mask's rows
    and columns for each pixel of the image."""
    size = masks.shape[-1] + 2 * padding
    masks = torch.nn.functional.pad(masks, (padding,) * 4)[:, 0]
    starts, ends = boxes[:, :2], boxes[:, 2:]
    middles, halves = (starts + ends) * 0.5, (ends - starts) * 0.5 * (size / (size - 2 * padding))
    starts, ends = ((middles + side * halves).to(torch.int64) for side in (-1, 1))
    rows, columns = (
        _linear_weights(starts[:, axis], ends[:, axis], extent, size).to(masks)
        for axis, extent in ((1, img_shape[0]), (0, img_shape[1]))
    )
    return (rows @ masks @ columns.transpose(1, 2))[:, None]


def _linear_weights(start, end, extent, size):
    """[box, position in the image, position in the mask]: weights of linear resampling, zero
    outside of the box."""
    length = (end - start + 1).clamp(min=1)[:, None]
    places = torch.arange(extent, device=start.device) - start[:, None]
    sources = ((places + 0.5) * (size / length) - 0.5).clamp(0, size - 1)
    weights = (1 - (sources[:, :, None] - torch.arange(size, device=start.device)).abs()).clamp(
        min=0
    )
    return weights * ((places >= 0) & (places < length))[:, :, None]


# --- keypoints ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _known_keypoints(heads):
    """Patches the keypoint heads. Boxes are inside of the images, so the images' sizes bound those
    to which heatmaps are resized."""
    forward, original, extents = heads.RoIHeads.forward, heads.heatmaps_to_keypoints, [0, 0]

    def remembered(self, features, proposals, image_shapes, targets=None):
        extents[:] = (max(sizes) for sizes in zip(*image_shapes))
        return forward(self, features, proposals, image_shapes, targets)

    def found(maps, rois):
        if maps.shape[1] * extents[0] * extents[1] > _MAX_PLACES:
            return original(maps, rois)
        return _keypoints(maps, rois, extents)

    with (
        mock.patch.object(heads.RoIHeads, "forward", remembered),
        mock.patch.object(heads, "heatmaps_to_keypoints", found),
    ):
        yield


def _keypoints(maps, rois, extents):
    """The position of the maximum of each heatmap after resizing to its box. All are resized to the
    images' size, and positions outside of the box are never chosen."""
    lengths = [(rois[:, axis + 2] - rois[:, axis]).clamp(min=1) for axis in (1, 0)]
    rounded = [length.ceil() for length in lengths]
    rows, columns = (
        _cubic_weights(length, extent, size).to(maps)
        for length, extent, size in zip(rounded, extents, maps.shape[2:])
    )
    resized = rows[:, None] @ maps @ columns[:, None].transpose(2, 3)
    inside = [
        torch.arange(extent, device=maps.device) < length[:, None]
        for length, extent in zip(rounded, extents)
    ]
    resized = resized.masked_fill(
        ~(inside[0][:, None, :, None] & inside[1][:, None, None, :]), float("-inf")
    ).flatten(2)
    scores, places = resized.max(2)
    y, x = torch.div(places, extents[1], rounding_mode="floor"), places % extents[1]
    y, x = (
        ((place.float() + 0.5) * (length / whole)[:, None] + start[:, None])
        for place, length, whole, start in (
            (y, lengths[0], rounded[0], rois[:, 1]),
            (x, lengths[1], rounded[1], rois[:, 0]),
        )
    )
    return torch.stack((x, y, torch.ones_like(x)), 2), scores


def _cubic_weights(length, extent, size):
    """[box, position in the image, position in the heatmap]: weights of cubic resampling; beyond
    the edge the value at the edge is used."""
    sources = (torch.arange(extent, device=length.device) + 0.5) * (size / length)[:, None] - 0.5
    first = sources.floor()
    taps = [(first + tap, _cubic((sources - first - tap).abs())) for tap in (-1, 0, 1, 2)]
    places = torch.arange(size, device=length.device)
    return sum(
        (place.clamp(0, size - 1)[:, :, None] == places) * weight[:, :, None]
        for place, weight in taps
    )


def _cubic(x, a=-0.75):
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, far)
