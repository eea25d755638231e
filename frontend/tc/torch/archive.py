"""Opens files of PyTorch with PyTorch's own loader, whose exceptions become errors of tc. The
loader runs code in the file, so this is only for trusted files, and for the sandboxed program
(tc/archives)."""

import contextlib
import io
import logging
import os
import warnings

import torch

from ..archives.contents import is_of_memory, kind_of, open_file, sentence_of
from ..errors import Error, ModelError
from .describe import Refusal
from .script_values import ScriptError


def open_archive(path_or_bytes, name, kind=None):
    """A ScriptModule or an ExportedProgram."""
    data = path_or_bytes if isinstance(path_or_bytes, bytes) else None
    file = io.BytesIO(data) if data is not None else open_file(path_or_bytes)
    with file:
        kind = kind or kind_of(file, name)
        file.seek(0)
        try:
            with warnings.catch_warnings(), _without_log():
                warnings.simplefilter("ignore")
                return _LOADERS[kind](file if data is not None else os.fspath(path_or_bytes))
        except (Error, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - PyTorch raises many kinds
            if is_of_memory(error):
                raise MemoryError from None
            raise ModelError(f"'{name}' is a damaged {kind} file: {sentence_of(error)}") from None


@contextlib.contextmanager
def _without_log():
    """Silences PyTorch's loader, which logs its first attempts with tracebacks."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def explained(shown):
    """Context for handling a program that was made elsewhere: any exception, in PyTorch or here,
    becomes an error of tc that says that `shown` cannot be read. Errors of tc pass through
    unchanged."""
    try:
        yield
    except (Error, MemoryError, ScriptError, Refusal):
        raise
    except Exception as error:  # noqa: BLE001 - PyTorch's checks raise many kinds
        if is_of_memory(error):
            raise MemoryError from None
        raise ModelError(
            f"{shown} is no program that can be read: {type(error).__name__}: {sentence_of(error)}"
        ) from error


_LOADERS = {
    # From a path the loader reads one tensor at a time; from a file object it would read the whole
    # archive, several times.
    "TorchScript": lambda file: torch.jit.load(file, map_location="cpu"),
    "torch.export": torch.export.load,
}
