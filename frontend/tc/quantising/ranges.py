"""The range of an activation: the smallest and the largest number that its 8 bits can represent."""

import numpy as np

METHODS = ("minmax", "percentile", "entropy")
BINS = 2048
LEVELS = 256  # numbers in 8 bits
FEWEST_BINS = 128  # the smallest range that "entropy" tries


class Range:
    """The range of one value: the first pass over the samples finds its ends, the second a
    histogram between them."""

    def __init__(self):
        self.low, self.high, self.counts, self.total, self.mean = np.inf, -np.inf, None, 0, None
        self.is_finite = True

    def see_ends(self, array):
        if array.size:
            self.is_finite = self.is_finite and bool(np.isfinite(array).all())
            self.low, self.high = (
                min(self.low, float(array.min())),
                max(self.high, float(array.max())),
            )

    def see_numbers(self, array, axis):
        if not self.is_finite or self.high <= self.low:
            self._see_mean(array, axis)
            return
        found, _ = np.histogram(array, BINS, (self.low, self.high))
        self.counts = found if self.counts is None else self.counts + found
        self._see_mean(array, axis)

    def _see_mean(self, array, axis):
        """Adds to the mean of each channel over all samples."""
        others = tuple(each for each in range(array.ndim) if each != axis)
        sums = array.astype(np.float64).sum(others)
        weight = array.size // max(sums.size, 1)
        self.mean = sums if self.mean is None else self.mean + sums
        self.total += weight

    def means(self):
        return self.mean / max(self.total, 1)

    def ends(self, method, percentile):
        """(smallest, largest) number of the range, which includes 0."""
        low, high = (self.low, self.high) if np.isfinite(self.low) else (0.0, 0.0)
        if self.counts is not None and method == "percentile":
            low, high = self._percentile(percentile)
        elif self.counts is not None and method == "entropy":
            low, high = self._least_entropy()
        return min(low, 0.0), max(high, 0.0)

    def _edges(self):
        return np.linspace(self.low, self.high, BINS + 1)

    def _percentile(self, percentile):
        """The range that leaves out equally many numbers at both ends, except that an end at which
        many numbers are is kept."""
        share = np.cumsum(self.counts) / self.counts.sum()
        outside = (1 - percentile / 100) / 2
        edges = self._edges()
        first, last = (
            int(np.searchsorted(share, outside, "right")),
            int(np.searchsorted(share, 1 - outside)),
        )
        return float(edges[min(first, BINS - 1)]), float(edges[min(last, BINS - 1) + 1])

    def _least_entropy(self):
        """The range with the least Kullback-Leibler divergence between the numbers and the same
        numbers rounded to 256 levels."""
        edges, counts = self._edges(), self.counts.astype(np.float64)
        # Relu makes many numbers 0. Every range contains 0, so their bin must not dominate the
        # distribution.
        zero = int(np.clip(np.searchsorted(edges, 0.0, "right") - 1, 0, BINS - 1))
        counts[zero] = min(
            counts[zero],
            max(counts[max(zero - 1, 0)] if zero else 0, counts[min(zero + 1, BINS - 1)]),
        )
        best, taken = np.inf, (self.low, self.high)
        for kept in range(FEWEST_BINS, BINS + 1, 32):
            for first in {0, BINS - kept, self._around_zero(kept)}:
                divergence = _divergence(counts, first, first + kept)
                if divergence < best:
                    best, taken = divergence, (edges[first], edges[first + kept])
        return float(taken[0]), float(taken[1])

    def _around_zero(self, kept):
        zero = int(np.clip(-self.low / (self.high - self.low) * BINS, 0, BINS))
        return int(np.clip(zero - kept // 2, 0, BINS - kept))


def _divergence(counts, first, last):
    inside = counts[first:last].copy()
    inside[0] += counts[:first].sum()
    inside[-1] += counts[last:].sum()
    level = (
        np.arange(last - first) * LEVELS // (last - first)
        if last - first > LEVELS
        else np.arange(last - first)
    )
    used = counts[first:last] > 0
    sums, members = np.bincount(level, counts[first:last]), np.bincount(level, used)
    spread = np.where(used, (sums / np.maximum(members, 1))[level], 0)
    p, q = inside / max(inside.sum(), 1), spread / max(spread.sum(), 1)
    here = p > 0
    return float((p[here] * np.log(p[here] / np.maximum(q[here], 1e-9))).sum())


def numbers_of(low, high):
    """(scale, zero point) of u8 for a range that includes 0; an empty range has the scale 1."""
    scale = np.float32((high - low) / (LEVELS - 1))
    if not np.isfinite(scale) or scale < np.finfo(np.float32).tiny:
        return np.float32(1), np.uint8(0)
    return scale, np.uint8(np.clip(np.rint(-low / float(scale)), 0, LEVELS - 1))
