"""Models with sizes that a run computes, compared with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc


BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, outputs, constants=(), opset=18):
    """The bytes of a model; inputs and outputs as (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "sizes",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in dict(constants).items()
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 9
    return made.SerializeToString()


def peer(data, inputs):
    """What ONNX Runtime gives."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return dict(zip([port.name for port in session.get_outputs()], session.run(None, inputs)))


def check(data, inputs, module=None):
    """tc's outputs equal ONNX Runtime's in shape and values."""
    found = (module or tc.compile(data)).run(inputs)
    expected = peer(data, inputs)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape, name
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
    return found


def non_zero(shape, type_=FLOAT):
    return model(
        [helper.make_node("NonZero", ["x"], ["where"], name="find")],
        [("x", type_, shape)],
        [("where", INT64, [len(shape), None])],
    )


# --- branches whose results differ in size -------------------------------------------------------


def branches():
    """The positions of positive numbers where any is above 2; else a row of zeros."""
    found = helper.make_graph(
        [
            helper.make_node("Greater", ["x", "nought"], ["mask"]),
            helper.make_node("NonZero", ["mask"], ["where"], name="search"),
            helper.make_node("Transpose", ["where"], ["tuples"]),
            helper.make_node("GatherND", ["x", "tuples"], ["picked"]),
            helper.make_node("Mul", ["picked", "picked"], ["squares"]),
        ],
        "found",
        [],
        [
            helper.make_tensor_value_info("tuples", INT64, None),
            helper.make_tensor_value_info("squares", FLOAT, None),
        ],
    )
    none = helper.make_graph(
        [
            helper.make_node("Identity", ["no_tuples"], ["blank"]),
            helper.make_node("Neg", ["x"], ["all"]),
        ],
        "none",
        [],
        [
            helper.make_tensor_value_info("blank", INT64, None),
            helper.make_tensor_value_info("all", FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "limit"], ["go"]),
        helper.make_node(
            "If",
            ["go"],
            ["where_out", "numbers"],
            then_branch=found,
            else_branch=none,
            name="choose",
        ),
        helper.make_node("Add", ["numbers", "limit"], ["sums"]),
        helper.make_node("Shape", ["where_out"], ["shape"]),
    ]
    return model(
        nodes,
        [("x", FLOAT, ["n"])],
        [("where_out", INT64, [None, 1]), ("sums", FLOAT, [None]), ("shape", INT64, [2])],
        {"nought": np.float32(0), "limit": np.float32(2), "no_tuples": np.zeros((1, 1), np.int64)},
    )
