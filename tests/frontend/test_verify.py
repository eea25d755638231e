"""tc.verify and `python -m tc verify`: planted faults are named, and the minimal model shows them again."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import tc
from tc.cli import main
from tc.comparing import compared, ulp_of
from tc.native import compiler
from tc.onnx_file import OnnxFile
from tc.verifying_pipeline import Pipeline

from .faulty import WrongCode, WrongPass, fused, scheduled

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
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items())
    return model


def weights():
    random = np.random.default_rng(7)

    def normal(*shape):
        return (random.standard_normal(shape) / 2).astype(np.float32)

    return {"w": normal(4, 4, 3, 3), "b": normal(4), "v": normal(4, 6), "c": normal(6), "shape": np.array([1, 4, 16])}


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
    return model_of(ATTENTION, wq=random.standard_normal((8, 8)).astype(np.float32), wk=random.standard_normal((8, 8)).astype(np.float32),
                    eight=np.float32(8), epsilon=np.float32(1e-5), scale=np.arange(1, 9, dtype=np.float32), bias=np.ones(8, np.float32))


# A node that is one thing in the graph and another in what is made of it.
RELU, RELU_WRONG = "= Relu(", "= Abs("
SIGMOID, SIGMOID_WRONG = "= Sigmoid(", "= Tanh("
EXP, EXP_WRONG = "= Exp(", "= Cosh("
SQRT, SQRT_WRONG = "= Sqrt(", "= Abs("
DIV, DIV_WRONG = "= Div(", "= Mul("

def wrong_pass(*fault):
    return lambda: WrongPass(*fault, threads=1)


def wrong_code(*fault):
    return lambda: WrongCode(*fault, threads=1)


# (model, compiler, part, name or None, nodes of which the culprit is one)
PLANTED = {
    "a wrong pass: expand": (net, wrong_pass("expand", SQRT, SQRT_WRONG), "pass", "expand", {"root"}),
    "a wrong pass: fold_shapes": (net, wrong_pass("fold_shapes", SIGMOID, SIGMOID_WRONG), "pass", "fold_shapes", {"gate"}),
    "a wrong pass: fold_constants": (net, wrong_pass("fold_constants", "kernel_shape = [2, 2], strides = [2, 2]", "kernel_shape = [1, 1], strides = [2, 2]"),
                                     "pass", "fold_constants", {"pool"}),
    "a wrong pass: eliminate": (net, wrong_pass("eliminate", RELU, RELU_WRONG), "pass", "eliminate", {"relu"}),
    "a wrong pass: merge_views": (net, wrong_pass("merge_views", EXP, EXP_WRONG), "pass", "merge_views", {"y"}),
    "a wrong pass: fold_pads": (net, wrong_pass("fold_pads", "pads = [1, 1, 1, 1]", "pads = [0, 2, 2, 0]"), "pass", "fold_pads", {"conv"}),
    "a wrong pass: merge_duplicates": (attention, wrong_pass("merge_duplicates", "= Sub(sum, mean)", "= Sub(mean, sum)"),
                                       "pass", "merge_duplicates", {"centred"}),
    "a wrong pass: recover_normalizations": (attention, wrong_pass("recover_normalizations", "epsilon = 1e-05", "epsilon = 0.1"),
                                             "pass", "recover_normalizations", {"y", "normal", "grown"}),
    "a wrong pass: dead_code": (attention, wrong_pass("dead_code", "= Add(mixed, x)", "= Add(mixed, mixed)"), "pass", "dead_code", {"sum"}),
    "a wrong schedule: lanes of a convolution": (net, wrong_code(RELU, RELU_WRONG, scheduled("relu", "vectorize")), "schedule", "relu", {"relu"}),
    "a wrong schedule: register tile": (net, wrong_code("pads = [1, 1, 1, 1]", "pads = [0, 2, 2, 0]", scheduled("conv", "register_tile")),
                                        "schedule", "conv", {"conv"}),
    "a wrong schedule: rows of softmax": (net, wrong_code("= Softmax(", "= LogSoftmax(", scheduled("soft", "vectorize")), "schedule", "soft", {"soft"}),
    "a wrong schedule: unrolled pooling": (net, wrong_code("kernel_shape = [2, 2], strides = [2, 2]", "kernel_shape = [1, 1], strides = [2, 2]",
                                                          scheduled("pool", "unroll")), "schedule", "pool", {"pool"}),
    "a wrong schedule: split of an elementwise loop": (net, wrong_code(EXP, EXP_WRONG, scheduled("y", "vectorize")), "schedule", "y", {"y"}),
    "a wrong schedule: attention's quotients": (attention, wrong_code(DIV, DIV_WRONG, scheduled("scaled", "vectorize")), "schedule", "scaled", {"scaled"}),
    "wrong fusion: relu into a convolution": (net, wrong_code(RELU, RELU_WRONG, fused("conv", "relu")), "fusion", None, {"relu", "conv"}),
    "wrong fusion: exponential behind a root": (net, wrong_code(EXP, EXP_WRONG, fused("root", "y")), "fusion", None, {"root", "y"}),
    "wrong fusion: bias into a product": (net, wrong_code("= Add(hidden, c)", "= Sub(hidden, c)", fused("hidden", "biased")), "fusion", None, {"hidden", "biased"}),
    "a wrong operator: Relu": (net, wrong_code(RELU, RELU_WRONG), "operator", None, {"relu"}),
    "a wrong operator: Sigmoid": (net, wrong_code(SIGMOID, SIGMOID_WRONG), "operator", None, {"gate"}),
    "a wrong operator: Exp": (net, wrong_code(EXP, EXP_WRONG), "operator", None, {"y"}),
    "a wrong operator: Sqrt": (net, wrong_code(SQRT, SQRT_WRONG), "operator", None, {"root"}),
    "a wrong operator: Div": (attention, wrong_code("= Div(scores", "= Mul(scores"), "operator", None, {"scaled"}),
    "a wrong operator: ReduceMean": (attention, wrong_code("= ReduceMean(sum)", "= ReduceMax(sum)"), "operator", None, {"mean"}),
}


def shows_again(found, folder, pipeline, **options):
    """The files that a verification wrote fail in the same way, and hold fewer nodes than the model."""
    files = found.write(folder)
    model = next(path for path in files if path.endswith("minimal.onnx"))
    arrays = [np.load(path) for path in files if path.endswith(".npy")]
    again = tc.verify(model, inputs=dict(zip(found.minimal_inputs, arrays)), pipeline=pipeline, **options)
    assert not again.right
    assert again.culprit["part"] == found.culprit["part"]
    with open(folder / "report.json", encoding="utf-8") as file:
        assert json.load(file)["culprit"]["part"] == again.culprit["part"]
    return onnx.load(model)


@pytest.mark.parametrize("make", [net, attention])
def test_without_a_fault_all_is_right(make):
    found = tc.verify(make(), threads=1)
    assert found.right and found.culprit is None and found.minimal is None
    assert len(found.values) == len(make().graph.node)
    assert str(found).endswith("right: every output is within the budget, and no node is wrong by itself")


@pytest.mark.parametrize("label", PLANTED)
def test_a_fault_of_the_compiler(label, tmp_path):
    make, fault, part, name, nodes = PLANTED[label]
    model, pipeline = make(), fault()
    found = tc.verify(model, pipeline=pipeline)
    print(found)
    assert not found.right
    assert found.culprit["part"] == part
    assert {node["name"] for node in found.culprit["nodes"]} & nodes
    assert found.culprit["node"]["name"] in nodes
    if name:
        assert name in found.culprit["name"].split(" + ")
    minimal = shows_again(found, tmp_path, pipeline)
    assert len(minimal.graph.node) <= 3 < len(model.graph.node)
    assert tc.verify(minimal, inputs=found.minimal_inputs, threads=1).right, "the minimal model has no fault of its own"
