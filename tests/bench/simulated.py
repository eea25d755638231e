"""What tuning on the simulated board takes, and whether two builds of it give the same cycles.

`python -m tests.bench.simulated [AGENT ...] [--network NAME] [--trials N]`. Each AGENT is a program
tc-agent, with its libcount_plugin.so beside it; by default it is that of this package. A network is
tuned for rv64gcv on a board of each, with the same seed, so that all measure the same candidates as
long as they give the same cycles. Printed are the processor seconds of the tuner, of its builders
and of the agent with its candidates, in all and for each candidate, and how many records differ
from those of the first agent. Exit status 1: a record differs.

The processor seconds of all say what two otherwise idle processors could do at best; the wall clock
says how much of that is used, where nothing else runs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tc
from tc import fleet
from tests import zoo


def processor_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def records(agent, name, trials, log):
    """{(workload, trace): outcome or cycles} of a tuning on that agent, and what it took: seconds
    by the wall clock, then processor seconds of the tuner, its builders, and the agent."""
    path = zoo.export(name)
    shapes = zoo.shapes(name)
    with fleet.Local() as local:
        command = [agent, "--insecure", "--tracker", local.address, "--name", "board"]
        command += ["--runner", "qemu", "--vector-bits", "256"]
        board = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begin, own = time.monotonic(), processor_seconds(resource.RUSAGE_SELF)
        children = processor_seconds(resource.RUSAGE_CHILDREN)
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
            # The agent is a child that is still alive.
            took = [
                time.monotonic() - begin,
                processor_seconds(resource.RUSAGE_SELF) - own,
                processor_seconds(resource.RUSAGE_CHILDREN) - children,
            ]
        finally:
            board.terminate()
            _, status, used = os.wait4(board.pid, 0)
            board.returncode = os.waitstatus_to_exitcode(status)
    took.append(used.ru_utime + used.ru_stime)
    found = {
        (record.workload, tuple(record.trace)): record.median
        if record.outcome == "ok"
        else record.outcome
        for record in tc.Log(log).records()
    }
    return found, took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="the programs tc-agent")
    parser.add_argument("--network", default="squeezenet1_1")
    parser.add_argument("--trials", type=int, default=60)
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, agent in enumerate(arguments.agents or [fleet.program("agent")]):
            log = str(Path(folder) / f"{number}.db")
            rows, took = records(agent, arguments.network, arguments.trials, log)
            found.append(rows)
            wall, tuner, builders, board = took
            used = tuner + builders + board
            print(
                f"{agent}: {len(rows)} candidates in {wall:.1f} s, {used:.1f} processor seconds "
                f"({used / max(1, len(rows)):.2f} each): tuner {tuner:.1f}, builders "
                f"{builders:.1f}, agent and candidates {board:.1f}",
                flush=True,
            )
    before, differing = found[0], 0
    for after in found[1:]:
        keys = before.keys() | after.keys()
        different = [key for key in keys if before.get(key) != after.get(key)]
        differing += len(different)
        for workload, trace in different[:10]:
            key = workload, trace
            print(
                f"{before.get(key)} before, {after.get(key)} after: {workload[:60]}, "
                f"{len(trace)} primitives"
            )
        print(f"{len(different)} of {len(keys)} records differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
