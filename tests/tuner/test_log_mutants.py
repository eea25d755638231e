"""Logs that a stranger changed: bytes, rows, definitions, and files beside them. Every command on
them ends in a sentence or in what it was asked for, soon, in little memory, and without a character
that a terminal obeys.

TC_SEED names the seed, TC_MUTATION_FIRST with TC_MUTATIONS=1 repeats one.
"""

import contextlib
import io
import json
import os
import random
import resource
import signal
import sqlite3
import struct

import pytest

import tc
from tc.cli import main

SEED = int(os.environ.get("TC_SEED", 1))
FIRST = int(os.environ.get("TC_MUTATION_FIRST", 0))
SECONDS, MEGABYTES = 20, 400

ROW = {
    "workload": "",
    "target": "x86-64-v4",
    "device": "x86-64 here",
    "unit": "seconds",
    "threads": 1,
    "trace": [],
    "outcome": "ok",
    "detail": "",
    "samples": 5,
    "minimum": 1e-5,
    "median": 1e-5,
    "spread": 0.01,
    "ratio": 0.5,
    "worst_error": 1e-6,
    "build": "1.0",
    "language": "1.0",
    "seed": 1,
    "created": 100,
    "chosen": False,
}
WORKLOADS = [
    "kernel k\n  input in0 f32[4, 16]\n  constant const0 f32[16, 8]\n  output out0 f32[4, 8]\n  a[m:4, n:8, k:16]: out0[m, n] += in0[m, k] * const0[k, n]\n",
    "kernel k\n  input in0 f32[64]\n  output out0 f32[64]\n  a[i:64]: out0[i] = exp(in0[i])\n",
    "kernel k\n",
]

ENDLESS = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i AS workload, 'k' AS key, 'x' AS target, 'd' AS device, "
    "'seconds' AS unit, 1 AS threads, '' AS trace, 0 AS outcome, '' AS detail, 5 AS samples, 1.0 AS minimum, 1.0 AS median, 0.0 AS spread, "
    "1.0 AS ratio, 0.0 AS worst_error, 'b' AS build, 1 AS language_major, 0 AS language_minor, 1 AS seed, 1 AS created, 0 AS chosen FROM n"
)

SCHEMAS = [
    *(
        f"DROP TABLE {table}; CREATE VIEW {table} AS {ENDLESS}"
        for table in ("record", "workload", "session")
    ),
    f'CREATE VIEW "\x1b]0;owned\x07" AS {ENDLESS}',
    "CREATE TRIGGER t BEFORE INSERT ON record BEGIN SELECT hex(zeroblob(100000000)); END",
    f"CREATE TRIGGER t AFTER INSERT ON workload BEGIN INSERT INTO session SELECT i, i FROM ({ENDLESS}); END",
    "CREATE VIRTUAL TABLE v USING fts5 (a)",
    "CREATE VIRTUAL TABLE v USING rtree (a, b, c)",
    "ALTER TABLE record ADD COLUMN more TEXT AS (hex(zeroblob(400000000)))",
    "CREATE INDEX i ON record (hex(zeroblob(1000)))",
    'CREATE TABLE "a\nb" (x)',
    "ANALYZE",
    "DROP INDEX record_by_target",
    "DROP TABLE session",
    "ALTER TABLE record RENAME TO records",
    "ALTER TABLE session RENAME COLUMN seconds TO hours",
    "REINDEX",
    "VACUUM",
    "PRAGMA encoding = 'UTF-16'; VACUUM",
    "PRAGMA page_size = 512; VACUUM",
    "PRAGMA page_size = 65536; VACUUM",
    "PRAGMA auto_vacuum = 2; VACUUM",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 3",
    "PRAGMA application_id = 0",
    "PRAGMA default_cache_size = 2000000000",
    ";".join(f"CREATE TABLE t{i} (a PRIMARY KEY)" for i in range(500)),
]
DEFINITIONS = [
    ("CHECK (threads >= 1)", "CHECK (length(hex(zeroblob(400000000))) > 0)"),
    ("CHECK (threads >= 1)", "CHECK (1" + " AND 1" * 5000 + ")"),
    ("TEXT NOT NULL", "TEXT NOT NULL COLLATE NOCASE"),
    ("STRICT", "STRICT, WITHOUT ROWID"),
    ("STRICT", ""),
    ("record", "workload"),
    ("id INTEGER PRIMARY KEY", "id"),
    ("CREATE TABLE", "CREATE VIEW"),
    ("REFERENCES workload (id)", "REFERENCES nowhere (id)"),
    ("seconds", "\x1b[31m"),
    (
        "chosen INTEGER",
        "chosen INTEGER, " + ", ".join(f"c{i}" for i in range(3000)) + ", last INTEGER",
    ),
]
VALUES = [
    "NULL",
    "0",
    "-1",
    "1e300",
    "9e999",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967297",
    "''",
    "'%s%n'",
    "x'fffe00'",
    "hex(zeroblob(400000))",
    "zeroblob(3000000)",
    "CAST(x'ff0a' AS TEXT)",
    "1",
    "char(27) || '[2J'",
    "char(27) || ']0;owned' || char(7)",
    "char(155) || '31m'",
    "char(8238) || 'abc'",
    "'a' || char(0) || 'b'",
    "char(10, 13, 8, 8, 8)",
    "'Traceback (most recent call last)'",
    "replace(hex(zeroblob(40000)), '00', 'unroll a' || char(10))",
    "char(55296)",
    "CAST(x'ed a0 80' AS TEXT)",
]
COLUMNS = [
    "workload",
    "target",
    "device",
    "unit",
    "threads",
    "trace",
    "outcome",
    "detail",
    "samples",
    "minimum",
    "median",
    "spread",
    "ratio",
    "worst_error",
    "build",
    "language_major",
    "language_minor",
    "seed",
    "created",
    "chosen",
]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of some pages, and beside it a copy with the journal that a killed writer leaves."""
    folder = tmp_path_factory.mktemp("log")
    rows = [
        {
            **ROW,
            "workload": WORKLOADS[i % 3],
            "trace": ["layout in0 1 16", f"unroll a{i}"],
            "ratio": 0.5 + i / 100,
            "detail": "n" * (i * 40),
        }
        for i in range(40)
    ]
    rows += [
        {
            **ROW,
            "workload": WORKLOADS[0],
            "trace": ["unroll z"],
            "outcome": "crash",
            "detail": "signal 11",
            "samples": 0,
            "minimum": 0.0,
            "median": 0.0,
            "spread": 0.0,
        }
    ]
    (folder / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tc.Log.import_into(folder / "log.db", folder / "rows")
    (folder / "killed.db").write_bytes((folder / "log.db").read_bytes())
    child = os.fork()
    if child == 0:
        database = sqlite3.connect(folder / "killed.db", isolation_level=None)
        database.executescript(
            "PRAGMA cache_size = 1; BEGIN; UPDATE record SET detail = hex(zeroblob(1500))"
        )
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (folder / "killed.db-journal").stat().st_size > 4096
    return folder


def change_bytes(draw, data):
    """A few bytes, numbers of a page's head, or pages, changed."""
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        if not data:
            break
        kind, page = draw.randrange(9), 4096 * draw.randrange(max(1, len(data) // 4096))
        if kind < 3:
            data[draw.randrange(len(data))] = draw.choice(
                [0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)]
            )
        elif kind == 3:
            data[draw.randrange(min(100, len(data)))] = draw.randrange(256)
        elif kind == 4 and page + 120 < len(data):
            at = page + (100 if page == 0 else 0) + draw.randrange(12)
            data[at : at + 2] = struct.pack(
                ">H", draw.choice([0, 1, 5, 0x0D0D, 0x0505, 0xFFFF, draw.randrange(65536)])
            )
        elif kind == 5:
            at = draw.randrange(len(data))
            data[at : at + 4] = struct.pack(
                ">I", draw.choice([0, 1, 2, 3, 0x7FFFFFFF, 0xFFFFFFFF, draw.randrange(12)])
            )[: len(data) - at]
        elif kind == 6:
            other = 4096 * draw.randrange(max(1, len(data) // 4096))
            data[page : page + 4096] = data[other : other + 4096]
        elif kind == 7:
            del data[draw.randrange(len(data)) :]
        else:
            data += bytes(draw.randrange(256) for _ in range(draw.choice([1, 100, 4096])))
    return bytes(data)


def change_rows(draw, path):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript("PRAGMA ignore_check_constraints = 1; PRAGMA foreign_keys = 0")
        for _ in range(draw.choice([1, 1, 2, 4])):
            where = draw.choice(["", " WHERE id = 1", " WHERE id % 2"])
            value = draw.choice(VALUES)
            with contextlib.suppress(sqlite3.Error):  # the table may refuse it
                if draw.randrange(6) == 0:
                    database.execute(f"UPDATE workload SET key = {value} || key{where}")
                else:
                    database.execute(f"UPDATE record SET {draw.choice(COLUMNS)} = {value}{where}")


def change_definitions(draw, path):
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database,
        contextlib.suppress(sqlite3.Error),
    ):
        if draw.randrange(2):
            database.executescript(draw.choice(SCHEMAS))
            return
        database.execute("PRAGMA writable_schema = 1")
        before, after = draw.choice(DEFINITIONS)
        database.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?)"
            + draw.choice(["", " WHERE name = 'record'"]),
            (before, after),
        )
        if draw.randrange(2):
            database.execute(
                f"UPDATE sqlite_master SET {draw.choice(['type', 'name', 'tbl_name', 'rootpage', 'sql'])} = {draw.choice(VALUES + ['2', '3'])} "
                f"WHERE rowid = {draw.randrange(1, 7)}"
            )


def name_victim(victim):
    """The end of a journal that has SQLite remove a file."""
    name = os.fsencode(victim)
    total = sum(byte - 256 if byte > 127 else byte for byte in name) & 0xFFFFFFFF
    return (
        bytes(4) + name + struct.pack(">II", len(name), total) + bytes.fromhex("d9d505f920a163d7")
    )


def mutate(draw, log, path, victim):
    kind = draw.randrange(10)
    source = log / ("killed.db" if kind == 9 else "log.db")
    path.write_bytes(source.read_bytes())
    if kind < 4:
        path.write_bytes(change_bytes(draw, path.read_bytes()))
    elif kind < 6:
        change_rows(draw, path)
    elif kind < 8:
        change_definitions(draw, path)
        if draw.randrange(4) == 0:
            path.write_bytes(change_bytes(draw, path.read_bytes()))
    elif kind == 8:
        beside = draw.choice(["-wal", "-shm", "-journal"])
        if beside != "-journal":
            data = bytearray(path.read_bytes())
            data[18:20] = b"\2\2"
            path.write_bytes(data)
        path.with_name(path.name + beside).write_bytes(
            change_bytes(draw, draw.randbytes(draw.choice([0, 32, 512, 40000])))
        )
    else:
        journal = (log / "killed.db-journal").read_bytes()
        journal = (
            change_bytes(draw, journal)
            if draw.randrange(2)
            else journal + name_victim(victim) * draw.randrange(2)
        )
        path.with_name(path.name + "-journal").write_bytes(journal)


def is_plain(text):
    return all(each.isprintable() or each == "\n" for each in text)


def faults_of(path, source):
    """What is wrong with how the commands take the log; empty where nothing is."""
    rows, copy = str(path) + ".rows", str(path) + ".copy"
    commands = [
        ["log", "stats", str(path)],
        ["log", "list", str(path)],
        ["log", "best", str(path), "--json"],
        ["log", "show", str(path)],
        ["log", "stats", str(path), "--json"],
        ["log", "export", str(path), rows],
        ["log", "merge", copy, str(path)],
        ["log", "import", str(path), str(source)],
        ["log", "list", str(path)],
    ]
    tc.Log.import_into(copy, source)
    for command in commands:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(command)
        out, err = out.getvalue(), err.getvalue()
        said = f"{command}: {code}: {out[-1000:]!r} {err[-1000:]!r}"
        if code not in (0, 1) or "internal error" in out + err or not is_plain(out + err):
            return said
        if (
            code == 1
            and "--json" not in command
            and (out or not err.startswith("tc: ") or len(err.splitlines()) != 1 or len(err) > 2000)
        ):
            return said
        if "--json" in command:
            json.loads(out)
    return ""


def in_child(work):
    """What `work` returns, done in a process of its own; else the signal, the exception, or the
    limit that it passed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                told = work()
            except BaseException as error:  # what escapes is what is looked for
                told = f"{type(error).__name__}: {error}"
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
            if grown > MEGABYTES:
                told += f" {grown} MB"
            os.write(writing, told.encode("utf-8", "replace")[:4000])
            code = 0
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode("utf-8", "replace")
    status = os.waitpid(child, 0)[1]
    return told or ("" if status == 0 else f"ended with {status}")


def run(log, folder, first, count):
    victim = folder / "victim"
    victim.write_text("kept")
    for number in range(first, first + count):
        draw = random.Random(SEED * 1000003 + number)
        path = folder / f"{number}.db"
        mutate(draw, log, path, victim)
        told = in_child(lambda: faults_of(path, log / "rows"))
        assert told == "", f"mutation {number} from seed {SEED} ({path}): {told}"
        assert victim.read_text() == "kept", f"mutation {number} from seed {SEED}"
        for file in folder.glob(f"{number}.db*"):
            file.unlink()


def test_commands_on_logs_that_were_changed(log, tmp_path):
    run(log, tmp_path, FIRST, int(os.environ.get("TC_MUTATIONS", 50)))


@pytest.mark.full
@pytest.mark.parametrize("part", range(5))
def test_commands_on_many_logs_that_were_changed(log, tmp_path, part):
    run(log, tmp_path, 10000 + 1000 * part, 1000)


CHANGES = 80


def changed_row(lines, number):
    """One of the exported lines with a field replaced, and now and then with other bytes."""
    words = [
        "null",
        "-1",
        "1e999",
        "true",
        "[]",
        "{}",
        '"\\ud800"',
        '"\\u001b[2J"',
        "9" * 400,
        '"' + "k" * 2000000 + '"',
        "[[1]]",
        "NaN",
    ]
    draw = random.Random(SEED * 1000003 + number)
    row = json.loads(draw.choice(lines))
    name = draw.choice(sorted(row))
    text = json.dumps(row).replace(
        json.dumps(name) + ": " + json.dumps(row[name]),
        json.dumps(name) + ": " + draw.choice(words),
    )
    if draw.randrange(4) == 0:
        text = change_bytes(draw, text.encode()).decode("utf-8", "replace")
    return text + "\n"


def said_by(*words):
    """The command's status, and what it writes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    said = out.getvalue() + err.getvalue()
    assert code in (0, 1) and "internal error" not in said and is_plain(said), said[:2000]
    return code, said


def test_exported_rows_that_were_changed_are_taken_or_refused_in_a_sentence(log, tmp_path):
    lines = (log / "rows").read_text().splitlines()
    for number in range(CHANGES):
        (tmp_path / "rows").write_text(changed_row(lines, number))
        _, said = said_by("log", "import", str(tmp_path / f"{number}.db"), str(tmp_path / "rows"))
        assert len(said.splitlines()) == 1, f"{number}: {said[:2000]!r}"


def test_lines_of_a_log_that_were_changed_are_taken_or_refused(log, tmp_path):
    lines = (log / "rows").read_text().splitlines()
    taken = 0
    for number in range(CHANGES):
        rows = [changed_row(lines, number), lines[0] + "\n", changed_row(lines, CHANGES + number)]
        (tmp_path / "rows").write_text("".join(rows))
        for command in ("stats", "list", "prune"):
            code, _ = said_by("log", command, f"jsonl:{tmp_path / 'rows'}")
            taken += code == 0
    assert CHANGES <= taken < 3 * CHANGES
