"""Reading files that users give, whoever wrote them: never waits for a pipe or device, and says in
a sentence what is wrong with a file."""

import ast
import io
import math
import os
import re
import stat

import numpy as np

from .errors import ModelError, printable
from .files import system_reason

_MAGIC = b"\x93NUMPY"
_MAX_OF_HEADER = 10_000  # NumPy's limit; the parser of headers has further bounds of its own
_MAX_OF_SIZE = (1 << 63) - 1


def open_regular(path):
    """Opens a regular file for reading bytes. Pipes and devices, which may never answer or never
    end, raise a ModelError, whose text leaves out the path."""
    try:
        file = open(path, "rb", opener=lambda each, flags: os.open(each, flags | os.O_NONBLOCK))
    except OSError as error:
        raise ModelError(system_reason(error)) from None
    except ValueError as error:  # the path is not valid
        raise ModelError(str(error)) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ModelError("it is no regular file; write what comes out of it to one, and give that")
    return file


def begin_of(path, count):
    """The first bytes of a regular file; none of anything else, since the function that reads it
    later says what is wrong."""
    try:
        with open_regular(path) as file:
            return file.read(count)
    except (ModelError, OSError):
        return b""


def _parsed_header(text):
    """(dtype, whether it is in Fortran order, shape) from the text of a header."""
    try:
        # Without the L of Python 2.
        header = ast.literal_eval(re.sub(r"(?<=\d)L\b", "", text.decode("latin1")))
        description, in_columns, shape = (
            header[key] for key in ("descr", "fortran_order", "shape")
        )
        dtype = np.lib.format.descr_to_dtype(description)
    except Exception:  # noqa: BLE001 - Python's parser and NumPy's types raise errors of many kinds
        raise ModelError("its header is damaged") from None
    if (
        len(header) != 3
        or type(in_columns) is not bool
        or type(shape) is not tuple
        or any(type(size) is not int for size in shape)
    ):
        raise ModelError("its header is damaged")
    if dtype.hasobject:
        raise ModelError(
            "it holds objects of Python, which would run code where they are read; save an array of numbers or of text"
        )
    if dtype.names is not None or dtype.shape:
        raise ModelError("its elements have several fields; save an array for each")
    if min(shape, default=0) < 0 or max(shape, default=0) > _MAX_OF_SIZE or len(shape) > 32:
        raise ModelError(f"its shape {printable(shape, 80)} is none of an array")
    return dtype, in_columns, shape


def _read_npy(stream, there):
    """Reads an array from a stream that holds `there` bytes of a .npy file."""
    begin = stream.read(12)
    if len(begin) < 10 or begin[:6] != _MAGIC:
        raise ModelError("it is no .npy file")
    if begin[6] not in (1, 2, 3):
        raise ModelError(f"its format version {begin[6]} is unknown")
    offset = 10 if begin[6] == 1 else 12
    size = int.from_bytes(begin[8:offset], "little")
    if size > _MAX_OF_HEADER:
        raise ModelError(f"its header has {size} bytes")
    text = (
        begin[offset:] + stream.read(size - (len(begin) - offset))
        if size > len(begin) - offset
        else begin[offset : offset + size]
    )
    if len(text) < size:
        raise ModelError("it is cut short")
    dtype, in_columns, shape = _parsed_header(text)
    needed, left = math.prod(shape) * dtype.itemsize, there - offset - size
    if needed > left:
        raise ModelError(f"its header promises {needed} bytes of elements, {left} are there")
    if not dtype.itemsize:
        raise ModelError("its elements have no bytes")
    array = np.empty(math.prod(shape), dtype)
    data = stream.read(needed)
    if len(data) < needed:
        raise ModelError("it is cut short")
    if needed:
        array.view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    return array.reshape(shape[::-1]).T if in_columns else array.reshape(shape)


def _explained(path, read):
    try:
        with open_regular(path) as file:
            return read(file)
    except ModelError as error:
        reason = str(error)
    except MemoryError:
        reason = "there is no memory for its elements"
    except OSError as error:
        reason = system_reason(error)
    raise ModelError(f"{printable(path)} cannot be read: {reason}") from None


def read_array(path):
    """The array of a .npy file, of numbers or of text; in any version of the format."""
    return _explained(path, lambda file: _read_npy(file, os.fstat(file.fileno()).st_size))


def read_arrays(path):
    """{name: array} of a .npz file."""
    return _explained(path, _read_npz)


def _read_npz(file):
    import zipfile  # takes 1.5 MB, and most runs are given no such file

    arrays = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as stream:
                    arrays[entry.filename.removesuffix(".npy")] = _read_npy(
                        io.BufferedReader(stream), entry.file_size
                    )
    except (ModelError, MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - Python's reader raises many kinds
        raise ModelError(f"it is no .npz file: {printable(error)}") from None
    return arrays
