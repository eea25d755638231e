"""Reads the structure of a GGUF file: its fields and the positions of its tensors, checked before
anything uses them.

A file begins with a magic, a version and the numbers of tensors and of fields. The fields follow,
each a key, a type and a value, and then a name, sizes, a type and an offset for each tensor; the
tensors' bytes come after them, in the same file. Every length in it may be wrong. The reader of the
package `gguf` does not check lengths and makes an array for each element of a list, so this file
reads the structure itself and takes only the meaning of type numbers from the package.
"""

import dataclasses
import math
import mmap
import os
import struct
import typing

import numpy as np

from ..errors import ModelError, UnsupportedError
from ..foreign_models import refuse_file
from ..given_files import open_regular
from .constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
from .experts import joined_experts
from .texts import Texts

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_LARGEST_ALIGNMENT = 1 << 20
_LONGEST_KEY = (1 << 16) - 1  # by the format's definition
_LONGEST_TENSOR_NAME = 64  # likewise, in bytes
_MAX_AXES = 4
_LARGEST_SIZE = (1 << 40) - 1
_MIN_FIELD = 8 + 4 + 1  # bytes: a key's length, a type, the smallest value
_MIN_TENSOR = 8 + 4 + 4 + 8  # a name's length, the number of axes, a type, an offset

# NumPy's types of the fields' types.
_NUMBERS = {
    GGUFValueType.UINT8: np.uint8,
    GGUFValueType.INT8: np.int8,
    GGUFValueType.UINT16: np.uint16,
    GGUFValueType.INT16: np.int16,
    GGUFValueType.UINT32: np.uint32,
    GGUFValueType.INT32: np.int32,
    GGUFValueType.FLOAT32: np.float32,
    GGUFValueType.BOOL: np.uint8,
    GGUFValueType.UINT64: np.uint64,
    GGUFValueType.INT64: np.int64,
    GGUFValueType.FLOAT64: np.float64,
}


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    type_name: str  # the format's name: "Q4_0"
    shape: tuple  # in NumPy's order: the axis whose elements are contiguous is the last
    offset: int  # position of its first byte in the file
    size: int  # in bytes
    parts: tuple = ()  # the tensors that it is made of, where the file has them apart


@dataclasses.dataclass(frozen=True)
class File:
    kind: typing.ClassVar[str] = "GGUF file"

    name: str
    fields: dict  # {key: number, text, bool, array of numbers or Texts}
    tensors: dict  # {name: Tensor}
    data: memoryview  # the whole file, mapped
    # The row of the architecture, where the field `general.architecture` does not decide it.
    row: typing.Any = None

    def bytes_of(self, tensor):
        """The bytes of a tensor: a read-only view of the mapped file, or a copy of its parts."""
        if tensor.parts:
            return np.concatenate([self.bytes_of(part) for part in tensor.parts])
        return np.frombuffer(self.data, np.uint8, tensor.size, tensor.offset)

    def release(self):
        """Gives the system back the memory in which pages of the file lie. They are read again
        where they are used again."""
        if isinstance(self.data.obj, mmap.mmap):
            self.data.obj.madvise(mmap.MADV_DONTNEED)


def is_gguf(head):
    """Whether a file that begins with these bytes is of this format."""
    return bytes(head[:4]) == MAGIC


def open_file(model):
    """The File for a path, which is mapped, or for bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _Reader(memoryview(model).cast("B"), "model.gguf").file()
    refuse_file(model)
    path = os.fspath(model)
    shown = os.fsdecode(path)
    if os.path.isdir(path):
        raise ModelError(f"'{shown}' is a folder, not a model's file")
    try:
        with open_regular(path) as file:
            is_empty = os.fstat(file.fileno()).st_size == 0
            mapped = b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ModelError as error:
        raise ModelError(f"'{shown}' cannot be read: {error}") from None
    except OSError as error:
        raise ModelError(f"'{shown}' cannot be read: {error.strerror}") from None
    return _Reader(memoryview(mapped), os.path.basename(shown)).file()


class _Reader:
    """Reads a file from front to back; `at` is the current position."""

    def __init__(self, data, name):
        self.data, self.name, self.at = data, name, 0

    def damaged(self, what):
        return ModelError(
            f"'{self.name}' is a damaged GGUF file: {what}; fetch or convert it again"
        )

    # --- bytes -----------------------------------------------------------------------------------

    def take(self, count, what):
        """Advances by `count` bytes, which have to be in the file, and returns where they begin."""
        left = len(self.data) - self.at
        if count > left:
            raise self.damaged(
                f"{what} at byte {self.at} needs {count} bytes, and the file has {left} more"
            )
        begin, self.at = self.at, self.at + count
        return begin

    def number(self, form, what):
        begin = self.take(struct.calcsize("<" + form), what)
        return struct.unpack_from("<" + form, self.data, begin)[0]

    def span(self, what, longest=None):
        """Advances over a text and returns the position of its first byte."""
        length = self.number("Q", f"the length of {what}")
        if longest is not None and length > longest:
            raise self.damaged(
                f"{what} at byte {self.at - 8} has {length} bytes; at most {longest} are possible"
            )
        return self.take(length, what)

    def text(self, what, longest=None, strict=True):
        begin = self.span(what, longest)
        try:
            return str(self.data[begin : self.at], "utf-8", "strict" if strict else "replace")
        except UnicodeDecodeError:
            raise self.damaged(f"{what} at byte {begin} is no UTF-8") from None

    def count(self, count, least, what):
        """Checks that `count` things of at least `least` bytes each fit in the rest of the file;
        returns the count."""
        left = len(self.data) - self.at
        if count > left // least:
            raise self.damaged(
                f"{what} is {count}, and the {left} bytes that follow hold at most {left // least}"
            )
        return count

    # --- the parts of a file ---------------------------------------------------------------------

    def file(self):
        if not is_gguf(self.data[:4]):
            raise ModelError(
                f"'{self.name}' is no GGUF file: its first bytes are {bytes(self.data[:4])!r}, and "
                f"{MAGIC!r} is expected; give a model's .gguf file"
            )
        self.at = 4
        version = self.number("I", "the version")
        if version not in _VERSIONS:
            if version and not version & 0xFFFF:
                raise UnsupportedError(
                    f"{self.name}: this GGUF file is written for big-endian machines; convert the "
                    "model for "
                    "little-endian ones"
                )
            raise UnsupportedError(
                f"{self.name}: GGUF files of version {version} are not supported, only "
                f"{' and '.join(map(str, _VERSIONS))}; convert the model again"
            )
        tensors = self.number("Q", "the number of tensors")
        fields = self.count(
            self.number("Q", "the number of fields"), _MIN_FIELD, "the number of fields"
        )
        found = {}
        for index in range(fields):
            key = self.text(f"the key of field {index}", _LONGEST_KEY)
            if key in found:
                raise self.damaged(f"the field '{key}' is there twice")
            found[key] = self.value(
                self.number("I", f"the type of field '{key}'"), f"field '{key}'"
            )
        parts = found.get("split.count", 1)
        if parts != 1:
            raise UnsupportedError(
                f"{self.name}: this is one part of a model in {parts} files; merge them with "
                "llama.cpp's "
                "`llama-gguf-split --merge`, and give that file"
            )
        return File(self.name, found, self.tensors(tensors, self.alignment(found)), self.data)

    def value(self, kind, what):
        if kind == GGUFValueType.STRING:
            return self.text(what, strict=False)
        if kind == GGUFValueType.ARRAY:
            return self.array(what)
        if kind not in _NUMBERS:
            raise self.damaged(f"{what} has the type {kind}, which no field has")
        value = self.numbers(kind, 1, what)[0]
        return bool(value) if kind == GGUFValueType.BOOL else value.item()

    def numbers(self, kind, count, what):
        dtype = np.dtype(_NUMBERS[kind]).newbyteorder("<")
        return np.frombuffer(self.data, dtype, count, self.take(count * dtype.itemsize, what))

    def array(self, what):
        kind = self.number("I", f"the type of the elements of {what}")
        count = self.number("Q", f"the length of {what}")
        if kind == GGUFValueType.STRING:
            texts = Texts(self.data)
            for index in range(self.count(count, 8, f"the length of {what}")):
                texts.add(self.span(f"element {index} of {what}"), self.at)
            return texts
        if kind not in _NUMBERS:
            raise self.damaged(
                f"the elements of {what} have the type {kind}; lists have numbers or texts"
            )
        self.count(count, np.dtype(_NUMBERS[kind]).itemsize, f"the length of {what}")
        return self.numbers(kind, count, what)

    def alignment(self, fields):
        found = fields.get("general.alignment", _DEFAULT_ALIGNMENT)
        if type(found) is not int or not 0 < found <= _LARGEST_ALIGNMENT or found & (found - 1):
            raise self.damaged(
                f"'general.alignment' is {found}; a power of two up to {_LARGEST_ALIGNMENT} is "
                f"possible"
            )
        return found

    def tensors(self, count, alignment):
        rows, names = [], set()
        for index in range(self.count(count, _MIN_TENSOR, "the number of tensors")):
            row = self.tensor(index)
            if row.name in names:
                raise self.damaged(f"the tensor '{row.name}' is there twice")
            if row.offset % alignment:
                raise self.damaged(
                    f"the tensor '{row.name}' is at offset {row.offset}, which is no multiple of "
                    "the file's "
                    f"alignment {alignment}"
                )
            names.add(row.name)
            rows.append(row)
        begin = -(-self.at // alignment) * alignment
        self.check_places(rows, begin)
        placed = {row.name: dataclasses.replace(row, offset=begin + row.offset) for row in rows}
        return joined_experts(placed, self.damaged)

    def tensor(self, index):
        """One row of the list of tensors; its offset counts from the beginning of the tensors'
        bytes."""
        name = self.text(f"the name of tensor {index}", _LONGEST_TENSOR_NAME)
        what = f"the tensor '{name}'"
        axes = self.number("I", f"the number of axes of {what}")
        if not 1 <= axes <= _MAX_AXES:
            raise self.damaged(f"{what} has {axes} axes; 1 to {_MAX_AXES} are possible")
        sizes = [self.number("Q", f"the sizes of {what}") for _ in range(axes)]
        if min(sizes) < 1 or math.prod(sizes) > _LARGEST_SIZE:
            raise self.damaged(
                f"{what} has the sizes {sizes}; a tensor has 1 to {_LARGEST_SIZE} elements"
            )
        kind = self.number("I", f"the type of {what}")
        try:
            kind = GGMLQuantizationType(kind)
        except ValueError:
            raise self.damaged(f"{what} has the type {kind}, which no tensor has") from None
        block, size = GGML_QUANT_SIZES[kind]
        if sizes[0] % block:
            raise self.damaged(
                f"{what} has rows of {sizes[0]} elements, which are no whole blocks of {block}, "
                f"as {kind.name} "
                "has them"
            )
        return Tensor(
            name,
            kind.name,
            tuple(sizes[::-1]),
            self.number("Q", f"the offset of {what}"),
            math.prod(sizes) // block * size,
        )

    def check_places(self, rows, begin):
        """Checks that every tensor is inside of the file and that none overlap."""
        end, last = 0, None
        for row in sorted(rows, key=lambda row: row.offset):
            if row.offset + row.size > len(self.data) - begin:
                raise self.damaged(
                    f"the tensor '{row.name}' of {row.size} bytes is at offset {row.offset} of the "
                    f"{max(0, len(self.data) - begin)} bytes of tensors; perhaps the file is cut "
                    f"short"
                )
            if row.offset < end:
                raise self.damaged(
                    f"the tensors '{last.name}' and '{row.name}' lie on each other, at offset "
                    f"{row.offset}"
                )
            end, last = row.offset + row.size, row
