"""Choosing the next token by a model's logits."""

import dataclasses
import functools
import math

import numpy as np

from ..errors import Error


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Probabilities are the softmax of the logits divided by the
    temperature. First the `top_k` largest are kept, then the fewest largest ones whose sum reaches
    `top_p`, then those of at least `min_p` times the largest; one of these is drawn by its share. A
    temperature of 0 takes the largest logit, and the first of equal ones."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0

    def __post_init__(self):
        _check("temperature", self.temperature, 0, math.inf, "a number of at least 0")
        if self.top_k is not None and not (_is_whole(self.top_k) and self.top_k >= 1):
            raise Error(
                f"top_k is {self.top_k!r}; give a whole number of at least 1, or None for all "
                f"tokens"
            )
        for name in ("top_p", "min_p"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), 0, 1, "a number from 0 to 1, or None")
        if not _is_whole(self.seed) or not 0 <= self.seed < 1 << 64:
            raise Error(f"seed is {self.seed!r}; give a whole number from 0 to 2^64 - 1")


def _is_whole(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_finite(value):
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def _check(name, value, low, high, needed):
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    is_number = is_number and not isinstance(value, bool) and _is_finite(value)
    if not is_number or not low <= value <= high:
        raise Error(f"{name} is {value!r}; give {needed}")


def distribution(logits, sampling):
    """(tokens, their probabilities): those that may be drawn, the likeliest first."""
    logits = np.asarray(logits, np.float64)
    count = len(logits) if sampling.top_k is None else min(sampling.top_k, len(logits))
    kept = np.arange(len(logits))
    if count < len(logits):
        kept = np.sort(np.argpartition(-logits, count - 1)[:count])
    # Equal ones in the order of their numbers.
    tokens = kept[np.argsort(-logits[kept], kind="stable")]
    if sampling.temperature == 0:
        return tokens[:1], np.ones(1)
    with np.errstate(over="ignore"):  # for temperatures near 0
        shares = np.exp((logits[tokens] - logits[tokens[0]]) / sampling.temperature)
    shares /= shares.sum()
    if sampling.top_p is not None:
        before = np.cumsum(shares) - shares
        shares = shares[: max(1, int(np.searchsorted(before, sampling.top_p)))]
    if sampling.min_p is not None:
        shares = shares[shares >= sampling.min_p * shares[0]]
    return tokens[: len(shares)], shares / shares.sum()


class Sampler:
    """Draws tokens; the same seed and logits give the same tokens."""

    def __init__(self, sampling):
        self._sampling = sampling

    @functools.cached_property
    def _random(self):
        # numpy.random is imported by this: not where the likeliest token is taken.
        return np.random.Generator(np.random.PCG64(self._sampling.seed))

    def choose(self, logits):
        if self._sampling.temperature == 0:
            return int(np.argmax(logits))
        tokens, shares = distribution(logits, self._sampling)
        place = int(np.searchsorted(np.cumsum(shares), self._random.random(), side="right"))
        return int(tokens[min(place, len(tokens) - 1)])
