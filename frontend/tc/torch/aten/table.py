"""The table of PyTorch's operators: overload ▶ the function that describes it.

A function is given the Describer (whose `out` is what PyTorch tells of the result) and the operator's arguments by name,
defaults filled in: tensors as Values, everything else as Python has it. It gives the name of the result, a Value, or a
tuple of them. What has no row is decomposed by PyTorch, as far as it can.
"""

import dataclasses
from collections.abc import Callable

from ..describe import Value


@dataclasses.dataclass(frozen=True)
class Row:
    describe: Callable
    ops: str          # what it becomes, for docs/operators.md
    family: str


TABLE: dict[str, Row] = {}


def aten(*overloads, ops=""):
    """Adds a row for each overload ("add.Tensor", or "torchvision::nms" of another library)."""
    def add(function):
        family = function.__module__.rpartition(".")[2]
        for overload in overloads:
            name = key_name(overload)
            if name in TABLE:
                raise AssertionError(f"{name} is in the table already")
            TABLE[name] = Row(function, ops, family)
        return function
    return add


def key_name(overload):
    return overload if "::" in overload else f"aten::{overload}"


def describe_name(result):
    """The name of what a row gives."""
    return result.name if isinstance(result, Value) else result


def key_of(target):
    """The table's name of an overload as FX graphs have it."""
    namespace, _, _ = target._schema.name.partition("::")
    overload = target._overloadname
    name = target._schema.name if overload == "default" else f"{target._schema.name}.{overload}"
    return name if namespace else f"aten::{name}"


def row_of(target):
    return TABLE.get(key_of(target))
