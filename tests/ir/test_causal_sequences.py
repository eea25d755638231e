"""Attention of one sequence whose length a run gives: queries see the keys up to their own
position. Against NumPy in float64; what lies behind the length must not matter, be it NaN."""

import numpy as np
import pytest

import tc

from ..support import worst_error
from . import test_attention_masks as masks

RANDOM = np.random.default_rng(7)


def operands(heads, key_heads, queries, length, size, value_size):
    keys = length + 3
    q = RANDOM.standard_normal((1, heads, queries, size)).astype(np.float32)
    k = RANDOM.standard_normal((1, key_heads, keys, size)).astype(np.float32)
    v = RANDOM.standard_normal((1, key_heads, keys, value_size)).astype(np.float32)
    k[:, :, length:] = v[:, :, length:] = np.nan
    return {"q": q, "k": k, "v": v, "lengths": np.array([length])}


def expected(q, k, v, lengths, scale=None):
    """Queries that see no key, as they stand before the first one, give 0."""
    (length,), (queries, size) = lengths, q.shape[2:]
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each.astype(np.float64)[:, :, :length], groups, 1) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (size**-0.5 if scale is None else scale)
    seen = np.arange(length) <= length - queries + np.arange(queries)[:, None]
    scores = np.where(seen, scores, -np.inf)
    powers = np.exp(scores - np.where(seen.any(-1), scores.max(-1, initial=-1e9), 0)[..., None])
    return powers @ v / np.maximum(powers.sum(-1, keepdims=True), 1e-300)


def compiled(heads, key_heads, size, value_size, **attributes):
    inputs = {
        **operands(heads, key_heads, 2, 4, size, value_size),
        "mask": None,
        "p": None,
        "w": None,
    }
    names = ("q", "k", "v", "mask", "p", "w", "lengths")
    sizes = {
        "q": [1, heads, "s", size],
        "k": [1, key_heads, "t", size],
        "v": [1, key_heads, "t", value_size],
        "lengths": [1],
    }
    ordered = {name: inputs[name] for name in names}
    return tc.compile(
        masks.model(ordered, {"is_causal": 1, **attributes}, 25, sizes), log=False, threads=1
    )


# Groups of heads that share keys, and sizes that fill no vector.
@pytest.mark.parametrize("heads", [(9, 3, 64, 64), (4, 1, 24, 25), (6, 2, 8, 9), (2, 2, 7, 5)])
def test_lengths(heads):
    module = compiled(*heads)
    # Tiles that are whole, cut by the edge, cut by the last query, and empty.
    for queries in (1, 2, 5, 14, 33, 70):
        for length in {0, 1, queries - 1, queries, queries + 1, queries + 16, queries + 97}:
            given = operands(*heads[:2], queries, length, *heads[2:])
            assert worst_error(module.run(given)["y"], expected(**given)) < 2e-6, (queries, length)


@pytest.mark.parametrize("scale", [0.3, 0.0, -0.5])
def test_scales(scale):
    """Minus infinity times 0 is no number, and times a number below 0 the largest."""
    module = compiled(4, 2, 8, 8, scale=scale)
    given = operands(4, 2, 6, 9, 8, 8)
    assert worst_error(module.run(given)["y"], expected(**given, scale=scale)) < 2e-6
