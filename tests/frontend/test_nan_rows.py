"""Rows with NaN and infinities through operators whose maximum leaves NaN out (softmax and its
kin): NaN where NumPy has it."""

import numpy as np
import onnx
import pytest
import tc
from onnx import TensorProto, helper

from ..levels import NATIVE_AND_LEVELS

ROWS = np.random.default_rng(0).standard_normal((9, 37)).astype(np.float32)
ROWS[0] = np.nan
ROWS[1, 3] = np.nan
ROWS[2] = -np.inf
ROWS[3, 5] = np.inf
ROWS[4, :20] = -np.inf
ROWS[5, 0], ROWS[5, 1:] = np.nan, -np.inf
ROWS[6, 2], ROWS[6, 36] = np.nan, np.inf
ROWS[7] = np.inf


def softmax(x):
    power = np.exp(x - x.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


def log_softmax(x):
    away = x - x.max(axis=-1, keepdims=True)
    return away - np.log(np.exp(away).sum(axis=-1, keepdims=True))


def log_sum_exp(x):
    largest = x.max(axis=-1, keepdims=True)
    shift = np.where(np.isinf(largest), 0, largest)
    return np.log(np.exp(x - shift).sum(axis=-1, keepdims=True)) + shift


@pytest.mark.parametrize(
    "operator, reference",
    [("Softmax", softmax), ("LogSoftmax", log_softmax), ("ReduceLogSumExp", log_sum_exp)],
)
@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_nan_stays_in_its_row(operator, reference, target, tmp_path):
    attributes = {"axis": -1} if operator != "ReduceLogSumExp" else {"keepdims": 1}
    inputs = ["x"] if operator != "ReduceLogSumExp" else ["x", "axes"]
    constants = [] if len(inputs) == 1 else [onnx.numpy_helper.from_array(np.array([-1]), "axes")]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"], **attributes)],
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ROWS.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    path = tmp_path / "rows.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path
    )
    with np.errstate(all="ignore"):
        expected = reference(ROWS.astype(np.float64))
    found = tc.compile(str(path), target=target, threads=1, log=False)(ROWS)
    assert np.isnan(expected).any() and not np.isnan(expected).all()
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
