"""tc.verify names faults that are planted in the compiler, in schedules and in models, and the
minimal model shows them again."""

import json

import numpy as np
import pytest
from onnx import numpy_helper

import tc
from tc.log import build_id
from tc.verifying import verify_by
from tc.verifying_pipeline import Pipeline

from .faulty import WrongCode, WrongPass, fused, scheduled
from .verified import OVERFLOWS, attention, model_of, net, shows_again

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
    "a wrong pass: expand": (
        net,
        wrong_pass("expand", SQRT, SQRT_WRONG),
        "pass",
        "expand",
        {"root"},
    ),
    "a wrong pass: fold_shapes": (
        net,
        wrong_pass("fold_shapes", SIGMOID, SIGMOID_WRONG),
        "pass",
        "fold_shapes",
        {"gate"},
    ),
    "a wrong pass: fold_constants": (
        net,
        wrong_pass(
            "fold_constants",
            "kernel_shape = [2, 2], strides = [2, 2]",
            "kernel_shape = [1, 1], strides = [2, 2]",
        ),
        "pass",
        "fold_constants",
        {"pool"},
    ),
    "a wrong pass: eliminate": (
        net,
        wrong_pass("eliminate", RELU, RELU_WRONG),
        "pass",
        "eliminate",
        {"relu"},
    ),
    "a wrong pass: merge_views": (
        net,
        wrong_pass("merge_views", EXP, EXP_WRONG),
        "pass",
        "merge_views",
        {"y"},
    ),
    "a wrong pass: fold_pads": (
        net,
        wrong_pass("fold_pads", "pads = [1, 1, 1, 1]", "pads = [0, 2, 2, 0]"),
        "pass",
        "fold_pads",
        {"conv"},
    ),
    "a wrong pass: merge_duplicates": (
        attention,
        wrong_pass("merge_duplicates", "= Sub(sum, mean)", "= Sub(mean, sum)"),
        "pass",
        "merge_duplicates",
        {"centred"},
    ),
    "a wrong pass: recover_normalizations": (
        attention,
        wrong_pass(
            "recover_normalizations",
            "LayerNormalization(sum, scale, bias) {axis = -1, epsilon = 9.999999747378752e-06",
            "LayerNormalization(sum, scale, bias) {axis = -1, epsilon = 1.0",
        ),
        "pass",
        "recover_normalizations",
        {"y", "normal", "grown"},
    ),
    "a wrong pass: dead_code": (
        attention,
        wrong_pass("dead_code", "= Add(mixed, x)", "= Add(mixed, mixed)"),
        "pass",
        "dead_code",
        {"sum"},
    ),
    "a wrong schedule: lanes of a convolution": (
        net,
        wrong_code(RELU, RELU_WRONG, scheduled("relu", "vectorize")),
        "schedule",
        "relu",
        {"relu"},
    ),
    "a wrong schedule: register tile": (
        net,
        wrong_code(
            "pads = [1, 1, 1, 1]", "pads = [0, 2, 2, 0]", scheduled("conv", "register_tile")
        ),
        "schedule",
        "conv",
        {"conv"},
    ),
    "a wrong schedule: rows of softmax": (
        net,
        wrong_code("= Softmax(", "= LogSoftmax(", scheduled("soft", "vectorize")),
        "schedule",
        "soft",
        {"soft"},
    ),
    "a wrong schedule: unrolled pooling": (
        net,
        wrong_code(
            "kernel_shape = [2, 2], strides = [2, 2]",
            "kernel_shape = [1, 1], strides = [2, 2]",
            scheduled("pool", "unroll"),
        ),
        "schedule",
        "pool",
        {"pool"},
    ),
    "a wrong schedule: split of an elementwise loop": (
        net,
        wrong_code(EXP, EXP_WRONG, scheduled("y", "vectorize")),
        "schedule",
        "y",
        {"y"},
    ),
    "a wrong schedule: attention's quotients": (
        attention,
        wrong_code(DIV, DIV_WRONG, scheduled("scaled", "vectorize")),
        "schedule",
        "scaled",
        {"scaled"},
    ),
    "wrong fusion: relu into a convolution": (
        net,
        wrong_code(RELU, RELU_WRONG, fused("conv", "relu")),
        "fusion",
        None,
        {"relu", "conv"},
    ),
    "wrong fusion: exponential behind a root": (
        net,
        wrong_code(EXP, EXP_WRONG, fused("root", "y")),
        "fusion",
        None,
        {"root", "y"},
    ),
    "wrong fusion: bias into a product": (
        net,
        wrong_code("= Add(hidden, c)", "= Sub(hidden, c)", fused("hidden", "biased")),
        "fusion",
        None,
        {"hidden", "biased"},
    ),
    "a wrong operator: Relu": (net, wrong_code(RELU, RELU_WRONG), "operator", None, {"relu"}),
    "a wrong operator: Sigmoid": (
        net,
        wrong_code(SIGMOID, SIGMOID_WRONG),
        "operator",
        None,
        {"gate"},
    ),
    "a wrong operator: Exp": (net, wrong_code(EXP, EXP_WRONG), "operator", None, {"y"}),
    "a wrong operator: Sqrt": (net, wrong_code(SQRT, SQRT_WRONG), "operator", None, {"root"}),
    "a wrong operator: Div": (
        attention,
        wrong_code("= Div(scores", "= Mul(scores"),
        "operator",
        None,
        {"scaled"},
    ),
    "a wrong operator: ReduceMean": (
        attention,
        wrong_code("= ReduceMean(sum)", "= ReduceMax(sum)"),
        "operator",
        None,
        {"mean"},
    ),
}


@pytest.mark.parametrize("label", PLANTED)
def test_a_fault_of_the_compiler(label, tmp_path):
    make, fault, part, name, nodes = PLANTED[label]
    model, pipeline = make(), fault()
    found = verify_by(pipeline, model)
    print(found)
    assert not found.right
    assert found.culprit["part"] == part
    assert {node["name"] for node in found.culprit["nodes"]} & nodes
    assert found.culprit["node"]["name"] in nodes
    if name:
        assert name in found.culprit["name"].split(" + ")
    minimal = shows_again(found, tmp_path, pipeline)
    # That pass recognises nine nodes.
    assert len(minimal.graph.node) <= (9 if name == "recover_normalizations" else 3)
    assert tc.verify(minimal, inputs=found.minimal_inputs, threads=1).right, (
        "the minimal model has no fault of its own"
    )


@pytest.mark.parametrize("label", OVERFLOWS)
def test_an_overflow_in_float16(label, tmp_path):
    model, node = OVERFLOWS[label]
    found = tc.verify(model, threads=1)
    print(found)
    assert not found.right
    assert (found.culprit["part"], found.culprit["node"]["name"]) == ("overflow", node)
    assert "is more than f16 holds, 65504" in str(found)
    assert len(shows_again(found, tmp_path, Pipeline(threads=1)).graph.node) == 1


def changed(change):
    """The network, with something in it changed."""
    model = net()
    change(
        model.graph,
        {array.name: array for array in model.graph.initializer},
        {node.output[0]: node for node in model.graph.node},
    )
    return model


def set_element(array, factor):
    values = numpy_helper.to_array(array).copy()
    values.flat[values.size // 2] *= factor
    array.CopyFrom(numpy_helper.from_array(values, array.name))


# (a change of the network, the node that it makes wrong, what the report says of it)
CHANGES = {
    "a weight": (
        lambda graph, arrays, nodes: set_element(arrays["w"], 1.5),
        "conv",
        "the constant 'w' is another than in the reference",
    ),
    "a bias": (
        lambda graph, arrays, nodes: set_element(arrays["c"], -2),
        "biased",
        "the constant 'c' is another than in the reference",
    ),
    "a matrix": (
        lambda graph, arrays, nodes: set_element(arrays["v"], 3),
        "hidden",
        "the constant 'v' is another than in the reference",
    ),
    "an operator": (
        lambda graph, arrays, nodes: setattr(nodes["root"], "op_type", "Abs"),
        "root",
        "it is made by node 'root' (Abs) here and by node 'root' (Sqrt) in the reference",
    ),
    "an attribute": (
        lambda graph, arrays, nodes: setattr(nodes["soft"].attribute[0], "i", 1),
        "soft",
        "its attributes or operands are others than in the reference",
    ),
    "an operand": (
        lambda graph, arrays, nodes: nodes["gated"].input.__setitem__(1, "relu"),
        "gated",
        "its attributes or operands are others than in the reference",
    ),
}


@pytest.mark.parametrize("label", CHANGES)
def test_a_fault_of_the_model(label, tmp_path):
    """Against the model from which it was made, the first changed node is named, with what was
    changed."""
    change, node, words = CHANGES[label]
    found = tc.verify(changed(change), against=net(), threads=1)
    print(found)
    assert not found.right
    assert (found.culprit["part"], found.culprit["node"]["name"], found.culprit["detail"]) == (
        "model",
        node,
        [words],
    )
    minimal = shows_again(found, tmp_path, Pipeline(threads=1), against=tmp_path / "reference.onnx")
    assert len(minimal.graph.node) == 1
    assert f" --against {tmp_path / 'reference.onnx'} --input" in str(found)


def test_a_schedule_of_the_log(tmp_path):
    """A recorded schedule with which code is wrong is told from the default, which is right."""
    model, pipeline = net(), Pipeline(threads=1)
    kernel = next(
        each
        for each in pipeline.build(model.SerializeToString()).kernels
        if each["label"].endswith("y")
    )
    record = {
        "workload": kernel["workload"],
        "target": tc.compile(model, threads=1).target,
        "device": "here",
        "unit": "seconds",
        "threads": 1,
        "trace": kernel["layout_lines"],
        "outcome": "ok",
        "detail": "",
        "samples": 3,
        "minimum": 1e-9,
        "median": 1e-9,
        "spread": 0.0,
        "ratio": 0.5,
        "worst_error": 0.0,
        "build": build_id(),
        "language": "1.0",
        "seed": 0,
        "created": 1,
        "chosen": True,
    }
    (tmp_path / "log.jsonl").write_text(json.dumps(record) + "\n")
    tc.Log.import_into(tmp_path / "log.db", tmp_path / "log.jsonl")
    fault = WrongCode(
        EXP,
        EXP_WRONG,
        lambda kernels: any(each["tuned"] for each in kernels),
        threads=1,
        log=tmp_path / "log.db",
    )
    found = verify_by(fault, model)
    print(found)
    assert not found.right
    # Alone, the node is another kernel, of which the log has no record: it is wrong with those that
    # it is fused with.
    assert found.culprit["part"] == "recorded schedule"
    assert {"change": "without the log's schedules", "right": True} in found.culprit["trials"]
    assert "the whole model, compiled without it, is right" == found.culprit["confirmed"]
    assert "compile with log=False" in str(found)


@pytest.mark.full
def test_a_schedule_that_approximates(tmp_path):
    """Its error is more than the budget asks for, though not more than the tolerance allows."""
    random = np.random.default_rng(3)
    model = model_of(
        "g (float[1,32,28,28] x) => (float[1,32,28,28] y) { a = Relu(x) b = Conv<pads = [1, 1, 1, 1]>(a, w) y = Sigmoid(b) }",
        w=random.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17,
    )
    options = {"target": "x86-64-v3", "threads": 1, "tolerance": 1e-2}
    if not any(kernel["algorithm"] for kernel in tc.compile(model, **options).kernels):
        pytest.fail("no schedule approximates any more; choose a network for which one does")
    found = tc.verify(model, budget=2e-6, **options)
    print(found)
    assert found.culprit["part"] == "schedule" and "b" in {
        node["name"] for node in found.culprit["nodes"]
    }
    assert any("which the tolerance of 0.01 allows" in line for line in found.culprit["detail"])
    shows_again(found, tmp_path, Pipeline(**options), budget=2e-6)
