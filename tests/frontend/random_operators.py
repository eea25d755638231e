"""What random_graphs.py draws: a function for each operator or family of them, which takes values
of the builder and adds a node. What the function cannot know to be wrong, the builder finds out."""

import numpy

from .random_movement import (
    BOOL,
    FLOAT,
    INT,
    axes_of,
    concat,
    depth_and_space,
    flatten,
    gather,
    gather_nd,
    pad,
    repeat,
    reshape,
    scatter,
    slice_,
    split,
    squeeze,
    transpose,
    triangle,
)

SMOOTH = [
    "Sigmoid",
    "Tanh",
    "Erf",
    "Softplus",
    "Softsign",
    "Elu",
    "Selu",
    "Celu",
    "Gelu",
    "Mish",
    "HardSwish",
    "HardSigmoid",
    "LeakyRelu",
    "Exp",
    "Sin",
    "Cos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Reciprocal",
    "Sqrt",
    "Log",
    "ThresholdedRelu",
    "Acosh",
    "Tan",
    "Asin",
    "Acos",
    "Atanh",
]
KEEPS_EXACT = ["Relu", "Neg", "Abs", "Identity"]
JUMPS = ["Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf"]


def smooth(b):
    b.node(b.choice(SMOOTH), [b.floats()])


def plain(b):
    value = b.floats()
    b.node(b.choice(KEEPS_EXACT), [value], value.exact)


def jump(b):
    b.node(b.choice(JUMPS), [b.floats(exact=True)], True)


def arithmetic(b):
    value = b.floats()
    other = b.operand(value, exact=value.exact)
    pair = [value, other] if b.chance(0.7) else [other, value]
    op = b.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Mean", "Sum"])
    exact = value.exact and other.exact and op in ("Add", "Sub", "Max", "Min", "Sum")
    b.node(op, pair, exact)


def whole_arithmetic(b):
    value = b.of(INT)
    b.node(
        b.choice(["Add", "Sub", "Mul", "Max", "Min", "Div", "Mod"]), [value, b.operand(value)], True
    )


def remainder(b):
    value = b.floats(exact=True)
    other = b.constant(b.choice([FLOAT(0.5), FLOAT(2), FLOAT(-1.5)]))
    b.node("Mod", [value, other], True, fmod=1)


def compare(b):
    value = b.floats(exact=True) if b.chance(0.6) else b.of(INT)
    b.node(
        b.choice(["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]),
        [value, b.operand(value)],
        True,
    )


def logic(b):
    value = b.of(BOOL)
    if b.chance(0.3):
        b.node("Not", [value], True)
    else:
        b.node(b.choice(["And", "Or", "Xor"]), [value, b.operand(value)], True)


def where(b):
    condition = b.of(BOOL)
    value = b.floats()
    b.node("Where", [condition, value, b.operand(value, exact=False)], False)


def clip(b):
    value = b.floats()
    low, high = (b.constant(FLOAT(limit)) if b.chance(0.8) else None for limit in (-0.75, 0.5))
    b.node("Clip", [value, low, high], value.exact)


def cast(b):
    kinds = {FLOAT: 1, INT: 7, BOOL: 9}
    value = b.choice([lambda: b.floats(exact=True), lambda: b.of(INT), lambda: b.of(BOOL)])()
    b.node(
        "Cast",
        [value],
        True,
        to=b.choice([number for kind, number in kinds.items() if kind != value.dtype]),
    )


def reduce(b):
    value = b.floats(1)
    op = b.choice(
        [
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceProd",
            "ReduceLogSumExp",
            "ReduceLogSum",
        ]
    )
    axes = b.constant(numpy.array(axes_of(b, value), INT)) if b.chance(0.85) else None
    if op == "ReduceMean" and 0 in value.shape:
        # The specification says nothing of the mean of nothing: NaN in NumPy and tc, 0 in ONNX
        # Runtime.
        return
    b.node(
        op,
        [value, axes],
        value.exact and op in ("ReduceMax", "ReduceMin"),
        keepdims=b.integer(0, 1),
    )


def argument(b):
    value = b.floats(1, exact=True)
    b.node(
        b.choice(["ArgMax", "ArgMin"]),
        [value],
        True,
        axis=b.integer(-len(value.shape), len(value.shape) - 1),
        keepdims=b.integer(0, 1),
        select_last_index=b.integer(0, 1),
    )


def rows(b):
    value = b.floats(1)
    b.node(
        b.choice(["Softmax", "LogSoftmax", "LpNormalization"]),
        [value],
        axis=b.integer(-len(value.shape), len(value.shape) - 1),
    )


def layer_normalization(b):
    value = b.floats(1)
    axis = b.integer(0, len(value.shape) - 1)
    scale, bias = (b.constant(b.data(FLOAT, value.shape[axis:])) for _ in range(2))
    b.node("LayerNormalization", [value, scale, bias if b.chance(0.7) else None], axis=axis)


def channel_normalization(b):
    value = b.floats(3, 4)
    channels = value.shape[1]
    scale, bias, mean = (b.constant(b.data(FLOAT, (channels,))) for _ in range(3))
    variance = b.constant(numpy.abs(b.data(FLOAT, (channels,))) + FLOAT(0.5))
    if b.chance(0.5):
        b.node("BatchNormalization", [value, scale, bias, mean, variance])
    else:
        b.node("InstanceNormalization", [value, scale, bias])


def product(b):
    value = b.floats(2)
    inner, outer = value.shape[-1], b.choice((1, 3, 8, 16, 20))
    weights = b.constant(
        b.data(FLOAT, (*(value.shape[:-2] if b.chance(0.2) else ()), inner, outer), exact=False)
    )
    b.node("MatMul", [value, weights])


def gemm(b):
    value = b.floats(2, 2)
    turn, turned = b.integer(0, 1), b.integer(0, 1)
    inner, outer = value.shape[0 if turn else 1], b.choice((1, 5, 16, 33))
    weights = b.constant(b.data(FLOAT, (outer, inner) if turned else (inner, outer), exact=False))
    bias = b.constant(b.data(FLOAT, (outer,))) if b.chance(0.6) else None
    b.node(
        "Gemm",
        [value, weights, bias],
        transA=turn,
        transB=turned,
        alpha=0.5,
        beta=b.choice([1.0, 0.0, 2.0]),
    )


def einsum(b):
    value = b.floats(2, 2)
    other = b.constant(b.data(FLOAT, (value.shape[1], b.choice((1, 4, 9))), exact=False))
    b.node(
        "Einsum",
        [value, other],
        equation=b.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk->k", "ij,jk"]),
    )


def convolution(b):
    spatial = b.integer(1, 2)
    value = b.floats(spatial + 2, spatial + 2)
    channels = value.shape[1]
    if channels == 0:
        return
    group = (
        channels
        if b.chance(0.3)
        else b.choice([size for size in (1, 2, 4) if channels % size == 0])
    )
    features = group * b.integer(1, 4 if group > 1 else 20)
    kernel = [b.integer(1, 3) for _ in range(spatial)]
    strides, dilations = ([b.integer(1, 2) for _ in range(spatial)] for _ in range(2))
    pads = [b.integer(0, 2) for _ in range(2 * spatial)]
    bias = b.constant(b.data(FLOAT, (features,))) if b.chance(0.6) else None
    if b.chance(0.75):
        weights = b.constant(b.data(FLOAT, (features, channels // group, *kernel), exact=False))
        b.node(
            "Conv",
            [value, weights, bias],
            group=group,
            kernel_shape=kernel,
            strides=strides,
            dilations=dilations,
            pads=pads,
        )
    else:
        weights = b.constant(b.data(FLOAT, (channels, features // group, *kernel), exact=False))
        b.node(
            "ConvTranspose",
            [value, weights, bias],
            group=group,
            kernel_shape=kernel,
            strides=strides,
            dilations=dilations,
            pads=pads,
        )


def pooling(b):
    spatial = b.integer(1, 2)
    value = b.floats(spatial + 2, spatial + 2)
    kernel = [b.integer(1, max(1, min(3, size))) for size in value.shape[2:]]
    pads = [b.integer(0, (size - 1) // 2) for size in kernel] * 2
    strides = [b.integer(1, 3) for _ in range(spatial)]
    if b.chance(0.5):
        b.node("MaxPool", [value], value.exact, kernel_shape=kernel, pads=pads, strides=strides)
    else:
        b.node(
            "AveragePool",
            [value],
            kernel_shape=kernel,
            pads=pads,
            strides=strides,
            count_include_pad=b.integer(0, 1),
        )


def global_pooling(b):
    op = b.choice(["GlobalAveragePool", "GlobalMaxPool"])
    # onnx's reference has one form of the latter.
    value = b.floats(3 if op == "GlobalAveragePool" else 4, 4)
    b.node(op, [value], value.exact and op == "GlobalMaxPool")


def one_hot(b):
    value = b.of(INT)
    b.node(
        "OneHot",
        [value, b.constant(numpy.array(6, INT)), b.constant(numpy.array([-1, 2], FLOAT))],
        True,
        axis=b.integer(-1, len(value.shape)),
    )


def top_k(b):
    value = b.floats(1, exact=True)
    axis = b.integer(0, len(value.shape) - 1)
    b.node(
        "TopK",
        [value, b.constant(numpy.array([b.integer(0, value.shape[axis])], INT))],
        True,
        outputs=2,
        axis=axis,
        largest=b.integer(0, 1),
    )


def running_sum(b):
    value = b.floats(1)
    axis = b.constant(numpy.array(b.integer(-len(value.shape), len(value.shape) - 1), INT))
    b.node("CumSum", [value, axis], value.exact, exclusive=b.integer(0, 1), reverse=b.integer(0, 1))


def resize(b):
    value = b.floats(4, 4)
    scales = numpy.array([1, 1, b.choice((0.5, 1, 2, 1.5)), b.choice((0.5, 1, 2, 3))], FLOAT)
    mode = b.choice(["nearest", "linear", "cubic"])
    transform = (
        b.choice(["asymmetric", "align_corners", "half_pixel"])
        if mode != "nearest"
        else "asymmetric"
    )
    if transform == "align_corners" and any(
        scale * size % 1 for scale, size in zip(scales, value.shape)
    ):
        return  # ONNX Runtime rounds the size before it aligns, the text does not
    b.node(
        "Resize",
        [value, None, b.constant(scales)],
        value.exact and mode == "nearest",
        mode=mode,
        nearest_mode="floor" if mode == "nearest" else None,
        coordinate_transformation_mode=transform,
    )


def response(b):
    b.node("LRN", [b.floats(4, 4)], size=b.choice((1, 3, 5)), alpha=0.1)


def shape_of(b):
    b.node(b.choice(["Shape", "Size"]), [b.floats()], True)


def recurrent(b):
    value = b.floats(3, 3)
    features = value.shape[2]
    if 0 in value.shape:
        return  # ONNX Runtime ends the process there
    op, gates = b.choice([("RNN", 1), ("GRU", 3), ("LSTM", 4)])
    hidden, directions = b.choice((1, 4, 8)), b.choice((1, 2))
    weights, recurrence = (
        b.constant(b.data(FLOAT, (directions, gates * hidden, size), exact=False))
        for size in (features, hidden)
    )
    bias = (
        b.constant(b.data(FLOAT, (directions, 2 * gates * hidden), exact=False))
        if b.chance(0.5)
        else None
    )
    if directions == 2:
        return  # onnx's reference knows one direction only
    b.node(op, [value, weights, recurrence, bias], outputs=1, hidden_size=hidden)


OPERATORS = [
    smooth,
    smooth,
    plain,
    jump,
    arithmetic,
    arithmetic,
    whole_arithmetic,
    remainder,
    compare,
    logic,
    where,
    clip,
    cast,
    reduce,
    reduce,
    argument,
    rows,
    layer_normalization,
    channel_normalization,
    product,
    gemm,
    einsum,
    convolution,
    convolution,
    pooling,
    global_pooling,
    reshape,
    transpose,
    squeeze,
    flatten,
    concat,
    split,
    slice_,
    pad,
    repeat,
    gather,
    gather_nd,
    scatter,
    one_hot,
    top_k,
    running_sum,
    resize,
    depth_and_space,
    triangle,
    response,
    shape_of,
    recurrent,
]
