"""Models as C source: right by each compiler, without warnings, the same bytes each time, and what
is refused."""

import re

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import tc

from ..frontend import random_maps
from ..support import worst_error
from .c_models import COMPILERS, CModel, compiler_of, macros
from .test_rv32 import STEP, attention, convolutions, movements, quantised, recurrence

NETWORKS = [convolutions, attention, recurrence, quantised, movements]


def write(model, folder, target="native", **options):
    module = tc.compile(model, target=target, threads=1, log=False, **options)
    module.export(folder / "model.c", kind="c")
    return folder / "model.c"


# Each network by one compiler, and two by all; the others with --full.
CASES = [
    pytest.param(
        make,
        compiler,
        marks=() if compiler == "gcc" or make in (convolutions, quantised) else pytest.mark.full,
    )
    for make in NETWORKS
    for compiler in COMPILERS
]


@pytest.mark.parametrize("make, compiler", CASES)
def test_networks(make, compiler, tmp_path):
    command = compiler_of(compiler)
    make().save(tmp_path / "model.onnx")
    x = numpy.random.default_rng(1).standard_normal(make().shape).astype(numpy.float32)
    wanted = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"x": x})[0]
    (found,) = CModel(write(tmp_path / "model.onnx", tmp_path), command).run([x], [wanted])
    # The reference adds up floats, tc integers: of ties few are rounded otherwise.
    if make is quantised:
        steps = numpy.rint((found - wanted) / STEP)
        assert numpy.abs(steps).max() <= 1 and numpy.count_nonzero(steps) <= 3
        wanted = wanted + steps.astype(numpy.float32) * numpy.float32(STEP)
    assert worst_error(found, wanted) <= 1e-4


# The target of the loops, and the machines by whose instructions products of bytes are added up:
# one instruction, pairs of 16 bits, or shifts and products of 32 bits.
BYTES = [
    ("x86-64-v4+avx512vnni", "x86-64-v4 -mavx512vnni"),
    ("x86-64-v4+avx512vnni", "x86-64-v4"),
    ("x86-64-v4+avx512vnni", "x86-64"),
    ("x86-64-v3", "x86-64-v3"),
    ("x86-64-v3", "x86-64"),
]


@pytest.mark.parametrize("target, machine", BYTES)
@pytest.mark.parametrize(
    "compiler",
    ["gcc", *(pytest.param(name, marks=pytest.mark.full) for name in ["clang", "loops"])],
)
def test_products_of_bytes(target, machine, compiler, tmp_path):
    """The same integers by each way of adding up products of bytes."""
    quantised().save(tmp_path / "model.onnx")
    source = write(tmp_path / "model.onnx", tmp_path, target)
    assert "_dot_u8_i8(" in source.read_text()
    x = numpy.random.default_rng(1).standard_normal(quantised().shape).astype(numpy.float32)
    wanted = tc.compile(tmp_path / "model.onnx", threads=1, log=False)(x)
    flags = f"-march={machine}".split()
    (found,) = CModel(source, compiler_of(compiler), flags).run([x], [wanted])
    assert numpy.array_equal(found, wanted)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 30))]
)
def test_random_networks(seed, tmp_path):
    network = random_maps.Network(seed, axes=2)
    model = CModel(write(network.model(), tmp_path, tolerance=0), compiler_of("gcc"))
    like = [numpy.zeros(numpy.shape(exact), numpy.float32) for exact in network.outputs.values()]
    found = model.run(network.inputs.values(), like)
    assert not random_maps.what_is_wrong(network, dict(zip(network.outputs, found)))


def write_small(model, folder, **options):
    """The source where max_flash leaves no room for code."""
    constants = macros(write(model, folder, **options))["MODEL_WEIGHTS_BYTES"]
    return write(model, folder, max_flash=constants, **options)


@pytest.mark.parametrize("make", NETWORKS)
def test_plain_loops(make, tmp_path):
    make().save(tmp_path / "model.onnx")
    x = numpy.random.default_rng(1).standard_normal(make().shape).astype(numpy.float32)
    wanted = tc.compile(tmp_path / "model.onnx", threads=1, log=False)(x)
    fast = macros(write(tmp_path / "model.onnx", tmp_path, target="x86-64-v3"))
    source = write_small(tmp_path / "model.onnx", tmp_path, target="x86-64-v3")
    assert not re.search(r"\btc_\w+x\d+\b|^ +TC_UNROLL", source.read_text(), re.MULTILINE)
    assert macros(source)["MODEL_WEIGHTS_BYTES"] <= fast["MODEL_WEIGHTS_BYTES"]
    (found,) = CModel(source, compiler_of("gcc")).run([x], [wanted])
    if make is quantised:
        steps = numpy.rint((found - wanted) / STEP)
        assert numpy.abs(steps).max() <= 1 and numpy.count_nonzero(steps) <= 3
        wanted = wanted + steps.astype(numpy.float32) * numpy.float32(STEP)
    assert worst_error(found, wanted) <= 1e-4


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 40))]
)
def test_plain_loops_of_random_networks(seed, tmp_path):
    network = random_maps.Network(seed, axes=2)
    source = write_small(network.model(), tmp_path, tolerance=0)
    like = [numpy.zeros(numpy.shape(exact), numpy.float32) for exact in network.outputs.values()]
    found = CModel(source, compiler_of("gcc")).run(network.inputs.values(), like)
    assert not random_maps.what_is_wrong(network, dict(zip(network.outputs, found)))


def test_layers_of_a_kind_share_a_function(tmp_path):
    """Four products of different sizes, of which two have a Relu: two functions."""
    random = numpy.random.default_rng(5)
    sizes = [24, 40, 16, 56, 8]
    weights = [
        random.standard_normal(shape).astype(numpy.float32) / 5
        for shape in zip(sizes[:-1], sizes[1:])
    ]
    nodes, name = [], "x"
    for layer in range(4):
        nodes.append(helper.make_node("MatMul", [name, f"w{layer}"], [f"y{layer}"]))
        name = f"y{layer}"
        if layer in (0, 2):
            nodes.append(helper.make_node("Relu", [name], [f"r{layer}"]))
            name = f"r{layer}"
    ports = [
        helper.make_tensor_value_info(port, TensorProto.FLOAT, [1, size])
        for port, size in (("x", sizes[0]), (name, sizes[-1]))
    ]
    constants = [numpy_helper.from_array(each, f"w{layer}") for layer, each in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    source = write_small(model, tmp_path)
    assert source.read_text().count("\nTC_KERNEL void ") == 2
    assert macros(source)["MODEL_WEIGHTS_BYTES"] == sum(each.nbytes for each in weights)
    x = random.standard_normal((1, sizes[0])).astype(numpy.float32)
    wanted = x.astype(numpy.float64)
    for layer, each in enumerate(weights):
        wanted = wanted @ each
        wanted = numpy.maximum(wanted, 0) if layer in (0, 2) else wanted
    (found,) = CModel(source, compiler_of("gcc")).run([x], [wanted.astype(numpy.float32)])
    assert worst_error(found, wanted) <= 1e-5


def test_casts(tmp_path):
    """NaN, infinities and numbers beyond the types' ends, to integers and short floats."""
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
        65519.9,
        65520,
        2.0**31,
        -(2.0**31),
        2.0**32,
        2.0**63,
        3e38,
        -3e38,
    ]
    x = numpy.array(
        [*special, *numpy.random.default_rng(0).standard_normal(40) * 2.0 ** numpy.arange(-20, 20)],
        numpy.float32,
    )
    kinds = [
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float16",
        "float64",
        "bool",
    ]
    code = lambda kind: helper.np_dtype_to_tensor_dtype(numpy.dtype(kind))
    nodes = [helper.make_node("Cast", ["x"], [kind], to=code(kind)) for kind in kinds]
    ports = [helper.make_tensor_value_info(kind, code(kind), x.shape) for kind in kinds]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], ports
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "model.onnx",
    )
    wanted = []
    for kind in kinds:
        dtype = numpy.dtype(kind)
        if dtype.kind in "iu":
            ends = numpy.iinfo(dtype)
            wanted.append(
                numpy.array(
                    [
                        0
                        if v != v
                        else min(
                            max(int(v) if abs(v) < 1e300 else int(numpy.sign(v)) << 70, ends.min),
                            ends.max,
                        )
                        for v in x.tolist()
                    ]
                ).astype(dtype)
            )
        else:
            with numpy.errstate(over="ignore"):
                wanted.append(x.astype(dtype))
    for compiler in ("gcc", "loops"):
        found = CModel(write(tmp_path / "model.onnx", tmp_path), compiler_of(compiler)).run(
            [x], wanted
        )
        for kind, a, b in zip(kinds, found, wanted):
            assert numpy.array_equal(a, b, equal_nan=numpy.dtype(kind).kind == "f"), (
                compiler,
                kind,
                a,
                b,
            )


def test_status(tmp_path):
    """What the function says of arguments that are none, or lie where they cannot."""
    convolutions().save(tmp_path / "model.onnx")
    model = CModel(write(tmp_path / "model.onnx", tmp_path), compiler_of("gcc"))
    x, y = numpy.zeros(1200 + 1, numpy.float32), numpy.zeros(10, numpy.float32)
    assert model.call([x[:1200]], [y]) == 0
    assert (
        model.function(None, y.ctypes.data, model.arena.ctypes.data)
        == model.numbers["MODEL_NULL"]
        == 1
    )
    assert model.call([x.view(numpy.uint8)[1:]], [y]) == model.numbers["MODEL_MISALIGNED"] == 2


def test_bytes_are_the_same_each_time(tmp_path):
    convolutions().save(tmp_path / "model.onnx")
    names = ["model.c", "model.h", "model_weights.c"]
    texts = []
    for _ in range(2):
        write(tmp_path / "model.onnx", tmp_path)
        texts.append([(tmp_path / name).read_bytes() for name in names])
    assert texts[0] == texts[1]


def test_open_sizes_and_other_names_are_refused(tmp_path):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    save(
        helper.make_model(
            helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
        ),
        tmp_path / "model.onnx",
    )
    module = tc.compile(tmp_path / "model.onnx", threads=1, log=False)
    with pytest.raises(
        tc.UnsupportedError,
        match="size 'n' of input 'x' of model 'model.onnx' is open, and an artefact of kind 'c' has no runtime",
    ):
        module.export(tmp_path / "model.c", kind="c")
    assert not (tmp_path / "model.c").exists()
    with pytest.raises(
        tc.TargetError,
        match="does not end in .c, as an artefact of kind 'c' does; give a name like 'model.c'",
    ):
        module.export(tmp_path / "model.txt", kind="c")


def test_lines_of_large_constants_are_asked_for(tmp_path):
    """Where the schedule brings a constant near for the next trip, so does C source, and what it
    reads is no other for that."""
    rows, depth, columns = 64, 1024, 2048
    weights = (
        numpy.random.default_rng(2).standard_normal((depth, columns)).astype(numpy.float32) / 32
    )
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [rows, depth]), ("y", [rows, columns]))
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        ports[:1],
        ports[1:],
        [numpy_helper.from_array(weights, "w")],
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
        tmp_path / "model.onnx",
    )
    source = write(tmp_path / "model.onnx", tmp_path, "x86-64-v3")
    assert "TC_PREFETCH(const0, " in source.read_text()
    x = numpy.random.default_rng(3).standard_normal((rows, depth)).astype(numpy.float32)
    wanted = x.astype(numpy.float64) @ weights.astype(numpy.float64)
    for compiler in ("gcc", "loops"):
        (found,) = CModel(source, compiler_of(compiler)).run([x], [wanted.astype(numpy.float32)])
        assert worst_error(found, wanted) <= 1e-4
