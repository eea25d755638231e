"""Sizes without a bound that a run computes: memory that grows as they are known, against ONNX
Runtime and numpy."""

import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc
from tests.frontend.data_sizes import BOOL, FLOAT, INT64, check, model

from .grown_sizes import count_of, node, ones, summing

INT32 = TensorProto.INT32


# --- operators ------------------------------------------------------------------------------------


def vector_of(name, parts, result):
    """Nodes that make a vector of scalars and vectors."""
    nodes = []
    for part in parts:
        nodes.append(node("Reshape", [part, "one"], f"{result}_{part}"))
    return [*nodes, node("Concat", [f"{result}_{part}" for part in parts], result, axis=0)]


CASES = {
    "constant_of_shape": (
        vector_of("", ["k", "three"], "s") + [node("ConstantOfShape", ["s"], "y")],
        [None, 3],
        FLOAT,
        {},
    ),
    "expand": (
        vector_of("", ["k", "three"], "s") + [node("Expand", ["row", "s"], "y")],
        [None, 3],
        FLOAT,
        {"row": np.float32([[1, 2, 3]])},
    ),
    "tile": (
        vector_of("", ["k", "three"], "s") + [node("Tile", ["block", "s"], "y")],
        [None, None],
        FLOAT,
        {"block": np.arange(6, dtype=np.float32).reshape(2, 3)},
    ),
    "range": (
        [node("Range", ["zero", "k", "two"], "y")],
        [None],
        INT64,
        {"zero": np.array(0), "two": np.array(2)},
    ),
    "pad": (
        vector_of("", ["k", "zero"], "s") + [node("Pad", ["block", "s"], "y")],
        [None],
        FLOAT,
        {"block": np.arange(3, dtype=np.float32), "zero": np.array(0)},
    ),
    "expand_then_compute": (
        vector_of("", ["k", "three"], "s")
        + [
            node("Expand", ["row", "s"], "e"),
            node("Exp", ["e"], "f"),
            node("MatMul", ["f", "square"], "g"),
            node("Softmax", ["g"], "y", axis=-1),
        ],
        [None, 3],
        FLOAT,
        {"row": np.float32([[1, 2, 3]]), "square": np.eye(3, dtype=np.float32)},
    ),
    "reshape": (
        vector_of("", ["k", "three"], "s")
        + [
            node("Expand", ["row", "s"], "e"),
            node("Mul", ["k", "three"], "n"),
            node("Reshape", ["n", "one"], "t"),
            node("Reshape", ["e", "t"], "y"),
        ],
        [None],
        FLOAT,
        {"row": np.float32([[1, 2, 3]])},
    ),
    "two_sizes": (
        vector_of("", ["k", "j"], "s") + [node("ConstantOfShape", ["s"], "y")],
        [None, None],
        FLOAT,
        {},
    ),
    "reduced": (
        vector_of("", ["k", "three"], "s")
        + [node("Expand", ["row", "s"], "e"), node("ReduceSum", ["e", "zeros"], "y", keepdims=0)],
        [3],
        FLOAT,
        {"row": np.float32([[1, 2, 3]]), "zeros": np.array([0])},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_operators(case, threads):
    nodes, shape, type_, constants = CASES[case]
    constants = {"three": np.array(3), **constants}
    more = count_of("x2", "j") if case == "two_sizes" else []
    inputs = [("x2", FLOAT, [8])] if more else []
    data = summing(more + nodes, [("y", type_, shape)], constants, inputs)
    module = tc.compile(data, threads=threads)
    for count in (3, 8, 0, 1, 5):
        given = {"x": ones(count)}
        if more:
            given["x2"] = ones(2)
        check(data, given, module)


def test_large_sizes_grow_and_stay():
    data = summing(
        vector_of("", ["k", "three"], "s")
        + [node("Expand", ["row", "s"], "e"), node("Mul", ["e", "e"], "y")],
        [("y", FLOAT, [None, 3])],
        {"three": np.array(3), "row": np.float32([[1, 2, 3]])},
    )
    module = tc.compile(data, threads=2)
    for total in (10, 200_000, 7, 1_000_000):
        x = np.zeros(8, np.float32)
        x[0] = total
        y = module(x)
        np.testing.assert_array_equal(y, np.tile(np.float32([1, 4, 9]), (total, 1)))
    assert module.memory.arena >= 1_000_000 * 12


def test_threads_have_their_own_memory():
    data = summing(
        vector_of("", ["k", "three"], "s") + [node("Expand", ["row", "s"], "y")],
        [("y", FLOAT, [None, 3])],
        {"three": np.array(3), "row": np.float32([[1, 2, 3]])},
    )
    module = tc.compile(data, threads=1)
    wrong = []

    def run(count):
        for _ in range(20):
            if module(ones(count)).shape != (count, 3):
                wrong.append(count)

    threads = [threading.Thread(target=run, args=(count,)) for count in range(1, 7)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


# --- limits ---------------------------------------------------------------------------------------


def big(max_ram=None):
    data = summing(
        vector_of("", ["k", "wide"], "s")
        + [node("Expand", ["row", "s"], "e"), node("Exp", ["e"], "y")],
        [("y", FLOAT, [None, 1000])],
        {"wide": np.array(1000), "row": np.zeros((1, 1000), np.float32)},
    )
    return tc.compile(data, **({"max_ram": max_ram} if max_ram else {}))


def with_sum(total):
    x = np.zeros(8, np.float32)
    x[0] = total
    return x


@pytest.mark.parametrize("max_ram, total", [(50_000_000, 100_000), (None, 1 << 34)])
def test_memory_limit(max_ram, total):
    module = big(max_ram)
    with pytest.raises(tc.Error) as error:
        module(with_sum(total))
    message = str(error.value)
    assert "size 'k_node_count' of node 'k_node' is " + str(total) in message, message
    assert (
        "beyond the 50.0 MB that the model may use; give inputs that make less of it, or compile with a larger max_ram "
        "(default: half of the machine's memory)" in message
    ) == (max_ram is not None), message
    assert module(with_sum(5)).shape == (5, 1000)


def test_sizes_beyond_all_memory():
    module = big()
    with pytest.raises(
        tc.Error,
        match="size 'k_node_count' of node 'k_node' is 1152921504606846976 for these inputs, and tensors of that size are too "
        "large for any memory",
    ):
        module(with_sum(1 << 60))
    assert module(with_sum(2)).shape == (2, 1000)


def test_negative_size():
    module = big()
    with pytest.raises(
        tc.Error,
        match="size 'k_node_count' of node 'k_node' is -3 for these inputs; it may be 0 or more",
    ):
        module(with_sum(-3))
    assert module(with_sum(2)).shape == (2, 1000)


# --- what exporters write -------------------------------------------------------------------------


def test_detector_post_processing():
    """As torchvision's: candidates above a threshold, those that suppression keeps, their crops'
    features flattened by sizes that Shape, Gather and Concat put together."""
    nodes = [
        node("Greater", ["scores", "threshold"], "above"),
        node("NonZero", ["above"], "found"),
        node("Squeeze", ["found", "zero_axis"], "places"),
        node("Gather", ["boxes", "places"], "b", axis=0),
        node("Gather", ["scores", "places"], "s", axis=0),
        node("Unsqueeze", ["b", "zero_axis"], "bb"),
        node("Unsqueeze", ["s", "first_two"], "ss"),
        node("NonMaxSuppression", ["bb", "ss", "most", "iou"], "kept"),
        node("Gather", ["kept", "two"], "index", axis=1),
        node("Gather", ["b", "index"], "final", axis=0),
        # view(final.shape[0] * 2, 2), then expand by the number that the classes sum up to
        node("Shape", ["final"], "shape"),
        node("Gather", ["shape", "zero"], "rows", axis=0),
        node("Mul", ["rows", "two"], "twice"),
        node("Unsqueeze", ["twice", "zero_axis"], "twice_1"),
        node("Concat", ["twice_1", "minus"], "view"),
        node("Reshape", ["final", "view"], "corners"),
        node("ReduceSum", ["classes"], "total", keepdims=0),
        node("Unsqueeze", ["total", "zero_axis"], "total_1"),
        node("Shape", ["corners"], "corner_shape"),
        node("Concat", ["total_1", "corner_shape"], "wide", axis=0),
        node("Expand", ["corners", "wide"], "all"),
    ]
    nodes[14].attribute.append(helper.make_attribute("axis", 0))
    data = model(
        nodes,
        [("boxes", FLOAT, ["n", 4]), ("scores", FLOAT, ["n"]), ("classes", INT64, ["c"])],
        [("final", FLOAT, [None, 4]), ("all", FLOAT, [None, None, 2])],
        {
            "threshold": np.float32(0.3),
            "zero_axis": np.array([0]),
            "first_two": np.array([0, 1]),
            "most": np.array([20]),
            "iou": np.float32([0.5]),
            "two": np.array(2),
            "zero": np.array(0),
            "minus": np.array([-1]),
        },
    )
    module = tc.compile(data, threads=2)
    rng = np.random.default_rng(3)
    for n, classes in [(12, [1, 2]), (40, [5]), (3, [1, 1, 1])]:
        low = rng.random((n, 2), np.float32)
        boxes = np.concatenate([low, low + rng.random((n, 2), np.float32)], 1)
        check(
            data,
            {"boxes": boxes, "scores": rng.random(n, np.float32), "classes": np.array(classes)},
            module,
        )


def test_sizes_inside_of_a_loop():
    """Each iteration makes a tensor of a size of its own."""
    body = helper.make_graph(
        [
            node("Reshape", ["k", "one"], "s"),
            node("ConstantOfShape", ["s"], "zeros"),
            node("Exp", ["zeros"], "e"),
            node("ReduceSum", ["e"], "t", keepdims=0),
            node("Identity", ["condition"], "go"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("condition", BOOL, []),
            helper.make_tensor_value_info("k", INT64, []),
        ],
        [
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("k_out", INT64, []),
            helper.make_tensor_value_info("t", FLOAT, []),
        ],
    )
    body.node.append(node("Mul", ["k", "three"], "k_out"))
    data = model(
        [*count_of(), node("Loop", ["trips", "", "k"], ["last", "totals"], body=body)],
        [("x", FLOAT, [8])],
        [("totals", FLOAT, [4])],
        {"one": np.array([1]), "three": np.array(3), "trips": np.array(4)},
    )
    module = tc.compile(data, threads=2)
    for total in (2, 5, 0):
        check(data, {"x": with_sum(total)}, module)


# --- branches -------------------------------------------------------------------------------------


def test_branch_without_a_bound():
    then = helper.make_graph(
        [node("Reshape", ["k", "one"], "ts"), node("ConstantOfShape", ["ts"], "t")],
        "then",
        [],
        [helper.make_tensor_value_info("t", FLOAT, [None])],
    )
    other = helper.make_graph(
        [node("Identity", ["x"], "o")],
        "else",
        [],
        [helper.make_tensor_value_info("o", FLOAT, [None])],
    )
    data = summing(
        [
            node("Greater", ["k", "three"], "c"),
            node("If", ["c"], "r", then_branch=then, else_branch=other),
            node("Exp", ["r"], "y"),
        ],
        [("y", FLOAT, [None])],
        {"three": np.array(3)},
    )
    module = tc.compile(data, threads=2)
    for total in (2, 100, 5, 0, 7000):
        check(data, {"x": with_sum(total)}, module)


# --- artefacts ------------------------------------------------------------------------------------


def test_saved_and_executable(tmp_path):
    import subprocess

    module = big()
    module.save(tmp_path / "big.so")
    assert tc.load(tmp_path / "big.so")(with_sum(3)).shape == (3, 1000)
    module.export(tmp_path / "big", kind="executable")
    np.save(tmp_path / "x.npy", with_sum(4))
    subprocess.run(
        [tmp_path / "big", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out"],
        check=True,
        capture_output=True,
    )
    np.testing.assert_array_equal(
        np.load(tmp_path / "out" / "y.npy"), np.ones((4, 1000), np.float32)
    )


def test_scratch_memory_of_a_product_that_no_input_tells():
    """A softmax keeps its row; of a product of sizes that are computed inside of the run nobody can
    ask for less."""
    nodes = [
        node("Reshape", ["k", "one"], "v"),
        node("Concat", ["v", "v"], "s", axis=0),
        node("ConstantOfShape", ["s"], "c"),
        node("Reshape", ["c", "all"], "r"),
        node("Softmax", ["r"], "y"),
    ]
    made = summing(nodes, [("y", FLOAT, [None])], {"all": np.array([-1])})
    with pytest.raises(tc.UnsupportedError) as told:
        tc.compile(made)
    assert "would need more scratch memory than is given for '" in str(told.value)
    assert "', which is not known; give `shapes` with the sizes that occur" in str(told.value)
