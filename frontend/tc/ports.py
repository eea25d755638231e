"""Inputs and outputs of modules: their element types, shapes and kinds, as users see them."""

import typing

import numpy as np

# Element types of the compiler and NumPy's names for them.
NUMPY_NAMES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0": "float8_e8m0fnu",
    "f4e2m1": "float4_e2m1fn",
    "i4": "int4",
    "u4": "uint4",
    "i2": "int2",
    "u2": "uint2",
}
TC_NAMES = {name: kind for kind, name in NUMPY_NAMES.items()}

# Types that NumPy itself lacks and the package ml_dtypes has, and the type of their bits. Arrays of
# both are accepted; where the package is missing, results are arrays of bits.
BIT_TYPES = {
    name: np.uint16 if name == "bfloat16" else np.uint8
    for kind, name in NUMPY_NAMES.items()
    if name == "bfloat16" or kind[:2] in ("f8", "f4", "i4", "u4", "i2", "u2")
}


class Port(typing.NamedTuple):
    """An input or output. `dtype` is NumPy's name of the element type; a size in `shape` is a
    number, the name of a symbol, or None where it is computed from symbols; `shape` itself is None
    where only a run tells it. `kind` is "tensor", "sequence" (a list of arrays), "optional" (None
    or an array), "optional sequence" or, of outputs alone, "sequence of maps" (a list of dicts)."""

    name: str
    dtype: str
    shape: tuple
    kind: str = "tensor"


def ports_of(tuples):
    """Ports from the compiler's tuples (name, element type, sizes or None), to which the kind may
    be added."""
    return tuple(
        Port(name, NUMPY_NAMES[dtype], None if shape is None else tuple(shape), *kind)
        for name, dtype, shape, *kind in tuples
    )


def shape_text(port):
    if port.kind != "tensor":
        return f"{port.kind} of {port.dtype}"
    if port.shape is None:
        return f"{port.dtype} of any shape"
    return f"{port.dtype} [{', '.join('?' if size is None else str(size) for size in port.shape)}]"
