"""tc.verify and `python -m tc verify`: planted faults are named, and the minimal model shows them
again."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import tc
from tc.cli import main
from tc.comparing import compared, ulp_of
from tc.log import build_id
from tc.native import compiler
from tc.onnx_file import OnnxFile
from tc.verifying import Question, verify_by
from tc.verifying_pipeline import Peer, Pipeline

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


@pytest.mark.parametrize("make", [net, attention])
def test_without_a_fault_all_is_right(make):
    found = tc.verify(make(), threads=1)
    assert found.right and found.culprit is None and found.minimal is None
    assert len(found.values) == len(make().graph.node)
    assert str(found).endswith(
        "right: every output is within the budget, and no node is wrong by itself"
    )


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


@pytest.mark.parametrize("label", OVERFLOWS)
def test_an_overflow_in_float16(label, tmp_path):
    model, node = OVERFLOWS[label]
    found = tc.verify(model, threads=1)
    print(found)
    assert not found.right
    assert (found.culprit["part"], found.culprit["node"]["name"]) == ("overflow", node)
    assert "is more than f16 holds, 65504" in str(found)
    assert len(shows_again(found, tmp_path, Pipeline(threads=1)).graph.node) == 1


def test_an_overflow_that_tc_survives_is_a_warning():
    """It computes float16 in float32, so that only what is stored overflows."""
    model = half(
        "g (float16[2,4] x) => (float16[2,4] y) { a = Abs(x) b = Add(a, k) big = Mul(b, k) y = Div(big, k) }",
        k=500,
    )
    found = tc.verify(model, threads=1)
    assert found.right and found.culprit is None
    assert "node 'big' (Mul) overflows as 'big' is stored" in found.warnings[0]


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


class OtherPeer:
    """ONNX Runtime as if it read Sigmoid in another way."""

    why_not = ""

    def run(self, data, values, names):
        model = onnx.load_from_string(data)
        for node in model.graph.node:
            node.op_type = "Tanh" if node.op_type == "Sigmoid" else node.op_type
        return Peer().run(model.SerializeToString(), values, names)


def test_two_readings_of_an_operator(monkeypatch, tmp_path):
    monkeypatch.setattr("tc.verifying.Peer", OtherPeer)
    found = tc.verify(net(), threads=1)
    assert not found.right
    assert (found.culprit["part"], found.culprit["node"]) == (
        "definition",
        {"name": "gate", "operator": "Sigmoid"},
    )
    assert "compare both with the operator's text in the ONNX specification" in str(found)
    assert [
        node.op_type for node in shows_again(found, tmp_path, Pipeline(threads=1)).graph.node
    ] == ["Sigmoid"]


class NoPeer:
    why_not = "it is not installed"

    def run(self, data, values, names):
        return None


def test_without_onnx_runtime(monkeypatch):
    monkeypatch.setattr("tc.verifying.Peer", NoPeer)
    found = tc.verify(net(), threads=1)
    assert found.right and "ONNX Runtime has no say: it is not installed" in str(found)


def test_rounding_is_no_culprit():
    """A difference of numbers that are nearly equal: no node is wrong, the model is
    ill-conditioned."""
    model = model_of(
        "g (float[4] x) => (float[4] y) { a = Add(x, k) b = Mul(a, third) c = Mul(k, third) d = Sub(b, c) y = Mul(d, k) }",
        k=np.float32(1e4),
        third=np.float32(1 / 3),
    )
    found = tc.verify(model, inputs={"x": np.float32([1e-4, 2e-4, -3e-4, 4e-4])}, threads=1)
    print(found)
    assert not found.right and found.culprit["part"] == "rounding" and found.minimal is None
    assert "no node is wrong by itself" in str(found)


@pytest.mark.parametrize("make", [net, attention])
def test_the_steps_are_what_compile_does(make, tmp_path):
    """Taken step by step, the compiler makes the same artefact."""
    data = make().SerializeToString()
    pipeline = Pipeline(threads=1)
    for folder, module in (
        ("steps", pipeline.build(data).module),
        ("whole", tc.compile(data, threads=1, log=False)),
    ):
        (tmp_path / folder).mkdir()
        module.export(tmp_path / folder / "model.so")
    assert (tmp_path / "steps/model.so").read_bytes() == (tmp_path / "whole/model.so").read_bytes()


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(net(), tmp_path / "net.onnx")
    assert main(["verify", "net.onnx", "--threads", "1"]) == 0
    assert capsys.readouterr().out.startswith("model     net.onnx for ")
    assert not (tmp_path / "net.verify").exists()
    onnx.save(OVERFLOWS["an exponential"][0], tmp_path / "half.onnx")
    assert main(["verify", "half.onnx", "--threads", "1", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (
        result["culprit"]["part"] == "overflow"
        and result["culprit"]["difference"]["actual"] == "inf"
    )
    assert result["files"][0] == "half.verify/minimal.onnx"
    assert main(["verify", "half.onnx", "--threads", "1"]) == 1
    text = capsys.readouterr().out
    again = text.splitlines()[-1].removeprefix("again: python -m tc ")
    assert main([word.strip("'") for word in again.split()]) == 1
    assert "culprit: overflow f16" in capsys.readouterr().out
    np.save(tmp_path / "x.npy", np.zeros((1, 4, 8, 8), np.float32))
    assert main(["verify", "net.onnx", "--threads", "1", "--input", "x=x.npy"]) == 0
    capsys.readouterr()
    np.save(tmp_path / "x.npy", np.zeros((1, 4, 8, 8)))
    for arguments, words in (
        (["--input", "x=x.npy"], "input 'x' of net.onnx is float64; expected float32 [1, 4, 8, 8]"),
        (["--input", "z=x.npy"], "'z' is no input of net.onnx; its inputs are x"),
        (["--input", "x"], "--input takes NAME=FILE.npy, not 'x'"),
        (["--against", "nowhere.onnx"], "nowhere.onnx: cannot be read: No such file or directory"),
    ):
        assert main(["verify", "net.onnx", *arguments]) == 1
        assert words in capsys.readouterr().err


def test_what_is_refused():
    sequence = model_of(
        "g (seq(float[2]) x) => (float[2] y) { y = SequenceAt(x, i) }", i=np.int64(0)
    )
    with pytest.raises(
        tc.UnsupportedError,
        match=r"input 'x' of model.onnx is no tensor \(sequence\); verify takes models of tensors alone",
    ):
        tc.verify(sequence)
    with pytest.raises(
        tc.ShapeError,
        match=r"input 'x' of model.onnx is float32 \[N\]; verify runs the model, so give arrays, or sizes",
    ):
        tc.verify(model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }"))
    with pytest.raises(
        tc.UnsupportedError,
        match="model.onnx works on strings, and verify takes models of numbers alone; take the part behind them",
    ):
        tc.verify(model_of("g (float[2] x) => (string[2] y) { y = Cast<to = 8>(x) }"))
    with pytest.raises(
        tc.ShapeError,
        match=r"input 'x' of model.onnx has no shape; give an array, or its sizes with shapes=\{'x': \(…\)\}",
    ):
        tc.verify(model_of("g (float[] x) => (float[] y) { y = Relu(x) }"))
    with pytest.raises(
        tc.ModelError,
        match="'model.onnx' is not a complete ONNX model: it is damaged, cut short or in another format; export it again or copy it whole",
    ):
        tc.verify(net().SerializeToString()[:-7])


def test_files_that_cannot_be_taken_apart():
    model = onnx.ModelProto()
    graph = model.graph
    for _ in range(35):  # a graph that has a node that has an attribute that has it
        graph = graph.node.add().attribute.add().g
    graph.name = "innermost"
    with pytest.raises(
        tc.ModelError, match="subgraphs lie more than 32 deep in the model; export it again"
    ):
        OnnxFile(model.SerializeToString())
    description = compiler.ModelDescription("g")
    description.constant("k", "i4", [2], np.zeros(2, np.uint8))
    with pytest.raises(
        tc.UnsupportedError, match="net: constant 'k' is i4, which is not written to ONNX files"
    ):
        compiler.onnx_of(description.source("net"))


def test_sizes_and_values_that_decide():
    """A symbol's size comes with the option, an input that decides the structure becomes a
    constant."""
    model = model_of(
        "g (float[N, 4] x, int64[1] axes) => (float[N] y) { a = Relu(x) y = ReduceSum<keepdims = 0>(a, axes) }",
        18,
    )
    found = tc.verify(model, inputs={"axes": np.array([1])}, shapes={"N": 3}, threads=1)
    assert found.right and found.outputs[0].shape == (3,)


def test_subgraphs_and_functions():
    """What a branch reads from around it comes with the node that has it."""
    model = model_of(
        """g (float[4] x, bool c) => (float[4] y) {
        a = Sigmoid(x)
        b = If<then_branch = t () => (float[4] p) { p = Neg(a) }, else_branch = e () => (float[4] q) { q = Add(a, k) }>(c)
        y = Exp(b)
    }""",
        k=np.float32(2),
    )
    assert tc.verify(model, threads=1).right
    found = verify_by(WrongCode("= Exp(", "= Cosh(", threads=1), model)
    assert found.culprit["node"]["name"] == "y"
    file = OnnxFile(model.SerializeToString())
    assert file.nodes[1].reads == ["c", "a", "k"]
    assert file.needed(["y"], given=["a"]) == {1, 2}


def test_a_model_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    net_ = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 2)
    ).eval()
    found = tc.verify(net_, examples=(torch.randn(3, 4),), threads=1)
    assert found.right and len(found.values) >= 3


def test_external_data(tmp_path):
    model = net()
    onnx.save_model(
        model,
        tmp_path / "net.onnx",
        save_as_external_data=True,
        size_threshold=0,
        location="net.data",
    )
    assert tc.verify(tmp_path / "net.onnx", threads=1).right
    outside = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    outside.graph.initializer[0].external_data[0].value = "../net.data"
    with pytest.raises(
        tc.ModelError,
        match="tensor 'w' of .*: its external data '../net.data' leaves the model's folder or names no file",
    ):
        onnx.save(outside, tmp_path / "out.onnx")
        tc.verify(tmp_path / "out.onnx")


def test_distances():
    assert ulp_of(1.0, "f32") == 2.0**-23
    assert ulp_of(0.0, "f16") == 2.0**-24
    assert ulp_of(1.5, "bf16") == 2.0**-7
    near = compared("x", "f32", np.array([1.0, 2.0 + 2.0**-22]), np.array([1.0, 2.0]), 1e-4)
    assert (near.within, near.absolute, near.relative, near.ulp, near.index) == (
        True,
        2.0**-22,
        2.0**-23,
        1.0,
        (1,),
    )
    # Less than half of the smallest number of a type is 0 in it: all of the magnitude, and not half
    # a unit in the last place.
    none, least = np.array([0.0]), 2.0**-24
    assert compared("x", "f16", none, np.array([1.5e-10]), 1e-3).within
    assert compared("x", "f16", 5 * np.array([least]), np.array([least]), 1e-3).within
    assert not compared("x", "f16", 6 * np.array([least]), np.array([least]), 1e-3).within
    assert not compared("x", "f32", none, np.array([1.5e-10]), 1e-3).within
    assert not compared("x", "f32", np.array([1.0, np.nan]), np.array([1.0, 2.0]), 1e-4).within
    assert compared("x", "f32", np.array([np.inf, np.nan]), np.array([np.inf, np.nan]), 0).within
    assert not compared("x", "f32", np.array([np.inf]), np.array([-np.inf]), 1e-4).within
    assert (
        compared("x", "f32", np.array([1.0]), np.array([1.0, 1.0]), 1e-4).why
        == "the shape is [1], not [2]"
    )
    wrong = compared("x", "i64", np.array([1, 2, 3]), np.array([1, 2, 5]), 1e-4)
    assert (wrong.within, wrong.absolute, wrong.index, wrong.why) == (
        False,
        2.0,
        (2,),
        "1 of 3 elements differ",
    )
    # Half-way between two quantised numbers either is right, for few elements.
    one = np.zeros(200, np.int8)
    one[3] = 1
    assert compared("x", "i8", one, np.zeros(200, np.int8), 1e-4, from_floats=True).within
    assert not compared("x", "i8", one, np.zeros(200, np.int8), 1e-4).within
    assert not compared("x", "i8", 2 * one, np.zeros(200, np.int8), 1e-4, from_floats=True).within


def test_passes_are_told_apart():
    data = net().SerializeToString()
    graph = Pipeline().imported(data)
    assert [name for name, _ in Pipeline().passes] == [name for name, _ in compiler.passes()]
    with pytest.raises(
        tc.ModelError, match="there is no pass 'no_such'; docs/passes.md lists them"
    ):
        graph.after("no_such")
    with pytest.raises(tc.ModelError, match="graph 'g' has no value 'no_such'"):
        graph.giving(["no_such"])
    assert graph.edited(graph.text).text == graph.text
