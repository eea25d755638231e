"""Cycles of quantised networks on variants of an accelerator, by its simulator:

python -m tests.bench.accelerators [MODEL.tflite ...] [--variants NAME ...] [--core TARGET]
                                   [--json FILE] [--svg FILE]

Without models: those of MLPerf Tiny in $TC_MODELS. Each network runs on each variant in three
scenarios: all kernels on the core, all that fit on the accelerator, and as the compiler places
them. The cycles are those of the simulated accelerator, with its copies, and those that the core is
predicted to take; each simulated result is compared with that of this machine's core. The picture
(by default build/accelerators.svg) has a panel for each network.
"""

import argparse
import json
import runpy
import time
from pathlib import Path

import numpy as np
import tc
from tc import accelerator
from tc.reporting.markup import Markup, element
from tc.reporting.picture import Scale, axes, decades, number, text

from tests.placements import native_output, on_each_unit
from tests.support import ROOT, models_folder

MODELS = ("kws_ref_model", "pretrainedResnet_quant", "vww_96_int8", "ad01_int8")
# Elements, SRAM, what is parallel, depthwise convolutions: see `coarse_grained_array` in cgra64.py.
VARIANTS = {
    "outputs64": (64, "512KiB", "outputs", True),
    "inputs64": (64, "512KiB", "inputs", True),
    "outputs128": (128, "1MiB", "outputs", True),
    "no_depthwise64": (64, "512KiB", "outputs", False),
    "large64": (64, "256MiB", "outputs", True),
}
SCENARIOS = {"core": "#8c8c8c", "accelerator": "#4c78a8", "placed": "#f58518"}
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 480, 300, 64, 36, 56  # of a panel
_STYLE = (
    "text { font: 12px sans-serif; fill: #222; } .grid { stroke: #ddd; } "
    ".title { font-weight: bold; } .variant { font-size: 10px; }"
)


def panel(rows, left, top):
    """The bars of one network: for each variant one for each scenario, on a logarithmic axis."""
    cycles = [row["cycles"][scenario] for row in rows for scenario in SCENARIOS]
    ticks = decades(min(cycles) * 0.9, max(cycles))
    y = Scale(ticks[0], ticks[-1], top + _HEIGHT - _BOTTOM, top + _TOP, logarithmic=True)
    x = Scale(0, len(rows), left + _LEFT, left + _WIDTH - 12)
    parts = [
        axes(x, y, [], [(value, f"{value:.0e}") for value in ticks], ("", "")),
        text(left + _LEFT, top + 22, f"{rows[0]['model']}: cycles", class_="title"),
    ]
    for place, row in enumerate(rows):
        words = row["variant"]
        parts.append(
            text(x(place + 0.5), y.begin + 16, words, class_="variant", text_anchor="middle")
        )
        for column, (scenario, colour) in enumerate(SCENARIOS.items()):
            begin, end = x(place + 0.14 + 0.24 * column), x(place + 0.14 + 0.24 * (column + 1))
            value = row["cycles"][scenario]
            parts.append(
                element(
                    "rect",
                    element("title", f"{words}, {scenario}: {value:,.0f} cycles"),
                    x=number(begin),
                    y=number(y(value)),
                    width=number(end - begin - 1),
                    height=number(y.begin - y(value)),
                    fill=colour,
                )
            )
    return parts


def picture_of(rows):
    """The SVG, which needs no other file."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    columns = min(2, len(models))
    width, height = columns * _WIDTH, -(-len(models) // columns) * _HEIGHT + 28
    parts = []
    for place, (scenario, colour) in enumerate(SCENARIOS.items()):
        left = _LEFT + 130 * place
        parts.append(element("rect", x=str(left), y="10", width="12", height="12", fill=colour))
        parts.append(text(left + 18, 20, scenario))
    for place, model in enumerate(models):
        own = [row for row in rows if row["model"] == model]
        parts += panel(own, place % columns * _WIDTH, place // columns * _HEIGHT + 28)
    return element(
        "svg",
        element("title", "Cycles of networks on variants of an accelerator"),
        element("style", Markup(_STYLE)),
        element("rect", width=str(width), height=str(height), fill="white"),
        *parts,
        xmlns=Markup("http://www.w3.org/2000/svg"),
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
    )


def run(path, variant, core, x, expected):
    """The row of a network on a variant."""
    begin = time.monotonic()
    runs = on_each_unit(path, f"{core}+accel:{variant}", x, expected)
    simulation = runs["placed"].simulation
    kernels = [row["unit"] == "accelerator" for row in runs["placed"].rows]
    return {
        "model": path.stem,
        "variant": variant,
        "cycles": {scenario: runs[scenario].cycles for scenario in SCENARIOS},
        "on_core": runs["placed"].on_core,
        "simulated": simulation.cycles if simulation else 0,
        "busy": simulation.busy if simulation else {},
        "commands": simulation.commands if simulation else {},
        "kernels": len(kernels),
        "on_accelerator": sum(kernels),
        "seconds": round(time.monotonic() - begin, 1),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.bench.accelerators")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--core", default="rv32imfc", metavar="TARGET")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--svg", metavar="FILE", default=str(ROOT / "build" / "accelerators.svg"))
    arguments = parser.parse_args(argv)
    make = runpy.run_path(str(ROOT / "frontend" / "tc" / "accelerators" / "cgra64.py"))
    for name in arguments.variants:
        accelerator.add(make["coarse_grained_array"](name, *VARIANTS[name]))
    paths = [Path(each) for each in arguments.models]
    if not paths:
        paths = [models_folder() / "mlperf_tiny" / f"{name}.tflite" for name in MODELS]
    rows = []
    heads = "".join(f"{scenario:>13}" for scenario in SCENARIOS)
    print(
        f"{'network':24} {'variant':16}{heads} {'of them core':>13} {'array':>6} {'commands':>9} kernels"
    )
    for path in paths:
        port = tc.compile(path, log=False).inputs[0]
        x = np.random.default_rng(7).integers(-128, 128, port.shape).astype(port.dtype)
        expected = native_output(path, x)
        for variant in arguments.variants:
            row = run(path, variant, arguments.core, x, expected)
            rows.append(row)
            cycles = "".join(f"{row['cycles'][scenario]:13,.0f}" for scenario in SCENARIOS)
            share = row["busy"].get("array", 0) / max(1, row["simulated"])
            print(
                f"{row['model']:24} {variant:16}{cycles} {row['on_core']:13,.0f} {share:6.0%} "
                f"{sum(row['commands'].values()):9,} {row['on_accelerator']:3} of {row['kernels']}",
                flush=True,
            )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1))
    picture = Path(arguments.svg)
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(picture_of(rows) + "\n")
    print(f"every result has the bits of this machine's core; the picture is {picture}")


if __name__ == "__main__":
    main()
