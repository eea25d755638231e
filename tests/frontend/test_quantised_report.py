"""The report of a quantised network: which nodes are computed in integers, in which regions, which
stayed floats, and why."""

import json

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc.cli import main

NOT_QUANTISED = " is not quantised"


class Branches:
    """A model of one branch for each thing that the report says; a branch's node is called as the
    branch."""

    def __init__(self):
        self.nodes, self.constants, self.inputs, self.outputs, self.expected = [], [], [], [], {}
        self.input("x", TensorProto.UINT8, (1, 4, 6, 6))
        self.input("rows", TensorProto.UINT8, (2, 4))
        self.input("real", TensorProto.FLOAT, (1, 4, 6, 6))
        self.input("scale", TensorProto.FLOAT, ())
        self.input("words", TensorProto.INT16, (1, 4, 6, 6))
        for name, array in {
            "half": numpy.float32(0.5),
            "third": numpy.float32(0.3),
            "zero": numpy.uint8(0),
            "three": numpy.uint8(3),
            "each": numpy.full(4, 0.5, numpy.float32),
            "w": numpy.ones((2, 4, 3, 3), numpy.int8),
            "m": numpy.ones((4, 5), numpy.int8),
            "large": numpy.full((2, 4, 1, 1), 255, numpy.uint8),
        }.items():
            self.constant(name, array)

    def input(self, name, kind, shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def dequantised(self, name, scale="half", zero=None, **attributes):
        result = f"{name}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(
                "DequantizeLinear",
                [name, scale, *([zero] if zero else [])],
                [result],
                name=result,
                **attributes,
            )
        )
        return result

    def branch(
        self, name, operator, inputs, kind="floats", reason="", quantised=False, **attributes
    ):
        """A node; its result is an output of the model, quantised or not."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        output = name
        if quantised:
            output = f"{name}_quantised"
            self.nodes.append(
                helper.make_node("QuantizeLinear", [name, "third", "three"], [output], name=output)
            )
        self.outputs.append(helper.make_tensor_value_info(output, TensorProto.UNDEFINED, None))
        self.expected[name] = (kind, reason)

    def model(self):
        for output in self.outputs:
            del output.type.tensor_type.shape.dim[:]
        graph = helper.make_graph(self.nodes, "branches", self.inputs, self.outputs, self.constants)
        return helper.make_model(
            graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]
        ).SerializeToString()


def products(b):
    x, w, rows, m = (
        b.dequantised,
        lambda: b.dequantised("w"),
        lambda: b.dequantised("rows"),
        lambda: b.dequantised("m"),
    )
    b.branch("conv", "Conv", [x("x"), w()], "integers", quantised=True)
    b.branch("conv of floats", "Conv", ["real", w()], reason="its input" + NOT_QUANTISED)
    b.branch(
        "scale of the run",
        "Conv",
        [x("x", "scale"), w()],
        reason="the scale or the zero point of its input is no constant number or vector of floats",
    )
    b.branch(
        "conv of words",
        "Conv",
        [x("words"), w()],
        reason="its input is i16, and 8-bit integers are added up",
    )
    b.branch(
        "conv of channels",
        "Conv",
        [x("x", "each", axis=1), w()],
        reason="its input has a scale for each channel",
    )
    b.branch(
        "floats as weights",
        "Conv",
        [x("x"), b.constant("wf", numpy.full((2, 4, 1, 1), 0.5, numpy.float32))],
        reason="its second operand" + NOT_QUANTISED,
    )
    b.constant("order", numpy.array([4, 2]))
    b.nodes.append(helper.make_node("Reshape", ["rows", "order"], ["turned"], name="turned"))
    b.branch(
        "of two inputs",
        "MatMul",
        [rows(), x("turned")],
        reason="its second operand is computed by the run",
    )
    b.branch(
        "twice",
        "Gemm",
        [rows(), m()],
        reason="sums of integers take weights of two axes, and alpha and beta of 1",
        alpha=2.0,
    )
    b.branch(
        "another axis",
        "MatMul",
        [rows(), b.dequantised("m", "each", axis=0)],
        reason="its weights have scales along another axis than that of its results",
    )
    b.branch(
        "large weights",
        "Conv",
        [x("x"), b.dequantised("large")],
        reason="its weights less their zero point are no 8-bit integers with a sign",
    )
    b.constant("t", numpy.ones((4, 2, 2, 2), numpy.int8))
    b.branch(
        "transposed",
        "ConvTranspose",
        [x("x"), b.dequantised("t")],
        "integers",
        quantised=True,
        strides=[2, 2],
    )
    b.branch(
        "transposed around 3",
        "ConvTranspose",
        [x("x", "half", "three"), b.dequantised("t")],
        strides=[2, 2],
        reason="transposed convolutions add up integers without groups, and whose zero point is 0",
    )
    b.input("long", TensorProto.UINT8, (1, 70000))
    b.constant("column", numpy.full((70000, 1), 127, numpy.int8))
    b.branch(
        "long sums",
        "MatMul",
        [b.dequantised("long"), b.dequantised("column")],
        reason="its sums could leave 32 bits",
    )
    b.input("bias", TensorProto.FLOAT, (5,))
    b.branch(
        "bias of the run",
        "Gemm",
        [rows(), m(), "bias"],
        reason="its bias is computed by the run, or is not one number for each channel",
    )


def movements(b):
    x = b.dequantised
    b.branch("moved", "Transpose", [x("x")], "integers", perm=[0, 2, 3, 1])
    b.branch(
        "words moved",
        "Transpose",
        [x("words")],
        reason="its operand is i16, and 8-bit integers are moved",
        perm=[0, 2, 3, 1],
    )
    b.branch(
        "channels moved",
        "Transpose",
        [x("x", "each", axis=1)],
        reason="its operand has a scale for each channel",
        perm=[0, 2, 3, 1],
    )
    b.branch(
        "joined",
        "Concat",
        [x("x"), x("x", "third")],
        reason="its operands have different scales, zero points or types, and its result is not quantised",
        axis=1,
    )
    pads = b.constant("pads", numpy.array([0, 0, 1, 1, 0, 0, 1, 1]))
    b.branch("padded", "Pad", [x("x"), pads], "integers")
    b.branch(
        "channels padded",
        "Pad",
        [x("x", "each", axis=1), pads],
        reason="its operand is not of 8-bit integers with one scale",
    )
    b.branch(
        "padded by the run",
        "Pad",
        [x("x"), pads, "scale"],
        reason="what it pads with is computed by the run",
    )
    b.branch(
        "padded between",
        "Pad",
        [x("x"), pads, b.constant("quarter", numpy.float32(0.25))],
        reason="no integer of its operand's scale stands for what it pads with",
    )
    b.constant("sizes", numpy.array([1, 1, 2, 2], numpy.float32))
    b.branch(
        "resized",
        "Resize",
        [x("x"), "", "sizes"],
        "integers",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    b.branch(
        "resized between",
        "Resize",
        [x("x"), "", "sizes"],
        reason="there is no form of it for integers",
        mode="linear",
    )


def means(b):
    x = b.dequantised
    b.branch("mean", "GlobalAveragePool", [x("x", "half", "three")], "integers", quantised=True)
    b.branch(
        "mean of channels",
        "GlobalAveragePool",
        [x("x", "each", axis=1)],
        reason="its input has a scale for each channel",
    )
    b.branch("mean of floats", "GlobalAveragePool", ["real"], reason="its input" + NOT_QUANTISED)
    b.branch(
        "mean of windows", "AveragePool", [x("x")], "integers", quantised=True, kernel_shape=[2, 2]
    )
    b.branch(
        "mean of edges",
        "AveragePool",
        [x("x")],
        quantised=True,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        reason="its means are of different numbers of elements, or of a number that is not known",
    )
    b.branch(
        "mean with padding",
        "AveragePool",
        [x("x", "half", "three")],
        quantised=True,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        reason="it pads with 0, which is not the zero point of its input",
    )
    b.input("many", TensorProto.UINT8, (1, 1, 3000, 3000))
    b.branch(
        "mean of many", "GlobalAveragePool", [x("many")], reason="its sums could leave 32 bits"
    )


def others(b):
    x = b.dequantised
    b.branch("function", "Sigmoid", [x("x")], "bytes", quantised=True)
    b.branch(
        "function of floats", "Sigmoid", ["real"], quantised=True, reason="its operands are floats"
    )
    b.branch(
        "function for a run",
        "Sigmoid",
        [x("x")],
        reason="its result is an output of the model, as floats",
    )
    b.branch(
        "shares", "Softmax", [x("x")], reason="there is no form of it for integers", quantised=True
    )
    b.branch("shares of floats", "Softmax", ["real"], reason="its operands are floats")
    b.nodes.append(helper.make_node("Tanh", [x("x")], ["read"], name="read"))
    b.expected["read"] = (
        "floats",
        "its result is read as floats, by node 'shares of functions' (Softmax)",
    )
    b.branch("shares of functions", "Softmax", ["read"], reason="its operands are floats")
    # With a scale that the run computes, sums of wider integers.
    names = ["x", "half", "zero", "w", "scale", b.constant("none", numpy.int8(0)), "third", "three"]
    b.branch(
        "scales of the run",
        "QLinearConv",
        names,
        "integers",
        "its scales, zero points or weights are computed by the run, or leave 8 bits: it adds up products of 32-bit integers",
    )


@pytest.mark.parametrize(
    "part", [products, movements, means, others], ids=lambda part: part.__name__
)
def test_every_reason(part):
    branches = Branches()
    part(branches)
    module = tc.compile(branches.model(), target="x86-64-v3", threads=1, log=False)
    rows = {row["node"]: row for row in module.arithmetic}
    found = {name: (rows[name]["kind"], rows[name]["reason"]) for name in branches.expected}
    assert found == branches.expected
    for name, (kind, reason) in branches.expected.items():
        assert (rows[name]["region"] is None) == (kind == "floats")
    text = module.explain()
    assert "quantised: exact\n" in text
    for name, (kind, reason) in branches.expected.items():
        if reason:
            assert any(
                f"'{name}'" in line
                and reason in line
                and ("in floats, because" in line) == (kind == "floats")
                for line in text.splitlines()
            )


def chain():
    """conv, function, a softmax in floats, and behind it a second region."""
    nodes, names = [], iter(range(99))
    constants = {
        "s": numpy.float32(0.5),
        "z": numpy.uint8(3),
        "w": numpy.ones((4, 4, 1, 1), numpy.int8),
        "t": numpy.float32(0.25),
    }

    def node(operator, *inputs, name=None, **attributes):
        result = name or f"v{next(names)}"
        nodes.append(helper.make_node(operator, list(inputs), [result], name=result, **attributes))
        return result

    def layer(x, name):
        value = node(
            "Conv",
            node("DequantizeLinear", x, "s", "z"),
            node("DequantizeLinear", "w", "t"),
            name=name,
        )
        return node("QuantizeLinear", value, "s", "z")

    x = layer("x", "first")
    x = node(
        "QuantizeLinear",
        node("Relu", node("DequantizeLinear", x, "s", "z"), name="above"),
        "s",
        "z",
    )
    x = node(
        "QuantizeLinear",
        node("Softmax", node("DequantizeLinear", x, "s", "z"), name="shares"),
        "s",
        "z",
    )
    node("Identity", layer(x, "second"), name="y")
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 4, 5, 5))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(numpy.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()


EXACT = [
    "quantised: exact",
    "  region 1 in integers, from 'first' (Conv) to 'above' (Relu): 1 Conv, 1 Relu",
    "  region 2 in integers, from 'second' (Conv): 1 Conv",
    "  in floats, because there is no form of it for integers: 'shares' (Softmax)",
]


def test_regions_are_what_integers_connect(tmp_path, capsys):
    module = tc.compile(chain(), threads=1, log=False)
    text = module.explain().splitlines()
    first = text.index(EXACT[0])
    assert text[first : first + 4] == EXACT
    (tmp_path / "chain.onnx").write_bytes(chain())
    assert main(["inspect", str(tmp_path / "chain.onnx"), "--threads", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == EXACT
    assert main(["inspect", str(tmp_path / "chain.onnx"), "--threads", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arithmetic"] == module.arithmetic
    assert main(["check", str(tmp_path / "chain.onnx")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == EXACT


def test_fixed_point_is_told(tmp_path, capsys):
    module = tc.compile(chain(), threads=1, log=False, quantised="fast")
    text = module.explain()
    assert "quantised: fast\n" in text and "1 Conv, 1 Relu; 2 scaled in fixed point" in text
    assert "quantised=fast" in module.provenance
    assert "quantised=exact" in tc.compile(chain(), threads=1, log=False).provenance


@pytest.mark.parametrize("meaning", ["exact", "fast"])
def test_verify_counts_integers(meaning, tmp_path, capsys):
    (tmp_path / "chain.onnx").write_bytes(chain())
    assert (
        main(
            [
                "verify",
                str(tmp_path / "chain.onnx"),
                "--threads",
                "1",
                "--quantised",
                meaning,
                "--output-dir",
                str(tmp_path / "found"),
            ]
        )
        == 0
    )
    line = next(
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(f"quantised {meaning}: ")
    )
    numbers = [int(word) for word in line.replace(",", " ").split() if word.isdigit()]
    # Five values of integers and the output: the equal, those one step beside and farther ones are
    # all.
    assert (
        numbers[:2] == [600, 6] and sum(numbers[2:]) == 600 and numbers[2] > 590 and numbers[4] == 0
    )


def test_a_network_of_floats_has_no_such_report():
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,))],
    )
    module = tc.compile(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]),
        log=False,
    )
    assert (
        module.arithmetic == []
        and "quantised" not in module.explain()
        and "quantised" not in module.provenance
    )


def test_another_meaning_is_refused():
    with pytest.raises(tc.Error) as caught:
        tc.compile(chain(), quantised="quick")
    assert str(caught.value) == "quantised is 'quick'; give 'exact' or 'fast'"
