"""C source beside tc's own code: the zoo's networks, one thread, in one process and by turns.

`python -m tests.bench.c_source [NAME ...] [--target native] [--compiler "gcc -O3 -march=native"]
[--rounds N]`: for each network the least processor time of a run of the C source's function and of
tc's shared object of the same target, what part of tc's speed C has, what the compiler took, and
the sizes of the source and of what became of it. Results are compared with PyTorch's in float64.
"""

import argparse
import shlex
import sys
import tempfile
import time
from pathlib import Path

import numpy

import tc
from tests import zoo
from tests.runtime.c_models import CModel
from tests.support import verdict

NETWORKS = ["squeezenet1_1", "mobilenet_v2", "resnet50", "nsnet2_step", "superres", "tinybert"]


def least(run, seconds=0.2):
    """The least processor time of a run, of as many as take so long: what else the machine does
    adds little to it."""
    best, begin = float("inf"), time.process_time()
    end = begin + seconds
    while begin < end:
        run()
        now = time.process_time()
        best, begin = min(best, now - begin), now
    return best


def measure(name, target, compiler, rounds, folder):
    """A row of the table, and whether the results are right."""
    inputs, expected = zoo.reference(name)
    module = tc.compile(
        zoo.export(name),
        target,
        threads=1,
        log=False,
        shapes={key: list(value.shape) for key, value in inputs.items()},
    )
    source = folder / f"{name}.c"
    module.export(source, kind="c")
    begin = time.perf_counter()
    model = CModel(source, compiler)
    built = time.perf_counter() - begin
    arrays = [numpy.ascontiguousarray(inputs[port.name]) for port in module.inputs]
    outputs = [numpy.zeros(value.shape, numpy.float32) for value in expected.values()]
    run = model.bound(arrays, outputs)
    times = {"c": float("inf"), "tc": float("inf")}
    for _ in range(rounds):
        times["c"] = min(times["c"], least(run))
        times["tc"] = min(times["tc"], least(lambda: module(*arrays)))
    right = all(zoo.agrees(found, wanted) for found, wanted in zip(outputs, expected.values()))
    sizes = (
        f"{source.stat().st_size / 1e6:8.1f} {source.with_suffix('.so').stat().st_size / 1e6:8.1f}"
    )
    print(
        f"{name:16} {1e3 * times['c']:9.2f} {1e3 * times['tc']:9.2f} {times['tc'] / times['c']:6.2f} {built:8.1f} {sizes}  {'' if right else 'WRONG'}",
        flush=True,
    )
    return right


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", default=NETWORKS)
    parser.add_argument("--target", default="native")
    parser.add_argument("--compiler", default="gcc -O3 -march=native")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    print(
        f"{given.compiler}, target {given.target}, one thread\n{'network':16} {'C ms':>9} {'tc ms':>9} {'C/tc':>6} {'cc s':>8} {'.c MB':>8} {'.so MB':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        return verdict(
            [
                name
                for name in given.names
                if not measure(
                    name, given.target, shlex.split(given.compiler), given.rounds, Path(folder)
                )
            ]
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
