"""Outputs that are an input with some elements changed lie in its array: plans copy nothing of it,
and write what changes."""

import re

import numpy as np
import pytest
from onnx import parser

import tc

from ..support import worst_error

RANDOM = np.random.default_rng(3)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def model_of(inputs, outputs, body, opset=24):
    return parser.parse_model(
        f'<ir_version: 11, opset_import: ["" : {opset}]>\nmain ({inputs}) => ({outputs}) {{\n{body}\n}}'
    ).SerializeToString()


def compiled(*arguments, **options):
    return tc.compile(model_of(*arguments), threads=1, log=False, **options)


CACHE = (
    "float[b, 2, capacity, 4] cache, float[b, 2, n, 4] new, int64[b] at",
    "float[b, 2, capacity, 4] y",
)
SCATTER = 'y = TensorScatter<axis = 2, mode = "{}">(cache, new, at)'


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_only_new_slots_are_written(mode):
    module = compiled(*CACHE, SCATTER.format(mode))
    assert module.in_place == {"y": "cache"}
    cache, new = floats(2, 2, 7, 4), floats(2, 2, 3, 4)
    at = np.array([4, 1 if mode == "linear" else 5])
    expected = cache.copy()
    for row, begin in enumerate(at):
        for i in range(3):
            expected[row, :, (begin + i) % 7] = new[row, :, i]
    before = cache.copy()
    # A call leaves the caller's array as it is.
    assert np.array_equal(module(cache, new, at), expected) and np.array_equal(cache, before)
    (result,) = module.run_in_place(cache, new, at)
    assert result is cache and np.array_equal(cache, expected)


def test_ranges_of_sizes_change_nothing_about_it():
    module = compiled(*CACHE, SCATTER.format("linear"), shapes={"capacity": (1, 64), "b": 1})
    assert module.in_place == {"y": "cache"} and module.symbols["capacity"] == (1, 64)


def test_an_update_that_would_reach_over_the_end():
    module = compiled(*CACHE, SCATTER.format("linear"))
    for at, begin in ((6, 4), (10**12, 4), (-1, 0), (-(2**63), 0)):
        cache, new = floats(1, 2, 7, 4), floats(1, 2, 3, 4)
        expected = cache.copy()
        expected[:, :, begin : begin + 3] = new
        module.run_in_place(cache, new, np.array([at]))
        assert np.array_equal(cache, expected)
    with pytest.raises(tc.ShapeError, match="'n' may be at most 'capacity'"):
        module.run_in_place(floats(1, 2, 2, 4), floats(1, 2, 3, 4), np.array([0]))


SCATTERS = {
    "ScatterND": (
        "float[5, 3] cache, float[2, 3] new, int64[2, 1] at",
        "ScatterND(cache, at, new)",
        np.array([[4], [1]]),
        lambda c, n: c.__setitem__([4, 1], n),
    ),
    "ScatterND, sums": (
        "float[5, 3] cache, float[2, 3] new, int64[2, 1] at",
        'ScatterND<reduction = "add">(cache, at, new)',
        np.array([[4], [4]]),
        lambda c, n: c.__setitem__(4, c[4] + n[0] + n[1]),
    ),
    "ScatterElements": (
        "float[5, 3] cache, float[1, 3] new, int64[1, 3] at",
        "ScatterElements<axis = 0>(cache, at, new)",
        np.array([[0, 4, -2]]),
        lambda c, n: c.__setitem__(([0, 4, 3], [0, 1, 2]), n[0]),
    ),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_other_operators_that_change_parts(name):
    inputs, call, at, change = SCATTERS[name]
    module = compiled(inputs, "float[5, 3] y", f"y = {call}")
    cache, new = (
        floats(5, 3),
        floats(*[int(each) for each in re.findall(r"\[(\d), 3\] new", inputs)], 3),
    )
    expected = cache.copy()
    change(expected, new)
    given = cache.copy()
    assert worst_error(module(given, new, at), expected) <= 1e-6 and np.array_equal(given, cache)
    module.run_in_place(given, new, at)
    assert worst_error(given, expected) <= 1e-6


def test_readers_of_the_old_contents_come_before():
    body = SCATTER.format("linear") + "\nsum = ReduceSum(cache)\nlast = Slice(y, zero, one, two)"
    body = (
        "zero = Constant<value_ints = [0]>()\none = Constant<value_ints = [1]>()\ntwo = Constant<value_ints = [2]>()\n"
        + body
    )
    module = compiled(CACHE[0], CACHE[1] + ", float[1, 1, 1, 1] sum, float[b, 2, 1, 4] last", body)
    assert module.in_place == {"y": "cache"}
    cache, new = floats(1, 2, 7, 4), floats(1, 2, 1, 4)
    total = cache.sum()
    y, found, last = module.run_in_place(cache, new, np.array([0]))
    assert y is cache and abs(found.item() - total) < 1e-4 and np.array_equal(last, new)


def test_no_place_where_the_old_contents_are_needed_behind():
    module = compiled(
        CACHE[0],
        CACHE[1] + ", float[b, 2, capacity, 4] moved",
        SCATTER.format("linear") + "\nmoved = Sub(y, cache)",
    )
    assert module.in_place == {}
    cache, new = floats(1, 2, 7, 4), floats(1, 2, 1, 4)
    y, moved = module(cache, new, np.array([2]))
    assert np.array_equal(y[:, :, 2], new[:, :, 0]) and np.array_equal(moved, y - cache)
    with pytest.raises(
        tc.ShapeError, match="^model '.*' has no output that lies in an input's array; call it$"
    ):
        module.run_in_place(cache, new, np.array([2]))


def test_one_of_two_results_lies_in_the_input():
    module = compiled(
        CACHE[0],
        CACHE[1] + ", float[b, 2, capacity, 4] z",
        SCATTER.format("linear")
        + "\ntwice = Add(new, new)\nz = TensorScatter<axis = 2>(cache, twice, at)",
    )
    assert len(module.in_place) == 1
    cache, new = floats(1, 2, 7, 4), floats(1, 2, 1, 4)
    before = cache.copy()
    y, z = module.run_in_place(cache, new, np.array([2]))
    for array, times in ((y, 1), (z, 2)):
        expected = before.copy()
        expected[:, :, 2] = times * new[:, :, 0]
        assert np.array_equal(array, expected)


def test_arrays_that_cannot_be_written():
    module = compiled(*CACHE, SCATTER.format("linear"))
    cache, new, at = floats(1, 2, 7, 4), floats(1, 2, 1, 4), np.array([0])
    fixed = cache.copy()
    fixed.setflags(write=False)
    for given in (fixed, cache[:, :, ::-1], cache.tolist()):
        with pytest.raises(tc.ShapeError) as raised:
            module.run_in_place(given, new, at)
        assert str(raised.value) == (
            "input 'cache' is written in place, and its array cannot be: give one of NumPy's that is writable, dense in "
            "row-major order and of type float32"
        )
    with pytest.raises(tc.ShapeError, match="takes 3 inputs, not 2"):
        module.run_in_place(cache, new)


def test_saved_models_know_their_pairs(tmp_path):
    module = compiled(*CACHE, SCATTER.format("linear"))
    module.save(tmp_path / "model.so")
    loaded = tc.load(tmp_path / "model.so")
    assert loaded.in_place == {"y": "cache"}
    cache, new = floats(1, 2, 7, 4), floats(1, 2, 2, 4)
    loaded.run_in_place(cache, new, np.array([3]))
    assert np.array_equal(cache[:, :, 3:5], new)


ATTENTION = "y = TensorScatter<axis = 2>(cache, new, at)\nlengths = Add(at, one)\nz = Attention(q, y, y, , , , lengths)"


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_reads_the_filled_part_where_it_lies(batch):
    """Heads that share keys and values, with as many as each sequence has."""
    inputs = f"float[{batch}, 6, 1, 4] q, float[{batch}, 2, 9, 4] cache, float[{batch}, 2, 1, 4] new, int64[{batch}] at"
    module = compiled(
        inputs,
        f"float[{batch}, 6, 1, 4] z, float[{batch}, 2, 9, 4] y",
        "one = Constant<value_ints = [1]>()\n" + ATTENTION,
    )
    assert module.in_place == {"y": "cache"}
    at = np.array([4, 0, 7])[:batch]
    q, new, cache = (
        floats(batch, 6, 1, 4),
        floats(batch, 2, 1, 4),
        np.full((batch, 2, 9, 4), 7, np.float32),
    )
    expected = []
    for row, count in enumerate(at):
        cache[row, :, :count] = floats(2, count, 4)
        keys = np.concatenate([cache[row, :, :count], new[row]], axis=1).repeat(3, axis=0)
        scores = np.einsum("hqd,hkd->hqk", q[row], keys) / 2
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected.append(np.einsum("hqk,hkd->hqd", weights / weights.sum(-1, keepdims=True), keys))
    if batch == 1:
        cache[0, :, 5:] = np.nan  # which nobody reads
    z, y = module.run_in_place(q, cache, new, at)
    assert y is cache and worst_error(z, np.stack(expected)) <= 1e-5
