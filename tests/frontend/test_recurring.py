"""Versions for sizes that recur: tc.compile(specialise=...)."""

import threading

import numpy as np
import pytest

import tc
from tc import recurring
from tests.frontend.data_sizes import check
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


def test_by_default_and_not_with_a_limit_of_memory_or_bound_sizes():
    module = tc.compile(soft())
    for _ in range(2):
        check(soft(), data(1, 3, 4), module)
    assert module.versions == [((1, 3, 4),)]
    for options in ({"specialise": 0}, {"max_ram": 1 << 30}, {"shapes": {"x": (1, 3, 4)}}):
        assert not hasattr(tc.compile(soft(), **options), "versions"), options


def test_more_sizes_than_versions_end_the_compiling():
    module, compiled = tc.compile(soft(), specialise=1), []
    compile_for = module._compile_for
    module._compile_for = lambda sizes: compiled.append(sizes) or compile_for(sizes)
    for _ in range(40):
        for seq in (3, 5, 7):
            check(soft(), data(1, seq, 4), module)
    # Without it 117; each doubles the runs that the next takes.
    assert 4 <= len(compiled) <= 12
    assert "that 2 runs have" not in module.explain()


def test_a_version_that_was_worth_it_may_go():
    module = tc.compile(soft(), specialise=1)
    for seq in (3, 5, 7):
        for _ in range(recurring.WORTH_RUNS + 2):
            module.run(data(1, seq, 4))
        assert module.versions == [((1, seq, 4),)]
    assert "that 2 runs have" in module.explain()


def test_versions_share_a_bound_of_memory(monkeypatch):
    monkeypatch.setattr(recurring, "SHARE_OF_MEMORY", 1e-12)
    module = tc.compile(soft())
    for _ in range(4):
        check(soft(), data(1, 3, 4), module)
    assert module.versions == []


def test_of_a_file_that_is_another_or_gone_none_is_made(tmp_path):
    path = tmp_path / "soft.onnx"
    path.write_bytes(soft())
    read = recurring.reader_of(path)
    assert read().name == path.name
    path.write_bytes(soft() + b"\x00")
    with pytest.raises(
        tc.ModelError,
        match="is not the file any more from which the model was compiled; compile it again",
    ):
        read()
    for change in (
        lambda: path.write_bytes(soft() + b"\x00"),
        lambda: (tmp_path / "soft.onnx.data").write_bytes(b"1"),
        path.unlink,
        None,
    ):
        path.write_bytes(soft())
        module = tc.compile(path)
        check(soft(), data(1, 3, 4), module)
        if change:
            change()
        for _ in range(2):
            check(soft(), data(1, 3, 4), module)
        assert module.versions == ([] if change else [((1, 3, 4),)])


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
