"""Tuning for a core that is not there: `python -m tests.bench.cores [--board CORE] [--wrong CORE] [LAYER ...]`.

The simulated board models a row of ir/target/riscv_cores.h. Each layer is tuned on it from that row (the right table) and from the row
of another core with vectors of the same length: other latencies, datapath and caches. Printed are simulated cycles untuned and tuned by
both, and what the wrong table's tuned schedule takes for the right one's. Exit status 1: a tuned schedule is slower than the untuned one
of its table, or the wrong table's takes more than 1.05 times the right one's.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import tc
from tc import fleet
from tests.bench.riscv_layers import Layer, save

LAYERS = {
    "1x1 32 to 64 14²": Layer("convolution", (1, 32, 14, 14, 64, 1, 1, 0, 1, 1)),
    "3x3 16 channels 14²": Layer("convolution", (1, 16, 14, 14, 16, 3, 1, 1, 1, 1)),
    "depthwise 3x3 32 28²": Layer("convolution", (1, 32, 28, 28, 32, 3, 1, 1, 32, 1)),
    "product 32x64 by 96": Layer("product", (32, 64, 96)),
}


def tuned(path, target, address, log, trials):
    """Simulated cycles of all kernels, untuned and tuned."""
    found = tc.tune(str(path), target, trials=trials, log=log, tracker=address, insecure=True, progress=False, threads=1)
    print(found.summary(), flush=True)
    return sum(kernel.untuned for kernel in found.kernels), sum(kernel.best for kernel in found.kernels)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cores", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("layers", nargs="*", default=list(LAYERS), help=f"default: {', '.join(LAYERS)}")
    parser.add_argument("--board", default="spacemit-x60", help="the core that the simulated board models (spacemit-x60)")
    parser.add_argument("--wrong", default="spacemit-x100", help="the core whose table is the wrong one (spacemit-x100)")
    parser.add_argument("--trials", type=int, default=300, help="measurements (300)")
    options = parser.parse_args()
    failed = []
    rows = []
    with tempfile.TemporaryDirectory(prefix="tc-cores-") as folder, \
            fleet.Local(["--name", "device", "--runner", "qemu", "--cpu", options.board]) as local:
        for name in options.layers:
            path = Path(folder) / "model.onnx"
            save(LAYERS[name], path)
            cycles = {}
            for target in (options.board, options.wrong):
                cycles[target] = tuned(path, target, local.address, str(Path(folder) / f"{name} {target}.db".replace(" ", "-")), options.trials)
            (untuned, right), (untuned_wrong, wrong) = cycles[options.board], cycles[options.wrong]
            rows.append(f"{name:22} {untuned:>9,.0f} {right:>9,.0f} {untuned_wrong:>9,.0f} {wrong:>9,.0f} {wrong / right:6.3f}")
            if right > untuned or wrong > untuned_wrong or wrong > 1.05 * right:
                failed.append(name)
    print(f"\n{'on ' + options.board:22} {'untuned':>9} {'tuned':>9} {'untuned':>9} {'tuned':>9}  ratio, the last two by the table of {options.wrong}")
    print("\n".join(rows))
    if failed:
        print(f"not so: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
