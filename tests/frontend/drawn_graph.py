"""A drawn graph as a model of ONNX, and its results by onnx's reference in float64 and by ONNX
Runtime."""

import dataclasses

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT, BOOL = numpy.float32, numpy.int64, numpy.bool_


@dataclasses.dataclass
class Graph:
    nodes: list
    inputs: dict  # name to array
    constants: dict
    outputs: dict  # name to (element type, exact)
    symbols: dict  # (input, axis) to the name of a size

    def model(self):
        def port(name, array):
            shape = [self.symbols.get((name, axis), size) for axis, size in enumerate(array.shape)]
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), shape
            )

        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [port(name, array) for name, array in self.inputs.items()],
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), None
                )
                if dtype
                else onnx.ValueInfoProto(name=name)
                for name, (dtype, _) in self.outputs.items()
            ],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def mended_operators():
    """Operators in place of onnx's reference ones, which are wrong: its LRN normalises as many
    channels as the batch has images."""
    from onnx.reference.op_run import OpRun

    class LRN(OpRun):
        def _run(self, x, alpha=None, beta=None, bias=None, size=None):
            before, after = (size - 1) // 2, size // 2 + 1
            squares = [
                (x[:, max(0, c - before) : c + after] ** 2).sum(axis=1) for c in range(x.shape[1])
            ]
            return (x / (bias + alpha / size * numpy.stack(squares, axis=1)) ** beta,)

    return [LRN]


def in_doubles(graph):
    """Results by onnx's reference evaluator on the same graph with doubles in place of floats."""
    from onnx.reference import ReferenceEvaluator

    def wide(array):
        return array.astype(numpy.float64) if array.dtype == FLOAT else array

    nodes = []
    for node in graph.nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for attribute in copy.attribute:
            if (
                node.op_type in ("Cast", "EyeLike")
                and attribute.name in ("to", "dtype")
                and attribute.i == TensorProto.FLOAT
            ):
                attribute.i = TensorProto.DOUBLE
        nodes.append(copy)
    outputs = {
        name: (numpy.float64 if dtype == FLOAT else dtype, exact)
        for name, (dtype, exact) in graph.outputs.items()
    }
    twin = Graph(
        nodes,
        {name: wide(array) for name, array in graph.inputs.items()},
        {name: wide(array) for name, array in graph.constants.items()},
        outputs,
        {},
    )
    with numpy.errstate(all="ignore"):
        results = ReferenceEvaluator(twin.model(), new_ops=mended_operators()).run(
            None, twin.inputs
        )
    return dict(zip(outputs, results))


def results_of_onnx_runtime(graph):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            graph.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return dict(zip(graph.outputs, session.run(None, graph.inputs)))
    except Exception:  # it says in many ways that it cannot
        return None


def error_of(array, expected):
    """The largest error relative to the largest magnitude; infinite where shapes or what is not
    finite differ."""
    if array.shape != expected.shape:
        return numpy.inf
    wide, reference = array.astype(numpy.float64), expected.astype(numpy.float64)
    finite = numpy.isfinite(reference) & (numpy.abs(reference) < 1e30)
    if not finite.all() and not (numpy.isfinite(wide[finite]).all()):
        return numpy.inf
    if not finite.any():
        return 0.0
    scale = max(numpy.abs(reference[finite]).max(), 1e-3)
    return float(
        numpy.nan_to_num(numpy.abs(wide[finite] - reference[finite]), nan=numpy.inf).max() / scale
    )
