"""Arm's microcontrollers: networks of each kind of layer as bare artefacts, products of bytes by
their DSP instructions, and what a core without floating-point unit needs."""

import shutil
import subprocess

import numpy
import pytest
from onnx import TensorProto, helper, load, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import tc

from .bare_models import BARE, run_arrays, run_tool, said, undefined_symbols, write_samples
from .cortex_m import boot, link_for_board
from .test_rv32 import NETWORKS, check_network, check_random_network, quantised, quantised_error

TARGETS = ["cortex-m4", "cortex-m7"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", NETWORKS)
def test_networks(make, target, tmp_path):
    check_network(make, target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(3))
def test_random_networks(seed, target, tmp_path):
    check_random_network(seed, target, tmp_path)


def of_bytes(op, x_shape, w_shape, x_type, w_type, path, **attributes):
    """A model of one product of bytes, with seeded weights, and its input."""
    random = numpy.random.default_rng(5)
    ranges = {numpy.uint8: (0, 256), numpy.int8: (-128, 128)}
    weights = numpy_helper.from_array(random.integers(*ranges[w_type], w_shape).astype(w_type), "w")
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "w"], ["y"], **attributes)],
        "g",
        [
            helper.make_tensor_value_info(
                "x", TensorProto.UINT8 if x_type == numpy.uint8 else TensorProto.INT8, x_shape
            )
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [weights],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return random.integers(*ranges[x_type], x_shape).astype(x_type)


PRODUCTS = {
    "product": ("MatMulInteger", [5, 64], [64, 12], {}),
    "one row": ("MatMulInteger", [1, 36], [36, 7], {}),
    "odd sum": ("MatMulInteger", [6, 37], [37, 8], {}),
    "long sum": ("MatMulInteger", [3, 1500], [1500, 9], {}),
    "1x1": ("ConvInteger", [1, 16, 5, 5], [8, 16, 1, 1], {}),
    "3x3": ("ConvInteger", [1, 8, 7, 6], [12, 8, 3, 3], {}),
    "padded": ("ConvInteger", [1, 8, 7, 6], [12, 8, 3, 3], {"pads": [1, 1, 1, 1]}),
    "stride 2": ("ConvInteger", [1, 3, 9, 9], [8, 3, 3, 3], {"strides": [2, 2]}),
    "one channel": ("ConvInteger", [1, 1, 20, 12], [16, 1, 10, 4], {"strides": [2, 2]}),
    "depthwise": ("ConvInteger", [1, 8, 9, 8], [8, 1, 3, 3], {"group": 8, "pads": [1, 1, 1, 1]}),
    # Channel by channel over widened rows: tiles of 2 to 7 columns, padding at any border, several
    # bands of rows, rows of the window that are apart; and windows that are not.
    "depthwise, stride 2": (
        "ConvInteger",
        [1, 4, 9, 12],
        [4, 1, 3, 3],
        {"group": 4, "strides": [2, 2], "pads": [0, 0, 1, 1]},
    ),
    "depthwise, one tile": (
        "ConvInteger",
        [1, 4, 5, 7],
        [4, 1, 3, 3],
        {"group": 4, "pads": [1, 1, 1, 1]},
    ),
    "depthwise, seven columns of stride 2": (
        "ConvInteger",
        [1, 8, 3, 14],
        [8, 1, 3, 3],
        {"group": 8, "strides": [1, 2], "pads": [2, 1, 0, 0]},
    ),
    "depthwise, bands": (
        "ConvInteger",
        [1, 8, 31, 24],
        [8, 1, 3, 3],
        {"group": 8, "pads": [1, 1, 1, 1]},
    ),
    "depthwise, dilated rows": (
        "ConvInteger",
        [1, 4, 9, 10],
        [4, 1, 5, 3],
        {"group": 4, "dilations": [2, 1], "pads": [4, 1, 4, 1]},
    ),
    "depthwise, inside": ("ConvInteger", [1, 12, 6, 6], [12, 1, 3, 3], {"group": 12}),
    "depthwise, wide window": (
        "ConvInteger",
        [1, 8, 9, 8],
        [8, 1, 3, 5],
        {"group": 8, "pads": [1, 2, 1, 2]},
    ),
    "depthwise, eleven columns": (
        "ConvInteger",
        [1, 8, 9, 11],
        [8, 1, 3, 3],
        {"group": 8, "pads": [1, 1, 1, 1]},
    ),
    "depthwise, batch": (
        "ConvInteger",
        [2, 8, 6, 6],
        [8, 1, 3, 3],
        {"group": 8, "pads": [1, 1, 1, 1]},
    ),
    # Widened once for several blocks of channels: sums of 3 and 5 words, maps of whole tiles and
    # others, padding at all borders; and sums that are not.
    "1x1, wide": ("ConvInteger", [1, 12, 4, 6], [16, 12, 1, 1], {}),
    "1x1, one word": ("ConvInteger", [1, 4, 5, 5], [8, 4, 1, 1], {}),
    "1x1, cut channels": ("ConvInteger", [1, 8, 5, 5], [10, 8, 1, 1], {}),
    "1x1, odd sum": ("ConvInteger", [1, 20, 5, 7], [12, 20, 1, 1], {}),
    "3x3, wide": ("ConvInteger", [1, 8, 6, 8], [16, 8, 3, 3], {"pads": [1, 1, 1, 1]}),
    "3x3, cut": ("ConvInteger", [1, 8, 5, 11], [12, 8, 3, 3], {"pads": [1, 1, 1, 1]}),
    "5x3, stride": (
        "ConvInteger",
        [1, 4, 9, 19],
        [12, 4, 5, 3],
        {"pads": [2, 0, 1, 2], "strides": [2, 2]},
    ),
    "dilated": (
        "ConvInteger",
        [2, 4, 9, 12],
        [8, 4, 3, 3],
        {"pads": [2, 2, 2, 2], "dilations": [2, 2]},
    ),
}


@pytest.mark.parametrize("x_type, w_type", [(numpy.uint8, numpy.int8), (numpy.int8, numpy.int8)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bytes(name, x_type, w_type, tmp_path):
    op, x_shape, w_shape, attributes = PRODUCTS[name]
    path = tmp_path / "model.onnx"
    x = of_bytes(op, x_shape, w_shape, x_type, w_type, path, **attributes)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    tc.compile(path, target="cortex-m4", log=False).export(tmp_path / "model.o", kind="bare")
    (found,) = run_arrays(tmp_path, "cortex-m4", [x], [expected])
    numpy.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "name, instruction",
    [
        ("product", "smlad"),
        ("1x1", "smlad"),
        ("depthwise", "smlatb"),
        ("depthwise, wide window", "smlatt"),
    ],
)
@pytest.mark.parametrize("feature", ["", ",-dsp"])
def test_uses_the_dsp_instructions(name, instruction, feature, tmp_path):
    """Where the target has them."""
    op, x_shape, w_shape, attributes = PRODUCTS[name]
    of_bytes(op, x_shape, w_shape, numpy.uint8, numpy.int8, tmp_path / "model.onnx", **attributes)
    tc.compile(tmp_path / "model.onnx", target="cortex-m33" + feature, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    code = run_tool("llvm-objdump", "-d", "--mcpu=cortex-m33", tmp_path / "model.o")
    assert (instruction in code) == (not feature)


WIDENED = ["1x1, wide", "1x1, odd sum", "3x3, wide", "3x3, cut", "5x3, stride"]


@pytest.mark.parametrize("name", WIDENED)
def test_widens_once_what_blocks_of_channels_share(name, tmp_path):
    """On cores that multiply pairs of 16-bit numbers and have a floating-point unit."""
    op, x_shape, w_shape, attributes = PRODUCTS[name]
    path = tmp_path / "model.onnx"
    of_bytes(op, x_shape, w_shape, numpy.uint8, numpy.int8, path, **attributes)

    def widens(target):
        lines = [line for kernel in tc.kernels(path, target) for line in kernel.schedule().trace]
        return any(line.startswith("widen ") for line in lines)

    assert widens("cortex-m4") and widens("cortex-m33")
    assert not widens("cortex-m33,-dsp") and not widens("cortex-m0plus")
    assert not widens("rv32imfc") and not widens("native")


WINDOWS = {
    "depthwise": 4,
    "depthwise, stride 2": 6,
    "depthwise, one tile": 7,
    "depthwise, seven columns of stride 2": 7,
    "depthwise, bands": 6,
    "depthwise, dilated rows": 2,
    "depthwise, inside": 4,
}


@pytest.mark.parametrize("name", WINDOWS)
def test_widens_the_rows_under_windows_once(name, tmp_path):
    """Channel by channel: a pair of neighbouring columns is one operand of a product."""
    op, x_shape, w_shape, attributes = PRODUCTS[name]
    path = tmp_path / "model.onnx"
    of_bytes(op, x_shape, w_shape, numpy.int8, numpy.int8, path, **attributes)

    def kernels_that_widen(target):
        kernels = [kernel for kernel in tc.kernels(path, target) if kernel.multiply_adds]
        return [kernel for kernel in kernels if "\nwiden " in "\n".join(kernel.schedule().trace)]

    (kernel,) = kernels_that_widen("cortex-m4")
    assert f"tiles of {WINDOWS[name]} columns" in kernel.default_report()[0]
    for target in ("cortex-m33,-dsp", "cortex-m0plus", "rv32imfc", "native"):
        assert not kernels_that_widen(target)


def test_windows_over_padding_alone(tmp_path):
    """Results of the first and the last column, and of the first row, read no pixel."""
    path = tmp_path / "model.onnx"
    pads = {"group": 8, "pads": [3, 3, 0, 3]}
    x = of_bytes("ConvInteger", [1, 8, 5, 2], [8, 1, 3, 3], numpy.uint8, numpy.int8, path, **pads)
    weights = numpy_helper.to_array(load(path).graph.initializer[0]).astype(numpy.int32)
    padded = numpy.pad(x.astype(numpy.int32), ((0, 0), (0, 0), (3, 0), (3, 3)))
    expected = numpy.zeros((1, 8, 6, 6), numpy.int32)
    for row in range(3):
        for column in range(3):
            taps = weights[None, :, 0, row, column, None, None]
            expected += padded[:, :, row : row + 6, column : column + 6] * taps
    tc.compile(path, target="cortex-m4", log=False).export(tmp_path / "model.o", kind="bare")
    assert "smlatb" in run_tool("llvm-objdump", "-d", "--mcpu=cortex-m4", tmp_path / "model.o")
    (found,) = run_arrays(tmp_path, "cortex-m4", [x], [expected])
    numpy.testing.assert_array_equal(found, expected)


def roundings(path):
    nodes = [helper.make_node(op, ["x"], [op.lower()]) for op in ("Round", "Floor", "Ceil")]
    shapes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [20])]
    save(
        helper.make_model(
            helper.make_graph(
                nodes,
                "g",
                shapes,
                [
                    helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [20])
                    for node in nodes
                ],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=9,
        ),
        path,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_rounds_without_instructions(target, tmp_path):
    """A Cortex-M4 rounds by sums: halves, signs of zero, large numbers, infinities and NaN."""
    roundings(tmp_path / "model.onnx")
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, -0.25, 0.75, -0.0, 0.0, 3.0]
    special = [8388607.5, -8388607.5, 8388608.0, 16777219.0, 1e30, -1e30, numpy.inf, -numpy.inf]
    x = numpy.array([*halves, *special, numpy.nan, 0.49999997], numpy.float32)
    expected = [numpy.rint(x), numpy.floor(x), numpy.ceil(x)]
    tc.compile(tmp_path / "model.onnx", target=target, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    for found, wanted in zip(run_arrays(tmp_path, target, [x], expected), expected, strict=True):
        numpy.testing.assert_array_equal(found, wanted)
        assert (numpy.signbit(found) == numpy.signbit(wanted))[:-2].all()


def test_a_core_without_floats(tmp_path):
    """Its objects call functions of libgcc in place of instructions, and say so."""
    net = quantised()
    net.save(tmp_path / "model.onnx")
    x = numpy.random.default_rng(1).standard_normal(net.shape).astype(numpy.float32)
    tc.compile(tmp_path / "model.onnx", target="cortex-m0plus", log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    missing = undefined_symbols(tmp_path / "model.o")
    assert "__aeabi_fmul" in missing
    assert {name for name in missing if not name.startswith("__")} <= {
        *("memcpy", "memmove", "memset")
    }
    assert "(__aeabi_fadd ... of libgcc)" in (tmp_path / "model.h").read_text()
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc, whose library has these functions, is not installed")
    library = subprocess.run(
        ["arm-none-eabi-gcc", "-mcpu=cortex-m0plus", "-mthumb", "-print-libgcc-file-name"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    write_samples(tmp_path, [x])
    program = link_for_board(tmp_path, "cortex-m0plus", [BARE / "main.c"], library)
    code, output = boot(program, "cortex-m0plus")
    assert code == 0, output
    _, (found,), _ = said(output, numpy.float32)
    (expected,) = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})
    assert quantised_error(found, expected.ravel()) <= 1e-4
