"""Ranges of symbols: shapes={"seq": (1, 512)}."""

import numpy as np
import pytest
from onnx import helper

import tc
from tests.frontend.data_sizes import FLOAT, check, model


def soft(shape=("batch", "seq", 4)):
    return model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Softmax", ["h"], ["y"], axis=-1),
        ],
        [("x", FLOAT, list(shape))],
        [("y", FLOAT, list(shape))],
        {"w": np.eye(4, dtype=np.float32)},
    )


def data(*shape):
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


def test_sizes_in_it_run_and_others_are_refused():
    module = tc.compile(soft(), shapes={"seq": (2, 16)})
    assert module.symbols["seq"] == (2, 16)
    for batch, seq in ((1, 2), (3, 16), (2, 5)):
        check(soft(), data(batch, seq, 4), module)
    for seq in (1, 17):
        with pytest.raises(tc.ShapeError) as told:
            module.run(data(1, seq, 4))
        assert str(told.value) == f"input 'x': axis 1 ('seq') is {seq}; the model takes 2 to 16"


def test_ends_may_be_left_open_and_begin_at_0():
    module = tc.compile(soft(), shapes={"seq": (0, None), "batch": 2})
    assert module.symbols["seq"][0] == 0
    assert module.run(data(2, 0, 4))["y"].shape == (2, 0, 4)
    check(soft(), data(2, 3, 4), module)


@pytest.mark.parametrize("axis", [1, -2])
def test_a_cache_begins_empty(axis):
    """The length of an input that a node joins with what is new: a decoder's first call has none of
    it."""
    made = model(
        [helper.make_node("Concat", ["cache", "x"], ["y"], axis=axis)],
        [("cache", FLOAT, ["batch", "past", 4]), ("x", FLOAT, ["batch", "new", 4])],
        [("y", FLOAT, ["batch", None, 4])],
    )
    module = tc.compile(made)
    assert [module.symbols[name][0] for name in ("batch", "past", "new")] == [1, 0, 0]
    for past in (0, 1, 5):
        check(made, data(2, 3, 4) | {"cache": np.ones((2, past, 4), np.float32)}, module)
    with pytest.raises(tc.ShapeError, match="'past'"):
        tc.compile(made, shapes={"past": (1, 8)}).run(
            data(2, 3, 4) | {"cache": np.ones((2, 0, 4), np.float32)}
        )


def test_what_a_model_needs_is_not_told_before_its_sizes_are():
    """One kernel has no arena; how much memory its rows take follows from their length."""
    rows = model(
        [helper.make_node("Softmax", ["x"], ["y"], axis=-1)],
        [("x", FLOAT, ["n", "m"])],
        [("y", FLOAT, ["n", "m"])],
    )
    memory = tc.compile(rows, target="rv64gcv").memory
    assert (memory.arena, memory.peak) == (0, None)
    assert tc.compile(rows, target="rv64gcv", shapes={"x": (2, 8)}).memory.peak is not None


def test_one_size_is_a_number():
    assert tc.compile(soft(), shapes={"seq": (3, 3), "batch": (1, 8)}).inputs[0].shape == (
        "batch",
        3,
        4,
    )


@pytest.mark.parametrize(
    "given, text",
    [
        (
            {"seq": (5, 2)},
            "symbol 'seq' of model.onnx is given the range 5 to 2; it has to begin below its end, which is at most 2147483648",
        ),
        (
            {"seq": (1, 2, 3)},
            "symbol 'seq' of model.onnx is given 3 numbers; give one, or the least and the largest size as (1, 512)",
        ),
        (
            {"seq": (1, 8), "x": (None, 9, 4)},
            "symbol 'seq' of model.onnx is 9, but is given the range 1 to 8",
        ),
        (
            {"length": (1, 8)},
            "a shape is given for 'length', which is no input of model.onnx; its inputs are 'x'",
        ),
        (
            {"length": 8},
            "the size 8 is given for 'length', which is no symbol of the inputs of model.onnx; its symbols are 'batch', 'seq'",
        ),
        (
            {"x": 8},
            "the size 8 is given for 'x', which is no symbol of the inputs of model.onnx; its symbols are 'batch', 'seq'; the shape of the "
            "input 'x' of one dimension is (8,), on the command line x=8,",
        ),
    ],
)
def test_errors(given, text):
    with pytest.raises(tc.ShapeError) as told:
        tc.compile(soft(), shapes=given)
    assert str(told.value) == text


def test_relations_that_the_range_proves():
    """Where `seq` is at most 8, min(seq, 8) is `seq`: nothing is sliced, and nothing is left to
    check."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "eight", "one"], ["front"]),
        helper.make_node("Add", ["front", "x"], ["y"], name="add"),
    ]
    made = model(
        nodes,
        [("x", FLOAT, [2, "seq"])],
        [("y", FLOAT, [2, None])],
        {"zero": np.array([0]), "eight": np.array([8]), "one": np.array([1])},
    )
    module = tc.compile(made, shapes={"seq": (1, 8)})
    for seq in (1, 5, 8):
        check(made, data(2, seq), module)
    assert len(module.kernels) == 1
    unbound = tc.compile(made)
    assert len(unbound.kernels) == 2
    check(made, data(2, 8), unbound)
    with pytest.raises(tc.ShapeError, match="'add'"):
        unbound.run(data(2, 9))


@pytest.mark.parametrize(
    "start, limit, delta", [(0, 5, 1), (1, 5, 2), (10, 4, -2), (0, 1, 0.1), (3, 3, 1), (5, 1, 1)]
)
def test_range_of_floats_that_a_run_computes(start, limit, delta):
    made = model(
        [helper.make_node("Range", ["a", "b", "c"], ["y"], name="range")],
        [(name, FLOAT, []) for name in "abc"],
        [("y", FLOAT, [None])],
    )
    given = {name: np.array(value, np.float32) for name, value in zip("abc", (start, limit, delta))}
    count = max(0, int(np.ceil((float(given["b"]) - float(given["a"])) / float(given["c"]))))
    found = tc.compile(made).run(given)["y"]
    np.testing.assert_allclose(
        found, given["a"] + np.arange(count, dtype=np.float32) * given["c"], rtol=1e-6
    )
