"""No exception but tc.Error leaves the library: through native code, through the calls in Python,
through the command line; and the C interface has nothing that throws."""

import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
import onnx.parser
import pytest

import tc
from tc import cli, errors
from tc.native import LIBRARY_FOLDER

from ..support import ROOT

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu(x) }'
).SerializeToString()
MEMORY = "memory ran out; use smaller sizes, or a machine that has more"


@pytest.fixture(scope="module")
def throwing(tmp_path_factory):
    """tests/frontend/throwing_module.cc behind the boundary of the package's own extension
    modules."""
    compiler = shutil.which("g++-12") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    path = tmp_path_factory.mktemp("throwing") / "throwing.so"
    sources = [ROOT / "tests/frontend/throwing_module.cc", ROOT / "frontend/python/errors.cc"]
    subprocess.run(
        [
            compiler,
            "-std=c++20",
            "-O0",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            f"-I{ROOT}",
            f"-I{sysconfig.get_paths()['include']}",
            *sources,
            "-o",
            path,
        ],
        check=True,
    )
    spec = importlib.util.spec_from_file_location("throwing", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THROWN = [
    ("bad_alloc", tc.UnsupportedError, MEMORY),
    ("length_error", tc.Error, "internal error: an exception escaped: vector::reserve"),
    ("out_of_range", tc.Error, "internal error: an exception escaped: map::at"),
    ("exception", tc.Error, "internal error: an exception escaped: std::exception"),
    ("number", tc.Error, "internal error: an exception of an unknown kind escaped"),
    ("shape_error", tc.ShapeError, "node '\\xff': sizes differ"),
]


@pytest.mark.parametrize("name,kind,text", THROWN)
def test_what_native_code_throws_is_an_error_of_tc(throwing, name, kind, text):
    with pytest.raises(tc.Error) as caught:
        getattr(throwing, name)()
    assert (type(caught.value), str(caught.value)) == (kind, text)


def test_text_that_is_not_utf8(throwing):
    assert throwing.text() == "\ufffd\ufffdq"
    assert throwing.texts() == ["\ufffd", "q"]


def test_wrong_casts_are_errors_of_tc(throwing):
    with pytest.raises(tc.Error, match="^internal error: an exception escaped: "):
        throwing.cast_error()


@pytest.mark.parametrize(
    "raised,kind,text",
    [
        (KeyError("of the caller"), KeyError, "'of the caller'"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)
def test_what_a_callers_function_raises_goes_through(throwing, raised, kind, text):
    def function():
        raise raised

    with pytest.raises(kind) as caught:
        throwing.call(function)
    assert (type(caught.value), str(caught.value)) == (kind, text)


def test_wrong_arguments_are_what_they_are_in_python(throwing):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        throwing.bad_alloc(1)


def test_other_libraries_exceptions_are_theirs():
    import onnxruntime  # an extension module of pybind11, too

    with pytest.raises(Exception) as caught:
        onnxruntime.InferenceSession(b"no model")
    assert not isinstance(caught.value, tc.Error)


RAISED = [
    (MemoryError(), tc.UnsupportedError, MEMORY),
    (
        OSError(28, "No space left on device"),
        tc.DeviceError,
        "the system refused something: [Errno 28] No space left on device",
    ),
    (
        "\udcff".encode,
        tc.ModelError,
        "a name is not UTF-8: 'utf-8' codec can't encode character '\\udcff' in position 0: surrogates not allowed",
    ),
]


def _raise(what):
    if callable(what):
        what()
    raise what


@pytest.mark.parametrize("raised,kind,text", RAISED)
def test_what_the_machine_refuses_python_is_an_error_of_tc(monkeypatch, raised, kind, text):
    monkeypatch.setattr("tc.compiling.source_of", lambda model: _raise(raised))
    for function in (tc.compile, tc.check):
        with pytest.raises(tc.Error) as caught:
            function(MODEL)
        assert (type(caught.value), str(caught.value)) == (kind, text)


@pytest.mark.parametrize(
    "raised,kind,text",
    [
        *RAISED,
        (
            ZeroDivisionError("division by zero"),
            tc.Error,
            "internal error: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_the_command_line_says_one_sentence(monkeypatch, capsys, raised, kind, text):
    monkeypatch.setattr("tc.cli.targets", lambda: _raise(raised))
    assert cli.main(["targets", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": {"kind": kind.__name__, "text": text}}
    assert err == f"tc: {text}\n"


def test_the_command_line_prints_names_that_the_terminal_cannot_show(tmp_path):
    path = tmp_path / "b\u00e4r.onnx"
    path.write_bytes(b"no model")
    environment = {
        **os.environ,
        "PYTHONIOENCODING": "ascii",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = subprocess.run(
        [sys.executable, "-m", "tc", "check", os.fsencode(path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (
        1,
        "tc: 'b\\xe4r.onnx' is not a complete ONNX model: it is damaged, cut short or in another format; export it again or copy it whole\n",
    )


def test_a_file_whose_name_is_no_text(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"\xff.onnx")
    with open(path, "wb") as file:
        file.write(b"no model")
    with pytest.raises(tc.ModelError, match=r"^'\\xff.onnx' is not a complete ONNX model"):
        tc.compile(os.fsdecode(path))


def test_results_that_the_machine_has_no_room_for():
    """The sizes are known when the model runs: memory for the result is refused there."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,1] x, float[1,M] z) => (float[N,M] y) { y = Add(x, z) }'
    module = tc.compile(onnx.parser.parse_model(text).SerializeToString())
    side = 1 << 20  # 4 TiB
    with pytest.raises(tc.Error, match="memory"):
        module(numpy.zeros((side, 1), numpy.float32), numpy.zeros((1, side), numpy.float32))
    assert module(numpy.ones((2, 1), numpy.float32), numpy.ones((1, 3), numpy.float32)).shape == (
        2,
        3,
    )


def test_gives_up_speed_for_memory():
    """The least that is taken of three levels computes the same; one byte less is refused."""
    random = numpy.random.default_rng(5)
    info, weights = onnx.helper.make_tensor_value_info, []

    def convolution(name, source, channels, outputs):
        weights.append(
            onnx.numpy_helper.from_array(
                0.1 * random.standard_normal((outputs, channels, 3, 3)).astype(numpy.float32),
                f"w{name}",
            )
        )
        return onnx.helper.make_node("Conv", [source, f"w{name}"], [name], pads=[1, 1, 1, 1])

    nodes = [
        convolution("a", "x", 3, 20),
        convolution("b", "a", 20, 84),
        convolution("c", "a", 20, 84),
        convolution("d", "b", 84, 20),
        convolution("e", "c", 84, 20),
        onnx.helper.make_node("Add", ["d", "e"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", 1, [1, 3, 24, 24])], [info("y", 1, [1, 20, 24, 24])], weights
    )
    data = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9
    ).SerializeToString()
    x = random.standard_normal((1, 3, 24, 24)).astype(numpy.float32)
    usual = tc.compile(data, threads=1, tolerance=1e-3)
    expected, limit, notes = usual(x), usual.memory.peak - 1, []
    while True:
        try:
            module = tc.compile(data, threads=1, tolerance=1e-3, max_ram=limit)
        except tc.UnsupportedError as error:
            assert f"but it may use {limit} at most" in str(
                error
            ) and "most is in use in step" in str(error)
            break
        assert module.memory.peak <= limit
        assert numpy.abs(module(x) - expected).max() <= 2e-3 * numpy.abs(expected).max()
        notes += [
            line
            for line in module.explain().splitlines()
            if line.startswith("for max_ram the model ")
        ]
        limit = module.memory.peak - 1
    assert len(notes) >= 2 and usual.memory.peak > 1.2 * limit, notes


def test_more_memory_than_the_model_may_use(tmp_path, capsys):
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[64,64] x) => (float[64,64] y) { a = MatMul(x, x) b = Softmax(a) y = MatMul(x, b) }'
    model = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(tc.UnsupportedError) as caught:
        tc.compile(model, threads=1, max_ram=16000)
    assert re.fullmatch(
        r"model 'g' needs 0 bytes for constants and \d+ to work in, but it may use 16000 at most; most is in use in step '\w+': "
        r"'[ab]' \(16384 bytes\)(, '[\w ]+' \(\d+ bytes\))*; use smaller sizes or fewer threads, or give it at least \d+ by max_ram "
        r"\(default: half of this machine's memory\)",
        str(caught.value),
    )
    with pytest.raises(
        tc.UnsupportedError,
        match=r"needs 0 bytes for constants and \d+ to work in, but it may use 9999",
    ):
        tc.compile(model, max_ram=9999)
    tc.compile(model, threads=1, max_ram=1 << 24)
    with pytest.raises(
        tc.Error,
        match="^max_ram is 0; give a number of bytes, alone or with a unit \\(256KB, 1MiB\\), or None for half of this machine's memory$",
    ):
        tc.compile(model, max_ram=0)
    path = tmp_path / "m.onnx"
    path.write_bytes(model)
    assert cli.main(["compile", str(path), "--max-ram=9999", "-o", str(tmp_path / "m.so")]) == 1
    assert "' (16384 bytes)" in capsys.readouterr().err


def _compile_without_memory(path):
    """In a process of its own: 60 MB more than the package holds."""
    used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + (60 << 20),) * 2)
    try:
        tc.compile(path)
    except tc.Error as error:
        print(type(error).__name__, error)


def test_a_compiler_that_runs_out_of_memory(tmp_path):
    weight = onnx.numpy_helper.from_array(numpy.zeros(24 << 20, numpy.float32), "w")  # 96 MiB
    graph = onnx.parser.parse_graph("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    graph.initializer.append(weight)
    path = tmp_path / "large.onnx"
    onnx.save(
        onnx.helper.make_model(
            graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]
        ),
        path,
    )
    program = (
        "import sys, tc, resource; from tc.native import compiler; compiler.targets(); "
        "from tests.frontend.test_boundaries import _compile_without_memory as run; run(sys.argv[1])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (run.stdout, run.returncode) == (f"UnsupportedError {MEMORY}\n", 0), run.stderr


def test_the_c_interface_has_nothing_that_throws():
    """The runtime is built without exceptions: its archive refers to nothing that throws one."""
    archives = list(Path(LIBRARY_FOLDER).glob("*/libtc_runtime.a"))
    assert archives
    for archive in archives:
        symbols = subprocess.run(
            ["nm", "-u", archive], check=True, capture_output=True, text=True
        ).stdout
        assert "calloc" in symbols
        for name in ("__cxa_throw", "__cxa_allocate_exception", "_Znwm", "_ZSt"):
            assert name not in symbols, (archive, name)


def test_errors_of_python_keep_their_class():
    error = tc.ShapeError("x")
    assert errors.error_of(error) is error
