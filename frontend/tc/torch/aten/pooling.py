"""Pooling."""

import torch

from ..describe import is_static
from .convolution import _batched, _many, _unbatched
from .table import aten


def _window(kernel_size, stride, padding, dilation, spatial):
    kernel = _many(kernel_size, spatial)
    pads = _many(padding, spatial)
    return {
        "kernel_shape": kernel,
        "strides": _many(stride, spatial) if stride else kernel,
        "pads": pads + pads,
        "dilations": _many(dilation, spatial),
    }


def _max_pool(g, self, window, ceil_mode, spatial):
    value, added = _batched(g, self, spatial)
    return _unbatched(g, g.node("MaxPool", [value], ceil_mode=int(ceil_mode), **window), added)


for _spatial in (1, 2, 3):

    @aten(f"max_pool{_spatial}d", ops="MaxPool")
    def max_pool(
        g, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False, spatial=_spatial
    ):
        return _max_pool(
            g, self, _window(kernel_size, stride, padding, dilation, spatial), ceil_mode, spatial
        )

    @aten(f"max_pool{_spatial}d_with_indices", ops="MaxPool")
    def max_pool_with_indices(
        g, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False, spatial=_spatial
    ):
        window = _window(kernel_size, stride, padding, dilation, spatial)
        value, added = _batched(g, self, spatial)
        result, index = g.node("MaxPool", [value], outputs=2, ceil_mode=int(ceil_mode), **window)
        shape = list(g.out[0].shape)
        if not is_static(self.shape):
            g.refuse("sizes are not known while compiling")
        # ONNX's indices count through the whole tensor, PyTorch's through one map.
        size = 1
        for extent in self.shape[self.rank - spatial :]:
            size *= extent
        index = g.node("Mod", [index, g.constant(size, torch.int64)])
        return (g.reshape(result, shape), g.reshape(index, shape)) if added else (result, index)

    @aten(f"avg_pool{_spatial}d", ops="AveragePool")
    def avg_pool(
        g,
        self,
        kernel_size,
        stride=(),
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
        spatial=_spatial,
    ):
        window = _window(kernel_size, stride, padding, 1, spatial)
        del window["dilations"]
        value, added = _batched(g, self, spatial)
        if divisor_override is not None and ceil_mode:
            if not is_static(self.shape):
                g.refuse("sizes are not known while compiling")
            value, ceil_mode = (
                _padded_to_windows(g, value, self.shape[self.rank - spatial :], window),
                False,
            )
            window["pads"] = [0] * 2 * spatial
        result = g.node(
            "AveragePool",
            [value],
            ceil_mode=int(ceil_mode),
            count_include_pad=int(count_include_pad or divisor_override is not None),
            **window,
        )
        if divisor_override is not None:
            count = 1
            for extent in window["kernel_shape"]:
                count *= extent
            result = g.node("Mul", [result, g.constant(count / divisor_override, self.dtype)])
        return _unbatched(g, result, added)

    @aten(
        *([] if _spatial == 1 else [f"_adaptive_avg_pool{_spatial}d"]),
        f"adaptive_avg_pool{_spatial}d",
        ops="GlobalAveragePool, AveragePool",
    )
    def adaptive_avg_pool(g, self, output_size, spatial=_spatial):
        return _adaptive(g, self, output_size, spatial, "AveragePool")

    @aten(f"adaptive_max_pool{_spatial}d", ops="GlobalMaxPool, MaxPool")
    def adaptive_max_pool(g, self, output_size, spatial=_spatial):
        out, g.out = g.out, g.out[0]
        result = _adaptive(g, self, output_size, spatial, "MaxPool")
        g.out = out
        return result, None


def _padded_to_windows(g, value, sizes, window):
    """Pads a map of these sizes with zeros as far as windows reach that begin in it."""
    spatial = len(sizes)
    begins, ends = window["pads"][:spatial], []
    for axis, count in enumerate(g.out.shape[-spatial:]):
        reach = (count - 1) * window["strides"][axis] + window["kernel_shape"][axis]
        ends.append(max(reach - sizes[axis] - begins[axis], 0))
    return g.node("Pad", [value, g.ints([0, 0, *begins, 0, 0, *ends])])


def _adaptive(g, self, output_size, spatial, op):
    sizes, wanted = self.shape[self.rank - spatial :], _many(output_size, spatial)
    value, added = _batched(g, self, spatial)
    if all(size == 1 for size in wanted):
        return _unbatched(g, g.node("Global" + op, [value]), added)
    if not is_static(sizes):
        g.refuse("sizes of the map are not known while compiling")
    if all(size % want == 0 for size, want in zip(sizes, wanted)):
        kernel = [size // want for size, want in zip(sizes, wanted)]
        return _unbatched(g, g.node(op, [value], kernel_shape=kernel, strides=kernel), added)
    # Windows have different sizes: axes are handled one after the other, and each output is reduced
    # from a slice.
    reduce = "ReduceMean" if op == "AveragePool" else "ReduceMax"
    for number, (size, want) in enumerate(zip(sizes, wanted)):
        axis = 2 + number
        parts = []
        for place in range(want):
            begin, end = place * size // want, -(-(place + 1) * size // want)
            parts.append(
                g.node(reduce, [g.slice(value, axis, begin, end), g.ints([axis])], keepdims=1)
            )
        value = parts[0] if len(parts) == 1 else g.node("Concat", parts, axis=axis)
    return _unbatched(g, value, added)
