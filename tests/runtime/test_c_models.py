"""The zoo's networks and the shared model files as C source, by compilers for this machine, and for
RISC-V and Arm processors that qemu emulates: a few in each check, all of them with --full."""

import shutil
import subprocess

import numpy
import pytest

import tc

from .. import zoo
from ..frontend.test_models import LIMIT, LOGISTIC, LOSES_DIGITS, MODELS, SMALL, reference
from ..support import models_folder, worst_error
from .c_models import COMPILERS, WARNINGS, CModel, compiler_of, macros

# Of each compiler for another machine: its command, the target of the loops, and what runs its
# programs. Of Linux, qemu-arm runs processes of larger cores alone: their instructions include
# those of a Cortex-M4.
CROSS = {
    "riscv64": (["riscv64-linux-gnu-gcc", "-march=rv64gc", "-static"], "rv64gc", ["qemu-riscv64"]),
    "arm": (
        [
            *("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"),
            *("-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
            *("-nostartfiles", "--specs=nosys.specs"),
        ],
        "cortex-m4",
        ["qemu-arm", "-cpu", "max"],
    ),
}

# Reads the inputs from the standard input, one behind the other, and writes the outputs so.
MAIN = """
#include <stdint.h>
#include "model.h"
#ifdef __arm__
static long call(long number, long file, void* bytes, long count) {
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = file;
  register void* r1 __asm__("r1") = bytes;
  register long r2 __asm__("r2") = count;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
  return r0;
}
#define read(file, bytes, count) call(3, file, bytes, count)
#define write(file, bytes, count) call(4, file, bytes, count)
#else
#include <unistd.h>
#endif
static void transfer(int out, void* block, long count) {
  for (uint8_t* bytes = (uint8_t*)block; count > 0;) {
    const long done = out ? write(1, bytes, count) : read(0, bytes, count);
    if (done <= 0) return;
    bytes += done;
    count -= done;
  }
}
#define BUFFER(name, count) static uint8_t name[(count) + 1] __attribute__((aligned(64)))
BUFFER(arena, MODEL_ARENA_BYTES);
%(buffers)s
int main(void) {
%(reads)s
  const int failed = model_run(%(arguments)s, arena);
%(writes)s
  return failed;
}
#ifdef __arm__
void _start(void) {
  call(1, main(), 0, 0);
}
#endif
"""

TINY = [
    "mlperf_tiny/ad01_int8.tflite",
    "mlperf_tiny/kws_ref_model.tflite",
    "mlperf_tiny/pretrainedResnet_quant.tflite",
    "mlperf_tiny/str_ww_ref_model.tflite",
    "mlperf_tiny/vww_96_int8.tflite",
    "mlperf_tiny/ad01_fp32.tflite",
    "mlperf_tiny/pretrainedResnet.tflite",
    "mlperf_tiny/vww_96_float.tflite",
]
BY_DEFAULT = [
    "mnist-8/model.onnx",
    "dtln/model_1.onnx",
    "gonnx_rnn/gru.onnx",
    "mlperf_tiny/kws_ref_model.tflite",
    "mlperf_tiny/ad01_int8.tflite",
]
# Networks of the zoo that an emulated processor runs in seconds.
SMALL_NETWORKS = ["nsnet2_step", "squeezenet1_1", "mobilenet_v2"]


def model_of(name):
    """The model's path, its inputs, its expected outputs and how far from them is right."""
    if name.endswith(".tflite"):
        pytest.importorskip("tflite")
        path = models_folder() / name
        module = tc.compile(path, threads=1, log=False)
        random = numpy.random.default_rng(4)
        inputs = {
            port.name: random.integers(-128, 128, port.shape).astype(numpy.int8)
            if numpy.dtype(port.dtype) == numpy.int8
            else random.random(port.shape, numpy.float32)
            for port in module.inputs
        }
        # Held to the reference kernels by tests/frontend/test_tflite.py.
        exact = all(array.dtype == numpy.int8 for array in inputs.values())
        return path, inputs, module.run(inputs), 0 if exact else LIMIT
    path, inputs, expected = reference(name)
    if name in LOGISTIC or name == LOSES_DIGITS:
        # These references are the farther ones from float64; the machine's own results are held to
        # it by tests/frontend/test_models.py.
        shapes = {key: array.shape for key, array in inputs.items()}
        expected = tc.compile(path, shapes=shapes, log=False).run(inputs)
    return path, inputs, expected, LIMIT


def write(path, inputs, target, folder):
    """The C source, the inputs in the model's order, and the outputs' names."""
    shapes = {key: array.shape for key, array in inputs.items()}
    module = tc.compile(path, target=target, threads=1, log=False, shapes=shapes)
    module.export(folder / "model.c", kind="c")
    return (
        folder / "model.c",
        [
            numpy.ascontiguousarray(inputs[port.name], numpy.dtype(port.dtype))
            for port in module.inputs
        ],
        [port.name for port in module.outputs],
    )


def run_here(path, inputs, expected, compiler, folder):
    source, arrays, names = write(path, inputs, "native", folder)
    found = CModel(source, compiler_of(compiler)).run(arrays, [expected[name] for name in names])
    return dict(zip(names, found))


def run_elsewhere(path, inputs, expected, machine, folder):
    """Outputs of the program that a compiler for another machine makes, under its emulator."""
    command, target, emulator = CROSS[machine]
    for tool in (command[0], emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    source, arrays, names = write(path, inputs, target, folder)
    numbers = macros(source)
    ports = [f"input_{number}" for number in range(len(arrays))]
    results = [f"output_{number}" for number in range(len(names))]
    size = lambda port: numbers[f"MODEL_{port.upper()}_BYTES"]
    assert [array.nbytes for array in arrays] == [size(port) for port in ports]
    lines = lambda text, items: "\n".join(text % {"name": i, "size": size(i)} for i in items)
    (folder / "main.c").write_text(
        MAIN
        % {
            "buffers": lines("BUFFER(%(name)s, %(size)d);", ports + results),
            "reads": lines("  transfer(0, %(name)s, %(size)d);", ports),
            "writes": lines("  transfer(1, %(name)s, %(size)d);", results),
            "arguments": ", ".join(f"(void*){port}" for port in ports + results),
        },
        encoding="utf-8",
    )
    program = folder / "program"
    flags = ["-O2", "-ffp-contract=fast", "-fno-math-errno"]
    # The model has to be free of warnings in C99; the program asks for GNU's registers.
    objects = []
    for text in (source, folder / "model_weights.c"):
        objects.append(text.with_suffix(".o"))
        run([*command, *WARNINGS, *flags, "-c", text, "-o", objects[-1]], folder)
    run([*command, *flags, folder / "main.c", *objects, "-lm", "-o", program], folder)
    done = subprocess.run(
        [*emulator, str(program)],
        input=b"".join(array.tobytes() for array in arrays),
        capture_output=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[:2000]
    assert len(done.stdout) == sum(map(size, results))
    found, begin = {}, 0
    for name, port in zip(names, results):
        like = numpy.asarray(expected[name])
        found[name] = numpy.frombuffer(done.stdout, like.dtype, like.size, begin).reshape(
            like.shape
        )
        begin += size(port)
    return found


def run(command, folder):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr[:5000]


def run_by(compiler):
    return run_elsewhere if compiler in CROSS else run_here


EACH = ["gcc", "clang", *CROSS]
SHARED = [
    pytest.param(
        name, compiler, marks=() if name in BY_DEFAULT and compiler == "gcc" else pytest.mark.full
    )
    for name in [*MODELS, *TINY]
    for compiler in EACH
    if compiler not in CROSS or name in (*SMALL, *TINY)
]


@pytest.mark.parametrize("name, compiler", SHARED)
def test_shared_models(name, compiler, tmp_path):
    path, inputs, expected, limit = model_of(name)
    found = run_by(compiler)(path, inputs, expected, compiler, tmp_path)
    worst = max(worst_error(found[key], array) for key, array in expected.items())
    print(f"{name} by {compiler}: worst error {worst:.2e} of the largest output")
    assert worst <= limit


@pytest.mark.full
@pytest.mark.parametrize(
    "name, compiler",
    [
        (name, compiler)
        for name in zoo.NETWORKS
        for compiler in EACH
        if compiler not in CROSS or name in SMALL_NETWORKS
    ],
)
def test_zoo(name, compiler, tmp_path):
    inputs, expected = zoo.reference(name)
    like = {key: array.astype(numpy.float32) for key, array in expected.items()}
    found = run_by(compiler)(str(zoo.export(name)), inputs, like, compiler, tmp_path)
    for key, array in expected.items():
        assert zoo.agrees(found[key], array), (key, zoo.distance(found[key], array))


def test_lists_are_exact():
    """Each model file of MLPerf Tiny is tested but the one that quantises floats while it runs."""
    files = {
        str(path.relative_to(models_folder()))
        for path in (models_folder() / "mlperf_tiny").glob("*.tflite")
    }
    assert files == {*TINY, "mlperf_tiny/kws_ref_model_float32.tflite"}
    assert set(COMPILERS) > {"gcc", "clang"}
