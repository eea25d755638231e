"""The networks are the published ones, well scaled, exported right, and fit to find errors."""

import numpy
import onnx
import pytest
import torch

from tests import zoo
from tests.zoo import count, mutate, nsnet2

EVERY = list(zoo.NETWORKS)
RUN = [
    pytest.param(name, marks=pytest.mark.full if network.large else ())
    for name, network in zoo.NETWORKS.items()
]
INPUT_SHAPES = {
    "alexnet": (1, 3, 224, 224),
    "caffenet": (1, 3, 227, 227),
    "googlenet": (1, 3, 224, 224),
    "squeezenet1_0": (1, 3, 224, 224),
    "squeezenet1_1": (1, 3, 224, 224),
    "nin": (1, 3, 224, 224),
    "mobilenet_v1": (1, 3, 224, 224),
    "mobilenet_v2": (1, 3, 224, 224),
    "resnet50": (1, 3, 224, 224),
    "resnet101": (1, 3, 224, 224),
    "yolov6n": (1, 3, 640, 640),
    "yolov7_tiny": (1, 3, 640, 640),
    "unet": (1, 3, 256, 256),
    "superres": (1, 1, 224, 224),
    "nsnet2": (1, "frames", 161),
    "nsnet2_step": (1, 161),
    "bert_base": (1, 128),
    "tinybert": (1, 128),
    "roberta_base": (1, 128),
}


@pytest.mark.parametrize("name", EVERY)
def test_matches_the_published_architecture(name):
    network, model = zoo.NETWORKS[name], zoo.outline(name)
    first = model.graph.input[0].type.tensor_type.shape.dim
    assert tuple(d.dim_param or d.dim_value for d in first) == INPUT_SHAPES[name]
    assert zoo.parameters(name) == network.parameters
    shapes = zoo.shapes(name)
    assert count.multiply_adds(model, shapes) == network.multiply_adds
    for exact, published in zip((network.parameters, network.multiply_adds), network.published):
        assert exact == pytest.approx(published, rel=network.tolerance)


@pytest.mark.parametrize("name", RUN)
def test_onnx_runtime_agrees_with_float64(name):
    inputs, expected = zoo.reference(name)
    actual = mutate.run(zoo.export(name), inputs)
    assert list(actual) == list(expected)
    for output in expected:
        assert zoo.agrees(actual[output], expected[output]), output


@pytest.mark.parametrize("name", RUN)
def test_outputs_change_with_the_input(name):
    _, expected = zoo.reference(name)
    other = mutate.run(zoo.export(name), zoo.example(name, 1000))
    for output in expected:
        assert zoo.distance(other[output], expected[output]) > 0.1, output


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=() if name in ("squeezenet1_1", "nsnet2_step", "superres") else pytest.mark.full,
        )
        for name in EVERY
    ],
)
def test_a_dropped_tap_is_noticed(name, tmp_path):
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    number = len(mutate.weighted_layers(onnx.load(path)))
    for layer in sorted({0, number // 2, number - 1}):
        broken = mutate.drop_tap(path, layer, tmp_path)
        actual = mutate.run(broken, inputs)
        broken.unlink()
        assert not all(zoo.agrees(actual[key], expected[key]) for key in expected), layer


@pytest.mark.parametrize("name", RUN)
def test_no_layer_vanishes_or_blows_up(name):
    deviations = {}
    module = zoo.build(name)
    for key, layer in module.named_modules():
        if hasattr(layer, "weight"):
            layer.register_forward_hook(
                lambda _, inputs, output, key=key: deviations.update({key: float(output.std())})
            )
    with torch.no_grad():
        module(*map(torch.from_numpy, zoo.example(name).values()))
    assert len(deviations) >= 4
    assert {key: value for key, value in deviations.items() if not 0.05 < value < 50} == {}


@pytest.mark.parametrize("frames", [1, 7, 100])
def test_nsnet2_takes_any_number_of_frames(frames):
    module = zoo.build("nsnet2")
    inputs = {"input": zoo.example("nsnet2")["input"][:, :frames]}
    actual = mutate.run(zoo.export("nsnet2"), inputs)["gains"]
    assert zoo.agrees(actual, zoo.evaluate(module, "nsnet2", inputs)["gains"])


def test_nsnet2_by_steps_is_nsnet2():
    step = zoo.build("nsnet2_step")
    assert isinstance(step, nsnet2.NsNet2Step)
    frames = zoo.example("nsnet2")["input"]
    states = numpy.zeros((2, 1, 400), numpy.float32)
    gains = []
    for frame in frames[0, :20]:
        result = zoo.evaluate(
            step,
            "nsnet2_step",
            {
                "input": frame[None],
                "state0": states[0].astype(numpy.float32),
                "state1": states[1].astype(numpy.float32),
            },
        )
        gains.append(result["gains"])
        states = result["next_state0"], result["next_state1"]
    whole = zoo.evaluate(zoo.build("nsnet2"), "nsnet2", {"input": frames[:, :20]})["gains"]
    assert zoo.distance(numpy.stack(gains, 1), whole) < 1e-6


def test_weights_are_the_same_each_time():
    first, second = zoo.build("squeezenet1_1").state_dict(), zoo.build("squeezenet1_1").state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_agrees_refuses_small_and_wrong():
    expected = numpy.array([1.0, -4.0])
    assert zoo.agrees(expected + 3.9e-4, expected)
    assert not zoo.agrees(expected + 4.1e-4, expected)
    assert not zoo.agrees(numpy.array([numpy.nan, -4.0]), expected)
    assert not zoo.agrees(numpy.array([[1.0, -4.0]]), expected)
