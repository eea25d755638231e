"""Layer normalisations that a file spells out: a scale or a bias wider than the rows broadcasts as
the operators have it."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc


def spelled_out(shape, scale, bias, square, order=1):
    """The nodes of a normalisation over the last axis; `order` -1 exchanges the operands of product
    and sum."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["x", "mean"], ["away"]),
        helper.make_node("Mul", ["away", "away"], ["squares"])
        if square == "Mul"
        else helper.make_node("Pow", ["away", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "eps"], ["more"]),
        helper.make_node("Sqrt", ["more"], ["deviation"]),
        helper.make_node("Div", ["away", "deviation"], ["unit"]),
        helper.make_node("Mul", ["unit", "scale"][::order], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"][::order], ["y"]),
    ]
    constants = {"eps": np.float32(1e-5), "two": np.float32(2), "scale": scale, "bias": bias}
    graph = helper.make_graph(
        nodes,
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(x, scale, bias):
    x = x.astype(np.float64)
    away = x - x.mean(-1, keepdims=True)
    return away / np.sqrt((away**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("square", ["Mul", "Pow"])
@pytest.mark.parametrize(
    "shape, widths",
    [
        ((3, 1), (2, 2)),
        ((3, 1), (5, 1)),
        ((3, 1), (1, 4)),
        ((2, 3, 1), (7, 7)),
        ((1,), (3, 3)),
        ((4, 1), (1, 1)),
        ((3, 8), (8, 8)),
        ((3, 8), (1, 8)),
        ((3, 8), (8, 1)),
        ((2, 3, 8), (1, 1)),
    ],
)
def test_scales_and_biases_of_any_width(shape, widths, square, order):
    scale, bias, x = drawn(widths[0]), drawn(widths[1] + 1)[1:], drawn(*shape)
    found = tc.compile(spelled_out(shape, scale, bias, square, order), log=False).run({"x": x})["y"]
    wanted = expected(x, scale, bias)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [1, 4])
def test_rows_of_an_open_width(width):
    """The width is assumed to be that of the scale, and a run of another is refused in its name."""
    scale, bias = drawn(4), drawn(5)[1:]
    module = tc.compile(spelled_out((3, "n"), scale, bias, "Mul"), log=False)
    if width == 4:
        np.testing.assert_allclose(
            module.run({"x": drawn(3, 4)})["y"],
            expected(drawn(3, 4), scale, bias),
            rtol=1e-4,
            atol=1e-5,
        )
        return
    with pytest.raises(tc.ShapeError, match="'n' has to be '4'; they are 1 and 4 for these inputs"):
        module.run({"x": drawn(3, 1)})
