"""Models on simulated accelerators: the same bits as on the core, cycles, and what is refused."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tc
from onnx import TensorProto, helper, numpy_helper
from tc import accelerator
from tc.placement import placement

from ..placements import quantised_layers
from ..support import models_folder

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
TARGET = "rv64gc+accel:systolic16"
PRODUCTS = 16 * 16  # of systolic16's array, in a cycle


def model_of(node, x, y, constants, signed=False):
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.INT8 if signed else TensorProto.UINT8, x)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, y)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def convolution(random, channels, features, size, taps, stride, pad, signed=False):
    """ConvInteger with seeded weights."""
    weights = random.integers(-127, 128, (features, channels, taps, taps)).astype(np.int8)
    out = (size + 2 * pad - taps) // stride + 1
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], strides=[stride] * 2, pads=[pad] * 4)
    shape = (1, channels, size, size)
    return model_of(node, shape, [1, features, out, out], {"w": weights}, signed), shape


def product(random, rows, depth, columns, signed=False):
    weights = random.integers(-127, 128, (depth, columns)).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    return model_of(node, [rows, depth], [rows, columns], {"w": weights}, signed), (rows, depth)


def run(model, x, target=TARGET):
    """The simulation, after its outputs were compared with those of the core."""
    simulation = tc.simulate(tc.compile(model, target, log=False), x)
    expected = tc.compile(model, log=False)(x)
    np.testing.assert_array_equal(simulation.outputs[0], expected)
    return simulation


def bytes_of(random, shape, signed=False):
    return random.integers(0, 256, shape).astype(np.uint8).view(np.int8 if signed else np.uint8)


# What multiplies on each accelerator.
PRODUCT_OF = {"systolic16": "MULTIPLY", "gemmini16": "MATMUL"}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", PRODUCT_OF)
def test_random_layers(name, seed):
    """Of the bytes that the accelerator multiplies, and of products also the others, which are
    changed into these. Those of convolutions are not where padding has to be changed, too."""
    random = np.random.default_rng(seed)
    signed = name == "gemmini16"
    if seed % 3 == 0:
        signed = seed % 2 == 0
        model, shape = product(random, *random.integers(1, 70, 3).tolist(), signed)
    else:
        taps = int(random.choice([1, 3, 5]))
        model, shape = convolution(
            random,
            int(random.integers(16, 70)),
            int(random.integers(1, 70)),
            int(random.integers(taps, 24)),
            taps,
            int(random.integers(1, 3)),
            int(random.integers(0, taps // 2 + 1)),
            signed,
        )
    target = f"rv64gc+accel:{name}"
    module = tc.compile(model, target, place={"y": name}, log=False)
    x = bytes_of(random, shape, signed)
    simulation = tc.simulate(module, x)
    np.testing.assert_array_equal(simulation.outputs[0], tc.compile(model, log=False)(x))
    assert simulation.commands[PRODUCT_OF[name]] > 0


def quantised_convolution(random, channels, features, size, taps):
    """QDQ: bytes in and out, a scale for each feature, Relu."""
    weights = random.integers(-127, 128, (features, channels, taps, taps)).astype(np.int8)
    constants = {
        "scale": np.float32(0.02),
        "zero": np.uint8(0),
        "w": weights,
        "scales": (random.random(features) * 0.004 + 0.001).astype(np.float32),
        "zeros": np.zeros(features, np.int8),
        "bias": random.standard_normal(features).astype(np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "scales", "zeros"], ["v"], axis=0),
        helper.make_node("Conv", ["a", "v", "bias"], ["c"], pads=[taps // 2] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, channels, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, features, size, size])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("name", PRODUCT_OF)
def test_large_layers_run_at_the_peak(name, taps):
    """At least 80 % of the products that the array could do in the accelerator's cycles. Gemmini's
    sums are scaled by the core, which waits for those of several tiles at a time."""
    random = np.random.default_rng(5)
    model = quantised_convolution(random, 128, 128, 32, taps)
    simulation = run(model, bytes_of(random, (1, 128, 32, 32)), f"rv64gc+accel:{name}")
    assert name == "gemmini16" or simulation.commands["SCALE"] > 0
    products = 128 * 128 * 32 * 32 * taps * taps
    share = products / PRODUCTS / simulation.cycles
    print(f"{taps} x {taps} taps: {share:.0%} of the peak")
    assert share >= 0.8


VARIANTS = {
    "outputs": (64, "64KiB", "outputs", True),
    "inputs": (32, "32KiB", "inputs", True),
    "no_depthwise": (16, "16KiB", "outputs", False),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_another_accelerator(variant):
    """Of other sizes, with other instructions, and no line of the compiler changed."""
    make = runpy.run_path(Path(accelerator.__file__).parent / "accelerators" / "cgra64.py")
    made = make["coarse_grained_array"](f"cgra_{variant}", *VARIANTS[variant])
    accelerator.add(made)
    random = np.random.default_rng(11)
    model, shape = convolution(random, 20, 40, 14, 3, 1, 1)
    simulation = run(model, bytes_of(random, shape), f"rv64gc+accel:{made.name}")
    assert simulation.commands["OP_CONV"] > 0


def graph_of(nodes, inputs, output, constants=()):
    """The model of a graph: inputs and output are names, types and shapes."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*output)],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def of_one_statement(kind, shape):
    """A model of one elementwise node, or of one between quantisations, of activations of that
    shape; its number of inputs, and their type."""
    scale, zero = {"scale": np.float32(0.02)}, {"zero": np.uint8(3)}
    node, make = helper.make_node, TensorProto
    if kind == "relu":
        inputs = [("a", make.INT32, shape)]
        return graph_of([node("Relu", ["a"], ["y"])], inputs, ("y", make.INT32, shape)), 1, np.int32
    if kind == "words":
        inputs = [(name, make.INT32, shape) for name in "ab"]
        nodes = [node("Add", ["a", "b"], ["y"])]
        return graph_of(nodes, inputs, ("y", make.INT32, shape)), 2, np.int32
    nodes = [
        node("DequantizeLinear", ["a", "scale", "zero"], ["af"]),
        node("DequantizeLinear", ["b", "scale", "zero"], ["bf"]),
        node("Add", ["af", "bf"], ["sum"]),
        node("Relu", ["sum"], ["positive"]),
        node("QuantizeLinear", ["positive", "scale", "zero"], ["y"]),
    ]
    inputs = [(name, make.UINT8, shape) for name in "ab"]
    return graph_of(nodes, inputs, ("y", make.UINT8, shape), {**scale, **zero}), 2, np.uint8


ELEMENTWISE = {"words": "OP_E32_ADD", "relu": "OP_ACT_RELU", "bytes": "OP_E_ADD"}


@pytest.mark.parametrize("shape", [(1, 64, 12, 12), (1, 3, 300, 301), (3, 5), (1, 7)])
@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_elementwise_kernels(kind, shape):
    """Also those of which a part at a time fits the SRAM."""
    model, count, dtype = of_one_statement(kind, shape)
    random = np.random.default_rng(len(kind))
    limit = 256 if dtype == np.uint8 else 1 << 30
    inputs = [
        random.integers(0, limit, shape).astype(dtype) - (limit // 2) * (dtype == np.int32)
        for _ in range(count)
    ]
    target = "rv32imfc+accel:cgra64"
    module = tc.compile(model, target, place={0: "cgra64"}, log=False)
    simulation = tc.simulate(module, *inputs)
    np.testing.assert_array_equal(simulation.outputs[0], tc.compile(model, log=False)(*inputs))
    assert simulation.commands[ELEMENTWISE[kind]] > 0
    (row,), _ = placement(tc.kernels(model, target), target)
    assert (row["unit"] == "accelerator") == (row["accelerator_cycles"] <= row["core_cycles"])
    assert row["unit"] == "accelerator" or np.prod(shape) < 1000


@pytest.mark.parametrize("kind", ["MaxPool", "GlobalAveragePool"])
def test_pooling_behind_a_convolution(kind):
    random = np.random.default_rng(12)
    weights = random.integers(-127, 128, (64, 16, 1, 1)).astype(np.int8)
    constants = {
        "scale": np.float32(0.02),
        "zero": np.uint8(0),
        "w": weights,
        "scales": (random.random(64) * 0.004 + 0.001).astype(np.float32),
        "zeros": np.zeros(64, np.int8),
        "w2": random.integers(-127, 128, (64, 64, 1, 1)).astype(np.int8),
    }
    window = (
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4} if kind == "MaxPool" else {}
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "scales", "zeros"], ["v"], axis=0),
        helper.make_node("Conv", ["a", "v"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node(kind, ["d"], ["p"], **window),
        helper.make_node("QuantizeLinear", ["p", "scale", "zero"], ["u"]),
        # Another convolution reads the channels in blocks, too.
        helper.make_node("DequantizeLinear", ["u", "scale", "zero"], ["e"]),
        helper.make_node("DequantizeLinear", ["w2", "scales", "zeros"], ["v2"], axis=0),
        helper.make_node("Conv", ["e", "v2"], ["c2"]),
        helper.make_node("QuantizeLinear", ["c2", "scale", "zero"], ["y"]),
    ]
    out = 7 if kind == "MaxPool" else 1
    inputs = [("x", TensorProto.UINT8, (1, 16, 14, 14))]
    model = graph_of(nodes, inputs, ("y", TensorProto.UINT8, (1, 64, out, out)), constants)
    simulation = run(model, bytes_of(random, (1, 16, 14, 14)), "rv32imfc+accel:cgra64")
    assert simulation.commands["OP_POOL" if kind == "MaxPool" else "OP_POOL_SUM"] > 0


@pytest.mark.parametrize("name", ["systolic16", "cgra64", "gemmini16"])
def test_maps_of_one_pixel(name):
    """The channels of the sums are adjacent as they are, those of the results in blocks."""
    random = np.random.default_rng(6)
    model = quantised_layers(random, [(128, 0, False), (144, 1, False), (96, 1, False)], 1)
    target = f"rv32imfc+accel:{name}"
    rows, _ = placement(tc.kernels(model, target), target)
    layers = [row for row in rows if row["multiply_adds"]]
    assert len(layers) == 2 and all(row["unit"] == "accelerator" for row in layers)
    run(model, bytes_of(random, (1, 128, 1, 1)), target)


@pytest.mark.parametrize("channels", [1, 3, 4, 8, 24])
def test_layers_of_few_channels(channels):
    """Commands sum up all channels at a time, where there are more of them than columns in a
    window, although they fill no block."""
    random = np.random.default_rng(channels)
    layers = [(channels, 0, False), (channels, 1, False), (24, 3, False)]
    model = quantised_layers(random, layers, 12)
    x = bytes_of(random, (1, channels, 12, 12))
    name = "few_channels"
    make = runpy.run_path(Path(accelerator.__file__).parent / "accelerators" / "cgra64.py")
    accelerator.add(make["coarse_grained_array"](name, 64, "512KiB", "inputs"))
    simulation = run(model, x, f"rv32imfc+accel:{name}")
    # The first layer needs a command for each channel where these are not next to each other.
    commands = simulation.commands["OP_CONV"]
    print(f"{channels} channels: {commands} commands, {simulation.cycles} cycles")
    if channels >= 4:  # one for each tap, of each tile whose sums are copied to the core's memory
        assert commands <= 9 * simulation.commands["OP_DMA_WRITE_i32"]


def test_the_same_cycles_each_time():
    random = np.random.default_rng(6)
    model, shape = convolution(random, 32, 32, 12, 3, 1, 1)
    x = bytes_of(random, shape)
    first, second = run(model, x), run(model, x)
    assert (first.cycles, first.busy) == (second.cycles, second.busy)


@pytest.mark.parametrize("name", PRODUCT_OF)
def test_resnet_of_mlperf_tiny(name):
    path = models_folder() / "mlperf_tiny" / "pretrainedResnet_quant.tflite"
    module = tc.compile(path, f"rv32imfc+accel:{name}", log=False)
    x = np.random.default_rng(7).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    simulation = tc.simulate(module, x)
    np.testing.assert_array_equal(simulation.outputs[0], tc.compile(path, log=False)(x))
    assert simulation.commands[PRODUCT_OF[name]] > 0


def test_other_kinds_are_refused(tmp_path):
    model, _ = product(np.random.default_rng(8), 16, 16, 16)
    module = tc.compile(model, TARGET, log=False)
    with pytest.raises(
        tc.UnsupportedError, match="it has no commands for accelerator 'systolic16'"
    ):
        module.export(tmp_path / "model", kind="executable")


def test_what_is_not_simulated(monkeypatch):
    model, shape = product(np.random.default_rng(9), 4, 4, 4)
    x = np.zeros(shape, np.uint8)
    text = "target 'rv64gc' has no accelerator; compile the model for one, as 'rv64gcv+accel:NAME'"
    with pytest.raises(tc.TargetError, match=re.escape(text)):
        tc.simulate(tc.compile(model, "rv64gc", log=False), x)
    module = tc.compile(model, TARGET, log=False)
    with pytest.raises(tc.Error, match="input 'x' is int8 .4, 4., not uint8 .4, 4."):
        tc.simulate(module, x.astype(np.int8))
    floats = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    opset = [helper.make_opsetid("", 13)]
    relu = helper.make_model(floats, opset_imports=opset, ir_version=8).SerializeToString()
    with pytest.raises(tc.Error, match="no kernel of the model is executed by accelerator 'syst"):
        tc.simulate(tc.compile(relu, TARGET, log=False), np.zeros(4, np.float32))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    text = "no C compiler (cc, gcc, clang) is installed, and the simulator is C"
    with pytest.raises(tc.Error, match=re.escape(text)):
        tc.simulate(module, x)


def write(folder, body, name="mine"):
    os.makedirs(folder, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(body)
    return path


HEAD = "from tc.accelerator import Accelerator\naccelerator = Accelerator('mine')\naccelerator.memory('m', 1024)\n"
COPY = (
    "accelerator.unit('u').instruction('LOAD', meaning='b[i] = a[i]', "
    "operands={'a': 'u8 host', 'b': 'u8 m'}, limits={'i': 8}, cycles='i')\n"
)


@pytest.mark.parametrize(
    "body, text",
    [
        ("accelerator = 3", "does not make an Accelerator called `accelerator`"),
        ("raise SystemExit(2)", "ends with SystemExit: 2; it is executed as Python"),
        ("1 / 0", "ends with ZeroDivisionError: division by zero"),
        (HEAD, "it has 0 instructions, not 1 to 64"),
        (HEAD + COPY * 2, "two instructions are called 'LOAD'"),
        (
            HEAD + COPY.replace("u8 m", "u8 n"),
            "operand 'b' is in the memory 'n', which the accelerator does not have",
        ),
        (HEAD + COPY.replace("u8 m", "u9 m"), "expected an element type; found `u9"),
        (HEAD + COPY.replace("u8 m", "m"), "operand 'b' is 'm'; write its type and its memory"),
        (HEAD + COPY.replace("b[i] = a[i]", "b[i] = a[2*i]"), "expected an integer; found `i]`"),
        (
            HEAD + COPY.replace("b[i] = a[i]", "copy"),
            "its meaning 'copy' is no assignment to an operand; write it as 'c[i] = a[i]', 'c[i] += a[i]' or 'c[i] max= a[i]'",
        ),
        (
            HEAD + COPY.replace("cycles='i'", "cycles='i / j'"),
            "expected a whole number above 0 as a divisor",
        ),
        (
            HEAD + COPY.replace("'a': 'u8 host'", "'a': 'u8 host', 'c': 'u8 host'"),
            "its meaning does not have the operand 'c'",
        ),
        (
            HEAD + COPY.replace("cycles='i'", "cycles='*'"),
            "expected a number, a name or a parenthesis",
        ),
        (
            HEAD + COPY.replace("cycles='i'", "cycles='k'"),
            'there is no "k" in this instruction; there are: i',
        ),
        (HEAD + COPY.replace("cycles='i'", "cycles='(i'"), "expected"),
        (
            HEAD + COPY.replace("u8 m", "u8 m i=2"),
            "no command has the step 'b_i'; steps are called OPERAND_ITERATOR",
        ),
        (
            HEAD + COPY + "accelerator.unit('u').encode('LOAD', [('nop', {0: 'c'})])",
            'there is no "c" in this instruction; there are: a, b, i',
        ),
        (
            HEAD + COPY + "accelerator.unit('u').encode('SAVE', [])",
            "instruction 'SAVE': it has an encoding, but is not described before it",
        ),
        (
            HEAD + COPY + "accelerator.unit('u').encode('LOAD', ['nop'])",
            "'nop' is no word of an encoding; write it as ('mv x1, %0', {0: 'a', 32: 'n'})",
        ),
        (
            HEAD.replace("'mine'", "'mine', wait=3") + COPY,
            "wait is 3, not the text of an instruction",
        ),
        (HEAD + COPY.replace("'i': 8", "'i': 0"), "the range of parameter 'trips_i' is empty"),
        (
            HEAD + COPY.replace("'i': 8", "'i': 'x'"),
            "the limit of 'i' is 'x', not a whole number from 0 to 2147483647",
        ),
        (
            HEAD + COPY.replace("u8 m", f"u8 m i={10**30}"),
            f"operand 'b' has a step of {10**30} bytes along 'i'; give at most 2147483647",
        ),
        (
            HEAD + COPY + "accelerator.unit('u').encode('LOAD', [('nop', {1 << 40: 'a'})])",
            "the word 'nop' has a value from bit 1099511627776 on; registers have bits 0 to 63",
        ),
        (
            HEAD + COPY + "accelerator.unit('u').encode('LOAD', 3)",
            "its encoding is 3; give a list of words",
        ),
        (
            HEAD + COPY.replace("{'i': 8}", "3"),
            "its limits are 3; give a dictionary by their names",
        ),
        (
            HEAD + COPY.replace("{'i': 8}", "{'i': 8, 'n': (1,)}"),
            "the range of 'n' is (1,); give its smallest and its largest number, whole numbers from",
        ),
        (
            HEAD + COPY.replace("'b[i] = a[i]'", "None"),
            "its meaning is None, not an assignment such as 'c[i] = a[i]'",
        ),
        (HEAD + COPY.replace("'i')", "3)"), "its cycles is 3, not a formula such as '8 + i'"),
        (
            HEAD.replace("1024", "'much'") + COPY,
            "memory 'm': its size is 'much'; give a number of bytes, alone or with a unit",
        ),
        (HEAD.replace("1024", "1 << 40") + COPY, "memory 'm' has 1099511627776 bytes"),
        (
            HEAD.replace("1024", "1024, 3") + COPY,
            "memory 'm' has the alignment 3, which is no power of two",
        ),
        (
            HEAD.replace("'mine'", "'my accelerator'") + COPY,
            "the name 'my accelerator' is no identifier of C",
        ),
    ],
)
def test_wrong_files(tmp_path, body, text):
    path = write(tmp_path, body)
    with pytest.raises(tc.TargetError) as caught:
        accelerator.load(path)
    assert text in str(caught.value) and str(path) in str(caught.value)


# What no argument of a description is, as Python.
HOSTILE = ("None", "-1", "1 << 70", "True", "2.5", "float('nan')", "'\\ud800'", "'a\\nb'", "b'x'")
HOSTILE += ("[]", "{}", "{None: None}", "{'i': (1, 1 << 70)}", "[('nop', {-1: 'a'})]", "object()")
VALUES = {
    "Accelerator": ("'mine'", "16", "1", "2", "''"),
    "memory": ("'m'", "1024", "4", "4"),
    "unit": ("'u'",),
    "instruction": ("'LOAD'", "'b[i] = a[i]'", "{'a': 'u8 host', 'b': 'u8 m'}", "{'i': 4}", "'i'"),
    "encode": ("'LOAD'", "[('nop', {0: 'a'})]"),
}


@pytest.mark.parametrize(
    "call, at", [(call, at) for call in VALUES for at in range(len(VALUES[call]))]
)
def test_hostile_values(tmp_path, call, at):
    """Each is refused in one line that names the file, or means something."""
    for value in HOSTILE:
        given = {name: ", ".join(values) for name, values in VALUES.items()}
        given[call] = ", ".join([*VALUES[call][:at], value, *VALUES[call][at + 1 :]])
        body = (
            "from tc.accelerator import Accelerator\n"
            f"accelerator = Accelerator({given['Accelerator']})\n"
            f"accelerator.memory({given['memory']})\nunit = accelerator.unit({given['unit']})\n"
            f"unit.instruction({given['instruction']})\n"
        )
        if call == "encode":
            body += f"unit.encode({given['encode']})\naccelerator.wait = 'fence'\n"
        path = write(tmp_path, body)
        try:
            accelerator.load(path)
        except tc.TargetError as error:
            said = str(error)
            assert f"accelerator file '{path}': accelerator" in said and "\n" not in said
            assert "incompatible" not in said and len(said) < 1000


def test_files_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tc.TargetError, match="cannot be read: No such file"):
        accelerator.load(tmp_path / "none.py")
    text = (
        "there is no accelerator 'nowhere': neither accelerators/nowhere.py nor tc has it; "
        "give its file as --accelerator FILE or by tc.accelerator.load(FILE)"
    )
    model, _ = product(np.random.default_rng(0), 4, 4, 4)
    with pytest.raises(tc.TargetError, match=re.escape(text)):
        tc.compile(model, "rv64gc+accel:nowhere", log=False)


def test_a_file_of_the_working_folder_is_taken_by_its_name(tmp_path, monkeypatch):
    """It runs when a target names it, and not before."""
    body = "import pathlib\npathlib.Path('ran').touch()\n" + HEAD.replace("mine", "local") + COPY
    write(tmp_path / "accelerators", body, "local")
    monkeypatch.chdir(tmp_path)
    model, _ = product(np.random.default_rng(0), 4, 4, 4)
    tc.compile(model, "rv64gc", log=False)
    assert not (tmp_path / "ran").exists()
    assert tc.compile(model, "rv64gc+accel:local", log=False).target == "rv64gc+accel:local"
    assert (tmp_path / "ran").exists()


def inspect(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tc", "inspect", *arguments, "--place"],
        capture_output=True,
        text=True,
    )


def test_who_runs_what(tmp_path):
    model = os.path.join(models_folder(), "mlperf_tiny", "pretrainedResnet_quant.tflite")
    if not os.path.exists(model):
        pytest.skip("the models are not here: see $TC_MODELS")
    rows = json.loads(inspect(model, "--target", TARGET, "--json").stdout)["placement"]
    placed = [row for row in rows if row["unit"] == "accelerator"]
    assert len(placed) >= 9 and all(row["multiply_adds"] for row in placed)
    work = sum(row["multiply_adds"] for row in rows)
    assert sum(row["multiply_adds"] for row in placed) >= 0.999 * work
    assert all(row["accelerator_cycles"] < row["core_cycles"] for row in placed)
    assert all(row["why"] for row in rows if row["unit"] == "core")
    head, *lines, total = inspect(model, "--target", TARGET).stdout.splitlines()
    assert head.split() == ["kernel", "runs", "on", "systolic16", "core", "label"]
    assert len(lines) == len(rows)
    assert total.startswith(f"{len(placed)} of {len(rows)} kernels run on systolic16, with 100.0 %")
    assert inspect(model, "--target", "rv64gc").stderr == (
        "tc: --place: target 'rv64gc' has no accelerator; name one (--target rv64gc+accel:NAME), or "
        "give its file by --accelerator\n"
    )
