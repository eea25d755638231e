"""Models that tests of mutations found, each by what it is about: compiled, or refused in a
sentence."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc


def model_of(nodes, inputs, outputs, opset):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)]
    ).SerializeToString()


def test_a_node_may_leave_out_its_first_output():
    """Passes asked for the shape of an output that is not there: "vector::_M_range_check"."""
    node = helper.make_node("MaxPool", ["x"], ["", "places"], kernel_shape=[2, 2])
    module = tc.compile(
        model_of(
            [node],
            [("x", TensorProto.FLOAT, (1, 1, 2, 2))],
            [("places", TensorProto.INT64, None)],
            11,
        )
    )
    x = np.array([[[[1, 2], [4, 3]]]], dtype=np.float32)
    np.testing.assert_array_equal(module(x), [[[[2]]]])


def test_what_a_body_asks_for_is_no_value_of_the_graph_around_it():
    """The bounds of a slice inside of a loop, which the import looked for among the model's
    inputs."""
    body = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["i"], ["start"], axes=[0]),
            helper.make_node("Slice", ["x", "start", "start"], ["cut"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, (5,)),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("cut", TensorProto.FLOAT, None),
        ],
    )
    model = model_of(
        [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
        [("trips", TensorProto.INT64, ()), ("x", TensorProto.FLOAT, (5,))],
        [("y", TensorProto.FLOAT, None)],
        11,
    )
    with pytest.raises(tc.Error) as caught:
        tc.compile(model, values={"trips": np.int64(2)})
    assert "internal error" not in str(caught.value) and "range_check" not in str(caught.value)
