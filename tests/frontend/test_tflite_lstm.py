"""The LSTM operators of TensorFlow Lite: the results of its kernels, and of the formulas in float64."""

import numpy as np
import pytest

import tc

from ..support import worst_error

pytest.importorskip("tflite", reason="files of TensorFlow Lite are read by the package tflite, which is not installed")
from .test_tflite_variables import kernels_results  # noqa: E402
from .tflite_files import Operator, Tensor, file_of  # noqa: E402

BATCH, STEPS, DEPTH, CELLS = 2, 5, 6, 4
GATES = ("input", "forget", "cell", "output")


class Weights:
    """An LSTM's constants, drawn; what a form has not is None. Bytes stand for floats, with a scale."""

    def __init__(self, seed, peephole=False, coupled=False, units=None, norm=False, in_bytes=False):
        random = np.random.default_rng(seed)
        self.in_bytes, self.units = in_bytes, units or CELLS
        self.tensors = [None] * 24

        def put(place, shape, as_bytes=False):
            values = (random.uniform(-0.8, 0.8, shape)).astype(np.float32)
            if as_bytes and in_bytes:
                self.tensors[place] = Tensor(f"w{place}", data=np.clip(np.round(values / 0.01), -127, 127).astype(np.int8), scale=0.01)
            else:
                self.tensors[place] = Tensor(f"w{place}", data=values)

        for gate in range(1 if coupled else 0, 4):
            put(1 + gate, (CELLS, DEPTH), True)
            put(5 + gate, (CELLS, self.units), True)
            put(12 + gate, (CELLS,))
            if norm:
                put(20 + gate, (CELLS,))
        if peephole:
            for place in (9, 10, 11) if not coupled else (10, 11):
                put(place, (CELLS,), True)
        if units:
            put(16, (units, CELLS), True)
            put(17, (units,))

    def floats(self, place):
        tensor = self.tensors[place]
        return None if tensor is None else tensor.data * (1.0 if tensor.scale is None else float(tensor.scale[0])) + np.float64(0)


def file_with(weights, sequence=True, **options):
    """A file of one layer; the result is [batch, steps, units], or with one step [batch, units]."""
    shape, result = ((BATCH, STEPS, DEPTH), (BATCH, STEPS, weights.units)) if sequence else ((BATCH, DEPTH), (BATCH, weights.units))
    if options.get("TimeMajor"):
        shape, result = (STEPS, BATCH, DEPTH), (STEPS, BATCH, weights.units)
    tensors, places = [Tensor("x", shape)], [0]
    for place in range(1, 24):
        if place in (18, 19):
            tensor = Tensor("output state" if place == 18 else "cell state", (BATCH, weights.units if place == 18 else CELLS), variable=True)
        else:
            tensor = weights.tensors[place]
        places.append(-1 if tensor is None else len(tensors))
        tensors += [] if tensor is None else [tensor]
    tensors.append(Tensor("y", result))
    name, table = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions") if sequence else ("LSTM", "LSTMOptions")
    return file_of(tensors, [Operator(name, places, [len(tensors) - 1], table, FusedActivationFunction=4, **options)], [0], [len(tensors) - 1])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_formulas(weights, steps, state, cell_clip=0.0, projection_clip=0.0):
    """(outputs of all steps, the state behind them) in float64, of rows [steps, batch, depth]."""
    (output, cell), outputs = state, []

    def gate(number, x, cell):
        sums = x @ weights.floats(1 + number).T + output @ weights.floats(5 + number).T
        place = {0: 9, 1: 10, 3: 11}.get(number)
        if place is not None and weights.tensors[place] is not None:
            sums = sums + cell * weights.floats(place)
        if weights.tensors[20 + number] is not None:
            sums = sums - sums.mean(1, keepdims=True)
            sums = sums / np.sqrt((sums ** 2).mean(1, keepdims=True) + 1e-8) * weights.floats(20 + number)
        sums = sums + weights.floats(12 + number)
        return np.tanh(sums) if number == 2 else sigmoid(sums)

    for x in steps.astype(np.float64):
        forget = gate(1, x, cell)
        let_in = 1 - forget if weights.tensors[1] is None else gate(0, x, cell)
        after = forget * cell + let_in * gate(2, x, cell)
        after = np.clip(after, -cell_clip, cell_clip) if cell_clip else after
        result = gate(3, x, after) * np.tanh(after)
        cell = after
        if weights.tensors[16] is not None:
            result = result @ weights.floats(16).T + weights.floats(17)
            result = np.clip(result, -projection_clip, projection_clip) if projection_clip else result
        output = result
        outputs.append(result)
    return np.stack(outputs), (output, cell)


FORMS = {
    "plain": ({}, {}), "time first": ({}, {"TimeMajor": True}), "peephole": ({"peephole": True}, {}), "coupled": ({"coupled": True, "peephole": True}, {}),
    "clipped": ({}, {"CellClip": 0.4}), "projected": ({"units": 3}, {"ProjClip": 0.5}), "normalised": ({"norm": True}, {}),
    "all": ({"peephole": True, "units": 5, "norm": True}, {"CellClip": 0.9}),
}


@pytest.mark.parametrize("form", FORMS)
def test_sequences_of_floats(form):
    made, options = FORMS[form]
    weights = Weights(3, **made)
    data = file_with(weights, **options)
    module = tc.compile(data, log=False)
    assert set(module.state) == {"output state", "cell state"}
    random = np.random.default_rng(4)
    arrays = [random.standard_normal(module.inputs[0].shape).astype(np.float32) for _ in range(2)]
    expected, state = kernels_results(data, arrays), (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS)))
    for number, x in enumerate(arrays):     # the second run begins where the first ended
        found = module(x)
        rows, state = by_formulas(weights, x if options.get("TimeMajor") else x.swapaxes(0, 1), state, options.get("CellClip", 0), options.get("ProjClip", 0))
        right = rows if options.get("TimeMajor") else rows.swapaxes(0, 1)
        assert worst_error(found, right) <= 2e-6
        if expected is not None:
            assert worst_error(found, expected[number]) <= 2e-6
        assert worst_error(module.state["cell state"], state[1]) <= 2e-6


@pytest.mark.parametrize("form", ["plain", "peephole", "projected"])
def test_single_steps(form):
    made, options = FORMS[form]
    weights = Weights(5, **made)
    data = file_with(weights, sequence=False, **options)
    module = tc.compile(data, log=False)
    arrays = [np.random.default_rng(seed).standard_normal((BATCH, DEPTH)).astype(np.float32) for seed in range(3)]
    expected = kernels_results(data, arrays)
    rows, _ = by_formulas(weights, np.stack(arrays), (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS))), 0, options.get("ProjClip", 0))
    for number, x in enumerate(arrays):
        found = module(x)
        assert worst_error(found, rows[number]) <= 2e-6
        if expected is not None:
            assert worst_error(found, expected[number]) <= 2e-6


@pytest.mark.parametrize("options", [{}, {"AsymmetricQuantizeInputs": True}], ids=["symmetric", "with zero points"])
@pytest.mark.parametrize("form", ["plain", "peephole", "projected"])
def test_weights_of_bytes(form, options):
    """What they are multiplied with is quantised as well: near the formulas, and the kernels' results."""
    made, more = FORMS[form]
    weights = Weights(6, in_bytes=True, **made)
    data = file_with(weights, **options, **more)
    module = tc.compile(data, log=False)
    x = np.random.default_rng(7).standard_normal((BATCH, STEPS, DEPTH)).astype(np.float32)
    found, expected = module(x), kernels_results(data, [x])
    rows, _ = by_formulas(weights, x.swapaxes(0, 1), (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS))), 0, more.get("ProjClip", 0))
    assert worst_error(found, rows.swapaxes(0, 1)) <= 0.03
    if expected is not None:
        assert worst_error(found, expected[0]) <= 1e-5


def changed(change, **options):
    weights = Weights(8)
    change(weights.tensors)
    return file_with(weights, **options)


def put(place, tensor):
    return lambda tensors: tensors.__setitem__(place, tensor)


REFUSED = {
    "gates": (lambda: changed(put(3, None)), "it has weights of the gates input, forget, output; all are needed, or all but the input gate's"),
    "diagonals": (lambda: changed(lambda _: None, DiagonalRecurrentTensors=True), "recurrent weights that are diagonals are not supported"),
    "weights": (lambda: changed(put(6, Tensor("w6", data=np.zeros((3, CELLS), np.float32)))), "its weights of the forget gate do not fit those of the others"),
    "types": (lambda: changed(put(2, Tensor("w2", data=np.zeros((CELLS, DEPTH), np.int8), scale=0.1))), "its weights are partly f32 and partly i8"),
    "shorts": (lambda: changed(put(12, Tensor("w12", data=np.zeros(CELLS, np.int16)))),
               "'w12' is i16; only layers of floats, with weights of f32 or i8, are supported"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_of_lstm(what):
    make, text = REFUSED[what]
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(make(), log=False)
    assert str(raised.value) == f"model.tflite uses what tc cannot compile: UNIDIRECTIONAL_SEQUENCE_LSTM (operator 0, 'y'): {text}"


def test_other_kernels_of_lstm():
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(file_with(Weights(9), sequence=False, KernelType=1), log=False)
    assert str(raised.value) == "model.tflite uses what tc cannot compile: LSTM (operator 0, 'y'): the kernel of five operands is not supported"
