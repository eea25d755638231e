"""Floats of 8 and 4 bits and integers of 4 and 2 bits: casts, quantisation, moves and packed
constants agree with ml_dtypes and with onnx's reference."""

import ml_dtypes
import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tc

from ..support import worst_error

FLOATS = {
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
}
INTEGERS = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
WIDE = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "int32": TensorProto.INT32,
}
RANDOM = numpy.random.default_rng(5)


def type_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def compiled(nodes, inputs, outputs, constants=(), opset=24):
    """A module of `nodes`; inputs and outputs are {name: (element type, shape)}."""
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
        list(constants),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)
    return tc.compile(model.SerializeToString(), threads=1, log=False), model


def cast(array, source, target, **attributes):
    module, _ = compiled(
        [helper.make_node("Cast", ["x"], ["y"], to=target, **attributes)],
        {"x": (source, array.shape)},
        {"y": (target, array.shape)},
    )
    return module(array)


def edges(name):
    """Numbers of the type, the middles between them, and what lies beyond."""
    codes = (
        numpy.arange(256 if "8" in name else 16, dtype=numpy.uint8)
        .view(type_of(name))
        .astype(numpy.float64)
    )
    finite = numpy.sort(codes[numpy.isfinite(codes)])
    middles = (finite[1:] + finite[:-1]) / 2
    beyond = numpy.array(
        [numpy.nan, numpy.inf, -numpy.inf, 1e30, -1e30, -0.0, finite[-1] * 1.01, finite[-1] * 1.2]
    )
    return numpy.concatenate(
        [finite, middles, middles * (1 + 1e-6), middles * (1 - 1e-6), beyond]
    ).astype(numpy.float32)


def same_numbers(actual, expected):
    actual, expected = actual.astype(numpy.float64), expected.astype(numpy.float64)
    assert numpy.array_equal(numpy.isnan(actual), numpy.isnan(expected))
    kept = ~numpy.isnan(expected)
    assert numpy.array_equal(actual[kept], expected[kept]) and numpy.array_equal(
        numpy.signbit(actual[kept]), numpy.signbit(expected[kept])
    )


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_rounded_once(name, saturate):
    x, number = edges(name), type_of(name)
    expected = x
    if saturate and name != "float4_e2m1fn":
        expected = numpy.clip(x, ml_dtypes.finfo(number).min, ml_dtypes.finfo(number).max)
    y = cast(x, TensorProto.FLOAT, FLOATS[name], saturate=saturate)
    assert y.dtype == number
    if name == "float4_e2m1fn":  # it has no NaN: which zero stands for it is nobody's rule
        y, expected = y[~numpy.isnan(x)], expected[~numpy.isnan(x)]
    same_numbers(y, expected.astype(number))


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_all_numbers_come_back_from_wider_types(name, wide):
    if wide == "int32" and name in FLOATS:
        pytest.skip("its numbers are no integers")
    codes = numpy.arange(256 if "8" in name else 16, dtype=numpy.uint8)
    if name == "int4":
        codes = numpy.arange(-8, 8).astype(ml_dtypes.int4).view(numpy.uint8)
    x = codes.view(type_of(name))
    source = {**FLOATS, **INTEGERS}[name]
    y = cast(x, source, WIDE[wide])
    same_numbers(y, x.astype(wide))
    finite = numpy.isfinite(x.astype(numpy.float64))
    assert numpy.array_equal(cast(y, WIDE[wide], source)[finite], x[finite])


@pytest.mark.parametrize("name", INTEGERS)
def test_short_integers_keep_the_low_bits_of_whole_numbers(name):
    x = numpy.array([-9, -8, -1.9, -0.5, 0, 0.9, 7, 8, 15, 16, 17.7, 300], numpy.float32)
    whole = numpy.trunc(x).astype(numpy.int32) & 15
    expected = numpy.where((name == "int4") & (whole > 7), whole - 16, whole)
    for kind in ("float32", "int32"):
        assert (
            cast(x.astype(kind), WIDE[kind], INTEGERS[name]).astype(numpy.int32).tolist()
            == expected.tolist()
        )


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_exponents(mode):
    x = numpy.array(
        [
            1,
            1.1,
            1.4999,
            1.5,
            1.75,
            2,
            3,
            -5,
            2.0**-127,
            1.9 * 2.0**127,
            2.0**127,
            0.124,
            numpy.inf,
            numpy.nan,
        ],
        numpy.float32,
    )
    y = cast(x, TensorProto.FLOAT, TensorProto.FLOAT8E8M0, round_mode=mode)
    magnitude = numpy.abs(x[:-2].astype(numpy.float64))
    power = {
        "up": numpy.ceil,
        "down": numpy.floor,
        "nearest": lambda e: numpy.floor(e) + (magnitude / 2 ** numpy.floor(e) >= 1.5),
    }[mode](numpy.log2(magnitude))
    assert y[:-2].astype(numpy.float64).tolist() == (2.0 ** numpy.minimum(power, 127)).tolist()
    assert numpy.isnan(y[-2:].astype(numpy.float32)).all()
    assert numpy.array_equal(
        cast(y, TensorProto.FLOAT8E8M0, TensorProto.FLOAT)[:-2], y[:-2].astype(numpy.float32)
    )


def test_a_float_that_a_kernel_keeps_to_itself_is_rounded_too():
    x = edges("float8_e5m2")
    module, _ = compiled(
        [
            helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT8E5M2),
            helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["b", "b"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, x.shape)},
        {"y": (TensorProto.FLOAT, x.shape)},
    )
    rounded = numpy.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2).astype(numpy.float32)
    numpy.testing.assert_array_equal(module(x), rounded + rounded)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "uint8"])
@pytest.mark.parametrize("block", [0, 2])
def test_quantisation(name, block):
    """There and back, with a scale per element of an axis, or per block along it."""
    kind = {**FLOATS, **INTEGERS, "uint8": TensorProto.UINT8}[name]
    x = (RANDOM.standard_normal((4, 5, 3)) * 6).astype(numpy.float32)
    shape = (4, 3, 3) if block else (5,)
    scale = RANDOM.uniform(0.5, 2, shape).astype(numpy.float32)
    zero = (
        numpy.zeros(shape, type_of(name))
        if name in FLOATS
        else RANDOM.integers(0, 4, shape).astype(type_of(name))
    )
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1, block_size=block),
        helper.make_node(
            "DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1, block_size=block
        ),
    ]
    module, model = compiled(
        nodes,
        {"x": (TensorProto.FLOAT, x.shape)},
        {"q": (kind, x.shape), "y": (TensorProto.FLOAT, x.shape)},
        [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(zero, "zero")],
    )
    q, y = module(x)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    same_numbers(q, expected[0])
    assert worst_error(y, expected[1]) < 1e-6


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn"])
def test_packed_constants_and_moves(name):
    """An odd number of packed elements of a file, transposed and joined with an input."""
    values = RANDOM.integers(0, 16, (3, 5)).astype(numpy.uint8)
    constant = (
        (values.astype(numpy.int8) - 8).astype(ml_dtypes.int4)
        if name == "int4"
        else values.view(type_of(name))
    )
    kind = {**FLOATS, **INTEGERS}[name]
    x = numpy.ascontiguousarray(constant.T[:, ::-1])
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("Concat", ["t", "x"], ["y"], axis=0),
    ]
    module, _ = compiled(
        nodes,
        {"x": (kind, x.shape)},
        {"y": (kind, (10, 3))},
        [numpy_helper.from_array(constant, "w")],
    )
    assert numpy.array_equal(
        module(x).astype(numpy.float32), numpy.concatenate([constant.T, x]).astype(numpy.float32)
    )


def test_two_bits():
    packed = TensorProto(data_type=26, dims=[5], name="w", raw_data=bytes([0b11100100, 0b10]))
    node = helper.make_node("Cast", ["w"], ["y"], to=TensorProto.INT32)
    module, _ = compiled([node], {}, {"y": (TensorProto.INT32, (5,))}, [packed])
    assert module().tolist() == [0, 1, -2, -1, -2]
    packed.data_type = 25
    module, _ = compiled([node], {}, {"y": (TensorProto.INT32, (5,))}, [packed])
    assert module().tolist() == [0, 1, 2, 3, 2]


def test_bits_are_taken_and_other_types_are_not():
    module, _ = compiled(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        {"x": (TensorProto.FLOAT8E4M3FN, (2,))},
        {"y": (TensorProto.FLOAT, (2,))},
    )
    assert module.inputs[0].dtype == "float8_e4m3fn"
    assert module(numpy.array([0x38, 0xB8], numpy.uint8)).tolist() == [1, -1]
    with pytest.raises(tc.ShapeError, match="is float32; expected float8_e4m3fn"):
        module(numpy.zeros(2, numpy.float32))


@pytest.mark.parametrize(
    "attributes, scale, message",
    [
        ({"axis": 1, "block_size": 2}, (4, 2), "need \\[4, 3\\]"),
        ({"axis": 1, "block_size": -1}, (5,), "block_size is -1"),
        ({"axis": 1}, (4, 3), "; without block_size a number or a vector is needed"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(attributes, scale, message):
    with pytest.raises(tc.Error, match=message):
        compiled(
            [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], **attributes)],
            {"x": (TensorProto.FLOAT, (4, 5)), "s": (TensorProto.FLOAT, scale)},
            {"y": (TensorProto.UINT8, (4, 5))},
        )


def test_an_unknown_rounding_is_refused():
    with pytest.raises(
        tc.Error, match="attribute 'round_mode' is 'odd'; it may be up, down, nearest"
    ):
        cast(
            numpy.zeros(2, numpy.float32),
            TensorProto.FLOAT,
            TensorProto.FLOAT8E8M0,
            round_mode="odd",
        )


def test_a_packed_constant_of_the_wrong_size_is_refused():
    with pytest.raises(tc.Error, match="its shape needs 3 bytes but its raw data has 2"):
        compiled(
            [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)],
            {},
            {"y": (TensorProto.FLOAT, (5,))},
            [TensorProto(data_type=TensorProto.INT4, dims=[5], name="w", raw_data=b"ab")],
        )
