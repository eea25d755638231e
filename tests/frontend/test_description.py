"""Models that a front end describes node by node take the path of ONNX files: shapes, versions,
errors."""

import numpy as np
import pytest

import tc
from tc.native import compiler


def node(graph, op, inputs, outputs, *, name="", source="", graphs=(), **attributes):
    described = compiler.DescribedNode(op, inputs, outputs)
    described.attributes, described.name, described.source = attributes, name, source
    for role, body in dict(graphs).items():
        described.set_graph(role, body)
    graph.node(described)


def compile_description(model, **options):
    return tc.compile(model.source("described.py"), log=False, **options)


def test_constants_and_attributes_arrive():
    model = compiler.ModelDescription("small")
    model.graph.input("x", "f32", ["batch", 3])
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    model.constant("w", "f32", [3, 4], weight)
    node(model.graph, "Gemm", ["x", "w"], ["y"], alpha=2.0, transB=0)
    node(model.graph, "Transpose", ["y"], ["z"], perm=[1, 0])
    model.graph.output("z", "f32")
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    np.testing.assert_allclose(compile_description(model)(x), (2 * x @ weight).T)


def test_ranges_bound_symbols():
    model = compiler.ModelDescription("ranged")
    model.graph.input("x", "f32", ["batch"])
    model.range("batch", 2, 4)
    node(model.graph, "Relu", ["x"], ["y"])
    model.graph.output("y", "f32")
    module = compile_description(model)
    assert module.symbols["batch"] == (2, 4)
    assert module(np.zeros(3, np.float32)).shape == (3,)
    with pytest.raises(tc.ShapeError, match="batch"):
        module(np.zeros(5, np.float32))


def test_branches_read_what_is_around_them():
    model = compiler.ModelDescription("branches")
    model.graph.input("x", "f32", [2])
    model.graph.input("c", "bool", [])
    model.constant("two", "f32", [], np.float32(2))
    bodies = {}
    for role, op in ("then_branch", "Mul"), ("else_branch", "Add"):
        bodies[role] = compiler.GraphDescription(role)
        node(bodies[role], op, ["x", "two"], [role + "_y"])
        bodies[role].output(role + "_y", "f32")
    node(model.graph, "If", ["c"], ["y"], graphs=bodies)
    model.graph.output("y", "f32")
    module = compile_description(model)
    x = np.array([3, 5], np.float32)
    assert module(x, np.array(True)).tolist() == [6, 10]
    assert module(x, np.array(False)).tolist() == [5, 7]


def test_errors_name_what_the_node_is_in_the_model():
    model = compiler.ModelDescription("wrong")
    model.graph.input("x", "f32", [2, 3])
    node(
        model.graph, "MatMul", ["x", "x"], ["y"], name="mm_1", source="aten.mm.default at net.py:12"
    )
    model.graph.output("y", "f32")
    with pytest.raises(
        tc.Error, match=r"node 'mm_1' \(aten\.mm\.default at net\.py:12\) of described\.py"
    ):
        compile_description(model)


def test_a_description_is_taken_again():
    """A source that was compiled can be compiled for another target: the tensors are still
    there."""
    model = compiler.ModelDescription("again")
    model.graph.input("x", "f32", [2])
    model.constant("w", "f32", [2], np.array([1, 2], np.float32))
    node(model.graph, "Add", ["x", "w"], ["y"])
    model.graph.output("y", "f32")
    for _ in range(2):
        assert compile_description(model)(np.zeros(2, np.float32)).tolist() == [1, 2]
