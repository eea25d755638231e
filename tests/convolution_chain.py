"""A network of 3x3 convolutions and activations, one after the other."""

import numpy as np


def convolution_chain(widths, size):
    """An ONNX model whose layers have these numbers of channels, on an image of `size` by `size`
    with three channels."""
    from onnx import TensorProto, helper, numpy_helper

    numbers = np.random.default_rng(0)
    nodes, weights, value, channels = [], [], "x", 3
    for layer, wider in enumerate(widths):
        weights.append(
            numpy_helper.from_array(
                numbers.standard_normal((wider, channels, 3, 3), np.float32) / 10, f"w{layer}"
            )
        )
        nodes.append(
            helper.make_node(
                "Conv", [value, f"w{layer}"], [f"c{layer}"], f"conv{layer}", pads=[1, 1, 1, 1]
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"], f"relu{layer}"))
        value, channels = f"r{layer}", wider
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, channels, size, size])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
