"""Tensors of one value that a run would make (their sizes are open, or they are too large to be
held while compiling) as operands of products: the products read the value in their place."""

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import tc
from tests.support import worst_error

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
# A vector of sizes for ConstantOfShape: the input's size along an axis, before or behind a number.
ROWS = "xs = Shape(x) a = Gather(xs, axis) s = Concat<axis = 0>(a, count)"
COLUMNS = "xs = Shape(x) a = Gather(xs, axis) s = Concat<axis = 0>(count, a)"
WHOLE = "s = Shape(x)"
FLOATS = "w = ConstantOfShape<value = float[1] {0.3}>(s)"
OTHERS = "v = ConstantOfShape<value = float[1] {0.7}>(z)"
BYTES = "w = ConstantOfShape<value = int8[1] {3}>(s)"
MATRIX = "float[n, m] x"

CASES = {
    "right": (MATRIX, (7, 33), f"{ROWS} {FLOATS} y = MatMul(x, w)", 1),
    "left": (MATRIX, (7, 33), f"{COLUMNS} {FLOATS} y = MatMul(w, x)", 0),
    "transposed": (MATRIX, (7, 33), f"{COLUMNS} {FLOATS} y = Gemm<transB = 1>(x, w)", 1),
    "permuted": (
        MATRIX,
        (7, 33),
        f"{WHOLE} {FLOATS} t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t)",
        0,
    ),
    "vectors": ("float[n] x", (77,), f"{WHOLE} {FLOATS} y = MatMul(x, w)", 0),
    "batched": (
        "float[b, n, m] x",
        (3, 9, 20),
        f"{WHOLE} {FLOATS} t = Transpose<perm = [0, 2, 1]>(w) y = MatMul(x, t)",
        0,
    ),
    "both": (
        MATRIX,
        (7, 33),
        f"{ROWS} {FLOATS} z = Concat<axis = 0>(count, a) {OTHERS} y = MatMul(v, w)",
        1,
    ),
    "bytes": ("uint8[n, m] x", (7, 33), f"{ROWS} {BYTES} y = MatMulInteger(x, w)", 1),
}


def model_of(inputs, nodes, axis, result="float"):
    """The model in ONNX's text, with the constants that the cases name."""
    text = (
        f"{HEAD}g ({inputs}) => ({result} y)\n"
        f"<int64[1] axis = {{{axis}}}, int64[1] count = {{50}}>\n{{\n{nodes}\n}}"
    )
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("tolerance", [0.0, 1e-4])
@pytest.mark.parametrize("name", CASES)
def test_products_read_the_value(name, tolerance):
    inputs, shape, nodes, axis = CASES[name]
    model = model_of(inputs, nodes, axis, "int32" if name == "bytes" else "float")
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(np.float32)
    if name == "bytes":
        x = (random.random(shape) * 255).astype(np.uint8)
    data = model.SerializeToString()
    expected = onnxruntime.InferenceSession(data).run(None, {"x": x})[0]
    module = tc.compile(data, tolerance=tolerance, log=False)
    assert worst_error(module(x), expected) <= 5e-6
    # No kernel makes the tensor and nothing else.
    assert not {"w", "v"} & {kernel["label"] for kernel in module.kernels}


def test_a_matrix_that_is_too_large_to_be_held_takes_no_memory():
    """Its 268 MB would be written and read in each run."""
    text = (
        f"{HEAD}g (float[1, 8192] x) => (float[1, 8192] y) <int64[2] s = {{8192, 8192}}>\n"
        f"{{\n{FLOATS} y = MatMul(x, w)\n}}"
    )
    module = tc.compile(onnx.parser.parse_model(text).SerializeToString(), log=False)
    x = np.random.default_rng(1).random((1, 8192), np.float32)
    assert worst_error(module(x), np.full((1, 8192), 0.3 * x.sum(dtype=np.float64))) <= 1e-5
    assert module.memory.peak < 1 << 20
