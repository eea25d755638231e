"""Operators that compute each element of the result from the operands' elements at the same index,
and conversions of types."""

import numpy as np

from ..describe import Refusal
from . import quantised, quantised_elements
from .integers import ENDS, same_scale
from .table import operator

# Operators of one operand that ONNX has as well.
_UNARY = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "ELU": "Elu",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish",
    "LOG": "Log",
    "LOGISTIC": "Sigmoid",
    "LOGICAL_NOT": "Not",
    "NEG": "Neg",
    "RELU": "Relu",
    "ROUND": "Round",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "TANH": "Tanh",
}
_CLAMPS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
# Operators that compute integers with a scale in another way than other integers.
_INTEGERS = {
    "ABS": quantised_elements.absolute,
    "HARD_SWISH": quantised_elements.hard_swish,
    "RELU": quantised_elements.clamp,
    **dict.fromkeys(("ELU", "EXP", "LOG", "LOGISTIC", "TANH"), quantised_elements.by_floats),
}
_WHOLE = ("i32", "i64")


def unary(g, call, op, **attributes):
    """Adds a node of one operand, in the operand's present order of axes."""
    (name,), images = g.aligned(call.inputs[:1], call.inputs[0].rank)
    g.give(call.out, g.node(op, [name], **attributes), images)


@operator(*_UNARY)
def one_operand(g, call):
    if call.name in _INTEGERS and call.inputs[0].dtype in ENDS:
        _INTEGERS[call.name](g, call)
        return
    call.need_types(
        "f32",
        *(("bool",) if call.name == "LOGICAL_NOT" else ()),
        *(_WHOLE if call.name in ("ABS", "NEG", "SIGN") else ()),
    )
    unary(g, call, _UNARY[call.name])


@operator(*_CLAMPS)
def clamp(g, call):
    if call.inputs[0].dtype in ENDS:
        quantised_elements.clamp(g, call)
        return
    call.need_types("f32")
    (name,), images = g.aligned(call.inputs, call.inputs[0].rank)
    g.give(
        call.out,
        g.node("Clip", [name, *(g.number(end, "f32") for end in _CLAMPS[call.name])]),
        images,
    )


@operator("RSQRT", "SQUARE")
def composed(g, call):
    call.need_types("f32", *(_WHOLE if call.name == "SQUARE" else ()))
    (name,), images = g.aligned(call.inputs, call.inputs[0].rank)
    result = (
        g.node("Mul", [name, name])
        if call.name == "SQUARE"
        else g.node("Reciprocal", [g.node("Sqrt", [name])])
    )
    g.give(call.out, result, images)


@operator("LEAKY_RELU", options="LeakyReluOptions")
def leaky_relu(g, call):
    if call.inputs[0].dtype in ENDS:
        quantised_elements.leaky_relu(g, call)
        return
    call.need_types("f32")
    unary(g, call, "LeakyRelu", alpha=float(call.option("Alpha")))


@operator("GELU", options="GeluOptions")
def gelu(g, call):
    if call.inputs[0].dtype in ENDS:
        quantised_elements.by_floats(
            g, call, "GELU by tanh" if call.option("Approximate") else "GELU"
        )
        return
    call.need_types("f32")
    unary(g, call, "Gelu", approximate="tanh" if call.option("Approximate") else "none")


@operator("PRELU", inputs=(2, 2))
def prelu(g, call):
    if call.inputs[0].dtype in ENDS:
        quantised_elements.prelu(g, call)
        return
    call.need_types("f32")
    names, images = g.aligned(call.inputs, call.out.rank)
    g.give(call.out, g.node("PRelu", names), images)


# Operators of two operands with broadcasting.
_BINARY = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "SQUARED_DIFFERENCE": "Sub",
    "FLOOR_DIV": "Div",
    "FLOOR_MOD": "Mod",
    "NOT_EQUAL": "Equal",
    "ADD_N": "Sum",
}
_COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_BEHIND = {"FLOOR_DIV": "Floor", "NOT_EQUAL": "Not"}


@operator(*_BINARY, inputs=(2, -1))
def two_operands(g, call):
    if call.name != "ADD_N" and len([value for value in call.inputs if value]) != 2:
        raise Refusal("it takes 2 inputs")
    if call.name in ("ADD", "SUB", "MUL") and call.inputs[0].dtype in ENDS:
        quantised.two_operands(g, call)
        return
    if call.name in _COMPARISONS and call.inputs[0].dtype in ENDS:
        quantised_elements.compared(g, call, _BINARY[call.name])
        return
    if call.name == "SQUARED_DIFFERENCE" and call.inputs[0].dtype in ENDS:
        quantised_elements.squared_difference(g, call)
        return
    if call.name in ("MAXIMUM", "MINIMUM") and call.inputs[0].dtype in ENDS:
        quantised_elements.larger_or_smaller(g, call, _BINARY[call.name])
        return
    call.need_types("f32", *_WHOLE, "bool")
    if call.name == "FLOOR_DIV" and call.inputs[0].dtype != "f32":
        raise Refusal("whole numbers are not supported here")
    names, images = g.aligned(call.inputs, call.out.rank)
    attributes = {}
    if call.name == "FLOOR_MOD" and call.inputs[0].dtype == "f32":
        # The result has the sign of the divisor: a - floor(a / b) * b.
        whole = g.node("Floor", [g.node("Div", names)])
        g.give(call.out, g.node("Sub", [names[0], g.node("Mul", [whole, names[1]])]), images)
        return
    name = g.node(_BINARY[call.name], names, **attributes)
    if call.name == "SQUARED_DIFFERENCE":
        name = g.node("Mul", [name, name])
    if call.name in _BEHIND:
        name = g.node(_BEHIND[call.name], [name])
    if call.activation != "NONE" and call.out.dtype not in ("f32", *_WHOLE):
        raise Refusal(
            f"the fused activation {call.activation} of {call.out.dtype} is not supported"
        )
    name = g.activated(name, call.activation, call.out.dtype)
    g.give(call.out, name, images)


@operator("SELECT", "SELECT_V2", inputs=(3, 3))
def select(g, call):
    chosen = call.inputs[0]
    same_scale(call, [*call.inputs[1:], call.out])
    if call.name == "SELECT" and chosen.rank == 1 and call.out.rank > 1:
        names = [
            g.reshape(g.plain(chosen), [chosen.shape[0]] + [1] * (call.out.rank - 1)),
            g.plain(call.inputs[1]),
            g.plain(call.inputs[2]),
        ]
        g.give(call.out, g.node("Where", names))
        return
    names, images = g.aligned(call.inputs, call.out.rank)
    g.give(call.out, g.node("Where", names), images)


@operator("CAST", options="CastOptions")
def cast(g, call):
    (name,), images = g.aligned(call.inputs, call.inputs[0].rank)
    g.give(call.out, g.cast(name, call.inputs[0].dtype, call.out.dtype), images)


@operator("QUANTIZE")
def quantize(g, call):
    quantised_elements.quantize(g, call)


@operator("DEQUANTIZE")
def dequantize(g, call):
    x = call.inputs[0]
    if x.dtype == "f16" and x.data is not None:
        # Weights that are stored in float16.
        g.give(call.out, g.constant(x.data.astype(np.float32)))
        call.out.tensor.data = x.data.astype(np.float32)
        return
    (name,), images = g.aligned([x], x.rank)
    g.give(call.out, dequantised(g, name, x), images) if x.is_quantised else g.give(
        call.out, g.cast(name, x.dtype, "f32"), images
    )


def dequantised(g, name, value):
    """The floats of a value with one scale, as the reference kernel computes them: scale times
    (integer - zero point) in float32."""
    found = value.tensor.quantisation
    if len(found.scale) != 1:
        raise Refusal(f"'{value.tensor.name}' has {len(found.scale)} scales; one is supported here")
    whole = g.cast(name, "i8" if value.dtype == "i4" else value.dtype, "i32")
    if found.zero_point[0]:
        whole = g.node("Sub", [whole, g.number(found.zero_point[0], "i32")])
    return g.node("Mul", [g.cast(whole, "i32", "f32"), g.number(found.scale[0], "f32")])
