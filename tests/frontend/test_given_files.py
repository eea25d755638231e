"""Files that anybody may have written: arrays, models and artefacts, damaged at random or on
purpose, end in a result or in a sentence, and pipes that nobody writes to are waited for by
nothing."""

import os
import struct
import subprocess
import sys
from random import Random

import numpy as np
import pytest

import tc
from tc.given_files import read_array, read_arrays

from .hostile_names import assert_fit_to_be_seen

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

ELEMENTS = np.arange(6, dtype="<f4").tobytes()


def npy(header, elements=ELEMENTS, version=1):
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header.encode("latin1") + elements


def header(descr="'<f4'", order="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def refusal(path, read=read_array):
    with pytest.raises(tc.ModelError) as raised:
        read(str(path))
    assert_fit_to_be_seen(str(raised.value))
    begin = f"{path} cannot be read: "
    assert str(raised.value).startswith(begin)
    return str(raised.value).removeprefix(begin)


def refusal_of(data, folder):
    (folder / "x.npy").write_bytes(data)
    return refusal(folder / "x.npy")


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.float64(3),
        np.zeros((0, 5), np.int8),
        np.array(["a", "größe"]),
        np.array([True, False]),
        np.arange(4, dtype=">i2"),
        np.zeros(3, "V2"),
        np.zeros((1,) * 32, np.uint8),
    ],
    ids=lambda array: f"{array.dtype.str} {array.ndim}",
)
def test_what_numpy_writes(array, tmp_path):
    for version in (1, 0), (2, 0), (3, 0):
        with open(tmp_path / "x.npy", "wb") as file:
            np.lib.format.write_array(file, np.asanyarray(array), version)
        found = read_array(tmp_path / "x.npy")
        assert (
            found.dtype == array.dtype
            and found.shape == array.shape
            and found.tobytes() == np.asarray(array).tobytes()
        )
    np.savez_compressed(tmp_path / "x.npz", a=array, b=np.ones(2))
    found = read_arrays(tmp_path / "x.npz")
    assert list(found) == ["a", "b"] and found["a"].tobytes() == np.asarray(array).tobytes()


def test_what_python_2_wrote(tmp_path):
    (tmp_path / "x.npy").write_bytes(npy(header(shape="(2L, 3L)")))
    assert read_array(tmp_path / "x.npy").shape == (2, 3)


DAMAGED = "its header is damaged"
NO_SHAPE = " is none of an array"


@pytest.mark.parametrize(
    "text, said",
    [
        (header(shape="(99999999999999999999999,)"), NO_SHAPE),
        (
            header(shape="(4611686018427387904, 4)"),
            "its header promises 73786976294838206464 bytes of elements, 24 are there",
        ),
        (header(shape="(True, 6)"), DAMAGED),
        (header(shape="(2.0, 3)"), DAMAGED),
        (header(shape="6"), DAMAGED),
        (header(shape="[6]"), DAMAGED),
        (header(shape="(-1,)"), NO_SHAPE),
        (header(shape="(-2, -3)"), NO_SHAPE),
        (header(shape="(" + "1, " * 33 + ")"), NO_SHAPE),
        (header(shape="(0, 99999999999999999999999)"), NO_SHAPE),
        (header(shape="(" * 90 + "6" + ")" * 90), DAMAGED),
        (header(shape="(" * 4000 + "6" + ")" * 4000), DAMAGED),
        (header(shape="(6,) * 2"), DAMAGED),
        (header(order="1"), DAMAGED),
        (header(order="None"), DAMAGED),
        (header("None"), DAMAGED),
        (header("'f4, f4'"), "its elements have several fields; save an array for each"),
        (header("[('a', '<f4')]"), "its elements have several fields; save an array for each"),
        (header("('<f4', (2,))"), "its elements have several fields; save an array for each"),
        (
            header("'|O'"),
            "it holds objects of Python, which would run code where they are read; save an array of numbers or of text",
        ),
        (header("'|V0'", shape="(4611686018427387904, 4)"), "its elements have no bytes"),
        (header("'\x1b[2J'"), DAMAGED),
        ("{'descr': '<f4', 'shape': (6,), }", DAMAGED),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", DAMAGED),
        ("\x1b[2J", DAMAGED),
        ("[]", DAMAGED),
        (" " * 20_000, "its header has 20000 bytes"),
    ],
)
def test_headers(text, said, tmp_path):
    for version in 1, 2, 3:
        found = refusal_of(npy(text, version=version), tmp_path)
        assert found == said or (
            said == NO_SHAPE and found.startswith("its shape (") and found.endswith(said)
        )


def test_other_files_than_arrays(tmp_path):
    whole = npy(header())
    assert (
        refusal_of(b"", tmp_path)
        == refusal_of(b"PK\3\4" + bytes(50), tmp_path)
        == "it is no .npy file"
    )
    assert refusal_of(whole[:6] + b"\7" + whole[7:], tmp_path) == "its format version 7 is unknown"
    assert refusal_of(whole[:20], tmp_path) == "it is cut short"
    assert (
        refusal_of(whole[:-1], tmp_path) == "its header promises 24 bytes of elements, 23 are there"
    )
    os.mkfifo(tmp_path / "pipe")
    for path in tmp_path / "pipe", "/dev/zero":
        for read in read_array, read_arrays:
            assert (
                refusal(path, read)
                == "it is no regular file; write what comes out of it to one, and give that"
            )
    assert (
        refusal(tmp_path) == "Is a directory"
        and refusal(tmp_path / "none") == "No such file or directory"
    )
    (tmp_path / "x.npz").write_bytes(b"PK\3\4" + bytes(50))
    assert refusal(tmp_path / "x.npz", read_arrays).startswith("it is no .npz file: ")


# --- pipes ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a model, its artefacts, and pipes that nobody writes to."""
    folder = tmp_path_factory.mktemp("made")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "positive",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "model.onnx",
    )
    module = tc.compile(folder / "model.onnx", log=False)
    module.export(folder / "model.so")
    module.export(folder / "program", kind="executable")
    for suffix in "npy", "onnx", "tflite", "gguf", "pt", "pt2", "so", "bin":
        os.mkfifo(folder / f"pipe.{suffix}")
    return folder


def test_executables_wait_for_no_pipe(made):
    for path in made / "pipe.npy", "/dev/zero", "/dev/null":
        done = subprocess.run(
            [made / "program", f"--input=x={path}"],
            capture_output=True,
            check=False,
            timeout=60,
            text=True,
        )
        assert (done.returncode, done.stderr) == (
            1,
            f"{made}/program: input 'x': {path}: it is no regular file; write what comes out of it to one, and give that; "
            "expected f32 [2, 3]\n",
        )


def test_commands_wait_for_no_pipe(made):
    calls = [
        ["run", "model.so", "--input", "x=pipe.npy"],
        ["run", "model.onnx", "--input", "x=pipe.npy"],
        ["verify", "model.onnx", "--input", "x=pipe.npy"],
        ["quantize", "model.onnx", "--data", "pipe.npy"],
        *(["check", f"pipe.{suffix}"] for suffix in ("onnx", "tflite", "gguf", "pt", "pt2", "bin")),
        ["run", "pipe.so"],
        ["inspect", "pipe.so"],
    ]
    script = "import sys, tc.cli\nfor call in sys.argv[1:]: tc.cli.main(call.split())"
    done = subprocess.run(
        [sys.executable, "-c", script, *(" ".join(call) for call in calls)],
        capture_output=True,
        check=False,
        timeout=120,
        text=True,
        cwd=made,
    )
    lines = done.stderr.splitlines()
    assert len(lines) == len(calls), done.stderr
    for line in lines:
        assert "regular file" in line or "is a pipe or a device, not a model's file" in line, line
    with pytest.raises(tc.ModelError, match=r"not a compiled model \(it is no regular file\)"):
        tc.load(made / "pipe.so")


# --- files changed at random ----------------------------------------------------------------------


def changed(data, random):
    """The bytes with a few of them changed, left out or put in."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        at, kind = random.randrange(len(data) + 1), random.random()
        if kind < 0.4 and at < len(data):
            data[at] = random.randrange(256)
        elif kind < 0.6 and len(data) > 4:
            at = min(at, len(data) - 4) & ~3
            data[at : at + 4] = struct.pack(
                "<i", random.choice([0, 1, -1, 2**31 - 1, -(2**31), 255, 65535])
            )
        elif kind < 0.75:
            del data[at : at + random.choice([1, 4, 30])]
        else:
            data[at:at] = random.choice(
                [
                    b"-",
                    b"9" * 30,
                    b"(" * 9,
                    b"[",
                    b"'",
                    b"\\x1b",
                    b"\x1b[2J",
                    b"\0",
                    b"\xff",
                    b"L",
                    b"None",
                    b"#",
                ]
            )
    return bytes(data)


def outcome(call):
    """Whether the call has a result; a refusal is a sentence."""
    try:
        call()
        return True
    except tc.Error as error:
        assert type(error) is not tc.Error and "internal error" not in str(error), error
        assert_fit_to_be_seen(str(error))
        assert "\n" not in str(error)
        return False


# With --full 5,000 of each kind, of other seeds, in four parts.
COUNTS = pytest.mark.parametrize(
    "first, count",
    [(0, 150), *(pytest.param(10000 * part, 1250, marks=pytest.mark.full) for part in range(1, 5))],
)


@COUNTS
def test_mutants_of_arrays(first, count, made, tmp_path):
    module = tc.load(made / "model.so")
    results = 0
    for seed in range(first, first + count):
        (tmp_path / "x.npy").write_bytes(changed(npy(header()), Random(seed)))
        results += outcome(lambda: module.run({"x": read_array(tmp_path / "x.npy")}))
        if seed % 10 == 0:
            done = subprocess.run(
                [made / "program", f"--input=x={tmp_path}/x.npy"],
                capture_output=True,
                check=False,
                timeout=60,
            )
            assert done.returncode in (0, 1)
            assert_fit_to_be_seen(done.stderr.decode())
    assert 0 < results < count


@COUNTS
def test_mutants_of_tflite_files(first, count):
    pytest.importorskip("tflite")
    from .test_tflite import CASES
    from .test_tflite_variables import running_sum
    from .tflite_models import one

    sources = [running_sum(), *(one(*case[:4], **case[4]) for case in CASES.values())]
    results = 0
    for seed in range(first, first + count):
        random = Random(seed)
        data = changed(random.choice(sources), random)

        def check(data=data):
            for problem in tc.check(data):
                assert_fit_to_be_seen(problem)
                assert "\n" not in problem

        results += outcome(check)
        if seed % 10 == 0:
            outcome(lambda data=data: tc.compile(data))
    assert 0 < results < count
