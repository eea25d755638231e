"""Shifts by any number of bits, and bits read as another type, against NumPy's integers and
views."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
# Types by their bits, with NumPy's or ml_dtypes' names.
WIDTHS = {
    2: ["int2", "uint2"],
    4: ["int4", "uint4", "float4_e2m1fn"],
    8: ["int8", "uint8", "float8_e4m3fn", "float8_e5m2"],
    16: ["int16", "uint16", "float16", "bfloat16"],
    32: ["int32", "uint32", "float32"],
    64: ["int64", "uint64", "float64"],
}
PAIRS = [(bits, a, b) for bits, names in WIDTHS.items() for a in names for b in names if a != b]


def number_of(name):
    special = {
        "bfloat16": TensorProto.BFLOAT16,
        "int4": TensorProto.INT4,
        "uint4": TensorProto.UINT4,
        "int2": 26,
        "uint2": 25,
        "float4_e2m1fn": 23,
        "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
        "float8_e5m2": TensorProto.FLOAT8E5M2,
    }
    return special.get(name) or helper.np_dtype_to_tensor_dtype(np.dtype(name))


def module(nodes, inputs, result, constants=(), opset=28):
    graph = helper.make_graph(
        nodes,
        "bits",
        [
            helper.make_tensor_value_info(name, number_of(kind), shape)
            for name, kind, shape in inputs
        ],
        [helper.make_tensor_value_info("y", number_of(result), None)],
        list(constants),
    )
    return tc.compile(
        helper.make_model(
            graph, ir_version=13, opset_imports=[helper.make_opsetid("", opset)]
        ).SerializeToString(),
        log=False,
    )


def shifted(x, amount, bits, left, signed):
    """What one element becomes, by the operator's text, of Python's integers."""
    if not 0 <= amount < bits:
        return -1 if not left and x < 0 else 0
    if not left:
        return x >> amount
    result = (x << amount) % 2**bits
    return result - 2**bits if signed and result >= 2 ** (bits - 1) else result


def shift_cases(kind):
    info = np.iinfo(kind)
    values = [0, 1, 3, info.max, info.min, info.max // 3, info.min // 5]
    amounts = [0, 1, 2, info.bits - 1, info.bits, info.bits + 1, 100] + (
        [-1, -info.bits, info.min] if info.min else [info.max]
    )
    pairs = np.array([(x, amount) for x in values for amount in amounts], dtype=object)
    return pairs[:, 0].astype(kind), pairs[:, 1].astype(kind)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(kind, direction):
    x, amounts = shift_cases(kind)
    info = np.iinfo(kind)
    expected = np.array(
        [
            shifted(int(a), int(b), info.bits, direction == "LEFT", info.min < 0)
            for a, b in zip(x, amounts)
        ],
        dtype=object,
    ).astype(kind)
    node = helper.make_node("BitShift", ["x", "n"], ["y"], direction=direction)
    for opset in (28, 11) if info.min == 0 else (28,):
        found = module([node], [("x", kind, x.shape), ("n", kind, x.shape)], kind, opset=opset).run(
            {"x": x, "n": amounts}
        )["y"]
        np.testing.assert_array_equal(found, expected)
    known = module([node], [("x", kind, x.shape)], kind, [numpy_helper.from_array(amounts, "n")])
    np.testing.assert_array_equal(known.run({"x": x})["y"], expected)


def test_shifts_by_known_amounts_within_the_type():
    x = np.array([-(2**31), -5, -1, 0, 1, 2**31 - 1], np.int32)
    known = module(
        [helper.make_node("BitShift", ["x", "n"], ["y"], direction="RIGHT")],
        [("x", "int32", x.shape)],
        "int32",
        [numpy_helper.from_array(np.array([3], np.int32), "n")],
    )
    np.testing.assert_array_equal(known.run({"x": x})["y"], x >> 3)


def every_pattern(bits):
    """All bit patterns of a narrow type, or many of a wide one, as unsigned integers."""
    if bits <= 16:
        return np.arange(2**bits, dtype=np.uint64)
    drawn = np.random.default_rng(3).integers(0, 2**bits - 1, 500, np.uint64, endpoint=True)
    return np.concatenate((drawn, np.array([0, 1, 2 ** (bits - 1), 2**bits - 1], np.uint64)))


def array_of(patterns, name):
    """The patterns as elements of the type; ml_dtypes has types of less than a byte in the low bits
    of one."""
    kind = getattr(ml_dtypes, name, None) or np.dtype(name)
    holder = np.dtype(f"uint{8 * max(1, np.dtype(kind).itemsize)}")
    return patterns.astype(holder).view(kind)


def numbers(array):
    """Of every type as Python's numbers, NaN as text: payloads of NaN are not kept."""
    wide = (
        array
        if array.dtype.kind in "iu" and array.dtype.itemsize == 8
        else array.astype(np.float64)
    )
    return ["NaN" if each != each else each for each in wide.tolist()]


@pytest.mark.parametrize("bits, source, target", PAIRS)
def test_bits_as_another_type(bits, source, target):
    patterns = every_pattern(bits)
    given, expected = array_of(patterns, source), array_of(patterns, target)
    if source.startswith("int") and bits < 8:  # sign-extended, as ml_dtypes has them
        given = np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1)).astype(given.dtype)
        expected = array_of(
            (np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1)) % 2**bits).astype(np.uint64), target
        )
    node = helper.make_node("BitCast", ["x"], ["y"], to=number_of(target))
    found = module([node], [("x", source, given.shape)], target).run({"x": given})["y"]
    assert numbers(found) == numbers(expected)


def test_bits_between_other_operators():
    x = np.linspace(-3, 3, 48, dtype=np.float32)
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["d"]),
        helper.make_node("BitCast", ["d"], ["b"], to=TensorProto.INT32),
        helper.make_node("BitwiseAnd", ["b", "mask"], ["m"]),
        helper.make_node("BitCast", ["m"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["f", "two"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.array(2, np.float32), "two"),
        numpy_helper.from_array(np.array(0x7FFFFFFF, np.int32), "mask"),
    ]
    found = module(nodes, [("x", "float32", x.shape)], "float32", constants).run({"x": x})["y"]
    np.testing.assert_array_equal(found, abs(x * 2) + 2)


def test_bits_of_a_constant():
    constants = [numpy_helper.from_array(np.array([1.0, -0.0], np.float32), "c")]
    nodes = [
        helper.make_node("BitCast", ["c"], ["b"], to=TensorProto.INT32),
        helper.make_node("Add", ["b", "x"], ["y"]),
    ]
    found = module(nodes, [("x", "int32", (2,))], "int32", constants).run(
        {"x": np.array([1, 2], np.int32)}
    )["y"]
    assert found.tolist() == [0x3F800001, -0x7FFFFFFE]


def test_bits_of_another_width():
    with pytest.raises(
        tc.ShapeError, match="the operand is f32, of 32 bits, and i64 has 64; as many are needed"
    ):
        module(
            [helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT64)],
            [("x", "float32", (2,))],
            "int64",
        )
