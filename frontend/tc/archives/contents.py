"""Inspects an archive without PyTorch: what kind it is, and whether it has parts that no model
needs."""

import json
import os
import re
import stat
import struct
import zipfile
import zlib

from ..errors import ModelError, UnsupportedError, printable
from .expressions import check_expression

# The most bytes of all compressed files in an archive together. Programs are text; weights are not
# compressed.
_MAX_COMPRESSED = 256 << 20
_MAX_ENTRIES = 1 << 18
# The most bytes of a text file in an archive of torch.export.
_MAX_TEXT = 256 << 20
# Files up to this size are compared with their checksums. Larger ones are numbers, for which any
# bytes are valid.
_MAX_CHECKED = 16 << 20
# Precedes each file: compression, sizes, lengths of name and extra field.
_HEADER = struct.Struct("<4s4xH8xIIHH")

# The files that an archive of torch.export may have, below its folder: they are inspected here, or
# PyTorch never reads them.
_EXPORTED = re.compile(
    r"archive_format|archive_version|version|byteorder|\.data/\w+|\.format_version|\.storage_alignment|models/[^/]+\.json|"
    r"data/(weights|constants)/[^/]+|data/sample_inputs/[^/]+\.pt|extra/.+"
)
_EXPRESSION = re.compile(r'"expr_str"\s*:\s*"((?:[^"\\]|\\.)*)"')
# Escapes of characters that PyTorch writes without an escape.
_HIDDEN_ASCII = re.compile(r"(?<!\\)(?:\\\\)*\\u00[2-7]")


def open_file(path):
    """Opens the file for reading; refuses folders, pipes and devices."""
    try:
        if os.path.isdir(path):
            raise ModelError(f"'{path}' is a folder, not a model's file")
        # Opening a pipe would wait.
        file = open(path, "rb", opener=lambda each, flags: os.open(each, flags | os.O_NONBLOCK))
    except OSError as error:
        raise ModelError(f"'{path}' cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ModelError(f"'{path}' is a pipe or a device, not a model's file")
    return file


def kind_of(file, name):
    """ "TorchScript" or "torch.export"; refuses everything else, and archives whose layout is
    misleading."""
    file.seek(0)
    head = file.read(4)
    if head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise _pickled(name)
    if head != b"PK\x03\x04":
        raise ModelError(
            f"'{name}' is no file of PyTorch: it begins with {head!r}, and TorchScript archives and .pt2 files are zip "
            "archives"
        )
    entries = _entries(file, name)
    _check_entries(entries, file.seek(0, os.SEEK_END), name)
    paths = {_path(entry) for entry in entries} | {entry.filename for entry in entries}
    if ".data/extern_modules" in paths or ".data/python_version" in paths:
        raise UnsupportedError(
            f"'{name}' is an archive of torch.package: modules of Python and pickles that would run. Build the module in "
            "Python and give that to tc.compile with inputs=, or write it with torch.export.save"
        )
    if "constants.pkl" in paths:
        return "TorchScript"
    if {"archive_format", "serialized_exported_program.json"} & paths:
        return "torch.export"
    if "data.pkl" in paths:
        raise _pickled(name)
    raise ModelError(
        f"'{name}' is a zip archive, but no model of PyTorch: it has neither TorchScript nor an exported program"
    )


def refuse_code(file, kind, name):
    """Refuses archives with parts that no model needs and that PyTorch would run or read without a
    limit. Returns the number of bytes of the archive's programs."""
    entries = _entries(file, name)
    if kind == "torch.export" and not any(_path(entry) == "archive_format" for entry in entries):
        raise UnsupportedError(
            f"'{name}' is of a PyTorch before 2.8, which wrote weights as pickles: export the model anew"
        )
    _check_layout(file, entries, name)
    with zipfile.ZipFile(file) as archive:
        _check_sums(archive, entries, name)
        if kind == "torch.export":
            _check_exported(archive, entries, name)
    return sum(
        entry.file_size
        for entry in entries
        if re.fullmatch(r"code/.*\.py|models/.*\.json", _path(entry))
    )


def mentions(file, word):
    """Whether a TorchScript program in the archive contains the word."""
    with zipfile.ZipFile(file) as archive:
        return any(
            word in archive.read(entry)
            for entry in archive.infolist()
            if _path(entry).startswith("code/") and entry.filename.endswith(".py")
        )


def sentence_of(error):
    """The line of a library's error that says what is wrong: the first, or the last if TorchScript
    was running."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [
        type(error).__name__
    ]
    return printable(lines[-1 if lines[0].startswith("The following operation failed") else 0], 300)


def is_of_memory(error):
    """Whether an error of PyTorch or C++ says that memory ran out."""
    text = str(error)
    return (
        isinstance(error, MemoryError)
        or "can't allocate memory" in text
        or "bad_alloc" in text
        or "not enough memory" in text
    )


def _pickled(name):
    return UnsupportedError(
        f"'{name}' is a pickle that torch.save wrote (a module or its weights): reading it would run what is in it. "
        "Build the module in Python and give that to tc.compile with inputs=, or write it with "
        "torch.jit.save(torch.jit.script(module), path) or torch.export.save"
    )


def _path(entry):
    """The path of an entry below the one folder that an archive has."""
    return entry.filename.partition("/")[2]


def _entries(file, name):
    file.seek(0)
    try:
        return zipfile.ZipFile(file).infolist()
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        NotImplementedError,
        IndexError,
        OverflowError,
        struct.error,
    ) as error:
        raise ModelError(f"'{name}' is a damaged archive: {sentence_of(error)}") from None


def _check_entries(entries, size, name):
    """Refuses archives whose content is far larger than the file, or whose entries would be outside
    of their folder."""
    if len(entries) > _MAX_ENTRIES:
        raise ModelError(
            f"'{name}' is an archive of {len(entries)} files; at most {_MAX_ENTRIES} are read"
        )
    seen = set()
    for entry in entries:
        path, shown = entry.filename.replace("\\", "/"), printable(entry.filename)
        if path.startswith("/") or ".." in path.split("/") or not path.isprintable():
            raise ModelError(
                f"'{name}' is an archive with the file '{shown}', which lies outside of it"
            )
        if path in seen:
            raise ModelError(
                f"'{name}' is an archive with two files '{shown}': which one is read depends on who reads"
            )
        seen.add(path)
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ModelError(
                f"'{name}' is an archive with '{shown}', which is a link or a device, not a file"
            )
        if entry.flag_bits & 1 or entry.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise ModelError(
                f"'{name}' is an archive with the file '{shown}', which is encrypted or compressed in a way that PyTorch does not write"
            )
    stored = sum(entry.file_size for entry in entries if entry.compress_type == zipfile.ZIP_STORED)
    packed = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    if stored > size:
        raise ModelError(
            f"'{name}' is a damaged archive: its files have {stored} bytes, and it has {size}"
        )
    if packed > _MAX_COMPRESSED:
        raise ModelError(
            f"'{name}' is an archive whose compressed files unfold to {packed} bytes; at most {_MAX_COMPRESSED} are read"
        )


def _check_layout(file, entries, name):
    """Refuses archives whose central directory contradicts the headers of the files, and files that
    overlap."""
    folders = {entry.filename.partition("/")[0] for entry in entries}
    if len(folders) > 1:
        raise ModelError(
            f"'{name}' holds several archives in one ({', '.join(printable(each, 40) for each in sorted(folders)[:3])}): which one is "
            "read depends on who reads"
        )
    end = 0
    for entry in sorted(entries, key=lambda each: each.header_offset):
        file.seek(max(entry.header_offset, 0))  # a damaged offset in the directory may be negative
        head = file.read(_HEADER.size)
        magic, method, packed, whole, length, extra = (
            _HEADER.unpack(head) if len(head) == _HEADER.size else (b"",) * 6
        )
        path = file.read(length) if magic == b"PK\x03\x04" else b""
        told = packed in (0, 0xFFFFFFFF, entry.compress_size) and whole in (
            0,
            0xFFFFFFFF,
            entry.file_size,
        )
        if (
            path != _raw_name(entry)
            or method != entry.compress_type
            or not told
            or entry.header_offset < end
            or (
                entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size
            )
        ):
            raise ModelError(
                f"'{name}' is a damaged archive: what its folder tells of '{printable(entry.filename)}' is not what is there"
            )
        end = file.tell() + extra + entry.compress_size
    if end > file.seek(0, os.SEEK_END):
        raise ModelError(f"'{name}' is a damaged archive: its files go on beyond its end")


def _raw_name(entry):
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437", "replace")


def _check_sums(archive, entries, name):
    for entry in entries:
        if entry.file_size > _MAX_CHECKED:
            continue
        try:
            archive.read(entry)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            OSError,
        ) as error:
            raise ModelError(f"'{name}' is a damaged archive: {sentence_of(error)}") from None


# --- torch.export ---------------------------------------------------------------------------------


def _check_exported(archive, entries, name):
    paths = {_path(entry): entry for entry in entries}
    for path, entry in paths.items():
        if not _EXPORTED.fullmatch(path) and not entry.filename.endswith("/"):
            what = (
                "native code that AOTInductor compiled"
                if path.startswith("data/aotinductor/")
                else f"the file '{printable(path)}'"
            )
            raise UnsupportedError(
                f"'{name}' holds {what}, which no model needs that tc compiles: write it with torch.export.save"
            )
        if re.match(r"data/(weights|constants)/.*\.pt$", path) or re.match(
            r"data/constants/(custom|opaque)_obj", path
        ):
            raise UnsupportedError(
                f"'{name}' holds the pickle '{printable(path)}', which runs where it is read: export the model anew, without "
                "objects other than tensors"
            )
        if path.endswith(".json") and not path.startswith("extra/"):
            text = _text(archive, entry, name)
            _check_expressions(text, name) if path.startswith("models/") else _check_payloads(
                text, path, name
            )


def _text(archive, entry, name):
    if entry.file_size > _MAX_TEXT:
        raise ModelError(
            f"'{name}' has {entry.file_size} bytes of text in '{printable(entry.filename)}'; at most {_MAX_TEXT} are read"
        )
    try:
        return archive.read(entry).decode()
    except UnicodeDecodeError:
        raise ModelError(f"'{name}' is damaged: '{printable(entry.filename)}' is no text") from None


def _check_expressions(text, name):
    """Refuses expressions of sizes that are not harmless: sympy reads them by evaluating them as
    Python."""
    if _HIDDEN_ASCII.search(text):
        raise ModelError(
            f"'{name}' writes plain letters as escapes, which torch.export does not: its program is not read"
        )
    for expression in sorted(set(_EXPRESSION.findall(text))):
        problem = check_expression(expression)
        if problem:
            raise UnsupportedError(
                f"'{name}' has the size '{printable(expression)}', which is not read: {problem}"
            )


def _check_payloads(text, path, name):
    """Checks that weights and constants are stored uncompressed, each in a separate file."""
    try:
        payloads = json.loads(text)["config"]
        rows = [(row["use_pickle"], row["path_name"]) for row in payloads.values()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(
            f"'{name}' is damaged: '{printable(path)}' is no list of tensors"
        ) from None
    for pickled, file in rows:
        if pickled is not False:
            raise UnsupportedError(
                f"'{name}' holds the tensor '{printable(str(file))}' as a pickle, which runs where it is read: export the "
                "model anew, with plain tensors"
            )
        if not isinstance(file, str) or not re.fullmatch(r"\w+", file, re.ASCII):
            raise ModelError(
                f"'{name}' is damaged: '{printable(path)}' names the file '{printable(str(file))}'"
            )
