"""Language models of GGUF files. Imported when such a model is given; nothing else of tc needs the
packages that read them."""

from .model import built_language_of, language_of, read, read_language

__all__ = ["built_language_of", "language_of", "read", "read_language"]
