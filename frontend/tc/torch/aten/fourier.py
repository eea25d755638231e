"""Fourier transforms of real and complex numbers, by the operator DFT. PyTorch decomposes windows,
overlapping frames and stft."""

import math

import torch

from .complex_parts import complex_row
from .table import aten


def _scale(sizes, normalization, inverse):
    """The factor of the results. DFT divides by the length if it is inverse; PyTorch divides by
    nothing (0), the square root of the length (1) or the length (2)."""
    count = math.prod(sizes)
    wanted = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization]
    return wanted * count if inverse else wanted


def _transformed(g, pair, rank, axes, inverse=False):
    """The parts of complex transforms along axes; DFT's operand has the parts along its last
    axis."""
    value = g.interleaved(pair, rank)
    for axis in axes:
        value = g.node("DFT", [value, None, g.constant(axis, torch.int64)], inverse=int(inverse))
    return g.split_parts(value, rank)


def _scaled(g, pair, factor, dtype):
    return (
        pair
        if factor == 1
        else tuple(g.node("Mul", [part, g.constant(factor, dtype)]) for part in pair)
    )


def _known(g, self, dim):
    sizes = [self.shape[axis] for axis in dim]
    if not all(isinstance(size, int) for size in sizes):
        g.refuse("the length of the transform is not known while compiling; bind it with shapes=")
    return sizes


@aten("_fft_c2c", "_fft_r2c", "_fft_c2r", ops="DFT, Concat, Slice")
def needs_complex_transform(g, **_):
    g.refuse("its operand is not complex")


@complex_row("_fft_c2c")
def fft(g, self, dim, normalization, forward):
    dim = [self.axis(axis) for axis in dim]
    dtype = self.re.dtype
    pair = _transformed(g, (self.re, self.im), self.rank, dim, not forward)
    return _scaled(g, pair, _scale(_known(g, self, dim), normalization, not forward), dtype)


@complex_row("_fft_r2c")
def real_fft(g, self, dim, normalization, onesided):
    dim = [self.axis(axis) for axis in dim]
    sizes = _known(g, self, dim)
    # The transform along the last of the axes is real and may give only half of its numbers.
    value = g.node("Unsqueeze", [self, g.ints([self.rank])])
    value = g.node("DFT", [value, None, g.constant(dim[-1], torch.int64)], onesided=int(onesided))
    pair = g.split_parts(value, self.rank)
    if dim[:-1]:
        pair = _transformed(g, pair, self.rank, dim[:-1])
    return _scaled(g, pair, _scale(sizes, normalization, False), self.dtype)


@complex_row("_fft_c2r")
def fft_to_real(g, self, dim, normalization, last_dim_size):
    dim = [self.axis(axis) for axis in dim]
    axis, dtype = dim[-1], self.re.dtype
    sizes = [*_known(g, self, dim)[:-1], last_dim_size]
    pair = self.re, self.im
    if dim[:-1]:
        pair = _transformed(g, pair, self.rank, dim[:-1], inverse=True)
    re, im = pair
    half, given = last_dim_size // 2 + 1, self.shape[axis]
    if given != half:
        re, im = (_resized(g, part, self.rank, axis, given, half) for part in (re, im))
    # The other half is the conjugate of this one in reverse order.
    rest = last_dim_size - half
    if rest:
        back_re, back_im = (g.slice(part, axis, rest, 0, -1) for part in (re, im))
        re, im = (
            g.node("Concat", [re, back_re], axis=axis),
            g.node("Concat", [im, g.node("Neg", [back_im])], axis=axis),
        )
    # The imaginary parts of the first and of the middle number are ignored.
    result, _ = _transformed(g, (re, im), self.rank, [axis], inverse=True)
    return _scaled(g, (result,), _scale(sizes, normalization, True), dtype)[0]


def _resized(g, part, rank, axis, given, size):
    """Cuts off the end, or appends zeros, so that the axis has `size` elements."""
    if given > size:
        return g.slice(part, axis, 0, size)
    ends = [size - given if each == axis else 0 for each in range(rank)]
    return g.node("Pad", [part, g.ints([0] * rank + ends)])
