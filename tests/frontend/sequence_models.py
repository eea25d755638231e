"""Models whose inputs, outputs and values in between are sequences and optionals."""

import numpy as np
from onnx import TensorProto, helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def tensor(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence(name, dtype=FLOAT):
    return helper.make_tensor_sequence_value_info(name, dtype, None)


def optional(name, inner):
    return helper.make_value_info(name, helper.make_optional_type_proto(inner))


def model_of(nodes, inputs, outputs, initializers=(), opset=18, functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + [
        helper.make_opsetid(domain, 1) for domain in {f.domain for f in functions}
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=list(functions))


def number(name, value, dtype=INT64):
    return helper.make_tensor(name, dtype, [], [value])


node = helper.make_node


def arrays(*shapes):
    return [
        np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + index
        for index, shape in enumerate(shapes)
    ]


def joined():
    """The tensors of a sequence behind each other, and how many there are."""
    return model_of(
        [
            node("ConcatFromSequence", ["x"], ["y"], "join", axis=0),
            node("SequenceLength", ["x"], ["n"], "count"),
        ],
        [sequence("x")],
        [tensor("y"), tensor("n", INT64, [])],
    )


def loop(condition="more", size=2):
    """Doubles `x` and keeps each result, as often as `n` says."""
    body = helper.make_graph(
        [
            node("Add", ["v", "v"], ["w"], "double"),
            node("SequenceInsert", ["kept", "w"], ["grown"], "keep"),
            node("Identity", ["go"], ["more"]),
            node("ReduceMax", ["w"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["below"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("go", BOOL, []), tensor("v"), sequence("kept")],
        [tensor(condition, BOOL, []), tensor("w"), sequence("grown"), tensor("most")],
    )
    nodes = [
        node("SequenceEmpty", [], ["s"], "empty"),
        node("Loop", ["n", "", "x", "s"], ["last", "all", "tops"], "loop", body=body),
    ]
    return model_of(
        nodes,
        [tensor("n", INT64, []), tensor("x", FLOAT, [size])],
        [tensor("last"), sequence("all"), tensor("tops")],
        [number("limit", 100, FLOAT)],
    )


def one(op, inputs, outputs=("y",), initializers=(), opset=18, **attributes):
    """A model of one node over the sequence `x`, the optional `o` and the tensor `t` of unknown
    size."""
    ports = [
        sequence("x"),
        optional("o", helper.make_tensor_type_proto(FLOAT, None)),
        tensor("t", FLOAT, ["N"]),
        tensor("f", FLOAT, []),
    ]
    given = [port for port in ports if port.name in inputs] or [ports[0]]
    return model_of(
        [node(op, inputs, list(outputs), "node", **attributes)],
        given,
        [tensor(name) for name in outputs],
        initializers,
        opset,
    )


FORMS = {"x": [(2,), (2,)]}
