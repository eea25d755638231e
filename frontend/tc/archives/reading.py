"""Reads an archive: it is inspected here and opened by the sandboxed program, and the model is
built from that program's answer."""

import contextlib
import importlib.util
import json
import math
import os

import numpy as np

from ..errors import Error, ModelError, ShapeError, UnsupportedError, printable
from . import contents, values
from .walls import Reading

NOT_INSTALLED = "models of PyTorch are read by PyTorch itself, which is not installed here: pip install 'tc-compiler[torch]'"

# In addition to what PyTorch itself takes: memory and processor time that reading an empty file may
# take.
_MIN_BYTES = 336 << 20
_MIN_STORE = 64 << 20
_MIN_SECONDS = 8
_PROGRAM_BYTES_PER_SECOND = 20_000
_MAX_SECONDS = 600
_MIN_ANSWER = 16 << 20
# Packages other than PyTorch whose operators TorchScript may use.
_OPERATORS = {"torchvision": ("torchvision", "PIL", "pillow.libs")}


class _TrustedPath(str):
    """A path of an archive that PyTorch may open in this process."""


class _TrustedBytes(bytes):
    """The bytes of an archive that PyTorch may open in this process."""


def trusted(model):
    """Marks a file or bytes as trusted: code in the archive then runs in this process. Objects in
    memory are returned unchanged."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _TrustedBytes(model)
    return (
        _TrustedPath(os.fsdecode(os.fspath(model)))
        if isinstance(model, (str, os.PathLike))
        else model
    )


def is_archive(model):
    """Whether the model is given as a file or its bytes, not as an object in memory, and is not
    trusted."""
    return isinstance(model, (bytes, bytearray, memoryview, str, os.PathLike)) and not isinstance(
        model, (_TrustedPath, _TrustedBytes)
    )


def read(model, inputs=None, shapes=None):
    """The model of an archive, as tc.torch.models returns it for a trusted one, but read by the
    sandboxed program."""
    if not _has_torch():
        raise Error(NOT_INSTALLED)
    archive = Archive(model)
    reading = archive.start(inputs, shapes)
    try:
        # Imports PyTorch here while the other program imports it too.
        from ..torch.archived import model_of

        return model_of(archive, archive.answer(reading), inputs, shapes)
    finally:
        reading.end()


def _has_torch():
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:
        return False


class Archive:
    """An archive that can be read again for calls with another structure of arguments."""

    def __init__(self, model):
        data = None
        if isinstance(model, (bytes, bytearray, memoryview)):
            data, self.name = bytes(model), "model.pt"
        else:
            self.name = printable(os.path.basename(os.fsdecode(os.fspath(model))))
        self.file = _in_memory(data) if data is not None else contents.open_file(os.fspath(model))
        self.kind = contents.kind_of(self.file, self.name)
        self.programs = contents.refuse_code(self.file, self.kind, self.name)
        self.size = os.fstat(self.file.fileno()).st_size
        self._packages = [
            name
            for name in _OPERATORS
            if self.kind == "TorchScript"
            and contents.mentions(self.file, name.encode())
            and importlib.util.find_spec(name)
        ]
        self._known = self._state()

    def _state(self):
        about = os.fstat(self.file.fileno())
        return about.st_size, about.st_mtime_ns

    @property
    def seconds(self):
        return min(_MIN_SECONDS + self.programs / _PROGRAM_BYTES_PER_SECOND, _MAX_SECONDS)

    def start(self, inputs=None, shapes=None, call=None, state=None, artefact=False):
        """Starts reading the archive for these example inputs, or for a call with a given state.
        `artefact`: the result is the program of an artefact, not that of calls."""
        if self._state() != self._known:
            raise ModelError(
                f"'{self.name}' is not the file any more from which the model was compiled; compile it again"
            )
        sizes = _Sizes()
        store = 2 * self.size + _MIN_STORE
        request = {
            "name": self.name,
            "kind": self.kind,
            "packages": self._packages,
            "artefact": artefact,
            "store": store,
            "seconds": self.seconds,
            "inputs": values.written(inputs, sizes.row),
            "shapes": values.written(shapes, sizes.row),
            "call": values.written(call, sizes.row),
            "state": values.written(state, sizes.row),
        }
        request["memory"] = 2 * self.size + _MIN_BYTES + 2 * sizes.bytes
        shown = [each for name in self._packages for each in _OPERATORS[name]]
        return Reading(self.file.fileno(), store, json.dumps(request).encode(), shown)

    def answer(self, reading):
        """(the program's answer, its memory with tensors); raises the errors that it reports."""
        text, store = reading.answer(self.name, self.seconds, _MIN_ANSWER + 4 * self.programs)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            raise ModelError(
                f"what the program says that reads '{self.name}' cannot be read: {printable(text[:100].decode(errors='replace'))}"
            ) from None
        if type(answer) is not dict:
            raise ModelError(f"what the program says that reads '{self.name}' cannot be read")
        if "error" in answer:
            raise self._error(answer["error"])
        return answer, store

    def _error(self, row):
        with contextlib.suppress(ValueError, TypeError):
            kind, text, problems = row
            if kind == "MemoryError":
                return UnsupportedError(
                    f"'{self.name}' needs more memory to be read than 4 times its bytes and 400 MB; pass trust_archive=True "
                    "(--trust-archive) if you wrote the file, or trust who did: its code then runs as yours"
                )
            error = {"UnsupportedError": UnsupportedError, "ShapeError": ShapeError}.get(
                kind, ModelError
            )(printable(text, 4000))
            if isinstance(error, UnsupportedError):
                error.problems = tuple(printable(each, 1000) for each in problems)
            return error
        return ModelError(f"'{self.name}' cannot be read")


class _Sizes:
    """Writes tensors as their type and shape, and counts their bytes."""

    def __init__(self):
        self.bytes = 0

    def row(self, tensor):
        shape = [int(each) for each in tensor.shape]
        if isinstance(tensor, np.ndarray):
            strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        elif str(tensor.layout) == "torch.strided":
            strides = [int(each) for each in tensor.stride()]
        else:
            raise ShapeError(f"an example input is {tensor.layout}; dense tensors are taken")
        count = (
            1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
            if all(shape)
            else 0
        )
        self.bytes += count * tensor.dtype.itemsize
        return [str(tensor.dtype).removeprefix("torch."), shape, strides]


def _in_memory(data):
    """An unnamed file in memory with these bytes."""
    file = open(os.memfd_create("tc-archive", os.MFD_CLOEXEC), "r+b")
    with contextlib.suppress(OSError):
        file.write(data)
        file.flush()
    return file
