"""tc.verify and `python -m tc verify`: what they say of models without a fault, of two readings of
an operator and of what cannot be taken apart. Planted faults are in test_verify_faults.py."""

import json

import numpy as np
import onnx
import pytest

import tc
from tc.cli import main
from tc.comparing import compared, ulp_of
from tc.native import compiler
from tc.onnx_file import OnnxFile
from tc.verifying import verify_by
from tc.verifying_pipeline import Peer, Pipeline

from .faulty import WrongCode
from .verified import OVERFLOWS, attention, half, model_of, net, shows_again


@pytest.mark.parametrize("make", [net, attention])
def test_without_a_fault_all_is_right(make):
    found = tc.verify(make(), threads=1)
    assert found.right and found.culprit is None and found.minimal is None
    assert len(found.values) == len(make().graph.node)
    assert str(found).endswith(
        "right: every output is within the budget, and no node is wrong by itself"
    )


def test_an_overflow_that_tc_survives_is_a_warning():
    """It computes float16 in float32, so that only what is stored overflows."""
    model = half(
        "g (float16[2,4] x) => (float16[2,4] y) { a = Abs(x) b = Add(a, k) big = Mul(b, k) y = Div(big, k) }",
        k=500,
    )
    found = tc.verify(model, threads=1)
    assert found.right and found.culprit is None
    assert "node 'big' (Mul) overflows as 'big' is stored" in found.warnings[0]


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
