"""Layers that tests/bench/riscv.py compares: as an ONNX file, and as the numbers that
xnnpack_layer.c takes."""

from dataclasses import dataclass

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Layer:
    kind: str
    numbers: tuple
    # Below this share of the model's peak the layer counts as slow; None where no multiply-adds
    # decide.
    tolerance: float | None = None

    def multiply_adds(self):
        """Those of the graph, padding included; 0 of a layer without weights."""
        if self.kind == "convolution":
            batch, channels, height, width, features, kernel, stride, padding, groups, _ = (
                self.numbers
            )
            places = [(size + 2 * padding - kernel) // stride + 1 for size in (height, width)]
            return batch * features * places[0] * places[1] * kernel * kernel * channels // groups
        if self.kind == "product":
            rows, inner, columns = self.numbers
            return rows * inner * columns
        if self.kind == "packed":
            _, columns, inner = self.numbers
            return inner * columns
        return 0

    def weight_bytes(self):
        """What a product with packed weights reads; 0 of other layers."""
        if self.kind != "packed":
            return 0
        name, columns, inner = self.numbers
        return sum(
            columns * (inner // 32) * elements * numpy.dtype(dtype).itemsize
            for _, dtype, elements in PLANES[name]
        )

    def model(self):
        """The ONNX model."""
        return (
            _MODELS[self.kind](*self.numbers)
            if self.kind in _MODELS
            else _unary(self.kind, *self.numbers)
        )


def _draw(*shape):
    return (numpy.random.default_rng(1).standard_normal(shape) * 0.1).astype(numpy.float32)


def _model(shape, nodes, **constants):
    graph = helper.make_graph(
        [
            helper.make_node(operator, names.split(), [output], **attributes)
            for operator, names, output, attributes in nodes
        ],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1][2], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _convolution(
    batch, channels, height, width, features, kernel, stride, padding, groups, has_relu
):
    attributes = {"pads": [padding] * 4, "group": groups, "strides": [stride] * 2}
    nodes = [("Conv", "x w b", "c" if has_relu else "y", attributes)]
    nodes += [("Relu", "c", "y", {})] * has_relu
    return _model(
        [batch, channels, height, width],
        nodes,
        w=_draw(features, channels // groups, kernel, kernel),
        b=_draw(features),
    )


def _product(rows, inner, columns):
    return _model(
        [rows, inner], [("Gemm", "x w b", "y", {})], w=_draw(inner, columns), b=_draw(columns)
    )


# Planes of formats with blocks of 32 weights (ir/ops/weight_formats.cc): name, type, elements.
PLANES = {
    "q4_0": [("d", "float16", 1), ("q", "uint8", 16)],
    "q8_0": [("d", "float16", 1), ("q", "uint8", 32)],
    "u4:32:f32": [("q", "uint8", 16), ("d", "float32", 1)],
    "u8:32:f32": [("q", "uint8", 32), ("d", "float32", 1)],
}


def _packed(name, columns, inner):
    """A row times a matrix that is stored in blocks: seeded codes, scales of one size."""
    draw = numpy.random.default_rng(1)
    constants = {
        plane: (
            draw.integers(0, 256, (columns, inner // 32, elements), dtype=numpy.uint8)
            if dtype == "uint8"
            else (0.01 * draw.uniform(1, 2, (columns, inner // 32, elements))).astype(dtype)
        )
        for plane, dtype, elements in PLANES[name]
    }
    node = helper.make_node(
        "BlockMatMul", ["x", *constants], ["y"], domain="tc", format=name, N=columns, K=inner
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, inner])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])],
        [numpy_helper.from_array(value, plane) for plane, value in constants.items()],
    )
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("tc", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def _pooling(operator):
    return lambda batch, channels, height, width, kernel, stride, padding: _model(
        [batch, channels, height, width],
        [
            (
                operator,
                "x",
                "y",
                {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4},
            )
        ],
    )


def _unary(kind, *shape):
    operator = {"softmax": "Softmax", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "Gelu"}[kind]
    return _model(list(shape), [(operator, "x", "y", {})])


_MODELS = {
    "convolution": _convolution,
    "product": _product,
    "packed": _packed,
    "max_pooling": _pooling("MaxPool"),
    "average_pooling": _pooling("AveragePool"),
}

LAYERS = {
    "3x3 64 channels 56²": Layer("convolution", (1, 64, 56, 56, 64, 3, 1, 1, 1, 1)),
    "3x3 64 channels 56² direct": Layer(
        "convolution", (1, 64, 56, 56, 64, 3, 1, 1, 1, 1), tolerance=0
    ),
    "3x3 128 channels 28² direct": Layer(
        "convolution", (1, 128, 28, 28, 128, 3, 1, 1, 1, 1), tolerance=0
    ),
    "3x3/2 64 to 128 56²": Layer("convolution", (1, 64, 56, 56, 128, 3, 2, 1, 1, 1)),
    "5x5 32 to 64 28²": Layer("convolution", (1, 32, 28, 28, 64, 5, 1, 2, 1, 1)),
    "1x1 256 to 1024 14²": Layer("convolution", (1, 256, 14, 14, 1024, 1, 1, 0, 1, 1)),
    "1x1 64 to 256 56²": Layer("convolution", (1, 64, 56, 56, 256, 1, 1, 0, 1, 1)),
    "1x1 144 to 24 56²": Layer("convolution", (1, 144, 56, 56, 24, 1, 1, 0, 1, 0)),
    "1x1 32 to 16 112²": Layer("convolution", (1, 32, 112, 112, 16, 1, 1, 0, 1, 0)),
    "first 7x7/2 64": Layer("convolution", (1, 3, 224, 224, 64, 7, 2, 3, 1, 1)),
    "first 11x11/4 64": Layer("convolution", (1, 3, 224, 224, 64, 11, 4, 2, 1, 1)),
    "first 3x3/2 32": Layer("convolution", (1, 3, 224, 224, 32, 3, 2, 1, 1, 1)),
    "depthwise 3x3 128 56²": Layer("convolution", (1, 128, 56, 56, 128, 3, 1, 1, 128, 1)),
    "depthwise 3x3/2 96 112²": Layer("convolution", (1, 96, 112, 112, 96, 3, 2, 1, 96, 1)),
    "depthwise 5x5 120 28²": Layer("convolution", (1, 120, 28, 28, 120, 5, 1, 2, 120, 1)),
    "grouped 3x3 128/32 28²": Layer("convolution", (1, 128, 28, 28, 128, 3, 1, 1, 32, 1)),
    "product 256³": Layer("product", (256, 256, 256)),
    "product 128x312 by 1200": Layer("product", (128, 312, 1200)),
    "row 400 by 1200": Layer("product", (1, 400, 1200)),
    "max pooling 3x3/2 64 112²": Layer("max_pooling", (1, 64, 112, 112, 3, 2, 1)),
    "average pooling 3x3 192 28²": Layer("average_pooling", (1, 192, 28, 28, 3, 1, 0)),
    "softmax 384x128": Layer("softmax", (384, 128)),
    "sigmoid 40,000": Layer("sigmoid", (40000,)),
    "tanh 40,000": Layer("tanh", (40000,)),
    "GELU 40,000": Layer("gelu", (40000,)),
}

# Rows times matrices that are stored in few bits, of the shapes of SmolLM2-135M. No other program
# stands beside these.
PACKED = {
    f"packed {name} {columns}x{inner}": Layer("packed", (name, columns, inner))
    for name in PLANES
    for columns, inner in ((576, 576), (1536, 576), (576, 1536), (49152, 576))
}


def save(layer, path):
    onnx.save(layer.model(), path)
