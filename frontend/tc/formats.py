"""The formats of models that the compiler or a front end in Python reads, one row each."""

import dataclasses
import functools
import importlib.util
import os
import sys
import typing

from . import archives
from .errors import bounded, lines_text
from .foreign_models import refuse_file
from .given_files import begin_of
from .module import Module
from .native import compiler


class Read(typing.NamedTuple):
    """A model that has been read. `source` is what sources.source_of takes. `module` makes the
    module. It is called with a function compiled(source, make, sizes, states=states), which
    compiles the source, for `sizes` in addition to those that the caller has bound, and calls
    `make` with the result. `states` are as StatefulModule takes them."""

    source: typing.Any
    shapes: typing.Any
    module: typing.Callable


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of models. Rows for what the compiler itself reads come from frontend/import and
    have no `read`."""

    name: str  # its usual name
    suffixes: tuple  # of its files' names, in lower case
    reader: str  # what reads it, in words
    offset: int = 0  # where its files have `begin`
    begin: bytes = b""  # empty: files cannot be recognised by their beginning
    folder: str = ""  # a file by which folders of this format are known
    texts: bool = False  # whether its models generate text (tc.generate)
    objects: str = ""  # what may be given instead of a file
    options: tuple = ()  # options of tc.compile that other formats do not have
    extra: str = (
        ""  # the package's extra that installs the reader; the reader's module has the same name
    )
    # Whether an object in memory is such a model; imports nothing.
    is_object: typing.Callable = lambda model: False
    read: typing.Callable | None = None  # (model, inputs, shapes) -> Read

    def begins(self, data):
        return (
            bool(self.begin)
            and bytes(data[self.offset : self.offset + len(self.begin)]) == self.begin
        )

    def has_file(self, path):
        if self.folder and os.path.isfile(os.path.join(os.fsdecode(path), self.folder)):
            return True
        return suffix_of(path) in self.suffixes or self.begins(
            begin_of(path, self.offset + len(self.begin))
        )

    def is_installed(self):
        """Whether the package that reads it is installed."""
        return not self.extra or importlib.util.find_spec(self.extra) is not None


def suffix_of(path):
    return os.path.splitext(os.fsdecode(path))[1].lower()


def _is_object_of_torch(model):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(
        model, (torch.nn.Module, torch.export.ExportedProgram, torch.jit.ScriptFunction)
    )


def _read_torch(model, inputs, shapes):
    if archives.is_archive(model):
        read = archives.read(model, inputs, shapes)
    else:
        from .torch import read as read_here  # the package needs PyTorch

        read = read_here(model, inputs, shapes)

    def module(compiled):
        from .torch import module_of

        return module_of(read, compiled)

    return Read(read.source, read.shapes, module)


@bounded
def _read_tflite(model, _, shapes):
    from .tflite import read_with_states  # the package needs tflite

    source, states = read_with_states(model)
    if not states:
        return Read(source, shapes, lambda compiled: compiled(source, Module))
    from .stateful import StatefulModule

    make = functools.partial(StatefulModule, states)
    return Read(source, shapes, lambda compiled: compiled(source, make, states=states))


@bounded
def _read_gguf(model, _, shapes):
    from .gguf import read_language  # the package needs gguf

    source, module = read_language(model)
    return Read(source, shapes, module)


@bounded
def _read_onnx_text(model, _, shapes):
    from .onnx_text import read  # the package needs onnx

    source = read(model)
    return Read(source, shapes, lambda compiled: compiled(source, Module))


# To add a format that a Python library reads, add a row. A file is of the first format whose suffix
# or beginning it has.
FRONT_ENDS = (
    Format(
        "PyTorch",
        (".pt", ".pth", ".ts", ".jit", ".pt2"),
        "PyTorch, in a process that can do no harm (docs/pytorch.md)",
        begin=b"PK\x03\x04",
        objects="a torch.nn.Module or an ExportedProgram",
        options=("inputs", "trust_archive"),
        extra="torch",
        is_object=_is_object_of_torch,
        read=_read_torch,
    ),
    Format(
        "TensorFlow Lite",
        (".tflite",),
        "the package tflite (docs/tflite.md)",
        offset=4,
        begin=b"TFL3",
        extra="tflite",
        read=_read_tflite,
    ),
    Format(
        "GGUF",
        (".gguf",),
        "the package gguf (docs/language_models.md)",
        begin=b"GGUF",
        texts=True,
        extra="gguf",
        read=_read_gguf,
    ),
    Format(
        "transformers",
        (),
        "the packages gguf and tokenizers (docs/language_models.md)",
        folder="config.json",
        texts=True,
        extra="gguf",
        read=_read_gguf,
    ),
    Format(
        "ONNX as text",
        (".onnxtxt", ".onnxjson"),
        "the package onnx",
        extra="onnx",
        read=_read_onnx_text,
    ),
)


# For formats that the compiler reads: objects that Python turns into bytes of the format.
_OBJECTS = {"ONNX": "an onnx.ModelProto"}


@functools.cache
def formats():
    """All formats, those that the compiler reads first."""
    own = [
        Format(
            name=row["name"],
            suffixes=tuple(row["suffixes"]),
            reader="the compiler itself",
            offset=row["offset"],
            begin=row["begin"],
            objects=_OBJECTS.get(row["name"], ""),
            options=tuple(row["options"]),
        )
        for row in compiler.importers()
    ]
    return (*own, *FRONT_ENDS)


def front_end_of(model):
    """The row whose front end in Python reads the model: a file, its bytes or an object in memory.
    None for what the compiler reads itself. Imports nothing."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return next((row for row in FRONT_ENDS if row.begins(model[:16])), None)
    if isinstance(model, (str, os.PathLike)):
        return next((row for row in FRONT_ENDS if row.has_file(model)), None)
    return next((row for row in FRONT_ENDS if row.is_object(model)), None)


def takes_examples(model):
    """Whether the model is given example inputs when it is read."""
    row = front_end_of(model)
    return row is not None and "inputs" in row.options


def refuse_foreign(model):
    """Refuses a file that is known to be no model for tc."""
    # torch.save writes pickles, and the reader of PyTorch's files says what to do with those.
    refuse_file(
        model, [suffix for row in FRONT_ENDS if row.extra == "torch" for suffix in row.suffixes]
    )


def read_model(model, inputs, shapes):
    """The model, read by its front end; returned unchanged where the compiler reads it."""
    row = front_end_of(model)
    if row is None:
        return Read(model, shapes, lambda compiled: compiled(model, Module))
    refuse_foreign(model)
    return row.read(model, inputs, shapes)


def listed(words, last="and"):
    words = [word for word in words if word]
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def known_files():
    """The files that tc reads, in a few words: "ONNX (.onnx), …"."""
    return listed(
        f"{row.name} ({', '.join(row.suffixes) or f'a folder with {row.folder}'})"
        for row in formats()
    )


def _run(_):
    rows = [
        {
            "name": row.name,
            "suffixes": list(row.suffixes),
            "folder": row.folder,
            "reader": row.reader,
            "objects": row.objects,
            "options": list(row.options),
            "extra": row.extra,
            "installed": row.is_installed(),
        }
        for row in formats()
    ]
    lines = []
    for row in rows:
        lines.append(
            f"{row['name']}: {' '.join(row['suffixes']) or 'a folder with ' + row['folder']}"
            + (f"; {row['objects']}" if row["objects"] else "")
        )
        lines.append(f"  read by {row['reader']}")
        if row["options"]:
            lines.append(f"  options of its own: {', '.join(row['options'])}")
        if row["extra"]:
            state = "is installed" if row["installed"] else "is not installed here"
            lines.append(f"  needs pip install 'tc-compiler[{row['extra']}]', which {state}")
    return {"formats": rows}, lines_text(lines)


def add_command(command):
    command("formats", _run, "List the formats of models, and what each needs.")
