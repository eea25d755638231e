"""Random operators: the same numbers for the same seed, others for another, and the distributions
that they name."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import output_file, run_under_qemu

FLOAT, DOUBLE, HALF = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16


def model_of(nodes, inputs, outputs=("y",), constants=None, opset=22, shapes=None):
    """A model of nodes (operator, inputs, outputs, attributes)."""
    graph = helper.make_graph(
        [
            helper.make_node(op, ins, outs, name=f"node_{i}", **attributes)
            for i, (op, ins, outs, attributes) in enumerate(nodes)
        ],
        "random",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                (shapes or {}).get(name, array.shape),
            )
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(name, 0, None) for name in outputs],
        [
            numpy_helper.from_array(numpy.asarray(array), name)
            for name, array in (constants or {}).items()
        ],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]
    ).SerializeToString()


def run(nodes, inputs=None, outputs=("y",), **options):
    """Outputs of the model."""
    return tc.compile(model_of(nodes, inputs or {}, outputs, **options), log=False).run(
        inputs or {}
    )


def uniform(**attributes):
    return run([("RandomUniform", [], ["y"], {"shape": [200, 300], **attributes})])["y"]


def split_mix(seed, count):
    """The first outputs of SplitMix64, as its authors write it."""
    mask, state, found = 2**64 - 1, seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        found.append(z ^ (z >> 31))
    return numpy.array(found, numpy.uint64)


def test_numbers_are_those_of_split_mix():
    bits = split_mix(7, 20)
    y = run([("RandomUniform", [], ["y"], {"shape": [4, 5], "seed": 7.0})])["y"]
    assert (
        y.ravel() == (bits >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2**-24)
    ).all()
    wide = run([("RandomUniform", [], ["y"], {"shape": [20], "seed": 7.0, "dtype": DOUBLE})])["y"]
    assert (wide == (bits >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53).all()


def test_seeds_decide():
    assert (uniform(seed=3.0) == uniform(seed=3.0)).all()
    assert (uniform(seed=3.0) != uniform(seed=4.0)).mean() > 0.99
    assert (uniform(seed=3.5) != uniform(seed=3.25)).mean() > 0.99
    assert (uniform() == uniform()).all()
    found = run(
        [
            ("RandomUniform", [], ["y"], {"shape": [200]}),
            ("RandomUniform", [], ["z"], {"shape": [200]}),
        ],
        outputs=("y", "z"),
    )
    assert (found["y"] != found["z"]).mean() > 0.9


def test_distributions():
    y = uniform(seed=1.0, low=-2.0, high=6.0)
    assert y.dtype == numpy.float32 and y.min() >= -2 and y.max() <= 6
    assert abs(y.mean() - 2) < 0.05 and abs(y.std() - 8 / 12**0.5) < 0.05
    assert abs(numpy.corrcoef(y.ravel()[:-1], y.ravel()[1:])[0, 1]) < 0.02
    z = run(
        [("RandomNormal", [], ["y"], {"shape": [200, 300], "seed": 1.0, "mean": 3.0, "scale": 2.0})]
    )["y"]
    assert abs(z.mean() - 3) < 0.05 and abs(z.std() - 2) < 0.05 and numpy.isfinite(z).all()
    assert abs((numpy.abs(z - 3) < 2).mean() - 0.6827) < 0.01


@pytest.mark.parametrize(
    "kind, dtype", [(DOUBLE, numpy.float64), (HALF, numpy.float16), (None, numpy.float32)]
)
def test_like_forms_take_shape_and_type(kind, dtype):
    x = numpy.zeros((3, 4), dtype)
    given = {} if kind is None else {"dtype": kind}
    for op in ("RandomNormalLike", "RandomUniformLike"):
        found = run(
            [(op, ["x"], ["r"], {"seed": 2.0}), ("Add", ["r", "x"], ["y"], {})],
            {"x": x},
            shapes={"x": ("n", 4)},
        )["y"]
        assert found.dtype == dtype and found.shape == (3, 4) and len(numpy.unique(found)) > 6
        wide = run(
            [(op, ["x"], ["y"], {"seed": 2.0, **given})], {"x": numpy.zeros((3, 4), numpy.float32)}
        )["y"]
        assert wide.dtype == dtype


def test_bernoulli():
    odds = numpy.repeat(numpy.array([[0, 0.25, 0.75, 1]]), 20000, axis=0)
    y = run([("Bernoulli", ["x"], ["y"], {"seed": 5.0, "dtype": TensorProto.INT32})], {"x": odds})[
        "y"
    ]
    assert y.dtype == numpy.int32 and set(numpy.unique(y)) == {0, 1}
    numpy.testing.assert_allclose(y.mean(axis=0), [0, 0.25, 0.75, 1], atol=0.01)


def test_multinomial():
    odds = numpy.array([[0.1, 0.2, 0.3, 0.4], [0, 1, 0, 0]])
    with numpy.errstate(divide="ignore"):
        logarithms = numpy.log(odds).astype(numpy.float32)
    y = run(
        [
            (
                "Multinomial",
                ["x"],
                ["y"],
                {"sample_size": 20000, "seed": 5.0, "dtype": TensorProto.INT64},
            )
        ],
        {"x": logarithms + 3},
    )["y"]
    assert y.dtype == numpy.int64 and y.shape == (2, 20000)
    numpy.testing.assert_allclose([(y[0] == k).mean() for k in range(4)], odds[0], atol=0.02)
    assert (y[1] == 1).all()


def dropout(x, ratio, training, **attributes):
    return run(
        [("Dropout", ["x", "ratio", "training"], ["y", "mask"], attributes)],
        {"x": x, "ratio": numpy.float32(ratio), "training": numpy.bool_(training)},
        ("y", "mask"),
    )


def test_dropout():
    """Ratio and training are known at run time only."""
    x = numpy.linspace(1, 2, 60000, dtype=numpy.float32).reshape(200, 300)
    found = dropout(x, 0.25, True, seed=9)
    assert abs(found["mask"].mean() - 0.75) < 0.01
    numpy.testing.assert_allclose(found["y"], numpy.where(found["mask"], x / 0.75, 0), rtol=1e-6)
    again = dropout(x, 0.25, True, seed=9)
    assert (again["mask"] == found["mask"]).all()
    for ratio, training in ((0.25, False), (0.0, True)):
        still = dropout(x, ratio, training)
        assert (still["y"] == x).all() and still["mask"].all()
    default = run(
        [("Dropout", ["x", "", "training"], ["y"], {"seed": 1})],
        {"x": x, "training": numpy.bool_(True)},
    )["y"]
    assert abs((default == 0).mean() - 0.5) < 0.01


def test_other_machines_draw_the_same(tmp_path):
    """A size that is known at run time keeps the numbers from being computed by the compiler."""
    x = numpy.zeros((7, 9), numpy.float32)
    model = model_of(
        [("RandomUniformLike", ["x"], ["y"], {"seed": 4.0})], {"x": x}, shapes={"x": ("n", 9)}
    )
    here = tc.compile(model, log=False).run({"x": x})["y"]
    executable = tmp_path / "model"
    tc.compile(model, target="rv64gcv", log=False).export(str(executable), kind="executable")
    assert (run_under_qemu(executable, {"x": x}, tmp_path)[output_file("y")] == here).all()
    assert (
        here.ravel()[:20]
        == (split_mix(4, 20) >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2**-24)
    ).all()
