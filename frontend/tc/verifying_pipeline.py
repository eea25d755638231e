"""The stages of the compiler as verify runs them: import, passes one by one, schedules, code; and
the references for comparison."""

import functools

import numpy as np

from .arguments import Options, options_of
from .comparing import numbers, stored, tc_type
from .errors import Error
from .log import let_read
from .module import Module
from .native import compiler
from .ports import NUMPY_NAMES, TC_NAMES

# Operators whose random numbers depend on the element type, so that they cannot be evaluated in
# float64.
_RANDOM = {"RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"}


class Build:
    """A compiled model, and what the compiler decided for each kernel."""

    def __init__(self, compiled, threads):
        self.kernels, self.notes = list(compiled.reports), list(compiled.notes)
        self.module = Module(compiled=compiled, threads=threads)
        self.quantised = compiled.quantised if compiled.arithmetic else ""

    def run(self, values):
        """{output: (element type, array as modules give it)} for inputs {name: (element type,
        array)}."""
        results = self.module._run([values[port.name][1] for port in self.module.inputs])
        return {
            port.name: (TC_NAMES[port.dtype], np.asarray(array))
            for port, array in zip(self.module.outputs, results)
        }


class Pipeline:
    """Import, passes, schedules and code as separate steps. Models are the bytes of ONNX files."""

    def __init__(self, log=None, **options):
        """`options` are those of tc.compile."""
        self._options, self.log = Options(**options), log
        self.model = "model.onnx"  # its name in errors
        self.target, self.threads = self._options.target, self._options.threads
        self.tolerance, self.seed = self._options.tolerance, self._options.seed
        # (name, function that runs the pass on a graph), in the order of the passes.
        wanted = compiler.passes(
            self._options.quantised == "fast", self._options.rounding == "each"
        )
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
        """The Build of a simplified graph; `traces` gives schedules {workload: lines} that replace
        the log's and the default ones."""
        return Build(graph.compile(traces or {}), self.threads)

    def build(self, data, traces=None, tolerance=None, log=None):
        """The Build of the model, as tc.compile makes it."""
        return self.compiled(self.simplified(self.imported(data, tolerance, log)), traces)


def _after(graph, name):
    return graph.after(name)


def traces_without_schedule(kernels):
    """Traces that leave the loops of all kernels in the order of their statements."""
    return {kernel["workload"]: list(kernel["layout_lines"]) for kernel in kernels}


def traces_of(kernels):
    return {kernel["workload"]: list(kernel["trace"]) for kernel in kernels}


def _given(values):
    return [
        (name, dtype, list(array.shape), array.tobytes()) for name, (dtype, array) in values.items()
    ]


def evaluate(graph, values, names, wide=True):
    """(the values of these names, whether `wide` was possible), computed by the interpreter for
    inputs {name: (element type, array)}, as float64 or integers. `wide` computes and keeps all
    floats in float64; otherwise each is stored in its own type."""
    wide = wide and not any(node["op"] in _RANDOM for node in graph.nodes)
    try:
        found = graph.evaluate(_given(values), list(names), wide)
    except Error:
        if not wide:
            raise
        # Some operators do not accept float64.
        return evaluate(graph, values, names, wide=False)
    result = {}
    for name, (dtype, shape, data) in found.items():
        kind = (
            dtype
            if dtype in ("f64", "f32", "f16", "bool") or dtype[0] in "iu" and int(dtype[1:]) >= 8
            else None
        )
        array = np.frombuffer(
            data,
            np.dtype(NUMPY_NAMES[dtype]) if kind else np.uint16 if dtype == "bf16" else np.uint8,
        ).reshape(shape)
        result[name] = numbers(array, dtype)
    return result, wide


class Peer:
    """ONNX Runtime, where it is installed and accepts the model."""

    def __init__(self):
        try:
            import onnxruntime
        except ImportError:
            onnxruntime = None
        self._library = onnxruntime
        self.why_not = "" if onnxruntime else "it is not installed"

    def run(self, data, values, names):
        """{name: numbers}; or None, and `why_not` says why."""
        if self._library is None:
            return None
        try:
            options = self._library.SessionOptions()
            options.log_severity_level = 4
            session = self._library.InferenceSession(
                data, options, providers=["CPUExecutionProvider"]
            )
            known = {port.name for port in session.get_inputs()}
            results = session.run(
                list(names), {name: array for name, (_, array) in values.items() if name in known}
            )
            return {name: numbers(result, tc_type(result)) for name, result in zip(names, results)}
        except Exception as error:  # the library may raise anything
            self.why_not = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            return None


def as_input(found, dtype):
    """Numbers of a reference, converted to an input (element type, array) of that type."""
    if found.dtype.name == NUMPY_NAMES[dtype]:
        return dtype, found
    return dtype, stored(found, dtype)
