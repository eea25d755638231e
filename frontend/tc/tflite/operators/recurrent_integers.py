"""The step of an LSTM on int8, with cells of int16, bit for bit as TensorFlow Lite's reference
kernels compute it.

Sums over the operand and over the output are separately brought to units of 1 / 4096 in 16 bits.
The gates are functions of these, computed by tables for all 65,536 integers.
"""

import math

import numpy as np

from ..describe import ONNX_NUMBERS, Refusal
from . import fixed_point
from .integers import need_integers, units
from .rescaling import rescaled

_GATE_UNITS = np.float32(2.0**-12)


def _short(g, name):
    return g.node("Min", [g.node("Max", [name, g.number(-32768, "i32")]), g.number(32767, "i32")])


def _divided(g, name, shift):
    """By a power of two, halves away from 0."""
    below = g.node("BitShift", [name, g.number(31, "i32")], direction="RIGHT")
    name = g.node("Add", [g.node("Add", [name, below]), g.number(1 << shift >> 1, "i32")])
    return g.node("BitShift", [name, g.number(shift, "i32")], direction="RIGHT")


def _by_table(g, name, table):
    """Looks up an i32 that holds 16 bits in a table."""
    place = g.node("Add", [name, g.number(32768, "i32")])
    return g.node("Cast", [g.node("Gather", [g.constant(table), place])], to=ONNX_NUMBERS["i32"])


class IntegerStep:
    """An LSTM's step on integers; `places` are the positions of operands: weights, recurrent
    weights, peepholes, constants."""

    def __init__(self, g, call, operands, gates, places):
        self.call, self.operands, self.gates, self.places = call, operands, gates, places
        self.x, self.out = operands[0], call.out
        self.output_state, self.cell_state = operands[18], operands[19]
        if any(operands[place] is not None for place in range(20, 24)):
            raise Refusal("integers with normalised gates are not supported")
        if len(call.intermediates) < 5 or call.intermediates[4].tensor.quantisation is None:
            raise Refusal("it does not say how its output is quantised before a projection")
        need_integers(self.x, self.out, self.output_state, types=("i8",))
        need_integers(self.cell_state, types=("i16",))
        fraction, exponent = math.frexp(float(units(self.cell_state)[0]))
        self.cell_bits, self.cell_exponent = 15 + exponent - 1, exponent - 1
        if fraction != 0.5 or not 0 <= self.cell_bits <= 6:
            raise Refusal(
                f"its cells have the scale {float(units(self.cell_state)[0]):g}; a power of two from 1 / 32768 to 1 / 512 is needed"
            )
        self.hidden_scale, self.hidden_zero = units(call.intermediates[4])
        self.cell_clip = int(
            min(np.float32(call.option("CellClip", 0.0)) / units(self.cell_state)[0], 32767)
        )
        self.projection_clip = int(
            min(np.float32(call.option("ProjClip", 0.0)) / units(self.out)[0], 127)
        )

    def weights(self, place, dtype="i8"):
        value = self.operands[place]
        if (
            value.dtype != dtype
            or value.data is None
            or value.tensor.quantisation is None
            or np.any(value.tensor.quantisation.zero_point)
        ):
            raise Refusal(
                f"'{value.tensor.name}' is {value.dtype}; constants of {dtype} with a scale and zero points of 0 are needed here"
            )
        return value.data, units(value)[0]

    def bias(self, place, count):
        value = self.operands[place]
        if value is None:
            return np.zeros(count, np.int64)
        if value.dtype != "i32" or value.data is None or value.shape != (count,):
            raise Refusal(
                f"'{value.tensor.name}' is {value.dtype} of shape {list(value.shape)}; constants of i32 are needed here"
            )
        return value.data.astype(np.int64)

    def sums(self, g, rows, operand, places, with_bias):
        """i32 in units of 1 / 4096: rows, in the units of `operand`, times the weights of all
        gates, which are next to each other; the weights are the operands at `places`."""
        scale, zero = units(operand)
        every, added, reals = [], [], []
        for gate in self.gates:
            numbers, own = self.weights(places[gate])
            bias = self.bias(self.places[3][gate], len(numbers)) if with_bias else 0
            every.append(numbers)
            added.append(bias - zero * numbers.astype(np.int64).sum(1))
            reals += [np.float64(own * scale / _GATE_UNITS)] * len(numbers)
        matrix, added = np.concatenate(every), np.concatenate(added)
        most = np.abs(matrix.astype(np.int64)).sum(1) * 128 + np.abs(added)
        if np.max(most) >= 1 << 31:
            raise Refusal("its sums have no room in 32 bits")
        sums = g.node(
            "Add",
            [
                g.node("MatMulInteger", [rows, g.constant(np.ascontiguousarray(matrix.T))]),
                g.constant(added.astype(np.int32)),
            ],
        )
        return _short(g, rescaled(g, sums, reals, most, (-1,)))

    def of_operand(self, g, rows):
        return self.sums(g, rows, self.x, self.places[0], True)

    def gate(self, g, name, number, cell):
        peephole = self.places[2][number]
        if peephole is not None and self.operands[peephole] is not None:
            numbers, scale = self.weights(peephole, "i16")
            product = g.node("Mul", [cell, g.constant(numbers.astype(np.int32))])
            real = np.float64(
                np.float32(
                    np.float64(2.0**self.cell_exponent)
                    * np.float64(scale)
                    / np.float64(_GATE_UNITS)
                )
            )
            name = _short(g, g.node("Add", [name, rescaled(g, product, real, 1 << 30)]))
        return _by_table(
            g, name, fixed_point.tanh_table(3) if number == 2 else fixed_point.logistic_table()
        )

    def step(self, g, output, cell, from_operand):
        """(output, cells) after a step."""
        sums = _short(
            g,
            g.node(
                "Add",
                [from_operand, self.sums(g, output, self.output_state, self.places[1], False)],
            ),
        )
        count = self.operands[self.places[0][1]].shape[0]
        parts = dict(
            zip(
                self.gates,
                g.node(
                    "Split",
                    [sums, g.ints([count] * len(self.gates))],
                    outputs=len(self.gates),
                    axis=-1,
                ),
            )
        )
        cell = g.node("Cast", [cell], to=ONNX_NUMBERS["i32"])
        forget, candidate = self.gate(g, parts[1], 1, cell), self.gate(g, parts[2], 2, cell)
        let_in = (
            self.gate(g, parts[0], 0, cell)
            if 0 in parts
            else g.node("Sub", [g.number(32767, "i32"), forget])
        )
        kept = _divided(g, g.node("Mul", [forget, cell]), 15)
        added = _divided(g, g.node("Mul", [let_in, candidate]), 30 + self.cell_exponent)
        cell = _short(g, g.node("Add", [kept, added]))
        if self.cell_clip > 0:
            cell = g.node(
                "Min",
                [
                    g.node("Max", [cell, g.number(-self.cell_clip, "i32")]),
                    g.number(self.cell_clip, "i32"),
                ],
            )
        result = g.node(
            "Mul",
            [
                self.gate(g, parts[3], 3, cell),
                _by_table(g, cell, fixed_point.tanh_table(self.cell_bits)),
            ],
        )
        hidden = np.float64(np.float32(2.0**-30 / np.float64(self.hidden_scale)))
        result = rescaled(g, result, hidden, 1 << 30)
        return self.projected(g, result), g.node("Cast", [cell], to=ONNX_NUMBERS["i16"])

    def projected(self, g, name):
        """i8: the output's integers minus their zero point, after the projection if there is
        one."""
        projection = self.operands[16]
        zero = self.hidden_zero if projection is None else -self.hidden_zero
        name = g.node(
            "Min",
            [
                g.node(
                    "Max", [g.node("Add", [name, g.number(zero, "i32")]), g.number(-128, "i32")]
                ),
                g.number(127, "i32"),
            ],
        )
        name = g.node("Cast", [name], to=ONNX_NUMBERS["i8"])
        if projection is None:
            return name
        numbers, scale = self.weights(16)
        out_scale, out_zero = units(self.output_state)
        added = self.bias(17, len(numbers)) + self.hidden_zero * numbers.astype(np.int64).sum(1)
        most = int(np.max(np.abs(numbers.astype(np.int64)).sum(1) * 128 + np.abs(added)))
        sums = g.node(
            "Add",
            [
                g.node("MatMulInteger", [name, g.constant(np.ascontiguousarray(numbers.T))]),
                g.constant(added.astype(np.int32)),
            ],
        )
        sums = g.node(
            "Add",
            [
                rescaled(g, sums, np.float64(scale * self.hidden_scale / out_scale), most),
                g.number(out_zero, "i32"),
            ],
        )
        low, high = (
            (-self.projection_clip, self.projection_clip)
            if self.projection_clip > 0
            else (-128, 127)
        )
        return g.node(
            "Cast",
            [g.node("Min", [g.node("Max", [sums, g.number(low, "i32")]), g.number(high, "i32")])],
            to=ONNX_NUMBERS["i8"],
        )
