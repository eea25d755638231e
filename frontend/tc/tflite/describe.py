"""Describes a graph of TensorFlow Lite in terms of ONNX, node by node: values in either order of
axes, constants, attributes.

Images are [batch, height, width, channels] in the file, and [batch, channels, height, width] here.
A value therefore has up to two names: one in the file's order, and one with the channels in front.
Operators on images make the second; elementwise operators keep the order of their operands. A
Transpose is added only where an operator needs an order that a value does not have yet. So chains
of convolutions have none, and the transposes that remain are at the graph's ends.
"""

import dataclasses

import numpy as np

from ..native import compiler

# ONNX's numbers of element types, as Cast takes them, and NumPy's types.
ONNX_NUMBERS = {
    "f32": 1,
    "u8": 2,
    "i8": 3,
    "u16": 4,
    "i16": 5,
    "i32": 6,
    "i64": 7,
    "bool": 9,
    "f16": 10,
    "f64": 11,
    "u32": 12,
    "u64": 13,
}
TO_CHANNELS_FIRST = (0, 3, 1, 2)
TO_FILE_ORDER = (0, 2, 3, 1)


class Refusal(Exception):
    """Raised with why an operator cannot be described; the caller adds which one it is and
    where."""


@dataclasses.dataclass
class State:
    """A value that a model keeps from one run to the next, and its names in the description of a
    run."""

    name: str
    is_assigned: bool  # whether an operator of a run assigns to it
    initial: np.ndarray | None = None  # its value before the first run
    kind_of_initial: tuple = (None, None)
    dtype: str | None = None
    shape: tuple | None = None
    current: str | None = None  # the name of its value at the present point of the description
    before: str | None = None  # the input with its value before a run


class Value:
    """A tensor of the file and its names in the description, for each order of axes that exists so
    far."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.plain = None  # name in the file's order
        self.channels_first = None  # name with the channels in front of height and width
        self.handle = None  # for variables: the key

    @property
    def shape(self):
        return self.tensor.shape

    @property
    def rank(self):
        return len(self.tensor.shape)

    @property
    def dtype(self):
        return self.tensor.dtype

    @property
    def data(self):
        return self.tensor.data

    @property
    def is_known(self):
        return (
            self.data is not None
            or self.plain is not None
            or self.channels_first is not None
            or self.handle is not None
        )

    @property
    def is_quantised(self):
        return self.tensor.quantisation is not None and self.dtype in (
            "i8",
            "u8",
            "i16",
            "i32",
            "i4",
        )

    @property
    def is_image(self):
        """Whether it exists only with the channels in front so far."""
        return self.rank == 4 and self.channels_first is not None and self.plain is None


class Describer:
    """Adds nodes and constants to the description of a model."""

    def __init__(self, model_name, outer=None):
        """Describes a model of this name, or, with `outer`, a subgraph of one of its nodes."""
        self.model = compiler.ModelDescription(model_name) if outer is None else outer.model
        self.graph = self.model.graph if outer is None else compiler.GraphDescription(model_name)
        self._taken, self._constants = (
            (set(), {}) if outer is None else (outer._taken, outer._constants)
        )
        self.node_name, self.source = "", ""
        # {key of a variable: State}; keys to which a run assigns.
        self.file, self.states, self.assigned = None, {}, set()

    # --- names and nodes --------------------------------------------------------------------------

    def fresh(self, stem):
        name, number = stem, 0
        while name in self._taken:
            number += 1
            name = f"{stem}.{number}"
        self._taken.add(name)
        return name

    def node(self, op, inputs, outputs=1, name=None, **attributes):
        """Adds a node and returns the name of its output, or a tuple of names. `name` is one that
        `fresh` returned; attributes may be graphs. An operator of another domain is written
        domain::name."""
        domain, _, op = op.rpartition("::")
        names = (
            (name,)
            if name
            else tuple(self.fresh(self.node_name or op.lower()) for _ in range(outputs))
        )
        described = compiler.DescribedNode(
            op, ["" if each is None else each for each in inputs], list(names)
        )
        described.domain, described.name, described.source = domain, self.node_name, self.source
        graphs = {
            key: value
            for key, value in attributes.items()
            if isinstance(value, compiler.GraphDescription)
        }
        described.attributes = {
            key: value
            for key, value in attributes.items()
            if value is not None and key not in graphs
        }
        for role, graph in graphs.items():
            described.set_graph(role, graph)
        self.graph.node(described)
        return names if outputs != 1 else names[0]

    # --- constants --------------------------------------------------------------------------------

    def constant(self, array, dtype=None):
        """An array as a constant; `dtype` is the compiler's name of a type that NumPy lacks or that
        differs."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        kind = dtype or _KINDS[array.dtype]
        key = (kind, array.shape, array.tobytes()) if array.nbytes <= 1 << 18 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        name = self.fresh("constant")
        self.model.constant(name, kind, list(array.shape), array)
        if key is not None:
            self._constants[key] = name
        return name

    def ints(self, numbers):
        return self.constant(np.array(list(numbers), np.int64))

    def number(self, value, dtype):
        return self.constant(np.array(value, NUMPY_TYPES[dtype]))

    # --- values in either order -------------------------------------------------------------------

    def plain(self, value):
        """The name of a value in the file's order."""
        if value.plain is None:
            if value.data is not None:
                value.plain = self.constant(
                    value.data, "i8" if value.dtype == "i4" else value.dtype
                )
            else:
                value.plain = self.moved(
                    value.channels_first, _channels_first(value.shape), TO_FILE_ORDER
                )
        return value.plain

    def channels_first(self, value):
        """The name of a value of four axes with the channels in front."""
        if value.channels_first is None:
            if value.data is not None:
                value.channels_first = self.constant(value.data.transpose(TO_CHANNELS_FIRST))
            else:
                value.channels_first = self.moved(value.plain, value.shape, TO_CHANNELS_FIRST)
        return value.channels_first

    def moved(self, name, shape, order):
        """The name of a value with its axes in another order; a view where only axes of size 1
        move."""
        kept = [axis for axis in order if shape[axis] != 1]
        if list(order) == sorted(order):
            return name
        if kept == sorted(kept):
            return self.reshape(name, [shape[axis] for axis in order])
        return self.node("Transpose", [name], perm=list(order))

    def aligned(self, values, rank):
        """(names of operands that are broadcast to `rank` axes, whether they have the channels in
        front); chooses the order that operands already have."""
        images = rank == 4 and any(value.is_image for value in values)
        return [self._aligned(value) if images else self.plain(value) for value in values], images

    def _aligned(self, value):
        if value.rank == 4:
            return self.channels_first(value)
        shape = (1,) * (4 - value.rank) + tuple(value.shape)
        if value.data is not None:
            return self.constant(value.data.reshape(shape).transpose(TO_CHANNELS_FIRST))
        if all(size == 1 for size in shape):
            return self.plain(value)
        return self.moved(self.reshape(self.plain(value), shape), shape, TO_CHANNELS_FIRST)

    def give(self, value, name, channels_first=False):
        if channels_first and value.rank != 4:
            raise Refusal(
                f"'{value.tensor.name}' has the shape {list(value.shape)}; 4 axes are needed"
            )
        if channels_first:
            value.channels_first = name
        else:
            value.plain = name

    def current(self, state):
        """The name of a state's present value, which at first is an input of the model."""
        if state.current is None:
            state.before = state.current = self.fresh(f"state.{state.name}")
            self.graph.input(state.before, state.dtype, list(state.shape))
        return state.current

    def variable(self, value):
        """The State of a tensor that an operator changes. Before the first run its elements are
        those that stand for 0."""
        zero = (
            0 if value.tensor.quantisation is None else int(value.tensor.quantisation.zero_point[0])
        )
        if value.tensor.name not in self.states:
            initial = np.full(value.shape, zero, NUMPY_TYPES[value.dtype])
            self.states[value.tensor.name] = State(
                value.tensor.name,
                True,
                initial,
                (value.dtype, value.shape),
                value.dtype,
                value.shape,
            )
        return self.states[value.tensor.name]

    # --- what many operators need -----------------------------------------------------------------

    def reshape(self, name, shape):
        return self.node("Reshape", [name, self.ints(shape)], allowzero=1)

    def cast(self, name, given, wanted):
        return name if given == wanted else self.node("Cast", [name], to=ONNX_NUMBERS[wanted])

    def activated(self, name, activation, dtype="f32"):
        """Applies an operator's fused activation to floats or to whole numbers without a scale."""
        if activation == "NONE":
            return name
        if activation in _RANGES:
            low, high = _RANGES[activation]
            if (low, high) == (0, None) and dtype == "f32":
                return self.node("Relu", [name])
            return self.node(
                "Clip",
                [name, self.number(low, dtype), None if high is None else self.number(high, dtype)],
            )
        if activation == "TANH" and dtype == "f32":
            return self.node("Tanh", [name])
        raise Refusal(f"the fused activation {activation} is not supported")


# Limits of the fused activations that clamp.
_RANGES = {"RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}

NUMPY_TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}
_KINDS = {np.dtype(kind): name for name, kind in NUMPY_TYPES.items()}


def _channels_first(shape):
    return tuple(shape[axis] for axis in TO_CHANNELS_FIRST)
