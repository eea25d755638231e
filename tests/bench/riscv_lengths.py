"""What networks execute on vectors of each length: `python -m tests.bench.riscv_lengths [--lengths
N,N] [NAME ...]`.

Each network is compiled for vectors of 128, 256, 512 and 1024 bits alone and runs once under qemu
on a core with such vectors. Printed are:

    128 … 1024     executed instructions of the whole process, in millions
    512 / 256      those at 512 bits for each at 256
    vector         the share of the network's multiply-adds that no scalar multiply does, the
                   least of all lengths
    error          the largest distance from float64, relative to the largest output
    spills         saves and reloads of vector registers in loops, in the assembly of all kernels,
                   for each length

Exit status 1: more than 0.55 of the instructions, less than 99 % by vectors, or an error above
1e-4.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import tc
from tests import zoo
from tests.bench.riscv_goals import NETWORKS
from tests.runtime.test_riscv_spills import spills
from tests.support import count_under_qemu, output_file, verdict, worst_error

TARGETS = {128: "rv64gcv", 256: "rv64gcv_zvl256b", 512: "rv64gcv_zvl512b", 1024: "rv64gcv_zvl1024b"}
MAX_OF_HALF, MIN_VECTOR, MAX_ERROR = 0.55, 0.99, 1e-4


def run(name, length, folder):
    """(executed instructions, share of multiply-adds by vectors, error, saves and reloads in
    loops)."""
    inputs, expected = zoo.reference(name)
    shapes = {key: array.shape for key, array in inputs.items()}
    module = tc.compile(str(zoo.export(name)), TARGETS[length], threads=1, log=False, shapes=shapes)
    executable = Path(folder) / name
    module.export(str(executable), kind="executable")
    outputs, counts = count_under_qemu(
        executable, inputs, folder, vlen=length, arguments=["--threads", "1"]
    )
    error = max(worst_error(outputs[output_file(key)], array) for key, array in expected.items())
    saved = sum(
        len(spills(kernel.schedule().assembly))
        for kernel in tc.kernels(str(zoo.export(name)), TARGETS[length], shapes, threads=1)
    )
    return (
        counts["total"],
        1 - counts["scalar_float_multiply"] / zoo.NETWORKS[name].multiply_adds,
        error,
        saved,
    )


def cells(name, lengths):
    """The network's line of the table, and whether all holds."""
    with tempfile.TemporaryDirectory(prefix="tc-lengths-") as folder:
        found = {length: run(name, length, folder) for length in lengths}
    totals, vectors, errors, saved = zip(*found.values())
    ratio = found[512][0] / found[256][0] if {256, 512} <= set(found) else None
    holds = (
        (ratio is None or ratio <= MAX_OF_HALF)
        and min(vectors) >= MIN_VECTOR
        and max(errors) <= MAX_ERROR
    )
    line = [
        name,
        *(f"{total / 1e6:.1f}" for total in totals),
        "" if ratio is None else f"{ratio:.3f}",
        f"{min(vectors):.2%}",
        f"{max(errors):.1e}",
        ", ".join(map(str, saved)),
    ]
    return "| " + " | ".join(line) + " |", holds


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.riscv_lengths", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "names",
        nargs="*",
        default=NETWORKS,
        help=f"networks of the zoo (default: {', '.join(NETWORKS)})",
    )
    parser.add_argument(
        "--lengths",
        default="128,256,512,1024",
        help="bits of a vector register, by commas (default: all four)",
    )
    options = parser.parse_args()
    lengths = [int(length) for length in options.lengths.split(",")]
    wrong = [str(length) for length in lengths if length not in TARGETS] + [
        name for name in options.names if name not in zoo.NETWORKS
    ]
    if wrong:
        sys.exit(
            f"'{wrong[0]}' is neither one of the lengths {', '.join(map(str, TARGETS))} nor a network of the zoo"
        )
    print(
        "| network | "
        + " | ".join(map(str, lengths))
        + " | 512 / 256 | vector | error | spills |\n|---|"
        + "--:|" * (len(lengths) + 4),
        flush=True,
    )
    failed = []
    for name in options.names:
        line, holds = cells(name, lengths)
        print(line, flush=True)
        if not holds:
            failed.append(name)
    return verdict(failed)


if __name__ == "__main__":
    sys.exit(main())
