"""Shapes that a run chooses: a -1, or a 0 that copies a size, behind Where stands for what it would
as a constant."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc

FLOAT = TensorProto.FLOAT


def reshaped(nodes, constants, sizes=("n", 6), **attributes):
    """`nodes` make the shape `t` of input x and the constants."""
    graph = helper.make_graph(
        [*nodes, helper.make_node("Reshape", ["x", "t"], ["y"], **attributes)],
        "chosen",
        [helper.make_tensor_value_info("x", FLOAT, sizes)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in constants.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def x_of(rows, sign=1):
    return sign * np.arange(1, 6 * rows + 1, dtype=np.float32).reshape(rows, 6)


# The sign of the sum decides.
POSITIVE = [
    helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
    helper.make_node("Greater", ["sum", "nil"], ["over"]),
]


@pytest.mark.parametrize(
    "yes, no",
    [
        ([-1, 3], [2, -1]),
        ([6, -1], [3, -1]),
        ([0, -1], [-1, 2]),
        ([-1, 1], [0, 6]),
        ([0, 6], [0, -1]),
    ],
)
def test_the_data_choose_a_shape(yes, no):
    model = reshaped(
        [*POSITIVE, helper.make_node("Where", ["over", "yes", "no"], ["t"])],
        {"nil": np.float32(0), "yes": np.array(yes), "no": np.array(no)},
    )
    module = tc.compile(model, log=False)
    for rows in (2, 4):
        for sign, chosen in ((1, yes), (-1, no)):
            x = x_of(rows, sign)
            shape = [x.shape[i] if size == 0 else size for i, size in enumerate(chosen)]
            np.testing.assert_array_equal(module.run({"x": x})["y"], x.reshape(shape))


def test_one_size_of_a_shape_is_chosen():
    nodes = [
        *POSITIVE,
        helper.make_node("Where", ["over", "open", "two"], ["first"]),
        helper.make_node("Concat", ["first", "three"], ["t"], axis=0),
    ]
    module = tc.compile(
        reshaped(
            nodes,
            {
                "nil": np.float32(0),
                "open": np.array([-1]),
                "two": np.array([2]),
                "three": np.array([3]),
            },
        ),
        log=False,
    )
    np.testing.assert_array_equal(module.run({"x": x_of(4)})["y"], x_of(4).reshape(-1, 3))
    np.testing.assert_array_equal(module.run({"x": x_of(1, -1)})["y"], x_of(1, -1).reshape(2, 3))
    with pytest.raises(tc.ShapeError, match="node 'y' .Reshape, opset 20. of model.onnx"):
        module.run({"x": x_of(4, -1)})  # [2, 3] has no room for it


def test_sizes_compared_with_numbers():
    """As exporters write it: what equals a number becomes -1."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Equal", ["s", "three"], ["same"]),
        helper.make_node("Where", ["same", "open", "s"], ["t"]),
    ]
    module = tc.compile(
        reshaped(nodes, {"three": np.array([3, 3]), "open": np.array([-1, -1])}), log=False
    )
    for rows in (1, 3, 4):
        np.testing.assert_array_equal(module.run({"x": x_of(rows)})["y"], x_of(rows))


def test_a_size_of_zero_stays_one_where_that_is_asked_for():
    nodes = [*POSITIVE, helper.make_node("Where", ["over", "yes", "no"], ["t"])]
    module = tc.compile(
        reshaped(
            nodes,
            {"nil": np.float32(0), "yes": np.array([6, 2]), "no": np.array([0, 6])},
            allowzero=1,
        ),
        log=False,
    )
    np.testing.assert_array_equal(module.run({"x": x_of(2)})["y"], x_of(2).reshape(6, 2))
    with pytest.raises(tc.ShapeError):
        module.run({"x": x_of(2, -1)})
