"""Tuner, agent and tracker killed at random moments: the real programs on loopback, and the log after.

A record counts as acknowledged once the tuner has reported it as measured (tests/tuner_process.py).
After each kill the log holds all acknowledged ones, at most one batch more, and none twice.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tc
from tc import fleet

pytest.importorskip("onnx")

BATCH = 8          # measurements at most between two reports
# So that what was killed is missed soon; an agent looks for a lost tracker every two seconds.
TRACKER = ("--heartbeat-ms", "800", "--lease-ms", "600", "--quarantine-ms", "200")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two small products, whose schedules are built in no time."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    values = np.random.default_rng(5)
    constants = [numpy_helper.from_array(values.standard_normal(shape).astype(np.float32), name)
                 for name, shape in (("v", (16, 16)), ("w", (16, 8)))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
         helper.make_node("MatMul", ["r", "w"], ["y"])],
        "tiny", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])], constants)
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds} s: {what}"
        time.sleep(0.02)


def processes_of_session(leader):
    """{process id: name} of what lives in the session of that process, itself left out."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (folder / "stat").read_text().rpartition(")")
            state, _, _, session = rest.split()[:4]
            if int(session) == leader and state != "Z" and int(folder.name) != leader:
                found[int(folder.name)] = name.partition("(")[2]
    return found


class Tuner:
    """A tuner process, in a session of its own."""

    def __init__(self, folder, number, **options):
        self.acks = folder / f"acks{number}"
        options = {"acks": str(self.acks), **options}
        environment = dict(os.environ, TMPDIR=str(folder))
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("tuner_process.py")), json.dumps(options)],
            start_new_session=True, env=environment)

    def rows(self):
        """What it has told so far; a line that the kill cut is none."""
        with contextlib.suppress(FileNotFoundError):
            lines = self.acks.read_bytes().split(b"\n")[:-1]
            return [json.loads(line) for line in lines]
        return []

    def acknowledged(self):
        """Records that were reported."""
        told = [row for row in self.rows() if "lost" in row]
        return told[-1]["measured"] - told[-1]["lost"] if told else 0

    def measured(self):
        rows = self.rows()
        return rows[-1].get("measured", 0) if rows else 0

    def wait_for_begin(self):
        wait_until(lambda: self.rows() or self.process.poll() is not None, 60, "the tuner has not begun")

    def kill(self):
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not processes_of_session(self.process.pid), 20,
                   f"{processes_of_session(self.process.pid)} outlive their tuner")

    def finish(self):
        """The last row of one that ends by itself."""
        self.process.wait(300)
        return self.rows()[-1]


class LogWatch:
    """A log between kills: nothing that was acknowledged goes, nothing comes twice."""

    def __init__(self, path):
        self.path = path
        self.keys = set()

    def look(self, acknowledged, slack=BATCH):
        """Compares with the last look; `acknowledged` records were added meanwhile, and up to `slack`
        that nobody was told of."""
        if not self.path.exists() or not self.path.stat().st_size:
            assert not self.keys and not acknowledged
            return
        # Reading comes first: it has to cope with what the kill left.
        records = tc.Log(self.path).records()
        keys = {(r.workload, r.target, r.device, r.threads, tuple(r.trace), r.build) for r in records}
        assert len(keys) == len(records), "a schedule has two records"
        assert self.keys <= keys, "a record is gone"
        assert acknowledged <= len(keys - self.keys) <= acknowledged + slack
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
            assert db.execute("SELECT count(*) FROM record").fetchone() == (len(records),)
        self.keys = keys


def assert_free(programs, *names):
    """All programs live, and no device stays leased."""
    assert [process.poll() for process in programs.processes] == [None] * len(programs.processes)

    def free():
        states = {row["name"]: row["state"] for row in fleet.devices(programs.address, insecure=True)}
        return states == {name: "free" for name in names}

    wait_until(free, 10, "a device is still leased")


def complete(folder, watch, trials, prefix="", **options):
    """Resumes until the log holds the whole budget; then a further session measures nothing."""
    lost = 0
    for number in range(20):
        tuner = Tuner(folder, f"{prefix}complete{number}", log=str(watch.path), trials=trials, **options)
        last = tuner.finish()
        watch.look(tuner.acknowledged(), slack=0)
        lost += tuner.rows()[-2]["lost"]
        if "done" in last and last["measured"] == 0:
            break
    assert last["done"] == "budget" and last["trials"] == trials, last
    return lost


def random_moment(moments, tuner):
    """A moment of the tuner's work: some batches later, and then some time."""
    tuner.wait_for_begin()
    wanted = tuner.measured() + moments.choice([0, 1, 2 * BATCH])
    wait_until(lambda: tuner.measured() >= wanted or tuner.process.poll() is not None, 100,
               "the tuner measures nothing")
    time.sleep(moments.uniform(0, 0.8))


@pytest.mark.parametrize("tracked, kills", [(True, 14), (False, 6)], ids=["tracker", "alone"])
def test_a_tuner_that_is_killed_resumes(tmp_path, model, tracked, kills):
    moments = random.Random(20)
    options = {"model": str(model), "trials": 30}
    with contextlib.ExitStack() as stack:
        if tracked:
            programs = stack.enter_context(fleet.Local(["--name", "one"], tracker=TRACKER))
            options["tracker"] = programs.address
        watch, killed, number = LogWatch(tmp_path / "log0.db"), 0, 0
        while killed < kills:
            tuner = Tuner(tmp_path, number, log=str(watch.path), **options)
            random_moment(moments, tuner)
            if tuner.process.poll() is None:
                tuner.kill()
                killed += 1
            watch.look(tuner.acknowledged())
            if tracked:
                assert_free(programs, "one")
            number += 1
            if "done" in tuner.rows()[-1] and killed < kills:
                watch = LogWatch(tmp_path / f"log{number}.db")   # this tuning is complete: another
        complete(tmp_path, watch, **options)
        if tracked:
            assert_free(programs, "one")
    # What the dead left in the folder for temporary files is gone, too.
    assert [path.name for path in tmp_path.glob("tc-tune-*")] == []


def tune_through(tmp_path, model, seed, programs, kills, disturb, names):
    """Tunings with a kill now and then, each by `disturb`, until there were so many; all are resumed
    until they are complete."""
    moments = random.Random(seed)
    options = {"model": str(model), "tracker": programs.address, "trials": 30}
    killed = number = 0
    while killed < kills:
        watch = LogWatch(tmp_path / f"log{number}.db")
        tuner = Tuner(tmp_path, number, log=str(watch.path), **options)
        while killed < kills:
            random_moment(moments, tuner)
            if tuner.process.poll() is not None:
                break
            disturb(moments)
            killed += 1
        tuner.finish()
        watch.look(tuner.acknowledged())
        complete(tmp_path, watch, **options, prefix=f"-{number}-")
        assert_free(programs, *names)
        number += 1


@pytest.mark.parametrize("names", [["one"], ["one", "two"]], ids=["only", "other"])
def test_an_agent_that_is_killed_is_replaced(tmp_path, model, names):
    with fleet.Local(tracker=TRACKER) as programs:
        agents = {name: programs.add_agent("--name", name) for name in names}

        def disturb(moments):
            name = moments.choice(names)
            agents[name].kill()
            agents[name].wait()
            programs.processes.remove(agents[name])
            # The only one comes back at once; the other does the work meanwhile.
            time.sleep(moments.uniform(0, 0.5 * len(names)))
            agents[name] = programs.add_agent("--name", name)

        tune_through(tmp_path, model, 21, programs, 5, disturb, names)


def test_a_tracker_that_is_killed_is_replaced(tmp_path, model):
    with fleet.Local(["--name", "one"], tracker=TRACKER) as programs:

        def disturb(moments):
            tracker = programs.processes.pop(0)
            tracker.kill()
            tracker.wait()
            time.sleep(moments.uniform(0, 1))
            programs.start_tracker(*TRACKER)
            programs.processes.insert(0, programs.processes.pop())

        tune_through(tmp_path, model, 22, programs, 10, disturb, ["one"])
