"""The tuning log through Python and the command line: other targets, full disks, damage, texts."""

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import warnings

import pytest

import tc
from tc.cli import main
from tc.log import describe

from .tuning import LogWatch, Tuner, save_small_model

pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    save_small_model(path)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"target": "nonsense"},
        {"builders": "nonsense"},
        {"tracker": "127.0.0.1:9", "insecure": True},
        {"target": "cortex-m4"},
    ],
)
def test_a_failed_start_leaves_no_file(tmp_path, model, options):
    with pytest.raises(tc.Error):
        tc.tune(str(model), log=tmp_path / "log.db", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_tuning_that_measures_leaves_a_log(tmp_path, model):
    tc.tune(str(model), threads=1, trials=1, log=tmp_path / "log.db", _sample_seconds=0.001)
    assert len(tc.Log(tmp_path / "log.db").records()) >= 1


def test_a_log_that_could_not_be_made_is_told_first(tmp_path, model):
    (tmp_path / "file").touch()
    with pytest.raises(tc.LogError, match="file"):
        tc.tune(str(model), log=tmp_path / "file" / "log.db")


def row(workload="kernel k\n  output out0 f32[4]", **fields):
    """A record as an exported log has it."""
    return {
        "workload": workload,
        "target": "x86-64-v3",
        "device": "somewhere",
        "unit": "seconds",
        "threads": 1,
        "trace": ["unroll a"],
        "outcome": "ok",
        "detail": "",
        "samples": 3,
        "minimum": 1e-6,
        "median": 1e-6,
        "spread": 0.0,
        "ratio": 0.5,
        "worst_error": 0.0,
        "build": "0",
        "language": "1.0",
        "seed": 0,
        "created": 1,
        "chosen": False,
        **fields,
    }


def write_log(path, rows):
    lines = path.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps(each) + "\n" for each in rows))
    tc.Log.import_into(path, lines)
    return path


def artefact(model, target, log, path):
    tc.compile(model, target, threads=1, log=log).save(path)
    return path.read_bytes()


def traces(log, target):
    return {(record.workload, tuple(record.trace)) for record in tc.Log(log).records(target=target)}


def test_a_log_of_another_target_gives_seeds_and_nothing_else(tmp_path, model):
    first = "x86-64-v3"
    second = tc.compile(model, threads=1, log=False).target
    if not second.startswith("x86-64-v4"):
        pytest.skip(f"this machine, {second}, has no second target to measure on")

    def tune(log, target, trials):
        return tc.tune(
            model, target, threads=1, trials=trials, log=tmp_path / log, _sample_seconds=0.001
        )

    tune("first.db", first, 18)
    # Only what a search for the second target does not come upon itself, and too fast to be true.
    tune("alone.db", second, 10)
    rows = []
    for record in tc.Log(tmp_path / "first.db").records():
        if record.outcome == "ok" and (record.workload, tuple(record.trace)) not in traces(
            tmp_path / "alone.db", second
        ):
            rows.append(
                record._asdict()
                | {"minimum": 1.1e-9, "median": 1.1e-9, "ratio": 1e-9, "chosen": False}
            )
    assert rows
    seeds = write_log(tmp_path / "seeds.db", rows)
    known = traces(seeds, first)

    # A build takes none of them.
    assert artefact(model, second, seeds, tmp_path / "m.so") == artefact(
        model, second, False, tmp_path / "m.so"
    )
    module = tc.compile(model, second, threads=1, log=seeds)
    assert "tuning log" not in module.explain()
    # A search tries them first, and says so; each is measured.
    result = tune("seeds.db", second, 10)
    assert result.measured == 10
    assert any(
        "schedules that the log has of other targets, devices or compilers are tried first; their times are "
        "not used" in note
        for note in result.notes
    ), result.notes
    measured = [record for record in tc.Log(seeds).records(target=second)]
    tried = [record for record in measured if (record.workload, tuple(record.trace)) in known]
    assert len(measured) == 10 and tried
    assert all(
        record.median > 2e-9 and record.ratio > 1e-3
        for record in measured
        if record.outcome == "ok"
    )
    # Those of the first target stand as they were.
    assert [record._asdict() for record in tc.Log(seeds).records(target=first)] == sorted(
        rows, key=lambda row: (row["workload"], row["trace"])
    )
    best = tc.Log(seeds).best(target=second)
    assert best and {record.target for record in best} == {second}


def fill(path, least_bytes):
    """A log of so many bytes, of another kernel's records."""
    write_log(
        path,
        [
            row(
                trace=[f"unroll a{i}"],
                outcome="crash",
                detail="x" * 4000,
                samples=0,
                minimum=0,
                median=0,
                ratio=0,
            )
            for i in range(least_bytes // 4400)
        ],
    )


def test_a_full_disk_loses_nothing_acknowledged(tmp_path, model):
    watch = LogWatch(tmp_path / "log.db")
    fill(watch.path, 6 << 20)
    watch.keys = {
        (r.workload, r.target, r.device, r.threads, tuple(r.trace), r.build)
        for r in tc.Log(watch.path).records()
    }
    before = len(watch.keys)
    # Room for candidates, and for some records.
    tuner = Tuner(
        tmp_path,
        0,
        model=str(model),
        log=str(watch.path),
        trials=30,
        file_bytes=watch.path.stat().st_size + (16 << 10),
    )
    last = tuner.finish()
    assert last["error"] == "LogError"
    assert last["text"].startswith(f"{watch.path}: cannot be written (")
    assert "; free some disk space: what was recorded before is kept" in last["text"]
    assert 0 < tuner.report("measured") < 30
    watch.look(tuner, slack=0)
    logged = len(watch.keys) - before
    again = Tuner(tmp_path, 1, model=str(model), log=str(watch.path), trials=30)
    last = again.finish()
    assert last["done"] == "budget" and last["trials"] == 30 and last["measured"] == 30 - logged
    watch.look(again, slack=0)


def test_a_disk_too_full_for_candidates_is_no_verdict_on_them(tmp_path, model):
    watch = LogWatch(tmp_path / "log.db")
    tuner = Tuner(
        tmp_path, 0, model=str(model), log=str(watch.path), trials=10, file_bytes=200 << 10
    )
    last = tuner.finish()
    assert last["error"] == "DeviceError" and "free some disk space" in last["text"], last
    assert len(last["text"].splitlines()) == 1
    assert not watch.path.exists()  # a log is made when something was measured
    tuner = Tuner(tmp_path, 1, model=str(model), log=str(watch.path), trials=10)
    assert tuner.finish()["done"] == "budget"
    assert {record.outcome for record in tc.Log(watch.path).records()} <= {"ok", "noisy"}


def newer(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 7")
    return "the log has schema 7 and this tc knows up to 2; update tc, or give another log"


def cut(path):
    os.truncate(path, path.stat().st_size // 2)
    return "the log is damaged ("


def overwritten(path):
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\x5a" * 20000)
    return "the log is damaged ("


def of_another_program(path):
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE song (name TEXT)")
        db.commit()
    return "is a database of another program, not a log of tc"


@pytest.mark.parametrize("spoil", [newer, cut, overwritten, of_another_program])
def test_a_log_that_cannot_be_used_is_one_sentence_everywhere(
    tmp_path, model, monkeypatch, capsys, spoil
):
    log = tmp_path / "log.db"
    fill(log, 100000)
    text = f"{log}: {spoil(log)}"
    before = log.read_bytes()
    for use in (
        lambda: tc.compile(model, log=log),
        lambda: tc.tune(model, trials=2, log=log),
        lambda: tc.compile(model, tune=True, trials=2, log=log),
        lambda: tc.Log(log),
    ):
        with pytest.raises(tc.LogError) as error:
            use()
        assert str(error.value).startswith(text) and "\n" not in str(error.value)
    # The default log decides no build.
    monkeypatch.setenv("TC_LOG", str(log))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tc.compile(model, threads=1)
    assert [
        str(warning.message).startswith(f"the default log is not used: {text}")
        for warning in caught
    ] == [True]
    commands = [
        ["compile", str(model), "--log", str(log), "-o", str(tmp_path / "model.so")],
        ["tune", str(model), "--trials", "2", "--log", str(log)],
        *(["log", action, str(log)] for action in ("list", "best", "stats")),
        ["log", "export", str(log), str(tmp_path / "rows")],
        ["log", "merge", str(log), str(log)],
    ]
    for command in commands:
        assert main(command) == 1
        said = capsys.readouterr()
        assert (
            said.out == ""
            and said.err.startswith(f"tc: {text}")
            and len(said.err.splitlines()) == 1
        ), command
    assert main(["log", "stats", str(log), "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "LogError" and error["text"].startswith(text)
    done = subprocess.run(
        [sys.executable, "-m", "tc", *commands[1]], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(f"tc: {text}")
    assert len(done.stderr.splitlines()) == 1
    assert log.read_bytes() == before


def test_lists_name_kernels_by_kind_and_shapes(tmp_path, model, capsys):
    from .test_tune import small_model

    # Where blocks hold 16 channels, 24 of them are flattened by a copy.
    assert [
        describe(kernel.text) for kernel in tc.kernels(small_model(), "x86-64-v4", threads=1)
    ] == [
        "copy 1x16x20x20 -> 1x16x20x20",
        "convolution 1x16x20x20, 24x16x3x3, 24 -> 1x24x20x20",
        "reduction 1x24x20x20 -> 1x24x1x1",
        "copy 1x24x1x1 -> 1x24x1x1",
        "product 1x24, 24x40 -> 1x40",
    ]
    assert (
        describe("kernel k\n  input a i64[]\n  output b f32[2]\n  e[i:2]: b[i] = a[] + 1")
        == "elementwise i64 scalar -> 2"
    )
    assert describe("nothing that tc writes") == "kernel  -> "
    log = tmp_path / "log.db"
    tc.tune(model, threads=1, trials=2, log=log, _sample_seconds=0.001)
    assert main(["log", "best", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(
        line.split(" ", 1)[1] for line in (line.split("threads  ")[1] for line in lines)
    ) == ["product 4x16, 16x16 -> 4x16", "product 4x16, 16x8 -> 4x8"]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def test_every_command_on_a_log_takes_its_url(tmp_path, capsys, log_url):
    (log, shown), rows = log_url, tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row()) + "\n")
    capsys.readouterr()

    def said(*words):
        assert main(["log", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    made = said("init", log)
    assert made == {"log": shown, "schema": made["schema"], "records": 0}
    assert said("import", log, str(rows)) == {"imported": 1}
    assert said("upgrade", log)["records"] == 1
    assert [record["target"] for record in said("list", log)["records"]] == ["x86-64-v3"]
    assert said("stats", log)["records"] == 1
    assert said("export", log, str(tmp_path / "again.jsonl")) == {"exported": 1}
    assert (tmp_path / "again.jsonl").read_text() == json.dumps(row(), sort_keys=True) + "\n"
    other = write_log(tmp_path / "other.db", [row(created=2, ratio=0.25), row(workload="another")])
    assert said("merge", log, str(other))["merged"] == 2
    assert [record["ratio"] for record in said("best", log)["records"]] == [0.5, 0.25]
    assert said("prune", log, "--keep", "1", "--dry-run") == {"pruned": 0, "found": 0}
    slower = [row(created=5, ratio=0.75, trace=["a slower one"]), row(workload="another")]
    tc.Log.import_into(log, write_rows(tmp_path / "slower.jsonl", slower))
    assert said("prune", log, "--keep", "1", "--older-than", "1") == {"pruned": 1, "found": 1}
    assert main(["log", "prune", log, "--keep", "0"]) == 1
    assert capsys.readouterr().err == "tc: keep is a number of at least 1, not 0\n"
    with tc.Log(log) as opened:
        assert len(opened.records()) == 2 and repr(opened) == f"<tc.Log {shown}>"
        assert opened.path == shown
    with pytest.raises(tc.LogError, match="the log is closed; open it again with tc.Log"):
        opened.records()


def test_an_export_is_a_log_of_lines_and_the_other_way_round(tmp_path):
    log, lines = tmp_path / "log.db", tmp_path / "log.jsonl"
    tc.Log.import_into(log, write_rows(tmp_path / "rows.jsonl", [row(seed=2**64 - 1, median=0.1)]))
    tc.Log(log).export(lines)
    assert tc.Log(f"jsonl:{lines}").records() == tc.Log(log).records()
    with open(lines, "a") as file:
        file.write('{"seconds": 2.5, "session": "s"}\n')
    assert tc.Log.import_into(tmp_path / "other.db", lines) == 1
    assert tc.Log(tmp_path / "other.db").records() == tc.Log(log).records()


def test_a_log_of_an_unknown_kind_is_one_sentence_everywhere(model, monkeypatch, capsys):
    log = "mysql://me:secret@host/db"
    text = (
        "no log is opened by 'mysql:'; give a path, or one of sqlite:FILE (a file; a plain path names one, too), "
        "postgresql://USER@HOST/DATABASE (a team's, on a PostgreSQL server), jsonl:FILE (a text file of lines of JSON), memory:NAME (in this process, and gone with it: for tests); a file whose name has a colon is sqlite:FILE"
    )
    for use in (
        lambda: tc.compile(model, log=log),
        lambda: tc.tune(model, trials=2, log=log),
        lambda: tc.Log(log),
    ):
        with pytest.raises(tc.LogError) as error:
            use()
        assert str(error.value) == text
    assert main(["log", "stats", log]) == 1
    assert capsys.readouterr().err == f"tc: {text}\n"
    monkeypatch.setenv("TC_LOG", log)
    with pytest.warns(
        UserWarning, match="^the default log is not used: no log is opened by 'mysql:'"
    ):
        tc.compile(model, threads=1)


def test_a_path_may_have_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for log in ("./one:a.db", "sqlite:two:a.db", pathlib.Path("three:a.db")):
        write_rows = tmp_path / "rows.jsonl"
        write_rows.write_text(json.dumps(row()) + "\n")
        assert tc.Log.import_into(log, write_rows) == 1
        assert len(tc.Log(log).records()) == 1
    assert sorted(path.name for path in tmp_path.glob("*.db")) == [
        "one:a.db",
        "three:a.db",
        "two:a.db",
    ]
