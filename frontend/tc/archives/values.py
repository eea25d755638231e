"""Arguments, results and state of a model as JSON: numbers, text and structures of them, tensors by
type and shape. This module does not import PyTorch; callers that have its values do."""

import collections
import keyword
import sys

import numpy as np

from ..errors import ModelError, ShapeError

_MAX_DEPTH = 40
_MAX_FIELDS = 64


def written(value, tensor):
    """The value in the form of JSON; `tensor` writes a tensor or an array."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    kind = type(value).__name__
    if _is_array(value):
        return {"tensor": tensor(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, tuple):
        row = [written(each, tensor) for each in value]
        return (
            {"named": [kind, list(value._fields), row]}
            if hasattr(value, "_fields")
            else {"tuple": row}
        )
    if isinstance(value, list):
        return {"list": [written(each, tensor) for each in value]}
    if isinstance(value, dict):
        name = "ordered" if isinstance(value, collections.OrderedDict) else "dict"
        return {
            name: [[written(key, tensor), written(each, tensor)] for key, each in value.items()]
        }
    if type(value).__module__ == "torch" and kind in ("dtype", "device", "layout", "memory_format"):
        return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, np.generic):
        return written(value.item(), tensor)
    raise ShapeError(
        f"a {kind} cannot be given to a model of an archive: tensors, numbers, text, and tuples, lists and dictionaries of them can"
    )


def read(value, tensor, depth=0):
    """The value from what written() made; `tensor` makes a tensor. The writer is not trusted."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if depth > _MAX_DEPTH or type(value) is not dict or len(value) != 1:
        raise ModelError("the description of a value cannot be read")
    ((kind, what),) = value.items()
    if kind == "tensor":
        return tensor(what)
    if kind == "complex":
        return complex(*map(float, what))
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(read(each, tensor, depth + 1) for each in what)
    if kind in ("dict", "ordered"):
        made = (dict if kind == "dict" else collections.OrderedDict)()
        for key, each in what:
            made[read(key, tensor, depth + 1)] = read(each, tensor, depth + 1)
        return made
    if kind == "named":
        name, fields, row = what
        return _named(name, fields)(*(read(each, tensor, depth + 1) for each in row))
    return _of_torch(kind, what)


def _is_array(value):
    torch = sys.modules.get("torch")
    return isinstance(value, np.ndarray) or torch is not None and isinstance(value, torch.Tensor)


def _named(name, fields):
    known = all(
        type(each) is str and each.isascii() and each.isidentifier() and not keyword.iskeyword(each)
        for each in (name, *fields)
    )
    if not known or len(fields) > _MAX_FIELDS or any(len(each) > 200 for each in (name, *fields)):
        raise ModelError("the description of a named tuple cannot be read")
    return collections.namedtuple(name, fields)


def _of_torch(kind, text):
    import torch

    if kind == "device" and text == "cpu":
        return torch.device("cpu")
    known = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}
    value = getattr(torch, text, None) if type(text) is str else None
    if kind not in known or not isinstance(value, known[kind]):
        raise ModelError("the description of a value cannot be read")
    return value
