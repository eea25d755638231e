"""The simulator Spike: extensions that teach it instructions, and programs that run a model on it.

A program ends with status 0, with 1 where the model refuses its arguments, and with 2 at a trap:
then its output are the cause and the value of the trap, so that a test can tell which instruction
it was."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PACKAGE = Path(sysconfig.get_paths()["purelib"]) / "riscv" / "data"  # of the Python package spike
SPIKE, COMPILER = PACKAGE / "bin" / "spike", "riscv64-linux-gnu-gcc"
MISSING = [
    name
    for name, found in (
        ("spike (pip install --pre spike)", SPIKE.exists()),
        ("dtc (device-tree-compiler)", shutil.which("dtc")),
        ("g++", shutil.which("g++")),
        (COMPILER, shutil.which(COMPILER)),
    )
    if not found
]
FLAGS = ["-O2", "-mabi=lp64d", "-mcmodel=medany", "-msmall-data-limit=0", "-ffreestanding"]
FLAGS += ["-fno-builtin", "-fno-tree-loop-distribute-patterns", "-fno-pic", "-nostdlib", "-static"]
FLAGS += ["-no-pie", "-march=rv64gc"]
TRAPPED = 2
ILLEGAL_INSTRUCTION = 2


class Trapped(Exception):
    """The program ended at a trap. The value of an illegal instruction is its word."""

    def __init__(self, cause, value):
        super().__init__(f"trap {cause}, {value:#x}")
        self.cause, self.value = cause, value


def command(*words, cwd=None):
    done = subprocess.run([str(each) for each in words], capture_output=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout


def build_extension(source, folder):
    """The library with which Spike knows the instructions of a C++ file of this folder."""
    library = folder / f"lib{Path(source).stem}.so"
    include = PACKAGE / "include"
    folders = [f"-I{each}" for each in (include, include / "riscv", include / "softfloat")]
    # The package is compiled with the library's old strings.
    flags = ["-std=c++20", "-O2", "-shared", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=0"]
    command("g++", *flags, *folders, HERE / source, "-o", library)
    return library


def run_program(files, output_bytes, x, isa, extension, folder):
    """The bytes of the output of the model in the folder, whose header is model.h, for input x.
    `files` are its sources or objects."""
    (folder / "input.inc").write_text(",".join(map(str, x.tobytes())))
    command(
        COMPILER,
        *FLAGS,
        f"-DMODEL_OUTPUT_BYTES={output_bytes}",
        "-I.",
        HERE / "spike_program.c",
        *files,
        f"-T{HERE / 'spike_program.ld'}",
        "-Wl,--no-relax,--build-id=none",
        "-lm",
        "-lgcc",
        "-o",
        "program",
        cwd=folder,
    )
    words = [SPIKE, f"--isa={isa}", f"--extlib={extension}", "--priv=m", "-m64", "program"]
    done = subprocess.run([str(each) for each in words], capture_output=True, cwd=folder)
    if done.returncode == TRAPPED:
        raise Trapped(*np.frombuffer(done.stdout, np.uint64).tolist())
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    return done.stdout
