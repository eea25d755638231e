"""Normalisation and softmax."""

import math

import torch

from .table import aten


def _ones(g, count, dtype):
    return g.full([count], 1, dtype)


@aten(
    "batch_norm",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_impl_index",
    "native_batch_norm",
    "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit",
    "_batch_norm_no_update",
    "_batch_norm_with_update",
    "cudnn_batch_norm",
    ops="BatchNormalization",
)
def batch_norm(
    g,
    input,
    weight=None,
    bias=None,
    running_mean=None,
    running_var=None,
    training=False,
    eps=1e-5,
    epsilon=None,
    **_,
):
    if training and running_mean is not None:
        g.refuse(
            "batch normalisation in training mode keeps statistics; call .eval() on the module first"
        )
    if running_mean is None:
        return _by_own_statistics(g, input, weight, bias, eps if epsilon is None else epsilon)
    channels = input.shape[1]
    statistics = running_mean.dtype
    weight = _ones(g, channels, statistics) if weight is None else weight
    bias = g.full([channels], 0, statistics) if bias is None else bias
    result = g.node(
        "BatchNormalization",
        [input, weight, bias, running_mean, running_var],
        epsilon=eps if epsilon is None else epsilon,
    )
    return (result, *[None] * (len(g.out) - 1)) if isinstance(g.out, (tuple, list)) else result


def _by_own_statistics(g, input, weight, bias, eps):
    """Normalises by the batch's own mean and variance; the three results are the normalised input,
    the mean and the reciprocal standard deviation."""
    axes = [axis for axis in range(input.rank) if axis != 1]
    middle = g.node("ReduceMean", [input, g.ints(axes)], keepdims=1)
    apart = g.node("Sub", [input, middle])
    variance = g.node("ReduceMean", [g.node("Mul", [apart, apart]), g.ints(axes)], keepdims=1)
    scale = g.node(
        "Reciprocal", [g.node("Sqrt", [g.node("Add", [variance, g.constant(eps, input.dtype)])])]
    )
    result = g.node("Mul", [apart, scale])
    shape = [1, -1, *[1] * (input.rank - 2)]
    for op, each in (("Mul", weight), ("Add", bias)):
        if each is not None:
            result = g.node(op, [result, g.reshape(g.cast(each, input.dtype), shape)])
    if not isinstance(g.out, (tuple, list)):
        return result
    return (
        result,
        *(
            g.cast(g.reshape(each, [-1]), out.dtype, input.dtype)
            for each, out in zip((middle, scale), g.out[1:])
        ),
        *[None] * (len(g.out) - 3),
    )


@aten("instance_norm", ops="InstanceNormalization")
def instance_norm(
    g,
    input,
    weight=None,
    bias=None,
    running_mean=None,
    running_var=None,
    use_input_stats=True,
    eps=1e-5,
    **_,
):
    if not use_input_stats:
        return batch_norm(g, input, weight, bias, running_mean, running_var, False, eps)
    channels = input.shape[1]
    weight = _ones(g, channels, input.dtype) if weight is None else weight
    bias = g.full([channels], 0, input.dtype) if bias is None else bias
    return g.node("InstanceNormalization", [input, weight, bias], epsilon=eps)


@aten("layer_norm", "native_layer_norm", ops="LayerNormalization")
def layer_norm(g, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    if weight is None:
        weight = g.full(normalized_shape, 1, input.dtype)
    inputs = [input, weight] if bias is None else [input, weight, bias]
    result = g.node("LayerNormalization", inputs, axis=-len(normalized_shape), epsilon=eps)
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    return (
        (result, *_statistics(g, input, axes, eps, 1))
        if isinstance(g.out, (tuple, list))
        else result
    )


def _statistics(g, value, axes, eps, keepdims):
    """(mean, reciprocal standard deviation) with the uncorrected variance."""
    mean = g.node("ReduceMean", [value, g.ints(axes)], keepdims=1)
    apart = g.node("Sub", [value, mean])
    variance = g.node(
        "ReduceMean", [g.node("Mul", [apart, apart]), g.ints(axes)], keepdims=keepdims
    )
    dtype = g.out[1].dtype
    scale = g.node(
        "Reciprocal", [g.node("Sqrt", [g.node("Add", [variance, g.constant(eps, dtype)])])]
    )
    return (mean if keepdims else g.node("Squeeze", [mean, g.ints(axes)])), scale


@aten("rms_norm", "_fused_rms_norm", ops="RMSNormalization")
def rms_norm(g, input, normalized_shape, weight=None, eps=None):
    if weight is None:
        weight = g.full(normalized_shape, 1, input.dtype)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    result = g.node("RMSNormalization", [input, weight], axis=-len(normalized_shape), epsilon=eps)
    return (result, None) if isinstance(g.out, (tuple, list)) else result


@aten("group_norm", "native_group_norm", ops="GroupNormalization")
def group_norm(
    g,
    input,
    weight=None,
    bias=None,
    num_groups=None,
    eps=1e-5,
    cudnn_enabled=True,
    N=0,
    C=0,
    HxW=0,
    group=None,
):
    channels = input.shape[1]
    weight = _ones(g, channels, input.dtype) if weight is None else weight
    bias = g.full([channels], 0, input.dtype) if bias is None else bias
    given = input if input.rank > 2 else g.reshape(input, [*input.shape, 1])
    result = g.node(
        "GroupNormalization",
        [given, weight, bias],
        num_groups=group if num_groups is None else num_groups,
        epsilon=eps,
    )
    if input.rank == 2:
        result = g.reshape(result, input.shape)
    if not isinstance(g.out, (tuple, list)):
        return result
    groups = g.reshape(input, [input.shape[0], group, -1])
    return (result, *_statistics(g, groups, [2], eps, 0))


def _rows(op, *names):
    @aten(*names, ops=op)
    def describe(g, self, dim, dtype=None, half_to_float=False):
        value = g.cast(self, g.out.dtype)
        if not self.rank:
            return g.reshape(g.node(op, [g.reshape(value, [1])], axis=0), [])
        return g.node(op, [value], axis=self.axis(dim))

    return describe


_rows("Softmax", "softmax.int", "_softmax")
_rows("LogSoftmax", "log_softmax.int", "_log_softmax")


@aten("_safe_softmax", ops="Softmax, ReduceMax, Where")
def safe_softmax(g, self, dim, dtype=None):
    """Rows that are masked completely are 0, not NaN."""
    dtype = g.out.dtype
    value = g.reshape(g.cast(self, dtype), [1]) if not self.rank else g.cast(self, dtype)
    axis = self.axis(dim)
    largest = g.node("ReduceMax", [value, g.ints([axis])], keepdims=1)
    masked = g.node("Equal", [largest, g.constant(-math.inf, dtype)])
    result = g.node("Where", [masked, g.constant(0, dtype), g.node("Softmax", [value], axis=axis)])
    return result if self.rank else g.reshape(result, [])
