"""Files that ONNX Runtime's optimiser wrote: what comes of the networks is what ONNX Runtime
gives."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import onnxruntime_session

FLOAT = TensorProto.FLOAT


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model(nodes, inputs, constants, outputs=("y",)):
    """inputs as {name: sizes}, constants as {name: array}."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, FLOAT, sizes) for name, sizes in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
    )


def optimised(made, folder, level="EXTENDED"):
    """The path of the file that ONNX Runtime writes of the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
    )
    options.optimized_model_filepath = str(folder / f"{level}.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return folder / f"{level}.onnx"


def operators(path):
    return {node.op_type for node in onnx.load(path).graph.node if node.domain}


def agrees(model_or_path, given, tolerance=1e-5, step=0.0):
    """Within the tolerance and, of quantised results, one step: which may fall on the other side of
    a tie."""
    data = (
        model_or_path.read_bytes()
        if hasattr(model_or_path, "read_bytes")
        else model_or_path.SerializeToString()
    )
    found = tc.compile(data, log=False).run(given)
    for (name, value), expected in zip(
        found.items(), onnxruntime_session(data).run(list(found), given)
    ):
        scale = max(np.abs(expected.astype(np.float64)).max(initial=0), 1e-30)
        assert (
            np.abs(value.astype(np.float64) - expected.astype(np.float64)).max(initial=0)
            <= tolerance * scale + step
        ), name


# --- the operators, each form ---------------------------------------------------------------------

ACTIVATIONS = [
    ("", []),
    ("Relu", []),
    ("Tanh", []),
    ("Sigmoid", []),
    ("LeakyRelu", [0.25]),
    ("Clip", [-0.5, 1.5]),
    ("HardSigmoid", [0.3, 0.4]),
]


@pytest.mark.parametrize("activation, numbers", ACTIVATIONS)
@pytest.mark.parametrize("added", [False, True])
def test_convolution_with_sum_and_activation(activation, numbers, added):
    attributes = {"pads": [1, 1, 1, 1], "strides": [1, 2]}
    if activation:
        attributes["activation"] = activation
    if numbers:
        attributes["activation_params"] = numbers
    inputs = {"x": [1, 3, 7, 8], **({"z": [1, 4, 7, 4]} if added else {})}
    node = helper.make_node(
        "FusedConv",
        ["x", "w", "b", *(["z"] if added else [])],
        ["y"],
        domain="com.microsoft",
        **attributes,
    )
    made = model([node], inputs, {"w": drawn(1, 4, 3, 3, 3), "b": drawn(2, 4)})
    agrees(made, {name: drawn(3, *sizes) for name, sizes in inputs.items()})


@pytest.mark.parametrize("spatial", [1, 3])
def test_convolution_with_activation_over_other_axes(spatial):
    node = helper.make_node(
        "FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Relu", group=2
    )
    sizes = [2, 4, *[6] * spatial]
    agrees(
        model([node], {"x": sizes}, {"w": drawn(1, 6, 2, *[3] * spatial)}), {"x": drawn(2, *sizes)}
    )


@pytest.mark.parametrize(
    "activation, numbers",
    [
        ("Relu", {}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("LeakyRelu", {"alpha": 0.25}),
        ("Elu", {"alpha": 0.5}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("Selu", {"alpha": 1.5, "gamma": 1.25}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("ThresholdedRelu", {"alpha": 0.75}),
    ],
)
def test_product_with_activation(activation, numbers):
    node = helper.make_node(
        "FusedGemm",
        ["x", "w", "b"],
        ["y"],
        domain="com.microsoft",
        activation=activation,
        transB=1,
        alpha=0.5,
        beta=2.0,
        **{f"activation_{name}": value for name, value in numbers.items()},
    )
    agrees(
        model([node], {"x": [3, 5]}, {"w": drawn(1, 4, 5), "b": drawn(2, 4)}), {"x": drawn(3, 3, 5)}
    )


@pytest.mark.parametrize(
    "op, attributes", [("FusedConv", {"activation": "Elu"}), ("FusedGemm", {"activation": "Clip"})]
)
def test_activations_that_are_not_known(op, attributes):
    shape = [1, 3, 4, 4] if op == "FusedConv" else [3, 4]
    made = model(
        [helper.make_node(op, ["x", "w"], ["y"], domain="com.microsoft", **attributes)],
        {"x": shape},
        {"w": drawn(1, 2, 3, 1, 1) if op == "FusedConv" else drawn(1, 4, 4)},
    )
    with pytest.raises(
        tc.UnsupportedError,
        match=f"attribute 'activation' is '{attributes['activation']}'; it may be .*Relu, Tanh, Sigmoid",
    ):
        tc.compile(made)


def test_numbers_of_an_activation_are_as_many_as_it_takes():
    node = helper.make_node(
        "FusedConv",
        ["x", "w"],
        ["y"],
        domain="com.microsoft",
        activation="Clip",
        activation_params=[0.5],
    )
    with pytest.raises(
        tc.ShapeError, match="activation_params has 1 numbers; activation 'Clip' takes 2"
    ):
        tc.compile(model([node], {"x": [1, 3, 4, 4]}, {"w": drawn(1, 2, 3, 1, 1)}))


def quantised(op, weights=None, **attributes):
    """A quantised operator whose tensor has its channels last, between floats."""
    constants = {
        "s": np.float32(0.1),
        "z": np.uint8(101),
        "t": np.float32(0.25),
        "n": np.int8(0),
        "r": np.float32(0.9),
        "m": np.uint8(120),
    }
    inputs = ["q"]
    if weights is not None:
        constants["w"] = weights
        inputs = ["q", "s", "z", "w", "t", "n", "r", "m"]
    elif op != "NhwcMaxPool":
        inputs = ["q", "s", "z", "s", "z"]
    last = ["r", "m"] if weights is not None else ["s", "z"]
    return model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node(op, inputs, ["p"], domain="com.microsoft", **attributes),
            helper.make_node("DequantizeLinear", ["p", *last], ["y"]),
        ],
        {"x": [2, 6, 5, 4]},
        constants,
    )


@pytest.mark.parametrize(
    "op, attributes",
    [
        ("QLinearConv", {"channels_last": 1}),
        ("QLinearConv", {"channels_last": 1, "strides": [2, 1], "pads": [1, 0, 0, 1]}),
        ("QLinearConv", {"channels_last": 1, "group": 2}),
        ("NhwcMaxPool", {"kernel_shape": [2, 3]}),
        ("NhwcMaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "channels_last": 1}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
    ],
)
def test_channels_last(op, attributes):
    weights = None
    if op == "QLinearConv":
        weights = (
            np.random.default_rng(5)
            .integers(-9, 9, (6, 4 // attributes.get("group", 1), 2, 3))
            .astype(np.int8)
        )
    agrees(
        quantised(op, weights, **attributes),
        {"x": drawn(6, 2, 6, 5, 4)},
        step=0.9 if weights is not None else 0.1,
    )


def test_channels_last_of_a_vector():
    with pytest.raises(
        tc.ShapeError,
        match=r"the input has shape \[3\]; \[batch, 1 to 3 spatial axes, channels\] is needed",
    ):
        tc.compile(
            model(
                [
                    helper.make_node(
                        "NhwcMaxPool", ["x"], ["y"], domain="com.microsoft", kernel_shape=[2]
                    )
                ],
                {"x": [3]},
                {},
            )
        )


# --- whole networks -------------------------------------------------------------------------------


def pictures():
    """Convolutions with normalisation, sums, activations and a classifier."""
    constants = {
        "w0": drawn(1, 8, 3, 3, 3),
        "b0": drawn(2, 8),
        "w1": drawn(3, 8, 8, 3, 3) / 8,
        "w2": drawn(4, 4, 8, 1, 1),
        "f": drawn(5, 6, 4),
        "g": drawn(6, 6),
        "scale": drawn(7, 8),
        "bias": drawn(8, 8),
        "mean": drawn(9, 8),
        "variance": drawn(10, 8) ** 2 + 1,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c0", "scale", "bias", "mean", "variance"], ["n0"]),
        helper.make_node("Relu", ["n0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["s1"]),
        helper.make_node("Relu", ["s1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"]),
        helper.make_node("LeakyRelu", ["c2"], ["r2"], alpha=0.2),
        helper.make_node("GlobalAveragePool", ["r2"], ["p2"]),
        helper.make_node("Flatten", ["p2"], ["flat"]),
        helper.make_node("Gemm", ["flat", "f", "g"], ["d"], transB=1),
        helper.make_node("Tanh", ["d"], ["y"]),
    ]
    return model(nodes, {"x": [1, 3, 12, 12]}, constants), {"x": drawn(11, 1, 3, 12, 12)}


def sentences():
    """A product of a product and its transpose, scaled; a normalisation of a sum; an error
    function's unit."""
    constants = {
        "w": drawn(1, 8, 8),
        "v": drawn(2, 8, 8),
        "third": np.float32(0.3),
        "scale": drawn(3, 8),
        "bias": drawn(4, 8),
        "root": np.float32(2**0.5),
        "one": np.float32(1),
        "half": np.float32(0.5),
        "c": drawn(5, 8),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("MatMul", ["x", "v"], ["k"]),
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "t"], ["scores"]),
        helper.make_node("Mul", ["scores", "third"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "x"], ["mixed"]),
        helper.make_node("Add", ["mixed", "x"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale", "bias"], ["n"], axis=-1),
        helper.make_node("Add", ["n", "c"], ["m"]),
        helper.make_node("Div", ["m", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["m", "a"], ["u"]),
        helper.make_node("Mul", ["u", "half"], ["g"]),
        helper.make_node("Sigmoid", ["g"], ["h"]),
        helper.make_node("Mul", ["g", "h"], ["y"]),
    ]
    return model(nodes, {"x": [2, 5, 8]}, constants), {"x": drawn(6, 2, 5, 8)}


@pytest.mark.parametrize(
    "network, made",
    [
        (pictures, {"FusedConv", "FusedGemm"}),
        (sentences, {"FusedMatMul", "SkipLayerNormalization", "QuickGelu"}),
    ],
)
@pytest.mark.parametrize("level", ["BASIC", "EXTENDED"])
def test_a_network_that_was_optimised(network, made, level, tmp_path):
    net, given = network()
    path = optimised(net, tmp_path, level)
    assert level == "BASIC" or made <= operators(path)
    expected = onnxruntime_session(net.SerializeToString()).run(["y"], given)[0]
    np.testing.assert_allclose(
        tc.compile(path, log=False).run(given)["y"], expected, rtol=1e-4, atol=1e-5
    )


def test_a_network_in_the_layout_of_one_processor(tmp_path):
    net, _ = pictures()
    path = optimised(net, tmp_path, "ALL")
    if "ReorderOutput" not in operators(path):
        pytest.skip("ONNX Runtime has no such layout for this processor")
    with pytest.raises(tc.UnsupportedError) as error:
        tc.compile(path)
    assert "com.microsoft.nchwc::Conv" in str(error.value)
    assert (
        "operators of com.microsoft.nchwc are of a file that ONNX Runtime optimised for one processor; write it again with ORT_ENABLE_EXTENDED"
        in str(error.value)
    )
    assert all(
        "of a file that ONNX Runtime optimised for one processor" in problem
        for problem in tc.check(path)
    )
