"""Every rewrite of docs/simplifications.md over all pairs of special values, beside NumPy; the page
and this file have the same lines."""

import math
import re

import numpy
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import ROOT

SPECIALS = numpy.array([-numpy.inf, -1.5, -0.0, 0.0, 2.5, numpy.inf, numpy.nan], numpy.float32)
FINITE = numpy.array([-1.5, -0.0, 0.0, 2.5, 1e-3], numpy.float32)


def model_of(nodes, inputs, outputs, constants=None, element=TensorProto.FLOAT):
    """A model of nodes (type, inputs, outputs, attributes); inputs are arrays, outputs names of
    values of the element type."""
    graph = helper.make_graph(
        [
            helper.make_node(kind, ins, outs, name=f"{kind}{i}", **attributes)
            for i, (kind, ins, outs, attributes) in enumerate(nodes)
        ],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in inputs.items()
        ],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [
            numpy_helper.from_array(numpy.asarray(array), name)
            for name, array in (constants or {}).items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def ours(model, inputs, target="native"):
    return tc.compile(model.SerializeToString(), target, threads=1, tolerance=0, log=False).run(
        inputs
    )


def agree(found, expected, zeros=True, tolerance=2e-6):
    """The same infinities, NaN and (unless not `zeros`) signs of zeros; finite numbers within
    roundings."""
    found, expected = numpy.broadcast_arrays(
        numpy.asarray(found), numpy.asarray(expected, found.dtype)
    )
    with numpy.errstate(invalid="ignore"):
        close = (
            (found == expected)
            | (numpy.isnan(found) & numpy.isnan(expected))
            | (numpy.abs(found - expected) <= tolerance * numpy.abs(expected))
        )
    assert close.all(), (found[~close], expected[~close])
    if zeros:
        same = (expected != 0) | (numpy.signbit(found) == numpy.signbit(expected))
        assert same.all(), (found[~same], expected[~same])


def power(x, exponent):
    """C's; of one exponent for all NumPy takes square roots for 0.5."""
    return numpy.power(x, numpy.full_like(x, exponent))


def of_constant(op, constant, reference, first=False, **how):
    """An operator of x and a constant, in both orders where `first`."""

    def run(target):
        c = numpy.float32(constant)
        for order in (["x", "c"], ["c", "x"])[: 1 + first]:
            # Behind a product, so that a rewrite inside of a kernel is seen as well as one of a
            # graph's input.
            nodes = [
                ("Mul", ["x", "two"], ["d"], {}),
                (op, [{"x": "d"}.get(name, name) for name in order], ["y"], {}),
                (op, order, ["z"], {}),
            ]
            found = ours(
                model_of(nodes, {"x": SPECIALS}, ["y", "z"], {"c": c, "two": numpy.float32(2)}),
                {"x": SPECIALS},
                target,
            )
            agree(found["y"], reference(SPECIALS * 2, c), **how)
            agree(found["z"], reference(SPECIALS, c), **how)

    return run


def one_operand(target):
    for op in "Max", "Min", "Sum", "Mean":
        agree(
            ours(
                model_of([(op, ["x"], ["y"], {})], {"x": SPECIALS}, ["y"]), {"x": SPECIALS}, target
            )["y"],
            SPECIALS,
        )


def own_type(target):
    model = model_of(
        [("Cast", ["x"], ["d"], {"to": TensorProto.FLOAT}), ("Neg", ["d"], ["y"], {})],
        {"x": SPECIALS},
        ["y"],
    )
    agree(ours(model, {"x": SPECIALS}, target)["y"], -SPECIALS)


# Scales and shifts that a convolution takes, and those that it has to leave.
SCALES = [3.0, 0.0, -0.0, -1.0, 1e-30, 3e38, numpy.inf, -numpy.inf, numpy.nan]


def convolution(op):
    """A convolution of one weight, and behind it a product or quotient and a sum."""

    def run(target):
        x, w, b = (
            SPECIALS.reshape(-1, 1, 1, 1),
            numpy.full((1, 1, 1, 1), 2, numpy.float32),
            numpy.array([0.5], numpy.float32),
        )
        for scale in map(numpy.float32, SCALES):
            for shift in map(numpy.float32, [0.25, numpy.inf, numpy.nan]):
                nodes = [
                    ("Conv", ["x", "w", "b"], ["c"], {}),
                    (op, ["c", "s"], ["d"], {}),
                    ("Add", ["d", "t"], ["y"], {}),
                ]
                model = model_of(nodes, {"x": x}, ["y"], {"w": w, "b": b, "s": scale, "t": shift})
                with numpy.errstate(all="ignore"):
                    # As a multiply-add has it, whose product does not leave the type.
                    sums, factor = (x * 2 + b).astype(float), float(scale)
                    expected = (
                        (sums * factor if op == "Mul" else sums / numpy.float64(factor)) + shift
                    ).astype(numpy.float32)
                agree(ours(model, {"x": x}, target)["y"], expected)

    return run


def batch_norm(target):
    x = SPECIALS.reshape(-1, 1, 1, 1)
    for variance in (0.0, 2.0, -1.0, numpy.inf):
        for mean in (2.5, 0.5, numpy.inf):
            parts = {
                name: numpy.array([value], numpy.float32)
                for name, value in (("g", 1.5), ("b", -0.25), ("m", mean), ("v", variance))
            }
            model = model_of(
                [("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"], {"epsilon": 0.0})],
                {"x": x},
                ["y"],
                parts,
            )
            with numpy.errstate(all="ignore"):
                expected = (x - parts["m"]) / numpy.sqrt(parts["v"]) * parts["g"] + parts["b"]
            agree(ours(model, {"x": x}, target)["y"], expected)


def padding(target):
    """Taps that meet padding alone: those of a map of one element are all but the middle."""
    for outer in (2.0, numpy.inf, numpy.nan):
        w = numpy.full((1, 1, 3, 3), outer, numpy.float32)
        w[0, 0, 1, 1] = 2
        x = SPECIALS.reshape(-1, 1, 1, 1)
        nodes = [("Pad", ["x", "pads"], ["p"], {}), ("Conv", ["p", "w"], ["y"], {})]
        model = model_of(
            nodes, {"x": x}, ["y"], {"w": w, "pads": numpy.array([0, 0, 1, 1, 0, 0, 1, 1])}
        )
        agree(ours(model, {"x": x}, target)["y"], x * 2, zeros=False)


def pairs(length=6):
    """Rows that hold each pair of specials, and finite numbers beside them."""
    a, b = (each.ravel() for each in numpy.meshgrid(SPECIALS, SPECIALS))
    rest = numpy.linspace(-1, 2, length - 2, dtype=numpy.float32)
    return numpy.concatenate([a[:, None], b[:, None], numpy.tile(rest, (len(a), 1))], 1).astype(
        numpy.float32
    )


def layer_norm(target):
    x, g, b = (
        pairs(),
        numpy.linspace(0.5, 2, 6, dtype=numpy.float32),
        numpy.linspace(-1, 1, 6, dtype=numpy.float32),
    )
    nodes = [
        ("ReduceMean", ["x", "axes"], ["m"], {}),
        ("Sub", ["x", "m"], ["d"], {}),
        ("Mul", ["d", "d"], ["q"], {}),
        ("ReduceMean", ["q", "axes"], ["v"], {}),
        ("Add", ["v", "e"], ["w"], {}),
        ("Sqrt", ["w"], ["r"], {}),
        ("Div", ["d", "r"], ["n"], {}),
        ("Mul", ["n", "g"], ["s"], {}),
        ("Add", ["s", "b"], ["y"], {}),
    ]
    model = model_of(
        nodes,
        {"x": x},
        ["y"],
        {"axes": numpy.array([-1]), "e": numpy.float32(1e-5), "g": g, "b": b},
    )
    wide = x.astype(float)
    with numpy.errstate(all="ignore"):
        away = wide - wide.mean(1, keepdims=True)
        expected = away / numpy.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * g + b
    agree(ours(model, {"x": x}, target)["y"], expected, tolerance=1e-4)


def response(target):
    x = pairs().reshape(49, 6, 1, 1)
    model = model_of(
        [("LRN", ["x"], ["y"], {"size": 3, "alpha": 0.3, "beta": 0.75, "bias": 1.0})],
        {"x": x},
        ["y"],
    )
    wide = numpy.pad(x.astype(float), ((0, 0), (1, 1), (0, 0), (0, 0))) ** 2
    with numpy.errstate(all="ignore"):
        expected = x / (1 + 0.1 * (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:])) ** 0.75
    agree(ours(model, {"x": x}, target)["y"], expected)


def of_quotients(target):
    functions = {
        "Erf": numpy.vectorize(math.erf, otypes="d"),
        "Tanh": numpy.tanh,
        "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    }
    for divisor in map(numpy.float32, (math.sqrt(2), -3, 0.0, numpy.inf, 1e-42, 3e38)):
        for op, function in functions.items():
            model = model_of(
                [("Div", ["x", "c"], ["d"], {}), (op, ["d"], ["y"], {})],
                {"x": SPECIALS},
                ["y"],
                {"c": divisor},
            )
            with numpy.errstate(all="ignore"):
                expected = function((SPECIALS / divisor).astype(float))
            agree(ours(model, {"x": SPECIALS}, target)["y"], expected)


def softmax(target):
    x = pairs()
    found = ours(
        model_of(
            [("Softmax", ["x"], ["y"], {"axis": 1}), ("LogSoftmax", ["x"], ["z"], {"axis": 1})],
            {"x": x},
            ["y", "z"],
        ),
        {"x": x},
        target,
    )
    wide = x.astype(float)
    with numpy.errstate(all="ignore"):
        away = wide - wide.max(1, keepdims=True)
        total = numpy.exp(away).sum(1, keepdims=True)
        agree(found["y"], numpy.exp(away) / total)
        agree(found["z"], away - numpy.log(total))


def log_sum_exp(target):
    x = pairs(2)
    found = ours(
        model_of(
            [("ReduceLogSumExp", ["x", "axes"], ["y"], {"keepdims": 0})],
            {"x": x},
            ["y"],
            {"axes": numpy.array([1])},
        ),
        {"x": x},
        target,
    )["y"]
    with numpy.errstate(all="ignore"):
        agree(found, numpy.logaddexp(x[:, 0], x[:, 1]))


def function(op, reference):
    def run(target):
        with numpy.errstate(all="ignore"):
            agree(
                ours(
                    model_of([(op, ["x"], ["y"], {})], {"x": SPECIALS}, ["y"]),
                    {"x": SPECIALS},
                    target,
                )["y"],
                reference(SPECIALS.astype(float)),
            )

    return run


def mean(target):
    x = pairs(5)
    found = ours(
        model_of(
            [("ReduceMean", ["x", "axes"], ["y"], {"keepdims": 0})],
            {"x": x},
            ["y"],
            {"axes": numpy.array([1])},
        ),
        {"x": x},
        target,
    )["y"]
    with numpy.errstate(all="ignore"):
        agree(found, x.astype(float).mean(1), zeros=False)


def extrema(target):
    x, y = SPECIALS.reshape(-1, 1), SPECIALS.reshape(1, -1)
    found = ours(
        model_of(
            [("Max", ["x", "y"], ["most"], {}), ("Min", ["x", "y"], ["least"], {})],
            {"x": x, "y": y},
            ["most", "least"],
        ),
        {"x": x, "y": y},
        target,
    )
    agree(found["most"], numpy.maximum(x, y), zeros=False)
    agree(found["least"], numpy.minimum(x, y), zeros=False)


def ends(target):
    for low in SPECIALS:
        nodes = [
            ("Relu", ["x"], ["r"], {}),
            ("Clip", ["x", "c"], ["a"], {}),
            ("Clip", ["x", "", "c"], ["b"], {}),
            ("Max", ["c", "x"], ["d"], {}),
            ("Min", ["x", "c"], ["e"], {}),
        ]
        found = ours(
            model_of(nodes, {"x": SPECIALS}, list("rabde"), {"c": numpy.float32(low)}),
            {"x": SPECIALS},
            target,
        )
        agree(found["r"], numpy.maximum(SPECIALS, 0), zeros=False)
        for name, reference in (
            ("a", numpy.maximum),
            ("d", numpy.maximum),
            ("b", numpy.minimum),
            ("e", numpy.minimum),
        ):
            agree(found[name], reference(SPECIALS, low), zeros=False)


def gemm(target):
    x, y = SPECIALS.reshape(-1, 1), SPECIALS.reshape(1, -1)
    for alpha in (1.0, 0.0, 2.0):
        for beta in (1.0, 0.0, -2.0):
            model = model_of(
                [("Gemm", ["x", "y", "c"], ["r"], {"alpha": alpha, "beta": beta})],
                {"x": x, "y": y, "c": x},
                ["r"],
            )
            with numpy.errstate(all="ignore"):
                expected = (x * y) * numpy.float32(alpha) + (x * numpy.float32(beta) if beta else 0)
            found = ours(model, {"x": x, "y": y, "c": x}, target)["r"]
            agree(found, expected, zeros=False)
            peer = onnxruntime.InferenceSession(
                model.SerializeToString(), providers=["CPUExecutionProvider"]
            ).run(None, {"x": x, "y": y, "c": x})[0]
            if beta == 0:
                agree(found, peer, zeros=False)


def multiply_add(target):
    x, y = SPECIALS.reshape(-1, 1, 1), SPECIALS.reshape(1, -1, 1)
    z = SPECIALS.reshape(1, 1, -1)
    inputs = {"x": x, "y": y, "z": z}
    found = ours(
        model_of([("Mul", ["x", "y"], ["p"], {}), ("Add", ["p", "z"], ["r"], {})], inputs, ["r"]),
        inputs,
        target,
    )["r"]
    with numpy.errstate(all="ignore"):
        agree(found, x * y + z)


INTEGERS = numpy.array([0, -1, 1, 2**31 - 1, -(2**31), 65537, -46341], numpy.int32)


def narrow_sums(target):
    nodes = [
        ("Cast", ["x"], ["d"], {"to": TensorProto.INT64}),
        ("CumSum", ["d", "axis"], ["s"], {}),
        ("Cast", ["s"], ["y"], {"to": TensorProto.INT32}),
    ]
    found = ours(
        model_of(nodes, {"x": INTEGERS}, ["y"], {"axis": numpy.array(0)}, TensorProto.INT32),
        {"x": INTEGERS},
        target,
    )["y"]
    assert found.tolist() == numpy.cumsum(INTEGERS.astype(numpy.int64)).astype(numpy.int32).tolist()


def wide_products(target):
    for factor in (0, -1, 2**31 - 1, -(2**31), 2**31, 2**62):
        model = model_of(
            [("Cast", ["x"], ["d"], {"to": TensorProto.INT64}), ("Mul", ["d", "c"], ["y"], {})],
            {"x": INTEGERS},
            ["y"],
            {"c": numpy.array(factor)},
            TensorProto.INT64,
        )
        with numpy.errstate(over="ignore"):
            assert (
                ours(model, {"x": INTEGERS}, target)["y"].tolist()
                == (INTEGERS.astype(numpy.int64) * numpy.int64(factor)).tolist()
            )


CASES = {
    "`x + -0`": of_constant("Add", -0.0, numpy.add, True),
    "`x - 0`": of_constant("Sub", 0.0, numpy.subtract),
    "`x * 1`": of_constant("Mul", 1.0, numpy.multiply, True),
    "`x / 1`": of_constant("Div", 1.0, numpy.divide),
    "`pow(x, 1)`": of_constant("Pow", 1.0, power),
    "`pow(x, 2)`": of_constant("Pow", 2.0, power),
    "`pow(x, 3)`": of_constant("Pow", 3.0, power),
    "`pow(x, 0.5)`": of_constant("Pow", 0.5, power),
    "`pow(x, -0.5)`": of_constant("Pow", -0.5, power),
    "`pow(x, -1)`": of_constant("Pow", -1.0, power),
    "`max(x)`, `min(x)`, `sum(x)`": one_operand,
    "`cast(x)` to its own type": own_type,
    "`conv(x, w) * s + t`": convolution("Mul"),
    "`conv(x, w) / s`": convolution("Div"),
    "`(x - m) / sqrt(v + e) * g + b`": batch_norm,
    "`conv(pad(x, 0), w)`": padding,
    "`(x - mean(x)) / sqrt(mean((x - mean(x))^2) + e) * g + b`": layer_norm,
    "`x / (b + a * mean(x * x))^0.75`": response,
    "`erf(x / c)`, `tanh(x / c)`, `sigmoid(x / c)`": of_quotients,
    "`exp(x) / sum(exp(x))`": softmax,
    "`log(sum(exp(x)))`": log_sum_exp,
    "`log(1 + exp(x))`": function("Softplus", lambda x: numpy.logaddexp(x, 0)),
    "`1 / (1 + exp(-x))`": function("Sigmoid", lambda x: 1 / (1 + numpy.exp(-x))),
    "`sum(x) / n`": mean,
    "`max(x, y)`, `min(x, y)`": extrema,
    "`max(x, 0)`": ends,
    "`alpha * A @ B + beta * C`": gemm,
    "`a * b + c`": multiply_add,
    "`i32(cumsum(i64(x)))`": narrow_sums,
    "`i64(x) * c`": wide_products,
}


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("written", CASES)
def test_rewrites_hold_for_special_values(written, target):
    with numpy.errstate(all="ignore"):
        CASES[written](target)


@pytest.mark.parametrize(
    "op, constant, function",
    [
        ("Add", 0.0, numpy.add),
        ("Sub", -0.0, numpy.subtract),
        ("Mul", 0.0, numpy.multiply),
        ("Mul", -1.0, numpy.multiply),
        ("Div", 0.0, numpy.divide),
        ("Div", numpy.inf, numpy.divide),
        ("Div", 3.0, numpy.divide),
        ("Pow", 0.0, power),
        ("Pow", -2.0, power),
        ("Pow", 1.5, power),
        ("Pow", 0.25, power),
        ("Pow", numpy.inf, power),
        ("Pow", -numpy.inf, power),
        ("Pow", numpy.nan, power),
    ],
)
def test_what_looks_as_if_it_could_be_rewritten(op, constant, function):
    with numpy.errstate(all="ignore"):
        of_constant(op, constant, function)("native")


@pytest.mark.parametrize(
    "op, function",
    [
        ("Sub", numpy.subtract),
        ("Div", numpy.divide),
        ("Add", numpy.add),
        ("Mul", numpy.multiply),
        ("Pow", numpy.power),
    ],
)
def test_of_equal_operands_and_of_all_pairs(op, function):
    x, y = SPECIALS.reshape(-1, 1), SPECIALS.reshape(1, -1)
    found = ours(
        model_of(
            [(op, ["x", "x"], ["a"], {}), (op, ["x", "y"], ["b"], {})], {"x": x, "y": y}, ["a", "b"]
        ),
        {"x": x, "y": y},
    )
    with numpy.errstate(all="ignore"):
        agree(found["a"], function(x, x))
        agree(found["b"], function(x, y))


@pytest.mark.parametrize(
    "nodes, function",
    [
        ([("Mul", ["x", "x"], ["d"], {}), ("Sqrt", ["d"], ["y"], {})], lambda x: numpy.sqrt(x * x)),
        (
            [("Sqrt", ["x"], ["d"], {}), ("Mul", ["d", "d"], ["y"], {})],
            lambda x: numpy.sqrt(x) * numpy.sqrt(x),
        ),
        (
            [("Reciprocal", ["x"], ["d"], {}), ("Reciprocal", ["d"], ["y"], {})],
            lambda x: 1 / (1 / x),
        ),
        ([("Exp", ["x"], ["d"], {}), ("Log", ["d"], ["y"], {})], lambda x: numpy.log(numpy.exp(x))),
        ([("Log", ["x"], ["d"], {}), ("Exp", ["d"], ["y"], {})], lambda x: numpy.exp(numpy.log(x))),
        ([("Neg", ["x"], ["d"], {}), ("Neg", ["d"], ["y"], {})], lambda x: -(-x)),
        ([("Abs", ["x"], ["d"], {}), ("Sqrt", ["d"], ["y"], {})], lambda x: numpy.sqrt(abs(x))),
        ([("Sub", ["x", "x"], ["d"], {}), ("Add", ["d", "x"], ["y"], {})], lambda x: (x - x) + x),
        ([("Less", ["x", "x"], ["c"], {}), ("Where", ["c", "x", "x"], ["y"], {})], lambda x: x),
        (
            [("Equal", ["x", "x"], ["c"], {}), ("Cast", ["c"], ["y"], {"to": TensorProto.FLOAT})],
            lambda x: x == x,
        ),
        ([("Max", ["x", "x"], ["d"], {}), ("Min", ["d", "x"], ["y"], {})], lambda x: x),
    ],
)
def test_pairs_of_functions(nodes, function):
    with numpy.errstate(all="ignore"):
        agree(
            ours(model_of(nodes, {"x": SPECIALS}, ["y"]), {"x": SPECIALS})["y"], function(SPECIALS)
        )


def test_the_page_lists_what_is_tested():
    page = (ROOT / "docs" / "simplifications.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert rows == list(CASES)
    files = set(re.findall(r"`((?:ir|codegen|scheduler)/[\w/]+\.cc)`", page))
    assert all((ROOT / file).is_file() for file in files), files
