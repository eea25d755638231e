"""The pages of the C interface and of bare models: their programs and commands are run as
pasted."""

import os
import re
import shutil
import subprocess
import sys

import numpy
import pytest

import tc
from tc.cli import main

from ..support import ROOT, models_folder
from .bare_models import BARE, LLVM, keyword_network, run_tool, said, words, write_samples
from .linked_models import layer, save_layer

C_PAGE, BARE_PAGE = ((ROOT / "docs" / name).read_text() for name in ("c.md", "bare.md"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


def program_blocks(folder):
    """Writes the programs of the page under the names that their first lines tell."""
    for text in blocks(C_PAGE, "c"):
        (folder / re.match(r"/\* (\w+\.c): ", text)[1]).write_text(text)


@pytest.fixture(name="shell")
def shell_of_folder(tmp_path):
    """Runs a block in a folder, with this Python as `python` and LLVM's tools."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tools / "python").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}:{LLVM}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }

    def run(text, folder):
        done = subprocess.run(
            ["sh", "-e", "-c", text],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(name="folder")
def folder_of_models(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    for number, name in enumerate(("model", "first", "second")):
        save_layer(number, folder / f"{name}.onnx")
    program_blocks(folder)
    return folder


def of_ones(number):
    model, x, _ = layer(number)
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, {"x": numpy.ones_like(x)})[0]


def test_the_program_that_opens_a_file(shell, folder):
    said = shell(blocks(C_PAGE, "sh")[0], folder).splitlines()[-1]
    name, numbers = said.split(":")
    assert name == "y" and numpy.allclose(
        [float(word) for word in numbers.split()], of_ones(0).ravel(), rtol=1e-4, atol=1e-5
    )


def check_two(said):
    found = dict(re.findall(r"^(\S+): (\S+)$", said, re.M))
    for number, name in ((1, "first.onnx"), (2, "second.onnx")):
        assert (
            abs(float(found.get(name, found.get(f"layer{number}", "nan"))) - of_ones(number)[0, 0])
            <= 1e-4
        ), said


def test_two_models_in_one_program(shell, folder):
    for number, name in ((1, "first"), (2, "second")):
        save_layer(number, folder / f"{name}.onnx")
    check_two(shell(blocks(C_PAGE, "sh")[1], folder))


def cmake_build(shell, text, folder):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    (folder / "CMakeLists.txt").write_text(text)
    shell("cmake -S . -B build && cmake --build build", folder)


def test_two_models_by_cmake(shell, folder):
    for number, name in ((1, "first"), (2, "second")):
        save_layer(number, folder / f"{name}.onnx")
    cmake_build(shell, blocks(C_PAGE, "cmake")[0], folder)
    check_two(shell("build/two", folder))


@pytest.fixture(name="board")
def folder_of_a_board(tmp_path):
    """What the page says that is there: the model, its samples, and the sources of the example."""
    folder = tmp_path / "board"
    shutil.copytree(BARE, folder)
    keyword_network(folder / "model.onnx")
    samples = [words(noise_seed=4)[word] for word in (1, 5)]
    write_samples(folder, samples)
    return folder


def check_program(path):
    code = run_tool("llvm-objdump", "--disassemble", "--mattr=+v", path)
    assert "<model_run>" in code and "file format elf64-littleriscv" in code
    assert "undefined" not in run_tool("llvm-nm", "--undefined-only", path)


def build_of(target):
    """The one block of the page that builds a program for this target."""
    (text,) = (
        block
        for block in blocks(BARE_PAGE, "sh")
        if "clang" in block and f"--target {target} " in block
    )
    return text


def test_a_program_for_a_board(shell, board):
    shell(build_of("rv64gcv"), board)
    check_program(board / "program.elf")


def test_a_program_that_boots_on_a_board_of_arm(shell, board):
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    pytest.importorskip("tflite")
    shutil.copy(models_folder() / "mlperf_tiny" / "kws_ref_model.tflite", board)
    sample = numpy.random.default_rng(3).integers(-128, 128, (1, 49, 10, 1)).astype(numpy.int8)
    write_samples(board, [sample])
    # Semihosting writes to the error stream of the emulator.
    output = shell(f"{{ {build_of('cortex-m4')} }} 2>&1", board)
    classes, outputs, _ = said(output, numpy.int8)
    expected = tc.compile(board / "kws_ref_model.tflite", log=False)(sample)
    numpy.testing.assert_array_equal(outputs[0], numpy.ravel(expected))
    assert classes == [int(numpy.argmax(expected))]


def test_a_program_for_a_board_by_cmake(shell, board):
    tc.compile(board / "model.onnx", target="rv64gcv", log=False).export(
        board / "model.o", kind="bare"
    )
    cmake_build(shell, blocks(BARE_PAGE, "cmake")[0], board)
    check_program(board / "build" / "program.elf")


def test_cflags(capsys):
    assert main(["cflags"]) == 0
    (flag,) = capsys.readouterr().out.split()
    assert (
        flag.startswith("-I")
        and os.path.isfile(f"{flag[2:]}/tc_runtime.h")
        and os.path.isfile(f"{flag[2:]}/abi.h")
    )
    assert main(["cflags", "--libs", "--machine", "riscv64"]) == 0
    words_said = capsys.readouterr().out.split()
    assert (
        words_said[0].endswith("/riscv64/libtc_runtime.a")
        and os.path.isfile(words_said[0])
        and words_said[1:] == ["-lpthread", "-ldl", "-lm"]
    )
    assert main(["cflags", "--libs", "--machine", "pdp11"]) == 1
    assert capsys.readouterr().err == (
        "tc: there is no runtime to link programs for 'pdp11' with; this installation has x86_64, aarch64, riscv64\n"
    )
