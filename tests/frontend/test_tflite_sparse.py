"""Sparse constants of TensorFlow Lite: filled up with zeros while the file is read."""

import numpy as np
import pytest

import tc

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .tflite_files import Operator, Tensor, file_of  # noqa: E402

RANDOM = np.random.default_rng(17)


def tree_of(array, order, blocks, sparse_levels, size=2):
    """(levels, values) of an array, by going through its elements one by one: blocks of `size`
    along the axes of `blocks`."""
    rank = array.ndim
    sizes = [
        extent // (size if axis in blocks else 1) for axis, extent in enumerate(array.shape)
    ] + [size] * len(blocks)
    tree = {}

    def element(places):
        return tuple(
            places[axis] * size + places[rank + blocks.index(axis)]
            if axis in blocks
            else places[axis]
            for axis in range(rank)
        )

    def is_zero(places, level):
        if level == len(order):
            return array[element(places)] == 0
        return all(
            is_zero({**places, order[level]: each}, level + 1)
            for each in range(sizes[order[level]])
        )

    nodes, levels = [tree], []
    for level, dimension in enumerate(order):
        below, segments, indices = [], [0], []
        for places in nodes:
            kept = [
                each
                for each in range(sizes[dimension])
                if level not in sparse_levels or not is_zero({**places, dimension: each}, level + 1)
            ]
            indices += kept
            segments.append(len(indices))
            below += [{**places, dimension: each} for each in kept]
        levels.append((segments, indices) if level in sparse_levels else sizes[dimension])
        nodes = below
    return levels, np.array([array[element(places)] for places in nodes], array.dtype)


def some_zeros(shape, dtype, kept=0.3):
    return (RANDOM.integers(-100, 101, shape) * (RANDOM.random(shape) < kept)).astype(dtype)


# Shape, order of traversal, axes with blocks of 2, levels that are sparse.
FORMS = {
    "rows": ((5, 7), [0, 1], [], [1]),
    "columns": ((5, 7), [1, 0], [], [1]),
    "both": ((5, 7), [0, 1], [], [0, 1]),
    "blocks": ((6, 8), [0, 1, 2, 3], [0, 1], [1]),
    "blocks of one axis": ((5, 8), [0, 1, 2], [1], [1]),
    "blocks by columns": ((6, 8), [1, 0, 3, 2], [0, 1], [0, 1]),
    "of three axes": ((3, 4, 6), [2, 0, 1], [], [1, 2]),
    "dense": ((4, 6), [0, 1], [], []),
    "many columns": ((2, 300), [0, 1], [], [1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_sparse_constants(form):
    shape, order, blocks, sparse_levels = FORMS[form]
    for dtype in (np.float32, np.int8):
        array = some_zeros(shape, dtype)
        levels, values = tree_of(array, order, blocks, sparse_levels)
        kind = {"scale": 0.5, "zero": 0} if dtype == np.int8 else {}
        tensors = [
            Tensor("x", shape, dtype, **kind),
            Tensor("c", shape, dtype, raw=values.tobytes(), sparse=(order, blocks, levels), **kind),
            Tensor("d", shape, dtype, **kind),
            Tensor("y", shape, dtype, **kind),
        ]
        data = file_of(
            tensors, [Operator("DENSIFY", [1], [2]), Operator("MAXIMUM", [0, 2], [3])], [0], [3]
        )
        x = np.full(shape, -128, dtype)
        np.testing.assert_array_equal(tc.compile(data, log=False)(x), array)


def test_all_zeros_and_sparse_weights_of_a_layer():
    weights = some_zeros((5, 16), np.float32)
    weights[3] = 0
    levels, values = tree_of(weights, [0, 1], [], [1])
    tensors = [
        Tensor("x", (4, 16)),
        Tensor("w", (5, 16), raw=values.tobytes(), sparse=([0, 1], [], levels)),
        Tensor("y", (4, 5)),
    ]
    data = file_of(
        tensors, [Operator("FULLY_CONNECTED", [0, 1], [2], "FullyConnectedOptions")], [0], [2]
    )
    x = RANDOM.standard_normal((4, 16)).astype(np.float32)
    np.testing.assert_allclose(tc.compile(data, log=False)(x), x @ weights.T, rtol=1e-5, atol=1e-4)
    none = Tensor("w", (5, 16), raw=b"", sparse=([0, 1], [], [5, ([0] * 6, [])]))
    data = file_of(
        [tensors[0], none, tensors[2]],
        [Operator("FULLY_CONNECTED", [0, 1], [2], "FullyConnectedOptions")],
        [0],
        [2],
    )
    assert not np.any(tc.compile(data, log=False)(x))


DAMAGED = "'model.tflite' is a damaged file of TensorFlow Lite: tensor 'c' is sparse: "
WRONG = {
    "order": (
        ([0, 0], [], [2, 3]),
        DAMAGED + "the order [0, 0] and the blocks [] do not fit the shape [2, 3]",
    ),
    "blocks": (
        ([0, 1, 2], [5], [2, 3, 1]),
        DAMAGED + "the order [0, 1, 2] and the blocks [5] do not fit the shape [2, 3]",
    ),
    "block size": (
        ([0, 1, 2], [1], [2, 1, 2]),
        DAMAGED + "blocks of 2 do not fit axis 1 of [2, 3]",
    ),
    "places": (([0, 1], [], [2, 4]), DAMAGED + "a level has 4 places, and 3 are needed"),
    "index": (
        ([0, 1], [], [2, ([0, 1, 2], [0, 3])]),
        DAMAGED + "a level's segments and indices do not fit each other",
    ),
    "segments": (
        ([0, 1], [], [2, ([0, 3], [0, 1, 2])]),
        DAMAGED + "a level's segments and indices do not fit each other",
    ),
    "falling": (
        ([0, 1], [], [2, ([0, 2, 1], [0])]),
        DAMAGED + "a level's segments and indices do not fit each other",
    ),
    "values": (([0, 1], [], [2, 3]), DAMAGED + "it has 5 values, and 6 are needed"),
    "nodes": (
        ([0, 1], [], [2, ([0, 4, 8], [0, 1, 2, 0, 0, 1, 2, 0])]),
        DAMAGED + "a level has 8 nodes, more than the shape [2, 3] has elements",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_sparse_tensors(what):
    sparse, text = WRONG[what]
    tensors = [Tensor("c", (2, 3), raw=bytes(20), sparse=sparse), Tensor("y", (2, 3))]
    with pytest.raises(tc.ModelError) as raised:
        tc.compile(file_of(tensors, [Operator("DENSIFY", [0], [1])], [], [1]), log=False)
    assert str(raised.value) == text


def test_what_is_not_read_of_sparse_tensors():
    levels = ([0, 1], [], [2, 3])
    cases = [
        (
            Tensor("c", (2, 3), raw=bytes(21), sparse=levels),
            "'model.tflite' is a damaged file of TensorFlow Lite: tensor 'c' has 21 bytes, which are no whole elements of FLOAT32",
        ),
        (
            Tensor("c", (2, 3), raw=bytes(3), sparse=levels, type_number=17),
            "model.tflite: tensor 'c' is sparse with elements of the type INT4, which is not supported",
        ),
        (
            Tensor("c", (1 << 20, 1 << 10), raw=b"", sparse=([0, 1], [], [([0, 0], []), 1 << 10])),
            "model.tflite: its sparse tensors have 4294967296 bytes with their zeros; at most 2147483648 are supported",
        ),
        (
            Tensor("c", (2, 3)),
            "model.tflite uses what tc cannot compile: DENSIFY (operator 0, 'y'): 'c' is computed while the model runs; only constants are supported",
        ),
    ]
    for tensor, text in cases:
        with pytest.raises(tc.Error) as raised:
            tc.compile(
                file_of(
                    [tensor, Tensor("y", tensor.shape)],
                    [Operator("DENSIFY", [0], [1])],
                    [0] if tensor.raw is None else [],
                    [1],
                ),
                log=False,
            )
        assert str(raised.value) == text
