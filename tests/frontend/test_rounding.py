"""The error of long sums, at tolerance 0 beside that of a sum that adds one term after the other,
and of a mean at any tolerance."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..levels import NATIVE_AND_LEVELS


def model_of(node, sizes, weights):
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def root_of_mean_square(error):
    return float(np.sqrt(np.mean(np.square(error))))


def in_turn(terms):
    """The sum along the last axis, rounded to float32 after each term."""
    total = np.zeros(terms.shape[:-1], np.float32)
    for number in range(terms.shape[-1]):
        total = (total + terms[..., number].astype(np.float32)).astype(np.float32)
    return total


@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
@pytest.mark.parametrize("terms", [2048, 2304, 576, 1000])
def test_long_sums_are_formed_in_blocks(target, terms):
    random = np.random.default_rng(7)
    # All products are positive: the sum grows, and so does what each rounding loses.
    x = random.uniform(0.5, 1, (1, terms, 5, 6)).astype(np.float32)
    weights = random.uniform(0.5, 1, (32, terms, 1, 1)).astype(np.float32)
    model = tc.compile(
        model_of(helper.make_node("Conv", ["x", "w"], ["y"]), list(x.shape), weights),
        target=target,
        tolerance=0,
        threads=1,
    )
    products = np.einsum(
        "ncyx,fc->nfyxc", x.astype(np.float64), weights[:, :, 0, 0].astype(np.float64)
    )
    exact = products.sum(-1)
    error = root_of_mean_square(model.run({"x": x})["y"] - exact)
    plain = root_of_mean_square(in_turn(products) - exact)
    blocks = terms / 256
    print(
        f"{terms} terms, {target}: error {error:.2e}, of one term after the other {plain:.2e}, ratio {plain / error:.1f}"
    )
    # Random roundings: a block's error grows with its terms to the power of 1.5, and blocks of a
    # sum add up as squares.
    assert plain / error >= 0.6 * blocks


@pytest.mark.parametrize("kernel,channels", [(3, 64), (3, 128), (3, 256), (5, 48), (3, 200)])
def test_windows_in_blocks(kernel, channels):
    random = np.random.default_rng(channels)
    x = random.standard_normal((1, channels, 15, 17)).astype(np.float32)
    weights = random.standard_normal((48, channels, kernel, kernel)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4)
    found = tc.compile(model_of(node, list(x.shape), weights), tolerance=0, threads=1).run(
        {"x": x}
    )["y"]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    exact = np.einsum("ncyxrs,fcrs->nfyx", windows, weights.astype(np.float64))
    assert np.abs(found - exact).max() / np.abs(exact).max() < 5e-7


@pytest.mark.parametrize("channels", [512, 1024])
def test_k_blocks_do_not_lengthen_blocks_of_sums(channels):
    """The panels of these weights are larger than the second cache, so that the sums of a K-block
    wait in memory for the next."""
    random = np.random.default_rng(channels)
    x = random.standard_normal((1, channels, 7, 7)).astype(np.float32)
    weights = random.standard_normal((128, channels, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    module = tc.compile(model_of(node, list(x.shape), weights), tolerance=0, threads=1)
    found = module.run({"x": x})["y"]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3)
    )[0]
    exact = np.einsum("cyxrs,fcrs->fyx", windows, weights.astype(np.float64))[None]
    # Sums of 16 channels, and the sum of these.
    total = np.zeros(exact.shape[1:], np.float32)
    for first in range(0, channels, 16):
        block = np.zeros(exact.shape[1:], np.float32)
        for channel in range(first, first + 16):
            for row, column in np.ndindex(3, 3):
                products = windows[None, channel, :, :, row, column] * weights[
                    :, channel, row, column, None, None
                ].astype(np.float64)
                block = (block + products).astype(np.float32)
        total += block
    error, expected = root_of_mean_square(found - exact), root_of_mean_square(total - exact[0])
    print(f"{channels} channels: error {error:.2e}, of blocks of 16 channels {expected:.2e}")
    assert error <= 1.2 * expected


@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
@pytest.mark.parametrize("elements", [3, 7, 49, 312])
@pytest.mark.parametrize(
    "operator", ["LayerNormalization", "InstanceNormalization", "GroupNormalization"]
)
def test_equal_elements_are_normalised_to_zero(operator, elements, target):
    # Their sum is rounded, and 1 / sqrt(epsilon) magnifies what a mean made of it is off.
    rows = np.random.default_rng(0).uniform(1, 1000, (1, 64, 1)).astype(np.float32)
    attributes = {"num_groups": 64} if operator == "GroupNormalization" else {}
    factors = np.ones(elements if operator == "LayerNormalization" else 64, np.float32)
    inputs = ["x", "w"] if operator == "LayerNormalization" else ["x", "w", "b"]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, elements])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(factors, "w"),
            numpy_helper.from_array(np.zeros(64, np.float32), "b"),
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18 if attributes else 17)], ir_version=8
    )
    found = tc.compile(model.SerializeToString(), target, log=False).run(
        {"x": np.repeat(rows, elements, axis=2)}
    )["y"]
    assert (found == 0).all()


@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
@pytest.mark.parametrize(
    "operator,sizes,axes",
    [
        ("ReduceMean", (1, 4, 800, 800), (2, 3)),
        ("ReduceMean", (4, 640000), (1,)),
        ("ReduceSumSquare", (1, 4, 800, 800), (2, 3)),
        ("ReduceL2", (2, 1300000), (1,)),
    ],
)
def test_long_reductions_are_formed_in_blocks(operator, sizes, axes, target):
    x = np.random.default_rng(3).uniform(0.5, 1.5, sizes).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], axes=axes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8
    ).SerializeToString()
    found = tc.compile(model, target=target, threads=1).run({"x": x})["y"]
    exact = x.astype(np.float64)
    exact = (
        exact.mean(axes, keepdims=True)
        if operator == "ReduceMean"
        else np.square(exact).sum(axes, keepdims=True)
    )
    if operator == "ReduceL2":
        exact = np.sqrt(exact)
    error = np.abs(found / exact - 1).max()
    print(f"{operator} of {sizes}, {target}: error {error:.2e}")
    # A sum of 80,000 terms in each of 8 lanes, one term after the other, was wrong by 2e-6 to 4e-6.
    assert error < 6e-7


@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_a_map_is_normalised_by_a_small_deviation(target):
    """The first element is far from all others, from which the mean is a hundred deviations
    away."""
    x = (100 + np.random.default_rng(4).standard_normal((1, 2, 640, 640))).astype(np.float32)
    x[:, :, 0, 0] = 0
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    graph = helper.make_graph(
        [helper.make_node("InstanceNormalization", ["x", "one", "zero"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(ones, "one"), numpy_helper.from_array(zeros, "zero")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8
    ).SerializeToString()
    found = tc.compile(model, target=target, threads=1).run({"x": x})["y"]
    exact = x.astype(np.float64)
    exact = (exact - exact.mean((2, 3), keepdims=True)) / np.sqrt(
        exact.var((2, 3), keepdims=True) + 1e-5
    )
    error = np.abs(found - exact)[:, :, 1:].max()
    print(f"{target}: error {error:.2e} deviations")
    # The mean in float32 is rounded by up to 3.8e-6.
    assert error < 2e-6
