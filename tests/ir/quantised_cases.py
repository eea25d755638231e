"""A node of each quantised operator of ONNX Runtime's own domain, with seeded numbers none of whose
results lies near a tie."""

import numpy
from onnx import TensorProto, helper, numpy_helper

RANDOM = numpy.random.default_rng(43)
UNSIGNED, SIGNED = numpy.uint8, numpy.int8
ONE_OPERAND = {
    "QLinearAveragePool": {"kernel_shape": [2, 2]},
    "QLinearGlobalAveragePool": {},
    "QLinearLeakyRelu": {"alpha": 0.1},
    "QLinearSigmoid": {},
}


def whole(kind, *shape):
    return RANDOM.integers(numpy.iinfo(kind).min, numpy.iinfo(kind).max + 1, shape).astype(kind)


def units(name, scale, zero):
    return {f"{name}_scale": numpy.float32(scale), f"{name}_zero": UNSIGNED(zero)}


def inputs_of(operator):
    """({input: array} in their order, attributes); a run gives x and b, the others are in the
    file."""
    image = (1, 4, 5, 5)
    if operator in ONE_OPERAND:
        return {
            "x": whole(UNSIGNED, *image),
            **units("x", 0.031, 120),
            **units("y", 0.02713, 90),
        }, ONE_OPERAND[operator]
    if operator in ("QLinearAdd", "QLinearMul"):
        return {
            "x": whole(UNSIGNED, *image),
            **units("x", 0.031, 120),
            "b": whole(UNSIGNED, *image),
            **units("b", 0.017, 99),
            **units("y", 0.0437, 90),
        }, {}
    if operator == "QLinearConcat":
        return {
            **units("y", 0.0437, 90),
            "x": whole(UNSIGNED, *image),
            **units("x", 0.031, 120),
            "b": whole(UNSIGNED, *image),
            **units("b", 0.017, 99),
        }, {"axis": 1}
    if operator == "QLinearSoftmax":
        return {"x": whole(UNSIGNED, 3, 7), **units("x", 0.011, 120), **units("y", 1 / 256, 0)}, {
            "axis": -1,
            "opset": 13,
        }
    if operator == "QuantizeLinear":
        return {
            "x": RANDOM.uniform(-1, 1, (3, 7)).astype(numpy.float32),
            **units("y", 0.0437, 90),
        }, {}
    if operator == "DequantizeLinear":
        return {"x": whole(UNSIGNED, 3, 7), **units("x", 0.031, 120)}, {}
    weights = {"w": whole(SIGNED, 8, 5), "w_scale": numpy.float32(0.02), "w_zero": SIGNED(0)}
    if operator == "QGemm":
        return {
            "x": whole(UNSIGNED, 3, 8),
            **units("x", 0.031, 120),
            **weights,
            "c": RANDOM.integers(-99, 99, 5).astype(numpy.int32),
        }, {}
    if operator == "MatMulIntegerToFloat":
        return {
            "x": whole(UNSIGNED, 3, 8),
            "w": weights["w"],
            "x_scale": numpy.float32(0.031),
            "w_scale": weights["w_scale"],
            "x_zero": UNSIGNED(120),
        }, {}
    if operator == "DynamicQuantizeMatMul":
        return {"x": RANDOM.uniform(-1, 1, (3, 8)).astype(numpy.float32), **weights}, {}
    if operator == "QAttention":
        return {
            "x": whole(UNSIGNED, 2, 5, 8),
            "w": whole(SIGNED, 8, 24),
            "bias": RANDOM.uniform(-1, 1, 24).astype(numpy.float32),
            "x_scale": numpy.float32(0.01),
            "w_scale": numpy.float32(0.01),
        }, {"num_heads": 2}
    if operator == "GatherBlockQuantized":
        return {
            "w": whole(UNSIGNED, 6, 16),
            "x": numpy.array([5, 0, 2], numpy.int64),
            "w_scale": RANDOM.uniform(0.01, 0.02, (6, 2)).astype(numpy.float32),
        }, {"bits": 4, "block_size": 16}
    assert operator == "MatMulNBits"
    return {
        "x": RANDOM.uniform(-1, 1, (3, 32)).astype(numpy.float32),
        "w": whole(UNSIGNED, 6, 2, 8),
        "w_scale": RANDOM.uniform(0.01, 0.02, (6, 2)).astype(numpy.float32),
    }, {"N": 6, "K": 32, "bits": 4, "block_size": 16}


OPERATORS = [
    "DequantizeLinear",
    "DynamicQuantizeMatMul",
    "GatherBlockQuantized",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QAttention",
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QuantizeLinear",
]


def model_of(operator):
    """(model, inputs of a run, expected result where ONNX Runtime's kernel is another function)."""
    arrays, attributes = inputs_of(operator)
    given = {name: array for name, array in arrays.items() if name in ("x", "b")}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(operator, list(arrays), ["y"], domain="com.microsoft", **attributes)],
        "row",
        [
            value(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ],
        [value("y", TensorProto.UNDEFINED, None)],
        [
            numpy_helper.from_array(numpy.asarray(array), name)
            for name, array in arrays.items()
            if name not in given
        ],
    )
    graph.output[0].ClearField("type")
    model = helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
    )
    expected = None
    if operator == "QLinearSoftmax":
        # ONNX Runtime rounds the quotient down; the operator's text does not.
        powers = numpy.exp(
            (arrays["x"].astype(numpy.float64) - 120) * numpy.float64(arrays["x_scale"])
        )
        expected = {
            "y": numpy.clip(numpy.rint(powers / powers.sum(1, keepdims=True) * 256), 0, 255).astype(
                UNSIGNED
            )
        }
    return model, given, expected
