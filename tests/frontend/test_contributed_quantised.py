"""Quantised operators of ONNX Runtime's own domain against ONNX Runtime on seeded inputs, and what
is said of malformed ones.

Integers may lie one step beside ONNX Runtime's, which takes other ways to round (tables, sums in
float32, fixed point), in few elements.
"""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import onnxruntime_session

MAX_BESIDE = 0.02  # share of the elements that lie one step beside


def model_of(operator, inputs, constants, outputs=1, **attributes):
    """A model of one node; inputs are (name, array) in order, those in `constants` are in the file,
    None is left out."""
    names = ["" if array is None else name for name, array in inputs]
    given = [(name, array) for name, array in inputs if array is not None]
    value = helper.make_tensor_value_info
    results = ["y"] + [f"y{i}" for i in range(1, outputs)]
    graph = helper.make_graph(
        [
            helper.make_node(
                operator, names, results, name="y", domain="com.microsoft", **attributes
            )
        ],
        "g",
        [
            value(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given
            if name not in constants
        ],
        [value(name, TensorProto.UNDEFINED, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in given if name in constants],
    )
    for output in graph.output:
        output.ClearField("type")
    return helper.make_model(
        graph,
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
    ).SerializeToString()


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("rows", [1, 16])
def test_weights_of_each_vector_are_a_stream(target, rows):
    """The number of a vector is the outermost dimension of packed weights, also where the tiles of
    several rows take one vector at a time: both kinds of kernels read the same form."""
    random = numpy.random.default_rng(3)
    columns, depth = 256, 64
    inputs = [
        ("x", random.standard_normal((rows, depth)).astype(numpy.float32)),
        ("w", random.integers(0, 256, (columns, depth // 32, 16)).astype(numpy.uint8)),
        ("scales", random.uniform(0.01, 0.02, columns * depth // 32).astype(numpy.float32)),
    ]
    model = model_of(
        "MatMulNBits", inputs, ["w", "scales"], K=depth, N=columns, bits=4, block_size=32
    )
    kernels = tc.compile(model, target=target, threads=1, tolerance=0.12, log=False).kernels
    packed = [line for each in kernels for line in each["trace"] if line.startswith("pack ")]
    assert len(packed) >= 2
    assert all(line.split(" : ")[1].startswith("n_j n_o ") for line in packed), packed


def compare(
    operator, inputs, constants, outputs=1, tolerance=1e-5, most_beside=MAX_BESIDE, **attributes
):
    inputs = [(name, None if array is None else numpy.asarray(array)) for name, array in inputs]
    model = model_of(operator, inputs, constants, outputs, **attributes)
    feed = {name: array for name, array in inputs if array is not None and name not in constants}
    session = onnxruntime_session(model)
    expected = session.run(None, feed)
    found = list(tc.compile(model, threads=1, log=False).run(feed).values())
    for own, other in zip(found, expected):
        assert own.dtype == other.dtype and own.shape == other.shape
        if own.dtype.kind == "f":
            assert numpy.abs(own - other).max() <= tolerance * max(
                1.0, float(numpy.abs(other).max())
            )
            continue
        distance = numpy.abs(own.astype(int) - other.astype(int))
        assert distance.max() <= 1 and (distance > 0).sum() <= max(1, most_beside * distance.size)


def bytes_of(random, kind, shape):
    info = numpy.iinfo(kind)
    return random.integers(info.min, info.max + 1, shape).astype(kind)


def scale_of(random):
    return numpy.float32(random.uniform(0.005, 0.1))


def zero_of(random, kind):
    info = numpy.iinfo(kind)
    return kind(random.integers(info.min, info.max + 1))


def unit(random, kind, name):
    return [(f"{name}_scale", scale_of(random)), (f"{name}_zero", zero_of(random, kind))]


def fixed(inputs, *runs):
    """The names of what is in the file."""
    return {name for name, _ in inputs if name not in runs}


@pytest.fixture(params=range(4))
def random(request):
    return numpy.random.default_rng([41, request.param])


@pytest.mark.parametrize("kind", [numpy.uint8, numpy.int8])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shape", [(1, 8, 5, 5), (1, 8, 1, 1)])
def test_of_two(random, operator, kind, shape):
    a, b = bytes_of(random, kind, (1, 8, 5, 5)), bytes_of(random, kind, shape)
    inputs = [
        ("a", a),
        *unit(random, kind, "a"),
        ("b", b),
        *unit(random, kind, "b"),
        *unit(random, kind, "c"),
    ]
    compare(operator, inputs, fixed(inputs, "a", "b"))


@pytest.mark.parametrize("kind", [numpy.uint8, numpy.int8])
@pytest.mark.parametrize(
    "operator, attributes",
    [
        ("QLinearLeakyRelu", {"alpha": 0.1}),
        ("QLinearSigmoid", {}),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        (
            "QLinearAveragePool",
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        ),
    ],
)
def test_of_one(random, operator, kind, attributes):
    x = bytes_of(random, kind, (1, 8, 6, 6))
    inputs = [("x", x), *unit(random, kind, "x"), *unit(random, kind, "y")]
    # ONNX Runtime's table of exponentials is of whole numbers, and its quotient is rounded down.
    compare(
        operator,
        inputs,
        fixed(inputs, "x"),
        most_beside=0.25 if operator == "QLinearSoftmax" else MAX_BESIDE,
        **attributes,
    )


@pytest.mark.parametrize("kind", [numpy.uint8, numpy.int8])
def test_concat(random, kind):
    operands = []
    for i in range(3):
        operands += [
            (f"x{i}", bytes_of(random, kind, (1, 2 + i, 4, 4))),
            *unit(random, kind, f"x{i}"),
        ]
    inputs = [*unit(random, kind, "y"), *operands]
    compare("QLinearConcat", inputs, fixed(inputs, "x0", "x1", "x2"), axis=1)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("form", ["floats", "integers"])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(random, columns, form, transposed):
    a = bytes_of(random, numpy.uint8, (5, 16))
    b = bytes_of(random, numpy.int8, (7, 16) if transposed else (16, 7))
    scale = random.uniform(0.005, 0.05, 7).astype(numpy.float32) if columns else scale_of(random)
    zero = numpy.zeros(7, numpy.int8) if columns else numpy.int8(0)
    bias = random.integers(-3000, 3000, 7).astype(numpy.int32)
    inputs = [
        ("a", a),
        *unit(random, numpy.uint8, "a"),
        ("b", b),
        ("b_scale", scale),
        ("b_zero", zero),
        ("c", bias),
    ]
    inputs += (
        [("y_scale", numpy.float32(0.3)), ("y_zero", numpy.uint8(100))]
        if form == "integers"
        else []
    )
    compare(
        "QGemm",
        inputs,
        fixed(inputs, "a"),
        transB=transposed,
        alpha=float(random.choice([1.0, 0.5])),
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [numpy.uint8, numpy.int8])
def test_products_to_floats(random, bias, kind):
    a, b = bytes_of(random, numpy.uint8, (2, 3, 16)), bytes_of(random, kind, (16, 12))
    scales = random.uniform(0.005, 0.05, 12).astype(numpy.float32)
    added = random.uniform(-1, 1, 12).astype(numpy.float32) if bias else None
    inputs = [
        ("a", a),
        ("b", b),
        ("a_scale", scale_of(random)),
        ("b_scale", scales),
        ("a_zero", zero_of(random, numpy.uint8)),
        ("b_zero", numpy.full(12, zero_of(random, kind))),
        ("bias", added),
    ]
    compare("MatMulIntegerToFloat", inputs, fixed(inputs, "a", "a_scale", "a_zero"))
    x = random.normal(0, 1, (2, 3, 16)).astype(numpy.float32)
    inputs = [
        ("x", x),
        ("b", b),
        ("b_scale", scales),
        ("b_zero", numpy.full(12, zero_of(random, kind))),
        ("bias", added),
    ]
    compare("DynamicQuantizeMatMul", inputs, fixed(inputs, "x"))


def test_attention(random):
    x, weights = bytes_of(random, numpy.uint8, (2, 5, 16)), bytes_of(random, numpy.int8, (16, 48))
    bias = random.uniform(-1, 1, 48).astype(numpy.float32)
    mask = numpy.array([5, 3], numpy.int32)
    inputs = [
        ("x", x),
        ("w", weights),
        ("bias", bias),
        ("x_scale", numpy.float32(0.02)),
        ("w_scale", numpy.float32(0.01)),
        ("mask", mask),
        ("x_zero", zero_of(random, numpy.uint8)),
        ("w_zero", numpy.int8(0)),
    ]
    compare("QAttention", inputs, fixed(inputs, "x", "mask"), num_heads=4, tolerance=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
def test_weights_by_blocks(random, bits, zeros):
    n, k, size = 12, int(random.choice([32, 40, 72])), int(random.choice([16, 32]))
    count = -(-k // size)
    weights = bytes_of(random, numpy.uint8, (n, count, size * bits // 8))
    scales = (random.uniform(0.005, 0.05, (n, count)) * random.choice([-1, 1], (n, count))).astype(
        numpy.float32
    )
    points = {
        "none": None,
        "packed": bytes_of(random, numpy.uint8, (n, (count * bits + 7) // 8)),
        "floats": random.uniform(0, 15, (n, count)).astype(numpy.float32),
    }[zeros]
    x = random.normal(0, 1, (2, 3, k)).astype(numpy.float32)
    inputs = [("x", x), ("w", weights), ("scales", scales), ("zeros", points)]
    if bits == 8 and zeros == "floats":
        pytest.skip("ONNX Runtime has no kernel for bytes with zero points of floats")
    compare(
        "MatMulNBits",
        inputs,
        fixed(inputs, "x"),
        N=n,
        K=k,
        bits=bits,
        block_size=size,
        tolerance=1e-4,
    )


def test_numbers_of_four_bits_by_blocks(random):
    """DequantizeLinear of int4 and uint4 with a scale for each block, against its definition."""
    for kind, low in ((TensorProto.INT4, -8), (TensorProto.UINT4, 0)):
        whole = random.integers(low, low + 16, (6, 15))
        scales = random.uniform(0.01, 0.1, (6, 4)).astype(numpy.float32)
        zeros = random.integers(low, low + 16, (6, 4))
        graph = helper.make_graph(
            [
                helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=1, block_size=4),
                helper.make_node("MatMul", ["wf", "x"], ["y"]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (15, 3))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (6, 3))],
            [
                helper.make_tensor("w", kind, whole.shape, whole.reshape(-1)),
                numpy_helper.from_array(scales, "s"),
                helper.make_tensor("z", kind, zeros.shape, zeros.reshape(-1)),
            ],
        )
        model = helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]
        ).SerializeToString()
        x = random.normal(0, 1, (15, 3)).astype(numpy.float32)
        real = (whole - zeros.repeat(4, 1)[:, :15]) * scales.repeat(4, 1)[:, :15].astype(
            numpy.float64
        )
        assert (
            numpy.abs(tc.compile(model, threads=1, log=False).run({"x": x})["y"] - real @ x).max()
            < 1e-4
        )


# --- what is malformed ----------------------------------------------------------------------------

X, HALF, ZERO = numpy.zeros((1, 4, 4, 4), numpy.uint8), numpy.float32(0.5), numpy.uint8(3)
PAIR = [
    ("x", X),
    ("s", HALF),
    ("z", ZERO),
    ("b", X),
    ("t", HALF),
    ("q", ZERO),
    ("u", HALF),
    ("v", ZERO),
]
ONE = [("x", X), ("s", HALF), ("z", ZERO), ("u", HALF), ("v", ZERO)]


def refusal(operator, inputs, run=("x",), **attributes):
    inputs = [(name, None if array is None else numpy.asarray(array)) for name, array in inputs]
    with pytest.raises(tc.Error) as caught:
        tc.compile(
            model_of(operator, inputs, fixed(inputs, *run), **attributes), target="x86-64-v3"
        )
    assert "\n" not in str(caught.value)
    return str(caught.value).split(" of model.onnx: ", 1)[-1]


def changed(inputs, **arrays):
    return [(name, arrays.get(name, array)) for name, array in inputs]


@pytest.mark.parametrize(
    "operator, inputs, attributes",
    [
        ("QLinearAdd", PAIR, {}),
        ("QLinearMul", PAIR, {}),
        ("QLinearSigmoid", ONE, {}),
        ("QLinearLeakyRelu", ONE, {}),
        ("QLinearGlobalAveragePool", ONE, {}),
        ("QLinearAveragePool", ONE, {"kernel_shape": [2, 2]}),
        ("QLinearSoftmax", ONE, {"opset": 13}),
        (
            "QLinearConcat",
            [("u", HALF), ("v", ZERO), ("x", X), ("s", HALF), ("z", ZERO)],
            {"axis": 1},
        ),
    ],
)
def test_units_that_are_none(operator, inputs, attributes):
    where = {name: i for i, (name, _) in enumerate(inputs)}
    for scale, number in ((0.0, "0"), (-0.5, "-0.5"), (numpy.nan, "nan"), (numpy.inf, "inf")):
        assert refusal(operator, changed(inputs, s=numpy.float32(scale)), **attributes) == (
            f"input {where['s']}, a scale, holds {number} as element 0; scales are finite and over 0: quantise the model again"
        )
    assert (
        refusal(operator, changed(inputs, s=numpy.full(4, HALF)), **attributes)
        == f"input {where['s']} has shape [4]; one number is needed"
    )
    assert (
        refusal(operator, changed(inputs, u=numpy.float64(0.5)), **attributes)
        == f"input {where['u']}, a scale, is f64; f32 is needed"
    )
    assert (
        refusal(operator, changed(inputs, z=numpy.int8(3)), **attributes)
        == f"input {where['z']}, a zero point, is i8; u8 is needed"
    )
    assert (
        refusal(operator, changed(inputs, x=X.astype(numpy.int32), z=numpy.int32(3)), **attributes)
        == f"input {where['x']} is i32; i8 or u8 is needed"
    )


def test_forms_that_are_not_supported():
    assert (
        refusal("QLinearAdd", changed(PAIR, b=X.astype(numpy.int8), q=numpy.int8(3)))
        == "inputs 0 and 3 are u8 and i8"
    )
    assert (
        refusal("QLinearSoftmax", ONE, opset=12, axis=1)
        == "a softmax of opset 12 along axis 1 of 4 is not supported; the last axis is"
    )
    joined = [("u", HALF), ("v", ZERO), ("x", X), ("s", HALF), ("z", ZERO), ("y0", X)]
    assert (
        refusal("QLinearConcat", joined, axis=1)
        == "has 6 inputs; a scale and a zero point, and three for each operand, are needed"
    )
    joined = [
        ("u", HALF),
        ("v", ZERO),
        ("x", X),
        ("s", HALF),
        ("z", ZERO),
        ("second", X),
        ("t", None),
        ("q", ZERO),
    ]
    assert refusal("QLinearConcat", joined, axis=1) == "leaves out input 6, a scale"


GEMM = [
    ("x", numpy.zeros((4, 3), numpy.uint8)),
    ("s", HALF),
    ("z", ZERO),
    ("b", numpy.ones((3, 5), numpy.int8)),
    ("t", HALF),
    ("q", numpy.int8(0)),
    ("c", numpy.zeros(5, numpy.int32)),
    ("u", HALF),
    ("v", ZERO),
]
FLOATS = [
    ("x", numpy.zeros((4, 3), numpy.uint8)),
    ("b", numpy.ones((3, 5), numpy.int8)),
    ("s", HALF),
    ("t", HALF),
]


def test_products_of_other_forms():
    assert (
        refusal("QGemm", changed(GEMM, x=X)) == "input 0 has shape [1, 4, 4, 4]; a matrix is needed"
    )
    assert (
        refusal("QGemm", changed(GEMM, t=numpy.full(4, HALF)))
        == "input 4 has shape [4]; one number or one for each of 5 columns is needed"
    )
    assert refusal("QGemm", changed(GEMM, c=numpy.zeros(4, numpy.int32))) == (
        "input 6, the bias, of shape [4] does not broadcast to [4, 5]"
    )
    row = changed(GEMM, x=numpy.zeros((1, 3), numpy.uint8), c=numpy.zeros((2, 5), numpy.int32))
    assert (
        refusal("QGemm", row) == "input 6, the bias, of shape [2, 5] does not broadcast to [1, 5]"
    )
    assert (
        refusal("QGemm", GEMM[:-1])
        == "has a scale or a zero point of its result alone; inputs 7 and 8 are given together"
    )
    assert refusal("QGemm", GEMM, alpha=-1.0) == "alpha is -1; a number over 0 is needed"
    assert (
        refusal("MatMulIntegerToFloat", changed(FLOATS, b=numpy.ones(3, numpy.int8)))
        == "input 1 has shape [3]; a matrix is needed"
    )
    zeros = [("az", ZERO), ("bz", numpy.int8(0))]
    assert (
        refusal("MatMulIntegerToFloat", [*FLOATS, *zeros, ("bias", numpy.zeros(4, numpy.float32))])
        == "input 6, the bias, has shape [4]; [5] is needed"
    )


def nbits(run=("x",), **changes):
    arrays = {
        "x": numpy.zeros((2, 32), numpy.float32),
        "w": numpy.zeros((6, 2, 8), numpy.uint8),
        "scales": numpy.full((6, 2), HALF),
        "zeros": None,
        "groups": None,
        "bias": None,
    }
    attributes = {"N": 6, "K": 32, "bits": 4, "block_size": 16}
    for name, value in changes.items():
        (arrays if name in arrays else attributes)[name] = value
    return refusal("MatMulNBits", list(arrays.items()), run, **attributes)


def test_weights_by_blocks_of_other_forms():
    """Also counts of numbers of four bits that do not fill their bytes."""
    wrong = "u8[6, 2, 8] is needed for 6 x 32 numbers of 4 bits in blocks of 16"
    assert nbits(w=numpy.zeros((6, 2, 7), numpy.uint8)) == f"the weights are u8[6, 2, 7]; {wrong}"
    assert nbits(w=numpy.zeros((6, 2, 8), numpy.int8)) == f"the weights are i8[6, 2, 8]; {wrong}"
    assert (
        nbits(scales=numpy.full((6, 3), HALF)) == "input 2 has shape [6, 3]; 12 scales are needed"
    )
    assert (
        nbits(zeros=numpy.zeros((6, 2), numpy.uint8))
        == "input 3 has shape [6, 2]; 6 bytes of zero points are needed"
    )
    assert (
        nbits(zeros=numpy.zeros((6, 3), numpy.float32))
        == "input 3 has shape [6, 3]; 12 zero points are needed"
    )
    assert nbits(bits=3) == "bits is 3; 2, 4 and 8 are supported"
    assert nbits(block_size=48) == "block_size is 48; a power of two is needed"
    assert (
        nbits(weight_prepacked=1)
        == "weights that are packed for one device are not supported; export without prepacking"
    )
    assert (
        nbits(groups=numpy.zeros(32, numpy.int32))
        == "group indices (g_idx) are not supported; export the weights in their order"
    )
    assert (
        nbits(x=numpy.zeros((2, 31), numpy.float32))
        == "input 0 has shape [2, 31]; its last axis must be K, 32"
    )
    assert (
        nbits(bias=numpy.zeros(5, numpy.float32))
        == "input 5, the bias, has shape [5]; [6] is needed"
    )
    assert nbits(run=("x", "w")) == "input 1 is computed by the run; constant weights are needed"
