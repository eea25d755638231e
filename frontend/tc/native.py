"""The two native parts of tc: the runtime, which loads and runs compiled models, and the compiler,
which is loaded by the first call that needs it (LLVM alone takes some 50 MB)."""

import contextlib
import ctypes
import importlib.util
import os

from . import _runtime as runtime
from .errors import Error

# Runtimes that artefacts are linked with.
LIBRARY_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
_COMPILER = f"{__package__}._tc"


def need_compiler():
    """Fails where the compiler is not installed; does not load it."""
    if importlib.util.find_spec(_COMPILER) is None:
        raise Error(
            "this is tc's runtime alone: it loads and runs compiled models and does not compile; "
            "the compiler is another package: pip install tc-compiler"
        )


class _Compiler:
    """Stands for the extension module tc._tc, and loads it when an attribute is first used."""

    def __getattr__(self, name):
        need_compiler()
        value = getattr(importlib.import_module(_COMPILER), name)
        setattr(self, name, value)
        return value


def give_back():
    """Has the C library give the system back the memory that the process has freed. By itself it
    keeps most of it."""
    with contextlib.suppress(AttributeError):  # other libraries than glibc
        ctypes.CDLL(None).malloc_trim(0)


compiler = _Compiler()
__all__ = ["LIBRARY_FOLDER", "compiler", "give_back", "need_compiler", "runtime"]
