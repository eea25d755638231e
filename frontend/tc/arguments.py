"""What the calls are given, checked: a model's source and the options."""

import os

import numpy as np

from .errors import Error, ModelError, ShapeError, UnsupportedError
from .native import compiler

# Runtimes that artefacts are linked with.
LIBRARY_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

# Files of other formats that people may give, and how to come to ONNX from there.
_OTHER_FORMATS = {
    ".pt": "torch.onnx.export", ".pth": "torch.onnx.export", ".ts": "torch.onnx.export",
    ".jit": "torch.onnx.export", ".pt2": "torch.onnx.export", ".tflite": "tf2onnx",
    ".pb": "tf2onnx", ".h5": "tf2onnx", ".keras": "tf2onnx",
}


def source_of(model):
    """What the user calls a model: the path of an ONNX file, its bytes or an onnx.ModelProto."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return compiler.Source(bytes(model), "model.onnx")
    if hasattr(model, "SerializeToString"):  # onnx.ModelProto
        return compiler.Source(model.SerializeToString(), "model.onnx")
    try:
        path = os.fspath(model)
    except TypeError:
        raise ModelError(f"a model is the path of an ONNX file, its bytes or an onnx.ModelProto, not "
                         f"a {type(model).__name__}") from None
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _OTHER_FORMATS:
        raise UnsupportedError(f"{path}: {suffix} files are not read; write the model as ONNX with "
                               f"{_OTHER_FORMATS[suffix]}")
    return compiler.Source.read(os.fsencode(path))


def options_of(target="native", shapes=None, threads=None, tolerance=1e-4, seed=0, dump="",
               build_threads=None, max_ram=None):
    """The compiler's options; what they may be, tc.compile says."""
    symbols, input_shapes = {}, {}
    for name, value in (shapes or {}).items():
        if isinstance(value, (int, np.integer)):
            symbols[name] = int(value)
            continue
        try:
            input_shapes[name] = [-1 if size is None else int(size) for size in value]
        except (TypeError, ValueError):
            raise ShapeError(f"shapes: '{name}' is {value!r}; give a number for a symbol, or a tuple "
                             "of numbers (None leaves one open) for an input") from None
    for name, size in [(n, s) for n, s in symbols.items()] + [
            (n, s) for n, sizes in input_shapes.items() for s in sizes]:
        if size < (0 if name in symbols else -1):
            raise ShapeError(f"shapes: '{name}' has the size {size}")
    for name, count in (("threads", threads), ("build_threads", build_threads)):
        if count is not None and not 1 <= count <= 1024:
            raise Error(f"{name} is {count}; give 1 to 1024, or None for all cores")
    if not tolerance >= 0:
        raise Error(f"tolerance is {tolerance}; give a number of at least 0")
    if max_ram is not None and not 1 <= max_ram < 1 << 63:
        raise Error(f"max_ram is {max_ram}; give a number of bytes, or None for this machine's memory")
    options = compiler.Options(target=target, input_shapes=input_shapes, symbols=symbols,
                               threads=threads or 0, build_threads=build_threads or 0, tolerance=tolerance,
                               seed=seed, dump=dump or "")
    options.max_ram = int(max_ram or 0)
    return options
