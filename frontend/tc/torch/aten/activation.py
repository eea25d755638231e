"""Elementwise activations."""

import torch

from ..describe import Value
from .pointwise import expm1, unless_nan
from .table import aten

# In the form in which PyTorch's exporter writes them to ONNX, so that both ways give the same
# graph.


@aten("silu", ops="Sigmoid, Mul")
def silu(g, self):
    return g.node("Mul", [self, g.node("Sigmoid", [self])])


@aten("gelu", ops="Erf, Mul")
def gelu(g, self, approximate="none"):
    if approximate != "none":
        return g.node("Gelu", [self], approximate=approximate)
    scaled = g.node("Div", [self, g.constant(2**0.5, self.dtype)])
    share = g.node("Add", [g.node("Erf", [scaled]), g.constant(1.0, self.dtype)])
    return g.node("Mul", [g.node("Mul", [self, share]), g.constant(0.5, self.dtype)])


@aten("leaky_relu", ops="LeakyRelu")
def leaky_relu(g, self, negative_slope=0.01):
    return g.node("LeakyRelu", [self], alpha=float(negative_slope))


@aten("elu", ops="Elu")
def elu(g, self, alpha=1, scale=1, input_scale=1):
    if scale != 1 or input_scale != 1:
        dtype = g.out.dtype
        low = g.node(
            "Mul",
            [
                expm1_of(g, g.node("Mul", [self, g.constant(input_scale, dtype)])),
                g.constant(alpha * scale, dtype),
            ],
        )
        high = g.node("Mul", [self, g.constant(scale, dtype)])
        return g.node("Where", [g.node("Greater", [self, g.constant(0, dtype)]), high, low])
    return g.node("Elu", [self], alpha=float(alpha))


def expm1_of(g, name):
    return expm1(g, Value(name, g.out))


@aten("celu", ops="Celu")
def celu(g, self, alpha=1.0):
    return g.node("Celu", [self], alpha=float(alpha))


@aten("hardsigmoid", ops="HardSigmoid")
def hardsigmoid(g, self):
    return g.node("HardSigmoid", [self], alpha=1 / 6, beta=0.5)


@aten("relu6", ops="Clip")
def relu6(g, self):
    return g.node("Clip", [self, g.constant(0, self.dtype), g.constant(6, self.dtype)])


# From here on the difference from the identity is too small for float32.
_SOFTPLUS_IS_LINEAR = 17


@aten("softplus", ops="Softplus")
def softplus(g, self, beta=1, threshold=20):
    factor = g.constant(beta, g.out.dtype)
    scaled = g.node("Mul", [self, factor]) if beta != 1 else self
    result = g.node("Softplus", [scaled])
    if beta != 1:
        result = g.node("Div", [result, factor])
    if threshold >= _SOFTPLUS_IS_LINEAR:
        return result
    return g.node(
        "Where", [g.node("Greater", [scaled, g.constant(threshold, g.out.dtype)]), self, result]
    )


@aten("log_sigmoid", "log_sigmoid_forward", ops="Softplus, Neg")
def log_sigmoid(g, self):
    result = g.node("Neg", [g.node("Softplus", [g.node("Neg", [self])])])
    return (result, result) if isinstance(g.out, (tuple, list)) else result


@aten("threshold", ops="Where")
def threshold(g, self, threshold, value):
    # NaN stays NaN.
    under = g.node("LessOrEqual", [self, g.constant(threshold, self.dtype)])
    return g.node("Where", [under, g.constant(value, self.dtype), self])


@aten("prelu", "_prelu_kernel", ops="PRelu")
def prelu(g, self, weight):
    if weight.rank == 1 and self.rank > 2 and weight.shape[0] != 1:
        weight = g.reshape(weight, [weight.shape[0]] + [1] * (self.rank - 2))
    elif weight.rank == 1 and self.rank == 0:
        weight = g.reshape(weight, [])
    return g.node("PRelu", [self, weight])


@aten("softshrink", ops="Shrink, IsNaN, Where")
def softshrink(g, self, lambd=0.5):
    return unless_nan(
        g, self, g.node("Shrink", [self], lambd=float(lambd), bias=float(lambd)), self
    )


@aten("hardshrink", ops="Where")
def hardshrink(g, self, lambd=0.5):
    small = g.node("LessOrEqual", [g.node("Abs", [self]), g.constant(lambd, self.dtype)])
    return g.node("Where", [small, g.constant(0, self.dtype), self])


@aten(
    "dropout",
    "native_dropout",
    "feature_dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    ops="Identity",
)
def dropout(g, p, train, input):
    if train and p:
        g.refuse("dropout of a module in training mode is random; call .eval() on the module first")
    return (
        (input, g.full(input.shape, True, torch.bool))
        if isinstance(g.out, (tuple, list))
        else input
    )
