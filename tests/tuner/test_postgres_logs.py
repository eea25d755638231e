"""Logs on a PostgreSQL server, through Python and the command line: tuning, roles, passwords, many
writers, servers and writers that are killed."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.cli import main

from .postgres import PASSWORD
from .test_tune_logs import row, write_log
from .tuning import save_small_model, wait_until

pytest.importorskip("onnx")

WRITER = Path(__file__).with_name("postgres_writer.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    save_small_model(path)
    return path


@pytest.fixture
def log(postgres):
    """The database of a new log, its owner's URL, and the URLs of a new writer and a new reader."""
    database = postgres.database()
    url = postgres.made(database)
    users = [postgres.user(f"{kind}_{database}", f"tc_{kind}") for kind in ("writer", "reader")]
    return database, url, *(postgres.url(database, user, PASSWORD) for user in users)


def test_a_team_tunes_into_one_log_and_builds_read_it(postgres, tmp_path, model, log, monkeypatch):
    database, _, writer, reader = log
    result = tc.tune(model, threads=1, trials=10, log=writer, _sample_seconds=0.001)
    assert result.measured == 10
    assert result.log == postgres.shown(database, f"writer_{database}")
    assert result.summary().splitlines()[-1] == f"log: {result.log}"
    assert tc.tune(model, threads=1, trials=10, log=writer, _sample_seconds=0.001).measured == 0

    records = tc.Log(reader).records()
    assert len(records) == 10 and {record.build for record in records} == {tc.log.build_id()}
    assert tc.Log(reader).stats()["by_author"] == {f"writer_{database}": 10}
    x = np.ones((4, 16), np.float32)
    untuned = tc.compile(model, threads=1, log=False)
    np.testing.assert_allclose(tc.compile(model, threads=1, log=reader)(x), untuned(x), rtol=1e-4)

    # The same records give the same bytes, whatever store they come from.
    def bytes_by(log):
        tc.compile(model, threads=1, log=log).save(tmp_path / "model.so")
        return (tmp_path / "model.so").read_bytes()

    by_server = bytes_by(reader)
    rows = tmp_path / "rows"
    assert tc.Log(reader).export(rows) == 10
    assert tc.Log.import_into(tmp_path / "copy.db", rows) == 10
    assert tc.Log(tmp_path / "copy.db").records() == records
    assert bytes_by(tmp_path / "copy.db") == by_server
    monkeypatch.setenv("TC_LOG", reader)
    assert bytes_by(None) == by_server
    assert "kernels run schedules of the tuning log" in tc.compile(model, threads=1).explain()
    # A person's own log is merged into the team's.
    own = write_log(tmp_path / "own.db", [row()])
    assert tc.Log(writer).merge(own) == 1
    assert (
        main(["log", "merge", str(tmp_path / "all.db"), reader]) == 1
    )  # there is none to merge into
    assert tc.Log(own).merge(reader) == 10


def test_a_reader_writes_nothing(postgres, tmp_path, model, log, capsys):
    database, _, writer, reader = log
    rows = tmp_path / "rows"
    rows.write_text(json.dumps(row()) + "\n")
    text = (
        f"{postgres.shown(database, f'reader_{database}')}: the role reader_{database} may only read this log; its "
        f"owner allows it to write by GRANT tc_writer TO reader_{database}"
    )
    for use in (
        lambda: tc.tune(model, trials=2, log=reader),
        lambda: tc.Log.import_into(reader, rows),
        lambda: tc.Log(reader).merge(writer),
        lambda: tc.Log(reader).prune(),
    ):
        with pytest.raises(tc.LogError) as error:
            use()
        assert str(error.value) == text
    capsys.readouterr()
    assert main(["log", "import", reader, str(rows)]) == 1
    assert capsys.readouterr().err == f"tc: {text}\n"
    for url in (writer, reader):
        assert main(["log", "init", url]) == 0, "what is there stays as it is"
    assert tc.Log(reader).records() == []


def test_passwords_are_shown_nowhere(postgres, tmp_path, model, log, capfd):
    database, _, writer, _ = log
    rows = tmp_path / "rows"
    rows.write_text(json.dumps(row()) + "\n")
    opened = tc.Log(writer)
    shown = postgres.shown(database, f"writer_{database}")
    assert (repr(opened), opened.path) == (f"<tc.Log {shown}>", shown)
    with tc.Log(opened) as again:  # the password goes on where no text has it
        assert again.records() == []
    other = str(write_log(tmp_path / "other.db", [row()]))
    for words in (
        ["init", writer],
        ["upgrade", writer],
        ["import", writer, str(rows)],
        ["list", writer],
        ["stats", writer],
        ["best", writer],
        ["show", writer],
        ["export", writer, str(rows)],
        ["merge", writer, other],
        ["merge", other, writer],
        ["list", writer, "--target", "none"],
        ["stats", writer.replace(database, "nothing")],
        ["stats", writer.replace("127.0.0.1", "192.0.2.1") + "&connect_timeout=1"],
    ):
        main(["log", *words])
    main(["compile", str(model), "--log", writer, "-o", str(tmp_path / "model.so")])
    opened.close()
    with pytest.raises(tc.LogError) as error:
        opened.records()
    said = capfd.readouterr()
    text = said.out + said.err + str(error.value)
    assert shown in text and "s3cr" not in text and "Traceback" not in text


def test_errors_are_one_sentence_everywhere(postgres, model, monkeypatch, capsys):
    database = postgres.database()
    log = postgres.url(database)
    text = f"{postgres.shown(database)}: no such log; `python -m tc log init URL` makes one in this database"
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
    assert main(["log", "upgrade", log]) == 1
    assert "has no log to upgrade; `python -m tc log init URL` makes one" in capsys.readouterr().err
    monkeypatch.setenv("TC_LOG", log)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tc.compile(model, threads=1)
    assert [str(warning.message) for warning in caught] == [f"the default log is not used: {text}"]


def test_a_machine_without_libpq_says_what_to_install(tmp_path):
    """In a mount namespace where the library is an empty file."""
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    paths = [line.split(" => ")[1] for line in found.splitlines() if "libpq.so.5 " in line]
    script = 'for path; do mount --bind /dev/null "$path" || exit 77; done; exec "$PYTHON" -m tc log stats postgresql://h/d'
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *paths],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("mounts are not allowed here")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "tc: a log on a PostgreSQL server needs the library libpq.so.5, which cannot be loaded; install it (on Debian: "
        "apt-get install libpq5), or give the path of a file as the log\n"
    )


class Writer:
    """A process that writes records of its own."""

    def __init__(self, folder, url, writer, count, batch, **options):
        self.acks = folder / f"acks{writer}"
        words = {"acks": str(self.acks), "stop": str(folder / "stop"), **options}
        words |= {"url": url, "writer": writer, "count": count, "batch": batch}
        self.process = subprocess.Popen(
            [sys.executable, str(WRITER), json.dumps(words)], stderr=subprocess.PIPE
        )

    def lines(self):
        return self.acks.read_text().split("\n")[:-1] if self.acks.exists() else []

    def acknowledged(self):
        return {line for line in self.lines() if line.startswith("#")}

    def finish(self):
        assert self.process.wait(600) == 0, self.process.stderr.read()
        assert self.lines()[-1] == "done"


@pytest.fixture
def begin(tmp_path, log):
    """Begins another writer; all of them end with the test."""
    writers = []

    def begin(count, batch, **options):
        writers.append(Writer(tmp_path, log[2], len(writers), count, batch, **options))
        return writers[-1]

    yield begin
    for writer in writers:
        writer.process.kill()
        writer.process.wait()


def keys(url):
    """The names of all records, each of which has to be there once."""
    names = [record.trace[0] for record in tc.Log(url).records()]
    assert len(names) == len(set(names))
    return set(names)


@pytest.mark.parametrize(
    "count", [500, pytest.param(10000, marks=pytest.mark.full, id="10000 each")]
)
def test_eight_writers_lose_nothing(tmp_path, log, begin, count):
    url = log[2]
    start = tmp_path / "start"
    writers = [begin(count, 100, start=str(start)) for _ in range(8)]
    wait_until(lambda: all(writer.lines() for writer in writers), 120, "the writers have not begun")
    start.touch()
    begun = time.monotonic()
    for writer in writers:
        writer.finish()
    seconds = time.monotonic() - begun
    print(f"\n8 writers over TLS, batches of 100: {8 * count / seconds:.0f} records/s")
    assert keys(url) == {f"# {writer}.{number}" for writer in range(8) for number in range(count)}
    assert tc.Log(url).stats()["records"] == 8 * count


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.full, id="2000 each")])
def test_a_single_write_takes_no_long_time(tmp_path, log, begin, count):
    """Eight writers at once, each record in a transaction of its own, over TLS."""
    start = tmp_path / "start"
    files = [tmp_path / f"times{number}" for number in range(8)]
    writers = [begin(count, 1, start=str(start), times=str(file)) for file in files]
    wait_until(lambda: all(writer.lines() for writer in writers), 120, "the writers have not begun")
    start.touch()
    for writer in writers:
        writer.finish()
    times = sorted(second for file in files for second in json.loads(file.read_text()))
    assert len(times) == 8 * count == len(keys(log[2]))
    middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
    print(
        f"\n8 writers over TLS, one record each time: median {middle * 1e3:.1f} ms, "
        f"99th percentile {late * 1e3:.1f} ms, longest {times[-1] * 1e3:.1f} ms"
    )
    # Where another suite runs beside it, processes wait for a processor.
    assert late < (0.05 if count >= 2000 else 0.5)


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.full, id="50 kills")])
def test_kills_lose_nothing_acknowledged(postgres, tmp_path, log, begin, kills):
    """Of the server, which comes back, and of writers, in the middle of what they do."""
    url, draw = log[2], random.Random(kills)
    batch, killed = 5, 0
    living = [begin(10**9, batch, pause=0.05) for _ in range(4)]
    everyone = list(living)
    for number in range(kills):
        wait_until(lambda: all(writer.acknowledged() for writer in living), 120, "no writer writes")
        time.sleep(draw.uniform(0, 0.5))
        if draw.random() < 0.5:
            # The second time while the writers repeat what the first one interrupted.
            for _ in range(2):
                postgres.kill()
                time.sleep(draw.uniform(0, 0.5))
                postgres.start()
                time.sleep(draw.uniform(0, 0.3))
        else:
            victim = living.pop(draw.randrange(len(living)))
            victim.process.kill()
            victim.process.wait()
            killed += 1
            living.append(begin(10**9, batch, pause=0.05))
            everyone.append(living[-1])
        if number % 10 == 0:
            assert set().union(*(writer.acknowledged() for writer in everyone)) <= keys(url)
    (tmp_path / "stop").touch()
    for writer in living:
        writer.finish()
    acknowledged = set().union(*(writer.acknowledged() for writer in everyone))
    found = keys(url)
    assert acknowledged <= found
    assert len(found - acknowledged) <= batch * killed
    print(f"\n{kills} kills: {len(acknowledged)} records acknowledged, {len(found)} found")


def test_eight_commands_make_one_log(postgres):
    database = postgres.database()
    command = [sys.executable, "-m", "tc", "log", "init", postgres.url(database), "--json"]
    made = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)
    ]
    for process in made:
        said, error = process.communicate(timeout=120)
        assert json.loads(said) == {"log": postgres.shown(database), "schema": 2, "records": 0}, (
            error
        )
    assert postgres.psql("SELECT count(*) FROM tc_log.meta", database).stdout == "1\n"
