"""Where a run's time goes, kernel by kernel, and how far each kernel is from the machine's limits.

The roof of a kernel is the least time that the machine's measured limits allow. It is the longest
of three times: its operations at the peak speed of its type, its constants at the bandwidth of the
smallest memory that holds all of the model's data, and everything that it reads and writes at the
bandwidth of the smallest memory that holds these data.
"""

import json
import math
import typing

import numpy as np

from .errors import ShapeError, lines_text, printable
from .files import write
from .native import compiler, runtime

_limits = {}


def limits(target="native", threads=None):
    """What this machine does at most with the target's instructions on that many threads (None: all
    cores), measured once per process in about a second: {"threads", "peaks": [{"instructions",
    "types", "vector_bits", "flops_per_second"}], "bandwidths": [{"level", "bytes",
    "read_bytes_per_second", "write_bytes_per_second"}], "call_seconds", "awake_seconds",
    "asleep_seconds"}: a call of an empty model on one thread, on all while the workers still poll,
    and after they went to sleep."""
    key = (compiler.resolve_target(target)[0], threads or runtime.core_count())
    if key not in _limits:
        _limits[key] = compiler.measure_limits(*key)
    return _limits[key]


def bandwidth(measured, size, direction="read"):
    """Bytes per second of a stream over `size` bytes, interpolated between the measured sizes by
    their logarithms."""
    rows = measured["bandwidths"]
    sizes = [math.log(row["bytes"]) for row in rows]
    rates = [math.log(row[f"{direction}_bytes_per_second"]) for row in rows]
    return float(np.exp(np.interp(math.log(max(size, 1)), sizes, rates)))


def level(measured, size):
    """The smallest level of the memory that was measured with at least `size` bytes."""
    rows = measured["bandwidths"]
    return next((row["level"] for row in rows if row["bytes"] >= size), rows[-1]["level"])


class Row(typing.NamedTuple):
    """One step of a run. Seconds are of a whole run, in which the step is done `calls` times: the
    least and the median of all profiled runs, on one thread of its processor time, else by the
    clock. Fields that a loaded artefact does not know are None."""

    step: int
    label: str
    kind: str
    calls: int
    seconds: float
    median_seconds: float
    flops: typing.Optional[float]
    gflops_per_second: typing.Optional[float]
    bytes: typing.Optional[float]
    roof: typing.Optional[str]  # "compute", or the level of the memory that bounds it
    roof_seconds: typing.Optional[float]
    share: typing.Optional[float]  # roof_seconds divided by the time: 1 is the machine's limit
    predicted_seconds: typing.Optional[float]


def peak(measured, target, dtype):
    """Peak floating-point operations per second with the target's widest vectors."""
    rows = [row for row in measured["peaks"] if row["types"] == dtype]
    width = compiler.vector_bits(target)
    fitting = [row for row in rows if row["vector_bits"] == width] or rows
    return max(row["flops_per_second"] for row in fitting)


def _roof(measured, target, work, calls, all_bytes):
    """(seconds, name) of the roof, for one execution of a step."""
    own = work["read"] + work["constants"] + work["written"]
    # A step that runs several times per run finds its constants in the memory that holds its own
    # data.
    held = own if calls > 1 else max(all_bytes, own)
    # A multiply-add is one instruction, and so is any other operation.
    operations = work["flops"] - work["multiply_adds"]
    return max(
        (operations * 2 / peak(measured, target, work["dtype"]), "compute"),
        (work["constants"] / bandwidth(measured, held), level(measured, held)),
        ((work["read"] + work["constants"]) / bandwidth(measured, own), level(measured, own)),
        (work["written"] / bandwidth(measured, own, "write"), level(measured, own)),
        key=lambda item: item[0],
    )


class Machine(typing.NamedTuple):
    """The machine on which a profile was taken; `limits` are those measured there, or None."""

    target: str
    threads: int
    limits: object


class Plan(typing.NamedTuple):
    """The steps of a model: their labels, and their work (None for a loaded artefact)."""

    labels: list
    work: list
    all_bytes: int
    symbols: dict  # the sizes that the run had for the model's symbols


class Profile:
    """Times of a model's steps inside whole runs. `rows` are in the plan's order; `run_seconds` is
    the fastest run, `median_seconds` the median one; `limits` the machine's."""

    def __init__(self, name, machine, raw, plan):
        self.model = name
        self.target, self.threads, self.limits = machine
        self.runs = len(raw["runs"])
        self.run_seconds, self.median_seconds = min(raw["runs"]), float(np.median(raw["runs"]))
        self._timeline = raw["timeline"]
        self.labels, self.symbols = plan.labels, plan.symbols
        self.rows = []
        self.by_report = {}  # rows of kernels by their number in Module.kernels
        for step, (calls, least, median, _) in enumerate(raw["steps"]):
            if not calls:
                continue
            self.rows.append(self._row(step, (calls, least, median), plan))
            if plan.work and plan.work[step]["report"] >= 0:
                self.by_report[plan.work[step]["report"]] = self.rows[-1]

    def _row(self, step, times, plan):
        calls, least, median = times
        work = plan.work and plan.work[step]
        least = max(least, 1e-9)  # a clock may be coarser than a step
        if not work:
            return Row(step, self.labels[step], "step", calls, least, median, *[None] * 7)
        seconds, roof = _roof(self.limits, self.target, work, calls, plan.all_bytes)
        flops = work["flops"] * calls
        # Loops and branches have no work of their own, only that of the steps in them.
        has_roof = work["kind"] in ("kernel", "copy")
        return Row(
            step,
            self.labels[step],
            work["class"],
            calls,
            least,
            median,
            flops,
            1e-9 * flops / least,
            (work["read"] + work["constants"] + work["written"]) * calls,
            roof if has_roof else None,
            seconds * calls if has_roof else None,
            seconds * calls / least if has_roof else None,
            work["predicted_seconds"] * calls / (1 if work["single_thread"] else self.threads),
        )

    @property
    def classes(self):
        """One dictionary per kind of kernel, the one with the most time first."""
        groups = {}
        for row in self.rows:
            groups.setdefault(row.kind, []).append(row)
        result = []
        for kind, rows in groups.items():
            seconds = sum(row.seconds for row in rows)
            known = [row for row in rows if row.roof_seconds is not None]
            roof = sum(row.roof_seconds for row in known) if known else None
            flops = sum(row.flops or 0 for row in rows)
            result.append(
                {
                    "kind": kind,
                    "steps": len(rows),
                    "seconds": seconds,
                    "gflops_per_second": 1e-9 * flops / seconds,
                    "roof_seconds": roof,
                    "share": roof / seconds if roof is not None else None,
                    "lost_seconds": seconds - roof if roof is not None else None,
                    "predicted_seconds": sum(row.predicted_seconds or 0 for row in rows),
                }
            )
        return sorted(result, key=lambda item: -item["seconds"])

    def summary(self):
        """Totals: seconds of all steps at their fastest, at their roofs and as predicted; the share
        of the roof."""
        steps = sum(row.seconds for row in self.rows)
        known = [row.roof_seconds for row in self.rows if row.roof_seconds is not None]
        return {
            "runs": self.runs,
            "run_seconds": self.run_seconds,
            "median_run_seconds": self.median_seconds,
            "step_seconds": steps,
            "roof_seconds": sum(known) if known else None,
            "share": sum(known) / steps if known else None,
            "predicted_seconds": sum(row.predicted_seconds or 0 for row in self.rows)
            if known
            else None,
        }

    def to_dict(self):
        """Everything as values that JSON can represent."""
        return self.summary() | {
            "threads": self.threads,
            "classes": self.classes,
            "rows": [row._asdict() for row in self.rows],
        }

    def trace(self, path):
        """Writes the fastest run as a trace in Chrome's format, which https://ui.perfetto.dev and
        chrome://tracing open."""
        events = [
            {
                "name": self.labels[step],
                "cat": "step",
                "ph": "X",
                "pid": 1,
                "tid": 1,
                "ts": begin * 1e6,
                "dur": (end - begin) * 1e6,
                "args": {"step": step},
            }
            for step, begin, end in self._timeline
        ]
        write(
            path,
            json.dumps(
                {
                    "traceEvents": events,
                    "displayTimeUnit": "ns",
                    "otherData": {"model": self.model, "target": self.target},
                }
            ),
        )

    to_perfetto = trace  # the name that it had first

    def __repr__(self):
        return (
            f"<tc.Profile of {printable(self.model)} for {self.target}: {len(self.rows)} steps, "
            f"{self.runs} runs, fastest {self.run_seconds * 1e3:.3f} ms>"
        )

    def _repr_html_(self):
        from .reporting.notebook import profile_table

        return profile_table(self)

    def __str__(self):
        totals = self.summary()
        whole = totals["step_seconds"]
        lines = [
            f"{printable(self.model)} for {self.target}, {self.threads} thread{'s' * (self.threads > 1)}: "
            f"{self.runs} runs, fastest {totals['run_seconds'] * 1e3:.3f} ms, median "
            f"{totals['median_run_seconds'] * 1e3:.3f} ms",
            f"{'step':>5s} {'us':>10s} {'%':>5s} {'GFLOP/s':>8s} {'MB':>8s} {'roof':>8s} "
            f"{'share':>6s} {'predicted':>10s}  {'kind':16s} label",
        ]
        for row in self.rows:
            lines.append(
                f"{row.step:5d} {_columns(row._asdict(), whole)}  {row.kind:16s} "
                f"{row.label}" + (f" ({row.calls} times)" if row.calls > 1 else "")
            )
        lines.append("by kind, the one with the most time first; lost: the time above the roof")
        lines.append(
            f"{'kind':16s} {'steps':>5s} {'us':>10s} {'%':>5s} {'GFLOP/s':>8s} {'share':>6s} "
            f"{'lost us':>10s} {'predicted':>10s}"
        )
        for item in self.classes:
            lines.append(
                f"{item['kind']:16s} {item['steps']:5d} {item['seconds'] * 1e6:10.1f} "
                f"{100 * item['seconds'] / whole:5.1f} "
                f"{item['gflops_per_second']:8.1f} {_percent(item['share']):>6s} "
                f"{_micro(item['lost_seconds'])} {_micro(item['predicted_seconds'])}"
            )
        total = (
            f"total: {whole * 1e3:.3f} ms in all steps at their fastest, "
            f"{totals['run_seconds'] * 1e3:.3f} ms in the fastest run"
        )
        if totals["roof_seconds"] is not None:
            total += (
                f", {totals['roof_seconds'] * 1e3:.3f} ms at the roofs "
                f"({_percent(totals['share'])} of the roof), predicted "
                f"{totals['predicted_seconds'] * 1e3:.3f} ms"
            )
        return lines_text([*lines, total])


def _percent(share):
    return "-" if share is None else f"{100 * share:.0f} %"


def _micro(seconds):
    return f"{'-':>10s}" if seconds is None else f"{seconds * 1e6:10.1f}"


def _columns(row, whole):
    gflops = "-" if row["gflops_per_second"] is None else f"{row['gflops_per_second']:.1f}"
    megabytes = "-" if row["bytes"] is None else f"{row['bytes'] / 1e6:.3f}"
    return (
        f"{row['seconds'] * 1e6:10.1f} {100 * row['seconds'] / whole:5.1f} {gflops:>8s} "
        f"{megabytes:>8s} {row['roof'] or '-':>8s} {_percent(row['share']):>6s} "
        f"{_micro(row['predicted_seconds'])}"
    )


def limits_text(measured):
    """The machine's limits as a table."""
    lines = [f"limits measured on {measured['threads']} thread{'s' * (measured['threads'] > 1)}"]
    lines += [
        f"  {row['instructions']:14s} {row['types']:16s} {row['flops_per_second'] * 1e-9:10.1f} GFLOP/s"
        for row in measured["peaks"]
    ]
    lines += [
        f"  {row['level']:8s} {row['bytes'] / 1024:12.0f} KiB  read "
        f"{row['read_bytes_per_second'] * 1e-9:8.1f} GB/s, write "
        f"{row['write_bytes_per_second'] * 1e-9:8.1f} GB/s"
        for row in measured["bandwidths"]
    ]
    lines.append(
        f"  call {measured['call_seconds'] * 1e6:.2f} us, with all threads "
        f"{measured['awake_seconds'] * 1e6:.2f} us, woken from sleep "
        f"{measured['asleep_seconds'] * 1e6:.2f} us"
    )
    return lines_text(lines)


def symbols_of(module, arrays):
    """{symbol: size} that the arrays give to the open sizes of the module's tensors."""
    return {
        size: int(actual)
        for port, array in zip(module._tensor_inputs, arrays)
        for size, actual in zip(port.shape, np.shape(array))
        if isinstance(size, str)
    }


def profile(module, arrays, seconds, repeat=None):
    """Profiles a module; see Module.profile."""
    if not seconds >= 0:
        raise ShapeError(f"profile: seconds is {seconds!r}; give a number of at least 0")
    module._need_runnable()
    ordered = list(arrays)
    if len(ordered) != len(module._tensor_inputs):
        raise ShapeError(
            f"model '{module.name}' takes {len(module._tensor_inputs)} inputs, not {len(ordered)}"
        )
    context = module._runner.take()
    try:
        # On one thread, processor time is used: it leaves out the time that other programs take on
        # a busy machine.
        alone = (module._threads or runtime.core_count()) == 1
        raw = context.profile(ordered, 0.0 if repeat else seconds, repeat or 3, alone)
        module._runner.last = context
        threads = context.threads_used
    finally:
        module._runner.give_back(context)
    measured = limits(module.target, threads) if module._compiled else None
    symbols = symbols_of(module, ordered)
    work = compiler.step_work(module._compiled, symbols) if module._compiled else None
    memory = module.memory
    given = sum(np.asarray(array).nbytes for array in ordered)
    all_bytes = memory.constants + memory.arena + given
    plan = Plan(module._model.info()["steps"], work, all_bytes, symbols)
    return Profile(module.name, Machine(module.target, threads, measured), raw, plan)
