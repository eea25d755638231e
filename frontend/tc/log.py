"""The log of measured schedules: what tuning found, in one SQLite file that later builds read."""

import functools
import hashlib
import json
import os
import re
import typing
import warnings

from .errors import LogError
from .files import write
from .native import compiler

_MAX_LINE = 4 << 20  # of an exported log
_MAX_STATEMENT = 2000  # bytes of one that are looked at for people


class Record(typing.NamedTuple):
    """A measured schedule. Times are of one run, in `unit`; `ratio` is its time over the untuned
    schedule's in the same interleaved run. Only records with the outcome "ok" have times."""
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


def default_path():
    """Where the log is when none is named: $TC_LOG, else the user's cache folder; None where $TC_LOG
    is empty."""
    if "TC_LOG" in os.environ:
        return os.environ["TC_LOG"] or None
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "tc", "log.db")


def make_log_folder(log):
    """Makes the folder of a log that is to be written."""
    folder = os.path.dirname(os.path.abspath(log))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise LogError(f"the folder '{folder}' of the log cannot be made: {error.strerror}; name a log elsewhere (log=\"FILE\", --log FILE, or "
                       "the variable TC_LOG)") from None


@functools.cache
def build_id():
    """This compiler's build: its version and what its code hashes to."""
    from . import __version__

    digest = hashlib.sha256()
    with open(compiler.__file__, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return f"{__version__} {digest.hexdigest()[:12]}"


class Log:
    """A log file; made by tc.tune and tc.compile(tune=True). Reading needs no right to write."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._native = compiler.Log(self.path, False)
        self.problems = []

    def records(self, *, workload="", target="", device="", threads=0):
        """The records that fit, per workload the chosen first, then the fastest. Rows that no tc
        writes are left out; `problems` then has a sentence for each."""
        rows, self.problems = self._native.records(workload, target, device, threads)
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
        return self._native.stats()

    def merge(self, other):
        """Adds another log's records; of two of one schedule the newer stays. Returns how many came."""
        other = other if isinstance(other, Log) else Log(other)
        count, self.problems = compiler.Log(self.path, True).merge(other._native)
        return count

    def export(self, path):
        """Writes all records as lines of JSON. Returns how many."""
        records = self.records()
        write(path, "".join(json.dumps(record._asdict(), sort_keys=True) + "\n" for record in records))
        return len(records)

    @staticmethod
    def import_into(path, source):
        """Adds the records of a file that `export` wrote to the log at `path`, all or none; makes the
        log where there is none. Returns how many."""
        rows = []
        with open(source, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), ""), 1):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise LogError(f"{source}: line {number} is no record: a record is one JSON object per "
                                   "line, as `python -m tc log export` writes them")
                rows.append(row)
        compiler.Log(os.fspath(path), True).add(rows)
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
            ports[role].append(("" if dtype == "f32" else dtype + " ") + (shape.replace(", ", "x") or "scalar"))
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
    return [f"{_time_text(record):>24}  x{1 / record.ratio if record.ratio else 0:5.2f}  "
            f"{'chosen' if record.chosen else '      '}  {record.target}  {record.threads} threads  "
            f"{hashlib.sha256(record.workload.encode()).hexdigest()[:8]} {describe(record.workload)[:100]}"
            for record in records]


def _run(arguments):
    if arguments.action in ("merge", "export", "import") and arguments.file is None:
        arguments.refuse(f"log {arguments.action} takes two files: log {arguments.action} LOG FILE")
    path = arguments.log or default_path()
    if path is None:
        raise LogError("no log is named: give its path, or set TC_LOG")
    if arguments.action == "import":
        count = Log.import_into(path, arguments.file)
        return {"imported": count}, f"{count} records from {arguments.file} are in {path}"
    log = Log(path)
    if arguments.action == "merge":
        count = log.merge(arguments.file)
        return {"merged": count, "problems": log.problems}, "\n".join(
            [f"{count} records from {arguments.file} are in {path}", *log.problems])
    if arguments.action == "export":
        count = log.export(arguments.file)
        return {"exported": count}, f"{count} records of {path} are in {arguments.file}"
    if arguments.action == "stats":
        stats = log.stats()
        text = [f"{path}: {stats['records']} records of {stats['workloads']} workloads, "
                f"{stats['verified']} verified, {stats['bytes'] / 1e6:.2f} MB, schema {stats['schema']}"]
        for name in ("target", "device", "build", "outcome"):
            text += [f"{name:8} {count:7d}  {value}" for value, count in stats[f"by_{name}"].items()]
        return stats, "\n".join(text)
    if arguments.action == "best":
        records = log.best(target=arguments.target or "")
        return {"records": _rows(records)}, "\n".join(_record_lines(records)) or _none_text(path, "verified record", arguments)
    records = log.records(target=arguments.target or "")
    if arguments.action == "show":
        wanted = arguments.workload
        records = [record for record in records if not wanted or
                   hashlib.sha256(record.workload.encode()).hexdigest().startswith(wanted)]
        if not records:
            raise LogError(f"{path}: no workload begins with {wanted}; `log list` shows them")
        text = [records[0].workload.rstrip()]
        for line, record in zip(_record_lines(records), records):
            text += ["", line, f"  {record.detail}" if record.detail else "", *(f"  {t}" for t in record.trace)]
        return {"records": _rows(records)}, "\n".join(text)
    return {"records": _rows(records), "problems": log.problems}, "\n".join(
        (_record_lines(records) or [_none_text(path, "record", arguments)]) + log.problems)


def _none_text(path, what, arguments):
    of_target = f" of target {arguments.target}" if arguments.target else ""
    return f"{path} has no {what}{of_target}; `python -m tc tune MODEL` makes some"


def add_command(command):
    added = command("log", _run, "Look into a log of tuning records, or change it.")
    added.add_argument("action", choices=("list", "show", "best", "stats", "merge", "export", "import"))
    added.add_argument("log", nargs="?", help="path; default: $TC_LOG, else the user's cache folder")
    added.add_argument("file", nargs="?", help="of merge, export and import: the other file")
    added.add_argument("--target", help="only records of this target")
    added.add_argument("--workload", default="", help="of show: the first digits of a workload's hash")


def let_read(options, log):
    """Has the build read the log: the one given, else the default one where there is one."""
    if log is False:
        return
    path = log or default_path()
    if path is None or not (log or os.path.exists(path)):
        return
    if not log:
        try:
            Log(path)
        except LogError as error:
            warnings.warn(f"the default log is not used: {error}", stacklevel=5)
            return
    options.log, options.build = os.fspath(path), build_id()
