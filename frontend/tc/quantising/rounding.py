"""Chooses which values of the network become integers, and makes the network that has them."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from .network import attribute, channel_axis
from .prepare import _plain

SUMS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# Operators whose results consist of elements of the operand, so that the result has the operand's
# scale.
MOVES_ONLY = (
    "MaxPool",
    "Reshape",
    "Flatten",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Identity",
    "Dropout",
    "DepthToSpace",
    "SpaceToDepth",
    "Slice",
)
OTHERS = ("Concat", "AveragePool", "GlobalAveragePool", "Resize", *MOVES_ONLY)
# Operators that read integers where another reader does too, and otherwise floats inside the kernel
# of the sum that makes them.
ARITHMETIC = ("Add", "Sub", "Mul")
LARGEST_BIAS = float(1 << 30)
LARGEST_WEIGHT = 127


def sums_of(network):
    """The nodes whose weights can become integers."""
    found = []
    for node in network.nodes:
        weights = network.constant(node, 1) if node.op_type in SUMS else None
        if (
            weights is None
            or weights.dtype != np.float32
            or weights.size == 0
            or not np.isfinite(weights).all()
            or node.input[0] in network.constants
        ):
            continue
        if (
            node.op_type == "Gemm"
            and not _plain(node)
            or node.op_type == "MatMul"
            and weights.ndim != 2
        ):
            continue
        found.append(node)
    return found


class Places:
    """Which values are rounded, and which nodes read them rounded, where these sums are computed in
    integers."""

    def __init__(self, network, sums, floats):
        self.network, self.sums, self.is_float = network, {node.name for node in sums}, floats
        self.values = set()
        readers = network.readers()
        for node in reversed(network.nodes):
            if node.name in self.sums:
                self._add(node.input[:1])
            elif node.op_type in OTHERS and any(name in self.values for name in node.output):
                self._add(node.input if node.op_type == "Concat" else node.input[:1])
            elif node.op_type in ARITHMETIC and self.sums:
                self._add(
                    [
                        name
                        for name in node.input
                        if len(readers.get(name, [])) > 1 and self._near(name, readers)
                    ]
                )
        self.readers = {
            node.name
            for node in network.nodes
            if node.name in self.sums or node.op_type in (*OTHERS, *ARITHMETIC)
        }

    def _near(self, name, readers):
        return any(each is not None and each.name in self.sums for each in readers[name])

    def _add(self, names):
        self.values.update(
            name for name in names if name in self.is_float and name not in self.network.constants
        )


def float_values(network):
    """The names of all values of f32 that the network computes or takes."""
    model = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(network.data()))
    found = {
        each.name
        for each in [*model.graph.value_info, *model.graph.input, *model.graph.output]
        if each.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    return found


def weight_scales(node, weights, per_channel):
    """The scale of the weights: one number, or one for each output channel."""
    axis = channel_axis(node) % weights.ndim
    alone = not per_channel or (
        node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1
    )
    others = None if alone else tuple(each for each in range(weights.ndim) if each != axis)
    largest = np.abs(weights.astype(np.float64)).max(others)
    return np.where(largest > 1e-30, largest / LARGEST_WEIGHT, 1.0), axis


def whole_weights(weights, scales, axis):
    """(the rounded weights as integers, the floats that these stand for)."""
    each = np.asarray(scales, np.float32)
    along = (
        each.reshape([-1 if number == axis else 1 for number in range(weights.ndim)])
        if each.ndim
        else each
    )
    numbers = np.clip(np.rint(weights / along), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8)
    return numbers, numbers.astype(np.float64) * along.astype(np.float64)


class Rounded:
    """Makes the network with integers. `numbers` has {value: (scale, zero point)}; `biases` replace
    those of the network."""

    def __init__(self, network, places, numbers, per_channel=True, biases=None):
        self.network, self.places, self.numbers, self.per_channel = (
            network,
            places,
            numbers,
            per_channel,
        )
        self.biases, self.constants, self.nodes = biases or {}, {}, []

    def data(self):
        made = {name for node in self.network.nodes for name in node.output}
        for name in sorted(self.places.values - made):
            self._round(name)
        for node in self.network.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            if node.name in self.places.readers:
                copy.input[:] = [
                    f"{name}_real" if name in self.places.values else name for name in node.input
                ]
            if node.name in self.places.sums:
                self._round_sum(copy, node)
            self.nodes.append(copy)
            for name in node.output:
                if name in self.places.values:
                    self._round(name)
        return self.network.data(self.nodes, extra=self.constants)

    def _constant(self, name, array):
        self.constants[name] = np.asarray(array)
        return name

    def _round(self, name):
        scale, zero = self.numbers[name]
        own = [
            self._constant(f"{name}_scale", np.float32(scale)),
            self._constant(f"{name}_zero_point", np.uint8(zero)),
        ]
        self.nodes.append(
            helper.make_node(
                "QuantizeLinear", [name, *own], [f"{name}_number"], name=f"{name}_QuantizeLinear"
            )
        )
        self.nodes.append(
            helper.make_node(
                "DequantizeLinear",
                [f"{name}_number", *own],
                [f"{name}_real"],
                name=f"{name}_DequantizeLinear",
            )
        )

    def _dequantised(self, name, numbers, scales, axis):
        inputs = [
            self._constant(f"{name}_number", numbers),
            self._constant(f"{name}_scale", np.asarray(scales, np.float32)),
            self._constant(f"{name}_zero_point", np.zeros(np.shape(scales), numbers.dtype)),
        ]
        where = {"axis": axis} if np.ndim(scales) else {}
        self.nodes.append(
            helper.make_node(
                "DequantizeLinear",
                inputs,
                [f"{name}_real"],
                name=f"{name}_DequantizeLinear",
                **where,
            )
        )
        return f"{name}_real"

    def _round_sum(self, copy, node):
        weights = self.network.constant(node, 1)
        scales, axis = weight_scales(node, weights, self.per_channel)
        unit = float(self.numbers[node.input[0]][0])
        bias = self.biases.get(
            node.name, self.network.constant(node, 2) if node.op_type != "MatMul" else None
        )
        whole = (
            bias is not None
            and bias.ndim == 1
            and (np.ndim(scales) == 0 or bias.size == scales.size)
        )
        if whole:
            scales = np.maximum(
                scales,
                np.abs(bias).max() / LARGEST_BIAS / unit
                if np.ndim(scales) == 0
                else np.abs(bias) / LARGEST_BIAS / unit,
            )
        scales = np.asarray(scales, np.float32)
        copy.input[1] = self._dequantised(
            f"{node.name}_weights", whole_weights(weights, scales, axis)[0], scales, axis
        )
        if whole:
            units = np.asarray(np.float32(unit) * scales, np.float32)
            numbers = np.rint(bias / units.astype(np.float64)).astype(np.int32)
            while len(copy.input) < 3:
                copy.input.append("")
            copy.input[2] = self._dequantised(f"{node.name}_bias", numbers, units, 0)
