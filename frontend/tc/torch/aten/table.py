"""The table of PyTorch's operators: overload ▶ the function that describes it.

A function gets the Describer (whose `out` has PyTorch's type and shape of the result) and the
operator's arguments by name, with defaults filled in: tensors as Values, everything else as Python
values. It returns the name of the result, a Value, or a tuple of these. PyTorch decomposes
operators without a row, as far as it can.
"""

import dataclasses
from collections.abc import Callable

from ..describe import Value


@dataclasses.dataclass(frozen=True)
class Row:
    describe: Callable
    ops: str  # the ONNX operators that it becomes, for the generated page
    family: str


TABLE: dict[str, Row] = {}


def aten(*overloads, ops=""):
    """Decorator that adds a row for each overload ("add.Tensor", or "torchvision::nms" for another
    library)."""

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
    """The name of a row's result."""
    return result.name if isinstance(result, Value) else result


def key_of(target):
    """The key in the table of an overload in an FX graph."""
    namespace, _, _ = target._schema.name.partition("::")
    overload = target._overloadname
    name = target._schema.name if overload == "default" else f"{target._schema.name}.{overload}"
    return name if namespace else f"aten::{name}"


def row_of(target):
    return TABLE.get(key_of(target))
