"""What tuning gains: the interval of the pairs is right, and tuned networks are not slower."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.bench import tuned

ROOT = Path(__file__).resolve().parent.parent.parent


def test_interval_of_the_median():
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert tuned.median_interval(values) == (3.0, 1.0, 5.0)
    random = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        median, low, high = tuned.median_interval(np.exp(0.3 * random.standard_normal(101)))
        assert low <= median <= high
        held += low <= 1 <= high
    assert 0.93 <= held / 400 <= 0.99


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


def run(tmp_path, *arguments):
    """The script's table; its exit status is 0."""
    table = tmp_path / "table.json"
    result = subprocess.run([sys.executable, "-m", "tests.bench.tuned", *arguments, "--json", str(table)],
                            cwd=ROOT, capture_output=True, text=True)
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(table.read_text())


@pytest.mark.full
def test_tuned_is_not_slower(tmp_path):
    """Three minutes for each of two networks, through a tracker and an agent."""
    rows = run(tmp_path)
    assert [row["network"] for row in rows] == ["squeezenet1_1", "nsnet2"]
    assert all(row["low"] >= 1 for row in rows)


@pytest.mark.full
def test_comes_back_from_random_schedules(tmp_path):
    rows = run(tmp_path, "nsnet2_step", "--from-random")
    assert rows[0]["from_random"]


@pytest.mark.full
def test_saves_simulated_cycles(tmp_path):
    row, = run(tmp_path, "squeezenet1_1", "--target", "rv64gcv", "--seconds", "900")
    assert row["unit"] != "seconds" and row["model_gain"] > 1
