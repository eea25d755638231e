"""Contexts, artefacts and sequences that are opened and closed in their hundreds leave nothing
behind: neither memory nor open files, mappings or threads."""

import gc
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import tc

# These first rounds fill the pools of Python and of the C library, which is no leak.
FIRST = 20
SLACK = 2 << 20  # bytes that the process may grow by in all the further rounds


def small_model(hidden=64):
    """A network with constants, an open size, and an inner tensor as large as its input."""
    weights = np.random.default_rng(3).standard_normal((hidden, hidden)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "w"], ["h"]),
            onnx.helper.make_node("Softmax", ["h"], ["s"], axis=0),
            onnx.helper.make_node("MatMul", ["s", "w"], ["y"]),
        ],
        "small",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", hidden])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", hidden])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10
    ).SerializeToString()


def held():
    """(resident bytes that are no file's, open files, mappings, threads) of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = int(re.search(r"RssAnon:\s*(\d+)", status)[1]) << 10
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    return resident, len(os.listdir("/proc/self/fd")), mappings, len(os.listdir("/proc/self/task"))


def hold_nothing(once, count):
    """Calls `once` so often; the process holds no more at the end than after the first calls."""
    for _ in range(FIRST):
        once()
    before = held()
    for _ in range(count - FIRST):
        once()
    after = held()
    assert after[0] - before[0] <= SLACK, f"{after[0] - before[0]} bytes more"
    assert after[1] == before[1], "open files"
    # The C library's heap may be one mapping or two.
    assert after[2] - before[2] <= 4, f"{after[2] - before[2]} mappings more"
    assert after[3] == before[3], "threads"


def taken(module):
    """The context in which a module ran, which the module forgets: its next run opens another."""
    context = module._runner.take()
    module._runner.last = None
    return context


COUNTS = [pytest.param(100, id="100"), pytest.param(1000, id="1000", marks=pytest.mark.full)]


def test_what_is_kept_is_seen():
    """The measure itself: a context that is not closed counts."""
    module = tc.compile(small_model(), threads=1, log=False, specialise=0)
    x = np.ones((1024, 64), np.float32)
    module(x)
    kept = []

    def once():
        kept.append(taken(module))
        module(x)

    with pytest.raises(AssertionError, match="bytes more"):
        hold_nothing(once, 100)


@pytest.mark.parametrize("count", COUNTS)
def test_contexts_leave_nothing(count):
    module = tc.compile(small_model(), threads=2, log=False, specialise=0)
    x = np.ones((256, 64), np.float32)
    expected = module(x)

    def once():
        taken(module)  # and closed, as nothing holds it
        np.testing.assert_array_equal(module(x), expected)

    hold_nothing(once, count)


@pytest.mark.parametrize("count", COUNTS)
def test_artefacts_leave_nothing(count, tmp_path):
    path = tmp_path / "small.so"
    tc.compile(small_model(), threads=1, log=False).save(path)
    x = np.ones((256, 64), np.float32)
    expected = tc.load(path)(x)

    def once():
        np.testing.assert_array_equal(tc.load(path)(x), expected)

    hold_nothing(once, count)


@pytest.mark.parametrize("count", COUNTS)
def test_sequences_leave_nothing(count, tmp_path):
    pytest.importorskip("gguf", reason="GGUF files are read by the package gguf")
    pytest.importorskip("transformers", reason="the model is made by transformers")
    from tc.language.session import Session

    from .test_gguf import written

    path, _ = written(tmp_path, "qwen3")
    language = tc.compile(path, threads=1, log=False).language
    prompt = language.tokenizer.encode("hello world")
    expected = Session(language).prefill(prompt)

    def once():
        session = Session(language)
        np.testing.assert_array_equal(session.prefill(prompt), expected)
        other = session.copy()
        session.decode(3)
        other.save(tmp_path / "state")
        session.load(tmp_path / "state")
        assert session.tokens == prompt

    hold_nothing(once, count)
