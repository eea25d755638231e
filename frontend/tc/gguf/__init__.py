"""Language models of GGUF files. Imported when such a model is given; nothing else of tc needs the
packages that read them."""

from ..errors import Error

try:
    import gguf  # noqa: F401
except ImportError:
    raise Error(
        "GGUF files are read by the package gguf, which is not installed here: pip install "
        "'tc-compiler[gguf]'"
    ) from None

from .model import built_language_of, language_of, read, read_language

__all__ = ["built_language_of", "language_of", "read", "read_language"]
