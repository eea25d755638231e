"""Artefacts of kind "loops": what is decided about a model, as text."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc


def model(features):
    weights = np.linspace(-1, 1, 8 * features, dtype=np.float32).reshape(8, features)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, features))],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def exported(folder, features=16, **options):
    path = folder / "model.loops"
    tc.compile(model(features), log=False, **options).export(path, kind="loops")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["x86-64-v3", "rv64gcv_zvl256b", "aarch64", "rv32imfc"])
def test_the_text_of_a_build(tmp_path, target):
    text = exported(tmp_path, target=target, threads=1)
    assert "kernel 0" in text and "for " in text and "leaf " in text
    assert text == exported(tmp_path, target=target, threads=1)
    assert text != exported(tmp_path, 24, target=target, threads=1)


def test_constants_are_no_part_of_it(tmp_path):
    assert len(exported(tmp_path, 1024, target="x86-64-v3", threads=1)) < 20_000
