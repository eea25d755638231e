"""Inputs whose sizes have names of their own: what the operators need of them holds, or the run
ends in a sentence."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, constants=()):
    """A graph whose result is `y`; inputs as (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "sizes",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in dict(constants).items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def ramp(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def said(module, inputs):
    with pytest.raises(tc.ShapeError) as error:
        module.run(inputs)
    return str(error.value).split(": ", 1)[1]


def test_a_batch_of_indices_is_one_of_the_data():
    module = tc.compile(
        model(
            [helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=1)],
            [("x", FLOAT, ["n", 4]), ("i", INT64, ["m", 3, 1])],
        )
    )
    index = np.array([[[0], [3], [1]]] * 9)
    np.testing.assert_array_equal(
        module.run({"x": ramp(3, 4), "i": index[:3]})["y"], ramp(3, 4)[:, [0, 3, 1]]
    )
    assert (
        said(module, {"x": ramp(3, 4), "i": index})
        == "node 'y' (GatherND, opset 20) of model.onnx: 'n' has to be 'm'; they are 3 and 9 for these inputs"
    )


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_indices_stay_over_the_data(op):
    inputs = [("x", FLOAT, ["n", 4]), ("i", INT64, ["m", 4])] + [("u", FLOAT, ["m", 4])] * (
        op == "ScatterElements"
    )
    module = tc.compile(
        model([helper.make_node(op, [name for name, _, _ in inputs], ["y"], axis=1)], inputs)
    )

    def given(rows):
        return {"x": ramp(3, 4), "i": np.zeros((rows, 4), np.int64), "u": ramp(rows, 4)}

    assert module.run({name: given(2)[name] for name, _, _ in inputs})["y"].shape == (
        2 if op == "GatherElements" else 3,
        4,
    )
    assert said(module, {name: given(9)[name] for name, _, _ in inputs}) == (
        f"node 'y' ({op}, opset 20) of model.onnx: 'm' may be at most 'n'; they are 9 and 3 for these inputs"
    )


@pytest.mark.parametrize(
    "size, needed",
    [
        (8, "'m' may be at most '8'; they are 100 and 8"),
        ("n", "'min(m, n)' has to be 'm'; they are 8 and 100"),
    ],
)
def test_k_of_a_shape_is_no_more_than_the_axis_has(size, needed):
    nodes = [
        helper.make_node("Shape", ["u"], ["k"]),
        helper.make_node("TopK", ["x", "k"], ["y", "where"], axis=0),
    ]
    module = tc.compile(model(nodes, [("x", FLOAT, [size]), ("u", FLOAT, ["m"])]))
    np.testing.assert_array_equal(module.run({"x": ramp(8), "u": ramp(3)})["y"], [7, 6, 5])
    assert (
        said(module, {"x": ramp(8), "u": ramp(100)})
        == f"node 'y' (TopK, opset 20) of model.onnx: {needed} for these inputs"
    )


def test_k_of_a_product_of_sizes():
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["row"]),
        helper.make_node("TopK", ["row", "k"], ["y", "where"], axis=0),
    ]
    module = tc.compile(model(nodes, [("x", FLOAT, ["n", "m"])], {"flat": [-1], "k": [5]}))
    np.testing.assert_array_equal(module.run({"x": ramp(7, 2)})["y"], [13, 12, 11, 10, 9])
    assert said(module, {"x": ramp(3, 1)}) == (
        "node 'y' (TopK, opset 20) of model.onnx: 'min(5, m*n)' has to be '5'; they are 3 and 5 for these inputs"
    )


def test_k_that_is_a_least_number_is_known_to_fit():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Min", ["s", "five"], ["k"]),
        helper.make_node("TopK", ["x", "k"], ["y", "where"], axis=0),
    ]
    module = tc.compile(model(nodes, [("x", FLOAT, ["n"])], {"five": [5]}))
    for size in (1, 5, 9):
        np.testing.assert_array_equal(module.run({"x": ramp(size)})["y"], ramp(size)[::-1][:5])


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Conv", ["x", "w"], ["inside"]),
        helper.make_node("AveragePool", ["x"], ["inside"], kernel_shape=[3, 3]),
    ],
)
def test_windows_that_do_not_fit(node):
    """-1 by -1 elements are 1, and what sums them up would be 0."""
    nodes = [node, helper.make_node("ReduceSum", ["inside"], ["y"], keepdims=0)]
    module = tc.compile(
        model(
            nodes, [("x", FLOAT, [1, 1, "n", "m"])], {"w": np.full((1, 1, 3, 3), 1 / 9, np.float32)}
        )
    )
    np.testing.assert_allclose(
        module.run({"x": np.ones((1, 1, 4, 5), np.float32)})["y"], 6, rtol=1e-6
    )
    assert module.run({"x": np.ones((1, 1, 2, 5), np.float32)})["y"] == 0
    assert said(module, {"x": np.ones((1, 1, 1, 1), np.float32)}) == (
        f"node 'inside' ({node.op_type}, opset 20) of model.onnx: '0' may be at most 'n - 2'; they are 0 and -1 for these inputs"
    )


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    "kernel, stride, pads",
    [
        (2, 2, (0, 0)),
        (2, 3, (1, 1)),
        (3, 3, (1, 1)),
        (3, 2, (1, 1)),
        (3, 4, (0, 2)),
        (1, 3, (0, 0)),
    ],
)
def test_the_last_window_of_an_open_size_starts_inside(op, kernel, stride, pads):
    """With ceil_mode a window that would start in the padding behind the input does not count."""
    node = helper.make_node(
        op, ["x"], ["y"], kernel_shape=[kernel], strides=[stride], pads=pads, ceil_mode=1
    )
    module = tc.compile(model([node], [("x", FLOAT, [1, 2, "n"])]))
    for size in range(2, 10):
        fixed = tc.compile(model([node], [("x", FLOAT, [1, 2, size])]))
        x = np.random.default_rng(size).standard_normal((1, 2, size)).astype(np.float32)
        expected = fixed.run({"x": x})["y"]
        found = module.run({"x": x})["y"]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "nodes, inputs, right, wrong, needed",
    [
        (
            [helper.make_node("Where", ["c", "x", "z"], ["y"])],
            [("c", BOOL, ["a", "b"]), ("x", FLOAT, ["d", "e"]), ("z", FLOAT, [1])],
            {
                "c": np.array([[True, False, True], [False, False, True]]),
                "x": ramp(2, 3),
                "z": -ramp(1) - 1,
            },
            {"c": np.ones((3, 2), bool), "x": ramp(2, 3), "z": ramp(1)},
            "node 'y' (Where, opset 20) of model.onnx: 'd' has to be 'a'; they are 2 and 3",
        ),
        (
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [("x", FLOAT, ["a", "b", "c"]), ("w", FLOAT, ["d", "e", "f"])],
            {"x": ramp(2, 3, 4), "w": ramp(2, 4, 5)},
            {"x": ramp(2, 3, 4), "w": ramp(4, 2, 5)},
            "node 'y' (MatMul, opset 20) of model.onnx: 'd' has to be 'a'; they are 4 and 2",
        ),
    ],
)
def test_each_size_is_compared_by_itself(nodes, inputs, right, wrong, needed):
    """[3, 2] has as many elements as [2, 3]."""
    module = tc.compile(model(nodes, inputs))
    first, second = (right[name] for name, _, _ in inputs[:2])
    expected = np.matmul(first, second) if len(inputs) == 2 else np.where(first, second, right["z"])
    np.testing.assert_array_equal(module.run(right)["y"], expected)
    assert said(module, wrong) == f"{needed} for these inputs"


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("rows", [1, 16, "n"])
def test_remainders_of_sizes(rows, fmod):
    """By a negative divisor the remainder is negative too; the arithmetic of sizes has it as the
    kernels have."""
    constants = [
        onnx.numpy_helper.from_array(np.array(value), name)
        for name, value in (("by", [-3]), ("four", [4]), ("minus", [-1]))
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Mod", ["s", "by"], ["below"], fmod=fmod),
        helper.make_node("Mod", ["s", "four"], ["above"], fmod=fmod),
    ]
    outputs = ["below", "above"]
    if rows != "n":  # a dividend that is known to be negative
        nodes += [
            helper.make_node("Mul", ["s", "minus"], ["t"]),
            helper.make_node("Mod", ["t", "four"], ["negative"], fmod=fmod),
        ]
        outputs.append("negative")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [rows, 1])],
        [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in outputs],
        constants,
    )
    module = tc.compile(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8
        ).SerializeToString(),
        log=False,
    )
    remainder = np.fmod if fmod else np.mod
    for size in (1, 3, 16) if rows == "n" else (rows,):
        sizes = np.array([size, 1])
        found = module.run({"x": ramp(size, 1)})
        for name, (dividend, by) in {
            "below": (sizes, -3),
            "above": (sizes, 4),
            "negative": (-sizes, 4),
        }.items():
            if name in found:
                np.testing.assert_array_equal(found[name], remainder(dividend, by), err_msg=name)
