"""Models with operators on strings."""

from onnx import TensorProto, helper

import tc

FLOAT, INT64, BOOL, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)
LEARNING = "ai.onnx.ml"
node = helper.make_node


def port(name, dtype=STRING, shape=("N",)):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(LEARNING, 4)],
        ir_version=9,
    )


def one(op, inputs=("x",), outputs=("y",), domain="", initializers=(), dtype=STRING, **attributes):
    return tc.compile(
        model_of(
            [node(op, list(inputs), list(outputs), "node", domain=domain, **attributes)],
            [port(name, shape=None) for name in inputs if name in ("x", "z")],
            [port(outputs[0], dtype, None)] + [port(name, INT64, None) for name in outputs[1:]],
            initializers,
        )
    )
