"""Instructions and memory of MLPerf Tiny's networks of 8-bit integers on microcontrollers.

`python -m tests.bench.microcontrollers [FILE ...] [--target TARGET] [--max-ram SIZE]
[--max-flash SIZE] [--profile COUNT]`: the files are those of $TC_MODELS/mlperf_tiny. Each is
exported as kind `bare`, linked with the example's start-up code and run once on seeded input by
qemu-system-arm or, for targets rv32imfc, by qemu-system-riscv32. These count the instructions of
the run (tests/qemu/address_counts.cc), and of a Cortex-M the cycles that they take by the core's
table of timings (tests/bench/cortex_m_cycles.py). `small_mobilenet` in place of a file is the
network of tests/bench/small_mobilenet.py. Beside them, for the Cortex-M4, are the instructions of
TensorFlow Lite for Microcontrollers with CMSIS-NN (revisions 90b983c and 99f736a of summer 2026,
`gcc -O2`), counted alike. With --profile, also the addresses that execute most often, with their
instructions. Fails where a network's result is not that of tc on this machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import tc

from tests.bench import small_mobilenet
from tests.bench.cortex_m_cycles import TIMINGS, modelled_cycles
from tests.runtime.bare_models import BARE, link, run_tool
from tests.runtime.cortex_m import BOARDS, boot, link_for_board
from tests.runtime.test_bare_boot import boot as boot_virt
from tests.support import ROOT, verdict

# Instructions of one inference by TensorFlow Lite for Microcontrollers with CMSIS-NN.
PEERS = {
    "kws_ref_model": 7_697_890,
    "pretrainedResnet_quant": 29_863_200,
    "vww_96_int8": 24_101_874,
    "ad01_int8": 582_922,
}
# Files of ONNX are scaled in fixed point, as those of TensorFlow Lite are in any case.
QUANTISED = "fast"
PROGRAM = """
#include "board.h"
#include "model.h"
#include "sample.h"
static MODEL_OUTPUT_0_TYPE output[MODEL_OUTPUT_0_ELEMENTS];
__attribute__((noinline)) void measure_begin(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) void measure_end(void) { __asm__ volatile("nop"); }
int example_main(void) {
  measure_begin();
  const int status = model_run(sample, output, model_arena);
  measure_end();
  for (unsigned i = 0; i < sizeof output; ++i) {
    const unsigned byte = ((const unsigned char*)output)[i];
    const char text[3] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15], 0};
    board_write(text);
  }
  return status != MODEL_DONE;
}
"""


def plugin(folder):
    """The counting plugin, compiled."""
    built = folder / "address_counts.so"
    command = [
        "g++-12",
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        f"-I{ROOT}",
    ]
    subprocess.run([*command, ROOT / "tests/qemu/address_counts.cc", "-o", built], check=True)
    return built


def address_of(program, name):
    for line in run_tool("llvm-nm", program).splitlines():
        if line.split()[-1] == name:
            return line.split()[0]
    raise SystemExit(f"{program} has no function {name}")


def sample_of(port):
    shape = [size if isinstance(size, int) else 1 for size in port.shape]
    random = numpy.random.default_rng(0)
    if port.dtype == "int8":
        return random.integers(-128, 128, shape).astype(numpy.int8)
    return random.standard_normal(shape).astype(port.dtype)


def build(file, target, folder, max_ram=None, max_flash=None):
    """The program that runs the network once, the sizes of its parts, and its sample."""
    module = tc.compile(
        str(file),
        target=target,
        max_ram=max_ram,
        max_flash=max_flash,
        quantised=QUANTISED,
        log=False,
    )
    sizes = module.export(folder / "model.o", kind="bare")
    sample = sample_of(module.inputs[0])
    values = ", ".join(map(repr, sample.ravel().tolist()))
    (folder / "sample.h").write_text(
        f"static const MODEL_INPUT_0_TYPE sample[MODEL_INPUT_0_ELEMENTS] = {{{values}}};\n"
    )
    (folder / "main.c").write_text(PROGRAM)
    return program_of(folder, target), sizes, sample


def program_of(folder, target):
    """The program of main.c and model.o for the target's board."""
    plain, sources = target.partition("+")[0], [folder / "main.c"]
    if plain in BOARDS:
        # The boards of all cores but the Cortex-M33 and M55 have 4 MB of each memory.
        script = (BARE / "mps2.ld").read_text()
        if not BOARDS[plain].startswith("mps3"):
            script = script.replace("LENGTH = 512K", "LENGTH = 4M").replace("256K", "4M")
        (folder / "board.ld").write_text(script)
        return link_for_board(folder, plain, sources, script=folder / "board.ld")
    sources += [BARE / "virt_riscv64.S", BARE / "virt_riscv64.c"]
    script = (BARE / "virt_riscv64.ld").read_text()
    script = script.replace("LENGTH = 1M", "LENGTH = 4M").replace("0x80200000", "0x80800000")
    (folder / "board.ld").write_text(script)
    return link(folder, plain, sources, "-T", folder / "board.ld")


def count(program, target, folder, counting):
    """{address: executions} of a run between the markers, and the outputs' bytes."""
    place = folder / "counts.txt"
    begin, end = (address_of(program, f"measure_{name}") for name in ("begin", "end"))
    options = f"{counting},out={place},begin=0x{begin},end=0x{end}"
    plain = target.partition("+")[0]
    run = boot if plain in BOARDS else boot_virt
    code, output = run(program, plain, "-plugin", options)
    if code != 0:
        raise SystemExit(f"the program failed on {target}: {output}")
    rows = [line.split() for line in place.read_text().splitlines()]
    return {int(address, 16): int(times) for address, times in rows}, bytes.fromhex(output.strip())


def disassembly(program):
    return run_tool("llvm-objdump", "-d", "--no-show-raw-insn", program)


def print_profile(program, counts, most):
    """The functions of the program by executed instructions, and around the hottest addresses its
    code."""
    lines, shares, function = [], {}, ""
    for line in disassembly(program).splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        head = line.strip().split(":")[0]
        try:
            times = counts.get(int(head, 16), 0)
        except ValueError:
            continue
        shares[function] = shares.get(function, 0) + times
        lines.append((times, function, line.strip()))
    for name, total in sorted(shares.items(), key=lambda each: -each[1]):
        if total:
            print(f"  {total:12,} {name}")
    hottest = sorted((times for times, _, _ in lines), reverse=True)[:most]
    least = hottest[-1] if hottest else 0
    for times, name, line in lines:
        if times >= max(1, least):
            print(f"  {times:12,} {name:20} {line}")


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE", type=Path)
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--max-ram", metavar="SIZE")
    parser.add_argument("--max-flash", metavar="SIZE")
    parser.add_argument("--profile", type=int, default=0, metavar="COUNT")
    given = parser.parse_args(arguments)
    folder = Path(os.environ.get("TC_MODELS", "")) / "mlperf_tiny"
    files = given.files or [folder / f"{name}.tflite" for name in PEERS]
    print(
        f"{given.target:24} {'instructions':>13} {'TFLM+CMSIS-NN':>14} {'cycles':>12} {'flash':>9} {'(code)':>8} {'RAM':>8} {'stack':>6}"
    )
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        counting = plugin(Path(place))
        for file in files:
            work = Path(place) / file.stem
            work.mkdir()
            if str(file) == "small_mobilenet":
                file = work / "small_mobilenet.onnx"
                file.write_bytes(small_mobilenet.model())
            program, sizes, sample = build(file, given.target, work, given.max_ram, given.max_flash)
            counts, output = count(program, given.target, work, counting)
            expected = numpy.asarray(
                tc.compile(str(file), threads=1, quantised=QUANTISED, log=False)(sample)
            )
            if output != expected.tobytes():
                wrong.append(file.stem)
            peer = PEERS.get(file.stem) if given.target == "cortex-m4" else None
            timing = TIMINGS.get(given.target)
            cycles = timing and modelled_cycles(disassembly(program), counts, timing)
            print(
                f"{file.stem:24} {sum(counts.values()):13,} {f'{peer:,}' if peer else '-':>14}"
                f" {f'{cycles:,}' if cycles else '-':>12}"
                f" {sizes['constants'] + sizes['code']:9,} {sizes['code']:8,}"
                f" {sizes['arena'] + sizes['zeros']:8,} {sizes['stack']:6,}",
                flush=True,
            )
            if given.profile:
                print_profile(program, counts, given.profile)
    return verdict(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
