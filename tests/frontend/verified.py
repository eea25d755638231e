"""Models for the tests of tc.verify."""

import json

import numpy as np
import onnx
from onnx import numpy_helper, parser

from tc.verifying import Question, verify_by

NET = """g (float[1,4,8,8] x) => (float[1,16,6] y) {
    conv = Conv<pads = [1, 1, 1, 1]>(x, w, b)
    relu = Relu(conv)
    gate = Sigmoid(relu)
    gated = Mul(relu, gate)
    pool = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(gated)
    flat = Reshape(pool, shape)
    turned = Transpose<perm = [0, 2, 1]>(flat)
    hidden = MatMul(turned, v)
    biased = Add(hidden, c)
    soft = Softmax<axis = -1>(biased)
    root = Sqrt(soft)
    y = Exp(root)
}"""


def model_of(text, opset=17, **constants):
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    )
    return model


def weights():
    random = np.random.default_rng(7)

    def normal(*shape):
        return (random.standard_normal(shape) / 2).astype(np.float32)

    return {
        "w": normal(4, 4, 3, 3),
        "b": normal(4),
        "v": normal(4, 6),
        "c": normal(6),
        "shape": np.array([1, 4, 16]),
    }


def net():
    return model_of(NET, **weights())


ATTENTION = """g (float[1,6,8] x) => (float[1,6,8] y) {
    q = MatMul(x, wq)
    k = MatMul(x, wk)
    kt = Transpose<perm = [0, 2, 1]>(k)
    scores = MatMul(q, kt)
    scaled = Div(scores, eight)
    soft = Softmax<axis = -1>(scaled)
    mixed = MatMul(soft, x)
    sum = Add(mixed, x)
    mean = ReduceMean<axes = [-1]>(sum)
    centred = Sub(sum, mean)
    squares = Mul(centred, centred)
    variance = ReduceMean<axes = [-1]>(squares)
    shifted = Add(variance, epsilon)
    deviation = Sqrt(shifted)
    normal = Div(centred, deviation)
    grown = Mul(normal, scale)
    y = Add(grown, bias)
}"""


def attention():
    random = np.random.default_rng(8)
    return model_of(
        ATTENTION,
        wq=random.standard_normal((8, 8)).astype(np.float32),
        wk=random.standard_normal((8, 8)).astype(np.float32),
        eight=np.float32(8),
        epsilon=np.float32(1e-5),
        scale=np.arange(1, 9, dtype=np.float32),
        bias=np.ones(8, np.float32),
    )


def shows_again(found, folder, pipeline, **options):
    """The files that a verification wrote fail in the same way, and hold fewer nodes than the
    model."""
    files = found.write(folder)
    model = next(path for path in files if path.endswith("minimal.onnx"))
    arrays = [np.load(path) for path in files if path.endswith(".npy")]
    again = verify_by(pipeline, model, dict(zip(found.minimal_inputs, arrays)), Question(**options))
    assert not again.right
    assert again.culprit["part"] == found.culprit["part"]
    with open(folder / "report.json", encoding="utf-8") as file:
        assert json.load(file)["culprit"]["part"] == again.culprit["part"]
    return onnx.load(model)


def half(text, **constants):
    return model_of(
        text, **{name: np.asarray(array, np.float16) for name, array in constants.items()}
    )


# Networks of float16 with one node whose result is more than 65,504: (model, that node, inputs).
OVERFLOWS = {
    "a product": (
        half(
            """g (float16[2,4] x) => (float16[2,3] y) { a = Abs(x) b = Add(a, one) big = MatMul(b, w) c = Sub(big, one) y = Abs(c) }""",
            w=np.full((4, 3), 60000),
            one=1,
        ),
        "big",
    ),
    "an exponential": (
        half(
            """g (float16[2,4] x) => (float16[2,4] y) { a = Abs(x) b = Add(a, twelve) big = Exp(b) y = Relu(big) }""",
            twelve=12,
        ),
        "big",
    ),
    "a square": (
        half(
            """g (float16[2,4] x) => (float16[2,4] y) { a = Mul(x, k) b = Relu(a) c = Add(b, k) big = Mul(c, c) y = Identity(big) }""",
            k=500,
        ),
        "big",
    ),
    "a sum": (
        half(
            """g (float16[2,64] x) => (float16[2,1] y) { a = Abs(x) b = Add(a, k) big = ReduceSum(b, axes) y = Neg(big) }""",
            k=2000,
        ),
        "big",
    ),
    "a cast": (
        model_of(
            """g (float[2,4] x) => (float16[2,4] y) { a = Abs(x) b = Add(a, k) big = Cast<to = 10>(b) y = Neg(big) }""",
            k=np.float32(1e6),
        ),
        "big",
    ),
}
OVERFLOWS["a sum"][0].graph.initializer.append(numpy_helper.from_array(np.array([1]), "axes"))
