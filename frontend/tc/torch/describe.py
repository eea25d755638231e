"""Describes a graph of PyTorch in terms of ONNX, node by node: names of values, constants, sizes,
element types."""

import numbers

import numpy as np
import sympy
import torch

from ..errors import UnsupportedError
from ..native import compiler
from .sizes import describe_size

# Element types of PyTorch and the compiler's names for them.
DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
}
# ONNX's numbers for these types, as Cast takes them.
ONNX_NUMBERS = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.uint16: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.uint32: 12,
    torch.uint64: 13,
    torch.bfloat16: 16,
    torch.float8_e4m3fn: 17,
    torch.float8_e4m3fnuz: 18,
    torch.float8_e5m2: 19,
    torch.float8_e5m2fnuz: 20,
}
# Integer types of the same width for types that NumPy lacks, to hold their bits.
_BITS = {
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e4m3fnuz: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e5m2fnuz: torch.uint8,
}


class Missing:
    """The value of a node that could not be described; nodes that read it are not described
    either."""


class Refusal(Exception):
    """Raised with why an operator cannot be described; the walk adds which one it is and where."""


def dtype_name(dtype):
    if dtype not in DTYPES:
        kind = str(dtype).removeprefix("torch.")
        what = (
            "complex numbers of this operator"
            if dtype.is_complex
            else "quantised tensors of PyTorch"
            if "q" in kind
            else f"the type {kind}"
        )
        raise Refusal(f"{what} are not supported (a tensor is {kind})")
    return DTYPES[dtype]


def array_of(tensor):
    """The numbers of a tensor as an array that shares its memory where it is dense, bits where
    NumPy lacks the type."""
    dense = tensor.detach().contiguous()
    if dense.device.type != "cpu":
        dense = dense.cpu()
    if dense.is_conj() or dense.is_neg():
        dense = dense.resolve_conj().resolve_neg()
    return (dense.view(_BITS[dense.dtype]) if dense.dtype in _BITS else dense).numpy()


class Value:
    """A tensor of the graph: its name in the description, and PyTorch's type and shape."""

    def __init__(self, name, fake):
        self.name, self.fake = name, fake

    @property
    def dtype(self):
        return self.fake.dtype

    @property
    def shape(self):
        return tuple(self.fake.shape)

    @property
    def rank(self):
        return self.fake.dim()

    def axis(self, axis):
        """An axis as a number that is not negative; as in PyTorch, a scalar also has an axis 0."""
        return axis + max(self.rank, 1) if axis < 0 else axis


class Complex:
    """A tensor of complex numbers: two tensors with its parts, and PyTorch's type and shape."""

    def __init__(self, re, im, fake):
        self.re, self.im, self.fake = re, im, fake

    dtype, shape, rank, axis = Value.dtype, Value.shape, Value.rank, Value.axis


def part_type(dtype):
    """The type of the parts of a complex type; a real type is returned as it is."""
    return dtype.to_real() if dtype.is_complex else dtype


def real_fake(fake, dtype=None):
    """A tensor without data that stands for a part of a complex tensor."""
    on_meta = {} if fake.device.type == "meta" or hasattr(fake, "fake_mode") else {"device": "meta"}
    return torch.empty_like(fake, dtype=dtype or part_type(fake.dtype), **on_meta)


def is_static(sizes):
    return all(isinstance(size, int) for size in sizes)


class Describer:
    """One graph that is being described. Functions of the table get it as their first argument; it
    adds nodes and constants, and has PyTorch's type and shape of the result (`out`)."""

    def __init__(self, model, graph, shared=None):
        """`shared` is the Describer of the graph around a subgraph."""
        self.model, self.graph = model, graph
        self._shared = shared or self
        if shared is None:
            self.taken, self.constants, self.tensors = set(), {}, {}
            # {sympy.Symbol: (name of a value, axis), or the name of a value with one number}
            self.symbols = {}
        # {sympy expression: name of a vector with one number}.
        self.sizes = dict(shared.sizes) if shared else {}
        # {name of a mask: (name of its coordinates, their count)}.
        self.found = dict(shared.found) if shared else {}
        self.node_name, self.node_source, self.out = "", "", None

    # --- names and nodes --------------------------------------------------------------------------

    def fresh(self, stem):
        taken, name, number = self._shared.taken, stem, 0
        while name in taken:
            number += 1
            name = f"{stem}.{number}"
        taken.add(name)
        return name

    def begin(self, name, source, out):
        """Begins the description of a node of the model: the nodes added next belong to it."""
        self.node_name, self.node_source, self.out = name, source, out

    def node(self, op, inputs, outputs=1, graphs=(), **attributes):
        """Adds a node and returns the name of its output, or a tuple of names. Inputs are names,
        Values or None; an operator of another domain is written domain::name."""
        domain, _, op = op.rpartition("::")
        names = tuple(self.fresh(self.node_name or op.lower()) for _ in range(outputs))
        described = compiler.DescribedNode(op, [_name(each) for each in inputs], list(names))
        described.domain, described.name, described.source = (
            domain,
            self.node_name,
            self.node_source,
        )
        described.attributes = {
            key: _plain(value) for key, value in attributes.items() if value is not None
        }
        for role, body in dict(graphs).items():
            described.set_graph(role, body)
        self.graph.node(described)
        return names if outputs != 1 else names[0]

    def subgraph(self, name):
        """A Describer of a subgraph, whose nodes belong to the same node of the model."""
        describer = Describer(self.model, compiler.GraphDescription(name), self._shared)
        describer.sizes = dict(self.sizes)
        describer.begin(self.node_name, self.node_source, self.out)
        return describer

    # --- constants --------------------------------------------------------------------------------

    def tensor(self, tensor, name):
        """A parameter, buffer or other tensor of the model as a constant."""
        key = (
            (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
            if tensor.numel()
            else None
        )
        tensors = self._shared.tensors
        if key is None or key not in tensors:
            taken = self.fresh(name)
            self.model.constant(
                taken, dtype_name(tensor.dtype), list(tensor.shape), array_of(tensor)
            )
            if key is None:
                return taken
            tensors[key] = taken
        return tensors[key]

    def stored(self, tensor, name, fake=None):
        """A tensor of the model as a Value or Complex."""
        fake = tensor if fake is None else fake
        if not tensor.dtype.is_complex:
            return Value(self.tensor(tensor, name), fake)
        parts = torch.view_as_real(tensor.detach().cpu().resolve_conj())
        return Complex(
            *(Value(self.array(parts[..., place].numpy()), real_fake(fake)) for place in range(2)),
            fake,
        )

    def constant(self, value, dtype):
        """A number, or nested lists of numbers, as a constant of that type."""
        key = (repr(value), dtype)
        constants = self._shared.constants
        if key not in constants:
            constants[key] = self.fresh("constant")
            tensor = _wrapped(value, dtype)
            self.model.constant(
                constants[key], dtype_name(dtype), list(tensor.shape), array_of(tensor)
            )
        return constants[key]

    def array(self, array):
        """A NumPy array as a constant."""
        tensor = torch.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)))
        name = self.fresh("constant")
        self.model.constant(name, dtype_name(tensor.dtype), list(tensor.shape), array_of(tensor))
        return name

    def ints(self, sizes):
        """A vector of whole numbers, of which some may be computed from the sizes of inputs."""
        sizes = list(sizes)
        if is_static(sizes):
            return (
                self.constant([int(size) for size in sizes], torch.int64)
                if sizes
                else self.array(np.zeros(0, np.int64))
            )
        parts = [self.size(size) for size in sizes]
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=0)

    def size(self, size):
        """A vector of one whole number."""
        if isinstance(size, Value):
            return self.node("Reshape", [self.cast(size, torch.int64), self.ints([1])])
        if isinstance(size, (int, np.integer)):
            return self.constant([int(size)], torch.int64)
        expression = (
            size.node.expr
            if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool))
            else size
        )
        return describe_size(self, sympy.sympify(expression))

    def symbol_place(self, symbol):
        return self._shared.symbols.get(symbol)

    # --- element types ----------------------------------------------------------------------------

    def cast(self, value, dtype, given=None):
        """The value cast to that type; `given` is the type of a value that is only a name."""
        if isinstance(value, Value):
            given = value.dtype
        if given == dtype:
            return _name(value)
        dtype_name(dtype)
        return self.node("Cast", [value], to=ONNX_NUMBERS[dtype])

    def like(self, value, dtype):
        """A tensor or a number, converted to an operand of that type."""
        if isinstance(value, Value):
            return self.cast(value, dtype)
        if isinstance(value, numbers.Number):
            return self.constant(value, dtype)
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            return self.scalar(value, dtype)
        return value

    def scalar(self, value, dtype):
        """A number, which may be computed from sizes, as a tensor of rank 0."""
        if isinstance(value, numbers.Number):
            return self.constant(value, dtype)
        if isinstance(value, Value):
            return self.node("Reshape", [self.cast(value, dtype), self.ints([])])
        vector = self.size(value)
        return self.cast(
            self.node("Squeeze", [vector, self.ints([0])]),
            dtype,
            torch.float64 if isinstance(value, torch.SymFloat) else torch.int64,
        )

    # --- what many rows need ----------------------------------------------------------------------

    def reshape(self, value, sizes):
        return self.node("Reshape", [value, self.ints(sizes)], allowzero=1)

    def transpose(self, value, order):
        order = list(order)
        return (
            _name(value) if order == sorted(order) else self.node("Transpose", [value], perm=order)
        )

    def slice(self, value, axis, start, end, step=1):
        return self.node(
            "Slice",
            [value, self.ints([start]), self.ints([end]), self.ints([axis]), self.ints([step])],
        )

    def full(self, sizes, value, dtype):
        return self.node("Expand", [self.like(value, dtype), self.ints(sizes)])

    # --- complex numbers --------------------------------------------------------------------------

    def interleaved(self, parts, axis):
        """A real tensor that has the parts of complex numbers along an additional last axis,
        `axis`."""
        return self.node(
            "Concat",
            [self.node("Unsqueeze", [part, self.ints([axis])]) for part in parts],
            axis=axis,
        )

    def split_parts(self, value, axis):
        """The names of the parts of a real tensor that has them along its last axis, `axis`."""
        return tuple(
            self.node("Gather", [value, self.constant(place, torch.int64)], axis=axis)
            for place in range(2)
        )

    def refuse(self, why):
        raise Refusal(why)


def _wrapped(value, dtype):
    """The number converted to that type as PyTorch does: in an integer type, a whole number out of
    range wraps around."""
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and not (dtype.is_floating_point or dtype == torch.bool)
    ):
        return torch.tensor(value).to(dtype)
    return torch.tensor(value, dtype=dtype)


def _name(value):
    if value is None:
        return ""
    return value.name if isinstance(value, Value) else value


def _plain(value):
    """An attribute in the form that the extension module takes."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (list, tuple)):
        if not is_static([each for each in value if not isinstance(each, (str, float))]):
            raise Refusal(
                "a size that is not known while compiling decides the operator's structure; bind it with shapes="
            )
        return [int(each) if isinstance(each, bool) else each for each in value]
    if isinstance(value, torch.SymInt):
        raise Refusal(
            "a size that is not known while compiling decides the operator's structure; bind it with shapes="
        )
    return value


def refuse_all(problems, name):
    """One error for everything that cannot be described."""
    error = UnsupportedError(f"{name} uses what tc cannot compile: {'; '.join(problems)}")
    error.problems = tuple(problems)
    raise error
