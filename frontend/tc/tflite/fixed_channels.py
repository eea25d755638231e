"""Removes the channels of convolutions that have one value whatever the model's input is.

Training leaves channels that are never active: their sums, however large, round to one integer, or
the activation clamps all of them to zero. What such a channel adds to the sums of the next
convolution is a constant, which goes to that one's constants; nothing else has to be computed or
stored. The results of the model stay the same, bit for bit.

Only channels between convolutions of 8-bit integers are removed, whose tensor nothing else reads. A
convolution that pads its operand needs channels that are zero, since borders lack their products.
"""

import collections
import dataclasses

import numpy as np

from .describe import Refusal, Value
from .file import Tensor
from .operators import row_of
from .operators.integers import ends, farthest, units
from .operators.quantised import Layer
from .operators.rescaling import multiplier_of, results_between
from .operators.table import Call

# As many channels as stay are a multiple of this, so that they fill the blocks of channels in which
# targets store them.
_BLOCK = 4


class _Convolution:
    """An operator, its tensors' numbers, and its weights: sums over the window by output and input
    channel, or by channel where each channel has a window of its own."""

    def __init__(self, operator, tensors):
        inputs = [Value(tensors[number]) if number >= 0 else None for number in operator.inputs]
        call = Call(row_of(operator.name), operator, inputs, [Value(tensors[operator.outputs[0]])])
        self.operator, self.own_windows = operator, operator.name == "DEPTHWISE_CONV_2D"
        self.x, self.out = operator.inputs[0], operator.outputs[0]
        x, weights, _ = call.inputs
        axis = 3 if self.own_windows else 0
        data = call.constant(1, "the list of weights")
        fits = x.dtype == weights.dtype == "i8" and data.ndim == len(x.shape) == 4
        if not fits or data.shape[3] != x.shape[3] or (self.own_windows and data.shape[0] != 1):
            raise Refusal("it is no convolution of this kind")
        layer = Layer(call, call.inputs, np.moveaxis(data, axis, 0), axis)
        if len(layer.reals) != len(layer.numbers):
            raise Refusal("its channels have one scale")
        self.factors = [multiplier_of(real) for real in layer.reals]
        self.added, self.zero, self.farthest = layer.added, units(x)[1], farthest(x)
        self.zero_out, self.limits = units(call.out)[1], ends(call, call.out)
        whole = data.astype(np.int64)
        self.sums, self.reach = (
            each.sum((0, 1, 2)) if self.own_windows else each.sum((1, 2))
            for each in (whole, np.abs(whole))
        )
        self.has_borders = call.padding != "VALID" and data.shape[1:3] != (1, 1)

    def is_constant(self, value):
        """Whether an input channel of this value adds the same to all results."""
        return value == self.zero or not self.has_borders

    def products_of(self, known):
        """(what the input channels with known values add to each sum, how far the others reach)."""
        channels = [channel for channel, value in known.items() if self.is_constant(value)]
        values = np.array([known[channel] - self.zero for channel in channels], np.int64)
        reach, added = self.reach.copy(), np.zeros(len(self.added), np.int64)
        reach[..., channels] = 0
        if self.own_windows:
            added[channels] = self.sums[channels] * values
        else:
            added, reach = self.sums[:, channels] @ values, reach.sum(1)
        return added, reach * self.farthest

    def fixed(self, known):
        """{output channel: the one value that it has}, where input channels have known values."""
        added, reach = self.products_of(known)
        middle, (low, high) = self.added + added, self.limits
        pairs = results_between(self.factors, middle - reach, middle + reach)
        found = {}
        for channel, pair in enumerate(pairs):
            least, most = (min(max(each + self.zero_out, low), high) for each in pair)
            if least == most:
                found[channel] = least
        return found


def _convolutions(graph):
    """{number of the result: the convolution}, of those that read what is made before."""
    found, made = {}, set(graph.inputs)
    for operator in graph.operators:
        ready = bool(operator.inputs) and operator.inputs[0] in made
        fresh = len(operator.outputs) == 1 and operator.outputs[0] not in made
        made.update(operator.outputs)
        if operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D") or not ready or not fresh:
            continue
        try:
            found[operator.outputs[0]] = _Convolution(operator, graph.tensors)
        except Refusal:
            pass  # it is described, or refused, as it is
    return found


def _removable(graph, found):
    """{tensor: its channels that can be removed}, and {tensor: {channel: value}} of all channels
    that have one value."""
    readers = collections.Counter(
        number for operator in graph.operators for number in operator.inputs
    )
    readers.update(graph.outputs)
    known, gone = {}, {}
    for number, convolution in found.items():
        known[number] = convolution.fixed(known.get(convolution.x, {}))

    def divides(number):
        """Whether the tensor's channels can be removed where it is made."""
        maker = found.get(number)
        if maker is None or readers[number] != 1 or number in graph.inputs:
            return False
        return not maker.own_windows or divides(maker.x)

    for number, convolution in reversed(found.items()):
        x = convolution.x
        if not divides(x):
            continue
        if convolution.own_windows:
            gone[x] = gone.get(number, [])
            continue
        values = known[x]
        channels = sorted(each for each in values if convolution.is_constant(values[each]))
        left = graph.tensors[x].shape[3] - len(channels)
        stay = max(_BLOCK, -(-left // _BLOCK) * _BLOCK) - left
        gone[x] = channels[stay:]
    return {number: channels for number, channels in gone.items() if channels}, known


def without_fixed_channels(graph):
    """The graph without these channels."""
    found = _convolutions(graph)
    gone, known = _removable(graph, found)
    if not gone:
        return graph
    tensors, operators = list(graph.tensors), list(graph.operators)

    def add(tensor):
        tensors.append(tensor)
        return len(tensors) - 1

    for number, channels in gone.items():
        shape = list(tensors[number].shape)
        shape[3] -= len(channels)
        tensors[number] = dataclasses.replace(tensors[number], shape=tuple(shape))
    for number, convolution in found.items():
        out, inner = gone.get(number, []), gone.get(convolution.x, [])
        if not out and not inner:
            continue
        inputs = list(convolution.operator.inputs)
        axis = 3 if convolution.own_windows else 0
        weights = _without(graph.tensors[inputs[1]], axis, out)
        added = convolution.added
        if not convolution.own_windows and inner:
            weights = dataclasses.replace(weights, data=np.delete(weights.data, inner, 3))
            values = known[convolution.x]
            added = added + convolution.products_of({each: values[each] for each in inner})[0]
        weights = dataclasses.replace(weights, shape=weights.data.shape)
        added = np.delete(added, out)
        constants = Tensor(f"{weights.name}.added", "INT32", added.shape, None, None, False)
        constants.data = added.astype(np.int32)
        inputs[1:] = [add(weights), add(constants)]
        place = operators.index(convolution.operator)
        operators[place] = dataclasses.replace(convolution.operator, inputs=inputs)
    return dataclasses.replace(graph, tensors=tensors, operators=operators)


def _without(tensor, axis, channels):
    """The weights without these indices of the axis, along which they have scales."""
    found = tensor.quantisation
    return dataclasses.replace(
        tensor,
        data=np.delete(tensor.data, channels, axis),
        quantisation=dataclasses.replace(
            found,
            scale=np.delete(found.scale, channels),
            zero_point=np.delete(found.zero_point, channels)
            if len(found.zero_point) == len(found.scale)
            else found.zero_point,
        ),
    )
