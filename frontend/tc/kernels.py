"""The kernels of a model, and their schedules by hand."""

import inspect
import re
import time
import typing

import numpy as np

from . import _tc
from .errors import ScheduleError
from .module import Module, _options, _source


class Timing(typing.NamedTuple):
    """Seconds of one run."""
    minimum: float
    median: float


class Schedule:
    """An ordered list of primitives ("trace") applied to a kernel. Each primitive is a method that
    returns the schedule; an illegal request raises tc.ScheduleError, says why, and changes nothing.
    """

    def __init__(self, native):
        self._native = native

    def apply(self, line):
        """Applies one primitive in its text form, or several, one per line."""
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
        """None where every dependence runs forwards and every parallel and vector mark holds, else
        the violated pair of instances."""
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
        return self._native.llvm()

    @property
    def assembly(self):
        return self._native.assembly()

    def __repr__(self):
        return "\n".join([f"<tc.Schedule of {self._native.name} for {self.target}>", *self.trace])


def _placeholders(signature):
    """The words in capitals of a primitive's signature, which arguments replace."""
    return re.findall(r"\b[A-Z][A-Z0-9_]*\b", signature)


def _argument_text(value):
    if isinstance(value, (list, tuple)):
        return " ".join(_argument_text(item) for item in value)
    return str(value)


def _primitive_method(name, signature, doc):
    """A method whose arguments fill the signature's placeholders: split("x", 14, "xo", "xi")."""
    names = [word.lower() for word in _placeholders(signature)]
    unique = [word if names.count(word) == 1 else f"{word}{names[:i].count(word) + 1}"
              for i, word in enumerate(names)]
    parameters = inspect.Signature(
        [inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD) for word in unique])

    def method(self, *arguments, **named):
        try:
            bound = parameters.bind(*arguments, **named)
        except TypeError as error:
            raise ScheduleError(f"{name}: {error}; its form is: {signature}") from None
        values = iter(bound.arguments.values())
        line = re.sub(r"\b[A-Z][A-Z0-9_]*\b", lambda _: _argument_text(next(values)), signature)
        return self.apply(re.sub(r"[\[\]]|\.\.\.", "", line))

    method.__name__ = name
    method.__qualname__ = f"Schedule.{name}"
    method.__doc__ = f"{doc}\n\nText form: {signature}"
    method.__signature__ = parameters.replace(
        parameters=[inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                    *parameters.parameters.values()])
    return method


def _add_primitives():
    for name, _, signature, doc in _tc.primitives():
        if not hasattr(Schedule, name):
            setattr(Schedule, name, _primitive_method(name, signature, doc))


_add_primitives()


class Kernel:
    """One fused group of a model's nodes."""

    def __init__(self, report, target, threads):
        self.label = report["label"]
        self.text = report["statements"]
        self.trace = list(report["trace"])
        self.multiply_adds = report["multiply_adds"]
        self.flops = report["flops"]
        self.predicted_seconds = report["predicted_seconds"]
        self.target = target
        self._threads = threads

    def schedule(self, trace=None):
        """The schedule that the compiler chose, or that of another trace (a list of lines; an empty
        one gives the loops as the statements stand)."""
        schedule = Schedule(_tc.Schedule(self.text, self.target))
        return schedule.apply("\n".join(self.trace if trace is None else trace))

    def compile(self, schedule=None, threads=1):
        """The kernel alone as a module: its inputs are the kernel's inputs and packed constants."""
        schedule = schedule or self.schedule()
        return Module(compiled=schedule._native.compile(threads), threads=threads)

    def time(self, schedule=None, threads=1, seconds=0.3):
        """Runs the kernel on seeded data for about that long."""
        module = self.compile(schedule, threads)
        random = np.random.default_rng(0)
        arrays = [seeded_array(random, port.dtype, port.shape) for port in module.inputs]
        return time_calls(lambda: module(*arrays), seconds)

    def __repr__(self):
        return f"<tc.Kernel {self.label} for {self.target}>"


def seeded_array(random, dtype, shape):
    """Data for timing: normally distributed floats; zeros and ones for the rest, so that indices
    stay small."""
    if dtype == "bfloat16":
        return (random.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if np.issubdtype(np.dtype(dtype), np.floating):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)


def time_calls(call, seconds, repeat=None):
    """Timing of a call: `repeat` times, or for about `seconds` and at least three times."""
    call()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < repeat if repeat else (time.perf_counter() < end or len(times) < 3):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return Timing(min(times), float(np.median(times)))


def kernels(model, target="native", *, shapes=None, threads=1):
    """The fused groups of the model in the order of a run, as the compiler schedules them."""
    options = _options(target, shapes, threads)
    name = _tc.resolve_target(target)[0]
    return [Kernel(report, name, threads) for report in _tc.plan_kernels(_source(model), options)]
