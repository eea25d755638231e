"""Times of one network by every road, paired in one run: rounds of all roads one after the other, the fastest run of each.

    python -m tests.torch.roads squeezenet1_1 mobilenet_v2 [--rounds 200]

The roads share their kernels, so each network is compiled once as a whole and the others find what they need in the store.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

import tc
from tests import zoo
from tests.frontend.test_torch import captured, roads
from tests.zoo import models


def modules_of(name, threads):
    """{road: (what runs, inputs by name)} of one network of the zoo."""
    examples = tuple(map(torch.from_numpy, zoo.example(name).values()))
    module = models.build(name).requires_grad_(False)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for road, model, given in [*roads(module, examples, Path(folder)), *captured(module, examples)]:
            compiled = tc.compile(model, inputs=given, log=False, threads=threads)
            found[road] = compiled, [tensor.numpy() for tensor in examples]
        path = Path(folder) / "model.onnx"
        with open(path, "wb") as file:
            models._export_onnx(name, module, file)
        found["onnx"] = tc.compile(str(path), log=False, threads=threads), [tensor.numpy() for tensor in examples]
    return found


def times_of(found, rounds):
    """The fastest run of each road in seconds; every round runs all of them, in turning order."""
    best = dict.fromkeys(found, float("inf"))
    names = list(found)
    for number in range(rounds):
        for road in names[number % len(names):] + names[:number % len(names)]:
            run, inputs = found[road]
            begin = time.perf_counter()
            run(*inputs)
            best[road] = min(best[road], time.perf_counter() - begin)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.names:
        best = times_of(modules_of(name, arguments.threads), arguments.rounds)
        least = min(best.values())
        print(json.dumps({"network": name, **{road: f"{1e3 * each:.3f} ms (+{100 * (each / least - 1):.1f} %)" for road, each in best.items()}}), flush=True)


if __name__ == "__main__":
    main()
