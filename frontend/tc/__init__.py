"""tc: a tensor compiler. ONNX models in, native code for x86-64 and RISC-V out.

import tc
module = tc.compile("model.onnx")                  # for this machine
outputs = module(array)
tc.compile("model.onnx", target="rv64gcv").export("model", kind="executable")
"""

import importlib

from . import interrupts

if interrupts.is_command():
    interrupts.begin()

from .compiling import check, compile, load, targets
from .errors import (
    DeviceError,
    Error,
    LogError,
    ModelError,
    ScheduleError,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from .module import Memory, Module
from .ports import Port
from .version import VERSION

__version__ = VERSION

__all__ = [
    "DeviceError",
    "Error",
    "Kernel",
    "Log",
    "LogError",
    "Memory",
    "ModelError",
    "Module",
    "Port",
    "Schedule",
    "ScheduleError",
    "ShapeError",
    "TargetError",
    "Timing",
    "TuneResult",
    "TuneResults",
    "UnsupportedError",
    "Verification",
    "check",
    "compile",
    "generate",
    "kernels",
    "load",
    "quantize",
    "simulate",
    "targets",
    "tune",
    "verify",
]

# Names that running a model does not need: their modules are imported on first use.
_LATER = {
    "generate": "language.generating",
    "Kernel": "kernel",
    "Schedule": "kernel",
    "Timing": "timing",
    "kernels": "kernel",
    "Log": "log",
    "Quantised": "quantising",
    "TuneResult": "tuning",
    "TuneResults": "tuning",
    "quantize": "quantising",
    "simulate": "simulated_accelerator",
    "tune": "tuning",
    "Verification": "verifying",
    "verify": "verifying",
}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'tc' has no attribute '{name}'")
    value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
