"""What the pages are made of: logs, reports, a fleet, and what an address chooses of them."""

import contextlib
import secrets
import threading
import typing

from ..errors import Error, printable
from .following import Follower
from .reports import Report

MOST_LOGS, MOST_REPORTS = 8, 32


class Choice(typing.NamedTuple):
    """What an address chooses. `group` is None where the log has no record that fits, `report`
    where no report was given. `weights` has the calls of a model's kernels, None where no report
    fits."""

    log: int
    follower: object
    state: object
    group: object
    report: object
    weights: dict
    limits: dict  # {kernel: least seconds}
    limit_source: str


class Lab:
    def __init__(self, logs, reports=(), fleet=None, budget=None):
        if len(logs) > MOST_LOGS or len(reports) > MOST_REPORTS:
            raise Error(
                f"the lab shows up to {MOST_LOGS} logs and {MOST_REPORTS} reports; give fewer"
            )
        self.followers = [Follower(url) for url in logs]
        self.reports = [Report(path) for path in reports]
        self.fleet, self.budget = fleet, budget
        self._start = secrets.token_hex(4)
        self._made, self._made_lock = {}, threading.Lock()

    def start(self):
        for follower in self.followers:
            follower.start()
        if self.fleet:
            self.fleet.start()

    def stop(self):
        for part in [*self.followers, *([self.fleet] if self.fleet else [])]:
            part.stop()

    @contextlib.contextmanager
    def locked(self):
        """The logs stay as they are."""
        with contextlib.ExitStack() as stack:
            for follower in self.followers:
                stack.enter_context(follower.lock)
            yield

    @property
    def version(self):
        """Changes whenever a page may have, and with each start of the server."""
        fleet = self.fleet.version if self.fleet else 0
        parts = self._start, *(each.version for each in self.followers), fleet
        return ".".join(str(each) for each in parts)

    def subtitle(self):
        names = " and ".join(printable(each.name, 120) for each in self.followers)
        problem = next((each.problem for each in self.followers if each.problem), "")
        if problem:
            return f"{names}; not read at the moment: {problem}"
        left = [each.so_far for each in self.followers if not each.is_read]
        return f"{names}; still being read: {sum(left):,} records so far" if left else names

    def choice(self, query):
        log = min(query.number("log"), len(self.followers) - 1)
        follower = self.followers[log]
        state = follower.state
        group = state.place(query.text("target"), query.text("device"), query.number("threads"))
        report = self._report(query, group)
        weights, limits, source = None, {}, ""
        if group and report and report.fits(group.place):
            if any(kernel in group.kernels for kernel in report.calls):
                weights = report.calls
            if group.unit == "seconds" and report.limits:
                limits, source = report.limits, "the limits that the report has measured"
        if group and not limits:
            limits, source = (
                _fastest_rate(follower.operations, group),
                ("the most operations per time that any kernel of this log reached there"),
            )
        return Choice(log, follower, state, group, report, weights, limits, source)

    def _report(self, query, group):
        """The report that the address names by its number from 1, else the first that fits."""
        wanted = query.number("report")
        if 1 <= wanted <= len(self.reports):
            return self.reports[wanted - 1]
        fitting = [each for each in self.reports if group and each.fits(group.place)]
        return next(iter(fitting or self.reports), None)

    def made(self, key, version, make):
        """What `make` returns, made once for each version; a few results are kept."""
        with self._made_lock:
            if key in self._made and self._made[key][0] == version:
                return self._made[key][1]
        result = make()
        with self._made_lock:
            if len(self._made) >= 64:
                self._made.pop(next(iter(self._made)))
            self._made[key] = version, result
        return result


def _fastest_rate(operations, group):
    rates = {
        kernel.kernel: operations.get(kernel.kernel, 0) / kernel.taken.median
        for kernel in group.measured
    }
    fastest = max(rates.values(), default=0)
    if not fastest:
        return {}
    return {kernel: operations[kernel] / fastest for kernel, rate in rates.items() if rate}
