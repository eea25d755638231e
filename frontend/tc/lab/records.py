"""What the records of a log add up to, kept up to date record by record, so that a page costs as
little with 100,000 records as with 100."""

import collections
import dataclasses
import hashlib
import typing

from ..log import describe

# Two records of one session are at most so many seconds apart: the log has no names of sessions.
SESSION_GAP = 1800
_LARGEST_RATIO, _LARGEST_TIME = 1e4, 1e15
HASH_DIGITS = 16  # of a kernel's SHA-256 that addresses have


class Entry(typing.NamedTuple):
    """A record of the log with its number there. `kernel` stands for the workload, and the lines of
    the trace are one text."""

    number: int
    kernel: str
    target: str
    device: str
    unit: str
    threads: int
    trace: str
    outcome: str
    detail: str
    samples: int
    minimum: float
    median: float
    spread: float
    ratio: float
    worst_error: float
    build: str
    language: str
    seed: int
    created: int
    chosen: bool

    @property
    def place(self):
        return Place(self.target, self.device, self.threads)

    @property
    def is_measured(self):
        """Whether it has times with which one can reckon: anybody may have written the log."""
        return (
            self.outcome == "ok"
            and 1 / _LARGEST_RATIO < self.ratio < _LARGEST_RATIO
            and self.median < _LARGEST_TIME
        )


class Place(typing.NamedTuple):
    """Where records were measured; times of different places are never compared."""

    target: str
    device: str
    threads: int


class Workload(typing.NamedTuple):
    text: str
    what: str
    target: str  # of the first of its records


def hash_of(workload):
    return hashlib.sha256(workload.encode("utf-8", "replace")).hexdigest()[:HASH_DIGITS]


@dataclasses.dataclass
class Tally:
    """Records of one kernel, or of one kernel by one build: how many, of which the best."""

    records: int = 0
    best: typing.Optional[Entry] = None
    chosen: typing.Optional[Entry] = None
    first: int = 0
    last: int = 0
    failures: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, entry):
        """Returns whether it is the best so far."""
        self.first = min(self.first or entry.created, entry.created)
        self.last = max(self.last, entry.created)
        self.records += 1
        if not entry.is_measured:
            self.failures[entry.outcome] += entry.outcome != "ok"
            return False
        if entry.chosen and (self.chosen is None or entry.created >= self.chosen.created):
            self.chosen = entry
        if self.best is None or entry.ratio < self.best.ratio:
            self.best = entry
            return True
        return False

    @property
    def taken(self):
        """What a build would take: the schedule that a session chose, else the best."""
        return self.chosen or self.best


class KernelTally(Tally):
    """All records of a kernel at a place."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel
        self.curve = []  # (seconds since 1970, records so far, best ratio) where the best changes
        self.builds = {}
        self.examples = {}  # the last failure by outcome

    def add(self, entry):
        is_best = super().add(entry)
        if is_best:
            self.curve.append((entry.created, self.records, entry.ratio))
        if entry.outcome != "ok":
            self.examples[entry.outcome] = entry
        self.builds.setdefault(entry.build, Tally()).add(entry)
        return is_best

    @property
    def untuned(self):
        """The untuned schedule's time, from the record that is taken, which was measured in turns
        with it."""
        return self.taken.median / self.taken.ratio if self.taken else None


class Session:
    """Records that follow each other without a long break."""

    def __init__(self, entry):
        self.begin = self.end = entry.created
        self.records = self.failed = 0
        self.builds = collections.Counter()

    def takes(self, created):
        return self.begin - SESSION_GAP <= created <= self.end + SESSION_GAP

    def add(self, entry):
        self.begin, self.end = min(self.begin, entry.created), max(self.end, entry.created)
        self.records += 1
        self.failed += entry.outcome != "ok"
        self.builds[entry.build] += 1

    @property
    def seconds(self):
        return self.end - self.begin


class Group:
    """The records of one place."""

    def __init__(self, place, unit):
        self.place, self.unit = place, unit
        self.kernels, self.sessions = {}, []
        self.records = 0
        self.failures, self.builds = collections.Counter(), {}
        self.examples = {}

    def add(self, entry):
        self.records += 1
        if entry.outcome != "ok":
            self.failures[entry.outcome] += 1
            self.examples[entry.outcome] = entry
        first, last, count = self.builds.get(entry.build, (entry.created, entry.created, 0))
        self.builds[entry.build] = min(first, entry.created), max(last, entry.created), count + 1
        if entry.kernel not in self.kernels:
            self.kernels[entry.kernel] = KernelTally(entry.kernel)
        self.kernels[entry.kernel].add(entry)
        session = next(
            (each for each in reversed(self.sessions) if each.takes(entry.created)), None
        )
        if session is None:
            session = Session(entry)
            self.sessions.append(session)
        session.add(entry)

    @property
    def measured(self):
        """The kernels of which some schedule has a time."""
        return [kernel for kernel in self.kernels.values() if kernel.best]

    @property
    def first(self):
        return min((session.begin for session in self.sessions), default=0)

    @property
    def last(self):
        return max((session.end for session in self.sessions), default=0)


class State:
    """A log as far as it has been read."""

    def __init__(self, entries=(), workloads=None):
        self.entries = {}  # by number, in the order in which they were made known
        self.workloads = {} if workloads is None else workloads  # by hash
        self.groups = {}
        self.failed = 0
        self.last_of_device = {}  # the last failure by device
        for entry in sorted(entries, key=lambda each: (each.created, each.number)):
            self.add(entry)

    def add(self, entry):
        self.entries[entry.number] = entry
        place = entry.place
        if place not in self.groups:
            self.groups[place] = Group(place, entry.unit)
        self.groups[place].add(entry)
        if entry.outcome != "ok":
            self.failed += 1
            self.last_of_device[entry.device] = entry

    def place(self, target="", device="", threads=0):
        """The group with the most records of those that fit, or None."""
        fitting = [
            group
            for place, group in self.groups.items()
            if (not target or place.target == target)
            and (not device or place.device == device)
            and (not threads or place.threads == threads)
        ]
        return min(fitting, key=lambda group: (-group.records, group.place), default=None)

    def kernel(self, prefix):
        """The hash of the one kernel whose hash begins so, or None."""
        if prefix in self.workloads:
            return prefix
        found = [each for each in self.workloads if prefix and each.startswith(prefix)]
        return found[0] if len(found) == 1 else None


class Reading:
    """Turns rows of the store into entries, with one object for texts that occur often."""

    def __init__(self, workloads):
        self.workloads = workloads
        self._hashes, self._texts = {}, {}
        self._alike = collections.Counter(describe(each.text) for each in workloads.values())

    def entry(self, number, row):
        workload = row.pop("workload")
        kernel = self._hashes.get(workload)
        if kernel is None:
            kernel = self._hashes[workload] = hash_of(workload)
            if kernel not in self.workloads:
                self.workloads[kernel] = Workload(workload, self._what(workload), row["target"])
        row["trace"] = "\n".join(row["trace"])
        for name in ("target", "device", "unit", "outcome", "detail", "build", "language"):
            row[name] = self._texts.setdefault(row[name], row[name])
        return Entry(number=number, kernel=kernel, **row)

    def _what(self, workload):
        """What people call a kernel: those of the same kind and sizes are numbered."""
        what = describe(workload)
        self._alike[what] += 1
        kind, _, sizes = what.partition(" ")
        return what if self._alike[what] == 1 else f"{kind} ({self._alike[what]}) {sizes}".rstrip()
