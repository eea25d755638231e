"""Streaming speech enhancers drawn at random: convolutions of 1x5 with stride 2, in groups, over
caches of earlier frames, transposed ones, and GRUs in groups; compared with ONNX Runtime.
TC_STREAMING_NETWORKS says how many (default 12)."""

import os
import random

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import worst_error

onnxruntime = pytest.importorskip("onnxruntime")

NETWORKS = int(os.environ.get("TC_STREAMING_NETWORKS", "12"))


class Network:
    """One enhancer of a few frames; its caches are further inputs and outputs."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = numpy.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []
        draw = self.random.choice
        self.channels, self.frames = draw([1, 2, 3, 4, 6, 8, 9]), draw([1, 1, 1, 2, 3])
        self.bins = draw([8, 17, 20, 30, 33, 49, 65, 97, 129, 161])
        self.value = self.add_input([1, self.channels, self.frames, self.bins])
        shapes = [self.encode() for _ in range(self.random.randint(1, 3))]
        for _ in range(self.random.randint(0, 2)):
            self.remember()
        if self.frames == 1 and self.channels % 2 == 0 and self.random.random() < 0.5:
            self.recur()
        for shape in reversed(shapes):
            if shape:
                self.decode(*shape)
        self.outputs.append(self.value)

    def name(self):
        return f"t{len(self.nodes) + len(self.constants) + len(self.inputs)}"

    def add_input(self, shape):
        name = "in_" + self.name()
        self.inputs[name] = self.numbers.standard_normal(shape).astype(numpy.float32)
        return name

    def constant(self, array):
        name = "c_" + self.name()
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape):
        spread = 1 / numpy.sqrt(max(1, numpy.prod(shape[1:])))
        return self.constant((spread * self.numbers.standard_normal(shape)).astype(numpy.float32))

    def apply(self, kind, *inputs, **attributes):
        output = self.name()
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes)
        )
        return output

    def shaped(self, value, *shape):
        return self.apply("Reshape", value, self.constant(numpy.array(shape)))

    def group(self, *channels):
        return self.random.choice([g for g in (1, 2, 4, 8) if all(c % g == 0 for c in channels)])

    def activate(self, value):
        kind = self.random.choice(["PRelu", "Relu", "Sigmoid", "Tanh", None, None])
        if kind == "PRelu":
            return self.apply(kind, value, self.weights(self.channels, 1, 1))
        return self.apply(kind, value) if kind else value

    def encode(self):
        """Fewer bins; returns what undoes it."""
        kernel, stride = self.random.choice([5, 5, 5, 3, 4]), self.random.choice([2, 2, 2, 1, 3])
        pad, wanted = (
            self.random.choice([0, kernel // 2]),
            self.random.choice([4, 6, 8, 12, 16, 16, 20, 24, 32]),
        )
        if self.bins + 2 * pad < kernel:
            return None
        group = self.group(self.channels, wanted)
        bias = [self.weights(wanted)] if self.random.random() < 0.7 else []
        self.value = self.apply(
            "Conv",
            self.value,
            self.weights(wanted, self.channels // group, 1, kernel),
            *bias,
            group=group,
            strides=[1, stride],
            pads=[0, pad, 0, pad],
        )
        before, self.channels = self.channels, wanted
        self.bins = (self.bins + 2 * pad - kernel) // stride + 1
        self.value = self.activate(self.value)
        return before, kernel, stride, pad

    def decode(self, wanted, kernel, stride, pad):
        more = self.random.choice([0, 0, stride - 1])
        bins = (self.bins - 1) * stride + kernel - 2 * pad + more
        if bins < 1:
            return
        self.bins = bins
        group = self.group(self.channels, wanted)
        self.value = self.apply(
            "ConvTranspose",
            self.value,
            self.weights(self.channels, wanted // group, 1, kernel),
            self.weights(wanted),
            group=group,
            strides=[1, stride],
            pads=[0, pad, 0, pad],
            output_padding=[0, more],
        )
        self.channels = wanted
        self.value = self.activate(self.value)

    def remember(self):
        """A convolution, or a transposed one, over this and earlier frames."""
        rows, dilation, columns = (
            self.random.choice([2, 3]),
            self.random.choice([1, 2, 5]),
            self.random.choice([1, 3, 3, 5]),
        )
        group, past = (
            self.random.choice([1, self.channels, self.group(self.channels)]),
            (rows - 1) * dilation,
        )
        cache = self.add_input([1, self.channels, past, self.bins])
        whole = self.apply("Concat", cache, self.value, axis=2)
        self.outputs.append(
            self.apply(
                "Slice",
                whole,
                self.constant(numpy.array([self.frames])),
                self.constant(numpy.array([1 << 30])),
                self.constant(numpy.array([2])),
            )
        )
        transposed = self.random.random() < 0.5
        cut = past if transposed else 0
        result = self.apply(
            "ConvTranspose" if transposed else "Conv",
            whole,
            self.weights(self.channels, self.channels // group, rows, columns),
            self.weights(self.channels),
            group=group,
            dilations=[dilation, 1],
            pads=[cut, columns // 2, cut, columns // 2],
        )
        result = self.activate(result)
        # Channels of the groups change places.
        if self.channels % 2 == 0 and self.random.random() < 0.4:
            shape = [1, 2, self.channels // 2, self.frames, self.bins]
            result = self.apply("Transpose", self.shaped(result, *shape), perm=[0, 2, 1, 3, 4])
            result = self.shaped(result, 1, self.channels, self.frames, self.bins)
        self.value = self.apply("Add", result, self.value) if self.random.random() < 0.5 else result

    def recur(self):
        """Two GRUs over the bins, each of half of the channels."""
        half, both = self.channels // 2, self.random.random() < 0.5
        hidden, directions = (max(1, half // 2), 2) if both else (half, 1)
        rows = self.shaped(
            self.apply("Transpose", self.value, perm=[2, 3, 0, 1]), self.bins, 1, self.channels
        )
        halves = [self.name() + part for part in "ab"]
        self.nodes.append(helper.make_node("Split", [rows], halves, axis=2))
        results = []
        for part in halves:
            y = self.apply(
                "GRU",
                part,
                self.weights(directions, 3 * hidden, half),
                self.weights(directions, 3 * hidden, hidden),
                self.weights(directions, 6 * hidden),
                hidden_size=hidden,
                linear_before_reset=1,
                direction="bidirectional" if both else "forward",
            )
            y = self.shaped(
                self.apply("Transpose", y, perm=[0, 2, 1, 3]), self.bins, 1, directions * hidden
            )
            results.append(self.apply("MatMul", y, self.weights(directions * hidden, half)))
        y = self.apply("Concat", *results, axis=2)
        if self.random.random() < 0.5:
            y = self.apply(
                "LayerNormalization",
                y,
                self.weights(self.channels),
                self.weights(self.channels),
                axis=-1,
            )
        y = self.shaped(self.apply("Transpose", y, perm=[1, 2, 0]), 1, self.channels, 1, self.bins)
        self.value = self.apply("Add", self.value, y)

    def model(self):
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
            for name, array in self.inputs.items()
        ]
        results = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4)
            for name in self.outputs
        ]
        graph = helper.make_graph(self.nodes, "enhancer", infos, results, self.constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()


def compare(seed, target, tolerance, threads):
    network = Network(seed)
    model = network.model()
    module = tc.compile(model, target=target, tolerance=tolerance, threads=threads)
    if target == "rv64gcv":
        return
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for ours, expected in zip(
        module.run(network.inputs).values(), session.run(None, network.inputs)
    ):
        assert worst_error(ours, expected) <= 1e-4


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_random_network(seed):
    """Each in one of the ways; what runs under qemu is compiled only."""
    ways = [
        (target, tolerance, threads)
        for target in ("native", "x86-64-v3", "rv64gcv")
        for tolerance in (0, 1e-4)
        for threads in (1, 2)
    ]
    compare(seed, *ways[seed % len(ways)])


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2, 5])
@pytest.mark.parametrize("tolerance", [0, 1e-4])
def test_transposed_convolution_over_a_cache(frames, dilation, tolerance):
    """Rows of the cache add to results that are dilation rows apart, so that the loop over them
    steps by as many."""
    numbers = numpy.random.default_rng(dilation)
    x = numbers.standard_normal((1, 8, frames + 2 * dilation, 33)).astype(numpy.float32)
    w = numbers.standard_normal((8, 4, 3, 5)).astype(numpy.float32)
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w"],
        ["y"],
        group=2,
        strides=[1, 2],
        dilations=[dilation, 1],
        pads=[2 * dilation, 2, 2 * dilation, 2],
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )[0]
    for threads in (1, 2):
        assert (
            worst_error(tc.compile(model, tolerance=tolerance, threads=threads)(x), expected)
            <= 1e-5
        )
    tc.compile(model, target="rv64gcv", tolerance=tolerance)
