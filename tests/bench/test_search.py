"""The bench of what a search learns from a log runs and says true things."""

import pytest

from tests.bench import search
from tests.bench.search_networks import NETWORKS
from tests.support import table_of_bench


def run(tmp_path, *arguments):
    """The rows of the bench."""
    pytest.importorskip("onnx")
    pytest.importorskip("lightgbm")
    return table_of_bench("search", tmp_path, *arguments)


def test_a_small_bench_runs(tmp_path):
    """Two networks of a block or two, with a few measurements each."""
    options = ("--width", "4", "--size", "16", "--budget", "12", "--long", "12")
    small = ("--networks", "convolutions", "--small", "block", "--large", "pair")
    rows = run(tmp_path, *options, *small)
    assert [(row["question"], row["search"]) for row in rows] == [
        ("another table", "from nothing"),
        ("another table", "taught by the other core"),
        ("after a sibling, the same size", "schedules"),
        ("after a sibling, the same size", "schedules and trees"),
        ("after a sibling, another size", "schedules"),
        ("after a sibling, another size", "schedules and trees"),
    ]
    for row in rows[:2]:
        assert row["best"] <= row["untuned"]
    for row in rows[2:]:
        assert row["gain"] >= 1 and row["gain_alone"] >= 1 and row["alone"] <= 12


def test_each_kind_of_kernels_is_searched(tmp_path):
    """A few measurements of each network; on its board they give right results."""
    kinds = [kind for kind in NETWORKS if kind != "convolutions"]
    options = ("--width", "4", "--size", "32", "--budget", "5", "--long", "5", "--only", "table")
    rows = run(tmp_path, *options, "--networks", *kinds)
    assert [row["network"] for row in rows] == [kind for kind in kinds for _ in range(2)]
    assert all(row["best"] <= row["untuned"] for row in rows)


@pytest.mark.full
def test_the_goals_are_reached(tmp_path):
    rows = run(tmp_path, "--goals")
    assert len(rows) == 2 * len(NETWORKS) + 4


def test_a_goal_is_missed_by_more_measurements():
    row = {"question": "another table", "needed": 300}
    assert not search.missed(row)
    assert search.missed(row | {"needed": 301}) and search.missed(row | {"needed": None})
    row = {"question": "after a sibling, the same size", "alone": 300, "needed": 100}
    assert not search.missed(row)
    assert search.missed(row | {"needed": 101}) and search.missed(row | {"needed": None})
    assert not search.missed(row | {"needed": 0})
