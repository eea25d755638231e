"""What the end-to-end tests share: where models lie, errors, runs under qemu-riscv64."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parent.parent


def models_folder():
    """The folder of real model files, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("TC_MODELS", ROOT.parent / "shared" / "models"))
    if not folder.is_dir():
        pytest.skip(f"no model files: neither $TC_MODELS nor {folder.name} beside the project exists")
    return folder


def worst_error(actual, expected):
    """Largest error relative to the expected array's largest magnitude; inf where shapes differ."""
    expected = numpy.asarray(expected)
    actual = numpy.asarray(actual)
    if actual.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    if not numpy.array_equal(numpy.isnan(actual.astype(float)), numpy.isnan(expected.astype(float))):
        return float("inf")
    expected = expected.astype(numpy.float64)
    scale = numpy.nanmax(numpy.abs(expected)) or 1.0
    return float(numpy.nanmax(numpy.abs(actual.astype(numpy.float64) - expected)) / scale)


def output_file(name):
    """File name that an exported executable gives to an output."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name) + ".npy"


@functools.cache
def have_qemu():
    return shutil.which("qemu-riscv64") is not None


def run_under_qemu(executable, inputs, folder, vlen=256, vector=True, arguments=()):
    """Runs an exported riscv64 executable; returns its outputs by file name, or skips."""
    if not have_qemu():
        pytest.skip("qemu-riscv64 is not installed")
    cpu = f"rv64,v=true,vlen={vlen},vext_spec=v1.0" if vector else "rv64,v=false"
    command = ["qemu-riscv64", "-cpu", cpu, str(executable)]
    for number, (name, array) in enumerate(inputs.items()):
        file = Path(folder) / f"in_{number}.npy"
        numpy.save(file, array)
        command += ["--input", f"{name}={file}"]
    outputs = Path(folder) / f"out_{vlen if vector else 0}"
    outputs.mkdir(exist_ok=True)
    done = subprocess.run([*command, "--output-dir", str(outputs), *arguments], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return {file.name: numpy.load(file) for file in outputs.glob("*.npy")}
