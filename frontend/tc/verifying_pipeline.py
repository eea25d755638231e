"""The compiler as verify takes it apart: import, passes one by one, schedules, code; and the references beside it."""

import functools

import numpy as np

from .arguments import Options, options_of
from .comparing import numbers, stored, tc_type
from .errors import Error
from .log import let_read
from .module import Module
from .native import compiler
from .ports import NUMPY_NAMES, TC_NAMES

# Operators whose numbers depend on the type in which they are made: they have no float64 form.
_RANDOM = {"RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"}


class Build:
    """A model that was compiled, and what of each kernel was decided."""

    def __init__(self, compiled, threads):
        self.kernels, self.notes = list(compiled.reports), list(compiled.notes)
        self.module = Module(compiled=compiled, threads=threads)
        self.quantised = compiled.quantised if compiled.arithmetic else ""

    def run(self, values):
        """{output: (element type, array as modules give it)} for inputs of the same form."""
        results = self.module._run([values[port.name][1] for port in self.module.inputs])
        return {port.name: (TC_NAMES[port.dtype], np.asarray(array)) for port, array in zip(self.module.outputs, results)}


class Pipeline:
    """Import, passes, schedules and code, each on its own. Models are the bytes of ONNX files."""

    def __init__(self, log=None, **options):
        """The options as tc.compile takes them."""
        self._options, self.log = Options(**options), log
        self.model = "model.onnx"     # as errors name it
        self.target, self.threads = self._options.target, self._options.threads
        self.tolerance, self.seed = self._options.tolerance, self._options.seed
        # What each pass makes of a graph, by its name and in their order.
        wanted = compiler.passes(self._options.quantised == "fast", self._options.rounding == "each")
        self.passes = [(name, functools.partial(_after, name=name)) for name, _ in wanted]

    def options(self):
        return options_of(self._options)

    def imported(self, data, tolerance=None, log=None):
        options = self.options()
        if tolerance is not None:
            options.tolerance = tolerance
        let_read(options, self.log if log is None else log)
        return compiler.Graph.imported(compiler.Source(data, self.model), options)

    def simplified(self, graph, without=()):
        for name, run in self.passes:
            if name not in without:
                graph = run(graph)
        return graph

    def compiled(self, graph, traces=None):
        """A simplified graph as a build; `traces` gives schedules {workload: lines} in the place of the log's and the default."""
        return Build(graph.compile(traces or {}), self.threads)

    def build(self, data, traces=None, tolerance=None, log=None):
        """The model compiled as tc.compile does it."""
        return self.compiled(self.simplified(self.imported(data, tolerance, log)), traces)


def _after(graph, name):
    return graph.after(name)


def traces_without_schedule(kernels):
    """Traces under which the loops of kernels stand as their statements do."""
    return {kernel["workload"]: list(kernel["layout_lines"]) for kernel in kernels}


def traces_of(kernels):
    return {kernel["workload"]: list(kernel["trace"]) for kernel in kernels}


def _given(values):
    return [(name, dtype, list(array.shape), array.tobytes()) for name, (dtype, array) in values.items()]


def evaluate(graph, values, names, wide=True):
    """The values of these names by the interpreter, as float64 or integers, for inputs {name: (element type, array)}. `wide`
    computes and keeps all floats in float64; without it each is stored in its own type. Also whether it was wide."""
    wide = wide and not any(node["op"] in _RANDOM for node in graph.nodes)
    try:
        found = graph.evaluate(_given(values), list(names), wide)
    except Error:
        if not wide:
            raise
        # Some operators take no float64.
        return evaluate(graph, values, names, wide=False)
    result = {}
    for name, (dtype, shape, data) in found.items():
        kind = dtype if dtype in ("f64", "f32", "f16", "bool") or dtype[0] in "iu" and int(dtype[1:]) >= 8 else None
        array = np.frombuffer(data, np.dtype(NUMPY_NAMES[dtype]) if kind else np.uint16 if dtype == "bf16" else np.uint8).reshape(shape)
        result[name] = numbers(array, dtype)
    return result, wide


class Peer:
    """ONNX Runtime, where it is installed and takes the model."""

    def __init__(self):
        try:
            import onnxruntime
        except ImportError:
            onnxruntime = None
        self._library = onnxruntime
        self.why_not = "" if onnxruntime else "it is not installed"

    def run(self, data, values, names):
        """{name: numbers}, or None and `why_not` says why."""
        if self._library is None:
            return None
        try:
            options = self._library.SessionOptions()
            options.log_severity_level = 4
            session = self._library.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            known = {port.name for port in session.get_inputs()}
            results = session.run(list(names), {name: array for name, (_, array) in values.items() if name in known})
            return {name: numbers(result, tc_type(result)) for name, result in zip(names, results)}
        except Exception as error:   # whatever the library raises
            self.why_not = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            return None


def as_input(found, dtype):
    """Numbers of a reference as an input (element type, array) of that type."""
    if found.dtype.name == NUMPY_NAMES[dtype]:
        return dtype, found
    return dtype, stored(found, dtype)
