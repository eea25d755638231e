"""Products by weights in packed formats, and rows of them, against what the package gguf decodes,
in float64."""

import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc import _tc

gguf = pytest.importorskip("gguf")

FORMATS = {row["name"]: row for row in _tc.weight_formats()}
# Where a block has numbers of 16 bits, which are to be small and finite.
HALVES = {
    "f16": [0],
    "q4_0": [0],
    "q4_1": [0, 2],
    "q5_0": [0],
    "q5_1": [0, 2],
    "q8_0": [0],
    "iq4_nl": [0],
    "q2_k": [80, 82],
    "q3_k": [108],
    "q4_k": [0, 2],
    "q5_k": [0, 2],
    "q6_k": [208],
}
TYPES = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "u8": TensorProto.UINT8,
    "i8": TensorProto.INT8,
    "f8e8m0": 24,
}


@pytest.fixture
def random():
    return numpy.random.default_rng(53)


def random_blocks(random, name, count):
    """Blocks as a file has them."""
    if name in ("f32", "bf16"):
        numbers = random.normal(0, 1, count).astype(numpy.float32)
        bits = numbers.view(numpy.uint32)
        return (
            numbers.view(numpy.uint8)
            if name == "f32"
            else (bits >> 16).astype(numpy.uint16).view(numpy.uint8)
        )
    blocks = random.integers(0, 256, (count, FORMATS[name]["bytes"]), dtype=numpy.uint8)
    for at in HALVES.get(name, []):
        blocks[:, at : at + 2] = (
            random.normal(0, 0.01, count).astype(numpy.float16).view(numpy.uint8).reshape(count, 2)
        )
    if name == "mxfp4":
        blocks[:, 0] = random.integers(120, 126, count)
    return blocks.reshape(-1)


def matrix(random, name, rows, columns):
    """The planes as initializers, and the matrix in float64."""
    blocks = random_blocks(random, name, rows * columns // FORMATS[name]["block"])
    planes = [
        helper.make_tensor(f"w.{plane}", TYPES[dtype], shape, data, raw=True)
        for plane, dtype, shape, data in _tc.split_blocks(name, blocks, rows, columns)
    ]
    kind = gguf.GGMLQuantizationType[name.upper()]
    return planes, gguf.dequantize(blocks.reshape(rows, -1), kind).astype(numpy.float64).reshape(
        rows, columns
    )


def model_of(node, inputs, result, planes):
    graph = helper.make_graph([node], "g", inputs, [result], planes)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("tc", 1)]
    ).SerializeToString()


def product_model(name, rows, columns, shape, planes):
    node = helper.make_node(
        "BlockMatMul",
        ["x", *(plane.name for plane in planes)],
        ["y"],
        domain="tc",
        format=name,
        N=rows,
        K=columns,
    )
    return model_of(
        node,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*shape, columns])],
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape, rows]),
        planes,
    )


def worst(result, reference):
    return numpy.abs(result - reference).max() / numpy.abs(reference).max()


@pytest.mark.parametrize(
    "tolerance, allowed, target",
    [
        (0, 1e-6, "native"),
        (1e-4, 1e-6, "native"),
        (1e-4, 1e-6, "x86-64-v3"),
        (1e-3, 1e-4, "native"),
        (0.2, 3e-2, "native"),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_products(random, name, tolerance, allowed, target):
    rows, columns = 96, 2 * max(32, FORMATS[name]["block"])
    planes, weights = matrix(random, name, rows, columns)
    x = random.normal(0, 1, (3, columns)).astype(numpy.float32)
    module = tc.compile(
        product_model(name, rows, columns, [3], planes), target=target, tolerance=tolerance
    )
    assert worst(module(x), x.astype(numpy.float64) @ weights.T) <= allowed


@pytest.mark.parametrize("rows", [1, 5, 40, 100])
@pytest.mark.parametrize("shape", [[1], [2, 5], [37]])
def test_sizes_that_fill_no_vectors(random, shape, rows):
    planes, weights = matrix(random, "q4_0", rows, 96)
    x = random.normal(0, 1, (*shape, 96)).astype(numpy.float32)
    module = tc.compile(product_model("q4_0", rows, 96, shape, planes), threads=2)
    assert worst(module(x), x.astype(numpy.float64) @ weights.T) <= 1e-6


def test_any_number_of_rows(random):
    planes, weights = matrix(random, "q4_k", 64, 512)
    module = tc.compile(product_model("q4_k", 64, 512, ["seq"], planes))
    for count in (1, 3, 4, 130):
        x = random.normal(0, 1, (count, 512)).astype(numpy.float32)
        assert worst(module(x), x.astype(numpy.float64) @ weights.T) <= 1e-6


@pytest.mark.parametrize("value", [numpy.inf, numpy.nan])
def test_what_is_no_number_stays_none(random, value):
    planes, _ = matrix(random, "q8_0", 32, 64)
    x = random.normal(0, 1, (2, 64)).astype(numpy.float32)
    x[1, 40] = value
    result = tc.compile(product_model("q8_0", 32, 64, [2], planes))(x)
    assert numpy.isfinite(result[0]).all()
    assert not numpy.isfinite(result[1]).any()


@pytest.mark.parametrize("name", ["q4_0", "q6_k", "f16"])
def test_rows_of_a_matrix(random, name):
    planes, weights = matrix(random, name, 50, 512)
    node = helper.make_node(
        "BlockGather",
        ["i", *(plane.name for plane in planes)],
        ["y"],
        domain="tc",
        format=name,
        N=50,
        K=512,
    )
    module = tc.compile(
        model_of(
            node,
            [helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3])],
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 512]),
            planes,
        )
    )
    chosen = numpy.array([[0, 49, 7], [-1, 3, 3]])
    assert worst(module(chosen), weights[chosen]) <= 1e-6


def test_stored_weights_are_not_expanded(random):
    planes, _ = matrix(random, "q4_0", 256, 512)
    for tolerance in (0, 1e-4):
        module = tc.compile(product_model("q4_0", 256, 512, [1], planes), tolerance=tolerance)
        assert module.memory.constants <= 256 * 512 // 32 * 18 + 4096


# Element types of ONNX, with the least and the largest number.
CODES = {
    "int4": (TensorProto.INT4, -8, 7),
    "uint4": (TensorProto.UINT4, 0, 15),
    "int8": (TensorProto.INT8, -128, 127),
    "uint8": (TensorProto.UINT8, 0, 255),
}


def dequantised_model(random, kind, half, zeros, transposed):
    """(model, weights in float64) of a product by [K, N] weights that DequantizeLinear makes of
    blocks along K."""
    columns, rows, block = 128, 48, 32
    number, least, most = CODES[kind]
    codes = random.integers(least, most + 1, (columns, rows))
    scales = (
        random.uniform(0.01, 0.1, (columns // block, rows))
        * random.choice([-1, 1], (columns // block, rows))
    ).astype(numpy.float16)
    points = (
        random.integers(least, most + 1, scales.shape) if zeros else numpy.zeros(scales.shape, int)
    )
    weights = (codes - points.repeat(block, 0)) * scales.astype(numpy.float64).repeat(block, 0)
    turned = (lambda array: array.T.copy()) if transposed else (lambda array: array)
    scale_type = numpy.float16 if half else numpy.float32
    tensors = [
        helper.make_tensor("w", number, turned(codes).shape, turned(codes).reshape(-1)),
        numpy_helper.from_array(turned(scales).astype(scale_type), "s"),
    ]
    if zeros:
        tensors.append(
            helper.make_tensor("z", number, turned(points).shape, turned(points).reshape(-1))
        )
    nodes = [
        helper.make_node(
            "DequantizeLinear",
            [tensor.name for tensor in tensors],
            ["d"],
            axis=1 if transposed else 0,
            block_size=block,
        )
    ]
    if transposed:
        nodes.append(helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]))
    kind_of_floats = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    nodes.append(helper.make_node("MatMul", ["x", "t" if transposed else "d"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind_of_floats, [5, columns])],
        [helper.make_tensor_value_info("y", kind_of_floats, [5, rows])],
        tensors,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)]
    ).SerializeToString(), weights


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kind", CODES)
def test_weights_that_are_dequantised_in_blocks(random, kind, half, zeros, transposed):
    model, weights = dequantised_model(random, kind, half, zeros, transposed)
    x = random.normal(0, 1, (5, 128)).astype(numpy.float16 if half else numpy.float32)
    module = tc.compile(model)
    assert worst(module(x).astype(numpy.float64), x.astype(numpy.float64) @ weights) <= (
        1e-3 if half else 1e-6
    )
    assert (
        module.memory.constants
        <= 128 * 48 * (1 if "8" in kind else 0.5) + 128 * 48 // 32 * 3 + 1024
    )


@pytest.mark.full
def test_constants_past_two_gigabytes(tmp_path):
    """Weights of 2.3 GB in a sparse file, all 0 but for the last of each matrix: equal matrices
    would be stored once."""
    columns, rows, parts = 8192, 24000, 3
    size = 4 * columns * rows
    with open(tmp_path / "weights", "wb") as data:
        data.truncate(parts * size)
        for part in range(parts):
            data.seek((part + 1) * size - 4)
            data.write(numpy.float32(part + 1).tobytes())
    tensors, nodes = [], []
    for part in range(parts):
        tensor = TensorProto(
            name=f"w{part}",
            data_type=TensorProto.FLOAT,
            dims=[columns, rows],
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", "weights"), ("offset", part * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
        nodes.append(helper.make_node("MatMul", ["x", tensor.name], [f"y{part}"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, columns])],
        [
            helper.make_tensor_value_info(f"y{part}", TensorProto.FLOAT, [1, rows])
            for part in range(parts)
        ],
        tensors,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]),
        tmp_path / "model.onnx",
    )
    module = tc.compile(tmp_path / "model.onnx", target="x86-64-v3", tolerance=0, max_ram=1 << 40)
    x = numpy.ones((1, columns), numpy.float32)
    results = module(x)
    assert [float(result.sum()) for result in results] == [1, 2, 3] and results[2][0, -1] == 3
    with pytest.raises(
        tc.UnsupportedError,
        match="the model's constants take 2359296000 bytes, but code for rv64gcv reaches "
        "1879048192: compile for x86-64, or store the weights in fewer bits",
    ):
        tc.compile(tmp_path / "model.onnx", target="rv64gcv", tolerance=0, max_ram=1 << 40)


def refusal(planes, rows=32, columns=64, name="q4_0"):
    with pytest.raises(tc.Error) as error:
        tc.compile(product_model(name, rows, columns, [1], planes))
    return str(error.value).split(": ", 1)[1]


def test_planes_that_do_not_fit(random):
    planes, _ = matrix(random, "q4_0", 32, 64)
    assert refusal(planes[:1]) == "has 1 planes; format q4_0 has 2"
    assert (
        refusal(planes, rows=31)
        == "plane d of format q4_0 has shape [32, 2, 1]; [31, 2, 1] is needed"
    )
    assert refusal([planes[1], planes[0]]) == "plane d of format q4_0 is u8; f16 is needed"
    assert refusal(planes, name="q9").startswith(
        "weights of format 'q9' are unknown; known are f32, f16, "
    )


# --- experts ------------------------------------------------------------------------------------


def experts_model(random, name, count, rows, columns, shape, shared):
    """(model that multiplies by the chosen ones of several matrices, the matrices in float64)"""
    planes, weights = matrix(random, name, count * rows, columns)
    for plane in planes:
        plane.dims[:1] = [count, rows]
    node = helper.make_node(
        "ExpertMatMul",
        ["x", "chosen", *(plane.name for plane in planes)],
        ["y"],
        domain="tc",
        format=name,
        N=rows,
        K=columns,
        experts=count,
    )
    return model_of(
        node,
        [
            helper.make_tensor_value_info(
                "x", TensorProto.FLOAT, [*(shape[:-1] if shared else shape), columns]
            ),
            helper.make_tensor_value_info("chosen", TensorProto.INT64, shape),
        ],
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape, rows]),
        planes,
    ), weights.reshape(count, rows, columns)


@pytest.mark.parametrize(
    "name, tolerance, target",
    [
        ("f32", 0, "native"),
        ("bf16", 1e-4, "native"),
        ("q4_0", 0, "native"),
        ("q4_0", 1e-4, "native"),
        ("q4_0", 1e-4, "x86-64-v3"),
        ("q4_k", 1e-4, "native"),
        ("q6_k", 1e-4, "native"),
        ("q8_0", 1e-4, "native"),
        ("iq4_nl", 1e-4, "native"),
        ("mxfp4", 1e-4, "native"),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_products_by_chosen_matrices(random, name, tolerance, target, shared):
    """Of one token and of several, for any number of which the module has a second version."""
    columns = 2 * max(32, FORMATS[name]["block"])
    model, weights = experts_model(random, name, 5, 40, columns, ["tokens", 3], shared)
    module = tc.compile(
        model, tolerance=tolerance, target=target, threads=2, size_versions=[{"tokens": 1}]
    )
    for tokens in (1, 6):
        chosen = random.integers(0, 5, (tokens, 3))
        x = random.normal(0, 1, (tokens, columns) if shared else (tokens, 3, columns))
        x = x.astype(numpy.float32)
        rows = numpy.broadcast_to(x[:, None] if shared else x, (tokens, 3, columns))
        wanted = numpy.einsum("tsk,tsnk->tsn", rows.astype(numpy.float64), weights[chosen])
        assert worst(module(x, chosen), wanted) <= 1e-6


def test_chosen_matrices_are_not_expanded(random):
    """Constants take as much memory as in the file, whatever the products are made of."""
    for tolerance in (0, 1e-4):
        model, weights = experts_model(random, "q4_0", 8, 128, 512, ["tokens", 2], True)
        module = tc.compile(model, tolerance=tolerance, size_versions=[{"tokens": 1}])
        assert module.memory.constants <= 1.1 * weights.size * 18 / 32
        # Integers where the tolerance allows, of weights that are packed matrix by matrix.
        kernels = tc.kernels(model, "x86-64-v3", tolerance=tolerance, shapes={"tokens": 1})
        sums = any("register_tile group_0" in kernel.trace for kernel in kernels)
        assert sums == (tolerance > 0)


@pytest.mark.parametrize(
    "shape, shared, text",
    [
        (["tokens", 2], None, "numbers of matrices [.., choices] are needed for operands [4]"),
        ([7, 2], True, "numbers of matrices [.., choices] are needed for operands [4]"),
    ],
)
def test_choices_that_fit_no_operand(random, shape, shared, text):
    model, _ = experts_model(random, "q4_0", 4, 32, 64, [4, 2], True)
    graph = onnx.load_from_string(model)
    chosen = graph.graph.input[1].type.tensor_type.shape
    del chosen.dim[:]
    for size in shape if shared else [4, 2, 3]:
        chosen.dim.add().dim_value = size
    with pytest.raises(tc.Error) as raised:
        tc.compile(graph.SerializeToString())
    assert text in str(raised.value)


# --- what is read -------------------------------------------------------------------------------

# How much of an artefact is in memory after a run with zeros: what it has read of its constants.
_RESIDENT = """
import sys, numpy, tc
module = tc.load(sys.argv[1], threads=1)
module(*(numpy.zeros(port.shape, port.dtype) for port in module.inputs))
resident = 0
for row in open("/proc/self/smaps"):
    words = row.split()
    if "-" in words[0]:
        own = words[-1] == sys.argv[1]
    elif own and words[0] == "Rss:":
        resident += int(words[1]) << 10
print(resident)
"""


def resident_after_a_run(model, path):
    tc.compile(model, threads=1).export(path)
    done = subprocess.run(
        [sys.executable, "-c", _RESIDENT, str(path)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_weights_of_other_matrices_are_not_read(random, tmp_path):
    model, _ = experts_model(random, "q4_0", 32, 1024, 1024, [1, 2], True)
    path = tmp_path / "experts.so"
    # One of 32, whose codes and scales lie in one or two huge pages each.
    assert resident_after_a_run(model, path) <= 9_000_000 < 0.5 * path.stat().st_size


def test_a_row_of_a_table_takes_no_huge_page(random, tmp_path):
    """Its codes and its scale are in the pages of 64 KB that the system maps at a time."""
    planes, _ = matrix(random, "q8_0", 16384, 256)
    node = helper.make_node(
        "BlockGather",
        ["rows", *(plane.name for plane in planes)],
        ["y"],
        domain="tc",
        format="q8_0",
        N=16384,
        K=256,
    )
    model = model_of(
        node,
        [helper.make_tensor_value_info("rows", TensorProto.INT64, [1])],
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256]),
        planes,
    )
    path = tmp_path / "table.so"
    assert resident_after_a_run(model, path) <= 1_000_000 < 0.3 * path.stat().st_size
