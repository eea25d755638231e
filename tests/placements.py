"""Cycles of models on a core with an accelerator, for any placement of their kernels."""

import typing

import numpy as np
import tc
from onnx import TensorProto, helper, numpy_helper
from tc.placement import placement
from tc.simulated_accelerator import run_on_core


class Placed(typing.NamedTuple):
    """The cycles of a run: all, and those that the core is predicted to take of them; the rows of
    tc.placement; the simulation, or None where the core executes all kernels."""

    cycles: float
    on_core: float
    rows: list
    simulation: object


def placed_run(model, target, x, expected, place=None):
    """Simulates a run of the model, and compares its result with the expected one. The cycles are
    those of the simulated accelerator, with its copies, and the predicted ones of the core."""
    rows, _ = placement(tc.kernels(model, target, place=place), target)
    on_core = 0.0
    for row in rows:
        alone = row["unit"] == "core"
        on_core += (row["core_cycles"] or 0) if alone else row["cycles_on_core"]
    if all(row["unit"] == "core" for row in rows):
        return Placed(on_core, on_core, rows, None)
    simulation = tc.simulate(tc.compile(model, target, place=place, log=False), x)
    np.testing.assert_array_equal(simulation.outputs[0], expected)
    return Placed(on_core + simulation.cycles, on_core, rows, simulation)


def fitting(rows):
    """The labels of the kernels that the accelerator can execute."""
    return list(dict.fromkeys(row["label"] for row in rows if row["accelerator_cycles"]))


def native_output(model, x):
    """The first output of the model on this machine's core."""
    found = tc.compile(model, log=False)(x)
    return found if isinstance(found, np.ndarray) else found[0]


def moved_by_roundings(model, x, found):
    """How far the model's first output moves, as the root of the mean square, where the input moves
    by a small part of a step: the few numbers which that rounds to another step move numbers of the
    next layer, and so on through fifty layers."""
    noise = np.random.default_rng(11).standard_normal(x.shape).astype(x.dtype)
    moved = native_output(model, x + np.float32(1e-4) * x.std() * noise) - found
    return np.sqrt(np.mean(np.square(moved)))


def expected_of(model, x, target):
    """The first output of the model on the core alone: as C, like the core's part of a simulation.
    The machine's own code has at most one rounding more or less in a product that is added up,
    which may be a step of a quantised number."""
    rows, _ = placement(tc.kernels(model, target), target)
    place = {each: "core" for each in fitting(rows)}
    expected = run_on_core(tc.compile(model, target, place=place, log=False), x)[0]
    found = native_output(model, x)
    if found.dtype.kind in "iu":
        assert np.abs(found.astype(np.int64) - expected).max() <= 1
    else:
        distance = np.sqrt(np.mean(np.square(found - expected)))
        allowed = 0.01 * np.abs(expected).max()
        assert distance <= allowed or distance <= 1.5 * moved_by_roundings(model, x, found)
    return expected


def without_accelerator(model, core):
    """The predicted cycles of the model on the core, in the layouts that a core without accelerator
    has. They leave out what follows sums."""
    reports = [kernel.default_report()[1] for kernel in tc.kernels(model, core)]
    return sum(each["cycles"] for report in reports for each in report if each["taken"])


def on_each_unit(model, target, x, expected):
    """The runs as the compiler places kernels, all on the core, and all that fit on the
    accelerator: {"core": Placed, "accelerator": Placed, "placed": Placed}."""
    placed = placed_run(model, target, x, expected)
    runs = {}
    for unit, name in (("core", "core"), ("accelerator", target.partition("+accel:")[2])):
        place = {each: name for each in fitting(placed.rows)}
        same = all(row["unit"] == unit for row in placed.rows if row["label"] in place)
        runs[unit] = placed if same else placed_run(model, target, x, expected, place)
    return {**runs, "placed": placed}


def quantised_layers(random, layers, size):
    """A chain of quantised convolutions, each (channels, taps, is depthwise), of bytes of size x
    size."""
    constants, nodes = {}, []

    def constant(name, array):
        constants[name] = array
        return name

    scale, zero = constant("scale", np.float32(0.02)), constant("zero", np.uint8(0))
    given, name = layers[0][0], "x"
    for number, (channels, taps, depthwise) in enumerate(layers[1:]):
        features = given if depthwise else channels
        shape = (features, 1 if depthwise else given, taps, taps)
        weights = constant(f"w{number}", random.integers(-127, 128, shape).astype(np.int8))
        scales = constant(f"s{number}", (random.random(features) * 4e-3 + 1e-3).astype(np.float32))
        zeros = constant(f"z{number}", np.zeros(features, np.int8))
        bias = constant(f"b{number}", random.standard_normal(features).astype(np.float32))
        made = [f"{part}{number}" for part in ("a", "v", "c", "r", "y")]
        nodes += [
            helper.make_node("DequantizeLinear", [name, scale, zero], [made[0]]),
            helper.make_node("DequantizeLinear", [weights, scales, zeros], [made[1]], axis=0),
            helper.make_node(
                "Conv",
                [made[0], made[1], bias],
                [made[2]],
                name=f"layer{number}",
                pads=[taps // 2] * 4,
                group=given if depthwise else 1,
            ),
            helper.make_node("Relu", [made[2]], [made[3]]),
            helper.make_node("QuantizeLinear", [made[3], scale, zero], [made[4]]),
        ]
        given, name = features, made[4]
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, layers[0][0], size, size])],
        [helper.make_tensor_value_info(name, TensorProto.UINT8, [1, given, size, size])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
