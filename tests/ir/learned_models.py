"""Models of one operator of ai.onnx.ml, and what tc computes with them."""

import numpy
from onnx import helper

FLOAT, NAN = numpy.float32, float("nan")


def model_of(op, inputs, outputs, **attributes):
    """A model of one node of ai.onnx.ml; `outputs` are element types."""
    graph = helper.make_graph(
        [
            helper.make_node(
                op,
                list(inputs),
                [f"y{i}" for i in range(len(outputs))],
                domain="ai.onnx.ml",
                **attributes,
            )
        ],
        "one",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                ("n", *array.shape[1:]) if array.ndim == 2 else array.shape,
            )
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(f"y{i}", type, None) for i, type in enumerate(outputs)],
    )
    version = {"TreeEnsemble": 5, "LabelEncoder": 4}.get(op, 3)
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 18)],
        ir_version=10,
    ).SerializeToString()


TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}
