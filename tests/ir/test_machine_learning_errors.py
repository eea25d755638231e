"""What is refused of trees, linear models and preprocessing of ai.onnx.ml, in a sentence that names
the attribute."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

import tc

from .learned_models import FLOAT, NAN, TREE, model_of

MACHINE = {
    "coefficients": [1.0, -1.0],
    "vectors_per_class": [1, 1],
    "support_vectors": [0.0, 1.0, 1.0, 0.0],
    "rho": [0.5],
    "classlabels_ints": [0, 1],
}
LINEAR = {"coefficients": [1.0, 2.0], "classlabels_ints": [0, 1]}


def byte_tensor(*values):
    return helper.make_tensor("", TensorProto.UINT8, [len(values)], values)


def float_tensor(*values):
    return helper.make_tensor("", TensorProto.FLOAT, [len(values)], values)


ENSEMBLE = {
    "tree_roots": [0],
    "nodes_featureids": [0],
    "nodes_splits": float_tensor(0),
    "nodes_modes": byte_tensor(0),
    "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1],
    "nodes_trueleafs": [1],
    "nodes_falseleafs": [1],
    "leaf_targetids": [0, 0],
    "leaf_weights": float_tensor(1, 2),
}


@pytest.mark.parametrize(
    "op, base, change, words",
    [
        (
            "TreeEnsembleRegressor",
            TREE,
            {"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAVES"]},
            "nodes_modes has 'LEAVES', which is no mode of a node",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"nodes_values": [0.0]},
            "attribute 'nodes_values' has 1 values; 3 are needed",
        ),
        ("TreeEnsembleRegressor", TREE, {"nodes_nodeids": [0, 1, 1]}, "tree 0 has two nodes 1"),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"nodes_truenodeids": [5, 0, 0]},
            "tree 0 has no node 5, which an attribute names",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"nodes_featureids": [-1, 0, 0]},
            "nodes_featureids has -1",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"nodes_featureids": [9, 0, 0]},
            "the samples have shape [n, 2], but a tree asks for feature 9",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"target_ids": [0, 1]},
            "attribute 'target_ids' has 1; 0 to 0 are possible",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"nodes_truenodeids": [0, 0, 0]},
            "a tree is circular or has more than 4096 levels",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {"base_values": [1.0, 2.0]},
            "base_values has 2 numbers; 1 are needed, or none",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {
                "nodes_treeids": [],
                "nodes_nodeids": [],
                "nodes_featureids": [],
                "nodes_modes": [],
                "nodes_values": [],
                "nodes_truenodeids": [],
                "nodes_falsenodeids": [],
                "target_treeids": [],
                "target_nodeids": [],
                "target_ids": [],
                "target_weights": [],
            },
            "there are no trees",
        ),
        (
            "TreeEnsembleRegressor",
            TREE,
            {
                "n_targets": 1 << 20,
                "nodes_treeids": list(range(300)),
                "nodes_nodeids": [0] * 300,
                "nodes_featureids": [0] * 300,
                "nodes_modes": ["LEAF"] * 300,
                "nodes_values": [0.0] * 300,
                "nodes_truenodeids": [0] * 300,
                "nodes_falsenodeids": [0] * 300,
                "target_treeids": [0],
                "target_nodeids": [0],
                "target_ids": [0],
                "target_weights": [1.0],
            },
            "300 nodes of trees and 1048576 targets need tables of more than 268435456 numbers",
        ),
        (
            "TreeEnsemble",
            ENSEMBLE,
            {"nodes_modes": byte_tensor(9)},
            "nodes_modes has 9; 0 to 6 are possible",
        ),
        ("TreeEnsemble", ENSEMBLE, {"nodes_featureids": [-2]}, "nodes_featureids has -2"),
        (
            "TreeEnsemble",
            ENSEMBLE,
            {"nodes_modes": byte_tensor(6)},
            "membership_values has 0 sets, fewer than there are nodes that ask for one",
        ),
        (
            "TreeEnsemble",
            ENSEMBLE,
            {"nodes_modes": byte_tensor(6), "membership_values": float_tensor(NAN)},
            "membership_values has an empty set",
        ),
        ("TreeEnsemble", ENSEMBLE, {"tree_roots": []}, "there are no trees"),
        (
            "LinearClassifier",
            LINEAR,
            {"classlabels_ints": [0, 1, 2]},
            "attribute 'coefficients' has 2 numbers, which 3 targets do not divide",
        ),
        (
            "LinearClassifier",
            LINEAR,
            {"intercepts": [1.0, 2.0], "classlabels_ints": [1]},
            "there are 1 labels and 2 intercepts",
        ),
        (
            "LinearClassifier",
            LINEAR,
            {"classlabels_ints": []},
            "lacks attribute 'classlabels_int64s'",
        ),
        (
            "SVMRegressor",
            {"coefficients": [1.0, 2.0]},
            {},
            "attribute 'rho' has 0 numbers; one is needed",
        ),
        (
            "SVMRegressor",
            {"coefficients": [1.0, 2.0], "rho": [0.0], "n_supports": 3},
            {},
            "attribute 'coefficients' has 2 numbers; one for each of 3 support vectors is needed",
        ),
        (
            "SVMRegressor",
            {"coefficients": [1.0, 2.0, 3.0], "rho": [0.0]},
            {},
            "the samples have shape [n, 2]; [samples, 3] is needed",
        ),
        (
            "SVMRegressor",
            {
                "coefficients": [1.0, 2.0],
                "rho": [0.0],
                "n_supports": 2,
                "support_vectors": [1.0] * 3,
            },
            {},
            "has 3 numbers, which 2 vectors do not divide",
        ),
        (
            "SVMRegressor",
            {
                "coefficients": [1.0],
                "rho": [0.0],
                "n_supports": 1,
                "support_vectors": [1.0] * 2,
                "kernel_params": [1.0],
                "kernel_type": "RBF",
            },
            {},
            "attribute 'kernel_params' has 1 numbers; gamma, coef0 and degree are needed",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {"vectors_per_class": [-1, 2]},
            "attribute 'vectors_per_class' has the number -1",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {"vectors_per_class": [1]},
            "attribute 'vectors_per_class' has 1 numbers; one for each of 2 labels is needed",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {"classlabels_ints": [1]},
            "there is 1 label; at least 2 are supported",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {"coefficients": [1.0]},
            "attribute 'coefficients' has 1 numbers; 1 for each of 2 support vectors are needed",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {"rho": [1.0, 2.0]},
            "attribute 'rho' has 2 numbers; one for each of 1 pairs of classes is needed",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {"vectors_per_class": [1 << 20] * 300, "classlabels_ints": list(range(300))},
            "314572800 support vectors of 300 classes are over the limit of 268435456 numbers",
        ),
        (
            "SVMClassifier",
            MACHINE,
            {
                "vectors_per_class": [1] * 129,
                "classlabels_ints": list(range(129)),
                "coefficients": [1.0] * 129 * 128,
                "rho": [0.0] * 8256,
                "prob_a": [0.0] * 8256,
                "prob_b": [0.0] * 8256,
            },
            "probabilities of 129 classes are over the limit of 128",
        ),
        (
            "LabelEncoder",
            {"keys_int64s": [1, 2], "values_int64s": [1]},
            {},
            "has 2 keys and 1 values; each key needs one value",
        ),
        ("LabelEncoder", {"keys_int64s": [1]}, {}, "lacks attribute 'values_int64s'"),
        ("LabelEncoder", {"values_int64s": [1]}, {}, "lacks attribute 'keys_int64s'"),
        (
            "LabelEncoder",
            {
                "keys_floats": [float(i) for i in range((1 << 14) + 1)],
                "values_floats": [0.0] * ((1 << 14) + 1),
            },
            {},
            "has 16385 keys that are no integers close to each other; at most 16384 are supported",
        ),
        (
            "LinearRegressor",
            {"coefficients": [1.0]},
            {},
            "the samples have shape [n, 2]; [samples, 1] is needed",
        ),
        (
            "LinearRegressor",
            {"coefficients": [1.0, 2.0]},
            {"intercepts": [1.0, 2.0]},
            "attribute 'intercepts' has 2 numbers; 1 are needed, or none",
        ),
        (
            "Scaler",
            {"offset": [1.0, 2.0, 3.0]},
            {},
            "attribute 'offset' has 3 numbers, but the input has shape [n, 2]",
        ),
        (
            "OneHotEncoder",
            {"cats_int64s": [1], "zeros": 0},
            {},
            "attribute 'zeros' is 0, which makes a category that is not listed an error of the run",
        ),
        (
            "OneHotEncoder",
            {"cats_strings": ["a"]},
            {},
            "attribute 'cats_int64s' is needed; categories that are texts are not supported",
        ),
    ],
)
def test_refusals(op, base, change, words):
    outputs = (
        (TensorProto.INT64, TensorProto.FLOAT)
        if op in ("LinearClassifier", "SVMClassifier")
        else (TensorProto.FLOAT,)
    )
    given = {key: value for key, value in {**base, **change}.items()}
    empty = [key for key, value in given.items() if isinstance(value, list) and not value]
    model = onnx.load_from_string(
        model_of(
            op,
            {"x": numpy.zeros((3, 2), FLOAT)},
            outputs,
            **{key: value for key, value in given.items() if key not in empty},
        )
    )
    for key in empty:
        kind = {
            "nodes_modes": onnx.AttributeProto.STRINGS,
            "nodes_values": onnx.AttributeProto.FLOATS,
            "target_weights": onnx.AttributeProto.FLOATS,
        }.get(key, onnx.AttributeProto.INTS)
        model.graph.node[0].attribute.append(onnx.AttributeProto(name=key, type=kind))
    with pytest.raises(tc.Error) as caught:
        tc.compile(model.SerializeToString(), log=False)
    assert words in str(caught.value)
    assert op in str(caught.value)


@pytest.mark.parametrize(
    "op, shapes, words",
    [
        (
            "TreeEnsembleRegressor",
            [(3,)],
            "the samples have shape [x_0]; [samples, features] is needed",
        ),
        (
            "ArrayFeatureExtractor",
            [(), (2,)],
            "the input is a scalar; features along the last axis are needed",
        ),
        (
            "FeatureVectorizer",
            [(3, 2, 2)],
            "input 0 has shape [x0_0, 2, 2]; [samples, features] is needed",
        ),
    ],
)
def test_shapes_that_do_not_fit(op, shapes, words):
    inputs = [
        helper.make_tensor_value_info(
            "x" if op[0] == "T" else f"x{i}",
            TensorProto.FLOAT if i == 0 else TensorProto.INT64,
            (None, *shape[1:]) if shape else (),
        )
        for i, shape in enumerate(shapes)
    ]
    node = helper.make_node(
        op,
        [each.name for each in inputs],
        ["y"],
        domain="ai.onnx.ml",
        **(TREE if op[0] == "T" else {}),
    )
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 18)],
        ir_version=10,
    )
    with pytest.raises(tc.Error) as caught:
        tc.compile(model.SerializeToString(), log=False)
    assert words in str(caught.value)


def test_an_imputer_of_whole_numbers_needs_whole_numbers():
    with pytest.raises(tc.Error, match="attribute 'imputed_value_int64s' is needed for i64"):
        tc.compile(
            model_of(
                "Imputer",
                {"x": numpy.zeros((2, 2), numpy.int64)},
                [TensorProto.INT64],
                imputed_value_floats=[1.0],
            ),
            log=False,
        )
