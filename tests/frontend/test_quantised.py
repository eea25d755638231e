"""Quantised layers run in integers and equal the specification's unfused evaluation: each element,
or a neighbour where the number before rounding lies at a tie. The reference adds up in float64,
where sums of integers are exact."""

import numpy
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import tc
from tc.arguments import options_of
from tc.native import compiler
from tc.sources import source_of

from ..levels import NATIVE_AND_LEVELS
from ..support import count_under_qemu, output_file
from .quantised_tensors import numbers_of_type

TIE = 2e-3  # of a step of the output, from halfway between two: rounding may go either way there
TYPES = {numpy.dtype(numpy.uint8): TensorProto.UINT8, numpy.dtype(numpy.int8): TensorProto.INT8}


class Layer:
    """A convolution or product of one or two quantised operands, all of its numbers drawn from the
    seed."""

    def __init__(self, seed):
        self.random = random = numpy.random.default_rng([27, seed])
        self.nodes, self.constants = [], []
        self.kind = random.choice(["conv", "conv", "conv", "depthwise", "gemm", "matmul"])
        self.input_type = random.choice([numpy.uint8, numpy.uint8, numpy.int8])
        self.weight_type = random.choice([numpy.int8, numpy.int8, numpy.uint8])
        self.output_type = random.choice([numpy.uint8, numpy.int8])
        self.scale = numpy.float32(random.choice([2e-3, 0.05, 1.0]) * random.uniform(0.5, 2))
        self.zero = self.draw_zero(self.input_type)
        getattr(self, f"draw_{'conv' if self.kind == 'depthwise' else self.kind}")()
        self.finish()

    def draw_zero(self, kind):
        info = numpy.iinfo(kind)
        return kind(
            self.random.choice(
                [0, 0, info.min, info.max, self.random.integers(info.min, info.max + 1)]
            )
        )

    def numbers(self, kind, shape):
        return numbers_of_type(self.random, kind, shape, share_at_ends=0.3)

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def weights(self, shape, axis):
        """Centred weights in float64, and their scales, of which there is one or one per
        channel."""
        channels = shape[axis]
        per_channel = self.random.random() < 0.6
        scales = self.random.uniform(1e-3, 2e-2, channels if per_channel else ()).astype(
            numpy.float32
        )
        low = 64 if self.weight_type is numpy.uint8 else 0
        drawn = self.numbers(self.weight_type, shape)
        zero = self.weight_type(128 if low else 0)
        self.constant("w", drawn)
        self.constant("ws", scales)
        self.constant("wz", numpy.full(scales.shape, zero))
        self.nodes.append(
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=axis)
        )
        self.weight_scales = numpy.broadcast_to(scales.astype(numpy.float64), (channels,))
        self.per_channel = scales
        return drawn.astype(numpy.float64) - float(zero)

    def bias(self, channels):
        numbers = self.random.integers(-5000, 5000, channels).astype(numpy.int32)
        scales = numpy.broadcast_to(self.scale * self.per_channel, (channels,)).astype(
            numpy.float32
        )
        self.constant("b", numbers)
        self.constant("bs", scales)
        self.nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"], axis=0))
        return numbers.astype(numpy.float64)

    def draw_conv(self):
        random = self.random
        groups, channels = 1, int(random.choice([1, 3, 4, 8, 16, 20, 32]))
        filters = int(random.choice([1, 5, 16, 24, 32, 40]))
        if self.kind == "depthwise":
            groups = filters = channels = int(random.choice([8, 16, 24, 32]))
        elif random.random() < 0.2:
            groups, channels, filters = 2, 32, 32
        size, stride = int(random.choice([1, 3, 5])), int(random.choice([1, 2]))
        pads = [int(each) for each in random.integers(0, size // 2 + 1, 4)]
        self.x = self.numbers(
            self.input_type, (1, channels, int(random.integers(6, 18)), int(random.integers(6, 18)))
        )
        weights = self.weights((filters, channels // groups, size, size), 0)
        bias = self.bias(filters) if random.random() < 0.7 else numpy.zeros(filters)
        names = ["xf", "wf"] + (["bf"] if bias.any() else [])
        self.nodes.append(
            helper.make_node(
                "Conv", names, ["sum"], group=groups, strides=[stride, stride], pads=pads
            )
        )
        x = torch.from_numpy(self.x.astype(numpy.float64) - float(self.zero))
        x = torch.nn.functional.pad(x, (pads[1], pads[3], pads[0], pads[2]))
        sums = torch.nn.functional.conv2d(
            x, torch.from_numpy(weights), torch.from_numpy(bias), stride, groups=groups
        )
        self.real = sums.numpy() * (float(self.scale) * self.weight_scales)[:, None, None]

    def draw_gemm(self):
        rows, inner, columns = (int(self.random.choice([1, 3, 16, 33, 64])) for _ in range(3))
        transposed = bool(self.random.random() < 0.5)
        self.x = self.numbers(self.input_type, (rows, inner))
        weights = self.weights(
            (columns, inner) if transposed else (inner, columns), 0 if transposed else 1
        )
        bias = self.bias(columns)
        self.nodes.append(
            helper.make_node("Gemm", ["xf", "wf", "bf"], ["sum"], transB=int(transposed))
        )
        x = self.x.astype(numpy.float64) - float(self.zero)
        self.real = (x @ (weights.T if transposed else weights) + bias) * (
            float(self.scale) * self.weight_scales
        )

    def draw_matmul(self):
        rows, inner, columns = (int(self.random.choice([1, 4, 12, 32, 64])) for _ in range(3))
        self.x = self.numbers(self.input_type, (2, rows, inner))
        weights = self.weights((inner, columns), 1)
        self.nodes.append(helper.make_node("MatMul", ["xf", "wf"], ["sum"]))
        x = self.x.astype(numpy.float64) - float(self.zero)
        self.real = x @ weights * (float(self.scale) * self.weight_scales)

    def finish(self):
        random = self.random
        value, self.inputs = "sum", {"x": self.x}
        self.constant("xs", self.scale)
        self.constant("xz", self.zero)
        self.nodes.insert(0, helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]))
        if random.random() < 0.4:  # a residual addition, with a scale of its own
            other = self.numbers(numpy.uint8, self.real.shape)
            scale, zero = (
                numpy.float32(numpy.abs(self.real).max() / 200 + 1e-3),
                self.draw_zero(numpy.uint8),
            )
            self.inputs["r"] = other
            self.constant("rs", scale)
            self.constant("rz", zero)
            self.nodes.append(helper.make_node("DequantizeLinear", ["r", "rs", "rz"], ["rf"]))
            self.nodes.append(helper.make_node("Add", [value, "rf"], ["added"]))
            self.real, value = (
                self.real + (other.astype(numpy.float64) - float(zero)) * float(scale),
                "added",
            )
        if random.random() < 0.5:
            self.nodes.append(helper.make_node("Relu", [value], ["positive"]))
            self.real, value = numpy.maximum(self.real, 0), "positive"
        saturating = random.choice([1.0, 0.3])
        scale = numpy.float32(numpy.abs(self.real).max() / 200 * saturating + 1e-6)
        zero = self.draw_zero(self.output_type)
        self.constant("ys", scale)
        self.constant("yz", zero)
        self.nodes.append(helper.make_node("QuantizeLinear", [value, "ys", "yz"], ["y"]))
        self.steps, self.limits = (
            self.real / float(scale) + float(zero),
            numpy.iinfo(self.output_type),
        )

    def model(self):
        graph = helper.make_graph(
            self.nodes,
            "layer",
            [
                helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)
                for name, array in self.inputs.items()
            ],
            [helper.make_tensor_value_info("y", TYPES[numpy.dtype(self.output_type)], None)],
            self.constants,
        )
        return helper.make_model(
            graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
        ).SerializeToString()

    def what_is_wrong(self, y):
        assert y.dtype == self.output_type and y.shape == self.steps.shape
        expected = numpy.clip(numpy.rint(self.steps), self.limits.min, self.limits.max)
        away = numpy.abs(y.astype(numpy.float64) - expected)
        tie = numpy.abs(numpy.abs(self.steps - numpy.floor(self.steps)) - 0.5) < TIE
        return int((away > tie).sum())


def check(seed, target):
    layer = Layer(seed)
    module = tc.compile(layer.model(), target=target, threads=1)
    y = module(**layer.inputs)
    y = (
        next(iter(y.values()))
        if isinstance(y, dict)
        else y[0]
        if isinstance(y, (list, tuple))
        else y
    )
    wrong = layer.what_is_wrong(y)
    assert wrong == 0, f"seed {seed} ({layer.kind}, {target}): {wrong} of {y.size} elements"


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_layers_equal_their_unfused_evaluation(target, part, request):
    count = 250 if request.config.getoption("--full") else 5
    for seed in range(part * count, (part + 1) * count):
        check(seed, target)


@pytest.mark.parametrize("seed", range(3))
def test_layers_on_riscv(seed, tmp_path):
    layer = Layer(seed)
    module = tc.compile(layer.model(), target="rv64gcv", threads=1)
    module.export(str(tmp_path / "layer"), kind="executable")
    outputs, _ = count_under_qemu(
        tmp_path / "layer", layer.inputs, tmp_path, vlen=256, arguments=["--threads", "1"]
    )
    wrong = layer.what_is_wrong(outputs[output_file("y")])
    assert wrong == 0, f"{layer.kind}: {wrong} elements"


@pytest.mark.parametrize("inner", [7, 32, 312])
@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_products_with_a_zero_point_of_the_run(inner, target):
    """As in networks that are quantised while they run; sums of integers are equal."""
    random = numpy.random.default_rng([28, inner])
    a, zero = (
        random.integers(0, 256, (2, 9, inner)).astype(numpy.uint8),
        numpy.uint8(random.integers(0, 256)),
    )
    b = random.integers(-128, 128, (inner, 24)).astype(numpy.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "zero", "none"], ["y"])],
        "product",
        [
            helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape),
            helper.make_tensor_value_info("zero", TensorProto.UINT8, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(b, "b"), numpy_helper.from_array(numpy.int8(0), "none")],
    )
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()
    y = tc.compile(model, target=target, threads=1).run({"a": a, "zero": zero})["y"]
    expected = (a.astype(numpy.int64) - int(zero)) @ b.astype(numpy.int64)
    assert y.dtype == numpy.int32 and (y == expected).all()


@pytest.mark.parametrize("channels, groups", [(8, 1), (16, 1), (8, 2), (32, 1), (12, 1)])
@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_one_filter_adds_up_along_its_channels(channels, groups, target):
    """Without filters or places beside each other, lanes are channels, which are added up across
    the vector."""
    random = numpy.random.default_rng([30, channels, groups])
    x = random.integers(0, 256, (1, channels * groups, 1, 1)).astype(numpy.uint8)
    w = random.integers(-128, 128, (groups, channels, 1, 1)).astype(numpy.int8)
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"], group=groups)],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()
    y = tc.compile(model, target=target, threads=1, log=False).run({"x": x})["y"]
    expected = (x.reshape(groups, channels).astype(int) * w[:, :, 0, 0]).sum(1)
    assert (y.reshape(-1) == expected).all()


def test_a_layer_of_operators_with_scales():
    """QLinearConv, whose scales and zero points are constants, is the layer between QuantizeLinear
    nodes."""
    random = numpy.random.default_rng(29)
    x = random.integers(0, 256, (1, 8, 9, 9)).astype(numpy.uint8)
    w = random.integers(-128, 128, (16, 8, 3, 3)).astype(numpy.int8)
    scales, bias = (
        random.uniform(1e-3, 1e-2, 16).astype(numpy.float32),
        random.integers(-999, 999, 16).astype(numpy.int32),
    )
    constants = {
        "xs": numpy.float32(0.02),
        "xz": numpy.uint8(7),
        "w": w,
        "ws": scales,
        "wz": numpy.int8(0),
        "ys": numpy.float32(0.05),
        "yz": numpy.uint8(100),
        "b": bias,
    }
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", ["x", *constants], ["y"], pads=[1, 1, 1, 1])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(numpy.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()
    module = tc.compile(model, threads=1)
    assert "IntegerConv" in str(compiler.import_model(source_of(model), options_of())[0])
    padded = torch.nn.functional.pad(torch.from_numpy(x.astype(numpy.float64) - 7), (1, 1, 1, 1))
    sums = torch.nn.functional.conv2d(
        padded,
        torch.from_numpy(w.astype(numpy.float64)),
        torch.from_numpy(bias.astype(numpy.float64)),
    ).numpy()
    steps = sums * (0.02 * scales.astype(numpy.float64))[:, None, None] / 0.05 + 100
    expected = numpy.clip(numpy.rint(steps), 0, 255)
    away = numpy.abs(module.run({"x": x})["y"].astype(numpy.float64) - expected)
    tie = numpy.abs(numpy.abs(steps - numpy.floor(steps)) - 0.5) < TIE
    assert (away <= tie).all()
