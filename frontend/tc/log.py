"""The log of measured schedules: what tuning found, in a file or another store that later builds
read."""

import functools
import json
import os
import re
import time
import typing
import warnings

from .digest import sha256
from .errors import LogError, lines_text, printable
from .files import default_log, write
from .native import compiler
from .version import VERSION

_MAX_LINE = 4 << 20  # characters of a line in an exported log
_MAX_STATEMENT = 2000  # bytes of a statement that describe() looks at


class Record(typing.NamedTuple):
    """A measured schedule. Times are those of one run, in `unit`; `ratio` is its time divided by
    the untuned schedule's, measured in turns with it. Only records with the outcome "ok" have
    times."""

    workload: str
    target: str
    device: str
    unit: str
    threads: int
    trace: list
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


def url_of(log):
    """The URL by which the compiler opens what was given as a log: a text (a URL or a path),
    another path object, which is never taken for a URL, or a Log."""
    if isinstance(log, Log):
        return log._url
    if isinstance(log, str):
        return log
    path = os.fsdecode(log)
    return "sqlite:" + path if ":" in path else path


def opened(log, write=False, late=False):
    """The store of a log given by URL, path or Log. With `write`, a log that does not exist is
    created, and so is its folder; with `late`, a file is created by its first record."""
    if isinstance(log, Log) and not write:
        return log.store
    url = url_of(log)
    file = compiler.file_of_store(url)
    if write and file:
        _make_folder(file)
    return compiler.open_store_late(url) if late else compiler.open_store(url, write)


def _make_folder(file):
    folder = os.path.dirname(os.path.abspath(file))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise LogError(
            f"the folder '{folder}' of the log cannot be made: {error.strerror}; name a log elsewhere (log=\"FILE\", --log FILE, or "
            "the variable TC_LOG)"
        ) from None


@functools.cache
def build_id():
    """Identifies this build of the compiler: its version and a hash of its code."""
    digest = sha256()
    with open(compiler.__file__, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return f"{VERSION} {digest.hexdigest()[:12]}"


class Log:
    """A log, named by a path or by a URL (docs/tuning.md lists their forms); made by tc.tune and
    tc.compile(tune=True). Reading needs no right to write. It is accepted wherever a log can be
    named, and is closed by `close` or at the end of `with`. `path` is its path or URL, without a
    password."""

    def __init__(self, path):
        self._url = url_of(path)
        self.path = compiler.shown_store(self._url)
        self._store = compiler.open_store(self._url, False)
        self.problems = []

    @property
    def store(self):
        """The compiler's object for the open log."""
        if self._store is None:
            raise LogError(f"{self.path}: the log is closed; open it again with tc.Log")
        return self._store

    def close(self):
        """Closes the store; the log cannot be used afterwards."""
        self._store = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def records(self, *, workload="", target="", device="", threads=0):
        """The records that match, for each workload the chosen one first, then by speed. Rows that
        tc would never write are left out; `problems` has a sentence for each."""
        rows, self.problems = self.store.records(workload, target, device, threads)
        return [Record(**row) for row in rows]

    def best(self, *, target="", device=""):
        """The best verified record of each workload, target, device and number of threads."""
        found = {}
        for record in self.records(target=target, device=device):
            key = record.workload, record.target, record.device, record.threads
            if record.outcome == "ok" and key not in found:
                found[key] = record
        return list(found.values())

    def stats(self):
        """Counts by target, device, build and outcome."""
        return self.store.stats()

    def merge(self, other):
        """Adds another log's records; where both have one of the same schedule, the newer stays.
        Returns how many were added."""
        other = other if isinstance(other, Log) else Log(other)
        count, self.problems = opened(self, write=True).merge(other.store)
        return count

    def prune(self, *, keep=16, failures=False, older_than=0, dry_run=False):
        """Removes records that builds do not need: of each workload on each target, device, number
        of threads and build all but the `keep` fastest and the one that tuning chose. Failures,
        which tell later searches what not to try, go with `failures`. Only records older than
        `older_than` days are removed, and none with `dry_run`. Returns how many there are."""
        for name, value, least in (("keep", keep, 1), ("older_than", older_than, 0)):
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= least:
                raise LogError(f"{name} is a number of at least {least}, not {value!r}")
        before = int(time.time() - older_than * 86400) if older_than else None
        store = self.store if dry_run else opened(self, write=True)
        return store.prune(int(keep), bool(failures), before, not dry_run)

    def export(self, path):
        """Writes all records as lines of JSON. Returns how many."""
        records = self.records()
        write(
            path, "".join(json.dumps(record._asdict(), sort_keys=True) + "\n" for record in records)
        )
        return len(records)

    @staticmethod
    def import_into(path, source):
        """Adds the records of a file that `export` wrote to the log at `path`, all or none; makes
        the log where there is none. Returns how many."""
        rows = []
        with open(source, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), ""), 1):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise LogError(
                        f"{source}: line {number} is no record: a record is one JSON object per "
                        "line, as `python -m tc log export` writes them"
                    )
                if "session" not in row:  # a log of lines also has the time that sessions spent
                    rows.append(row)
        opened(path, write=True).add(rows)
        return len(rows)

    def __repr__(self):
        return f"<tc.Log {self.path}>"


def _time_text(record):
    if record.outcome != "ok":
        return record.outcome
    if record.unit == "seconds":
        return f"{record.median * 1e6:.1f} us"
    return f"{record.median:.0f} simulated cycles"


def describe(workload):
    """A kernel's kind and shapes in one line, such as "product 4x16, 16x8 -> 4x8"."""
    ports = {"input": [], "constant": [], "output": []}
    kinds = set()
    for line in workload.splitlines():
        line = line[:_MAX_STATEMENT]
        if port := re.fullmatch(r"  (input|constant|output) \S+ (\w+)\[(.*)\]", line):
            role, dtype, shape = port.groups()
            ports[role].append(
                ("" if dtype == "f32" else dtype + " ") + (shape.replace(", ", "x") or "scalar")
            )
            continue
        # "macc[m:8, k:32]: tmp0[m] += in0[m, k] * const0[k]"
        place, assigned, value = line.partition(": ")[2].partition("= ")
        factors = re.search(r"(\w+)\[([^]]*)\] \* (\w+)\[([^]]*)\]", value)
        if not assigned:
            continue
        if place.endswith(" +") and factors and factors[1] != factors[3]:
            sliding = any(sign in factors[2] + factors[4] for sign in "+*")
            kinds.add("convolution" if sliding else "product")
        elif not place.endswith(" "):
            kinds.add("reduction")
        else:
            kinds.add("copy" if re.fullmatch(r"\w+\[[^]]*\]", value) else "elementwise")
    order = ("convolution", "product", "reduction", "elementwise", "copy")
    kind = next((kind for kind in order if kind in kinds), "kernel")
    return f"{kind} {', '.join(ports['input'] + ports['constant'])} -> {', '.join(ports['output'])}"


def _rows(records):
    return [record._asdict() for record in records]


def _record_lines(records):
    return [
        f"{_time_text(record):>24}  x{1 / record.ratio if record.ratio else 0:5.2f}  "
        f"{'chosen' if record.chosen else '      '}  {record.target}  {record.threads} threads  "
        f"{sha256(record.workload.encode()).hexdigest()[:8]} {printable(describe(record.workload)[:100])}"
        for record in records
    ]


def _run(arguments):
    if arguments.action in ("merge", "export", "import") and arguments.file is None:
        arguments.refuse(f"log {arguments.action} takes two files: log {arguments.action} LOG FILE")
    url = arguments.log or default_log()
    if url is None:
        raise LogError("no log is named: give its path or URL, or set TC_LOG")
    path = compiler.shown_store(url)
    if arguments.action in ("init", "upgrade"):
        return _prepared(url, arguments.action)
    if arguments.action == "import":
        count = Log.import_into(url, arguments.file)
        return {"imported": count}, printable(
            f"{count} records from {arguments.file} are in {path}"
        )
    log = Log(url)
    if arguments.action == "merge":
        count = log.merge(arguments.file)
        source = compiler.shown_store(arguments.file)
        return {"merged": count, "problems": log.problems}, lines_text(
            [f"{count} records from {source} are in {path}", *log.problems]
        )
    if arguments.action == "export":
        count = log.export(arguments.file)
        return {"exported": count}, printable(f"{count} records of {path} are in {arguments.file}")
    if arguments.action == "stats":
        stats = log.stats()
        text = [
            f"{path}: {stats['records']} records of {stats['workloads']} workloads, "
            f"{stats['verified']} verified, {stats['bytes'] / 1e6:.2f} MB, schema {stats['schema']}"
        ]
        for name in ("target", "device", "build", "outcome", "author"):
            text += [
                f"{name:8} {count:7d}  {value}" for value, count in stats[f"by_{name}"].items()
            ]
        return stats, lines_text(text)
    if arguments.action == "prune":
        count = log.prune(
            keep=arguments.keep,
            failures=arguments.failures,
            older_than=arguments.older_than,
            dry_run=arguments.dry_run,
        )
        done = "would be removed from" if arguments.dry_run else "were removed from"
        return {"pruned": 0 if arguments.dry_run else count, "found": count}, printable(
            f"{count} records {done} {path}"
        )
    if arguments.action == "best":
        records = log.best(target=arguments.target or "")
        return {"records": _rows(records)}, lines_text(_record_lines(records)) or _none_text(
            path, "verified record", arguments
        )
    records = log.records(target=arguments.target or "")
    if arguments.action == "show":
        wanted = arguments.workload
        records = [
            record
            for record in records
            if not wanted or sha256(record.workload.encode()).hexdigest().startswith(wanted)
        ]
        if not records:
            raise LogError(f"{path}: no workload begins with {wanted}; `log list` shows them")
        text = [
            printable(line, _MAX_STATEMENT) for line in records[0].workload.rstrip().splitlines()
        ]
        for head, record in zip(_record_lines(records), records):
            text += [
                "",
                head,
                f"  {printable(record.detail, _MAX_STATEMENT)}" if record.detail else "",
                *(f"  {printable(line, _MAX_STATEMENT)}" for line in record.trace),
            ]
        return {"records": _rows(records)}, "\n".join(text)
    return {"records": _rows(records), "problems": log.problems}, lines_text(
        (_record_lines(records) or [_none_text(path, "record", arguments)]) + log.problems
    )


def _prepared(url, action):
    """Makes a log, or upgrades one."""
    if action == "upgrade":
        compiler.upgrade_store(url)
    else:
        if file := compiler.file_of_store(url):
            _make_folder(file)
        compiler.make_store(url)
    with Log(url) as log:
        stats = log.stats()
        return {"log": log.path, "schema": stats["schema"], "records": stats["records"]}, printable(
            f"{log.path}: the log has schema {stats['schema']} and {stats['records']} records"
        )


def _none_text(path, what, arguments):
    of_target = f" of target {arguments.target}" if arguments.target else ""
    return f"{printable(path)} has no {what}{of_target}; `python -m tc tune MODEL` makes some"


def add_command(command):
    added = command("log", _run, "Look into a log of tuning records, or change it.")
    added.add_argument(
        "action",
        choices=(
            "list",
            "show",
            "best",
            "stats",
            "merge",
            "export",
            "import",
            "prune",
            "init",
            "upgrade",
        ),
    )
    added.add_argument(
        "log", nargs="?", help="path or URL; default: $TC_LOG, else the user's cache folder"
    )
    added.add_argument("file", nargs="?", help="of merge, export and import: the other file")
    added.add_argument(
        "--keep",
        type=int,
        default=16,
        metavar="N",
        help="of prune: how many of the fastest records stay, of each workload on each target, device, number of threads and build (16)",
    )
    added.add_argument(
        "--older-than",
        type=float,
        default=0,
        metavar="DAYS",
        help="of prune: only records measured so long ago",
    )
    added.add_argument(
        "--failures", action="store_true", help="of prune: failed candidates as well"
    )
    added.add_argument(
        "--dry-run", action="store_true", help="of prune: say how many, and remove none"
    )
    added.add_argument("--target", help="only records of this target")
    added.add_argument(
        "--workload", default="", help="of show: the first digits of a workload's hash"
    )


def let_read(options, log):
    """Makes the build read a log: the given one, else the default one if it exists."""
    if log is False:
        return
    store = opened(log) if log else _opened_default()
    if store is not None:
        options.log, options.build = store, build_id()


def _opened_default():
    """The default log's store; None where there is none, and with a warning where it cannot be
    used."""
    url = default_log()
    try:
        if url is None or ((file := compiler.file_of_store(url)) and not os.path.exists(file)):
            return None
        return opened(url)
    except LogError as error:
        warnings.warn(f"the default log is not used: {error}", stacklevel=6)
        return None
