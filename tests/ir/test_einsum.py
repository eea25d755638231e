"""Einsum agrees with NumPy, and a matrix product that it writes is scheduled as MatMul's."""

import re

import numpy
import pytest
from onnx import TensorProto, helper

import tc

from ..support import worst_error

KINDS = {
    numpy.dtype(numpy.float32): TensorProto.FLOAT,
    numpy.dtype(numpy.float64): TensorProto.DOUBLE,
    numpy.dtype(numpy.int32): TensorProto.INT32,
    numpy.dtype(numpy.int64): TensorProto.INT64,
}


def model(nodes, arrays, shapes=None):
    """A model of nodes (operator, inputs, output, attributes) that reads the arrays as x0, x1,
    …."""
    kind = KINDS[arrays[0].dtype]
    inputs = [
        helper.make_tensor_value_info(f"x{i}", kind, shapes[i] if shapes else array.shape)
        for i, array in enumerate(arrays)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, ins, [out], **attributes) for op, ins, out, attributes in nodes],
        "einsum",
        inputs,
        [helper.make_tensor_value_info("y", kind, None)],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()


def einsum(equation, arrays, shapes=None, **options):
    names = [f"x{i}" for i in range(len(arrays))]
    return tc.compile(
        model([("Einsum", names, "y", {"equation": equation})], arrays, shapes), **options
    )


def check(equation, arrays, shapes=None):
    result = einsum(equation, arrays, shapes).run(
        {f"x{i}": array for i, array in enumerate(arrays)}
    )["y"]
    expected = numpy.einsum(equation, *arrays)
    assert result.shape == expected.shape and result.dtype == expected.dtype, equation
    if expected.dtype.kind == "i":
        assert (result == expected).all(), equation
    else:
        size = numpy.abs(expected).max(initial=1)
        assert worst_error(result / size, expected / size) < 1e-5, equation


def random_case(random):
    """An equation with its operands: repeated letters, ellipses, broadcast extents, implicit
    outputs, spaces."""
    letters = list(random.permutation(list("abijkxyzABQ")))[: random.integers(1, 6)]
    extents = {letter: int(random.integers(1, 5)) for letter in letters}
    batch = [int(extent) for extent in random.integers(1, 4, random.integers(0, 3))]
    terms, arrays = [], []
    ellipsis = False
    kind = random.choice([numpy.float32, numpy.float32, numpy.float64, numpy.int32, numpy.int64])
    for _ in range(random.integers(1, 5)):
        own = list(random.choice(letters, random.integers(0, 4)))
        shape = [extents[letter] for letter in own]
        for i, letter in enumerate(own):
            if own.count(letter) == 1 and random.random() < 0.05:
                shape[i] = 1
        if random.random() < 0.3:
            at = int(random.integers(0, len(own) + 1))
            part = batch[random.integers(0, len(batch) + 1) :]
            part = [1 if random.random() < 0.2 else extent for extent in part]
            own.insert(at, "...")
            shape[at:at] = part
            ellipsis = True
        terms.append("".join(own))
        values = (
            random.integers(-3, 4, shape)
            if kind in (numpy.int32, numpy.int64)
            else random.standard_normal(shape)
        )
        arrays.append(numpy.asarray(values, kind))
    equation = ",".join(terms)
    if not equation or random.random() < 0.8:
        used = sorted({letter for term in terms for letter in term if letter != "."})
        output = list(random.permutation(used))[: random.integers(0, len(used) + 1)]
        if ellipsis:
            output.insert(int(random.integers(0, len(output) + 1)), "...")
        equation += "->" + "".join(output)
    if random.random() < 0.2:
        equation = equation.replace(",", " , ").replace("->", " -> ")
    return equation, arrays


@pytest.mark.parametrize("part", range(10))
def test_random_equations(part):
    random = numpy.random.default_rng(1000 + part)
    for _ in range(30):
        check(*random_case(random))


RANDOM = numpy.random.default_rng(5)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def test_more_operands_than_are_ordered():
    check(",".join(["ij"] * 12) + "->i", [floats(2, 3) for _ in range(12)])


def test_an_extent_known_at_run_time():
    check("bij,bjk->bik", [floats(2, 3, 4), floats(2, 4, 5)], [("B", 3, 4), ("B", 4, 5)])


def test_operands_are_multiplied_in_the_order_of_least_work():
    """(a b) c takes 2 * 64^3 multiplications less than a (b c) where c is a vector, and the other
    way round."""
    arrays = [floats(64, 64), floats(64, 64), floats(64)]
    kernels = einsum("ij,jk,k->i", arrays).kernels
    assert len(kernels) == 2 and all(
        "i:64, j:64, k:64" not in kernel["statements"] for kernel in kernels
    )
    check("ij,jk,k->i", arrays)
    check("k,jk,ij->i", arrays[::-1])


def sums_come_first():
    return einsum("ij,kl->il", [floats(32, 32), floats(32, 32)])


def test_what_one_operand_has_alone_is_summed_first():
    assert not any(
        re.search(r"\w+:32, \w+:32, \w+:32", kernel["statements"])
        for kernel in sums_come_first().kernels
    )


# An einsum and the same product by MatMul, with transposes where it needs them.
PRODUCTS = {
    "ij,jk->ik": ([(96, 80), (80, 112)], [("MatMul", ["x0", "x1"], "y", {})]),
    "bij,bjk->bik": ([(3, 48, 80), (3, 80, 64)], [("MatMul", ["x0", "x1"], "y", {})]),
    "bhqd,bhkd->bhqk": (
        [(2, 4, 64, 32), (2, 4, 64, 32)],
        [("Transpose", ["x1"], "t", {"perm": [0, 1, 3, 2]}), ("MatMul", ["x0", "t"], "y", {})],
    ),
    "bqhd,bkhd->bhqk": (
        [(2, 64, 4, 32), (2, 64, 4, 32)],
        [
            ("Transpose", ["x0"], "s", {"perm": [0, 2, 1, 3]}),
            ("Transpose", ["x1"], "t", {"perm": [0, 2, 3, 1]}),
            ("MatMul", ["s", "t"], "y", {}),
        ],
    ),
}


def renamed(module):
    """The trace of the only kernel, with each name replaced by its place among them."""
    places = {}
    trace = "\n".join(module.kernels[0]["trace"])
    return re.sub(
        r"\b[a-z]\w*", lambda word: places.setdefault(word.group(), f"n{len(places)}"), trace
    )


@pytest.mark.parametrize("equation", PRODUCTS)
def test_a_matrix_product_is_scheduled_as_one(equation):
    shapes, nodes = PRODUCTS[equation]
    arrays = [floats(*shape) for shape in shapes]
    by_einsum = einsum(equation, arrays, target="x86-64-v3", threads=1)
    by_matmul = tc.compile(model(nodes, arrays), "x86-64-v3", threads=1)
    assert len(by_einsum.kernels) == len(by_matmul.kernels) == 1
    assert renamed(by_einsum) == renamed(by_matmul)
    check(equation, arrays)
