"""Convolutions."""

from .table import aten


def _many(value, count):
    value = [value] if isinstance(value, int) else list(value)
    return value * count if len(value) == 1 else value


def _batched(g, input, spatial):
    """The input with a batch axis, and whether that was added."""
    if input.rank == spatial + 2:
        return input, False
    return g.reshape(input, [1, *input.shape]), True


def _unbatched(g, result, added):
    return g.reshape(result, list(g.out.shape)) if added else result


@aten("conv1d", "conv2d", "conv3d", ops="Conv")
def conv(g, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    spatial = weight.rank - 2
    pads = _many(padding, spatial)
    value, added = _batched(g, input, spatial)
    result = g.node(
        "Conv",
        [value, weight, bias],
        kernel_shape=list(weight.shape[2:]),
        strides=_many(stride, spatial),
        pads=pads + pads,
        dilations=_many(dilation, spatial),
        group=groups,
    )
    return _unbatched(g, result, added)


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding", ops="Conv")
def conv_padding(g, input, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
    spatial = weight.rank - 2
    dilation, begins, ends = _many(dilation, spatial), [0] * spatial, [0] * spatial
    if padding == "same":
        for axis in range(spatial):
            total = dilation[axis] * (weight.shape[2 + axis] - 1)
            begins[axis], ends[axis] = total // 2, total - total // 2
    value, added = _batched(g, input, spatial)
    result = g.node(
        "Conv",
        [value, weight, bias],
        kernel_shape=list(weight.shape[2:]),
        strides=_many(stride, spatial),
        pads=begins + ends,
        dilations=dilation,
        group=groups,
    )
    return _unbatched(g, result, added)


@aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", ops="ConvTranspose")
def conv_transpose(
    g, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    spatial = weight.rank - 2
    pads = _many(padding, spatial)
    value, added = _batched(g, input, spatial)
    extra = _many(output_padding, spatial)
    result = g.node(
        "ConvTranspose",
        [value, weight, bias],
        kernel_shape=list(weight.shape[2:]),
        strides=_many(stride, spatial),
        pads=pads + pads,
        dilations=_many(dilation, spatial),
        group=groups,
        output_padding=extra if any(extra) else None,
    )
    return _unbatched(g, result, added)


@aten("convolution", "_convolution", "_convolution.deprecated", ops="Conv, ConvTranspose")
def convolution(
    g, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, **_
):
    if transposed:
        return conv_transpose(
            g, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return conv(g, input, weight, bias, stride, padding, dilation, groups)
