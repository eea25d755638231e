"""What tuning gains: networks of the zoo tuned through a tracker and an agent, then measured in
pairs.

`python -m tests.bench.tuned [NAME ...]`. For this machine untuned and tuned builds run by turns in
one process; printed are the gain of each kernel, and the ratio of the pairs, untuned / tuned, with
its 95 % interval over copies of both builds. With `--target rv64gcv` the agent is the simulated
board, and the whole model's simulated cycles are compared. Exit status 1: a tuned model is slower.
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


# Where a model's constants lie in memory decides some percent of its time; each copy lies
# elsewhere. So copies are what is drawn at random, not pairs: thousands of pairs of the same copies
# all have their luck.
COPIES = 8
STUDENT = 2.365  # of 95 %, for 7 degrees of freedom


def copies_met(number, count):
    """Which copies of the first and of the second module the pair of this number has."""
    return number % count, (number + number // count) % count


def interval_over_copies(ratios, count=COPIES):
    """The ratio and its 95 % interval, of pairs in the order of `copies_met`: medians of each two
    copies' pairs, as a table of two factors on the logarithms, whose row and column means spread by
    luck alone."""
    met = [[[] for _ in range(count)] for _ in range(count)]
    for number, ratio in enumerate(ratios):
        first, second = copies_met(number, count)
        met[first][second].append(math.log(ratio))
    table = [[statistics.median(cell) for cell in row] for row in met]
    rows = [statistics.mean(row) for row in table]
    columns = [statistics.mean(column) for column in zip(*table)]
    center = statistics.mean(rows)
    reach = STUDENT * math.sqrt((statistics.variance(rows) + statistics.variance(columns)) / count)
    return math.exp(center), math.exp(center - reach), math.exp(center + reach)


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
    while time.perf_counter() < end or len(ratios) < max(40, len(firsts) * len(seconds)):
        number = len(ratios)
        own, other = copies_met(number, len(firsts))
        first, second = firsts[own], seconds[other]
        if number % 2:
            second_time, first_time = timed(second), timed(first)
        else:
            first_time, second_time = timed(first), timed(second)
        ratios.append(first_time / second_time)
    return ratios


def traces(module):
    return [kernel["trace"] for kernel in module.kernels]


def study(name, arguments, folder):
    """Tunes one network; returns a row of the table."""
    path = zoo.export(name)
    inputs = zoo.example(name)
    shapes = {key: value.shape for key, value in inputs.items()}
    log = str(Path(folder) / f"{name}.db")
    simulated = arguments.target != "native"
    agent = ["--runner", "qemu", "--vector-bits", "256"] if simulated else []
    options = dict(shapes=shapes, threads=1, tolerance=arguments.tolerance)
    print(
        f"\n{name}: {arguments.seconds:.0f} s for {arguments.target}"
        f"{', from random schedules' if arguments.from_random else ''}",
        flush=True,
    )
    with fleet.Local(["--name", "device", *agent]) as local:
        found = tc.tune(
            path,
            arguments.target,
            time_limit=arguments.seconds,
            log=log,
            tracker=local.address,
            insecure=True,
            progress=False,
            seed=arguments.seed,
            _from_random=arguments.from_random,
            **options,
        )
    print(found.summary(), flush=True)
    row = {
        "network": name,
        "target": arguments.target,
        "from_random": arguments.from_random,
        "model_gain": found.model_gain,
        "unit": found.unit,
        "kernels": [dict(kernel._asdict(), gain=kernel.gain) for kernel in found.kernels],
    }
    if simulated:
        row["low"] = found.model_gain or 0  # The same program takes the same cycles every time.
        return row
    untuned = [tc.compile(path, log=False, **options) for _ in range(COPIES)]
    tuned = [tc.compile(path, log=log, **options) for _ in range(COPIES)]
    if traces(untuned[0]) == traces(tuned[0]):
        row["ratio"] = row["low"] = row["high"] = 1.0
        print("the tuned build has the untuned schedules: nothing to compare", flush=True)
        return row
    ratios = pair_ratios(untuned, tuned, inputs, arguments.pair_seconds)
    row["ratio"], row["low"], row["high"] = interval_over_copies(ratios)
    print(
        f"{len(ratios)} pairs, untuned / tuned: {row['ratio']:.4f}, "
        f"95 % interval {row['low']:.4f} to {row['high']:.4f}",
        flush=True,
    )
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=DEFAULT, help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--target", default="native", help="native (default) or rv64gcv, simulated")
    parser.add_argument("--seconds", type=float, default=180, help="of tuning, for each network")
    parser.add_argument("--pair-seconds", type=float, default=20, help="of pairs, for each network")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--from-random",
        action="store_true",
        help="start the search at random legal schedules, not at the default",
    )
    parser.add_argument("--json", metavar="FILE", help="writes the table there too")
    parser.add_argument("--logs", metavar="FOLDER", help="keeps the logs there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rows = [study(name, arguments, arguments.logs or temporary) for name in arguments.names]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    slower = [row["network"] for row in rows if row["low"] < 1]
    print(
        f"\nnot proved to be at least as fast as untuned: {', '.join(slower)}"
        if slower
        else "\nevery network is at least as fast as untuned"
    )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
