"""Chains of kernels in bands of rows: the same results in less memory (frontend/pipeline/bands.cc).

Weights and inputs are small whole numbers, so that sums in float32 are exact in any order."""

import re

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..bench import small_mobilenet


class Network:
    """A network of maps, of which each layer reads the last value or an earlier one."""

    def __init__(self, random, shape):
        self.random = random
        self.nodes, self.weights = [], []
        self.shape, self.value = list(shape), "x"
        self.first = list(shape)
        self.earlier = []

    def add(self, kind, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self.value = name
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def convolution(self, channels, window, stride=1, dilation=1, pads=None, depthwise=False):
        _, old, height, width = self.shape
        if pads is None:
            pads = [int(each) for each in self.random.integers(0, window, 4)]
        sizes = [
            (size + pads[axis] + pads[axis + 2] - dilation * (window - 1) - 1) // stride + 1
            for axis, size in enumerate((height, width))
        ]
        if min(sizes) < 4:
            return
        groups = old if depthwise else 1
        channels = old if depthwise else channels
        weights = self.random.integers(-1, 2, (channels, old // groups, window, window))
        inputs = [self.value, self.constant(weights.astype(numpy.float32))]
        self.add(
            "Conv", inputs, strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, group=groups
        )
        self.shape = [1, channels, *sizes]
        # Keeps the numbers small.
        self.add(
            "Clip",
            [
                self.value,
                self.constant(numpy.float32(-4).reshape(())),
                self.constant(numpy.float32(4).reshape(())),
            ],
        )

    def pooling(self, stride):
        _, channels, height, width = self.shape
        self.add(
            "MaxPool", [self.value], kernel_shape=[3, 3], strides=[stride] * 2, pads=[1, 1, 1, 1]
        )
        self.shape = [1, channels, (height - 1) // stride + 1, (width - 1) // stride + 1]

    def look_up(self, entries):
        table = self.random.integers(-3, 4, entries).astype(numpy.float32)
        self.add("Abs", [self.value])
        self.add("Cast", [self.value], to=TensorProto.INT64)
        self.add("Gather", [self.constant(table), self.value], axis=0)

    def remember(self):
        self.earlier.append((self.value, list(self.shape)))

    def add_earlier(self):
        for value, shape in self.earlier:
            if shape == self.shape and value != self.value:
                self.add("Add", [self.value, value])
                return

    def model(self):
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.first)],
            [helper.make_tensor_value_info(self.value, TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
        ).SerializeToString()

    def sample(self):
        return self.random.integers(-2, 3, self.first).astype(numpy.float32)


def inverted_residuals(random):
    network = Network(random, [1, 3, 40, 36])
    network.convolution(8, 3, stride=2, pads=[0, 0, 1, 1])
    for stride in (1, 1, 2, 1):
        old = network.shape[1]
        network.remember()
        network.convolution(6 * old, 1, pads=[0] * 4)
        network.convolution(0, 3, stride=stride, pads=[1] * 4, depthwise=True)
        network.convolution(old, 1, pads=[0] * 4)
        network.add_earlier()
    network.convolution(4, 1, pads=[0] * 4)
    return network


def drawn(random):
    network = Network(
        random, [1, int(random.integers(1, 6)), *map(int, random.integers(20, 44, 2))]
    )
    for _ in range(random.integers(4, 9)):
        kind = random.choice(["convolution", "pointwise", "depthwise", "pooling", "add"])
        if kind == "convolution":
            network.convolution(
                int(random.integers(2, 14)),
                int(random.choice([2, 3, 5])),
                int(random.choice([1, 1, 2, 3])),
                int(random.choice([1, 1, 2])),
            )
        elif kind == "pointwise":
            network.convolution(int(random.integers(3, 24)), 1, pads=[0] * 4)
        elif kind == "depthwise":
            network.convolution(0, 3, int(random.choice([1, 2])), depthwise=True)
        elif kind == "pooling":
            network.pooling(int(random.choice([1, 2])))
        else:
            network.add_earlier()
        if random.integers(2):
            network.remember()
    network.convolution(3, 1, pads=[0] * 4)
    return network


def smaller_and_smaller(network, **options):
    """Compiles for less and less memory until the model is refused, and then for the least that the
    refusal names; compares the results. Returns the least and the usual size of the arena, and how
    often kernels ran in bands."""
    data, x = network.model(), network.sample()
    usual = tc.compile(data, log=False, tolerance=0, **options)
    expected, banded = usual(x), 0
    limit, least, refused = usual.memory.peak - 1, usual.memory.arena, False
    while not refused or limit:
        try:
            module = tc.compile(data, log=False, tolerance=0, max_ram=limit, **options)
        except tc.UnsupportedError as error:
            assert f"but it may use {limit} at most; " in str(error) and not refused
            limit, refused = int(re.search(r"or give it at least (\d+) by", str(error))[1]), True
            continue
        assert module.memory.peak <= limit
        numpy.testing.assert_array_equal(module(x), expected)
        banded += "in bands of rows" in module.explain()
        least = module.memory.arena
        limit = 0 if refused else int(0.7 * module.memory.peak)
    return least, usual.memory.arena, banded


@pytest.mark.parametrize("threads", [1, 2])
def test_inverted_residuals(threads):
    network = inverted_residuals(numpy.random.default_rng(3))
    least, usual, banded = smaller_and_smaller(network, threads=threads)
    assert banded >= 2 and least < 0.4 * usual, (least, usual, banded)


def test_drawn_networks():
    banded = [
        smaller_and_smaller(drawn(numpy.random.default_rng(seed)), threads=1)[2]
        for seed in range(6)
    ]
    assert sum(count > 0 for count in banded) >= 3, banded


def test_a_table_that_data_indexes():
    """Which of its elements are read is not known from the rows of a band, so no band reads it."""
    network = Network(numpy.random.default_rng(4), [1, 4, 32, 8])
    network.look_up(16)
    network.convolution(8, 3)
    network.convolution(2, 1, pads=[0] * 4)
    smaller_and_smaller(network, threads=1)


def test_a_small_mobilenet_for_a_microcontroller(tmp_path):
    """311 KB without a limit. The machine's own code gives the same in bands as without."""
    data, options = small_mobilenet.model(), {"quantised": "fast", "log": False}
    module = tc.compile(data, target="cortex-m4", max_ram="128KB", **options)
    sizes = module.export(tmp_path / "model.o", kind="bare")
    assert sizes["arena"] + sizes["zeros"] + sizes["stack"] <= 128_000
    x = numpy.random.default_rng(5).integers(-128, 128, (1, 3, 144, 144)).astype(numpy.int8)
    usual = tc.compile(data, threads=1, **options)
    banded = tc.compile(
        data, threads=1, max_ram=usual.memory.constants + usual.memory.arena // 3, **options
    )
    assert "in bands of rows" in banded.explain()
    numpy.testing.assert_array_equal(banded(x), usual(x))


def test_the_refusal_names_the_tensors_and_the_least_memory():
    data = small_mobilenet.model()
    with pytest.raises(tc.UnsupportedError) as refused:
        tc.compile(data, target="cortex-m4", max_ram="30KB", log=False)
    found = re.fullmatch(
        r"model 'small_mobilenet' needs (\d+) bytes to work in, but it may use 30000 at most; most is in use in step '[^']+': '[^']+' \(\d+ bytes\), .*"
        r"or give it at least (\d+) by max_ram \(default: half of this machine's memory\)",
        str(refused.value),
    )
    assert found and found[1] == found[2]
    tc.compile(data, target="cortex-m4", max_ram=int(found[2]), log=False)
