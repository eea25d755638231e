"""Programs in C with several models of any kind in them, for every target and compiler that is
here."""

import functools
import re
import shutil
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import ROOT, emulate_aarch64
from .bare_models import LLVM, link, run_as_process

SUFFIXES = {"static": ".a", "object": ".o", "bare": ".o", "shared": ".so"}
CLANG = f"{LLVM}/clang"
# Target: the compilers of this machine for it, and where its runtime lies in the package.
COMPILERS = {
    "x86-64-v3": {"gcc": ["gcc"], "clang": [CLANG]},
    "aarch64": {
        "clang": [CLANG, "--target=aarch64-linux-gnu", f"-fuse-ld={LLVM}/ld.lld", "-static"]
    },
    "rv64gcv": {
        "clang": [
            CLANG,
            "--target=riscv64-linux-gnu",
            "-march=rv64gc",
            f"-fuse-ld={LLVM}/ld.lld",
            "-static",
        ]
    },
}
RUNTIMES = {"x86-64-v3": "x86_64", "aarch64": "aarch64", "rv64gcv": "riscv64"}
SYSTEM = ["-lpthread", "-ldl", "-lm"]


def layer(number):
    """A model of its own sizes and weights, its input, and what it gives."""
    random = numpy.random.default_rng(number)
    rows, depth, columns = 2 + number, 5 + 3 * number, 7 + number
    weights = random.standard_normal((depth, columns)).astype(numpy.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Add", ["s", "b"], ["t"]),
        helper.make_node("Softsign", ["t"], ["y"]),
    ]
    bias = random.standard_normal(columns).astype(numpy.float32)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [rows, depth]), ("y", [rows, columns]))
    ]
    graph = helper.make_graph(
        nodes,
        f"layer{number}",
        ports[:1],
        ports[1:],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    x = random.standard_normal((rows, depth)).astype(numpy.float32)
    sums = x.astype(numpy.float64) @ weights + bias
    return (
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        x,
        sums / (1 + numpy.abs(sums)),
    )


@functools.cache
def compiled(number, target):
    return tc.compile(layer(number)[0].SerializeToString(), target=target, threads=1, log=False)


def export(folder, names_and_kinds, target):
    """Writes model i under the i-th name and kind."""
    for number, (name, kind) in enumerate(names_and_kinds):
        compiled(number, target).export(folder / f"{name}{SUFFIXES[kind]}", kind=kind)


def array_text(array):
    return "{" + ", ".join(f"{float(value)!r}f" for value in array.ravel()) + "}"


# For a program on an operating system; `run_linked` runs a model that the runtime opens.
HOSTED = """
#include <stdio.h>
static void write_floats(const float* values, int count) {
  for (int i = 0; i < count; ++i) printf("%a ", (double)values[i]);
  printf("\\n");
}
"""
RUN_LINKED = """
#include "tc_runtime.h"
static int run_linked(const struct tc_descriptor* descriptor, const float* in, unsigned long in_bytes, float* out, unsigned long out_bytes) {
  tc_model* model = NULL;
  tc_context* context = NULL;
  tc_input_buffer input = {in, in_bytes};
  tc_output_buffer output = {out, out_bytes};
  if (tc_model_open_linked(descriptor, &model) != TC_OK || tc_context_create(model, 1, &context) != TC_OK ||
      tc_context_run(context, &input, 1, &output, 1) != TC_OK) {
    fprintf(stderr, "%s\\n", tc_last_error());
    return 1;
  }
  tc_context_destroy(context);
  tc_model_close(model);
  return 0;
}
"""


def program_text(names_and_kinds, headers=True):
    """main.c: runs each model twice, in turns, and writes what it gives."""
    opened = [kind != "bare" for _, kind in names_and_kinds]
    lines = [HOSTED, RUN_LINKED if any(opened) else ""]
    for number, (name, kind) in enumerate(names_and_kinds):
        _, x, y = layer(number)
        if headers and kind != "shared":
            lines.append(f'#include "{name}.h"')
        elif kind != "bare":
            lines.append(f"extern const struct tc_descriptor {name}_descriptor;")
        lines += [
            f"static _Alignas(64) const float in{number}[] = {array_text(x)};",
            f"static _Alignas(64) float out{number}[{y.size}];",
        ]
    lines += ["int main(void) {", "  for (int turn = 0; turn < 2; ++turn) {"]
    for number, (name, kind) in enumerate(names_and_kinds):
        call = (
            f"{name}_run(in{number}, out{number}, {name}_arena)"
            if kind == "bare"
            else f"run_linked(&{name}_descriptor, in{number}, sizeof in{number}, out{number}, sizeof out{number})"
        )
        lines.append(f"    if ({call} != 0) return 1;")
    lines += [
        "  }",
        *(
            f"  write_floats(out{number}, {layer(number)[2].size});"
            for number in range(len(names_and_kinds))
        ),
        "  return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def link_command(folder, names_and_kinds, target, compiler):
    """The command that makes `program` of main.c and the models."""
    words = [
        *COMPILERS[target][compiler],
        "-std=c11",
        "-O1",
        "-Wall",
        "-Werror",
        f"-I{folder}",
        f"-I{ROOT}/runtime",
        folder / "main.c",
    ]
    words += [folder / f"{name}{SUFFIXES[kind]}" for name, kind in names_and_kinds]
    if all(kind != "static" for _, kind in names_and_kinds):
        words.append(tc.native.LIBRARY_FOLDER + f"/{RUNTIMES[target]}/libtc_runtime.a")
    return [str(word) for word in [*words, *SYSTEM, "-o", folder / "program"]]


def run_program(folder, target):
    if target == "aarch64":
        done = emulate_aarch64(folder / "program", [])
        code, out, err = done.returncode, done.stdout.decode(), done.stderr.decode()
    elif target == "rv64gcv":
        if shutil.which("qemu-riscv64") is None:
            pytest.skip("qemu-riscv64 is not installed")
        done = subprocess.run(
            ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0", folder / "program"],
            capture_output=True,
            text=True,
            check=False,
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        done = subprocess.run([folder / "program"], capture_output=True, text=True, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    assert code == 0, err
    return [
        numpy.array([float.fromhex(word) for word in line.split()]) for line in out.splitlines()
    ]


def run_hosted(folder, names_and_kinds, target, compiler, headers=True):
    """What each model gives in one program of the compiler."""
    if shutil.which(COMPILERS[target][compiler][0]) is None:
        pytest.skip(f"{compiler} is not installed")
    export(folder, names_and_kinds, target)
    (folder / "main.c").write_text(program_text(names_and_kinds, headers))
    done = subprocess.run(
        link_command(folder, names_and_kinds, target, compiler),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return run_program(folder, target)


def run_without_system(folder, names, target):
    """The same of bare models in a program without an operating system's library, on an emulator of
    programs."""
    export(folder, [(name, "bare") for name in names], target)
    lines = ['#include "board.h"', *(f'#include "{name}.h"' for name in names)]
    for number, _ in enumerate(names):
        _, x, y = layer(number)
        lines += [
            f"static _Alignas(64) const float in{number}[] = {array_text(x)};",
            f"static _Alignas(64) float out{number}[{y.size}];",
        ]
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
    ]
    lines += [
        f"  if ({name}_run(in{number}, out{number}, {name}_arena) != 0) return 1;"
        for number, name in enumerate(names)
    ]
    lines += [
        *(
            f"  write_bytes((const unsigned char*)out{number}, sizeof out{number});"
            for number, _ in enumerate(names)
        ),
        "  return 0;",
        "}",
    ]
    (folder / "arrays.c").write_text("\n".join(lines) + "\n")
    shutil.copy(folder / f"{names[0]}.o", folder / "model.o")
    others = [folder / f"{name}.o" for name in names[1:]]
    program = link(
        folder, target, [folder / "arrays.c", ROOT / "tests/runtime/bare_linux.c"], *others
    )
    return [
        numpy.frombuffer(bytes.fromhex(line), numpy.float32)
        for line in run_as_process(program, target).splitlines()
    ]


def symbols(path, *options):
    """{name: kind} of llvm-nm."""
    said = subprocess.run(
        [f"{LLVM}/llvm-nm", *options, str(path)], capture_output=True, text=True, check=True
    ).stdout
    return {name: kind for kind, name in re.findall(r"^[0-9a-f]* +(\w) (\w+)$", said, re.M)}


def save_layer(number, path):
    onnx.save(layer(number)[0], path)
