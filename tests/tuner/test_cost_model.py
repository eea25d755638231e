"""The cost model that a log trains, and the options of a search that go with it."""

import sys

import numpy as np
import pytest

import tc
from tc import cost_model, tuning
from tc.cli import main

from .tuning import save_small_model


def rows_and_values(count=200):
    """Rows of features of which two decide the value."""
    rows = np.random.default_rng(0).uniform(0, 8, (count, 12))
    return rows.tolist(), (np.abs(rows[:, 3] - 5) * 0.3 + (rows[:, 7] > 4) * 0.5).tolist()


def test_trees_rank_what_they_have_not_seen():
    pytest.importorskip("lightgbm")
    rows, values = rows_and_values(600)
    model = cost_model.BoostedTrees(3)
    model.fit(rows[:400], values[:400])
    found = model.predict(rows[400:])
    assert np.corrcoef(found, values[400:])[0, 1] > 0.9
    again = cost_model.BoostedTrees(3)
    again.fit(rows[:400], values[:400])
    assert again.predict(rows[400:]) == found
    # It learns anew, and forgets what it was told before.
    again.fit(rows[:400], [1 - value for value in values[:400]])
    assert np.corrcoef(again.predict(rows[400:]), values[400:])[0, 1] < -0.9


def test_a_few_rows_are_enough_to_be_asked():
    pytest.importorskip("lightgbm")
    model = cost_model.BoostedTrees(0)
    model.fit([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [4.0, 2.0]], [0.0, 0.1, 0.2, 0.3])
    assert np.isfinite(model.predict([[2.5, 2.0]])).all()


def test_a_missing_package_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(tc.Error) as caught:
        tc.tune("model.onnx", log=str(tmp_path / "log.db"), cost_model="trees")
    assert str(caught.value) == (
        "the cost model 'trees' is made by the package lightgbm, which is not installed here: "
        "pip install 'tc-compiler[lab]'; the search works without it (cost_model='gaussian')"
    )
    assert not (tmp_path / "log.db").exists()


def test_an_unknown_cost_model_is_refused(tmp_path):
    with pytest.raises(tc.Error, match="^cost_model is 'forest'; give 'gaussian' or 'trees'$"):
        tc.tune("model.onnx", log=str(tmp_path / "log.db"), cost_model="forest")


def test_the_options_of_the_command_reach_the_search(monkeypatch, tmp_path, capsys):
    given = {}

    def tune(*_, **options):
        given.update(options)
        raise tc.Error("that is enough")

    monkeypatch.setattr("tc.cli.tune", tune)
    assert main(["tune", "model.onnx", "--priority", "3", "--cost-model", "trees"]) != 0
    assert (given["priority"], given["cost_model"]) == (3, "trees")
    with pytest.raises(SystemExit):
        main(["compile", "model.onnx", "--tune", "--priority", "3"])
    assert "there is no option --priority" in capsys.readouterr().err


def test_a_log_of_another_size_trains_the_search(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("lightgbm")
    log = str(tmp_path / "log.db")
    options = dict(threads=1, log=log, progress=False, _sample_seconds=0.0005)
    for size in (16, 20):
        save_small_model(tmp_path / f"{size}.onnx", size)
        found = tc.tune(str(tmp_path / f"{size}.onnx"), trials=40, cost_model="trees", **options)
        assert all(kernel.best <= kernel.untuned for kernel in found.kernels if kernel.best)
        notes = " | ".join(found.notes)
        assert ("the cost model is trained on " in notes) == (size == 20), notes
        assert ("that could train the cost model" in notes) == (size == 16), notes
        assert ("kernels of other sizes are tried first" in notes) == (size == 20), notes


def test_lines_in_a_pipe_say_how_much_is_done():
    raw = {"seconds": 30.0, "trials": 20, "seconds_left": -1}
    assert tuning._share_done(raw, 0) == "30 s, 20 tried"
    assert tuning._share_done(raw, 80) == "30 s, 20 tried (25 %, about 90 s left)"
    raw["seconds_left"] = 10.0
    assert tuning._share_done(raw, 80) == "30 s, 20 tried (75 %, about 10 s left)"
    raw["trials"] = 0
    assert tuning._share_done(raw, 80) == "30 s, 0 tried (75 %, about 10 s left)"
