"""Where kernels run beside an accelerator: as the user says, and as the compiler decides. Decisions
are compared with other placements by the cycles of the simulated accelerator and the predicted ones
of the core."""

import functools
import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tc
from onnx import TensorProto, helper

from ..placements import (
    expected_of,
    fitting,
    on_each_unit,
    placed_run,
    quantised_layers,
    without_accelerator,
)
from ..support import models_folder

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
TINY = models_folder() / "mlperf_tiny"
ACCELERATORS = ("systolic16", "cgra64", "gemmini16")
NAMES = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "vww_96_int8")


SMALL = ("googlenet", "mobilenet_v1", "mobilenet_v2", "nin", "resnet50", "squeezenet1_1", "unet")


@pytest.fixture(scope="module")
def small_networks(tmp_path_factory):
    """A function that makes the quantised network of a name once."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    from ..small_networks import quantised

    folder = tmp_path_factory.mktemp("small")
    return functools.cache(lambda name: quantised(name, folder))


def random_model(seed):
    """A chain of one to three layers of seeded sizes, its input, and the target for which it is
    placed."""
    random = np.random.default_rng(seed)
    size = int(random.choice([1, 2, 4, 7, 12]))
    layers = [(int(random.choice([2, 3, 8, 16, 40])), 0, False)]
    for _ in range(int(random.integers(1, 4))):
        taps = int(random.choice([1, 3])) if size > 2 else 1
        features = int(random.choice([1, 4, 10, 16, 40]))
        layers.append((features, taps, bool(random.random() < 0.25)))
    x = random.integers(0, 256, (1, layers[0][0], size, size)).astype(np.uint8)
    core = str(random.choice(["rv32imfc", "rv64gcv_zvl256b", "rv64gc"]))
    name = str(random.choice(ACCELERATORS[:2])) if seed < 30 else ACCELERATORS[2]
    return quantised_layers(random, layers, size), x, f"{core}+accel:{name}"


def compare_with_both(model, target, x):
    """Asserts that the decision takes no more cycles than the core alone, in the accelerator's
    layouts or its own, nor than the accelerator with all that fits."""
    runs = on_each_unit(model, target, x, expected_of(model, x, target))
    alone = without_accelerator(model, target.partition("+accel:")[0])
    cycles = ", ".join(f"{unit} {run.cycles:.5g}" for unit, run in runs.items())
    print(f"{target}: {cycles}, without accelerator {alone:.5g}")
    assert runs["placed"].cycles <= alone
    assert runs["placed"].cycles <= min(runs["core"].cycles, runs["accelerator"].cycles)


@pytest.mark.parametrize(
    "accelerator", [*ACCELERATORS[:2], pytest.param(ACCELERATORS[2], marks=pytest.mark.full)]
)
@pytest.mark.parametrize(
    "core", ["rv32imfc", pytest.param("rv64gcv_zvl256b", marks=pytest.mark.full)]
)
@pytest.mark.parametrize(
    "name",
    [each if each == "ad01_int8" else pytest.param(each, marks=pytest.mark.full) for each in NAMES],
)
def test_networks_take_no_more_cycles_than_on_one_unit(name, core, accelerator):
    path = TINY / f"{name}.tflite"
    if not path.exists():
        pytest.skip("the models are not here: see $TC_MODELS")
    port = tc.compile(path, log=False).inputs[0]
    x = np.random.default_rng(7).integers(-128, 128, port.shape).astype(port.dtype)
    compare_with_both(path, f"{core}+accel:{accelerator}", x)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize(
    "name", ["superres", *(pytest.param(each, marks=pytest.mark.full) for each in SMALL)]
)
def test_networks_of_small_pictures_take_no_more_cycles_than_on_one_unit(
    name, accelerator, small_networks
):
    path, x = small_networks(name)
    compare_with_both(path, f"rv32imfc+accel:{accelerator}", x)


@pytest.mark.full
def test_mobilenet_takes_a_hundredth_of_the_cycles_of_the_core(tmp_path):
    """The core's cycles are those predicted for its sums alone, so that it is rated too fast."""
    pytest.importorskip("torch", reason="torch is not installed")
    from ..small_networks import quantised

    path, x = quantised("mobilenet_v1", tmp_path, (3, 224, 224))
    target = "rv32imfc+accel:systolic16"
    placed = placed_run(path, target, x, expected_of(path, x, target))
    alone = without_accelerator(path, "rv32imfc")
    print(f"placed {placed.cycles:.5g}, on the core {alone:.5g}: {alone / placed.cycles:.0f} times")
    assert 100 * placed.cycles <= alone


SEEDS = [pytest.param(seed, marks=[pytest.mark.full] * (2 < seed != 30)) for seed in range(35)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs_are_placed_within_5_percent_of_the_best(seed):
    model, x, target = random_model(seed)
    expected = expected_of(model, x, target)
    placed = placed_run(model, target, x, expected)
    name = target.partition("+accel:")[2]
    labels, best = fitting(placed.rows), placed.cycles
    for units in itertools.product(("core", name), repeat=len(labels)):
        place = dict(zip(labels, units, strict=True))
        run = placed_run(model, target, x, expected, place)
        assert all(
            (row["unit"] == "core") == (place[row["label"]] == "core")
            for row in run.rows
            if row["accelerator_cycles"]
        )
        best = min(best, run.cycles)
    print(f"seed {seed}, {target}: {placed.cycles:.5g}, the best of {2 ** len(labels)} {best:.5g}")
    assert placed.cycles <= 1.05 * best


def inspect(*arguments, command="inspect"):
    return subprocess.run(
        [sys.executable, "-m", "tc", command, *arguments], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """Two layers for which systolic16 is faster."""
    path = tmp_path_factory.mktemp("place") / "layers.onnx"
    random = np.random.default_rng(3)
    path.write_bytes(quantised_layers(random, [(16, 0, False), (16, 3, False), (32, 1, False)], 8))
    return str(path)


TARGET = "rv32imfc+accel:systolic16"


def units_of(path, *places):
    found = inspect(
        path, "--target", TARGET, "--json", *(f"--place={each}" for each in places), "--place"
    )
    assert found.returncode == 0, found.stderr
    return {row["label"]: row for row in json.loads(found.stdout)["placement"]}


def test_the_user_places_kernels(layers):
    decided = units_of(layers)
    first, second = (each for each in decided if each.startswith("layer") and " + " in each)
    assert {decided[each]["unit"] for each in (first, second)} == {"accelerator"}
    placed = units_of(layers, "layer0=core", f"{list(decided).index(second)}=systolic16")
    assert placed[first]["unit"] == "core" and placed[second]["unit"] == "accelerator"
    assert placed[first]["why"] == placed[second]["why"] == "it is placed here"
    assert placed[first]["accelerator_cycles"] == decided[first]["accelerator_cycles"]
    x = np.random.default_rng(4).integers(0, 256, (1, 16, 8, 8)).astype(np.uint8)
    simulations = [
        tc.simulate(tc.compile(layers, TARGET, place=place, log=False), x)
        for place in (None, {"layer0": "core"}, {"layer1": "core"})
    ]
    for each in simulations[1:]:
        np.testing.assert_array_equal(each.outputs[0], simulations[0].outputs[0])
        assert 0 < each.cycles < simulations[0].cycles
    both = simulations[1].commands["MULTIPLY"] + simulations[2].commands["MULTIPLY"]
    assert both == simulations[0].commands["MULTIPLY"]


def test_a_placement_is_part_of_what_an_artefact_was_made_from(layers, tmp_path):
    sources = []
    for place in ({}, {"layer0": "core"}, {"layer0": "systolic16"}):
        module = tc.compile(layers, TARGET, place=place, log=False)
        sources.append(module.provenance)
    assert len(set(sources)) == 3
    assert "place=" not in sources[0] and re.search(r" place=.*layer0.*=core", sources[1])
    output = tmp_path / "model.c"
    arguments = ["--target", TARGET, "--kind", "c", "-o", str(output)]
    for extra, is_there in (((), True), (("--place", "layer0=core", "--place=layer1=core"), False)):
        assert inspect(layers, *arguments, *extra, command="compile").returncode == 0
        assert ("systolic16_MULTIPLY(" in output.read_text()) == is_there


@pytest.mark.parametrize(
    "options, text",
    [
        (["--place", "layer7=core"], "place: no kernel is called 'layer7'; the kernels are "),
        (["--place", "layer=core"], "place: several kernels fit 'layer': "),
        (
            ["--place", "layer0=gpu"],
            "is placed on 'gpu'; target 'rv32imfc+accel:systolic16' has 'core' and 'systolic16'",
        ),
        (["--place", "layer0"], "--place takes KERNEL=core or KERNEL=ACCELERATOR, not 'layer0'"),
        (
            ["--place", "layer0=core", "--place", "layer0=systolic16"],
            "--place: kernel 'layer0' is placed on 'core' and on 'systolic16'; leave one out",
        ),
        (
            ["--place", "--kernel", "0"],
            "inspect shows where all kernels run (--place), or what --kernel asks for; leave one of the two out",
        ),
        (["--place", "--dump=plan"], "or what --dump asks for; leave one of the two out"),
        (
            ["--target", "rv32imfc", "--place", "layer0=core"],
            "place: target 'rv32imfc' has no accelerator, so that kernel 'layer0' can only run on the core",
        ),
    ],
)
def test_what_cannot_be_placed(layers, options, text):
    found = inspect(layers, "--target", TARGET, *options)
    assert found.returncode == 1 and text in found.stderr and found.stderr.count("\n") == 1


def test_kernels_that_fit_no_instruction_cannot_be_placed():
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="floats")],
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    text = "cannot be placed on accelerator 'systolic16': no instruction computes it; place it on the core"
    with pytest.raises(tc.UnsupportedError, match=re.escape(text)):
        tc.compile(model, TARGET, place={0: "systolic16"}, log=False)
    assert "=core" in tc.compile(model, TARGET, place={0: "core"}, log=False).provenance
    for place in (["core"], {0: 3}, {None: "core"}):
        with pytest.raises(tc.Error, match="give a dictionary of kernels and units"):
            tc.compile(model, TARGET, place=place, log=False)
    text = "place: kernel '[^']*' is placed on 'core' and on 'systolic16'; leave one out"
    with pytest.raises(tc.Error, match=text):
        tc.compile(model, TARGET, place={0: "core", "float": "systolic16"}, log=False)
