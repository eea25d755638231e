"""Integers with scales: the results of TensorFlow Lite's kernels, bit for bit.

What these make of every case is in tests/golden/tflite_integers.txt as checksums; where
ai-edge-litert is installed, its kernels are run as well. TC_UPDATE rewrites the file by them."""

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

import tc

from ..support import ROOT

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .tflite_files import Operator, Tensor, file_of  # noqa: E402
from .tflite_integer_cases import GROUPS, group_of  # noqa: E402

FILE = ROOT / "tests/golden/tflite_integers.txt"


def kernels_results(name, group):
    """What TensorFlow Lite's kernels make of a group, or None where they are not installed."""
    try:
        from ai_edge_litert import interpreter as package
    except ImportError:
        return None
    kinds = package.OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if name.startswith("sums") else kinds.BUILTIN_REF
    interpreter = package.Interpreter(
        model_content=group.data(), num_threads=1, experimental_op_resolver_type=kind
    )
    interpreter.allocate_tensors()
    for number, array in zip(group.inputs, group.arrays):
        interpreter.set_tensor(number, array)
    interpreter.invoke()
    return [interpreter.get_tensor(number) for number in group.outputs]


def checksum(array):
    return f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


def recorded():
    """{(group, case): checksum}"""
    return dict(
        (tuple(line.rsplit(" | ", 1)[0].split(" | ")), line.rsplit(" | ", 1)[1])
        for line in FILE.read_text().splitlines()
    )


@pytest.mark.parametrize("name", GROUPS)
def test_integers_are_those_of_the_kernels(name):
    group = group_of(name)
    expected = kernels_results(name, group)
    sums = recorded()
    if expected is not None and "TC_UPDATE" not in os.environ:
        assert [sums[name, case] for case in group.names] == [
            checksum(array) for array in expected
        ], "the file is not what the kernels give"
    module = tc.compile(group.data(), threads=1, log=False)
    found = module(*group.arrays)
    found = found if isinstance(found, tuple) else (found,)
    wrong = [case for case, mine in zip(group.names, found) if sums[name, case] != checksum(mine)]
    details = (
        ""
        if expected is None or not wrong
        else str(
            [
                (case, int(np.max(np.abs(mine.astype(np.float64) - theirs))))
                for case, mine, theirs in zip(group.names, found, expected)
                if case in wrong
            ]
        )
    )
    assert not wrong and len(found) == len(group.names), (
        f"other integers than the kernels': {wrong} {details}"
    )


def test_the_file_has_these_cases():
    groups = {name: group_of(name) for name in GROUPS}
    if "TC_UPDATE" in os.environ:
        lines = [
            f"{name} | {case} | {checksum(array)}"
            for name, group in groups.items()
            for case, array in zip(group.names, kernels_results(name, group), strict=True)
        ]
        (Path(os.environ["TC_UPDATE"]) / FILE.relative_to(ROOT)).write_text("\n".join(lines) + "\n")
    assert list(recorded()) == [
        (name, case) for name, group in groups.items() for case in group.names
    ]


@pytest.mark.parametrize(
    "options",
    [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}],
    ids=["corner", "corners", "centres"],
)
@pytest.mark.parametrize("sizes", [(9, 7), (3, 3), (7, 11)])
def test_images_of_u8_are_resized_in_floats(sizes, options):
    """The kernels round sums in float32: which of two integers a sum just between them becomes
    depends on the order of its rounding."""
    x = np.random.default_rng(9).integers(0, 256, (1, 5, 6, 3)).astype(np.uint8)
    result = bytes_of("y", (1, *sizes, 3), dtype=np.uint8)
    data = one(
        "RESIZE_BILINEAR",
        [bytes_of("x", x.shape, dtype=np.uint8), numbers(*sizes)],
        result,
        "ResizeBilinearOptions",
        **options,
    )
    exact = x.astype(np.float64)
    for axis, (size, count) in enumerate(zip(x.shape[1:3], sizes)):
        scale = (size - 1) / (count - 1) if "AlignCorners" in options else size / count
        at = (
            (np.arange(count) + 0.5) * scale - 0.5
            if "HalfPixelCenters" in options
            else np.arange(count) * scale
        )
        low = np.maximum(np.floor(at + 1e-9), 0).astype(int)
        high, part = np.minimum(low + 1, size - 1), np.maximum(at, 0) - low
        part = (at - low if "HalfPixelCenters" in options else part).reshape(
            [-1 if i == axis + 1 else 1 for i in range(4)]
        )
        high = np.where(at < 0, 0, high)
        exact = np.take(exact, low, axis + 1) * (1 - part) + np.take(exact, high, axis + 1) * part
    assert np.max(np.abs(tc.compile(data, log=False)(x) - exact)) <= 0.5 + 1e-4


# --- what is refused ------------------------------------------------------------------------------


def one(name, operands, result, table=None, **options):
    """A file of one operator: operands without data are inputs."""
    tensors = [*operands, result]
    inputs = [number for number, tensor in enumerate(operands) if tensor.raw is None]
    return file_of(
        tensors,
        [Operator(name, list(range(len(operands))), [len(operands)], table, **options)],
        inputs,
        [len(operands)],
    )


def bytes_of(name, shape=(1, 4), scale=0.5, zero=0, dtype=np.int8, **more):
    return Tensor(name, shape, dtype, scale=scale, zero=zero, **more)


def numbers(*values):
    return Tensor("n", data=np.array(values, np.int32))


X, Y = bytes_of("x"), bytes_of("y")
IMAGE = (1, 4, 4, 2)
POOL = {"StrideH": 1, "StrideW": 1, "FilterHeight": 1, "FilterWidth": 1}
WIDE = Tensor("w", data=np.full((1, 70000), 127, np.int8), scale=0.5)


def weights(shape=(2, 4), dtype=np.int8, **more):
    return Tensor("w", data=np.ones(shape, dtype), **more)


def fully_connected(x, w, *bias):
    return one(
        "FULLY_CONNECTED",
        [x, w, *bias],
        bytes_of("y", (1, 2), dtype=x.dtype),
        "FullyConnectedOptions",
    )


REFUSED = {
    "a function without a scale": (
        lambda: one("RELU", [bytes_of("x", scale=None)], Y),
        "'x' is i8 without a scale; i8 or u8 or i16 with a scale is needed here",
    ),
    "two types": (
        lambda: one("ADD", [X, bytes_of("z", dtype=np.uint8)], Y, "AddOptions"),
        "'z' is u8 and 'x' i8; one type is needed here",
    ),
    "shorts with a zero point": (
        lambda: one("RELU", [bytes_of("x", dtype=np.int16, zero=3)], bytes_of("y", dtype=np.int16)),
        "'x' is i16 with the zero point 3; only 0 is supported",
    ),
    "zero point outside": (
        lambda: one(
            "PAD",
            [bytes_of("x", zero=300), Tensor("p", data=np.ones((2, 2), np.int32))],
            bytes_of("y", (3, 6), zero=300),
        ),
        "'x' is i8 with the zero point 300, which the type does not have",
    ),
    "two scales": (
        lambda: one(
            "RELU", [bytes_of("x", (1, 2), [0.5, 0.25], [0, 0], axis=1)], bytes_of("y", (1, 2))
        ),
        "'x' is i8 without one scale",
    ),
    "moved to another scale": (
        lambda: one(
            "SPACE_TO_BATCH_ND",
            [
                bytes_of("x", IMAGE, zero=1),
                numbers(1, 1),
                Tensor("p", data=np.zeros((2, 2), np.int32)),
            ],
            bytes_of("y", IMAGE, zero=2),
        ),
        "its operands and results have different scales",
    ),
    "filled with another scale": (
        lambda: one("FILL", [numbers(2, 3), bytes_of("v", ())], bytes_of("y", (2, 3), 0.25)),
        "'v' and 'y' have different types or scales",
    ),
    "padded with another scale": (
        lambda: one(
            "PADV2",
            [X, Tensor("p", data=np.ones((2, 2), np.int32)), bytes_of("v", (), 0.25)],
            bytes_of("y", (3, 6)),
        ),
        "'x' and 'v' have different types or scales",
    ),
    "the larger of two scales": (
        lambda: one("MAXIMUM", [X, bytes_of("z", scale=0.25)], Y),
        "its operands and results have different scales",
    ),
    "joined and clamped": (
        lambda: one(
            "CONCATENATION",
            [X, X],
            bytes_of("y", (1, 8)),
            "ConcatenationOptions",
            Axis=1,
            FusedActivationFunction=1,
        ),
        "the fused activation RELU of i8 is not supported",
    ),
    "sums of bytes": (
        lambda: one("CUMSUM", [X, numbers(1)], Y, "CumsumOptions"),
        "'x' is i8, and only f32, i32, i64 is supported here",
    ),
    "another activation": (
        lambda: one("ADD", [X, X], Y, "AddOptions", FusedActivationFunction=4),
        "the fused activation TANH is not supported",
    ),
    "scales of weights": (
        lambda: fully_connected(X, weights()),
        "'w' is i8 without scales; beside i8 weights are i8 with scales",
    ),
    "bytes without a sign": (
        lambda: fully_connected(bytes_of("x", dtype=np.uint8), weights(scale=0.1)),
        "'w' is i8; beside u8 weights are u8 with scales",
    ),
    "axis of scales": (
        lambda: fully_connected(X, weights(scale=[0.1] * 4, axis=1)),
        "'w' has scales for axis 1; axis 0 is supported",
    ),
    "scales of u8": (
        lambda: fully_connected(
            bytes_of("x", dtype=np.uint8), weights(dtype=np.uint8, scale=[0.1, 0.2])
        ),
        "'w' has scales for axis 0; one scale is supported",
    ),
    "zero points of weights": (
        lambda: fully_connected(X, weights(scale=0.1, zero=1)),
        "'w' has zero points; weights with a sign have none",
    ),
    "bias": (
        lambda: fully_connected(X, weights(scale=0.1), Tensor("b", data=np.ones(3, np.int32))),
        "the bias is i32 of shape [3]",
    ),
    "computed bias": (
        lambda: fully_connected(X, weights(scale=0.1), Tensor("b", (2,), np.int32)),
        "the bias is computed while the model runs; only constants are supported",
    ),
    "long sums": (
        lambda: one(
            "FULLY_CONNECTED",
            [bytes_of("x", (1, 70000)), WIDE],
            bytes_of("y", (1, 1)),
            "FullyConnectedOptions",
        ),
        "its sums have no room in 32 bits",
    ),
    "long products": (
        lambda: one(
            "BATCH_MATMUL",
            [bytes_of("x", (1, 40000)), bytes_of("z", (40000, 1))],
            bytes_of("y", (1, 1)),
            "BatchMatMulOptions",
        ),
        "its sums have no room in 32 bits",
    ),
    "long means": (
        lambda: one(
            "MEAN", [bytes_of("x", (1 << 24, 1)), numbers(0)], bytes_of("y", (1,)), "ReducerOptions"
        ),
        "its sums have no room in 32 bits",
    ),
    "powers of two": (
        lambda: one(
            "ADD",
            [bytes_of("x", dtype=np.int16), bytes_of("z", scale=0.25, dtype=np.int16)],
            bytes_of("y", scale=0.125, dtype=np.int16),
            "AddOptions",
        ),
        "its scales are 0.5, 0.25 and 0.125; of powers of two the larger operand's has to be the result's",
    ),
    "fine results": (
        lambda: one("HARD_SWISH", [X], bytes_of("y", scale=0.001)),
        "its result's scale 0.001 is under 1 / 128 of its operand's 0.5",
    ),
    "long rows": (
        lambda: one(
            "SOFTMAX",
            [bytes_of("x", (1, 300))],
            bytes_of("y", (1, 300), 1 / 256, -128),
            "SoftmaxOptions",
            Beta=1.0,
        ),
        "softmax of 300 integers in a row is not supported; at most 256 are",
    ),
    "long rows of shorts": (
        lambda: one(
            "SOFTMAX",
            [bytes_of("x", (1, 70000), dtype=np.int16)],
            bytes_of("y", (1, 70000), 1 / 32768, dtype=np.int16),
            "SoftmaxOptions",
            Beta=1.0,
        ),
        "softmax of 70000 integers in a row is not supported; at most 60000 are",
    ),
    "functions of shorts": (
        lambda: one("TANH", [bytes_of("x", dtype=np.int16)], bytes_of("y", dtype=np.int16)),
        "its result has the scale 0.5; of i16 it is 3.05176e-05",
    ),
    "coarse shorts": (
        lambda: one(
            "LOGISTIC",
            [bytes_of("x", scale=100, dtype=np.int16)],
            bytes_of("y", scale=1 / 32768, dtype=np.int16),
        ),
        "the scale 100 of 'x' is too large for this function of i16",
    ),
    "result without channels": (
        lambda: one(
            "RESIZE_NEAREST_NEIGHBOR",
            [bytes_of("x", IMAGE), numbers(3, 3)],
            bytes_of("y", (3, 3)),
            "ResizeNearestNeighborOptions",
        ),
        "'y' has the shape [3, 3]; 4 axes are needed",
    ),
    "large results": (
        lambda: one(
            "RESIZE_NEAREST_NEIGHBOR",
            [bytes_of("x", IMAGE), numbers(1 << 30, 3)],
            bytes_of("y", (1, 1 << 30, 3, 2)),
            "ResizeNearestNeighborOptions",
        ),
        "an axis of the result has 1073741824 places; at most 4194304 are supported here",
    ),
    "depth": (
        lambda: one(
            "ONE_HOT",
            [numbers(1), numbers(2, 3), bytes_of("v", ()), bytes_of("d", ())],
            bytes_of("y", (1, 4)),
            "OneHotOptions",
            Axis=-1,
        ),
        "its depth is [2, 3]; one number of at least 0 is needed",
    ),
    "corners and centres": (
        lambda: one(
            "RESIZE_BILINEAR",
            [bytes_of("x", IMAGE), numbers(3, 3)],
            bytes_of("y", (1, 3, 3, 2)),
            "ResizeBilinearOptions",
            AlignCorners=True,
            HalfPixelCenters=True,
        ),
        "its options AlignCorners and HalfPixelCenters exclude each other",
    ),
    "mirrors": (
        lambda: one(
            "MIRROR_PAD",
            [X, Tensor("p", data=np.array([[0, 0], [4, 0]], np.int32))],
            bytes_of("y", (1, 8)),
            "MirrorPadOptions",
        ),
        "padding of [[0, 0], [4, 0]] is more than the shape [1, 4] can mirror",
    ),
    "places": (
        lambda: one("GATHER", [X, numbers(0, 4)], bytes_of("y", (1, 2)), "GatherOptions", Axis=1),
        "its indices are 0 to 4, and the axis has 4 elements",
    ),
    "places before": (
        lambda: one("GATHER", [X, numbers(-1, 0)], bytes_of("y", (1, 2)), "GatherOptions", Axis=1),
        "its indices are -1 to 0, and the axis has 4 elements",
    ),
    "parts": (
        lambda: one("DYNAMIC_UPDATE_SLICE", [X, bytes_of("p", (1, 5)), numbers(0, 0)], Y),
        "a part of shape [1, 5] at [2] begins does not fit the shape [1, 4]",
    ),
    "sparse places": (
        lambda: one(
            "SPARSE_TO_DENSE",
            [numbers(0, 1), numbers(3, 4), bytes_of("v", (2,)), bytes_of("d", ())],
            bytes_of("y", (3, 4)),
            "SparseToDenseOptions",
        ),
        "indices of shape [2] do not fit the shape [3, 4]",
    ),
    "results of another scale": (
        lambda: one(
            "MAX_POOL_2D",
            [bytes_of("x", IMAGE)],
            bytes_of("y", IMAGE, 0.25),
            "Pool2DOptions",
            **POOL,
        ),
        "its operands and results have different scales",
    ),
    "images of floats and bytes": (
        lambda: one(
            "TRANSPOSE_CONV",
            [
                numbers(1, 4, 4, 2),
                Tensor("w", data=np.ones((2, 1, 1, 2), np.float32)),
                Tensor("x", IMAGE, np.int32),
            ],
            Tensor("y", IMAGE),
            "TransposeConvOptions",
            StrideH=1,
            StrideW=1,
        ),
        "'x' is i32, and only f32, i8, u8, i16 is supported here",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_of_integers(what):
    make, text = REFUSED[what]
    problems = tc.check(make())
    assert len(problems) == 1 and problems[0].split("'): ", 1)[1] == text
