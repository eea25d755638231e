"""Attention, kept as one operator."""

import torch

from .table import aten


@aten("scaled_dot_product_attention", ops="Attention")
def scaled_dot_product_attention(
    g,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    if dropout_p:
        g.refuse("dropout of a module in training mode is random; call .eval() on the module first")
    inputs, rank = [query, key, value], query.rank
    shapes = [list(each.shape) for each in inputs]
    if rank != 4 or any(shape[:1] != shapes[0][:1] for shape in shapes):
        batch = list(torch.broadcast_shapes(*(shape[:-2] for shape in shapes)))
        if any(shape[:-2] != batch for shape in shapes):
            inputs = [
                g.node("Expand", [each, g.ints([*batch, *shape[-2:]])])
                for each, shape in zip(inputs, shapes)
            ]
        inputs = [g.reshape(each, [1, -1, *shape[-2:]]) for each, shape in zip(inputs, shapes)]
    mask = attn_mask
    if mask is not None and rank != 4 and mask.rank > 2:
        mask = g.reshape(
            mask
            if list(mask.shape[:-2]) == list(query.shape[:-2])
            else g.node("Expand", [mask, g.ints([*query.shape[:-2], *mask.shape[-2:]])]),
            [1, -1, *mask.shape[-2:]],
        )
    result = g.node(
        "Attention",
        [*inputs, mask],
        is_causal=int(is_causal),
        scale=None if scale is None else float(scale),
    )
    return g.reshape(result, g.out.shape) if rank != 4 else result
