"""The angles by which rotary position embeddings rotate the pairs of a head, for each scaling that
models use."""

import math

import numpy as np

# `yarn` leaves pairs unchanged that make at least _FAST_TURNS turns in the training's context, and
# stretches those that make at most _SLOW_TURNS.
_FAST_TURNS, _SLOW_TURNS = 32.0, 1.0


def frequencies(rotary):
    """(radians per position for each pair, factor of cosines and sines)"""
    pairs = np.arange(0, rotary.size, 2, dtype=np.float64) / rotary.size
    turns = rotary.base**-pairs
    if rotary.scaling == "linear":
        return turns / rotary.factor, 1.0
    if rotary.scaling == "yarn":
        return _yarn(rotary, turns)
    return turns, rotary.attention_factor if rotary.scaling == "longrope" else 1.0


def _yarn(rotary, turns):
    """Slow pairs are stretched by the factor, fast ones stay, those in between are interpolated by
    their index."""

    def place(count):
        """The index of the pair that makes so many turns in the training's context."""
        return (
            rotary.size
            * math.log(rotary.original_context / (count * 2 * math.pi))
            / (2 * math.log(rotary.base))
        )

    low = max(math.floor(place(_FAST_TURNS)), 0)
    high = min(math.ceil(place(_SLOW_TURNS)), rotary.size - 1)
    stretched = np.clip((np.arange(len(turns)) - low) / max(high - low, 1e-3), 0, 1)
    factor = 0.1 * math.log(rotary.factor) + 1.0 if rotary.factor > 1 else 1.0
    return turns / rotary.factor * stretched + turns * (
        1 - stretched
    ), rotary.attention_factor * factor
