"""The hottest loops of layers on the simulated board beside llvm-mca: `python -m tests.bench.cores
--loops [LAYER ...]`.

For each core that LLVM has a scheduling table of, each layer is compiled for the core's row and
runs on the simulated board. Of the innermost loop that takes most cycles, the board's cycles of one
iteration stand beside those that llvm-mca gives, and beside the cycles of the unit that is busy
longest by LLVM's table, which no order of the instructions can fall below. Neither counts misses of
caches here. llvm-mca charges each vector instruction of the SiFive7 table one cycle of its
sequencer too many (core_tables.py). That is taken off the busiest unit, and off the iteration as
far as the sequencer is what limits it.
"""

import dataclasses
import json
import re
import subprocess

import tc

from tests.bench.core_tables import MCA, SEQUENCERS
from tests.bench.riscv import seeded_options
from tests.bench.riscv_layers import save
from tests.qemu import run_riscv64
from tests.qemu.kernels import disassembled, kernel_ranges, link_with_symbols

ITERATIONS = 100
# The board may have this share of the busiest unit's cycles: its row differs from LLVM's table in
# single instructions, for the reasons of core_tables.py.
MIN_SHARE = 0.95


@dataclasses.dataclass(frozen=True)
class Loop:
    """An innermost loop: its instructions as text, the vector type that it is entered with, how
    often it was iterated, and simulated cycles of an iteration."""

    lines: tuple
    setting: str
    iterations: int
    cycles: float


def hottest_loop(executable, profile):
    """The innermost loop of all kernels in which most cycles of the run were spent; None where no
    kernel has a loop."""
    best = None
    for start, end in kernel_ranges(executable).values():
        code = [
            (address, text.expandtabs(1))
            for address, text in disassembled(executable, start, end, "-M", "no-aliases")
        ]
        place = {address: number for number, (address, _) in enumerate(code)}
        for last, (_, text) in enumerate(code):
            target = re.search(r"\b(?:c\.)?(?:b\w+|j) .*?0x([0-9a-f]+)", text)
            first = place.get(int(target[1], 16)) if target else None
            if first is None or first > last:
                continue
            body = code[first : last + 1]
            rounds = [profile.get(address, (0, 0)) for address, _ in body]
            # Innermost and straight: each instruction executed equally often.
            if len({count for count, _ in rounds}) != 1 or rounds[0][0] == 0:
                continue
            cycles = sum(spent for _, spent in rounds)
            if best is None or cycles > best.cycles * best.iterations:
                setting = next(
                    (text for _, text in reversed(code[:first]) if text.startswith("vset")), ""
                )
                best = Loop(
                    tuple(text for _, text in body), setting, rounds[0][0], cycles / rounds[0][0]
                )
    return best


def _source(loop):
    """The loop as llvm-mca reads it: branches with any distance as target, and the register group
    that it is entered with as a comment, since llvm-mca looks at nothing before it."""
    head = []
    if found := re.search(r"(e\d+), (mf?\d)", loop.setting):
        head = [
            f"# LLVM-MCA-RISCV-LMUL {found[2].upper()}",
            f"# LLVM-MCA-RISCV-SEW {found[1].upper()}",
        ]
    body = [
        re.sub(r"^((c\.)?[bj]\S* .*?)0x[0-9a-f]+( <.*>)?$", r"\1-8", line) for line in loop.lines
    ]
    return "\n".join(["# LLVM-MCA-BEGIN loop", *head, *body, "# LLVM-MCA-END", ""])


def by_llvm(loop, core, vlen):
    """(cycles of an iteration, cycles of the busiest unit), with the sequencer's extra cycle taken
    off."""
    done = subprocess.run(
        [
            MCA,
            "-mtriple=riscv64",
            f"-mcpu={core}",
            f"-mattr=+v,+zvl{vlen}b",
            "--json",
            f"--iterations={ITERATIONS}",
        ],
        input=_source(loop),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"llvm-mca cannot read the loop: {done.stderr[-300:]}")
    told = json.loads(done.stdout)
    resources = told["TargetInfo"]["Resources"]
    (region,) = told["CodeRegions"]
    cycles = region["SummaryView"]["TotalCycles"] / ITERATIONS
    count = len(loop.lines)
    busy, extra = {}, {}
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] >= count:
            continue  # the sum of all instructions
        name = resources[use["ResourceIndex"]]
        busy[name] = busy.get(name, 0) + use["ResourceUsage"]
        if re.sub(r"\.\d+$", "", name) in SEQUENCERS:
            extra[name] = extra.get(name, 0) + 1
    limit = max(cycles_of - extra.get(name, 0) for name, cycles_of in busy.items())
    # What the sequencers' extra cycles added to the iteration: no more than the busiest of them,
    # and no less than the limit is left.
    return max(limit, cycles - max(extra.values(), default=0)), limit


def compare_loops(cores, layers, folder):
    """Prints a line for each core and layer; the names of those that could not be compared, or that
    took the board clearly fewer cycles than the busiest unit of LLVM's table."""
    failed = []
    print(
        f"{'core':12} {'layer':24} {'instructions':>12} {'board':>8} {'llvm-mca':>8} {'limit':>8}  board / limit"
    )
    for core in [name for name in cores if name in ("sifive-x280", "sifive-p670")]:
        for name, layer in layers.items():
            path, program = folder / "layer.onnx", folder / "layer"
            save(layer, path)
            module = tc.compile(str(path), core, log=False, threads=1)
            options = seeded_options(module, folder)
            link_with_symbols(module, program)
            code, _, error, counts = run_riscv64(
                program, [*options, "--threads", "1"], cycles=True, profile=True, core=core
            )
            if code != 0:
                raise RuntimeError(error.decode(errors="replace"))
            loop = hottest_loop(program, counts["profile"])
            if loop is None:
                failed.append(f"{name} on {core}: no loop without branches")
                continue
            mca, limit = by_llvm(loop, core, cores[core].vlen)
            print(
                f"{core:12} {name:24} {len(loop.lines):12} {loop.cycles:8.1f} {mca:8.1f} {limit:8.1f}  {loop.cycles / limit:.2f}",
                flush=True,
            )
            if loop.cycles < MIN_SHARE * limit:
                failed.append(f"{name} on {core}: fewer cycles than LLVM's busiest unit takes")
    return failed
