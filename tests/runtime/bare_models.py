"""Bare artefacts made into programs that need no library, and the keyword networks that they
run."""

import re
import shutil
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ..support import ROOT

LLVM = "/usr/lib/llvm-19/bin"
BARE = ROOT / "runtime/bare"
# Architecture of a target's name: LLVM's triple, the example's flags, and what runs a program of it
# here.
MACHINES = {
    "rv64gcv": (
        "riscv64-unknown-elf",
        ["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"],
        ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0"],
    ),
    "rv64gc": (
        "riscv64-unknown-elf",
        ["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"],
        ["qemu-riscv64", "-cpu", "rv64,v=false"],
    ),
    "rv32imfc": (
        "riscv32-unknown-elf",
        ["-march=rv32imfc", "-mabi=ilp32f", "-mcmodel=medany"],
        ["qemu-riscv32", "-cpu", "rv32,v=false,d=false"],
    ),
    "rv32imfc_zve32f": (
        "riscv32-unknown-elf",
        ["-march=rv32imfc", "-mabi=ilp32f", "-mcmodel=medany"],
        ["qemu-riscv32", "-cpu", "rv32,Zve32f=true,vlen=128"],
    ),
    # Of Linux, qemu-arm runs processes of larger cores alone: their instructions include these.
    "cortex-m4": (
        "thumbv7em-none-eabihf",
        ["-mcpu=cortex-m4", "-meabi", "gnu"],
        ["qemu-arm", "-cpu", "max"],
    ),
    "cortex-m7": (
        "thumbv7em-none-eabihf",
        ["-mcpu=cortex-m7", "-meabi", "gnu"],
        ["qemu-arm", "-cpu", "max"],
    ),
    "cortex-m33": (
        "thumbv8m.main-none-eabihf",
        ["-mcpu=cortex-m33", "-meabi", "gnu"],
        ["qemu-arm", "-cpu", "max"],
    ),
    "aarch64": ("aarch64-none-elf", [], ["qemu-aarch64"]),
    "x86-64-v3": ("x86_64-none-elf", ["-mno-red-zone"], []),
}
# Those whose programs run on emulated boards alone (cortex_m.py): one needs a compiler's library,
# the other has instructions that no core of Linux has.
ON_BOARDS = {
    "cortex-m0plus": ("thumbv6m-none-eabi", ["-mcpu=cortex-m0plus", "-meabi", "gnu"], []),
    "cortex-m55": ("thumbv8.1m.main-none-eabihf", ["-mcpu=cortex-m55", "-meabi", "gnu"], []),
}
CLASSES, FEATURES, FRAMES, CHANNELS = 12, 10, 49, 64


def words(noise_seed=None):
    """A sample of each class: seeded tones that rise and fall over the frames, with noise where
    that has a seed."""
    random, found = numpy.random.default_rng(7), []
    frames, features = numpy.mgrid[0:FRAMES, 0:FEATURES]
    for _ in range(CLASSES):
        speed, pitch, phase = (
            random.uniform(0.05, 0.6),
            random.uniform(0.2, 2.5),
            random.uniform(0, 6),
        )
        found.append(
            2 * numpy.cos(speed * frames + pitch * features + phase) + random.uniform(-1, 1)
        )
    if noise_seed is not None:
        found = [
            word + 0.2 * numpy.random.default_rng(noise_seed).standard_normal(word.shape)
            for word in found
        ]
    return [word.astype(numpy.float32)[None, None] for word in found]


def keyword_network(path, seed=0):
    """A depthwise separable network as MLPerf Tiny's for keywords: 49 frames of 10 features to the
    probabilities of 12 classes. Its weights are seeded, but for the last layer's, which know
    words(). Writes it; returns how many weights it has."""
    random = numpy.random.default_rng(seed)
    nodes, weights = [], []

    def constant(array):
        weights.append(numpy_helper.from_array(array.astype(numpy.float32), f"w{len(weights)}"))
        return weights[-1].name

    def layer(source, result, kernel, channels=1, **attributes):
        filters = random.standard_normal((CHANNELS, channels, *kernel)) * numpy.sqrt(
            2 / (channels * numpy.prod(kernel))
        )
        nodes.append(
            helper.make_node(
                "Conv",
                [source, constant(filters), constant(0.1 * random.standard_normal(CHANNELS))],
                [result + ".sum"],
                name=result,
                **attributes,
            )
        )
        nodes.append(helper.make_node("Relu", [result + ".sum"], [result], name=result + ".relu"))
        return result

    def model(output, shape):
        graph = helper.make_graph(
            nodes,
            "keywords",
            [helper.make_tensor_value_info("frames", TensorProto.FLOAT, [1, 1, FRAMES, FEATURES])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    value = layer("frames", "first", (10, 4), pads=[4, 1, 5, 1], strides=[2, 2])
    for number in range(4):
        value = layer(value, f"depthwise{number}", (3, 3), group=CHANNELS, pads=[1, 1, 1, 1])
        value = layer(value, f"pointwise{number}", (1, 1), channels=CHANNELS)
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["mean"], name="mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], name="flat"))
    session = ReferenceEvaluator(model("flat", [1, CHANNELS]))
    flat = numpy.concatenate([session.run(None, {"frames": word})[0] for word in words()]).astype(
        numpy.float64
    )
    centre = flat.mean(axis=0)
    # The scores of the words themselves are 8 for their own class and 0 for others.
    directions = 8 * numpy.linalg.pinv(flat - centre)
    nodes.append(
        helper.make_node(
            "Gemm",
            ["flat", constant(directions), constant(-centre @ directions)],
            ["scores"],
            name="scores",
        )
    )
    nodes.append(helper.make_node("Softmax", ["scores"], ["probabilities"], name="probabilities"))
    onnx.save(model("probabilities", [1, CLASSES]), path)
    return sum(int(numpy.prod(each.dims)) for each in weights)


def sounds(dtype, classify, count=3):
    """Seeded inputs of MLPerf Tiny's keyword models, each of another class; `classify` tells the
    class of one."""
    frames, features = numpy.mgrid[0:FRAMES, 0:FEATURES]
    found = {}
    for seed in range(100):
        random = numpy.random.default_rng(seed)
        tone = 20 * numpy.cos(
            random.uniform(0.05, 0.6) * frames
            + random.uniform(0.2, 2.5) * features
            + random.uniform(0, 6)
        )
        sample = (
            tone * random.choice([0.3, 1, 3])
            + numpy.where(features == 0, random.uniform(-100, 60), 0)
            + 5 * random.standard_normal(tone.shape)
        )
        sample = (numpy.clip(numpy.round(sample), -128, 127) if dtype == "int8" else sample).astype(
            dtype
        )[None, :, :, None]
        found.setdefault(classify(sample), sample)
        if len(found) == count:
            return found
    raise AssertionError(f"{count} sounds of different classes; found {len(found)}")


def run_tool(tool, *arguments):
    done = subprocess.run(
        [f"{LLVM}/{tool}", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def undefined_symbols(path):
    return sorted(
        line.split()[-1]
        for line in run_tool("llvm-nm", "--undefined-only", path).splitlines()
        if line.strip()
    )


def defined_globals(path):
    return sorted(
        line.split()[-1]
        for line in run_tool("llvm-nm", "--defined-only", "--extern-only", path).splitlines()
        if line.strip()
    )


def write_samples(folder, samples):
    rows = ",\n".join(
        "{"
        + ", ".join(
            repr(float(value)) + "f" if sample.dtype == numpy.float32 else str(value)
            for value in sample.ravel()
        )
        + "}"
        for sample in samples
    )
    (folder / "samples.h").write_text(
        f"#define SAMPLES {len(samples)}\nstatic const MODEL_INPUT_0_TYPE samples[SAMPLES][MODEL_INPUT_0_ELEMENTS] = {{\n{rows}}};\n"
    )


def link_example(folder, target, sources, *options):
    """The example with model.o and samples.h of the folder, and these sources of the board."""
    return link(folder, target, [BARE / "main.c", *sources], *options)


def link(folder, target, sources, *options):
    """A program of these sources, the memory functions and model.o of the folder."""
    triple, flags, _ = (MACHINES | ON_BOARDS)[target]
    objects = []
    for source in [BARE / "memory.c", *sources]:
        objects.append(folder / (source.name + ".o"))
        run_tool(
            "clang",
            f"--target={triple}",
            *flags,
            "-std=c11",
            "-O2",
            "-ffreestanding",
            "-fno-builtin",
            "-ffunction-sections",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-command-line-argument",
            f"-I{ROOT}",
            f"-I{BARE}",
            f"-I{folder}",
            "-c",
            source,
            "-o",
            objects[-1],
        )
    program = folder / "program"
    run_tool(
        "ld.lld", "-static", "--gc-sections", *options, *objects, folder / "model.o", "-o", program
    )
    return program


def said(output, dtype):
    """Classes and outputs by sample, and the numbers of the last line: bytes of arena, weights and
    stack."""
    rows = re.findall(r"sample \d+: class (\d+), output ([0-9a-f]+)\r?\n", output)
    last = re.search(r"arena (\d+) bytes, weights (\d+) bytes, stack (\d+) bytes", output)
    assert last, output
    return (
        [int(number) for number, _ in rows],
        [numpy.frombuffer(bytes.fromhex(text), dtype) for _, text in rows],
        [int(number) for number in last.groups()],
    )


def run_arrays(folder, target, inputs, outputs):
    """What model.o of the folder makes of these arrays, as a process: arrays like `outputs`, both
    in the model's order."""
    lines = ['#include "board.h"', '#include "model.h"']
    for i, array in enumerate(inputs):
        lines.append(
            f"static const _Alignas(64) unsigned char in{i}[] = {{{', '.join(map(str, numpy.ascontiguousarray(array).tobytes()))}}};"
        )
    lines += [
        f"static _Alignas(64) unsigned char out{i}[MODEL_OUTPUT_{i}_BYTES];"
        for i in range(len(outputs))
    ]
    given = ", ".join(
        [f"(const void*)in{i}" for i in range(len(inputs))]
        + [f"(void*)out{i}" for i in range(len(outputs))]
    )
    lines += [
        "static void write_bytes(const unsigned char* bytes, unsigned long count) {",
        "  char text[3] = {0};",
        "  for (unsigned long i = 0; i < count; ++i) {",
        '    text[0] = "0123456789abcdef"[bytes[i] >> 4];',
        '    text[1] = "0123456789abcdef"[bytes[i] & 15];',
        "    board_write(text);",
        "  }",
        '  board_write("\\n");',
        "}",
        "int example_main(void) {",
        f"  if (model_run({given}, model_arena) != MODEL_DONE) return 1;",
        *(f"  write_bytes(out{i}, sizeof out{i});" for i in range(len(outputs))),
        "  return 0;",
        "}",
    ]
    (folder / "arrays.c").write_text("\n".join(lines) + "\n")
    said_lines = run_as_process(
        link(folder, target, [folder / "arrays.c", ROOT / "tests/runtime/bare_linux.c"]), target
    ).splitlines()
    return [
        numpy.frombuffer(bytes.fromhex(text), array.dtype).reshape(array.shape)
        for text, array in zip(said_lines, outputs, strict=True)
    ]


def run_as_process(program, target):
    """The program's output; skips where nothing here runs it."""
    emulator = MACHINES[target][2]
    if emulator and shutil.which(emulator[0]) is None:
        pytest.skip(f"{emulator[0]} is not installed")
    done = subprocess.run(
        [*emulator, str(program)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
