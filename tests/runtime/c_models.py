"""Models as C source, compiled and called."""

import ctypes
import functools
import re
import shutil
import subprocess

import numpy
import pytest

WARNINGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
FLAGS = [*WARNINGS, "-ffp-contract=fast", "-fno-math-errno", "-march=native"]
# Compilers and options by what they are called in tests; the last one takes plain loops for
# vectors.
COMPILERS = {
    "gcc": ["gcc", "-O2"],
    "clang": ["clang-19", "-O1"],
    "loops": ["gcc", "-O1", "-DTC_NO_VECTORS"],
}


def compiler_of(name):
    """The command, or a skip that says what is not installed."""
    command = COMPILERS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def build(source, compiler, flags=()):
    """The shared library of model.c and its constants, beside them. Warnings are errors."""
    library = source.with_suffix(".so")
    command = [
        *compiler,
        *FLAGS,
        *flags,
        "-shared",
        "-fPIC",
        "-o",
        library,
        source,
        source.with_name(source.stem + "_weights.c"),
        "-lm",
    ]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=source.parent
    )
    assert done.returncode == 0, done.stderr[:5000]
    return library


def macros(source):
    """The numbers that the header defines."""
    return {
        name: int(value)
        for name, value in re.findall(
            r"^#define (\w+) (\d+)", source.with_suffix(".h").read_text(), re.MULTILINE
        )
    }


def aligned(size):
    """Bytes of memory at a multiple of 64, filled with what is no number."""
    block = numpy.full(size + 64, 0xA5, numpy.uint8)
    begin = -block.ctypes.data % 64
    return block[begin : begin + size]


class CModel:
    """A model's function, loaded. `inputs` and `outputs` are arrays in the model's order."""

    def __init__(self, source, compiler, flags=()):
        self.prefix = source.stem
        self.numbers = macros(source)
        self.library = ctypes.CDLL(str(build(source, compiler, flags)))
        self.function = getattr(self.library, self.prefix + "_run")
        self.arena = aligned(self.numbers[self.prefix.upper() + "_ARENA_BYTES"])

    def call(self, inputs, outputs):
        """What the function returns."""
        return self.bound(inputs, outputs)()

    def bound(self, inputs, outputs):
        """A function of no arguments that calls the model with these arrays: to be timed, since
        making a pointer takes Python microseconds."""
        pointers = [
            array.ctypes.data_as(ctypes.c_void_p) for array in [*inputs, *outputs, self.arena]
        ]
        return functools.partial(self.function, *pointers)

    def run(self, inputs, like):
        """Its outputs: arrays like those of `like`."""
        inputs = [numpy.ascontiguousarray(array) for array in inputs]
        for number, array in enumerate(inputs):
            assert array.nbytes == self.numbers[f"{self.prefix.upper()}_INPUT_{number}_BYTES"]
        outputs = [numpy.zeros(numpy.shape(array), numpy.asarray(array).dtype) for array in like]
        for number, array in enumerate(outputs):
            assert array.nbytes == self.numbers[f"{self.prefix.upper()}_OUTPUT_{number}_BYTES"]
        before = [array.copy() for array in inputs]
        assert self.call(inputs, outputs) == 0
        assert all(
            numpy.array_equal(a.view(numpy.uint8), b.view(numpy.uint8))
            for a, b in zip(inputs, before)
        )
        return outputs
