"""Peak memory of a run of every network of the zoo, beside ONNX Runtime's and OpenVINO's: `python
-m tests.memory [NAME ...]` prints the table of docs/memory.md, and with --update writes it there.
NAME:int8 is a network as tests.bench.quantised has it; it is printed alone.

What is measured is a C program's largest resident size (tests/runtime/run_model.c on the shared
artefact, tests/runtime/run_onnxruntime.c and run_openvino.c on the ONNX file).
"""

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import numpy_helper

import tc
from tc.native import LIBRARY_FOLDER

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "memory.md"
SYMBOLS = {"nsnet2": {"frames": 100}}
INT8 = ":int8"  # behind a network's name: as tests.bench.quantised has it
# What a run may need beside constants and arena.
ALLOWANCE = 12_000_000


def compile_c(source, output, *flags):
    """Builds one C file of the project as a user would."""
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-std=c99",
            "-O2",
            "-D_GNU_SOURCE",
            f"-I{ROOT}",
            str(ROOT / source),
            "-o",
            str(output),
            *map(str, flags),
            "-lpthread",
            "-lm",
        ],
        check=True,
    )
    return Path(output)


@functools.cache
def run_model_program():
    library = Path(LIBRARY_FOLDER) / platform.machine() / "libtc_runtime.a"
    return compile_c("tests/runtime/run_model.c", _folder() / "run_model", library)


@functools.cache
def run_onnxruntime_program():
    """Built with Debian's header and linked to the library of the Python package onnxruntime.
    OSError or CalledProcessError where one of them cannot be had."""
    import onnxruntime

    headers = ROOT / "build" / "onnxruntime"
    header_folder = headers / "usr" / "include" / "onnxruntime"
    if not (header_folder / "onnxruntime_c_api.h").exists():
        subprocess.run(
            [
                str(ROOT / "build_rules" / "debian_package.sh"),
                "trixie",
                "libonnxruntime-dev",
                str(headers),
            ],
            check=True,
        )
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    link = _folder() / "libonnxruntime.so.1"
    link.symlink_to(library)
    return compile_c(
        "tests/runtime/run_onnxruntime.c",
        _folder() / "run_onnxruntime",
        f"-I{header_folder}",
        library,
        f"-Wl,-rpath,{_folder()}",
    )


@functools.cache
def run_openvino_program():
    """Built with headers and libraries of the Python package openvino. ImportError or
    CalledProcessError where they cannot be had."""
    import openvino

    package = Path(openvino.__file__).parent
    (library,) = (package / "libs").glob("libopenvino_c.so.*")
    return compile_c(
        "tests/runtime/run_openvino.c",
        _folder() / "run_openvino",
        f"-I{package / 'include'}",
        library,
        f"-Wl,-rpath,{library.parent}",
    )


def measure(program, model, threads=1, symbols=None):
    """What the program prints about two runs of the model."""
    symbols = [f"{name}={value}" for name, value in (symbols or {}).items()]
    done = subprocess.run(
        [str(program), str(model), "--threads", str(threads), "--repeat", "2", *symbols],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} {model}: {done.stderr}")
    return json.loads(done.stdout)


def measure_artefact(path, name, threads=1, tolerance=0, target="native"):
    """Compiles the ONNX file and measures the shared artefact. With a tolerance filters that an
    algorithm transforms take more room than those of the file, and digits less."""
    with tempfile.TemporaryDirectory() as folder:
        artefact = Path(folder) / "model.so"
        tc.compile(str(path), threads=threads, tolerance=tolerance, target=target).save(artefact)
        return measure(run_model_program(), artefact, threads, SYMBOLS.get(name))


def constants_once(path):
    """Bytes of the ONNX file's constants, those with equal contents counted once."""
    graphs, contents = [onnx.load(path).graph], {}
    while graphs:
        graph = graphs.pop()
        tensors = list(graph.initializer)
        for node in graph.node:
            tensors += [a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        for tensor in tensors:
            data = numpy_helper.to_array(tensor).tobytes()
            contents[hash(data)] = len(data)
    return sum(contents.values())


# The largest resident size of a process and of those that it started and waited for (the linker).
# Not ru_maxrss of the process itself: that begins with the size of the one that started it.
_COMPILE = """
import json, re, resource, runpy, sys
model, artefact, target = sys.argv[1:]
if artefact:
    sys.argv = ["tc", "compile", model, "-o", artefact, "--target", target, "--json"]
    try:
        runpy.run_module("tc", run_name="__main__", alter_sys=True)
    except SystemExit as done:
        assert not done.code
else:
    import tc
    module = tc.compile(model, target)
own = int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([own << 10, children << 10]))
"""


def compile_peak(path, target="native", artefact=""):
    """Bytes that compiling an ONNX file at the default tolerance needs at most, in a process of its
    own: by tc.compile, or with the path of an artefact by `python -m tc compile -o`."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, str(path), str(artefact), target],
        capture_output=True,
        text=True,
        check=True,
    )
    return max(json.loads(done.stdout.splitlines()[-1]))


def beside(row):
    """Bytes of the peak that are none of constants, arena, and the caller's inputs and outputs."""
    return row["peak"] - row["constants"] - row["arena"] - row["inputs_outputs"]


def table_row(name, path, threads=1):
    row = measure_artefact(path, name, threads)
    peers = [
        measure(program(), path, threads, SYMBOLS.get(name))["peak"]
        for program in (run_onnxruntime_program, run_openvino_program)
    ]
    cells = [row["peak"], row["constants"], row["arena"], row["inputs_outputs"], *peers]
    return f"| {name} | " + " | ".join(f"{cell / 1e6:.1f}" for cell in cells) + " |"


def page_rows(names):
    """{network: its line in the table of docs/memory.md}."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {line.split()[1]: line for line in lines if line.split()[1] in names}


@functools.cache
def _folder():
    """A folder for programs that lives as long as this process."""
    _folder.keep = tempfile.TemporaryDirectory(prefix="tc-memory-")
    return Path(_folder.keep.name)


def main():
    from tests import zoo
    from tests.bench import quantised

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all networks")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--update", action="store_true", help="write the table into docs/memory.md")
    arguments = parser.parse_args()
    lines = []
    for name in arguments.names or zoo.NETWORKS:
        if name.endswith(INT8):
            print(
                table_row(name, quantised.export(name.removesuffix(INT8)), arguments.threads),
                flush=True,
            )
            continue
        lines.append(table_row(name, zoo.export(name), arguments.threads))
        print(lines[-1], flush=True)
    if arguments.update:
        rows = {**page_rows(zoo.NETWORKS), **{line.split()[1]: line for line in lines}}
        kept = [
            line
            for line in PAGE.read_text().splitlines()
            if line not in page_rows(zoo.NETWORKS).values()
        ]
        after = kept.index(next(line for line in kept if line.startswith("|---"))) + 1
        kept[after:after] = [rows[name] for name in zoo.NETWORKS if name in rows]
        PAGE.write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
