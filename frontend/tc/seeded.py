"""Data for runs of which only the time counts."""

import numpy as np

from .ports import BIT_TYPES


def seeded_array(random, dtype, shape):
    """Data for timing: normally distributed floats; zeros and ones for the rest, so that indices
    stay small."""
    if dtype == "bfloat16":
        return (random.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(
            np.uint16
        )
    if dtype in BIT_TYPES:
        return random.integers(0, 2, shape).astype(np.uint8)
    if np.issubdtype(np.dtype(dtype), np.floating):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)
