"""Runs a model with its accelerator simulated: the C source of both, compiled for this machine."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import typing

import numpy as np

from .accelerator import IN_TARGET
from .errors import Error, TargetError

_FLAGS = ["-std=c99", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-shared"]


class Simulation(typing.NamedTuple):
    """What a simulated run gives: the outputs in the model's order, the accelerator's cycles, those
    for which each of its units was busy, and the number of commands by instruction."""

    outputs: tuple
    cycles: int
    busy: dict
    commands: dict


def simulate(module, *inputs):
    """Runs a module whose target has an accelerator once, on this machine, for the arrays `inputs`:
    kernels by the core as C, commands by the accelerator's simulator. The cycles are the
    accelerator's alone."""
    named = IN_TARGET.search(module.target)
    if not named:
        raise TargetError(
            f"target '{module.target}' has no accelerator; compile the model for one, as 'rv64gcv+accel:NAME'"
        )
    compiler = _compiler()
    with tempfile.TemporaryDirectory() as folder:
        module.export(os.path.join(folder, "model.c"), kind="c")
        return _run(folder, compiler, named[1], module, inputs)


def run_on_core(module, *inputs):
    """The outputs of a module none of whose kernels is executed by an accelerator: its C source,
    compiled as `simulate` compiles the core's part, so that floats are rounded alike."""
    compiler = _compiler()
    with tempfile.TemporaryDirectory() as folder:
        module.export(os.path.join(folder, "model.c"), kind="c")
        return _call(_compiled(folder, compiler, []), folder, module, inputs)


def _compiler():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Error("no C compiler (cc, gcc, clang) is installed, and the simulator is C")
    return compiler


def _run(folder, compiler, name, module, inputs):
    header = os.path.join(folder, name + ".h")
    if not os.path.exists(header):
        raise Error(
            f"no kernel of the model is executed by accelerator '{name}'; inspect --kernel N --dump=default says why"
        )
    # On a core that has the accelerator's instructions, commands go to the simulator as well.
    as_commands = f"-D{name.upper()}_COMMANDS"
    library = _compiled(folder, compiler, [as_commands, f"{name}_simulator.c"])
    with open(header, encoding="utf-8") as file:
        text = file.read()
    units = re.search(r"Units: ([^.]*)\.", text)[1].split(", ")
    instructions = re.findall(rf"{name}_(\w+)_NUMBER = \d+,", text)

    class Statistics(ctypes.Structure):
        _fields_ = [
            ("cycles", ctypes.c_int64),
            ("busy", ctypes.c_int64 * len(units)),
            ("commands", ctypes.c_int64 * len(instructions)),
        ]

    getattr(library, f"{name}_reset")()
    outputs = _call(library, folder, module, inputs)
    read = getattr(library, f"{name}_read_statistics")
    read.restype = Statistics
    statistics = read()
    return Simulation(
        outputs,
        statistics.cycles,
        dict(zip(units, statistics.busy, strict=True)),
        dict(zip(instructions, statistics.commands, strict=True)),
    )


def _compiled(folder, compiler, others):
    """The library of the model's source in the folder, and of others."""
    done = subprocess.run(
        [compiler, *_FLAGS, "model.c", "model_weights.c", *others, "-o", "model.so", "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Error(f"'{compiler}' does not compile the model's C source: {done.stderr[-2000:]}")
    return ctypes.CDLL(os.path.join(folder, "model.so"))


def _call(library, folder, module, inputs):
    """The outputs of the model's function."""
    with open(os.path.join(folder, "model.h"), encoding="utf-8") as file:
        arena_bytes = int(re.search(r"_ARENA_BYTES (\d+)", file.read())[1])
    given = [np.ascontiguousarray(each) for each in inputs]
    for array, port in zip(given, module.inputs, strict=True):
        if array.dtype.name != port.dtype or array.shape != tuple(port.shape):
            raise Error(
                f"input '{port.name}' is {array.dtype.name} {list(array.shape)}, not {port.dtype} {list(port.shape)}"
            )
    outputs = [np.empty(port.shape, port.dtype) for port in module.outputs]
    arena = np.empty(arena_bytes + 64, np.uint8)
    start = arena.ctypes.data + (-arena.ctypes.data) % 64
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (*given, *outputs)]
    status = library.model_run(*addresses, ctypes.c_void_p(start))
    if status != 0:
        raise Error(f"the model's C function returns {status}")
    return tuple(outputs)
