"""Draws networks of feature maps with one, two or three spatial axes, as ONNX models, and compares
what tc makes of them with PyTorch in float64.

    python -m tests.frontend.random_maps [--first 0] [--count 200] [--axes 3] [--target native]
                                         [--vlen 128 256] [--tolerance 0]

A network begins with convolutions, whose results the compiler stores in blocks of channels, and
goes on with what reads and makes such maps, and with what does not: borders between layouts are
where mistakes would be. Channels are mostly no multiple of a block; windows have strides,
dilations, groups and borders that differ from side to side.
"""

import argparse
import tempfile
from pathlib import Path

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

import tc

from ..support import output_file, run_under_qemu, worst_error

CHANNELS = (1, 3, 4, 8, 12, 16, 20, 24, 32, 33, 40, 48, 64)
SIZES = {1: (5, 8, 17, 33), 2: (3, 5, 8, 13), 3: (2, 3, 5, 7)}
MAX_ELEMENTS = 30000
LIMIT = 1e-5  # of the error, relative to the largest magnitude of an output


class Network:
    """A network as it is drawn; `values` holds the maps so far with their exact results."""

    def __init__(self, seed, axes=None):
        self.random = numpy.random.default_rng(seed)
        self.axes = axes or self.integer(1, 3)
        self.nodes, self.constants, self.values = [], {}, []
        shape = (
            self.choice((1, 1, 2, 3)),
            self.choice(CHANNELS),
            *(self.choice(SIZES[self.axes]) for _ in range(self.axes)),
        )
        self.inputs = {"x": self.random.standard_normal(shape).astype(numpy.float32)}
        self.values.append(("x", torch.from_numpy(self.inputs["x"]).double()))
        self.convolution()
        for _ in range(self.integer(3, 10)):
            self.choice(OPERATORS)(self)
        read = {name for node in self.nodes for name in node.input}
        self.outputs = {
            name: exact.numpy()
            for name, exact in self.values
            if name not in read or self.chance(0.1)
        }

    def integer(self, low, high):
        return int(self.random.integers(low, high + 1))

    def chance(self, probability):
        return bool(self.random.random() < probability)

    def choice(self, options):
        return options[self.integer(0, len(options) - 1)]

    def each_axis(self, low, high):
        return [self.integer(low, high) for _ in range(self.axes)]

    def map(self):
        """A map that is there, the last ones most often."""
        return self.values[max(self.integer(0, len(self.values) - 1) for _ in range(3))]

    def constant(self, *shape, scale=1.0):
        """The name of random numbers, and their values in float64."""
        name = f"c{len(self.constants)}"
        self.constants[name] = (self.random.standard_normal(shape) * scale).astype(numpy.float32)
        return name, torch.from_numpy(self.constants[name]).double()

    def node(self, operator, inputs, *exact, **attributes):
        """Adds a node with these results, unless they have no elements or too many."""
        if any(not 0 < result.numel() <= MAX_ELEMENTS for result in exact):
            return
        names = [f"v{len(self.nodes)}_{i}" for i in range(len(exact))]
        self.nodes.append(helper.make_node(operator, inputs, names, name=names[0], **attributes))
        self.values += zip(names, exact)

    def window(self, exact):
        """Extents, strides and dilations of a window, and the borders it needs to have a place in
        the map."""
        kernel, strides, dilations = (
            self.each_axis(1, 3),
            self.each_axis(1, 2),
            self.each_axis(1, 2),
        )
        pads = self.each_axis(0, 2) + self.each_axis(0, 2)
        for axis, size in enumerate(exact.shape[2:]):
            missing = (
                (kernel[axis] - 1) * dilations[axis]
                + 1
                - size
                - pads[axis]
                - pads[self.axes + axis]
            )
            pads[axis] += max(0, missing)
        return kernel, strides, dilations, pads

    def groups(self, channels):
        return (
            channels
            if self.chance(0.25)
            else self.choice([count for count in (1, 1, 1, 2, 4) if channels % count == 0])
        )

    def convolution(self):
        name, exact = self.map()
        channels, (kernel, strides, dilations, pads) = exact.shape[1], self.window(exact)
        groups = self.groups(channels)
        features = (
            channels
            if groups == channels
            else self.choice([each for each in CHANNELS if each % groups == 0])
        )
        weights, w = self.constant(
            features,
            channels // groups,
            *kernel,
            scale=(channels // groups * numpy.prod(kernel)) ** -0.5,
        )
        bias, b = self.constant(features)
        result = convolve(padded(exact, pads, 0.0), w, b, strides, dilations, groups)
        self.node(
            "Conv",
            [name, weights, bias],
            result,
            strides=strides,
            dilations=dilations,
            pads=pads,
            group=groups,
        )

    def wide_depthwise(self):
        name, exact = self.map()
        channels, kernel = exact.shape[1], [self.choice((5, 7)) for _ in range(self.axes)]
        pads = [size // 2 for size in kernel] * 2
        ones = [1] * self.axes
        weights, w = self.constant(channels, 1, *kernel, scale=numpy.prod(kernel) ** -0.5)
        result = convolve(padded(exact, pads, 0.0), w, None, ones, ones, channels)
        self.node("Conv", [name, weights], result, pads=pads, group=channels)

    def transposed_convolution(self):
        name, exact = self.map()
        channels, features, kernel, strides = (
            exact.shape[1],
            self.choice(CHANNELS),
            self.each_axis(1, 3),
            self.each_axis(1, 2),
        )
        weights, w = self.constant(
            channels, features, *kernel, scale=(channels * numpy.prod(kernel)) ** -0.5
        )
        function = (
            functional.conv_transpose1d,
            functional.conv_transpose2d,
            functional.conv_transpose3d,
        )[self.axes - 1]
        self.node(
            "ConvTranspose", [name, weights], function(exact, w, stride=strides), strides=strides
        )

    def maximum(self):
        name, exact = self.map()
        kernel, strides, dilations, _ = self.window(exact)
        kernel = [min(size, extent) for size, extent in zip(kernel, exact.shape[2:])]
        dilations = [
            1 if (size - 1) * step >= extent else step
            for size, step, extent in zip(kernel, dilations, exact.shape[2:])
        ]
        pads = [self.integer(0, size - 1) for size in kernel * 2]
        function = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[
            self.axes - 1
        ]
        result = function(padded(exact, pads, -numpy.inf), kernel, strides, 0, dilations)
        self.node(
            "MaxPool",
            [name],
            result,
            kernel_shape=kernel,
            strides=strides,
            dilations=dilations,
            pads=pads,
        )

    def average(self):
        name, exact = self.map()
        kernel = [min(self.integer(1, 3), extent) for extent in exact.shape[2:]]
        strides, borders, count = (
            self.each_axis(1, 2),
            [self.integer(0, size // 2) for size in kernel],
            self.integer(0, 1),
        )
        function = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[
            self.axes - 1
        ]
        result = function(exact, kernel, strides, borders, count_include_pad=bool(count))
        self.node(
            "AveragePool",
            [name],
            result,
            kernel_shape=kernel,
            strides=strides,
            pads=borders * 2,
            count_include_pad=count,
        )

    def normalisation(self):
        name, exact = self.map()
        (scale, s), (shift, b), (mean, m), (variance, v) = (
            self.constant(exact.shape[1]) for _ in range(4)
        )
        self.constants[variance] = numpy.abs(self.constants[variance]) + numpy.float32(0.5)
        v = torch.from_numpy(self.constants[variance]).double()
        self.node(
            "BatchNormalization",
            [name, scale, shift, mean, variance],
            functional.batch_norm(exact, m, v, s, b, eps=0.001),
            epsilon=0.001,
        )

    def response(self):
        name, exact = self.map()
        size = self.choice((3, 5))
        squares = (
            functional.pad((exact * exact).movedim(1, -1), (size // 2, size // 2))
            .unfold(-1, size, 1)
            .sum(-1)
            .movedim(-1, 1)
        )
        self.node(
            "LRN",
            [name],
            exact * (1 + 0.5 / size * squares) ** -0.75,
            size=size,
            alpha=0.5,
            beta=0.75,
            bias=1.0,
        )

    def activation(self):
        name, exact = self.map()
        operator, function = self.choice(
            (
                ("Relu", torch.relu),
                ("Sigmoid", torch.sigmoid),
                ("Tanh", torch.tanh),
                ("HardSwish", functional.hardswish),
                ("Abs", torch.abs),
            )
        )
        self.node(operator, [name], function(exact))

    def two_maps(self):
        """Of one shape, or where one has a size of 1 and the other has not."""
        name, exact = self.map()
        fits = [
            each
            for each in self.values
            if len(each[1].shape) == len(exact.shape)
            and all(a == b or 1 in (a, b) for a, b in zip(each[1].shape, exact.shape))
        ]
        other, second = self.choice(fits)
        operator, function = self.choice(
            (("Add", torch.add), ("Mul", torch.mul), ("Sub", torch.sub), ("Max", torch.maximum))
        )
        self.node(operator, [name, other], function(exact, second))

    def constant_operand(self):
        """For each channel, each place, or a plane through channels: of the map's rank or of a
        smaller one."""
        name, exact = self.map()
        shape = [size if self.chance(0.5) else 1 for size in exact.shape]
        while len(shape) > 1 and self.chance(0.2):
            shape = shape[1:]
        if self.chance(0.5):
            shape = [exact.shape[1], *([1] * self.axes)]
        other, second = self.constant(*shape)
        self.node("Add", [name, other], exact + second)

    def joined(self):
        name, exact = self.map()
        axis = self.choice((1, 1, 1, self.axes + 1))
        fits = [
            each
            for each in self.values
            if len(each[1].shape) == len(exact.shape)
            and all(a == b for i, (a, b) in enumerate(zip(each[1].shape, exact.shape)) if i != axis)
        ]
        other, second = self.choice(fits)
        self.node(
            "Concat",
            [name, other],
            torch.cat([exact, second], axis),
            axis=self.choice((axis, axis - self.axes - 2)),
        )

    def parts(self):
        name, exact = self.map()
        axis = self.integer(1, self.axes + 1)
        if exact.shape[axis] < 2:
            return
        first = self.integer(1, exact.shape[axis] - 1)
        sizes = f"c{len(self.constants)}"
        self.constants[sizes] = numpy.array([first, exact.shape[axis] - first])
        self.node(
            "Split",
            [name, sizes],
            *torch.split(exact, self.constants[sizes].tolist(), axis),
            axis=axis,
        )

    def mean(self):
        """Of each channel, which may scale the map that it is the mean of."""
        name, exact = self.map()
        result = exact.mean(dim=tuple(range(2, self.axes + 2)), keepdim=True)
        self.node("GlobalAveragePool", [name], result)
        if self.chance(0.7):
            self.node("Mul", [name, self.values[-1][0]], exact * self.values[-1][1])

    def larger(self):
        name, exact = self.map()
        factors = self.each_axis(1, 2)
        scales = f"c{len(self.constants)}"
        self.constants[scales] = numpy.array([1, 1, *factors], numpy.float32)
        for axis, factor in enumerate(factors):
            exact = exact.repeat_interleave(factor, axis + 2)
        self.node(
            "Resize",
            [name, "", scales],
            exact,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def moved(self):
        """Channels become the last axis, are normalised there, and come back."""
        name, exact = self.map()
        there, back = [0, *range(2, self.axes + 2), 1], [0, self.axes + 1, *range(1, self.axes + 1)]
        self.node("Transpose", [name], exact.permute(there), perm=there)
        name, exact = self.values.pop()
        self.node("Softmax", [name], exact.softmax(-1), axis=-1)
        name, exact = self.values.pop()
        self.node("Transpose", [name], exact.permute(back), perm=back)

    def model(self):
        def port(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [port(name, array.shape) for name, array in self.inputs.items()],
            [port(name, array.shape) for name, array in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(model)
        return model.SerializeToString()


OPERATORS = (
    4 * [Network.convolution]
    + 2 * [Network.wide_depthwise]
    + [
        Network.transposed_convolution,
        Network.maximum,
        Network.average,
        Network.normalisation,
        Network.response,
        Network.activation,
        Network.activation,
        Network.two_maps,
        Network.two_maps,
        Network.constant_operand,
        Network.joined,
        Network.parts,
        Network.mean,
        Network.larger,
        Network.moved,
    ]
)


def padded(exact, pads, value):
    """`pads` as ONNX has them: before each axis, then behind each."""
    axes = len(pads) // 2
    return functional.pad(
        exact,
        [pads[side * axes + axis] for axis in reversed(range(axes)) for side in (0, 1)],
        value=value,
    )


def convolve(exact, weights, bias, strides, dilations, groups):
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[len(strides) - 1]
    return function(exact, weights, bias, strides, 0, dilations, groups)


def run(network, target, vlen=None, tolerance=0.0):
    module = tc.compile(network.model(), target=target, threads=1, tolerance=tolerance, log=False)
    if vlen is None:
        return module.run(network.inputs)
    with tempfile.TemporaryDirectory() as folder:
        module.export(str(Path(folder) / "network"), kind="executable")
        outputs = run_under_qemu(
            Path(folder) / "network", network.inputs, folder, vlen, arguments=["--threads", "1"]
        )
        return {name: outputs[output_file(name)] for name in network.outputs}


def what_is_wrong(network, results, tolerance=0.0):
    """A sentence for each output that is too far from its exact values."""
    errors = {name: worst_error(results[name], exact) for name, exact in network.outputs.items()}
    return [
        f"output {name} has an error of {error:.3g}"
        for name, error in errors.items()
        if not error <= LIMIT + tolerance
    ]


def compare(seeds, axes=None, target="native", vlen=None, tolerance=0.0):
    """A sentence for each network of these seeds with a wrong output."""
    wrong = []
    for seed in seeds:
        network = Network(seed, axes)
        found = what_is_wrong(network, run(network, target, vlen, tolerance), tolerance)
        wrong += [
            f"network {seed} of {network.axes} axes on {target}{f' of {vlen} bits' if vlen else ''}: {each}"
            for each in found
        ]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--axes", type=int)
    parser.add_argument("--target", default="native")
    parser.add_argument("--vlen", type=int, nargs="*", default=[None])
    parser.add_argument("--tolerance", type=float, default=0.0)
    given = parser.parse_args()
    wrong = [
        each
        for vlen in given.vlen
        for each in compare(
            range(given.first, given.first + given.count),
            given.axes,
            given.target,
            vlen,
            given.tolerance,
        )
    ]
    print(*wrong, f"{given.count} networks, {len(wrong)} wrong outputs", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
