"""Reductions along axes, softmax, and indices of the largest elements."""

from ..describe import TO_CHANNELS_FIRST, TO_FILE_ORDER, Refusal
from . import quantised_elements, quantised_windows
from .integers import ENDS, need_integers, same_scale
from .table import operator

_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "REDUCE_ANY": "ReduceMax",
    "REDUCE_ALL": "ReduceMin",
}


def image_axes(axes):
    """Converts axes in the file's order to axes with the channels in front."""
    return sorted(TO_CHANNELS_FIRST.index(axis) for axis in axes)


def reduced_in_order(g, x, axes, keep):
    """(the operand's name, the axes, whether the result has the channels in front). The channels
    are in front where the result is an image, or at most one axis of an image is left."""
    if x.is_image and (keep or 4 - len(set(axes)) <= 1):
        return g.channels_first(x), image_axes(set(axes)), keep
    return g.plain(x), sorted(set(axes)), False


@operator(*_REDUCTIONS, options="ReducerOptions", inputs=(2, 2))
def reduce(g, call):
    x, keep = call.inputs[0], bool(call.option("KeepDims"))
    integers = x.dtype in ENDS
    if integers and call.name in ("REDUCE_MAX", "REDUCE_MIN"):
        need_integers(x, call.out)
        same_scale(call, [x, call.out])
    elif any(value.dtype not in ("f32", "i32", "i64", "bool") for value in (x, call.out)) and not (
        integers and call.name in ("MEAN", "SUM")
    ):
        raise Refusal(
            f"'{x.tensor.name}' is {x.dtype}, and only f32, i32, i64, bool is supported here"
        )
    axes = call.axes(1, x.rank)
    if not axes and not integers:
        g.give(call.out, g.plain(x))
        return
    name, axes, images = reduced_in_order(g, x, axes, keep)
    if integers and call.name in ("MEAN", "SUM"):
        g.give(call.out, quantised_windows.mean_or_sum(g, call, name, axes, keep), images)
        return
    boolean = x.dtype == "bool"
    name = g.cast(name, "bool", "i32") if boolean else name
    name = g.node(_REDUCTIONS[call.name], [name, g.ints(axes)], keepdims=int(keep))
    g.give(call.out, g.cast(name, "i32", "bool") if boolean else name, images)


@operator("SOFTMAX", options="SoftmaxOptions")
def softmax(g, call):
    beta = float(call.option("Beta", 1.0))
    if call.inputs[0].dtype in ENDS:
        quantised_elements.softmax(g, call, beta)
        return
    call.need_types("f32")
    (name,), images = g.aligned(call.inputs, call.inputs[0].rank)
    if beta != 1:
        name = g.node("Mul", [name, g.number(beta, "f32")])
    g.give(call.out, g.node("Softmax", [name], axis=1 if images else -1), images)


@operator("LOG_SOFTMAX", options="LogSoftmaxOptions")
def log_softmax(g, call):
    call.need_types("f32")
    (name,), images = g.aligned(call.inputs, call.inputs[0].rank)
    g.give(call.out, g.node("LogSoftmax", [name], axis=1 if images else -1), images)


@operator("L2_NORMALIZATION", options="L2NormOptions")
def l2_normalization(g, call):
    call.need_types("f32")
    (name,), images = g.aligned(call.inputs, call.inputs[0].rank)
    square = g.node(
        "ReduceSumSquare", [name, g.ints([1 if images else call.inputs[0].rank - 1])], keepdims=1
    )
    length = g.node("Sqrt", [g.node("Max", [square, g.number(1e-12, "f32")])])
    g.give(call.out, g.activated(g.node("Div", [name, length]), call.activation), images)


@operator("ARG_MAX", "ARG_MIN", inputs=(2, 2))
def arg_max(g, call):
    x = call.inputs[0]
    axes = call.axes(1, x.rank)
    if len(axes) != 1:
        raise Refusal(f"it has {len(axes)} axes and takes one")
    name = g.node(
        "ArgMax" if call.name == "ARG_MAX" else "ArgMin", [g.plain(x)], axis=axes[0], keepdims=0
    )
    g.give(call.out, g.cast(name, "i64", call.out.dtype))


@operator("TOPK_V2", inputs=(2, 2))
def top_k(g, call):
    count = call.ints(1, "the number of elements")
    values, indices = g.node("TopK", [g.plain(call.inputs[0]), g.ints(count)], outputs=2, axis=-1)
    g.give(call.outputs[0], values)
    if len(call.outputs) > 1:
        g.give(call.outputs[1], g.cast(indices, "i64", call.outputs[1].dtype))


@operator("CUMSUM", options="CumsumOptions", inputs=(2, 2))
def cumsum(g, call):
    x = call.inputs[0]
    if x.dtype not in ("f32", "i32", "i64"):
        raise Refusal(f"'{x.tensor.name}' is {x.dtype}, and only f32, i32, i64 is supported here")
    axes = call.axes(1, x.rank)
    if len(axes) != 1:
        raise Refusal(f"it has {len(axes)} axes and takes one")
    g.give(
        call.out,
        g.node(
            "CumSum",
            [g.plain(x), g.number(axes[0], "i64")],
            exclusive=int(call.option("Exclusive")),
            reverse=int(call.option("Reverse")),
        ),
    )


assert tuple(TO_FILE_ORDER[axis] for axis in TO_CHANNELS_FIRST) == (0, 1, 2, 3)
