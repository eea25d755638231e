"""An ONNX file taken apart and put together again without the package onnx: which nodes it has, and files of some of them.

A message of protocol buffers is a list of fields (number, wire type, value); what is not touched stays byte for byte.
"""

import os

from .errors import ModelError, UnsupportedError

# Fields of ONNX's messages that are read here.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_SPARSE, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 15, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 3, 4, 5, 7
_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 6, 11
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 1, 2, 8, 9, 13, 14
_INFO_NAME, _INFO_TYPE = 1, 2
_DEEPEST = 32

# Numbers of ONNX's element types, by the compiler's names.
TYPE_NUMBERS = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12,
                "u64": 13, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21, "i4": 22,
                "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "i2": 26}


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError


def fields(data):
    """The fields of a message, in order. Values of wire type 2 are bytes, those of type 0 numbers."""
    data, at, result = memoryview(data), 0, []
    try:
        while at < len(data):
            key, at = _varint(data, at)
            number, wire = key >> 3, key & 7
            if wire == 0:
                value, at = _varint(data, at)
            else:
                size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
                if at + size > len(data):
                    raise IndexError
                value, at = bytes(data[at:at + size]), at + size
            result.append((number, wire, value))
    except (IndexError, KeyError):
        raise ModelError("the file is no complete ONNX model; export it again") from None
    return result


def _number(value):
    result = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7f:
        result.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes([*result, value])


def message(parts):
    """The bytes of a message of these fields."""
    result = []
    for number, wire, value in parts:
        result.append(_number(number << 3 | wire))
        if wire == 2:
            result.append(_number(len(value)))
        result.append(_number(value) if wire == 0 else value)
    return b"".join(result)


def _text(number, words):
    return number, 2, words.encode("utf-8", "surrogateescape")


def _texts(parts, number):
    return [value.decode("utf-8", "surrogateescape") for field, _, value in parts if field == number]


def _first(parts, number, otherwise=None):
    return next((value for field, _, value in parts if field == number), otherwise)


class FileNode:
    """A node of the file's graph. `reads` has also what its subgraphs read from around it."""

    def __init__(self, data):
        parts = fields(data)
        self.data = data
        self.inputs, self.outputs = _texts(parts, _NODE_INPUT), _texts(parts, _NODE_OUTPUT)
        self.op_type, self.domain = "".join(_texts(parts, _NODE_TYPE)), "".join(_texts(parts, _NODE_DOMAIN))
        self.name = "".join(_texts(parts, _NODE_NAME)) or next((name for name in self.outputs if name), "")
        self.reads = list(dict.fromkeys(name for name in _reads(parts, 0) if name))

    @property
    def is_constant(self):
        return self.op_type == "Constant" and self.domain in ("", "ai.onnx")


def _reads(parts, depth):
    """Names that a node and its subgraphs read, but for those that the subgraphs define."""
    if depth > _DEEPEST:
        raise ModelError(f"subgraphs lie more than {_DEEPEST} deep in the model; export it again")
    names = _texts(parts, _NODE_INPUT)
    for attribute in (fields(value) for number, _, value in parts if number == _NODE_ATTRIBUTE):
        for graph in (fields(value) for number, wire, value in attribute if number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS) and wire == 2):
            nodes = [fields(value) for number, _, value in graph if number == _GRAPH_NODE]
            own = {name for node in nodes for name in _texts(node, _NODE_OUTPUT)}
            for number, name in ((_GRAPH_INPUT, _INFO_NAME), (_GRAPH_INITIALIZER, _TENSOR_NAME)):
                own.update(*(_texts(fields(value), name) for field, _, value in graph if field == number))
            used = [name for node in nodes for name in _reads(node, depth + 1)]
            used += [name for number, _, value in graph if number == _GRAPH_OUTPUT for name in _texts(fields(value), _INFO_NAME)]
            names += [name for name in used if name not in own]
    return names


def value_info(name, dtype, shape=None):
    """The declaration of an input or output."""
    tensor = [(1, 0, TYPE_NUMBERS[dtype])]
    if shape is not None:
        tensor.append((2, 2, message([(1, 2, message([(1, 0, size)])) for size in shape])))
    return message([_text(_INFO_NAME, name), (_INFO_TYPE, 2, message([(1, 2, message(tensor))]))])


def tensor(name, dtype, shape, data):
    """A constant, of its bytes in row-major order."""
    return message([*((_TENSOR_DIMS, 0, size) for size in shape), (_TENSOR_TYPE, 0, TYPE_NUMBERS[dtype]), _text(_TENSOR_NAME, name),
                    (_TENSOR_RAW, 2, data)])


def _inlined(data, folder):
    """A constant whose data is in a file beside the model, with the data in it."""
    parts = fields(data)
    if _first(parts, _TENSOR_LOCATION, 0) != 1:
        return data
    name = "".join(_texts(parts, _TENSOR_NAME))
    entries = {}
    for part in (fields(value) for number, _, value in parts if number == _TENSOR_EXTERNAL):
        entries["".join(_texts(part, 1))] = "".join(_texts(part, 2))
    path = os.path.realpath(os.path.join(folder or ".", entries.get("location", "")))
    if not folder or os.path.commonpath([path, os.path.realpath(folder)]) != os.path.realpath(folder):
        raise ModelError(f"tensor '{name}' has its data in '{entries.get('location')}', which is outside of the model's folder")
    try:
        with open(path, "rb") as file:
            file.seek(int(entries.get("offset", 0)))
            raw = file.read(int(entries["length"]) if "length" in entries else -1)
    except (OSError, ValueError) as error:
        raise ModelError(f"tensor '{name}': {path} cannot be read: {error}") from None
    kept = [part for part in parts if part[0] not in (_TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION)]
    return message([*kept, (_TENSOR_RAW, 2, raw)])


class OnnxFile:
    """The graph of a model file; `folder` is where its external data lies."""

    def __init__(self, data, folder=None):
        self._model = fields(data)
        graph = _first(self._model, _MODEL_GRAPH)
        if not isinstance(graph, bytes):
            raise ModelError("the file has no graph; export the model again")
        self._graph = fields(graph)
        if _first(self._graph, _GRAPH_SPARSE) is not None:
            raise UnsupportedError("the model has sparse constants, which cannot be taken apart; make them dense")
        self.nodes = [FileNode(value) for number, _, value in self._graph if number == _GRAPH_NODE]
        self.initializers = {}
        for number, _, value in self._graph:
            if number == _GRAPH_INITIALIZER:
                self.initializers["".join(_texts(fields(value), _TENSOR_NAME))] = _inlined(value, folder)
        self._infos = {number: {"".join(_texts(fields(value), _INFO_NAME)): value for field, _, value in self._graph if field == number}
                       for number in (_GRAPH_INPUT, _GRAPH_OUTPUT)}
        self.inputs = [name for name in self._infos[_GRAPH_INPUT] if name not in self.initializers]
        self.outputs = list(self._infos[_GRAPH_OUTPUT])
        self.maker = {name: number for number, node in enumerate(self.nodes) for name in node.outputs if name}

    def data(self, nodes=None, inputs=None, outputs=None, constants=None):
        """The bytes of a model. `nodes` are the numbers of those that it has (all); `outputs` are its outputs {name: element
        type, or None as the file declares it}; `inputs` declares {name: (element type, sizes)}, also of what left nodes make;
        `constants` are {name: (element type, sizes, bytes)}, in place of inputs."""
        kept = range(len(self.nodes)) if nodes is None else sorted(nodes)
        inputs, constants = inputs or {}, constants or {}
        outputs = dict.fromkeys(self.outputs) if outputs is None else outputs
        made = {name for number in kept for name in self.nodes[number].outputs if name}
        read = list(dict.fromkeys([name for number in kept for name in self.nodes[number].reads] + list(outputs)))
        if nodes is None:
            read += [name for name in self.inputs if name not in read]
        parts = [_text(_GRAPH_NAME, "".join(_texts(self._graph, _GRAPH_NAME)) or "model")]
        parts += [(_GRAPH_NODE, 2, self.nodes[number].data) for number in kept]
        order = {name: number for number, name in enumerate(self.inputs)}
        for name in sorted(read, key=lambda each: order.get(each, len(order))):
            if name in made:
                continue
            if name in constants:
                parts.append((_GRAPH_INITIALIZER, 2, tensor(name, *constants[name])))
            elif name in inputs:
                parts.append((_GRAPH_INPUT, 2, value_info(name, *inputs[name])))
            elif name in self.initializers:
                parts.append((_GRAPH_INITIALIZER, 2, self.initializers[name]))
            elif name in self._infos[_GRAPH_INPUT]:
                parts.append((_GRAPH_INPUT, 2, self._infos[_GRAPH_INPUT][name]))
        declared = self._infos[_GRAPH_OUTPUT]
        for name, dtype in outputs.items():
            known = dtype is None or (name in declared and name in self.outputs)
            parts.append((_GRAPH_OUTPUT, 2, declared[name] if known and name in declared else value_info(name, dtype)))
        graph = message(parts)
        return message([(number, wire, graph if number == _MODEL_GRAPH else value) for number, wire, value in self._model])

    def needed(self, outputs, given=()):
        """Numbers of the nodes from which these values are computed, where those of `given` are known."""
        found, waiting = set(), [name for name in outputs if name not in given]
        while waiting:
            number = self.maker.get(waiting.pop())
            if number is not None and number not in found:
                found.add(number)
                waiting += [name for name in self.nodes[number].reads if name not in given]
        return found
