"""What tc compiles gives PyTorch's float64 outputs, and would not if one tap were lost."""

import numpy
import onnx
import pytest

from tests import zoo
from tests.zoo import mutate

tc = pytest.importorskip("tc", reason="tc is not installed here")

# Each network on one thread or on two, by turns; both with --full.
RUN = [
    pytest.param(
        name, threads, marks=pytest.mark.full if network.large or (number + threads) % 2 else ()
    )
    for threads in (1, 2)
    for number, (name, network) in enumerate(zoo.NETWORKS.items())
]


@pytest.mark.parametrize("name, threads", RUN)
def test_agrees_with_float64(name, threads):
    inputs, expected = zoo.reference(name)
    actual = tc.compile(str(zoo.export(name)), threads=threads).run(inputs)
    assert set(actual) == set(expected)
    for output in expected:
        assert zoo.agrees(actual[output], expected[output]), (
            output,
            zoo.distance(actual[output], expected[output]),
        )


@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v2", "nsnet2_step", "superres"])
def test_a_dropped_tap_is_noticed(name, tmp_path):
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    middle = len(mutate.weighted_layers(onnx.load(path))) // 2
    actual = tc.compile(str(mutate.drop_tap(path, middle, tmp_path))).run(inputs)
    assert not all(zoo.agrees(actual[output], expected[output]) for output in expected)


def test_one_nsnet2_serves_any_number_of_frames():
    module, network = tc.compile(str(zoo.export("nsnet2"))), zoo.build("nsnet2")
    longest = zoo.NETWORKS["nsnet2"].inputs
    draws = [longest(numpy.random.default_rng(number))["input"] for number in range(10)]
    recording = numpy.concatenate(draws, axis=1)
    for frames in (1, 7, 100, 1000):
        inputs = {"input": numpy.ascontiguousarray(recording[:, :frames])}
        expected = zoo.evaluate(network, "nsnet2", inputs)["gains"]
        actual = module.run(inputs)["gains"]
        assert zoo.agrees(actual, expected), (frames, zoo.distance(actual, expected))
