"""Cycles of quantised networks on variants of an accelerator, by its simulator:

python -m tests.bench.accelerators [MODEL.tflite ...] [--variants NAME ...] [--json FILE]

Without models: those of MLPerf Tiny in $TC_MODELS. Each result is compared with the core's. The
cycles are those of the accelerator alone; kernels that it does not execute are the core's.
"""

import argparse
import json
import runpy
import time
from pathlib import Path

import numpy as np
import tc
from tc import accelerator

from ..support import ROOT, models_folder

MODELS = ("kws_ref_model", "pretrainedResnet_quant", "vww_96_int8", "ad01_int8")
# Elements, SRAM, what is parallel, depthwise convolutions: see `coarse_grained_array` in cgra64.py.
VARIANTS = {
    "outputs64": (64, "512KiB", "outputs", True),
    "inputs64": (64, "512KiB", "inputs", True),
    "outputs128": (128, "1MiB", "outputs", True),
    "no_depthwise64": (64, "512KiB", "outputs", False),
    "large64": (64, "256MiB", "outputs", True),
}


def run(path, variant, x):
    """The simulation, and whether it gives the core's bits."""
    module = tc.compile(path, f"rv32imfc+accel:{variant}", log=False)
    simulation = tc.simulate(module, x)
    expected = tc.compile(path, log=False)(x)
    return simulation, bool(np.array_equal(simulation.outputs[0], expected))


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.bench.accelerators")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    make = runpy.run_path(str(ROOT / "frontend" / "tc" / "accelerators" / "cgra64.py"))
    for name in arguments.variants:
        accelerator.add(make["coarse_grained_array"](name, *VARIANTS[name]))
    paths = [Path(each) for each in arguments.models]
    if not paths:
        paths = [models_folder() / "mlperf_tiny" / f"{name}.tflite" for name in MODELS]
    rows = []
    print(f"{'model':24} {'variant':16} {'cycles':>11} {'array':>6} {'commands':>9}  same bits")
    for path in paths:
        port = tc.compile(path, log=False).inputs[0]
        x = np.random.default_rng(7).integers(-128, 128, port.shape).astype(port.dtype)
        for variant in arguments.variants:
            begin = time.monotonic()
            simulation, same = run(path, variant, x)
            share = simulation.busy["array"] / simulation.cycles
            commands = sum(simulation.commands.values())
            print(
                f"{path.stem:24} {variant:16} {simulation.cycles:11,} {share:6.0%} {commands:9,}  {same}"
            )
            rows.append(
                {
                    "model": path.stem,
                    "variant": variant,
                    "cycles": simulation.cycles,
                    "busy": simulation.busy,
                    "commands": simulation.commands,
                    "same": same,
                    "seconds": round(time.monotonic() - begin, 1),
                }
            )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
