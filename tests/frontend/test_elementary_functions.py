"""Elementary functions over the whole range of float32 and float64, against mpmath: every exponent,
neighbours of multiples of pi/2, of the ends of domains and of where results leave the type,
subnormals and special values.

Errors are counted in units in the last place of the exact result (of the smallest normal number
below it, as IEEE 754 has it). Results beyond the largest number are compared with the infinity as
if it were the next number."""

import functools
import math

import mpmath
import numpy
import pytest
from onnx import TensorProto, helper

import tc
from tc.native import compiler

mpmath.mp.prec = 300
PI = mpmath.pi
TYPES = {
    "float32": (numpy.float32, TensorProto.FLOAT),
    "float64": (numpy.float64, TensorProto.DOUBLE),
}
TINY = mpmath.mpf(2) ** -90  # below it x is as good as sin x


def odd(function, slope=1):
    """An odd function, which is its tangent where x is tiny."""
    return lambda x: x * slope if abs(x) < TINY else function(x)


def within(function, low, high):
    """NaN outside of the domain."""
    return lambda x: function(x) if low <= x <= high else mpmath.nan


def exponential(x):
    return mpmath.mpf(0) if x < -3000 else mpmath.inf if x > 3000 else mpmath.exp(x)


def softplus(x):
    return exponential(x) if x < -100 else mpmath.log(1 + exponential(x)) if x < 3000 else x


def expm1(x):
    return odd(lambda y: exponential(y) - 1)(x)


def gelu(x):
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2 if x > -2000 else mpmath.mpf(0)


def hyperbolic(x, sign):
    return (
        (exponential(x) + sign * exponential(-x)) / 2
        if abs(x) < 3000
        else mpmath.inf
        if sign > 0 or x > 0
        else -mpmath.inf
    )


# Operator: (exact function, largest error of float32, of float64 in units in the last place, what
# NumPy or math gives for specials)
FUNCTIONS = {
    "Sin": (odd(mpmath.sin), 1, 2, numpy.sin),
    "Cos": (mpmath.cos, 1, 2, numpy.cos),
    "Tan": (odd(mpmath.tan), 1, 4, numpy.tan),
    "Asin": (within(odd(mpmath.asin), -1, 1), 1, 4, numpy.arcsin),
    "Acos": (within(mpmath.acos, -1, 1), 1, 4, numpy.arccos),
    "Atan": (odd(mpmath.atan), 1, 3, numpy.arctan),
    "Sinh": (odd(lambda x: hyperbolic(x, -1)), 1, 5, numpy.sinh),
    "Cosh": (lambda x: hyperbolic(x, 1), 1, 5, numpy.cosh),
    "Tanh": (odd(lambda x: mpmath.tanh(x) if abs(x) < 300 else mpmath.sign(x)), 2, 4, numpy.tanh),
    "Asinh": (odd(lambda x: mpmath.sign(x) * mpmath.asinh(abs(x))), 1, 4, numpy.arcsinh),
    "Acosh": (within(mpmath.acosh, 1, mpmath.inf), 1, 4, numpy.arccosh),
    "Atanh": (
        within(
            odd(lambda x: mpmath.atanh(x) if abs(x) < 1 else mpmath.sign(x) * mpmath.inf), -1, 1
        ),
        1,
        4,
        numpy.arctanh,
    ),
    "Exp": (exponential, 1, 2, numpy.exp),
    "Log": (within(lambda x: mpmath.log(x) if x else -mpmath.inf, 0, mpmath.inf), 1, 2, numpy.log),
    "Erf": (odd(mpmath.erf, 2 / mpmath.sqrt(PI)), 2, 3, numpy.vectorize(math.erf, otypes="d")),
    "Sqrt": (within(mpmath.sqrt, 0, mpmath.inf), 0.5, 0.5, numpy.sqrt),
    "Reciprocal": (lambda x: 1 / x if x else mpmath.inf, 0.5, 0.5, lambda x: 1 / x),
    "Sigmoid": (lambda x: 1 / (1 + exponential(-x)), 3, 4, lambda x: 1 / (1 + numpy.exp(-x))),
    "Softplus": (softplus, 3, 4, lambda x: numpy.logaddexp(x, 0)),
}
# Functions whose terms cancel: their errors are counted in units of the larger of the result and
# what `scale` gives.
SCALED = {
    "Elu": (lambda x: x if x >= 0 else expm1(x), 2, 3, lambda x: 1),
    "Selu": (
        lambda x: (
            mpmath.mpf("1.05070102214813232421875")
            * (x if x > 0 else mpmath.mpf("1.67326319217681884765625") * expm1(x))
        ),
        4,
        4,
        lambda x: 2,
    ),
    "Gelu": (gelu, 3, 4, abs),
    "Mish": (lambda x: x * (mpmath.tanh(softplus(x)) if x < 300 else 1), 4, 5, lambda x: 0),
    "Swish": (lambda x: x / (1 + exponential(-x)), 4, 4, lambda x: 0),
    "Softsign": (lambda x: x / (1 + abs(x)), 2, 2, lambda x: 0),
}


def near(value, dtype, steps=2):
    """The number of the type that is nearest to the value, and its neighbours."""
    with numpy.errstate(over="ignore", under="ignore"):
        bits = numpy.array(float(value)).astype(dtype).view(f"i{numpy.dtype(dtype).itemsize}")
    return [(bits + step).astype(bits.dtype).view(dtype) for step in range(-steps, steps + 1)]


def points(dtype, full):
    """Numbers of every exponent and sign, and the neighbours of where functions change."""
    random = numpy.random.default_rng(8)
    info = numpy.finfo(dtype)
    lowest, highest = info.minexp - info.nmant, info.maxexp
    step = 1 if full else 3 if dtype == numpy.float32 else 11
    exponents = numpy.repeat(numpy.arange(lowest, highest, step), 12 if full else 1)
    with numpy.errstate(under="ignore"):
        made = [numpy.ldexp(random.uniform(1, 2, len(exponents)).astype(dtype), exponents)]
    # Where models have their numbers, and where exponentials leave the type.
    for low, high in ((-1, 1), (-12, 12), (-110, 110), (-760, 760), (-1e5, 1e5)):
        made.append(random.uniform(low, high, 2000 if full else 60).astype(dtype))
    multiples = [
        *range(1, 13),
        100,
        10**4,
        10**6,
        *(2**k + 1 for k in range(8, highest - 2, 7 if full else 41)),
    ]
    marks = [k * PI / 2 for k in multiples] + [
        1,
        2,
        4,
        6,
        10,
        20,
        2**28,
        0.5,
        0.25,
        0.41421356,
        math.sqrt(0.5),
        math.log(2),
        88.72283,
        87.33654,
        103.97,
        709.782712893384,
        708.3964,
        745.1332,
        710.4758600739439,
        2.0**30,
        2.0**52,
        2.0**53,
    ]
    made += [numpy.array(near(mark, dtype, 4 if full else 1)) for mark in marks]
    # The double nearest to a multiple of pi/2, of all.
    made.append(
        numpy.array(
            [6381956970095103.0 * 2.0**797, 1e18, 1e22, 1e300, info.max]
            if dtype == numpy.float64
            else [1e18, 1e22, 1e38, info.max],
            dtype,
        )
    )
    every = numpy.concatenate([each.astype(dtype).ravel() for each in made])
    return numpy.unique(numpy.concatenate([every, -every]))


def long_double(value):
    """An mpf as NumPy's longdouble, which has eleven bits and exponents more than float64."""
    if not mpmath.isfinite(value):
        return numpy.longdouble(float(value))
    mantissa, exponent = mpmath.frexp(value)
    return numpy.ldexp(
        numpy.longdouble(int(mpmath.nint(mantissa * mpmath.mpf(2) ** 62))), int(exponent) - 62
    )


@functools.cache
def exact(op, dtype, full):
    function = (FUNCTIONS | SCALED)[op][0]
    return numpy.array([long_double(function(mpmath.mpf(float(x)))) for x in points(dtype, full)])


def units(got, want, dtype, scale=0):
    """Errors in units in the last place. Beyond the largest number both are taken for the power of
    two behind it."""
    info = numpy.finfo(dtype)
    beyond = numpy.ldexp(numpy.longdouble(1), info.maxexp)
    want, got = (
        numpy.clip(want, -beyond, beyond),
        numpy.clip(got.astype(numpy.longdouble), -beyond, beyond),
    )
    size = numpy.maximum(numpy.abs(want), numpy.minimum(numpy.longdouble(scale), info.max))
    exponent = numpy.clip(numpy.frexp(size)[1] - 1, info.minexp, info.maxexp - 1)
    return numpy.abs(got - want) / numpy.ldexp(numpy.longdouble(1), exponent - info.nmant)


def model_of(ops, element):
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], [op], name=op) for op in ops],
        "functions",
        [helper.make_tensor_value_info("x", element, ["n"])],
        [helper.make_tensor_value_info(op, element, ["n"]) for op in ops],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10
    ).SerializeToString()


def compiled(target):
    def results(ops, dtype, element, x):
        return tc.compile(
            model_of(ops, element), target, shapes={"n": len(x)}, threads=1, log=False, tolerance=0
        ).run({"x": x})

    return results


def interpreted(ops, dtype, element, x):
    options = compiler.Options()
    options.symbols = {"n": len(x)}
    graph = compiler.Graph.imported(
        compiler.Source(model_of(ops, element), "functions.onnx"), options
    )
    given = [
        (
            "x",
            {"float32": "f32", "float64": "f64"}[numpy.dtype(dtype).name],
            list(x.shape),
            x.tobytes(),
        )
    ]
    return {
        name: numpy.frombuffer(data, dtype)
        for name, (_, _, data) in graph.evaluate(given, list(ops), False).items()
    }


def vectors():
    """The x86 levels that this machine runs, and the interpreter."""
    with open("/proc/cpuinfo") as file:
        flags = set(file.read().split())
    levels = [
        "native",
        *(["x86-64-v3"] if "avx2" in flags else []),
        *(["x86-64-v4"] if "avx512f" in flags else []),
    ]
    return [pytest.param(compiled(level), id=level) for level in levels] + [
        pytest.param(interpreted, id="interpreter")
    ]


def check(results, kind, full):
    dtype, element = TYPES[kind]
    x = points(dtype, full)
    found = results([*FUNCTIONS, *SCALED], dtype, element, x)
    wrong = []
    for op, (_, *limits, extra) in (FUNCTIONS | SCALED).items():
        want, got = exact(op, dtype, full), found[op]
        # What is subnormal before it is multiplied by x has errors of so many units.
        scale = (
            numpy.maximum(
                [extra(each) for each in x.astype(float)], numpy.abs(x) * numpy.finfo(dtype).tiny
            )
            if op in SCALED
            else 0
        )
        undefined = numpy.isnan(want)
        errors = numpy.where(
            undefined, numpy.where(numpy.isnan(got), 0, numpy.inf), units(got, want, dtype, scale)
        )
        errors = numpy.where(numpy.isnan(errors), numpy.inf, errors)
        signs = (
            (got == 0)
            & (want != 0)
            & (numpy.signbit(got) != numpy.signbit(want))
            & ~undefined
            & (op not in SCALED)
        )
        # The interpreter takes the C library's functions, whose cosine is 8 units off at the double
        # nearest to a multiple of pi/2.
        limit = 16 if results is interpreted else limits[kind == "float64"]
        at = numpy.argmax(errors)
        print(f"{op} {kind}: {float(errors[at]):.2f} units at {x[at]!r}")
        if errors[at] > limit or signs.any():
            wrong.append(
                f"{op} {kind}: {float(errors[at]):.2f} units at {x[at]!r} ({got[at]!r}, {want[at]!r}); signs of zeros {x[signs][:3]}"
            )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("results", vectors())
def test_functions_over_their_range(results, kind):
    check(results, kind, False)


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("results", vectors())
def test_functions_over_their_range_at_many_points(results, kind):
    check(results, kind, True)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("results", vectors())
def test_special_values_are_those_of_c(results, kind):
    dtype, element = TYPES[kind]
    x = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0, 1, -1, 1.5, -1.5], dtype)
    found = results([*FUNCTIONS, "Elu", "Selu", "Softsign"], dtype, element, x)
    for op, (*_, reference) in FUNCTIONS.items():
        with numpy.errstate(all="ignore"):
            want = reference(x.astype(numpy.float64))
        got = found[op].astype(numpy.float64)
        exact_ones = ~numpy.isfinite(want) | (want == 0)
        assert numpy.array_equal(numpy.isnan(got), numpy.isnan(want)), (op, got, want)
        assert numpy.array_equal(got[exact_ones], want[exact_ones], equal_nan=True), (op, got, want)
        assert numpy.array_equal(numpy.signbit(got[want == 0]), numpy.signbit(want[want == 0])), (
            op,
            got,
            want,
        )
    assert found["Elu"][1] == -1 and found["Elu"][0] == numpy.inf and numpy.signbit(found["Elu"][4])


# --- powers ---------------------------------------------------------------------------------------


def power_model(element):
    graph = helper.make_graph(
        [helper.make_node("Pow", ["x", "y"], ["Pow"], name="Pow")],
        "power",
        [helper.make_tensor_value_info(name, element, ["n"]) for name in "xy"],
        [helper.make_tensor_value_info("Pow", element, ["n"])],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10
    ).SerializeToString()


def powers(dtype, full):
    """Bases of every exponent, and exponents that bring the power into all of the type's range."""
    random = numpy.random.default_rng(9)
    info = numpy.finfo(dtype)
    x = points(dtype, full)
    x = x[(x > 0) & (x != 1)]
    logs = numpy.abs(numpy.log2(x.astype(numpy.float64)))
    with numpy.errstate(over="ignore"):
        y = (random.uniform(info.minexp - info.nmant - 5, info.maxexp + 1, len(x)) / logs).astype(
            dtype
        )
    y = numpy.where(numpy.isfinite(y), y, 0.5)
    whole = random.integers(-40, 40, len(x)).astype(dtype)
    sides = random.choice([1, -1], len(x)).astype(dtype)
    return numpy.concatenate([x, x * sides, x]).astype(dtype), numpy.concatenate(
        [y, whole, -y]
    ).astype(dtype)


def exact_power(x, y):
    x, y = mpmath.mpf(float(x)), mpmath.mpf(float(y))
    sign = -1 if x < 0 and int(y) % 2 else 1
    return long_double(sign * exponential(y * mpmath.log(abs(x))))


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_powers_over_their_range(target, kind, full):
    dtype, element = TYPES[kind]
    x, y = powers(dtype, full)
    got = tc.compile(power_model(element), target, shapes={"n": len(x)}, threads=1, log=False).run(
        {"x": x, "y": y}
    )["Pow"]
    want = numpy.array([exact_power(*pair) for pair in zip(x, y)])
    errors = units(got, want, dtype)
    at = numpy.argmax(numpy.where(numpy.isnan(errors), numpy.inf, errors))
    print(f"Pow {kind}: {float(errors[at]):.2f} units at {x[at]!r}, {y[at]!r}")
    assert errors[at] <= {"float32": 1, "float64": 40}[kind], (x[at], y[at], got[at], want[at])


@pytest.mark.parametrize("kind", TYPES)
def test_powers_of_special_values_are_those_of_c(kind):
    dtype, element = TYPES[kind]
    every = numpy.array(
        [
            0.0,
            -0.0,
            1,
            -1,
            2,
            -2,
            0.5,
            -0.5,
            3,
            -3,
            1.5,
            numpy.inf,
            -numpy.inf,
            numpy.nan,
            1e-30,
            1e30,
            -1e30,
            2.0**24 + 2,
            1 + 2.0**-20,
        ],
        dtype,
    )
    x, y = (each.ravel() for each in numpy.meshgrid(every, every))
    got = tc.compile(power_model(element), shapes={"n": len(x)}, threads=1, log=False).run(
        {"x": x, "y": y}
    )["Pow"]
    with numpy.errstate(all="ignore"):
        want = numpy.power(x, y)
    assert numpy.array_equal(numpy.isnan(got), numpy.isnan(want))
    defined = ~numpy.isnan(want)
    assert numpy.allclose(
        got[defined], want[defined], rtol=3e-7 if kind == "float32" else 1e-15, atol=0
    )
    assert numpy.array_equal(numpy.signbit(got[defined]), numpy.signbit(want[defined]))
