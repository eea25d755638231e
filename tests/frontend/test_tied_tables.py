"""A matrix that is both embedding and last layer is stored once: rows are read from the form in
which the product reads all of it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from . import test_packed_weights as packed

# Neither is a multiple of the lanes of a vector.
TOKENS, WIDTH = 301, 97


def table(seed=1, shape=(TOKENS, WIDTH)):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model_of(nodes, constants):
    graph = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["x"], ["rows"])],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("rows", "y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def plain(form, first, last):
    """Rows of `first` multiplied by the transpose of `last`, in the way that the form names."""
    node, transposed = helper.make_node, np.ascontiguousarray(last.T)
    gather = node("Gather", ["E", "ids"], ["x"])
    same = {"E": first} if last is first else {"E": first, "L": last}
    name = list(same)[-1]
    if form == "a node that transposes":
        turn = node("Transpose", [name], ["T"], perm=[1, 0])
        return model_of([gather, turn, node("MatMul", ["x", "T"], ["y"])], same)
    if form == "a transposed copy":
        return model_of([gather, node("MatMul", ["x", "T"], ["y"])], {"E": first, "T": transposed})
    flat = node("Reshape", ["x", "shape"], ["flat"])
    product = node("Gemm", ["flat", name], ["y"], transB=1)
    return model_of([gather, flat, product], {**same, "shape": np.array([-1, WIDTH])})


FORMS = "a node that transposes", "a transposed copy", "a product that transposes"


def held(module, first, last, ids):
    rows, y = module(ids)
    assert np.array_equal(rows, first[ids])
    expected = first[ids].astype(np.float64) @ last.T
    assert packed.worst(y.reshape(expected.shape), expected) <= 1e-5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_one_copy_serves_both(form, target):
    first = table()
    module = tc.compile(
        plain(form, first, first), target=target, threads=1, log=False, specialise=2
    )
    # As many bytes as the table, and what fills up the last vector.
    assert module.memory.constants <= 1.1 * first.nbytes
    for ids in ([[0]], [[300, -1, 17], [-301, 299, 16]], [[7, 15, 16, 31, 32] * 9]):
        held(module, first, first, np.array(ids))


@pytest.mark.parametrize("form", FORMS)
def test_other_tables_keep_their_copy(form):
    first, last = table(1), table(1)
    last[-1, -1] += 1
    module = tc.compile(plain(form, first, last), threads=1, log=False)
    assert module.memory.constants >= 2 * first.nbytes
    held(module, first, last, np.array([[300, 2]]))


def test_exported_artefacts_have_one_copy(tmp_path):
    first = table()
    module = tc.compile(plain(FORMS[0], first, first), threads=1, log=False)
    module.export(tmp_path / "model.so")
    assert (tmp_path / "model.so").read_bytes().count(
        first[:1, :1].tobytes() + first[1:2, :1].tobytes()
    ) == 1
    held(tc.load(tmp_path / "model.so"), first, first, np.array([[300, 2]]))


def test_a_module_of_pytorch():
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(TOKENS, WIDTH)
            self.last = torch.nn.Linear(WIDTH, TOKENS, bias=False)
            self.last.weight = self.embedding.weight

        def forward(self, ids):
            return self.last(torch.tanh(self.embedding(ids)))

    torch.manual_seed(3)
    model, ids = Tied().eval(), torch.tensor([[0, 300, 5]])
    module = tc.compile(model, inputs=(ids,), threads=1, log=False, tolerance=0)
    assert module.memory.constants <= 1.1 * 4 * TOKENS * WIDTH
    with torch.no_grad():
        assert packed.worst(np.asarray(module(ids)), model(ids).numpy()) <= 1e-5


@pytest.mark.parametrize("name", packed.FORMATS)
@pytest.mark.parametrize("tolerance", [0, 1e-4])
def test_packed_formats(name, tolerance):
    rows, columns = 1031, 2048
    random = np.random.default_rng(4)
    planes, matrix = packed.matrix(random, name, rows, columns)
    names = [plane.name for plane in planes]
    sizes = {"domain": "tc", "format": name, "N": rows, "K": columns}
    nodes = [
        helper.make_node("BlockGather", ["ids", *names], ["x"], **sizes),
        helper.make_node("BlockMatMul", ["x", *names], ["y"], **sizes),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])],
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in ("x", "y")],
        planes,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("tc", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    module = tc.compile(model, threads=1, log=False, tolerance=tolerance, specialise=2)
    size = sum(len(plane.raw_data) for plane in planes)
    assert module.memory.constants <= 1.1 * size
    for ids in ([[1030]], [[0, 15, 16, -1, 33]]):
        ids = np.array(ids)
        x, y = module(ids)
        assert np.array_equal(x, matrix[ids].astype(np.float32))
        assert packed.worst(y, matrix[ids] @ matrix.T) <= (1e-5 if tolerance == 0 else 1e-3)


def test_blocks_of_onnx():
    """An embedding and a product by one matrix of 4 bits, as ONNX Runtime's builder writes them."""
    rows, columns, block = 5000, 256, 32
    random = np.random.default_rng(5)
    codes = random.integers(0, 256, (rows, columns // block, block // 2), np.uint8)
    scales = random.standard_normal((rows, columns // block)).astype(np.float16).astype(np.float32)
    domain, sizes = "com.microsoft", {"bits": 4, "block_size": block}
    nodes = [
        helper.make_node("Reshape", ["codes", "shape"], ["flat"]),
        helper.make_node(
            "GatherBlockQuantized",
            ["flat", "ids", "scales"],
            ["x"],
            domain=domain,
            gather_axis=0,
            quantize_axis=1,
            **sizes,
        ),
        helper.make_node(
            "MatMulNBits",
            ["x", "codes", "scales"],
            ["y"],
            domain=domain,
            K=columns,
            N=rows,
            **sizes,
        ),
    ]
    shape = np.array([rows, columns // 2])
    model = model_of(nodes, {"codes": codes, "scales": scales, "shape": shape})
    module = tc.compile(model, threads=1, log=False, tolerance=0)
    assert module.memory.constants <= 1.1 * (codes.nbytes + scales.nbytes)
    digits = np.stack([codes & 15, codes >> 4], -1).reshape(rows, -1, block).astype(np.float64) - 8
    held(
        module,
        (digits * scales[..., None]).reshape(rows, columns).astype(np.float32),
        (digits * scales[..., None]).reshape(rows, columns),
        np.array([[4999, 0, 31]]),
    )
