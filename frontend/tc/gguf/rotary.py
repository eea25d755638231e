"""The angles by which rotary positions turn the pairs of a head, for each of the scalings that
models have."""

import math

import numpy as np

# How many turns a pair makes in the context of training from where on `yarn` leaves it as it is,
# and up to which it stretches it.
_FAST_TURNS, _SLOW_TURNS = 32.0, 1.0


def frequencies(rotary):
    """(radians a position of each pair, what multiplies cosines and sines)"""
    pairs = np.arange(0, rotary.size, 2, dtype=np.float64) / rotary.size
    turns = rotary.base ** -pairs
    if rotary.scaling == "linear":
        return turns / rotary.factor, 1.0
    if rotary.scaling == "yarn":
        return _yarn(rotary, turns)
    return turns, rotary.attention_factor if rotary.scaling == "longrope" else 1.0


def _yarn(rotary, turns):
    """Slow pairs are stretched by the factor, fast ones stay, those between are mixed by their
    place."""
    def place(count):
        """Of the pair that makes so many turns in the context of training."""
        return rotary.size * math.log(rotary.original_context /
                                      (count * 2 * math.pi)) / (2 * math.log(rotary.base))

    low = max(math.floor(place(_FAST_TURNS)), 0)
    high = min(math.ceil(place(_SLOW_TURNS)), rotary.size - 1)
    stretched = np.clip((np.arange(len(turns)) - low) / max(high - low, 1e-3), 0, 1)
    factor = 0.1 * math.log(rotary.factor) + 1.0 if rotary.factor > 1 else 1.0
    return turns / rotary.factor * stretched + turns * (1 -
                                                        stretched), rotary.attention_factor * factor
