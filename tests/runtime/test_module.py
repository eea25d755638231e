"""Modules and the command line, with an artefact written by hand."""

import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

from .artefacts import COMPILER, library, resealed

tc = pytest.importorskip("tc")

HERE = os.path.dirname(os.path.abspath(__file__))

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")


@pytest.fixture(scope="module")
def artefact(tmp_path_factory):
    path = tmp_path_factory.mktemp("fake") / "fake.so"
    return str(library(path, pathlib.Path(HERE) / "fake_model.c"))


@pytest.fixture(scope="module")
def module(artefact):
    return tc.load(artefact, threads=2)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.ones((2, 3), np.float32)


def test_tells_its_ports(module):
    assert module.inputs == (
        tc.Port("x", "float32", ("batch", 3)),
        tc.Port("y", "float32", ("batch", 3)),
    )
    assert module.outputs[2] == tc.Port("ones", "uint8", (None,))
    assert module.symbols == {"batch": (1, 100000)}
    assert (module.name, module.target) == ("fake.so", "x86-64-v9")
    assert "input  x: float32 [batch, 3]" in module.explain()


def test_runs_by_position_and_name(module):
    for results in (module(X, Y), module(X, y=Y), tuple(module.run({"y": Y, "x": X}).values())):
        z, shape, ones = results
        assert z.dtype == np.float32 and np.array_equal(z, X + Y + 20)
        assert shape.dtype == np.int64 and shape.tolist() == [2, 3]
        assert ones.dtype == np.uint8 and ones.tolist() == [1] * 4
    assert list(module.run({"x": X, "y": Y})) == ["z", "shape", "ones"]


def test_memory_follows_the_shapes(artefact):
    module = tc.load(artefact, threads=3)
    assert module.memory == tc.Memory(64, None, None)
    module(X, Y)
    assert module.memory == tc.Memory(64, 48, 64 + 48 + 3 * 64)


def test_takes_any_layout_of_the_right_type(module):
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)
    misaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    read_only = X.copy()
    read_only.flags.writeable = False
    for x in (
        X[::-1],
        wide[:, ::2],
        np.asfortranarray(X),
        X.astype(">f4"),
        misaligned,
        read_only,
        memoryview(X),
        X.tolist(),
    ):
        assert np.array_equal(module(x, Y)[0], np.asarray(x, np.float32) + Y + 20)


@pytest.mark.parametrize(
    "arguments, named, text",
    [
        (
            (X.astype(float), Y),
            {},
            "input 'x' of model 'fake.so' is float64; expected float32 [batch, 3]: "
            "pass x.astype('float32')",
        ),
        ((X,), {}, "model 'fake.so' takes 2 inputs, not 1"),
        ((X, Y, Y), {}, "model 'fake.so' takes 2 inputs, not 3"),
        (
            (X, Y[:1]),
            {},
            "input 'y': axis 0 ('batch') is 1, but axis 0 of input 'x' makes 'batch' 2",
        ),
        ((X[0], Y), {}, "input 'x' has rank 1; the model expects rank 2"),
        ((X,), {"w": Y}, "model 'fake.so' has no input 'w'; its inputs are x, y"),
        ((X, Y), {"x": X}, "input 'x' of model 'fake.so' is given twice"),
        ((), {"y": Y}, "input 'x' of model 'fake.so' is missing (float32 [batch, 3])"),
        (
            (X, "text"),
            {},
            "input 'y' of model 'fake.so' is no array of numbers but a str; expected float32 "
            "[batch, 3]",
        ),
        (
            (X, None),
            {},
            "input 'y' of model 'fake.so' is no array of numbers but a NoneType; expected "
            "float32 [batch, 3]",
        ),
    ],
)
def test_refuses_wrong_inputs(module, arguments, named, text):
    with pytest.raises(tc.ShapeError) as raised:
        module(*arguments, **named)
    assert str(raised.value) == text


def test_saves_and_loads(module, tmp_path):
    path = tmp_path / "copy.so"
    for _ in range(2):  # the second time over a file that is loaded
        module.save(path)
        again = tc.load(path)
        assert np.array_equal(again(X, Y)[0], X + Y + 20)
    assert os.listdir(tmp_path) == ["copy.so"]


def test_export_says_what_is_wrong(module, artefact, tmp_path):
    with pytest.raises(tc.TargetError) as raised:
        module.export(tmp_path / "x", kind="blob")
    assert str(raised.value) == (
        "unknown kind of artefact 'blob'; the kinds are shared, static, executable, object, bare, c, loops"
    )
    with pytest.raises(tc.DeviceError) as raised:
        module.export(tmp_path / "x", kind="executable")
    assert str(raised.value) == (
        f"'{artefact}' was loaded, and a loaded module can be written as "
        '"shared" only; compile the model again for "executable"'
    )
    with pytest.raises(tc.DeviceError) as raised:
        module.save("/nonexistent/model.so")
    assert str(raised.value) == (
        "'/nonexistent/model.so' cannot be written: there is no folder '/nonexistent'"
    )


def test_load_says_what_is_wrong(artefact, tmp_path):
    text = tmp_path / "text.so"
    text.write_text("no artefact")
    with pytest.raises(tc.ModelError) as raised:
        tc.load(text)
    assert (
        str(raised.value)
        == f"{text}: not a compiled model (the file is too short for an ELF header)"
    )
    foreign = tmp_path / "foreign.so"
    data = bytearray(open(artefact, "rb").read())
    data[18:20] = (243).to_bytes(2, "little")
    foreign.write_bytes(resealed(bytes(data)))
    with pytest.raises(tc.TargetError) as raised:
        tc.load(foreign)
    assert str(raised.value).startswith(f"{foreign}: built for riscv64; this machine is x86-64.")


def test_runs_in_many_threads(module):
    wrong = []

    def work(seed):
        for i in range(50):
            x = np.full((seed + 1, 3), i, np.float32)
            if not np.all(module(x, x)[0] == 2 * i + 20):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_options_are_checked():
    cases = [
        (
            lambda: tc.compile(5),
            tc.ModelError,
            "a model is the path of an ONNX, PyTorch, TensorFlow Lite, GGUF, transformers or ONNX as text file, its bytes, an onnx.ModelProto, a torch.nn.Module or "
            "an ExportedProgram, not a int",
        ),
        (
            lambda: tc.compile("/nonexistent/x.onnx"),
            tc.ModelError,
            "/nonexistent/x.onnx: cannot be read: No such file or directory",
        ),
        (lambda: tc.compile("/tmp"), tc.ModelError, "/tmp: cannot be read: it is no regular file"),
        (
            lambda: tc.compile("model.h5"),
            tc.UnsupportedError,
            "model.h5: this is a model of Keras; write it as ONNX with tf2onnx, or as TensorFlow Lite",
        ),
        (
            lambda: tc.compile("model.onnx", inputs=(1,)),
            tc.ShapeError,
            "inputs: only models of PyTorch take example inputs; other models state their own, and shapes={…} binds them",
        ),
        (
            lambda: tc.compile(b"", shapes={"x": "wide"}),
            tc.ShapeError,
            "shapes: 'x' is 'wide'; give a number for a symbol, or a tuple of numbers (None leaves one "
            "open) for an input",
        ),
        (lambda: tc.compile(b"", shapes={"x": -3}), tc.ShapeError, "shapes: 'x' has the size -3"),
        (
            lambda: tc.compile(b"", threads=0),
            tc.Error,
            "threads is 0; give a whole number from 1 to 1024, or None for all cores",
        ),
        (
            lambda: tc.compile(b"", tolerance=-1),
            tc.Error,
            "tolerance is -1; give a number of at least 0",
        ),
    ]
    for call, error, text in cases:
        with pytest.raises(error) as raised:
            call()
        assert type(raised.value) is error and str(raised.value) == text


def command(*arguments):
    """Exit code, stdout and stderr of python -m tc."""
    result = subprocess.run(
        [sys.executable, "-m", "tc", *map(str, arguments)], capture_output=True, text=True
    )
    return result.returncode, result.stdout, result.stderr


def test_command_run(artefact, tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    code, out, err = command(
        "run",
        artefact,
        "--input",
        f"x={tmp_path}/x.npy",
        "--input",
        f"y={tmp_path}/y.npy",
        "--output-dir",
        tmp_path / "out",
        "--json",
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["outputs"][0] == {
        "name": "z",
        "dtype": "float32",
        "shape": [2, 3],
        "file": f"{tmp_path}/out/z.npy",
    }
    assert np.array_equal(np.load(tmp_path / "out" / "z.npy"), X + Y + 20)
    code, out, _ = command("run", artefact, "--random", "--shape", "batch=4")
    assert code == 0 and "input  x: float32 [4, 3] (seeded)" in out


def test_command_errors(artefact):
    code, out, err = command("run", artefact, "--random")
    assert (code, out) == (1, "")
    assert err == "tc: input 'x' has the open size 'batch'; bind it with --shape batch=1\n"
    code, out, err = command("compile", "/nonexistent.onnx", "--json")
    assert code == 1
    assert json.loads(out) == {
        "error": {
            "kind": "ModelError",
            "text": "/nonexistent.onnx: cannot be read: No such file or directory",
        }
    }
    code, _, err = command("bench", artefact, "--repeat", "0")
    assert code == 2 and "'0' is not a whole number of at least 1" in err
    code, _, err = command("bench", artefact, "--shape", "batch")
    assert code == 1 and err == "tc: --shape takes NAME=1,3,224,224 or SYMBOL=1, not 'batch'\n"


def test_other_commands(artefact):
    code, out, _ = command("bench", artefact, "--shape", "batch=4", "--repeat", "3", "--json")
    assert code == 0 and 0 < json.loads(out)["min_ms"] <= json.loads(out)["median_ms"]
    code, out, _ = command("version", "--json")
    assert code == 0 and json.loads(out)["tc"] == tc.__version__
    code, out, _ = command("targets", "--json")
    assert code == 0 and json.loads(out)["targets"] == tc.targets()
    assert "rv64gcv" in tc.targets()
    code, out, _ = command("inspect", artefact)
    assert code == 0 and "made by written by hand" in out
