"""Latency of tc beside other compilers and runtimes on the zoo, in one run on one machine.

`python -m tests.bench.peers [NAME ...]`. Every peer has a process of its own, and rounds go from
peer to peer, so that a slow moment of the machine meets all of them. Prints for each network and
thread count the fastest and the median run, the error against float64 and the peak memory, and
best peer / tc: above 1, tc is faster.
"""

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import zoo

PEERS = ("onnxruntime", "openvino", "tc")
WORKER = Path(__file__).with_name("peer_worker.py")


class Worker:
    """A peer's process; `state` is what it said after its first run."""

    def __init__(self, peer: str, model: Path, threads: int):
        self.said = tempfile.TemporaryFile("w+")  # A pipe that nobody reads could fill up.
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), peer, str(model), str(threads)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)
        self.times: list[float] = []
        self.state = self._answer()

    def measure(self, seconds: float) -> None:
        """Runs for that long, three times at least, and keeps the times."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"seconds": seconds, "least": 3}) + "\n")
            self.process.stdin.flush()
        answer = self._answer()
        if isinstance(answer, dict):
            self.state = answer
        else:
            self.times += answer

    def close(self) -> None:
        """Ends the process, which stops at the end of its input."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.said.close()

    def _answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.said.seek(0)
        last = self.said.read().strip().splitlines()[-1:] or ["no message"]
        return {"failed": f"exit status {self.process.returncode}: {last[0]}"}


def compare(model: Path, peers: list[str], threads: int, rounds: int, seconds: float) -> dict:
    """Results by peer: times in milliseconds, error, memory; or why there are none."""
    workers = {peer: Worker(peer, model, threads) for peer in peers}
    for number in range(rounds):
        for peer in peers[number % len(peers):] + peers[:number % len(peers)]:
            if "error" in workers[peer].state:
                workers[peer].measure(seconds)
                time.sleep(0.02)  # Threads that wait by spinning come to rest.
    results = {}
    for peer, worker in workers.items():
        worker.close()
        results[peer] = dict(worker.state)
        if "error" in worker.state:
            results[peer] |= {"best_ms": 1e3 * min(worker.times), "runs": len(worker.times),
                              "median_ms": 1e3 * statistics.median(worker.times)}
    return results


def ratio(results: dict, key: str = "best_ms") -> float | None:
    """The best peer's time divided by tc's, where both were measured."""
    others = [result[key] for peer, result in results.items() if peer != "tc" and key in result]
    own = results.get("tc", {}).get(key)
    return min(others) / own if others and own else None


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def complaints(table: list[dict], least_mean: float, least: float) -> list[str]:
    """What is wrong with tc's results: failures, wrong outputs, ratios below what was asked."""
    found = []
    for row in table:
        own = row["peers"].get("tc", {"missing": "not asked for"})
        where = f"{row['network']} on {row['threads']}"
        if "failed" in own:
            found.append(f"{where}: tc failed: {own['failed']}")
        elif own.get("error", 0) > 1e-4:
            found.append(f"{where}: tc is wrong by {own['error']:.1e} of the largest output")
        elif least and (row["ratio"] or 0) < least:
            found.append(f"{where}: best peer / tc is {row['ratio']}, below {least}")
    for threads in sorted({row["threads"] for row in table}) if least_mean else ():
        ratios = [row["ratio"] for row in table if row["threads"] == threads and row["ratio"]]
        if not ratios or geometric_mean(ratios) < least_mean:
            found.append(f"the geometric mean on {threads} is below {least_mean}")
    return found


def print_rows(name: str, threads: int, results: dict) -> None:
    """One line for each peer; tc's ends with the ratio."""
    for peer, result in results.items():
        head = f"{name:14s} {threads:7d} {peer:12s}"
        if "best_ms" not in result:
            reason = result.get("failed") or f"not installed ({result['missing']})"
            print(f"{head} {reason}")
            continue
        factor = ratio(results) if peer == "tc" else None
        print(f"{head} {result['best_ms']:10.3f} {result['median_ms']:10.3f} "
              f"{result['error']:9.1e} {result['peak_megabytes']:8.0f} "
              f"{result['load_seconds']:8.2f} {'' if factor is None else f'{factor:12.2f}'}",
              flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    # No `choices`: argparse of Python 3.11 holds the list of a default against them.
    parser.add_argument("names", nargs="*", default=["all"], metavar="NAME|all",
                        help=f"of {', '.join(zoo.NETWORKS)}")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per round and peer")
    parser.add_argument("--models", type=Path, help="folder of exported models (default: cache)")
    parser.add_argument("--json", type=Path, help="write everything there too")
    parser.add_argument("--least-mean", type=float, default=0.0,
                        help="fail if the geometric mean of the ratios is below")
    parser.add_argument("--least", type=float, default=0.0, help="fail if any ratio is below")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in ("all", *zoo.NETWORKS)]
    if unknown:
        parser.error(f"there is no network {', '.join(unknown)}; give of {', '.join(zoo.NETWORKS)}")
    names = list(zoo.NETWORKS) if "all" in arguments.names else arguments.names

    print(f"{'network':14s} {'threads':>7s} {'peer':12s} {'best ms':>10s} {'median ms':>10s} "
          f"{'error':>9s} {'peak MB':>8s} {'load s':>8s} {'best peer/tc':>12s}")
    table = []
    for name in names:
        model = zoo.export(name, arguments.models)
        for threads in arguments.threads:
            results = compare(model, arguments.peers, threads, arguments.rounds,
                              arguments.seconds)
            print_rows(name, threads, results)
            table.append({"network": name, "threads": threads, "ratio": ratio(results),
                          "median_ratio": ratio(results, "median_ms"), "peers": results})

    for threads in arguments.threads:
        ratios = {row["network"]: row["ratio"] for row in table
                  if row["threads"] == threads and row["ratio"]}
        if ratios:
            worst = min(ratios, key=ratios.get)
            print(f"{threads} thread{'s' * (threads > 1)}: geometric mean of best peer / tc "
                  f"{geometric_mean(list(ratios.values())):.2f} over {len(ratios)} networks, "
                  f"least {ratios[worst]:.2f} ({worst})")
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1) + "\n")
    found = complaints(table, arguments.least_mean, arguments.least)
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
