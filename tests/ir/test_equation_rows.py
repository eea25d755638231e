"""Rows that are only an equation agree with NumPy as native code and for rv64gcv under qemu: with
fixed sizes, and with sizes that are known at run time only."""

import numpy
import pytest
from onnx import TensorProto, helper

import tc

from ..support import output_file, run_under_qemu, worst_error

RANDOM = numpy.random.default_rng(11)


def correlation(x, w):
    rows = [numpy.correlate(row, w, "valid") for row in x.reshape(-1, x.shape[-1])]
    return numpy.stack(rows).reshape(*x.shape[:-1], -1)


def cumulative_maximum(x):
    return numpy.maximum.accumulate(x, axis=-1)


def mish(x):
    return x * numpy.tanh(numpy.logaddexp(0, x))


# Operator, what NumPy gives, the shapes of the operands and their names where they are known at run
# time only.
CASES = {
    "Correlation": (
        "tc.Correlation",
        correlation,
        {"x": (3, 37), "w": (5,)},
        {"x": ("n", "t"), "w": ("k",)},
    ),
    "Correlation of batches": (
        "tc.Correlation",
        correlation,
        {"x": (2, 3, 20), "w": (20,)},
        {"x": (2, "n", "t"), "w": (20,)},
    ),
    "CumMax": ("tc.CumMax", cumulative_maximum, {"x": (19, 33)}, {"x": ("n", "t")}),
    "CumMax of a vector": ("tc.CumMax", cumulative_maximum, {"x": (50,)}, {"x": ("t",)}),
    "Mish": ("Mish", mish, {"x": (7, 21)}, {"x": ("n", 21)}),
}


def model_of(operator, shapes):
    domain, _, name = operator.rpartition(".")
    graph = helper.make_graph(
        [helper.make_node(name, list(shapes), ["y"], domain=domain)],
        "row",
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, shapes[each]) for each in shapes],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("tc", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()


@pytest.mark.parametrize("sizes", ["fixed", "of the run"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_numpy(case, sizes, tmp_path):
    operator, reference, shapes, names = CASES[case]
    inputs = {
        name: RANDOM.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()
    }
    expected = reference(*inputs.values())
    model = model_of(operator, shapes if sizes == "fixed" else names)
    native = tc.compile(model, log=False).run(inputs)["y"]
    executable = tmp_path / "model"
    tc.compile(model, target="rv64gcv", log=False).export(str(executable), kind="executable")
    foreign = run_under_qemu(executable, inputs, tmp_path)[output_file("y")]
    for found in (native, foreign):
        assert found.shape == expected.shape
        assert worst_error(found, expected) <= 1e-5


def test_a_window_that_does_not_fit_is_refused():
    inputs = {"x": (2, 3), "w": (5,)}
    with pytest.raises(tc.ShapeError, match=r"`i\+k` of X\[\.\.\.,i\+k\] reaches over 5 elements"):
        tc.compile(model_of("tc.Correlation", inputs), log=False)
    module = tc.compile(model_of("tc.Correlation", {"x": (2, "t"), "w": (5,)}), log=False)
    with pytest.raises(tc.ShapeError):
        module.run({"x": numpy.zeros((2, 3), numpy.float32), "w": numpy.zeros(5, numpy.float32)})
