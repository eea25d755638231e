"""A tuner process, what it acknowledges, and the log that it writes, for tests that disturb it."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tc

BATCH = 8  # measurements at most between two reports


def save_small_model(path, rows=4):
    """Two small products, whose schedules are built in no time."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    values = np.random.default_rng(5)
    constants = [
        numpy_helper.from_array(values.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("v", (16, 16)), ("w", (16, 8)))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "v"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w"], ["y"]),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 8])],
        constants,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.02)


def processes(where):
    """{process id: name} of the living ones of whom `where(parent, session)` holds."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (folder / "stat").read_text().rpartition(")")
            state, parent, _, session = rest.split()[:4]
            if state != "Z" and where(int(parent), int(session)):
                found[int(folder.name)] = name.partition("(")[2]
    return found


def kill_with_all(process, is_own):
    """Kills it and waits until nothing that was its own lives: `is_own(parent, session)`."""
    own = processes(is_own)
    process.kill()
    process.wait()

    def left():
        living = processes(lambda *_: True)
        return {number: living[number] for number in own if number in living} | processes(is_own)

    wait_until(lambda: not left(), 20, lambda: f"{left()} outlive {process.args}")


class Tuner:
    """A tuner process, in a session of its own."""

    def __init__(self, folder, number, **options):
        self.acks = folder / f"acks{number}"
        options = {"acks": str(self.acks), **options}
        environment = dict(os.environ, TMPDIR=str(folder))
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("tuner_process.py")),
                json.dumps(options),
            ],
            start_new_session=True,
            env=environment,
        )

    def rows(self):
        """What it has told so far; a line that the kill cut is none."""
        with contextlib.suppress(FileNotFoundError):
            lines = self.acks.read_bytes().split(b"\n")[:-1]
            return [json.loads(line) for line in lines]
        return []

    def report(self, key):
        """A number of the last report: "measured", and of these "lost" with a device."""
        return next((row[key] for row in reversed(self.rows()) if "lost" in row), 0)

    def wait_for_begin(self):
        wait_until(
            lambda: self.rows() or self.process.poll() is not None, 60, "the tuner has not begun"
        )

    def kill(self):
        # Its builders, and an agent of its own.
        kill_with_all(self.process, lambda parent, session: session == self.process.pid)

    def finish(self):
        """The last row of one that ends by itself: what it has done, or the error that it told."""
        self.process.wait(300)
        last = self.rows()[-1]
        assert "done" in last or "error" in last, (self.process.returncode, last)
        return last


class LogWatch:
    """A log between kills, by its path or URL: nothing that was acknowledged goes, nothing comes
    twice."""

    def __init__(self, path):
        self.path = path
        self.keys = set()
        self.lost = 0

    def look(self, tuner, slack=BATCH):
        """Compares with the last look: meanwhile the tuner added what it reported, and up to
        `slack` records of which it could not tell any more."""
        acknowledged = tuner.report("measured") - tuner.report("lost")
        self.lost += tuner.report("lost")
        is_file = isinstance(self.path, Path)
        if is_file and (not self.path.exists() or not self.path.stat().st_size):
            assert not self.keys and not acknowledged
            return
        # Reading comes first: it has to cope with what the kill left.
        records = tc.Log(self.path).records()
        keys = {
            (r.workload, r.target, r.device, r.threads, tuple(r.trace), r.build) for r in records
        }
        assert len(keys) == len(records), "a schedule has two records"
        assert self.keys <= keys, "a record is gone"
        assert acknowledged <= len(keys - self.keys) <= acknowledged + slack
        self.keys = keys
        if not is_file:
            return
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
            assert db.execute("SELECT count(*) FROM record").fetchone() == (len(records),)
