"""Files of PyTorch: what kind a file is, and opening it by PyTorch's own loader. A pickle is never run."""

import io
import os
import pickle
import warnings
import zipfile

import torch

from ..errors import ModelError, UnsupportedError

# Of all that is compressed in an archive: programs are text, and weights are stored as they are.
_MOST_COMPRESSED = 256 << 20
_MOST_ENTRIES = 1 << 18


def open_archive(path_or_bytes, name):
    """A ScriptModule or an ExportedProgram."""
    data = path_or_bytes if isinstance(path_or_bytes, bytes) else None
    file = io.BytesIO(data) if data is not None else _opened(path_or_bytes)
    with file:
        kind = _kind(file, name)
        file.seek(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _LOADERS[kind](file if data is not None else os.fspath(path_or_bytes))
        except _DAMAGED as error:
            raise ModelError(f"'{name}' is a damaged {kind} file: {_sentence(error)}") from None


# Whatever PyTorch's loaders raise for damaged files, their unpickler's refusals included.
_DAMAGED = (RuntimeError, AssertionError, NotImplementedError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError,
            EOFError, pickle.UnpicklingError, zipfile.BadZipFile)


def _opened(path):
    try:
        if os.path.isdir(path):
            raise ModelError(f"'{path}' is a folder, not a model's file")
        return open(path, "rb")
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror}") from None


def _sentence(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[0][:300]


def _kind(file, name):
    head = file.read(4)
    if head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise _pickled(name)
    if head != b"PK\x03\x04":
        raise ModelError(f"'{name}' is no file of PyTorch: it begins with {head!r}, and TorchScript archives and .pt2 files are zip "
                         "archives")
    file.seek(0)
    try:
        entries = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, IndexError, OverflowError) as error:
        raise ModelError(f"'{name}' is a damaged archive: {_sentence(error)}") from None
    _check_entries(entries, file.seek(0, os.SEEK_END), name)
    paths = {entry.filename.partition("/")[2] or entry.filename for entry in entries}
    if "constants.pkl" in paths:
        return "TorchScript"
    if {"archive_format", "serialized_exported_program.json"} & (paths | {entry.filename for entry in entries}):
        return "torch.export"
    if "data.pkl" in paths:
        raise _pickled(name)
    raise ModelError(f"'{name}' is a zip archive, but no model of PyTorch: it has neither TorchScript nor an exported program")


def _check_entries(entries, size, name):
    """Refuses archives that are larger than they look, or whose files would lie elsewhere."""
    if len(entries) > _MOST_ENTRIES:
        raise ModelError(f"'{name}' is an archive of {len(entries)} files; at most {_MOST_ENTRIES} are read")
    for entry in entries:
        path = entry.filename.replace("\\", "/")
        if path.startswith("/") or ".." in path.split("/"):
            raise ModelError(f"'{name}' is an archive with the file '{entry.filename}', which lies outside of it")
    stored = sum(entry.file_size for entry in entries if entry.compress_type == zipfile.ZIP_STORED)
    packed = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    if stored > size:
        raise ModelError(f"'{name}' is a damaged archive: its files have {stored} bytes, and it has {size}")
    if packed > _MOST_COMPRESSED:
        raise ModelError(f"'{name}' is an archive whose compressed files unfold to {packed} bytes; at most {_MOST_COMPRESSED} are read")


def _pickled(name):
    return UnsupportedError(f"'{name}' is a pickle that torch.save wrote (a module or its weights): reading it would run what is in it. "
                            "Build the module in Python and give that to tc.compile with inputs=, or write it with "
                            "torch.jit.save(torch.jit.script(module), path) or torch.export.save")


_LOADERS = {
    # Of a path it reads a tensor at a time, of a file object the whole archive, several times.
    "TorchScript": lambda file: torch.jit.load(file, map_location="cpu"),
    "torch.export": torch.export.load,
}
