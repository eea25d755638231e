"""What the tests of a first use share: a small model, and the sentence that a mistake ends in."""

import subprocess
import sys

import numpy as np
import pytest

import tc

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

GENERATOR = np.random.default_rng(0)


def product_model(shape=("n", 4), name="graph_name"):
    weights = numpy_helper.from_array(GENERATOR.standard_normal((4, 3)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], 3])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("model") / "digits.onnx"
    onnx.save(product_model(), made)
    return made


@pytest.fixture(scope="module")
def module(path):
    return tc.compile(path, log=False)


def said(call, kind=tc.Error):
    with pytest.raises(tc.Error) as raised:
        call()
    assert type(raised.value) is kind, raised.value
    return str(raised.value)


def command(*arguments, **named):
    """Exit code, stdout and stderr of python -m tc."""
    done = subprocess.run(
        [sys.executable, "-m", "tc", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **named,
    )
    return done.returncode, done.stdout, done.stderr
