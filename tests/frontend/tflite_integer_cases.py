"""Operators of TensorFlow Lite on integers with scales, drawn at random: many in one file, each
with inputs and an output of its own.

A group is a file; a case of it is named, and what is drawn for it depends on its name alone."""

import zlib

import numpy as np

from .tflite_files import Operator, Tensor, file_of

TYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}
IMAGE = (1, 5, 6, 3)
PADS = np.array([[0, 0], [1, 2], [2, 0], [0, 1]], np.int32)


class Group:
    """A file that is being written: `case` begins one, `put` adds a tensor of it, `operator` an
    operator whose result is an output."""

    def __init__(self, dtype):
        (
            self.dtype,
            self.tensors,
            self.operators,
            self.inputs,
            self.outputs,
            self.arrays,
            self.names,
        ) = dtype, [], [], [], [], [], []

    def case(self, name):
        self.name, self.random = (
            name,
            np.random.default_rng(zlib.crc32(f"{self.dtype} {name}".encode())),
        )
        return self

    def units(self, factor=1.0):
        """(scale, zero point) drawn for the group's type."""
        kind = np.iinfo(TYPES[self.dtype])
        return factor * 10 ** self.random.uniform(-2.5, -0.5), 0 if self.dtype == "i16" else int(
            self.random.integers(kind.min, kind.max + 1)
        )

    def draw(self, shape, dtype=None):
        kind = TYPES[dtype or self.dtype]
        return self.random.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)

    def put(self, tensor):
        tensor.name = f"{len(self.tensors)} {self.name}"
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def integers(self, shape, units, dtype=None):
        return self.put(
            Tensor("", shape, TYPES[dtype or self.dtype], scale=units[0], zero=units[1])
        )

    def input(self, shape, units, dtype=None, array=None):
        number = self.integers(shape, units, dtype)
        self.inputs.append(number)
        self.arrays.append(self.draw(shape, dtype) if array is None else array)
        return number

    def constant(self, data, units=None, axis=0):
        return self.put(
            Tensor(
                "",
                data=np.asarray(data),
                scale=units and units[0],
                zero=units[1] if units else 0,
                axis=axis,
            )
        )

    def operator(self, name, inputs, shape, units, table=None, dtype=None, **options):
        out = self.put(Tensor("", shape)) if units is None else self.integers(shape, units, dtype)
        self.operators.append(Operator(name, inputs, [out], table, **options))
        self.outputs.append(out)
        self.names.append(self.name)

    def data(self):
        return file_of(self.tensors, self.operators, self.inputs, self.outputs)


# --- what is put beside or between elements, and what clamps --------------------------------------


def borders(g):
    """Every operator that pads, fills or mirrors."""
    for number in range(3):
        units = g.case(f"SPACE_TO_BATCH_ND {number}").units()
        x = g.input((1, 4, 4, 2), units)
        pads, shape = (
            ([[1, 1], [2, 0]], (4, 3, 3, 2)) if number < 2 else ([[0, 2], [1, 3]], (8, 3, 2, 2))
        )
        g.operator(
            "SPACE_TO_BATCH_ND",
            [
                x,
                g.constant(np.array([2, 2 * (1 + number // 2)], np.int32)),
                g.constant(np.array(pads, np.int32)),
            ],
            shape,
            units,
        )
    units = g.case("SPACE_TO_BATCH_ND of rows").units()
    g.operator(
        "SPACE_TO_BATCH_ND",
        [
            g.input((2, 5, 3), units),
            g.constant(np.array([3], np.int32)),
            g.constant(np.array([[0, 1]], np.int32)),
        ],
        (6, 2, 3),
        units,
    )
    units = g.case("PAD").units()
    g.operator("PAD", [g.input(IMAGE, units), g.constant(PADS)], (1, 8, 8, 4), units)
    units = g.case("PADV2").units()
    g.operator(
        "PADV2",
        [g.input(IMAGE, units), g.constant(PADS), g.constant(g.draw(()), units)],
        (1, 8, 8, 4),
        units,
    )
    for mode in range(2):
        units = g.case(f"MIRROR_PAD {mode}").units()
        g.operator(
            "MIRROR_PAD",
            [g.input(IMAGE, units), g.constant(PADS)],
            (1, 8, 8, 4),
            units,
            "MirrorPadOptions",
            Mode=mode,
        )
    units = g.case("FILL").units()
    g.operator("FILL", [g.constant(np.array([2, 3], np.int32)), g.input((), units)], (2, 3), units)
    for begins in ([0, 1, 2], [5, -3, 9]):
        units = g.case(f"DYNAMIC_UPDATE_SLICE {begins}").units()
        g.operator(
            "DYNAMIC_UPDATE_SLICE",
            [
                g.input((4, 5, 6), units),
                g.input((2, 5, 3), units),
                g.constant(np.array(begins, np.int32)),
            ],
            (4, 5, 6),
            units,
        )
    if g.dtype != "i16":  # the reference kernels lack these of i16
        units = g.case("SPARSE_TO_DENSE").units()
        g.operator(
            "SPARSE_TO_DENSE",
            [
                g.constant(np.array([[0, 1], [2, 3], [1, 0]], np.int32)),
                g.constant(np.array([3, 4], np.int32)),
                g.input((3,), units),
                g.constant(g.draw(()), units),
            ],
            (3, 4),
            units,
            "SparseToDenseOptions",
        )
        units = g.case("ONE_HOT").units()
        g.operator(
            "ONE_HOT",
            [
                g.constant(np.array([0, -1, 2, 7], np.int32)),
                g.constant(np.array(5, np.int32)),
                g.input((), units),
                g.constant(g.draw(()), units),
            ],
            (4, 5),
            units,
            "OneHotOptions",
            Axis=-1,
        )


# --- functions of one element and of two ----------------------------------------------------------

RESULTS = {
    "TANH": {"i8": (1 / 128, 0), "u8": (1 / 128, 128), "i16": (1 / 32768, 0)},
    "LOGISTIC": {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)},
}
UNARY = {
    "RELU": "i8 u8 i16",
    "RELU6": "i8 u8 i16",
    "RELU_N1_TO_1": "i8 u8",
    "RELU_0_TO_1": "i8 u8",
    "ABS": "i8 i16",
    "HARD_SWISH": "i8 u8",
    "TANH": "i8 u8 i16",
    "LOGISTIC": "i8 u8 i16",
    "EXP": "i8 i16",
    "LOG": "i8 i16",
}


def functions(g):
    """Functions of one element, to another scale and to the same."""
    for name, types in UNARY.items():
        for same in range(2 if g.dtype in types.split() else 0):
            units = g.case(f"{name}{' of one scale' if same else ''}").units()
            result = RESULTS.get(name, {}).get(g.dtype) or (units if same else g.units())
            g.operator(name, [g.input(IMAGE, units)], IMAGE, result)
    for slope in (0.1, 1.7, 0.0, -0.3):
        units = g.case(f"LEAKY_RELU {slope}").units()
        g.operator(
            "LEAKY_RELU", [g.input(IMAGE, units)], IMAGE, g.units(), "LeakyReluOptions", Alpha=slope
        )

    for approximate in (False, True):
        units = g.case(f"GELU{' by tanh' if approximate else ''}").units()
        g.operator(
            "GELU",
            [g.input(IMAGE, units)],
            IMAGE,
            g.units(),
            "GeluOptions",
            Approximate=approximate,
        )
    for columns, beta in ((9, 1.0), (1, 1.0), (200, 0.25)):
        units = g.case(f"SOFTMAX of {columns}").units()
        g.operator(
            "SOFTMAX",
            [g.input((4, columns), units)],
            (4, columns),
            {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)}[g.dtype],
            "SoftmaxOptions",
            Beta=beta,
        )


def pairs(g):
    """Functions of two elements, with broadcasting."""
    for name, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
        for activation in range(4):
            units = g.case(f"{name} with activation {activation}").units()
            g.operator(
                name,
                [g.input(IMAGE, units), g.input((1, 1, 6, 3), g.units())],
                IMAGE,
                g.units(),
                table,
                FusedActivationFunction=activation,
            )
    for name in ("MAXIMUM", "MINIMUM"):
        units = g.case(name).units()
        g.operator(name, [g.input(IMAGE, units), g.input((1, 1, 6, 3), units)], IMAGE, units)
    for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
        for same in range(1 if g.dtype == "i16" and name not in ("EQUAL", "NOT_EQUAL") else 0, 2):
            units = g.case(f"{name}{' of one scale' if same else ''}").units()
            x, z = g.input(IMAGE, units), g.input(IMAGE, units if same else g.units())
            g.operators.append(Operator(name, [x, z], [g.put(Tensor("", IMAGE, np.bool_))]))
            g.outputs.append(len(g.tensors) - 1)
            g.names.append(g.name)
    if g.dtype == "i8":
        units = g.case("SQUARED_DIFFERENCE").units()
        g.operator(
            "SQUARED_DIFFERENCE",
            [g.input(IMAGE, units), g.input((1, 1, 6, 3), g.units())],
            IMAGE,
            g.units(5),
        )
    units = g.case("PRELU").units()
    slopes = "i8" if g.dtype == "i16" else g.dtype
    g.operator(
        "PRELU",
        [
            g.input(IMAGE, units),
            g.constant(g.draw((1, 1, 3), slopes), (0.02, 100 if slopes == "u8" else 0)),
        ],
        IMAGE,
        g.units(),
    )
    for name, dtype in (
        ("QUANTIZE to another scale", g.dtype),
        ("QUANTIZE to another type", {"i8": "u8", "u8": "i8", "i16": "i8"}[g.dtype]),
    ):
        x = g.case(name).input(IMAGE, g.units())
        kind = np.iinfo(TYPES[dtype])
        g.operator(
            "QUANTIZE",
            [x],
            IMAGE,
            (0.1, 0 if dtype == "i16" else (kind.min + kind.max) // 2 + 9),
            dtype=dtype,
        )
    units = g.case("DEQUANTIZE").units()
    g.operator("DEQUANTIZE", [g.input(IMAGE, units)], IMAGE, None)


# --- windows and sums along axes ------------------------------------------------------------------


def windows(g):
    """Pooling and resizing."""
    for name in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        for padding, shape in ((0, (1, 4, 3, 3)), (1, (1, 3, 2, 3))):
            for activation in (0, 1, 3):
                units = g.case(f"{name} of padding {padding} and activation {activation}").units()
                g.operator(
                    name,
                    [g.input((1, 7, 6, 3), units)],
                    shape,
                    units,
                    "Pool2DOptions",
                    StrideH=2,
                    StrideW=2,
                    FilterHeight=3,
                    FilterWidth=3,
                    Padding=padding,
                    FusedActivationFunction=activation,
                )
    for name, table in (
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    ):
        for height, width in ((9, 7), (3, 3), (10, 12), (1, 1)):
            for options in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True}):
                if (
                    g.dtype == "u8"
                    and name == "RESIZE_BILINEAR"
                    and ((height, width) not in ((10, 12), (1, 1)) or options.get("AlignCorners"))
                ):
                    # Weights that float32 has not exactly: test_tflite_integers.py has these.
                    continue
                units = g.case(
                    f"{name} to {height} x {width}{''.join(f', {each}' for each in options)}"
                ).units()
                g.operator(
                    name,
                    [g.input(IMAGE, units), g.constant(np.array([height, width], np.int32))],
                    (1, height, width, 3),
                    units,
                    table,
                    **options,
                )


AXES = (
    ([1, 2], True, (2, 1, 1, 3)),
    ([1, 2], False, (2, 3)),
    ([3], False, (2, 5, 6)),
    ([0, 1, 2, 3], True, (1, 1, 1, 1)),
    ([-1, 1], True, (2, 1, 6, 1)),
)


def reductions(g):
    for name in ("MEAN", "REDUCE_MAX", "REDUCE_MIN", *(("SUM",) if g.dtype == "u8" else ())):
        for axes, keep, shape in AXES:
            units = g.case(f"{name} of {axes}{', kept' if keep else ''}").units()
            result = g.units(5 if name == "SUM" else 1) if name in ("MEAN", "SUM") else units
            g.operator(
                name,
                [g.input((2, 5, 6, 3), units), g.constant(np.array(axes, np.int32))],
                shape,
                result,
                "ReducerOptions",
                KeepDims=keep,
            )


def sums(g):
    """Of these types the reference kernels read the bytes as u8; the optimised ones are right."""
    for axes, keep, shape in AXES:
        units = g.case(f"SUM of {axes}{', kept' if keep else ''}").units()
        g.operator(
            "SUM",
            [g.input((2, 5, 6, 3), units), g.constant(np.array(axes, np.int32))],
            shape,
            g.units(5),
            "ReducerOptions",
            KeepDims=keep,
        )


# --- products with weights ------------------------------------------------------------------------


def layer(g, name, shapes, axis, table, inputs=(0, 1, 2), **options):
    """An operator with drawn weights and constants; `shapes` are those of operand, weights and
    result, `inputs` the order of operand, weights, constants, shape."""
    units, result, count = g.units(), g.units(3), shapes[1][axis]
    channels = count if g.dtype != "u8" and g.random.random() < 0.6 else 1
    scales = g.random.uniform(0.001, 0.02, channels)
    zero = int(g.random.integers(0, 256)) if g.dtype == "u8" else 0
    weights = (
        g.draw(shapes[1])
        if g.dtype == "u8"
        else g.random.integers(-127, 128, shapes[1]).astype(np.int8)
    )
    bias = g.random.integers(-3000, 3000, count).astype(np.int64 if g.dtype == "i16" else np.int32)
    operands = [
        g.input(shapes[0], units),
        g.constant(weights, (scales, [zero] * channels), axis),
        g.constant(bias, (units[0] * scales, [0] * channels)),
        g.constant(np.array(shapes[2], np.int32)),
    ]
    g.operator(name, [operands[each] for each in inputs], shapes[2], result, table, **options)


CONVOLUTION = {"StrideH": 2, "StrideW": 2, "DilationHFactor": 1, "DilationWFactor": 1}


def layers(g):
    for number in range(4):
        activation = {"FusedActivationFunction": number}
        layer(
            g.case(f"CONV_2D {number}"),
            "CONV_2D",
            [(1, 7, 6, 4), (5, 3, 3, 4), (1, 4, 3, 5)],
            0,
            "Conv2DOptions",
            **CONVOLUTION,
            **activation,
        )
        layer(
            g.case(f"DEPTHWISE_CONV_2D {number}"),
            "DEPTHWISE_CONV_2D",
            [(1, 7, 6, 4), (1, 3, 3, 8), (1, 4, 3, 8)],
            3,
            "DepthwiseConv2DOptions",
            DepthMultiplier=2,
            **CONVOLUTION,
            **activation,
        )
        layer(
            g.case(f"FULLY_CONNECTED {number}"),
            "FULLY_CONNECTED",
            [(3, 16), (5, 16), (3, 5)],
            0,
            "FullyConnectedOptions",
            inputs=(0, 1, 2) if number else (0, 1),
            **activation,
        )
        for what, weights, shape, options in (
            ("wide", (3, 3, 3, 2), (1, 6, 8, 3), {}),
            ("valid", (3, 2, 5, 2), (1, 6, 11, 3), {"Padding": 1}),
            ("narrow", (3, 1, 2, 2), (1, 6, 8, 3), {}),
        ):
            layer(
                g.case(f"TRANSPOSE_CONV {what} {number}"),
                "TRANSPOSE_CONV",
                [(1, 3, 4, 2), weights, shape],
                0,
                "TransposeConvOptions",
                inputs=(3, 1, 0, 2) if number else (3, 1, 0),
                StrideH=2,
                StrideW=2,
                **options,
                **activation,
            )
        layer(
            g.case(f"TRANSPOSE_CONV of stride 1 {number}"),
            "TRANSPOSE_CONV",
            [(1, 3, 4, 2), (3, 3, 3, 2), (1, 3, 4, 3)],
            0,
            "TransposeConvOptions",
            inputs=(3, 1, 0, 2),
            StrideH=1,
            StrideW=1,
            **activation,
        )

    # Scales whose quotients are powers of two: sums lie just between two integers.
    g.case("FULLY_CONNECTED of ties")
    units = (0.5, 0) if g.dtype != "u8" else (0.5, 130)
    weights = (
        g.random.integers(-5, 6, (8, 3)).astype(np.int8)
        if g.dtype != "u8"
        else g.random.integers(115, 126, (8, 3)).astype(np.uint8)
    )
    x = g.input(
        (50, 3), units, array=(g.random.integers(-6, 7, (50, 3)) + units[1]).astype(TYPES[g.dtype])
    )
    g.operator(
        "FULLY_CONNECTED",
        [x, g.constant(weights, (0.5, 120 if g.dtype == "u8" else 0))],
        (50, 8),
        units,
        "FullyConnectedOptions",
    )


GROUPS = {
    f"{function.__name__} {dtype}": (function, dtype)
    for function in (borders, functions, pairs, windows, reductions, layers)
    for dtype in TYPES
}
GROUPS |= {f"sums {dtype}": (sums, dtype) for dtype in ("i8", "i16")}


def group_of(name):
    function, dtype = GROUPS[name]
    group = Group(dtype)
    function(group)
    return group
