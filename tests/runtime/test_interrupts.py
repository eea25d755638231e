"""Ctrl-C: a command ends with one line and the status 130 within a second, and leaves nothing
half-written; a call of Python raises a KeyboardInterrupt as soon."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tc

from ..convolution_chain import convolution_chain

onnx = pytest.importorskip("onnx")

# Seconds from Ctrl-C to the end. A command that does not leave by itself is ended after half a
# second; the rest is for a busy machine.
MAX_SECONDS = 1.0
# Moments of each command that ./check draws, and --full.
MOMENTS, ALL_MOMENTS = 1, 8


def network():
    """Convolutions, no two of one shape: about two seconds of compiling."""
    return convolution_chain(range(8, 8 + 14 * 5, 5), 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    onnx.save(network(), made / "net.onnx")
    np.save(
        made / "samples.npy",
        np.random.default_rng(1).standard_normal((6, 3, 40, 40)).astype(np.float32),
    )
    return made


# For each command: its arguments, seconds in which moments are drawn, and what is whole of the
# files that it may have written.
COMMANDS = {
    "compile": (["compile", "net.onnx", "--kind", "static", "-o", "{out}/net.a"], 3),
    "tune": (["tune", "net.onnx", "--log", "{out}/log.db", "--trials", "300"], 12),
    "verify": (["verify", "net.onnx", "--output-dir", "{out}/found"], 6),
    "quantize": (["quantize", "net.onnx", "--data", "samples.npy", "-o", "{out}/net.int8.onnx"], 8),
    "run": (["run", "net.onnx", "--random", "--output-dir", "{out}/results"], 3),
}


def is_loaded(process):
    """Whether the process has begun to load the package: before that Python itself answers."""
    try:
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
            return "/tc/_runtime.so" in maps.read()
    except OSError:
        return False


def empty_soon(folder):
    """Whether nothing is left in the folder, some time after processes beside the command have
    ended."""
    for _ in range(100):
        if not os.listdir(folder):
            return True
        time.sleep(0.05)
    return False


def check_files(out):
    """Each file that is there is whole."""
    for path in sorted(each for each in out.rglob("*") if each.is_file()):
        if path.suffix == ".npy":
            assert np.load(path).size
        elif path.suffix == ".onnx":
            onnx.checker.check_model(onnx.load(path))
        elif path.suffix == ".db":
            assert tc.Log(path).store.integrity() in ("", "ok", [])
        elif path.suffix == ".a":
            assert path.with_suffix(".h").exists() and path.read_bytes()[:8] == b"!<arch>\n"
        elif path.suffix == ".h":
            assert path.with_suffix(".a").exists()
        else:
            assert path.suffix in (".json", ".db-wal", ".db-shm", ".db-journal"), path


def interrupt(folder, tmp_path, arguments, moment):
    """Runs a command, sends SIGINT so many seconds after the package began to load; None where it
    was done before, else the seconds that it took to end."""
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    out.mkdir(exist_ok=True)
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tc", *(each.format(out=out) for each in arguments)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "TC_LOG": ""},
    )
    while process.poll() is None and not is_loaded(process):
        time.sleep(0.002)
    time.sleep(moment)
    if process.poll() is not None:
        _, errors = process.communicate()
        assert process.returncode == 0, (arguments, moment, errors)
        return None
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    seconds = time.monotonic() - begin
    if process.returncode == 0:  # done at that very moment
        return None
    # A pipe may have got lines of progress before.
    *progress, last = errors.splitlines(keepends=True)
    assert process.returncode == 130, (arguments, moment, errors)
    kept = r"; (1 schedule is|\d+ schedules are) kept in \S+log\.db: the same command goes on from there"
    assert re.fullmatch(f"tc: interrupted({kept if arguments[0] == 'tune' else ''})?\n", last), last
    assert all(line.startswith(f"{arguments[0]}: ") for line in progress), (moment, errors)
    assert empty_soon(temporary), (moment, os.listdir(temporary))
    check_files(out)
    return seconds


def moments_of(command, count):
    drawn = random.Random(f"{command} 7")
    return [drawn.uniform(0, COMMANDS[command][1]) for _ in range(count)]


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_at_any_moment(folder, tmp_path, command, request):
    count = ALL_MOMENTS if request.config.getoption("--full") else MOMENTS
    taken = []
    for number, moment in enumerate(moments_of(command, count)):
        (tmp_path / str(number)).mkdir()
        taken.append(interrupt(folder, tmp_path / str(number), COMMANDS[command][0], moment))
    interrupted = [seconds for seconds in taken if seconds is not None]
    print(
        f"{command}: {len(interrupted)} of {count} interrupted, the slowest after {max(interrupted, default=0):.2f} s"
    )
    assert len(interrupted) >= count // 2
    assert all(seconds < MAX_SECONDS for seconds in interrupted), taken


# Each is interrupted while it says nothing: the number of seconds from SIGINT to the
# KeyboardInterrupt is printed.
CALLS = """
import os, signal, threading, time
import numpy as np
import tc

def timed(call, after):
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(after, send)
    timer.start()
    try:
        for _ in range(200):
            call()
        print("done")
    except KeyboardInterrupt:
        print(f"{time.monotonic() - sent[0]:.3f}")
"""


def run_calls(program, folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CALLS + program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "TMPDIR": str(tmp_path), "TC_LOG": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_calls_raise_a_keyboard_interrupt(folder, tmp_path):
    found = run_calls(
        """
for after in 0.2, 0.7, 1.3:
    timed(lambda: tc.compile("net.onnx", log=False), after)
timed(lambda: tc.verify("net.onnx"), 1.5)
timed(lambda: tc.check("net.onnx"), 0.3)
timed(lambda: tc.quantize("net.onnx", np.load("samples.npy"), progress=False), 1.0)
module = tc.compile("net.onnx", log=False)          # and all works afterwards
print(module(np.zeros((1, 3, 40, 40), np.float32)).shape[0])
""",
        folder,
        tmp_path,
    )
    assert found[-1] == "1"
    assert len(found) == 7 and all(float(each) < MAX_SECONDS for each in found[:-1]), found
    assert empty_soon(tmp_path)


def test_a_long_run_is_left_and_the_module_stays_right(tmp_path):
    """One run of some seconds, whose code looks for no signals."""
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.eye(2048, dtype=np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x" if number == 0 else f"m{number - 1}", "w"], [f"m{number}"])
        for number in range(24)
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2048])],
        [helper.make_tensor_value_info("m23", TensorProto.FLOAT, ["n", 2048])],
        [weights],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "long.onnx",
    )
    found = run_calls(
        """
module = tc.compile("long.onnx", log=False, threads=1, specialise=0, tolerance=0)
x = np.random.default_rng(0).standard_normal((4096, 2048)).astype(np.float32)
timed(lambda: module(x), 0.7)
small = x[:3]
print(bool((module(small) == small).all()))
timed(lambda: module(x), 0.7)
print(bool((module(small) == small).all()))
""",
        tmp_path,
        tmp_path,
    )
    assert found[1] == found[3] == "True"
    assert float(found[0]) < MAX_SECONDS and float(found[2]) < MAX_SECONDS, found
