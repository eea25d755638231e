"""Versions for sizes that recur: tc.compile(specialise=...)."""

import threading

import numpy as np
import pytest

import tc
from tests.frontend.test_data_sizes import check
from tests.frontend.test_ranges import data, soft


def test_a_second_run_compiles_a_version():
    module = tc.compile(soft(), specialise=2)
    for run in range(3):
        for seq in (3, 5):
            check(soft(), data(2, seq, 4), module)
        assert module.versions == ([((2, 3, 4),), ((2, 5, 4),)] if run else [])
    assert "x: (2, 5, 4)" in module.explain()


def test_the_last_versions_are_kept():
    module = tc.compile(soft(), specialise=2)
    for seq in (3, 5, 7):
        for _ in range(2):
            check(soft(), data(1, seq, 4), module)
    assert module.versions == [((1, 5, 4),), ((1, 7, 4),)]
    check(soft(), data(1, 3, 4), module)


def test_none_without_the_option_or_open_sizes():
    module = tc.compile(soft())
    for _ in range(3):
        module.run(data(1, 3, 4))
    assert not hasattr(module, "versions")
    assert not hasattr(tc.compile(soft(), shapes={"x": (1, 3, 4)}, specialise=4), "versions")


def test_sizes_that_are_refused_stay_refused():
    module = tc.compile(soft(), shapes={"seq": (1, 8)}, specialise=4)
    for _ in range(3):
        with pytest.raises(tc.ShapeError, match="the model takes 1 to 8"):
            module.run(data(1, 9, 4))
    check(soft(), data(1, 8, 4), module)


def test_threads_have_one_version():
    module, wrong = tc.compile(soft(), specialise=4), []
    given = data(2, 6, 4)
    expected = module.run(given)["y"]

    def runs():
        for _ in range(5):
            if not np.allclose(module.run(given)["y"], expected, rtol=1e-6):
                wrong.append(1)

    threads = [threading.Thread(target=runs) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(module.versions) == 1
