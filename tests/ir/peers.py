"""Models of one operator, by tc, ONNX Runtime and the reference of onnx."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tc

onnxruntime = pytest.importorskip("onnxruntime")

FLOAT, NAN = numpy.float32, float("nan")
RANDOM = numpy.random.default_rng(11)


def floats(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(FLOAT)


def model_of(
    op, opset, inputs, constants=None, shapes=None, outputs=1, type=TensorProto.FLOAT, **attributes
):
    """A model of one node that reads all inputs, then all constants; an input of None is left
    out."""
    constants, shapes = constants or {}, shapes or {}
    given = {name: array for name, array in inputs.items() if array is not None}
    names = [name if array is not None else "" for name, array in {**inputs, **constants}.items()]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "one",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), shapes.get(name, array.shape)
            )
            for name, array in given.items()
        ],
        [helper.make_tensor_value_info(name, type, None) for name in results],
        [
            numpy_helper.from_array(numpy.asarray(array), name)
            for name, array in constants.items()
            if array is not None
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def ours(model, inputs):
    found = tc.compile(model.SerializeToString(), threads=1).run(
        {name: array for name, array in inputs.items() if array is not None}
    )
    return found["y0"]


def runtime(model, inputs):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)[0]


def reference(model, inputs):
    return ReferenceEvaluator(model).run(None, inputs)[0]


def refused(model):
    with pytest.raises(tc.Error) as caught:
        tc.compile(model.SerializeToString(), log=False)
    return str(caught.value)
