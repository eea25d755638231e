"""The float64 outputs of fast_neural_style/candy.onnx by PyTorch: operators of opset 7, and three
that ONNX has since dropped."""

import numpy
import onnx
import torch
from torch.nn import functional


def padded(x, attributes):
    left_top, right_bottom = numpy.split(numpy.array(attributes["pads"]), 2)
    sides = [int(side) for axis in (3, 2) for side in (left_top[axis], right_bottom[axis])]
    return functional.pad(x, sides, attributes["mode"].decode())


# Of an output at a time: in float64, PyTorch copies the window of each element, gigabytes for all.
ROWS = 32


def convolution(x, weights, attributes):
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    x = functional.pad(x, [left, right, top, bottom])
    size, (stride, _) = weights[0].shape[2], attributes["strides"]
    starts = range(0, x.shape[2] - size + 1, stride)
    strips = [starts[first : first + ROWS] for first in range(0, len(starts), ROWS)]
    return torch.cat(
        [
            functional.conv2d(x[:, :, rows[0] : rows[-1] + size], *weights, stride=stride)
            for rows in strips
        ],
        2,
    )


def transposed_convolution(x, weights, attributes):
    (stride, _), (size, _) = attributes["strides"], attributes["kernel_shape"]
    more = attributes["output_shape"][0] - ((x.shape[2] - 1) * stride + size)
    return functional.conv_transpose2d(x, *weights, stride=stride, output_padding=more)


def cropped(x, attributes):
    left, top, right, bottom = attributes["border"]
    return x[:, :, top : x.shape[2] - bottom, left : x.shape[3] - right]


OPERATORS = {
    "Add": lambda attributes, x, y: x + y,
    "Affine": lambda attributes, x: attributes["alpha"] * x + attributes["beta"],
    "Conv": lambda attributes, x, *weights: convolution(x, weights, attributes),
    "ConvTranspose": lambda attributes, x, *weights: transposed_convolution(x, weights, attributes),
    "Crop": lambda attributes, x: cropped(x, attributes),
    "ImageScaler": lambda attributes, x: (
        attributes["scale"] * x + torch.tensor(attributes["bias"]).double().reshape(-1, 1, 1)
    ),
    "InstanceNormalization": lambda attributes, x, scale, shift: functional.instance_norm(
        x, weight=scale, bias=shift, eps=attributes["epsilon"]
    ),
    "Mul": lambda attributes, x, y: x * y,
    "Pad": lambda attributes, x: padded(x, attributes),
    "Relu": lambda attributes, x: functional.relu(x),
    "Tanh": lambda attributes, x: torch.tanh(x),
}


def outputs_in_float64(path, inputs):
    graph = onnx.load(path).graph
    values = {
        each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()).double()
        for each in graph.initializer
    }
    values |= {name: torch.from_numpy(array).double() for name, array in inputs.items()}
    with torch.no_grad():
        for node in graph.node:
            attributes = {
                each.name: onnx.helper.get_attribute_value(each) for each in node.attribute
            }
            if node.op_type == "Constant":
                values[node.output[0]] = torch.from_numpy(
                    onnx.numpy_helper.to_array(attributes["value"]).copy()
                ).double()
            else:
                values[node.output[0]] = OPERATORS[node.op_type](
                    attributes, *[values[name] for name in node.input]
                )
    return {each.name: values[each.name].numpy() for each in graph.output}
