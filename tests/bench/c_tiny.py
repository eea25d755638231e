"""C source of the files of MLPerf Tiny beside that of other generators, compiled alike.

`python -m tests.bench.c_tiny [FILE ...] --peers PYTHON [--rounds N]`: PYTHON is that of an
environment with the packages `bakenn[tflite]`, `emx-onnx-cgen` and `tflite2onnx`; without it, the
table has tc's rows alone. The files are $TC_MODELS/mlperf_tiny/*.tflite, with a batch of 1 and
without a softmax at the end, for all alike. For each of them and each generator: the least
processor time of a run compiled by `gcc -O3 -march=native`, and, compiled by `-Os` for x86-64 and
for a Cortex-M4, the bytes of read-only memory (code and constants), and of others (arena, data,
and the largest stack frame). In the rows `small`, tc is told by max_flash that nothing fits beyond
the constants or the file, which gives its smallest code. All results are compared with tc's own.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

import tc
from tests.bench.c_source import least
from tests.runtime.c_models import aligned
from tests.support import verdict

FLAGS = ["-std=c99", "-w", "-ffp-contract=fast", "-fno-math-errno"]
FAST = ["gcc", "-O3", "-march=native"]
M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
# Compiler, the target that tc makes its loops for, and the prefix of `size`.
SMALL = {
    "x86-64": (["gcc", "-Os", "-march=native"], "native", ""),
    "Cortex-M4": (["arm-none-eabi-gcc", "-Os", *M4], "rv32imfc", "arm-none-eabi-"),
}
OWN = ["tc", "small"]  # the second with max_flash
PEERS = ["emx", "bakenn"]
SECONDS = 300  # that a compiler may take


def worker(python, *arguments):
    # Isolated: a module beside the program is called like the package tflite.
    command = [python, "-I", Path(__file__).with_name("c_peer_worker.py"), *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} cannot run the peers: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1]).get("refused")


def write(generator, file, folder, target, python):
    """The generator's sources in the folder; a sentence where it refuses the file."""
    folder.mkdir(parents=True, exist_ok=True)
    if generator in PEERS:
        return worker(python, generator, file, folder)

    def export(**options):
        tc.compile(str(file), target, threads=1, log=False, **options).export(
            folder / "model.c", kind="c"
        )

    export()
    if generator == "small":
        header = (folder / "model.h").read_text()
        constants = int(re.search(r"_WEIGHTS_BYTES (\d+)", header)[1])
        export(max_flash=min(constants, file.stat().st_size))
    return None


def compiled(command, folder, *more):
    """Whether all sources of the folder compile in time."""
    sources = sorted(path.name for path in folder.glob("*.c"))
    done = subprocess.run(
        [*command, *FLAGS, *more, *sources], cwd=folder, check=False, timeout=SECONDS
    )
    return done.returncode == 0


def arena(generator, folder):
    """Bytes of the arena that callers give."""
    text = "".join(path.read_text() for path in folder.glob("*.h"))
    sizes = re.findall(r"^#define \w+_ARENA_(?:SIZE|BYTES) (\d+)", text, re.MULTILINE)
    return int(sizes[0]) if sizes else 0


def sizes(generator, folder, compiler, prefix):
    """(read-only bytes, other bytes)."""
    for old in [*folder.glob("*.o"), *folder.glob("*.su")]:
        old.unlink()
    if not compiled(compiler, folder, "-c", "-fstack-usage"):
        return None
    objects = [str(path) for path in folder.glob("*.o")]
    lines = subprocess.run(
        [prefix + "size", *objects], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    code, data, zeros = (sum(int(line.split()[i]) for line in lines) for i in range(3))
    frames = "".join(path.read_text() for path in folder.glob("*.su"))
    stack = max(int(size) for size in re.findall(r"\t(\d+)\t", frames))
    given = 0 if generator in OWN else arena(generator, folder)  # tc's block counts as zeros
    return code + data, data + zeros + given + stack


class Run:
    """A generator's function with arrays of its own."""

    def __init__(self, generator, folder, inputs, output):
        self.output = numpy.zeros_like(output)
        library = folder / "model.so"
        if not compiled(FAST, folder, "-shared", "-fPIC", "-o", str(library), "-lm"):
            raise ValueError(f"gcc does not compile the source of {generator}")
        loaded = ctypes.CDLL(str(library))
        if generator == "emx":  # tflite2onnx puts the channels of pictures first
            inputs = [
                numpy.ascontiguousarray(numpy.moveaxis(each, -1, 1)) if each.ndim == 4 else each
                for each in inputs
            ]
        self.inputs = inputs
        self.arena = aligned(max(64, arena(generator, folder)))
        array = dict.fromkeys(OWN, [*inputs, self.output, self.arena])
        array["emx"] = [*inputs, self.output]
        array["bakenn"] = [self.arena, *inputs, self.output]
        self.pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in array[generator]]
        name = {"emx": "model", "bakenn": "bknn_model_infer"}.get(generator, "model_run")
        self.function = getattr(loaded, name)

    def __call__(self):
        self.function(*self.pointers)


def differ(found, wanted):
    """Whether results differ by more than one step of an integer, or by rounding of floats."""
    distance = numpy.abs(found.astype(float) - wanted.astype(float)).max()
    most = numpy.abs(wanted.astype(float)).max()
    return distance > (1 if wanted.dtype.kind == "i" else 1e-4 * max(most, 1e-3))


def measure(file, generators, python, rounds, folder):
    """Prints the rows of one file; whether all results are those of tc's own code."""
    if python:
        worker(python, "prepare", file, folder / file.name)
    taken = folder / file.name if python else file
    random, runs = numpy.random.default_rng(0), {}
    module = tc.compile(str(taken), threads=1, log=False)
    inputs = [
        random.integers(-128, 128, port.shape).astype(numpy.int8)
        if port.dtype == "int8"
        else random.standard_normal(port.shape).astype(numpy.float32)
        for port in module.inputs
    ]
    expected = module(*inputs)
    refused, right, table = {}, True, {}
    for generator in generators:
        place = folder / generator
        refused[generator] = write(generator, taken, place, "native", python)
        if not refused[generator]:
            runs[generator] = Run(generator, place, inputs, expected)
            runs[generator]()
            if differ(runs[generator].output, expected):
                right, refused[generator] = False, "WRONG"
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for generator, run in runs.items():
            times[generator] = min(times[generator], least(run, 0.1))
    for machine, (compiler, target, prefix) in SMALL.items():
        if shutil.which(compiler[0]) is None:
            print(f"{compiler[0]} is not installed", file=sys.stderr)
            continue
        for generator in runs:
            place = folder / f"{generator}-{machine}"
            write(generator, taken, place, target, python)
            table[generator, machine] = sizes(generator, place, compiler, prefix)
    for generator in generators:
        if generator not in runs:
            print(f"{file.stem:24} {generator:7} refused: {refused[generator]}", flush=True)
            continue
        cells = [table.get((generator, machine)) for machine in SMALL]
        shown = " ".join(f"{cell[0]:9,} {cell[1]:8,}" if cell else f"{'-':>18}" for cell in cells)
        print(
            f"{file.stem:24} {generator:7} {1e6 * times[generator]:9.1f} {shown}"
            f" {refused[generator] or ''}",
            flush=True,
        )
    return right


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE", type=Path)
    parser.add_argument("--peers", metavar="PYTHON", help="that of an environment with the peers")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    files = given.files or sorted(Path(os.environ["TC_MODELS"], "mlperf_tiny").glob("*.tflite"))
    machines = " ".join(f"{machine:>9} {'RAM':>8}" for machine in SMALL)
    print(f"{'file':24} {'by':7} {'us':>9} {machines}")
    wrong = []
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            peers = PEERS if given.peers else []
            if not measure(file, [*OWN, *peers], given.peers, given.rounds, Path(folder)):
                wrong.append(file.name)
    return verdict(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
