"""The bits of a tensor as numbers of another type."""

import numpy as np
import torch

from ..describe import ONNX_NUMBERS, dtype_name
from .table import aten

_WORDS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def _same_width(g, value, given, wanted):
    if given == wanted:
        return value
    if given.is_floating_point or wanted.is_floating_point:
        dtype_name(wanted)
        return g.node("BitCast", [value], to=ONNX_NUMBERS[wanted])
    return g.cast(value, wanted, given)  # integers wrap around


def _shifts(g, count, width, dtype):
    """The shifts that put `count` words of `width` bytes into one of this type, the lowest word
    first."""
    return g.array((np.arange(count) * 8 * width).astype(str(dtype).removeprefix("torch.")))


@aten("view.dtype", ops="BitCast, Cast, BitShift")
def view_dtype(g, self, dtype):
    width, wanted = self.dtype.itemsize, g.out.dtype.itemsize
    if width == wanted:
        return _same_width(g, self.name, self.dtype, g.out.dtype)
    value = _same_width(g, self.name, self.dtype, _WORDS[width])
    if width > wanted:
        words = g.node("Unsqueeze", [value, g.ints([self.rank])])
        words = g.node(
            "BitShift",
            [words, _shifts(g, width // wanted, wanted, _WORDS[width])],
            direction="RIGHT",
        )
        low = g.node("BitwiseAnd", [words, g.constant((1 << 8 * wanted) - 1, _WORDS[width])])
        value = g.reshape(g.cast(low, _WORDS[wanted], _WORDS[width]), g.out.shape)
    else:
        # Sums need integers of at least 32 bits. No two parts share a bit, so the sum is their
        # union.
        sum_type = _WORDS[max(wanted, 4)]
        parts = g.cast(g.reshape(value, [*g.out.shape, wanted // width]), sum_type, _WORDS[width])
        moved = g.node(
            "BitShift", [parts, _shifts(g, wanted // width, width, sum_type)], direction="LEFT"
        )
        value = g.cast(
            g.node("ReduceSum", [moved, g.ints([-1])], keepdims=0), _WORDS[wanted], sum_type
        )
    return _same_width(g, value, _WORDS[wanted], g.out.dtype)
