"""Every network of the zoo, compiled, agrees with PyTorch's float64."""

import numpy
import pytest

import tc

from . import zoo
from .support import output_file, run_under_qemu, worst_error

LIMIT = 1e-4
SIMULATED = ["squeezenet1_1", "mobilenet_v2", "nsnet2_step"]


def networks():
    return [pytest.param(name, marks=[pytest.mark.full] if network.large else [])
            for name, network in zoo.NETWORKS.items()]


def check(label, actual, expected):
    """Worst error within the limit, and close in numpy's sense too."""
    worst = 0.0
    for name, array in expected.items():
        worst = max(worst, worst_error(actual[name], array))
        largest = numpy.abs(array).max()
        assert numpy.allclose(actual[name], array, rtol=1e-3, atol=1e-3 * largest)
    print(f"{label}: worst error {worst:.2e} of the largest output")
    assert worst <= LIMIT


@pytest.mark.parametrize("name", networks())
def test_agrees_with_float64(name):
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    module = tc.compile(str(path))
    check(name, module.run(inputs), expected)


@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v2", "tinybert", "nsnet2_step"])
@pytest.mark.parametrize("layer", [0, -1])
def test_a_dropped_tap_is_noticed(name, layer, tmp_path):
    """The comparison fails for a network in which one layer has lost one tap."""
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    from .zoo import mutate

    count = len(mutate.weighted_layers(__import__("onnx").load(path)))
    broken = mutate.drop_tap(path, layer % count, tmp_path)
    actual = tc.compile(str(broken)).run(inputs)
    assert max(worst_error(actual[key], expected[key]) for key in expected) > LIMIT


def test_one_symbolic_artefact_serves_all_lengths():
    """nsNet2 is compiled once, with a free number of frames."""
    path = zoo.export("nsnet2")
    module = tc.compile(str(path))
    network = zoo.build("nsnet2")
    random = numpy.random.default_rng(1)
    for frames in (1, 7, 100, 1000):
        inputs = {"input": random.standard_normal((1, frames, 161)).astype(numpy.float32)}
        expected = zoo.evaluate(network, "nsnet2", inputs)
        check(f"nsnet2, {frames} frames", module.run(inputs), expected)


@pytest.mark.parametrize("name", SIMULATED)
def test_agrees_on_riscv64(name, tmp_path):
    path = zoo.export(name)
    inputs, expected = zoo.reference(name)
    executable = tmp_path / name
    tc.compile(str(path), target="rv64gcv").export(str(executable), kind="executable")
    outputs = run_under_qemu(executable, inputs, tmp_path)
    check(f"{name} rv64gcv", {key: outputs[output_file(key)] for key in expected}, expected)
