"""Turns what a user gives as a model (a file, its bytes, an object in memory) into what the
compiler takes."""

import os

from .errors import ModelError, ShapeError
from .foreign_models import refuse_object
from .formats import (
    formats,
    front_end_of,
    known_files,
    listed,
    read_model,
    refuse_foreign,
    suffix_of,
    takes_examples,
)
from .native import compiler


def described(model, inputs, shapes):
    """(model, shapes): a model that takes example inputs is turned into a source; the shapes are
    those that the compiler is to bind."""
    if takes_examples(model):
        read = read_model(model, inputs, shapes)
        return read.source, read.shapes
    refuse_examples(inputs)
    return model, shapes


def refuse_examples(inputs):
    """Raises an error where example inputs are given for a model that takes none."""
    if inputs is not None:
        names = listed(row.name for row in formats() if "inputs" in row.options)
        raise ShapeError(
            f"inputs: only models of {names} take example inputs; other models state their own, "
            "and shapes={…} binds them"
        )


def source_of(model):
    """The model as a source: a file that needs no example inputs, its bytes or an onnx.ModelProto.
    A source that a front end made is returned as it is."""
    if isinstance(model, compiler.Source):
        return model.copy()
    refuse_foreign(model)
    row = front_end_of(model)
    if row is not None and "inputs" not in row.options:
        found = row.read(model, None, None).source
        return found if isinstance(found, compiler.Source) else source_of(found)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return compiler.Source(bytes(model), "model.onnx")
    if hasattr(model, "SerializeToString"):  # onnx.ModelProto
        return compiler.Source(model.SerializeToString(), "model.onnx")
    try:
        path = os.fspath(model)
    except TypeError:
        refuse_object(model)
        names = listed((each.name for each in formats()), "or")
        objects = ", ".join(each.objects for each in formats() if each.objects)
        raise ModelError(
            f"a model is the path of an {names} file, its bytes, {objects}, "
            f"not a {type(model).__name__}"
        ) from None
    known = any(suffix_of(path) in each.suffixes for each in formats())
    return compiler.Source.read(os.fsencode(path), "" if known else known_files())
