"""Graphs of one operator or of a few, with their inputs and results: what the cases of
test_op_rows.py are made of."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import tc

from . import quantised_cases
from . import test_attention_masks as attention_masks
from . import test_causal_sequences as causal_sequences
from . import test_linear_attention as linear_attention
from . import test_transformers as transformers

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
TYPES = {
    numpy.dtype(numpy.float32): FLOAT,
    numpy.dtype(numpy.int64): INT64,
    numpy.dtype(bool): BOOL,
    numpy.dtype(numpy.int32): TensorProto.INT32,
}
RANDOM = numpy.random.default_rng(7)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


class Case:
    """A model of `nodes` (operator, inputs, outputs, attributes; a domain before a dot), its
    inputs, and the expected outputs where ONNX Runtime cannot tell them. `shapes` has names where
    sizes are known at run time only."""

    def __init__(
        self,
        opset,
        nodes,
        inputs,
        outputs=("y",),
        constants=None,
        expected=None,
        shapes=None,
        types=None,
    ):
        self.inputs, self.expected, self.opset = inputs, expected, opset
        shapes = shapes or {}
        made = []
        for op, ins, outs, attributes in nodes:
            domain, _, name = op.rpartition(".")
            made.append(helper.make_node(name, ins, outs, domain=domain, **attributes))
        graph = helper.make_graph(
            made,
            "row",
            [
                helper.make_tensor_value_info(
                    name, TYPES[array.dtype], shapes.get(name, array.shape)
                )
                for name, array in inputs.items()
            ],
            [
                helper.make_tensor_value_info(name, (types or {}).get(name, FLOAT), None)
                for name in outputs
            ],
            [
                numpy_helper.from_array(numpy.asarray(array), name)
                for name, array in (constants or {}).items()
            ],
        )
        self.model = helper.make_model(
            graph,
            ir_version=8,
            opset_imports=[
                helper.make_opsetid("", opset),
                helper.make_opsetid("com.microsoft", 1),
                helper.make_opsetid("ai.onnx.ml", 3),
                helper.make_opsetid("tc", 1),
            ],
        )


def one(op, opset, inputs, outputs=("y",), constants=None, **attributes):
    """A case of one node that reads all inputs, then all constants."""
    constants = constants or {}
    return Case(
        opset, [(op, [*inputs, *constants], outputs, attributes)], inputs, outputs, constants
    )


def cumulative_product():
    x = floats(3, 5)
    case = one("CumProd", 26, {"x": x}, constants={"axis": numpy.int64(1)})
    case.expected = {"y": numpy.cumprod(x, axis=1)}
    return case


def cumulative_maximum():
    x = floats(3, 5)
    case = one("tc.CumMax", 17, {"x": x})
    case.expected = {"y": numpy.maximum.accumulate(x, axis=-1)}
    return case


def correlation_case():
    x, w = floats(3, 9), floats(4)
    case = one("tc.Correlation", 17, {"x": x}, constants={"w": w})
    case.expected = {"y": numpy.stack([numpy.correlate(row, w, "valid") for row in x])}
    return case


def distances_case():
    a, b = floats(3, 7), floats(5, 7)
    case = one("com.microsoft.CDist", 17, {"a": a, "b": b})
    case.expected = {"y": numpy.square(a[:, None] - b[None]).sum(-1)}
    return case


def log_sigmoid_case():
    x = numpy.array([-200.0, -3, -0.5, 0, 0.5, 3, 200], numpy.float32)
    case = one("tc.LogSigmoid", 17, {"x": x})
    case.expected = {"y": -numpy.logaddexp(0, -x)}
    return case


def packed_case(gathers):
    """Weights of 8 bits in blocks of 32: code - 128 times the scale of the block."""
    codes, scales = (
        RANDOM.integers(0, 256, (6, 2, 32), dtype=numpy.uint8),
        RANDOM.uniform(0.01, 0.02, (6, 2, 1)).astype(numpy.float32),
    )
    weights = ((codes.astype(numpy.float64) - 128) * scales).reshape(6, 64)
    x = numpy.array([4, 0, 5]) if gathers else floats(3, 64)
    case = one(
        "tc.BlockGather" if gathers else "tc.BlockMatMul",
        21,
        {"x": x},
        constants={"q": codes, "d": scales},
        format="u8:32:f32",
        N=6,
        K=64,
    )
    case.expected = {"y": (weights[x] if gathers else x @ weights.T).astype(numpy.float32)}
    return case


def experts_case():
    """Two of four matrices for each of three rows, in blocks as those of packed_case."""
    codes, scales = (
        RANDOM.integers(0, 256, (4, 6, 2, 32), dtype=numpy.uint8),
        RANDOM.uniform(0.01, 0.02, (4, 6, 2, 1)).astype(numpy.float32),
    )
    weights = ((codes.astype(numpy.float64) - 128) * scales).reshape(4, 6, 64)
    x, chosen = floats(3, 64), numpy.array([[2, 0], [3, 3], [-4, 1]])
    case = one(
        "tc.ExpertMatMul",
        21,
        {"x": x, "chosen": chosen},
        constants={"q": codes, "d": scales},
        format="u8:32:f32",
        N=6,
        K=64,
        experts=4,
    )
    products = numpy.einsum("tk,tsnk->tsn", x.astype(numpy.float64), weights[chosen])
    case.expected = {"y": products.astype(numpy.float32)}
    return case


def bits_case():
    x = floats(3, 5)
    return Case(
        26,
        [("BitCast", ["x"], ("y",), {"to": TensorProto.INT32})],
        {"x": x},
        expected={"y": x.view(numpy.int32)},
        types={"y": TensorProto.INT32},
    )


def range_case():
    numbers = {
        name: numpy.array(number) for name, number in (("first", 2), ("end", 11), ("step", 3))
    }
    return Case(
        27,
        [("Range", list(numbers), ("y",), {})],
        numbers,
        expected={"y": numpy.arange(2, 11, 3)},
        types={"y": INT64},
    )


def gated_case():
    a, b = floats(3, 5), floats(3, 5)
    return Case(
        28,
        [("SwiGLU", ["a", "b"], ("y",), {})],
        {"a": a, "b": b},
        expected={"y": a / (1 + numpy.exp(-a)) * b},
    )


def with_state(op, inputs, results, **attributes):
    """Of an operator that gives its result and the next state."""
    given = {name: array for name, array in inputs.items() if array is not None}
    expected = {name: result.astype(numpy.float32) for name, result in zip(("y", "state"), results)}
    return Case(
        27,
        [(op, list(given), ("y", "state"), attributes)],
        given,
        ("y", "state"),
        expected=expected,
    )


def linear_attention_case():
    inputs = linear_attention.operands("linear", 2, 2, False, 0)
    return with_state(
        "LinearAttention",
        inputs,
        linear_attention.recurrence(inputs, 2, 2),
        update_rule="linear",
        q_num_heads=2,
        kv_num_heads=2,
    )


def causal_convolution_case():
    inputs = {"x": floats(2, 3, 7), "weight": floats(3, 1, 4), "bias": floats(3)}
    return with_state("CausalConvWithState", inputs, linear_attention.convolution(**inputs))


def causal_case():
    inputs = causal_sequences.operands(4, 2, 5, 8, 8, 8)
    names = ["q", "k", "v", "", "", "", "lengths"]
    return Case(
        25,
        [("Attention", names, ("y",), {"is_causal": 1})],
        inputs,
        expected={"y": causal_sequences.expected(**inputs).astype(numpy.float32)},
    )


def window_of_keys_case():
    inputs, window = attention_masks.inputs_of({}), {"left_window_size": 1, "right_window_size": 2}
    expected, _ = attention_masks.expected({}, window, *inputs.values())
    return Case(
        25,
        [("Attention", list(inputs), ("y",), window)],
        inputs,
        expected={"y": expected.astype(numpy.float32)},
    )


def reorder_case():
    """Between two convolutions with blocked channels a transpose needs them plain."""
    return Case(
        13,
        [
            ("Conv", ["x", "w"], ["a"], {}),
            ("Transpose", ["a"], ["b"], {"perm": [0, 1, 3, 2]}),
            ("Conv", ["b", "w"], ["y"], {}),
        ],
        {"x": floats(1, 64, 9, 9)},
        constants={"w": floats(64, 64, 3, 3)},
    )


def quantised_case(op, x, weights):
    """A quantised input times quantised weights: numbers of so few bits that ONNX Runtime's sums of
    floats are exact."""
    constants = {
        "s": numpy.float32(0.125),
        "z": numpy.uint8(100),
        "w": weights,
        "t": numpy.float32(0.25),
        "none": numpy.int8(0),
    }
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["a"], {}),
        ("DequantizeLinear", ["w", "t", "none"], ["b"], {}),
        (op, ["a", "b"], ["y"], {}),
    ]
    return Case(13, nodes, {"x": x}, constants=constants)


def small_integers(*shape):
    return RANDOM.integers(-100, 100, shape).astype(numpy.int8)


def told(op, opset, inputs, expected, constants=None, **attributes):
    """A case of one node that ONNX Runtime no longer has, with what it gives."""
    case = one(op, opset, inputs, constants=constants, **attributes)
    case.expected = {"y": expected}
    kind = helper.np_dtype_to_tensor_dtype(expected.dtype)
    case.model.graph.output[0].type.tensor_type.elem_type = kind
    return case


def contributed(name):
    """A case of the operators of ONNX Runtime's own domain."""
    given = transformers.CASES[name]
    case = Case(given.opset, [], given.feeds(), [output for output in given.outputs if output])
    case.model = onnx.load_from_string(given.model())
    return case


def with_units(operator):
    """A case of the quantised operators of ONNX Runtime's own domain."""
    case = Case(17, [], {})
    case.model, case.inputs, case.expected = quantised_cases.model_of(operator)
    return case


def fused_convolution():
    """With a further operand of the sum, and an activation."""
    constants = {"w": floats(4, IMAGE[1], 3, 3), "b": floats(4)}
    return Case(
        17,
        [
            ("Conv", ["x", "w", "b"], ["z"], {"pads": [1, 1, 1, 1]}),
            (
                "com.microsoft.FusedConv",
                ["x", "w", "b", "z"],
                ["y"],
                {"pads": [1, 1, 1, 1], "activation": "Relu"},
            ),
        ],
        {"x": floats(*IMAGE)},
        constants=constants,
    )


def channels_last(op, **attributes):
    """Of quantised tensors: as ONNX Runtime's layout for processors has them."""
    given = {
        "s": numpy.float32(0.125),
        "z": numpy.uint8(100),
        "w": RANDOM.integers(-9, 9, (3, 4, 2, 2)).astype(numpy.int8),
        "t": numpy.float32(0.25),
        "none": numpy.int8(0),
        "r": numpy.float32(2),
        "m": numpy.uint8(120),
    }
    inputs = ["q", "s", "z", "w", "t", "none", "r", "m"] if op == "QLinearConv" else ["q"]
    last = ["r", "m"] if op == "QLinearConv" else ["s", "z"]
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        (f"com.microsoft.{op}", inputs, ["p"], attributes),
        ("DequantizeLinear", ["p", *last], ["y"], {}),
    ]
    return Case(17, nodes, {"x": floats(2, 5, 6, 4)}, constants=given)


def bytes_case(op, x, **attributes):
    """What a run dequantises, as the only operand of an operator. Its numbers are of few bits."""
    constants = {"s": numpy.float32(0.125), "z": numpy.uint8(100)}
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["a"], {}),
        (op, ["a"], ["y"], attributes),
    ]
    return Case(13, nodes, {"x": x}, constants=constants)


def transposed_case():
    constants = {
        "s": numpy.float32(0.125),
        "z": numpy.uint8(0),
        "w": small_integers(IMAGE[1], 3, 2, 2),
        "t": numpy.float32(0.25),
        "none": numpy.int8(0),
    }
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
        ("DequantizeLinear", ["q", "s", "z"], ["a"], {}),
        ("DequantizeLinear", ["w", "t", "none"], ["b"], {}),
        ("ConvTranspose", ["a", "b"], ["y"], {"strides": [2, 2]}),
    ]
    return Case(13, nodes, {"x": numpy.abs(floats(*IMAGE))}, constants=constants)


def drawn(op, inputs, size, **attributes):
    """What is drawn has a test of its own (tests/ir/test_random.py); here the seed decides it."""
    case = one(op, 22, inputs, seed=3.0, **attributes)
    again = one(op, 22, inputs, seed=3.0, **attributes)
    case.expected = outputs_of(again)
    # A size that is known at run time keeps the compiler from drawing.
    for port in case.model.graph.input:
        port.type.tensor_type.shape.dim[0].dim_param = "n"
    assert case.expected["y"].shape == size and len(numpy.unique(case.expected["y"])) > 1
    if op == "Multinomial":
        case.model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    return case


def pair(*shape):
    return {"a": floats(2, 3, 4), "b": floats(*shape)}


def placed(op, function, **attributes):
    """An operator of opset 6 whose operand b lies along axis 1 of a."""
    inputs = pair(3)
    return told(
        op,
        6,
        inputs,
        function(inputs["a"], inputs["b"][:, None]),
        broadcast=1,
        axis=1,
        **attributes,
    )


def placed_logic(op, function):
    inputs = {"a": floats(2, 3, 4) > 0, "b": floats(2, 3) > 0}
    return told(op, 6, inputs, function(inputs["a"], inputs["b"][:, :, None]), broadcast=1, axis=0)


def first_opset(op, function, inputs, opset=1, constants=None, **attributes):
    return told(
        op, opset, inputs, function(*inputs.values()).astype(numpy.float32), constants, **attributes
    )


def cast_by_name():
    x = floats(3, 4) * 5
    return told("Cast", 5, {"x": x}, x.astype(numpy.int64), to="INT64")


def channel_scale(x, s, b):
    return (x - x.mean((2, 3), keepdims=True)) / numpy.sqrt(
        x.var((2, 3), keepdims=True) + 1e-5
    ) * s[:, None, None] + b[:, None, None]


def window_case(name):
    """A window as long as an input whose size is known at run time only."""
    return Case(
        17,
        [("Shape", ["x"], ["s"], {}), ("Squeeze", ["s"], ["n"], {}), (name, ["n"], ["y"], {})],
        {"x": floats(11)},
        shapes={"x": ("n",)},
    )


def region_case(op, opset, regions, **attributes):
    inputs = {
        "x": floats(2, 3, 8, 9),
        "rois": numpy.array([[0, 0, 7, 6], [1.5, 2, 5, 8], [3, 3, 4, 4]], numpy.float32),
    }
    batch = numpy.array([0, 1, 1])
    if regions == "with batch":
        inputs["rois"] = numpy.concatenate(
            [batch[:, None].astype(numpy.float32), inputs["rois"]], axis=1
        )
    else:
        inputs["batch"] = batch
    return one(op, opset, inputs, **attributes)


IMAGE = (1, 2, 3, 4)
LAYER = {"scale": floats(8), "bias": floats(8)}
TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.1, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def learned(op, attributes, outputs=("y",)):
    """A case of one node of ai.onnx.ml on samples of four features; two outputs are labels and
    scores."""
    return Case(
        13,
        [(f"ai.onnx.ml.{op}", ["x"], outputs, attributes)],
        {"x": floats(5, 4)},
        outputs,
        types={outputs[0]: INT64} if len(outputs) > 1 else None,
    )


# More of them is in test_machine_learning.py.
LEARNED = {
    "FeatureVectorizer": lambda: learned("FeatureVectorizer", {"inputdimensions": [4]}),
    "Imputer": lambda: learned(
        "Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": 0.0}
    ),
    "LinearClassifier": lambda: learned(
        "LinearClassifier",
        {
            "coefficients": [0.5] * 4 + [-1.0] * 8,
            "classlabels_ints": [0, 1, 2],
            "intercepts": [1.0, 2.0, 3.0],
        },
        ("label", "scores"),
    ),
    "LinearRegressor": lambda: learned(
        "LinearRegressor", {"coefficients": [0.5, 1.0, 2.0, 3.0], "intercepts": [1.0]}
    ),
    "Normalizer": lambda: learned("Normalizer", {"norm": "L2"}),
    "OneHotEncoder": lambda: learned("OneHotEncoder", {"cats_int64s": [0, 1, -1]}),
    "Scaler": lambda: learned("Scaler", {"offset": [1.0], "scale": [0.5]}),
    "SVMClassifier": lambda: learned(
        "SVMClassifier",
        {
            "coefficients": [1.0, -1.0],
            "vectors_per_class": [1, 1],
            "support_vectors": [0.5] * 4 + [-0.5] * 4,
            "rho": [0.125],
            "kernel_type": "RBF",
            "kernel_params": [0.5, 0.0, 0.0],
            "classlabels_ints": [3, 4],
        },
        ("label", "scores"),
    ),
    "SVMRegressor": lambda: learned(
        "SVMRegressor",
        {
            "coefficients": [1.0, -2.0],
            "n_supports": 2,
            "support_vectors": [0.5] * 4 + [-0.5] * 4,
            "rho": [0.125],
            "kernel_type": "POLY",
            "kernel_params": [0.5, 1.0, 2.0],
        },
    ),
    "TreeEnsembleClassifier": lambda: learned(
        "TreeEnsembleClassifier",
        {
            **TREE,
            "class_treeids": [0, 0],
            "class_nodeids": [1, 2],
            "class_ids": [0, 2],
            "class_weights": [1.0, 2.0],
            "classlabels_int64s": [5, 6, 7],
        },
        ("label", "scores"),
    ),
    "TreeEnsembleRegressor": lambda: learned(
        "TreeEnsembleRegressor",
        {
            **TREE,
            "target_treeids": [0, 0],
            "target_nodeids": [1, 2],
            "target_ids": [0, 0],
            "target_weights": [1.0, 2.0],
            "n_targets": 1,
        },
    ),
}


def sorted_by_merging():
    """A row that is long enough to be sorted by merging runs of it."""
    return Case(
        13,
        [("TopK", ["x", "k"], ["y", "at"], {})],
        {"x": floats(2000)},
        ("y", "at"),
        {"k": numpy.array([5])},
        types={"at": INT64},
    )


def outputs_of(case):
    return tc.compile(case.model.SerializeToString(), log=False).run(case.inputs)
