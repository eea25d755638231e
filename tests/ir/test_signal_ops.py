"""Signals, determinants, n-grams and caches agree with ONNX Runtime, or with onnx's reference where
that has no such kernel, on seeded inputs with symbolic sizes."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

from ..support import worst_error
from .peers import FLOAT, RANDOM, floats, model_of, ours, reference, refused, runtime


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(mode):
    inputs = {
        "cache": floats(2, 3, 5, 4),
        "update": floats(2, 3, 2, 4),
        "at": numpy.array([1, 4 if mode == "circular" else 3]),
    }
    model = model_of("TensorScatter", 24, inputs, mode=mode)
    assert worst_error(ours(model, inputs), reference(model, inputs)) == 0
    small = {**inputs, "cache": floats(2, 3, 1, 4)}
    assert (
        "an update of shape [2, 3, 2, 4] does not fit into data of shape [2, 3, 1, 4] along axis 2"
        in refused(model_of("TensorScatter", 24, small, mode=mode))
    )


@pytest.mark.parametrize("order", [1, 2, 3, 7])
def test_determinants(order):
    x = floats(3, 2, order, order)
    x[0, 0] = 0  # singular
    x[0, 1, 0] = x[0, 1, -1]  # singular too, but for order 1
    if order > 1:
        x[1, 0, 0, 0] = 0  # a pivot must be looked for
        x[1, 1] = numpy.eye(order)[::-1]
    y = ours(model_of("Det", 22, {"x": x}), {"x": x})
    numpy.testing.assert_allclose(
        y, numpy.linalg.det(x.astype(numpy.float64)), rtol=1e-4, atol=1e-5
    )


def test_determinants_of_any_number_of_matrices():
    x = floats(4, 3, 3)
    y = ours(model_of("Det", 11, {"x": x}, shapes={"x": ("n", 3, 3)}), {"x": x})
    numpy.testing.assert_allclose(
        y, numpy.linalg.det(x.astype(numpy.float64)), rtol=1e-4, atol=1e-5
    )
    assert "square matrices are needed" in refused(model_of("Det", 11, {"x": floats(2, 3)}))


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 7, 12, 97, 256, 400, 1024, 1000, 2 * 331])
@pytest.mark.parametrize("parts, inverse, onesided", [(1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 1, 0)])
def test_dft(length, parts, inverse, onesided):
    inputs = {"x": floats(2, length, parts)}
    model = model_of(
        "DFT",
        20,
        inputs,
        {"length": None, "axis": numpy.int64(1)},
        inverse=inverse,
        onesided=onesided,
    )
    assert worst_error(ours(model, inputs), reference(model, inputs)) < 1e-5


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [4, 6, 600])
def test_dft_along_any_axis_cut_or_padded(axis, length):
    inputs = {"x": floats(5, 4, 6, 2)}
    model = model_of("DFT", 17, inputs, {"length": numpy.int64(length)}, axis=axis)
    assert worst_error(ours(model, inputs), reference(model, inputs)) < 1e-5


def test_dft_of_doubles_and_of_any_batch():
    x = RANDOM.standard_normal((3, 300, 2))
    model = model_of("DFT", 20, {"x": x}, shapes={"x": ("n", 300, 2)}, type=TensorProto.DOUBLE)
    assert worst_error(ours(model, {"x": x}), reference(model, {"x": x})) < 1e-12


def test_dft_refuses_what_does_not_fit():
    x = floats(2, 8, 3)
    assert "[..., signal, 1 or 2] is needed" in refused(model_of("DFT", 17, {"x": x}))
    x = floats(2, 8, 1)
    assert "axis 2 is no axis of signals" in refused(model_of("DFT", 17, {"x": x}, axis=2))
    assert "dft_length is 0" in refused(model_of("DFT", 17, {"x": x}, {"length": numpy.int64(0)}))
    prime = refused(model_of("DFT", 17, {"x": floats(1, 1000003, 1)}))
    assert (
        "has a prime factor that is too large; choose a length with small factors, such as a power of 2"
        in prime
    )
    assert "dft_length has 2 numbers; one is needed" in refused(
        model_of("DFT", 17, {"x": x}, {"length": numpy.array([4, 4])})
    )


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [False, True])
def test_stft(window, onesided):
    inputs = {"x": floats(2, 100, 1)}
    constants = {
        "step": numpy.int64(7),
        "window": floats(16) if window else None,
        "length": numpy.int64(16),
    }
    model = model_of("STFT", 17, inputs, constants, onesided=onesided)
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 1e-5


def test_stft_with_a_window_that_is_data_and_any_length():
    inputs = {"x": floats(1, 90, 1), "w": floats(12)}
    nodes = [helper.make_node("STFT", ["x", "step", "w"], ["y0"])]
    graph = helper.make_graph(
        nodes,
        "stft",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, "t", 1)),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, (12,)),
        ],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(numpy.int64(5), "step")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert worst_error(ours(model, inputs), runtime(model, inputs)) < 1e-5


def test_stft_refuses_what_does_not_fit():
    x = {"x": floats(1, 9, 1)}
    assert "a frame of 16 elements does not fit" in refused(
        model_of("STFT", 17, x, {"step": numpy.int64(1), "w": None, "n": numpy.int64(16)})
    )
    assert "; both must be positive, the length at most 1048576" in refused(
        model_of("STFT", 17, x, {"step": numpy.int64(0), "w": None, "n": numpy.int64(4)})
    )
    assert "the window has shape [3]" in refused(
        model_of("STFT", 17, x, {"step": numpy.int64(1), "w": floats(3), "n": numpy.int64(4)})
    )


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows(name, periodic):
    model = model_of(name, 17, {}, {"size": numpy.int64(10)}, periodic=periodic)
    assert worst_error(ours(model, {}), reference(model, {})) < 1e-6


def test_a_window_as_long_as_the_signal():
    x = floats(9)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Squeeze", ["s"], ["n"]),
        helper.make_node("HannWindow", ["n"], ["w"]),
        helper.make_node("Mul", ["x", "w"], ["y0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "windowed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("t",))],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert (
        worst_error(ours(model, {"x": x}), x * numpy.sin(numpy.pi * numpy.arange(9) / 9) ** 2)
        < 1e-6
    )


def test_mel_weights():
    numbers = {
        "bins": numpy.int64(8),
        "length": numpy.int64(64),
        "rate": numpy.int64(8000),
        "low": FLOAT(20),
        "high": FLOAT(3800),
    }
    model = model_of("MelWeightMatrix", 17, {}, numbers)
    assert worst_error(ours(model, {}), reference(model, {})) < 1e-6
    numbers["high"] = FLOAT(10)
    assert "; positive sizes of at most 2^24 weights and edges in order are needed" in refused(
        model_of("MelWeightMatrix", 17, {}, numbers)
    )


# --- n-grams --------------------------------------------------------------------------------------

GRAMS = {
    "min_gram_length": 1,
    "max_gram_length": 3,
    "max_skip_count": 2,
    "ngram_counts": [0, 3, 9],
    "ngram_indexes": [6, 1, 0, 3, 2, 4, 5],
    "pool_int64s": [2, 3, 5, 5, 2, 3, 3, 7, 5, 2, 5, 3],
}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shortest", [1, 2])
@pytest.mark.parametrize("size", [(11,), (3, 9), (2, 2)])
def test_ngrams(mode, shortest, size):
    x = RANDOM.choice([2, 3, 5, 7], size).astype(numpy.int64)
    model = model_of(
        "TfIdfVectorizer",
        9,
        {"x": x},
        mode=mode,
        weights=[0.5, 1.5, 2.0, 1.0, 3.0, 1.0, 0.25],
        **{**GRAMS, "min_gram_length": shortest},
    )
    assert worst_error(ours(model, {"x": x}), runtime(model, {"x": x})) < 1e-6


def test_ngrams_of_one_column_add_up():
    x = RANDOM.choice([2, 3, 5, 7], (3, 12)).astype(numpy.int64)
    model = model_of(
        "TfIdfVectorizer",
        9,
        {"x": x},
        mode="TF",
        **{**GRAMS, "ngram_indexes": [6, 1, 0, 3, 2, 4, 1]},
    )
    assert worst_error(ours(model, {"x": x}), reference(model, {"x": x})) < 1e-6


def test_ngrams_refuse_what_does_not_fit():
    def error(**changed):
        return refused(
            model_of(
                "TfIdfVectorizer",
                9,
                {"x": numpy.zeros(4, numpy.int64)},
                mode="TF",
                **{**GRAMS, **changed},
            )
        )

    scalar = refused(model_of("TfIdfVectorizer", 9, {"x": numpy.array(4)}, mode="TF", **GRAMS))
    assert "the input has shape []; [numbers] or [rows, numbers] is needed" in scalar
    assert "whole grams in order are needed" in error(ngram_counts=[0, 2, 9])
    assert "whole grams in order are needed" in error(ngram_counts=[0, 30, 9])
    assert "ngram_indexes has -1" in error(ngram_indexes=[-1] * 7)
    assert "fewer than there are grams" in error(ngram_indexes=[0])
    assert "max_skip_count is -1" in error(max_skip_count=-1)
    assert "1 to 64 in order are needed" in error(max_gram_length=1000)
    assert "weights has 1 numbers for 7 grams" in error(weights=[1.0])
    empty = model_of("TfIdfVectorizer", 9, {"x": numpy.zeros(4, numpy.int64)}, mode="TF", **GRAMS)
    next(
        attribute
        for attribute in empty.graph.node[0].attribute
        if attribute.name == "ngram_indexes"
    ).ClearField("ints")
    assert "fewer than there are grams" in refused(empty)
    next(
        attribute for attribute in empty.graph.node[0].attribute if attribute.name == "pool_int64s"
    ).ClearField("ints")
    next(
        attribute for attribute in empty.graph.node[0].attribute if attribute.name == "ngram_counts"
    ).ints[:] = [0]
    assert "there is nothing to count" in refused(empty)
