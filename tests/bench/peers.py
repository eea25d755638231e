"""Latency of tc beside other compilers and runtimes on the zoo, in one run on one machine.

`python -m tests.bench.peers [NAME ...]`. Every peer has a process of its own, and rounds go from
peer to peer, so that a slow moment of the machine meets all of them. Prints for each network and
thread count the fastest and the median run, the error against float64, the peak memory and the
time of compiling or loading, and for tc's variants best peer / tc: above 1, tc is faster.
"""

import argparse
import contextlib
import ctypes
import functools
import importlib.util
import json
import math
import os
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests import zoo
from tests.bench import unseen
from tests.bench.peer_worker import LOADERS
from tests.bench.pictures import bars

# Those with float32 arithmetic, all instructions of the machine and no tuning.
FLOAT32 = ("onnxruntime", "openvino", "iree", "inductor", "tvm")
# By variant of tc: the peers that it is compared with, and the error it may have, as a share of
# the largest output.
AGAINST = {
    "tc": (FLOAT32, 1e-4),
    "tc-float32": (FLOAT32, 1e-4),
    "tc-loose": (("openvino-default",), 1e-2),
    "tc-avx2": (("onnxruntime-avx2", "openvino-avx2"), 1e-4),
}
# What cpuid.c changes for whom. OpenVINO, too, has a switch of its own for AVX2
# (ONEDNN_MAX_CPU_ISA), which not all of its code heeds: kernels with AVX-512 remain, and it crashes
# on TinyBERT. ONNX Runtime has none. With AMX tiles of unknown size OpenVINO's default crashes.
CPUID = {"onnxruntime-avx2": "avx2", "openvino-avx2": "avx2", "openvino-default": "amx"}
# The instruction, and what stands in its place in copies for processors that cannot fault on it.
# Nothing is at 0F 0A in the kernel's opcode map (arch/x86/lib/x86-opcode-map.txt), which is that of
# Intel's manual (volume 2, appendix A) with AMD's instructions, so it raises SIGILL; and compilers
# make no traps of it, as they do of UD1 and UD2.
CPUID_CODE, UNDEFINED_CODE = b"\x0f\xa2", b"\x0f\x0a"
# From the kernel's asm/unistd_64.h and asm/prctl.h.
ARCH_PRCTL, ARCH_SET_CPUID = 158, 0x1012
# A float32 peer with a larger error has not computed the network, however fast.
WRONG = 1e-2
DEFAULT_PEERS = ("onnxruntime", "openvino", "tc")
# inductor-autotune measures candidates while it compiles, for many minutes: it has to be named.
ALL_PEERS = tuple(peer for peer in LOADERS if peer != "inductor-autotune")
ZOOS = {
    "all": tuple(zoo.NETWORKS),
    "issue5": (
        "squeezenet1_1",
        "mobilenet_v1",
        "mobilenet_v2",
        "alexnet",
        "nin",
        "googlenet",
        "resnet50",
        "resnet101",
        "yolov6n",
        "unet",
        "nsnet2",
        "tinybert",
        "bert_base",
    ),
    "unseen": tuple(unseen.NETWORKS),
}
ROOT = Path(__file__).resolve().parent.parent.parent
# A peer that needs longer to load, or for a round, is given up.
PATIENCE_SECONDS = 600.0


class Process:
    """A Python process that answers lines of JSON with lines of JSON; what it says besides is kept
    for its end."""

    def __init__(self, arguments: list[str], environment: dict, patience: float = PATIENCE_SECONDS):
        self.said = tempfile.TemporaryFile("w+")  # A pipe that nobody reads could fill up.
        self.patience = patience
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            text=True,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def tell(self, request: dict) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def answer(self):
        """The next one, or {"failed": why there is none}."""
        try:
            line = self.lines.get(timeout=self.patience)
        except queue.Empty:
            self.process.kill()
            self.process.wait()
            return {"failed": f"no answer within {self.patience:.0f} s"}
        if line:
            return json.loads(line)
        self.process.wait()
        self.said.seek(0)
        last = self.said.read().strip().splitlines()[-1:] or ["no message"]
        code = self.process.returncode
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return {"failed": f"{how}: {last[0]}"}

    def close(self) -> None:
        """Ends the process, which stops at the end of its input."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:  # Threads of a library that do not end.
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.said.close()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")


class Worker(Process):
    """A peer's process; `state` is what it said after its first run."""

    def __init__(
        self,
        peer: str,
        model: Path,
        threads: int,
        folder: Path | None = None,
        patience: float = PATIENCE_SECONDS,
    ):
        self.times: list[float] = []
        self.own_folder = None
        if folder is None:
            self.own_folder = tempfile.TemporaryDirectory(prefix="tc-peer-")
            folder = self.own_folder.name
        environment = dict(os.environ)
        if peer in CPUID:
            environment |= cpuid_environment(CPUID[peer], LOADERS[peer][0])
        environment["PYTHONPATH"] = search_path(ROOT, environment.get("PYTHONPATH"))
        super().__init__(
            ["tests.bench.peer_worker", peer, str(model), str(threads), str(folder)],
            environment,
            patience,
        )
        self.state = self.answer()

    @property
    def works(self) -> bool:
        return "error" in self.state

    def measure(self, seconds: float) -> None:
        """Runs for that long, three times at least if they are short, and keeps the times."""
        self.begin(seconds)
        self.finish()

    def begin(self, seconds: float) -> None:
        """Lets it run; finish() waits for it."""
        self.tell({"seconds": seconds})

    def finish(self) -> list[float]:
        """The times of the runs that begin() started, in seconds; they are kept, too."""
        answer = self.answer()
        if isinstance(answer, dict):
            self.state = answer
            return []
        self.times += answer
        return answer

    def close(self) -> None:
        super().close()
        if self.own_folder:
            self.own_folder.cleanup()


@functools.cache
def cpuid_library() -> str:
    """The library that answers a process's CPUID instructions, built for this one's life."""
    cpuid_library.folder = tempfile.TemporaryDirectory(prefix="tc-peer-")
    library = Path(cpuid_library.folder.name) / "cpuid.so"
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
            str(Path(__file__).with_name("cpuid.c")),
        ],
        check=True,
    )
    return str(library)


def cpuid_environment(change: str, package: str) -> dict:
    """What a process that imports the package needs for its CPUID to be answered with that
    change."""
    environment = {"LD_PRELOAD": cpuid_library(), "TC_PEER_CPUID": change}
    if change == "avx2" and not can_fault_on_cpuid() and shutil.which("objdump"):
        folder = patched_copy(package).name
        environment |= {
            "TC_PEER_CPUID": "avx2-patched",
            "PYTHONPATH": search_path(folder, os.environ.get("PYTHONPATH")),
        }
    return environment


def search_path(*parts: str | Path | None) -> str:
    return os.pathsep.join(str(part) for part in parts if part)


def can_fault_on_cpuid() -> bool:
    """Whether a process can be made to; asked with the call that lets this one go on without
    faults."""
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, ARCH_SET_CPUID, 1) == 0


@functools.cache
def patched_copy(package: str) -> tempfile.TemporaryDirectory:
    """A folder with the package and its libraries without CPUID instructions, for this process's
    life."""
    folder = tempfile.TemporaryDirectory(prefix="tc-peer-")
    spec = importlib.util.find_spec(package)
    if spec:  # Else the worker says what is missing.
        place = Path(spec.origin).parent
        for part in [place, *place.parent.glob(f"{package}*.libs")]:
            shutil.copytree(part, Path(folder.name) / part.name, copy_function=copy_without_cpuid)
    return folder


def copy_without_cpuid(source: str, destination: str) -> None:
    """Copies a file; if it is a library, with UNDEFINED_CODE for its CPUID instructions."""
    shutil.copy2(source, destination)
    code = bytearray(Path(source).read_bytes())
    if code[:4] != b"\x7fELF" or CPUID_CODE not in code:
        return
    for place in cpuid_places(source):
        if code[place : place + 2] != CPUID_CODE:
            raise RuntimeError(
                f"{source} has a CPUID instruction that cannot be replaced at {place:#x}"
            )
        code[place : place + 2] = UNDEFINED_CODE
    Path(destination).write_bytes(code)


def cpuid_places(library: str) -> list[int]:
    """Offsets in the file: a disassembly, since constants and displacements have these bytes,
    too."""
    headers = subprocess.run(
        ["objdump", "--section-headers", library], stdout=subprocess.PIPE, check=True
    )
    shifts = {
        name: int(offset, 16) - int(address, 16)
        for name, address, offset in re.findall(
            rb"^ *\d+ (\S+) +\w+ +(\w+) +\w+ +(\w+) ", headers.stdout, re.MULTILINE
        )
    }
    places = []
    with subprocess.Popen(
        ["objdump", "--disassemble", "--no-show-raw-insn", library], stdout=subprocess.PIPE
    ) as objdump:
        for line in objdump.stdout:  # Some millions of them.
            if line.startswith(b"Disassembly of section "):
                shift = shifts[line.split()[3].rstrip(b":")]
            elif b"cpuid" in line and (found := re.match(rb" *(\w+):\t(?:\S+ )*cpuid\s*$", line)):
                places.append(int(found[1], 16) + shift)
    if objdump.returncode != 0:
        raise RuntimeError(f"objdump cannot disassemble {library}")
    return places


def compare(
    model: Path,
    peers: list[str],
    threads: int,
    rounds: int,
    seconds: float,
    folder: Path | None = None,
    patience: float = PATIENCE_SECONDS,
) -> dict:
    """Results by peer: times in milliseconds, error, memory; or why there are none.

    A peer whose runs took four times what the rounds are meant to take sits out the rest.
    """
    workers = {peer: Worker(peer, model, threads, folder, patience) for peer in peers}
    for number in range(rounds):
        for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
            worker = workers[peer]
            if worker.works and sum(worker.times) <= 4 * rounds * seconds:
                worker.measure(seconds)
                time.sleep(0.02)  # Threads that wait by spinning come to rest.
    results = {}
    for peer, worker in workers.items():
        worker.close()
        results[peer] = dict(worker.state)
        if worker.works:
            results[peer] |= {
                "best_ms": 1e3 * min(worker.times),
                "runs": len(worker.times),
                "median_ms": 1e3 * statistics.median(worker.times),
            }
    return results


def best_peer(results: dict, own: str = "tc", key: str = "best_ms") -> str | None:
    """The fastest of the peers that this variant of tc is compared with."""
    others = {
        peer: results[peer][key]
        for peer in AGAINST[own][0]
        if key in results.get(peer, {}) and (own == "tc-loose" or results[peer]["error"] <= WRONG)
    }
    return min(others, key=others.get) if others else None


def ratio(results: dict, own: str = "tc", key: str = "best_ms") -> float | None:
    """The best peer's time divided by that of tc's variant, where both were measured."""
    peer = best_peer(results, own, key)
    time_of_own = results.get(own, {}).get(key)
    return results[peer][key] / time_of_own if peer and time_of_own else None


def ratios(results: dict) -> dict:
    """By variant of tc among the results: its ratio, that of the medians, and who the best peer
    is."""
    return {
        own: {
            "best": ratio(results, own),
            "median": ratio(results, own, "median_ms"),
            "best_peer": best_peer(results, own),
        }
        for own in AGAINST
        if own in results
    }


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def means(table: list[dict]) -> list[dict]:
    """By thread count and variant of tc: the geometric mean of the ratios, and the least."""
    found = []
    for threads in sorted({row["threads"] for row in table}):
        for own in AGAINST:
            measured = [
                (row["ratios"][own]["best"], row["network"])
                for row in table
                if row["threads"] == threads and row["ratios"].get(own, {}).get("best")
            ]
            if measured:
                least, worst = min(measured)
                found.append(
                    {
                        "threads": threads,
                        "variant": own,
                        "networks": len(measured),
                        "mean": geometric_mean([value for value, _ in measured]),
                        "least": least,
                        "least_network": worst,
                    }
                )
    return found


def complaints(
    table: list[dict], variants: list[str], least_mean: float, least: float
) -> list[str]:
    """What is wrong with tc's results: failures, wrong outputs, ratios below what was asked."""
    found = []
    for row in table:
        for variant in variants:
            own = row["peers"].get(variant, {"missing": "not asked for"})
            where = f"{row['network']} on {row['threads']}: "
            found_ratio = row["ratios"].get(variant, {}).get("best")
            if "failed" in own:
                found.append(f"{where}{variant} failed: {own['failed']}")
            elif own.get("error", 0) > AGAINST[variant][1]:
                found.append(
                    f"{where}{variant} is wrong by {own['error']:.1e} of the largest output"
                )
            elif least and (found_ratio or 0) < least:
                found.append(f"{where}best peer / {variant} is {found_ratio}, below {least}")
    if least_mean:
        enough = {
            (mean["threads"], mean["variant"])
            for mean in means(table)
            if mean["mean"] >= least_mean
        }
        found += [
            f"the geometric mean of {variant} on {threads} is below {least_mean}"
            for threads in sorted({row["threads"] for row in table})
            for variant in variants
            if (threads, variant) not in enough
        ]
    return found


HEAD = (
    f"{'network':14s} {'threads':>7s} {'peer':17s} {'best ms':>10s} {'median ms':>10s} {'runs':>6s} "
    f"{'error':>8s} {'peak MB':>8s} {'load s':>7s}  best peer/tc"
)


def print_rows(name: str, threads: int, results: dict) -> None:
    """One line for each peer; those of tc end with the ratio."""
    against = ratios(results)
    for peer, result in results.items():
        head = f"{name:14s} {threads:7d} {peer:17s}"
        if "best_ms" not in result:
            reason = result.get("failed") or f"not installed ({result['missing']})"
            print(f"{head} {reason}", flush=True)
            continue
        found = against.get(peer, {})
        tail = f"{found['best']:6.2f} {found['best_peer']}" if found.get("best") else ""
        print(
            f"{head} {result['best_ms']:10.3f} {result['median_ms']:10.3f} {result['runs']:6d} "
            f"{result['error']:8.1e} {result['peak_megabytes']:8.0f} "
            f"{result['load_seconds']:7.2f}  {tail}".rstrip(),
            flush=True,
        )


def draw(table: list[dict], file: Path) -> None:
    """A picture: for each thread count and network every peer's speed, the best float32 peer's as
    1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = sorted({row["threads"] for row in table})
    peers = [peer for peer in LOADERS if any(peer in row["peers"] for row in table)]
    figure, panels = pyplot.subplots(
        len(counts),
        squeeze=False,
        layout="constrained",
        figsize=(3 + 0.9 * len(table) / len(counts), 4 * len(counts)),
    )
    for threads, panel in zip(counts, panels[:, 0]):
        rows = [row for row in table if row["threads"] == threads]
        bests = [best_peer(row["peers"]) for row in rows]
        speeds = {
            peer: [
                row["peers"][best]["best_ms"] / own
                if best and (own := row["peers"].get(peer, {}).get("best_ms"))
                else None
                for row, best in zip(rows, bests)
            ]
            for peer in peers
        }
        bars(
            panel,
            [row["network"] for row in rows],
            speeds,
            "speed, best float32 peer = 1",
            f"{threads} thread{'s' * (threads > 1)}",
            {
                peer: {"edgecolor": "black", "linewidth": 1}
                for peer in peers
                if peer.startswith("tc")
            },
        )
    panels[0, 0].legend(ncols=2, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(file)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"networks: {', '.join([*ZOOS['all'], *ZOOS['unseen']])}",
    )
    parser.add_argument(
        "--zoo", default="all", choices=ZOOS, help="where no network is named: a list of them"
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        default=list(DEFAULT_PEERS),
        metavar="PEER",
        choices=["all", *LOADERS],
        help="all, or some of " + ", ".join(LOADERS),
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per round and peer")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_SECONDS,
        help="seconds that a peer may need to load, or for a round",
    )
    parser.add_argument("--models", type=Path, help="folder of exported models (default: cache)")
    parser.add_argument("--json", type=Path, help="write everything there too")
    parser.add_argument(
        "--plot", type=Path, help="draw it there too (.svg, .png; needs matplotlib)"
    )
    parser.add_argument(
        "--least-mean",
        type=float,
        default=0.0,
        help="fail if a geometric mean of tc's ratios is below",
    )
    parser.add_argument(
        "--least", type=float, default=0.0, help="fail if any ratio of tc's is below"
    )
    arguments = parser.parse_args()
    names = arguments.names or ZOOS[arguments.zoo]
    for name in names:
        if name not in ZOOS["all"] + ZOOS["unseen"]:
            parser.error(f"there is no network {name}")
    peers = list(ALL_PEERS if "all" in arguments.peers else arguments.peers)
    if arguments.plot:
        import matplotlib  # noqa: F401  Missing: better told now than after an hour.

    print(HEAD)
    table = []
    for name in names:
        model = unseen.export(name, arguments.models)
        folder = Path(tempfile.mkdtemp(prefix="tc-peer-"))
        try:
            if any(peer.startswith("inductor") for peer in peers):
                unseen.save_module(name, folder / "module.pt")
            for threads in arguments.threads:
                results = compare(
                    model,
                    peers,
                    threads,
                    arguments.rounds,
                    arguments.seconds,
                    folder,
                    arguments.patience,
                )
                print_rows(name, threads, results)
                table.append(
                    {
                        "network": name,
                        "threads": threads,
                        "ratios": ratios(results),
                        "peers": results,
                    }
                )
                if arguments.json:  # After each: an hour's work is not lost.
                    arguments.json.write_text(
                        json.dumps({"rows": table, "means": means(table)}, indent=1) + "\n"
                    )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    for mean in means(table):
        print(
            f"{mean['threads']} thread{'s' * (mean['threads'] > 1)}: geometric mean of best peer / "
            f"{mean['variant']} {mean['mean']:.2f} over {mean['networks']} networks, "
            f"least {mean['least']:.2f} ({mean['least_network']})"
        )
    if arguments.plot:
        draw(table, arguments.plot)
    variants = [peer for peer in peers if peer in AGAINST]
    found = complaints(table, variants, arguments.least_mean, arguments.least)
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
