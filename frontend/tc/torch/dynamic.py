"""Sizes that stay open: what `shapes=` says of a model of PyTorch."""

import inspect

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..errors import ShapeError


class OpenSizes:
    """The sizes that `shapes` gives. A name in an input's shape is a symbol ("batch" in {"x":
    ("batch", 3, 224, 224)}). -1 and None leave a size open without a name: its symbol is named
    after input and axis (x_0). {"batch": (1, 64)} gives a symbol's range."""

    def __init__(self, shapes, names):
        shapes = dict(shapes or {})
        self.inputs = {
            key: _sizes(key, value)
            for key, value in shapes.items()
            if key in names and not isinstance(value, (int, np.integer))
        }
        self.ranges, self.rest = {}, {}
        symbols = {
            size for sizes in self.inputs.values() for size in sizes if isinstance(size, str)
        }
        for key, value in shapes.items():
            if key in self.inputs:
                continue
            if key in symbols and not isinstance(value, (int, np.integer)):
                low, high = (int(each) for each in value)
                if not 0 <= low <= high:
                    raise ShapeError(
                        f"shapes: the range of '{key}' is {value!r}; give the smallest and the largest size"
                    )
                self.ranges[key] = (low, high)
                if not low:
                    # In the compiler sizes are at least 1 unless a range says 0.
                    self.rest[key] = (low, high)
            elif key in symbols:
                self.inputs = {
                    name: tuple(int(value) if size == key else size for size in sizes)
                    for name, sizes in self.inputs.items()
                }
            elif isinstance(value, (int, np.integer)):
                self.rest[key] = int(value)  # a symbol of the model itself
            else:
                raise ShapeError(
                    f"shapes: '{key}' is no input of the model and no symbol of a shape; the inputs are {', '.join(names)}"
                )

    def of_tensor(self, name, tensor):
        """(the example tensor with the given sizes, {axis: symbol} for its open sizes)."""
        sizes = self.inputs.get(name)
        if sizes is None:
            return tensor, {}
        if len(sizes) != tensor.dim():
            raise ShapeError(
                f"shapes: '{name}' has {len(sizes)} sizes, and its example has the shape {list(tensor.shape)}"
            )
        symbols = {}
        for axis, size in enumerate(sizes):
            if isinstance(size, str):
                symbols[axis] = size
                # torch.export would make an example's size of 0 or 1 a constant.
                if tensor.shape[axis] < 2:
                    tensor = (
                        torch.cat([tensor, tensor, tensor], axis) if tensor.shape[axis] else tensor
                    )
            elif tensor.shape[axis] != size:
                raise ShapeError(
                    f"shapes: '{name}' has the size {size} on axis {axis}, and its example has {tensor.shape[axis]}"
                )
        return tensor, symbols

    def dimension(self, symbol):
        return torch.export.Dim(
            symbol,
            min=self.ranges.get(symbol, (0, None))[0],
            max=self.ranges.get(symbol, (0, None))[1],
        )


def _sizes(name, value):
    """The sizes that the user gave for an input, checked: numbers, and names of open sizes."""
    sizes = []
    for axis, size in enumerate(value if isinstance(value, (tuple, list)) else [value]):
        if (
            not isinstance(size, (str, int, np.integer, type(None)))
            or isinstance(size, bool)
            or isinstance(size, (int, np.integer))
            and size < -1
        ):
            raise ShapeError(
                f"shapes: '{name}' has the size {size!r} on axis {axis}; give a number, a name of an open size, or None for one without a name"
            )
        sizes.append(
            f"{name}_{axis}"
            if size is None or not isinstance(size, str) and size == -1
            else size
            if isinstance(size, str)
            else int(size)
        )
    return tuple(sizes)


def names_of_leaves(forward, args, kwargs):
    """A name for each leaf of a call's arguments: the name of its parameter, with the path into
    it."""
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        bound = None
    if bound is None:
        names = [f"input_{number}" for number in range(len(args))]
    else:
        variable = next(
            (p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_POSITIONAL),
            None,
        )
        positional = [
            p.name
            for p in bound.signature.parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        names = [
            positional[place]
            if place < len(positional)
            else f"{variable}_{place - len(positional)}"
            for place in range(len(args))
        ]
    found = []
    for name, value in [*zip(names, args), *kwargs.items()]:
        for path, _ in pytree.tree_flatten_with_path(value)[0]:
            found.append("_".join([name, *(_key(key) for key in path)]))
    return [
        name if found.count(name) == 1 else f"{name}.{number}" for number, name in enumerate(found)
    ]


def _key(key):
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return "".join(c if c.isalnum() else "_" for c in str(getattr(key, attribute)))
    return "item"
