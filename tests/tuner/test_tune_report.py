"""Reports of a session of tuning, and of a model whose kernels a log knows."""

import json

import pytest

import tc

pytest.importorskip("onnx")
from ..reporting.pages import Page  # noqa: E402
from .tuning import save_small_model  # noqa: E402


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    save_small_model(folder / "tiny.onnx")
    result = tc.tune(
        str(folder / "tiny.onnx"),
        threads=1,
        trials=16,
        log=str(folder / "log.db"),
        progress=False,
        _sample_seconds=0.001,
    )
    return folder, result


def test_report_of_a_session(tuned, tmp_path):
    folder, result = tuned
    report = result.report(tmp_path / "session.html")
    facts = json.loads(json.dumps(report.facts))
    assert facts["subject"] == "session" and facts["summary"]["model"] == "tiny.onnx"
    session = facts["tuning"]["session"]
    assert session["trials"] == result.trials and len(session["kernels"]) == len(result.kernels)
    measured = sum(kernel["records"] for kernel in facts["tuning"]["kernels"])
    assert measured == len(tc.Log(str(folder / "log.db")).records())
    read = Page((tmp_path / "session.html").read_text(encoding="utf-8"))
    assert read.faults == [] and read.of("h2") == ["Tuning", "Where this comes from"]
    text = read.text()
    for kernel in result.kernels:
        assert kernel.label in text
    assert f"{result.trials:,}" in read.of("dd") and "Tuning curve" in read.of("title")
    (command,) = read.of("pre")
    assert (
        command.startswith("python -m tc tune tiny.onnx --target ")
        and "--threads 1 --log " in command
    )


def test_curves_never_fall(tuned):
    _, result = tuned
    for kernel in result.report().facts["tuning"]["kernels"]:
        places = [place for place, _ in kernel["curve"]]
        ratios = [ratio for _, ratio in kernel["curve"]]
        assert places == sorted(places) and ratios == sorted(ratios, reverse=True)
        assert places[-1] == kernel["records"]
        assert kernel["records"] >= sum(kernel["failures"].values()) + 1


def test_steps_beside_untuned(tuned):
    folder, _ = tuned
    log = str(folder / "log.db")
    module = tc.compile(str(folder / "tiny.onnx"), threads=1, log=log)
    facts = module.report(seconds=0.01, log=log).facts
    records = {
        (record.workload, tuple(record.trace)): record.ratio for record in tc.Log(log).records()
    }
    compared = [step for step in facts["steps"] if step["untuned_seconds"]]
    assert compared
    for step in compared:
        report = module.kernels[step["report"]]
        ratio = records[report["workload"], tuple(report["trace"])]
        assert step["untuned_seconds"] == pytest.approx(step["seconds"] / ratio)
    read = Page(module.report(seconds=0.01, log=tc.Log(log)).html)
    assert "Untuned" in read.of("th") and "Tuning" in read.of("h2")
    assert {kernel["label"] for kernel in facts["tuning"]["kernels"]} <= {
        step["label"] for step in facts["steps"]
    }
    without = module.report(seconds=0.01).facts
    assert without["tuning"] is None
    assert not any(step["untuned_seconds"] for step in without["steps"])


def test_other_targets_and_numbers_of_threads_are_left_out(tuned):
    folder, _ = tuned
    log = str(folder / "log.db")
    module = tc.compile(str(folder / "tiny.onnx"), threads=2, log=False)
    assert module.report(seconds=0.01, log=log).facts["tuning"]["kernels"] == []


def test_devices_are_not_mixed(tuned, tmp_path):
    folder, _ = tuned
    rows = [record._asdict() for record in tc.Log(str(folder / "log.db")).records()]
    other = [{**row, "device": "another device", "ratio": 0.01} for row in rows[:2] if row["ratio"]]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows + other))
    tc.Log.import_into(str(tmp_path / "both.db"), str(path))
    module = tc.compile(str(folder / "tiny.onnx"), threads=1, log=False)
    found = module.report(seconds=0.01, log=str(tmp_path / "both.db"))
    tuning = found.facts["tuning"]
    assert tuning["other_devices"] == ["another device"] and tuning["device"] == rows[0]["device"]
    assert all(kernel["ratio"] != 0.01 for kernel in tuning["kernels"])
    assert (
        "Records of other devices are not compared with them: another device."
        in Page(found.html).text()
    )
