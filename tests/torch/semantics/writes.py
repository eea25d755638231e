"""Writing in place: into slices, views and arguments, with what else looks at the same memory."""

import torch

from .cases import Cases, floats, truths, whole

CASES = Cases()
of = CASES.of


@of(floats(4, 6))
def add_to_slice(x):
    y = x.clone()
    y[1:3] += 1
    return y


@of(floats(4, 6))
def write_to_view_of_view(x):
    y = x.clone()
    y.t()[2:][:, 1:].mul_(10)
    return y


@of(floats(4, 6))
def write_is_seen_by_earlier_view(x):
    y = x.clone()
    row, column = y[1], y[:, 2]
    y[1, 2] = 100
    return row, column, y


@of(floats(4, 6))
def write_through_one_view_read_by_other(x):
    y = x * 1
    flat = y.view(-1)
    flat[::2] = 0
    return y.t() + 1, flat.sum()


@of(floats(4, 6), floats(6))
def broadcasting_assignment(x, row):
    y = x.clone()
    y[:, :] = row
    y[1:3, ::2] = row[:1]
    return y


@of(floats(4, 6))
def number_assignment_with_step(x):
    y = x.clone()
    y[::3, 1::2] = -1
    return y


@of(floats(4, 6))
def assignment_from_itself(x):
    y = x.clone()
    y[:, 1:] = y[:, :-1].clone()
    return y


@of(floats(4, 6))
def swap_rows(x):
    y = x.clone()
    y[[0, 2]] = y[[2, 0]]
    return y


@of(floats(3, 3))
def argument_is_written(x):
    x.add_(1)
    return x * 2


@of(floats(3, 3))
def argument_is_written_and_given(x):
    x.mul_(2)
    return x


@of(floats(3, 3))
def view_of_argument_is_written(x):
    x[0].fill_(5)
    x.t()[1].zero_()
    return x.sum()


@of(floats(3, 3), floats(3))
def argument_row_is_copied_into(x, row):
    x[1].copy_(row)
    row.neg_()
    return x @ row


@of(floats(3, 3))
def argument_is_written_twice(x):
    x[0, 0] = 1
    y = x * 3
    x[0, 0] = 2
    return y + x


@of(floats(3, 3))
def argument_as_it_was(x):
    before = x.clone()
    x.zero_()
    return before


@of(floats(3, 3))
def aliasing_outputs(x):
    y = x + 1
    return y, y, y.t(), y[0]


@of(floats(3, 3))
def output_is_the_argument(x):
    return x, x.t(), x.detach()


@of(floats(3, 3))
def output_written_after_view(x):
    y = x + 1
    view = y[1]
    y *= 2
    return view, y


@of(floats(4, 4))
def fill_diagonal(x):
    y = x.clone()
    y.fill_diagonal_(0)
    y.diagonal(1).add_(7)
    return y


@of(floats(4, 4))
def diagonal_copy(x):
    y = torch.zeros(4, 4)
    y.diagonal().copy_(x[0])
    return y


@of(floats(2, 8))
def as_strided_write(x):
    y = x.clone()
    y.as_strided((2, 3), (8, 2)).fill_(1)
    return y


@of(floats(2, 8))
def as_strided_write_of_offset(x):
    y = x.clone()
    y.as_strided((3,), (5,), 1).mul_(0)
    return y


@of(floats(2, 8))
def windows_are_written(x):
    y = x.clone()
    y.unfold(1, 2, 2)[:, 1].add_(1)
    return y


@of(floats(2, 8), refused="windows")
def windows_with_gaps_are_written(x):
    y = x.clone()
    y.unfold(1, 2, 4).add_(1)
    return y


@of(floats(2, 8), refused="windows")
def view_of_overlapping_windows_is_written(x):
    y = x.clone()
    y.unfold(1, 3, 1)[:, ::3][0].t()[0].fill_(4)
    return y


@of(floats(2, 6))
def chunk_write(x):
    y = x.clone()
    a, b, c = y.chunk(3, 1)
    a.copy_(b)
    c.add_(a)
    return y


@of(floats(2, 6))
def split_write(x):
    y = x.clone()
    for number, part in enumerate(y.split([1, 2, 3], 1)):
        part *= number
    return y


@of(floats(2, 6))
def unbind_write(x):
    y = x.clone()
    for row in y.unbind(1)[::2]:
        row.sub_(3)
    return y


@of(floats(2, 6))
def squeeze_write(x):
    y = x[:, :1].clone()
    y.squeeze(1).add_(2)
    y.unsqueeze(0).mul_(3)
    return y


@of(floats(2, 6))
def transpose_in_place(x):
    y = x.clone()
    y.t_()
    y.unsqueeze_(0)
    y.squeeze_(0)
    return y


@of(floats(2, 6))
def resize_of_axes_in_place(x):
    y = x.clone()
    y.transpose_(0, 1).swapaxes_(0, 1)
    return y


@of(floats(5))
def clamp_in_place(x):
    y = x.clone()
    y.clamp_(-0.5, 0.5).abs_().sqrt_()
    return y


@of(floats(5))
def relu_in_place_of_slice(x):
    y = x.clone()
    torch.nn.functional.relu_(y[1:4])
    return y


@of(floats(5))
def chain_in_place(x):
    return x.clone().add_(1).mul_(2).sub_(3).div_(4).pow_(2).neg_()


@of(floats(5), floats(5))
def addcmul_in_place(x, y):
    z = x.clone()
    z.addcmul_(y, y, value=0.5).addcdiv_(x, y.abs() + 1, value=-2).lerp_(y, 0.25)
    return z


@of(floats(3, 4))
def assignment_of_integers_to_floats(x):
    y = x.clone()
    y[0] = torch.arange(4)
    y[1:] = True
    return y


@of(whole(3, 4), floats(3, 4))
def assignment_of_floats_to_integers(n, x):
    y = n.clone()
    y[1] = x[0] * 3
    y.copy_(x * 2)
    return y


@of(whole(3, 4))
def integer_division_in_place(n):
    y = n.clone()
    y //= 4
    y %= 3
    y <<= 1
    return y


@of(truths(3, 4), truths(3, 4))
def logic_in_place(a, b):
    c = a.clone()
    c &= b
    c |= ~a
    c ^= True
    return c


@of(floats(3, 4))
def concatenation_with_out_of_place_views(x):
    y = x.clone()
    parts = [y[:, :2], y[:, 2:]]
    parts[0].add_(1)
    return torch.cat(parts[::-1], 1), y


@of(floats(3, 4))
def empty_then_filled(x):
    y = torch.empty(3, 4)
    y[:, :2] = x[:, 2:]
    y[:, 2:] = x[:, :2]
    return y


@of(floats(3, 4))
def new_zeros_filled_in_loop(x):
    y = x.new_zeros(4, 3)
    for row in range(4):
        for column in range(3):
            if row != column:
                y[row, column] = x[column, row] * row
    return y


@of(floats(6))
def running_sum_in_place(x):
    y = x.clone()
    for place in range(1, 6):
        y[place] += y[place - 1]
    return y


@of(floats(3, 4))
def out_argument(x):
    y = torch.empty(3, 4)
    torch.add(x, 1, out=y)
    torch.mul(y, 2, out=y)
    return y


@of(floats(3, 4))
def out_argument_of_view(x):
    y = torch.zeros(3, 4)
    torch.abs(x[1], out=y[2])
    return y


@of(floats(4, 4))
def matrix_in_place(x):
    y = x.clone()
    y.addmm_(x, x, beta=0.5, alpha=2)
    y[0].addmv_(x, x[1])
    return y


@of(floats(2, 3, 3))
def batched_matrix_in_place(x):
    y = x.clone()
    y.baddbmm_(x, x, beta=0)
    return y


@of(floats(3, 4))
def cumulative_in_place(x):
    y = x.clone()
    y[1:].cumsum_(1)
    y[:, ::2].cumprod_(0)
    return y


@of(floats(3, 4))
def sort_written_after(x):
    values, places = x.sort(1)
    values[:, 0] = places[:, 0].float()
    return values, places


@of(floats(3, 4), refused="torch.export")
def detached_alias_is_written(x):
    y = x.clone()
    y.detach()[0] = 1
    y.data[1] = 2
    return y


@of(floats(3, 4))
def set_of_same_memory_by_reshape(x):
    y = x.clone()
    y.reshape(-1)[3] = 50
    y.t().reshape(-1)[3] = 70  # a copy
    return y


@of(floats(3, 4))
def expanded_is_read_after_write(x):
    y = x[:1].clone()
    wide = y.expand(3, 4)
    y.add_(1)
    return wide * x


@of(floats(3, 4))
def roll_into_slice(x):
    y = x.clone()
    y[1:] = x.roll(1, 0)[1:]
    y[:, 0] = x[:, -1]
    return y.tril_()


@of(floats(1, 2, 3, 3))
def pad_then_write(x):
    y = torch.nn.functional.pad(x, (1, 1, 1, 1))
    y[..., 0, :] = y[..., 1, :]
    y[..., -1] = 4
    return y


@of(floats(2, 3))
def type_of_in_place_stays(x):
    y = torch.zeros(2, 3, dtype=torch.float16)
    y += x
    z = torch.ones(2, 3, dtype=torch.int32)
    z *= 3
    return y, z


@of({"state": floats(3)}, floats(3))
def dictionary_entry_is_written(given, x):
    given["state"] += x
    return given["state"] * 2


@of([floats(3), floats(3)])
def list_entry_is_written(given):
    given[1].mul_(0.5)
    return given[0] + given[1]


@of(floats(2, 3))
def nan_to_num_in_place(x):
    y = x / 0.0
    y[0, 0] = float("nan")
    return y.nan_to_num_(1.0, 2.0, -2.0)


@of(whole(8))
def integers_scattered_as_histogram(n):
    return torch.zeros(19, dtype=torch.int64).index_add_(0, n + 9, torch.ones(8, dtype=torch.int64))


@of(floats(4, 3))
def masked_scatter_by_where(x):
    y = x.clone()
    y.copy_(torch.where(y > 0, y, y * 0.1))
    return y


@of(floats(3, 3), refused="random")
def random_in_place(x):
    return x.clone().normal_()


@of(floats(2, 4))
def view_of_view_after_write_to_base(x):
    base = x.clone()
    inner = base.view(2, 2, 2)[:, 1].t()
    base.view(-1)[5] = 42
    return inner, inner.t()[0]


@of(floats(2, 4))
def write_while_iterating(x):
    y = x.clone()
    for row in y:
        row[row.shape[0] // 2 :] = row[0]
    return y


@of(floats(2, 4))
def zero_size_write(x):
    y = x.clone()
    y[2:] = 5
    y[:, 4:] += 1
    return y


@of(floats(5))
def fill_by_tensor(x):
    y = x.clone()
    y[1:].fill_(x[0])
    y[0].copy_(x[4])
    return y
