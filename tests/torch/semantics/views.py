"""Views of views, steps, strides, and axes of size zero and one."""

import torch

from .cases import Cases, floats, truths, whole

CASES = Cases()

CASES.each(
    floats(4, 6),
    slice_of_transpose=lambda x: x.t()[1:, ::2],
    transpose_of_slice=lambda x: x[1:, ::2].t(),
    slice_of_slice_of_slice=lambda x: x[1:][:, 1:][::2, ::3],
    view_of_slice=lambda x: x[1:3].view(12),
    reshape_of_transpose=lambda x: x.t().reshape(4, 6),
    reshape_of_strided_slice=lambda x: x[:, ::2].reshape(-1),
    view_minus_one=lambda x: x.view(2, -1, 3)[1],
    double_flip=lambda x: x.flip(0).flip(1).flip((0, 1)),
    flip_of_slice=lambda x: x[1:, :4].flip(-1),
    flipped_then_stepped=lambda x: x.flip(1)[:, ::2],
    negative_bounds=lambda x: x[-3:-1, -5:-2],
    bounds_beyond=lambda x: x[-100:100, 2:100],
    crossing_bounds=lambda x: x[3:1],
    ellipsis_last=lambda x: x[..., -1],
    ellipsis_and_none=lambda x: x[None, ..., None, 2],
    none_between=lambda x: x[:, None, 1:3],
    many_nones=lambda x: x[None, None, :, None, :, None].squeeze(),
    integer_drops_axis=lambda x: x[1][2],
    negative_integer=lambda x: x[-1, -2],
    select_then_unsqueeze=lambda x: x.select(1, 3).unsqueeze(0).unsqueeze(-1),
    narrow_twice=lambda x: x.narrow(0, 1, 3).narrow(1, 2, 2),
    narrow_negative=lambda x: x.narrow(1, -4, 2),
    chunk_uneven=lambda x: torch.cat([part * (n + 1) for n, part in enumerate(x.chunk(4, 1))], 1),
    chunk_more_than_there_are=lambda x: [part.sum() for part in x.chunk(9, 0)],
    split_uneven=lambda x: x.split([1, 3, 2], 1)[1],
    split_by_size=lambda x: torch.stack([part.mean() for part in x.split(4, 1)]),
    tensor_split_places=lambda x: torch.tensor_split(x, (1, 1, 3), 0),
    tensor_split_sections=lambda x: torch.tensor_split(x, 4, 1),
    hsplit_vsplit=lambda x: (x.hsplit(3)[2], x.vsplit((2,))[1]),
    unbind_rows=lambda x: x.unbind(0)[-1] - x.unbind(1)[0].sum(),
    unflatten=lambda x: x.unflatten(1, (2, 3)).permute(1, 0, 2),
    unflatten_minus_one=lambda x: x.unflatten(-1, (-1, 2)),
    flatten_of_permuted=lambda x: x.view(2, 2, 6).permute(2, 0, 1).flatten(1),
    movedim=lambda x: x.view(2, 2, 3, 2).movedim((0, -1), (2, 0)),
    swapaxes=lambda x: x.view(2, 2, 6).swapaxes(0, -1),
    expand_new_axes=lambda x: x.expand(3, 2, -1, -1),
    expand_then_slice=lambda x: x[:, :1].expand(-1, 5)[:, ::2],
    expand_as_itself=lambda x: x[:1].expand_as(x) + x,
    broadcast_to=lambda x: torch.broadcast_to(x[0], (2, 3, 6)),
    broadcast_tensors=lambda x: torch.broadcast_tensors(x[:, :1], x[:1]),
    repeat_more_axes=lambda x: x[:2, :2].repeat(2, 1, 3),
    repeat_zero=lambda x: x.repeat(0, 2),
    tile_fewer_axes=lambda x: x.tile((2,)),
    roll_two_axes=lambda x: x.roll((1, -2), (0, 1)),
    roll_flat=lambda x: x.roll(5),
    roll_beyond=lambda x: x.roll(-13, 1),
    rot90=lambda x: torch.rot90(x, 3, (0, 1)),
    rot90_once=lambda x: torch.rot90(x),
    fliplr_flipud=lambda x: x.fliplr() + x.flipud(),
    diagonal_above=lambda x: x.diagonal(2),
    diagonal_below=lambda x: x.diagonal(-1) * 2,
    diag_embed=lambda x: torch.diag_embed(x[0, :3], 1),
    diag_of_vector=lambda x: torch.diag(x[0], -1),
    tril_of_slice=lambda x: x[:, 1:].tril(-1),
    triu_beyond=lambda x: x.triu(9),
    block_diag=lambda x: torch.block_diag(x[:2, :2], x[0, 0], x[0]),
    unfold_overlapping=lambda x: x.unfold(1, 3, 1),
    unfold_of_unfold=lambda x: x.unfold(0, 2, 1).unfold(1, 4, 2),
    unfold_with_gaps=lambda x: x.unfold(1, 2, 4),
    as_strided_overlapping=lambda x: x.as_strided((4, 3), (2, 1)),
    as_strided_offset=lambda x: x.as_strided((2, 2), (1, 6), 3),
    as_strided_zero_stride=lambda x: x.as_strided((3, 5), (0, 1)),
    as_strided_of_transpose=lambda x: x.t().as_strided((3, 3), (1, 4)),
    as_strided_of_slice=lambda x: x[1:].as_strided((2, 3), (3, 1)),
    kron=lambda x: torch.kron(x[:2, :2], x[2:, :1]),
    cartesian=lambda x: torch.cartesian_prod(x[0, :2], x[1, :3]),
    meshgrid_both=lambda x: (
        torch.meshgrid(x[0], x[:, 0], indexing="xy") + torch.meshgrid(x[0], x[:, 0], indexing="ij")
    ),
    atleast=lambda x: (torch.atleast_1d(x[0, 0]), torch.atleast_2d(x[0]), torch.atleast_3d(x)),
    stack_of_views=lambda x: torch.stack([x[:2], x[2:], x.flip(0)[:2]], 1),
    column_stack=lambda x: torch.column_stack([x[:, 0], x[:, 1:3]]),
    dstack_of_vectors=lambda x: torch.dstack([x[0], x[1]]),
)

CASES.each(
    floats(2, 3, 4, 5),
    channels_last=lambda x: x.contiguous(memory_format=torch.channels_last)[:, 1:],
    flatten_channels_last=lambda x: x.to(memory_format=torch.channels_last).flatten(),
    permute_negative=lambda x: x.permute(-1, 0, -2, 1)[1:, ..., 0],
    matrix_transpose=lambda x: x.mT @ x,
    diagonal_of_inner_axes=lambda x: x.diagonal(1, -1, 1),
    select_middle=lambda x: x[:, 1, :, 2],
    nested_slices=lambda x: x[1:, :, 1:3][0][:, :: -1 + 2][..., 1::2],
    squeeze_of_nothing=lambda x: x.squeeze().squeeze(0),
    squeeze_many=lambda x: x[:1, :, :1].squeeze((0, 2)),
    sum_of_permuted=lambda x: x.permute(3, 1, 0, 2).sum((1, 3)),
    pixel_shuffle=lambda x: torch.pixel_shuffle(x.reshape(1, 4, 5, 6), 2),
    pixel_unshuffle=lambda x: torch.pixel_unshuffle(x[..., :4], 2),
    channel_shuffle=lambda x: torch.nn.functional.channel_shuffle(x.transpose(1, 2), 2),
    unfold_images=lambda x: torch.nn.functional.unfold(x, (2, 3), padding=1, stride=2),
    fold_images=lambda x: torch.nn.functional.fold(x.reshape(1, 12, 10), (3, 6), 2),
    pad_negative=lambda x: torch.nn.functional.pad(x, (-1, 2, 1, -2)),
    pad_reflect=lambda x: torch.nn.functional.pad(x, (2, 1, 0, 3), "reflect"),
    pad_circular=lambda x: torch.nn.functional.pad(x, (1, 2, 3, 0), "circular"),
    pad_value=lambda x: torch.nn.functional.pad(x, (0, 0, 1, 1, 2, 0), value=-7.5),
)

CASES.each(
    floats(0, 3),
    floats(2, 0, 4),
    empty_sum=lambda x, y: (x.sum(), x.sum(0), y.sum(1)),
    empty_prod_and_any=lambda x, y: (x.prod(0), (y > 0).any(1), (y > 0).all(1)),
    empty_concatenation=lambda x, y: torch.cat([x, x + 1]),
    empty_product=lambda x, y: x.t() @ x,
    empty_batch_product=lambda x, y: y.transpose(1, 2) @ y,
    empty_softmax=lambda x, y: (x.softmax(1), y.softmax(1)),
    empty_reshape=lambda x, y: x.reshape(3, 0),
    empty_broadcast=lambda x, y: y + y[:1],
    empty_mean_is_nan=lambda x, y: y.mean(1),
    empty_linear=lambda x, y: torch.nn.functional.linear(x, torch.ones(2, 3), torch.ones(2)),
    empty_sort=lambda x, y: x.sort(0),
    empty_cumsum=lambda x, y: y.cumsum(1),
    empty_stack=lambda x, y: torch.stack([x, x], -1),
    empty_pad=lambda x, y: torch.nn.functional.pad(x, (0, 0, 1, 1)),
    empty_where=lambda x, y: torch.where(y > 0, y, y[:, :, :1]),
    empty_layer_norm=lambda x, y: torch.nn.functional.layer_norm(x, (3,)),
)

CASES.each(
    floats(1, 3, 1),
    floats(1).reshape(()),
    ones_squeeze_all=lambda x, y: x.squeeze(),
    ones_squeeze_wrong=lambda x, y: x.squeeze(1),
    ones_broadcast_both=lambda x, y: x + x.transpose(1, 2) * y,
    scalar_shapes=lambda x, y: (y.reshape(1), y.expand(2, 2), y.unsqueeze(-1), y.view(1, 1)),
    scalar_reductions=lambda x, y: (y.sum(), y.max(), y.mean(0), y.argmax(), y.std(correction=0)),
    scalar_softmax=lambda x, y: (y.softmax(0), y.cumsum(0), y.sort(-1)),
    scalar_stack=lambda x, y: torch.stack([y, y * 2, x.sum()]),
    scalar_concatenation=lambda x, y: torch.cat([y.reshape(1), x.flatten()]),
    scalar_transpose=lambda x, y: (y.t(), y.flatten(), y.flip(())),
    scalar_index=lambda x, y: (y[None], y[...], y[None, ..., None]),
    scalar_tensor_operand=lambda x, y: torch.tensor(2) * x + torch.tensor(1.5) - y,
    variance_of_one=lambda x, y: x.var(0, correction=0) + x.std(2, correction=0),
    normalised_single=lambda x, y: torch.nn.functional.normalize(x, dim=1),
    interpolate_single=lambda x, y: torch.nn.functional.interpolate(x, size=4, mode="nearest"),
)

CASES.each(
    whole(3, 4),
    truths(3, 4),
    view_of_integers=lambda x, m: x.t()[::3] // 2,
    flip_of_truths=lambda x, m: m.flip(0) ^ m,
    expand_of_truths=lambda x, m: m[0].expand(3, 4) & m,
    stacked_truths=lambda x, m: torch.stack([m, ~m], 0).sum(0),
    roll_of_integers=lambda x, m: x.roll(1, 0) % 3,
    unfold_of_integers=lambda x, m: x.unfold(1, 2, 2).sum(-1),
    tril_of_truths=lambda x, m: (m.tril(), x.triu(1)),
    diagonal_of_truths=lambda x, m: m.diagonal(1),
    repeat_interleave=lambda x, m: x.repeat_interleave(2, 1) + m.repeat_interleave(2, 1),
    repeat_interleave_flat=lambda x, m: x.repeat_interleave(3),
)


@CASES.of(floats(4, 6), refused="outside of the operand")
def as_strided_of_slice_offset(x):
    return x[1:].as_strided((2, 3), (3, 1), 0)


CASES.each(
    floats(4, 6),
    view_as_real_type=lambda x: x.view(torch.int32) & 0x7FFFFFFF,
    view_of_other_size=lambda x: x.view(torch.int16)[..., ::2],
    view_there_and_back=lambda x: (
        (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32),
        x.half().view(torch.int16),
    ),
)

CASES.each(
    floats(4, 6),
    refused="cannot be exported by torch.export",
    combinations=lambda x: torch.combinations(x[0, :4], 2),
)
