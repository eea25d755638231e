"""Models whose structure depends on values of inputs: a version for each combination of values."""

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc

from .test_errors import refusal


def model_of(nodes, inputs, outputs, opset=18, initializers=()):
    def ports(rows):
        return [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in rows]

    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def sum_over_axes():
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], "sum", keepdims=0)
    return model_of(
        [node],
        [("x", TensorProto.FLOAT, (2, 3, 4)), ("axes", TensorProto.INT64, ("n",))],
        [("y", TensorProto.FLOAT, None)],
    )


def reshape_and_permute():
    """A reshape whose sizes are computed from an input, of which another input then cuts a part."""
    nodes = [
        helper.make_node("Mul", ["half", "two"], ["shape"], "double"),
        helper.make_node("Reshape", ["x", "shape"], ["reshaped"], "reshape"),
        helper.make_node("Slice", ["reshaped", "starts", "ends"], ["y"], "cut"),
    ]
    two = helper.make_tensor("two", TensorProto.INT64, [1], [2])
    return model_of(
        nodes,
        [
            ("x", TensorProto.FLOAT, (2, 12)),
            ("half", TensorProto.INT64, (2,)),
            ("starts", TensorProto.INT64, (1,)),
            ("ends", TensorProto.INT64, (1,)),
        ],
        [("y", TensorProto.FLOAT, None)],
        initializers=[two],
    )


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 2], [-1, 0], []])
def test_axes_of_a_run(axes):
    y = tc.compile(sum_over_axes())(X, np.array(axes, np.int64))
    np.testing.assert_allclose(y, X.sum(tuple(axes) or None), rtol=1e-6)


def test_versions_are_kept_and_told():
    module = tc.compile(sum_over_axes())
    assert module.deciding_inputs == ("axes",)
    assert [(port.name, port.shape) for port in module.inputs] == [
        ("x", (2, 3, 4)),
        ("axes", ("n",)),
    ]
    assert module.outputs[0].shape is None
    assert module.memory.arena is None and module.kernels == []
    first = module(X, [0])
    kernels = module.kernels
    module(X, [1])
    np.testing.assert_array_equal(module(X, [0]), first)
    assert module.kernels == kernels  # the first version again, not a new one
    text = module.explain()
    assert "axes = [0] (last run)" in text and "axes = [1]\n" in text


def test_values_may_decide_one_after_the_other():
    module = tc.compile(reshape_and_permute())
    assert module.deciding_inputs == ("half",)
    x = X.reshape(2, 12)
    for half, start, end in (((2, 3), 1, 3), ((3, 2), 0, 5), ((2, 3), 0, 1)):
        given = {
            "x": x,
            "half": np.array(half, np.int64),
            "starts": np.array([start]),
            "ends": np.array([end]),
        }
        sizes = tuple(2 * size for size in half)
        np.testing.assert_array_equal(module.run(given)["y"], x.reshape(sizes)[start:end])
    assert module.deciding_inputs == ("half", "starts", "ends")


def test_values_given_while_compiling(tmp_path):
    module = tc.compile(sum_over_axes(), values={"axes": [1]})
    assert [port.name for port in module.inputs] == ["x"]
    np.testing.assert_allclose(module(X), X.sum(1), rtol=1e-6)
    module.save(tmp_path / "sum.so")
    np.testing.assert_array_equal(tc.load(tmp_path / "sum.so")(X), module(X))
    refusal(
        tc.ShapeError,
        lambda: tc.compile(sum_over_axes(), values={"axis": [1]}),
        "values: 'axis' is no input of model.onnx; its inputs are x, axes",
    )
    refusal(
        tc.ShapeError,
        lambda: tc.compile(sum_over_axes(), values={"axes": np.zeros(1, np.float32)}),
        "values: 'axes' is float32; input 'axes' of model.onnx takes int64",
    )


def test_an_artefact_needs_the_values(tmp_path):
    text = refusal(
        tc.UnsupportedError, lambda: tc.compile(sum_over_axes()).export(tmp_path / "sum.so")
    )
    assert text == (
        "model 'g' has another structure for other values of 'axes', and an artefact has one: compile it with "
        "tc.compile(..., values={'axes': ...})"
    )
    assert list(tmp_path.iterdir()) == []


def test_wrong_values_are_refused_and_the_module_lives_on():
    module = tc.compile(sum_over_axes())
    refusal(tc.ShapeError, lambda: module(X, [3]), "'axes' is [3]", "'sum'")
    refusal(tc.ShapeError, lambda: module(X, np.zeros(1, np.float32)), "input 'axes'", "int64")
    refusal(tc.ShapeError, lambda: module(X), "takes 2 inputs, not 1")
    refusal(
        tc.UnsupportedError,
        lambda: module(X, np.zeros(2000, np.int64)),
        "input 'axes' of model 'g' decides its structure, and has 2000 numbers; at most 1024 may: what is larger is data",
    )
    np.testing.assert_allclose(module(X, [2]), X.sum(2), rtol=1e-6)


def test_threads_share_the_versions():
    module, wrong = tc.compile(sum_over_axes()), []

    def work(axis):
        for _ in range(5):
            if not np.allclose(module(X, [axis]), X.sum(axis)):
                wrong.append(axis)

    threads = [threading.Thread(target=work, args=(number % 3,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_data_that_change_in_each_run_are_told():
    node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"], "cut")
    module = tc.compile(
        model_of(
            [node],
            [
                ("x", TensorProto.FLOAT, (40,)),
                ("starts", TensorProto.INT64, (1,)),
                ("ends", TensorProto.INT64, (1,)),
            ],
            [("y", TensorProto.FLOAT, None)],
        )
    )
    x = np.arange(40, dtype=np.float32)
    with pytest.warns(UserWarning, match="compiled for 16 combinations of values of starts, ends"):
        for start in range(20):
            np.testing.assert_array_equal(module(x, [start], [start + 3]), x[start : start + 3])


def test_what_an_iteration_computes_decides_nothing():
    """The axes of a sum inside of a loop's body that depend on the iteration."""
    body = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x", "carried"], ["cut"], "inside"),
            helper.make_node("ReduceSum", ["cut"], ["total"], keepdims=0),
            helper.make_node("Identity", ["condition"], ["condition_out"]),
            helper.make_node("Identity", ["carried"], ["carried_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("carried", TensorProto.INT64, (2,)),
        ],
        [
            helper.make_tensor_value_info("condition_out", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("carried_out", TensorProto.INT64, (2,)),
            helper.make_tensor_value_info("total", TensorProto.FLOAT, ()),
        ],
    )
    trips = helper.make_tensor("trips", TensorProto.INT64, [], [3])
    model = model_of(
        [helper.make_node("Loop", ["trips", "", "start"], ["end", "totals"], "loop", body=body)],
        [("x", TensorProto.FLOAT, (2, 3)), ("start", TensorProto.INT64, (2,))],
        [("end", TensorProto.INT64, None), ("totals", TensorProto.FLOAT, None)],
        initializers=[trips],
    )
    refusal(tc.UnsupportedError, lambda: tc.compile(model), "'inside'", "'carried' depends on data")
    assert tc.check(model) and not tc.check(sum_over_axes())
