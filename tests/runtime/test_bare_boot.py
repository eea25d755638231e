"""The example of runtime/bare boots on an emulated machine without an operating system: start-up
code, linker script and serial line of its own."""

import shutil
import subprocess

import numpy
import pytest
from onnx.reference import ReferenceEvaluator

import tc

from ..support import models_folder, worst_error
from .bare_models import (
    BARE,
    keyword_network,
    link_example,
    run_tool,
    said,
    sounds,
    words,
    write_samples,
)

CORES = {
    "rv64gcv": "rv64,v=true,vlen=256,vext_spec=v1.0",
    "rv64gc": "rv64,v=false",
    "rv32imfc": "rv32,v=false,d=false",
}
RAM = 256 << 10


def boot(program, target, *options):
    """Exit code of the emulator, which the program decides, and what came over the serial line;
    skips where there is no emulator."""
    emulator = f"qemu-system-riscv{target[2:4]}"
    if shutil.which(emulator) is None:
        pytest.skip(
            f"{emulator} is not installed: apt install qemu-system-misc (./check --full does)"
        )
    done = subprocess.run(
        [
            emulator,
            "-machine",
            "virt",
            "-cpu",
            CORES[target],
            "-m",
            "16M",
            "-bios",
            "none",
            "-display",
            "none",
            "-monitor",
            "none",
            "-serial",
            "stdio",
            *options,
            "-kernel",
            str(program),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def linked(folder, target, *options):
    return link_example(
        folder,
        target,
        [BARE / "virt_riscv64.S", BARE / "virt_riscv64.c"],
        "-T",
        BARE / "virt_riscv64.ld",
        *options,
    )


@pytest.mark.parametrize("target", CORES)
def test_boots_and_tells_the_words(target, tmp_path):
    keyword_network(tmp_path / "keywords.onnx")
    tc.compile(tmp_path / "keywords.onnx", target=target).export(tmp_path / "model.o", kind="bare")
    spoken = [1, 5, 10]
    samples = [words(noise_seed=4)[word] for word in spoken]
    write_samples(tmp_path, samples)
    program = linked(tmp_path, target)
    code, output = boot(program, target)
    assert code == 0, output
    classes, outputs, (arena, weights, stack) = said(output, numpy.float32)
    assert classes == spoken
    session = ReferenceEvaluator(str(tmp_path / "keywords.onnx"))
    for sample, found in zip(samples, outputs):
        assert worst_error(found, session.run(None, {"frames": sample})[0].ravel()) <= 1e-4
    # The linker script has 256 KB of RAM for all but code and constants, 16 KB of them for the
    # stack.
    assert arena < RAM and 90_000 < weights < 200_000 and 0 < stack < 16384
    print(
        f"{target}: arena {arena}, weights {weights}, stack {stack}, {ram_of(program)} bytes of RAM in all"
    )
    assert ram_of(program) <= RAM


@pytest.mark.parametrize(
    "name, dtype, tolerance",
    [("kws_ref_model_float32", "float32", 1e-2), ("kws_ref_model", "int8", 0)],
)
def test_keyword_models_of_mlperf_tiny(name, dtype, tolerance, tmp_path):
    """Files of TensorFlow Lite, the second one of 8-bit integers; the reference kernels say which
    class is right."""
    path = models_folder() / "mlperf_tiny" / f"{name}.tflite"
    for package in "tflite", "ai_edge_litert.interpreter":
        pytest.importorskip(package)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_path=str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()

    def reference(sample):
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]

    samples = sounds(dtype, lambda sample: int(numpy.argmax(reference(sample))))
    tc.compile(path, target="rv64gcv").export(tmp_path / "model.o", kind="bare")
    write_samples(tmp_path, list(samples.values()))
    program = linked(tmp_path, "rv64gcv")
    code, output = boot(program, "rv64gcv")
    assert code == 0, output
    classes, outputs, (arena, weights, stack) = said(output, dtype)
    print(
        f"{name}: arena {arena}, weights {weights}, stack {stack}, {ram_of(program)} bytes of RAM in all"
    )
    assert classes == list(samples)
    for sample, found in zip(samples.values(), outputs):
        assert worst_error(found, reference(sample)) <= tolerance
    assert ram_of(program) <= RAM


def ram_of(program):
    """Bytes from the begin of the example's RAM to the end of its stack."""
    addresses = {
        line.split()[-1]: int(line.split()[0], 16)
        for line in run_tool("llvm-nm", program).splitlines()
        if len(line.split()) == 3
    }
    return addresses["stack_end"] - addresses["data_begin"]


def test_a_fault_is_told_over_the_serial_line(tmp_path):
    """Vector code on a core without vectors: the test above can fail."""
    keyword_network(tmp_path / "keywords.onnx")
    tc.compile(tmp_path / "keywords.onnx", target="rv64gcv").export(
        tmp_path / "model.o", kind="bare"
    )
    write_samples(tmp_path, words()[:1])
    code, output = boot(linked(tmp_path, "rv64gcv"), "rv64gc")
    assert code == 1 and "trap: mcause 0000000000000002 at 00000000800" in output
    assert "sample" not in output


def test_links_no_allocator(tmp_path):
    """Every function of the program is the example's, the model's, or copies memory."""
    keyword_network(tmp_path / "keywords.onnx")
    tc.compile(tmp_path / "keywords.onnx", target="rv64gcv").export(
        tmp_path / "model.o", kind="bare"
    )
    write_samples(tmp_path, words()[:1])
    lines = [line.split() for line in run_tool("llvm-nm", linked(tmp_path, "rv64gcv")).splitlines()]
    functions = {words_of[-1] for words_of in lines if len(words_of) == 3 and words_of[1] in "tT"}
    functions = {name for name in functions if not name.startswith((".L", "model_kernel_", "$"))}
    assert functions <= {
        "_start",
        "trap",
        "example_main",
        "write_number",
        "write_bytes",
        "stack_used",
        "board_write",
        "board_finish",
        "board_trap",
        "write_hex",
        "model_run",
        "copy",
        "memcpy",
        "memmove",
        "memset",
    }, functions
    assert not any(words_of[0] == "U" for words_of in lines)
