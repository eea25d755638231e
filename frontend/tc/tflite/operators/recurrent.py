"""LSTM layers: a step, run over a sequence by a Scan.

What the layer keeps from one run to the next, its output and its cells, are variables in the file.
Weights of 8 bits are treated as in hybrid.py: the other factor is quantised while the model runs,
each row separately.
"""

import numpy as np

from ..describe import ONNX_NUMBERS, Describer, Refusal
from . import hybrid
from .integers import ENDS
from .recurrent_integers import IntegerStep
from .table import operator

_GATES = ("input", "forget", "cell", "output")
# Positions of the operands: weights of the layer's operand, of its own output and of its cells
# (peepholes), constants, and factors of normalised gates.
_INPUT, _RECURRENT, _CELL, _BIAS, _NORM = (
    (1, 2, 3, 4),
    (5, 6, 7, 8),
    (9, 10, None, 11),
    (12, 13, 14, 15),
    (20, 21, 22, 23),
)
_PROJECTION, _PROJECTION_BIAS, _OUTPUT_STATE, _CELL_STATE = 16, 17, 18, 19


class _Layer:
    """An LSTM's operands. `gates` are the numbers of the gates that it computes. Without weights of
    an input gate, that gate is 1 minus the forget gate."""

    def __init__(self, g, call):
        self.g, self.call = g, call
        if len(call.operator.inputs) < 20:
            raise Refusal(
                f"it has {len(call.operator.inputs)} operands, left out ones too, and takes 20 to 24"
            )
        operands = list(call.inputs) + [None] * (24 - len(call.inputs))
        self.operands = operands
        self.x, self.gates = (
            operands[0],
            [number for number in range(4) if operands[_INPUT[number]] is not None],
        )
        self.check_shapes()
        self.cells, self.units = operands[_INPUT[1]].shape[0], operands[_RECURRENT[1]].shape[1]
        self.has_zero_points = bool(call.option("AsymmetricQuantizeInputs"))
        self.cell_clip, self.projection_clip = (
            float(call.option("CellClip", 0.0)),
            float(call.option("ProjClip", 0.0)),
        )

    def check_shapes(self):
        if self.gates not in ([0, 1, 2, 3], [1, 2, 3]):
            raise Refusal(
                f"it has weights of the gates {', '.join(_GATES[each] for each in self.gates)}; all are needed, or all but the input gate's"
            )
        if self.call.option("DiagonalRecurrentTensors"):
            raise Refusal("recurrent weights that are diagonals are not supported")
        if any(
            self.operands[number] is None or self.operands[number].rank != 2
            for number in (_OUTPUT_STATE, _CELL_STATE)
        ):
            raise Refusal("it has no output and cells that it keeps")
        shape, output = self.operands[_INPUT[1]].shape, self.operands[_RECURRENT[1]]
        if len(shape) != 2 or output is None or output.rank != 2:
            raise Refusal("its weights of the forget gate are no matrices")
        row = (shape[0],)
        for number in self.gates:
            needed = ((_INPUT, shape), (_RECURRENT, (shape[0], output.shape[1])), (_BIAS, row))
            left_out = [
                (places, row)
                for places in (_CELL, _NORM)
                if places[number] is not None and self.operands[places[number]] is not None
            ]
            values = [
                (self.operands[places[number]], wanted) for places, wanted in (*needed, *left_out)
            ]
            if any(value is None or value.shape != wanted for value, wanted in values):
                raise Refusal(
                    f"its weights of the {_GATES[number]} gate do not fit those of the others"
                )
        projection, bias = self.operands[_PROJECTION], self.operands[_PROJECTION_BIAS]
        units = output.shape[1]
        if (
            projection.shape != (units, shape[0]) if projection is not None else units != shape[0]
        ) or (bias is not None and bias.shape != (units,)):
            raise Refusal(f"its projection does not fit {shape[0]} cells and {units} outputs")
        if (
            self.operands[_OUTPUT_STATE].shape[1] != units
            or self.operands[_CELL_STATE].shape[1] != shape[0]
        ):
            raise Refusal("it has no output and cells that it keeps")

    def check_types(self):
        """Checks the types of operands for a step on floats."""
        for number, value in enumerate(self.operands):
            if value is None or number in (_OUTPUT_STATE, _CELL_STATE):
                continue
            if value.dtype not in (("f32",) if number == 0 else ("f32", "i8")):
                raise Refusal(
                    f"'{value.tensor.name}' is {value.dtype}; only layers of floats, with weights of f32 or i8, are supported"
                )
            if number and value.data is None:
                raise Refusal(
                    f"'{value.tensor.name}' is computed while the model runs; only constants are supported"
                )
        if any(self.operands[number].dtype != "f32" for number in (_OUTPUT_STATE, _CELL_STATE)):
            raise Refusal("it keeps its output and cells in another type than f32")

    def stepper(self):
        """The object that describes a step by its methods `of_operand` and `step`."""
        if self.x.dtype in ENDS:
            return IntegerStep(
                self.g, self.call, self.operands, self.gates, (_INPUT, _RECURRENT, _CELL, _BIAS)
            )
        self.check_types()
        return self

    def of_gates(self, places):
        """The operands of the computed gates at those positions."""
        return [self.operands[places[each]] for each in self.gates]

    def floats(self, value):
        """A constant as floats: bytes times their scale."""
        return (
            value.data.astype(np.float32) * hybrid.weight_scale(value, 0)[0]
            if value.dtype == "i8"
            else value.data
        )

    def product(self, g, rows, weights):
        """Rows times the weights of several gates, which are next to each other, in float32."""
        kinds = {value.dtype for value in weights}
        if kinds == {"f32"}:
            return g.node(
                "MatMul",
                [
                    rows,
                    g.constant(
                        np.ascontiguousarray(np.concatenate([value.data for value in weights]).T)
                    ),
                ],
            )
        if kinds != {"i8"}:
            raise Refusal("its weights are partly f32 and partly i8")
        scales = np.concatenate(
            [np.broadcast_to(hybrid.weight_scale(value, 0), (value.shape[0],)) for value in weights]
        )
        return hybrid.product(
            g, rows, np.concatenate([value.data for value in weights]), scales, self.has_zero_points
        )

    def bias(self):
        return np.concatenate([self.floats(self.operands[_BIAS[number]]) for number in self.gates])

    def normalised(self, number):
        return self.operands[_NORM[number]] is not None

    def of_operand(self, g, rows):
        """The operand's part of all gates' sums, for all steps at once, one row per step."""
        name = self.product(g, rows, self.of_gates(_INPUT))
        return (
            name
            if any(map(self.normalised, self.gates))
            else g.node("Add", [name, g.constant(self.bias())])
        )

    def gate(self, g, name, number, cell):
        """A gate's value from its sums."""
        peephole = self.operands[_CELL[number]] if _CELL[number] is not None else None
        if peephole is not None:
            name = g.node("Add", [name, g.node("Mul", [cell, g.constant(self.floats(peephole))])])
        if self.normalised(number):
            name = g.node("Sub", [name, g.node("ReduceMean", [name, g.ints([-1])], keepdims=1)])
            variance = g.node("ReduceMean", [g.node("Mul", [name, name]), g.ints([-1])], keepdims=1)
            name = g.node(
                "Div", [name, g.node("Sqrt", [g.node("Add", [variance, g.number(1e-8, "f32")])])]
            )
            name = g.node("Mul", [name, g.constant(self.floats(self.operands[_NORM[number]]))])
            name = g.node("Add", [name, g.constant(self.floats(self.operands[_BIAS[number]]))])
        return g.activated(name, self.call.activation) if number == 2 else g.node("Sigmoid", [name])

    def clipped(self, g, name, limit):
        return (
            g.node("Clip", [name, g.number(-limit, "f32"), g.number(limit, "f32")])
            if limit > 0
            else name
        )

    def step(self, g, output, cell, from_operand):
        """(output, cells) after a step."""
        sums = g.node("Add", [from_operand, self.product(g, output, self.of_gates(_RECURRENT))])
        parts = dict(
            zip(
                self.gates,
                g.node(
                    "Split",
                    [sums, g.ints([self.cells] * len(self.gates))],
                    outputs=len(self.gates),
                    axis=-1,
                ),
            )
        )
        forget, candidate = self.gate(g, parts[1], 1, cell), self.gate(g, parts[2], 2, cell)
        let_in = (
            self.gate(g, parts[0], 0, cell)
            if 0 in parts
            else g.node("Sub", [g.number(1, "f32"), forget])
        )
        cell = g.node("Add", [g.node("Mul", [forget, cell]), g.node("Mul", [let_in, candidate])])
        cell = self.clipped(g, cell, self.cell_clip)
        output = g.node(
            "Mul", [self.gate(g, parts[3], 3, cell), g.activated(cell, self.call.activation)]
        )
        projection, bias = self.operands[_PROJECTION], self.operands[_PROJECTION_BIAS]
        if projection is not None:
            output = self.product(g, output, [projection])
            output = (
                g.node("Add", [output, g.constant(self.floats(bias))])
                if bias is not None
                else output
            )
            output = self.clipped(g, output, self.projection_clip)
        return output, cell


def _states(g, layer):
    return [g.variable(layer.operands[number]) for number in (_OUTPUT_STATE, _CELL_STATE)]


@operator("LSTM", options="LSTMOptions", inputs=(1, 24), resources=True)
def lstm(g, call):
    """One step."""
    if call.option("KernelType"):
        raise Refusal("the kernel of five operands is not supported")
    layer = _Layer(g, call)
    call.need_rank(layer.x, 2)
    stepper = layer.stepper()
    output, cell = _states(g, layer)
    output.current, cell.current = stepper.step(
        g, g.current(output), g.current(cell), stepper.of_operand(g, g.plain(layer.x))
    )
    g.give(call.out, output.current)


@operator(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    options="UnidirectionalSequenceLSTMOptions",
    inputs=(1, 24),
    resources=True,
)
def sequence_lstm(g, call):
    layer = _Layer(g, call)
    call.need_rank(layer.x, 3)
    stepper = layer.stepper()
    by_time = bool(call.option("TimeMajor"))
    steps, batch, depth = (
        layer.x.shape if by_time else (layer.x.shape[1], layer.x.shape[0], layer.x.shape[2])
    )
    x = g.plain(layer.x) if by_time else g.moved(g.plain(layer.x), layer.x.shape, (1, 0, 2))
    from_operand = g.reshape(
        stepper.of_operand(g, g.reshape(x, [steps * batch, depth])),
        [steps, batch, len(layer.gates) * layer.cells],
    )
    output, cell = _states(g, layer)
    body = Describer("step", g)
    body.node_name, body.source = g.node_name, g.source
    formals = [body.fresh(f"{g.node_name}.{what}") for what in ("output", "cells", "operand")]
    for name in formals:
        body.graph.formal(name)
    behind = stepper.step(body, *formals)
    for name, dtype in zip(
        (*behind, body.node("Identity", [behind[0]])), (output.dtype, cell.dtype, output.dtype)
    ):
        body.graph.output(name, dtype)
    output.current, cell.current, rows = g.node(
        "Scan",
        [g.current(output), g.current(cell), from_operand],
        outputs=3,
        num_scan_inputs=1,
        body=body.graph,
    )
    shape = (steps, batch, layer.units)
    g.give(call.out, rows if by_time else g.moved(rows, shape, (1, 0, 2)))
