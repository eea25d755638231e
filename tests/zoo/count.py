"""Counts the multiply-adds of an ONNX model from the shapes of its layers."""

import math

import onnx
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference


def layers(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Multiply-adds by the first output's name of each convolution, product and recurrent node.

    `shapes` gives every input's shape, which binds symbolic dimensions. Biases, activations,
    normalisation and pooling are not counted.
    """
    known = _infer(model, shapes)
    return {
        node.output[0]: _count(node, known) for node in model.graph.node if node.op_type in _RULES
    }


def multiply_adds(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> int:
    """The sum over all layers."""
    return sum(layers(model, shapes).values())


def _infer(model, shapes):
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    for value in bound.graph.input:
        if value.name in shapes:
            dimensions = value.type.tensor_type.shape.dim
            for dimension, size in zip(dimensions, shapes[value.name], strict=True):
                dimension.dim_value = size
    for value in bound.graph.output:
        value.type.tensor_type.ClearField("shape")
    del bound.graph.value_info[:]
    bound = SymbolicShapeInference.infer_shapes(bound)
    known = {tensor.name: tuple(tensor.dims) for tensor in bound.graph.initializer}
    for value in (*bound.graph.input, *bound.graph.value_info, *bound.graph.output):
        dimensions = value.type.tensor_type.shape.dim
        if all(dimension.HasField("dim_value") for dimension in dimensions):
            known[value.name] = tuple(dimension.dim_value for dimension in dimensions)
    return known


def _count(node, known):
    return _RULES[node.op_type](node, lambda name: known[name])


def _attribute(node, name, default):
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return values.get(name, default)


def _convolution(node, shape):
    return math.prod(shape(node.output[0])) * math.prod(shape(node.input[1])[1:])


def _transposed_convolution(node, shape):
    return math.prod(shape(node.input[0])) * math.prod(shape(node.input[1])[1:])


def _product(node, shape):
    return math.prod(shape(node.output[0])) * shape(node.input[0])[-1]


def _gemm(node, shape):
    depth = shape(node.input[0])[0 if _attribute(node, "transA", 0) else 1]
    return math.prod(shape(node.output[0])) * depth


def _recurrent(node, shape):
    steps, batch, _ = shape(node.input[0])
    return steps * batch * (math.prod(shape(node.input[1])) + math.prod(shape(node.input[2])))


_RULES = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "MatMul": _product,
    "Gemm": _gemm,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
}
