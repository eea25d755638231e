"""Tensors that are made: constants, ranges, and tensors of a shape."""

import numbers

import torch

from ..describe import Value
from .table import aten


def _filled(value, *names):
    @aten(*names, ops="Expand")
    def describe(g, **_):
        return g.full(g.out.shape, value, g.out.dtype)

    return describe


# The content of `empty` is undefined; zeros will do.
_filled(
    0,
    "zeros",
    "zeros_like",
    "new_zeros",
    "empty.memory_format",
    "empty_like",
    "new_empty",
    "empty_strided",
    "empty_permuted",
    "new_empty_strided",
)
_filled(1, "ones", "ones_like", "new_ones")


@aten("full", "full_like", "new_full", "fill.Scalar", "fill.Tensor", ops="Expand")
def full(g, fill_value=None, value=None, **_):
    given = value if fill_value is None else fill_value
    return g.full(g.out.shape, given, g.out.dtype)


@aten("scalar_tensor", "prims::scalar_tensor", ops="Constant")
def scalar_tensor(g, s, **_):
    return g.scalar(s, g.out.dtype)


@aten("arange", "arange.start", "arange.start_step", ops="Range")
def arange(g, end, start=0, step=1, **_):
    dtype = g.out.dtype
    given = (start, end, step)
    if all(isinstance(each, numbers.Number) for each in given):
        # Rounding in float arithmetic decides the elements, so PyTorch itself computes them here.
        if g.out.shape[0] <= 1 << 16:
            return (
                g.array(
                    torch.arange(
                        start,
                        end,
                        step,
                        dtype=torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype,
                    ).numpy()
                )
                if dtype not in (torch.float16, torch.bfloat16)
                else g.tensor(torch.arange(start, end, step, dtype=dtype), "range")
            )
    kind = (
        torch.int64
        if not dtype.is_floating_point
        else dtype
        if dtype == torch.float64
        else torch.float32
    )
    numbers_ = g.node("Range", [g.scalar(each, kind) for each in given])
    return g.cast(numbers_, dtype, kind)


@aten("linspace", ops="Constant")
def linspace(g, start, end, steps, **_):
    if isinstance(start, Value) or isinstance(end, Value) or not isinstance(steps, int):
        g.refuse("its ends are not known while compiling")
    return g.tensor(torch.linspace(start, end, steps, dtype=g.out.dtype), "linspace")


@aten("logspace", ops="Constant")
def logspace(g, start, end, steps, base=10.0, **_):
    return g.tensor(torch.logspace(start, end, steps, base, dtype=g.out.dtype), "logspace")


@aten("eye", "eye.m", ops="EyeLike")
def eye(g, n, m=None, **_):
    m = n if m is None else m
    if isinstance(n, int) and isinstance(m, int) and n * m <= 1 << 20:
        return g.tensor(torch.eye(n, m, dtype=g.out.dtype), "eye")
    rows = g.node(
        "Unsqueeze",
        [g.node("Range", [g.scalar(each, torch.int64) for each in (0, n, 1)]), g.ints([1])],
    )
    columns = g.node("Range", [g.scalar(each, torch.int64) for each in (0, m, 1)])
    return g.cast(g.node("Equal", [rows, columns]), g.out.dtype, torch.bool)


@aten(
    "tril_indices",
    "triu_indices",
    "hann_window",
    "hann_window.periodic",
    "hamming_window",
    "hamming_window.periodic",
    "blackman_window",
    "blackman_window.periodic",
    "bartlett_window",
    ops="Constant",
)
def made(g, **arguments):
    arguments = {
        key: value
        for key, value in arguments.items()
        if key not in ("device", "pin_memory", "layout")
    }
    return g.tensor(g.target(**arguments), "made")


def _random(*names):
    @aten(*names, ops="refused")
    def describe(g, **_):
        g.refuse(
            "its numbers are random: PyTorch's generator is not imitated; pass them as an input"
        )

    return describe


_random(
    "rand",
    "randn",
    "randint",
    "randint.low",
    "rand_like",
    "randn_like",
    "randint_like",
    "randperm",
    "bernoulli",
    "bernoulli.p",
    "multinomial",
    "normal_functional",
    "uniform",
    "exponential",
    "normal.Tensor_Tensor",
    "randint_like.low_dtype",
    "rrelu_with_noise_functional",
)
