"""Convolutions, pooling and products of matrices."""

import numpy as np

from ..describe import Refusal
from . import hybrid, quantised, quantised_windows
from .integers import ENDS
from .table import operator


def window_attributes(call, kernel):
    """Strides, dilations and padding of a window as attributes of ONNX's convolutions and pools."""
    strides = [call.positive("StrideH"), call.positive("StrideW")]
    if call.padding not in ("SAME", "VALID"):
        raise Refusal(f"its padding is {call.padding}")
    if any(size < 1 for size in kernel):
        raise Refusal(f"its window has the sizes {list(kernel)}")
    return {
        "kernel_shape": list(kernel),
        "strides": strides,
        "auto_pad": "SAME_UPPER" if call.padding == "SAME" else "VALID",
    }


def convolution_attributes(call, kernel):
    return {
        **window_attributes(call, kernel),
        "dilations": [call.positive("DilationHFactor"), call.positive("DilationWFactor")],
    }


@operator("CONV_2D", options="Conv2DOptions", inputs=(2, 3))
def conv_2d(g, call):
    x, weights, bias = call.inputs
    check_image_and_weights(call, x, weights)
    out, height, width, depth = weights.shape
    if depth == 0 or x.shape[3] % depth:
        raise Refusal(f"{x.shape[3]} channels are no multiple of the weights' {depth}")
    groups = x.shape[3] // depth
    attributes = {"group": groups, **convolution_attributes(call, (height, width))}
    if hybrid.is_hybrid(x, weights):
        hybrid.convolution(
            g, call, call.constant(1, "the list of weights").transpose(0, 3, 1, 2), 0, attributes
        )
        return
    if x.dtype in ENDS:
        quantised.convolution(
            g, call, call.constant(1, "the list of weights").transpose(0, 3, 1, 2), 0, attributes
        )
        return
    call.need_types("f32")
    kernel = (
        g.constant(weights.data.transpose(0, 3, 1, 2))
        if weights.data is not None
        else g.node("Transpose", [g.plain(weights)], perm=[0, 3, 1, 2])
    )
    name = g.node("Conv", [g.channels_first(x), kernel, bias and g.plain(bias)], **attributes)
    g.give(call.out, g.activated(name, call.activation), channels_first=True)


def check_image_and_weights(call, x, weights):
    call.need_rank(x, 4)
    call.need_rank(weights, 4)
    call.need_rank(call.out, 4)


@operator("DEPTHWISE_CONV_2D", options="DepthwiseConv2DOptions", inputs=(2, 3))
def depthwise_conv_2d(g, call):
    x, weights, bias = call.inputs
    check_image_and_weights(call, x, weights)
    check_depthwise(x, weights)
    _, height, width, _ = weights.shape
    attributes = {"group": x.shape[3], **convolution_attributes(call, (height, width))}
    if hybrid.is_hybrid(x, weights):
        hybrid.convolution(
            g, call, call.constant(1, "the list of weights").transpose(3, 0, 1, 2), 3, attributes
        )
        return
    if x.dtype in ENDS:
        quantised.convolution(
            g, call, call.constant(1, "the list of weights").transpose(3, 0, 1, 2), 3, attributes
        )
        return
    call.need_types("f32")
    kernel = (
        g.constant(weights.data.transpose(3, 0, 1, 2))
        if weights.data is not None
        else g.node("Transpose", [g.plain(weights)], perm=[3, 0, 1, 2])
    )
    name = g.node("Conv", [g.channels_first(x), kernel, bias and g.plain(bias)], **attributes)
    g.give(call.out, g.activated(name, call.activation), channels_first=True)


def check_depthwise(x, weights):
    if weights.shape[0] != 1 or x.shape[3] == 0 or weights.shape[3] % x.shape[3]:
        raise Refusal(f"weights of shape {list(weights.shape)} do not fit {x.shape[3]} channels")


def transposed_padding(call, size, stride, kernel, result):
    """(padding before, padding after, output padding) of an axis. TensorFlow's padding is that of
    the convolution whose gradient this is."""
    whole = (size - 1) * stride + kernel
    total = max(whole - result, 0)
    before = total // 2 if call.padding == "SAME" else 0
    after = total - before
    return before, after, result - (whole - before - after)


@operator("TRANSPOSE_CONV", options="TransposeConvOptions", inputs=(3, 4))
def transpose_conv(g, call):
    # Where it is computed, it is the shape that the file has for the result.
    given = call.inputs[0].data is not None
    sizes = call.ints(0, "the result's shape") if given else list(call.out.shape)
    weights, x, bias = call.inputs[1], call.inputs[2], call.inputs[3]
    check_image_and_weights(call, x, weights)
    if len(sizes) != 4:
        raise Refusal(f"the result's shape has {len(sizes)} sizes")
    strides = [call.positive("StrideH"), call.positive("StrideW")]
    pads = [
        transposed_padding(call, x.shape[1 + i], strides[i], weights.shape[1 + i], sizes[1 + i])
        for i in range(2)
    ]
    if any(not 0 <= more < max(stride, 1) for (_, _, more), stride in zip(pads, strides)):
        raise Refusal(
            f"a result of the sizes {sizes[1:3]} does not follow from {list(x.shape[1:3])} with strides {strides}"
        )
    if x.dtype in ENDS:
        borders = [
            (size - 1 - before, size - 1 - after + more)
            for (before, after, more), size in zip(pads, weights.shape[1:3])
        ]
        quantised.transposed_convolution(
            g, call, call.constant(1, "the weights").transpose(0, 3, 1, 2), strides, borders
        )
        return
    for value in (weights, x, call.out):
        if value.dtype != "f32":
            raise Refusal(
                f"'{value.tensor.name}' is {value.dtype}, and only f32, {', '.join(ENDS)} is supported here"
            )
    kernel = call.constant(1, "the weights").transpose(3, 0, 1, 2)
    name = g.node(
        "ConvTranspose",
        [g.channels_first(x), g.constant(kernel), bias and g.plain(bias)],
        strides=strides,
        kernel_shape=list(weights.shape[1:3]),
        pads=[pads[0][0], pads[1][0], pads[0][1], pads[1][1]],
        output_padding=[more for _, _, more in pads],
    )
    g.give(call.out, g.activated(name, call.activation), channels_first=True)


def pooling(g, call, op, integers, **more):
    x = call.inputs[0]
    call.need_rank(x, 4)
    call.need_rank(call.out, 4)
    attributes = window_attributes(
        call, (call.positive("FilterHeight"), call.positive("FilterWidth"))
    )
    if x.dtype in ENDS:
        integers(g, call, attributes)
        return
    call.need_types("f32")
    g.give(
        call.out,
        g.activated(g.node(op, [g.channels_first(x)], **attributes, **more), call.activation),
        channels_first=True,
    )


@operator("AVERAGE_POOL_2D", options="Pool2DOptions")
def average_pool_2d(g, call):
    pooling(g, call, "AveragePool", quantised_windows.average_pool, count_include_pad=0)


@operator("MAX_POOL_2D", options="Pool2DOptions")
def max_pool_2d(g, call):
    pooling(g, call, "MaxPool", quantised_windows.max_pool)


def rows_of(g, call, x, depth):
    """The operand of a fully connected layer as a matrix."""
    if depth == 0 or np.prod(x.shape, dtype=object) % depth:
        raise Refusal(f"'{x.tensor.name}' of shape {list(x.shape)} has no rows of {depth} elements")
    rows = int(np.prod(x.shape, dtype=object)) // depth
    if x.shape == (rows, depth):
        return g.plain(x)
    return g.reshape(g.plain(x), [rows, depth])


@operator("FULLY_CONNECTED", options="FullyConnectedOptions", inputs=(2, 3))
def fully_connected(g, call):
    x, weights, bias = call.inputs
    call.need_rank(weights, 2)
    if call.option("WeightsFormat"):
        raise Refusal("its weights are shuffled for a kernel of TensorFlow Lite")
    units, depth = weights.shape
    rows = rows_of(g, call, x, depth)
    if hybrid.is_hybrid(x, weights):
        name = hybrid.fully_connected(g, call, rows, weights, bias)
    elif x.dtype in ENDS:
        name = quantised.fully_connected(g, call, rows)
    else:
        call.need_types("f32")
        name = g.activated(
            g.node("Gemm", [rows, g.plain(weights), bias and g.plain(bias)], transB=1),
            call.activation,
        )
    if call.out.rank != 2:
        name = g.reshape(name, [*call.out.shape[:-1], units] if call.out.rank else [units])
    g.give(call.out, name)


@operator("BATCH_MATMUL", options="BatchMatMulOptions", inputs=(2, 2))
def batch_matmul(g, call):
    names = []
    for value, field in zip(call.inputs, ("AdjX", "AdjY")):
        order = list(range(value.rank))
        if value.rank < 2:
            raise Refusal(
                f"'{value.tensor.name}' has the shape {list(value.shape)}; at least 2 axes are needed"
            )
        if call.option(field):
            order[-2:] = order[:-3:-1]
        names.append(
            g.plain(value)
            if order == sorted(order)
            else g.node("Transpose", [g.plain(value)], perm=order)
        )
    if call.inputs[0].dtype in ENDS:
        depth = call.inputs[0].shape[-2 if call.option("AdjX") else -1]
        quantised.product_of_matrices(g, call, names, depth)
        return
    call.need_types("f32")
    g.give(call.out, g.node("MatMul", names))
