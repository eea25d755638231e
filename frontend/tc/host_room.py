"""Bounds the memory of operators on strings: the size of each result is estimated before the
operator runs."""

import math
import os
import sys

import numpy as np

from .errors import UnsupportedError

# Bytes for results that follow from constants alone, which are computed while compiling.
OF_CONSTANTS = 128 << 20
# The most elements of one result; operators refuse more.
MAX_ELEMENTS = 1 << 28
_POINTER = 8
# Bytes of a string of one character, with the pointer to it.
_STRING = 64


def of_a_run(max_ram):
    """Bytes that a run may take: max_ram where it is given (not 0), else half of this machine's
    memory."""
    return max_ram or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


class Room:
    """A number of bytes that the results of operators may take together."""

    def __init__(self, most):
        self.most = self.left = most

    def fits(self, node, arrays):
        """Whether there is room for the node's results; if so, they are counted."""
        needed = _bytes_made(node, [each for each in arrays if each is not None])
        if needed > self.left:
            return False
        self.left -= needed
        return True

    def take(self, node, arrays):
        if not self.fits(node, arrays):
            raise UnsupportedError(
                f"{node.who} and those before it make strings and tables of more than {self.most} bytes; give shorter strings, or "
                "more memory by max_ram (default: half of this machine's memory)"
            )


def _bytes_made(node, arrays):
    estimate = _ESTIMATES.get(node.op_type)
    return (
        estimate(node, *arrays)
        if estimate and arrays and all(isinstance(each, np.ndarray) for each in arrays)
        else 0
    )


def _together(*arrays):
    """The number of elements of a broadcast result; 0 where the operator will refuse it."""
    try:
        count = math.prod(np.broadcast_shapes(*(each.shape for each in arrays)))
    except ValueError:
        return 0
    return count if count <= MAX_ELEMENTS else 0


def _of_texts(array):
    return sum(map(sys.getsizeof, array.flat)) if array.dtype == object else array.nbytes


def _joined(node, *arrays):
    count = _together(*arrays)
    return _POINTER * count + sum(
        _of_texts(each) * (count // each.size) for each in arrays if each.size
    )


def _split(node, x):
    delimiter, most = node.attributes.get("delimiter") or None, node.attributes.get("maxsplit", -1)
    counts = [len(text.split(delimiter, most)) for text in x.flat]
    made = max(counts, default=0) * x.size
    return _POINTER * made + _STRING * sum(counts) + _of_texts(x) if made <= MAX_ELEMENTS else 0


def _taken(node, x, places):
    axis = node.attributes.get("axis", 0) if node.op_type == "Gather" else -1
    sizes = x.shape or (1,)
    along = sizes[axis] if -len(sizes) <= axis < len(sizes) else 1
    return _POINTER * (x.size // along if along else 0) * places.size


def _of_each(node, x, *rest):
    return _STRING * x.size + _of_texts(x)


_ESTIMATES = {
    "StringConcat": _joined,
    "StringSplit": _split,
    "Gather": _taken,
    "ArrayFeatureExtractor": _taken,
    "Concat": lambda node, *arrays: _POINTER * sum(each.size for each in arrays),
    "Equal": lambda node, *arrays: _POINTER * _together(*arrays),
    "Where": lambda node, *arrays: _POINTER * _together(*arrays),
    "OneHotEncoder": lambda node, x: (
        _POINTER * x.size * (1 + len(node.attributes.get("cats_strings", ())))
    ),
    "Cast": _of_each,
    "LabelEncoder": _of_each,
    "StringNormalizer": _of_each,
    "ZipMap": _of_each,
}
