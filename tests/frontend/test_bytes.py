"""How vectors of RISC-V, and long ones of x86, round floats to bytes, and what instructions sums of
bytes take."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..levels import NATIVE_AND_LEVELS
from ..support import count_under_qemu, output_file

KINDS = {
    "uint8": (TensorProto.UINT8, (0, 1, 100, 128, 255)),
    "int8": (TensorProto.INT8, (-128, -7, 0, 127)),
}


def model(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes,
        "bytes",
        inputs,
        outputs,
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()


def difficult_floats():
    """Ties, both zeros, what lies beyond integers of 8, 16 and 32 bits, infinities and NaN, and
    others between them."""
    few = np.array(
        [
            0.0,
            -0.0,
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            127.5,
            254.5,
            255.5,
            -128.5,
            32767.5,
            -32768.5,
            65535.5,
            65536.0,
            1e9,
            -1e9,
            3e9,
            -3e9,
            1e38,
            -1e38,
            np.inf,
            -np.inf,
            np.nan,
            5e-324,
        ],
        np.float32,
    )
    many = np.random.default_rng(3).uniform(-300, 300, 999).astype(np.float32)
    return np.concatenate([few, many, np.round(many) + np.float32(0.5)])


@pytest.mark.parametrize("scale", [1, 0.75])
@pytest.mark.parametrize("length", [128, 256, 512])
@pytest.mark.parametrize("kind", KINDS)
def test_floats_are_rounded_to_bytes(kind, length, scale, tmp_path):
    """Of a zero point, each output: to the nearest even, cut at the ends of the type; what a NaN
    becomes is the same as on x86-64."""
    code, zeros = KINDS[kind]
    x = difficult_floats()
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", f"zero{i}"], [f"y{i}"])
        for i in range(len(zeros))
    ]
    constants = {
        "scale": np.float32(scale),
        **{f"zero{i}": np.array(zero, kind) for i, zero in enumerate(zeros)},
    }
    source = model(
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(f"y{i}", code, x.shape) for i in range(len(zeros))],
        constants,
    )
    tc.compile(source, "rv64gcv", threads=1, log=False).export(
        str(tmp_path / "bytes"), kind="executable"
    )
    outputs, _ = count_under_qemu(
        tmp_path / "bytes", {"x": x}, tmp_path, vlen=length, arguments=["--threads", "1"]
    )
    native = tc.compile(source, threads=1, log=False).run({"x": x})
    ends, number = np.iinfo(kind), ~np.isnan(x)
    for i, zero in enumerate(zeros):
        found = outputs[output_file(f"y{i}")]
        rounded = np.clip(
            np.round((x[number] / np.float32(scale)).astype(np.float64)) + zero, ends.min, ends.max
        )
        np.testing.assert_array_equal(
            found[number], rounded.astype(kind), err_msg=f"zero point {zero}"
        )
        np.testing.assert_array_equal(found, native[f"y{i}"])


def convolution(zero, scale=0.3):
    """A 1x1 convolution of bytes, whose result has a zero point and a scale."""
    random = np.random.default_rng(4)
    constants = {
        "scale": np.float32(0.02),
        "none": np.uint8(0),
        "w": random.integers(-127, 128, (48, 32, 1, 1)).astype(np.int8),
        "w_scale": random.uniform(0.001, 0.01, 48).astype(np.float32),
        "w_zero": np.zeros(48, np.int8),
        "y_scale": np.float32(scale),
        "y_zero": np.uint8(zero),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "none"], ["x_float"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_float"], axis=0),
        helper.make_node("Conv", ["x_float", "w_float"], ["sums"]),
        helper.make_node("QuantizeLinear", ["sums", "y_scale", "y_zero"], ["y"]),
    ]
    return model(
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 32, 14, 14))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (1, 48, 14, 14))],
        constants,
    )


@pytest.mark.parametrize("zero", [0, 90])
@pytest.mark.parametrize("target", ["rv64gcv", "rv64gcv_zvl256b", "rv64gcv_zvl512b"])
def test_instructions_of_sums(target, zero):
    """Products are added up by one instruction, with a byte of all lanes in a scalar register;
    nothing becomes a double or tests for NaN."""
    texts = [
        kernel.schedule().assembly for kernel in tc.kernels(convolution(zero), target, threads=1)
    ]
    (text,) = [each for each in texts if "vwmacc" in each]
    assert "vwmacc.vx" in text and "vnclip" in text and "vfncvt.x" in text
    for slow in ("vfwcvt", "vmfne", "vmfeq", "fsrm", "vwmacc.vv"):
        assert slow not in text, slow
    # A product and, beside it, what widens the weights of a step.
    assert text.count("vwmacc.vx") > 4 * text.count("vsext")


@pytest.mark.parametrize("zero", [0, 90])
def test_instructions_of_sums_on_long_vectors_of_x86(zero):
    """The instruction that narrows has the upper end, and where the lower one is 0, integers are
    compared."""
    texts = [
        kernel.schedule().assembly
        for kernel in tc.kernels(convolution(zero), "x86-64-v4", threads=1)
    ]
    (text,) = [each for each in texts if "vcvtps2dq" in each]
    assert "vpmovusdb" in text and "vminps" not in text
    assert ("vmaxps" in text) == (zero != 0) and ("vpmaxsd" in text) == (zero == 0)


@pytest.mark.parametrize("zero", [0, 90])
def test_sums_beyond_32_bits_of_the_scale(zero, tmp_path):
    """Numbers that are no 32-bit integers before they are cut: each becomes the end on its side."""
    source = convolution(zero, 1e-13)
    x = np.random.default_rng(5).integers(0, 256, (1, 32, 14, 14)).astype(np.uint8)
    constants = {
        each.name: numpy_helper.to_array(each)
        for each in onnx.load_from_string(source).graph.initializer
    }
    sums = np.einsum(
        "fc,cyx->fyx", constants["w"][:, :, 0, 0].astype(np.int64), x[0].astype(np.int64)
    )
    assert (abs(sums[sums != 0]) > 50).mean() > 0.9  # far beyond 2^31 of the result's scale
    expected = np.where(sums > 0, 255, np.where(sums < 0, 0, zero))
    native = tc.compile(source, threads=1, log=False).run({"x": x})["y"]
    np.testing.assert_array_equal(native[0], expected)
    tc.compile(source, "rv64gcv", threads=1, log=False).export(
        str(tmp_path / "layer"), kind="executable"
    )
    outputs, _ = count_under_qemu(
        tmp_path / "layer", {"x": x}, tmp_path, arguments=["--threads", "1"]
    )
    np.testing.assert_array_equal(outputs[output_file("y")][0], expected)


@pytest.mark.parametrize("channels", [2, 3, 4, 5])
@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_channels_that_lie_side_by_side_come_to_the_front(channels, target):
    """Lanes read bytes so far apart; the last row ends with the array, so that nothing behind it
    may be read."""
    for height, width in ((4, 16), (5, 37), (1, 100)):
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.UINT8, [1, height, width, channels])
        ]
        outputs = [
            helper.make_tensor_value_info("y", TensorProto.UINT8, [1, channels, height, width])
        ]
        graph = helper.make_graph(
            [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 3, 1, 2])],
            "order",
            inputs,
            outputs,
        )
        module = tc.compile(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            target=target,
            threads=1,
            log=False,
        )
        x = (
            np.random.default_rng(channels)
            .integers(0, 256, (1, height, width, channels))
            .astype(np.uint8)
        )
        np.testing.assert_array_equal(module(x), x.transpose(0, 3, 1, 2))
