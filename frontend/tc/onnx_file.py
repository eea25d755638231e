"""The nodes of an ONNX file's graph, and how to write files with some of them."""

import dataclasses

from .native import compiler


@dataclasses.dataclass(frozen=True)
class FileNode:
    """A node of the file's graph. `reads` has its inputs and the names of the outer graph that its
    subgraphs read, each once."""

    name: str
    op_type: str
    domain: str
    inputs: list
    outputs: list
    reads: list

    @property
    def is_constant(self):
        return self.op_type == "Constant" and self.domain in ("", "ai.onnx")


class OnnxFile:
    """`data` is the file's bytes, `name` its name in errors, `folder` the folder of its external
    data."""

    def __init__(self, data, name="model.onnx", folder=None):
        self.name = name
        self._file = compiler.OnnxFile(data, name, folder or "")
        self.nodes = [FileNode(*row) for row in self._file.nodes]
        self.inputs, self.outputs, self.maker = (
            self._file.inputs,
            self._file.outputs,
            self._file.makers,
        )

    def data(self, nodes=None, inputs=None, outputs=None, constants=None):
        """The bytes of a model with the nodes of these numbers (None: all). `outputs` are {name:
        element type, or None for the one that the file declares}; `inputs` declares {name: (element
        type, sizes)}, also for results of nodes that are left out; `constants` are {name: (element
        type, sizes, bytes)}, which replace inputs."""
        return self._file.part(
            None if nodes is None else set(nodes),
            inputs or {},
            None if outputs is None else list(outputs.items()),
            constants or {},
        )

    def needed(self, outputs, given=()):
        """Numbers of the nodes that are needed to compute `outputs` where the values `given` are
        known."""
        return self._file.needed(list(outputs), set(given))

    def node_bytes(self, number):
        """The bytes of a node, as in the file."""
        return self._file.node(number)

    def initializer(self, name):
        """The bytes of the file's constant of this name; None where there is none."""
        return self._file.initializer(name)
