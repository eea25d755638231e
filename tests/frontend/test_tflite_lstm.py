"""The LSTM operators of TensorFlow Lite: the results of its kernels, and of the formulas in
float64."""

import zlib

import numpy as np
import pytest

import tc

from ..support import worst_error

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .test_tflite_variables import kernels_results  # noqa: E402
from .tflite_files import Operator, Tensor, file_of  # noqa: E402

BATCH, STEPS, DEPTH, CELLS = 2, 5, 6, 4
GATES = ("input", "forget", "cell", "output")


class Weights:
    """An LSTM's constants, drawn; what a form has not is None. Bytes stand for floats, with a
    scale."""

    def __init__(self, seed, peephole=False, coupled=False, units=None, norm=False, in_bytes=False):
        random = np.random.default_rng(seed)
        self.in_bytes, self.units, self.output_type = in_bytes, units or CELLS, np.float32
        self.tensors = [None] * 24

        def put(place, shape, as_bytes=False):
            values = (random.uniform(-0.8, 0.8, shape)).astype(np.float32)
            if as_bytes and in_bytes:
                self.tensors[place] = Tensor(
                    f"w{place}",
                    data=np.clip(np.round(values / 0.01), -127, 127).astype(np.int8),
                    scale=0.01,
                )
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
        return (
            None
            if tensor is None
            else tensor.data * (1.0 if tensor.scale is None else float(tensor.scale[0]))
            + np.float64(0)
        )


def file_with(weights, sequence=True, **options):
    """A file of one layer; the result is [batch, steps, units], or with one step [batch, units]."""
    shape, result = (
        ((BATCH, STEPS, DEPTH), (BATCH, STEPS, weights.units))
        if sequence
        else ((BATCH, DEPTH), (BATCH, weights.units))
    )
    if options.get("TimeMajor"):
        shape, result = (STEPS, BATCH, DEPTH), (STEPS, BATCH, weights.units)
    tensors, places = [Tensor("x", shape)], [0]
    for place in range(1, 24):
        if place in (18, 19):
            tensor = Tensor(
                "output state" if place == 18 else "cell state",
                (BATCH, weights.units if place == 18 else CELLS),
                weights.output_type if place == 18 else np.float32,
                variable=True,
            )
        else:
            tensor = weights.tensors[place]
        places.append(-1 if tensor is None else len(tensors))
        tensors += [] if tensor is None else [tensor]
    tensors.append(Tensor("y", result))
    name, table = (
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions")
        if sequence
        else ("LSTM", "LSTMOptions")
    )
    return file_of(
        tensors,
        [Operator(name, places, [len(tensors) - 1], table, FusedActivationFunction=4, **options)],
        [0],
        [len(tensors) - 1],
    )


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
            sums = (
                sums
                / np.sqrt((sums**2).mean(1, keepdims=True) + 1e-8)
                * weights.floats(20 + number)
            )
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
            result = (
                np.clip(result, -projection_clip, projection_clip) if projection_clip else result
            )
        output = result
        outputs.append(result)
    return np.stack(outputs), (output, cell)


FORMS = {
    "plain": ({}, {}),
    "time first": ({}, {"TimeMajor": True}),
    "peephole": ({"peephole": True}, {}),
    "coupled": ({"coupled": True, "peephole": True}, {}),
    "clipped": ({}, {"CellClip": 0.4}),
    "projected": ({"units": 3}, {"ProjClip": 0.5}),
    "normalised": ({"norm": True}, {}),
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
    expected, state = (
        kernels_results(data, arrays),
        (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS))),
    )
    for number, x in enumerate(arrays):  # the second run begins where the first ended
        found = module(x)
        rows, state = by_formulas(
            weights,
            x if options.get("TimeMajor") else x.swapaxes(0, 1),
            state,
            options.get("CellClip", 0),
            options.get("ProjClip", 0),
        )
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
    arrays = [
        np.random.default_rng(seed).standard_normal((BATCH, DEPTH)).astype(np.float32)
        for seed in range(3)
    ]
    expected = kernels_results(data, arrays)
    rows, _ = by_formulas(
        weights,
        np.stack(arrays),
        (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS))),
        0,
        options.get("ProjClip", 0),
    )
    for number, x in enumerate(arrays):
        found = module(x)
        assert worst_error(found, rows[number]) <= 2e-6
        if expected is not None:
            assert worst_error(found, expected[number]) <= 2e-6


@pytest.mark.parametrize(
    "options", [{}, {"AsymmetricQuantizeInputs": True}], ids=["symmetric", "with zero points"]
)
@pytest.mark.parametrize("form", ["plain", "peephole", "projected"])
def test_weights_of_bytes(form, options):
    """What they are multiplied with is quantised as well: near the formulas, and the kernels'
    results."""
    made, more = FORMS[form]
    weights = Weights(6, in_bytes=True, **made)
    data = file_with(weights, **options, **more)
    module = tc.compile(data, log=False)
    x = np.random.default_rng(7).standard_normal((BATCH, STEPS, DEPTH)).astype(np.float32)
    found, expected = module(x), kernels_results(data, [x])
    rows, _ = by_formulas(
        weights,
        x.swapaxes(0, 1),
        (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS))),
        0,
        more.get("ProjClip", 0),
    )
    assert worst_error(found, rows.swapaxes(0, 1)) <= 0.03
    if expected is not None:
        assert worst_error(found, expected[0]) <= 1e-5


# --- integers -------------------------------------------------------------------------------------

X_UNITS, OUT_UNITS, CELL_SCALE = (0.03, 11), (1 / 120, -6), 2.0**-11
# Of the kernels' results, call by call.
INTEGERS = {
    "plain": ({}, {}, "1461598b 0c03850c"),
    "coupled": ({"coupled": True}, {}, "75786ea8 0ef799a5"),
    "peephole": ({"peephole": True}, {}, "0329f04d 478cbe55"),
    "time first": ({}, {"TimeMajor": True}, "277dadb2 b8dd209d"),
    "clipped": ({"peephole": True}, {"CellClip": 0.3}, "d3b93f89 c1258d43"),
    "projected": ({"units": 3}, {}, "fc7f107d f38fa40e"),
    "projected and clipped": ({"units": 5}, {"ProjClip": 0.2}, "3b7066b7 5a310df2"),
}


class IntegerWeights(Weights):
    """The same constants as integers: weights of int8, peepholes of int16, constants of int32."""

    def __init__(self, seed, **form):
        super().__init__(seed, **form)
        hidden = OUT_UNITS if self.units == CELLS and self.tensors[16] is None else (1 / 100, 9)
        self.hidden = hidden
        for place, tensor in enumerate(self.tensors):
            if tensor is None:
                continue
            scale, least, dtype = 0.007, 127, np.int8
            if 9 <= place <= 11:
                scale, least, dtype = 0.8 / 32767, 32767, np.int16
            elif 12 <= place <= 15:
                scale, least, dtype = X_UNITS[0] * 0.007, 1 << 30, np.int32
            elif place == 17:
                scale, least, dtype = hidden[0] * 0.007, 1 << 30, np.int32
            self.tensors[place] = Tensor(
                tensor.name,
                data=np.clip(np.round(tensor.data / scale), -least, least).astype(dtype),
                scale=scale,
            )


CELLS_OF_INT16 = Tensor("cell state", (BATCH, CELLS), np.int16, scale=CELL_SCALE, variable=True)


def integer_file(weights, cells=CELLS_OF_INT16, **options):
    shape, result = ((BATCH, STEPS, DEPTH), (BATCH, STEPS, weights.units))
    if options.get("TimeMajor"):
        shape, result = (STEPS, BATCH, DEPTH), (STEPS, BATCH, weights.units)
    tensors, places = [Tensor("x", shape, np.int8, scale=X_UNITS[0], zero=X_UNITS[1])], [0]
    for place in range(1, 24):
        tensor = weights.tensors[place]
        if place == 18:
            tensor = Tensor(
                "output state",
                (BATCH, weights.units),
                np.int8,
                scale=OUT_UNITS[0],
                zero=OUT_UNITS[1],
                variable=True,
            )
        elif place == 19:
            tensor = cells
        places.append(-1 if tensor is None else len(tensors))
        tensors += [] if tensor is None else [tensor]
    tensors.append(Tensor("y", result, np.int8, scale=OUT_UNITS[0], zero=OUT_UNITS[1]))
    layer = Operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        places,
        [len(tensors) - 1],
        "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4,
        **options,
    )
    layer.intermediates = range(len(tensors), len(tensors) + 5)
    tensors += [Tensor(f"gate {number}", (), np.int16, scale=2.0**-12) for number in range(4)]
    tensors.append(Tensor("hidden", (), np.int8, scale=weights.hidden[0], zero=weights.hidden[1]))
    return file_of(tensors, [layer], [0], [layer.outputs[0]])


@pytest.mark.parametrize("form", INTEGERS)
def test_sequences_of_integers(form):
    """The kernels' integers; the formulas give these up to a few steps."""
    made, options, sums = INTEGERS[form]
    weights = IntegerWeights(3, **made)
    data = integer_file(weights, **options)
    module = tc.compile(data, log=False)
    random = np.random.default_rng(4)
    arrays = [random.integers(-128, 128, module.inputs[0].shape).astype(np.int8) for _ in range(2)]
    expected, state = (
        kernels_results(data, arrays),
        (np.zeros((BATCH, weights.units)), np.zeros((BATCH, CELLS))),
    )
    found = [module(x) for x in arrays]
    for number, x in enumerate(arrays):
        if expected is not None:
            np.testing.assert_array_equal(found[number], expected[number])
        floats = (x.astype(np.float64) - X_UNITS[1]) * X_UNITS[0]
        rows, state = by_formulas(
            weights,
            floats if options.get("TimeMajor") else floats.swapaxes(0, 1),
            state,
            options.get("CellClip", 0),
            options.get("ProjClip", 0),
        )
        right = (rows if options.get("TimeMajor") else rows.swapaxes(0, 1)) / OUT_UNITS[
            0
        ] + OUT_UNITS[1]
        # The kernels clip the projection's integers without regard to their zero point.
        beside = abs(OUT_UNITS[1]) if "ProjClip" in options else 0
        assert np.max(np.abs(found[number] - np.clip(right, -128, 127))) <= 4 + beside
    assert " ".join(f"{zlib.crc32(each.tobytes()):08x}" for each in found) == sums


def changed(change, **options):
    weights = Weights(8)
    change(weights.tensors)
    return file_with(weights, **options)


def put(place, tensor):
    return lambda tensors: tensors.__setitem__(place, tensor)


def integers_changed(change, no_hidden=False, **options):
    weights = IntegerWeights(8)
    change(weights.tensors)
    if no_hidden:
        weights.hidden = (None, 0)
    return integer_file(weights, **options)


REFUSED = {
    "normalised integers": (
        lambda: integers_changed(put(21, Tensor("w21", data=np.ones(CELLS, np.int16), scale=0.1))),
        "integers with normalised gates are not supported",
    ),
    "hidden": (
        lambda: integers_changed(lambda _: None, no_hidden=True),
        "it does not say how its output is quantised before a projection",
    ),
    "weights of integers": (
        lambda: integers_changed(put(2, Tensor("w2", data=np.ones((CELLS, DEPTH), np.float32)))),
        "'w2' is f32; constants of i8 with a scale and zero points of 0 are needed here",
    ),
    "constants of integers": (
        lambda: integers_changed(put(13, Tensor("w13", data=np.ones(CELLS, np.float32)))),
        "'w13' is f32 of shape [4]; constants of i32 are needed here",
    ),
    "gates": (
        lambda: changed(put(3, None)),
        "it has weights of the gates input, forget, output; all are needed, or all but the input gate's",
    ),
    "diagonals": (
        lambda: changed(lambda _: None, DiagonalRecurrentTensors=True),
        "recurrent weights that are diagonals are not supported",
    ),
    "weights": (
        lambda: changed(put(7, Tensor("w7", data=np.zeros((3, CELLS), np.float32)))),
        "its weights of the cell gate do not fit those of the others",
    ),
    "no matrices": (
        lambda: changed(put(6, None)),
        "its weights of the forget gate are no matrices",
    ),
    "projection": (
        lambda: changed(put(16, Tensor("w16", data=np.zeros((3, CELLS), np.float32)))),
        "its projection does not fit 4 cells and 4 outputs",
    ),
    "types": (
        lambda: changed(put(2, Tensor("w2", data=np.zeros((CELLS, DEPTH), np.int8), scale=0.1))),
        "its weights are partly f32 and partly i8",
    ),
    "shorts": (
        lambda: changed(put(12, Tensor("w12", data=np.zeros(CELLS, np.int16)))),
        "'w12' is i16; only layers of floats, with weights of f32 or i8, are supported",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_of_lstm(what):
    make, text = REFUSED[what]
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(make(), log=False)
    assert (
        str(raised.value)
        == f"model.tflite uses what tc cannot compile: UNIDIRECTIONAL_SEQUENCE_LSTM (operator 0, 'y'): {text}"
    )


def test_states_of_other_kinds():
    cells = {
        "f32": None,
        "scale": Tensor("cell state", (BATCH, CELLS), np.int16, scale=0.001, variable=True),
    }
    for kind, text in (
        (
            "scale",
            "its cells have the scale 0.001; a power of two from 1 / 32768 to 1 / 512 is needed",
        ),
        ("f32", "it has no output and cells that it keeps"),
    ):
        data = integer_file(IntegerWeights(8), cells=cells[kind])
        assert tc.check(data) == [f"UNIDIRECTIONAL_SEQUENCE_LSTM (operator 0, 'y'): {text}"]
    weights = Weights(8)
    weights.output_type = np.int8
    assert tc.check(file_with(weights)) == [
        "UNIDIRECTIONAL_SEQUENCE_LSTM (operator 0, 'y'): it keeps its output and cells in another type than f32"
    ]
    few = file_of(
        [Tensor("x", (2, 3)), Tensor("y", (2, 3))],
        [Operator("LSTM", [0, 0, 0], [1], "LSTMOptions")],
        [0],
        [1],
    )
    assert tc.check(few) == [
        "LSTM (operator 0, 'y'): it has 3 operands, left out ones too, and takes 20 to 24"
    ]


def test_other_kernels_of_lstm():
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(file_with(Weights(9), sequence=False, KernelType=1), log=False)
    assert (
        str(raised.value)
        == "model.tflite uses what tc cannot compile: LSTM (operator 0, 'y'): the kernel of five operands is not supported"
    )
