"""Operators that are composed of several of ONNX's: what runs along an axis, special functions,
bags, fake quantisation, statistics of the batch."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .cases import Cases, floats, whole

CASES = Cases()

# Ties, infinities and what is not a number.
UNEVEN = floats(3, 7)
UNEVEN[0, 2], UNEVEN[1, 1], UNEVEN[1, 4], UNEVEN[2, 0] = math.nan, math.inf, -math.inf, -math.inf
UNEVEN[2, 3:5] = UNEVEN[2, 2]

CASES.each(
    floats(3, 9),
    whole(4, 13, low=-3, high=4),
    UNEVEN,
    cummax_of_rows=lambda x, n, u: (torch.cummax(x, 1), torch.cummax(n, -1), torch.cummax(u, 1)),
    cummax_of_columns=lambda x, n, u: (torch.cummax(x, 0), torch.cummax(n, 0), torch.cummax(u, 0)),
    cummin_of_rows=lambda x, n, u: (torch.cummin(x, 1), torch.cummin(n, -1), torch.cummin(u, 1)),
    cummin_of_columns=lambda x, n, u: (torch.cummin(x, 0), torch.cummin(n, 0), torch.cummin(u, 0)),
    cummax_of_other_types=lambda x, n, u: (
        torch.cummax(n > 0, 1),
        torch.cummax(n.to(torch.uint8), 1),
        torch.cummax(x.double(), 1),
    ),
    cummax_of_a_scalar=lambda x, n, u: (torch.cummax(x[0, 0], 0), torch.cummin(n[0, :1], 0)),
    logcumsumexp_of_rows=lambda x, n, u: (torch.logcumsumexp(x, 1), torch.logcumsumexp(u, 1)),
    logcumsumexp_of_columns=lambda x, n, u: (
        torch.logcumsumexp(x * 60, 0),
        torch.logcumsumexp(u.double(), -2),
    ),
    mode_of_rows=lambda x, n, u: (
        torch.mode(n, 1),
        torch.mode(x, 1),
        torch.mode(n.to(torch.uint8)),
    ),
    mode_kept=lambda x, n, u: (torch.mode(n, 0, True), torch.mode((n * 0.5), 1, keepdim=True)),
)

ENDS = torch.cat(
    [torch.linspace(-1, 1, 101), torch.tensor([0.99999, -0.999999, 1e-8, -1e-30, 1.5, math.nan])]
)
GAMMA = torch.cat(
    [
        torch.linspace(-6, 12, 181),
        torch.tensor(
            [
                1e-30,
                1e-5,
                1.0001,
                0.9999,
                2.0001,
                1.9999,
                50.0,
                1e4,
                1e30,
                math.inf,
                -math.inf,
                math.nan,
                0.0,
                -0.0,
            ]
        ),
    ]
)

CASES.each(
    ENDS,
    GAMMA,
    tolerance=3e-6,
    erfinv=lambda x, g: torch.erfinv(x),
    erfinv_of_halves=lambda x, g: torch.erfinv((x * 0.5).half()).float().round(decimals=2),
    lgamma=lambda x, g: torch.lgamma(g),
    lgamma_of_integers=lambda x, g: torch.lgamma(torch.arange(-2, 20)),
    mvlgamma=lambda x, g: torch.mvlgamma(g.abs().clamp(0, 100) + 2, 3),
)
CASES.each(
    ENDS.double() * 0.999,
    GAMMA.double(),
    tolerance=1e-12,
    erfinv_of_doubles=lambda x, g: torch.erfinv(x),
    lgamma_of_doubles=lambda x, g: torch.lgamma(g),
)

QUANTISED = torch.cat(
    [floats(3, 5), torch.tensor([[0.05, 0.15, 0.25], [-0.05, 9.0, -9.0], [math.nan, 0.35, 0.45]])],
    1,
)

CASES.each(
    QUANTISED,
    fake_quantised_by_tensor=lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15),
    fake_quantised_by_tensors=lambda x: torch.fake_quantize_per_tensor_affine(
        x, torch.tensor(0.1), torch.tensor(3, dtype=torch.int32), 0, 15
    ),
    fake_quantised_by_channel=lambda x: torch.fake_quantize_per_channel_affine(
        x, torch.tensor([0.1, 0.2, 0.05]), torch.tensor([0, 1, -2], dtype=torch.int32), 0, -8, 7
    ),
    fake_quantised_by_fractions=lambda x: torch.fake_quantize_per_channel_affine(
        x, torch.tensor([0.1, 0.2, 0.05]), torch.tensor([0.0, 1.5, -2.0]), 0, -8, 7
    ),
)

CASES.each(
    floats(6, 5),
    torch.tensor([0, 1, 2, 4, 1, 3]),
    torch.tensor([0, 2, 2, 6]),
    floats(6),
    bag_sums=lambda w, i, o, s: (
        F.embedding_bag(i, w, o, mode="sum"),
        F.embedding_bag(i.int(), w, o.int(), mode="sum"),
    ),
    bag_means=lambda w, i, o, s: (
        F.embedding_bag(i, w, o),
        F.embedding_bag(i, w, o, padding_idx=1),
    ),
    bag_maxima=lambda w, i, o, s: (
        F.embedding_bag(i, w, o, mode="max"),
        F.embedding_bag(i, w, o, mode="max", padding_idx=1),
    ),
    bags_by_weights=lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
    bags_of_one_length=lambda w, i, o, s: F.embedding_bag(i.view(2, 3), w),
    bags_with_last_offset=lambda w, i, o, s: F.embedding_bag(
        i, w, o, include_last_offset=True, mode="sum", padding_idx=2
    ),
)

CASES.each(
    floats(3, 4, 5),
    floats(3, 1, 5),
    floats(4, 5),
    einsum_over_ellipsis=lambda x, y, z: torch.einsum("i...->i", x),
    einsum_over_all_of_ellipsis=lambda x, y, z: (
        torch.einsum("...->", x),
        torch.einsum("...i->i", z),
    ),
    einsum_over_broadcast_ellipsis=lambda x, y, z: torch.einsum("...i,...i->i", y, z),
    einsum_over_inner_ellipsis=lambda x, y, z: torch.einsum("b...d,cd->bc", x, z),
    einsum_over_empty_ellipsis=lambda x, y, z: torch.einsum("ij...->ji", z),
    batch_statistics=lambda x, y, z: (
        F.batch_norm(x, None, None, torch.arange(4.0), torch.ones(4), True),
        F.batch_norm(z, None, None, None, None, True, eps=0.1),
    ),
    batch_norm_without_statistics=lambda x, y, z: nn.BatchNorm1d(
        4, track_running_stats=False
    ).eval()(x),
)


def _layer(kind, *arguments, **options):
    torch.manual_seed(3)
    return kind(*arguments, **options).eval().requires_grad_(False)


PROJECTED = [
    _layer(nn.LSTM, 3, 5, 2, proj_size=2, bidirectional=True),
    _layer(nn.LSTM, 3, 5, proj_size=4, bias=False, batch_first=True),
]

CASES.each(
    floats(6, 2, 3),
    floats(4, 2, 2),
    floats(4, 2, 5),
    lstm_with_projection=lambda x, h, c: PROJECTED[0](x, (h, c)),
    lstm_with_projection_without_bias=lambda x, h, c: PROJECTED[1](x),
    lstm_with_projection_without_batch=lambda x, h, c: PROJECTED[0](x[:, 0]),
)

CASES.each(
    whole(3, 4, low=-(2**31), high=2**31 - 1, dtype=torch.int32),
    whole(2, 16, low=0, high=256, dtype=torch.uint8),
    bits_as_narrower_numbers=lambda n, b: (
        n.view(torch.uint8),
        n.view(torch.int16),
        n.long().view(torch.int32),
    ),
    bits_as_wider_numbers=lambda n, b: (
        n.view(torch.int64),
        b.view(torch.int16),
        b.view(torch.int64),
        b.view(torch.int32),
    ),
    bits_as_signed_numbers=lambda n, b: (
        b.view(torch.int8),
        n.view(torch.uint32).view(torch.int32),
        (b > 7).view(torch.uint8),
    ),
)
