"""Latency of quantised networks in tc beside ONNX Runtime and OpenVINO, on the same files, in one
run on one machine.

`python -m tests.bench.quantised [NAME ...]`. The files are made by ONNX Runtime's own quantiser
from the zoo's networks with seeded calibration data: activations of 8 bits without a sign, weights
of 8 bits with one, scales for each channel; `dynamic` ones have their activations quantised while
they run. Prints for each what bench.peers prints, with the distance from the network in float64
(peers fuse as they like: theirs differs), how much faster the file is than the network in floats in
tc, and what tc leaves standing between kernels of integers (`--standing` prints that alone, and
measures nothing).
"""

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import numpy

from tests import zoo
from tests.bench import peers

STATIC = (
    "resnet50",
    "mobilenet_v2",
    "squeezenet1_1",
    "googlenet",
    "mobilenet_v1",
    "yolov6n",
    "unet",
)
DYNAMIC = ("tinybert", "bert_base")
SAMPLES = 4
PEERS = ["onnxruntime", "openvino", "tc"]
# A quantised network's outputs are far from float64's; a file that any runtime computes at all is
# compared.
peers.WRONG = float("inf")


def folder() -> Path:
    found = os.environ.get("TC_ZOO_CACHE")
    base = Path(found) if found else peers.ROOT / "build" / "zoo"
    return base / "quantised"


def export(name: str) -> Path:
    """The quantised file and its reference beside it, made once for each export of the network."""
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source = zoo.export(name)
    target = folder() / source.parent.name / f"{name}.onnx"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    inputs, _ = zoo.reference(name)

    class Samples(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter([inputs] + [zoo.example(name, seed) for seed in range(1, SAMPLES)])

        def get_next(self):
            return next(self.left, None)

    with tempfile.TemporaryDirectory() as temporary:
        prepared, made = Path(temporary) / "prepared.onnx", Path(temporary) / "made.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        if name in DYNAMIC:
            quantization.quantize_dynamic(
                str(prepared), str(made), weight_type=quantization.QuantType.QInt8
            )
        else:
            quantization.quantize_static(
                str(prepared),
                str(made),
                Samples(),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
            )
        onnx.checker.check_model(str(made))
        shutil.copy(source.with_suffix(".ref.npz"), target.with_suffix(".ref.npz"))
        os.replace(shutil.copy(made, target.with_suffix(f".part{os.getpid()}")), target)
    return target


def standing(model: Path) -> list[str]:
    """The kernels of the compiled file that do nothing but quantise, dequantise, pad (they are
    called as their convolution) or bring elements into another order."""
    import tc

    alone = ("_QuantizeLinear", "_DequantizeLinear", "(reorder)", "/Concat", "/Transpose", "/Pad")
    return [
        report["label"]
        for report in tc.compile(str(model), threads=1, log=False).kernels
        if report["multiply_adds"] == 0
        and (report["label"].endswith(alone) or report["label"].endswith("/Conv"))
        and " + " not in report["label"]
    ]


def float_milliseconds(name: str, threads: int, arguments) -> float | None:
    own = peers.compare(zoo.export(name), ["tc"], threads, arguments.rounds, arguments.seconds)[
        "tc"
    ]
    return own.get("best_ms")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.quantised",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STATIC + DYNAMIC))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per round and peer")
    parser.add_argument(
        "--standing", action="store_true", help="only list what stands between kernels"
    )
    arguments = parser.parse_args()
    names = arguments.names or STATIC + DYNAMIC
    for name in names:
        if name not in STATIC + DYNAMIC:
            parser.error(f"there is no quantised network {name}")
    table = []
    if not arguments.standing:
        print(peers.HEAD)
    for name in names:
        model = export(name)
        if arguments.standing:
            found = standing(model)
            print(
                f"{name}: {len(found)} steps stand alone",
                *(f"  {label}" for label in found),
                sep="\n",
                flush=True,
            )
            continue
        for threads in arguments.threads:
            results = peers.compare(model, PEERS, threads, arguments.rounds, arguments.seconds)
            peers.print_rows(name, threads, results)
            floats, own = float_milliseconds(name, threads, arguments), results["tc"].get("best_ms")
            if floats and own:
                print(
                    f"{name:14s} {threads:7d} tc in floats      {floats:10.3f}, {floats / own:.2f} times as long",
                    flush=True,
                )
            table.append(
                {
                    "network": name,
                    "threads": threads,
                    "ratios": peers.ratios(results),
                    "peers": results,
                }
            )
    for mean in peers.means(table):
        print(
            f"best peer / tc on {mean['threads']}: geometric mean {mean['mean']:.2f} of {mean['networks']}, "
            f"least {mean['least']:.2f} ({mean['least_network']})"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
