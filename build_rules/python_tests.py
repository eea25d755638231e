"""Runs the Python tests, each file in a process of its own: what one leaves in memory must not
decide what another finds.

    build_rules/python_tests.py RESULTS [OPTION OF PYTEST]...

Two files run side by side where the machine has two processors, the longest first. This process
has imported what nearly every file needs, and forks one for each file: that costs less than an
interpreter that imports it anew. PyTorch is imported once all files that don't need it have begun,
so that it is not among the modules that they find. PyTorch and NumPy compute with one thread there:
two of theirs in each of two processes would wait for each other without sleep.

Those that measure times or have their own processes killed in time (of tests/tuner and tests/bench,
all but those of BESIDE) run alone, after them, in an interpreter of their own and with all threads.
What a file prints is shown when it has ended.

RESULTS/NAME.xml is the JUnit file of each. A process that ends otherwise than pytest does, such as
by a signal, is a failure of the test that ran at that time (RESULTS/NAME.ended.xml), so that
build_rules/count.py counts it. The exit code is 0 where all passed.
"""

import gc
import glob
import importlib
import os
import re
import signal
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# These start no thread, while ONNX Runtime does: of a fork it would have only what that has made.
COMMON = ("pytest", "numpy", "onnx")
TORCH = ("torch", "torch._dynamo", "torch.export")
USES_TORCH = re.compile(r"^\s*(?:import|from) torch\b", re.MULTILINE)
ALONE = re.compile(r"tests/(?:tuner|bench)/")
# What measures no times in those folders.
BESIDE = re.compile(
    r"tests/bench/test_(?:riscv_.*|cores|builds|language|peers)\.py"
    r"|tests/tuner/test_(?:certs|fleet|log_mutants|tune_report|tune_logs|tune_quantised|units"
    r"|waiting)\.py"
)
# They take the longest, in this order, and begin first: else one of them would be the last. Those
# that need PyTorch come after all that do not, and end the part that runs side by side.
LONG = (
    "tests/frontend/test_memory.py",
    "tests/build_rules/test_wheels.py",
    "tests/frontend/test_models.py",
    "tests/runtime/test_zoo_riscv64.py",
    "tests/tuner/test_tune_logs.py",
    "tests/frontend/test_torch.py",
    "tests/torch/test_semantics.py",
    "tests/frontend/test_torch_damaged.py",
    "tests/torch/test_families.py",
    "tests/torch/test_operators.py",
    "tests/torch/test_roads.py",
    "tests/torch/test_transformers.py",
    "tests/zoo/test_tc.py",
    "tests/zoo/test_zoo.py",
)
NO_TESTS = 5  # pytest's exit code
THREADS = "OMP_NUM_THREADS"  # of PyTorch, and of NumPy's products; read where they are imported
ONE = ("--one-file",)  # before the path: this process runs that file


class Running:
    """A plugin of pytest that keeps the name of the test that runs in a file."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def pytest_runtest_logstart(self, nodeid):
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, nodeid.encode(), 0)


class File:
    """A file of tests, and what its process leaves."""

    def __init__(self, path, results):
        self.path = path
        stem = path.removesuffix(".py").replace("/", "_")
        self.junit, self.output, self.ended, self.running = (
            results / f"{stem}.{kind}" for kind in ("xml", "txt", "ended.xml", "running")
        )

    def uses_torch(self):
        return self.path.startswith("tests/torch/") or bool(
            USES_TORCH.search(Path(self.path).read_text(encoding="utf-8"))
        )

    def start(self, options, alone):
        """Begins its process, whose number it returns."""
        sys.stdout.flush()
        sys.stderr.flush()
        if alone:
            command = [sys.executable, __file__, str(self.junit.parent), *options, *ONE, self.path]
            return os.posix_spawn(sys.executable, command, os.environ)
        process = os.fork()
        if process == 0:
            self.run(options)
        return process

    def run(self, options):
        """Ends this process with the exit code of pytest for the file."""
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        import pytest

        sys.argv = ["pytest", "-q", *options, f"--junitxml={self.junit}", self.path]
        sys.exit(pytest.main(sys.argv[1:], plugins=[Running(self.running)]))

    def finish(self, code):
        """Shows what it printed, given the exit code or, below 0, the signal; whether it passed."""
        # One write, so that two files' texts do not mix.
        print(f"{self.path}: {self.output.read_text(errors='replace').rstrip()}", flush=True)
        failed = self._has_failure()
        passed = code in (0, NO_TESTS) and failed is not None
        if not passed and not failed:
            name = self.running.read_text() if self.running.exists() else ""
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            print(f"{name or self.path}: the process of {self.path} ended with {how}", flush=True)
            suite = ElementTree.Element("testsuite", name=self.path)
            case = ElementTree.SubElement(suite, "testcase", name=f"{name or self.path} ({how})")
            ElementTree.SubElement(case, "failure", message=f"the process ended with {how}")
            ElementTree.ElementTree(suite).write(self.ended)
        self.running.unlink(missing_ok=True)
        return passed

    def _has_failure(self):
        """Whether its JUnit file has one; None where there is no such file."""
        try:
            root = ElementTree.parse(self.junit).getroot()
        except (OSError, ElementTree.ParseError):
            return None
        return any(case.tag in ("failure", "error") for case in root.iter())


def run(files, options, alone=False):
    """Runs them in this order; whether all passed."""
    at_once = 1 if alone else min(2, os.cpu_count() or 1)
    waiting, running, passed = list(files), {}, True
    while waiting or running:
        while waiting and len(running) < at_once:
            file = waiting.pop(0)
            if file.uses_torch() and not alone:
                preload(TORCH)
            running[file.start(options, alone)] = file
        process, status = os.wait()
        passed &= running.pop(process).finish(os.waitstatus_to_exitcode(status))
    return passed


def preload(names):
    """Imports what is installed of these."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # the tests that need it skip themselves
    gc.collect()
    gc.freeze()  # a collection would copy the pages that processes share


def main(results, *options):
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    if options[-2:-1] == ONE:
        File(options[-1], Path(results)).run(options[:-2])
    files = [
        File(path, Path(results))
        for path in sorted(glob.glob("tests/*/test_*.py")) + sorted(glob.glob("tests/test_*.py"))
    ]
    alone = {
        file.path: bool(ALONE.match(file.path)) and not BESIDE.fullmatch(file.path)
        for file in files
    }
    files.sort(key=lambda file: LONG.index(file.path) if file.path in LONG else len(LONG))
    files.sort(key=File.uses_torch)
    threads = os.environ.get(THREADS)
    os.environ.setdefault(THREADS, "1")
    preload(COMMON)
    passed = run([file for file in files if not alone[file.path]], options)
    if threads is None:
        del os.environ[THREADS]
    passed &= run([file for file in files if alone[file.path]], options, alone=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
