"""The kernels of a model, and their schedules by hand."""

import numpy as np

from .accelerator import plan_for
from . import archives
from .arguments import Options, options_of
from .errors import ModelError, ScheduleError, lines_text, printable
from .module import Module
from .native import compiler
from .placement import set_places
from .seeded import seeded_array
from .sources import described, source_of
from .timing import time_calls


class Schedule:
    """An ordered list of primitives ("trace") applied to a kernel. Each primitive is a method that
    returns the schedule; an illegal request raises tc.ScheduleError, says why, and changes nothing.
    """

    def __init__(self, native):
        self._native = native

    def apply(self, line):
        """Applies primitives given as text, one per line."""
        copy = self._native.copy()
        for part in line.splitlines():
            if not part.strip():
                continue
            refusal = copy.apply(part.strip())
            if refusal is not None:
                raise ScheduleError(refusal)
        self._native = copy
        return self

    def copy(self):
        return Schedule(self._native.copy())

    @property
    def trace(self):
        """The primitives so far, as text."""
        return list(self._native.trace)

    @property
    def target(self):
        return self._native.target

    def check(self):
        """None where every dependence runs forwards and every parallel and vector mark is legal,
        else a pair of instances for which that is violated."""
        return self._native.check()

    @property
    def statements(self):
        """The kernel as text, after the rewrites so far."""
        return self._native.statements()

    @property
    def tree(self):
        """The schedule tree as text."""
        return self._native.tree()

    @property
    def loops(self):
        """The generated loops as text."""
        return self._native.loops()

    @property
    def llvm(self):
        return self._native.code_text("llvm")

    @property
    def assembly(self):
        return self._native.code_text("assembly")

    def after_pass(self, name):
        """The code after a pass of docs/code_passes.md, as LLVM IR or LLVM's machine instructions;
        empty where the pass does not run for the target."""
        passes = [each for each, _, _, stage in compiler.code_texts() if stage]
        if name not in passes:
            raise ModelError(
                f"there is no pass over code that is called '{name}'; the passes are {', '.join(passes)}"
            )
        return self._native.code_text(name)

    def code_text(self, name):
        """One of the texts of the kernel's code that back ends offer: llvm, assembly, c, or the
        code after a pass."""
        return self._native.code_text(name)

    def __repr__(self):
        return lines_text(
            [f"<tc.Schedule of {printable(self._native.name)} for {self.target}>", *self.trace]
        )


def _flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield str(value)


def line_of(row, arguments, named):
    """The text of a primitive with these arguments; `row` is its dict of compiler.primitives().
    Positional arguments go to the row's arguments in order. Each gets the least number that it
    needs, and the rest go to the first that takes more."""
    places = {each["name"].lower(): each for each in row["arguments"] if each["kind"] != "keyword"}
    wrong = [name for name in named if name not in places]
    filled = {name: list(_flat([value])) for name, value in named.items() if name in places}
    values = list(_flat(arguments))
    extra = len(values) - sum(each["least"] for name, each in places.items() if name not in named)
    for name, each in places.items():
        if name in named:
            continue
        more = max(0, extra if each["most"] is None else min(extra, each["most"] - each["least"]))
        extra -= more
        count = each["least"] + more
        filled[name], values = values[:count], values[count:]
    missing = [name for name, each in places.items() if len(filled[name]) < each["least"]]
    if wrong or missing or values:
        what = (
            f"there is no argument '{wrong[0]}'"
            if wrong
            else f"'{missing[0]}' is missing"
            if missing
            else f"'{values[0]}' is one too many"
        )
        raise ScheduleError(f"{what}; the form is: {row['signature']}")
    words = [
        [each["name"]] if each["kind"] == "keyword" else filled[each["name"].lower()]
        for each in row["arguments"]
    ]
    return " ".join(_flat([row["verb"], words]))


def _primitive_method(row):
    """A method whose arguments are the row's: split("x", 14, "xo", "xi"), or split("x", 14,
    outer="xo", inner="xi")."""

    def method(self, *arguments, **named):
        return self.apply(line_of(row, arguments, named))

    method.__name__ = row["name"]
    method.__qualname__ = f"Schedule.{row['name']}"
    lines = [
        f"{each['name'].lower()}: {each['description']}"
        for each in row["arguments"]
        if each["kind"] != "keyword"
    ]
    method.__doc__ = "\n".join([row["doc"], "", f"Text form: {row['signature']}", "", *lines])
    return method


def _add_primitives():
    for row in compiler.primitives():
        if not hasattr(Schedule, row["name"]):
            setattr(Schedule, row["name"], _primitive_method(row))


_add_primitives()


class Kernel:
    """One fused group of a model's nodes."""

    def __init__(self, report, target, threads, placed=None):
        self.label = report["label"]
        self.text = report["statements"]
        self.layout_lines = list(report["layout_lines"])
        self.trace = list(report["trace"])
        self.multiply_adds = report["multiply_adds"]
        self.flops = report["flops"]
        self.predicted_seconds = report["predicted_seconds"]
        # The error that schedules may cause; less than the model's where all weights are equal.
        self.tolerance = report["tolerance"]
        self.target = target
        self.placed = placed  # on "core" or an accelerator, where the user says so
        self._threads = threads

    def schedule(self, trace=None):
        """The schedule that the compiler chose, or that of another trace, a list of lines. An empty
        trace leaves the loops in the order of the statements."""
        schedule = Schedule(compiler.Schedule(self.text, self.target))
        return schedule.apply("\n".join(self.trace if trace is None else trace))

    def default_report(self):
        """The analytic default's report on each strategy (predicted cycles, plan, why it is not
        taken), as text and as a list of dicts. A tuned kernel has another schedule than the one
        that the report marks."""
        start = self.schedule(self.layout_lines)
        return start._native.default_report(self._threads, self.tolerance)

    def compile(self, schedule=None, threads=1):
        """The kernel alone as a module: its inputs are the kernel's inputs and packed constants."""
        schedule = schedule or self.schedule()
        return Module(compiled=schedule._native.compile(threads), threads=threads)

    def time(self, schedule=None, threads=1, seconds=0.3):
        """Runs the kernel on seeded data for about `seconds` seconds; the Timing."""
        module = self.compile(schedule, threads)
        random = np.random.default_rng(0)
        arrays = [seeded_array(random, port.dtype, port.shape) for port in module.inputs]
        return time_calls(lambda: module(*arrays), seconds)

    def __repr__(self):
        return f"<tc.Kernel {self.label} for {self.target}>"


def kernels(model, target="native", shapes=None, threads=1, inputs=None, **options):
    """The fused groups of the model in the order of a run, as the compiler schedules them;
    place, tolerance, quantised, rounding, max_nodes, compile_time_limit and trust_archive are those
    of tc.compile."""
    place = options.pop("place", None)
    model, shapes = described(
        archives.trusted(model) if options.pop("trust_archive", False) else model, inputs, shapes
    )
    options = plan_for(
        options_of(Options(target=target, shapes=shapes, threads=threads, **options))
    )
    set_places(options, model, place)
    name = compiler.resolve_target(target)[0]
    return [
        Kernel(report, name, threads, options.places.get(report["label"]))
        for report in compiler.plan_kernels(source_of(model), options)
    ]
