"""What is no number stays in its place: operators that order numbers count NaN as NumPy does."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc


def compiled(node, constants, results):
    graph = helper.make_graph(
        [node],
        "order",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (6, 37))],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return tc.compile(model.SerializeToString())


def rows_with_nan():
    """No NaN in the first row, then at the beginning, at the end, several, beside infinity, nothing
    else."""
    x = numpy.random.default_rng(3).standard_normal((6, 37)).astype(numpy.float32)
    x[1, 0] = x[2, -1] = x[3, 5] = x[3, 20] = x[4, 9] = x[5, :] = numpy.nan
    x[4, 3], x[4, 30] = numpy.inf, -numpy.inf
    return x


@pytest.mark.parametrize("op, order", [("ArgMax", numpy.argmax), ("ArgMin", numpy.argmin)])
def test_the_first_nan_is_the_best(op, order):
    x = rows_with_nan()
    node = helper.make_node(op, ["x"], ["y"], axis=1, keepdims=0)
    assert (
        compiled(node, {}, {"y": TensorProto.INT64}).run({"x": x})["y"] == order(x, axis=1)
    ).all()


@pytest.mark.parametrize("largest", [1, 0])
def test_no_element_is_lost(largest):
    """All of them, sorted: NaN is beside infinity."""
    x = rows_with_nan()
    node = helper.make_node("TopK", ["x", "k"], ["y", "at"], axis=1, largest=largest)
    module = compiled(
        node,
        {"k": numpy.array([37], numpy.int64)},
        {"y": TensorProto.FLOAT, "at": TensorProto.INT64},
    )
    results = module.run({"x": x})
    key = numpy.where(numpy.isnan(x), numpy.inf, x)
    at = numpy.argsort(-key if largest else key, axis=1, kind="stable")
    assert (results["at"] == at).all()
    assert numpy.array_equal(results["y"], numpy.take_along_axis(x, at, axis=1), equal_nan=True)
