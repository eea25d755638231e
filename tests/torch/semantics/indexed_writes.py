"""Writing in place where an index or a mask says."""

import torch

from .cases import Cases, floats, truths, whole

CASES = Cases()
of = CASES.of


@of(floats(3, 4), whole(2, low=0, high=3))
def index_copy_in_place(x, places):
    y = torch.zeros(3, 4)
    y.index_copy_(0, torch.tensor([2, 0]), x[:2])
    y.index_add_(0, places, x[1:], alpha=2)
    y.index_fill_(1, torch.tensor([3]), -1)
    return y


@of(floats(3, 4), whole(3, 4, low=0, high=3))
def scatter_add_repeated(x, places):
    y = torch.ones(3, 4)
    y.scatter_add_(0, places, x)
    return y


@of(floats(3, 4), whole(2, 3, low=0, high=4))
def scatter_smaller_index(x, places):
    return torch.zeros(3, 4).scatter_add_(1, places, x)


@of(floats(3, 4))
def scatter_number(x):
    y = x.clone()
    y.scatter_(1, torch.tensor([[0], [3], [1]]), 9.0)
    y[1:].scatter_(0, torch.tensor([[1, 0, 1, 0]]), x[:1])
    return y


@of(floats(3, 4), whole(3, 4, low=0, high=3))
def scatter_reduce_kinds(x, places):
    start = torch.full((3, 4), 0.5)
    return [start.scatter_reduce(0, places, x, kind) for kind in ("sum", "prod", "amax", "amin")]


@of(floats(3, 4), whole(3, 4, low=0, high=3))
def scatter_reduce_without_self(x, places):
    start = torch.full((3, 4), 0.5)
    return [
        start.scatter_reduce(0, places, x, kind, include_self=False)
        for kind in ("sum", "prod", "amax", "amin")
    ]


@of(floats(3, 4), truths(3, 4))
def masked_fill_in_place(x, mask):
    y = x.clone()
    y.masked_fill_(mask, -1)
    y[:, 1:].masked_fill_(mask[:, :1], 3)
    return y


@of(floats(3, 4), truths(3, 4))
def mask_assignment_of_number(x, mask):
    y = x.clone()
    y[mask] = 0
    y[y < -1] = -1
    return y


@of(floats(3, 4), truths(3))
def mask_of_rows_assignment(x, mask):
    y = x.clone()
    y[mask] = 0.5
    y[:, torch.tensor([True, False, False, True])] = 2
    return y


@of(floats(3, 4), truths(3, 4))
def masked_update(x, mask):
    y = x.clone()
    y[mask] *= 2
    return y


@of(floats(3, 4), truths(3, 4), refused="nothing says that a mask chooses|depends on data")
def mask_assignment_of_many(x, mask):
    y = x.clone()
    y[mask] = torch.arange(12.0)[: mask.sum()]
    return y


@of(floats(3, 4), whole(2, low=0, high=3))
def index_assignment(x, places):
    y = x.clone()
    y[places] = 1
    y[:, [1, 3]] = x[:, :2]
    return y


@of(floats(3, 4))
def index_pairs_assignment(x):
    y = x.clone()
    y[[0, 1, 2], [3, 2, 1]] = torch.tensor([10.0, 20.0, 30.0])
    return y


@of(floats(3, 4))
def index_put_accumulates(x):
    y = x.clone()
    y.index_put_(
        (torch.tensor([0, 0, 2]), torch.tensor([1, 1, 3])),
        torch.tensor([1.0, 2.0, 3.0]),
        accumulate=True,
    )
    return y


@of(floats(2, 3, 4))
def index_with_slice_between_assignment(x):
    y = x.clone()
    y[[0, 1], :, [1, 2]] = torch.tensor([5.0, 6.0, 7.0])
    return y


@of(floats(3, 4))
def negative_index_assignment(x):
    y = x.clone()
    y[-1, [-1, -3]] = 8
    y[torch.tensor([-2])] += 1
    return y


@of(floats(3, 4))
def assignment_with_none_and_ellipsis(x):
    y = x.clone()
    y[None, ..., 1] = 0
    y[..., None, -1] = x[:, :1]
    return y
