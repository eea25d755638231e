"""Indexing, promotion of types, and operators whose results depend on both."""

import torch

from .cases import Cases, floats, truths, whole

CASES = Cases()
of = CASES.of

CASES.each(
    floats(3, 4, 5),
    torch.tensor([2, 0]),
    torch.tensor([[-1, 1], [0, -2]]),
    index_first=lambda x, i, j: x[i],
    index_middle=lambda x, i, j: x[:, i],
    index_last_matrix=lambda x, i, j: x[..., j],
    index_pair_adjacent=lambda x, i, j: x[:, j, i],
    index_pair_apart=lambda x, i, j: x[i, :, j],
    index_with_integer_apart=lambda x, i, j: x[0, :, i],
    index_with_integer_adjacent=lambda x, i, j: x[:, 1, i],
    index_with_slice_and_none=lambda x, i, j: x[1:, None, i, ::2],
    index_of_all_axes=lambda x, i, j: x[i, j, i],
    index_by_list=lambda x, i, j: x[[0, -1, 0], 1],
    index_by_nested_list=lambda x, i, j: x[[[0, 1], [2, 0]]],
    index_by_range=lambda x, i, j: x[torch.arange(3), torch.arange(3)],
    index_by_empty_list=lambda x, i, j: x[:, []],
    index_by_scalar_tensor=lambda x, i, j: x[i[0]],
    index_by_computed=lambda x, i, j: x[:, (i * 3 + 1) % 4],
    index_of_index=lambda x, i, j: x[i][:, j][..., 0],
    index_by_int32=lambda x, i, j: x[i.int()] + x[i.int(), :],
    index_select_negative_axis=lambda x, i, j: x.index_select(-2, i),
    gather_smaller=lambda x, i, j: x[:, :2].gather(2, (j[None] + 2).expand(2, 2, 2)),
    take_flat=lambda x, i, j: x.take(j + 5),
    take_along=lambda x, i, j: torch.take_along_dim(x, x.argsort(1), 1),
    embedding_with_padding=lambda x, i, j: torch.nn.functional.embedding(i, x[0], padding_idx=0),
    one_hot=lambda x, i, j: torch.nn.functional.one_hot(j + 2, 5),
    bucketize=lambda x, i, j: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])),
    searchsorted_right=lambda x, i, j: torch.searchsorted(
        torch.tensor([0, 1, 1, 2]), i, right=True
    ),
    where_of_three=lambda x, i, j: torch.where(x > 0, x, i[0]),
    where_of_numbers=lambda x, i, j: torch.where(x > 0, 1, 0.5),
)

CASES.each(
    floats(2, 3, 4),
    floats(2, 4, 3),
    floats(4),
    einsum_matrix=lambda x, y, v: torch.einsum("bij,bjk->bik", x, y),
    einsum_trace=lambda x, y, v: torch.einsum("bii->b", x @ y),
    einsum_diagonal=lambda x, y, v: torch.einsum("bii->bi", x @ y),
    einsum_three=lambda x, y, v: torch.einsum("bij,bjk,j->ik", x, y, v),
    einsum_implicit=lambda x, y, v: torch.einsum("zij,j", x, v),
    einsum_ellipsis=lambda x, y, v: torch.einsum("...ij,...jk", x, y),
    einsum_outer=lambda x, y, v: torch.einsum("i,bjk->bkij", v, y),
    einsum_sum_all=lambda x, y, v: torch.einsum("bij->", x),
    einsum_permute=lambda x, y, v: torch.einsum("bij->jib", x),
    einsum_repeated_operand=lambda x, y, v: torch.einsum("bij,bij->b", x, x),
    tensordot=lambda x, y, v: torch.tensordot(x, y, dims=([0, 2], [0, 1])),
    tensordot_count=lambda x, y, v: torch.tensordot(x, v, dims=1),
    matmul_broadcast=lambda x, y, v: x[:, None] @ y[None],
    matmul_vectors=lambda x, y, v: (v @ v, x @ v, v @ y),
    outer_and_inner=lambda x, y, v: (torch.outer(v, v), torch.inner(x, v)),
    bilinear=lambda x, y, v: torch.nn.functional.bilinear(x[0], y[0].t(), torch.ones(2, 4, 4)),
    cdist=lambda x, y, v: torch.cdist(x, y.transpose(1, 2)),
    chain_of_matmuls=lambda x, y, v: torch.linalg.multi_dot([x[0], y[0], x[1]]),
    cross=lambda x, y, v: torch.linalg.cross(y[0], y[1]),
    matrix_power=lambda x, y, v: torch.matrix_power(x[0] @ y[0], 3),
    norm_kinds=lambda x, y, v: (
        x.norm(),
        x.norm(1, 2),
        torch.linalg.vector_norm(x, float("inf"), (0, 1)),
    ),
)

CASES.each(
    whole(3, 4),
    floats(3, 4),
    truths(3, 4),
    whole(3, 4, dtype=torch.uint8, low=0, high=250),
    integers_plus_float=lambda n, x, m, u: n + 0.5,
    integers_plus_floats=lambda n, x, m, u: n + x,
    truths_plus_truths=lambda n, x, m, u: m + m,
    truths_times_integer=lambda n, x, m, u: m * 3,
    truths_plus_float=lambda n, x, m, u: m + 1.5,
    bytes_wrap=lambda n, x, m, u: u + 10,
    bytes_and_integers=lambda n, x, m, u: u - n,
    bytes_times_bytes=lambda n, x, m, u: u * u,
    bytes_negated=lambda n, x, m, u: -u,
    int8_wraps=lambda n, x, m, u: n.to(torch.int8) * 100,
    int16_and_int8=lambda n, x, m, u: n.to(torch.int16) + n.to(torch.int8),
    uint8_and_int8=lambda n, x, m, u: u + n.to(torch.int8),
    double_scalar_tensor=lambda n, x, m, u: x + torch.tensor(2.0, dtype=torch.float64),
    double_vector=lambda n, x, m, u: x + torch.ones(4, dtype=torch.float64),
    integer_scalar_tensor=lambda n, x, m, u: n.to(torch.int16) + torch.tensor(100000),
    true_division_of_integers=lambda n, x, m, u: n / 2,
    division_of_integers=lambda n, x, m, u: n / (n.abs() + 1),
    floor_division_signs=lambda n, x, m, u: (n // 4, n // -4, x // 0.3),
    remainder_signs=lambda n, x, m, u: (n % 4, n % -4, x % 0.7, x % -0.7),
    fmod_signs=lambda n, x, m, u: (torch.fmod(n, 4), torch.fmod(n, -4), torch.fmod(x, 0.7)),
    trunc_division=lambda n, x, m, u: torch.div(n, 4, rounding_mode="trunc"),
    floor_division_of_floats=lambda n, x, m, u: torch.div(x, n + 20, rounding_mode="floor"),
    integer_power=lambda n, x, m, u: (n**2, n.abs() ** 0.5, 2 ** n.abs()),
    shifts=lambda n, x, m, u: (n << 2, n >> 1, u >> 3),
    bits=lambda n, x, m, u: (n & 6, n | 1, n ^ -1, ~n, ~u),
    truth_bits=lambda n, x, m, u: (m & ~m, m | True, m ^ m[:1]),
    comparison_of_types=lambda n, x, m, u: (n > x, u >= n, m == 1, n != 2.5),
    comparison_chain=lambda n, x, m, u: ((x > -1) & (x < 1)).int().sum(),
    sum_of_truths=lambda n, x, m, u: (m.sum(), m.sum(1), m.float().mean()),
    sum_of_bytes=lambda n, x, m, u: (u.sum(), u.sum(0, dtype=torch.uint8), u.prod(1)),
    cumsum_of_truths=lambda n, x, m, u: m.cumsum(0),
    any_and_all_of_integers=lambda n, x, m, u: (n.any(1), n.all(), u.bool().all(0)),
    max_of_integers=lambda n, x, m, u: n.max(1),
    maximum_of_mixed=lambda n, x, m, u: torch.maximum(n, x),
    clamp_mixed=lambda n, x, m, u: (n.clamp(0.5, 3), n.clamp(max=2), x.clamp(n - 1, n + 1)),
    sqrt_of_integers=lambda n, x, m, u: n.abs().sqrt(),
    exp_of_truths=lambda n, x, m, u: m.exp(),
    sigmoid_of_bytes=lambda n, x, m, u: u.sigmoid(),
    abs_and_sign=lambda n, x, m, u: (n.abs(), n.sign(), x.sign(), n.sgn()),
    rounding_kinds=lambda n, x, m, u: ((x * 2.5).round(), x.trunc(), x.frac()),
    round_half_to_even=lambda n, x, m, u: (n / 2).round(),
    float_to_integer_truncates=lambda n, x, m, u: ((x * 3).int(), (x * 3).long(), x.bool()),
    integer_to_byte_wraps=lambda n, x, m, u: (n * 100).to(torch.uint8),
    type_as=lambda n, x, m, u: x.type_as(n) + n.to(u),
    result_of_where=lambda n, x, m, u: torch.where(m, n, x),
    cat_promotes=lambda n, x, m, u: torch.cat([n, x, m]),
    stack_promotes=lambda n, x, m, u: torch.stack([u, n], 1),
    tensor_of_numbers=lambda n, x, m, u: (
        torch.tensor([1, 2.5, 3]) + torch.tensor([True, False, True])
    ),
    full_infers_type=lambda n, x, m, u: (
        torch.full((2,), 3),
        torch.full((2,), 3.0),
        torch.full((2,), True),
    ),
    arange_kinds=lambda n, x, m, u: (
        torch.arange(5),
        torch.arange(1, 2, 0.25),
        torch.arange(5, 0, -2),
    ),
    linspace=lambda n, x, m, u: torch.linspace(-1, 1, 5) * x[0, 0],
    ones_like_typed=lambda n, x, m, u: (
        torch.ones_like(x, dtype=torch.int32),
        x.new_tensor([1, 2]),
        n.new_ones(2),
    ),
    lerp_and_addcmul=lambda n, x, m, u: (
        torch.lerp(x, x * 2, 0.3),
        torch.addcmul(x, x, x, value=2),
    ),
    add_with_alpha=lambda n, x, m, u: (
        torch.add(n, n, alpha=-2),
        torch.sub(x, n, alpha=3),
        torch.rsub(x, 1),
    ),
    argmax_ties=lambda n, x, m, u: (torch.ones(3, 4).argmax(1), (n % 2).argmin(0), n.argmax()),
    max_propagates_nan=lambda n, x, m, u: torch.where(m, x, float("nan")).max(1).values,
    minimum_propagates_nan=lambda n, x, m, u: (
        torch.minimum(torch.where(m, x, float("nan")), x),
        torch.fmin(torch.where(m, x, float("nan")), x),
    ),
    nan_comparisons=lambda n, x, m, u: (
        torch.where(m, x, float("nan")) == x,
        (x / 0).isinf(),
        (x * float("nan")).isnan(),
    ),
    sort_descending=lambda n, x, m, u: (x.sort(1, descending=True), n.sort(dim=0, stable=True)),
    topk_smallest=lambda n, x, m, u: x.topk(2, 1, largest=False),
    logsumexp_two_axes=lambda n, x, m, u: (x.logsumexp((0, 1)), x.logsumexp(1, keepdim=True)),
    prod_of_axis=lambda n, x, m, u: (n.prod(), x.prod(1, keepdim=True)),
    variance_kinds=lambda n, x, m, u: (
        x.var(),
        x.std(1, keepdim=True),
        torch.var_mean(x, 0, correction=2),
    ),
    aminmax=lambda n, x, m, u: torch.aminmax(x, dim=1),
    count_nonzero=lambda n, x, m, u: (n.count_nonzero(), n.count_nonzero(1)),
    diff=lambda n, x, m, u: (x.diff(dim=0), n.diff(n=2), m.diff()),
    trapezoid=lambda n, x, m, u: torch.trapezoid(x, dx=0.5),
    heaviside=lambda n, x, m, u: torch.heaviside(x, x[0]),
    atan2_of_mixed=lambda n, x, m, u: torch.atan2(x, n),
    gelu_kinds=lambda n, x, m, u: (
        torch.nn.functional.gelu(x),
        torch.nn.functional.gelu(x, approximate="tanh"),
    ),
    isclose=lambda n, x, m, u: (torch.isclose(x, x + 1e-7), torch.isin(n, torch.tensor([1, 2]))),
    logical_of_numbers=lambda n, x, m, u: (
        torch.logical_and(n, x),
        torch.logical_xor(m, n),
        torch.logical_not(u),
    ),
    float_scalar_of_integer_tensor=lambda n, x, m, u: x * n.sum() + n.max(),
    fmax_of_nan=lambda n, x, m, u: torch.fmax(torch.where(m, x, float("nan")), x * 2),
)


# What is between operators of half types is float32: it is not rounded (docs/pytorch.md).
CASES.each(
    whole(3, 4),
    floats(3, 4),
    truths(3, 4),
    whole(3, 4, dtype=torch.uint8, low=0, high=250),
    tolerance=1e-2,
    half_plus_number=lambda n, x, m, u: x.half() + 1,
    half_and_float=lambda n, x, m, u: x.half() * x,
    half_and_bfloat=lambda n, x, m, u: x.half() + x.bfloat16(),
    half_and_integers=lambda n, x, m, u: x.half() + n,
    mean_of_half=lambda n, x, m, u: x.half().mean(1),
    cast_chain=lambda n, x, m, u: x.half().float().bfloat16().double(),
    where_with_half=lambda n, x, m, u: torch.where(m, x.half(), 0.0),
    softmax_of_other_type=lambda n, x, m, u: x.half().softmax(1, dtype=torch.float32),
)


CASES.each(
    floats(3, 4),
    signbit=lambda x: torch.signbit(-x * 0),
    copysign=lambda x: torch.copysign(x, x[0]),
    round_to_decimals=lambda x: (x * 100).round(decimals=-1),
    kthvalue=lambda x: x.kthvalue(2, 1),
    median=lambda x: (x.median(1), x.median()),
    hypot=lambda x: torch.hypot(x, x[0]),
)


CASES.each(
    floats(3, 4),
    refused="not supported",
    digamma=lambda x: (x.digamma(), torch.polygamma(1, x)),
    special_bessel=lambda x: torch.special.bessel_j0(x),
)


@of(floats(3, 4))
def index_by_truth_list(x):
    return x[:, [True, False, True, True]]


@of(floats(3, 4), truths(3, 4))
def mask_chooses(x, mask):
    return x[mask]


@of(floats(3, 4))
def nonzero(x):
    return x.nonzero()


@of(whole(6))
def unique(n):
    return n.unique()


@of(floats(3, 4), truths(3, 4))
def masks_choose_twice(x, mask):
    chosen = x[mask]
    return (
        chosen.sum(),
        torch.masked_select(x, mask[:1]) * 2,
        x.masked_scatter(mask, x.flip(0)),
        chosen[chosen > 0].sort().values,
    )


@of(floats(5, 4), truths(5))
def rows_that_a_mask_chooses(x, mask):
    rows = torch.where(mask)[0]
    y = torch.zeros_like(x)
    y[rows] = x[rows] * 2
    return y, x[mask][:, None].exp(), x[:, x[0] > 0], rows.shape[0]


@of(whole(9, low=0, high=4))
def unique_with_counts(n):
    return n.unique(return_inverse=True, return_counts=True)


@of(floats(4), refused="random")
def random_numbers(x):
    return x + torch.rand(4)


@of(floats(3, 4), truths(3, 4))
def mask_sum_without_choosing(x, mask):
    return (x * mask).sum() / mask.sum(), torch.where(mask, x, -torch.inf).amax(1)
