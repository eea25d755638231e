"""A time limit holds in real time, on every kind of device, and the last sentences are true."""

import json
import subprocess
import sys
import time

import pytest

from tc import fleet
from tests import zoo
from tests.convolution_chain import convolution_chain


AGENTS = {
    "native": [],
    "simulated": [["--name", "one", "--runner", "qemu", "--vector-bits", "256"]],
    "two agents": [["--name", "one"], ["--name", "two"]],
}


def save_convolutions(path):
    """Layers of which one simulated run takes about a tenth of a second."""
    import onnx

    onnx.save(convolution_chain((16, 24, 32), 28), path)


def tuned_within(path, kind, limit, log, *options):
    """What the command says of a tuning with this limit, which it keeps in real time."""
    command = [sys.executable, "-m", "tc", "tune", str(path), "--threads", "1", "--json"]
    command += ["--time-limit", str(limit), "--log", str(log), *options]
    if kind == "simulated":
        command += ["--target", "rv64gcv"]
    with fleet.Local(*AGENTS[kind]) as programs:
        if AGENTS[kind]:
            command += ["--tracker", programs.address, "--insecure"]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - begin
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(
        f"\n{path}, {kind}, {limit} s: {seconds:.1f} s, {found['trials']} tried, {found['notes']}"
    )
    assert seconds <= 1.05 * limit + 2
    assert_true(found)
    return found


def assert_true(found):
    """Its notes say what it has done: what was skipped, whether it searched, who decided."""
    kernels, notes = found["kernels"], " | ".join(found["notes"])
    skipped = [kernel for kernel in kernels if kernel["trials"] == 0]
    searched = any(kernel["trials"] > 1 for kernel in kernels)
    faster = [kernel for kernel in kernels if kernel["best"] and kernel["best"] < kernel["untuned"]]
    told = f"the time did not last to measure {len(skipped)} of {len(kernels)} kernels"
    assert (told in notes) == bool(skipped), notes
    if found["measured"]:
        assert ("none was searched for" in notes) == (not searched and not faster), notes
        assert ("no schedule was faster" in notes) == (searched and not faster), notes
    decided = found["model_gain"] is not None
    undecided = "measure the whole model" in notes or "build the whole model" in notes
    assert not faster or decided or undecided or "could not be measured" in notes, notes
    assert not decided or faster
    if len(skipped) < len(kernels):
        assert found["stopped"] in ("budget", "exhausted")


@pytest.mark.parametrize("kind", AGENTS)
def test_a_limit_holds(tmp_path, kind):
    pytest.importorskip("onnx")
    save_convolutions(tmp_path / "convolutions.onnx")
    tuned_within(tmp_path / "convolutions.onnx", kind, 3, tmp_path / "log.db")


@pytest.mark.full
@pytest.mark.parametrize(
    "name, kind, limit",
    [
        ("squeezenet1_1", "native", 10),
        ("resnet50", "native", 30),
        ("nsnet2", "native", 60),
        ("mobilenet_v2", "native", 180),
        ("resnet50", "simulated", 10),
        ("squeezenet1_1", "simulated", 30),
        ("mobilenet_v2", "simulated", 60),
        ("squeezenet1_1", "simulated", 180),
        ("mobilenet_v2", "two agents", 10),
        ("nsnet2", "two agents", 30),
        ("resnet50", "two agents", 60),
        ("squeezenet1_1", "two agents", 180),
    ],
)
def test_limits_hold(tmp_path, name, kind, limit):
    shapes = [
        word
        for key, value in zoo.example(name).items()
        for word in ("--shape", f"{key}={','.join(map(str, value.shape))}")
    ]
    tuned_within(zoo.export(name), kind, limit, tmp_path / "log.db", *shapes)
