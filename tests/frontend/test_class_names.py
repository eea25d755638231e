"""Classifiers whose classes have names, and maps of the classes' probabilities: both are values of
the host."""

import numpy as np
import onnx
import pytest
from onnx import helper

import tc

from .test_errors import refusal
from .string_models import FLOAT, INT64, LEARNING, STRING, model_of, node, port

NAMES = ["red", "green", "blue"]
TREE = {
    "nodes_treeids": [0] * 5,
    "nodes_nodeids": [0, 1, 2, 3, 4],
    "nodes_featureids": [0, 1, 0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
    "nodes_values": [0.0] * 5,
    "nodes_truenodeids": [1, 2, 0, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0],
    "class_treeids": [0] * 3,
    "class_nodeids": [2, 3, 4],
    "class_ids": [0, 1, 2],
    "class_weights": [1.0] * 3,
}
CLASSIFIERS = {
    "LinearClassifier": {
        "coefficients": [1.0, 0.0, 0.0, 1.0, -1.0, -1.0],
        "intercepts": [0.0, 0.1, 0.2],
    },
    "TreeEnsembleClassifier": TREE,
    "SVMClassifier": {
        "coefficients": [1.0, 0.5, -1.0, 1.0, -0.5, -1.0],
        "vectors_per_class": [1, 1, 1],
        "rho": [0.1, 0.2, 0.3],
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 0.0],
        "support_vectors": [1.0, 0.0, 0.0, 1.0, -1.0, -1.0],
    },
}


def maps(name, key):
    return helper.make_value_info(
        name,
        helper.make_sequence_type_proto(
            helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, []))
        ),
    )


def with_maps(op, labels):
    """A classifier and the map of its scores, as scikit-learn's exporter writes them."""
    texts = isinstance(labels[0], str)
    key = (
        "classlabels_strings"
        if texts
        else "classlabels_int64s"
        if op == "TreeEnsembleClassifier"
        else "classlabels_ints"
    )
    nodes = [
        node(
            op,
            ["x"],
            ["label", "scores"],
            "classes",
            domain=LEARNING,
            **CLASSIFIERS[op],
            **{key: labels},
        ),
        node("Identity", ["label"], ["y"], "copy"),
        node(
            "ZipMap",
            ["scores"],
            ["z"],
            "zip",
            domain=LEARNING,
            **{"classlabels_strings" if texts else "classlabels_int64s": labels},
        ),
    ]
    model = model_of(
        nodes,
        [port("x", FLOAT, ["N", 2])],
        [port("y", STRING if texts else INT64), maps("z", STRING if texts else INT64)],
    )
    model.opset_import[1].version = 1
    return model


@pytest.mark.parametrize("labels", [NAMES, [5, 3, 9]], ids=["names", "numbers"])
@pytest.mark.parametrize("op", CLASSIFIERS)
def test_classes_and_their_scores(op, labels):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = with_maps(op, labels).SerializeToString()
    x = np.random.default_rng(1).standard_normal((12, 2)).astype(np.float32)
    module = tc.compile(model, log=False)
    assert module.outputs[1] == tc.Port("z", "float32", None, "sequence of maps")
    assert module.outputs[0].dtype == ("string" if labels is NAMES else "int64")
    names, scores = module(x)
    expected_names, expected_scores = onnxruntime.InferenceSession(
        model, providers=["CPUExecutionProvider"]
    ).run(None, {"x": x})
    assert names.tolist() == expected_names.tolist() and len(set(names.tolist())) > 1
    # ONNX Runtime's maps are sorted.
    assert all(list(each) == labels for each in scores)
    np.testing.assert_allclose(
        [list(each.values()) for each in scores],
        [[each[label] for label in labels] for each in expected_scores],
        rtol=1e-5,
        atol=1e-6,
    )


def test_names_taken_by_their_places():
    """As exporters of nearest neighbours write them."""
    nodes = [
        node("ArgMax", ["x"], ["best"], "best", axis=1, keepdims=0),
        node("ArrayFeatureExtractor", ["names", "best"], ["found"], "find", domain=LEARNING),
        node("Reshape", ["found", "flat"], ["y"], "flat"),
    ]
    initializers = [
        helper.make_tensor("names", STRING, [3], [name.encode() for name in NAMES]),
        helper.make_tensor("flat", INT64, [1], [-1]),
    ]
    module = tc.compile(model_of(nodes, [port("x", FLOAT, ["N", 3])], [port("y")], initializers))
    assert module(np.eye(3, dtype=np.float32)[[2, 0, 1, 1]]).tolist() == [
        "blue",
        "red",
        "green",
        "green",
    ]


def test_a_map_of_one_row():
    model = model_of(
        [node("ZipMap", ["x"], ["z"], "zip", domain=LEARNING, classlabels_int64s=[3, 4])],
        [port("x", FLOAT, [2])],
        [maps("z", INT64)],
    )
    assert tc.compile(model)(np.array([0.5, 0.25], np.float32)) == [{3: 0.5, 4: 0.25}]


def test_refusals():
    model = model_of(
        [node("ZipMap", ["x"], ["z"], "zip", domain=LEARNING, classlabels_int64s=[3, 4])],
        [port("x", FLOAT, ["N", 3])],
        [maps("z", INT64)],
    )
    refusal(
        tc.ShapeError,
        lambda: tc.compile(model)(np.zeros((2, 3), np.float32)),
        "node 'zip' (ai.onnx.ml::ZipMap, opset 4) of model.onnx has 2 labels, and its input has shape [2, 3]; [rows, 2] is needed",
    )
    model = with_maps("LinearClassifier", NAMES)
    for each in model.graph.node[0].attribute:
        if each.name == "classlabels_strings":
            each.strings[0] = b"\xff"
    refusal(
        tc.ModelError,
        lambda: tc.compile(model),
        "node 'classes' (ai.onnx.ml::LabelEncoder, opset 1) of model.onnx holds the string",
        "which is not UTF-8",
    )


def test_the_name_of_the_numbers_is_free():
    """A value of the model has the name that the numbers of the classes would have."""
    model = with_maps("LinearClassifier", NAMES)
    model.graph.node.insert(0, node("Neg", ["x"], ["label_number"], "negated"))
    model.graph.output.append(port("label_number", FLOAT, ["N", 2]))
    x = np.array([[3.0, 1.0], [0.0, 2.0]], np.float32)
    names, _, negated = tc.compile(onnx.load_from_string(model.SerializeToString()))(x)
    assert names.tolist() == ["red", "green"] and (negated == -x).all()
