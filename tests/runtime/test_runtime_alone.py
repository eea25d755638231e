"""The runtime without the compiler: what it loads, how little memory it takes, what it says where
it stands alone."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

tc = pytest.importorskip("tc")
zoo = pytest.importorskip("tests.zoo", reason="torch is not installed")

# The largest resident size of a program, in MB, and whether the compiler's libraries were loaded.
EPILOGUE = """
import re
status = open("/proc/self/status").read()
print("compiler" if "libLLVM" in open("/proc/self/maps").read() else "runtime",
      int(re.search("VmHWM:\\\\s*(\\\\d+)", status)[1]) * 1024 / 1e6)
"""


def run(program, *arguments, package=None):
    """What a Python process of its own prints last."""
    environment = dict(os.environ)
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        cwd=package,
    ).stdout.splitlines()[-1]


def peak(program, *arguments):
    """The runtime's peak of the least of three runs, in MB; the compiler must not be loaded."""
    found = [run(program + EPILOGUE, *arguments).split() for _ in range(3)]
    assert all(loaded == "runtime" for loaded, _ in found)
    return min(float(megabytes) for _, megabytes in found)


@pytest.fixture(scope="module")
def squeezenet(tmp_path_factory):
    path = tmp_path_factory.mktemp("squeezenet") / "squeezenet.so"
    tc.compile(str(zoo.export("squeezenet1_1")), threads=1).save(str(path))
    return path


def test_import_takes_less_than_five_megabytes():
    own = peak("import numpy, tc")
    numpy = peak("import numpy")
    print(f"import tc: {own - numpy:.1f} MB over numpy's {numpy:.1f} MB")
    assert own - numpy < 5


RUN_TC = """
import sys, numpy, tc
module = tc.load(sys.argv[1], threads=1)
for _ in range(2):
    module(numpy.zeros((1, 3, 224, 224), numpy.float32))
"""

RUN_ONNX_RUNTIME = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
for _ in range(2):
    session.run(None, {session.get_inputs()[0].name: numpy.zeros((1, 3, 224, 224), numpy.float32)})
"""


def test_a_run_takes_less_than_onnx_runtime(squeezenet):
    pytest.importorskip("onnxruntime")
    own = peak(RUN_TC, squeezenet)
    peer = peak(RUN_ONNX_RUNTIME, zoo.export("squeezenet1_1"))
    print(f"SqueezeNet 1.1 in Python: {own:.1f} MB, ONNX Runtime {peer:.1f} MB")
    assert own < peer


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The package without its compiler, as the runtime's wheel has it."""
    folder = tmp_path_factory.mktemp("alone")
    package = pathlib.Path(tc.__file__).parent
    shutil.copytree(
        package,
        folder / "tc",
        ignore=lambda _, names: [
            name for name in names if name in ("_tc.so", "bin", "lib", "include", "__pycache__")
        ],
    )
    return folder


def test_runs_alone(squeezenet, alone):
    told = run(
        """
import sys, numpy, tc
print(tc.__file__.startswith(sys.argv[2]), tc.load(sys.argv[1])(numpy.zeros((1, 3, 224, 224), "f")).shape)
""",
        squeezenet,
        alone,
        package=alone,
    )
    assert told == "True (1, 1000)"


@pytest.mark.parametrize(
    "call",
    [
        "tc.compile('model.onnx')",
        "tc.check('model.onnx')",
        "tc.targets()",
        "tc.kernels('model.onnx')",
        "tc.tune('model.onnx', log='new.db')",
    ],
)
def test_says_what_it_cannot_alone(alone, call):
    told = run(
        f"""
import tc
try:
    {call}
except tc.Error as error:
    print(error)
""",
        package=alone,
    )
    assert told == (
        "this is tc's runtime alone: it loads and runs compiled models and does not compile; the "
        "compiler is another package: pip install tc-compiler"
    )


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="module 'tc' has no attribute 'nothing'"):
        tc.nothing
    assert set(tc.__all__) <= set(dir(tc))
    assert all(getattr(tc, name) is not None for name in tc.__all__)
