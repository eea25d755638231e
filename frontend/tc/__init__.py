"""tc: a tensor compiler. ONNX models in, native code for x86-64 and RISC-V out.

    import tc
    module = tc.compile("model.onnx")                  # for this machine
    outputs = module(array)
    tc.compile("model.onnx", target="rv64gcv").export("model", kind="executable")
"""

from .errors import (DeviceError, Error, LogError, ModelError, ScheduleError, ShapeError,
                     TargetError, UnsupportedError)
from .kernels import Kernel, Schedule, Timing, kernels
from .log import Log
from .module import Memory, Module, Port, check, compile, load, targets
from .tune import TuneResult, tune

__version__ = "0.1.0"

__all__ = [
    "DeviceError", "Error", "Kernel", "Log", "LogError", "Memory", "ModelError", "Module", "Port",
    "Schedule", "ScheduleError", "ShapeError", "TargetError", "Timing", "TuneResult", "UnsupportedError",
    "check", "compile", "kernels", "load", "targets", "tune",
]
