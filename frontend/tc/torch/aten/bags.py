"""Embedding bags: sums, means and maxima of embeddings."""

import math

import numpy as np
import torch

from .table import aten

_SUM, _MEAN, _MAX = range(3)


@aten("_embedding_bag_forward_only", "_embedding_bag", ops="Gather, CumSum, ScatterND")
def embedding_bag(
    g,
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=_SUM,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    dtype, (bags, width), count = weight.dtype, g.out[0].shape, indices.shape[0]
    places = g.cast(indices, torch.int64)
    rows = g.node("Gather", [weight, places], axis=0)
    if per_sample_weights is not None:
        rows = g.node("Mul", [rows, g.reshape(per_sample_weights, [count, 1])])
    kept = None
    if padding_idx >= 0:
        kept = g.node("Not", [g.node("Equal", [places, g.constant(padding_idx, torch.int64)])])
        fill = g.constant(-math.inf if mode == _MAX else 0, dtype)
        rows = g.node("Where", [g.reshape(kept, [count, 1]), rows, fill])
    bag = _bag_of_each(g, offsets, include_last_offset, count)
    targets = g.node("Unsqueeze", [bag, g.ints([1])])
    first = g.full([bags, width], -math.inf if mode == _MAX else 0, dtype)
    result = g.node("ScatterND", [first, targets, rows], reduction="max" if mode == _MAX else "add")
    if mode != _SUM:
        each = g.full([count], 1, dtype) if kept is None else g.cast(kept, dtype, torch.bool)
        size = g.node(
            "ScatterElements", [g.full([bags], 0, dtype), bag, each], axis=0, reduction="add"
        )
        size = g.reshape(size, [bags, 1])
        if mode == _MEAN:
            result = g.node("Div", [result, g.node("Max", [size, g.constant(1, dtype)])])
        else:
            result = g.node(
                "Where",
                [g.node("Equal", [size, g.constant(0, dtype)]), g.constant(0, dtype), result],
            )
    return result, None, None, None


def _bag_of_each(g, offsets, include_last, count):
    """The bag of each index: the number of bags that begin at or before it, minus one."""
    begins = g.cast(offsets, torch.int64)
    if include_last:
        begins = g.slice(begins, 0, 0, -1)
        bags = offsets.shape[0] - 1
    else:
        bags = offsets.shape[0]
    # Empty bags at the end begin after the last index, hence one more element.
    marks = g.node(
        "ScatterElements",
        [g.full([count + 1], 0, torch.int64), begins, g.full([bags], 1, torch.int64)],
        axis=0,
        reduction="add",
    )
    sums = g.node("CumSum", [g.slice(marks, 0, 0, count), g.array(np.array(0))])
    return g.node("Sub", [sums, g.constant(1, torch.int64)])
