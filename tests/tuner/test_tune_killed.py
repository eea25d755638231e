"""Tuner, agent, tracker, database and page killed at random moments: the real programs on loopback,
and the log after.

A record counts as acknowledged once the tuner has reported it as measured
(tests/tuner/tuner_process.py). After each kill the log holds all acknowledged ones, at most one
batch more, and none twice.

A tuning that is disturbed has a budget that no machine uses up, and so a kill always hits its
middle. After some kills its budget becomes what it has measured and a little more, and it is
resumed until it is complete. With --full there are as many kills as the tests name, else a
thirtieth, and at least three.
"""

import contextlib
import random
import time
from pathlib import Path

import pytest

import tc
from tc import fleet
from tc.tuning import work_folder

from .tuning import BATCH, LogWatch, Tuner, kill_with_all, save_small_model, wait_until

pytest.importorskip("onnx")

# So that what was killed is missed soon; an agent looks for a lost tracker every two seconds.
TRACKER = ("--heartbeat-ms", "800", "--lease-ms", "600")
ENDLESS = 100_000  # schedules
KILLS_OF_A_LOG = 10


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    save_small_model(path)
    return path


def assert_free(programs, *names):
    """All programs live, and no device stays leased."""
    assert [process.poll() for process in programs.processes] == [None] * len(programs.processes)

    def free():
        states = {
            row["name"]: row["state"] for row in fleet.devices(programs.address, insecure=True)
        }
        return states == {name: "free" for name in names}

    wait_until(free, 10, "a device is still leased")


def complete(folder, watch, prefix="", **options):
    """Resumes with a budget of one more batch, until the log holds all of it; then a further
    session measures nothing."""
    trials = len(watch.keys) + BATCH
    for number in range(20):
        tuner = Tuner(
            folder, f"{prefix}complete{number}", log=str(watch.path), trials=trials, **options
        )
        last = tuner.finish()
        watch.look(tuner, slack=0)
        if "done" in last and last["measured"] == 0:
            break
    assert last["done"] == "budget" and last["trials"] == trials, last
    # A session that went on without what a lost device owed it found other schedules than the next.
    assert len(watch.keys) == trials or watch.lost


def random_moment(moments, tuner):
    """A moment of the tuner's work: some batches later, and then some time."""
    tuner.wait_for_begin()
    wanted = tuner.report("measured") + moments.choice([0, 1, BATCH])
    wait_until(
        lambda: tuner.report("measured") >= wanted or tuner.process.poll() is not None,
        100,
        "the tuner measures nothing",
    )
    time.sleep(moments.uniform(0, 0.8))


@pytest.fixture
def share(request):
    """How many of the kills there are: all with --full, else one in thirty and at least three."""
    return lambda kills: kills if request.config.getoption("--full") else max(3, kills // 30)


@pytest.mark.parametrize("tracked, kills", [(True, 140), (False, 60)], ids=["tracker", "alone"])
def test_a_tuner_that_is_killed_resumes(tmp_path, model, share, tracked, kills):
    moments = random.Random(20)
    options = {"model": str(model)}
    with contextlib.ExitStack() as stack:
        if tracked:
            programs = stack.enter_context(fleet.Local(["--name", "one"], tracker=TRACKER))
            options["tracker"] = programs.address
        killed = number = 0
        while killed < share(kills):
            if number % KILLS_OF_A_LOG == 0:
                watch = LogWatch(tmp_path / f"log{number}.db")
            tuner = Tuner(tmp_path, number, log=str(watch.path), trials=ENDLESS, **options)
            random_moment(moments, tuner)
            killed += tuner.process.poll() is None
            tuner.kill()
            watch.look(tuner)
            number += 1
            if tracked:
                assert_free(programs, "one")
        complete(tmp_path, watch, **options)
        if tracked:
            assert_free(programs, "one")
    # What the dead left in the folder for temporary files is gone, too.
    assert [path.name for path in tmp_path.glob("tc-tuning-*")] == []


def test_a_removal_that_was_killed_is_finished_and_the_living_stay(tmp_path):
    half = tmp_path / "tc-tuning-half"  # whatever a removal began with
    half.mkdir()
    (half / "1").write_bytes(b"a candidate")
    (tmp_path / "tc-tuning-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    kept = {"tc-tuning-link", "elsewhere"}

    def names():
        return {path.name for path in tmp_path.iterdir()}

    with work_folder(tmp_path) as one:
        assert names() == kept | {Path(one).name}
        with work_folder(tmp_path) as other:
            assert names() == kept | {Path(one).name, Path(other).name}
        assert names() == kept | {Path(one).name}
    assert names() == kept


def tune_through(tmp_path, model, seed, programs, kills, disturb, names, new_log=None):
    """Tunings with a kill now and then, by `disturb`, until there were so many; each is resumed
    until it is complete. `new_log` makes their logs; by default they are files."""
    moments = random.Random(seed)
    options = {"model": str(model), "tracker": programs.address}
    killed = number = 0
    while killed < kills:
        watch = LogWatch(new_log() if new_log else tmp_path / f"log{number}.db")
        tuner = Tuner(tmp_path, number, log=str(watch.path), trials=ENDLESS, **options)
        last_of_log = min(kills, killed + KILLS_OF_A_LOG)
        while killed < last_of_log:
            random_moment(moments, tuner)
            if tuner.process.poll() is not None:
                # Without its only device, or its database, for too long (on a busy machine a server
                # needs more than tc waits), or with no schedule left to try.
                last = tuner.rows()[-1]
                known = [None, "DeviceError"] + (["LogError"] if new_log else [])
                assert last.get("error") in known, last
                break
            disturb(moments)
            killed += 1
        tuner.kill()
        watch.look(tuner)
        complete(tmp_path, watch, **options, prefix=f"-{number}-")
        assert_free(programs, *names)
        number += 1


@pytest.mark.parametrize("names", [["one"], ["one", "two"]], ids=["only", "other"])
def test_an_agent_that_is_killed_is_replaced(tmp_path, model, share, names):
    with fleet.Local(tracker=TRACKER) as programs:
        agents = {name: programs.add_agent("--name", name) for name in names}

        def disturb(moments):
            name = moments.choice(names)
            # Its candidates go with it.
            kill_with_all(agents[name], lambda parent, _: parent == agents[name].pid)
            programs.processes.remove(agents[name])
            # The only one comes back at once; the other does the work meanwhile.
            time.sleep(moments.uniform(0, 0.5 if len(names) == 1 else 2))
            agents[name] = programs.add_agent("--name", name)

        tune_through(tmp_path, model, 21, programs, share(50), disturb, names)


def test_a_tracker_that_is_killed_is_replaced(tmp_path, model, share):
    with fleet.Local(["--name", "one"], tracker=TRACKER) as programs:

        def disturb(moments):
            tracker = programs.processes.pop(0)
            tracker.kill()
            tracker.wait()
            time.sleep(moments.uniform(0, 1))
            programs.start_tracker(*TRACKER)
            programs.processes.insert(0, programs.processes.pop())

        tune_through(tmp_path, model, 22, programs, share(100), disturb, ["one"])


def test_a_database_that_is_killed_loses_nothing(tmp_path, model, share, postgres):
    """The log's server goes and comes back within the time for which a tuner waits for it."""
    with fleet.Local(["--name", "one"], tracker=TRACKER) as programs:

        def disturb(moments):
            postgres.kill()
            time.sleep(moments.uniform(0, 0.5))
            postgres.start()

        new_log = lambda: postgres.made(postgres.database())  # noqa: E731
        tune_through(tmp_path, model, 23, programs, share(50), disturb, ["one"], new_log)


def test_a_page_that_is_killed_disturbs_no_tuning(tmp_path, model, share):
    """It follows the log while it is written, and each new page shows what is in it."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from ..lab.labs import Server
    from ..lab.test_lab import text_of

    with fleet.Local(["--name", "one"], tracker=TRACKER) as programs:
        pages = []

        def open_page(path):
            page = Server("--log", path, "--tracker", programs.address, "--insecure")
            pages.append(page.__enter__())

        def disturb(moments):
            # Its log is made when the first schedule is measured.
            logs = lambda: list(tmp_path.glob("log*.db"))  # noqa: E731
            wait_until(logs, 60, "there is no log")
            path = max(logs(), key=lambda found: found.stat().st_mtime)
            if not pages:
                open_page(path)
            time.sleep(moments.uniform(0, 0.3))
            pages.pop().process.kill()
            if moments.random() < 0.5:
                open_page(path)

        tune_through(tmp_path, model, 24, programs, share(50), disturb, ["one"])
        open_page(tmp_path / "log0.db")
        records = len(tc.Log(tmp_path / "log0.db").records())
        assert f"Records {records} " in text_of(pages[-1].page("/"))
        for page in pages:
            page.__exit__()


def test_the_work_of_an_agent_that_never_comes_back_is_done_by_the_other(tmp_path, model):
    with fleet.Local(["--name", "one"], tracker=TRACKER) as programs:
        gone = programs.add_agent("--name", "two")
        watch = LogWatch(tmp_path / "log.db")
        options = {"model": str(model), "tracker": programs.address, "trials": 20}
        tuner = Tuner(tmp_path, 0, log=str(watch.path), **options)
        tuner.wait_for_begin()
        wait_until(lambda: tuner.report("measured") > 2, 100, "the tuner measures nothing")
        assert {row["state"] for row in fleet.devices(programs.address, insecure=True)} == {
            "leased"
        }
        gone.kill()
        gone.wait()
        programs.processes.remove(gone)
        last = tuner.finish()
        assert last.get("done") == "budget", last
        watch.look(tuner, slack=0)
        assert len(watch.keys) == 20
        assert_free(programs, "one")
