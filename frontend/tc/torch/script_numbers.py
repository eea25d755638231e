"""Numbers of TorchScript in the place of tensors: their types, and operators on them.

PyTorch calls a Python number that is an operand next to a tensor a wrapped number. It has a
category (truth values, whole numbers, floats, complex numbers), and it takes the type of the
tensors unless their category is lower. TorchScript treats a constant of rank 0 in this way if it is
the second operand of a sum, difference, product or quotient, whatever it was in the source.
Elsewhere, and where a trace keeps a number as a tensor (prim::NumToTensor), it has a type like any
tensor of rank 0.
"""

import torch
from torch.utils._python_dispatch import _disable_current_modes

_CATEGORIES = (bool, int, float, complex)
# Operators with one result of rank 0 that are no elementwise operators.
_OF_ONE = (
    "to",
    "_to_copy",
    "type_as",
    "detach",
    "alias",
    "clone",
    "contiguous",
    "lift_fresh",
    "lift_fresh_copy",
)
# Elementwise operators that PyTorch composes of others and does not tag as elementwise.
_UNTAGGED = (
    "floor_divide",
    "rsub",
    "multiply",
    "divide",
    "subtract",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
    "arctan2",
    "true_divide",
    "__and__",
    "__or__",
    "__xor__",
    "isclose",
    "fix",
    "square",
    "float_power",
)
# The operators whose second operand is a wrapped number where it is a constant.
_TAKE_NUMBERS = ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide")


class NumberTensor:
    """A tensor of rank 0 whose number is known or follows from sizes. It turns back into a number
    where one is needed, so that sizes that a traced model computes stay sizes. `constant`: it is a
    constant of the model."""

    def __init__(self, value, dtype=None, constant=False):
        self.value, self.constant = value, constant
        self.dtype = dtype or _WIDEST[category(value)]

    def tensor(self, dtype=None):
        if isinstance(self.value, (torch.SymInt, torch.SymFloat)):
            return torch.scalar_tensor(self.value, dtype=dtype or self.dtype)
        return torch.tensor(self.value, dtype=dtype or self.dtype)


class DataNumber:
    """A number that is read from a tensor with unknown data. It can decide a branch or the end of a
    loop, be used in computations, or become a tensor again."""

    def __init__(self, tensor, kind):
        self.tensor, self.kind = tensor, kind

    def as_kind(self, kind):
        """The number converted as by Python's bool, int or float."""
        dtype = {"Bool": torch.bool, "Int": torch.int64, "IntImplicit": torch.int64}.get(kind)
        return DataNumber(self.tensor if dtype is None else self.tensor.to(dtype), kind)

    def argument(self, dtype):
        """The number as an operand next to tensors; `dtype` is the type of those tensors that are
        floats."""
        return self.tensor.to(dtype) if self.tensor.dtype.is_floating_point else self.tensor


def category(value):
    """The category of a number or a type: 0 for truth values, 1 for whole numbers, 2 for floats, 3
    for complex numbers."""
    if isinstance(value, torch.dtype):
        return (
            0
            if value == torch.bool
            else 3
            if value.is_complex
            else 2
            if value.is_floating_point
            else 1
        )
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return 1 if isinstance(value, torch.SymInt) else 2
    return _CATEGORIES.index(type(value))


# By category: the type of a number that has become a tensor.
_WIDEST = (torch.bool, torch.int64, torch.float64, torch.complex128)


def _default(kind):
    """The type of a wrapped number of this category next to tensors of lower categories."""
    floats = torch.get_default_dtype()
    return (torch.bool, torch.int64, floats, floats.to_complex())[kind]


def _type_of_all(tensors, kinds):
    """The type in which PyTorch computes with tensors and wrapped numbers of these categories."""
    result = None
    for group in (
        [each.dtype for each in tensors if each.dim()],
        [each.dtype for each in tensors if not each.dim()],
        list(map(_default, kinds)),
    ):
        found = None
        for dtype in group:
            found = dtype if found is None else torch.promote_types(found, dtype)
        if result is None:
            result = found
        elif found is not None and category(found) > category(result):
            # Where a tensor of higher rank has floats and one of lower rank is complex, the floats'
            # width is kept.
            result = result.to_complex() if category(result) == 2 else found
    return result


def _kind(number):
    return category(number.value if isinstance(number, NumberTensor) else number.tensor.dtype)


def is_pointwise(operator):
    return (
        torch.Tag.pointwise in operator.tags
        or operator._schema.name.partition("::")[2] in _UNTAGGED
    )


def as_operands(operator, inputs):
    """The inputs of an operator with numbers turned into tensors, whose types are such that the
    result gets the type that PyTorch gives it."""
    name = operator._schema.name.partition("::")[2].removesuffix("_")
    takes_constant = name in _TAKE_NUMBERS and "rounding_mode" not in {
        each.name for each in operator._schema.arguments
    }

    def is_wrapped(place, value):
        return (
            isinstance(value, DataNumber)
            or place == 1
            and takes_constant
            and isinstance(value, NumberTensor)
            and value.constant
        )

    given = [
        each.tensor() if isinstance(each, NumberTensor) and not is_wrapped(place, each) else each
        for place, each in enumerate(inputs)
    ]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    wrapped = [each for each in given if isinstance(each, (NumberTensor, DataNumber))]
    if not wrapped:
        return given
    if not is_pointwise(operator):
        wide = (
            torch.float64
            if any(each.dtype == torch.float64 for each in tensors)
            else torch.get_default_dtype()
        )
        return [each.argument(wide) if isinstance(each, DataNumber) else each for each in given]
    # The condition of `where` does not affect the type.
    operands = tensors[1:] if name == "where" and isinstance(given[0], torch.Tensor) else tensors
    common = _type_of_all(operands, [_kind(each) for each in wrapped])
    return [
        _typed(each, common) if isinstance(each, (NumberTensor, DataNumber)) else each
        for each in given
    ]


def _typed(number, common):
    """A wrapped number as a tensor of a type that does not change the common type."""
    kind = _kind(number)
    dtype = (
        common
        if category(common) == kind
        else common.to_real()
        if kind == 2 and common.is_complex
        else _default(kind)
    )
    return number.tensor(dtype) if isinstance(number, NumberTensor) else number.tensor.to(dtype)


# --- operators of such numbers alone --------------------------------------------------------------

_OF_SIZES = {
    "add": lambda a, b, alpha=1: a + b * alpha,
    "sub": lambda a, b, alpha=1: a - b * alpha,
    "mul": lambda a, b: a * b,
    "rsub": lambda a, b, alpha=1: b - a * alpha,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "neg": lambda a: -a,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "floor": lambda a: _floored(a),
    "ceil": lambda a: -_floored(-a),
    "trunc": lambda a: _whole(a),
    "div": lambda a, b, *rounding: (
        a // b if rounding and rounding[0] in ("floor", "trunc") else a / b
    ),
    **dict.fromkeys(_OF_ONE, lambda value, *_: value),
}


def _floored(value):
    return value if isinstance(value, torch.SymInt) else value // 1


def _whole(value):
    return torch.sym_int(value) if isinstance(value, torch.SymFloat) else value


def computed(operator, inputs):
    """The result of an operator whose operands are all numbers, as a NumberTensor; None where that
    is not the case."""
    name = operator._schema.name.partition("::")[2]
    if (
        operator._schema.is_mutable
        or not (is_pointwise(operator) or name in _OF_ONE)
        or len(operator._schema.returns) != 1
    ):
        return None
    values = [each.value if isinstance(each, NumberTensor) else each for each in inputs]
    of_sizes = any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in values)
    if of_sizes and name not in _OF_SIZES:
        return None
    # For sizes that are not known, any stand-in number gives the type of the result.
    result = _really(operator, [_stand_in(each) for each in inputs] if of_sizes else inputs)
    if not isinstance(result, torch.Tensor) or result.dim():
        return None
    if name == "to" and isinstance(inputs[0], NumberTensor) and result.dtype == inputs[0].dtype:
        return inputs[0]
    if not of_sizes:
        return NumberTensor(result.item(), result.dtype)
    value = _OF_SIZES[name](*values)
    if category(result.dtype) == 1:
        value = _whole(value)
    elif category(result.dtype) == 2 and isinstance(value, torch.SymInt):
        value = torch.sym_float(value)
    return NumberTensor(value, result.dtype)


def _stand_in(value):
    if isinstance(value, NumberTensor):
        return NumberTensor(_stand_in(value.value), value.dtype, value.constant)
    return (
        1
        if isinstance(value, torch.SymInt)
        else 1.0
        if isinstance(value, torch.SymFloat)
        else value
    )


def _really(operator, inputs):
    """Runs the operator outside of any tracing."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return applied(operator, as_operands(operator, inputs))


def applied(operator, inputs):
    """An operator called with all its arguments in the order of its schema."""
    arguments = operator._schema.arguments
    positional = [value for argument, value in zip(arguments, inputs) if not argument.kwarg_only]
    return operator(
        *positional,
        **{
            argument.name: value
            for argument, value in zip(arguments, inputs)
            if argument.kwarg_only
        },
    )
