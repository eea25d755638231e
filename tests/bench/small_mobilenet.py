"""A MobileNetV2 of 0.35 of the usual width on pictures of 144x144, in 8-bit integers, with drawn
weights.

It has the form of a file that a quantiser writes: QuantizeLinear and DequantizeLinear around
operators of floats, weights of signed bytes with a scale for each channel."""

import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, WIDTH, CLASSES = 144, 0.35, 1000
# Expansion, channels at the usual width, repeats, stride of the first.
BLOCKS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]
LAST = 1280
# Of activations between 0 and 6, and of the results of a block, which have both signs.
ACTIVATION, LINEAR = (6 / 255, -128), (8 / 127, 0)


def channels(usual):
    """The multiple of 8 that is nearest, but no less than 0.9 of the number."""
    wanted = usual * WIDTH
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class Writer:
    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, array):
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def add(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def scale_of(self, form):
        return self.constant(numpy.float32(form[0])), self.constant(numpy.int8(form[1]))

    def quantised(self, value, form):
        """The value in bytes, and again as floats."""
        scale, zero = self.scale_of(form)
        return self.add(
            "DequantizeLinear", self.add("QuantizeLinear", value, scale, zero), scale, zero
        )

    def weights(self, shape):
        count = shape[0]
        values = numpy.clip(self.random.normal(0, 40, shape), -127, 127).astype(numpy.int8)
        spread = 1 / (40 * math.sqrt(math.prod(shape[1:])))
        scales = (spread * self.random.uniform(0.7, 1.4, count)).astype(numpy.float32)
        zeros = numpy.zeros(count, numpy.int8)
        return self.add(
            "DequantizeLinear", *(self.constant(each) for each in (values, scales, zeros)), axis=0
        ), scales

    def convolution(
        self, value, form, count, inputs, window, stride=1, depthwise=False, linear=False
    ):
        shape = (count, 1 if depthwise else inputs, window, window)
        weights, scales = self.weights(shape)
        bias = self.random.integers(-3000, 9000, count).astype(numpy.int32)
        bias = self.add(
            "DequantizeLinear",
            self.constant(bias),
            self.constant((scales * numpy.float32(form[0])).astype(numpy.float32)),
            axis=0,
        )
        result = self.add(
            "Conv",
            value,
            weights,
            bias,
            strides=[stride] * 2,
            pads=[window // 2] * 4,
            group=count if depthwise else 1,
        )
        if linear:
            return self.quantised(result, LINEAR), LINEAR
        bounds = (self.constant(numpy.float32(bound)) for bound in (0, 6))
        return self.quantised(self.add("Clip", result, *bounds), ACTIVATION), ACTIVATION

    def block(self, value, form, inputs, outputs, stride, expansion):
        hidden = inputs * expansion
        inner, inner_form = value, form
        if expansion > 1:
            inner, inner_form = self.convolution(value, form, hidden, inputs, 1)
        inner, inner_form = self.convolution(
            inner, inner_form, hidden, hidden, 3, stride, depthwise=True
        )
        result, form = self.convolution(inner, inner_form, outputs, hidden, 1, linear=True)
        if stride == 1 and inputs == outputs:
            result = self.quantised(self.add("Add", value, result), LINEAR)
        return result, form


def model(seed=0):
    """The file's bytes."""
    writer = Writer(seed)
    picture = (1 / 64, 0)
    value = writer.add("DequantizeLinear", "picture", *writer.scale_of(picture))
    inputs = channels(32)
    value, form = writer.convolution(value, picture, inputs, 3, 3, 2)
    for expansion, usual, repeats, stride in BLOCKS:
        for repeat in range(repeats):
            outputs = channels(usual)
            value, form = writer.block(
                value, form, inputs, outputs, 1 if repeat else stride, expansion
            )
            inputs = outputs
    value, form = writer.convolution(value, form, LAST, inputs, 1)
    value = writer.quantised(writer.add("GlobalAveragePool", value), form)
    value = writer.add("Flatten", value)
    weights, _ = writer.weights((CLASSES, LAST))
    value = writer.add("Gemm", value, weights, transB=1)
    scale, zero = writer.scale_of(LINEAR)
    writer.nodes.append(helper.make_node("QuantizeLinear", [value, scale, zero], ["scores"]))
    graph = helper.make_graph(
        writer.nodes,
        "small_mobilenet",
        [helper.make_tensor_value_info("picture", TensorProto.INT8, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.INT8, [1, CLASSES])],
        writer.constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()
