"""Tuning: searching for schedules on this machine or on the devices of a tracker."""

import dataclasses
import math
import os
import sys
import time
import typing

from . import archives, cluster, files, fleet
from .arguments import Options, options_of
from .cost_model import COST_MODELS, GAUSSIAN, cost_model_of
from .errors import Error, lines_text, printable
from .files import default_log
from .interrupts import keep
from .log import build_id, opened, url_of
from .native import LIBRARY_FOLDER, compiler, runtime
from .parser import number
from .sources import described, source_of

PROGRAM_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
MOST_PRIORITY = 10
# Candidates per model where neither trials nor a time limit is given.
DEFAULT_TRIALS = 1000


class KernelResult(typing.NamedTuple):
    """What tuning did for one kernel: times of one call, in the result's unit; how many schedules
    were tried; and how many failed, by outcome and with an example."""

    label: str
    calls: int
    untuned: float
    best: float
    roof_seconds: float
    trials: int
    failures: dict
    example: str

    @property
    def gain(self):
        return self.untuned / self.best if self.best else 1.0


class TuneResult(typing.NamedTuple):
    """`measured` counts the candidates that were run in this call, `trials` also those of the log.
    `model_gain` is untuned over tuned time of the whole model in interleaved runs, None where it
    was not measured."""

    kernels: list
    unit: str
    trials: int
    measured: int
    seconds: float
    model_gain: typing.Optional[float]
    stopped: str
    notes: list
    log: str
    model: str = ""
    target: str = ""
    threads: int = 0
    began: int = 0  # seconds since 1970

    def report(self, path=None):
        """A report on the session: what was tried, how the best times fell, what failed. Returns a
        tc.reporting.report.Report; with a path it is written there as one HTML file
        (docs/report.md)."""
        from .reporting.report import of_session

        return of_session(self, path)

    def __repr__(self):
        gain = "" if self.model_gain is None else f", {self.model_gain:.3f} times as fast"
        return (
            f"<tc.TuneResult of {printable(self.model)} for {self.target}: {len(self.kernels)} kernels, "
            f"{self.trials} schedules tried, {self.measured} measured now{gain}>"
        )

    def _repr_html_(self):
        from .reporting.notebook import tuning_table

        return tuning_table(self)

    def summary(self):
        """The table that is shown at the end."""
        lines = [*_table(self.kernels, self.unit)]
        failures = {}
        for kernel in self.kernels:
            for outcome, count in kernel.failures.items():
                failures[outcome] = failures.get(outcome, 0) + count
        lines.append(
            f"{self.trials} schedules tried, {self.measured} measured now in {self.seconds:.0f} s "
            f"({self.stopped}); failed: "
            + (
                ", ".join(f"{count} {outcome}" for outcome, count in sorted(failures.items()))
                or "none"
            )
        )
        example = next((kernel.example for kernel in self.kernels if kernel.example), "")
        if example:
            lines.append(f"for example: {example}")
        lines += self.notes
        if self.model_gain is not None:
            lines.append(f"whole model: {self.model_gain:.3f} times as fast as untuned")
        lines.append(f"log: {self.log}")
        return lines_text(lines)


class TuneResults(typing.NamedTuple):
    """Of several models that were tuned under one budget: a TuneResult of each, in their order, in
    which trials are those of the model's kernels; and the numbers of all together, in which a
    kernel that models share counts once."""

    models: list
    kernels: int
    trials: int
    measured: int
    seconds: float
    stopped: str
    log: str

    def __repr__(self):
        return (
            f"<tc.TuneResults of {len(self.models)} models: {self.kernels} kernels, {self.trials} "
            f"schedules tried, {self.measured} measured now>"
        )

    def _repr_html_(self):
        from .reporting.notebook import tuning_table

        return "".join(map(tuning_table, self.models))

    def summary(self):
        """The tables of the models one after the other, and a line for all."""
        lines = []
        for result in self.models:
            lines += [f"{printable(result.model)}:", result.summary().rpartition("\nlog: ")[0], ""]
        shared = sum(len(result.kernels) for result in self.models) - self.kernels
        lines.append(
            f"{len(self.models)} models: {self.kernels} kernels, of which models share {shared}; "
            f"{self.trials} schedules tried, {self.measured} measured now in {self.seconds:.0f} s "
            f"({self.stopped})"
        )
        for result in self.models:
            gain = "not measured" if result.model_gain is None else f"{result.model_gain:.3f}"
            lines.append(f"times as fast as untuned: {gain:>12}  {printable(result.model)}")
        return "\n".join([*lines, f"log: {printable(self.log)}"])


def _amount(value, unit):
    if not value:
        return "-"
    return f"{value * 1e6:.1f} us" if unit == "seconds" else f"{value:.3g} cycles"


def _table(kernels, unit, most=None):
    """A table of the kernels, longest first: share of the model's time, untuned and best time,
    roof, trials."""
    total = sum(kernel.untuned * kernel.calls for kernel in kernels) or math.inf
    ordered = sorted(kernels, key=lambda kernel: -kernel.untuned * kernel.calls)
    yield (
        f"{'share':>6} {'untuned':>12} {'best':>12} {'gain':>6} {'of roof':>7} {'tried':>6} "
        f"{'failed':>6}  kernel"
    )
    for kernel in ordered[:most]:
        roof = kernel.roof_seconds / kernel.best if kernel.best and unit == "seconds" else 0
        yield (
            f"{100 * kernel.untuned * kernel.calls / total:5.1f}% {_amount(kernel.untuned, unit):>12} "
            f"{_amount(kernel.best, unit):>12} {kernel.gain:6.2f} "
            f"{f'{100 * roof:.0f}%' if roof else '-':>7} {kernel.trials:6d} "
            f"{sum(kernel.failures.values()):6d}  {kernel.label[:50]}"
            f"{f' x{kernel.calls}' if kernel.calls > 1 else ''}"
        )


def _progress_of(raw):
    kernels = [KernelResult(**row) for row in raw["kernels"]]
    return kernels, raw["unit"]


class _LiveDisplay:
    """A table on a terminal that is redrawn in place."""

    def __init__(self):
        from rich.live import Live

        self._live = Live(auto_refresh=False, transient=True)
        self._live.start()

    def __call__(self, raw):
        from rich.text import Text

        kernels, unit = _progress_of(raw)
        left = f", {raw['seconds_left']:.0f} s left" if raw["seconds_left"] >= 0 else ""
        lines = [
            *_table(kernels, unit, most=24),
            f"{raw['trials']} tried, {raw['measured']} measured{left}: {raw['doing']}",
        ]
        self._live.update(Text(lines_text(lines)), refresh=True)

    def close(self):
        self._live.stop()


def _share_done(raw, trials):
    """ "83 s, 120 tried (46 %, about 97 s left)": of the time limit or the number of trials,
    whichever ends first; `trials` is 0 where nothing bounds it."""
    seconds, tried = raw["seconds"], raw["trials"]
    ends = []  # share done, seconds left
    if raw["seconds_left"] >= 0:
        ends.append((seconds / max(seconds + raw["seconds_left"], 1e-9), raw["seconds_left"]))
    if trials and tried:
        ends.append((tried / trials, seconds / tried * max(trials - tried, 0)))
    share, left = max(ends, default=(None, None))
    told = "" if share is None else f" ({100 * share:.0f} %, about {left:.0f} s left)"
    return f"{seconds:.0f} s, {tried} tried{told}"


class _PlainLines:
    """A line from time to time, where there is no terminal."""

    def __init__(self, stream, trials):
        self._stream, self._trials = stream, trials
        self._next = 0.0
        self._noticed = ""

    def __call__(self, raw):
        # A notice comes at once, and those that repeat it are as rare as other lines.
        is_new = raw["notice"] and raw["notice"] != self._noticed
        if time.monotonic() < self._next and not is_new:
            return
        self._noticed = raw["notice"]
        self._next = time.monotonic() + 10
        if raw["notice"]:
            print(f"tune: {printable(raw['doing'], 600)}", file=self._stream, flush=True)
            return
        kernels, unit = _progress_of(raw)
        untuned = sum(kernel.untuned * kernel.calls for kernel in kernels)
        best = sum(kernel.best * kernel.calls for kernel in kernels)
        print(
            printable(
                f"tune: {_share_done(raw, self._trials)}, kernels {_amount(untuned, unit)} -> "
                f"{_amount(best, unit)}, {raw['doing']}"
            ),
            file=self._stream,
            flush=True,
        )

    def close(self):
        pass


def _display(progress, trials):
    if callable(progress):
        return progress
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return None
    if sys.stdout.isatty():
        return _LiveDisplay()
    return _PlainLines(sys.stderr, trials)


def work_folder(place=None):
    """A folder for candidates in `place` (default: $TMPDIR), until the block ends; what killed
    tuners left is removed."""
    return files.work_folder("tc-tuning-", place)


def _described_models(models, trust_archive, inputs, shapes):
    """Of each model what described() makes of it."""
    if not models:
        raise Error("there is no model to tune: give one, or a list of some")
    return [
        described(archives.trusted(model) if trust_archive else model, inputs, shapes)
        for model in models
    ]


def _opened_builder(wanted, credentials, folder):
    """The builder of candidates that a user asked for."""
    relay = []
    if wanted.partition(":")[0] == "ray":
        cluster.check_installed()
        relay = cluster.relay_command(credentials)
    return compiler.open_builder(wanted, PROGRAM_FOLDER, LIBRARY_FOLDER, folder, relay)


def _check_numbers(trials, time_limit, priority):
    if trials is not None and not (isinstance(trials, int) and trials >= 1):
        raise Error(f"trials is {trials!r}; give a whole number of at least 1")
    if time_limit is not None and not (isinstance(time_limit, (int, float)) and time_limit > 0):
        raise Error(f"time_limit is {time_limit!r}; give a number of seconds above 0")
    if not (isinstance(priority, int) and -MOST_PRIORITY <= priority <= MOST_PRIORITY):
        raise Error(
            f"priority is {priority!r}; give a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}"
        )


def tune(
    model,
    target="native",
    *,
    inputs=None,
    shapes=None,
    threads=None,
    tolerance=1e-4,
    trials=None,
    time_limit=None,
    log=None,
    tracker=None,
    credentials=None,
    insecure=False,
    priority=0,
    builders="processes",
    cost_model=GAUSSIAN,
    seed=0,
    progress=None,
    quantised="exact",
    rounding="stored",
    open_initializers=(),
    data_folders=(),
    trust_archive=False,
    max_nodes=None,
    compile_time_limit=None,
    _from_random=False,
    _sample_seconds=None,
):
    """Searches for schedules and keeps what it finds in the log; returns a TuneResult. Of a list of
    models, which share the budget and the options, it returns TuneResults; a kernel that several of
    them have is tuned once.

    trials              the most candidates, including those in the log already; default 1000 for
                        each model where no time limit is given
    time_limit          the most seconds, including earlier sessions with this log
    log                 path or URL of the log, or a tc.Log; default $TC_LOG or the user's cache
                        folder
    tracker             "host:port"; None tunes on this machine
    priority            of those who wait for one of the tracker's devices, whose priority is higher
                        get it first: -10 to 10
    builders            what builds the candidates: "processes", one on each core of this machine,
                        or "processes:4"; "ray://HOST:PORT" is a Ray cluster
    cost_model          "trees": a search also learns from the log's records of other kernels
    progress            a callable that gets a dict from time to time, True or False; default: a
                        live table on a terminal, silent otherwise
    compile_time_limit  seconds that each compilation of the whole model may take, of which the
                        first finds the kernels; max_nodes and the other options are those of
                        tc.compile

    May be interrupted at any moment: the next call with the same log continues from there.
    """
    _check_numbers(trials, time_limit, priority)
    many = isinstance(model, (list, tuple))
    models = _described_models(model if many else [model], trust_archive, inputs, shapes)
    log = url_of(log) if log else default_log()
    if log is None:
        raise Error('tuning needs a log: give log="FILE"')
    began = time.time()
    learner = cost_model_of(cost_model, seed)
    store = opened(log, write=True, late=True)  # first, so that an error comes before the work
    common = Options(
        target=target,
        threads=threads,
        tolerance=tolerance,
        seed=seed,
        quantised=quantised,
        rounding=rounding,
        open_initializers=open_initializers,
        data_folders=data_folders,
        max_nodes=max_nodes,
        compile_time_limit=compile_time_limit,
    )
    request = compiler.TuneRequest()
    request.tracker = fleet.tracker_address(tracker, insecure) if tracker else ""
    request.credentials = os.fspath(credentials) if credentials else ""
    request.programs, request.libraries = PROGRAM_FOLDER, LIBRARY_FOLDER
    request.trials = trials or (0 if time_limit else DEFAULT_TRIALS * len(models))
    request.time_limit, request.seed, request.build = time_limit or 0, seed, build_id()
    request.priority, request.from_random = priority, _from_random
    request.learn_with(learner)
    if _sample_seconds is not None:
        request.sample_seconds = _sample_seconds
    follower = _Follower(_display(progress, request.trials), compiler.shown_store(log))
    try:
        with work_folder() as folder:
            request.work_folder = folder
            builder = _opened_builder(builders, credentials, folder)
            sources = [
                (source_of(each), options_of(dataclasses.replace(common, shapes=own)))
                for each, own in models
            ]
            request.seconds_before = max(0.0, time.time() - began)
            raw, found = compiler.tune(sources, request, store, builder, follower)
    except Error as error:
        raise follower.with_what_is_kept(error) from None
    finally:
        follower.close()
    opened(log, write=True)  # which makes it where nothing was measured
    session = (compiler.resolve_target(target)[0], threads or runtime.core_count(), int(began))
    named = [(source.name, each) for (source, _), each in zip(sources, found)]
    results = [_result_of(each, raw, log, (name, *session)) for name, each in named]
    return _results_of(results, raw, log) if many else results[0]


class _Follower:
    """Shows the progress of a tuning, and says what is kept in the log where it ends early."""

    def __init__(self, display, shown_log):
        self._display = display
        self._log = shown_log
        self._kept = 0  # schedules

    def __call__(self, raw):
        lost = sum(kernel["failures"].get("device lost", 0) for kernel in raw["kernels"])
        if raw["trials"] > lost:
            self._kept = raw["trials"] - lost
            keep(self._text())
        if raw["notice"] == "silent":
            raw["doing"] += f"; {self._text()}"
        return self._display(raw) if self._display else None

    def _text(self):
        if not self._kept:
            return "no schedule was measured so far"
        kept = "1 schedule is" if self._kept == 1 else f"{self._kept} schedules are"
        return printable(f"{kept} kept in {self._log}: the same command goes on from there")

    def with_what_is_kept(self, error):
        """The error, told with what is kept where something was measured."""
        return type(error)(f"{error}; {self._text()}", shown=True) if self._kept else error

    def close(self):
        if hasattr(self._display, "close"):
            self._display.close()


def _result_of(raw, all_raw, log, session):
    """The result of a model, of what the compiler returned of it and of all; `session` has its last
    fields."""
    kernels, unit = _progress_of(raw["last"])
    return TuneResult(
        kernels,
        unit,
        raw["last"]["trials"],
        raw["last"]["measured"],
        raw["last"]["seconds"],
        1 / raw["model_ratio"] if raw["model_ratio"] else None,
        raw["stopped"],
        all_raw["notes"] + raw["notes"],
        compiler.shown_store(log),
        *session,
    )


def _results_of(results, raw, log):
    """The result of several models."""
    last = raw["last"]
    return TuneResults(
        results,
        len(last["kernels"]),
        last["trials"],
        last["measured"],
        last["seconds"],
        raw["stopped"],
        compiler.shown_store(log),
    )


def add_tuning_options(added):
    """The options of a search, for a command that makes one."""
    added.add_argument(
        "--trials",
        type=number(int, 1, "a whole number"),
        help="schedules to try at most (default 1000)",
    )
    added.add_argument(
        "--time-limit",
        type=number(float, 0, "a number"),
        metavar="SECONDS",
        help="stop after that long, earlier sessions with this log included",
    )
    added.add_argument(
        "--tracker",
        metavar="HOST:PORT",
        help="tune on this tracker's devices; default: on this machine",
    )
    fleet.add_credentials(added)
    added.add_argument(
        "--builders",
        default="processes",
        metavar="processes[:N]|ray://HOST:PORT",
        help="what builds the schedules to try; default: a process on each core of this machine",
    )


def add_search_options(added):
    """The options of a search that only the command `tune` has."""
    added.add_argument(
        "--priority",
        type=int,
        choices=range(-MOST_PRIORITY, MOST_PRIORITY + 1),
        default=0,
        metavar=f"-{MOST_PRIORITY}..{MOST_PRIORITY}",
        help="who waits for a device of the tracker at a higher priority gets it first (default 0)",
    )
    added.add_argument(
        "--cost-model",
        choices=COST_MODELS,
        default=GAUSSIAN,
        help="what predicts times: a Gaussian process that learns from the measurements of a kernel "
        "(default), or besides trees that the log's records of other kernels train",
    )
