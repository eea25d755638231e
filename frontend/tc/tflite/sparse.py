"""Makes sparse constants of a file dense.

The elements are the leaves of a tree with one level per dimension, in the order of traversal; a
blocked dimension has two levels, the index of the block and the index in it. In a dense level each
node of the level above has children for all indices. In a sparse level node i has those in the
level's list of indices from entry i to entry i + 1 of its list of segments.
"""

import math

import numpy as np
import tflite

_VECTORS = {1: tflite.Int32Vector, 2: tflite.Uint16Vector, 3: tflite.Uint8Vector}


class Damaged(Exception):
    """Raised with what is wrong in the description of a sparse tensor."""


def _vector(kind, union):
    if kind not in _VECTORS or union is None:
        raise Damaged("a level has no list of indices")
    vector = _VECTORS[kind]()
    vector.Init(union.Bytes, union.Pos)
    if vector.ValuesLength() > len(union.Bytes):
        raise Damaged(f"a list of indices has {vector.ValuesLength()} entries")
    found = vector.ValuesAsNumpy()
    return found.astype(np.int64) if isinstance(found, np.ndarray) else np.zeros(0, np.int64)


def _numbers(table, field):
    found = getattr(table, field + "AsNumpy")()
    return found.tolist() if isinstance(found, np.ndarray) else []


def _sizes(table, shape):
    """(order of traversal, block map, size of each level: whole dimensions or their number of
    blocks, then blocks)"""
    order, blocks = _numbers(table, "TraversalOrder"), _numbers(table, "BlockMap")
    rank = len(shape)
    if (
        sorted(order) != list(range(rank + len(blocks)))
        or table.DimMetadataLength() != len(order)
        or len(set(blocks)) != len(blocks)
        or any(not 0 <= axis < rank for axis in blocks)
    ):
        raise Damaged(
            f"the order {order} and the blocks {blocks} do not fit the shape {list(shape)}"
        )
    sizes = list(shape) + [0] * len(blocks)
    for level, dimension in enumerate(order):
        if dimension >= rank:
            size, axis = table.DimMetadata(level).DenseSize(), blocks[dimension - rank]
            if (
                table.DimMetadata(level).Format() != tflite.DimensionType.DENSE
                or size < 1
                or shape[axis] % size
            ):
                raise Damaged(f"blocks of {size} do not fit axis {axis} of {list(shape)}")
            sizes[dimension], sizes[axis] = size, shape[axis] // size
    return order, blocks, sizes


def _below(level, nodes, size):
    """For each node of a level: (its parent in the level above, its index in the dimension, its
    number)."""
    if level.Format() == tflite.DimensionType.DENSE:
        if level.DenseSize() != size:
            raise Damaged(f"a level has {level.DenseSize()} places, and {size} are needed")
        count = len(nodes)
        return (
            np.repeat(np.arange(count), size),
            np.tile(np.arange(size), count),
            (nodes[:, None] * size + np.arange(size)).reshape(-1),
        )
    segments = _vector(level.ArraySegmentsType(), level.ArraySegments())
    indices = _vector(level.ArrayIndicesType(), level.ArrayIndices())
    if (
        len(segments) < 1
        or segments[0] != 0
        or segments[-1] != len(indices)
        or np.any(np.diff(segments) < 0)
        or (len(nodes) and nodes.max() + 1 >= len(segments))
        or np.any((indices < 0) | (indices >= size))
    ):
        raise Damaged("a level's segments and indices do not fit each other")
    begins, counts = segments[nodes], segments[nodes + 1] - segments[nodes]
    parents = np.repeat(np.arange(len(nodes)), counts)
    numbers = (
        np.arange(counts.sum())
        - np.repeat(np.cumsum(counts) - counts, counts)
        + np.repeat(begins, counts)
    )
    return parents, indices[numbers], numbers


def dense(table, shape, values):
    """The dense array of a sparse tensor's values, of any type; Damaged where its
    SparsityParameters are wrong."""
    order, blocks, sizes = _sizes(table, shape)
    nodes, places = np.zeros(1, np.int64), {}
    for level, dimension in enumerate(order):
        parents, own, nodes = _below(table.DimMetadata(level), nodes, sizes[dimension])
        if len(nodes) > max(math.prod(shape), 1):
            raise Damaged(
                f"a level has {len(nodes)} nodes, more than the shape {list(shape)} has elements"
            )
        places = {each: found[parents] for each, found in places.items()} | {dimension: own}
    if len(nodes) and nodes.max() >= len(values):
        raise Damaged(f"it has {len(values)} values, and {int(nodes.max()) + 1} are needed")
    for number, axis in enumerate(blocks):
        places[axis] = places[axis] * sizes[len(shape) + number] + places[len(shape) + number]
    result = np.zeros(shape, values.dtype)
    result[tuple(places[axis] for axis in range(len(shape)))] = values[nodes]
    return result
