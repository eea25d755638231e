"""Tuning for a core that is not there: `python -m tests.bench.cores [--board CORE] [--wrong CORE]
[LAYER ...]`; `--tables` compares the rows with LLVM's scheduling tables instead (core_tables.py),
`--loops` the layers' hottest loops (core_loops.py).

The simulated board models each row of ir/target/riscv_cores.h in turn, or the one of --board. Each
layer is tuned on it from that row (the right table) and from the row of another core with vectors
of the same length: other latencies, datapath and caches. Printed are simulated cycles untuned and
tuned by both, and what the wrong table's tuned schedule takes for the right one's. Exit status 1: a
tuned schedule is slower than the untuned one of its table, or the wrong table's takes more than
1.05 times the right one's.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import tc
from tc import fleet

from tests.bench.core_loops import compare_loops
from tests.bench.core_tables import tables as compare_tables
from tests.bench.riscv_layers import LAYERS as NAMED_LAYERS
from tests.bench.riscv_layers import Layer, save
from tests.qemu import cores
from tests.support import verdict

LAYERS = {
    "1x1 32 to 64 14²": Layer("convolution", (1, 32, 14, 14, 64, 1, 1, 0, 1, 1)),
    "3x3 16 channels 14²": Layer("convolution", (1, 16, 14, 14, 16, 3, 1, 1, 1, 1)),
    "depthwise 3x3 32 28²": Layer("convolution", (1, 32, 28, 28, 32, 3, 1, 1, 32, 1)),
    "product 32x64 by 96": Layer("product", (32, 64, 96)),
}
# For each row, the row that is its wrong table: vectors as long, but a window where it has none, or
# none where it has one, and no extension that the board lacks. Where no core's row is such it is
# the generic one's target for vectors of that length.
WRONG = {
    "spacemit-x60": "spacemit-x100",
    "spacemit-x100": "rv64gcv_zvl256b",
    "sifive-p670": "rv64gcv",
    "sifive-x280": "rv64gcv_zvl512b",
    "thead-c908": "sifive-p670",
    "thead-c920v2": "thead-c908",
}


def target_of(core):
    """What is compiled for with the core's table; the generic row is that of the targets that name
    a length alone."""
    return "rv64gcv_zvl256b" if core == "generic" else core


def tuned(path, target, address, log, trials):
    """Simulated cycles of all kernels, untuned and tuned."""
    found = tc.tune(
        str(path),
        target,
        trials=trials,
        log=log,
        tracker=address,
        insecure=True,
        progress=False,
        threads=1,
    )
    print(found.summary(), flush=True)
    return sum(kernel.untuned for kernel in found.kernels), sum(
        kernel.best for kernel in found.kernels
    )


def rows_of(board, wrong, layers, trials):
    """Lines of the board's table, and the layers for which something does not hold."""
    rows, failed = [], []
    with (
        tempfile.TemporaryDirectory(prefix="tc-cores-") as folder,
        fleet.Local(["--name", "device", "--runner", "qemu", "--cpu", board]) as local,
    ):
        for number, name in enumerate(layers):
            path = Path(folder) / "model.onnx"
            save(LAYERS[name], path)
            (untuned, right), (untuned_wrong, other) = (
                tuned(
                    path,
                    target_of(core),
                    local.address,
                    str(Path(folder) / f"{number} {core}.db"),
                    trials,
                )
                for core in (board, wrong)
            )
            rows.append(
                f"{name:22} {untuned:>9,.0f} {right:>9,.0f} {untuned_wrong:>9,.0f} {other:>9,.0f} {other / right:6.3f}"
            )
            if right > untuned or other > untuned_wrong or other > 1.05 * right:
                failed.append(f"{name} on {board}")
    head = f"{'on ' + board:22} {'untuned':>9} {'tuned':>9} {'untuned':>9} {'tuned':>9}  ratio, the last two by the table of {wrong}"
    return [head, *rows], failed


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.cores", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "layers", nargs="*", default=list(LAYERS), help=f"default: {', '.join(LAYERS)}"
    )
    parser.add_argument(
        "--board",
        choices=cores(),
        help="the core that the simulated board models (each in turn, but the generic one)",
    )
    parser.add_argument(
        "--wrong", help="the core whose table is the wrong one (one with vectors as long)"
    )
    parser.add_argument("--trials", type=int, default=300, help="measurements (300)")
    parser.add_argument(
        "--tables", action="store_true", help="compare the rows with LLVM's scheduling tables"
    )
    parser.add_argument(
        "--loops", action="store_true", help="compare the layers' hottest loops with llvm-mca"
    )
    options = parser.parse_args()
    if options.tables:
        return verdict(compare_tables(cores()))
    if options.loops:
        wanted = {name: LAYERS.get(name) or NAMED_LAYERS[name] for name in options.layers}
        with tempfile.TemporaryDirectory(prefix="tc-loops-") as folder:
            return verdict(compare_loops(cores(), wanted, Path(folder)))
    if options.board == "generic" and options.wrong is None:
        parser.error(
            "the generic core has no other row whose code it runs; name a target with --wrong"
        )
    tables, failed = [], []
    for board in [options.board] if options.board else WRONG:
        rows, bad = rows_of(board, options.wrong or WRONG[board], options.layers, options.trials)
        tables.append("\n".join(rows))
        print(f"\n{tables[-1]}", flush=True)
        failed += bad
    if len(tables) > 1:
        print("\n" + "\n\n".join(tables))
    return verdict(failed)


if __name__ == "__main__":
    sys.exit(main())
