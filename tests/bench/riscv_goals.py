"""What RISC-V code is to reach in the model of the core, and which rows of tests/bench/riscv.py do not; a picture of them.

Shares of the model's peak (multiply-adds a cycle) are those of layers at VLEN 256, untuned, caches on. Networks are held to ONNX Runtime's
instructions and cycles.
"""

# Least shares of peak at DLEN 128 and 256; of each class the layer whose operands fit the caches.
SHARES = {
    "3x3 64 channels 56² direct": {128: 0.93, 256: 0.85},
    "1x1 256 to 1024 14²": {128: 0.93, 256: 0.85},
    "first 7x7/2 64": {128: 0.88, 256: 0.75},
    "first 11x11/4 64": {128: 0.88, 256: 0.75},
    "product 256³": {128: 0.93, 256: 0.85},
    "depthwise 3x3 128 56²": {128: 0.50},
}
# Each network's, ONNX Runtime's for one of tc's.
FEWER_INSTRUCTIONS, FEWER_CYCLES = 20, 8
# Multiply-adds a cycle of whole networks at DLEN 128.
PER_CYCLE = {"mobilenet_v2": 3.0, "tinybert": 3.3}
NETWORKS = ("squeezenet1_1", "mobilenet_v1", "mobilenet_v2", "nin", "alexnet", "googlenet", "resnet50", "nsnet2", "tinybert")


def missed(rows):
    """Sentences about rows that fall short; `rows` are those of one or more datapaths, as --json has them."""
    by = {(row["name"], row["dlen"], row["peer"]): row for row in rows}
    result = []

    def least(row, what, found, wanted):
        if found < wanted:
            result.append(f"{row['name']} at DLEN {row['dlen']}: {what} {found:.3g} of {wanted:g}")

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
            least(row, "ONNX Runtime's instructions for one of tc's", other["instructions"] / row["instructions"], FEWER_INSTRUCTIONS)
            least(row, "ONNX Runtime's cycles for one of tc's", other["cycles"] / row["cycles"], FEWER_CYCLES)
    return result


def draw(rows, file):
    """A picture (.svg, .png): for each datapath, how many of each peer's cycles tc needs one for; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    widths = sorted({row["dlen"] for row in rows})
    peers = [peer for peer in ("xnnpack", "onnxruntime") if any(row["peer"] == peer for row in rows)]
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure, panels = pyplot.subplots(len(widths), squeeze=False, layout="constrained", figsize=(3 + 0.4 * len(names), 4 * len(widths)))
    for dlen, panel in zip(widths, panels[:, 0]):
        cycles = {(row["name"], row["peer"]): row["cycles"] for row in rows if row["dlen"] == dlen}
        shown = [name for name in names if (name, "tc") in cycles]
        for number, peer in enumerate(peers):
            bars = [(place, cycles[name, peer] / cycles[name, "tc"]) for place, name in enumerate(shown) if (name, peer) in cycles]
            panel.bar([place + (number + 0.5) * 0.8 / len(peers) - 0.4 for place, _ in bars], [ratio for _, ratio in bars],
                      0.8 / len(peers), label=peer)
        panel.axhline(1, color="black", linewidth=0.5)
        panel.set_yscale("log")
        panel.set_ylabel("cycles for one of tc's")
        panel.set_title(f"DLEN {dlen}")
        panel.set_xticks(range(len(shown)), shown, rotation=45, ha="right")
    if peers:
        panels[0, 0].legend(fontsize="small")
    figure.savefig(file)
