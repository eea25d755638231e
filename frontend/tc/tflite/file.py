"""Reads a file of TensorFlow Lite: everything in it that the importer needs, checked, as plain
Python values.

The format is a flatbuffer: tables that refer to each other by offsets. The package `tflite` follows
the offsets; it checks none. Exceptions for offsets that lead outside of the file, and numbers
larger than the file, become errors of one sentence here. After `open_file` nothing follows offsets
in the file any more.
"""

import dataclasses
import math
import struct

import numpy as np
import tflite

from ..errors import ModelError, UnsupportedError
from .flexible import options_of
from .sparse import Damaged, dense

MAGIC = b"TFL3"
_VERSION = 3
_MAX_RANK = 16
_LARGEST_SIZE = (1 << 31) - 1
_MAX_ELEMENTS = 1 << 40
# The most elements of all vectors together: a small file may refer to one vector many times.
_MAX_READ = 1 << 24

# The most bytes of all sparse tensors together, zeros included.
_MAX_FILLED = 1 << 31

# The exceptions that the package raises for wrong offsets and sizes.
_DAMAGED = (
    struct.error,
    ValueError,
    IndexError,
    TypeError,
    OverflowError,
    AttributeError,
    KeyError,
    AssertionError,
)

# Element types by their names in the format's schema, as the compiler and NumPy call them.
_TYPES = {
    "FLOAT32": ("f32", np.float32),
    "FLOAT16": ("f16", np.float16),
    "FLOAT64": ("f64", np.float64),
    "INT8": ("i8", np.int8),
    "INT16": ("i16", np.int16),
    "INT32": ("i32", np.int32),
    "INT64": ("i64", np.int64),
    "UINT8": ("u8", np.uint8),
    "UINT16": ("u16", np.uint16),
    "UINT32": ("u32", np.uint32),
    "UINT64": ("u64", np.uint64),
    "BOOL": ("bool", np.bool_),
    "INT4": ("i4", np.int8),
}


def _names_of(enumeration):
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


_TYPE_NAMES = _names_of(tflite.TensorType)
_OPERATOR_NAMES = _names_of(tflite.BuiltinOperator)
_OPTION_NAMES = _names_of(tflite.BuiltinOptions)
_OPTION_NAMES_2 = _names_of(tflite.BuiltinOptions2)


@dataclasses.dataclass
class Quantisation:
    """real = scale * (integer - zero point); vectors have an element for each index of `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int


@dataclasses.dataclass
class Tensor:
    name: str
    type_name: str  # the schema's name: "FLOAT32"
    shape: tuple
    data: np.ndarray | None  # the data of a constant, else None
    quantisation: Quantisation | None
    is_variable: bool

    @property
    def dtype(self):
        """The compiler's name of the element type; None where the compiler lacks the type."""
        return _TYPES.get(self.type_name, (None,))[0]


@dataclasses.dataclass
class Operator:
    number: int
    name: str  # "CONV_2D"; of custom operators "CUSTOM Name"
    version: int
    inputs: list  # numbers of tensors; -1: left out
    outputs: list
    options: dict  # {field in the schema, or of a custom operator: number, or list of numbers}
    options_name: str  # "Conv2DOptions"
    intermediates: (
        list  # numbers of tensors that say how values between the operator's parts are quantised
    )


@dataclasses.dataclass
class Subgraph:
    name: str
    tensors: list
    operators: list
    inputs: list
    outputs: list


@dataclasses.dataclass
class File:
    name: str
    subgraphs: list


def is_tflite(head):
    """Whether a file that begins with these bytes is of this format."""
    return bytes(head[4:8]) == MAGIC


def open_file(data, name):
    """The File of these bytes; a ModelError for whatever is wrong with them."""
    if not is_tflite(data[:8]):
        raise ModelError(
            f"'{name}' is no file of TensorFlow Lite: its bytes 4 to 7 are {bytes(data[4:8])!r}, and {MAGIC!r} is expected"
        )
    try:
        return _Reader(data, name).file()
    except _DAMAGED as error:
        raise ModelError(
            f"'{name}' is a damaged file of TensorFlow Lite: an offset or a size in it leads outside of its {len(data)} bytes "
            f"({type(error).__name__})"
        ) from None


class _Reader:
    def __init__(self, data, name):
        self.data, self.name, self.read = bytes(data), name, 0
        self.filled = 0  # bytes of sparse tensors so far, zeros included

    def damaged(self, what):
        return ModelError(f"'{self.name}' is a damaged file of TensorFlow Lite: {what}")

    def count(self, length, size, what):
        """Checks that a vector fits in the file and in _MAX_READ; returns its length."""
        if length * size > len(self.data):
            raise self.damaged(
                f"{what} has {length} entries, more than its {len(self.data)} bytes can hold"
            )
        self.read += length
        if self.read > _MAX_READ:
            raise self.damaged(f"it refers to more than {_MAX_READ} entries of lists")
        return length

    def numbers(self, table, field, size, what):
        """The vector in a field of a table as a list of numbers; empty where it is left out."""
        self.count(getattr(table, field + "Length")(), size, what)
        found = getattr(table, field + "AsNumpy")()
        return found.tolist() if isinstance(found, np.ndarray) else []

    def text(self, value):
        if value is None:
            return ""
        self.count(len(value), 1, "a name")
        return "".join(
            each if each.isprintable() else "\ufffd" for each in value.decode("utf-8", "replace")
        )

    # --- tables -----------------------------------------------------------------------------------

    def file(self):
        model = tflite.Model.GetRootAs(self.data, 0)
        if model.Version() != _VERSION:
            raise self.damaged(f"its version is {model.Version()}, and {_VERSION} is read")
        buffers = [
            self.buffer(model.Buffers(i), i)
            for i in range(self.count(model.BuffersLength(), 4, "the list of buffers"))
        ]
        codes = [
            self.code(model.OperatorCodes(i))
            for i in range(self.count(model.OperatorCodesLength(), 4, "the list of operator codes"))
        ]
        count = self.count(model.SubgraphsLength(), 4, "the list of subgraphs")
        if count == 0:
            raise self.damaged("it has no graph")
        return File(
            self.name, [self.subgraph(model.Subgraphs(i), buffers, codes) for i in range(count)]
        )

    def buffer(self, table, number):
        """A view of the bytes of a buffer; empty where there are none."""
        begin, size = table.Offset(), table.Size()
        if begin > 1:  # outside of the flatbuffer, as in files over 2 GB
            if begin + size > len(self.data):
                raise self.damaged(
                    f"buffer {number} is at byte {begin} with {size} bytes, and the file has {len(self.data)}"
                )
            return memoryview(self.data)[begin : begin + size]
        length = table.DataLength()
        if length > len(self.data):
            raise self.damaged(
                f"buffer {number} has {length} bytes, and the file has {len(self.data)}"
            )
        found = table.DataAsNumpy() if length else 0
        return memoryview(found) if isinstance(found, np.ndarray) else memoryview(b"")

    def code(self, table):
        number = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        name = _OPERATOR_NAMES.get(number, f"operator {number}")
        if name == "CUSTOM":
            name = f"CUSTOM {self.text(table.CustomCode())}"
        return name, table.Version()

    def subgraph(self, table, buffers, codes):
        tensors = [
            self.tensor(table.Tensors(i), i, buffers)
            for i in range(self.count(table.TensorsLength(), 4, "the list of tensors"))
        ]

        def known(numbers, what, least=0):
            for number in numbers:
                if not least <= number < len(tensors):
                    raise self.damaged(
                        f"{what} refers to tensor {number}, and the graph has {len(tensors)}"
                    )
            return numbers

        operators = [
            self.operator(table.Operators(i), i, codes, known)
            for i in range(self.count(table.OperatorsLength(), 4, "the list of operators"))
        ]
        return Subgraph(
            self.text(table.Name()),
            tensors,
            operators,
            known(self.numbers(table, "Inputs", 4, "the list of inputs"), "an input"),
            known(self.numbers(table, "Outputs", 4, "the list of outputs"), "an output"),
        )

    def tensor(self, table, number, buffers):
        name = self.text(table.Name()) or f"tensor_{number}"
        shape = tuple(self.numbers(table, "Shape", 4, f"the shape of tensor '{name}'"))
        if len(shape) > _MAX_RANK:
            raise self.damaged(
                f"tensor '{name}' has {len(shape)} axes; at most {_MAX_RANK} are read"
            )
        if (
            any(not 0 <= size <= _LARGEST_SIZE for size in shape)
            or math.prod(shape) > _MAX_ELEMENTS
        ):
            raise self.damaged(
                f"tensor '{name}' has the shape {list(shape)}; sizes are 0 to {_LARGEST_SIZE}, and a tensor has at most "
                f"{_MAX_ELEMENTS} elements"
            )
        type_name = _TYPE_NAMES.get(table.Type(), f"type {table.Type()}")
        if table.Buffer() >= max(len(buffers), 1):
            raise self.damaged(
                f"tensor '{name}' is in buffer {table.Buffer()}, and the file has {len(buffers)}"
            )
        content = buffers[table.Buffer()] if buffers else memoryview(b"")
        data = None
        if table.Sparsity() is not None:
            data = self.filled_up(name, type_name, shape, content, table.Sparsity())
        elif len(content) and type_name in _TYPES:
            data = self.content(name, type_name, shape, content)
        if data is None and 0 in shape and type_name in _TYPES and table.Buffer():
            data = np.zeros(shape, _TYPES[type_name][1])
        return Tensor(
            name,
            type_name,
            shape,
            data,
            self.quantisation(table, name, shape),
            bool(table.IsVariable()),
        )

    def content(self, name, type_name, shape, content):
        dtype, count = _TYPES[type_name][1], math.prod(shape)
        expected = (count + 1) // 2 if type_name == "INT4" else count * np.dtype(dtype).itemsize
        if len(content) != expected:
            raise self.damaged(
                f"tensor '{name}' has {len(content)} bytes, and its shape {list(shape)} of {type_name} needs {expected}"
            )
        if type_name == "INT4":  # two signed numbers per byte, the lower bits first
            packed = np.frombuffer(content, np.int8)
            return np.stack([(packed << 4) >> 4, packed >> 4], 1).reshape(-1)[:count].reshape(shape)
        if type_name == "BOOL":
            return (np.frombuffer(content, np.uint8) != 0).reshape(shape)
        return np.frombuffer(content, dtype).reshape(shape)

    def filled_up(self, name, type_name, shape, content, table):
        """The elements of a sparse constant, with zeros filled in."""
        kind = _TYPES.get(type_name, ("i4", None))
        if kind[0] == "i4":
            raise UnsupportedError(
                f"{self.name}: tensor '{name}' is sparse with elements of the type {type_name}, which is not supported"
            )
        if len(content) % np.dtype(kind[1]).itemsize:
            raise self.damaged(
                f"tensor '{name}' has {len(content)} bytes, which are no whole elements of {type_name}"
            )
        self.filled += math.prod(shape) * np.dtype(kind[1]).itemsize
        if self.filled > _MAX_FILLED:
            raise UnsupportedError(
                f"{self.name}: its sparse tensors have {self.filled} bytes with their zeros; at most {_MAX_FILLED} are supported"
            )
        for field in ("TraversalOrder", "BlockMap", "DimMetadata"):
            self.count(getattr(table, field + "Length")(), 4, f"the sparsity of tensor '{name}'")
        try:
            return dense(table, shape, np.frombuffer(content, kind[1]))
        except Damaged as error:
            raise self.damaged(f"tensor '{name}' is sparse: {error}") from None

    def quantisation(self, table, name, shape):
        found = table.Quantization()
        if found is None:
            return None
        scale = self.numbers(found, "Scale", 4, f"the scales of tensor '{name}'")
        zero = self.numbers(found, "ZeroPoint", 8, f"the zero points of tensor '{name}'")
        if not scale:
            return None
        axis = found.QuantizedDimension()
        if len(zero) not in (0, 1, len(scale)):
            raise self.damaged(
                f"tensor '{name}' has {len(scale)} scales and {len(zero)} zero points"
            )
        if len(scale) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scale)):
            raise self.damaged(
                f"tensor '{name}' of shape {list(shape)} has {len(scale)} scales for axis {axis}"
            )
        if not all(math.isfinite(each) and each > 0 for each in scale):
            bad = next(each for each in scale if not (math.isfinite(each) and each > 0))
            raise self.damaged(
                f"tensor '{name}' has the scale {bad}; a scale is a finite number over 0"
            )
        if not all(-(1 << 31) <= each < 1 << 31 for each in zero):
            raise self.damaged(f"tensor '{name}' has a zero point that is no number of 32 bits")
        zeros = np.broadcast_to(np.array(zero or [0], np.int64), (len(scale),))
        return Quantisation(np.array(scale, np.float32), zeros, int(axis))

    def operator(self, table, number, codes, known):
        if table.OpcodeIndex() >= len(codes):
            raise self.damaged(
                f"operator {number} has the code {table.OpcodeIndex()}, and the file has {len(codes)}"
            )
        name, version = codes[table.OpcodeIndex()]
        what = f"operator {number} ({name})"
        inputs = known(self.numbers(table, "Inputs", 4, f"the inputs of {what}"), what, least=-1)
        outputs = known(self.numbers(table, "Outputs", 4, f"the outputs of {what}"), what)
        options_name, options = self.options(table, what)
        if name.startswith("CUSTOM"):
            bytes_of = self.numbers(table, "CustomOptions", 1, f"the options of {what}")
            options = options_of(bytes(bytes_of))
        intermediates = known(
            self.numbers(table, "Intermediates", 4, f"the intermediates of {what}"), what
        )
        return Operator(
            number, name, version, inputs, outputs, options, options_name, intermediates
        )

    def options(self, table, what):
        """(name, {field: value}) of the table of options; ("", {}) where an operator has none."""
        name, union = _OPTION_NAMES.get(table.BuiltinOptionsType(), ""), table.BuiltinOptions()
        if table.BuiltinOptions2Type():
            name, union = (
                _OPTION_NAMES_2.get(table.BuiltinOptions2Type(), ""),
                table.BuiltinOptions2(),
            )
        kind = getattr(tflite, name, None) if name != "NONE" else None
        if kind is None or union is None:
            return "", {}
        options, fields = kind(), {}
        options.Init(union.Bytes, union.Pos)
        for field, method in vars(kind).items():
            if (
                field in ("Init",)
                or not field[0].isupper()
                or field.startswith("GetRootAs")
                or field.endswith(("Length", "IsNone", "BufferHasIdentifier"))
            ):
                continue
            if field.endswith("AsNumpy"):
                stem = field.removesuffix("AsNumpy")
                fields[stem] = self.numbers(options, stem, 1, f"'{stem}' of {what}")
            elif not hasattr(kind, field + "Length") and callable(method):
                value = method(options)
                if isinstance(value, (bool, int, float)):
                    fields[field] = value
                elif isinstance(value, bytes):
                    fields[field] = self.text(value)
        return name, fields
