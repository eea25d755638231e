"""What the compiler says of scales and zero points that no quantiser means, and of integers of 4
bits: one sentence each."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

SCALES = "; scales are finite and over 0: quantise the model again"
X = numpy.zeros((2, 3), numpy.uint8)
WEIGHTS = numpy.ones((5, 3, 1, 1), numpy.int8)
ONE, ZERO = numpy.float32(0.5), numpy.uint8(3)


def refusal(operator, inputs, opset=17, constants=(), **attributes):
    """What is said of a node whose first input a run gives, behind the node's name."""
    names = ["x"] + [f"c{i}" for i in range(1, len(inputs))]
    initializers = [
        tensor
        if isinstance(tensor, TensorProto)
        else numpy_helper.from_array(numpy.asarray(tensor), name)
        for name, tensor in zip(names[1:], inputs[1:])
    ]
    for tensor, name in zip(initializers, names[1:]):
        tensor.name = name
    first = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], name="y", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", first, inputs[0].shape)],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [*initializers, *constants],
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    with pytest.raises(tc.Error) as caught:
        tc.compile(model.SerializeToString(), target="x86-64-v3")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"node 'y' ({operator}, opset {opset}) of model.onnx: ")


@pytest.mark.parametrize(
    "operator, x", [("QuantizeLinear", X.astype(numpy.float32)), ("DequantizeLinear", X)]
)
@pytest.mark.parametrize(
    "scale, number",
    [(0.0, "0"), (-0.5, "-0.5"), (numpy.nan, "nan"), (numpy.inf, "inf"), (-numpy.inf, "-inf")],
)
def test_scales_that_are_no_scales(operator, x, scale, number):
    assert (
        refusal(operator, (x, numpy.float32(scale), ZERO))
        == f"input 1, a scale, holds {number} as element 0{SCALES}"
    )
    each = numpy.array([0.5, 0.25, scale], numpy.float32)
    assert (
        refusal(operator, (x, each, numpy.full(3, ZERO)))
        == f"input 1, a scale, holds {number} as element 2{SCALES}"
    )


@pytest.mark.parametrize(
    "operator, x", [("QuantizeLinear", X.astype(numpy.float32)), ("DequantizeLinear", X)]
)
def test_shapes_and_axes_of_scales(operator, x):
    three = numpy.full(3, ONE)
    assert (
        refusal(operator, (x, numpy.full((2, 3), ONE)))
        == "input 1 has shape [2, 3]; without block_size a number or a vector is needed"
    )
    assert (
        refusal(operator, (x, numpy.full(4, ONE)))
        == "input 1 has shape [4] but axis 1 of [2, 3] is 3"
    )
    assert (
        refusal(operator, (x, three), axis=0) == "input 1 has shape [3] but axis 0 of [2, 3] is 2"
    )
    assert (
        refusal(operator, (x, three), axis=2) == "axis 2 is outside of -2..1 for a tensor of rank 2"
    )
    assert (
        refusal(operator, (x, three), axis=-3)
        == "axis -3 is outside of -2..1 for a tensor of rank 2"
    )
    assert (
        refusal(operator, (x, three, numpy.full(2, ZERO)))
        == "input 2 has shape [2] but axis 1 of [2, 3] is 3"
    )
    assert (
        refusal(operator, (x, numpy.full((2, 3), ONE)), 21, block_size=2)
        == "input 1 has shape [2, 3]; blocks of 2 along axis 1 of [2, 3] need [2, 2]"
    )
    assert (
        refusal(operator, (x, numpy.full((2, 3), ONE)), 21, block_size=-2)
        == "block_size is -2; it must not be negative"
    )


CONVOLUTION = {
    0: numpy.zeros((1, 3, 4, 4), numpy.uint8),
    1: ONE,
    2: ZERO,
    3: WEIGHTS,
    4: ONE,
    5: numpy.int8(0),
    6: ONE,
    7: ZERO,
}
PRODUCT = {**CONVOLUTION, 0: numpy.zeros((4, 3), numpy.uint8), 3: numpy.ones((3, 5), numpy.int8)}


@pytest.mark.parametrize(
    "operator, usual", [("QLinearConv", CONVOLUTION), ("QLinearMatMul", PRODUCT)]
)
@pytest.mark.parametrize("scale", [1, 4, 6])
def test_scales_of_operators_that_have_them(operator, usual, scale):
    inputs = tuple({**usual, scale: numpy.float32(-1)}.values())
    assert refusal(operator, inputs) == f"input {scale}, a scale, holds -1 as element 0{SCALES}"


def test_counts_of_scales_of_operators_that_have_them():
    def convolution(input, array):
        return refusal("QLinearConv", tuple({**CONVOLUTION, input: array}.values()))

    def product(input, array):
        return refusal("QLinearMatMul", tuple({**PRODUCT, input: array}.values()))

    assert convolution(1, numpy.full(3, ONE)) == "input 1 has shape [3]; one number is needed"
    assert (
        convolution(4, numpy.full(3, ONE))
        == "input 4 has shape [3]; one number or one for each of 5 filters is needed"
    )
    assert (
        convolution(4, numpy.full((5, 3), ONE))
        == "input 4 has shape [5, 3]; one number or one for each of 5 filters is needed"
    )
    assert (
        convolution(5, numpy.zeros(4, numpy.int8))
        == "input 5 has shape [4]; one number or one for each of 5 filters is needed"
    )
    assert convolution(7, numpy.full(5, ZERO)) == "input 7 has shape [5]; one number is needed"
    assert (
        product(1, numpy.full(3, ONE))
        == "input 1 has shape [3]; one number or one for each of 4 rows is needed"
    )
    assert (
        product(4, numpy.full(4, ONE))
        == "input 4 has shape [4]; one number or one for each of 5 columns is needed"
    )
    assert product(6, numpy.full(4, ONE)) == "input 6 has shape [4]; one number is needed"
    integers = (PRODUCT[0], PRODUCT[3], numpy.full(3, ZERO), numpy.zeros(5, numpy.int8))
    assert (
        refusal("MatMulInteger", integers)
        == "input 2 has shape [3]; one number or one for each of 4 rows is needed"
    )
    integers = (CONVOLUTION[0], WEIGHTS, ZERO, numpy.zeros(4, numpy.int8))
    assert (
        refusal("ConvInteger", integers)
        == "input 3 has shape [4]; one number or one for each of 5 filters is needed"
    )


def test_zero_points_of_other_types_and_outside_of_theirs():
    assert (
        refusal("DequantizeLinear", (X, ONE, numpy.int8(3)))
        == "input 0 has type u8 and input 2 has type i8; they must be the same"
    )
    for kind, number, name in (
        (TensorProto.UINT8, 256, "u8"),
        (TensorProto.UINT8, -1, "u8"),
        (TensorProto.INT8, -129, "i8"),
        (TensorProto.INT8, 128, "i8"),
        (TensorProto.UINT16, 65536, "u16"),
        (TensorProto.INT16, -32769, "i16"),
    ):
        zero = TensorProto(data_type=kind, int32_data=[number])
        x = X.astype(helper.tensor_dtype_to_np_dtype(kind))
        assert (
            refusal("DequantizeLinear", (x, ONE, zero), 21)
            == f"tensor 'c2' of model.onnx: int32_data holds {number} as element 0, which is no {name}"
        )
    zero = TensorProto(data_type=TensorProto.INT4, int32_data=[256])
    assert (
        refusal("QuantizeLinear", (X.astype(numpy.float32), ONE, zero), 21)
        == "tensor 'c2' of model.onnx: int32_data holds 256 as element 0, which is no i4"
    )


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_odd_counts_of_4_bit_integers(kind):
    """Two share a byte, and the last has one for itself."""
    low = -8 if kind == "INT4" else 0
    numbers = numpy.arange(15) % 16 + low
    nibbles = [int(number) & 15 for number in numbers]
    packed = bytes(a | b << 4 for a, b in zip(nibbles[::2], [*nibbles[1::2], 0]))

    def model(raw):
        weights = TensorProto(
            data_type=getattr(TensorProto, kind), dims=[5, 3], raw_data=raw, name="w"
        )
        graph = helper.make_graph(
            [
                helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=0),
                helper.make_node("Add", ["x", "f"], ["y"]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 3])],
            [weights, numpy_helper.from_array(numpy.array([1, 2, 3, 4, 5], numpy.float32), "s")],
        )
        return helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]
        ).SerializeToString()

    y = tc.compile(model(packed))(numpy.zeros((5, 3), numpy.float32))
    assert (y == numbers.reshape(5, 3) * numpy.arange(1, 6)[:, None]).all()
    for raw in (packed[:-1], packed + b"\0"):
        with pytest.raises(tc.ModelError) as caught:
            tc.compile(model(raw))
        assert (
            str(caught.value)
            == f"tensor 'w' of model.onnx: its shape needs 8 bytes but its raw data has {len(raw)}"
        )


def test_scales_that_a_run_computes_are_what_they_are():
    """A range of nothing but zeros has the scale 0, and no file is wrong for that."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float s) { y, s, z = DynamicQuantizeLinear(x) }'
    )
    assert tc.compile(model)(numpy.zeros(4, numpy.float32)) == 0
