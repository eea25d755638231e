"""Models in ONNX's text forms, read by the package onnx: its own syntax (.onnxtxt) and JSON
(.onnxjson)."""

import os
import re

from .errors import Error, ModelError

try:
    import onnx.parser
except ImportError:
    raise Error(
        "ONNX's text forms are read by the package onnx, which is not installed here: pip install "
        "'tc-compiler[onnx]'"
    ) from None

# Of a file: a model's weights are written as numbers, so a larger one is no text to be read.
MAX_BYTES = 1 << 28
# Of graphs in attributes of nodes, and of brackets. The parser goes down by calls.
MAX_DEPTH = 200


# Strings and comments: brackets in them nest nothing.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*', re.S)


def _depth(text):
    """The most brackets that are open at one place."""
    depth = most = 0
    for character in _QUOTED.sub("", text):
        if character in "([{<":
            depth += 1
            most = max(most, depth)
        elif character in ")]}>":
            depth -= 1
    return most


def read(path):
    """The model of a file as an onnx.ModelProto."""
    name = os.path.basename(os.fsdecode(path))
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ModelError(
            f"'{name}' is a text of more than {MAX_BYTES >> 20} MB; write the model as .onnx"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"'{name}' is no text in UTF-8, as its suffix says") from None
    if _depth(text) > MAX_DEPTH:
        raise ModelError(f"'{name}' has more than {MAX_DEPTH} brackets inside of each other")
    is_json = name.lower().endswith(".onnxjson")
    try:
        return (
            onnx.load_model_from_string(data, "json") if is_json else onnx.parser.parse_model(text)
        )
    except Exception as problem:  # the package has no class for what its parsers refuse
        said = " ".join(str(problem).split())[:300]
        raise ModelError(
            f"'{name}' is no model in ONNX's {'JSON' if is_json else 'text syntax'}: {said}"
        ) from None
