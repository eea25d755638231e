"""Models with strings or maps: operators on these run on the host (host_operators.py), before and
after the compiled part."""

import typing

import numpy as np

from . import host_operators, host_room
from .errors import ShapeError, TargetError, UnsupportedError, lines_text
from .module import Memory, Module
from .native import compiler
from .ports import BIT_TYPES, NUMPY_NAMES, TC_NAMES, Port, ports_of, shape_text


class HostNode(typing.NamedTuple):
    op_type: str
    who: str  # for errors
    opset: int
    inputs: tuple
    outputs: tuple
    attributes: dict
    result_type: object  # the type to which a Cast converts; None: strings


class StringModule(Module):
    """A model with strings. They are arrays of Python strings (dtype object); NumPy's own string
    types are accepted too. A sequence of maps is a list of dicts. Made by tc.compile; there is no
    artefact of it, since no compiled code works on strings."""

    def __init__(self, source, options, threads, compiled):
        """`options` makes the compiler's options; `compiled` makes the module of the part without
        strings."""
        program = compiler.split_strings(source, options())
        self._program = program
        self.inputs, self.outputs = _ports(program["inputs"]), _ports(program["outputs"])
        self._tensor_inputs = self.inputs
        self.name, self.symbols, self.provenance = program["model"] or "model", {}, ""
        self.target = compiler.resolve_target(options().target)[0]
        self._constants = {name: _value(value) for name, value in program["constants"].items()}
        self._before, self._after = (
            [_node(row) for row in program[part]] for part in ("before", "after")
        )
        self._room = host_room.of_a_run(options().max_ram)
        self._fold()
        self._rest = None
        if program["rest"] is not None:
            self._rest = compiled(program["rest"], self._options_of_rest(options), threads)

    def _fold(self):
        """Runs the operators that depend on constants alone."""
        left, room = [], host_room.Room(host_room.OF_CONSTANTS)
        for node in self._before:
            known = all(not name or name in self._constants for name in node.inputs)
            if known and room.fits(
                node, [self._constants[name] if name else None for name in node.inputs]
            ):
                host_operators.run(node, self._constants)
            else:
                left.append(node)
        self._before = left

    def _options_of_rest(self, options):
        """The options for the compiled part: without those about inputs that only the host's
        program reads, and with values that this has computed already."""
        program = self._program
        kept = {
            name
            for name, _, _, _ in compiler.signature(program["rest"].copy(), compiler.Options())[1]
        }

        def made():
            result = options()
            result.input_shapes = {
                name: sizes for name, sizes in result.input_shapes.items() if name in kept
            }
            for name in kept & self._constants.keys():
                array = self._constants[name]
                result.set_value(
                    name, TC_NAMES[array.dtype.name], list(array.shape), array.tobytes()
                )
            return result

        return made

    def _run(self, arrays):
        self._check_count(arrays)
        values = dict(self._constants)
        for port, array in zip(self.inputs, arrays):
            values[port.name] = (
                self._strings(port, array)
                if port.dtype == "string"
                else self._as_array(port, array)
            )
        self._check_sizes(values)
        room = host_room.Room(self._room)
        for node in self._before:
            host_operators.run(node, values, room)
        if self._rest:
            results = self._rest._run([values[port.name] for port in self._rest.inputs])
            values.update({port.name: result for port, result in zip(self._rest.outputs, results)})
        for node in self._after:
            host_operators.run(node, values, room)
        return tuple(values[port.name] for port in self.outputs)

    def _strings(self, port, value):
        array = (
            np.asarray(value, object)
            if isinstance(value, (str, list, tuple))
            else np.asarray(value)
        )
        if array.dtype.kind in "UT":
            array = array.astype(object)
        if array.dtype != object or not all(isinstance(each, str) for each in array.flat):
            raise ShapeError(
                f"input '{port.name}' of model '{self.name}' is {array.dtype} of {type(value).__name__}; expected "
                f"{shape_text(port)}: pass an array of Python's strings"
            )
        return array

    def _check_sizes(self, values):
        for port in self.inputs:
            shape = values[port.name].shape
            if port.shape is not None and (
                len(shape) != len(port.shape)
                or any(
                    isinstance(size, int) and size != found
                    for size, found in zip(port.shape, shape)
                )
            ):
                raise ShapeError(
                    f"input '{port.name}' of model '{self.name}' has shape {list(shape)}; expected {shape_text(port)}"
                )

    def of_tensors(self):
        raise UnsupportedError(
            f"model '{self.name}' works on strings, which the command line has not; run it from Python"
        )

    def export(self, path, kind="shared"):
        raise UnsupportedError(
            f"model '{self.name}' works on strings ({', '.join(sorted(self._string_names()))}), which no compiled code does, so that "
            "there is no artefact of it; run it from Python, or export the part between the operators on strings"
        )

    def _string_names(self):
        ports = [port.name for port in self.inputs + self.outputs if port.dtype == "string"]
        return ports or [name for node in self._before + self._after for name in node.outputs]

    @property
    def planned(self):
        return self._rest

    @property
    def memory(self):
        return self._rest.memory if self._rest else Memory(0, 0, 0)

    @property
    def kernels(self):
        return self._rest.kernels if self._rest else []

    @property
    def phases(self):
        return self._rest.phases if self._rest else {}

    def profile(self, *arrays, seconds=1.0, **named):
        raise TargetError(
            f"model '{self.name}' works on strings and is not profiled as a whole; profile the part between the operators on strings"
        )

    def explain(self):
        lines = [f"model {self.name} for {self.target}"]
        lines += [f"input  {port.name}: {shape_text(port)}" for port in self.inputs]
        lines += [f"output {port.name}: {shape_text(port)}" for port in self.outputs]
        for where, nodes in (("before", self._before), ("after", self._after)):
            lines += [f"on the host, {where} what is compiled: {node.who}" for node in nodes]
        return lines_text(
            lines
            + (
                ["compiled:", *self._rest.explain().splitlines()]
                if self._rest
                else ["nothing is compiled"]
            )
        )


def _ports(rows):
    return tuple(_port(*row) for row in rows)


def _port(name, dtype, shape):
    if dtype == "maps":
        return Port(name, "float32", None, "sequence of maps")
    return (
        Port(name, "string", None if shape is None else tuple(shape))
        if dtype is None
        else ports_of([(name, dtype, shape)])[0]
    )


def _value(value):
    """An array from the compiler's tuple (element type or None for strings, sizes, bytes or
    texts)."""
    dtype, shape, data = value
    if dtype is None:
        return host_operators.from_list(data, shape)
    name = NUMPY_NAMES[dtype]
    return np.frombuffer(data, np.dtype(BIT_TYPES.get(name, name))).reshape(shape)


def _node(row):
    attributes = {
        name: _value(value) if isinstance(value, tuple) else value
        for name, value in row["attributes"].items()
    }
    result = row["result_type"]
    name = None if result is None else NUMPY_NAMES[result]
    if name in BIT_TYPES:
        raise UnsupportedError(f"{row['who']} turns strings into {name}, which is not supported")
    return HostNode(
        row["op_type"],
        row["who"],
        row["opset"],
        tuple(row["inputs"]),
        tuple(row["outputs"]),
        attributes,
        None if name is None else np.dtype(name),
    )
