"""Sizes that a run computes: operators whose results depend on data, alone and with what reads
their results, against numpy and ONNX Runtime."""

import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc
from tc.versions import VersionedModule

from .data_sizes import BOOL, FLOAT, INT64, branches, check, model, non_zero


# --- NonZero and Compress ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [[7], [3, 4], [2, 3, 5], [1], [64, 65]])
def test_non_zero(shape):
    module = tc.compile(non_zero(shape), threads=2)
    rng = np.random.default_rng(1)
    for kept in (0, 0.1, 0.5, 1):
        x = np.where(rng.random(shape) < kept, rng.standard_normal(shape), 0).astype(np.float32)
        found = module(x)
        np.testing.assert_array_equal(found, np.array(np.nonzero(x)))
        assert found.flags.c_contiguous and found.dtype == np.int64


@pytest.mark.parametrize(
    "type_, dtype",
    [
        (BOOL, bool),
        (INT64, np.int64),
        (TensorProto.UINT8, np.uint8),
        (TensorProto.DOUBLE, np.float64),
    ],
)
def test_non_zero_of_types(type_, dtype):
    x = np.array([[0, 1, 0], [1, 0, 1]]).astype(dtype)
    np.testing.assert_array_equal(tc.compile(non_zero([2, 3], type_))(x), np.array(np.nonzero(x)))


def test_nan_is_not_zero():
    x = np.array([0.0, np.nan, -0.0, 2.0], np.float32)
    np.testing.assert_array_equal(tc.compile(non_zero([4]))(x), [[1, 3]])


def test_sizes_of_inputs_and_of_runs():
    """A size of an input that a run binds, and one that the run computes."""
    module = tc.compile(non_zero(["rows", 3]), threads=2)
    rng = np.random.default_rng(2)
    for rows in (1, 2, 17, 1000, 5):
        x = (rng.random((rows, 3)) < 0.3).astype(np.float32)
        np.testing.assert_array_equal(module(x), np.array(np.nonzero(x)))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(axis):
    shape = [5, 4]
    attributes = {} if axis is None else {"axis": axis}
    length = 20 if axis is None else shape[axis]
    for given in (length, 3):
        data = model(
            [helper.make_node("Compress", ["x", "keep"], ["y"], **attributes)],
            [("x", FLOAT, shape), ("keep", BOOL, [given])],
            [("y", FLOAT, None)],
        )
        module = tc.compile(data)
        rng = np.random.default_rng(3)
        for kept in (0, 0.5, 1):
            keep = rng.random(given) < kept
            x = rng.standard_normal(shape).astype(np.float32)
            np.testing.assert_array_equal(module(x, keep), np.compress(keep, x, axis))


# --- what reads a size that the run computes -----------------------------------------------------


def chosen_rows():
    """Rows with a positive first column: gathered, doubled, multiplied by a matrix, summed; and how
    many there are."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "one", "one"], ["column"]),
        helper.make_node("Reshape", ["column", "flat"], ["scores"]),
        helper.make_node("Greater", ["scores", "threshold"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["where"]),
        helper.make_node("Transpose", ["where"], ["tuples"]),
        helper.make_node("GatherND", ["x", "tuples"], ["rows"]),
        helper.make_node("Mul", ["rows", "two"], ["doubled"]),
        helper.make_node("MatMul", ["doubled", "weights"], ["product"]),
        helper.make_node("ReduceSum", ["product", "zero"], ["total"], keepdims=0),
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["blank"]),
        helper.make_node("Concat", ["doubled", "x"], ["both"], axis=0),
        helper.make_node("Softmax", ["product"], ["soft"], axis=1),
    ]
    rng = np.random.default_rng(4)
    constants = {
        "zero": np.array([0]),
        "one": np.array([1]),
        "flat": np.array([-1]),
        "threshold": np.float32(0),
        "two": np.float32(2),
        "weights": rng.standard_normal((6, 5)).astype(np.float32),
    }
    return model(
        nodes,
        [("x", FLOAT, ["rows", 6])],
        [
            ("product", FLOAT, [None, 5]),
            ("total", FLOAT, [5]),
            ("shape", INT64, [2]),
            ("blank", FLOAT, [None, 6]),
            ("both", FLOAT, [None, 6]),
            ("soft", FLOAT, [None, 5]),
        ],
        constants,
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_operators_behind_a_size(threads):
    data = chosen_rows()
    module = tc.compile(data, threads=threads)
    rng = np.random.default_rng(5)
    for rows in (1, 3, 64, 301):
        check(data, {"x": rng.standard_normal((rows, 6)).astype(np.float32)}, module)
    check(data, {"x": -np.ones((9, 6), np.float32)}, module)
    check(data, {"x": np.ones((9, 6), np.float32)}, module)


def test_threads_of_the_caller():
    """Runs of one module at once each have their own size."""
    module = tc.compile(non_zero(["n"]), threads=2)
    wrong = []

    def run(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = (rng.random(rng.integers(1, 2000)) < rng.random()).astype(np.float32)
            if not np.array_equal(module(x), np.array(np.nonzero(x))):
                wrong.append(seed)

    callers = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_equal_sizes_are_one():
    """Two searches in the same values give one size, so that their results add up."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("NonZero", ["x"], ["b"]),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Shape", ["b"], ["t"]),
    ]
    data = model(
        nodes,
        [("x", FLOAT, [8])],
        [("a", INT64, None), ("b", INT64, None), ("s", INT64, None), ("t", INT64, None)],
    )
    check(data, {"x": np.array([1, 0, 2, 0, 0, 3, 0, 4], np.float32)})


def test_constant_data_give_a_fixed_size():
    nodes = [
        helper.make_node("NonZero", ["mask"], ["where"]),
        helper.make_node("Transpose", ["where"], ["t"]),
        helper.make_node("GatherND", ["x", "t"], ["y"]),
    ]
    data = model(
        nodes,
        [("x", FLOAT, [4])],
        [("y", FLOAT, [None])],
        {"mask": np.array([True, False, True, True])},
    )
    module = tc.compile(data)
    assert module.outputs[0].shape == (3,)
    check(data, {"x": np.arange(4, dtype=np.float32)}, module)


# --- Unique --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("sort", [0, 1])
def test_unique(axis, sort):
    attributes = {} if axis is None else {"axis": axis}
    outputs = ["y", "first", "inverse", "counts"]
    data = model(
        [helper.make_node("Unique", ["x"], outputs, sorted=sort, **attributes)],
        [("x", FLOAT, [6, 3])],
        [(name, FLOAT if name == "y" else INT64, None) for name in outputs],
    )
    module = tc.compile(data)
    rng = np.random.default_rng(6)
    for values in (1, 2, 4, 1000):
        check(data, {"x": rng.integers(0, values, (6, 3)).astype(np.float32)}, module)


@pytest.mark.parametrize("threads", [1, 2])
def test_branches_of_different_sizes(threads):
    data = branches()
    module = tc.compile(data, threads=threads)
    rng = np.random.default_rng(11)
    for n in (1, 8, 100, 3000):
        for scale in (0.1, 3):
            check(data, {"x": (scale * rng.standard_normal(n)).astype(np.float32)}, module)


def test_tokens_decide_sizes_while_running():
    """A sentence is data, not a list of sizes: one module runs all of them, as models of speech
    need it."""
    nodes = [
        helper.make_node("Gather", ["lengths", "ids"], ["each"]),
        helper.make_node("ReduceSum", ["each"], ["frames"], keepdims=0),
        helper.make_node("Range", ["nought", "frames", "one"], ["y"]),
    ]
    data = model(
        nodes,
        [("ids", INT64, [1, 4])],
        [("y", INT64, [None])],
        {"lengths": np.array([3, 0, 2, 5]), "nought": np.array(0), "one": np.array(1)},
    )
    module = tc.compile(data)
    assert not isinstance(module, VersionedModule)
    for ids in ([0, 1, 2, 3], [3, 3, 3, 3], [1, 1, 1, 1]):
        check(data, {"ids": np.array([ids])}, module)


# --- sorting -------------------------------------------------------------------------------------


def top(shape, axis, largest, type_=FLOAT):
    return model(
        [helper.make_node("TopK", ["x", "k"], ["best", "places"], axis=axis, largest=largest)],
        [("x", type_, shape)],
        [("best", type_, None), ("places", INT64, None)],
        {"k": np.array([10])},
    )


@pytest.mark.parametrize("shape, axis", [([8400], 0), ([2, 1500], 1), ([1100, 3], 0), ([4097], 0)])
@pytest.mark.parametrize("largest", [0, 1])
def test_long_rows_are_sorted(shape, axis, largest):
    rng = np.random.default_rng(12)
    data = top(shape, axis, largest)
    module = tc.compile(data, threads=2)
    check(data, {"x": rng.standard_normal(shape).astype(np.float32)}, module)
    # Equal ones keep their order.
    check(data, {"x": rng.integers(0, 9, shape).astype(np.float32)}, module)
    check(data, {"x": np.full(shape, -np.inf, np.float32)}, module)


def test_long_rows_of_integers_are_sorted():
    rng = np.random.default_rng(13)
    data = top([5000], 0, 1, INT64)
    check(data, {"x": rng.integers(-(2**62), 2**62, 5000)})
    check(data, {"x": np.full(5000, -(2**63))})


def test_rows_of_any_length_are_sorted():
    rng = np.random.default_rng(14)
    data = top(["rows", "n"], 1, 1)
    module = tc.compile(data, threads=2)
    for rows, n in ((1, 10), (3, 64), (2, 65), (1, 8400), (5, 129)):
        check(data, {"x": rng.standard_normal((rows, n)).astype(np.float32)}, module)


# --- operands that a run computes ----------------------------------------------------------------


def computed_operands():
    """How many numbers are positive decides how many are sorted, and where slices begin and end."""
    nodes = [
        helper.make_node("Greater", ["x", "nought"], ["mask"]),
        helper.make_node("Cast", ["mask"], ["ones"], to=INT64),
        helper.make_node("ReduceSum", ["ones", "axes"], ["count"], keepdims=1),
        helper.make_node("Neg", ["count"], ["back"]),
        helper.make_node("TopK", ["x", "count"], ["best", "places"], name="top"),
        helper.make_node("Slice", ["x", "axes", "count"], ["front"]),
        helper.make_node("Slice", ["x", "back", "far"], ["rear"]),
        helper.make_node("Slice", ["x", "count", "back"], ["middle"]),
        helper.make_node("Mul", ["front", "front"], ["squares"]),
    ]
    return model(
        nodes,
        [("x", FLOAT, ["n"])],
        [(name, FLOAT, [None]) for name in ("best", "front", "rear", "middle", "squares")],
        {"nought": np.float32(0), "axes": np.array([0]), "far": np.array([2**62])},
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_computed_operands(threads):
    data = computed_operands()
    module = tc.compile(data, threads=threads)
    rng = np.random.default_rng(15)
    for n in (1, 7, 50, 2000):
        for shift in (-3, -1, 0, 1):
            check(data, {"x": (rng.standard_normal(n) + shift).astype(np.float32)}, module)


def test_sizes_out_of_bounds():
    """More elements are asked for than there are: an error of the run, after which the module
    works."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=1),
        helper.make_node("Cast", ["most"], ["k"], to=INT64),
        helper.make_node("TopK", ["x", "k"], ["best", "places"], name="top"),
    ]
    module = tc.compile(model(nodes, [("x", FLOAT, [5])], [("best", FLOAT, [None])]), threads=2)
    x = np.array([1, 2, 0, 1, 2], np.float32)
    np.testing.assert_array_equal(module(x), [2, 2])
    for wrong in (9, -1):
        with pytest.raises(tc.ShapeError) as told:
            module(np.full(5, wrong, np.float32))
        assert (
            str(told.value)
            == f"model 'model.onnx': size 'top_count' of node 'top' is {wrong} for these inputs; it may be 0 to 5"
        )
        np.testing.assert_array_equal(module(x), [2, 2])


# --- loops ---------------------------------------------------------------------------------------


def loop(output):
    """In each iteration the numbers above its number are summed; `output` is collected."""
    port = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["limit"], to=FLOAT),
            helper.make_node("Greater", ["x", "limit"], ["mask"]),
            helper.make_node("NonZero", ["mask"], ["where"], name="inner"),
            helper.make_node("Transpose", ["where"], ["tuples"]),
            helper.make_node("GatherND", ["x", "tuples"], ["picked"]),
            helper.make_node("ReduceSum", ["picked"], ["sum"], keepdims=0),
            helper.make_node("Add", ["total", "sum"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [port("i", INT64, []), port("go", BOOL, []), port("total", FLOAT, [])],
        [port("on", BOOL, []), port("next", FLOAT, []), port(output, FLOAT, None)],
    )
    return model(
        [
            helper.make_node(
                "Loop", ["trips", "", "nought"], ["all", "each"], body=body, name="repeat"
            )
        ],
        [("x", FLOAT, ["n"])],
        [("all", FLOAT, []), ("each", FLOAT, None)],
        {"trips": np.array(4), "nought": np.float32(0)},
    )


def test_sizes_inside_of_a_loop():
    data = loop("sum")
    module = tc.compile(data, threads=2)
    for n in (1, 9, 500):
        check(data, {"x": np.random.default_rng(n).uniform(-1, 5, n).astype(np.float32)}, module)


def test_iterations_of_different_sizes_are_an_error_of_the_run():
    module = tc.compile(loop("picked"))
    check(loop("picked"), {"x": np.float32([9, 8, 7])}, module)
    with pytest.raises(tc.ShapeError, match="node 'repeat' .*has to be"):
        module(np.float32([9, 2.5, 7]))
    check(loop("picked"), {"x": np.float32([9, 8, 7])}, module)


# --- sizes that are nothing, and sizes that are the same ----------------------------------------


@pytest.mark.parametrize("operator", ["Celu", "GlobalMaxPool"])
def test_what_reads_an_empty_slice_writes_nothing(operator):
    """x[-2:0:2] is empty for every n; the floor in its length is negative."""
    symbol = ("x", FLOAT, ["n", 2, 3])
    data = model(
        [
            helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["part"]),
            helper.make_node(operator, ["part"], ["y"]),
        ],
        [symbol],
        [("y", FLOAT, None)],
        {"start": [-2], "end": [0], "axis": [0], "step": [2]},
    )
    module = tc.compile(data)
    for n in (1, 2, 3, 5, 9):
        assert module.run({"x": np.ones((n, 2, 3), np.float32)})["y"].shape[0] == 0


def test_an_empty_axis_backwards_is_empty():
    nodes = [
        helper.make_node("NonZero", ["mask"], ["found"]),
        helper.make_node("Slice", ["found", "start", "end", "axis", "step"], ["y"]),
    ]
    data = model(
        nodes,
        [("mask", BOOL, [5])],
        [("y", INT64, None)],
        {"start": [1], "end": [-1000], "axis": [1], "step": [-2]},
    )
    module = tc.compile(data)
    for count in (0, 1, 2, 5):
        mask = np.arange(5) < count
        np.testing.assert_array_equal(
            module.run({"mask": mask})["y"], np.nonzero(mask)[0][None, 1::-2]
        )


def test_a_window_without_a_place_writes_nothing():
    """Convolutions of images that are smaller than the window by one step are empty, whatever the
    size was when it was compiled. What one wrote all the same would be the first number that comes
    behind it, which is there before."""
    weights = np.ones((1, 1, 3), np.float32)
    nodes = [
        helper.make_node("Relu", ["u"], ["behind"]),
        helper.make_node("Conv", ["x", "w"], ["windows"], strides=[2]),
        helper.make_node("Concat", ["windows", "behind"], ["y"], axis=2),
    ]
    data = model(
        nodes,
        [("x", FLOAT, [1, 1, "n"]), ("u", FLOAT, [1, 1, 4])],
        [("y", FLOAT, None)],
        {"w": weights},
    )
    module = tc.compile(data)
    for n in (9, 1, 2, 4):
        size = (n - 3) // 2 + 1
        found = module.run(
            {"x": np.ones((1, 1, n), np.float32), "u": np.full((1, 1, 4), 7, np.float32)}
        )["y"]
        np.testing.assert_array_equal(found.ravel(), [3] * size + [7] * 4)


def test_equal_nodes_find_equally_many():
    """Masks as PyTorch's exporter writes them: a NonZero for each use. One search of each, so that
    the sums of both uses are one size."""
    nodes = []
    for level in ("p", "q"):
        nodes += [
            helper.make_node("NonZero", [f"mask_{level}"], [f"first_{level}"]),
            helper.make_node("NonZero", [f"mask_{level}"], [f"second_{level}"]),
            helper.make_node("Shape", [f"first_{level}"], [f"s_{level}"]),
            helper.make_node("Gather", [f"s_{level}", "one"], [f"count_{level}"]),
            helper.make_node("Min", [f"count_{level}", "most"], [f"k_{level}"]),
            helper.make_node(
                "Slice", [f"first_{level}", "nought", f"k_{level}", "one"], [f"a_{level}"]
            ),
            helper.make_node(
                "Slice", [f"second_{level}", "nought", f"k_{level}", "one"], [f"b_{level}"]
            ),
        ]
    nodes += [
        helper.make_node("Concat", ["a_p", "a_q"], ["a"], axis=1),
        helper.make_node("Concat", ["b_p", "b_q"], ["b"], axis=1),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    data = model(
        nodes,
        [("mask_p", BOOL, [9]), ("mask_q", BOOL, [5])],
        [("y", INT64, None)],
        {"one": [1], "nought": [0], "most": [4]},
    )
    module = tc.compile(data)
    steps = module._compiled.plan.split("\nsteps\n")[1].split("\nkernel ")[0].splitlines()
    assert not [step for step in steps if "second" in step]
    for mask in ([1, 0, 1, 0, 0, 0, 0, 0, 1], [1] * 9, [0] * 9):
        where = np.concatenate([np.nonzero(part)[0][None, :4] for part in (mask, mask[:5])], 1)
        np.testing.assert_array_equal(
            module.run({"mask_p": np.array(mask, bool), "mask_q": np.array(mask[:5], bool)})["y"],
            where + where,
        )
