"""Models whose structure depends on the values of inputs (axes, shapes, counts) or on the form of
sequences and optionals: a version for each."""

import collections
import threading
import warnings

import numpy as np

from .composites import Form, arrays_of, form_of, set_forms
from .errors import UnsupportedError, lines_text, printable
from .module import Memory, Module
from .native import compiler
from .ports import ports_of, shape_text

# The most numbers of an input that decides a structure.
MAX_NUMBERS = 1024
# The most versions that a module keeps; the least recently used one is dropped first.
MAX_VERSIONS = 64
# The most entries: versions, and values for which only the names of further deciding inputs are
# known.
MAX_ENTRIES = 1024
# After so many compilations without a reuse of a version, a warning says that the values may be
# data.
MANY_COMPILATIONS = 16


class VersionedModule(Module):
    """A model that is compiled for each combination of values of the inputs that decide its
    structure, when a run has them for the first time. Made by tc.compile; export() needs a model
    with known values: tc.compile(values={...})."""

    def __init__(self, source, options, inputs, threads=None):
        """`source` is the model, `options` makes the compiler's options, `inputs` are the names of
        inputs that decide the structure."""
        self._source, self._options, self._first = source, options, tuple(inputs)
        self._threads = threads or 0
        self._lock = threading.Lock()
        # {(names of inputs, their values): a module, or the names of all inputs that decide with
        # these values}.
        self._versions = collections.OrderedDict()
        self._last = None
        self._compiled_since_reuse = 0
        name, given, results = compiler.signature(source, options())
        self.inputs, self.outputs = ports_of(given), ports_of(results)
        self._types = {name: dtype for name, dtype, _, _ in given}
        self.name, self.symbols, self.provenance = name or "model", {}, ""
        self.target = compiler.resolve_target(options().target)[0]

    @property
    def deciding_inputs(self):
        """Names of the inputs whose values decide the structure, as far as runs have shown."""
        names = {
            name
            for key, known in self._versions.items()
            if isinstance(known, tuple)
            for name in known
        }
        return tuple(port.name for port in self.inputs if port.name in names.union(self._first))

    def _run(self, arrays):
        self._check_count(arrays)
        module, rest = self._version(arrays)
        return module._run(rest)

    def _version(self, arrays):
        """The version for these inputs, and the arrays that it takes."""
        place = {port.name: number for number, port in enumerate(self.inputs)}
        names = self._first
        with self._lock:
            while True:
                values = {
                    name: self._value(self.inputs[place[name]], arrays[place[name]])
                    for name in names
                }
                self._check_size(values)
                key = (
                    names,
                    tuple(
                        value if isinstance(value, Form) else (value.shape, value.tobytes())
                        for value in values.values()
                    ),
                )
                if key not in self._versions:
                    self._versions[key] = self._compile(values)
                    self._forget_old()
                elif not isinstance(self._versions[key], tuple):
                    self._compiled_since_reuse = 0
                known = self._versions[key]
                self._versions.move_to_end(key)
                if not isinstance(known, tuple):
                    break
                names = known
        self._last = known
        return known, [arrays[place[port.name]] for port in known.inputs]

    def _value(self, port, value):
        """The part of an input's value that decides: the array, or the form of a sequence or
        optional."""
        return (
            self._as_array(port, value)
            if port.kind == "tensor"
            else form_of(arrays_of(self, port, value))
        )

    def _check_size(self, values):
        for name, value in values.items():
            if not isinstance(value, Form) and value.size > MAX_NUMBERS:
                raise UnsupportedError(
                    f"input '{name}' of model '{self.name}' decides its structure, and has {value.size} "
                    f"numbers; at most {MAX_NUMBERS} may: what is larger is data"
                )

    def _compile(self, values):
        """The version for these values, or, where they do not suffice, the names of all inputs that
        decide."""
        options = self._options()
        set_forms(
            options, {name: value for name, value in values.items() if isinstance(value, Form)}
        )
        for name, value in values.items():
            if not isinstance(value, Form):
                options.set_value(name, self._types[name], list(value.shape), value.tobytes())
        try:
            module = Module(
                compiled=compiler.compile(self._source.copy(), options), threads=self._threads
            )
            module.name = self.name
        except UnsupportedError as error:
            if not error.inputs:
                raise
            return (*values, *error.inputs)
        module.name, module.values = self.name, values
        if options.forms or module.compiled_output_forms:
            module._divide(compiler.signature(self._source.copy(), options), options)
        self._compiled_since_reuse += 1
        if self._compiled_since_reuse == MANY_COMPILATIONS:
            warnings.warn(
                f"model '{printable(self.name)}' was compiled for {MANY_COMPILATIONS} combinations of values of "
                f"{', '.join(self.deciding_inputs)}; each new one takes a compilation",
                stacklevel=5,
            )
        return module

    def _forget_old(self):
        modules = [key for key, known in self._versions.items() if not isinstance(known, tuple)]
        for key in modules[: max(0, len(modules) - MAX_VERSIONS)]:
            del self._versions[key]
        while len(self._versions) > MAX_ENTRIES:
            self._versions.popitem(last=False)

    def of_tensors(self):
        for port in self.inputs:
            if port.kind != "tensor":
                raise UnsupportedError(
                    f"input '{port.name}' of model '{self.name}' is no tensor ({port.kind}); say what it has with "
                    f"--shape '{port.name}=2,3;4,3' (the shapes of its tensors) or {port.name}=none"
                )
        for port in self.outputs:
            if port.kind != "tensor":
                raise UnsupportedError(
                    f"output '{port.name}' of model '{self.name}' is no tensor ({port.kind}), and what it has depends on "
                    f"{', '.join(self.deciding_inputs)}; give their values with --value NAME=NUMBERS"
                )
        return self

    def export(self, path, kind="shared"):
        names = ", ".join(f"'{name}'" for name in self.deciding_inputs)
        example = f"{{'{self.deciding_inputs[0]}': ...}}"
        kind = next(port.kind for port in self.inputs if port.name == self.deciding_inputs[0])
        option = "values" if kind == "tensor" else "shapes"
        raise UnsupportedError(
            f"model '{self.name}' has another structure for other values of {names}, and an artefact has "
            f"one: compile it with tc.compile(..., {option}={example})"
        )

    @property
    def planned(self):
        return self._last

    @property
    def memory(self):
        return self._last.memory if self._last else Memory(0, None, None)

    @property
    def kernels(self):
        return self._last.kernels if self._last else []

    @property
    def phases(self):
        return self._last.phases if self._last else {}

    def profile(self, *arrays, seconds=1.0, **named):
        module, rest = self._version(self._in_order(arrays, named) if named else arrays)
        return module.profile(*rest, seconds=seconds)

    def explain(self):
        lines = [f"model {self.name} for {self.target}"]
        lines += [f"input  {port.name}: {shape_text(port)}" for port in self.inputs]
        lines += [f"output {port.name}: {shape_text(port)}" for port in self.outputs]
        lines.append(
            f"a version is compiled for each combination of values of {', '.join(self.deciding_inputs)}"
        )
        versions = [
            (key, known) for key, known in self._versions.items() if not isinstance(known, tuple)
        ]
        for (names, _), module in versions:
            values = ", ".join(f"{name} = {_short(value)}" for name, value in module.values.items())
            lines.append(f"  {values}{' (last run)' if module is self._last else ''}")
        return lines_text(lines + (self._last.explain().splitlines() if self._last else []))


def _short(value):
    if isinstance(value, Form):
        return str(value)
    return " ".join(np.array2string(value, threshold=8, separator=", ").split())
