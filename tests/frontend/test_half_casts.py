"""Casts to float16, bfloat16 and narrower floats round, each once, wherever they stand; and
rounding="each" rounds the result of every operator of such types. NumPy, ml_dtypes and onnx's
reference say what is right."""

import json
import subprocess
import sys

import ml_dtypes
import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tc

HALVES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
TARGETS = ["native", "x86-64-v3"]
RANDOM = numpy.random.default_rng(50)


def dtype_of(name):
    return numpy.dtype(getattr(ml_dtypes, name, name))


def onnx_type(dtype):
    return helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))


def model_of(nodes, inputs, outputs, constants=None, opset=21, **parts):
    """A model of nodes (type, inputs, outputs, attributes); inputs are arrays, outputs {name:
    element type}."""
    graph = helper.make_graph(
        [
            helper.make_node(kind, ins, outs, name=f"{kind}{i}", **attributes)
            for i, (kind, ins, outs, attributes) in enumerate(nodes)
        ],
        "g",
        [
            helper.make_tensor_value_info(name, onnx_type(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, onnx_type(dtype), None)
            for name, dtype in outputs.items()
        ],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **parts
    )


def run(model, inputs, **options):
    return tc.compile(model.SerializeToString(), threads=1, log=False, **options).run(inputs)


def same_bits(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    kept = ~numpy.isnan(expected.astype(numpy.float64))
    assert numpy.array_equal(numpy.isnan(actual.astype(numpy.float64)), ~kept)
    assert numpy.array_equal(
        actual[kept].view(f"u{actual.itemsize}"), expected[kept].view(f"u{actual.itemsize}")
    )


def there_and_back(name):
    return [
        ("Cast", ["x"], ["h"], {"to": HALVES[name]}),
        ("Cast", ["h"], ["y"], {"to": TensorProto.FLOAT}),
    ]


def numbers(size, dtype=numpy.float32):
    """Normal numbers of many magnitudes, and the special ones at the front."""
    special = [
        0.0,
        -0.0,
        numpy.inf,
        -numpy.inf,
        numpy.nan,
        65504,
        65519.996,
        65520,
        6e-8,
        2.9e-8,
        3.4e38,
        1 + 2.0**-11,
        1 + 3 * 2.0**-11,
        1 + 2.0**-8,
    ]
    made = RANDOM.standard_normal(size) * 10.0 ** RANDOM.integers(-9, 6, size)
    made[: min(size, len(special))] = special[:size]
    return made.astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tolerance", [0, 1e-4, 0.5])
@pytest.mark.parametrize("name", HALVES)
def test_there_and_back_rounds(name, tolerance, target):
    for size in (1, 16, 67):
        x = numbers(size)
        y = run(
            model_of(there_and_back(name), {"x": x}, {"y": numpy.float32}),
            {"x": x},
            tolerance=tolerance,
            target=target,
        )["y"]
        with numpy.errstate(over="ignore"):
            same_bits(y, x.astype(dtype_of(name)).astype(numpy.float32))


@pytest.mark.parametrize("name", HALVES)
def test_three_parts_of_a_number_are_all_of_it(name):
    """hi + mid + lo == x, where each is what rounding left of the one before."""
    to, nodes, left, parts = HALVES[name], [], "x", ["a", "b", "c"]
    for part in parts:
        nodes += [
            ("Cast", [left], [part + "h"], {"to": to}),
            ("Cast", [part + "h"], [part], {"to": TensorProto.FLOAT}),
            ("Sub", [left, part], [part + "rest"], {}),
        ]
        left = part + "rest"
    x = (RANDOM.standard_normal((3, 40)) * 8).astype(numpy.float32)
    found = run(
        model_of(nodes, {"x": x}, dict.fromkeys(parts, numpy.float32)), {"x": x}, tolerance=0.1
    )
    rest = x
    for part in parts:
        expected = rest.astype(dtype_of(name)).astype(numpy.float32)
        same_bits(found[part], expected)
        rest = rest - expected
    assert (found["b"] != 0).mean() > 0.9


@pytest.mark.parametrize("name", HALVES)
def test_between_two_products(name):
    """An epilogue rounds, and what reads the map reads rounded numbers. All sums are of whole
    numbers, hence exact."""
    x = RANDOM.integers(-40, 40, (1, 16, 7, 9)).astype(numpy.float32)
    w = RANDOM.integers(-30, 30, (16, 16, 1, 1)).astype(numpy.float32)
    v = RANDOM.integers(-3, 4, (16, 16, 1, 1)).astype(numpy.float32)
    nodes = [
        ("Conv", ["x", "w"], ["c"], {}),
        ("Relu", ["c"], ["r"], {}),
        ("Cast", ["r"], ["h"], {"to": HALVES[name]}),
        ("Cast", ["h"], ["m"], {"to": TensorProto.FLOAT}),
        ("Conv", ["m", "v"], ["y"], {}),
    ]
    model = model_of(nodes, {"x": x}, {"y": numpy.float32, "h": dtype_of(name)}, {"w": w, "v": v})
    found = run(model, {"x": x}, tolerance=0)
    middle = numpy.maximum(numpy.einsum("oi,nihw->nohw", w[:, :, 0, 0], x), 0).astype(
        dtype_of(name)
    )
    assert (
        middle.astype(numpy.float32)
        != numpy.maximum(numpy.einsum("oi,nihw->nohw", w[:, :, 0, 0], x), 0)
    ).any()
    same_bits(found["h"], middle)
    same_bits(
        found["y"], numpy.einsum("oi,nihw->nohw", v[:, :, 0, 0], middle.astype(numpy.float32))
    )


def test_cast_like_rounds():
    x, like = numbers(50), numpy.zeros(1, numpy.float16)
    model = model_of(
        [("CastLike", ["x", "like"], ["h"], {}), ("CastLike", ["h", "x"], ["y"], {})],
        {"x": x, "like": like},
        {"y": numpy.float32},
    )
    with numpy.errstate(over="ignore"):
        same_bits(
            run(model, {"x": x, "like": like})["y"], x.astype(numpy.float16).astype(numpy.float32)
        )


@pytest.mark.parametrize("name", HALVES)
def test_integers_are_rounded_too(name):
    x = numpy.concatenate(
        [
            numpy.arange(-5000, 5000, 37),
            [2047, 2049, 2051, 65503, 65519, 65520, 257, 259, -(2**31), 2**31 - 1],
        ]
    ).astype(numpy.int32)
    with numpy.errstate(over="ignore"):
        same_bits(
            run(model_of(there_and_back(name), {"x": x}, {"y": numpy.float32}), {"x": x})["y"],
            x.astype(dtype_of(name)).astype(numpy.float32),
        )


def test_a_branch_and_a_loop_round():
    """In subgraphs: a running value that is rounded to bfloat16 in every iteration, and a branch
    that rounds."""
    step = helper.make_graph(
        [
            helper.make_node("Add", ["state", "x"], ["sum"]),
            helper.make_node("Cast", ["sum"], ["half"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["half"], ["next"], to=TensorProto.FLOAT),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "step",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [5]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [5]),
        ],
    )
    branches = [
        helper.make_graph(
            [
                helper.make_node("Cast", ["last"], [f"{kind}_half"], to=to),
                helper.make_node("Cast", [f"{kind}_half"], [kind], to=TensorProto.FLOAT),
            ],
            kind,
            [],
            [helper.make_tensor_value_info(kind, TensorProto.FLOAT, [5])],
        )
        for kind, to in (("fine", TensorProto.FLOAT16), ("coarse", TensorProto.FLOAT8E5M2))
    ]
    x, count, choice = (
        numpy.array([0.1, 1.01, 3.3, -7.77, 1000.5], numpy.float32),
        numpy.array(9),
        numpy.array(False),
    )
    model = model_of(
        [
            ("Loop", ["count", "", "x"], ["last"], {"body": step}),
            ("If", ["choice"], ["y"], {"then_branch": branches[0], "else_branch": branches[1]}),
        ],
        {"x": x, "count": count, "choice": choice},
        {"last": numpy.float32, "y": numpy.float32},
    )
    state = x
    for _ in range(9):
        state = (state + x).astype(ml_dtypes.bfloat16).astype(numpy.float32)
    for choice, kind in ((True, numpy.float16), (False, ml_dtypes.float8_e5m2)):
        found = run(model, {"x": x, "count": count, "choice": numpy.array(choice)})
        same_bits(found["last"], state)
        same_bits(found["y"], state.astype(kind).astype(numpy.float32))


def test_from_one_half_type_to_the_other():
    x = numbers(200).astype(numpy.float16)
    nodes = [
        ("Cast", ["x"], ["b"], {"to": TensorProto.BFLOAT16}),
        ("Cast", ["b"], ["y"], {"to": TensorProto.FLOAT16}),
    ]
    same_bits(
        run(model_of(nodes, {"x": x}, {"y": numpy.float16}), {"x": x})["y"],
        x.astype(numpy.float32)
        .astype(ml_dtypes.bfloat16)
        .astype(numpy.float32)
        .astype(numpy.float16),
    )


def test_a_cast_within_a_half_model_rounds():
    """Between its operators float32 is kept: 2048 + 1 - 2048 is 1; what it casts is rounded."""
    x = numpy.array([2048, 4096], numpy.float16)
    one = {"one": numpy.array(1, numpy.float16)}
    plain = [("Add", ["x", "one"], ["s"], {}), ("Sub", ["s", "x"], ["y"], {})]
    cast = [
        plain[0],
        ("Cast", ["s"], ["f"], {"to": TensorProto.FLOAT16}),
        ("Sub", ["f", "x"], ["y"], {}),
    ]
    assert run(model_of(plain, {"x": x}, {"y": numpy.float16}, one), {"x": x})["y"].tolist() == [
        1,
        1,
    ]
    assert run(model_of(cast, {"x": x}, {"y": numpy.float16}, one), {"x": x})["y"].tolist() == [
        0,
        0,
    ]


def near_ties(name):
    """Float64 that lie beside the middle of two numbers of the type, where rounding to float32
    first gives the middle itself."""
    number = dtype_of(name)
    codes = RANDOM.integers(0, 1 << (8 * number.itemsize - 1), 400).astype(f"u{number.itemsize}")
    below = numpy.sort(numpy.unique(codes)).view(number).astype(numpy.float64)
    above = (
        (numpy.unique(codes) + 1).astype(f"u{number.itemsize}").view(number).astype(numpy.float64)
    )
    middle = ((below + above) / 2)[numpy.isfinite(below + above)]
    middle = numpy.concatenate(
        [
            middle,
            middle * (1 + 1e-12),
            middle * (1 - 1e-12),
            middle * (1 + 1e-9),
            [1e300, 1e-300, 5e-324, numpy.nan, numpy.inf, -0.0],
        ]
    )
    return numpy.concatenate([middle, -middle])


def rounded_once(x, name):
    """The nearest number of the type, of two the even one, without float32 on the way; beyond the
    largest as the type has it."""
    if name == "float16":
        return x.astype(numpy.float16)  # NumPy rounds once
    number = dtype_of(name)
    codes = numpy.arange(1 << (8 * number.itemsize - 1), dtype=f"u{number.itemsize}")
    values = codes.view(number).astype(numpy.float64)
    codes, values = codes[numpy.isfinite(values)], values[numpy.isfinite(values)]
    size = numpy.minimum(numpy.abs(x), values[-1])
    upper = numpy.clip(numpy.searchsorted(values, size), 1, len(values) - 1)
    low, high = values[upper - 1], values[upper]
    up = (size - low > high - size) | ((size - low == high - size) & (codes[upper] % 2 == 0))
    return numpy.copysign(numpy.where(up, high, low), x).astype(number)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name",
    ["float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"],
)
def test_float64_is_rounded_once(name, target):
    x = near_ties(name)
    largest = float(ml_dtypes.finfo(dtype_of(name)).max)
    x = x[(numpy.abs(x) <= largest)]  # what is beyond is another test's
    x = x[(x != 0) | ~numpy.signbit(x)] if name.endswith("uz") else x
    model = model_of(
        [
            ("Cast", ["x"], ["h"], {"to": onnx_type(dtype_of(name))}),
            ("Cast", ["h"], ["y"], {"to": TensorProto.DOUBLE}),
        ],
        {"x": x},
        {"h": dtype_of(name), "y": numpy.float64},
    )
    found = run(model, {"x": x}, target=target)
    expected = rounded_once(x, name)
    if name.endswith("uz"):
        # These types have one zero.
        expected = numpy.where(
            expected.astype(numpy.float64) == 0, numpy.zeros(1, expected.dtype), expected
        )
    same_bits(found["h"], expected)
    same_bits(found["y"], expected.astype(numpy.float64))
    assert (x.astype(numpy.float32).astype(dtype_of(name)) != expected).any()


def test_verify_finds_such_a_model_right():
    """What a cast leaves is no rounding error to the reference either."""
    x = numbers(64)[14:]
    nodes = [*there_and_back("bfloat16"), ("Sub", ["x", "y"], ["rest"], {})]
    found = tc.verify(
        model_of(nodes, {"x": x}, {"rest": numpy.float32}).SerializeToString(),
        inputs={"x": x},
        threads=1,
    )
    assert found.right, str(found)
    x = RANDOM.standard_normal(40)
    nodes = [
        ("Cast", ["x"], ["f"], {"to": TensorProto.FLOAT}),
        ("Cast", ["f"], ["d"], {"to": TensorProto.DOUBLE}),
        ("Sub", ["x", "d"], ["rest"], {}),
    ]
    found = tc.verify(
        model_of(nodes, {"x": x}, {"rest": numpy.float64}).SerializeToString(),
        inputs={"x": x},
        threads=1,
    )
    assert found.right, str(found)


def test_pytorch_modules_round_too():
    torch = pytest.importorskip("torch")

    class Split(torch.nn.Module):
        def forward(self, x):
            high = x.half().float()
            rest = x - high
            return high, rest, rest.to(torch.bfloat16).double(), x.double().half()

    module, x = Split().eval(), torch.from_numpy(numbers(90)[14:])
    expected = module(x)
    forms = [
        tc.compile(module, inputs=(x,), log=False),
        tc.compile(torch.export.export(module, (x,)), log=False),
        tc.compile(torch.jit.trace(module, (x,)), inputs=(x,), log=False),
        tc.compile(torch.jit.script(module), inputs=(x,), log=False),
        torch.compile(module, backend="tc", options={"log": False}),
    ]
    for form in forms:
        for found, wanted in zip(form(x), expected, strict=True):
            assert torch.equal(torch.as_tensor(found), wanted)
    assert (expected[1] != 0).float().mean() > 0.5


# --- rounding="each" ------------------------------------------------------------------------------

CHAIN = [
    ("Add", ["x", "w"], ["a"], {}),
    ("Sub", ["a", "x"], ["b"], {}),
    ("Mul", ["b", "x"], ["c"], {}),
    ("Div", ["c", "w"], ["d"], {}),
    ("Abs", ["d"], ["e"], {}),
    ("Sqrt", ["e"], ["f"], {}),
    ("Transpose", ["f"], ["g"], {"perm": [1, 0]}),
    ("Neg", ["g"], ["h"], {}),
    ("Exp", ["h"], ["i"], {}),
    ("Reciprocal", ["i"], ["k"], {}),
    ("Clip", ["k", "low", "high"], ["y"], {}),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HALVES)
def test_each_result_of_a_chain_is_rounded(name, target):
    number = dtype_of(name)
    x = (RANDOM.standard_normal((9, 13)) * 40).astype(number)
    constants = {
        "w": RANDOM.uniform(0.3, 3, (9, 13)).astype(number),
        "low": numpy.array(1.5, number),
        "high": numpy.array(900, number),
    }
    model = model_of(CHAIN, {"x": x}, {"y": number}, constants)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    same_bits(run(model, {"x": x}, rounding="each", target=target)["y"], expected.astype(number))
    assert (run(model, {"x": x}, target=target)["y"] != expected).any()


@pytest.mark.parametrize("name", HALVES)
def test_sums_and_rows_are_rounded_at_their_end(name):
    """A sum is exact in float32 here, and its one rounding is the reference's."""
    number = dtype_of(name)
    x = RANDOM.integers(-30, 31, (6, 24)).astype(number)
    w = RANDOM.integers(-9, 10, (24, 16)).astype(number)
    model = model_of(
        [
            ("MatMul", ["x", "w"], ["m"], {}),
            ("Sub", ["m", "one"], ["n"], {}),
            ("ReduceMax", ["n", "axes"], ["r"], {}),
            ("Sub", ["n", "r"], ["y"], {}),
        ],
        {"x": x},
        {"y": number},
        {"w": w, "one": numpy.array(0.75, number), "axes": numpy.array([1])},
    )
    m = (x.astype(numpy.float64) @ w.astype(numpy.float64)).astype(number)
    n = (m - numpy.array(0.75, number)).astype(number)
    same_bits(run(model, {"x": x}, rounding="each")["y"], n - n.max(1, keepdims=True))


def test_a_loop_of_half_numbers_is_rounded_in_every_iteration():
    step = helper.make_graph(
        [
            helper.make_node("Mul", ["state", "x"], ["product"]),
            helper.make_node("Add", ["product", "x"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "step",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT16, [4]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT16, [4]),
        ],
    )
    x, count = numpy.array([0.7, 1.1, -1.3, 0.333], numpy.float16), numpy.array(12)
    model = model_of(
        [("Loop", ["count", "", "x"], ["y"], {"body": step})],
        {"x": x, "count": count},
        {"y": numpy.float16},
    )
    state = x
    for _ in range(12):
        state = state * x + x
    same_bits(run(model, {"x": x, "count": count}, rounding="each")["y"], state)


def test_pytorch_rounds_each_result():
    """expm1, which several operators of ONNX describe, is rounded at its end alone."""
    torch = pytest.importorskip("torch")

    class Chain(torch.nn.Module):
        def forward(self, x):
            y = x * 3.25 + 0.75
            return (torch.expm1(y / 8) - x).relu() * x

    x = torch.from_numpy(RANDOM.uniform(-2, 2, 300).astype(numpy.float16))
    wide = x.float()

    def half(value):
        return value.half().float()

    y = half(half(wide * 3.25) + 0.75)
    expected = half(half(half(torch.expm1(half(y / 8))) - wide).relu() * wide).half()
    found = torch.as_tensor(tc.compile(Chain().eval(), inputs=(x,), rounding="each", log=False)(x))
    # expm1 may be a unit of float32 away.
    assert found.dtype == torch.float16 and (found == expected).float().mean() > 0.98


def test_models_of_float32_are_the_same_bytes(tmp_path):
    x = numbers(40)
    model = model_of(
        [("Exp", ["x"], ["e"], {}), ("Add", ["e", "x"], ["y"], {})], {"x": x}, {"y": numpy.float32}
    ).SerializeToString()
    made = []
    for rounding in "stored", "each":
        tc.compile(model, log=False, rounding=rounding).export(tmp_path / "model.o", kind="object")
        made.append((tmp_path / "model.o").read_bytes())
    assert made[0] == made[1]


def test_the_command_line_rounds_each(tmp_path):
    x = numpy.array([2048, 4096], numpy.float16)
    model = model_of(
        [("Add", ["x", "one"], ["s"], {}), ("Sub", ["s", "x"], ["y"], {})],
        {"x": x},
        {"y": numpy.float16},
        {"one": numpy.array(1, numpy.float16)},
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    numpy.save(tmp_path / "x.npy", x)
    for rounding, expected in (("each", [0, 0]), ("stored", [1, 1])):
        command = [
            sys.executable,
            "-m",
            "tc",
            "run",
            "m.onnx",
            "--input",
            "x=x.npy",
            "--rounding",
            rounding,
            "--output-dir",
            rounding,
            "--json",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)
        assert numpy.load(tmp_path / rounding / "y.npy").tolist() == expected


def test_another_rounding_is_refused():
    with pytest.raises(tc.Error) as caught:
        tc.compile(
            model_of(
                there_and_back("float16"), {"x": numbers(3)}, {"y": numpy.float32}
            ).SerializeToString(),
            rounding="some",
        )
    assert str(caught.value) == "rounding is 'some'; give 'stored' or 'each'"
