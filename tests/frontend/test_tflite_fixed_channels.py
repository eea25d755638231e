"""Channels of convolutions that have one value are removed, and the results stay the same."""

import numpy as np
import pytest

import tc
from tc.tflite import model as importer
from tc.tflite.file import open_file
from tc.tflite.fixed_channels import without_fixed_channels

pytest.importorskip("tflite")
pytest.importorskip("flatbuffers")

from .tflite_files import Operator, Tensor, file_of  # noqa: E402

# Of the channels between the convolutions: not active, at one positive value, and others.
CHANNELS, INACTIVE, POSITIVE = 24, range(4, 13), range(13, 20)
WINDOW = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
RELU = {"FusedActivationFunction": 1}


def network(with_window, window=1, zero=-128, more_outputs=(), reader=None):
    """A product of channels, a convolution with a window per channel if `with_window`, and another
    product, whose window has that many rows and columns."""
    random = np.random.default_rng(3)

    def numbers(shape):
        return random.integers(-127, 128, shape).astype(np.int8)

    tensors = [Tensor("x", (1, 6, 5, 4), np.int8, scale=0.1, zero=3)]
    operators, last = [], 0

    def add(name, shape, channels, own, scales, bias):
        nonlocal last
        first = len(tensors)
        tensors.extend(
            [
                Tensor(
                    f"w{first}",
                    data=numbers(shape),
                    scale=scales,
                    zero=[0] * channels,
                    axis=3 * own,
                ),
                Tensor(f"b{first}", data=bias.astype(np.int32)),
                Tensor(f"y{first}", (1, 6, 5, channels), np.int8, scale=0.05, zero=zero),
            ]
        )
        table = "DepthwiseConv2DOptions" if own else "Conv2DOptions"
        options = {**WINDOW, **RELU, **({"DepthMultiplier": 1} if own else {})}
        operators.append(Operator(name, [last, first, first + 1], [first + 2], table, **options))
        last = first + 2

    scales, bias = np.full(CHANNELS, 0.002), random.integers(-2000, 2000, CHANNELS)
    scales[INACTIVE], bias[INACTIVE] = 1e-10, -2_000_000_000
    scales[POSITIVE], bias[POSITIVE] = 3e-9, 1_500_000_000
    add("CONV_2D", (CHANNELS, 1, 1, 4), CHANNELS, False, scales, bias)
    if with_window:
        add(
            "DEPTHWISE_CONV_2D",
            (1, 3, 3, CHANNELS),
            CHANNELS,
            True,
            np.full(CHANNELS, 0.003),
            random.integers(-3000, 3000, CHANNELS),
        )
    between = last
    add(
        "CONV_2D",
        (6, window, window, CHANNELS),
        6,
        False,
        np.full(6, 0.004),
        random.integers(-900, 900, 6),
    )
    if reader is not None:
        tensors.append(Tensor("read", (1, 6, 5, CHANNELS), np.int8, scale=0.05, zero=zero))
        operators.append(Operator(reader, [between], [len(tensors) - 1]))
    outputs = [last, *(between for _ in more_outputs)]
    return file_of(tensors, operators, [0], outputs), between


def results(data, samples):
    run = tc.compile(data, log=False, threads=1)
    found = [run(sample) for sample in samples]
    return [[np.asarray(each) for each in np.atleast_1d(one)] for one in found]


def channels_left(data, tensor):
    return without_fixed_channels(open_file(data, "m").subgraphs[0]).tensors[tensor].shape[3]


@pytest.mark.parametrize(
    "with_window, window, zero, left",
    [
        (False, 1, -128, 8),  # 8 others of the 24
        (False, 3, -128, 16),  # borders lack the products of positive channels
        (False, 1, -100, 8),
        (True, 1, -128, 16),  # so do those of windows per channel
    ],
)
def test_results_stay_the_same(with_window, window, zero, left, monkeypatch):
    data, between = network(with_window, window, zero)
    assert channels_left(data, between) == left
    random = np.random.default_rng(5)
    samples = [random.integers(-128, 128, (1, 6, 5, 4)).astype(np.int8) for _ in range(8)]
    samples += [np.full((1, 6, 5, 4), value, np.int8) for value in (-128, 3, 127)]
    short = results(data, samples)
    monkeypatch.setattr(importer, "without_fixed_channels", lambda graph: graph)
    whole = results(data, samples)
    assert len({each[0].tobytes() for each in whole}) > 1  # the model depends on its input
    for one, other in zip(short, whole):
        assert all(np.array_equal(a, b) for a, b in zip(one, other))


def test_channels_that_others_read_stay():
    data, between = network(False)
    assert channels_left(data, between) == 8
    data, between = network(False, more_outputs=[1])
    assert channels_left(data, between) == CHANNELS
    data, between = network(False, reader="RELU")
    assert channels_left(data, between) == CHANNELS


def test_an_operator_that_reads_its_own_result_is_left_to_the_importer():
    tensors = [
        Tensor("x", (1, 2, 2, 4), np.int8, scale=0.1, zero=0),
        Tensor("w", data=np.ones((1, 1, 1, 4), np.int8), scale=[1e-12] * 4, zero=[0] * 4, axis=3),
        Tensor("y", (1, 2, 2, 4), np.int8, scale=0.1, zero=0),
    ]
    own = Operator("DEPTHWISE_CONV_2D", [2, 1], [2], "DepthwiseConv2DOptions", **WINDOW)
    graph = open_file(file_of(tensors, [own], [0], [2]), "m").subgraphs[0]
    assert without_fixed_channels(graph) is graph
