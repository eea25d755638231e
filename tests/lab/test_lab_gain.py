"""Gains, limits and forecasts that the lab reckons from records."""

import math

import pytest

from tc.lab.gain import forecast, gain, gain_curve, remaining
from tc.lab.records import SESSION_GAP, Reading, State
from tc.lab.views.comparing import differs, history_rows

from .labs import BEGAN, row


def state_of(*rows):
    reading = Reading({})
    entries = [reading.entry(number, dict(each)) for number, each in enumerate(rows, 1)]
    return State(entries, reading.workloads)


def test_a_curve_starts_untuned_and_rises_where_something_faster_was_found():
    group = state_of(
        row(0, 1.0),
        row(0, 0.5, created=BEGAN + 10),
        row(0, 0.8, created=BEGAN + 20),
        row(1, 0.5, created=BEGAN + 30),
        row(1, 0.0, created=BEGAN + 40, outcome="crash"),
    ).place()
    # Untuned, kernel 0 takes 100 µs and kernel 1 takes 200 µs.
    assert gain_curve(group) == [
        (0, 1.0),
        (10, pytest.approx(300 / 250)),
        (30, pytest.approx(300 / 150)),
        (40, pytest.approx(300 / 150)),
    ]
    assert gain(group) == pytest.approx(2.0)
    kernel = next(iter(group.kernels))
    assert gain_curve(group, {kernel: 3})[-1] == (40, pytest.approx(2.0))
    assert gain_curve(group, {"other": 1}) == [] and gain(group, {"other": 1}) is None


def test_what_a_session_chose_counts_and_not_what_was_fastest():
    group = state_of(row(0, 0.5), row(0, 0.9, chosen=True)).place()
    assert gain(group) == pytest.approx(1 / 0.9)
    assert gain_curve(group)[-1][1] == pytest.approx(2.0)


def test_records_in_any_order_make_the_same_sums():
    rows = [row(0, 1.0), row(0, 0.5, created=BEGAN + 10), row(0, 0.7, created=BEGAN + 5)]
    curves = [gain_curve(state_of(*order).place()) for order in (rows, rows[::-1])]
    assert curves[0] == curves[1]


def test_the_largest_possible_gain_comes_first():
    group = state_of(row(0, 0.5), row(1, 0.5), row(2, 0.5)).place()
    first, second, third = group.kernels
    limits = {first: 1e-6, second: 99e-6}
    rows = remaining(group, None, limits)
    assert [each.tally.kernel for each in rows] == [first, second, third]
    assert rows[0].share == pytest.approx(50 / 300)
    assert rows[0].possible == pytest.approx(50 / 300 * 0.98)
    assert rows[2].possible is None and rows[2].of_limit is None


@pytest.mark.parametrize("slope", [0.02, 0.3])
def test_a_forecast_of_a_curve_that_grows_with_the_logarithm_of_time(slope):
    points = [(0, 1.0), *((at, 1 + slope * math.log(at)) for at in range(1, 1001))]
    needed = forecast(points)
    value = points[-1][1]
    assert 1 + slope * math.log(1000 + needed) == pytest.approx(1.01 * value, rel=1e-3)


def test_where_there_is_no_forecast():
    assert forecast([]) is None and forecast([(0, 1.0)]) is None
    assert forecast([(0, 1.0), (10, 2.0), (1000, 2.0)]) is None
    assert forecast([(0, 1.0), (0, 1.0), (0, 2.0)]) is None
    assert forecast([(0, 1.0), (10, 2.0), (1000, 2.0000001)]) is None, "longer than anybody waits"


def test_sessions_are_parted_by_breaks():
    group = state_of(
        row(0, 1.0),
        row(0, 0.9, created=BEGAN + SESSION_GAP),
        row(0, 0.8, created=BEGAN + 3 * SESSION_GAP),
    ).place()
    assert [session.records for session in group.sessions] == [2, 1]


def test_times_differ_beyond_their_spread_alone():
    state = state_of(
        row(0, 1.0, spread=0.01), row(0, 0.99, spread=0.0), row(0, 0.9), row(0, 0.8, spread=0.2)
    )
    entries = list(state.entries.values())
    assert differs(entries[0], entries[1]) == 0 and differs(entries[0], entries[2]) == -1
    assert differs(entries[2], entries[0]) == 1 and differs(entries[0], entries[3]) == 0


def test_a_regression_is_beside_the_best_build_before():
    builds = [("a", 0.5), ("b", 0.8), ("c", 0.4)]
    state = state_of(
        *(
            row(0, ratio, build=build, created=BEGAN + at)
            for at, (build, ratio) in enumerate(builds)
        )
    )
    tally = next(iter(state.place().kernels.values()))
    assert [(build, way) for build, _, way, _ in history_rows(tally)] == [
        ("a", 0),
        ("b", 1),
        ("c", -1),
    ]
