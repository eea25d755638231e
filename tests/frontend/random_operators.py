"""What random_graphs.py draws: a function for each operator or family of them, which takes values
of the builder and adds a node. What the function cannot know to be wrong, the builder finds out."""

import numpy

FLOAT, INT, BOOL = numpy.float32, numpy.int64, numpy.bool_

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


def axes_of(b, value, least=1):
    rank = len(value.shape)
    chosen = sorted(b.random.permutation(rank)[: b.integer(least, rank)].tolist())
    return [axis - rank if b.chance(0.3) else axis for axis in chosen]


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
        return  # the specification says nothing of the mean of nothing: NaN in NumPy and tc, 0 in ONNX Runtime
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
    value = b.floats(
        3 if op == "GlobalAveragePool" else 4, 4
    )  # onnx's reference has one form of the latter
    b.node(op, [value], value.exact and op == "GlobalMaxPool")


def any_value(b, least=0):
    return b.choice([b.floats, b.floats, lambda low: b.of(INT, low), lambda low: b.of(BOOL, low)])(
        least
    )


def reshape(b):
    value = any_value(b)
    count = value.array.size
    factors = [size for size in (1, 2, 3, 4, 5, 8) if count % size == 0]
    first = b.choice(factors)
    shape = b.choice([[first, -1], [-1], [-1, first, 1], [1, -1]])
    b.node("Reshape", [value, b.constant(numpy.array(shape, INT))], value.exact)


def transpose(b):
    value = any_value(b, 1)
    b.node("Transpose", [value], value.exact, perm=b.random.permutation(len(value.shape)).tolist())


def squeeze(b):
    value = any_value(b)
    if 1 in value.shape and b.chance(0.6):
        axis = b.choice([axis for axis, size in enumerate(value.shape) if size == 1])
        b.node("Squeeze", [value, b.constant(numpy.array([axis], INT))], value.exact)
    elif len(value.shape) < 5:
        b.node(
            "Unsqueeze",
            [value, b.constant(numpy.array([b.integer(0, len(value.shape))], INT))],
            value.exact,
        )


def flatten(b):
    value = b.floats(1)
    b.node("Flatten", [value], value.exact, axis=b.integer(0, len(value.shape)))


def concat(b):
    value = any_value(b, 1)
    axis = b.integer(0, len(value.shape) - 1)
    others = [
        other
        for other in b.values
        if other.dtype == value.dtype
        and len(other.shape) == len(value.shape)
        and all(i == axis or m == n for i, (m, n) in enumerate(zip(other.shape, value.shape)))
    ]
    chosen = [b.choice(others) for _ in range(b.integer(1, 3))]
    b.node(
        "Concat", [value, *chosen], value.exact and all(other.exact for other in chosen), axis=axis
    )


def split(b):
    value = any_value(b, 1)
    axis = b.integer(0, len(value.shape) - 1)
    first = b.integer(0, value.shape[axis])
    b.node(
        "Split",
        [value, b.constant(numpy.array([first, value.shape[axis] - first], INT))],
        value.exact,
        outputs=2,
        axis=axis,
    )


def slice_(b):
    value = any_value(b, 1)
    axes = axes_of(b, value)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = value.shape[axis]
        step = b.choice([1, 1, 2, -1, 3, -2])
        low, high = sorted((b.integer(-size - 1, size + 1), b.integer(-size - 1, size + 1)))
        starts.append(high if step < 0 else low)
        ends.append(-1000 if step < 0 and b.chance(0.5) else low if step < 0 else high)
        steps.append(step)
    b.node(
        "Slice",
        [value, *(b.constant(numpy.array(each, INT)) for each in (starts, ends, axes, steps))],
        value.exact,
    )


def pad(b):
    value = b.floats(1)
    mode = b.choice(["constant", "reflect", "edge", "wrap"])
    least = min(value.shape)
    pads = [
        b.integer(0 if mode != "constant" else -1, max(0, min(2, least - 1)))
        for _ in range(2 * len(value.shape))
    ]
    number = b.constant(FLOAT(0.25)) if mode == "constant" and b.chance(0.5) else None
    b.node("Pad", [value, b.constant(numpy.array(pads, INT)), number], value.exact, mode=mode)


def repeat(b):
    value = any_value(b, 1)
    if b.chance(0.5):
        b.node(
            "Tile",
            [value, b.constant(numpy.array([b.integer(1, 3) for _ in value.shape], INT))],
            value.exact,
        )
    else:
        shape = [b.choice((1, 2, 3)) if size == 1 else size for size in value.shape]
        b.node(
            "Expand",
            [value, b.constant(numpy.array([2, *shape] if b.chance(0.3) else shape, INT))],
            value.exact,
        )


def gather(b):
    value = any_value(b, 1)
    axis = b.integer(0, len(value.shape) - 1)
    size = value.shape[axis]
    if size == 0:
        return
    if b.chance(0.5):
        places = b.constant(b.random.integers(-size, size, b.shape(0, 2)))
        b.node("Gather", [value, places], value.exact, axis=axis)
    else:
        shape = [b.integer(1, max(1, extent)) for extent in value.shape]
        b.node(
            "GatherElements",
            [value, b.constant(b.random.integers(-size, size, shape))],
            value.exact,
            axis=axis,
        )


def gather_nd(b):
    value = any_value(b, 1)
    if 0 in value.shape:
        return
    depth = b.integer(1, len(value.shape))
    places = numpy.stack(
        [
            b.random.integers(0, size, (b.integer(1, 4),) * 1)[:1].repeat(3)
            for size in value.shape[:depth]
        ],
        axis=-1,
    )
    b.node("GatherND", [value, b.constant(places)], value.exact)


def scatter(b):
    value = b.floats(1)
    if 0 in value.shape:
        return
    axis = b.integer(0, len(value.shape) - 1)
    # Each place once: what writes last is not said otherwise.
    count = b.integer(1, value.shape[axis])
    places = b.random.permutation(value.shape[axis])[:count]
    shape = [1] * len(value.shape)
    shape[axis] = count
    indices = numpy.broadcast_to(
        places.reshape(shape), [count if i == axis else size for i, size in enumerate(value.shape)]
    )
    updates = b.constant(b.data(FLOAT, indices.shape))
    reduction = b.choice(["none", "add", "mul", "max", "min"])
    b.node(
        "ScatterElements",
        [value, b.constant(numpy.ascontiguousarray(indices)), updates],
        value.exact and reduction != "mul",
        axis=axis,
        reduction=reduction,
    )


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


def depth_and_space(b):
    value = b.floats(4, 4)
    if b.chance(0.5):
        b.node("DepthToSpace", [value], value.exact, blocksize=2, mode=b.choice(["DCR", "CRD"]))
    else:
        b.node("SpaceToDepth", [value], value.exact, blocksize=2)


def triangle(b):
    value = b.floats(2)
    b.node(
        "Trilu",
        [value, b.constant(numpy.array(b.integer(-2, 2), INT))],
        value.exact,
        upper=b.integer(0, 1),
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
