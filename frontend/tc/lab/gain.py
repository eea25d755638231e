"""How much faster than untuned kernels and models are, over time, and what is still to be had."""

import math
import typing


def calls_in(group, weights):
    """{kernel: how often it counts} of the measured kernels: as often as a model calls them, or
    once where no model is given."""
    return {
        kernel.kernel: 1 if weights is None else weights.get(kernel.kernel, 0)
        for kernel in group.measured
        if weights is None or weights.get(kernel.kernel)
    }


def gain(group, weights=None):
    """How many times as fast as untuned all kernels together are with the schedules that a build
    takes; None where nothing was measured."""
    untuned = taken = 0.0
    for kernel, calls in calls_in(group, weights).items():
        tally = group.kernels[kernel]
        untuned += calls * tally.untuned
        taken += calls * tally.untuned * min(1.0, tally.taken.ratio)
    return untuned / taken if taken else None


def gain_curve(group, weights=None):
    """[(seconds since the group's first record, gain)] by the best schedules measured until then,
    where it changes and at the end. Before a kernel is measured it counts as untuned."""
    calls = calls_in(group, weights)
    untuned = {kernel: calls[kernel] * group.kernels[kernel].untuned for kernel in calls}
    events = sorted(
        (created, kernel, ratio)
        for kernel in calls
        for created, _, ratio in group.kernels[kernel].curve
    )
    whole = sum(untuned.values())
    if not whole:
        return []
    begin, now = group.first, whole
    ratios = dict.fromkeys(calls, 1.0)
    points = [(0, 1.0)]
    for created, kernel, ratio in events:
        # Records of other sessions may have become known late: a curve never falls.
        ratio = min(ratio, ratios[kernel])
        now += untuned[kernel] * (ratio - ratios[kernel])
        ratios[kernel] = ratio
        at, value = max(0, created - begin), whole / now
        if value != points[-1][1]:
            if at == points[-1][0]:
                points.pop()
            points.append((at, value))
    if group.last - begin > points[-1][0]:
        points.append((group.last - begin, points[-1][1]))
    return points


class Remaining(typing.NamedTuple):
    """A kernel with what could still be gained."""

    tally: object
    calls: int
    share: float  # of the time of all kernels
    limit: float  # the least time that is thought possible, or None
    of_limit: float  # that time over the best one, or None
    possible: float  # share of all kernels' time that would be gained at the limit, or None


def remaining(group, weights, limits):
    """The kernels, those with the most to gain first. `limits` has the least time of some."""
    calls = calls_in(group, weights)
    times = {kernel: count * group.kernels[kernel].taken.median for kernel, count in calls.items()}
    whole = sum(times.values()) or 1.0
    rows = []
    for kernel, count in calls.items():
        tally, limit = group.kernels[kernel], limits.get(kernel)
        share = times[kernel] / whole
        of_limit = limit / tally.taken.median if limit else None
        possible = None if of_limit is None else share * max(0.0, 1.0 - of_limit)
        rows.append(Remaining(tally, count, share, limit, of_limit, possible))
    return sorted(
        rows,
        key=lambda row: (
            row.possible is None,
            -(row.possible or 0.0),
            -row.share,
            row.tally.kernel,
        ),
    )


def forecast(points):
    """Seconds until the gain is one per cent larger, if it goes on to grow with the logarithm of
    time as it did in the second half of the curve; None where it stopped growing or where there is
    too little to tell."""
    if len(points) < 3 or points[-1][0] < 2:
        return None
    now, value = points[-1]
    half = max((point for point in points if point[0] <= now / 2), default=points[0])
    growth = (value - half[1]) / math.log(now / max(half[0], now / 2))
    if growth <= 0:
        return None
    factor = 0.01 * value / growth
    return now * math.expm1(factor) if factor < 20 else None
