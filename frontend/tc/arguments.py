"""What the calls are given, checked: a model's source and the options."""

import dataclasses
import os
import sys

import numpy as np

from .composites import forms_in, set_forms
from .errors import Error, ModelError, ShapeError, UnsupportedError
from .native import compiler

# Runtimes that artefacts are linked with.
LIBRARY_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

# Element types of the compiler and NumPy's names for them.
NUMPY_NAMES = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "bool": "bool", "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn", "i4": "int4", "u4": "uint4", "i2": "int2",
    "u2": "uint2",
}
TC_NAMES = {name: kind for kind, name in NUMPY_NAMES.items()}

# What a quantised network computes: what its unfused evaluation in floats gives, or sums scaled in fixed point.
MEANINGS = ("exact", "fast")

# Types of the package ml_dtypes that NumPy has not itself, and the type of their bits: arrays of both are
# taken, and results are bits where the package is missing.
BIT_TYPES = {name: np.uint16 if name == "bfloat16" else np.uint8
             for kind, name in NUMPY_NAMES.items() if name == "bfloat16" or kind[:2] in ("f8", "f4", "i4", "u4", "i2", "u2")}

# Files of other formats that people may give, and how to come to ONNX from there.
_OTHER_FORMATS = {".pb": "tf2onnx", ".h5": "tf2onnx", ".keras": "tf2onnx"}
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
        raise ModelError(f"a model is the path of an ONNX, PyTorch or TensorFlow Lite file, its bytes, an onnx.ModelProto, a torch.nn.Module or an "
                         f"ExportedProgram, not a {type(model).__name__}") from None
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _OTHER_FORMATS:
        raise UnsupportedError(f"{path}: {suffix} files are not read; write the model as ONNX with "
                               f"{_OTHER_FORMATS[suffix]}")
    return compiler.Source.read(os.fsencode(path))


@dataclasses.dataclass(frozen=True)
class Options:
    """What tc.compile is told beside the model; what each may be, stands there."""
    target: str = "native"
    shapes: dict | None = None
    threads: int | None = None
    build_threads: int | None = None
    tolerance: float = 1e-4
    seed: int = 0
    dump: str | None = None     # name of a graph pass, or "all"
    max_ram: int | None = None
    quantised: str = "exact"


def options_of(options=Options()):
    """The same as the compiler takes it, checked."""
    result = compiler.Options()
    result.target, result.seed, result.dump = options.target, options.seed, options.dump or ""
    forms, shapes = forms_in(options.shapes or {})
    result.symbols, result.input_shapes = _sizes_of(shapes)
    set_forms(result, forms)
    for name in "threads", "build_threads":
        count = getattr(options, name)
        if count is not None and not 1 <= count <= 1024:
            raise Error(f"{name} is {count}; give 1 to 1024, or None for all cores")
        setattr(result, name, count or 0)
    if not options.tolerance >= 0:
        raise Error(f"tolerance is {options.tolerance}; give a number of at least 0")
    result.tolerance = options.tolerance
    if options.max_ram is not None and not 1 <= options.max_ram < 1 << 63:
        raise Error(f"max_ram is {options.max_ram}; give a number of bytes, or None for this machine's memory")
    result.max_ram = int(options.max_ram or 0)
    if options.quantised not in MEANINGS:
        raise Error(f"quantised is {options.quantised!r}; give {' or '.join(repr(name) for name in MEANINGS)}")
    result.quantised = options.quantised
    return result


def _sizes_of(shapes):
    """{symbol: size} and {input: sizes} of what the user gave as `shapes`; -1 leaves a size open."""
    symbols, inputs = {}, {}
    for name, value in shapes.items():
        if isinstance(value, (int, np.integer)):
            symbols[name] = int(value)
            continue
        try:
            inputs[name] = [-1 if size is None else int(size) for size in value]
        except (TypeError, ValueError):
            raise ShapeError(f"shapes: '{name}' is {value!r}; give a number for a symbol, or a tuple "
                             "of numbers (None leaves one open) for an input") from None
    for name, size in [(n, s) for n, s in symbols.items()] + [(n, s) for n, sizes in inputs.items() for s in sizes]:
        if size < (0 if name in symbols else -1):
            raise ShapeError(f"shapes: '{name}' has the size {size}")
    return symbols, inputs


def set_values(options, model, values):
    """Makes the inputs in `values` constants of the model that is compiled with the options."""
    if not values:
        return
    source = source_of(model)
    try:
        given = compiler.signature(source, options)[1]
    except UnsupportedError as error:
        if error.strings:
            raise UnsupportedError(f"{source.name} works on strings, and values= is not supported for such models; make the inputs "
                                   f"constants of the file: {', '.join(values)}") from None
        raise
    declared = {name: (dtype, shape, kind) for name, dtype, shape, kind in given}
    for name, value in values.items():
        if name not in declared:
            raise ShapeError(f"values: '{name}' is no input of {source.name}; its inputs are {', '.join(declared)}")
        dtype, shape, kind = declared[name]
        if kind != "tensor":
            raise UnsupportedError(f"values: input '{name}' of {source.name} is no tensor ({kind}); give the shapes of its tensors "
                                   f"with shapes={{'{name}': [...]}}")
        wanted = np.dtype(BIT_TYPES.get(NUMPY_NAMES[dtype], NUMPY_NAMES[dtype]))
        array = np.asarray(value)
        if shape == () and array.size == 1:
            array = array.reshape(())
        if not hasattr(value, "dtype") and np.can_cast(array.dtype, wanted, "same_kind"):
            array = array.astype(wanted)
        if array.dtype != wanted:
            raise ShapeError(f"values: '{name}' is {array.dtype}; input '{name}' of {source.name} takes {wanted}")
        options.set_value(name, dtype, list(array.shape), array.tobytes())
