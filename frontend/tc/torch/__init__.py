"""Models of PyTorch: torch.nn.Module, torch.export.ExportedProgram, TorchScript and their files.
Imported when such a model is given; nothing else of tc needs PyTorch."""

from ..archives.reading import NOT_INSTALLED
from ..errors import Error

try:
    import torch  # noqa: F401
except ImportError:
    raise Error(NOT_INSTALLED) from None

from .backend import backend, register
from .calling import TorchModule, module_of
from .models import read

__all__ = ["TorchModule", "backend", "module_of", "read"]

register()
