"""The constants of the format: the module `constants` of the package gguf. The package itself also
imports what writes files, which a process that generates text does without."""

import importlib.util
import os
import sys

from ..errors import Error

_NAME = "gguf.constants"


def _loaded():
    package = importlib.util.find_spec("gguf")
    if package is None or package.origin is None:
        raise Error(
            "GGUF files are read by the package gguf, which is not installed here: pip install "
            "'tc-compiler[gguf]'"
        )
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    path = os.path.join(os.path.dirname(package.origin), "constants.py")
    spec = importlib.util.spec_from_file_location(f"{__name__}._of_the_package", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_constants = _loaded()
GGML_QUANT_SIZES = _constants.GGML_QUANT_SIZES
GGMLQuantizationType = _constants.GGMLQuantizationType
GGUFValueType = _constants.GGUFValueType
