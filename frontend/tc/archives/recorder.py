"""Stands in for the compiler's classes that take a model's description
(frontend/python/description.cc), and records the calls in a form that can be sent."""

import mmap

import numpy as np

# Tensors begin at multiples of this in the shared memory.
_ALIGNMENT = 64


class Store:
    """Tensors in memory that another process reads. `descriptor` is that of a file of `size` bytes,
    which cannot grow."""

    def __init__(self, descriptor, size):
        self._descriptor, self._size, self._end = descriptor, size, 0

    def add(self, array):
        """Stores the array's bytes and returns their position."""
        array = np.ascontiguousarray(array)
        place = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        if place + array.nbytes > self._size:
            raise MemoryError
        self._end = place + array.nbytes
        if array.nbytes:
            # Only a window is mapped at a time, because mapped memory counts as this process's own.
            begin = place // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            with mmap.mmap(self._descriptor, self._end - begin, offset=begin) as window:
                copy = np.frombuffer(window, np.uint8, array.nbytes, place - begin)
                copy[:] = array.reshape(-1).view(np.uint8)
                del copy
        return place


class DescribedNode:
    def __init__(self, op, inputs, outputs):
        self.op, self.inputs, self.outputs = op, list(inputs), list(outputs)
        self.domain = self.name = self.source = ""
        self.attributes, self.graphs = {}, {}

    def set_graph(self, role, graph):
        self.graphs[role] = graph.written()

    def written(self):
        attributes = {
            key: float(value)
            if isinstance(value, np.floating)
            else int(value)
            if isinstance(value, np.integer)
            else value
            for key, value in self.attributes.items()
        }
        return [
            self.op,
            self.inputs,
            self.outputs,
            self.domain,
            self.name,
            self.source,
            attributes,
            self.graphs,
        ]


class GraphDescription:
    def __init__(self, name):
        self.name, self.inputs, self.formals, self.nodes, self.outputs = name, [], [], [], []

    def input(self, name, dtype, sizes):
        self.inputs.append([name, dtype, list(sizes)])

    def formal(self, name):
        self.formals.append(name)

    def node(self, node):
        self.nodes.append(node.written())

    def output(self, name, dtype):
        self.outputs.append([name, dtype])

    def written(self):
        return {
            "name": self.name,
            "inputs": self.inputs,
            "formals": self.formals,
            "nodes": self.nodes,
            "outputs": self.outputs,
        }


class ModelDescription:
    store = None  # shared by all models that are described

    def __init__(self, name):
        self.name, self.graph, self.constants, self.ranges = name, GraphDescription(name), [], {}

    def constant(self, name, dtype, shape, array):
        array = np.asarray(array)
        self.constants.append([name, dtype, list(shape), self.store.add(array), array.nbytes])

    def range(self, symbol, least, most):
        self.ranges[symbol] = [least, most]

    def source(self, name):
        return self

    def written(self):
        return {"graph": self.graph.written(), "constants": self.constants, "ranges": self.ranges}
