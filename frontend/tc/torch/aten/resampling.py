"""Resampling: interpolation, grids, columns."""

import math

import numpy as np
import torch

from ..describe import is_static
from .table import aten


def _resized(g, self, mode, coordinates, scales=None, **attributes):
    """Resizes to the sizes of the result; scales that PyTorch was given decide where samples are
    taken."""
    spatial = self.rank - 2
    sizes = list(g.out.shape)
    options = {"mode": mode, "coordinate_transformation_mode": coordinates, **attributes}
    exact = scales and all(scale is not None for scale in scales)
    if exact and is_static(self.shape):
        exact = any(
            int(self.shape[2 + axis] * scales[axis]) != self.shape[2 + axis] * scales[axis]
            for axis in range(spatial)
        )
    if exact:
        return g.node(
            "Resize", [self, None, g.array(np.array([1, 1, *scales], np.float32))], **options
        )
    return g.node("Resize", [self, None, None, g.ints(sizes)], **options)


def _scales(arguments):
    given = arguments.get("scale_factors")
    if given is not None:
        return list(given)
    named = [arguments.get(key) for key in ("scales", "scales_d", "scales_h", "scales_w")]
    return [scale for scale in named if scale is not None] or None


def _upsample(mode, coordinates, names, **attributes):
    @aten(*names, ops="Resize")
    def describe(g, self=None, input=None, align_corners=False, **arguments):
        value = input if self is None else self
        kind = "align_corners" if align_corners else coordinates
        return _resized(
            g, value, mode, kind, None if align_corners else _scales(arguments), **attributes
        )

    return describe


def _named(stem, *axes):
    return [name for d in axes for name in (f"upsample_{stem}{d}d", f"upsample_{stem}{d}d.vec")]


def _nearest_places(size, wanted, scale, middle, spatial):
    """Which of `size` elements PyTorch's kernels take for each of `wanted` results. Near the border
    between two elements, the kernels' arithmetic in float32 decides. `middle`: samples are taken at
    the middle of elements."""
    step = np.float32(1.0 / scale) if scale else np.float32(size) / np.float32(wanted)
    if not middle and spatial == 2 and wanted in (size, 2 * size):
        places = np.arange(wanted) // (wanted // size)
    elif middle and spatial != 2:  # product and difference are rounded only once
        samples = (np.float64(step) * (np.arange(wanted) + 0.5) - 0.5).astype(
            np.float32
        ) + np.float32(0.5)
        places = np.floor(samples)
    else:
        places = np.floor(
            (np.arange(wanted, dtype=np.float32) + np.float32(0.5 if middle else 0)) * step
        )
    return np.minimum(places.astype(np.int64), size - 1)


def _nearest(middle, coordinates, names, **attributes):
    @aten(*names, ops="Resize, Gather")
    def describe(g, self=None, input=None, **arguments):
        value = input if self is None else self
        scales, spatial = _scales(arguments), value.rank - 2
        if not is_static(value.shape) or not is_static(g.out.shape):
            return _resized(g, value, "nearest", coordinates, scales, **attributes)
        sizes = list(zip(value.shape[2:], g.out.shape[2:]))
        places = [
            _nearest_places(*size, scales[axis] if scales else None, middle, spatial)
            for axis, size in enumerate(sizes)
        ]
        if all(
            wanted % size == 0 and np.array_equal(chosen, np.arange(wanted) // (wanted // size))
            for chosen, (size, wanted) in zip(places, sizes)
        ):
            return _resized(g, value, "nearest", coordinates, **attributes)
        result = value
        for axis, chosen in enumerate(places):
            result = g.node("Gather", [result, g.array(chosen)], axis=2 + axis)
        return result

    return describe


_nearest(False, "asymmetric", _named("nearest", 1, 2, 3), nearest_mode="floor")
_nearest(
    True,
    "half_pixel",
    [f"_upsample_nearest_exact{d}d{vec}" for d in (1, 2, 3) for vec in ("", ".vec")],
    nearest_mode="round_prefer_ceil",
)
_upsample(
    "linear",
    "half_pixel",
    [
        "upsample_linear1d",
        "upsample_linear1d.vec",
        "upsample_bilinear2d",
        "upsample_bilinear2d.vec",
        "upsample_trilinear3d",
        "upsample_trilinear3d.vec",
    ],
)
_upsample(
    "cubic", "half_pixel", ["upsample_bicubic2d", "upsample_bicubic2d.vec"], cubic_coeff_a=-0.75
)
_upsample(
    "linear",
    "half_pixel",
    ["_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa.vec"],
    antialias=1,
    exclude_outside=1,
)
_upsample(
    "cubic",
    "half_pixel",
    ["_upsample_bicubic2d_aa", "_upsample_bicubic2d_aa.vec"],
    antialias=1,
    exclude_outside=1,
    cubic_coeff_a=-0.5,
)


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", ops="GridSample")
def grid_sampler(g, input, grid, interpolation_mode, padding_mode, align_corners):
    return g.node(
        "GridSample",
        [input, grid],
        mode=("linear", "nearest", "cubic")[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=int(align_corners),
    )


@aten("affine_grid_generator", ops="AffineGrid")
def affine_grid(g, theta, size, align_corners):
    return g.node("AffineGrid", [theta, g.ints(size)], align_corners=int(align_corners))


@aten("col2im", ops="Col2Im")
def col2im(g, self, output_size, kernel_size, dilation, padding, stride):
    value = self if self.rank == 3 else g.reshape(self, [1, *self.shape])
    result = g.node(
        "Col2Im",
        [value, g.ints(output_size), g.ints(kernel_size)],
        dilations=list(dilation),
        pads=list(padding) * 2,
        strides=list(stride),
    )
    return result if self.rank == 3 else g.reshape(result, g.out.shape)


@aten("max_unpool2d", "max_unpool3d", ops="ScatterElements, Reshape")
def max_unpool(g, self, indices, output_size, stride=None, padding=None):
    """Puts elements at their indices in each channel's map, and zeros elsewhere."""
    lead = list(self.shape[: self.rank - len(output_size)])
    count = math.prod(output_size)
    flat, places = (g.reshape(each, [*lead, -1]) for each in (self, g.cast(indices, torch.int64)))
    written = g.node(
        "ScatterElements", [g.full([*lead, count], 0, self.dtype), places, flat], axis=len(lead)
    )
    return g.reshape(written, [*lead, *output_size])
