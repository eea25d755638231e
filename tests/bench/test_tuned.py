"""What tuning gains: the interval of the pairs is right, and tuned networks are not slower."""

import numpy as np
import pytest

from tests.bench import tuned
from tests.support import table_of_bench


def test_interval_knows_the_luck_of_copies():
    """Builds of one speed whose copies differ by a percent: 95 of 100 intervals hold 1."""
    random = np.random.default_rng(0)
    held, narrow = 0, 0
    for _ in range(400):
        firsts, seconds = random.normal(0, 0.01, (2, tuned.COPIES))
        pairs = [tuned.copies_met(number, tuned.COPIES) for number in range(320)]
        ratios = [np.exp(firsts[i] - seconds[j] + random.normal(0, 0.05)) for i, j in pairs]
        ratio, low, high = tuned.interval_over_copies(ratios)
        assert low <= ratio <= high
        held += low <= 1 <= high
        narrow += high - low < 0.06
    assert 0.93 <= held / 400
    assert narrow > 390


def test_interval_sees_a_difference():
    random = np.random.default_rng(1)
    ratios = [1.05 * np.exp(random.normal(0, 0.02)) for _ in range(640)]
    ratio, low, _ = tuned.interval_over_copies(ratios)
    assert abs(ratio - 1.05) < 0.01 and low > 1.03


def test_pairs_change_their_order():
    class Module:
        def __init__(self, name):
            self.name = name

        def run(self, _):
            order.append(self.name)

    order = []
    ratios = tuned.pair_ratios([Module("a"), Module("b")], [Module("c"), Module("d")], {}, 0)
    assert len(ratios) == 40
    assert order == ["a", "b", "c", "d"] + ["a", "c", "d", "b", "a", "d", "c", "b"] * 10


@pytest.mark.full
def test_tuned_is_not_slower(tmp_path):
    """Three minutes for each of two networks, through a tracker and an agent."""
    rows = table_of_bench("tuned", tmp_path)
    assert [row["network"] for row in rows] == ["squeezenet1_1", "nsnet2"]
    assert all(row["low"] >= 1 for row in rows)


@pytest.mark.full
def test_comes_back_from_random_schedules(tmp_path):
    rows = table_of_bench("tuned", tmp_path, "nsnet2_step", "--from-random")
    assert rows[0]["from_random"]


@pytest.mark.full
def test_saves_simulated_cycles(tmp_path):
    (row,) = table_of_bench(
        "tuned", tmp_path, "squeezenet1_1", "--target", "rv64gcv", "--seconds", "900"
    )
    assert row["unit"] != "seconds" and row["model_gain"] > 1
