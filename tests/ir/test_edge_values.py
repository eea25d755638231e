"""Operators at the edges of their definitions: NaN, zeros, windows without end, outputs left out,
exact coordinates."""

import fractions
import math

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tc

from ..support import worst_error

onnxruntime = pytest.importorskip("onnxruntime")


def model_of(nodes, inputs, outputs, constants=None, opset=17):
    """A model of nodes (type, inputs, outputs, attributes); inputs are arrays, outputs {name:
    rank}."""
    graph = helper.make_graph(
        [
            helper.make_node(kind, ins, outs, name=f"{kind}{i}", **attributes)
            for i, (kind, ins, outs, attributes) in enumerate(nodes)
        ],
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
            for name, array in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)
            for name, rank in outputs.items()
        ],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ours(model, inputs):
    return tc.compile(model.SerializeToString(), threads=1).run(inputs)


def runtime(model, inputs):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


def test_hardmax_is_1_at_the_first_nan():
    x = numpy.array(
        [[1, numpy.nan, 5, numpy.nan], [3, 4, 0, 4], [numpy.nan, 2, 1, 0]], numpy.float32
    )
    model = model_of(
        [
            ("Hardmax", ["x"], ["y"], {"axis": 1}),
            ("ArgMax", ["x"], ["p"], {"axis": 1, "keepdims": 0}),
            ("Cast", ["p"], ["place"], {"to": TensorProto.FLOAT}),
        ],
        {"x": x},
        {"y": 2, "place": 1},
    )
    result = ours(model, {"x": x})
    assert result["y"].tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert result["place"].tolist() == [1, 1, 0]


@pytest.mark.parametrize("p", [1, 2])
def test_zeros_are_normalised_to_zeros(p):
    x = numpy.array([[0, 0, 0], [3, -4, 0], [0, -0.0, 0], [numpy.nan, 1, 0]], numpy.float32)
    model = model_of([("LpNormalization", ["x"], ["y"], {"axis": 1, "p": p})], {"x": x}, {"y": 2})
    result = ours(model, {"x": x})["y"]
    assert worst_error(result[:3], runtime(model, {"x": x})["y"][:3]) <= 1e-6
    assert result[0].tolist() == [0, 0, 0] and numpy.isnan(result[3]).all()


@pytest.mark.parametrize("size", [3, 4, 9, 10, 2**31 - 1, 2**31])
def test_windows_across_channels_reach_no_further_than_there_are_channels(size):
    x = numpy.random.default_rng(size).standard_normal((2, 5, 3, 3)).astype(numpy.float32)
    model = model_of(
        [("LRN", ["x"], ["y"], {"size": size, "alpha": 0.01 * size, "beta": 0.6})],
        {"x": x},
        {"y": 4},
    )
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = numpy.stack(
        [(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(5)], 1
    )
    assert worst_error(ours(model, {"x": x})["y"], x / (1 + 0.01 * squares) ** 0.6) <= 1e-5


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    "kernel, stride, dilation",
    [(1, 2, 1), (1, 3, 1), (2, 3, 1), (2, 5, 1), (3, 2, 1), (2, 4, 1), (2, 5, 2), (4, 3, 2)],
)
def test_transposed_convolutions_of_the_same_size(mode, kernel, stride, dilation):
    """The result has stride elements per element of the input, also where windows leave gaps
    between them."""
    x = numpy.arange(1, 7, dtype=numpy.float32).reshape(1, 2, 3)
    w = numpy.arange(1, 1 + 2 * kernel, dtype=numpy.float32).reshape(2, 1, kernel)
    attributes = {"auto_pad": mode, "strides": [stride], "dilations": [dilation]}
    model = model_of(
        [("ConvTranspose", ["x", "w"], ["y"], attributes)], {"x": x}, {"y": 3}, {"w": w}
    )
    cut = stride * 2 + dilation * (kernel - 1) + 1 - 3 * stride
    before = cut // 2 if mode == "SAME_UPPER" else cut - cut // 2
    expected = numpy.zeros((1, 1, 3 * stride), numpy.float32)
    for i in range(3):
        for k in range(kernel):
            at = i * stride + k * dilation - before
            if 0 <= at < 3 * stride:
                expected[0, 0, at] += x[0, :, i] @ w[:, 0, k]
    if dilation == 1:
        assert ReferenceEvaluator(model).run(None, {"x": x})[0].tolist() == expected.tolist()
    assert ours(model, {"x": x})["y"].tolist() == expected.tolist()


@pytest.mark.parametrize("nearest", ["ceil", "floor"])
@pytest.mark.parametrize(
    "size, scale",
    [(5, 1.5), (3, 1.2), (4, 0.6), (6, 2.3), (7, 0.3), (9, 1.4), (12, 0.7), (11, 2.6), (13, 1 / 3)],
)
def test_exact_coordinates_of_a_symmetric_resize(nearest, size, scale):
    """Compared with the definition in rational numbers."""
    x = numpy.arange(size, dtype=numpy.float32).reshape(1, 1, size)
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel_symmetric",
        "nearest_mode": nearest,
    }
    model = model_of(
        [("Resize", ["x", "", "s"], ["y"], attributes)],
        {"x": x},
        {"y": 3},
        {"s": numpy.array([1, 1, scale], numpy.float32)},
        19,
    )
    result = ours(model, {"x": x})["y"].ravel()
    exact = fractions.Fraction(float(numpy.float32(scale)))
    half = fractions.Fraction(1, 2)
    expected = []
    for i in range(len(result)):
        at = size * half * (1 - len(result) / (exact * size)) + (i + half) / exact - half
        expected.append(
            min(max(math.ceil(at) if nearest == "ceil" else math.floor(at), 0), size - 1)
        )
    assert result.tolist() == expected


def test_a_split_that_leaves_an_output_out():
    """Its parts are copies: once they were given places in the operand and then written."""
    x = numpy.arange(-12, 12, dtype=numpy.float32).reshape(3, 8)
    model = model_of(
        [("Split", ["x"], ["a", "", "b"], {"axis": 0}), ("Relu", ["a"], ["c"], {})],
        {"x": x},
        {"a": 2, "b": 2, "c": 2},
    )
    x.flags.writeable = False
    result = ours(model, {"x": x})
    assert result["a"].tolist() == x[:1].tolist() and result["b"].tolist() == x[2:].tolist()
    assert result["c"].tolist() == numpy.maximum(x[:1], 0).tolist()


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("step", [-1, -2])
def test_backwards_starts_lie_inside_and_ends_before_the_first(size, step):
    """Starts in [0, size - 1] and ends in [-1, size - 1], as the operator's text has it, which is
    not NumPy's way."""
    x = numpy.arange(size, dtype=numpy.float32)
    places = sorted({-size - 2, -size, -1, 0, size - 1, size + 2})
    constants = {f"p{place}": numpy.array([place]) for place in places} | {
        "a": numpy.array([0]),
        "t": numpy.array([step]),
    }
    nodes = [
        ("Slice", ["x", f"p{start}", f"p{end}", "a", "t"], [f"y{start}_{end}"], {})
        for start in places
        for end in places
    ]
    model = model_of(nodes, {"x": x}, {node[2][0]: 1 for node in nodes}, constants)
    found, other = ours(model, {"x": x}), runtime(model, {"x": x})
    for start in places:
        for end in places:
            first = min(max(start + size * (start < 0), 0), size - 1)
            last = min(max(end + size * (end < 0), -1), size - 1)
            assert found[f"y{start}_{end}"].tolist() == [x[i] for i in range(first, last, step)], (
                start,
                end,
            )
            assert other[f"y{start}_{end}"].tolist() == found[f"y{start}_{end}"].tolist(), (
                start,
                end,
            )


def test_an_empty_axis_is_resized_to_an_empty_one():
    x = numpy.zeros((1, 2, 0, 4), numpy.float32)
    model = model_of(
        [("Resize", ["x", "", "s"], ["y"], {"mode": "linear"})],
        {"x": x},
        {"y": 4},
        {"s": numpy.array([1, 1, 0.5, 2], numpy.float32)},
    )
    assert ours(model, {"x": x})["y"].shape == (1, 2, 0, 8)
