"""The tensors of a file in the forms that the graph of a network reads: vectors, matrices for
products, and tables of rows."""

import functools
import math

import numpy as np

from ..errors import ModelError, UnsupportedError
from ..native import compiler
from .constants import GGML_QUANT_SIZES, GGMLQuantizationType


@functools.cache
def formats():
    """The names of those formats in files with which the compiler can multiply directly."""
    return tuple(
        row["name"]
        for row in compiler.weight_formats()
        if row["name"].upper() in GGMLQuantizationType.__members__
    )


def block_rows(file, tensor):
    """The bytes of a matrix, [rows, bytes of a row]."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[tensor.type_name]]
    rows = math.prod(tensor.shape[:-1])
    return file.bytes_of(tensor).reshape(rows, tensor.shape[-1] // block * size)


def floats_in(data, type_name):
    """The numbers of rows of bytes in a format, in float32. NotImplementedError where the package
    gguf does not know how."""
    kind = GGMLQuantizationType[type_name]
    if kind == GGMLQuantizationType.F64:
        return data.view("<f8").astype(np.float32)
    if kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        data = data.view("<f4" if kind == GGMLQuantizationType.F32 else "<f2")
    from gguf.quants import dequantize

    return np.asarray(dequantize(data, kind), np.float32)


def floats_of(file, tensor):
    """The numbers of a tensor in float32."""
    try:
        return floats_in(block_rows(file, tensor), tensor.type_name).reshape(tensor.shape)
    except NotImplementedError:
        raise UnsupportedError(
            f"{file.name}: tensor '{tensor.name}' has the type {tensor.type_name}, which is not "
            "supported; quantise "
            "the model to another one"
        ) from None


def order_of_halves(heads, size, turned):
    """An order of the rows of a matrix that makes `heads` heads of `size` elements. Of the `turned`
    first elements of a head, which are pairs of neighbours, the first of each pair come first, then
    the second of each.
    """
    head = np.arange(size)
    head[:turned] = np.concatenate([head[:turned:2], head[1:turned:2]])
    return (np.arange(heads)[:, None] * size + head).reshape(-1)


class Weights:
    """Adds the tensors of a file to a graph, each when it is first used, and knows which were never
    used."""

    def __init__(self, file, graph):
        self.file, self.graph = file, graph
        self._unused = dict(file.tensors)
        self._made = {}  # {name: names in the graph}

    def has(self, name):
        return name in self.file.tensors

    def tensor(self, name, shape):
        """The tensor of that name; an error where its shape is another."""
        found = self.file.tensors.get(name)
        if found is None:
            raise ModelError(
                f"'{self.file.name}' is a damaged {self.file.kind}: it has no tensor '{name}'; fetch or "
                f"convert it again"
            )
        if found.shape != shape:
            raise ModelError(
                f"'{self.file.name}' is a damaged {self.file.kind}: the tensor '{name}' has the shape "
                f"{list(found.shape)}, and its "
                f"fields need {list(shape)}; fetch or convert it again"
            )
        self._unused.pop(name, None)
        return found

    def unused(self):
        """Names of tensors that the graph does not read."""
        return list(self._unused)

    def numbers(self, name, length):
        """A vector, as an array."""
        return floats_of(self.file, self.tensor(name, (length,)))

    def vector(self, name, length, order=None):
        numbers = self.numbers(name, length)
        return self.graph.constant(numbers if order is None else numbers[order], name)

    def rows(self, name, shape, ids):
        """The rows of a matrix that the indices `ids` choose: [..., columns]."""
        planes, attributes = self._planes(name, shape)
        return self.graph.node("tc::BlockGather", [ids, *planes], **attributes)

    def product(self, x, name, shape, order=None):
        """x [..., columns] times the transposed matrix: [..., rows]; `order` reorders the matrix's
        rows.
        """
        planes, attributes = self._planes(name, shape, order)
        return self.graph.node("tc::BlockMatMul", [x, *planes], **attributes)

    def product_of_chosen(self, x, chosen, name, shape):
        """The product by the matrices that `chosen` [..., choices] names, of the matrices
        [experts, rows, columns]: [..., choices, rows]. x is [..., columns], or [..., choices,
        columns] with one row for each choice."""
        planes, attributes = self._planes(name, shape)
        return self.graph.node("tc::ExpertMatMul", [x, chosen, *planes], **attributes)

    def _planes(self, name, shape, order=None):
        """(names of a matrix's constants, attributes of operators that read it). The matrix, or
        each of several, keeps the file's format and is added once."""
        tensor = self.tensor(name, shape)
        kind = tensor.type_name.lower()
        if kind not in formats():
            raise UnsupportedError(
                f"{self.file.name}: tensor '{name}' has the type {tensor.type_name}, which is not "
                "supported; quantise the model "
                f"to one of {', '.join(map(str.upper, formats()))}"
            )
        if name not in self._made:
            data = block_rows(self.file, tensor)
            self._made[name] = self.graph.blocks(
                name, kind, data if order is None else data[order], shape
            )
        *count, rows, columns = shape
        attributes = {"format": kind, "N": rows, "K": columns}
        return self._made[name], {**attributes, "experts": count[0]} if count else attributes
