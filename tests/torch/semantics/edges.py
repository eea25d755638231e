"""Numbers at the ends of their types: what is not a number, infinities, zeros with a sign, whole
numbers that wrap, nothing at all."""

import torch
from torch.nn import functional

from .cases import Cases, floats

CASES = Cases()
of = CASES.of

NAN, INF = float("nan"), float("inf")
SPECIAL = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 3.5, -3.5, 1e30, -1e-30, 2.5])
BYTES = torch.tensor([200, 255, 1, 0], dtype=torch.uint8)


@of(SPECIAL)
def activations_of_no_number(x):
    return (
        functional.threshold(x, 1.0, 20.0),
        functional.softshrink(x),
        functional.hardshrink(x),
        functional.relu6(x),
        functional.elu(x),
    )


@of(SPECIAL)
def signs_of_no_number(x):
    return (
        x.sign(),
        x.sgn(),
        x.signbit(),
        x.trunc(),
        torch.heaviside(x, torch.tensor(0.5)),
        x.clamp(-1, 1),
    )


@of(SPECIAL)
def extremes_with_no_number(x):
    return (
        x.amax(),
        x.argmax(),
        x.min(0),
        torch.fmax(x, x.flip(0)),
        x.nansum(),
        torch.maximum(x, torch.tensor(0.0)),
    )


@of(
    torch.tensor([0.0, -0.0, 0.0, -0.0, INF, -INF, INF, NAN, 1, -1, 0.0, -0.0, 0.0, 2.0]),
    torch.tensor([0.0, 0.0, -0.0, -0.0, INF, INF, -INF, 1, 0, 0, -1.0, -1.0, NAN, -INF]),
)
def angles_by_signs_of_zeros(y, x):
    return torch.atan2(y, x)


@of(torch.tensor([1e10, 1.0, 3.0]), torch.tensor([1.0, 1e10, 7.0]))
def ends_of_lerp_are_exact(a, b):
    return (
        torch.lerp(a, b, 1.0),
        torch.lerp(a, b, 0.0),
        torch.lerp(a, b, 0.3),
        torch.lerp(a, b, torch.tensor([1.0, 0.0, 0.7])),
    )


@of(torch.tensor([-8, -1, 1, 5, 1 << 40]), torch.tensor([63, 64, 70, -1, 3]))
def shifts_beyond_all_bits(a, places):
    return a << places, a >> places, a >> 63, a << 64


@of(
    torch.tensor([-8, -1, 1, 5], dtype=torch.int32),
    torch.tensor([31, 32, 33, 2], dtype=torch.int32),
)
def shifts_of_narrow_numbers(a, places):
    return a << places, a >> places


@of(BYTES, torch.tensor([7, 8, 9, 2], dtype=torch.uint8))
def shifts_of_bytes(a, places):
    return a << places, a >> places


@of(BYTES)
def numbers_beyond_bytes_wrap(a):
    return (
        a < 300,
        a == -1,
        a > -1,
        a + 300,
        a * -2,
        a - 300,
        a // 300,
        300 - a,
        a & 511,
        a.clamp(-1, 100),
    )


@of(torch.tensor([1, -128, 7], dtype=torch.int8), torch.tensor([1, 2], dtype=torch.int32))
def numbers_beyond_whole_types_wrap(a, b):
    return a + 200, a == 384, b + 2**33, b == 2**33 + 1


@of(
    torch.tensor([-128, 127, -127], dtype=torch.int8),
    torch.tensor([-(2**63), -(2**63), 2**63 - 1]),
    torch.tensor([3, 7, -2]),
)
def quotients_of_the_smallest(a, b, c):
    return a // 3, a % 7, b // c, b % c, torch.div(b, c, rounding_mode="trunc"), b // 5


@of(torch.tensor([5, -5, 7, -7, 0, 6]), torch.tensor([3, 3, -3, -3, 2, -3]))
def quotients_rounded_down(a, b):
    return a // b, a % b, torch.fmod(a, b), a // 4, a // -4, -7 // b, a.short() // b.short()


@of(torch.zeros(0, dtype=torch.uint8), torch.zeros(0, 3))
def truth_of_nothing(a, b):
    return a.all(), a.any(), b.all(0), b.any(1), b.sum(1), b.prod(0)


@of(floats(3))
def more_than_the_type_holds(x):
    return x < 1e40, x + 1e39, x * 1e-50, x.masked_fill(x > 0, -INF)


def nearest(sizes, mode):
    def resize(x):
        return [
            functional.interpolate(x[..., :size], size=(*x.shape[2:-1], wanted), mode=mode)
            for size in sizes
            for wanted in (5, 10, 13, 49, 98)
        ]

    return resize


def nearest_by_scale(mode):
    def resize(x):
        return [
            functional.interpolate(x, scale_factor=(*[1.0] * (x.dim() - 3), scale), mode=mode)
            for scale in (0.35, 0.6, 1.1, 1.7, 2.0, 2.1, 2.5)
        ]

    return resize


for axes in (1, 2, 3):
    given = torch.arange(21.0).expand(1, 1, *[2] * (axes - 1), 21).contiguous()
    CASES.each(
        given,
        **{
            f"nearest_{axes}d_by_size": nearest((3, 7, 14, 21), "nearest"),
            f"nearest_{axes}d_by_scale": nearest_by_scale("nearest"),
            f"nearest_exact_{axes}d_by_size": nearest((2, 7, 14, 21), "nearest-exact"),
            f"nearest_exact_{axes}d_by_scale": nearest_by_scale("nearest-exact"),
        },
    )
