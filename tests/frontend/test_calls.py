"""What a call of a module takes and leaves behind: arrays of every form that stands for the same
numbers, and no module that nobody holds."""

import gc
import sys
import weakref

import numpy
import onnx.parser
import pytest

import tc

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x, float[N, 3] y) => (float[N, 3] z) { z = Sub(x, y) }'
).SerializeToString()
X = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)


class Subclass(numpy.ndarray):
    pass


def other_type_object(x):
    """An array whose type is equal to NumPy's, but another object."""
    return x.astype(numpy.dtype("f4", metadata={"of": "a caller"}))


def misaligned(x):
    bytes_of = numpy.zeros(x.nbytes + 1, numpy.uint8)[1:]
    made = bytes_of.view(numpy.float32).reshape(x.shape)
    made[...] = x
    return made


FORMS = {
    "dense": lambda x: x,
    "subclass": lambda x: x.view(Subclass),
    "transposed": lambda x: numpy.ascontiguousarray(x.T).T,
    "strided": lambda x: numpy.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: numpy.ascontiguousarray(x[::-1])[::-1],
    "other byte order": lambda x: x.astype(">f4" if sys.byteorder == "little" else "<f4"),
    "other type object": other_type_object,
    "misaligned": misaligned,
    "read-only": lambda x: numpy.frombuffer(x.tobytes(), numpy.float32).reshape(x.shape),
    "memoryview": memoryview,
    "list": lambda x: x.tolist(),
}


@pytest.fixture(scope="module")
def module():
    return tc.compile(MODEL, log=False)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_arrays(module, form):
    given = FORMS[form](X.copy())
    result = module(given, numpy.ones_like(X))
    assert type(result) is numpy.ndarray and result.dtype == numpy.float32
    numpy.testing.assert_array_equal(result, X - 1)
    numpy.testing.assert_array_equal(module(y=given, x=numpy.ones_like(X)), 1 - X)


def test_sizes_change_from_call_to_call(module):
    for rows in (1, 4, 4, 2, 4):
        x = numpy.full((rows, 3), 2, numpy.float32)
        result = module(x, numpy.ones_like(x))
        assert result.shape == (rows, 3) and (result == 1).all()
    with pytest.raises(tc.ShapeError, match="input 'y': axis 0"):
        module(X, X[:2])
    with pytest.raises(tc.ShapeError, match="input 'x' has rank 1"):
        module(X[0], X)
    # The call after one that was refused is right.
    numpy.testing.assert_array_equal(module(X, X), 0)


def test_wrong_calls_say_what_is_wrong(module):
    with pytest.raises(tc.ShapeError, match="takes 2 inputs, not 1"):
        module(X)
    with pytest.raises(tc.ShapeError, match="is float64; expected float32"):
        module(X.astype(numpy.float64), X)
    with pytest.raises(tc.ShapeError, match="is no array of numbers but a str"):
        module("x", X)
    with pytest.raises(tc.ShapeError, match="takes 2 inputs, not 0"):
        module()


def test_results_are_arrays_of_their_own(module):
    first = module(X, X)
    kept = first.copy()
    second = module(X + 1, X)
    assert first is not second and first.flags.owndata and first.flags.writeable
    numpy.testing.assert_array_equal(first, kept)


def test_a_call_keeps_no_reference(module):
    given = X.copy()
    before = sys.getrefcount(given)
    for _ in range(10):
        result = module(given, given)
    assert sys.getrefcount(given) == before
    fresh = X.copy()
    assert sys.getrefcount(result) == sys.getrefcount(fresh)
    types = sys.getrefcount(numpy.dtype(numpy.float32))
    for _ in range(1000):
        module(given, given)
    # Results take a reference, and give it back.
    assert sys.getrefcount(numpy.dtype(numpy.float32)) < types + 100


def test_a_module_that_ran_goes_with_its_last_reference():
    module = tc.compile(MODEL, log=False)
    module(X, X)
    module(X.tolist(), X)  # by the conversion in Python
    held = weakref.ref(module)
    del module
    gc.collect()
    assert held() is None
