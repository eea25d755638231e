"""Follows a tracker's devices, in a thread of its own."""

import threading
import time

from .. import fleet
from ..errors import Error, printable

_PAUSE = 2.0  # seconds between two questions
_RATE_SECONDS = 60.0  # over which rates are taken
_MOST = 10_000  # devices that are kept


class Fleet:
    """`rows` are the tracker's devices as dicts, `counters` what has happened since it was started;
    `rates` has measurements per minute by name."""

    def __init__(self, tracker, credentials=None, insecure=False):
        self.tracker, self._options = tracker, (tracker, credentials, insecure)
        self.rows, self.rates, self.problem = [], {}, "the tracker has not answered yet"
        self.counters = {}
        self.version = 0
        self._before = []  # (time, {name: measured})
        self._end = threading.Event()
        self._thread = None

    def ask(self):
        try:
            state = fleet.state(*self._options)
            rows, self.counters = state["devices"][:_MOST], state["counters"]
            problem = ""
        except Error as error:
            rows, problem = self.rows, printable(error, 1000)
        now = time.monotonic()
        if not problem:
            self._before.append((now, {row["name"]: row["measured"] for row in rows}))
            while len(self._before) > 2 and now - self._before[1][0] >= _RATE_SECONDS:
                self._before.pop(0)
            self.rates = self._rates(now)
        if (rows, problem) != (self.rows, self.problem):
            self.version += 1
        self.rows, self.problem = rows, problem

    def _rates(self, now):
        then, counts = self._before[0]
        if now - then < _PAUSE / 2:
            return {}
        latest = self._before[-1][1]
        return {
            name: (count - counts[name]) * 60 / (now - then)
            for name, count in latest.items()
            if count >= counts.get(name, count + 1)
        }

    @property
    def busy(self):
        return sum(row["state"] == "leased" for row in self.rows)

    def start(self):
        self._thread = threading.Thread(target=self._run, name="tc lab fleet", daemon=True)
        self._thread.start()

    def stop(self):
        self._end.set()
        if self._thread:
            self._thread.join(5)

    def _run(self):
        while True:
            begin = time.monotonic()
            try:
                self.ask()
            except Exception as error:  # noqa: BLE001 - the page says it, and goes on
                self.problem = f"internal error: {type(error).__name__}: {error}"
            if self._end.wait(max(_PAUSE, 5 * (time.monotonic() - begin))):
                return
