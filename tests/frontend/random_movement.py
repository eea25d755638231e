"""Operators that random_operators.py draws and that move elements: shapes, slices, copies,
gathering and scattering."""

import numpy

FLOAT, INT, BOOL = numpy.float32, numpy.int64, numpy.bool_


def axes_of(b, value, least=1):
    rank = len(value.shape)
    chosen = sorted(b.random.permutation(rank)[: b.integer(least, rank)].tolist())
    return [axis - rank if b.chance(0.3) else axis for axis in chosen]


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
