"""Maps sampled by data, regions, unpooling and crops agree with ONNX Runtime, or with onnx's
reference where that has no such kernel, on seeded inputs with NaN, positions far outside, and
symbolic sizes."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

from ..support import worst_error
from .peers import FLOAT, NAN, RANDOM, floats, model_of, ours, reference, refused, runtime


# --- GridSample and AffineGrid --------------------------------------------------------------------


def grid_of(batch, points, axes, size):
    """Points inside and outside, on edges, centres and borders."""
    grid = RANDOM.uniform(-1.6, 1.6, (batch, *points, axes)).astype(FLOAT)
    flat = grid.reshape(-1)
    special = [-1, 1, 0, 1 - 1 / size, -1 + 1 / size, -3, 3, 2.5, -1.0001, 1.0001]
    flat[: len(special)] = special[: flat.size]
    return grid


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(mode, padding, align):
    x = floats(2, 5, 6, 7)
    inputs = {"x": x, "grid": grid_of(2, (4, 9), 2, 7)}
    model = model_of("GridSample", 20, inputs, mode=mode, padding_mode=padding, align_corners=align)
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 2e-5


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes(mode, padding):
    inputs = {"x": floats(1, 3, 4, 5, 6), "grid": grid_of(1, (3, 2, 4), 3, 6)}
    model = model_of("GridSample", 20, inputs, mode=mode, padding_mode=padding, align_corners=0)
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 2e-5


def test_cubic_grid_sample_of_a_volume():
    inputs = {"x": floats(1, 2, 4, 5, 4), "grid": grid_of(1, (2, 2, 2), 3, 5)}
    model = model_of("GridSample", 20, inputs, mode="cubic")
    assert worst_error(ours(model, inputs), reference(model, inputs)) < 2e-5


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample_of_opset_16_with_any_batch(mode):
    x, grid = floats(3, 4, 5, 5), grid_of(3, (2, 3), 2, 5)
    model = model_of(
        "GridSample",
        16,
        {"x": x, "grid": grid},
        shapes={"x": ("n", 4, 5, 5), "grid": ("n", 2, 3, 2)},
        mode=mode,
    )
    assert (
        worst_error(ours(model, {"x": x, "grid": grid}), runtime(model, {"x": x, "grid": grid}))
        < 2e-5
    )


def test_points_that_are_no_numbers_or_far_away_lie_outside():
    x = floats(1, 2, 3, 3)
    points = [[NAN, 0], [0, NAN], [1e30, 0], [-1e30, 1e30], [float("inf"), 0], [0, 0]]
    grid = numpy.array(points, FLOAT).reshape(1, 1, 6, 2)
    for mode in ("nearest", "linear"):
        y = ours(
            model_of("GridSample", 20, {"x": x, "grid": grid}, mode=mode), {"x": x, "grid": grid}
        )
        assert (y[..., :5] == 0).all() and numpy.allclose(y[0, :, 0, 5], x[0, :, 1, 1])
    border = ours(
        model_of("GridSample", 20, {"x": x, "grid": grid}, mode="nearest", padding_mode="border"),
        {"x": x, "grid": grid},
    )
    assert numpy.array_equal(border[0, :, 0, 2], x[0, :, 1, 2]) and numpy.isfinite(border).all()


def test_grid_sample_on_blocked_channels():
    """Between two convolutions the sampled map keeps their layout."""
    x, grid, w = floats(1, 64, 8, 8), grid_of(1, (8, 8), 2, 8), floats(64, 64, 3, 3, scale=0.05)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("GridSample", ["a", "grid"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y0"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "maps",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
            for name, array in (("x", x), ("grid", grid))
        ],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    assert (
        worst_error(ours(model, {"x": x, "grid": grid}), runtime(model, {"x": x, "grid": grid}))
        < 1e-4
    )


def test_grid_sample_refuses_what_does_not_fit():
    x, grid = floats(1, 2, 3, 3), floats(1, 4, 4, 3)
    assert (
        "; [N, C, 1 to 3 spatial axes] and [N, as many axes, their number] are needed"
        in refused(model_of("GridSample", 20, {"x": x, "grid": grid}))
    )
    assert "attribute 'mode' is 'area'; it may be linear, nearest, cubic" in refused(
        model_of("GridSample", 20, {"x": x, "grid": grid[..., :2]}, mode="area")
    )
    whole = x.astype(numpy.int32)
    assert "mode linear needs a float type" in refused(
        model_of("GridSample", 20, {"x": whole, "grid": grid[..., :2]})
    )


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 4, 2), (2, 3, 1, 4)])
@pytest.mark.parametrize("align", [0, 1])
def test_affine_grid(size, align):
    axes = len(size) - 2
    inputs = {"theta": floats(2, axes, axes + 1)}
    model = model_of("AffineGrid", 20, inputs, {"size": numpy.array(size)}, align_corners=align)
    expected = runtime(model, inputs) if 1 not in size[2:] else reference(model, inputs)
    if align and 1 in size[2:]:
        expected = None  # onnx's reference divides by zero there
        assert numpy.isfinite(ours(model, inputs)).all()
    else:
        assert worst_error(ours(model, inputs), expected) < 1e-5


def test_affine_grid_refuses_what_does_not_fit():
    theta = {"theta": floats(2, 2, 3)}
    assert "numbers; [N, C, H, W] or [N, C, D, H, W] is needed" in refused(
        model_of("AffineGrid", 20, theta, {"size": numpy.array([2, 3, 4])})
    )
    assert "theta has shape [2, 2, 3]; [1, 2, 3] is needed" in refused(
        model_of("AffineGrid", 20, theta, {"size": numpy.array([1, 3, 4, 5])})
    )


# --- regions --------------------------------------------------------------------------------------

ROIS = numpy.array(
    [
        [0, 0, 9, 9],
        [2.3, 1.7, 6.2, 8.9],
        [-4, -3, 3, 20],
        [8, 8, 2, 1],
        [50, 50, 60, 60],
        [0.2, 0.1, 0.4, 0.3],
    ],
    FLOAT,
)


@pytest.mark.parametrize("ratio", [0, 1, 2, 3])
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode, half, ratio):
    rois = ROIS if mode == "avg" else numpy.abs(ROIS)
    inputs = {"x": floats(2, 3, 10, 12), "rois": rois, "batch": numpy.array([0, 1, 1, 0, 1, 0])}
    how = "half_pixel" if half else "output_half_pixel"
    model = model_of(
        "RoiAlign",
        16,
        inputs,
        mode=mode,
        coordinate_transformation_mode=how,
        output_height=3,
        output_width=2,
        sampling_ratio=ratio,
        spatial_scale=0.75,
    )
    assert worst_error(ours(model, inputs), reference(model, inputs)) < 2e-5


def test_roi_align_of_opset_10_with_any_number_of_regions():
    inputs = {"x": floats(2, 3, 10, 12), "rois": ROIS, "batch": numpy.array([0, 1, 1, 0, 1, 0])}
    model = model_of(
        "RoiAlign",
        10,
        inputs,
        shapes={"rois": ("r", 4), "batch": ("r",)},
        output_height=2,
        output_width=2,
        sampling_ratio=2,
    )
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 2e-5


def test_roi_align_refuses_what_does_not_fit():
    inputs = {"x": floats(2, 3, 10, 12), "rois": ROIS, "batch": numpy.zeros(6, numpy.int64)}
    assert "sampling_ratio is -1" in refused(model_of("RoiAlign", 16, inputs, sampling_ratio=-1))
    assert "the regions' size is 2 by 0" in refused(
        model_of("RoiAlign", 16, inputs, output_height=2, output_width=0)
    )
    assert "; [N, C, H, W] and [regions, 4] are needed" in refused(
        model_of("RoiAlign", 16, {**inputs, "rois": floats(6, 5)})
    )
    assert "batch_indices has shape [5]" in refused(
        model_of("RoiAlign", 16, {**inputs, "batch": numpy.zeros(5, numpy.int64)})
    )


def test_max_roi_pool():
    rois = numpy.array(
        [[0, 0, 0, 9, 9], [1, 2, 1, 6, 8], [1, 3, 3, 3, 3], [0, 5, 6, 30, 30], [1, 40, 40, 50, 50]],
        FLOAT,
    )
    inputs = {"x": floats(2, 3, 10, 12), "rois": rois}
    model = model_of("MaxRoiPool", 16, inputs, pooled_shape=[3, 2], spatial_scale=0.8)
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 1e-6


def test_max_roi_pool_refuses_what_does_not_fit():
    inputs = {"x": floats(1, 2, 5, 5), "rois": floats(3, 5)}
    assert "pooled_shape has 1 numbers" in refused(
        model_of("MaxRoiPool", 16, inputs, pooled_shape=[3])
    )


# --- DeformConv, Col2Im, MaxUnpool ----------------------------------------------------------------


@pytest.mark.parametrize(
    "groups, offset_groups, stride, mask, bias",
    [(1, 1, 1, False, False), (2, 4, 2, True, True), (1, 2, 1, True, False)],
)
def test_deform_conv(groups, offset_groups, stride, mask, bias):
    size = (6 + 2 - 3) // stride + 1
    inputs = {
        "x": floats(2, 4, 6, 6),
        "w": floats(4, 4 // groups, 3, 3),
        "offset": floats(2, offset_groups * 18, size, size, scale=1.5),
        "b": floats(4) if bias else None,
        "mask": floats(2, offset_groups * 9, size, size) if mask else None,
    }
    if not mask:
        inputs.pop("mask")
        if not bias:
            inputs.pop("b")
    model = model_of(
        "DeformConv",
        19,
        inputs,
        group=groups,
        offset_group=offset_groups,
        strides=[stride] * 2,
        pads=[1, 1, 1, 1],
    )
    given = {name: array for name, array in inputs.items() if array is not None}
    assert worst_error(ours(model, inputs), reference(model, given)) < 2e-5


def test_deform_conv_without_offsets_is_a_convolution():
    x, w = floats(1, 3, 4, 5, 6), floats(2, 3, 2, 3, 1)
    inputs = {"x": x, "w": w, "offset": numpy.zeros((1, 18, 3, 3, 6), FLOAT)}
    plain = model_of("Conv", 19, {"x": x, "w": w})
    assert (
        worst_error(
            ours(model_of("DeformConv", 19, inputs), inputs), runtime(plain, {"x": x, "w": w})
        )
        < 2e-5
    )


def test_deform_conv_refuses_what_does_not_fit():
    inputs = {"x": floats(1, 4, 6, 6), "w": floats(4, 4, 3, 3), "offset": floats(1, 18, 4, 4)}
    assert "4 channels do not divide into 3 groups" in refused(
        model_of("DeformConv", 19, inputs, offset_group=3)
    )
    assert "offset has shape [1, 18, 4, 4]; [1, 36, 4, 4] is needed" in refused(
        model_of("DeformConv", 19, inputs, offset_group=2)
    )
    masked = {**inputs, "b": None, "mask": floats(1, 9, 4, 3)}
    assert "mask has shape [1, 9, 4, 3]; [1, 9, 4, 4] is needed" in refused(
        model_of("DeformConv", 19, masked)
    )
    flat = {"x": floats(1, 4), "w": floats(4, 4), "offset": floats(1, 4)}
    assert "axes; [N, C, 1 to 3 spatial axes] and as many are needed" in refused(
        model_of("DeformConv", 19, flat)
    )
    assert "; equal ranks and a fixed kernel are needed" in refused(
        model_of("DeformConv", 19, {**inputs, "w": floats(4, 4, 3)})
    )
    wide = {
        "x": floats(1, 1, 2000, 2000),
        "w": floats(1, 1, 1100, 1100),
        "offset": floats(1, 2, 1, 1),
    }
    assert ": the kernel has more than 2^20 elements" in refused(model_of("DeformConv", 19, wide))
    assert "kernel_shape does not fit W" in refused(
        model_of("DeformConv", 19, inputs, kernel_shape=[2, 2])
    )


@pytest.mark.parametrize(
    "image, block, options",
    [
        ((5, 5), (1, 5), {}),
        ((5, 6), (2, 3), {"strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}),
        ((4, 3, 5), (1, 3, 2), {}),
        ((9,), (3,), {"strides": [2]}),
    ],
)
def test_col2im(image, block, options):
    pads, axes = options.get("pads", [0] * 2 * len(image)), len(image)
    windows = numpy.prod(
        [
            (
                image[i]
                + pads[i]
                + pads[axes + i]
                - options.get("dilations", [1] * axes)[i] * (block[i] - 1)
                - 1
            )
            // options.get("strides", [1] * axes)[i]
            + 1
            for i in range(axes)
        ]
    )
    inputs = {"x": floats(2, 3 * int(numpy.prod(block)), int(windows))}
    model = model_of(
        "Col2Im", 18, inputs, {"image": numpy.array(image), "block": numpy.array(block)}, **options
    )
    assert worst_error(ours(model, inputs), reference(model, inputs)) < 1e-5


def test_col2im_refuses_what_does_not_fit():
    x = floats(1, 6, 7)
    constants = {"image": numpy.array([5, 5]), "block": numpy.array([2, 2])}
    assert "blocks of 4 elements and 16 windows fit the image" in refused(
        model_of("Col2Im", 18, {"x": x}, constants)
    )
    assert "; [N, C * block, windows] is needed" in refused(
        model_of("Col2Im", 18, {"x": floats(6, 16)}, constants)
    )
    constants["block"] = numpy.array([2])
    assert "one per axis of the image is needed" in refused(
        model_of("Col2Im", 18, {"x": x}, constants)
    )


@pytest.mark.parametrize("strides, pads", [([2, 2], [0, 0, 0, 0]), ([2, 1], [1, 0, 0, 0])])
def test_max_unpool(strides, pads):
    x = floats(2, 3, 4, 4)
    sizes = [3 * strides[i] - pads[i] - pads[2 + i] + 2 for i in range(2)]
    total = 2 * 3 * sizes[0] * sizes[1]
    places = RANDOM.permutation(total)[: x.size].reshape(x.shape)
    inputs = {"x": x, "i": places}
    model = model_of("MaxUnpool", 11, inputs, kernel_shape=[2, 2], strides=strides, pads=pads)
    assert worst_error(ours(model, inputs), reference(model, inputs)) == 0


def test_max_unpool_takes_places_outside_to_the_edge():
    x = numpy.ones((1, 1, 2, 2), FLOAT)
    places = numpy.array([[[[-5, 1], [2**40, 15]]]])
    y = ours(
        model_of("MaxUnpool", 11, {"x": x, "i": places}, kernel_shape=[2, 2], strides=[2, 2]),
        {"x": x, "i": places},
    )
    assert (
        y.shape == (1, 1, 4, 4)
        and set(y.ravel()) <= {0.0, 1.0}
        and y[0, 0, 0, 1] == 1
        and y[0, 0, 3, 3] == 1
    )


def test_max_unpool_refuses_what_does_not_fit():
    inputs = {"x": floats(1, 1, 2, 2), "i": numpy.zeros((1, 1, 2, 2), numpy.int64)}
    assert "; the first two must be positive, and none negative or over 2^31" in refused(
        model_of("MaxUnpool", 11, inputs, kernel_shape=[0, 2])
    )
    small = model_of(
        "MaxUnpool",
        11,
        inputs,
        {"size": numpy.array([1, 1, 2, 2])},
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    assert "output_shape [1, 1, 2, 2] does not hold [1, 1, 4, 4]" in refused(small)


# --- pooling, crops -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p):
    inputs = {"x": floats(2, 3, 4, 5)}
    model = model_of("GlobalLpPool", 16, inputs, p=p)
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 1e-5
    assert "attribute 'p' is 0; it may be 1 to 1024" in refused(
        model_of("GlobalLpPool", 16, inputs, p=0)
    )


@pytest.mark.parametrize(
    "shape, axes", [((3, 9, 4), None), ((7, 2), [-1, 0]), ((4,), [1]), ((5, 5, 5), None)]
)
def test_center_crop_pad(shape, axes):
    inputs = {"x": floats(5, 6, 5)}
    options = {} if axes is None else {"axes": axes}
    model = model_of("CenterCropPad", 18, inputs, {"shape": numpy.array(shape)}, **options)
    assert worst_error(ours(model, inputs), reference(model, inputs)) == 0


def test_center_crop_pad_of_unknown_sizes_says_what_to_bind():
    model = model_of(
        "CenterCropPad", 18, {"x": floats(5)}, {"shape": numpy.array([4])}, shapes={"x": ("n",)}
    )
    assert "axis 0 of size 'n' may be cut or padded to '4'; bind the symbols to numbers" in refused(
        model
    )
