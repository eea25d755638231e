"""SpacemiT's matrix instruction in whole networks: files of MLPerf Tiny give the same integers as
the reference kernels of TensorFlow Lite.

qemu does not know the instruction: a handler of SIGILL computes it (tests/qemu/ime_emulator.c)."""

import numpy as np
import pytest

import tc

from ..frontend.tflite_models import litert, path_of, reference, seeded
from ..qemu import qemu_path, run_riscv64
from ..qemu.kernels import emulator_object, link_with_symbols
from ..support import input_options, output_file

TARGET = "spacemit-x60+xsmtvdot"
# Files, and how many of their kernels use the instruction, at least.
FILES = {
    "keyword spotting": ("mlperf_tiny/kws_ref_model", 4),
    "image classification": ("mlperf_tiny/pretrainedResnet_quant", 8),
    "visual wake words": ("mlperf_tiny/vww_96_int8", 11),
    "anomaly detection": ("mlperf_tiny/ad01_int8", 8),
    "streaming wake word": ("mlperf_tiny/str_ww_ref_model", 3),
}


def count_using(module):
    """How many of its kernels use the instruction."""
    return sum(any(" uint8 " in line for line in each["trace"]) for each in module.kernels)


def linked(module, folder):
    """The executable with the emulator, or a skip that names what is missing."""
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    try:
        emulator = emulator_object(folder)
        link_with_symbols(module, folder / "model", [emulator])
    except RuntimeError as missing:
        pytest.skip(str(missing))
    return folder / "model"


@pytest.mark.parametrize("task", FILES)
def test_networks_are_exact(task, tmp_path):
    litert()
    name, least = FILES[task]
    module = tc.compile(path_of(name), TARGET, threads=1, log=False)
    assert count_using(module) >= least
    executable = linked(module, tmp_path)
    arrays = seeded(module.inputs, 5)
    named = {port.name: array for port, array in zip(module.inputs, arrays)}
    folder = tmp_path / "out"
    folder.mkdir()
    code, _, error, _ = run_riscv64(
        executable,
        [*input_options(named, tmp_path), "--output-dir", str(folder), "--threads", "1"],
        core="spacemit-x60",
    )
    assert code == 0, error.decode()
    (theirs,) = reference(path_of(name), arrays)
    (port,) = module.outputs
    mine = np.load(folder / output_file(port.name))
    assert mine.dtype == theirs.dtype == np.int8
    np.testing.assert_array_equal(mine, theirs)


def test_a_machine_without_it_is_refused(tmp_path):
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    module = tc.compile(path_of("mlperf_tiny/kws_ref_model"), TARGET, threads=1, log=False)
    module.export(str(tmp_path / "model"), kind="executable")
    code, _, error, _ = run_riscv64(tmp_path / "model", ["--repeat", "1"], core="spacemit-x60")
    assert code != 0
    assert b"'xsmtvdot', which this machine lacks" in error
