"""The graph of an ONNX file taken apart: which nodes it has, and files that hold some of them."""

import dataclasses

from .native import compiler


@dataclasses.dataclass(frozen=True)
class FileNode:
    """A node of the file's graph. `reads` has its inputs and what its subgraphs read from around them, each name once."""
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
    """`data` is the file's bytes, `name` what errors call it; `folder` is where its external data lies."""

    def __init__(self, data, name="model.onnx", folder=None):
        self.name = name
        self._file = compiler.OnnxFile(data, name, folder or "")
        self.nodes = [FileNode(*row) for row in self._file.nodes]
        self.inputs, self.outputs, self.maker = self._file.inputs, self._file.outputs, self._file.makers

    def data(self, nodes=None, inputs=None, outputs=None, constants=None):
        """The bytes of a model. `nodes` are the numbers of those that it has (all); `outputs` are its outputs {name: element
        type, or None as the file declares it}; `inputs` declares {name: (element type, sizes)}, also of what left nodes make;
        `constants` are {name: (element type, sizes, bytes)}, in place of inputs."""
        return self._file.part(None if nodes is None else set(nodes), inputs or {}, None if outputs is None else list(outputs.items()),
                               constants or {})

    def needed(self, outputs, given=()):
        """Numbers of the nodes from which these values are computed, where those of `given` are known."""
        return self._file.needed(list(outputs), set(given))

    def node_bytes(self, number):
        """A node as the file has it."""
        return self._file.node(number)

    def initializer(self, name):
        """The bytes of a constant of the file; None where it has none of this name."""
        return self._file.initializer(name)
