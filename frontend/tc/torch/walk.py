"""Turns an FX graph of ATen operators into a description in terms of ONNX."""

import operator
import os
import re

import torch

from . import control
from .aten import COMPLEX, key_of, row_of
from .describe import Complex, Missing, Refusal, Value, dtype_name, part_type, real_fake

_TORCH_FOLDER = os.path.dirname(os.path.abspath(torch.__file__))
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def place_of(node):
    """The node's position in the model's source, as "net.py:12"; empty where that is not known."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_TORCH_FOLDER)] or frames
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}" if own else ""


def source_of_node(node):
    name = str(node.target)
    place = place_of(node)
    return f"{name} at {place}" if place else name


def _live(graph):
    """The nodes on which results depend. The graph is functional, so the others have no effect
    (checks of what export has established already are among them)."""
    live = {node for node in graph.nodes if node.op == "output"}
    for node in reversed(graph.nodes):
        if node in live:
            live.update(node.all_input_nodes)
    return live


class Walk:
    """Describes the nodes of a graph and of its subgraphs in order, and collects what cannot be
    described."""

    def __init__(self, describer, module, problems):
        self.g, self.module, self.problems = describer, module, problems
        self.values = {}  # {fx.Node: its Value, number or tuple}

    def within(self, describer, module):
        """A Walk of a graph that a node of this one runs; problems go to the same list."""
        return Walk(describer, module, self.problems)

    def run(self, graph):
        """Describes all nodes but inputs. Returns the output node's argument, with Values for its
        tensors."""
        live = _live(graph)
        for node in graph.nodes:
            if node.op == "output":
                return torch.fx.node.map_arg(node.args[0], self.value)
            if node not in live:
                continue
            if node.op == "get_attr":
                self.values[node] = self._attribute(node)
            elif node.op == "call_function":
                self.values[node] = self._call(node)
        raise AssertionError("a graph without an output")

    def _attribute(self, node):
        owner = self.module
        for part in node.target.split("."):
            owner = getattr(owner, part)
        if not isinstance(owner, torch.Tensor):
            return owner
        try:
            return self.g.stored(owner, node.target)
        except Refusal as refusal:
            self._refuse(node, refusal)
            return Missing

    def value(self, node):
        """What a node stands for as an argument: a Value, a number, a symbolic number or a tuple of
        them."""
        if node in self.values:
            return self.values[node]
        return _number(node.meta["val"])

    def _call(self, node):
        meta = node.meta.get("val")
        if node.target is operator.getitem and not isinstance(
            self.values.get(node.args[0]), (Value, Complex)
        ):
            whole = self.values.get(node.args[0])
            if whole is Missing or whole is None:
                return whole
            return self._named(node, whole[node.args[1]])
        if isinstance(meta, _SYMBOLIC + (int, float, bool)) and not _reads_data(node):
            return _number(meta)
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), self.value)
        if _has_missing(arguments):
            return Missing
        self.g.begin(node.name, source_of_node(node), meta)
        try:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                if _has_complex(arguments) and node.target.name() in ("cond", "while_loop"):
                    raise Refusal("complex numbers in branches and loops are not supported")
                return control.describe(self, node, *arguments)
            return self._operator(node, *arguments)
        except Refusal as refusal:
            self._refuse(node, refusal)
            return Missing

    def _operator(self, node, args, kwargs):
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            raise Refusal("it is no operator of a tensor")
        if _reads_data(node):
            return self._item(node, args[0])
        row = row_of(target)
        if row is None:
            raise Refusal("it is not supported")
        describe = row.describe
        if _has_complex((args, kwargs)) or any(
            each.dtype.is_complex for each in _tensors(node.meta.get("val"))
        ):
            describe = COMPLEX.get(key_of(target)) or (
                row.describe if row.ops == "refused" else None
            )
            if describe is None:
                raise Refusal("it is not supported for complex numbers")
        for each in _tensors(node.meta.get("val")):
            dtype_name(part_type(each.dtype))
        self.g.target = target
        result = _with_fakes(describe(self.g, **_by_name(target, args, kwargs)), node.meta["val"])
        self._bind_sizes(result)
        return result

    def _bind_sizes(self, result):
        """Binds each symbol of a data-dependent size to the first result that has this size."""
        for value in result if isinstance(result, tuple) else (result,):
            value = value.re if isinstance(value, Complex) else value
            if not isinstance(value, Value):
                continue
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    self.g._shared.symbols.setdefault(size.node.expr, (value.name, axis))

    def _item(self, node, tensor):
        """A number read from data that PyTorch uses as a Python number: binds its symbol."""
        symbol = node.meta["val"]
        if not isinstance(symbol, (torch.SymInt, torch.SymFloat)) or not symbol.node.expr.is_Symbol:
            raise Refusal("a truth value of the data decides what Python does")
        kind = torch.int64 if isinstance(symbol, torch.SymInt) else torch.float64
        self.g._shared.symbols[symbol.node.expr] = self.g.node(
            "Reshape", [self.g.cast(tensor, kind), self.g.ints([1])]
        )
        return symbol

    def _named(self, node, value):
        """A part of a result; a part that the operator's row does not give is refused if something
        reads it."""
        if value is None and isinstance(node.meta.get("val"), torch.Tensor) and node.users:
            self._refuse(node.args[0], Refusal(f"its result {node.args[1]} is not supported"))
            return Missing
        return value

    def _refuse(self, node, refusal):
        self.problems.append(f"node '{node.name}' ({source_of_node(node)}): {refusal}")


def _number(value):
    """Turns a symbolic number whose value is known into a number."""
    if isinstance(value, torch.SymInt) and value.node.expr.is_Integer:
        return int(value.node.expr)
    if isinstance(value, torch.SymFloat) and value.node.expr.is_number:
        return float(value.node.expr)
    return value


def _reads_data(node):
    return node.target in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)


def _has_missing(value):
    if isinstance(value, (tuple, list)):
        return any(_has_missing(each) for each in value)
    if isinstance(value, dict):
        return any(_has_missing(each) for each in value.values())
    return value is Missing


def _has_complex(value):
    if isinstance(value, (tuple, list)):
        return any(_has_complex(each) for each in value)
    if isinstance(value, dict):
        return any(_has_complex(each) for each in value.values())
    return isinstance(value, (Complex, complex))


def _tensors(value):
    return [
        each
        for each in (value if isinstance(value, (tuple, list)) else [value])
        if isinstance(each, torch.Tensor)
    ]


def _by_name(target, args, kwargs):
    """All arguments of an operator by the names of its schema, defaults filled in."""
    named = dict(kwargs)
    for place, argument in enumerate(target._schema.arguments):
        if argument.name in named:
            continue
        if place < len(args) and not argument.kwarg_only:
            named[argument.name] = args[place]
        elif argument.has_default_value():
            named[argument.name] = argument.default_value
    return named


def _with_fakes(result, meta):
    """The results of a row as Values, with type and shape."""
    if isinstance(meta, (tuple, list)):
        return tuple(
            None if each is None else _with_fakes(each, fake) for each, fake in zip(result, meta)
        )
    if isinstance(meta, torch.Tensor) and meta.dtype.is_complex:
        if isinstance(result, Complex):
            return Complex(result.re, result.im, meta)
        return Complex(*(_with_fakes(part, real_fake(meta)) for part in result), meta)
    return (
        Value(result.name if isinstance(result, Value) else result, meta)
        if isinstance(meta, torch.Tensor)
        else result
    )
