"""The in-order and out-of-order rows of ir/target/aarch64_cores.h beside LLVM's scheduling tables,
for `python -m tests.bench.cores --tables`.

No board is simulated for Arm, so what stands beside llvm-mca's numbers is what the row itself says
of each kind of instruction: the cycles that one more independent instruction takes (its unit), and
those until a dependent one may issue (its latency), on vectors of 128 bits.
"""

import dataclasses
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

MCA = "llvm-mca-19"
CORES = ("cortex-a53", "cortex-a55", "neoverse-n1")
WITHIN = 1  # a cycle's difference is none
_TABLE = Path(__file__).parents[2] / "ir/target/aarch64_cores.h"


class Row(dict):
    """The numbers of a row by field; those that it does not say have the values of core_row.h."""

    @property
    def passes(self):
        """How often an operation on a whole register occupies a vector unit."""
        return self["vector_bits"] // (self["datapath_bits"] or self["vector_bits"])

    @property
    def vector_unit(self):
        return self.passes / self["vector_units"]


def rows():
    """The rows of Arm's cores by name."""
    # Two fields are called `per_pass`: the divider's comes first, then that of reductions.
    defaults = re.findall(r"(\w+) = (\d+)", _TABLE.with_name("core_row.h").read_text())[::-1]
    found = {}
    for text in _TABLE.read_text().split("{.name = ")[1:]:
        name = re.match(r'"([^"]+)"', text)[1]
        numbers = re.findall(r"\.(\w+) = (\d+)\b", text)
        found[name] = Row({field: int(number) for field, number in (*defaults, *numbers)})
    return found


@dataclasses.dataclass(frozen=True)
class Kind:
    """An instruction, and of a row the cycles of its unit and its latency; None: the row says
    nothing of it."""

    name: str
    text: str
    unit: Callable = lambda row: None
    latency: Callable = lambda row: None


def _vector(name, text, latency):
    return Kind(name, text, lambda row: row.vector_unit, lambda row: row[latency])


KINDS = (
    _vector("fmla", "fmla v8.4s, v16.4s, v17.4s", "vector"),
    _vector("fadd", "fadd v8.4s, v16.4s, v17.4s", "vector"),
    _vector("fmul", "fmul v8.4s, v16.4s, v17.4s", "vector"),
    _vector("fmax", "fmax v8.4s, v16.4s, v17.4s", "vector"),
    _vector("fcvtzs", "fcvtzs v8.4s, v16.4s", "vector"),
    _vector("sdot", "sdot v8.4s, v16.16b, v17.16b", "vector"),
    _vector("add", "add v8.4s, v16.4s, v17.4s", "vector_simple"),
    _vector("and", "and v8.16b, v16.16b, v17.16b", "vector_simple"),
    _vector("shl", "shl v8.4s, v16.4s, #3", "vector_simple"),
    _vector("zip1", "zip1 v8.4s, v16.4s, v17.4s", "vector_simple"),
    Kind(
        "fdiv 4s",
        "fdiv v8.4s, v16.4s, v17.4s",
        lambda row: row["per_pass"] * row.passes,
        lambda row: row["per_pass"] * row.passes + row["vector"],
    ),
    Kind("fdiv s", "fdiv s8, s16, s17", latency=lambda row: row["float_divide"]),
    Kind("fdiv d", "fdiv d8, d16, d17", latency=lambda row: row["double_divide"]),
    Kind("mul", "mul x1, x2, x3", latency=lambda row: row["integer_multiply"]),
    Kind("udiv", "udiv x1, x2, x3", latency=lambda row: row["integer_divide"]),
    Kind(
        "ldr q",
        "ldr q8, [x0]",
        lambda row: row.passes / row["vector_loads"],
        lambda row: row["load"],
    ),
    Kind("str q", "str q8, [x0]", lambda row: row.passes / row["vector_stores"]),
)


def by_llvm(core):
    """Of each kind the cycles of its unit and its latency, by LLVM's table."""
    text = "".join(f"# LLVM-MCA-BEGIN {kind.name}\n{kind.text}\n# LLVM-MCA-END\n" for kind in KINDS)
    done = subprocess.run(
        [MCA, "-mtriple=aarch64", f"-mcpu={core}", "-mattr=+dotprod", "--json", "--iterations=1"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    result = {}
    for region in json.loads(done.stdout)["CodeRegions"]:
        info = region["InstructionInfoView"]["InstructionList"][0]
        result[region["Name"]] = (info["RThroughput"], info["Latency"])
    return result


# Differences: whom to believe, and why, by core, instruction and number.
LLVM, ROW = "LLVM", "the row"
ONE_LATENCY = (LLVM, "the row has one latency of vector sums, products and conversions")
SCALAR_DIVISION = (
    ROW,
    "LLVM's table has the cycles of one element for any width; a unit of 64 bits divides two",
)
REASONS = {
    **{
        ("cortex-a53", kind, "latency"): ONE_LATENCY
        for kind in ("fmla", "fadd", "fmul", "fmax", "fcvtzs", "sdot")
    },
    **{("neoverse-n1", kind, "latency"): ONE_LATENCY for kind in ("fadd", "fmax", "sdot")},
    **{
        (core, "fdiv 4s", number): SCALAR_DIVISION
        for core in ("cortex-a53", "cortex-a55")
        for number in ("unit", "latency")
    },
    ("cortex-a55", "zip1", "latency"): (
        LLVM,
        "the row has one latency of simple instructions; those that permute have another",
    ),
    ("neoverse-n1", "fdiv 4s", "latency"): (
        ROW,
        "its result comes a sum's latency behind the divider's last pass",
    ),
    ("neoverse-n1", "fcvtzs", "unit"): (LLVM, "the row lets both units convert"),
}


def compare(core, row):
    """Lines of differences, and what has none of the reasons above or one too many."""
    table, lines, failed, differ, equal = by_llvm(core), [], [], set(), 0
    for kind in KINDS:
        for number, ours, theirs in zip(
            ("unit", "latency"), (kind.unit(row), kind.latency(row)), table[kind.name]
        ):
            if ours is None:
                continue
            if abs(ours - theirs) <= WITHIN:
                equal += 1
                continue
            differ.add((kind.name, number))
            why = REASONS.get((core, kind.name, number))
            lines.append(
                f"{core:12} {kind.name:13} {number:8} {theirs:18g} {ours:18g}  "
                + (": ".join(why) if why else "no reason is known")
            )
            if why is None:
                failed.append(f"{kind.name} {number} of {core}")
    failed += [
        f"{kind} {number} of {name}, which agrees"
        for name, kind, number in REASONS
        if name == core and (kind, number) not in differ
    ]
    return [*lines, f"{core:12} {equal} numbers agree"], failed
