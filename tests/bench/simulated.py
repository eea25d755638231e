"""Two builds of the simulated board beside each other: the same candidates, the same cycles?

`python -m tests.bench.simulated BEFORE/tc-agent AFTER/tc-agent [--network NAME] [--trials N]`. Each
program has its libcount_plugin.so beside it. A network is tuned for rv64gcv on a board of each,
with the same seed, so that both measure the same candidates as long as they give the same cycles.
Printed are how many records differ, and the processor seconds of each agent with its candidates, in
all and for each candidate. Exit status 1: a record differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tc
from tc import fleet
from tests import zoo


def records(agent, name, trials, log):
    """{(workload, trace): outcome or cycles} of a tuning on that agent, and its processor time."""
    path = zoo.export(name)
    shapes = {key: value.shape for key, value in zoo.example(name).items()}
    with fleet.Local() as local:
        command = [agent, "--insecure", "--tracker", local.address, "--name", "board"]
        command += ["--runner", "qemu", "--vector-bits", "256"]
        board = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if not any("announced" in line for line in iter(board.stdout.readline, "")):
                raise SystemExit(f"{agent} has not announced itself to the tracker")
            tc.tune(
                path,
                "rv64gcv",
                shapes=shapes,
                threads=1,
                trials=trials,
                log=log,
                tracker=local.address,
                insecure=True,
                progress=False,
            )
        finally:
            board.terminate()
            _, status, used = os.wait4(board.pid, 0)
            board.returncode = os.waitstatus_to_exitcode(status)
    found = {
        (record.workload, tuple(record.trace)): record.median
        if record.outcome == "ok"
        else record.outcome
        for record in tc.Log(log).records()
    }
    return found, used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agents", nargs=2, metavar="AGENT", help="the programs tc-agent")
    parser.add_argument("--network", default="squeezenet1_1")
    parser.add_argument("--trials", type=int, default=60)
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, agent in enumerate(arguments.agents):
            log = str(Path(folder) / f"{number}.db")
            rows, seconds = records(agent, arguments.network, arguments.trials, log)
            found.append(rows)
            print(
                f"{agent}: {len(rows)} candidates, {seconds:.1f} processor seconds, "
                f"{seconds / max(1, len(rows)):.2f} each",
                flush=True,
            )
    before, after = found
    differing = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    for workload, trace in differing[:10]:
        key = workload, trace
        print(
            f"{before.get(key)} before, {after.get(key)} after: {workload[:60]}, "
            f"{len(trace)} primitives"
        )
    print(f"{len(differing)} of {len(before.keys() | after.keys())} records differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
