"""The time to compile a model grows with its nodes about as their number does, and what a few bytes
ask for is bounded."""

import json
import math
import re
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from tc.verifying_pipeline import Pipeline

from .growing_models import FAMILIES, functions, model, nested_branches, products

# Seconds of a processor that the user's process and its threads take to compile the models,
# smallest first.
TIMES = """
import json, resource, sys
import tc

tc.compile(sys.argv[1], threads=1, build_threads=1, log=False)      # loads the compiler
times = []
for path in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    tc.compile(path, threads=1, build_threads=1, log=False)
    times.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
print(json.dumps(times))
"""
MAX_EXPONENT = 1.3
SIZES, LARGE = (2500, 5000, 10000, 20000), 100_000
# Seconds for the last of SIZES, and for LARGE.
MAX_SECONDS, MAX_LARGE_SECONDS = 15, 90


def seconds_of(family, sizes, folder):
    paths = []
    for size in sizes:
        paths.append(str(folder / f"{family}_{size}.onnx"))
        onnx.save(FAMILIES[family](size), paths[-1])
    done = subprocess.run(
        [sys.executable, "-c", TIMES, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def exponent(sizes, seconds):
    """Of size to which the time is proportional, by least squares of logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_the_time_is_about_proportional_to_the_nodes(family, tmp_path):
    seconds = seconds_of(family, SIZES, tmp_path)
    # Functions have 2^n nodes.
    sizes = [2 ** int(math.log2(size)) for size in SIZES] if family == "functions" else SIZES
    print(
        f"{family}: {' '.join(f'{each:.2f}' for each in seconds)} s, exponent {exponent(sizes, seconds):.2f}"
    )
    assert exponent(sizes, seconds) <= MAX_EXPONENT, seconds
    assert seconds[-1] <= MAX_SECONDS, seconds


@pytest.mark.full
# A compiled model has at most 65,536 outputs.
@pytest.mark.parametrize("family", [each for each in FAMILIES if each != "many_outputs"])
def test_large_models(family, tmp_path):
    seconds = seconds_of(family, [LARGE], tmp_path)
    print(f"{family}: {seconds[0]:.2f} s")
    assert seconds[0] <= MAX_LARGE_SECONDS


def test_too_many_outputs_are_refused_before_code_is_made():
    refused = (
        "graph 'g' has 65537 outputs; a compiled model has at most 65536"
        ": join some of them (Concat), or compile parts of the model"
    )
    with pytest.raises(tc.UnsupportedError, match=re.escape(refused)):
        tc.compile(FAMILIES["many_outputs"](65537), threads=1, log=False)


@pytest.mark.parametrize("family", ["products", "joined", "branches"])
def test_four_times_the_nodes_take_about_four_times_as_long(family, tmp_path):
    sizes = (500, 2000)
    seconds = seconds_of(family, sizes, tmp_path)
    # Where it grew with the square of the nodes it would be 2; times of so few seconds are not
    # exact.
    assert exponent(sizes, seconds) <= 1.6, seconds


# --- many steps of a plan: run() is divided ----------------------------------------------------

ROTATION = np.roll(np.eye(8, dtype=np.float32), 1, axis=1)
X = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_long_chains_give_what_they_should(threads):
    nodes = [
        helper.make_node("MatMul", [f"v{i}" if i else "x", "w"], [f"v{i + 1}"]) for i in range(700)
    ]
    made = model(nodes, [("w", ROTATION)], [("v333", [4, 8]), ("v700", [4, 8])])
    found = tc.compile(made, threads=threads, log=False).run({"x": X})
    np.testing.assert_array_equal(found["v333"], np.roll(X, 333 % 8, axis=1))
    np.testing.assert_array_equal(found["v700"], np.roll(X, 700 % 8, axis=1))


def long_body(count, first, last):
    names = [first, *(f"{last}_{i}" for i in range(1, count)), last]
    return [helper.make_node("MatMul", [names[i], "w"], [names[i + 1]]) for i in range(count)]


@pytest.mark.parametrize("trips", [0, 1, 5])
@pytest.mark.parametrize("positive", [True, False])
def test_long_bodies_of_loops_and_branches(trips, positive):
    """A loop whose body has 601 products and an If with 150 in one branch and 301 in the other."""

    def branch(count, name):
        return helper.make_graph(
            long_body(count, "half", name),
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8])],
        )

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes"]),
            *long_body(601, "state", "half"),
            helper.make_node(
                "If",
                ["positive"],
                ["next"],
                then_branch=branch(150, "up"),
                else_branch=branch(301, "down"),
            ),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [4, 8]),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [4, 8]),
        ],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
        helper.make_node("Cast", ["n"], ["trip"], to=TensorProto.INT64),
        helper.make_node("Loop", ["trip", "", "x"], ["y"], body=body),
    ]
    made = model(nodes, [("w", ROTATION), ("zero", np.array(0, np.float32))])
    made.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT32, []))
    x = np.abs(X) if positive else -np.abs(X)
    found = tc.compile(made, log=False).run({"x": x, "n": np.array(trips, np.int32)})
    np.testing.assert_array_equal(
        found["y"], np.roll(x, trips * (601 + (150 if positive else 301)) % 8, axis=1)
    )


def sizes_of_runs(count):
    """Chains that choose elements by a mask that a run computes, each of a size that nobody knows
    before."""
    nodes, value = [], "x"
    for index in range(count):
        nodes += [
            helper.make_node("Greater", [value, f"limit{index}"], [f"mask{index}"]),
            helper.make_node("Compress", [value, f"mask{index}"], [f"c{index}"], axis=0),
            helper.make_node("Mul", [f"c{index}", "factor"], [f"m{index}"]),
        ]
        value = f"m{index}"
    constants = [
        (f"limit{index}", np.array(-2 + index / count, np.float32)) for index in range(count)
    ]
    return model(
        nodes, [*constants, ("factor", np.array(1.001, np.float32))], [(value, None)], shape=(200,)
    ), value


def test_many_sizes_that_a_run_computes():
    made, name = sizes_of_runs(120)
    x = np.random.default_rng(5).uniform(-3, 3, 200).astype(np.float32)
    expected = x
    for index in range(120):
        expected = expected[expected > np.float32(-2 + index / 120)] * np.float32(1.001)
    found = tc.compile(made, log=False).run({"x": x})[name]
    assert 20 < expected.size < 180
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [128, 129])
@pytest.mark.parametrize("axis", [0, 1])
def test_joins_of_many(count, axis):
    nodes = [helper.make_node("Mul", ["x", f"k{i}"], [f"p{i}"]) for i in range(count)]
    join = helper.make_node("Concat", [node.output[0] for node in nodes], ["y"], axis=axis)
    made = model(
        [*nodes, join], [(f"k{i}", np.array(i, np.float32)) for i in range(count)], [("y", None)]
    )
    expected = np.concatenate([X * np.float32(i) for i in range(count)], axis=axis)
    np.testing.assert_array_equal(tc.compile(made, log=False).run({"x": X})["y"], expected)


COMBINED = {"Sum": np.add, "Mean": np.add, "Max": np.maximum, "Min": np.minimum}


@pytest.mark.parametrize("operator", COMBINED)
@pytest.mark.parametrize("count", [64, 65, 200])
def test_many_operands_are_combined_in_their_order(operator, count):
    """Bit for bit; and with so many no expression of a kernel has a level for each (20,000 levels
    took more than the stack)."""
    # A product would be one operation with the sum.
    nodes = [helper.make_node("Add", ["x", f"k{i}"], [f"p{i}"]) for i in range(count)]
    made = model(
        [*nodes, helper.make_node(operator, [node.output[0] for node in nodes], ["y"])],
        [(f"k{i}", np.array(np.sin(i), np.float32)) for i in range(count)],
    )
    expected = X
    for i in range(1, count):
        expected = COMBINED[operator](expected, X + np.float32(np.sin(i)))
    expected = expected / np.float32(count) if operator == "Mean" else expected
    found = tc.compile(made, tolerance=0, log=False).run({"x": X})["y"]
    np.testing.assert_array_equal(found, expected)
    assert (
        tc.compile(model([helper.make_node(operator, ["x"] * 12000, ["y"])]), log=False)
        .run({"x": X})["y"]
        .shape
        == X.shape
    )


@pytest.mark.parametrize("batch", [None, 2])
def test_many_values_that_live_together(batch):
    """More blocks of memory than are compared with each other, of known and of unknown size."""
    count = 1500
    nodes = [helper.make_node("MatMul", ["x", f"w{i % 2}"], [f"p{i}"]) for i in range(count)]
    value = "p0"
    for i in range(1, count):
        nodes.append(helper.make_node("MatMul", [value, "w0"], [f"q{i}"]))
        nodes.append(helper.make_node("Max", [f"q{i}", f"p{i}"], [f"m{i}"]))
        value = f"m{i}"
    made = model(
        nodes,
        [("w0", ROTATION), ("w1", np.ascontiguousarray(ROTATION.T))],
        [(value, None)],
        shape=(batch or "n", 8),
    )
    x, expected = X[:2], None
    for i in range(count):
        product = np.roll(x, -1 if i % 2 else 1, axis=1)
        expected = (
            product if expected is None else np.maximum(np.roll(expected, 1, axis=1), product)
        )
    np.testing.assert_array_equal(
        tc.compile(made, threads=1, log=False).run({"x": x})[value], expected
    )


# --- bounds ----------------------------------------------------------------------------------


def refused(call):
    begin = time.process_time()
    with pytest.raises(tc.UnsupportedError) as caught:
        call()
    return str(caught.value), time.process_time() - begin


def test_functions_that_double_are_refused_at_once(tmp_path):
    made = functions(1 << 30)
    onnx.save(made, tmp_path / "doubling.onnx")
    sentence, seconds = refused(lambda: tc.compile(tmp_path / "doubling.onnx", log=False))
    assert sentence == (
        "'doubling.onnx': function 'f17' has more than 262144 nodes where functions stand in the place of their calls and "
        "loops are unrolled; give a larger max_nodes, or export a smaller model"
    )
    assert seconds < 1, seconds
    assert refused(lambda: tc.check(tmp_path / "doubling.onnx"))[0] == sentence


def test_functions_that_double_up_to_the_bound():
    made = functions(1 << 10)
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(ROTATION, "w"))
    found = tc.compile(made, log=False).run({"x": X})
    np.testing.assert_array_equal(found["y"], np.roll(X, (1 << 10) % 8, axis=1))


def test_max_nodes_counts_each_kind():
    made = products(50)
    assert tc.compile(made, log=False, max_nodes=50).run({"x": X})["y"].shape == (4, 8)
    assert "has more than 49 nodes" in refused(lambda: tc.compile(made, log=False, max_nodes=49))[0]
    assert (
        "has more than 6 nodes"
        in refused(lambda: tc.compile(nested_branches(4), log=False, max_nodes=6))[0]
    )
    with pytest.raises(tc.Error, match="max_nodes is 0; give a whole number from 1 to"):
        tc.compile(made, log=False, max_nodes=0)


def test_nested_branches_take_no_longer_the_deeper_they_are():
    begin = time.process_time()
    module = tc.compile(nested_branches(24), log=False)
    assert time.process_time() - begin < 5
    np.testing.assert_array_equal(module.run({"x": np.abs(X)})["r0"], np.abs(X))
    np.testing.assert_array_equal(module.run({"x": -np.abs(X)})["r0"], np.abs(X))


@pytest.mark.parametrize("family", ["products", "distinct_constants", "branches"])
def test_compile_time_limit(family, tmp_path):
    onnx.save(FAMILIES[family](4000), tmp_path / "long.onnx")
    for limit in (0.02, 0.2):
        begin = time.monotonic()
        sentence, _ = refused(
            lambda limit=limit: tc.compile(
                tmp_path / "long.onnx", log=False, compile_time_limit=limit
            )
        )
        assert sentence.startswith(
            f"'long.onnx' takes longer to compile than compile_time_limit={limit} allows: after so many seconds it was at "
        )
        assert sentence.endswith("; give it more time, or compile a smaller model")
        assert time.monotonic() - begin < limit + 3


LIMITED = {"tune": tc.tune, "verify": tc.verify, "kernels": tc.kernels}


@pytest.mark.parametrize("name", LIMITED)
def test_other_calls_have_a_limit_too(name, tmp_path):
    onnx.save(products(4000), tmp_path / "long.onnx")
    options = {"log": tmp_path / "log.db"} if name == "tune" else {}
    sentence, _ = refused(
        lambda: LIMITED[name](tmp_path / "long.onnx", compile_time_limit=0.02, **options)
    )
    assert sentence.startswith(
        "'long.onnx' takes longer to compile than compile_time_limit=0.02 allows: after so many seconds it was at "
    )
    assert (
        "has more than 100 nodes"
        in refused(lambda: LIMITED[name](tmp_path / "long.onnx", max_nodes=100, **options))[0]
    )
    with pytest.raises(
        tc.Error, match="compile_time_limit is 0; give a number of seconds above 0, or None for any"
    ):
        LIMITED[name](tmp_path / "long.onnx", compile_time_limit=0, **options)


def test_the_limit_of_verify_is_for_passes_and_code_together():
    """Import, each pass and code are calls of their own there."""
    graph = Pipeline(threads=1, compile_time_limit=2).imported(products(500).SerializeToString())
    begin = time.monotonic()

    def passes_without_end():
        passed = graph
        while time.monotonic() - begin < 60:
            passed = passed.after("dead_code")

    assert "compile_time_limit=2 allows" in refused(passes_without_end)[0]


def test_compile_time_limit_that_is_long_enough():
    assert tc.compile(products(3), log=False, compile_time_limit=600).run({"x": X})["y"].shape == (
        4,
        8,
    )
    with pytest.raises(
        tc.Error, match="compile_time_limit is 0; give a number of seconds above 0, or None for any"
    ):
        tc.compile(products(3), log=False, compile_time_limit=0)


def test_the_command_line_has_the_bounds(tmp_path):
    onnx.save(products(3000), tmp_path / "long.onnx")
    bounds = (
        ("--max-nodes", "100", "has more than 100 nodes"),
        ("--compile-time-limit", "0.02", "compile_time_limit=0.02"),
    )
    commands = [[command] for command in ("compile", "verify", "inspect")] + [
        ["inspect", "--dump=plan"],
        ["inspect", "--dump=eliminate"],
        ["inspect", "--kernel=0"],
    ]
    for words in [*commands, ["tune", "--log", str(tmp_path.parent / "growth.db")]]:
        for option, value, said in bounds:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "tc",
                    words[0],
                    str(tmp_path / "long.onnx"),
                    *words[1:],
                    option,
                    value,
                ],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                check=False,
            )
            assert done.returncode == 1 and said in done.stderr, (words, done.stderr)
            assert [each.name for each in tmp_path.iterdir()] == ["long.onnx"]
