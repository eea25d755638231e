"""Further forms for random_graphs.py: sizes and operands that a run computes, branches and loops,
and other element types. What the functions cannot know to be wrong, the builder finds out."""

import numpy
from onnx import TensorProto, helper

FLOAT, INT, BOOL = numpy.float32, numpy.int64, numpy.bool_
# Where small multiples of 1/4, and whole numbers in the types of them, are added and compared
# without an error.
TYPES = {
    TensorProto.DOUBLE: 0.25,
    TensorProto.FLOAT16: 0.25,
    TensorProto.INT32: 1,
    TensorProto.INT16: 1,
    TensorProto.INT8: 1,
    TensorProto.UINT8: 1,
    TensorProto.UINT16: 1,
    TensorProto.UINT32: 1,
    TensorProto.UINT64: 1,
}
UNSIGNED = {TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
# Largest magnitude of what is given one of these types.
MOST = 20


def last(b):
    return b.values[-1]


def added(b, *arguments, **named):
    """The value of a node, or None where there is no such node."""
    before = len(b.nodes)
    b.node(*arguments, **named)
    return last(b) if len(b.nodes) > before else None


def integers(b, values):
    return b.constant(numpy.array(values, INT))


# --- sizes that a run computes --------------------------------------------------------------------


def count(b, most=8):
    """How many elements of a mask are true, or at most so many: a vector of one number."""
    mask = b.of(BOOL)
    ones = added(b, "Cast", [mask], True, to=TensorProto.INT64)
    total = ones and added(b, "ReduceSum", [ones], True, keepdims=0)
    few = total and added(b, "Min", [total, integers(b, b.integer(0, most))], True)
    return few and added(b, "Reshape", [few, integers(b, [1])], True)


def find(b):
    kind = b.integer(0, 2)
    if kind == 0:
        b.node(
            "NonZero", [b.choice([lambda: b.floats(1, exact=True), lambda: b.of(BOOL, 1)])()], True
        )
    elif kind == 1:
        b.node("Unique", [b.floats(1, exact=True)], True, sorted=1)
    else:
        mask = b.of(BOOL, 1, 1)
        value = b.pick(
            lambda each: (
                each.dtype == FLOAT
                and len(each.shape) > 0
                and len(mask.shape) == 1
                and each.shape[0] >= mask.shape[0]
            )
        )
        if value:
            b.node("Compress", [value, mask], value.exact, axis=0)


def computed_operand(b):
    n = count(b)
    if n is None:
        return
    value = b.floats(1)
    axis = b.integer(0, len(value.shape) - 1)
    kind = b.integer(0, 6)
    if kind == 0:
        b.node(
            "Slice", [value, integers(b, [b.integer(0, 1)]), n, integers(b, [axis])], value.exact
        )
    elif kind == 1:
        b.node("TopK", [b.floats(1, 1, exact=True), n], True, outputs=2, largest=b.integer(0, 1))
    elif kind == 2:
        b.node(
            "ConstantOfShape",
            [n],
            True,
            value=helper.make_tensor("value", TensorProto.FLOAT, [1], [0.5]),
        )
    elif kind == 3:
        repeats = added(b, "Concat", [n, integers(b, [1] * (len(value.shape) - 1))], True, axis=0)
        if repeats:
            b.node("Tile", [value, repeats], value.exact)
    elif kind == 4:
        shape = added(b, "Concat", [n, integers(b, value.shape)], True, axis=0)
        if shape:
            b.node("Expand", [value, shape], value.exact)
    elif kind == 5:
        pads = added(b, "Concat", [n, integers(b, [0] * (2 * len(value.shape) - 1))], True, axis=0)
        if pads:
            b.node("Pad", [value, pads], value.exact)
    else:
        end = added(b, "Reshape", [n, integers(b, [])], True)
        if end:
            b.node("Range", [integers(b, 0), end, integers(b, b.integer(1, 2))], True)


def turned_shape(b):
    """A Reshape whose sizes follow from shapes, or are partly computed."""
    value = b.floats(2)
    shape = added(b, "Shape", [value], True)
    turned = shape and added(
        b,
        "Slice",
        [shape, integers(b, [-1]), integers(b, [-100]), integers(b, [0]), integers(b, [-1])],
        True,
    )
    if turned:
        b.node("Reshape", [value, turned], value.exact)


# --- control flow ---------------------------------------------------------------------------------


def port(name, kind=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def inner_node(b, value_name, prefix):
    """A node of a subgraph on a value of floats, and the name of its result."""
    result = b.name(prefix)
    op = b.choice(["Relu", "Neg", "Abs", "Identity", "Tanh", "Sigmoid"])
    return (
        helper.make_node(op, [value_name], [result]),
        result,
        op in ("Relu", "Neg", "Abs", "Identity"),
    )


def branch(b):
    mask = b.of(BOOL)
    if 0 in mask.shape:
        return
    flat = added(b, "Reshape", [mask, integers(b, [-1])], True)
    condition = flat and added(b, "Gather", [flat, integers(b, 0)], True, axis=0)
    if condition is None:
        return
    value = b.floats(1)
    bodies, all_exact = [], value.exact
    for name in ("then", "else"):
        node, result, exact = inner_node(b, value.name, "t")
        nodes = [node]
        if b.chance(0.5):
            # Its size is another one in this branch.
            nodes.append(
                helper.make_node(
                    "Slice",
                    [
                        result,
                        integers(b, [0]).name,
                        integers(b, [b.integer(0, 3)]).name,
                        integers(b, [0]).name,
                    ],
                    [result := b.name("t")],
                )
            )
        bodies.append(helper.make_graph(nodes, name, [], [port(result)]))
        all_exact = all_exact and exact
    b.node("If", [condition], all_exact, then_branch=bodies[0], else_branch=bodies[1])


def loop(b):
    n = count(b, 5)
    trips = n and added(b, "Reshape", [n, integers(b, [])], True)
    if trips is None:
        return
    value = b.floats(1)
    other = b.constant(b.data(FLOAT, (b.integer(0, 2), *value.shape[1:])))
    number, condition, state, go, part = (b.name(stem) for stem in ("i", "c", "s", "g", "p"))
    node, result, exact = inner_node(b, state, "t")
    nodes, grows, ends = [node], b.chance(0.5), b.chance(0.5)
    if grows:
        nodes.append(
            helper.make_node("Concat", [result, other.name], [result := b.name("t")], axis=0)
        )
    if ends:
        limit = b.constant(numpy.array(b.integer(1, 4), INT))
        nodes.append(helper.make_node("Less", [number, limit.name], [go]))
    else:
        nodes.append(helper.make_node("Identity", [condition], [go]))
    nodes.append(helper.make_node("ReduceMax", [result], [part], keepdims=0))
    body = helper.make_graph(
        nodes,
        "body",
        [port(number, TensorProto.INT64, []), port(condition, TensorProto.BOOL, []), port(state)],
        [port(go, TensorProto.BOOL, []), port(result), port(part)],
    )
    # The largest of nothing is an infinity that the builder leaves out.
    b.node(
        "Loop",
        [trips if b.chance(0.8) else integers(b, 3), b.constant(numpy.array(True)), value],
        value.exact and exact,
        outputs=2,
        body=body,
    )


# --- other types ----------------------------------------------------------------------------------


def other_type(b):
    value = b.floats(exact=True)
    if value.array.size == 0 or numpy.abs(value.array).max() > MOST:
        return
    kind = b.choice(TYPES)
    if TYPES[kind] == 1:
        value = added(b, "Floor", [value], True)
    if value is not None and kind in UNSIGNED:
        value = added(b, "Abs", [value], True)
    cast = value and added(b, "Cast", [value], True, to=kind)
    if cast is None:
        return
    ops = [
        "Add",
        "Max",
        "Min",
        "Transpose",
        "Concat",
        "Slice",
        "Reshape",
        "Where",
        "Equal",
        "ReduceMax",
    ] + ([] if kind in UNSIGNED else ["Sub", "Neg"])
    for _ in range(b.integer(1, 3)):
        cast = typed_node(b, b.choice(ops), cast) or cast
        if cast.dtype == BOOL:
            return
    b.node("Cast", [cast], True, to=TensorProto.FLOAT)


def typed_node(b, op, value):
    if op in ("Add", "Max", "Min", "Sub", "Equal"):
        return added(b, op, [value, b.constant(value.array.dtype.type(b.integer(0, 3)))], True)
    if op == "Where":
        return added(
            b,
            "Where",
            [b.constant(b.data(BOOL, value.shape)), value, b.constant(value.array.dtype.type(2))],
            True,
        )
    if op == "Concat":
        return added(b, op, [value, value], True, axis=0) if value.shape else None
    if op == "Slice":
        return (
            added(b, op, [value, integers(b, [1]), integers(b, [100])], True)
            if value.shape
            else None
        )
    if op == "Reshape":
        return added(b, op, [value, integers(b, [-1])], True)
    return added(b, op, [value], True, **({"keepdims": 0} if op == "ReduceMax" else {}))


FORMS = [
    find,
    computed_operand,
    computed_operand,
    turned_shape,
    branch,
    loop,
    loop,
    other_type,
    other_type,
]
