"""Modules: compiled models that run, save and export."""

import os
import shutil
import tempfile
import typing
import weakref

import numpy as np

from .composites import Division
from .errors import (
    MAX_OF_LINE,
    DeviceError,
    Error,
    ShapeError,
    TargetError,
    error_of,
    lines_text,
    printable,
    renamed,
)
from .files import cannot_be_written, copy_once, place_of, replaced
from .interrupts import temporary
from .kinds import kind_row, runnable_kind
from .native import LIBRARY_FOLDER, compiler, runtime
from .ports import BIT_TYPES, NUMPY_NAMES, ports_of, shape_text


def file_name(path):
    """A path's last part as text."""
    return os.path.basename(os.fsdecode(path)).encode("utf-8", "replace").decode()


class Memory(typing.NamedTuple):
    """Bytes: constants (once, read-only), the arena of one run (None where it depends on shapes
    that no run has bound yet), and both together with the threads' scratch (None likewise)."""

    constants: int
    arena: typing.Optional[int]
    peak: typing.Optional[int]


class Module:
    """A compiled model. Made by tc.compile and tc.load; may be called from several threads."""

    _model = None
    _cast = "x.astype('{}')"  # what an error suggests for converting an input
    _direct = None  # runs with a tuple of arrays; set where a call needs nothing else
    _defaults = {}  # values of inputs that a run may leave out
    origin = None  # (path, state) of the file from which it was made: files.origin_of
    _compile_kind = None  # compiles the model for a kind of artefact that needs another plan

    def __init__(self, compiled=None, path=None, threads=None, loaded=None):
        self._compiled = compiled
        self._path = path
        self._threads = threads or 0
        self._model = None
        self._runner = None  # stays None where the module cannot run here
        self._last_profile = None
        self._why_not = ""
        self._division = None  # divides sequences and optionals into tensors (composites.py)
        if compiled is None:
            self._model = loaded  # from the file at `path`
            info = self._model.info()
            self.inputs, self.outputs = (
                ports_of(self._model.inputs()),
                ports_of(self._model.outputs()),
            )
            self.name, self.target = file_name(path), info["target"]
            self.provenance, self.symbols = info["provenance"], dict(info["symbols"])
        else:
            self.inputs, self.outputs = ports_of(compiled.inputs), ports_of(compiled.outputs)
            self.name, self.target = compiled.model, compiled.target
            self.provenance, self.symbols = compiled.provenance, dict(compiled.symbols)
            _, runs, self._why_not, _ = compiler.resolve_target(compiled.target)
            if runs:
                self._load()
        self._tensor_inputs = self.inputs
        self._tensor_outputs = self.outputs
        self._gives_bits = any(port.dtype in BIT_TYPES for port in self.outputs)
        if self._model is not None:
            self._make_runner()

    def _make_runner(self):
        types = tuple(
            [np.dtype(BIT_TYPES.get(port.dtype, port.dtype)) for port in ports]
            for ports in (self.inputs, self.outputs)
        )
        # Python's garbage collector does not look into the runner: a strong reference to the module
        # would keep both alive for ever.
        this = weakref.ref(self)
        self._runner = runtime.Runner(
            self._model,
            self._threads,
            types,
            lambda index, value: this()._convert(index, value),
            self._filled,
        )
        if type(self)._run is Module._run and not self._gives_bits:
            self._direct = self._runner.function()

    def _divide(self, declared, options):
        """Makes the module's inputs and outputs those that the model declares, where some are
        sequences or optionals."""
        self._division, self._direct = Division(self, declared, options), None

    def of_tensors(self):
        """The module with the inputs and outputs of an artefact: the tensors of sequences and
        optionals. For the command line."""
        self._division, self.inputs, self.outputs = None, self._tensor_inputs, self._tensor_outputs
        return self

    def take_defaults(self, defaults):
        """Lets runs leave out the inputs that have a value in the model's file: {input: (element
        type, sizes, bytes)}."""
        self._defaults = {
            name: np.frombuffer(
                data, np.dtype(BIT_TYPES.get(NUMPY_NAMES[dtype], NUMPY_NAMES[dtype]))
            ).reshape(shape)
            for name, (dtype, shape, data) in defaults.items()
        }

    def compile_kinds_by(self, compile_kind):
        """`compile_kind(kind)` compiles the model for a kind of artefact whose plan is not this
        module's; None: that is never needed."""
        self._compile_kind = compile_kind

    def as_artefact(self):
        """The module with the inputs and outputs of an artefact: this one, except for models of
        PyTorch with state."""
        return self

    @property
    def name(self):
        """The name of the model in messages: that of its file, where it has one."""
        return self._name

    @name.setter
    def name(self, name):
        self._name = name
        if self._model is not None:
            self._model.rename(name)

    @property
    def planned(self):
        """The module whose plan the last run followed: this one, unless there are versions of it.
        None where there was no run yet."""
        return self

    @property
    def compiled_output_forms(self):
        return self._compiled.output_forms

    def _load(self):
        """Links the compiled code and loads it; the temporary file is removed when this returns."""
        with tempfile.TemporaryDirectory(prefix="tc-") as folder, temporary(folder):
            path = os.path.join(folder, "model.so")
            self._write("shared", path)
            # No other process had access to the file.
            self._model = runtime.Model(os.fsencode(path), check=False)
            self._model.rename(self.name)

    def __call__(self, *arrays, **named):
        """Runs the model with its inputs in order, by name, or both. Returns its output, or a tuple
        of them where it has several."""
        direct = self._direct
        if direct is not None and not named and len(arrays) == len(self.inputs):
            return direct(arrays)
        some = named or (self._defaults and len(arrays) < len(self.inputs))
        results = self._run(self._in_order(arrays, named) if some else arrays)
        return results[0] if len(results) == 1 else results

    def run(self, arrays):
        """Runs the model with {input name: array}; returns {output name: array}."""
        results = self._run(self._in_order((), arrays))
        return {port.name: result for port, result in zip(self.outputs, results)}

    @property
    def in_place(self):
        """{output: input} for the outputs that run_in_place writes into an input's array: outputs
        that equal the input but for some changed elements, such as caches of keys and values."""
        if self._model is None or self._division:
            return {}
        return {
            port.name: self.inputs[index].name
            for port, index in zip(self.outputs, self._model.in_place())
            if index >= 0
        }

    def run_in_place(self, *arrays):
        """Runs the model with its inputs in order; returns a tuple of its outputs. Outputs that
        `in_place` lists are the arrays of their inputs, in which the run changes elements; the
        others are new arrays."""
        if not self.in_place:
            raise ShapeError(
                f"model '{self.name}' has no output that lies in an input's array; call it"
            )
        self._check_count(arrays)
        self._need_runnable()
        return self._runner.run(arrays, in_place=True)

    def _in_order(self, arrays, named):
        names = [port.name for port in self.inputs]
        if len(arrays) > len(names):
            raise ShapeError(f"model '{self.name}' takes {len(names)} inputs, not {len(arrays)}")
        values = dict(zip(names, arrays))
        for name, array in named.items():
            if name not in names:
                raise ShapeError(
                    f"model '{self.name}' has no input '{name}'; its inputs are {', '.join(names)}"
                )
            if name in values:
                raise ShapeError(f"input '{name}' of model '{self.name}' is given twice")
            values[name] = array
        for port in self.inputs:
            if port.name not in values and port.name in self._defaults:
                values[port.name] = self._defaults[port.name]
            if port.name not in values and port.kind.startswith("optional"):
                values[port.name] = None
            if port.name not in values:
                raise ShapeError(
                    f"input '{port.name}' of model '{self.name}' is missing ({shape_text(port)})"
                )
        return [values[name] for name in names]

    def _check_count(self, arrays):
        if len(arrays) != len(self.inputs):
            raise ShapeError(
                f"model '{self.name}' takes {len(self.inputs)} inputs, not {len(arrays)}"
            )

    def _run(self, arrays):
        if self._direct is not None and len(arrays) == len(self.inputs):
            results = self._direct(tuple(arrays))
            return results if len(self.outputs) > 1 else (results,)
        self._check_count(arrays)
        if self._division:
            arrays = self._division.tensors(arrays)
        self._need_runnable()
        results = self._runner.run(arrays)
        if self._gives_bits:
            results = self._from_bits(results)
        return self._division.values(results) if self._division else results

    def _need_runnable(self):
        if self._runner is None:
            kind = runnable_kind(self.target)
            raise TargetError(
                f"model '{self.name}' is compiled for {self.target} and does not run here "
                f'({self._why_not}); write it with export(path, kind="{kind}") and run it on '
                "a machine of that target"
            )

    @staticmethod
    def _filled(array, shape):
        """The filled part, of this shape, of an output array that was allocated for the largest
        size."""
        count = int(np.prod(shape, dtype=np.int64))
        part = array.reshape(-1)[:count].reshape(shape)
        # Copies a small part, so that it does not keep the whole array alive.
        return part if 2 * count >= array.size else part.copy()

    def _convert(self, index, value):
        """A dense, aligned array of the input's type. Converts values that have no element type
        (Python numbers and lists), and refuses arrays of another type."""
        return self._as_array(self._tensor_inputs[index], value)

    def _as_array(self, port, value):
        typed = hasattr(value, "dtype") or hasattr(value, "__array_interface__")
        try:
            array = np.asarray(value) if typed else self._from_untyped(value, port)
        except (TypeError, ValueError, OverflowError):
            array = np.empty(0, object)
        if array.dtype.kind == "O" and typed and str(value.dtype).startswith("torch."):
            raise self._wrong_type(port, str(value.dtype)[6:], value)  # NumPy has no such type
        if array.dtype.kind not in "biufV":
            raise ShapeError(
                f"input '{port.name}' of model '{self.name}' is no array of numbers but "
                f"a {type(value).__name__}; expected {shape_text(port)}"
            )
        wanted = np.dtype(BIT_TYPES.get(port.dtype, port.dtype))
        if port.dtype in BIT_TYPES:
            if array.dtype.name not in (port.dtype, wanted.name):
                raise self._wrong_type(port, array.dtype, value)
            array = array.view(wanted)
        elif array.dtype.newbyteorder("=") != wanted:
            raise self._wrong_type(port, array.dtype, value)
        # Contiguous, aligned and in the machine's byte order; copies only where it is not.
        try:
            return np.require(array, wanted, ["C", "A"])
        except MemoryError as error:
            raise error_of(error) from error

    def _wrong_type(self, port, dtype, value):
        cast = (
            "x.to(torch.{})" if type(value).__module__.partition(".")[0] == "torch" else self._cast
        )
        return ShapeError(
            f"input '{port.name}' of model '{self.name}' is {dtype}; expected "
            f"{shape_text(port)}: pass {cast.format(port.dtype)}"
        )

    @staticmethod
    def _from_untyped(value, port):
        array = np.asarray(value)
        if port.dtype not in BIT_TYPES and np.can_cast(array.dtype, port.dtype, "same_kind"):
            return array.astype(port.dtype)
        return array

    def _from_bits(self, results):
        try:
            import ml_dtypes
        except ImportError:
            return results
        return tuple(
            result.view(getattr(ml_dtypes, port.dtype)) if port.dtype in BIT_TYPES else result
            for port, result in zip(self._tensor_outputs, results)
        )

    @property
    def memory(self):
        """Bytes that the model needs: constants, arena, peak."""
        if self._model is None:
            constants, arena = self._compiled.constant_bytes, self._compiled.arena_bytes
            scratch = self._compiled.scratch_bytes
        elif self.symbols and self._runner.last is None:
            return Memory(self._model.info()["constant_bytes"], None, None)
        else:
            if self._runner.last is None:
                self._runner.last = context = self._runner.take()
                self._runner.give_back(context)
            memory = self._runner.last.memory()
            constants, arena, scratch = memory["constants"], memory["arena"], memory["scratch"]
        return Memory(
            constants,
            arena,
            None if arena is None or scratch is None else constants + arena + scratch,
        )

    def save(self, path):
        """Writes the shared artefact, which tc.load and C programs open."""
        self.export(path, kind="shared")

    def export(self, path, kind="shared"):
        """Writes the artefact: "shared" (.so), "static" (.a with a .h beside it), "executable"
        (reads and writes .npy; needs no file beside it but that of weights="separate"), "object"
        (one relocatable file with a .h beside it), "bare" (an object for a system without an OS,
        with a .h beside it that tells what it needs: docs/bare.md) or "c" (C99 source: first.c,
        first.h, first_weights.c: docs/c_source.md). Symbols are called after the file, so that one
        program may have several: first.a has first_descriptor (docs/c.md).

        Returns what a "bare" one takes of memory, {"constants", "code", "arena", "zeros", "stack"}
        in bytes; else {}."""
        path = os.fsdecode(path)
        if kind != "shared":  # "shared" needs no compiler
            kind_row(kind)
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise DeviceError(f"'{path}' cannot be written: there is no folder '{folder}'")
        if os.path.isdir(path):
            raise DeviceError(f"'{path}' cannot be written: it is a folder")
        if self._compiled is None and kind != "shared":
            raise DeviceError(
                f"'{self._path}' was loaded, and a loaded module can be written as "
                f'"shared" only; compile the model again for "{kind}"'
            )
        weights = self._weights_folder(path)
        with replaced(path, beside=(".h",)) as place:  # the .h may belong to another artefact
            if self._compiled is not None:
                return self._write(kind, place, weights)
            try:
                shutil.copy(self._path, place)
                if weights:
                    copy_once(os.fsdecode(self._model.info()["weights"]), weights)
            except OSError as error:
                raise cannot_be_written(path, error) from None
        return {}

    def _weights_folder(self, path):
        """The folder for the file of weights that the artefact at `path` will look for; "" where it
        has them inside."""
        if self._compiled is None:
            separate = self._model.info()["weights"] is not None
        else:
            separate = self._compiled.weights == "separate"
        if not separate:
            return ""
        place, in_place = place_of(os.path.abspath(path))
        if in_place:
            raise DeviceError(
                f"'{path}' cannot be written: the file of its weights belongs beside it, where no "
                "file can be; give the name of a file"
            )
        return os.path.dirname(place)

    def _write(self, kind, path, weights_folder=""):
        # Passed as bytes, since the name of a folder need not be valid text.
        compiled = self._compiled
        try:
            if self._compile_kind is not None and compiler.needs_own_plan(compiled, kind):
                compiled = self._compile_kind(kind)
            return compiled.export(
                kind, os.fsencode(path), os.fsencode(LIBRARY_FOLDER), os.fsencode(weights_folder)
            )
        except Error as error:
            raise renamed(error, self._compiled.model, self.name) from None

    @property
    def kernels(self):
        """What the compiler did, kernel by kernel in the order of the run; empty for a loaded
        module."""
        return list(self._compiled.reports) if self._compiled else []

    @property
    def arithmetic(self):
        """How each node of a quantised network is computed: dicts with node, operator, kind
        ("integers"; "bytes": a function of elements in registers, between integers that its kernel
        reads and writes; "floats"), region, fixed_point and reason. Empty for other networks and
        for a loaded module."""
        return list(self._compiled.arithmetic) if self._compiled else []

    @property
    def phases(self):
        """{phase of the compilation: seconds}; empty for a loaded module."""
        return dict(self._compiled.phases) if self._compiled else {}

    def profile(self, *arrays, seconds=1.0, **named):
        """Runs the model for about that long and tells where the time goes: a tc.profile.Profile
        with one row per step (time, GFLOP/s, bytes, share of the roof that the machine's measured
        limits set, predicted time), print()able, with .to_dict() and .to_perfetto(path). explain()
        has the measured times from then on. A loaded module knows its steps' times alone."""
        from .profile import profile

        given = self._in_order(arrays, named) if named else arrays
        if self._division:
            self._check_count(given)
            given = self._division.tensors(given)
        self._last_profile = profile(self, given, seconds)
        return self._last_profile

    def report(self, path=None, **asked):
        """A report on the model: its times beside the machine's limits, its memory, its steps as a
        graph and as a table, and what tuning found. Returns a tc.reporting.report.Report; with a
        path it is written there as one HTML file, which needs no network and no script
        (docs/report.md).

        inputs        {name: array} of the runs that are timed; other inputs get seeded data
        seconds       how long to measure, 1 by default
        seed          of the data, 0 by default
        log           path or URL of a log, or a tc.Log: adds what tuning tried, and each tuned
                      step's time beside untuned
        verification  what tc.verify returned: adds the errors by layer"""
        from .reporting.report import of_module

        return of_module(self, path, **asked)

    def explain(self):
        """What the compiler did, as text: one line per kernel with its work, the predicted time,
        after a profile the measured one, and its schedule."""
        lines = [f"model {printable(self.name)} for {self.target}"]
        lines += [f"input  {printable(port.name)}: {shape_text(port)}" for port in self.inputs]
        lines += [f"output {printable(port.name)}: {shape_text(port)}" for port in self.outputs]
        memory = self.memory
        arena = "depends on shapes" if memory.arena is None else f"{memory.arena / 1e6:.2f} MB"
        lines.append(f"memory constants {memory.constants / 1e6:.2f} MB, arena {arena}")
        if not self._compiled:
            return lines_text(lines + [f"made by {self.provenance}"])
        if self._compiled.tuned_kernels:
            lines.append(f"{self._compiled.tuned_kernels} kernels run schedules of the tuning log")
        lines += self._compiled.notes
        if self._compiled.arithmetic:
            lines += arithmetic_text(self._compiled.quantised, self._compiled.arithmetic_lines)
        lines += [f"{phase}: {seconds:.3f} s" for phase, seconds in self._compiled.phases]
        reports = self._compiled.reports
        total = sum(report["multiply_adds"] for report in reports)
        lines.append(
            f"{len(reports)} kernel calls of {len({r['kernel'] for r in reports})} "
            f"kernels, {total / 1e6:.1f} M multiply-adds"
        )
        measured = self._last_profile.by_report if self._last_profile else {}
        if measured:
            totals = self._last_profile.summary()
            lines.append(
                f"predicted {totals['predicted_seconds'] * 1e3:.3f} ms, measured "
                f"{totals['run_seconds'] * 1e3:.3f} ms"
            )
        for number, report in enumerate(reports):
            row = measured.get(number)
            predicted = row.predicted_seconds / row.calls if row else report["predicted_seconds"]
            line = f"{number:4d}  {report['multiply_adds'] / 1e6:10.2f} M  predicted {predicted * 1e6:10.1f} us  "
            if row:
                line += f"measured {row.seconds / row.calls * 1e6:10.1f} us ({row.share * 100:3.0f} % of the roof)  "
            algorithm = f"  [{report['algorithm']}]" if report["algorithm"] else ""
            lines.append(line + report["label"] + algorithm)
            lines += [f"        {line}" for line in report["trace"]]
        return lines_text(lines)

    def __repr__(self):
        ports = ", ".join(f"{printable(port.name)}: {shape_text(port)}" for port in self.inputs)
        return printable(
            f"<tc.Module {printable(self.name)} for {self.target} ({ports})>", MAX_OF_LINE
        )

    def _repr_html_(self):
        """For notebooks."""
        from .reporting.notebook import module_table  # html takes 0.3 MB, which runs do without

        return module_table(self)


def arithmetic_text(meaning, lines):
    """The lines of a report on a quantised network."""
    return [f"quantised: {meaning}", *(f"  {line}" for line in lines)]
