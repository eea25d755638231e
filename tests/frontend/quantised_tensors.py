"""Tensors of a graph that is drawn (quantised_graphs.py): nodes that make them, and the least and
the largest integers that each may have."""

import numpy
import torch
from onnx import helper, numpy_helper

# Of a step, from halfway between two: float32 may round either way there. And how wrong a float32
# may be, per step.
TIE, RELATIVE = 2e-3, 1e-6
MICROSOFT = "com.microsoft"


class Quantised:
    """A tensor of the graph: its least and largest integers, and what they mean."""

    def __init__(self, name, low, high, scale, zero):
        self.name, self.low, self.high = name, low, high
        self.scale, self.zero = numpy.float32(scale), zero

    @property
    def shape(self):
        return self.low.shape

    def reals(self):
        return [
            (each.astype(numpy.float64) - float(self.zero)) * float(self.scale)
            for each in (self.low, self.high)
        ]


def between(corners):
    return numpy.minimum.reduce(corners), numpy.maximum.reduce(corners)


def window(x, kind, size, stride, pads):
    """Pooling of float64; means leave padding out."""
    x = torch.from_numpy(x)
    worst = -numpy.inf if kind == "MaxPool" else 0.0
    padded = torch.nn.functional.pad(x, (pads[1], pads[3], pads[0], pads[2]), value=worst)
    if kind == "MaxPool":
        return torch.nn.functional.max_pool2d(padded, size, stride).numpy()
    inside = torch.nn.functional.pad(torch.ones_like(x), (pads[1], pads[3], pads[0], pads[2]))
    sums, counts = (torch.nn.functional.avg_pool2d(each, size, stride) for each in (padded, inside))
    return (sums / counts).numpy()


def activation(name, x, attributes):
    if name == "Relu":
        return numpy.maximum(x, 0)
    if name == "Clip":
        return numpy.clip(x, 0, 6)
    if name == "LeakyRelu":
        return numpy.where(x < 0, x * attributes["alpha"], x)
    if name == "Sigmoid":
        return 0.5 + 0.5 * numpy.tanh(x / 2)
    if name == "Tanh":
        return numpy.tanh(x)
    return x * numpy.clip(x / 6 + 0.5, 0, 1)  # HardSwish


def numbers_of_type(random, kind, shape, share_at_ends):
    """Whole numbers over all that the type has; in this share of the arrays all are its least or
    its largest."""
    info = numpy.iinfo(kind)
    drawn = random.integers(info.min, info.max + 1, shape)
    if random.random() < share_at_ends:
        drawn = numpy.where(random.random(shape) < 0.5, info.min, info.max)
    return drawn.astype(kind)


class Tensors:
    """The first input of a graph, and what adds further inputs, constants, nodes and tensors."""

    def __init__(self, seed, slack=0):
        self.random, self.slack = numpy.random.default_rng([271, seed]), slack
        self.nodes, self.constants, self.inputs, self.count = [], [], {}, 0
        self.tensors = [
            self.input(
                (
                    1,
                    int(self.random.choice([1, 3, 4, 8, 16, 24, 32])),
                    *map(int, self.random.integers(4, 15, 2)),
                )
            )
        ]

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, array):
        name = self.fresh("c")
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def node(self, operator, inputs, outputs=1, **attributes):
        names = [self.fresh("v") for _ in range(outputs)]
        if operator.startswith("QLinear"):
            attributes["domain"] = MICROSOFT
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def zero(self, kind):
        info = numpy.iinfo(kind)
        return kind(
            self.random.choice(
                [0, info.min, info.max, *self.random.integers(info.min, info.max + 1, 3)]
            )
        )

    def numbers(self, kind, shape):
        return numbers_of_type(self.random, kind, shape, share_at_ends=0.2)

    def input(self, shape):
        name, kind = self.fresh("x"), self.random.choice([numpy.uint8, numpy.uint8, numpy.int8])
        self.inputs[name] = drawn = self.numbers(kind, shape)
        return Quantised(
            name,
            drawn,
            drawn,
            self.random.choice([2e-3, 0.05, 1.0]) * self.random.uniform(0.5, 2),
            self.zero(kind),
        )

    def floats(self, tensor):
        """The name of the dequantised tensor, which each reader computes for itself, as quantisers
        write it."""
        return self.node(
            "DequantizeLinear",
            [tensor.name, self.constant(tensor.scale), self.constant(tensor.zero)],
        )

    def units(self, tensor):
        """The names of the constants that say what integers mean."""
        return [self.constant(tensor.scale), self.constant(tensor.zero)]

    def quantise(self, value, reals, like=None):
        """The tensor that a value of floats becomes, in units of its own or of another tensor;
        `value` is its name, or (operator, inputs, attributes) of one that takes the result's units
        behind its inputs, before them where `inputs` begins with None."""
        low, high = reals
        if like is None:
            kind = self.random.choice([numpy.uint8, numpy.int8])
            largest = max(float(numpy.abs(low).max()), float(numpy.abs(high).max()))
            scale, zero = (
                numpy.float32(largest / 200 * self.random.choice([1.0, 1.0, 0.3]) + 1e-6),
                self.zero(kind),
            )
        else:
            kind, scale, zero = like.low.dtype.type, like.scale, like.zero
        info, ends = numpy.iinfo(kind), []
        units = [self.constant(scale), self.constant(zero)]
        if isinstance(value, str):
            name = self.node("QuantizeLinear", [value, *units])
        else:
            operator, inputs, attributes = value
            name = self.node(
                operator,
                [*units, *inputs[1:]] if inputs[0] is None else [*inputs, *units],
                **attributes,
            )
        for real, side in ((low, -1), (high, 1)):
            steps = real / float(scale) + float(zero)
            ends.append(
                numpy.clip(
                    numpy.rint(steps + side * (TIE + RELATIVE * numpy.abs(steps)))
                    + side * self.slack,
                    info.min,
                    info.max,
                ).astype(kind)
            )
        self.tensors.append(Quantised(name, *ends, scale, zero))

    def another(self, x):
        """A tensor of the shape of x, perhaps x itself."""
        fitting = [each for each in self.tensors if each.shape == x.shape and each is not x]
        if fitting and self.random.random() < 0.7:
            return fitting[self.random.integers(len(fitting))]
        if self.random.random() < 0.15:
            return x
        self.tensors.insert(0, self.input(x.shape))
        return self.tensors[0]

    def of_kind(self, x):
        """The same integers' type for the result, as the operators of this domain have it."""
        scale = numpy.float32(float(x.scale) * self.random.uniform(0.5, 2))
        return Quantised("", x.low, x.high, scale, self.zero(x.low.dtype.type))

    def weights(self, shape, axis):
        """(name of the dequantised weights, their reals, scale of each channel)."""
        kind = self.random.choice([numpy.int8, numpy.int8, numpy.uint8])
        scales = self.random.uniform(
            1e-3, 2e-2, shape[axis] if self.random.random() < 0.6 else ()
        ).astype(numpy.float32)
        drawn, zero = self.numbers(kind, shape), kind(128 if kind is numpy.uint8 else 0)
        names = [
            self.constant(drawn),
            self.constant(scales),
            self.constant(numpy.full(scales.shape, zero)),
        ]
        along = [1] * len(shape)
        along[axis] = -1
        each = numpy.broadcast_to(scales, (shape[axis],))
        real = (drawn.astype(numpy.float64) - float(zero)) * each.astype(numpy.float64).reshape(
            along
        )
        return self.node("DequantizeLinear", names, axis=axis), real, each

    def bias(self, x, scales):
        """(name or none, the reals); integers in units of the products mostly, else floats."""
        draw = self.random.random()
        if draw < 0.3:
            return [], numpy.zeros(len(scales))
        if draw < 0.4:
            numbers = self.random.uniform(-1, 1, len(scales)).astype(numpy.float32)
            return [self.constant(numbers)], numbers.astype(numpy.float64)
        numbers, units = (
            self.random.integers(-5000, 5000, len(scales)).astype(numpy.int32),
            (x.scale * scales).astype(numpy.float32),
        )
        name = self.node("DequantizeLinear", [self.constant(numbers), self.constant(units)], axis=0)
        return [name], numbers.astype(numpy.float64) * units.astype(numpy.float64)

    def linear(self, x, weights, apply):
        """The least and largest results of what is linear in x and in the weights."""
        low, high = x.reals()
        if (x.low == x.high).all():
            return [apply(low, weights)] * 2
        above, below = numpy.maximum(weights, 0), numpy.minimum(weights, 0)
        return [apply(low, above) + apply(high, below), apply(high, above) + apply(low, below)]

    def finish_sum(self, value, reals):
        if self.random.random() < 0.4:
            value, reals = self.node("Relu", [value]), [numpy.maximum(each, 0) for each in reals]
        self.quantise(value, reals)
