"""The table of TensorFlow Lite's operators: name in the format's schema ▶ the function that
describes it.

A function gets the Describer and a Call, which has the operator's inputs and outputs as Values and
its options. It gives every output a name, in the file's order of axes or with the channels in
front. Operators on integers with scales use other functions where the file computes them in
integers; see quantised.py.
"""

import dataclasses
import math
from collections.abc import Callable

import tflite

from ..describe import Refusal


@dataclasses.dataclass(frozen=True)
class Row:
    describe: Callable
    options: str  # name of the table of options in the schema; "" where there is none
    inputs: tuple  # smallest and largest number of inputs
    resources: bool  # whether it may have variables as operands, and no results


TABLE: dict[str, Row] = {}


def operator(*names, options="", inputs=(1, 1), resources=False):
    """Decorator that adds a row for each of these names."""

    def add(function):
        for name in names:
            if name in TABLE:
                raise AssertionError(f"{name} is in the table already")
            TABLE[name] = Row(function, options, inputs, resources)
        return function

    return add


def row_of(name):
    return TABLE.get(name)


def _names_of(enumeration):
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


_MAX_PLACES = 1 << 22
_ACTIVATIONS = _names_of(tflite.ActivationFunctionType)
_PADDINGS = _names_of(tflite.Padding)


class Call:
    """One operator of the file: its operands, results and options, with the checks that all
    operators have in common."""

    def __init__(self, row, operator, inputs, outputs, intermediates=()):
        self.operator, self.outputs, self.intermediates = operator, outputs, intermediates
        self.name = operator.name
        least, most = row.inputs
        if (
            len(inputs) < least
            or (most >= 0 and len(inputs) > most)
            or any(value is None for value in inputs[:least])
        ):
            takes = (
                f"{least}"
                if least == most
                else f"at least {least}"
                if most < 0
                else f"{least} to {most}"
            )
            raise Refusal(
                f"it has {sum(value is not None for value in inputs)} inputs and takes {takes}"
            )
        if not outputs and not row.resources:
            raise Refusal("it has no output")
        if row.options and operator.options_name not in ("", row.options):
            raise Refusal(f"its options are {operator.options_name}, and it takes {row.options}")
        self.inputs = list(inputs) + [None] * (max(most, 0) - len(inputs))

    @property
    def out(self):
        return self.outputs[0]

    def option(self, field, fallback=0):
        value = self.operator.options.get(field, fallback)
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal(f"its option {field} is {value}")
        return value

    @property
    def activation(self):
        return _ACTIVATIONS.get(self.option("FusedActivationFunction"), "of no known kind")

    @property
    def padding(self):
        return _PADDINGS.get(self.option("Padding"), "of no known kind")

    def positive(self, field):
        value = self.option(field, 1)
        if not 1 <= value < 1 << 20:
            raise Refusal(f"its option {field} is {value}; at least 1 is needed")
        return int(value)

    def constant(self, number, what):
        """The content of an input that decides the operator's structure and so has to be
        constant."""
        value = self.inputs[number]
        if value is None or value.data is None:
            raise Refusal(f"{what} is computed while the model runs; only constants are supported")
        return value.data

    def ints(self, number, what):
        """The content of such an input as a list of whole numbers."""
        data = self.constant(number, what)
        if data.dtype.kind not in "iu" or data.ndim > 1:
            raise Refusal(
                f"{what} is {data.dtype} of shape {list(data.shape)}; whole numbers in a list are needed"
            )
        return [int(each) for each in data.reshape(-1)]

    def axis(self, axis, rank):
        if not -rank <= axis < rank:
            raise Refusal(f"axis {axis} is none of {rank}")
        return axis % rank

    def axes(self, number, rank):
        return [self.axis(axis, rank) for axis in self.ints(number, "the list of axes")]

    def need_few(self, count, what):
        """Refuses more than _MAX_PLACES elements, since they are listed one by one while
        importing."""
        if count > _MAX_PLACES:
            raise Refusal(f"{what} has {count} places; at most {_MAX_PLACES} are supported here")

    def need_rank(self, value, rank):
        if value.rank != rank:
            raise Refusal(
                f"'{value.tensor.name}' has the shape {list(value.shape)}; {rank} axes are needed"
            )

    def need_types(self, *types):
        """Refuses operands of other element types than these."""
        for value in [*self.inputs, *self.outputs]:
            if value is not None and value.dtype not in types:
                raise Refusal(
                    f"'{value.tensor.name}' is {value.dtype}, and only {', '.join(types)} is supported here"
                )
