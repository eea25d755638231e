"""A tracker that is lost while its devices are used: users are told within three seconds, with what
is kept in the log, and tuning goes on when it is back."""

import re
import signal
import threading
import time

import pytest

import tc
from tc import fleet

from .test_tune_killed import model  # noqa: F401
from .tuning import wait_until


class Tuning:
    """tc.tune in a thread, and what it has told: (time, number of trials, kind of notice, text)."""

    def __init__(self, model, address, log, **options):
        self.told, self.result, self.error = [], None, None

        def run():
            try:
                self.result = tc.tune(
                    str(model),
                    threads=1,
                    log=log,
                    tracker=address,
                    insecure=True,
                    progress=self.progress,
                    _sample_seconds=0.001,
                    **options,
                )
            except tc.Error as error:
                self.error = str(error)

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def progress(self, raw):
        self.told.append((time.monotonic(), raw["trials"], raw["notice"], raw["doing"]))

    def wait_for_trials(self, count):
        wait_until(lambda: self.told and self.told[-1][1] >= count, 60, "nothing is measured")

    def notice(self, kind, seconds):
        """The first notice of the kind: its time and text."""

        def found():
            return next(((when, text) for when, _, is_a, text in self.told if is_a == kind), None)

        wait_until(found, seconds, lambda: f"no notice '{kind}' in {self.told}")
        return found()


# A tracker that is killed closes its connections; one that is stopped says nothing any more.
@pytest.mark.parametrize(
    "end", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.full)]
)
def test_it_is_told_in_the_middle_of_tuning(tmp_path, model, end):  # noqa: F811
    with fleet.Local(["--name", "one"]) as programs:
        # Time enough for the tracker to be lost and back, however fast the machine is.
        tuning = Tuning(model, programs.address, tmp_path / "log.db", time_limit=12)
        tuning.wait_for_trials(3)
        tracker = programs.processes[0]
        tracker.send_signal(end)
        lost = time.monotonic()
        when, text = tuning.notice("silent", 10)
        assert when - lost < 3
        assert re.fullmatch(
            rf"the tracker at {re.escape(programs.address)} has not answered for [23] s; tuning goes on if it "
            rf"answers soon; \d+ schedules are kept in {re.escape(str(tmp_path))}/log\.db: the same command goes "
            "on from there",
            text,
        )
        if end == signal.SIGKILL:
            tracker.wait()
            programs.processes.pop(0)
            programs.start_tracker()
            programs.processes.insert(0, programs.processes.pop())
        else:
            tracker.send_signal(signal.SIGCONT)
        tuning.thread.join(120)
        assert tuning.result and tuning.result.stopped in ("budget", "exhausted"), tuning.error


def test_it_is_told_while_a_tuner_waits(tmp_path, model):  # noqa: F811
    with fleet.Local() as programs:
        tuning = Tuning(model, programs.address, tmp_path / "log.db", trials=5)
        tuning.notice("waiting", 20)
        programs.processes[0].kill()
        lost = time.monotonic()
        when, text = tuning.notice("silent", 10)
        assert when - lost < 3
        assert text == (
            f"waiting for a device: the tracker at {programs.address} does not answer; tuning goes on if it does "
            "within 30 s; no schedule was measured so far"
        )
        programs.processes.pop(0).wait()
        programs.start_tracker()
        programs.add_agent("--name", "late")
        tuning.thread.join(120)
        assert tuning.result and tuning.result.measured > 0, tuning.error
