"""Prepares the float network for rounding: folds batch normalisation into the weights before it,
and gives channels of neighbouring layers equal ranges (cross-layer equalisation: the weights of one
layer's channel are divided by a factor, and the next layer's are multiplied by it)."""

import numpy as np

from .network import attribute

SWEEPS = 3
STEADY = ("Relu", "LeakyRelu", "Identity", "Dropout")  # f(k x) = k f(x) for every k > 0


def fold_normalisations(network):
    """Folds each BatchNormalization that is the only reader of a convolution into the convolution's
    weights and bias."""
    producers, readers = network.producers(), network.readers()
    gone = []
    for node in network.nodes:
        maker = producers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if (
            maker is None
            or maker.op_type not in ("Conv", "ConvTranspose")
            or len(readers[node.input[0]]) != 1
        ):
            continue
        weights, parameters = (
            network.constant(maker, 1),
            [network.constant(node, number) for number in range(1, 5)],
        )
        if (
            weights is None
            or any(each is None for each in parameters)
            or (maker.op_type == "ConvTranspose" and attribute(maker, "group", 1) != 1)
        ):
            continue
        if len(maker.input) > 2 and maker.input[2] and network.constant(maker, 2) is None:
            continue
        scale, shift, mean, variance = (each.astype(np.float64) for each in parameters)
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        along = [1] * weights.ndim
        along[0 if maker.op_type == "Conv" else 1] = -1
        bias = network.constant(maker, 2)
        bias = np.zeros(len(factor)) if bias is None else bias.astype(np.float64)
        network.own_constant(maker, 1, (weights * factor.reshape(along)).astype(weights.dtype))
        network.own_constant(maker, 2, ((bias - mean) * factor + shift).astype(weights.dtype))
        maker.output[0] = node.output[0]
        gone.append(id(node))
    network.nodes = [node for node in network.nodes if id(node) not in gone]


def equalise(network):
    """Equalises neighbouring layers; returns how many pairs were balanced."""
    pairs = list(_pairs(network))
    for _ in range(SWEEPS):
        for first, second in pairs:
            _balance(network, first, second)
    return len(pairs)


def _pairs(network):
    """Pairs of convolutions or products of which the second is the only reader of the first,
    directly or through STEADY operators."""
    readers = network.readers()
    for first in network.nodes:
        if (
            first.op_type not in ("Conv", "Gemm")
            or network.constant(first, 1) is None
            or not _plain(first)
        ):
            continue
        if len(first.input) > 2 and first.input[2] and network.constant(first, 2) is None:
            continue
        second = first
        while True:
            following = readers.get(second.output[0], [])
            second = following[0] if len(following) == 1 else None
            if second is None or second.op_type not in STEADY:
                break
        if (
            second is None
            or second.op_type != first.op_type
            or network.constant(second, 1) is None
            or not _plain(second)
        ):
            continue
        group = attribute(second, "group", 1)
        if group == 1 or group == len(_rows(network, first)):
            yield first, second


def _plain(node):
    return node.op_type == "Conv" or (
        attribute(node, "alpha", 1.0) == 1
        and attribute(node, "beta", 1.0) == 1
        and not attribute(node, "transA", 0)
    )


def _rows(network, node):
    """The node's weights with the output channels first."""
    weights = network.constant(node, 1)
    return weights if node.op_type == "Conv" or attribute(node, "transB", 0) else weights.T


def _balance(network, first, second):
    rows, columns = _rows(network, first), _rows(network, second)
    depthwise = attribute(second, "group", 1) > 1
    into = columns if depthwise else np.moveaxis(columns, 1, 0)
    ends = [np.abs(each).reshape(len(each), -1).max(1).astype(np.float64) for each in (rows, into)]
    if len(ends[0]) != len(ends[1]):
        return
    usable = (ends[0] > 1e-8) & (ends[1] > 1e-8)
    factor = np.where(
        usable, np.sqrt(np.where(usable, ends[0], 1) / np.where(usable, ends[1], 1)), 1.0
    )
    _scale(network, first, 1 / factor, 0)
    _scale(network, second, factor, 0 if depthwise else 1)
    bias = network.constant(first, 2)
    if bias is not None:
        network.own_constant(first, 2, (bias / factor).astype(bias.dtype))


def _scale(network, node, factor, axis):
    """Multiplies weights along an axis, counted as in the result of _rows."""
    rows = _rows(network, node)
    along = [1] * rows.ndim
    along[axis] = -1
    scaled = (rows * factor.reshape(along)).astype(rows.dtype)
    network.own_constant(
        node, 1, scaled if node.op_type == "Conv" or attribute(node, "transB", 0) else scaled.T
    )
