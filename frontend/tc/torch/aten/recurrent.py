"""Recurrent layers: each layer of PyTorch becomes one operator for both directions."""

import torch

from ..describe import dtype_name
from .table import aten

# For each gate in ONNX's order: its position in PyTorch's order.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _weights(g, parts, op):
    """Stacks the directions' tensors to [directions, gates * hidden, ...], with gates in ONNX's
    order."""
    stacked = []
    for part in parts:
        hidden = part.shape[0] // len(_GATES[op])
        pieces = (
            g.node("Split", [part], outputs=len(_GATES[op]), axis=0, num_outputs=len(_GATES[op]))
            if op != "RNN"
            else (part,)
        )
        ordered = [pieces[gate] for gate in _GATES[op]]
        joined = ordered[0] if len(ordered) == 1 else g.node("Concat", ordered, axis=0)
        stacked.append(g.reshape(joined, [1, hidden * len(ordered), *part.shape[1:]]))
    return stacked[0] if len(stacked) == 1 else g.node("Concat", stacked, axis=0)


def _joined_bias(g, pairs, op):
    sums = [
        g.node("Concat", [_weights(g, [first], op), _weights(g, [second], op)], axis=1)
        for first, second in pairs
    ]
    return sums[0] if len(sums) == 1 else g.node("Concat", sums, axis=0)


def _layers(g, op, input, states, params, settings, lengths=None, **attributes):
    """The output of the last layer, and the final states of each kind, stacked as in PyTorch.
    `lengths` are those of the sequences."""
    has_biases, num_layers, bidirectional, batch_first = settings
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    batched = input.rank == 3
    shape = list(input.shape) if batched else [input.shape[0], 1, input.shape[1]]
    value = input if batched else g.reshape(input, shape)
    if batch_first and batched:
        value, shape = g.transpose(value, [1, 0, 2]), [shape[1], shape[0], shape[2]]
    states = [
        state if batched else g.reshape(state, [state.shape[0], 1, state.shape[1]])
        for state in states
    ]
    last = [[] for _ in states]
    for layer in range(num_layers):
        begin = layer * directions
        own = [params[(begin + d) * each : (begin + d + 1) * each] for d in range(directions)]
        hidden = own[0][1].shape[1]
        bias = _joined_bias(g, [(part[2], part[3]) for part in own], op) if has_biases else None
        initial = [
            g.slice(state, 0, begin, begin + directions) if num_layers > 1 else state
            for state in states
        ]
        outputs = g.node(
            op,
            [
                value,
                _weights(g, [part[0] for part in own], op),
                _weights(g, [part[1] for part in own], op),
                bias,
                lengths,
                *initial,
            ],
            outputs=1 + len(states),
            hidden_size=hidden,
            direction="bidirectional" if bidirectional else "forward",
            **attributes,
        )
        for kind, result in zip(last, outputs[1:]):
            kind.append(result)
        # [time, directions, batch, hidden] to [time, batch, directions * hidden]
        value = g.reshape(
            g.transpose(outputs[0], [0, 2, 1, 3]), [shape[0], shape[1], directions * hidden]
        )
    if batch_first and batched:
        value = g.transpose(value, [1, 0, 2])
    finals = [kind[0] if len(kind) == 1 else g.node("Concat", kind, axis=0) for kind in last]
    if not batched:
        value = g.reshape(value, g.out[0].shape)
        finals = [g.reshape(final, out.shape) for final, out in zip(finals, g.out[1:])]
    return value, *finals


def _refuse_training(g, dropout, train, num_layers):
    if train and dropout and num_layers > 1:
        g.refuse("dropout of a module in training mode is random; call .eval() on the module first")


@aten("lstm.input", ops="LSTM, Scan")
def lstm(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    _refuse_training(g, dropout, train, num_layers)
    settings = has_biases, num_layers, bidirectional, batch_first
    if len(params) != num_layers * (1 + bidirectional) * (4 if has_biases else 2):
        return _projected(g, input, hx, params, settings)
    return _layers(g, "LSTM", input, hx, params, settings)


def _projected(g, input, hx, params, settings):
    """An LSTM whose hidden state is a projection of the output gate's result, which ONNX's LSTM
    lacks: a Scan over each layer's steps."""
    has_biases, num_layers, bidirectional, batch_first = settings
    directions, each = (2 if bidirectional else 1), (5 if has_biases else 3)
    batched = input.rank == 3
    value = input.name if batched else g.node("Unsqueeze", [input, g.ints([1])])
    if batch_first and batched:
        value = g.transpose(value, [1, 0, 2])
    states = [state.name if batched else g.node("Unsqueeze", [state, g.ints([1])]) for state in hx]
    last = [[], []]
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            own = params[number * each : (number + 1) * each]
            initial = [
                g.node("Gather", [state, g.constant(number, torch.int64)], axis=0)
                for state in states
            ]
            *finals, output = _projected_steps(g, value, initial, own, direction)
            outputs.append(output)
            for kind, final in zip(last, finals):
                kind.append(g.node("Unsqueeze", [final, g.ints([0])]))
        value = outputs[0] if directions == 1 else g.node("Concat", outputs, axis=2)
    if batch_first and batched:
        value = g.transpose(value, [1, 0, 2])
    results = [
        value,
        *(kind[0] if len(kind) == 1 else g.node("Concat", kind, axis=0) for kind in last),
    ]
    return tuple(
        results if batched else [g.node("Squeeze", [result, g.ints([1])]) for result in results]
    )


def _projected_steps(g, value, initial, params, direction):
    """(last hidden state, last cell, all hidden states) of one layer and direction; `value` is
    [time, batch, features]."""
    w_ih, w_hh, *biases, w_hr = params
    dtype = w_ih.dtype
    given = g.node("MatMul", [value, g.transpose(w_ih, [1, 0])])
    for bias in biases:
        given = g.node("Add", [given, bias])
    body = g.subgraph("body")
    hidden, cell, step = (
        body.fresh(f"{g.node_name}.{what}") for what in ("hidden", "cell", "step")
    )
    for name in (hidden, cell, step):
        body.graph.formal(name)
    gates = body.node("Add", [step, body.node("MatMul", [hidden, body.transpose(w_hh, [1, 0])])])
    i, f, c, o = body.node("Split", [gates], outputs=4, axis=1, num_outputs=4)
    i, f, o = (body.node("Sigmoid", [gate]) for gate in (i, f, o))
    new_cell = body.node(
        "Add", [body.node("Mul", [f, cell]), body.node("Mul", [i, body.node("Tanh", [c])])]
    )
    full = body.node("Mul", [o, body.node("Tanh", [new_cell])])
    new_hidden = body.node("MatMul", [full, body.transpose(w_hr, [1, 0])])
    for result in (new_hidden, new_cell, new_hidden):
        body.graph.output(body.node("Identity", [result]), dtype_name(dtype))
    return g.node(
        "Scan",
        [*initial, given],
        outputs=3,
        graphs={"body": body.graph},
        num_scan_inputs=1,
        scan_input_directions=[direction],
        scan_output_directions=[direction],
    )


@aten("gru.input", ops="GRU")
def gru(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    _refuse_training(g, dropout, train, num_layers)
    return _layers(
        g,
        "GRU",
        input,
        [hx],
        params,
        (has_biases, num_layers, bidirectional, batch_first),
        linear_before_reset=1,
    )


def _rnn(name, activation):
    @aten(name, ops="RNN")
    def describe(
        g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    ):
        _refuse_training(g, dropout, train, num_layers)
        return _layers(
            g,
            "RNN",
            input,
            [hx],
            params,
            (has_biases, num_layers, bidirectional, batch_first),
            activations=[activation] * (1 + bidirectional),
        )

    return describe


_rnn("rnn_tanh.input", "Tanh")
_rnn("rnn_relu.input", "Relu")


# Layers on packed sequences, which are padded here (tc/torch/packed.py).


def _of_lengths(name, op, **attributes):
    @aten(f"tc::{name}", ops=op)
    def describe(g, input, lengths, hx, params, has_biases, num_layers, bidirectional):
        if len(params) != num_layers * (1 + bidirectional) * (4 if has_biases else 2):
            g.refuse("an LSTM with a projection does not take packed sequences")
        if "activations" in attributes:
            attributes["activations"] = attributes["activations"][:1] * (1 + bidirectional)
        return _layers(
            g,
            op,
            input,
            hx,
            params,
            (has_biases, num_layers, bidirectional, False),
            g.cast(lengths, torch.int32),
            **attributes,
        )


_of_lengths("lstm", "LSTM")
_of_lengths("gru", "GRU", linear_before_reset=1)
_of_lengths("rnn_tanh", "RNN", activations=["Tanh"])
_of_lengths("rnn_relu", "RNN", activations=["Relu"])


@aten("lstm_cell", ops="Gemm, Sigmoid, Tanh")
def lstm_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    h, c = hx
    value = input if input.rank == 2 else g.reshape(input, [1, -1])
    first = g.node("Gemm", [value, w_ih, b_ih], transB=1)
    second = g.node("Gemm", [h if h.rank == 2 else g.reshape(h, [1, -1]), w_hh, b_hh], transB=1)
    gates = g.node("Split", [g.node("Add", [first, second])], outputs=4, axis=1, num_outputs=4)
    i, f, o = (g.node("Sigmoid", [gates[k]]) for k in (0, 1, 3))
    cell = g.node("Add", [g.node("Mul", [f, c]), g.node("Mul", [i, g.node("Tanh", [gates[2]])])])
    hidden = g.node("Mul", [o, g.node("Tanh", [cell])])
    if input.rank == 2:
        return hidden, cell
    return g.reshape(hidden, h.shape), g.reshape(cell, c.shape)


@aten("gru_cell", ops="Gemm, Sigmoid, Tanh")
def gru_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    if input.rank != 2:
        g.refuse("a cell without an axis of the batch is not supported")
    first = g.node(
        "Split", [g.node("Gemm", [input, w_ih, b_ih], transB=1)], outputs=3, axis=1, num_outputs=3
    )
    second = g.node(
        "Split", [g.node("Gemm", [hx, w_hh, b_hh], transB=1)], outputs=3, axis=1, num_outputs=3
    )
    r, z = (g.node("Sigmoid", [g.node("Add", [first[k], second[k]])]) for k in (0, 1))
    n = g.node("Tanh", [g.node("Add", [first[2], g.node("Mul", [r, second[2]])])])
    one = g.constant(1, input.dtype)
    return g.node("Add", [g.node("Mul", [g.node("Sub", [one, z]), n]), g.node("Mul", [z, hx])])
