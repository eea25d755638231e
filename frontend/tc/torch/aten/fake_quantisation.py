"""Rounds numbers to those of a quantised type and converts them back."""

import torch

from .table import aten


def _rounded(g, self, scale, zero, bounds, whole=True):
    """`scale` and `zero` are names of float32 values that broadcast to the operand; `bounds` are
    the smallest and the largest whole number. `whole`: the zero point has an integer type;
    otherwise it is added before rounding."""
    kind = torch.float64 if self.dtype == torch.float64 else torch.float32
    low, high = (g.constant(bound, kind) for bound in bounds)
    value = g.cast(self, kind)
    scale, zero = (g.cast(each, kind, torch.float32) for each in (scale, zero))
    steps = g.node("Mul", [value, g.node("Reciprocal", [scale])])
    moved = (
        g.node("Add", [g.node("Round", [steps]), zero])
        if whole
        else g.node("Round", [g.node("Add", [steps, zero])])
    )
    # As in PyTorch, NaN becomes the smallest number.
    kept = g.node("Where", [g.node("IsNaN", [moved]), low, g.node("Clip", [moved, low, high])])
    result = g.node("Mul", [g.node("Sub", [kept, zero]), scale])
    inside = g.node(
        "And", [g.node("GreaterOrEqual", [moved, low]), g.node("LessOrEqual", [moved, high])]
    )
    return g.cast(result, self.dtype, kind), inside


@aten("fake_quantize_per_tensor_affine_cachemask", ops="Mul, Round, Clip")
def per_tensor(g, self, scale, zero_point, quant_min, quant_max):
    return _rounded(
        g,
        self,
        g.constant(scale, torch.float32),
        g.constant(float(zero_point), torch.float32),
        (quant_min, quant_max),
    )


@aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", ops="Mul, Round, Clip, Where")
def per_tensor_of_tensors(g, self, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    parts = [g.reshape(g.cast(each, torch.float32), []) for each in (scale, zero_point)]
    result, inside = _rounded(g, self, *parts, (quant_min, quant_max))
    enabled = g.reshape(g.cast(fake_quant_enabled, torch.bool), [])
    return g.node("Where", [enabled, result, self]), g.node(
        "Or", [inside, g.node("Not", [enabled])]
    )


@aten("fake_quantize_per_channel_affine_cachemask", ops="Mul, Round, Clip")
def per_channel(g, self, scale, zero_point, axis, quant_min, quant_max):
    shape = [-1 if number == self.axis(axis) else 1 for number in range(self.rank)]
    parts = [g.reshape(g.cast(each, torch.float32), shape) for each in (scale, zero_point)]
    return _rounded(g, self, *parts, (quant_min, quant_max), not zero_point.dtype.is_floating_point)
