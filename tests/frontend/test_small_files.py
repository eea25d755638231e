"""Files of at most 100 KB take no more memory to compile than 4 times their bytes and 400 MB,
whatever they ask for."""

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import tc

from . import small_files

# Reads a line with the paths of files, compiles each, and tells what it took.
CHILD = """
import json, os, re, sys, tc
def told(name):
    return int(re.search(name + r":\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10
tc.compile(sys.argv[1], log=False)
for line in sys.stdin:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before, said = told("VmRSS"), "compiled"
    try:
        tc.compile(line.strip(), log=False)
    except tc.Error as error:
        said = str(error)
    print(json.dumps([told("VmHWM") - before, said]), flush=True)
"""
SECONDS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("small")
    (made / small_files.DATA).write_bytes(
        np.arange(small_files.DATA_BYTES // 4, dtype=np.float32).tobytes()
    )
    (made / "first.onnx").write_bytes(small_files.QUICK["a small model"]().SerializeToString())
    return made


@pytest.fixture(scope="module")
def compiler(folder):
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "first.onnx")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TC_LOG": ""},
    ) as process:
        yield process
        process.stdin.close()


def took(compiler, path):
    """(bytes beyond what the process had, what it said)."""
    print(path, file=compiler.stdin, flush=True)
    line = compiler.stdout.readline()
    assert line, "the compiler ended"
    return json.loads(line)


@pytest.mark.parametrize(
    "name",
    [
        *small_files.QUICK,
        *(pytest.param(name, marks=pytest.mark.full) for name in small_files.SLOW),
    ],
)
def test_small_files_take_little_memory(name, folder, compiler):
    path = folder / f"{re.sub('[^a-z]+', '_', name)}.onnx"
    path.write_bytes((small_files.QUICK | small_files.SLOW)[name]().SerializeToString())
    size = os.path.getsize(path)
    assert size <= 100_000
    start = time.monotonic()
    more, said = took(compiler, path)
    print(f"{name}: {more / 1e6:.0f} MB, {said[:200]}")
    assert more <= 400e6 + 4 * (size + (small_files.DATA_BYTES if "ranges" in name else 0)), said
    assert "memory ran out" not in said and "internal error" not in said
    assert time.monotonic() - start <= SECONDS * max(1, os.getloadavg()[0] / os.cpu_count())


def compiled(made, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return tc.compile(path, log=False)


def test_what_is_not_computed_while_compiling_is_computed_by_the_run(tmp_path):
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(
        compiled(small_files.fills(5, 1 << 24), tmp_path)(x), x + 0 + 1 + 2 + 3 + 4
    )


def test_ranges_that_overlap_a_little_are_read(tmp_path):
    data = np.arange(small_files.DATA_BYTES // 4, dtype=np.float32)
    (tmp_path / small_files.DATA).write_bytes(data.tobytes())
    x = np.ones(4, np.float32)
    for step in 0, 4096:
        expected = sum(
            data[number * step // 4 :][: 1 << 18].astype(np.float64).max() for number in range(20)
        )
        np.testing.assert_allclose(
            compiled(small_files.ranges(20, step), tmp_path)(x), x + expected, rtol=1e-6
        )


def test_ranges_that_overlap_are_refused(tmp_path):
    (tmp_path / small_files.DATA).write_bytes(bytes(small_files.DATA_BYTES))
    with pytest.raises(
        tc.ModelError,
        match=r"tensor 'w\d+' of model.onnx: so many tensors overlap in its external data 'data.bin', which has 2097152 bytes, that far "
        r"more would be read than there is; export the model again, each tensor in a place of its own",
    ):
        compiled(small_files.ranges(200), tmp_path)


def test_a_run_that_makes_long_strings_is_refused():
    module = tc.compile(
        small_files.texts("StringConcat").SerializeToString(), max_ram="64MB", log=False
    )
    with pytest.raises(
        tc.UnsupportedError,
        match=r"\(StringConcat, opset 20\) of model.onnx and those before it make strings and tables of more than 64000000 bytes; give "
        r"shorter strings, or more memory by max_ram \(default: half of this machine's memory\)",
    ):
        module(np.ones(4, np.float32))
