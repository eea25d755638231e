"""Limits on the lists, strings and numbers that a run of TorchScript makes and on the nodes that it
runs: a few lines of a program can ask for any amount."""

from .script_values import ScriptError

# The most elements of lists and dictionaries and characters of strings that a run may make in
# total, including those that it drops again.
_MAX_ELEMENTS = 1 << 25
_MAX_NODES = 1 << 22
_BITS = 64

# Operators that copy their operands, and operators that add the second operand to the first.
_COPIES = (
    "add",
    "slice",
    "list",
    "dict",
    "copy",
    "keys",
    "values",
    "items",
    "sorted",
    "lower",
    "upper",
    "split",
    "strip",
    "rstrip",
    "lstrip",
    "format",
)
_ADDS = ("extend", "add_", "update")


class Limits:
    """Counts what one run has made."""

    def __init__(self):
        self.elements = self.nodes = 0

    def note_node(self):
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise ScriptError(
                f"the model takes more than {_MAX_NODES} steps of TorchScript, loops unrolled"
            )

    def before(self, name, inputs):
        """Refuses an operator, before it runs, whose result would exceed the limit."""
        self.elements += made_by(name, inputs)
        if self.elements > _MAX_ELEMENTS:
            raise ScriptError(
                f"the model makes lists and strings of more than {_MAX_ELEMENTS} elements"
            )


def made_by(name, inputs):
    """The number of elements and characters of an operator's result."""
    sizes = [len(each) if isinstance(each, (str, list, tuple, dict)) else 0 for each in inputs]
    if name in ("mul", "mul_"):
        return max(sizes) * max((each for each in inputs if type(each) is int), default=1)
    if name == "join":
        return sum(len(each) for each in inputs[1]) + sizes[0] * sizes[1]
    if name == "replace":
        return sizes[0] + (sizes[0] + 1) * sizes[2]
    return sum(sizes) if name in _COPIES else sizes[1] if name in _ADDS else 1


def as_int64(value):
    """A whole number as it is in TorchScript after an operator: beyond 64 bits it wraps around."""
    if type(value) is not int or value.bit_length() < _BITS:
        return value
    return (value + (1 << _BITS - 1)) % (1 << _BITS) - (1 << _BITS - 1)
