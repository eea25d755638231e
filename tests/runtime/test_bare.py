"""Artefacts for systems without an OS (kind "bare"): what they compute, need and refuse."""

import ctypes
import re
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tc
from tc.cli import main

from ..support import ROOT, worst_error
from .bare_models import (
    LLVM,
    MACHINES,
    defined_globals,
    keyword_network,
    link_example,
    run_as_process,
    run_tool,
    said,
    undefined_symbols,
    words,
    write_samples,
)

MEMORY_FUNCTIONS = {"memcpy", "memmove", "memset"}
# Relocations that a program moved to another address would have to redo, or that want a table of
# addresses made by the linker.
ABSOLUTE = re.compile(
    r"R_RISCV_(64|32|HI20|LO12\w*|GOT_HI20|TLS\w*)\b|R_X86_64_(64|32S?|GOT\w*|REX_GOT\w*|TLS\w*)\b|R_AARCH64_(ABS\d+|\w*GOT\w*|TLS\w*)\b"
)


@pytest.fixture(name="network", scope="module")
def network_of_keywords(tmp_path_factory):
    path = tmp_path_factory.mktemp("bare") / "keywords.onnx"
    assert 22_000 < keyword_network(path) < 26_000
    session = ReferenceEvaluator(str(path))

    def expected(sample):
        return session.run(None, {"frames": sample})[0]

    return path, expected, words(noise_seed=3)


@pytest.mark.parametrize("target", MACHINES)
def test_runs_without_any_library(target, network, tmp_path):
    path, expected, samples = network
    module = tc.compile(path, target=target, threads=1)
    module.export(tmp_path / "model.o", kind="bare")
    spoken = [2, 7, 11]
    write_samples(tmp_path, [samples[word] for word in spoken])
    program = link_example(tmp_path, target, [ROOT / "tests/runtime/bare_linux.c"])
    classes, outputs, (arena, weights, stack) = said(run_as_process(program, target), numpy.float32)
    wanted = [expected(samples[word]) for word in spoken]
    assert classes == spoken == [int(numpy.argmax(each)) for each in wanted]
    assert max(worst_error(output, each.ravel()) for output, each in zip(outputs, wanted)) <= 1e-4
    assert arena >= module.memory.arena and weights >= 22_000 * 4 and 0 < stack < 16384
    assert arena + stack + 16384 <= 256 << 10


@pytest.mark.parametrize("target", MACHINES)
def test_needs_memory_functions_alone_and_shows_three_names(target, network, tmp_path):
    tc.compile(network[0], target=target).export(tmp_path / "kws.o", kind="bare")
    assert set(undefined_symbols(tmp_path / "kws.o")) <= MEMORY_FUNCTIONS
    assert defined_globals(tmp_path / "kws.o") == ["kws_arena", "kws_run", "kws_weights"]


@pytest.mark.parametrize("target", [name for name in MACHINES if not name.startswith("cortex-m")])
def test_lies_anywhere(target, network, tmp_path):
    tc.compile(network[0], target=target).export(tmp_path / "kws.o", kind="bare")
    relocations = run_tool("llvm-readobj", "--relocations", tmp_path / "kws.o")
    assert "R_" in relocations and not ABSOLUTE.search(relocations), ABSOLUTE.search(relocations)
    sections = run_tool("llvm-readelf", "--sections", tmp_path / "kws.o")
    # Nothing that can be written has initial values other than 0: the arena, and a block of zeros
    # that stands for padding.
    written = re.findall(r"\] (\S+) +(\w+) +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +W", sections)
    assert {(name, kind) for name, kind, size in written if int(size, 16)} <= {
        (".bss.kws_arena", "NOBITS"),
        (".bss", "NOBITS"),
    }, sections
    assert ".bss.kws_arena" in sections


def test_interrupts_may_use_the_stack(network, tmp_path):
    tc.compile(network[0], target="x86-64-v3").export(tmp_path / "kws.o", kind="bare")
    assert "(%rsp)" in (code := run_tool("llvm-objdump", "--disassemble", tmp_path / "kws.o"))
    assert not re.search(r"-0x[0-9a-f]+\(%rsp", code)


def test_the_same_bytes_each_time(network, tmp_path):
    module = tc.compile(network[0], target="rv64gcv")
    for folder in "a", "b":
        (tmp_path / folder).mkdir()
        module.export(tmp_path / folder / "kws.o", kind="bare")
    for name in "kws.o", "kws.h":
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def library_of(folder, *names):
    """Bare objects of this machine as one library in this process."""
    run_tool(
        "ld.lld", "-shared", *(folder / f"{name}.o" for name in names), "-o", folder / "models.so"
    )
    return ctypes.CDLL(str(folder / "models.so"))


def model_of(nodes, inputs, outputs, path, constants=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


def aligned(array, alignment=64, offset=0):
    memory = numpy.zeros(array.nbytes + alignment + offset, numpy.uint8)
    begin = -memory.ctypes.data % alignment + offset
    result = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def test_two_models_in_one_program(network, tmp_path):
    """Nothing but the three names, which begin with the file's, is shared; the arena is any
    memory."""
    path, expected, samples = network
    tc.compile(path).export(tmp_path / "first.o", kind="bare")
    square = model_of(
        [helper.make_node("Mul", ["x", "x"], ["y"])],
        [("x", TensorProto.FLOAT, [5])],
        [("y", TensorProto.FLOAT, [5])],
        tmp_path / "square.onnx",
    )
    tc.compile(square).export(tmp_path / "second.o", kind="bare")
    library = library_of(tmp_path, "first", "second")
    arena = aligned(
        numpy.zeros(
            int(re.search(r"FIRST_ARENA_BYTES (\d+)", (tmp_path / "first.h").read_text()).group(1)),
            numpy.uint8,
        )
    )
    probabilities, squares, x = (
        aligned(numpy.zeros(12, numpy.float32)),
        aligned(numpy.zeros(5, numpy.float32)),
        aligned(numpy.arange(5, dtype=numpy.float32)),
    )
    assert library.first_run(aligned(samples[0]).ctypes, probabilities.ctypes, arena.ctypes) == 0
    assert library.second_run(x.ctypes, squares.ctypes, library.second_arena) == 0
    assert worst_error(probabilities, expected(samples[0]).ravel()) <= 1e-4
    assert numpy.array_equal(squares, x * x)


def looping(path):
    """y = x doubled until its sum reaches 100, nine times at most, and negated where the flag is
    set."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "s"], ["t"]),
            helper.make_node("ReduceSum", ["t"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["go_on"]),
        ],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("c", TensorProto.BOOL, []),
            info("s", TensorProto.FLOAT, [3]),
        ],
        [info("go_on", TensorProto.BOOL, []), info("t", TensorProto.FLOAT, [3])],
    )
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["looped"], ["b"])], op, [], [info("b", TensorProto.FLOAT, [3])]
        )
        for op in ("Neg", "Identity")
    ]
    nodes = [
        helper.make_node("Loop", ["times", "", "x"], ["looped"], body=body, name="double"),
        helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    return model_of(
        nodes,
        [("x", TensorProto.FLOAT, [3]), ("flag", TensorProto.BOOL, [])],
        [("y", TensorProto.FLOAT, [3])],
        path,
        [("limit", numpy.float32(100)), ("times", numpy.int64(9))],
    )


def test_steps_that_loop_and_branch(tmp_path):
    """What the values of a run decide about its steps needs no runtime."""
    tc.compile(looping(tmp_path / "control.onnx")).export(tmp_path / "control.o", kind="bare")
    assert (
        "int control_run(const float* input_x, const uint8_t* input_flag, float* output_y, void* arena);"
        in (tmp_path / "control.h").read_text()
    )
    library = library_of(tmp_path, "control")
    y = aligned(numpy.zeros(3, numpy.float32))
    for first, flag, factor in (1, 1, -64), (30, 0, 4), (-30, 0, 512), (200, 1, -2):
        x = aligned(numpy.array([first, -2, 3], numpy.float32))
        assert (
            library.control_run(
                x.ctypes,
                aligned(numpy.array([flag], numpy.uint8)).ctypes,
                y.ctypes,
                library.control_arena,
            )
            == 0
        )
        assert numpy.array_equal(y, x * factor), (first, y)


def test_says_what_is_wrong_with_pointers(tmp_path):
    path = model_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, [300])],
        [("y", TensorProto.FLOAT, [300])],
        tmp_path / "m.onnx",
    )
    tc.compile(path).export(tmp_path / "m.o", kind="bare")
    library = library_of(tmp_path, "m")
    x, y = numpy.linspace(-1, 1, 300, dtype=numpy.float32), numpy.zeros(300, numpy.float32)
    good = [aligned(x, offset=4), aligned(y, offset=4)]
    arena = aligned(numpy.zeros(256, numpy.uint8), offset=32)
    assert library.m_run(good[0].ctypes, good[1].ctypes, library.m_arena) == 0
    assert numpy.array_equal(good[1], numpy.maximum(x, 0))
    bad = aligned(numpy.zeros(1204, numpy.uint8), offset=2)
    for arguments, status in (
        ((None, good[1].ctypes, library.m_arena), 1),
        ((good[0].ctypes, None, library.m_arena), 1),
        ((good[0].ctypes, good[1].ctypes, None), 1),
        ((bad.ctypes, good[1].ctypes, library.m_arena), 2),
        ((good[0].ctypes, bad.ctypes, library.m_arena), 2),
        ((good[0].ctypes, good[1].ctypes, arena.ctypes), 2),
    ):
        assert library.m_run(*arguments) == status
    assert not bad.any()


def test_header_is_strict_c_and_harmless(tmp_path):
    """Names from a model's file end no comment; a file's name becomes one of C."""
    path = model_of(
        [helper.make_node("Relu", ["a*/ #error \\"], ["b\n2"])],
        [("a*/ #error \\", TensorProto.FLOAT16, [2, 3])],
        [("b\n2", TensorProto.FLOAT16, [2, 3])],
        tmp_path / "odd.onnx",
    )
    tc.compile(path, target="rv64gcv").export(tmp_path / "7 odd-name.v2.o", kind="bare")
    header = tmp_path / "7 odd-name.v2.h"
    assert (
        "int _7_odd_name_v2_run(const uint16_t* input_a____error__, uint16_t* output_b_2, void* arena);"
        in header.read_text()
    )
    for language, standard in ("c", "c99"), ("c++", "c++11"):
        done = subprocess.run(
            [
                f"{LLVM}/clang",
                "-x",
                language,
                f"-std={standard}",
                "-pedantic",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fsyntax-only",
                header,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "_7_ODD_NAME_V2_INPUT_0_BYTES 12\n" in header.read_text()


def test_refuses_open_sizes(tmp_path):
    path = model_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, ["batch", 3])],
        [("y", TensorProto.FLOAT, ["batch", 3])],
        tmp_path / "m.onnx",
    )
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(path).export(tmp_path / "m.o", kind="bare")
    assert str(raised.value) == (
        "size 'batch' of input 'x' of model 'm.onnx' is open, and an artefact of kind 'bare' has no runtime that would make room "
        "for it; bind it with shapes={'batch': 1} (--shape batch=1)"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]
    tc.compile(path, shapes={"batch": 2}).export(tmp_path / "m.o", kind="bare")


def nonzero(*more):
    return [helper.make_node("NonZero", ["x"], ["places"], name="find"), *more]


def test_refuses_sizes_that_a_run_computes(tmp_path):
    path = model_of(
        nonzero(),
        [("x", TensorProto.FLOAT, [4])],
        [("places", TensorProto.INT64, [1, "n"])],
        tmp_path / "m.onnx",
    )
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(path).export(tmp_path / "m.o", kind="bare")
    assert str(raised.value) == (
        "size 'find_count' of output 'places' of model 'm.onnx' is computed by a run (size 'find_count' of node 'find'), and an artefact of "
        "kind 'bare' has no runtime that would tell it; where inputs decide it, bind their values (values=, --value) or shapes "
        "(shapes=, --shape), else export kind 'static'"
    )


def test_sizes_with_a_bound_inside_are_no_matter(tmp_path):
    """What a run computes lies in the arena where it is known how much it is at most."""
    path = model_of(
        nonzero(helper.make_node("ReduceSum", ["places"], ["y"], keepdims=0)),
        [("x", TensorProto.FLOAT, [7])],
        [("y", TensorProto.INT64, [])],
        tmp_path / "m.onnx",
    )
    tc.compile(path).export(tmp_path / "m.o", kind="bare")
    library = library_of(tmp_path, "m")
    x, y = (
        aligned(numpy.array([0, 1, 0, 5, 0, 0, 2], numpy.float32)),
        aligned(numpy.zeros(1, numpy.int64)),
    )
    assert library.m_run(x.ctypes, y.ctypes, library.m_arena) == 0
    assert y[0] == 1 + 3 + 6


def test_refuses_sizes_without_a_bound(tmp_path):
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "s"], ["t"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("c", TensorProto.BOOL, []),
            info("s", TensorProto.FLOAT, [3]),
        ],
        [info("d", TensorProto.BOOL, []), info("t", TensorProto.FLOAT, [3])],
    )
    path = model_of(
        [helper.make_node("Loop", ["times", "", "x"], ["y"], body=body, name="double")],
        [("times", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [3])],
        [("y", TensorProto.FLOAT, [3])],
        tmp_path / "m.onnx",
    )
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(path).export(tmp_path / "m.o", kind="bare")
    assert re.fullmatch(
        r"size '.*' of node 'double' in model 'm.onnx' has no bound before a run, and an artefact of kind 'bare' has no runtime that would make "
        r"room for it; where inputs decide it, bind their values .*",
        str(raised.value),
    )


def test_command_line(tmp_path, monkeypatch):
    """As the other kinds; the default name is the model's."""
    path = model_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, [3])],
        [("y", TensorProto.FLOAT, [3])],
        tmp_path / "small.onnx",
    )
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(path), "--kind", "bare", "--target", "rv64gc"]) == 0
    assert (
        defined_globals(tmp_path / "small.o") == ["small_arena", "small_run", "small_weights"]
        and (tmp_path / "small.h").exists()
    )
