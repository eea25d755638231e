"""What programs that run at once do to each other: two of tc beside two of ONNX Runtime.

`python -m tests.bench.two_processes [NAME ...]`. A process runs the model alone, then two at the
same time; printed is how much longer the median run takes, for each peer, and tc's slowdown over
ONNX Runtime's. Rounds alone and together alternate, and go from peer to peer.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from tests import zoo
from tests.bench.peers import Worker

DEFAULT = ("squeezenet1_1", "mobilenet_v2", "nsnet2", "tinybert")
PEERS = ("tc", "onnxruntime")


def cpu_of_others() -> int:
    """Nanoseconds of processor time that the process's threads but the calling one have used."""
    others = [
        int(task)
        for task in os.listdir("/proc/self/task")
        if int(task) != threading.get_native_id()
    ]
    # The kernel's number of a thread's clock: MAKE_THREAD_CPUCLOCK in linux/posix-timers.h.
    return sum(time.clock_gettime_ns(~task << 3 | 6) for task in others)


def idle_cpu(run, rest: float = 1e-3, seconds: float = 0.2) -> tuple[int, int]:
    """Processor time, in nanoseconds, of the process's other threads from `rest` seconds after a
    run on, for that long; and in the run and the rest."""
    before = cpu_of_others()
    run()
    time.sleep(rest)
    begin = cpu_of_others()
    time.sleep(seconds)
    return cpu_of_others() - begin, begin - before


def together(workers: list[Worker], seconds: float) -> list[float]:
    """Times of all runs while they run at the same time."""
    for worker in workers:
        worker.begin(seconds)
    return [value for worker in workers for value in worker.finish()]


def study(name: str, threads: int, rounds: int, seconds: float, models: Path | None = None) -> dict:
    """By peer: median milliseconds alone and in company, and the slowdown."""
    model = zoo.export(name, models)
    pairs = {peer: [Worker(peer, model, threads) for _ in range(2)] for peer in PEERS}
    times = {(peer, count): [] for peer in PEERS for count in (1, 2)}
    for peer, pair in pairs.items():
        for worker in pair:
            if not worker.works:
                raise RuntimeError(f"{peer}: {worker.state}")
    for number in range(rounds):
        for peer in PEERS if number % 2 else reversed(PEERS):
            for count in (1, 2):
                # Alone, they take turns.
                chosen = pairs[peer] if count == 2 else pairs[peer][number % 2 :][:1]
                times[peer, count] += together(chosen, seconds)
                time.sleep(0.02)
    for pair in pairs.values():
        for worker in pair:
            worker.close()
    row = {"network": name, "threads": threads, "peers": {}}
    for peer in PEERS:
        alone, company = (1e3 * statistics.median(times[peer, count]) for count in (1, 2))
        row["peers"][peer] = {
            "alone_ms": alone,
            "together_ms": company,
            "slowdown": company / alone,
        }
    row["ratio"] = row["peers"]["tc"]["slowdown"] / row["peers"]["onnxruntime"]["slowdown"]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.two_processes", description=__doc__
    )
    parser.add_argument(
        "names", nargs="*", default=DEFAULT, metavar="NAME", help=f"default: {' '.join(DEFAULT)}"
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.5, help="per round")
    parser.add_argument("--models", type=Path, help="folder of exported models (default: cache)")
    parser.add_argument("--json", type=Path, help="write everything there too")
    parser.add_argument(
        "--most", type=float, default=0.0, help="fail if tc's slowdown over ONNX Runtime's is above"
    )
    arguments = parser.parse_args()
    print(
        f"{'network':14s} {'threads':>7s} {'peer':12s} {'alone ms':>9s} {'together ms':>11s} "
        f"{'slowdown':>8s}  tc's / ONNX Runtime's"
    )
    table = []
    for name in arguments.names:
        for threads in arguments.threads:
            row = study(name, threads, arguments.rounds, arguments.seconds, arguments.models)
            table.append(row)
            for peer, found in row["peers"].items():
                print(
                    f"{name:14s} {threads:7d} {peer:12s} {found['alone_ms']:9.3f} "
                    f"{found['together_ms']:11.3f} {found['slowdown']:8.2f}"
                    f"{'  %.2f' % row['ratio'] if peer == 'tc' else ''}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1) + "\n")
    above = [row for row in table if arguments.most and row["ratio"] > arguments.most]
    for row in above:
        print(
            f"{row['network']} on {row['threads']}: two of tc slow each other {row['ratio']:.2f} times "
            f"as much as two of ONNX Runtime, above {arguments.most}"
        )
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
