"""Models of TensorFlow Lite (.tflite). Imported when such a model is given; nothing else of tc
needs the package that reads them."""

from ..errors import Error

try:
    import tflite  # noqa: F401
except ImportError:
    raise Error(
        "files of TensorFlow Lite are read by the package tflite, which is not installed here: pip install 'tc-compiler[tflite]'"
    ) from None

from .model import read, read_with_states

__all__ = ["read", "read_with_states"]
