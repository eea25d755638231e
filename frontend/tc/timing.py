"""Times of calls."""

import time
import typing

import numpy as np


class Timing(typing.NamedTuple):
    """Seconds of one run."""

    minimum: float
    median: float


def time_calls(call, seconds, repeat=None):
    """Timing of a call: `repeat` times, or for about `seconds` and at least three times."""
    call()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < repeat if repeat else (time.perf_counter() < end or len(times) < 3):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return Timing(min(times), float(np.median(times)))
