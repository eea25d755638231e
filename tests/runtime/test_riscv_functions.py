"""Elementary functions as RISC-V code: how far they are from float64, in units in the last place
(tests/codegen/math_test.cc does the same for x86-64)."""

import math

import numpy
import onnx
import pytest
import tc

from ..support import count_under_qemu, output_file

# For each operator: float64's function, the interval that arguments are drawn from, and the most
# units in the last place.
FUNCTIONS = {
    "Exp": (numpy.exp, -104, 89, 1),
    "Log": (numpy.log, 0, 3.4e38, 1),
    "Tanh": (numpy.tanh, -12, 12, 2),
    "Sigmoid": (lambda x: 1 / (1 + numpy.exp(-x)), -100, 100, 2),
    "Erf": (numpy.vectorize(math.erf, otypes=[numpy.float64]), -5, 5, 2),
    "Sin": (numpy.sin, -3.4e38, 3.4e38, 1),
    "Cos": (numpy.cos, -3.4e38, 3.4e38, 1),
    "Tan": (numpy.tan, -3.4e38, 3.4e38, 1),
    "Asin": (numpy.arcsin, -1, 1, 1),
    "Acos": (numpy.arccos, -1, 1, 1),
    "Atan": (numpy.arctan, -3.4e38, 3.4e38, 1),
    "Sinh": (numpy.sinh, -89, 89, 1),
    "Cosh": (numpy.cosh, -89, 89, 1),
    "Asinh": (numpy.arcsinh, -3.4e38, 3.4e38, 1),
    "Acosh": (numpy.arccosh, 1, 3.4e38, 1),
    "Atanh": (numpy.arctanh, -1, 1, 1),
}
# On vectors it is one quotient of polynomials (`erf_as_quotient` in codegen/llvm/emit/math.cc),
# whose steps round most where the result is near 1.
MAX_OF_ERF_ON_VECTORS = 7
COUNT = 20_000
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, numpy.inf, -numpy.inf, numpy.nan]


def arguments(low, high):
    """Half of them even over the interval, half even over the exponents below its ends."""
    ends = [end for end in (low, high) if end != 0]
    powers = [
        math.copysign(1, end) * numpy.exp2(numpy.linspace(-149, math.log2(abs(end)), COUNT // 4))
        for end in ends
    ]
    return numpy.concatenate(
        [SPECIAL, [low, high], numpy.linspace(low, high, COUNT // 2), *powers]
    ).astype(numpy.float32)


def units(found, wanted):
    """Distances in units in the last place of float32 around what is wanted; infinite where one of
    both alone is NaN, or infinite as a float32."""
    rounded = wanted.astype(numpy.float32)
    unit = numpy.spacing(numpy.abs(rounded)).astype(numpy.float64)
    same = (numpy.isnan(found) & numpy.isnan(rounded)) | (found == rounded)
    distance = numpy.abs(found.astype(numpy.float64) - wanted) / unit
    return numpy.where(
        same & ~numpy.isfinite(rounded),
        0,
        numpy.where(numpy.isfinite(found) & numpy.isfinite(rounded), distance, numpy.inf),
    )


# An X280 divides so slowly that quotients are products there.
@pytest.mark.parametrize("target", ["rv64gcv_zvl256b", "sifive-x280", "rv64gc"])
# numpy's, of arguments outside of a function's domain.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_units_in_the_last_place(target, tmp_path):
    inputs = {name.lower(): arguments(low, high) for name, (_, low, high, _) in FUNCTIONS.items()}
    tensors = [
        [
            onnx.helper.make_tensor_value_info(name + suffix, onnx.TensorProto.FLOAT, x.shape)
            for name, x in inputs.items()
        ]
        for suffix in ("", "_out")
    ]
    nodes = [
        onnx.helper.make_node(name, [name.lower()], [name.lower() + "_out"]) for name in FUNCTIONS
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "functions", *tensors),
        opset_imports=[onnx.helper.make_opsetid("", 20)],
        ir_version=9,
    )
    onnx.save(model, tmp_path / "functions.onnx")
    executable = tmp_path / "functions"
    tc.compile(
        tmp_path / "functions.onnx", target=target, threads=1, tolerance=0, log=False
    ).export(executable, kind="executable")
    outputs, _ = count_under_qemu(
        executable,
        inputs,
        tmp_path,
        vlen=512 if target == "sifive-x280" else 256,
        vector=target != "rv64gc",
    )
    allowed = {name: most for name, (*_, most) in FUNCTIONS.items()}
    if target != "rv64gc":
        allowed["Erf"] = MAX_OF_ERF_ON_VECTORS
    far = []
    for name, (function, *_) in FUNCTIONS.items():
        x = inputs[name.lower()]
        distances = units(
            outputs[output_file(name.lower() + "_out")], function(x.astype(numpy.float64))
        )
        print(f"{name} on {target}: {distances.max():.2f} units at {x[distances.argmax()]!r}")
        if distances.max() > allowed[name]:
            far.append(
                f"{name}: {distances.max():.2f} units, {allowed[name]} allowed, at {x[distances.argmax()]!r}"
            )
    assert not far


@pytest.mark.parametrize("name", ["Sigmoid", "Tanh", "Erf"])
def test_cores_that_divide_slowly_multiply_by_reciprocals(name):
    x, y = (
        onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [4096]) for each in "xy"
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node(name, ["x"], ["y"])], "g", [x], [y])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9
    )
    for core, divides in {"sifive-x280": False, "sifive-p670": False, "spacemit-x60": True}.items():
        code = tc.kernels(model.SerializeToString(), core)[0].schedule().code_text("assembly")
        assert ("vfdiv" in code, "vfrec7" in code) == (divides, not divides), core
