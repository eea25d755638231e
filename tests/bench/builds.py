"""Builds of tc beside each other: the same networks, a process for each build, in rounds by turns.

`python -m tests.bench.builds NAME ... --builds LABEL=FOLDER[,TARGET] ...`: a folder is a checkout
in which `build_rules/stage.sh` was run, or the word `installed` for the package that Python finds.
Prints each build's fastest and median run and the first build's time over its own: above 1, it is
faster than the first. The last column is the median of that over the rounds. `--kernels N` adds the
steps with the most time above the roof, of all builds, and what each of them takes.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from tests import zoo
from tests.bench.peers import ROOT, Process, search_path


def package_of(folder):
    """Where the checkout's package is, None for the one that is installed."""
    if folder == "installed":
        return None
    checkout = Path(folder).resolve()
    staged = checkout / "build" / "python"
    if not (staged / "tc").is_dir():
        sys.exit(f"{staged} holds no package tc; run {checkout / 'build_rules' / 'stage.sh'}")
    return staged


class Build(Process):
    """A build's process with one network compiled."""

    def __init__(self, label, folder, target, name, threads, tolerance):
        self.label, self.times, self.rounds, self.steps = label, [], [], {}
        environment = dict(
            os.environ,
            PYTHONPATH=search_path(package_of(folder), ROOT, os.environ.get("PYTHONPATH")),
        )
        super().__init__(
            ["tests.bench.builds", "--worker", name, target, str(threads), str(tolerance)],
            environment,
        )
        self.checked_answer()

    def ask(self, seconds, profile=False):
        self.tell({"seconds": seconds, "profile": profile})
        return self.checked_answer()

    def checked_answer(self):
        answer = self.answer()
        if isinstance(answer, dict):
            sys.exit(f"{self.label} gave no times: {answer['failed']}")
        return answer

    def measure(self, seconds):
        """One round: keeps all times, and the round's fastest run."""
        times = self.ask(seconds)
        self.times += times
        self.rounds.append(min(times))

    def profile(self, seconds):
        """One round of profiled runs: keeps each step's least time."""
        for number, step in enumerate(self.ask(seconds, profile=True)):
            known = self.steps.setdefault(number, step)
            known["seconds"] = min(known["seconds"], step["seconds"])


def work(name, target, threads, tolerance):
    """What a build's process does: compiles, then runs or profiles for as long as each line
    says."""
    from tests.bench.peer_worker import run_for

    import tc

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    example = zoo.example(name)
    module = tc.compile(
        zoo.export(name),
        target,
        threads=threads,
        tolerance=tolerance,
        log=False,
        shapes={key: value.shape for key, value in example.items()},
    )
    arrays = [example[port.name] for port in module.inputs]
    module(*arrays)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["profile"]:
            rows = module.profile(*arrays, seconds=request["seconds"]).rows
            answer = [
                {
                    "label": row.label,
                    "kind": row.kind,
                    "seconds": row.seconds,
                    "roof": row.roof_seconds,
                    "share": row.share,
                }
                for row in rows
            ]
        else:
            answer = run_for(lambda: module(*arrays), request["seconds"])
        print(json.dumps(answer), file=answers, flush=True)


def lost(step):
    """Seconds above the roof."""
    return step["seconds"] - (step["roof"] or 0)


def figures(step, share):
    return f"{1e6 * step['seconds']:12.1f} {100 * share:5.0f}% {1e6 * lost(step):8.1f}"


def print_kernels(builds, count):
    """The steps with the most lost time in any build; steps of builds that differ in number are
    printed for each build alone."""
    same = all(
        [step["label"] for step in build.steps.values()]
        == [step["label"] for step in builds[0].steps.values()]
        for build in builds
    )
    for together in [builds] if same else [[build] for build in builds]:
        print(
            f"{'step':>5s} "
            + " ".join(
                f"{build.label + ' us':>12s} {'share':>6s} {'lost us':>8s}" for build in together
            )
        )
        order = sorted(
            together[0].steps,
            reverse=True,
            key=lambda number: max(lost(build.steps[number]) for build in together),
        )
        for number in order[:count]:
            found = [build.steps[number] for build in together]
            print(
                f"{number:5d} "
                + " ".join(figures(step, step["share"] or 0) for step in found)
                + f"  {found[0]['kind']}: {found[0]['label'][:60]}"
            )
        sums = [
            {
                "seconds": sum(step["seconds"] for step in build.steps.values()),
                "roof": sum(step["roof"] or 0 for step in build.steps.values()),
            }
            for build in together
        ]
        print(
            "  all " + " ".join(figures(step, step["roof"] / step["seconds"]) for step in sums),
            flush=True,
        )


def study(name, arguments, threads):
    """Measures one network on all builds; returns the ratios to the first build, by label."""
    builds = []
    try:
        for spec in arguments.builds:
            label, _, place = spec.rpartition("=")
            folder, _, target = place.partition(",")
            builds.append(
                Build(
                    label or place,
                    folder,
                    target or arguments.target,
                    name,
                    threads,
                    arguments.tolerance,
                )
            )
        for number in range(arguments.rounds):
            for build in builds[number % len(builds) :] + builds[: number % len(builds)]:
                build.measure(arguments.seconds)
        if arguments.kernels:
            for _ in range(arguments.rounds):
                for build in builds:
                    build.profile(arguments.seconds)
        first, ratios = builds[0], {}
        for build in builds:
            ratios[build.label] = min(first.times) / min(build.times)
            by_round = statistics.median(a / b for a, b in zip(first.rounds, build.rounds))
            print(
                f"{name:14s} {threads:7d} {build.label:12s} {1e3 * min(build.times):10.4f} "
                f"{1e3 * statistics.median(build.times):10.4f} {len(build.times):6d} "
                f"{ratios[build.label]:8.4f} {by_round:8.4f}",
                flush=True,
            )
        if arguments.kernels:
            print_kernels(builds, arguments.kernels)
        return ratios
    finally:
        for build in builds:
            build.close()


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        name, target, threads, tolerance = sys.argv[2:]
        work(name, target, int(threads), float(tolerance))
        return 0
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.builds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="networks of the zoo")
    parser.add_argument(
        "--builds", nargs="+", default=["installed"], metavar="[LABEL=]FOLDER[,TARGET]"
    )
    parser.add_argument("--target", default="native", help="of builds that name none")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.4, help="per round and build")
    parser.add_argument("--kernels", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    print(
        f"{'network':14s} {'threads':>7s} {'build':12s} {'best ms':>10s} {'median ms':>10s} {'runs':>6s} "
        f"{'best':>8s} {'rounds':>8s}"
    )
    for threads in arguments.threads:
        table = [study(name, arguments, threads) for name in arguments.names]
        for label in table[0]:
            mean = statistics.geometric_mean(row[label] for row in table)
            print(
                f"{threads} thread{'s' * (threads > 1)}: geometric mean of first / {label} {mean:.4f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
