"""Between runs tc uses no processor time, and two of its processes get along."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import zoo
from tests.bench import two_processes

ROOT = Path(__file__).resolve().parent.parent.parent


def test_idle_threads_use_no_processor_time():
    """A millisecond after a run on two threads, the worker sleeps."""
    tc = pytest.importorskip("tc")
    inputs, _ = zoo.reference("nsnet2_step")
    module = tc.compile(str(zoo.export("nsnet2_step")), threads=2)
    module.run(inputs)
    # The worker may not have got a processor in the first millisecond, on a busy machine.
    found = [two_processes.idle_cpu(lambda: module.run(inputs)) for _ in range(5)]
    assert min(idle for idle, _ in found) == 0, found
    assert max(awake for _, awake in found) > 0, found  # Else there was no worker to look at.


def test_a_thread_that_spins_is_seen():
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    idle, _ = two_processes.idle_cpu(lambda: time.sleep(0.01), seconds=0.1)
    stop.set()
    thread.join()
    assert idle > 1e6


@pytest.mark.full
def test_two_processes_get_along(tmp_path):
    """Two of tc slow each other at most 1.1 times as much as two of ONNX Runtime, in the geometric
    mean over the networks and thread counts; 1.3 times on any."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.bench.two_processes",
            "--json",
            str(tmp_path / "two.json"),
            "--most",
            "1.3",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ratios = [row["ratio"] for row in json.loads((tmp_path / "two.json").read_text())]
    product = 1.0
    for ratio in ratios:
        product *= ratio
    assert product ** (1 / len(ratios)) <= 1.1, done.stdout
