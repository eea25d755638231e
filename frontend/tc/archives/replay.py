"""Builds a model from the description that the sandboxed program ("behind walls") wrote. It is
trusted as little as a file: every part is checked to be of its type, every tensor to be in the
shared memory, and no two to overlap."""

import numpy as np

from ..errors import ModelError, printable
from ..native import compiler

# Bytes per element, by the compiler's names of types.
_WIDTHS = {
    "f32": 4,
    "f64": 8,
    "f16": 2,
    "bf16": 2,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "bool": 1,
    "f8e4m3fn": 1,
    "f8e4m3fnuz": 1,
    "f8e5m2": 1,
    "f8e5m2fnuz": 1,
}
_MAX_DEPTH = 64
_LARGEST_SIZE = 1 << 48
_LONGEST_NAME = 1 << 16


def source_of(written, store, name):
    """The model as a source of the compiler."""
    model = compiler.ModelDescription("model")
    _add_constants(model, written["constants"], store)
    for symbol, (least, most) in _pairs(written["ranges"]):
        model.range(_name(symbol), _whole(least), _whole(most))
    _add_graph(model.graph, written["graph"], 0)
    return model.source(name)


def believed(build, name):
    """What `build` makes from the description, or an error where that is not a valid one."""
    try:
        return build()
    except (
        TypeError,
        ValueError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
        UnicodeError,
    ) as error:
        raise ModelError(
            f"the description of '{name}' cannot be read: {type(error).__name__}: {printable(error)}"
        ) from None


def tensor_place(shape, dtype, place, store):
    """An array over the bytes of a tensor."""
    count = _WIDTHS[dtype]
    for size in shape:
        count *= _whole(size)
        if not 0 <= count <= len(store):
            raise ValueError("a tensor that is not there")
    if not 0 <= _whole(place) <= len(store) - count:
        raise ValueError("a tensor that is not there")
    return np.frombuffer(store, np.uint8, count, place)


def _add_constants(model, rows, store):
    end, taken = 0, set()
    for name, dtype, shape, place, size in rows:
        array = tensor_place(shape, dtype, place, store)
        if place < end or size != array.nbytes or name in taken:
            raise ValueError("tensors that overlap")
        taken.add(name)
        end = place + array.nbytes
        model.constant(_name(name), dtype, shape, array)


def _add_graph(graph, written, depth):
    if depth > _MAX_DEPTH:
        raise ValueError("graphs nested too deep")
    for name, dtype, sizes in written["inputs"]:
        graph.input(
            _name(name),
            _type(dtype),
            [_name(each) if type(each) is str else _whole(each) for each in sizes],
        )
    for name in written["formals"]:
        graph.formal(_name(name))
    for row in written["nodes"]:
        graph.node(_node(row, depth))
    for name, dtype in written["outputs"]:
        graph.output(_name(name), _type(dtype))


def _node(row, depth):
    op, inputs, outputs, domain, name, source, attributes, graphs = row
    node = compiler.DescribedNode(
        _name(op), [_name(each) for each in inputs], [_name(each) for each in outputs]
    )
    node.domain, node.name, node.source = _name(domain), _name(name), printable(_name(source), 1000)
    node.attributes = {_name(key): _attribute(value) for key, value in _pairs(attributes)}
    for role, body in _pairs(graphs):
        inner = compiler.GraphDescription(_name(body["name"]))
        _add_graph(inner, body, depth + 1)
        node.set_graph(_name(role), inner)
    return node


def _attribute(value):
    if type(value) is list and any(
        all(type(each) in kinds for each in value) for kinds in ((int, float), (str,))
    ):
        return [float(each) for each in value] if float in map(type, value) else value
    if type(value) not in (int, float, str):
        raise TypeError(f"an attribute of type {type(value).__name__}")
    return value


def _pairs(value):
    if type(value) is not dict:
        raise TypeError(f"a {type(value).__name__} in the place of a table")
    return value.items()


def _name(value):
    if type(value) is not str or len(value) > _LONGEST_NAME:
        raise TypeError(f"a {type(value).__name__} in the place of a name")
    return value


def _type(value):
    if value not in _WIDTHS:
        raise ValueError("a type that is none")
    return value


def _whole(value):
    if type(value) is not int or not -1 <= value <= _LARGEST_SIZE:
        raise TypeError("a size that is none")
    return value
