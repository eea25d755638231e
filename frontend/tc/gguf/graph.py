"""Describes a graph in terms of ONNX, node by node."""

import numpy as np

from ..native import compiler

_KINDS = {
    np.dtype(np.float32): "f32",
    np.dtype(np.int64): "i64",
    np.dtype(np.float16): "f16",
    np.dtype(np.uint8): "u8",
    np.dtype(np.int8): "i8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
}


class Graph:
    """The description of a model while it is being made. `where` is the part of the model that
    nodes and errors name: "blk.3"."""

    def __init__(self, name):
        self.model = compiler.ModelDescription(name)
        self.where = ""
        self._taken = set()

    def fresh(self, stem):
        name, number = stem, 0
        while name in self._taken:
            number += 1
            name = f"{stem}.{number}"
        self._taken.add(name)
        return name

    def input(self, name, dtype, sizes):
        self.model.graph.input(self.fresh(name), dtype, sizes)
        return name

    def output(self, name, dtype):
        self.model.graph.output(name, dtype)

    def node(self, op, inputs, outputs=1, names=None, **attributes):
        """Adds a node and returns the name of its output, or a tuple of names. An operator of
        another domain is written domain::name, an input that is left out None."""
        domain, _, op = op.rpartition("::")
        label = f"{self.where}.{op.lower()}" if self.where else op.lower()
        names = tuple(names or (self.fresh(label) for _ in range(outputs)))
        described = compiler.DescribedNode(
            op, ["" if each is None else each for each in inputs], list(names)
        )
        described.domain, described.name, described.source = domain, names[0], self.where
        described.attributes = attributes
        self.model.graph.node(described)
        return names if len(names) != 1 else names[0]

    def constant(self, array, stem="constant"):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        name = self.fresh(stem)
        self.model.constant(name, _KINDS[array.dtype], list(array.shape), array)
        return name

    def blocks(self, stem, kind, data, shape):
        """Adds a matrix that a file stores in blocks, or a number of them where there are three
        sizes, as constants, and returns their names."""
        *count, rows, columns = shape
        return self.model.blocks(
            self.fresh(stem), kind, np.ascontiguousarray(data), rows, columns, *(count or [0])
        )

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def number(self, value):
        return self.constant(np.array(value, np.float32))
