"""What the user calls a model, read: files of ONNX, PyTorch and TensorFlow Lite, their bytes, and objects in memory."""

import os
import sys

from .errors import ModelError, ShapeError
from .foreign_models import refuse_file, refuse_object
from .native import compiler

# Files of PyTorch, by their names; archives of other names are known by how they begin.
_TORCH_SUFFIXES = (".pt", ".pth", ".ts", ".jit", ".pt2")
_ZIP_MAGIC = b"PK\x03\x04"
_TFLITE_MAGIC = b"TFL3"     # from the fifth byte on


def is_torch_model(model):
    """Whether PyTorch reads the model; it is not imported for the question."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, (torch.nn.Module, torch.export.ExportedProgram, torch.jit.ScriptFunction)):
        return True
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[:4]) == _ZIP_MAGIC
    if isinstance(model, compiler.Source) or hasattr(model, "SerializeToString"):
        return False
    try:
        path = os.fspath(model)
    except TypeError:
        return False
    if os.path.splitext(os.fsdecode(path))[1].lower() in _TORCH_SUFFIXES:
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4) == _ZIP_MAGIC
    except (OSError, ValueError):
        return False


def is_tflite_model(model):
    """Whether the package of TensorFlow Lite's files reads the model: bytes or a file that begin so, or a file that is called so."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[4:8]) == _TFLITE_MAGIC
    if isinstance(model, compiler.Source) or hasattr(model, "SerializeToString"):
        return False
    try:
        path = os.fspath(model)
        if os.path.splitext(os.fsdecode(path))[1].lower() == ".tflite":
            return True
        with open(path, "rb") as file:
            return file.read(8)[4:] == _TFLITE_MAGIC
    except (TypeError, OSError, ValueError):
        return False


def read_torch_model(model, inputs, shapes):
    """A model of PyTorch, read."""
    refuse_file(model)
    from .torch import read

    return read(model, inputs, shapes)


def described(model, inputs, shapes):
    """(model, shapes) where a model of PyTorch has become a source, and shapes are those that the compiler is to bind."""
    if is_torch_model(model):
        read = read_torch_model(model, inputs, shapes)
        return read.source, read.shapes
    if inputs is not None:
        raise ShapeError("inputs: only models of PyTorch take example inputs; other models state their own, and shapes={…} binds them")
    return model, shapes


def source_of(model):
    """What the user calls a model: the path of a file of ONNX or TensorFlow Lite, its bytes or an onnx.ModelProto; a source, as
    front ends make it, is taken as it is."""
    if isinstance(model, compiler.Source):
        return model.copy()
    refuse_file(model)
    if is_tflite_model(model):
        from .tflite import read

        return read(model)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return compiler.Source(bytes(model), "model.onnx")
    if hasattr(model, "SerializeToString"):  # onnx.ModelProto
        return compiler.Source(model.SerializeToString(), "model.onnx")
    try:
        path = os.fspath(model)
    except TypeError:
        refuse_object(model)
        raise ModelError(f"a model is the path of an ONNX, PyTorch or TensorFlow Lite file, its bytes, an onnx.ModelProto, a torch.nn.Module or an "
                         f"ExportedProgram, not a {type(model).__name__}") from None
    return compiler.Source.read(os.fsencode(path))
