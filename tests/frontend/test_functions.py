"""Local functions of ONNX files: which one a node calls, by domain, name and overload. Expected
values are computed by NumPy."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc

OPSETS = [
    helper.make_opsetid("", 21),
    helper.make_opsetid("here", 1),
    helper.make_opsetid("there", 1),
]
X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -4.0]], np.float32)


def function(name, nodes, overload="", domain="here", attributes=(), protos=(), inputs=("a",)):
    return helper.make_function(
        domain,
        name,
        list(inputs),
        ["b"],
        nodes,
        OPSETS,
        list(attributes),
        list(protos),
        overload=overload,
    )


def plain(op, overload="", domain="here", name="Change"):
    """A function of one node."""
    return function(name, [helper.make_node(op, ["a"], ["b"])], overload, domain)


def call(given, result, overload="", domain="here", name="Change", **attributes):
    return helper.make_node(name, [given], [result], domain=domain, overload=overload, **attributes)


def model(nodes, functions, outputs):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    return helper.make_model(
        graph, ir_version=10, opset_imports=OPSETS, functions=functions
    ).SerializeToString()


def results(nodes, functions, outputs):
    found = tc.compile(model(nodes, functions, outputs), log=False).run({"x": X})
    return [found[name] for name in outputs]


def scaled(overload, factor):
    """A function that multiplies by an attribute, whose default is `factor`."""
    body = [
        helper.make_node("Constant", [], ["k"], value_float=0.0),
        helper.make_node("Mul", ["a", "k"], ["b"]),
    ]
    body[0].attribute[0].ref_attr_name = "factor"
    body[0].attribute[0].ClearField("f")
    return function("Scaled", body, overload, protos=[helper.make_attribute("factor", factor)])


def branch(overload):
    return helper.make_graph(
        [call("x", f"in_{overload}", overload)],
        overload,
        [],
        [helper.make_tensor_value_info(f"in_{overload}", TensorProto.FLOAT, None)],
    )


def chosen_branch():
    """Calls in both branches of a condition that a run computes."""
    return [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Constant", [], ["none"], value_float=0.0),
        helper.make_node("Greater", ["sum", "none"], ["rises"]),
        helper.make_node(
            "If", ["rises"], ["y"], then_branch=branch("up"), else_branch=branch("down")
        ),
    ]


NESTED = function("Outer", [call("a", "m", "deep"), helper.make_node("Neg", ["m"], ["b"])])
CASES = {
    "two of one name": (
        [call("x", "y", "first"), call("x", "z", "second")],
        [plain("Neg", "first"), plain("Abs", "second")],
        [-X, abs(X)],
    ),
    "the order of the file decides nothing": (
        [call("x", "y", "first"), call("x", "z", "second")],
        [plain("Abs", "second"), plain("Neg", "first")],
        [-X, abs(X)],
    ),
    "one has none": (
        [call("x", "y"), call("x", "z", "odd")],
        [plain("Neg", "odd"), plain("Abs")],
        [abs(X), -X],
    ),
    "of other domains": (
        [call("x", "y", "one"), call("x", "z", "one", "there")],
        [plain("Neg", "one"), plain("Abs", "one", "there")],
        [-X, abs(X)],
    ),
    "from inside of another": (
        [call("x", "y", name="Outer"), call("x", "z")],
        [NESTED, plain("Abs"), plain("Floor", "deep")],
        [-np.floor(X), abs(X)],
    ),
    "their own defaults": (
        [
            call("x", "y", "half", name="Scaled"),
            call("x", "z", "twice", name="Scaled"),
            call("x", "w", "twice", name="Scaled", factor=3.0),
        ],
        [scaled("half", 0.5), scaled("twice", 2.0)],
        [X * np.float32(0.5), X * 2, X * 3],
    ),
    "in branches": (
        chosen_branch(),
        [plain("Neg", "down"), plain("Abs", "up")],
        [abs(X) if X.sum() > 0 else -X],
    ),
    "beside an operator of this name": (
        [call("x", "y", "mine", "", "Relu"), helper.make_node("Relu", ["x"], ["z"])],
        [plain("Neg", "mine", "", "Relu")],
        [-X, np.maximum(X, 0)],
    ),
    "the default domain by its long name": (
        [call("x", "y", "mine", "", "Relu")],
        [plain("Neg", "mine", "ai.onnx", "Relu")],
        [-X],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_function_that_is_called(name):
    nodes, functions, expected = CASES[name]
    for found, value in zip(
        results(nodes, functions, ["y", "z", "w"][: len(expected)]), expected, strict=True
    ):
        np.testing.assert_array_equal(found, value)


def test_an_overload_that_is_not_there():
    missing = model([call("x", "y", "third")], [plain("Neg", "first"), plain("Abs")], ["y"])
    with pytest.raises(
        tc.UnsupportedError,
        match=r"here::Change:third \(node 'y', opset 1\); the model has no function of this name and overload",
    ):
        tc.compile(missing, log=False)
    with pytest.raises(tc.UnsupportedError, match="Relu:third"):
        tc.compile(model([call("x", "y", "third", "", "Relu")], [], ["y"]), log=False)


def test_two_of_one_overload():
    with pytest.raises(
        tc.ModelError,
        match="defines function 'here::Change:same' twice; give one of them another overload",
    ):
        tc.compile(
            model([call("x", "y", "same")], [plain("Neg", "same"), plain("Abs", "same")], ["y"]),
            log=False,
        )
