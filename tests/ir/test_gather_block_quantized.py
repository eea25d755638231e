"""GatherBlockQuantized of ONNX Runtime's own domain: against ONNX Runtime, and against numbers that
are written out."""

import numpy as np
import pytest

import tc

from ..support import worst_error

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

TYPES = {"u8": TensorProto.UINT8, "i4": TensorProto.INT4, "u4": TensorProto.UINT4}
FLOATS = {"f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16)}


def packed(codes):
    """Codes of 4 bits along the last axis, two a byte, the first in the low half."""
    codes = np.concatenate(
        [codes, np.zeros((*codes.shape[:-1], codes.shape[-1] % 2), codes.dtype)], -1
    )
    return (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8)


def tensor(name, kind, bits, codes):
    """The codes as the file has them: u8 holds 8 / bits of them in a byte, i4 and u4 are types of
    their own."""
    if kind != "u8":
        flat = packed((codes & 15).reshape(1, -1))
        return helper.make_tensor(name, TYPES[kind], codes.shape, flat.tobytes(), raw=True)
    data = packed(codes) if bits == 4 else codes.astype(np.uint8)
    return helper.make_tensor(name, TYPES[kind], data.shape, data.tobytes(), raw=True)


def model(kind, bits, columns, block, has_zeros, number="f32", rows=12, **attributes):
    random = np.random.default_rng(columns + bits)
    low, high = (-8, 8) if kind == "i4" else (0, 1 << bits)
    count = -(-columns // block)
    codes = random.integers(low, high, (rows, columns))
    scales = random.normal(0, 1, (rows, count)).astype(FLOATS[number][1])
    zeros = random.integers(low, high, (rows, count)) if has_zeros else None
    tensors = [tensor("data", kind, bits, codes), onnx.numpy_helper.from_array(scales, "scales")]
    names = ["data", "rows", "scales"]
    if has_zeros:
        tensors.append(tensor("zeros", kind, bits, zeros))
        names.append("zeros")
    node = helper.make_node(
        "GatherBlockQuantized",
        names,
        ["y"],
        domain="com.microsoft",
        block_size=block,
        **({"bits": bits} if kind == "u8" else {}),
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("rows", TensorProto.INT64, [2, 3])],
        [helper.make_tensor_value_info("y", FLOATS[number][0], [2, 3, columns])],
        tensors,
    )
    made = helper.make_model(
        graph,
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
    )
    # By the operator's text: without zero points those of u8 are in the middle, and those of i4 and
    # u4 are 0.
    middle = 1 << bits - 1 if kind == "u8" else 0
    base = np.repeat(zeros, block, 1)[:, :columns] if has_zeros else middle
    return made, (codes - base) * np.repeat(scales.astype(np.float64), block, 1)[:, :columns]


ROWS = np.array([[0, 11, 3], [-1, 5, 5]], np.int64)
CASES = [
    ("u8", 4, 64, 32, True),
    ("u8", 4, 64, 16, False),
    ("u8", 8, 48, 16, True),
    ("u8", 8, 32, 32, False),
    ("i4", 4, 64, 32, True),
    ("i4", 4, 96, 32, False),
    ("u4", 4, 64, 16, True),
    ("u4", 4, 64, 32, False),
]


@pytest.mark.parametrize(
    "kind, bits, columns, block, has_zeros",
    [*CASES, ("u8", 4, 40, 16, True), ("u4", 4, 40, 16, True)],
)
@pytest.mark.parametrize("number", FLOATS)
def test_rows_are_decoded(kind, bits, columns, block, has_zeros, number):
    made, table = model(kind, bits, columns, block, has_zeros, number)
    found = tc.compile(made.SerializeToString(), threads=1, log=False, tolerance=0).run(
        {"rows": ROWS}
    )["y"]
    assert found.dtype == FLOATS[number][1]
    expected = table[ROWS].astype(FLOATS[number][1])
    # A weight is code * scale - zero * scale: its error is one of the larger of these.
    assert worst_error(found, expected) <= (1e-3 if number == "f16" else 2e-7)


@pytest.mark.parametrize("kind, bits, columns, block, has_zeros", CASES)
def test_agrees_with_onnx_runtime(kind, bits, columns, block, has_zeros):
    runtime = pytest.importorskip("onnxruntime")
    made, _ = model(kind, bits, columns, block, has_zeros)
    try:
        session = runtime.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # older ones lack some of its types
        pytest.skip(f"ONNX Runtime {runtime.__version__} does not take it: {str(error)[:100]}")
    rows = np.where(ROWS < 0, ROWS + 12, ROWS)
    expected = session.run(None, {"rows": rows})[0]
    found = tc.compile(made.SerializeToString(), threads=1, log=False, tolerance=0).run(
        {"rows": rows}
    )["y"]
    assert worst_error(found, expected) <= 2e-7


def attribute_of(made, name):
    return next(each for each in made.graph.node[0].attribute if each.name == name)


def refused(made, error):
    with pytest.raises(error) as caught:
        tc.compile(made.SerializeToString(), threads=1, log=False)
    return str(caught.value)


def test_what_is_refused():
    made, _ = model("u8", 4, 64, 32, True, gather_axis=1, quantize_axis=0)
    assert (
        "data of shape [12, 32] with gather_axis 1 and quantize_axis 0 is not supported; rows of a matrix with "
        "blocks along its columns are"
    ) in refused(made, tc.UnsupportedError)
    made, _ = model("u8", 4, 64, 32, True)
    attribute_of(made, "bits").i = 2
    assert "bits is 2; 4 and 8 are supported" in refused(made, tc.UnsupportedError)
    made, _ = model("u8", 4, 64, 32, True)
    attribute_of(made, "block_size").i = 48
    assert "block_size is 48; a power of two is needed" in refused(made, tc.ShapeError)
