"""Reading an archive: looked into here, opened by the program behind walls, and described again of what that says."""

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

# Beside PyTorch's own: what a file of no bytes may take of memory, and of the processor's time.
_LEAST_BYTES = 336 << 20
_LEAST_STORE = 64 << 20
_LEAST_SECONDS = 8
_PROGRAM_BYTES_PER_SECOND = 20_000
_MOST_SECONDS = 600
_LEAST_ANSWER = 16 << 20
# Packages that TorchScript may have operators of, beside PyTorch.
_OPERATORS = {"torchvision": ("torchvision", "PIL", "pillow.libs")}


class _TrustedPath(str):
    """A path whose archive PyTorch may open in this process."""


class _TrustedBytes(bytes):
    """The bytes of such an archive."""


def trusted(model):
    """The model, as one whose archive runs here what it runs; objects in memory as they are."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _TrustedBytes(model)
    return _TrustedPath(os.fsdecode(os.fspath(model))) if isinstance(model, (str, os.PathLike)) else model


def is_archive(model):
    """Whether the model is given as a file or its bytes, not as an object in memory, and is not trusted."""
    return isinstance(model, (bytes, bytearray, memoryview, str, os.PathLike)) and not isinstance(model, (_TrustedPath, _TrustedBytes))


def read(model, inputs=None, shapes=None):
    """The model of an archive: what tc.torch.models reads of one that is trusted, without what is in the file."""
    if not _has_torch():
        raise Error(NOT_INSTALLED)
    archive = Archive(model)
    reading = archive.start(inputs, shapes)
    try:
        from ..torch.archived import model_of     # PyTorch is imported here while the other program imports it

        return model_of(archive, archive.answer(reading), inputs, shapes)
    finally:
        reading.end()


def _has_torch():
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:
        return False


class Archive:
    """A file that can be read again, for another structure of a call."""

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
        self._packages = [name for name in _OPERATORS if self.kind == "TorchScript" and contents.mentions(self.file, name.encode())
                          and importlib.util.find_spec(name)]
        self._known = self._state()

    def _state(self):
        about = os.fstat(self.file.fileno())
        return about.st_size, about.st_mtime_ns

    @property
    def seconds(self):
        return min(_LEAST_SECONDS + self.programs / _PROGRAM_BYTES_PER_SECOND, _MOST_SECONDS)

    def start(self, inputs=None, shapes=None, call=None, state=None, artefact=False):
        """Starts reading it for these example inputs, or for a call in a state; the program is that of calls, or of an artefact."""
        if self._state() != self._known:
            raise ModelError(f"'{self.name}' is not the file any more from which the model was compiled; compile it again")
        sizes = _Sizes()
        store = 2 * self.size + _LEAST_STORE
        request = {"name": self.name, "kind": self.kind, "packages": self._packages, "artefact": artefact, "store": store, "seconds": self.seconds,
                   "inputs": values.written(inputs, sizes.row), "shapes": values.written(shapes, sizes.row),
                   "call": values.written(call, sizes.row), "state": values.written(state, sizes.row)}
        request["memory"] = 2 * self.size + _LEAST_BYTES + 2 * sizes.bytes
        shown = [each for name in self._packages for each in _OPERATORS[name]]
        return Reading(self.file.fileno(), store, json.dumps(request).encode(), shown)

    def answer(self, reading):
        """(what the program says, its memory with tensors); its errors are raised."""
        text, store = reading.answer(self.name, self.seconds, _LEAST_ANSWER + 4 * self.programs)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            raise ModelError(f"what the program says that reads '{self.name}' cannot be read: {printable(text[:100].decode(errors='replace'))}") from None
        if type(answer) is not dict:
            raise ModelError(f"what the program says that reads '{self.name}' cannot be read")
        if "error" in answer:
            raise self._error(answer["error"])
        return answer, store

    def _error(self, row):
        with contextlib.suppress(ValueError, TypeError):
            kind, text, problems = row
            if kind == "MemoryError":
                return UnsupportedError(f"'{self.name}' needs more memory to be read than 4 times its bytes and 400 MB; pass trust_archive=True "
                                        "(--trust-archive) if you wrote the file, or trust who did: its code then runs as yours")
            error = {"UnsupportedError": UnsupportedError, "ShapeError": ShapeError}.get(kind, ModelError)(printable(text, 4000))
            if isinstance(error, UnsupportedError):
                error.problems = tuple(printable(each, 1000) for each in problems)
            return error
        return ModelError(f"'{self.name}' cannot be read")


class _Sizes:
    """Writes tensors by type and shape, and counts their bytes."""

    def __init__(self):
        self.bytes = 0

    def row(self, tensor):
        shape = [int(each) for each in tensor.shape]
        if isinstance(tensor, np.ndarray):
            strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        elif str(tensor.layout) == "torch.strided":
            strides = [int(each) for each in tensor.stride()]
        else:
            raise ShapeError(f"an example input is {tensor.layout}; dense tensors are taken")
        count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if all(shape) else 0
        self.bytes += count * tensor.dtype.itemsize
        return [str(tensor.dtype).removeprefix("torch."), shape, strides]


def _in_memory(data):
    """A file without a name that has these bytes."""
    file = open(os.memfd_create("tc-archive", os.MFD_CLOEXEC), "r+b")
    with contextlib.suppress(OSError):
        file.write(data)
        file.flush()
    return file
