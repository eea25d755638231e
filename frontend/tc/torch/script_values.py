"""Values of TorchScript other than tensors (numbers, lists, dictionaries, strings) and operators on
them."""

import math
import operator

import torch

from .script_numbers import DataNumber, NumberTensor


class ScriptError(Exception):
    """The model raises an exception, or uses something that this interpreter of TorchScript
    lacks."""


def is_tensor(value):
    return isinstance(value, (torch.Tensor, NumberTensor, DataNumber))


def _format(text, *values):
    parts = text.split("{}")
    return "".join(part + str(value) for part, value in zip(parts, [*values, ""]))


def _slice(values, start, end, step=1):
    return values[slice(start, end, step)]


def _power(base, exponent):
    """Like Python's power, but without computing huge integers: TorchScript's result is a float."""
    whole = type(base) is int and type(exponent) is int and exponent > 0
    if not whole or base.bit_length() * exponent < 1024:
        return base**exponent
    try:
        return float(base) ** exponent
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 else math.inf


def _shifted(value, places):
    if type(places) is int and not 0 <= places < 64:
        raise ScriptError(f"a number is shifted by {places} places, which is not 0 to 63")
    return value << places


def _insert(values, place, value):
    values.insert(place, value)


def _set_item(values, key, value):
    values[key] = value


def _delete(values, key):
    del values[key]


def _extend(values, more):
    values.extend(more)


def _repeat(values, times):
    values *= times
    return values


def _add_to(values, more):
    values += more
    return values


def _append(values, value):
    values.append(value)
    return values


def _int(value, base=10):
    return int(value, base) if isinstance(value, str) else _whole(value)


def _whole(value):
    return (
        value
        if isinstance(value, torch.SymInt)
        else torch.sym_int(value)
        if isinstance(value, torch.SymFloat)
        else int(value)
    )


def _float(value):
    return (
        torch.sym_float(value)
        if isinstance(value, torch.SymInt)
        else value
        if isinstance(value, torch.SymFloat)
        else float(value)
    )


def _pop(values, place=-1, *fallback):
    return values.pop(place, *fallback)


def _pick(choose):
    def choice(a, b=None):
        return choose(a) if b is None else choose(a, b)

    return choice


# Operators on numbers, truth values, strings, lists and dictionaries, by name without the overload.
OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "fmod": math.fmod,
    "pow": _power,
    "neg": operator.neg,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__not__": operator.not_,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__contains__": operator.contains,
    "__getitem__": operator.getitem,
    "__lshift__": _shifted,
    "__rshift__": operator.rshift,
    "__derive_index": lambda index, start, step: start + index * step,
    "__range_length": lambda low, high, step: len(range(low, high, step)),
    "len": len,
    "abs": abs,
    "Int": _int,
    "Float": _float,
    "Bool": bool,
    "str": str,
    "format": _format,
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "clear": lambda values: values.clear(),
    "reverse": lambda values: values.reverse(),
    "copy": lambda values: values.copy(),
    "_set_item": _set_item,
    "Delete": _delete,
    "keys": lambda values: list(values.keys()),
    "values": lambda values: list(values.values()),
    "items": lambda values: list(values.items()),
    "get": lambda values, key, fallback=None: values.get(key, fallback),
    "update": lambda values, more: values.update(more),
    "setdefault": lambda values, key, fallback: values.setdefault(key, fallback),
    "slice": _slice,
    "list": list,
    "dict": dict,
    "index": lambda values, each: values.index(each),
    "count": lambda values, each: values.count(each),
    "remove": lambda values, each: values.remove(each),
    "sort": lambda values, reverse=False: values.sort(reverse=reverse),
    "sorted": sorted,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "atan": math.atan,
    "atan2": math.atan2,
    "fabs": math.fabs,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "degrees": math.degrees,
    "radians": math.radians,
    "gcd": math.gcd,
    "lower": str.lower,
    "upper": str.upper,
    "split": str.split,
    "strip": str.strip,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "join": str.join,
    "replace": str.replace,
    "find": str.find,
    "numel": math.prod,
    "ord": ord,
    "chr": chr,
    "__upcast": lambda value: value,
    "add_": _add_to,
    "mul_": _repeat,
    "sum": sum,
    "any": any,
    "all": all,
    "rstrip": str.rstrip,
    "lstrip": str.lstrip,
}
_OF_DATA = (
    "add",
    "sub",
    "mul",
    "div",
    "floordiv",
    "remainder",
    "neg",
    "abs",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "__and__",
    "__or__",
    "__xor__",
    "__not__",
)


def is_of_data(name, inputs):
    """Whether an operator works on numbers, some of which are read from data."""
    return (
        name in _OF_DATA
        and any(isinstance(each, DataNumber) for each in inputs)
        and all(isinstance(each, (DataNumber, bool, int, float)) for each in inputs)
    )


def compute_of_data(name, inputs):
    """The result of such an operator, computed with the width of Python's numbers."""
    numbers = [each.tensor if isinstance(each, DataNumber) else each for each in inputs]
    if name == "div" or any(
        isinstance(each, float) or (isinstance(each, torch.Tensor) and each.is_floating_point())
        for each in numbers
    ):
        numbers = [
            each.to(torch.float64) if isinstance(each, torch.Tensor) else each for each in numbers
        ]
    result = torch.logical_not(*numbers) if name == "__not__" else OPERATORS[name](*numbers)
    return DataNumber(
        result,
        "Bool"
        if result.dtype == torch.bool
        else "Float"
        if result.dtype.is_floating_point
        else "Int",
    )


# prim:: operators on such values.
PRIM_OPERATORS = {
    "min": _pick(min),
    "max": _pick(max),
    "abs": abs,
    "unchecked_cast": lambda value: value,
    "unchecked_unwrap_optional": lambda value: value,
    "Uninitialized": lambda: None,
    "TupleConstruct": lambda *values: tuple(values),
    "ListConstruct": lambda *values: list(values),
    "TupleIndex": lambda values, index: values[index],
    "DictConstruct": lambda *values: dict(zip(values[::2], values[1::2])),
    "Print": lambda *values: None,
    "RangeLength": lambda low, high, step: len(range(low, high, step)),
}
