"""Follows a log: reads what is there, and then what is added, in a thread of its own."""

import contextlib
import os
import threading
import time

from ..errors import Error, LogError, printable
from ..log import Log
from ..native import compiler
from .code import operations_of
from .records import Reading, State

_CHUNK = 2000  # records that are read at a time: a file is locked no longer than that takes
# How many of the last records are read again, since a server may show them late, and others may
# have been chosen.
_AGAIN = 500
_COUNTED = 100  # kernels whose operations are counted by one process
_PAUSE = 0.3  # seconds between two looks
_MOST = 1_000_000  # records that are kept, the newest
# Records far back may be measured again or chosen: all are read again from time to time, which may
# take a fiftieth of the time.
_WHOLE_SECONDS, _WHOLE_FACTOR = 60.0, 50
# After a change of a record that was known, sums are made anew at most so often.
_ANEW_SECONDS = 5.0


class Follower:
    """A log that is followed. `lock` protects the state while it is read or added to; the state
    itself is replaced as a whole."""

    def __init__(self, url):
        self._url = url
        with Log(url) as log:  # an error is the caller's
            self.name = log.path
        self._file = compiler.file_of_store(url)
        self._store, self._seen = None, None
        self.lock = threading.RLock()
        self.state, self.version = State(), 0
        self.problem, self.problems = "", []
        self.so_far = 0  # records that were read, while the log is read for the first time
        self.is_read = False
        self._last = 0
        self._changed = {}  # entries that are known with other contents, by number
        self._anew_at = self._whole_at = self._whole_began = 0.0
        self._dirty = False  # whether something was added since all was read
        self.operations = {}  # of kernels; counted after they are known
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"tc lab {name}", daemon=True)
            for name, target in (("log", self._run), ("operations", self._count))
        ]

    def load(self):
        """Reads all that is there. Of a log that is followed already, what is added meanwhile is
        read in between."""
        begin = self._whole_began = looked = time.monotonic()
        is_followed = self._store is not None
        if not is_followed:
            self._store = compiler.open_store(self._url, False)
            self._seen = self._signature()
        entries, at, problems = {}, 0, []
        reading = Reading({})
        while not self._end.is_set():
            rows, last, said = self._store.records_above(at, _CHUNK)
            problems += said[: 100 - len(problems)]
            for number, row in rows:
                entries[number] = reading.entry(number, row)
            if last == at:
                break
            at = last
            if is_followed and time.monotonic() - looked >= _PAUSE:
                self._look_for_new()
                looked = time.monotonic()
            elif not self.is_read:
                with self.lock:
                    self.so_far, self.version = len(entries), self.version + 1
            if len(entries) > 1.1 * _MOST:  # seldom, since it takes time
                for number in list(entries)[: len(entries) - _MOST]:
                    del entries[number]
        state = State(entries.values(), reading.workloads)
        with self.lock:
            is_other = self.state.entries != state.entries
            self._reading, self._changed, self._last = reading, {}, at
            self.state, self.problems = state, problems
            self.version += is_other or not self.is_read
            self.is_read = True
        took = time.monotonic() - begin
        self._whole_at = time.monotonic() + max(_WHOLE_SECONDS, _WHOLE_FACTOR * took)

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._end.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(5)

    def _count(self):
        while not self._end.wait(_PAUSE):
            try:
                self.count_operations()
            except Exception as error:  # noqa: BLE001 - the pages lack limits, and go on
                self._say(f"operations are not counted: {type(error).__name__}: {error}")
                return

    def count_operations(self):
        """Counts the operations of some kernels of which they are not known."""
        with self.lock:
            new = [
                (kernel, work.text, work.target)
                for kernel, work in self.state.workloads.items()
                if kernel not in self.operations
            ][:_COUNTED]
        if not new:
            return
        found = operations_of([each[1:] for each in new])
        # At the next one the process ended.
        for (kernel, *_), count in zip(new, [*found, 0.0]):
            self.operations[kernel] = count
        with self.lock:
            self.version += 1

    def _run(self):
        pause = 0.0  # the pages are there while the log is read
        while not self._end.wait(pause):
            begin = time.monotonic()
            try:
                self.look()
                self._say("")
            except Error as error:
                self._store = None
                self._say(str(error))
            except Exception as error:  # noqa: BLE001 - the page says it, and goes on
                self._store = None
                self._say(f"internal error: {type(error).__name__}: {error}")
            # A look at a server may take long: it gets a fifth of the time at most. Reading
            # everything is seldom, and does not count.
            took = 0.0 if self._whole_began >= begin else time.monotonic() - begin
            pause = 3.0 if self.problem else min(max(_PAUSE, 5 * took), 10.0)

    def _say(self, problem):
        if problem != self.problem:
            self.problem = printable(problem, 1000)
            with self.lock:
                self.version += 1

    def _signature(self):
        """What changes when a file is written; None of a log that is no file."""
        if not self._file:
            return None
        with contextlib.suppress(OSError):
            found = os.stat(self._file)
            return found.st_ino, found.st_mtime_ns, found.st_size
        return ()

    def look(self):
        """Reads what is new."""
        seen = self._signature()
        if seen == ():
            raise LogError(f"{self.name}: the file is not there")
        if self._store is None or (seen and self._seen and seen[0] != self._seen[0]):
            self._store = None  # the file is another, or the server was lost
            self.load()
            return
        self._look_for_new()
        now = time.monotonic()
        if self._changed and now >= self._anew_at:
            self._add_anew()
        if now >= self._whole_at and (not self._file or self._dirty):
            self._dirty = False
            self.load()

    def _look_for_new(self):
        seen = self._signature()
        if not self._file or seen != self._seen:
            self._read_new()
        self._seen = seen

    def _read_new(self):
        self._dirty = True
        begin = max(0, self._last - _AGAIN)
        while True:
            rows, last, said = self._store.records_above(begin, _CHUNK)
            if said and said != self.problems[-len(said) :]:
                self.problems = (self.problems + said)[-100:]
            with self.lock:
                self._take([self._reading.entry(*row) for row in rows])
            if last == begin:
                return
            begin = last
            self._last = max(self._last, last)

    def _take(self, entries):
        known, is_new = self.state.entries, False
        for entry in entries:
            old = known.get(entry.number)
            if old is None:
                self.state.add(entry)
                is_new = True
            elif old != entry:
                self._changed[entry.number] = entry
        self.version += is_new

    def _add_anew(self):
        """Sums made anew, since a record that was in them is another now."""
        entries = self.state.entries | self._changed
        state = State(entries.values(), self.state.workloads)
        with self.lock:
            self.state, self._changed = state, {}
            self.version += 1
        self._anew_at = time.monotonic() + _ANEW_SECONDS
