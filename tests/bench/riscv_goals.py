"""What RISC-V code is to reach in the model of the core, and which rows of tests/bench/riscv.py do
not; a picture of them.

Shares of the model's peak (multiply-adds a cycle) are those of layers at VLEN 256, untuned, caches
on. No layer may take more cycles than XNNPACK's kernel. Networks are held to ONNX Runtime's
instructions and cycles.
"""

from tests.bench.pictures import bars
from tests.bench.riscv_layers import LAYERS

DATAPATHS = (128, 256)  # bits; of networks the first alone
# Least shares of peak at DLEN 128 and 256, for one or two layers of each class.
SHARES = {
    "3x3 64 channels 56² direct": {128: 0.93, 256: 0.85},
    "1x1 256 to 1024 14²": {128: 0.93, 256: 0.85},
    "first 7x7/2 64": {128: 0.88, 256: 0.75},
    "first 11x11/4 64": {128: 0.88, 256: 0.75},
    "product 256³": {128: 0.93, 256: 0.85},
    "depthwise 3x3 128 56²": {128: 0.50},
}
# Least ratios of ONNX Runtime's instructions and cycles to tc's, for each network.
FEWER_INSTRUCTIONS, FEWER_CYCLES = 20, 8
# Multiply-adds a cycle of whole networks at DLEN 128.
PER_CYCLE = {"mobilenet_v2": 3.0, "tinybert": 3.3}
NETWORKS = (
    "squeezenet1_1",
    "mobilenet_v1",
    "mobilenet_v2",
    "nin",
    "alexnet",
    "googlenet",
    "resnet50",
    "nsnet2",
    "tinybert",
)


def absent(rows):
    """Sentences about rows that the goals need and that are not there."""
    there = {(row["name"], row["dlen"], row["peer"]) for row in rows}
    wanted = [
        (name, dlen, peer) for dlen in DATAPATHS for name in LAYERS for peer in ("tc", "xnnpack")
    ]
    wanted += [(name, DATAPATHS[0], peer) for name in NETWORKS for peer in ("tc", "onnxruntime")]
    return [
        f"{name} at DLEN {dlen}: no row of {peer}"
        for name, dlen, peer in wanted
        if (name, dlen, peer) not in there
    ]


def missed(rows):
    """Sentences about rows that fall short; `rows` are those of one or more datapaths, as --json
    has them."""
    by = {(row["name"], row["dlen"], row["peer"]): row for row in rows}
    result = []

    def least(row, what, found, wanted):
        if found < wanted:
            result.append(
                f"{row['name']} at DLEN {row['dlen']}: {what} is {found:.5g}, the goal {wanted:g}"
            )

    for (name, dlen, peer), row in by.items():
        if peer != "tc":
            continue
        if (wanted := SHARES.get(name, {}).get(dlen)) is not None:
            least(row, "share of peak", row["share_of_peak"], wanted)
        if dlen == 128 and name in PER_CYCLE:
            least(row, "multiply-adds a cycle", row["per_cycle"], PER_CYCLE[name])
        if (other := by.get((name, dlen, "xnnpack"))) is not None:
            least(row, "XNNPACK's cycles for one of tc's", other["cycles"] / row["cycles"], 1)
        if name in NETWORKS and (other := by.get((name, dlen, "onnxruntime"))) is not None:
            least(
                row,
                "ONNX Runtime's instructions for one of tc's",
                other["instructions"] / row["instructions"],
                FEWER_INSTRUCTIONS,
            )
            least(
                row,
                "ONNX Runtime's cycles for one of tc's",
                other["cycles"] / row["cycles"],
                FEWER_CYCLES,
            )
    return result


def draw(rows, file):
    """A picture (.svg, .png): for each datapath, each peer's cycles divided by tc's; needs
    matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    widths = sorted({row["dlen"] for row in rows})
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure, panels = pyplot.subplots(
        len(widths),
        squeeze=False,
        layout="constrained",
        figsize=(3 + 0.4 * len(names), 4 * len(widths)),
    )
    for dlen, panel in zip(widths, panels[:, 0]):
        cycles = {(row["name"], row["peer"]): row["cycles"] for row in rows if row["dlen"] == dlen}
        shown = [name for name in names if (name, "tc") in cycles]
        ratios = {
            peer: [
                cycles[name, peer] / cycles[name, "tc"] if (name, peer) in cycles else None
                for name in shown
            ]
            for peer in ("xnnpack", "onnxruntime")
        }
        bars(panel, shown, ratios, "cycles for one of tc's", f"DLEN {dlen}")
        panel.legend(fontsize="small")
    figure.savefig(file)
