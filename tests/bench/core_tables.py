"""The rows of ir/target/riscv_cores.h beside LLVM's scheduling tables: `python -m tests.bench.cores
--tables`, which goes on with Arm's (arm_core_tables.py).

For each core that LLVM has a table of, and each kind of vector instruction at register groups of 1,
2 and 4, two numbers of ours, measured on the simulated board, stand beside LLVM's, read with
llvm-mca: the cycles that one more independent instruction takes (its unit), and those that one more
takes that needs the one before (its latency). Printed are the differences, each with who is
believed and why; exit status 1 where one has no reason.

llvm-mca charges each vector instruction of the SiFive7 table one cycle of its sequencer too many:
the table's AcquireAtCycle, which it ignores (llvm/lib/MCA/InstrBuilder.cpp). It is taken off here.
"""

import dataclasses
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.bench import arm_core_tables
from tests.bench.arm_core_tables import MCA
from tests.qemu import run_riscv64
from tests.qemu.assemble import EXIT, assemble

GROUPS = (1, 2, 4)
SEQUENCERS = {"SiFive7VA", "SiFive7VL", "SiFive7VS"}  # of which llvm-mca counts a cycle too many
WITHIN = 1  # a cycle's difference is none


@dataclasses.dataclass(frozen=True)
class Kind:
    """An instruction with places for the group written (`{d}`) and the group read (`{s}`), of which
    a chain makes one register."""

    name: str
    text: str
    chains: bool = True


KINDS = (
    Kind("vfmacc.vf", "vfmacc.vf {d}, fa0, {s}"),
    Kind("vfadd.vv", "vfadd.vv {d}, {s}, {s}"),
    Kind("vfmul.vv", "vfmul.vv {d}, {s}, {s}"),
    Kind("vfmin.vv", "vfmin.vv {d}, {s}, {s}"),
    Kind("vfsgnj.vv", "vfsgnj.vv {d}, {s}, {s}"),
    Kind("vfcvt.x.f.v", "vfcvt.x.f.v {d}, {s}"),
    Kind("vfdiv.vv", "vfdiv.vv {d}, {s}, {s}"),
    Kind("vfsqrt.v", "vfsqrt.v {d}, {s}"),
    Kind("vfrec7.v", "vfrec7.v {d}, {s}"),
    Kind("vadd.vv", "vadd.vv {d}, {s}, {s}"),
    Kind("vmul.vv", "vmul.vv {d}, {s}, {s}"),
    Kind("vsll.vi", "vsll.vi {d}, {s}, 3"),
    Kind("vmerge.vvm", "vmerge.vvm {d}, {s}, {s}, v0"),
    Kind("vmv.v.v", "vmv.v.v {d}, {s}"),
    Kind("vslideup.vi", "vslideup.vi {d}, {s}, 2", False),
    Kind("vrgather.vv", "vrgather.vv {d}, {s}, {s}", False),
    Kind("vredsum.vs", "vredsum.vs {d}, {s}, {s}"),
    Kind("vfredusum.vs", "vfredusum.vs {d}, {s}, {s}"),
    Kind("vfredmax.vs", "vfredmax.vs {d}, {s}, {s}"),
    Kind("vfredosum.vs", "vfredosum.vs {d}, {s}, {s}"),
    Kind("vle32.v", "vle32.v {d}, (s0)", False),
    Kind("vse32.v", "vse32.v {d}, (s0)", False),
    Kind("vlse32.v", "vlse32.v {d}, (s0), s1", False),
)

# Differences: whom to believe, and why, by core, instruction and number.
LLVM, ROW = "LLVM", "the row"
ONE_LATENCY = "the row has one latency of sums, products and conversions"
BY_DIVIDER = (ROW, "its result comes a sum's latency behind the divider's last pass")
REASONS = {
    ("sifive-p670", "vfcvt.x.f.v", "latency"): (LLVM, ONE_LATENCY),
    ("sifive-p670", "vfrec7.v", "latency"): (LLVM, ONE_LATENCY),
    ("sifive-p670", "vsll.vi", "latency"): (
        LLVM,
        "the row has one latency of simple instructions; few shifts stand in chains",
    ),
    ("sifive-p670", "vslideup.vi", "unit"): (LLVM, "the row lets both units slide"),
    ("sifive-p670", "vredsum.vs", "latency"): (
        LLVM,
        "the row has one latency of reductions, that of floats",
    ),
    ("sifive-p670", "vfredosum.vs", "unit"): (
        ROW,
        "each element waits for the one before; LLVM has the cycles of sums in any order",
    ),
    ("sifive-p670", "vfredosum.vs", "latency"): (ROW, "as its unit"),
    ("sifive-p670", "vlse32.v", "unit"): (
        ROW,
        "an element a cycle, as on the others; LLVM has the cycles of contiguous loads",
    ),
    ("sifive-p670", "vfdiv.vv", "latency"): BY_DIVIDER,
    ("sifive-p670", "vfsqrt.v", "latency"): BY_DIVIDER,
    ("sifive-x280", "vfdiv.vv", "latency"): BY_DIVIDER,
    ("sifive-x280", "vfsqrt.v", "latency"): BY_DIVIDER,
    ("sifive-x280", "vmul.vv", "latency"): (LLVM, ONE_LATENCY),
}


def cores_of_llvm(cores):
    """Those of ours that LLVM's scheduling models know."""
    return [name for name in cores if name in ("sifive-x280", "sifive-p670")]


def by_llvm(core, vlen, group):
    """Of each kind the cycles of its unit and its latency, by LLVM's table."""
    lines = []
    for kind in KINDS:
        lines += [
            f"# LLVM-MCA-BEGIN {kind.name}",
            f"# LLVM-MCA-RISCV-LMUL M{group}",
            "# LLVM-MCA-RISCV-SEW E32",
            kind.text.format(d="v8", s="v16"),
            "# LLVM-MCA-END",
        ]
    done = subprocess.run(
        [
            MCA,
            "-mtriple=riscv64",
            f"-mcpu={core}",
            f"-mattr=+v,+zvl{vlen}b",
            "--json",
            "--iterations=1",
        ],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    resources = told["TargetInfo"]["Resources"]
    result = {}
    for region in told["CodeRegions"]:
        unit = 0
        for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
            if use["InstructionIndex"] != 0:
                continue
            name = re.sub(r"\.\d+$", "", resources[use["ResourceIndex"]])
            unit = max(unit, use["ResourceUsage"] - (name in SEQUENCERS))
        info = region["InstructionInfoView"]["InstructionList"][0]
        # Several units of a kind share the work; with one the reciprocal throughput is what the
        # unit takes.
        result[region["Name"]] = (min(unit, info["RThroughput"]), info["Latency"])
    return result


def by_row(core, group, folder):
    """The same of the simulated board: of 24 instructions between fences beside 8."""
    counts, text, blocks = (
        (8, 24),
        ["_start:", "lla s0, buffer", "li s1, 4", f"vsetvli t1, x0, e32, m{group}, ta, ma"],
        [],
    )
    for kind in KINDS:
        for chain in (False, True) if kind.chains else (False,):
            for count in counts:
                label = f"block_{len(blocks)}"
                blocks.append((kind.name, chain, count, label))
                # Apart from the mask and what is read.
                written = [8] if chain else [i for i in range(4, 32, group) if not 16 <= i < 20]
                text += ["fence", f"{label}:"]
                text += [
                    kind.text.format(d=f"v{written[i % len(written)]}", s="v8" if chain else "v16")
                    for i in range(count)
                ]
                text += ["fence", f"{label}_end:"]
    program = assemble(
        folder,
        "\n".join(text) + EXIT + "\n.bss\n.balign 64\nbuffer: .space 65536\n",
        name=f"{core}_{group}",
    )
    code, _, err, told = run_riscv64(program.path, cycles=True, core=core, profile=True)
    if code != 0:
        raise RuntimeError(err.decode())
    spent = {}
    for name, chain, count, label in blocks:
        begin, end = program.range(label, label + "_end")
        spent[name, chain, count] = sum(
            cycles for address, (_, cycles) in told["profile"].items() if begin <= address < end
        )
    low, high = counts
    slope = {
        key[:2]: (spent[(*key[:2], high)] - spent[(*key[:2], low)]) / (high - low) for key in spent
    }
    return {kind.name: (slope[kind.name, False], slope.get((kind.name, True))) for kind in KINDS}


def compare(core, vlen, folder):
    """Lines of differences, and what has none of the reasons above or one too many."""
    lines, unexplained, differ, equal = [], [], set(), 0
    tables = {group: (by_llvm(core, vlen, group), by_row(core, group, folder)) for group in GROUPS}
    for kind in KINDS:
        for index, number in enumerate(("unit", "latency")):
            if number == "latency" and not kind.chains:
                continue
            theirs = [tables[group][0][kind.name][index] for group in GROUPS]
            ours = [tables[group][1][kind.name][index] for group in GROUPS]
            # A chain takes no less than its units do.
            if number == "latency":
                theirs = [
                    max(latency, tables[group][0][kind.name][0])
                    for latency, group in zip(theirs, GROUPS)
                ]
            if all(abs(a - b) <= WITHIN for a, b in zip(theirs, ours)):
                equal += 1
                continue
            differ.add((kind.name, number))
            why = REASONS.get((core, kind.name, number))
            numbers = " / ".join(f"{a:g}" for a in theirs), " / ".join(f"{a:g}" for a in ours)
            lines.append(
                f"{core:12} {kind.name:13} {number:8} {numbers[0]:>18} {numbers[1]:>18}  {': '.join(why) if why else 'no reason is known'}"
            )
            if why is None:
                unexplained.append(f"{kind.name} {number} of {core}")
    idle = [
        f"{kind} {number} of {name}, which agrees"
        for name, kind, number in REASONS
        if name == core and (kind, number) not in differ
    ]
    return [*lines, f"{core:12} {equal} numbers agree"], unexplained + idle


def tables(cores):
    """Prints the differences; the names of those without a reason. `cores`: rows by name."""
    if shutil.which(MCA) is None:
        raise SystemExit(f"{MCA} is not installed: apt install llvm-19")
    print(
        f"{'core':12} {'instruction':13} {'cycles':8} {'LLVM, LMUL 1/2/4':>18} {'row':>18}  believed, and why"
    )
    failed = []
    with tempfile.TemporaryDirectory(prefix="tc-tables-") as folder:
        for name in cores_of_llvm(cores):
            lines, unexplained = compare(name, cores[name].vlen, Path(folder))
            print("\n".join(lines), flush=True)
            failed += unexplained
    for name in arm_core_tables.CORES:
        lines, unexplained = arm_core_tables.compare(name, arm_core_tables.rows()[name])
        print("\n".join(lines), flush=True)
        failed += unexplained
    return failed
