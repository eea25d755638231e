"""Relations of sizes that nothing proves while compiling: a run checks them, and sizes that differ
for all symbols are refused."""

import numpy as np
import onnx
import onnx.reference
import pytest

import tc
from tests.frontend.data_sizes import FLOAT, check, model

from .grown_sizes import node, ones, summing


# --- relations ------------------------------------------------------------------------------------


def test_relation_of_inputs():
    """Broadcast of `seq` and the size that a table of 4 rows gives: equal up to 4, refused
    beyond."""
    data = model(
        [
            node("Shape", ["x"], "shape"),
            node("Slice", ["table", "zero", "shape"], "rows"),
            node("Add", ["x", "rows"], "y"),
        ],
        [("x", FLOAT, ["seq"])],
        [("y", FLOAT, ["seq"])],
        {"table": np.arange(4, dtype=np.float32), "zero": np.array([0])},
    )
    module = tc.compile(data)
    for size in (2, 4, 3):
        check(data, {"x": np.ones(size, np.float32)}, module)
    with pytest.raises(tc.Error) as error:
        module(np.ones(6, np.float32))
    assert "'seq'" in str(error.value) and "they are" in str(error.value), error.value
    check(data, {"x": np.ones(4, np.float32)}, module)


def test_relation_of_computed_sizes():
    data = summing(
        [
            node("Reshape", ["k", "one"], "s"),
            node("ConstantOfShape", ["s"], "a"),
            node("Add", ["a", "b"], "y"),
        ],
        [("y", FLOAT, [None])],
        {},
        [("b", FLOAT, ["n"])],
    )
    module = tc.compile(data)
    check(data, {"x": ones(3), "b": np.ones(3, np.float32)}, module)
    with pytest.raises(
        tc.Error, match="node 'y_node'.*they are 2 and 5|node 'y_node'.*they are 5 and 2"
    ):
        module.run({"x": ones(2), "b": np.ones(5, np.float32)})
    check(data, {"x": ones(6), "b": np.ones(6, np.float32)}, module)


def test_reshape_that_does_not_divide():
    data = model(
        [node("Reshape", ["x", "s"], "y")],
        [("x", FLOAT, ["n", 3])],
        [("y", FLOAT, [None, 2])],
        {"s": np.array([-1, 2])},
    )
    module = tc.compile(data)
    check(data, {"x": np.ones((4, 3), np.float32)}, module)
    with pytest.raises(tc.Error, match="cannot|has to be"):
        module(np.ones((3, 3), np.float32))


def test_relation_of_a_product():
    """The rows of a matrix product's second operand."""
    data = model(
        [node("MatMul", ["a", "b"], "y")],
        [("a", FLOAT, [2, "m"]), ("b", FLOAT, ["n", 3])],
        [("y", FLOAT, [2, 3])],
    )
    module = tc.compile(data)
    rng = np.random.default_rng(5)
    for size in (4, 1, 7):
        check(
            data,
            {"a": rng.random((2, size), np.float32), "b": rng.random((size, 3), np.float32)},
            module,
        )
    with pytest.raises(tc.Error) as error:
        module.run({"a": np.ones((2, 3), np.float32), "b": np.ones((4, 3), np.float32)})
    assert "'m'" in str(error.value) and "'n'" in str(error.value) and "y_node" in str(error.value)


def test_relation_of_joined_parts():
    data = model(
        [node("Concat", ["a", "b"], "y", axis=1)],
        [("a", FLOAT, ["m", 2]), ("b", FLOAT, ["n", 3])],
        [("y", FLOAT, [None, 5])],
    )
    module = tc.compile(data)
    check(data, {"a": np.ones((4, 2), np.float32), "b": np.zeros((4, 3), np.float32)}, module)
    with pytest.raises(tc.Error, match="y_node.*they are [34] and [34]"):
        module.run({"a": np.ones((3, 2), np.float32), "b": np.ones((4, 3), np.float32)})


def test_sizes_that_differ_for_all_symbols_are_refused():
    data = model(
        [
            node("Concat", ["x", "x"], "z", axis=0),
            node("Concat", ["z", "one"], "w", axis=0),
            node("Add", ["z", "w"], "y"),
        ],
        [("x", FLOAT, ["n"])],
        [("y", FLOAT, [None])],
        {"one": np.ones(2, np.float32)},
    )
    with pytest.raises(tc.Error, match="do not broadcast: axis 0 is 2\\*n and 2\\*n \\+ 2"):
        tc.compile(data)


def test_products_whose_sizes_always_differ_are_refused():
    data = model(
        [node("Concat", ["b", "more"], "w", axis=0), node("MatMul", ["a", "w"], "y")],
        [("a", FLOAT, [2, "n"]), ("b", FLOAT, ["n", 3])],
        [("y", FLOAT, [2, 3])],
        {"more": np.ones((2, 3), np.float32)},
    )
    with pytest.raises(tc.Error) as error:
        tc.compile(data)
    assert str(error.value).endswith(
        "`k` is n in A of shape [2, n] (dimension 1) but n + 2 in B of shape [n + 2, 3] (dimension 0)"
    )


# --- resampling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode, coordinates",
    [
        ("nearest", "half_pixel"),
        ("nearest", "asymmetric"),
        ("linear", "half_pixel"),
        ("linear", "align_corners"),
        ("linear", "pytorch_half_pixel"),
        ("cubic", "half_pixel"),
        ("cubic", "asymmetric"),
    ],
)
def test_resize_to_another_inputs_size(mode, coordinates):
    """As a segmenter gives its map the picture's size."""
    data = model(
        [
            node("Shape", ["like"], "size", start=2),
            node("Shape", ["x"], "front", end=2),
            node("Concat", ["front", "size"], "sizes", axis=0),
            node(
                "Resize",
                ["x", "", "", "sizes"],
                "y",
                mode=mode,
                coordinate_transformation_mode=coordinates,
            ),
        ],
        [("x", FLOAT, [1, 2, "h", "w"]), ("like", FLOAT, [1, 3, "height", "width"])],
        [("y", FLOAT, [1, 2, None, None])],
    )
    module = tc.compile(data)
    reference = onnx.reference.ReferenceEvaluator(onnx.load_from_string(data))
    rng = np.random.default_rng(2)
    for (h, w), (height, width) in [
        ((3, 4), (6, 9)),
        ((5, 5), (5, 3)),
        ((4, 7), (9, 20)),
        ((1, 1), (4, 4)),
    ]:
        inputs = {
            "x": rng.random((1, 2, h, w), np.float32),
            "like": np.zeros((1, 3, height, width), np.float32),
        }
        np.testing.assert_allclose(
            module.run(inputs)["y"], reference.run(None, inputs)[0], rtol=1e-4, atol=1e-5
        )


def test_resize_refuses_antialias_of_symbols():
    data = model(
        [node("Resize", ["x", "", "scales"], "y", mode="linear", antialias=1)],
        [("x", FLOAT, [1, 1, "h", 4])],
        [("y", FLOAT, [1, 1, None, 4])],
        {"scales": np.float32([1, 1, 0.75, 1])},
    )
    with pytest.raises(
        tc.Error,
        match="resampling axis 2 of size 'h' to .* with antialias or tf_crop_and_resize needs fixed sizes; bind the symbols to numbers",
    ):
        tc.compile(data)


def test_resize_by_a_scale_of_symbols():
    data = model(
        [node("Resize", ["x", "", "scales"], "y", mode="linear")],
        [("x", FLOAT, [1, 1, "h", "w"])],
        [("y", FLOAT, [1, 1, None, None])],
        {"scales": np.float32([1, 1, 1.5, 0.75])},
    )
    module = tc.compile(data)
    for h, w in [(4, 8), (5, 7)]:
        check(data, {"x": np.random.default_rng(h).random((1, 1, h, w), np.float32)}, module)
