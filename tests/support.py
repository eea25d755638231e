"""What the end-to-end tests share: where models lie, errors, runs under qemu."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from .qemu import qemu_path, run_riscv64

ROOT = Path(__file__).resolve().parent.parent


def models_folder():
    """The folder of real model files, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("TC_MODELS", ROOT.parent / "shared" / "models"))
    if not folder.is_dir():
        pytest.skip(
            f"no model files: neither $TC_MODELS nor {folder.name} beside the project exists"
        )
    return folder


def worst_error(actual, expected):
    """Largest error relative to the expected array's largest magnitude; inf where shapes differ."""
    expected = numpy.asarray(expected)
    actual = numpy.asarray(actual)
    if actual.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    if not numpy.array_equal(
        numpy.isnan(actual.astype(float)), numpy.isnan(expected.astype(float))
    ):
        return float("inf")
    expected = expected.astype(numpy.float64)
    scale = numpy.nanmax(numpy.abs(expected)) or 1.0
    return float(numpy.nanmax(numpy.abs(actual.astype(numpy.float64) - expected)) / scale)


def onnxruntime_session(model):
    """ONNX Runtime on one model. Without VNNI its products of unsigned and signed bytes are cut at
    16 bits unless it is told to be precise."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    # Its threads would take the processor from the other file of tests that runs beside this one.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def verdict(failed):
    """The exit status of a command that prints a table: 1, and a line with the rows' names, where
    some do not hold what they have to."""
    if failed:
        print(f"not so: {', '.join(failed)}")
    return 1 if failed else 0


def expect_golden(path, text):
    """Fails where the file does not hold the text; with TC_UPDATE set to the repository's root,
    writes it instead."""
    if os.environ.get("TC_UPDATE"):
        path = Path(os.environ["TC_UPDATE"]) / path.relative_to(ROOT)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def output_file(name):
    """File name that an exported executable gives to an output."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name) + ".npy"


def run_under_qemu(executable, inputs, folder, vlen=256, vector=True, arguments=()):
    """Runs an exported riscv64 executable; returns its outputs by file name, or skips."""
    return count_under_qemu(executable, inputs, folder, vlen, vector, arguments)[0]


def count_under_qemu(executable, inputs, folder, vlen=256, vector=True, arguments=()):
    """As run_under_qemu; returns also the executed instructions of the whole process by class.

    The counting plugin always runs: it makes qemu several times faster (see count_plugin.cc).
    """
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    options = input_options(inputs, folder)
    outputs = Path(folder) / f"out_{vlen if vector else 0}"
    outputs.mkdir(exist_ok=True)
    code, _, error, counts = run_riscv64(
        executable,
        [*options, "--output-dir", str(outputs), *arguments],
        vlen=vlen,
        vector=vector,
        count=True,
        timeout=3 * 3600,
    )
    assert code == 0, error.decode()
    return {file.name: numpy.load(file) for file in outputs.glob("*.npy")}, counts


def input_options(inputs, folder):
    """An exported executable's options for these arrays, which are written into the folder."""
    options = []
    for number, (name, array) in enumerate(inputs.items()):
        file = Path(folder) / f"in_{number}.npy"
        numpy.save(file, array)
        options += ["--input", f"{name}={file}"]
    return options


def emulate_aarch64(program, arguments, core="max", libraries=None):
    """Runs a program for aarch64 on an emulated core, or skips; dynamic ones with the libraries of
    that folder."""
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed")
    folder = ["-L", libraries] if libraries else []
    command = ["qemu-aarch64", "-cpu", core, *folder, program, *arguments]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, timeout=3600, check=False
    )


def run_on_aarch64(executable, inputs, folder, core="max"):
    """Runs an exported aarch64 executable on an emulated core; returns its outputs by file name, or
    skips."""
    outputs = Path(folder) / f"out_{core}"
    outputs.mkdir(exist_ok=True)
    done = emulate_aarch64(
        executable, [*input_options(inputs, folder), "--output-dir", outputs], core
    )
    assert done.returncode == 0, done.stderr.decode()
    return {file.name: numpy.load(file) for file in outputs.glob("*.npy")}


def table_of_bench(name, folder, *arguments):
    """The table that the program tests.bench.NAME writes by --json; its exit status is 0."""
    table = folder / "table.json"
    result = subprocess.run(
        [sys.executable, "-m", f"tests.bench.{name}", "--json", str(table), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(table.read_text())
