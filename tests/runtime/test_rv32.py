"""32-bit RISC-V, scalar and with vectors of float32: networks of each kind of layer as bare
artefacts, and what these targets refuse."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import tc

from ..frontend import random_maps
from ..support import ROOT, worst_error
from .bare_models import link_example, run_arrays, run_as_process, run_tool, said, write_samples

TARGETS = ["rv32imfc", "rv32imfc_zve32f"]
STEP = 0.03  # of quantised()


class Network:
    """A graph of one float32 input and one output, node after node; constants are seeded and
    small."""

    def __init__(self, shape):
        self.shape, self.random, self.nodes, self.constants, self.last = (
            shape,
            numpy.random.default_rng(0),
            [],
            [],
            "x",
        )

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.asarray(value), name))
        return name

    def weights(self, *shape):
        return self.constant(
            (self.random.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype(
                numpy.float32
            )
        )

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}"] + [f"v{len(self.nodes)}_{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(op, inputs or [self.last], names, **attributes))
        self.last = names[0]
        return names[0]

    def save(self, path):
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            self.constants,
        )
        save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
            path,
        )


def convolutions():
    net = Network([1, 3, 20, 20])
    net.add(
        "Relu",
        net.add("Conv", net.last, net.weights(24, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
    )
    net.add(
        "Conv", net.last, net.weights(24, 1, 5, 5), net.weights(24), group=24, pads=[2, 2, 2, 2]
    )
    net.add("HardSwish")
    net.add("Conv", net.last, net.weights(40, 24, 1, 1), net.weights(40))
    net.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    net.add("AveragePool", kernel_shape=[2, 2])
    net.add("Flatten")
    net.add("Gemm", net.last, net.weights(10, 640), net.weights(10), transB=1)
    net.add("Softmax")
    return net


def attention():
    net = Network([12, 32])
    scale, bias = (
        net.constant(numpy.ones(32, numpy.float32)),
        net.constant(numpy.zeros(32, numpy.float32)),
    )
    rows = net.add("LayerNormalization", "x", scale, bias)
    query, key, value = (net.add("MatMul", rows, net.weights(32, 32)) for _ in range(3))
    scores = net.add("Softmax", net.add("MatMul", query, net.add("Transpose", key, perm=[1, 0])))
    net.add("Add", "x", net.add("MatMul", scores, value))
    net.add("Gelu", net.add("MatMul", net.last, net.weights(32, 64)))
    return net


def recurrence():
    net = Network([9, 1, 16])
    net.add("GRU", "x", net.weights(1, 60, 16), net.weights(1, 60, 20), hidden_size=20)
    net.add("Squeeze", net.last, net.constant(numpy.array([1], numpy.int64)))
    net.add("Tanh")
    return net


def quantised():
    """QuantizeLinear and DequantizeLinear around a convolution, as quantisers write them."""
    net = Network([1, 8, 9, 9])
    zero, scale = net.constant(numpy.uint8(128)), net.constant(numpy.float32(STEP))
    x = net.add("DequantizeLinear", net.add("QuantizeLinear", "x", scale, zero), scale, zero)
    filters = net.constant(net.random.integers(-127, 128, (16, 8, 3, 3)).astype(numpy.int8))
    w = net.add(
        "DequantizeLinear", filters, net.constant(numpy.float32(0.004)), net.constant(numpy.int8(0))
    )
    net.add("Relu", net.add("Conv", x, w, pads=[1, 1, 1, 1]))
    net.add("DequantizeLinear", net.add("QuantizeLinear", net.last, scale, zero), scale, zero)
    return net


def movements():
    net = Network([1, 6, 5, 7])
    parts = net.add("Split", "x", outputs=2, axis=1, num_outputs=2), f"v{len(net.nodes) - 1}_1"
    net.add(
        "Concat",
        net.add("Gather", parts[0], net.constant(numpy.array([2, 0, 1, 1], numpy.int64)), axis=1),
        parts[1],
        axis=1,
    )
    net.add(
        "Resize",
        net.last,
        "",
        net.constant(numpy.array([1, 1, 2, 2], numpy.float32)),
        mode="linear",
    )
    net.add("Transpose", perm=[0, 2, 3, 1])
    net.add("ReduceMean", net.last, net.constant(numpy.array([1], numpy.int64)), keepdims=0)
    return net


NETWORKS = [convolutions, attention, recurrence, quantised, movements]


def quantised_error(found, wanted):
    """The error beside steps: the reference adds up floats, tc integers, so that of ties few are
    rounded otherwise."""
    steps = numpy.rint((found - wanted) / STEP)
    assert numpy.abs(steps).max() <= 1 and numpy.count_nonzero(steps) <= 3
    return worst_error(found, wanted + steps.astype(numpy.float32) * numpy.float32(STEP))


def check_network(make, target, tmp_path):
    """A bare artefact of the network as a process, beside the reference."""
    make().save(tmp_path / "model.onnx")
    x = numpy.random.default_rng(1).standard_normal(make().shape).astype(numpy.float32)
    tc.compile(tmp_path / "model.onnx", target=target, threads=1, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    write_samples(tmp_path, [x])
    program = link_example(tmp_path, target, [ROOT / "tests/runtime/bare_linux.c"])
    _, (found,), _ = said(run_as_process(program, target), numpy.float32)
    wanted = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})[0]
    compare = quantised_error if make is quantised else worst_error
    error = compare(found, wanted.ravel())
    print(f"{make.__name__} on {target}: {error:.1e}")
    assert error <= 1e-4


def check_random_network(seed, target, tmp_path):
    network = random_maps.Network(seed, axes=2)
    tc.compile(network.model(), target=target, tolerance=0, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    like = [numpy.zeros(numpy.shape(exact), numpy.float32) for exact in network.outputs.values()]
    found = run_arrays(tmp_path, target, network.inputs.values(), like)
    assert not random_maps.what_is_wrong(network, dict(zip(network.outputs, found)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", NETWORKS)
def test_networks(make, target, tmp_path):
    check_network(make, target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(5))
def test_random_networks(seed, target, tmp_path):
    check_random_network(seed, target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_long_integers_become_floats(kind, target, tmp_path):
    draw = numpy.random.default_rng(0)
    x = draw.integers(0, 1 << 63, 500) >> draw.integers(0, 63, 500)
    x = numpy.concatenate(
        [
            x,
            -x,
            [0, 1 << 24, (1 << 24) + 1, (1 << 40) + (1 << 16), (1 << 40) + (1 << 16) + 1, -1 << 63],
        ]
    ).astype(kind)
    ports = [
        helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape),
    ]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], "g", ports[:1], ports[1:]
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "model.onnx",
    )
    tc.compile(tmp_path / "model.onnx", target=target, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    (y,) = run_arrays(tmp_path, target, [x], [numpy.zeros(x.shape, numpy.float32)])
    assert numpy.array_equal(y, x.astype(numpy.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_casts_are_those_of_this_machine(target, tmp_path):
    """From floats, with NaN, infinities and numbers beyond the types' ends, to integers of at most
    32 bits and float16; from small integers to float16."""
    draw = numpy.random.default_rng(0)
    special = [
        numpy.nan,
        numpy.inf,
        -numpy.inf,
        0.5,
        -0.5,
        -0.0,
        127.5,
        128,
        255.5,
        256,
        -129,
        32768,
        65535.5,
        2.0**31,
        -(2.0**31),
        2.0**32,
        3e38,
        -3e38,
    ]
    x = numpy.concatenate(
        [special, draw.standard_normal(500) * 2.0 ** draw.uniform(-4, 34, 500)]
    ).astype(numpy.float32)
    inputs = {
        "x": x,
        "bytes": numpy.arange(-128, 128).astype(numpy.int8),
        "flags": numpy.array([True, False, True]),
    }
    kinds = {
        "x": ["int8", "uint8", "int16", "uint16", "int32", "float16"],
        "bytes": ["float16"],
        "flags": ["float16"],
    }
    if target == "rv32imfc":
        kinds["x"].append("uint32")  # on vectors that way takes doubles
    code = lambda kind: helper.np_dtype_to_tensor_dtype(numpy.dtype(kind))
    pairs = [(name, kind) for name in inputs for kind in kinds[name]]
    ports = [
        helper.make_tensor_value_info(name, code(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [
        helper.make_tensor_value_info(f"{name}_{kind}", code(kind), inputs[name].shape)
        for name, kind in pairs
    ]
    nodes = [
        helper.make_node("Cast", [name], [f"{name}_{kind}"], to=code(kind)) for name, kind in pairs
    ]
    save(
        helper.make_model(
            helper.make_graph(nodes, "g", ports, results),
            opset_imports=[helper.make_opsetid("", 20)],
            ir_version=9,
        ),
        tmp_path / "model.onnx",
    )
    tc.compile(tmp_path / "model.onnx", target=target, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    wanted = tc.compile(tmp_path / "model.onnx", log=False).run(inputs)
    like = [numpy.asarray(wanted[f"{name}_{kind}"]) for name, kind in pairs]
    for (name, kind), found, exact in zip(
        pairs, run_arrays(tmp_path, target, inputs.values(), like), like
    ):
        assert numpy.array_equal(found, exact, equal_nan=kind == "float16"), (name, kind)


@pytest.mark.parametrize("target", TARGETS)
def test_places_are_divided_without_a_library(target, tmp_path):
    """Reshapes between sizes that share no factor: places by division by 7 and 9."""
    net = Network([7, 9, 2])
    net.add("Transpose", perm=[1, 0, 2])
    net.add("Reshape", net.last, net.constant(numpy.array([14, 9], numpy.int64)))
    net.add("Transpose", perm=[1, 0])
    net.add("Reshape", net.last, net.constant(numpy.array([3, 6, 7], numpy.int64)))
    net.add("Softmax", axis=1)
    net.save(tmp_path / "model.onnx")
    tc.compile(tmp_path / "model.onnx", target=target, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    x = numpy.random.default_rng(0).standard_normal(net.shape).astype(numpy.float32)
    wanted = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})[0]
    (found,) = run_arrays(tmp_path, target, [x], [wanted])
    assert worst_error(found, wanted) <= 1e-4


def test_sums_are_vectors(tmp_path):
    convolutions().save(tmp_path / "model.onnx")
    tc.compile(tmp_path / "model.onnx", target="rv32imfc_zve32f", threads=1, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    code = run_tool(
        "llvm-objdump", "--disassemble", "--mattr=+m,+f,+c,+zve32f", tmp_path / "model.o"
    )
    assert code.count("vfmacc.vf") > 100
    assert "elf32-littleriscv" in code


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["shared", "static", "executable", "object"])
def test_other_kinds_are_refused(kind, target, tmp_path):
    movements().save(tmp_path / "model.onnx")
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(tmp_path / "model.onnx", target=target, log=False).export(
            tmp_path / "model", kind=kind
        )
    assert str(raised.value) == (
        f"cannot make an artefact of kind '{kind}' for target {target}: there is no runtime for addresses of 32 bits; "
        "export kind 'bare' or 'c', which need none"
    )


def test_running_and_tuning_are_refused(tmp_path):
    movements().save(tmp_path / "model.onnx")
    with pytest.raises(
        tc.TargetError,
        match=r'write it with export\(path, kind="bare"\) and run it on a machine of that target',
    ):
        tc.compile(tmp_path / "model.onnx", target="rv32imfc", log=False).run(
            {"x": numpy.zeros(movements().shape, numpy.float32)}
        )
    with pytest.raises(tc.TargetError) as raised:
        tc.compile(
            tmp_path / "model.onnx", target="rv32imfc", tune=True, trials=8, log=tmp_path / "log.db"
        )
    assert str(raised.value) == (
        "cannot tune for target rv32imfc: an agent, which measures schedules, needs an operating system with addresses of 64 bits; "
        "compile without tuning"
    )


def test_doubles_are_refused_by_name(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["y"], name="square")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [5])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [5])],
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "model.onnx",
    )
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(tmp_path / "model.onnx", target="rv32imfc", log=False).export(
            tmp_path / "model.o", kind="bare"
        )
    assert str(raised.value) == (
        "node 'square' of model 'model.onnx' calls '__muldf3', which a system without an OS lacks, so that there is no artefact of kind 'bare' for "
        "target rv32imfc; compile for a target whose instructions do this"
    )


def test_sizes_that_take_a_library_are_refused(tmp_path):
    """The size of every seventh place that is not zero, which a run computes."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], name="find"),
        helper.make_node(
            "Slice", ["places", "from", "to", "axes", "steps"], ["some"], name="seventh"
        ),
        helper.make_node("ReduceSum", ["some"], ["y"], keepdims=0),
    ]
    constants = [
        numpy_helper.from_array(numpy.array([value], numpy.int64), name)
        for name, value in {"from": 0, "to": 1 << 40, "axes": 1, "steps": 7}.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [40])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
        constants,
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "model.onnx",
    )
    with pytest.raises(
        tc.UnsupportedError,
        match="^computing a size of model 'model.onnx' calls '__[a-z]*di3', which a system without an OS lacks, so that there is no artefact of "
        "kind 'bare' for target rv32imfc; compile for a target whose instructions do this$",
    ):
        tc.compile(tmp_path / "model.onnx", target="rv32imfc", log=False).export(
            tmp_path / "model.o", kind="bare"
        )


def test_more_than_the_addresses_hold_is_refused(tmp_path):
    pools = [
        helper.make_node("MaxPool", [before], [after], kernel_shape=[3], pads=[1, 1])
        for before, after in ("xa", "ab", "bc", "cy")
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 400_000_000]) for name in "xy"
    ]
    save(
        helper.make_model(
            helper.make_graph(pools, "g", ports[:1], ports[1:]),
            opset_imports=[helper.make_opsetid("", 20)],
            ir_version=9,
        ),
        tmp_path / "model.onnx",
    )
    with pytest.raises(
        tc.UnsupportedError,
        match="weights of 64 bytes, an arena of [0-9]* bytes, and inputs and outputs of 3200000000 bytes have no room in the "
        "addresses of target rv32imfc, which have 32 bits; use a smaller model or a 64-bit target",
    ):
        tc.compile(tmp_path / "model.onnx", target="rv32imfc", log=False).export(
            tmp_path / "model.o", kind="bare"
        )
