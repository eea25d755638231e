"""What tuning gains: networks of the zoo tuned through a tracker and an agent, then measured in pairs.

`python -m tests.bench.tuned [NAME ...]`. For this machine untuned and tuned builds run by turns in one
process; printed are the gain of each kernel, and the median ratio of the pairs, untuned / tuned, with
its 95 % interval. With `--target rv64gcv` the agent is the simulated board, and the whole model's
simulated cycles are compared. Exit status 1: a tuned model is slower.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import tc
from tests import zoo
from tc import fleet

DEFAULT = ("squeezenet1_1", "nsnet2")


def median_interval(values):
    """The median and its 95 % interval, by order statistics: no assumption on how the values spread.
    (Binomial(n, 1/2) by its normal approximation: Conover, Practical Nonparametric Statistics, 3.2.)"""
    ordered = sorted(values)
    count = len(ordered)
    reach = 1.96 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


# Where a model's constants lie in memory decides some percent of its time; each copy lies elsewhere.
COPIES = 8


def pair_ratios(firsts, seconds, inputs, duration):
    """Times of `firsts` over times of `seconds`, copies of two modules, in pairs of one each; which
    copies meet and which of them runs first changes from pair to pair."""
    def timed(module):
        begin = time.perf_counter()
        module.run(inputs)
        return time.perf_counter() - begin

    for module in (*firsts, *seconds):
        timed(module)
    ratios = []
    end = time.perf_counter() + duration
    while time.perf_counter() < end or len(ratios) < 40:
        number = len(ratios)
        first = firsts[number % len(firsts)]
        second = seconds[(number + number // len(firsts)) % len(seconds)]
        if number % 2:
            second_time, first_time = timed(second), timed(first)
        else:
            first_time, second_time = timed(first), timed(second)
        ratios.append(first_time / second_time)
    return ratios


def study(name, arguments, folder):
    """Tunes one network; returns a row of the table."""
    path = zoo.export(name)
    inputs = zoo.example(name)
    shapes = {key: value.shape for key, value in inputs.items()}
    log = str(Path(folder) / f"{name}.db")
    simulated = arguments.target != "native"
    agent = (["--runner", "qemu", "--vector-bits", "256"] if simulated else [])
    options = dict(shapes=shapes, threads=1, tolerance=arguments.tolerance)
    print(f"\n{name}: {arguments.seconds:.0f} s for {arguments.target}"
          f"{', from random schedules' if arguments.from_random else ''}", flush=True)
    with fleet.Local(["--name", "device", *agent]) as local:
        found = tc.tune(path, arguments.target, time_limit=arguments.seconds, log=log,
                        tracker=local.address, insecure=True, progress=False, seed=arguments.seed,
                        _from_random=arguments.from_random, **options)
    print(found.summary(), flush=True)
    row = {"network": name, "target": arguments.target, "from_random": arguments.from_random,
           "model_gain": found.model_gain, "unit": found.unit,
           "kernels": [dict(kernel._asdict(), gain=kernel.gain) for kernel in found.kernels]}
    if simulated:
        row["low"] = found.model_gain or 0  # The same program takes the same cycles every time.
        return row
    untuned = [tc.compile(path, log=False, **options) for _ in range(COPIES)]
    tuned = [tc.compile(path, log=log, **options) for _ in range(COPIES)]
    ratios = pair_ratios(untuned, tuned, inputs, arguments.pair_seconds)
    row["median"], row["low"], row["high"] = median_interval(ratios)
    print(f"{len(ratios)} pairs, untuned / tuned: {row['median']:.4f}, "
          f"95 % interval {row['low']:.4f} to {row['high']:.4f}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=DEFAULT, help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--target", default="native", help="native (default) or rv64gcv, simulated")
    parser.add_argument("--seconds", type=float, default=180, help="of tuning, for each network")
    parser.add_argument("--pair-seconds", type=float, default=20, help="of pairs, for each network")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from-random", action="store_true",
                        help="start the search at random legal schedules, not at the default")
    parser.add_argument("--json", metavar="FILE", help="writes the table there too")
    parser.add_argument("--logs", metavar="FOLDER", help="keeps the logs there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rows = [study(name, arguments, arguments.logs or temporary) for name in arguments.names]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    slower = [row["network"] for row in rows if row["low"] < 1]
    print(f"\nnot proved to be at least as fast as untuned: {', '.join(slower)}" if slower else
          "\nevery network is at least as fast as untuned")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
