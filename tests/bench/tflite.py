"""Latency of TensorFlow Lite's files in tc beside ai-edge-litert, one thread, in one run on one
machine.

`python -m tests.bench.tflite [FILE ...]` (default: every .tflite file below $TC_MODELS). The runs
of both go by turns, in rounds; the fastest of each counts. Prints for each file both times and
litert / tc: above 1, tc is faster.
"""

import argparse
import os
import time
from pathlib import Path

import numpy

from tests.bench.peers import geometric_mean


def timed(run, seconds):
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def litert(path, random):
    """(a run, {input: array}) of the package's default kernels, which are XNNPACK's where it has
    them."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    arrays = {}
    for each in interpreter.get_input_details():
        kind = each["dtype"]
        shape = [int(size) for size in each["shape"]]
        drawn = (
            random.standard_normal(shape)
            if numpy.issubdtype(kind, numpy.floating)
            else random.integers(-128, 128, shape)
        )
        arrays[each["name"]] = drawn.astype(kind)
        interpreter.set_tensor(each["index"], arrays[each["name"]])
    return interpreter.invoke, arrays


def compare(path, rounds, seconds):
    """{peer: seconds}."""
    import tc

    random = numpy.random.default_rng(0)
    peer, arrays = litert(path, random)
    module = tc.compile(str(path), threads=1, log=False)
    ordered = list(arrays.values())
    by_name = {port.name: port for port in module.inputs}
    given = [arrays.get(name, ordered[number]) for number, name in enumerate(by_name)]
    runs = {"litert": peer, "tc": lambda: module(*given)}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], timed(run, seconds))
    return best


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.tflite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1, help="per round and peer")
    arguments = parser.parse_args()
    files = arguments.files or sorted(Path(os.environ["TC_MODELS"]).rglob("*.tflite"))
    ratios = []
    print(f"{'file':30s} {'litert ms':>10s} {'tc ms':>10s}  litert/tc")
    for path in files:
        try:
            best = compare(path, arguments.rounds, arguments.seconds)
        except Exception as error:  # a file that one of both does not take is a line, too
            print(f"{path.name:30s} {type(error).__name__}: {error}")
            continue
        ratios.append(best["litert"] / best["tc"])
        print(
            f"{path.name:30s} {1e3 * best['litert']:10.4f} {1e3 * best['tc']:10.4f}  {ratios[-1]:6.2f}",
            flush=True,
        )
    if ratios:
        print(f"geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
