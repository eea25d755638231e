"""Operator rows and forms that no ONNX node test covers (tests/golden/onnx_rows.txt, written by
onnx_node_test) agree with ONNX Runtime, or with NumPy where that has no such operator; a row that
is listed and has no case here fails."""

import functools

import numpy
import pytest
from onnx import TensorProto

import tc
from tc.arguments import options_of
from tc.native import compiler
from tc.sources import source_of

from ..support import ROOT, onnxruntime_session, worst_error
from .op_cases import (
    IMAGE,
    INT64,
    LAYER,
    LEARNED,
    RANDOM,
    Case,
    bits_case,
    bytes_case,
    cast_by_name,
    causal_convolution_case,
    channel_scale,
    channels_last,
    contributed,
    correlation_case,
    cumulative_maximum,
    cumulative_product,
    distances_case,
    experts_case,
    drawn,
    first_opset,
    floats,
    fused_convolution,
    gated_case,
    causal_case,
    linear_attention_case,
    log_sigmoid_case,
    one,
    outputs_of,
    packed_case,
    placed,
    placed_logic,
    quantised_case,
    range_case,
    region_case,
    reorder_case,
    small_integers,
    sorted_by_merging,
    transposed_case,
    window_case,
    window_of_keys_case,
    with_units,
)
from . import quantised_cases

# Rows of which no graph that runs has a node, and why.
NEVER_RUN = {"Constant": "the importer makes constants of them"}


CASES = {
    **{
        row: functools.partial(packed_case, "Gather" in row)
        for row in (
            "BlockDot",
            "BlockGather",
            "BlockGather as tc::BlockGather 1",
            "BlockMatMul",
            "BlockMatMul as tc::BlockMatMul 1",
            "BlockQuantize",
        )
    },
    **{
        row: experts_case
        for row in ("ExpertDot", "ExpertMatMul", "ExpertMatMul as tc::ExpertMatMul 1")
    },
    "MergePath": sorted_by_merging,
    "MergeSource": sorted_by_merging,
    **{f"{name} as ai.onnx.ml::{name} 1": case for name, case in LEARNED.items()},
    "LabelEncoder as ai.onnx.ml::LabelEncoder 2": lambda: Case(
        13,
        [
            (
                "ai.onnx.ml.LabelEncoder",
                ["x"],
                ["y"],
                {"keys_int64s": [3, 5], "values_floats": [0.5, 1.5], "default_float": 4.0},
            )
        ],
        {"x": numpy.array([[5, 3], [4, 3]])},
    ),
    **{
        f"{op} as {op} 1": (lambda op=op, function=function: placed(op, function))
        for op, function in {
            "Add": numpy.add,
            "Sub": numpy.subtract,
            "Mul": numpy.multiply,
            "Div": numpy.divide,
            "Greater": numpy.greater,
            "Less": numpy.less,
        }.items()
    },
    **{
        f"{op} as {op} 1": (lambda op=op, function=function: placed_logic(op, function))
        for op, function in {
            "And": numpy.logical_and,
            "Or": numpy.logical_or,
            "Xor": numpy.logical_xor,
            "Equal": numpy.equal,
        }.items()
    },
    **{
        f"{row}{form}": (lambda name=name: contributed(name))
        for row, form, name in [
            ("BiasGelu", " as com.microsoft::BiasGelu 1", "other: bias gelu"),
            ("FastGelu", " as com.microsoft::FastGelu 1", "other: fast gelu"),
            ("QuickGelu", " as com.microsoft::QuickGelu 1", "other: quick gelu"),
            ("QuickGelu", "", "other: quick gelu"),
            ("FusedMatMul", " as com.microsoft::FusedMatMul 1", "other: product, B"),
            (
                "FusedMatMul",
                " as com.microsoft::TransposeMatMul 1",
                "other: product by its older name",
            ),
            (
                "EmbedLayerNormalization",
                " as com.microsoft::EmbedLayerNormalization 1",
                "normalised: embedding",
            ),
            (
                "SkipLayerNormalization",
                " as com.microsoft::SkipLayerNormalization 1",
                "normalised: skip",
            ),
            (
                "SkipSimplifiedLayerNormalization",
                " as com.microsoft::SkipSimplifiedLayerNormalization 1",
                "normalised: simplified skip",
            ),
            ("RotaryEmbedding", " as com.microsoft::RotaryEmbedding 1", "rotary: flat"),
            ("GroupQueryAttention", " as com.microsoft::GroupQueryAttention 1", "grouped: rotary"),
            ("MultiHeadAttention", " as com.microsoft::MultiHeadAttention 1", "multi-head: bias"),
            ("ProjectedAttention", " as com.microsoft::Attention 1", "projected: plain"),
        ]
    },
    "Affine": lambda: first_opset(
        "Affine", lambda x: 2 * x + 3, {"x": floats(3, 4)}, alpha=2.0, beta=3.0
    ),
    "Affine as Affine 1": lambda: first_opset(
        "Affine", lambda x: 2 * x, {"x": floats(3, 4)}, alpha=2.0
    ),
    "Bernoulli as Bernoulli 15": lambda: drawn(
        "Bernoulli", {"x": RANDOM.random((4, 5)).astype(numpy.float32)}, (4, 5)
    ),
    "Cast as Cast 1": cast_by_name,
    "Clip as Clip 1": lambda: one("Clip", 10, {"x": floats(4, 5)}, min=-0.5, max=0.25),
    "Crop as Crop 1": lambda: first_opset(
        "Crop", lambda x: x[:, :, 2:5, 1:4], {"x": floats(2, 3, 6, 7)}, border=[1, 2, 3, 1]
    ),
    "Gemm as Gemm 1": lambda: first_opset(
        "Gemm",
        lambda a, b, c: 2 * a @ b.T + c,
        {"a": floats(3, 4), "b": floats(5, 4), "c": floats(5)},
        6,
        alpha=2.0,
        transB=1,
        broadcast=1,
    ),
    "GlobalLpPool as GlobalLpPool 1": lambda: first_opset(
        "GlobalLpPool",
        lambda x: (numpy.abs(x) ** 3).sum((2, 3), keepdims=True) ** (1 / 3),
        {"x": floats(*IMAGE)},
        p=3.0,
    ),
    "GlobalLpPool as GlobalLpPool 2": lambda: one("GlobalLpPool", 9, {"x": floats(*IMAGE)}),
    "ImageScaler as ImageScaler 1": lambda: first_opset(
        "ImageScaler",
        lambda x: x * 2 + numpy.array([1, -1])[:, None, None],
        {"x": floats(*IMAGE)},
        scale=2.0,
        bias=[1.0, -1.0],
    ),
    "InstanceNormalization as InstanceNormalization 1": lambda: first_opset(
        "InstanceNormalization",
        channel_scale,
        {"x": floats(*IMAGE), "s": floats(2), "b": floats(2)},
        consumed_inputs=[0, 0, 0],
    ),
    "LpPool as LpPool 1": lambda: first_opset(
        "LpPool",
        lambda x: (numpy.abs(x) ** 3).reshape(1, 2, 2, 2, 2, 2).sum((3, 5)) ** (1 / 3),
        {"x": floats(1, 2, 4, 4)},
        kernel_shape=[2, 2],
        strides=[2, 2],
        p=3.0,
    ),
    "Multinomial as Multinomial 7": lambda: drawn(
        "Multinomial", {"x": floats(2, 4)}, (2, 30), sample_size=30
    ),
    "PRelu as PRelu 1": lambda: first_opset(
        "PRelu",
        lambda x, s: numpy.where(x < 0, x * s[:, None, None], x),
        {"x": floats(*IMAGE), "s": floats(2)},
        6,
    ),
    "ParametricSoftplus": lambda: first_opset(
        "ParametricSoftplus",
        lambda x: 2 * numpy.log(1 + numpy.exp(3 * x)),
        {"x": floats(3, 4)},
        alpha=2.0,
        beta=3.0,
    ),
    "ParametricSoftplus as ParametricSoftplus 1": lambda: first_opset(
        "ParametricSoftplus",
        lambda x: 2 * numpy.log(1 + numpy.exp(x)),
        {"x": floats(3, 4)},
        alpha=2.0,
    ),
    "Pow as Pow 1": lambda: first_opset(
        "Pow",
        lambda a, b: numpy.abs(a) ** b[:, None],
        {"a": numpy.abs(floats(2, 3, 4)), "b": floats(3)},
        6,
        broadcast=1,
        axis=1,
    ),
    "RandomNormal": lambda: drawn("RandomNormalLike", {"x": floats(3, 4)}, (3, 4)),
    "RandomNormal as RandomNormal 1": lambda: drawn("RandomNormal", {}, (5,), shape=[5]),
    "RandomNormal as RandomNormalLike 1": lambda: drawn(
        "RandomNormalLike", {"x": floats(3, 4)}, (3, 4)
    ),
    "RandomUniform": lambda: drawn("RandomUniformLike", {"x": floats(3, 4)}, (3, 4)),
    "RandomUniform as RandomUniform 1": lambda: drawn("RandomUniform", {}, (5,), shape=[5]),
    "RandomUniform as RandomUniformLike 1": lambda: drawn(
        "RandomUniformLike", {"x": floats(3, 4)}, (3, 4)
    ),
    "Reshape as Reshape 1": lambda: first_opset(
        "Reshape",
        lambda x: x.reshape(2, 6),
        {"x": floats(3, 4)},
        shape=[2, -1],
        consumed_inputs=[0],
    ),
    "Resize as Upsample 1": lambda: first_opset(
        "Upsample",
        lambda x: x.repeat(2, 2).repeat(3, 3),
        {"x": floats(*IMAGE)},
        6,
        height_scale=2.0,
        width_scale=3.0,
    ),
    "Scale": lambda: first_opset("Scale", lambda x: 2 * x, {"x": floats(3, 4)}, scale=2.0),
    "Scale as Scale 1": lambda: first_opset(
        "Scale", lambda x: 3 * x, {"x": floats(3, 4)}, scale=3.0
    ),
    "ScaledTanh": lambda: first_opset(
        "ScaledTanh", lambda x: 2 * numpy.tanh(3 * x), {"x": floats(3, 4)}, alpha=2.0, beta=3.0
    ),
    "ScaledTanh as ScaledTanh 1": lambda: first_opset(
        "ScaledTanh", lambda x: 2 * numpy.tanh(x), {"x": floats(3, 4)}, alpha=2.0
    ),
    "Selu as Selu 1": lambda: first_opset(
        "Selu",
        lambda x: 1.0507 * numpy.where(x > 0, x, 1.6732 * (numpy.exp(x) - 1)),
        {"x": floats(3, 4)},
    ),
    "ThresholdedRelu as ThresholdedRelu 1": lambda: first_opset(
        "ThresholdedRelu", lambda x: numpy.where(x > 0.5, x, 0), {"x": floats(3, 4)}, alpha=0.5
    ),
    "Tile as Tile 1": lambda: first_opset(
        "Tile",
        lambda x: numpy.tile(x, (1, 3)),
        {"x": floats(3, 4)},
        5,
        constants={"t": numpy.float32(3), "a": numpy.float32(1)},
    ),
    "BatchNormalization as BatchNormalization 1": lambda: one(
        "BatchNormalization",
        9,
        {
            "x": floats(*IMAGE),
            "scale": floats(2),
            "bias": floats(2),
            "mean": floats(2),
            "variance": floats(2) ** 2,
        },
        epsilon=1e-3,
    ),
    "ChannelsLastMaxPool as com.microsoft::NhwcMaxPool 1": lambda: channels_last(
        "NhwcMaxPool", kernel_shape=[2, 3], strides=[1, 2]
    ),
    "ChannelsLastQLinearConv as com.microsoft::QLinearConv 1": lambda: channels_last(
        "QLinearConv", channels_last=1, strides=[1, 2]
    ),
    "FusedConv as com.microsoft::FusedConv 1": fused_convolution,
    "FusedGemm as com.microsoft::FusedGemm 1": lambda: one(
        "com.microsoft.FusedGemm",
        17,
        {"x": floats(3, 5)},
        transB=1,
        alpha=0.5,
        constants={"w": floats(4, 5), "b": floats(4)},
        activation="LeakyRelu",
        activation_alpha=0.25,
    ),
    "BlackmanWindow": lambda: window_case("BlackmanWindow"),
    "HammingWindow": lambda: window_case("HammingWindow"),
    "HannWindow": lambda: window_case("HannWindow"),
    "Attention as Attention 25": window_of_keys_case,
    "BitCast": bits_case,
    "BitCast as BitCast 26": bits_case,
    "CausalConvWithState as CausalConvWithState 27": causal_convolution_case,
    "LinearAttention as LinearAttention 27": linear_attention_case,
    "Range as Range 27": range_case,
    "SwiGLU": gated_case,
    "SwiGLU as SwiGLU 28": gated_case,
    "Correlation": correlation_case,
    "Correlation as tc::Correlation 1": correlation_case,
    "CDist": distances_case,
    "CDist as com.microsoft::CDist 1": distances_case,
    "LogSigmoid": log_sigmoid_case,
    "LogSigmoid as tc::LogSigmoid 1": log_sigmoid_case,
    "CumMax": cumulative_maximum,
    "CumMax as tc::CumMax 1": cumulative_maximum,
    "CumProd": cumulative_product,
    "CumProd as CumProd 11": cumulative_product,
    "Gelu as com.microsoft::Gelu 1": lambda: one("com.microsoft.Gelu", 13, {"x": floats(4, 5)}),
    "GlobalLpPool": lambda: one("GlobalLpPool", 13, {"x": floats(*IMAGE)}, p=3),
    "GlobalLpPool as GlobalLpPool 2": lambda: one("GlobalLpPool", 13, {"x": floats(*IMAGE)}),
    "GridSample as GridSample 16": lambda: one(
        "GridSample", 16, {"x": floats(*IMAGE), "grid": floats(1, 4, 5, 2)}, mode="bicubic"
    ),
    "MaxRoiPool": lambda: region_case("MaxRoiPool", 13, "with batch", pooled_shape=[2, 3]),
    "MaxRoiPool as MaxRoiPool 1": lambda: region_case(
        "MaxRoiPool", 13, "with batch", pooled_shape=[3, 2], spatial_scale=0.5
    ),
    "RoiAlign as RoiAlign 10": lambda: region_case(
        "RoiAlign", 10, "beside", output_height=2, output_width=3, sampling_ratio=2
    ),
    "Hardmax as Hardmax 1": lambda: one("Hardmax", 11, {"x": floats(3, 2, 4)}, axis=1),
    "LayerNormalization as LayerNormalization 1": lambda: one(
        "LayerNormalization", 13, {"x": floats(3, 8), **LAYER}, axis=-1, epsilon=1e-3
    ),
    "LogSoftmax as LogSoftmax 1": lambda: one("LogSoftmax", 11, {"x": floats(3, 2, 4)}, axis=1),
    "Pad as Pad 1": lambda: one("Pad", 10, {"x": floats(3, 4)}, pads=[1, 0, 2, 3], value=1.5),
    "RMSNormalization as SimplifiedLayerNormalization 1": lambda: one(
        "SimplifiedLayerNormalization",
        13,
        {"x": floats(3, 8), "scale": LAYER["scale"]},
        axis=-1,
        epsilon=1e-3,
    ),
    "CausalScores": causal_case,
    "CausalSum": causal_case,
    "IntegerConv": lambda: quantised_case(
        "Conv", floats(*IMAGE), small_integers(3, IMAGE[1], 2, 2)
    ),
    "IntegerConvTranspose": transposed_case,
    "IntegerGlobalPool": lambda: bytes_case("GlobalAveragePool", floats(*IMAGE)),
    "IntegerPool": lambda: bytes_case("AveragePool", floats(*IMAGE), kernel_shape=[2, 2]),
    **{
        f"{operator} as com.microsoft::{operator} 1": (
            lambda operator=operator: with_units(operator)
        )
        for operator in quantised_cases.OPERATORS
    },
    "IntegerMatMul": lambda: quantised_case("MatMul", floats(3, 8), small_integers(8, 5)),
    "Reorder": reorder_case,
    "WideProduct": lambda: Case(
        13,
        [("Cast", ["x"], ["w"], {"to": TensorProto.INT64}), ("Mul", ["w", "m"], ["y"], {})],
        {"x": numpy.array([[2147483647, -5, 0], [-2147483648, 7, 1]], numpy.int32)},
        constants={"m": numpy.array([2147483647, -2147483648, 3])},
        types={"y": TensorProto.INT64},
    ),
    "Resize as Upsample 7": lambda: one(
        "Upsample", 8, {"x": floats(*IMAGE)}, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"
    ),
    "Resize as Resize 10": lambda: one(
        "Resize",
        10,
        {"x": floats(*IMAGE)},
        mode="nearest",
        constants={"scales": numpy.array([1, 1, 2, 3], numpy.float32)},
    ),
    "Shape": lambda: Case(
        13,
        [("Shape", ["x"], ["y"], {})],
        {"x": floats(3, 4)},
        shapes={"x": ("n", 4)},
        types={"y": INT64},
    ),
    "Size": lambda: Case(
        13,
        [("Size", ["x"], ["y"], {})],
        {"x": floats(3, 4)},
        shapes={"x": ("n", 4)},
        types={"y": INT64},
    ),
    "Slice as Slice 1": lambda: one(
        "Slice", 9, {"x": floats(6, 5)}, axes=[0, 1], starts=[1, -3], ends=[5, 1000]
    ),
    "Softmax as Softmax 1": lambda: one("Softmax", 11, {"x": floats(3, 2, 4)}, axis=1),
    "Split as Split 1": lambda: one(
        "Split", 11, {"x": floats(6, 4)}, ("y", "z"), split=[2, 4], axis=0
    ),
    "TopK as TopK 1": lambda: Case(
        9,
        [("TopK", ["x"], ["y", "at"], {"k": 3, "axis": 1})],
        {"x": floats(3, 7)},
        ("y", "at"),
        types={"at": INT64},
    ),
}


def test_hardmax_gives_the_place_of_the_first_nan():
    x = numpy.array([[1, numpy.nan, 3, numpy.nan], [5, 1, 5, 0]], numpy.float32)
    assert outputs_of(one("Hardmax", 13, {"x": x}))["y"].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_of_zeros_is_zeros(p):
    x = numpy.array([[0, 0, 0], [3, 0, -4]], numpy.float32)
    y = outputs_of(one("LpNormalization", 13, {"x": x}, p=p, axis=1))["y"]
    numpy.testing.assert_allclose(y, [[0, 0, 0], x[1] / (7, 5)[p - 1]], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 4, 5, 11, 12, 1001, 2**31 - 1])
def test_local_response_takes_no_longer_for_windows_beyond_the_channels(size):
    x = floats(1, 6, 2, 3)
    y = outputs_of(one("LRN", 13, {"x": x}, size=size, alpha=0.5))["y"]
    sums = numpy.zeros_like(x)
    for channel in range(6):
        first, last = max(0, channel - (size - 1) // 2), min(5, channel + size // 2)
        sums[:, channel] = (x[:, first : last + 1] ** 2).sum(axis=1)
    numpy.testing.assert_allclose(y, x / (1 + 0.5 / size * sums) ** 0.75, rtol=1e-5)


def test_split_with_an_output_that_is_left_out():
    x = floats(6, 4)
    case = Case(
        13,
        [
            ("Split", ["x", "parts"], ["a", "", "c"], {"axis": 0}),
            ("Neg", ["a"], ["y"], {}),
            ("Neg", ["c"], ["z"], {}),
        ],
        {"x": x},
        ("y", "z"),
        {"parts": numpy.array([1, 2, 3])},
    )
    found = outputs_of(case)
    assert (found["y"] == -x[:1]).all() and (found["z"] == -x[3:]).all()


@pytest.mark.parametrize("outputs", [("y", "", ""), ("y",), ("", "s", "")])
def test_dynamic_quantisation_with_outputs_that_are_left_out(outputs):
    x = floats(3, 4)
    wanted = [name for name in outputs if name]
    case = Case(
        13,
        [("DynamicQuantizeLinear", ["x"], list(outputs), {})],
        {"x": x},
        wanted,
        types={"y": TensorProto.UINT8},
    )
    scale = (max(x.max(), 0) - min(x.min(), 0)) / numpy.float32(255)
    expected = {
        "s": scale,
        "y": numpy.clip(numpy.rint(x / scale) + numpy.rint(-min(x.min(), 0) / scale), 0, 255),
    }
    for name, array in outputs_of(case).items():
        numpy.testing.assert_allclose(
            array, expected[name], rtol=1e-6, atol=1 if name == "y" else 0
        )


def uncovered():
    """The lines of the list behind its heading."""
    lines = (ROOT / "tests/golden/onnx_rows.txt").read_text().splitlines()
    return lines[2:]


def forms():
    """{ONNX name, with its domain: {first opsets}} of the table in docs/operators.md."""
    found = {}
    for line in (ROOT / "docs/operators.md").read_text().splitlines():
        cells = line.split(" | ")
        if not line.startswith("| ") or len(cells) < 4 or cells[1] == "-":
            continue
        for form in cells[1].split(", "):
            name, _, since = form.rpartition(" ")
            if since.isdigit():
                found.setdefault(name, set()).add(int(since))
    return found


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)


@pytest.mark.parametrize("line", uncovered())
def test_row(line):
    if line in NEVER_RUN:
        assert line not in CASES
        return
    assert line in CASES, f"'{line}' is covered by no outside vector: add a case"
    case = CASES[line]()
    data = case.model.SerializeToString()
    row, _, form = line.partition(" as ")
    if form:
        name, since = form.rsplit(" ", 1)
        domain, _, plain = name.rpartition("::")
        assert any(
            (node.domain, node.op_type) == (domain, plain) for node in nodes_of(case.model.graph)
        )
        opset = next(each.version for each in case.model.opset_import if each.domain == domain)
        assert int(since) == max(version for version in forms()[name] if version <= opset)
    module = tc.compile(data)
    if not form:
        graph, _ = compiler.import_model(source_of(data), options_of())
        # Planning makes some: their statements tell of them.
        planned = {"BlockDot": "  dot[", "BlockQuantize": "  digit[", "ExpertDot": "  dot["}.get(
            line
        )
        made = "(reorder)" in module._compiled.plan if line == "Reorder" else f"= {row}(" in graph
        made = made or (planned and any(planned in kernel.text for kernel in tc.kernels(data)))
        assert made, "no node of the row runs"
    results = module.run(case.inputs)
    expected = case.expected
    if expected is None:
        session = onnxruntime_session(data)
        expected = dict(zip(results, session.run(list(results), case.inputs)))
    for name, array in results.items():
        assert array.dtype == expected[name].dtype, name
        assert worst_error(array, expected[name]) <= 1e-5, name


def test_no_case_is_left_over():
    assert not set(CASES) - set(uncovered())
    assert not set(NEVER_RUN) - set(uncovered())
