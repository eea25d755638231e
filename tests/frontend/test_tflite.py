"""Files of TensorFlow Lite: the same results as its reference kernels, operator by operator and of
whole models."""

import numpy as np
import pytest

import tc

from ..support import worst_error

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .tflite_files import Operator, Tensor, file_of  # noqa: E402
from .tflite_models import (  # noqa: E402
    IMAGE,
    RANDOM,
    floats,
    ints,
    litert,
    one,
    path_of,
    reference,
    relu,
    seeded,
)

FLOATS = (
    "mlperf_tiny/ad01_fp32",
    "mlperf_tiny/pretrainedResnet",
    "mlperf_tiny/vww_96_float",
    "dtln/model_quant_1",
    "dtln/model_quant_2",
)
# Its convolutions quantise their operands while they run: where a number lies at half a step,
# another order of the sums before it makes another integer of it. Most inputs have no such number.
HYBRID = "mlperf_tiny/kws_ref_model_float32"


INTEGERS = (
    "mlperf_tiny/ad01_int8",
    "mlperf_tiny/kws_ref_model",
    "mlperf_tiny/pretrainedResnet_quant",
    "mlperf_tiny/str_ww_ref_model",
    "mlperf_tiny/vww_96_int8",
)


def results(module, arrays):
    found = module(*arrays)
    return found if isinstance(found, tuple) else (found,)


def errors(name, count):
    litert()
    module = tc.compile(path_of(name), threads=1, log=False)
    found = []
    for seed in range(count):
        arrays = seeded(module.inputs, seed)
        found.append(
            max(
                worst_error(mine, theirs)
                for mine, theirs in zip(results(module, arrays), reference(path_of(name), arrays))
            )
        )
    return found


@pytest.mark.parametrize("name", FLOATS)
def test_float_models_are_those_of_the_reference_kernels(name):
    assert max(errors(name, 2)) <= 1e-5


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_those_of_the_reference_kernels(name):
    litert()
    module = tc.compile(path_of(name), threads=1, log=False)
    for seed in range(4):
        arrays = seeded(module.inputs, seed)
        (mine,), (theirs,) = results(module, arrays), reference(path_of(name), arrays)
        assert mine.dtype == theirs.dtype == np.int8
        np.testing.assert_array_equal(mine, theirs)


def test_residual_additions_are_computed_in_the_kernels_of_their_sums():
    kernels = tc.compile(
        path_of("mlperf_tiny/pretrainedResnet_quant"), threads=1, log=False
    ).kernels
    labels = [kernel["label"] for kernel in kernels if "add" in kernel["label"].rsplit("/", 1)[-1]]
    assert len(labels) == 3 and all(
        label.split(" + ")[0].endswith("/Conv2D") for label in labels
    ), labels


def test_operands_that_are_quantised_while_running():
    found = errors(HYBRID, 5)
    assert np.median(found) <= 1e-5 and max(found) < 0.05


@pytest.mark.parametrize("name", [*FLOATS, HYBRID])
def test_no_transposes_stand_inside(name):
    """Images stay with their channels in front from the first convolution to the last."""
    graph = tc.native.compiler.import_model(
        tc.sources.source_of(path_of(name)), tc.arguments.options_of()
    )[0]
    lines = graph.splitlines()
    places = [i for i, line in enumerate(lines) if "Transpose" in line]
    windows = [i for i, line in enumerate(lines) if "Conv(" in line or " Conv" in line]
    assert not [i for i in places if windows and windows[0] < i < windows[-1]]


def test_paths_bytes_and_checks():
    path = path_of("mlperf_tiny/ad01_fp32")
    assert tc.check(path) == [] and tc.check(path.read_bytes()) == []
    module = tc.compile(path, log=False)
    assert module.name == "ad01_fp32.tflite"
    assert [(port.name, port.shape) for port in (*module.inputs, *module.outputs)] == [
        ("input_1", (1, 640)),
        ("Identity", (1, 640)),
    ]


CASES = {
    "conv": (
        "CONV_2D",
        [IMAGE, floats(3, 3, 2, 4), floats(3)],
        (1, 3, 3, 3),
        "Conv2DOptions",
        {
            "StrideH": 2,
            "StrideW": 2,
            "DilationHFactor": 1,
            "DilationWFactor": 1,
            "FusedActivationFunction": 3,
        },
    ),
    "conv of groups": (
        "CONV_2D",
        [IMAGE, floats(6, 3, 3, 2), floats(6)],
        (1, 4, 3, 6),
        "Conv2DOptions",
        {"StrideH": 1, "StrideW": 1, "Padding": 1},
    ),
    "depthwise": (
        "DEPTHWISE_CONV_2D",
        [IMAGE, floats(1, 3, 3, 8), floats(8)],
        (1, 6, 5, 8),
        "DepthwiseConv2DOptions",
        {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 2, "FusedActivationFunction": 1},
    ),
    "transposed": (
        "TRANSPOSE_CONV",
        [ints(1, 12, 10, 3), floats(3, 3, 3, 4), IMAGE],
        (1, 12, 10, 3),
        "TransposeConvOptions",
        {"StrideH": 2, "StrideW": 2},
    ),
    "average pool": (
        "AVERAGE_POOL_2D",
        [IMAGE],
        (1, 3, 3, 4),
        "Pool2DOptions",
        {"StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2},
    ),
    "max pool": (
        "MAX_POOL_2D",
        [IMAGE],
        (1, 2, 2, 4),
        "Pool2DOptions",
        {"StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2, "Padding": 1},
    ),
    "fully connected": (
        "FULLY_CONNECTED",
        [(2, 3, 4), floats(5, 12)],
        (2, 5),
        "FullyConnectedOptions",
        {},
    ),
    "rows kept": (
        "FULLY_CONNECTED",
        [(2, 3, 4), floats(5, 4), floats(5)],
        (2, 3, 5),
        "FullyConnectedOptions",
        {"KeepNumDims": True},
    ),
    "batches of products": (
        "BATCH_MATMUL",
        [(2, 3, 4), (2, 5, 4)],
        (2, 3, 5),
        "BatchMatMulOptions",
        {"AdjY": True},
    ),
    "mean": ("MEAN", [IMAGE, ints(1, 2)], (1, 4), "ReducerOptions", {}),
    "sum": ("SUM", [IMAGE, ints(-1)], (1, 6, 5, 1), "ReducerOptions", {"KeepDims": True}),
    "softmax": ("SOFTMAX", [(3, 7)], (3, 7), "SoftmaxOptions", {"Beta": 0.5}),
    "bilinear": (
        "RESIZE_BILINEAR",
        [IMAGE, ints(9, 7)],
        (1, 9, 7, 4),
        "ResizeBilinearOptions",
        {"HalfPixelCenters": True},
    ),
    "corners": (
        "RESIZE_BILINEAR",
        [IMAGE, ints(9, 7)],
        (1, 9, 7, 4),
        "ResizeBilinearOptions",
        {"AlignCorners": True},
    ),
    "nearest": (
        "RESIZE_NEAREST_NEIGHBOR",
        [IMAGE, ints(12, 8)],
        (1, 12, 8, 4),
        "ResizeNearestNeighborOptions",
        {},
    ),
    "nearest centres": (
        "RESIZE_NEAREST_NEIGHBOR",
        [IMAGE, ints(4, 8)],
        (1, 4, 8, 4),
        "ResizeNearestNeighborOptions",
        {"HalfPixelCenters": True},
    ),
    "to space": (
        "DEPTH_TO_SPACE",
        [IMAGE],
        (1, 12, 10, 1),
        "DepthToSpaceOptions",
        {"BlockSize": 2},
    ),
    "to depth": (
        "SPACE_TO_DEPTH",
        [(1, 6, 4, 3)],
        (1, 3, 2, 12),
        "SpaceToDepthOptions",
        {"BlockSize": 2},
    ),
    "to batch": (
        "SPACE_TO_BATCH_ND",
        [IMAGE, ints(2, 2), np.array([[0, 0], [1, 2]], np.int32)],
        (4, 3, 4, 4),
        "SpaceToBatchNDOptions",
        {},
    ),
    "from batch": (
        "BATCH_TO_SPACE_ND",
        [(4, 3, 4, 2), ints(2, 2), np.array([[0, 0], [1, 2]], np.int32)],
        (1, 6, 5, 2),
        "BatchToSpaceNDOptions",
        {},
    ),
    "pad": (
        "PAD",
        [IMAGE, np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)],
        (1, 9, 6, 4),
        "PadOptions",
        {},
    ),
    "mirror": (
        "MIRROR_PAD",
        [IMAGE, np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)],
        (1, 9, 6, 4),
        "MirrorPadOptions",
        {},
    ),
    "slice": (
        "SLICE",
        [IMAGE, ints(0, 1, 2, 1), ints(1, 4, -1, 2)],
        (1, 4, 3, 2),
        "SliceOptions",
        {},
    ),
    "strided": (
        "STRIDED_SLICE",
        [IMAGE, ints(0, 5, 1, 0), ints(1, 0, 5, 4), ints(1, -2, 2, 1)],
        (1, 3, 2, 4),
        "StridedSliceOptions",
        {},
    ),
    "strided to one": (
        "STRIDED_SLICE",
        [IMAGE, ints(0, -2, 0, 0), ints(0, 0, 3, 0), ints(1, 1, 1, 1)],
        (1, 3, 4),
        "StridedSliceOptions",
        {"ShrinkAxisMask": 2, "BeginMask": 9, "EndMask": 9},
    ),
    "concat": (
        "CONCATENATION",
        [IMAGE, (1, 6, 5, 2)],
        (1, 6, 5, 6),
        "ConcatenationOptions",
        {"Axis": -1},
    ),
    "split": (
        "SPLIT",
        [ints(3), IMAGE],
        [(1, 6, 5, 2), (1, 6, 5, 2)],
        "SplitOptions",
        {"NumSplits": 2},
    ),
    "pieces": (
        "SPLIT_V",
        [IMAGE, ints(1, -1), ints(3)],
        [(1, 6, 5, 1), (1, 6, 5, 3)],
        "SplitVOptions",
        {"NumSplits": 2},
    ),
    "pack": ("PACK", [(3, 4), (3, 4)], (3, 2, 4), "PackOptions", {"Axis": 1, "ValuesCount": 2}),
    "unpack": ("UNPACK", [(3, 2, 4)], [(3, 4), (3, 4)], "UnpackOptions", {"Axis": 1, "Num": 2}),
    "transpose": ("TRANSPOSE", [IMAGE, ints(0, 3, 1, 2)], (1, 4, 6, 5), "TransposeOptions", {}),
    "gather": ("GATHER", [IMAGE, ints(3, 0)], (1, 6, 5, 2), "GatherOptions", {"Axis": 3}),
    "tile": ("TILE", [(2, 3), ints(2, 1)], (4, 3), "TileOptions", {}),
    "prelu": ("PRELU", [IMAGE, floats(1, 1, 4)], IMAGE, None, {}),
    "leaky": ("LEAKY_RELU", [IMAGE], IMAGE, "LeakyReluOptions", {"Alpha": 0.25}),
    "add": ("ADD", [IMAGE, floats(4)], IMAGE, "AddOptions", {"FusedActivationFunction": 2}),
    "floor mod": ("FLOOR_MOD", [IMAGE, floats(4)], IMAGE, "FloorModOptions", {}),
    "squared difference": (
        "SQUARED_DIFFERENCE",
        [IMAGE, IMAGE],
        IMAGE,
        "SquaredDifferenceOptions",
        {},
    ),
    "length 1": ("L2_NORMALIZATION", [IMAGE], IMAGE, "L2NormOptions", {}),
    "reverse": ("REVERSE_V2", [IMAGE, ints(1)], IMAGE, "ReverseV2Options", {}),
    "expand dims": ("EXPAND_DIMS", [(2, 3), ints(-1)], (2, 3, 1), "ExpandDimsOptions", {}),
    "squeeze": ("SQUEEZE", [(2, 1, 3)], (2, 3), "SqueezeOptions", {"SqueezeDims": [1]}),
    "reshape": ("RESHAPE", [IMAGE, ints(2, -1)], (2, 60), "ReshapeOptions", {}),
}
CASES |= {
    name.lower(): (name, [IMAGE], IMAGE, None, {})
    for name in (
        "ABS",
        "COS",
        "EXP",
        "FLOOR",
        "HARD_SWISH",
        "LOGISTIC",
        "NEG",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "SIN",
        "SQUARE",
        "TANH",
    )
}
CASES |= {
    name.lower(): (name, [IMAGE, IMAGE], IMAGE, None, {})
    for name in ("SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM")
}


@pytest.mark.parametrize("case", CASES)
def test_operator(case):
    litert()
    name, operands, result, table, options = CASES[case]
    data = one(name, operands, result, table, **options)
    module = tc.compile(data, threads=1, log=False)
    arrays = seeded(module.inputs, 1)
    expected = reference(data, arrays)
    found = results(module, arrays)
    assert len(found) == len(expected)
    assert max(worst_error(mine, theirs) for mine, theirs in zip(found, expected)) <= 1e-5


def integer_file(
    name, shapes, result, table=None, weights=None, scales=(0.05, 0.03), out=0.1, **options
):
    """A file of one operator on integers: `weights` are (numbers, scales, axis), with a bias."""
    tensors = [
        Tensor(f"x{i}", shape, np.int8, scale=scale, zero=7 - 5 * i)
        for i, (shape, scale) in enumerate(zip(shapes, scales))
    ]
    inputs, operands = list(range(len(tensors))), list(range(len(tensors)))
    if weights is not None:
        numbers, each, axis = weights
        tensors.append(Tensor("w", data=numbers, scale=each, axis=axis))
        bias = RANDOM.integers(-3000, 3000, numbers.shape[axis]).astype(np.int32)
        tensors.append(
            Tensor("b", data=bias, scale=np.float32(scales[0]) * np.asarray(each, np.float32))
        )
        operands += [len(tensors) - 2, len(tensors) - 1]
    tensors.append(
        Tensor(
            "y",
            result,
            np.int8,
            scale=out,
            zero={"SOFTMAX": -128, "LOGISTIC": -128, "TANH": 0}.get(name, -9),
        )
    )
    if name == "AVERAGE_POOL_2D":
        tensors[-1].zero = tensors[0].zero
    return file_of(
        tensors,
        [Operator(name, operands, [len(tensors) - 1], table, **options)],
        inputs,
        [len(tensors) - 1],
    )


def byte_weights(*shape):
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


MAP = (1, 12, 9, 8)
INTEGER_CASES = {
    "conv": lambda: integer_file(
        "CONV_2D",
        [MAP],
        (1, 6, 5, 32),
        "Conv2DOptions",
        (byte_weights(32, 3, 3, 8), RANDOM.uniform(0.001, 0.01, 32), 0),
        StrideH=2,
        StrideW=2,
        FusedActivationFunction=1,
    ),
    "depthwise": lambda: integer_file(
        "DEPTHWISE_CONV_2D",
        [MAP],
        (1, 12, 9, 8),
        "DepthwiseConv2DOptions",
        (byte_weights(1, 3, 3, 8), RANDOM.uniform(0.001, 0.01, 8), 3),
        StrideH=1,
        StrideW=1,
        DepthMultiplier=1,
        FusedActivationFunction=3,
    ),
    "fully connected": lambda: integer_file(
        "FULLY_CONNECTED",
        [(4, 96)],
        (4, 64),
        "FullyConnectedOptions",
        (byte_weights(64, 96), [0.004], 0),
    ),
    "add": lambda: integer_file(
        "ADD", [MAP, MAP], MAP, "AddOptions", out=0.04, FusedActivationFunction=1
    ),
    "sub": lambda: integer_file("SUB", [MAP, MAP], MAP, "SubOptions", out=0.04),
    "mul": lambda: integer_file("MUL", [MAP, MAP], MAP, "MulOptions", out=0.07),
    "average pool": lambda: integer_file(
        "AVERAGE_POOL_2D",
        [MAP],
        (1, 6, 5, 8),
        "Pool2DOptions",
        scales=(0.1,),
        StrideH=2,
        StrideW=2,
        FilterHeight=3,
        FilterWidth=3,
    ),
    "softmax": lambda: integer_file(
        "SOFTMAX", [(50, 12)], (50, 12), "SoftmaxOptions", out=1 / 256, Beta=1.0
    ),
    "logistic": lambda: integer_file("LOGISTIC", [MAP], MAP, out=1 / 256),
    "tanh": lambda: integer_file("TANH", [MAP], MAP, out=1 / 128),
    "quantize": lambda: integer_file("QUANTIZE", [MAP], MAP, "QuantizeOptions", out=0.33),
}


@pytest.mark.parametrize("case", INTEGER_CASES)
def test_operator_on_integers(case):
    litert()
    data = INTEGER_CASES[case]()
    module = tc.compile(data, threads=1, log=False)
    for seed in range(3):
        arrays = seeded(module.inputs, seed)
        np.testing.assert_array_equal(module(*arrays), reference(data, arrays)[0])


def test_operators_that_the_ruler_has_not():
    """Its reference kernels lack these in the version that the tests write."""
    formulas = {
        "CEIL": np.ceil,
        "ROUND": np.round,
        "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    }
    for name, formula in formulas.items():
        (x,) = seeded([tc.Port("x", "float32", IMAGE)], 5)
        assert worst_error(tc.compile(one(name, [IMAGE], IMAGE), log=False)(x), formula(x)) <= 1e-6


def test_zeros_like_what_is_no_number():
    x = np.array([[np.inf, np.nan, -np.inf], [1, -2, 3]], np.float32)
    found = tc.compile(relu(operators=[Operator("ZEROS_LIKE", [0], [1])]), log=False)(x)
    assert found.tolist() == [[0, 0, 0], [0, 0, 0]] and not np.any(np.signbit(found))


@pytest.mark.parametrize("activation,low,high", [(1, 0, None), (2, -1, 1), (3, 0, 6)])
def test_whole_numbers_behind_an_activation(activation, low, high):
    tensors = [
        Tensor("x", (2, 3), np.int32),
        Tensor("z", (2, 3), np.int32),
        Tensor("y", (2, 3), np.int32),
    ]
    data = file_of(
        tensors,
        [Operator("ADD", [0, 1], [2], "AddOptions", FusedActivationFunction=activation)],
        [0, 1],
        [2],
    )
    x, z = (
        np.array([[-9, 0, 9], [3, 1 << 30, -(1 << 30)]], np.int32),
        np.array([[1, -1, 1], [2, 5, -5]], np.int32),
    )
    np.testing.assert_array_equal(tc.compile(data, log=False)(x, z), np.clip(x + z, low, high))


def test_truncated_and_changed_files_end_in_a_sentence():
    """Any prefix of a file and any changed byte: a module or an Error, nothing else."""
    data = one(*CASES["conv"][:4], **CASES["conv"][4])
    random = np.random.default_rng(11)
    refused = []
    for length in range(8, len(data), 41):
        with pytest.raises(tc.Error) as raised:
            tc.check(data[:length])
        refused.append(str(raised.value))
    assert any("an offset or a size in it leads outside of its" in text for text in refused)
    for _ in range(150):
        changed = bytearray(data)
        for place in random.integers(8, len(data), random.integers(1, 4)):
            changed[place] = random.integers(0, 256)
        try:
            tc.check(bytes(changed))
        except tc.Error as error:
            assert "internal error" not in str(error) and "\n" not in str(error)
