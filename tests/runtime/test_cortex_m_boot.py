"""The example of runtime/bare boots on emulated boards with Arm's microcontrollers, and networks of
8-bit integers give there what the reference kernels of TensorFlow Lite give."""

import numpy
import pytest

import tc

from ..support import models_folder
from .bare_models import BARE, keyword_network, run_tool, said, words, write_samples
from .cortex_m import BOARDS, boot, link_for_board

FLASH, RAM, STACK = 512 << 10, 256 << 10, 16 << 10


def booted(folder, target, model, samples, dtype, **options):
    """Classes, outputs and sizes of the example on these samples."""
    tc.compile(model, target=target, log=False, **options).export(folder / "model.o", kind="bare")
    write_samples(folder, samples)
    program = link_for_board(folder, target, [BARE / "main.c"])
    code, output = boot(program, target)
    assert code == 0, output
    return said(output, dtype)


def reference(path, sample):
    """What TensorFlow Lite's reference kernels give; None where that package is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        return None
    interpreter = Interpreter(
        model_path=str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).ravel()


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m7", "cortex-m55"])
def test_boots_and_tells_the_words(target, tmp_path):
    keyword_network(tmp_path / "keywords.onnx")
    spoken = [1, 5, 10]
    samples = [words(noise_seed=4)[word] for word in spoken]
    classes, _, (arena, weights, stack) = booted(
        tmp_path, target, tmp_path / "keywords.onnx", samples, numpy.float32
    )
    print(f"{target}: arena {arena}, weights {weights}, stack {stack}")
    assert classes == spoken
    assert arena < RAM and 90_000 < weights < FLASH and 0 < stack < STACK


# One network on each board; `./check --full` has the others.
SOME = [
    ("cortex-m4", "kws_ref_model"),
    ("cortex-m7", "ad01_int8"),
    ("cortex-m55", "pretrainedResnet_quant"),
    ("cortex-m33", "kws_ref_model"),
]
FILES = ["kws_ref_model", "pretrainedResnet_quant", "vww_96_int8", "ad01_int8"]
REST = [
    (target, file)
    for target in ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
    for file in FILES
    if (target, file) not in SOME
]


def check_model_of_mlperf_tiny(target, name, folder, **options):
    """Byte by byte what this machine gives, and TensorFlow Lite."""
    pytest.importorskip("tflite")
    path = models_folder() / "mlperf_tiny" / f"{name}.tflite"
    here = tc.compile(path, threads=1, log=False)
    random = numpy.random.default_rng(3)
    samples = [
        random.integers(-128, 128, here.inputs[0].shape).astype(numpy.int8) for _ in range(2)
    ]
    _, outputs, sizes = booted(folder, target, path, samples, numpy.int8, **options)
    print(f"{target}, {name}: arena, weights, stack {sizes}")
    for sample, found in zip(samples, outputs, strict=True):
        numpy.testing.assert_array_equal(found, numpy.ravel(here(sample)))
        if (exact := reference(path, sample)) is not None:
            numpy.testing.assert_array_equal(found, exact)
    return sizes


@pytest.mark.parametrize("target, name", SOME)
def test_models_of_mlperf_tiny(target, name, tmp_path):
    check_model_of_mlperf_tiny(target, name, tmp_path)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_visual_wake_words_in_bands_of_rows(target, tmp_path):
    """Without a limit the arena has 64.5 KB."""
    arena, _, _ = check_model_of_mlperf_tiny(target, "vww_96_int8", tmp_path, max_ram="40KB")
    assert arena <= 40_000


@pytest.mark.full
@pytest.mark.parametrize("target, name", REST)
def test_all_models_of_mlperf_tiny(target, name, tmp_path):
    check_model_of_mlperf_tiny(target, name, tmp_path)


# Channels, rows, columns, window, stride, dilation and zero point of depthwise convolutions: rows
# that share a vector, or take several; results of a tile along rows, along columns, and beyond the
# map; windows of more bytes than a vector; signed and unsigned elements.
WINDOWS = [
    (8, 25, 5, (3, 3), 1, 1, -128),
    (8, 26, 26, (3, 3), 2, 1, -128),
    (4, 24, 24, (3, 3), 1, 1, 0),
    (12, 48, 20, (3, 3), 2, 1, -128),
    (8, 17, 15, (5, 5), 1, 1, -128),
    (8, 21, 23, (3, 3), 1, 2, -128),
    (8, 20, 30, (2, 4), 1, 1, -128),
]


def depthwise(case):
    """A model of one depthwise convolution of 8-bit integers, whose borders are zeros."""
    pytest.importorskip("flatbuffers")
    from ..frontend.tflite_files import Operator, Tensor, file_of

    channels, rows, columns, window, stride, dilation, zero = case
    random = numpy.random.default_rng(channels * rows + columns)
    shape = (1, -(-rows // stride), -(-columns // stride), channels)
    scales = random.uniform(1e-3, 1e-2, channels)
    weights = random.integers(-127, 128, (1, *window, channels)).astype(numpy.int8)
    bias = random.integers(-5000, 5000, channels).astype(numpy.int32)
    tensors = [
        Tensor("x", (1, rows, columns, channels), numpy.int8, scale=0.05, zero=zero),
        Tensor("w", data=weights, scale=scales, zero=[0] * channels, axis=3),
        Tensor("b", data=bias),
        Tensor("y", shape, numpy.int8, scale=0.1, zero=-128),
    ]
    options = {"Padding": 0, "DepthMultiplier": 1, "FusedActivationFunction": 1}
    options |= {f"Stride{side}": stride for side in "HW"}
    options |= {f"Dilation{side}Factor": dilation for side in "HW"}
    table = "DepthwiseConv2DOptions"
    operator = Operator("DEPTHWISE_CONV_2D", [0, 1, 2], [3], table, **options)
    return file_of(tensors, [operator], [0], [3])


@pytest.mark.parametrize("case", WINDOWS, ids=lambda case: "x".join(map(str, case[:3])))
def test_depthwise_windows(case, tmp_path):
    """A channel's map is copied with its borders, and windows of it are products of vectors."""
    model = depthwise(case)
    here = tc.compile(model, threads=1, log=False)
    tc.compile(model, target="cortex-m55", log=False).export(tmp_path / "m.loops", kind="loops")
    assert "widen for" in (tmp_path / "m.loops").read_text()
    random = numpy.random.default_rng(5)
    samples = [
        random.integers(-128, 128, here.inputs[0].shape).astype(numpy.int8) for _ in range(2)
    ]
    _, outputs, _ = booted(tmp_path, "cortex-m55", model, samples, numpy.int8)
    for sample, found in zip(samples, outputs, strict=True):
        numpy.testing.assert_array_equal(found, numpy.ravel(here(sample)))


def test_a_fault_is_told(tmp_path):
    """Where nothing is, a load faults: the tests above can fail."""
    keyword_network(tmp_path / "keywords.onnx")
    tc.compile(tmp_path / "keywords.onnx", target="cortex-m4", log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    (tmp_path / "fault.c").write_text(
        '#include "board.h"\nint example_main(void) { return *(volatile int*)0x90000000; }\n'
    )
    program = link_for_board(tmp_path, "cortex-m4", [tmp_path / "fault.c"])
    code, output = boot(program, "cortex-m4")
    assert code == 1 and "fault: CFSR 00008200 at 0000" in output


def test_links_no_allocator(tmp_path):
    """Every function of the program is the example's, the model's, or copies memory."""
    keyword_network(tmp_path / "keywords.onnx")
    tc.compile(tmp_path / "keywords.onnx", target="cortex-m4", log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    write_samples(tmp_path, words()[:1])
    program = link_for_board(tmp_path, "cortex-m4", [BARE / "main.c"])
    lines = [line.split() for line in run_tool("llvm-nm", program).splitlines()]
    functions = {line[-1] for line in lines if len(line) == 3 and line[1] in "tT"}
    functions = {name for name in functions if not name.startswith((".L", "model_kernel_", "$"))}
    assert functions <= {
        *("reset", "begin", "fault", "on_exception", "semihost", "write_hex"),
        *("board_write", "board_finish", "example_main", "write_number", "write_bytes"),
        *("stack_used", "model_run", "copy", "memcpy", "memmove", "memset", "vectors"),
    }, functions
    assert not any(line[0] == "U" for line in lines)
    assert set(BOARDS) <= set(dict(tc.targets()))
