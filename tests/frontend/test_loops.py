"""Loops whose number of iterations, condition, or sizes of states a run computes, against ONNX
Runtime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import tc
from tests.frontend.data_sizes import BOOL, FLOAT, INT64, check, model
from tests.frontend.grown_sizes import count_of, node, ones

ENDLESS = np.array(2**63 - 1)
ITERATION = [("i", INT64, []), ("c", BOOL, [])]


def info(port):
    return helper.make_tensor_value_info(*port)


def body(nodes, inputs, outputs):
    return helper.make_graph(
        nodes,
        "body",
        [info(port) for port in ITERATION + inputs],
        [info(port) for port in [("go", BOOL, []), *outputs]],
    )


def loop(operands, results, graph, name="loop"):
    return helper.make_node("Loop", operands, results, name=name, body=graph)


def keep_going():
    return node("Identity", ["c"], "go")


CONSTANTS = {
    "one": np.array([1]),
    "endless": ENDLESS,
    "limit": np.float32(100),
    "yes": np.array(True),
    "zero": np.array([0]),
    "three": np.array(3),
    "unit": np.array(1),
    "step": np.float32([1, 2]),
}

# A state of one size that is doubled until it is large, and what each iteration had.
DOUBLE = body(
    [
        node("Add", ["s", "s"], "t"),
        node("ReduceMax", ["t"], "m", keepdims=0),
        node("Less", ["m", "limit"], "go"),
        node("Identity", ["t"], "out"),
    ],
    [("s", FLOAT, [3])],
    [("t", FLOAT, [3]), ("out", FLOAT, [3])],
)
# A state that an iteration makes longer.
APPEND = body(
    [
        node("Cast", ["i"], "f", to=FLOAT),
        node("Reshape", ["f", "one"], "r"),
        node("Concat", ["s", "r"], "t", axis=0),
        keep_going(),
    ],
    [("s", FLOAT, [None])],
    [("t", FLOAT, [None])],
)


@pytest.mark.parametrize("threads", [1, 2])
def test_condition_ends_it(threads):
    data = model(
        [loop(["endless", "yes", "x"], ["last", "all"], DOUBLE)],
        [("x", FLOAT, [3])],
        [("last", FLOAT, [3]), ("all", FLOAT, [None, 3])],
        CONSTANTS,
    )
    module = tc.compile(data, threads=threads)
    for scale in (1, 1e-6, 60, 3):
        check(data, {"x": np.float32([1, 0.5, 0.25]) * np.float32(scale)}, module)


def test_condition_and_trip_count_that_reserves():
    data = model(
        [loop(["ten", "yes", "x"], ["last", "all"], DOUBLE)],
        [("x", FLOAT, [3])],
        [("last", FLOAT, [3]), ("all", FLOAT, [None, 3])],
        {**CONSTANTS, "ten": np.array(10)},
    )
    module = tc.compile(data)
    for scale in (1, 1e-6, 60):
        check(data, {"x": np.float32([1, 0.5, 0.25]) * np.float32(scale)}, module)


def test_no_trip_count_and_first_condition():
    data = model(
        [
            node("Greater", ["x", "limit"], "large"),
            node("Not", ["large"], "first"),
            loop(["", "first", "v"], ["last", "all"], DOUBLE),
        ],
        [("x", FLOAT, []), ("v", FLOAT, [3])],
        [("last", FLOAT, [3]), ("all", FLOAT, [None, 3])],
        CONSTANTS,
    )
    module = tc.compile(data)
    for x in (1, 1000):
        check(data, {"x": np.array(x, np.float32), "v": np.float32([1, 2, 3])}, module)


@pytest.mark.parametrize("threads", [1, 2])
def test_trip_count_of_a_run(threads):
    scaled = body(
        [node("Mul", ["s", "s"], "t"), node("Identity", ["t"], "out"), keep_going()],
        [("s", FLOAT, [3])],
        [("t", FLOAT, [3]), ("out", FLOAT, [3])],
    )
    data = model(
        count_of() + [loop(["k", "", "v"], ["last", "all"], scaled)],
        [("x", FLOAT, [8]), ("v", FLOAT, [3])],
        [("last", FLOAT, [3]), ("all", FLOAT, [None, 3])],
        CONSTANTS,
    )
    module = tc.compile(data, threads=threads)
    for count in (3, 8, 0, 1):
        check(data, {"x": ones(count), "v": np.float32([0.9, 1, 1.1])}, module)
    # A negative number is none.
    assert module.run({"x": -ones(2), "v": np.float32([1, 2, 3])})["all"].shape == (0, 3)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("trips", ["k", "three"])
def test_state_grows(trips, threads):
    data = model(
        count_of()
        + [
            loop([trips, "", "v"], ["last"], APPEND),
            node("Mul", ["last", "last"], "square"),
            node("ReduceSum", ["square"], "sum", keepdims=0),
        ],
        [("x", FLOAT, [8]), ("v", FLOAT, [2])],
        [("last", FLOAT, [None]), ("square", FLOAT, [None]), ("sum", FLOAT, [])],
        CONSTANTS,
    )
    module = tc.compile(data, threads=threads)
    for count in (3, 8, 0, 1):
        check(data, {"x": ones(count), "v": np.float32([5, 6])}, module)


def test_state_grows_from_nothing_and_long():
    data = model(
        [loop(["n", "", "empty"], ["last"], APPEND)],
        [("n", INT64, [])],
        [("last", FLOAT, [None])],
        {**CONSTANTS, "empty": np.float32([])},
    )
    module = tc.compile(data)
    for n in (0, 5000, 3):
        np.testing.assert_array_equal(
            module.run({"n": np.array(n)})["last"], np.arange(n, dtype=np.float32)
        )


def test_state_shrinks_where_it_lies():
    # What is left lies in the state itself, behind its begin.
    rest = body(
        [
            node("Slice", ["s", "one", "far", "zero"], "t"),
            node("Slice", ["s", "zero", "one", "zero"], "first"),
            keep_going(),
        ],
        [("s", FLOAT, [None, 2])],
        [("t", FLOAT, [None, 2]), ("first", FLOAT, [1, 2])],
    )
    data = model(
        count_of() + [loop(["k", "", "v"], ["last", "all"], rest)],
        [("x", FLOAT, [8]), ("v", FLOAT, [9, 2])],
        [("last", FLOAT, [None, 2]), ("all", FLOAT, [None, 1, 2])],
        {**CONSTANTS, "far": np.array([1 << 40])},
    )
    module = tc.compile(data)
    for count in (3, 8, 1):
        check(data, {"x": ones(count), "v": np.arange(18, dtype=np.float32).reshape(9, 2)}, module)


def test_states_change_places():
    swap = body(
        [node("Identity", ["b"], "t"), node("Concat", ["a", "b"], "u", axis=0), keep_going()],
        [("a", FLOAT, [None]), ("b", FLOAT, [None])],
        [("t", FLOAT, [None]), ("u", FLOAT, [None])],
    )
    data = model(
        count_of() + [loop(["k", "", "v", "w"], ["p", "q"], swap)],
        [("x", FLOAT, [8]), ("v", FLOAT, [2]), ("w", FLOAT, [1])],
        [("p", FLOAT, [None]), ("q", FLOAT, [None])],
        CONSTANTS,
    )
    module = tc.compile(data, threads=2)
    for count in (6, 0, 1, 8):
        check(data, {"x": ones(count), "v": np.float32([1, 2]), "w": np.float32([3])}, module)


def test_loops_in_loops_and_branches():
    longer = helper.make_graph(
        [loop(["n", "", "a"], ["grown"], APPEND, name="loop")],
        "longer",
        [],
        [info(("grown", FLOAT, [None]))],
    )
    same = helper.make_graph(
        [node("Mul", ["a", "factor"], "scaled")], "same", [], [info(("scaled", FLOAT, [None]))]
    )
    outer = body(
        [
            node("Mod", ["n", "two"], "odd"),
            node("Cast", ["odd"], "is_odd", to=BOOL),
            helper.make_node(
                "If", ["is_odd"], ["b"], name="loop", then_branch=longer, else_branch=same
            ),
            node("ReduceSum", ["b"], "out", keepdims=0),
            node("Identity", ["d"], "on"),
        ],
        [("a", FLOAT, [None])],
        [("b", FLOAT, [None]), ("out", FLOAT, [])],
    )
    for port, name in zip([*outer.input, outer.output[0]], ["n", "d", "a", "on"]):
        port.name = name
    data = model(
        count_of()
        + [node("Add", ["y", "y"], "factor"), loop(["k", "", "v"], ["last", "all"], outer)],
        [("x", FLOAT, [8]), ("y", FLOAT, []), ("v", FLOAT, [2])],
        [("last", FLOAT, [None]), ("all", FLOAT, [None])],
        {**CONSTANTS, "two": np.array(2)},
    )
    module = tc.compile(data, threads=2)
    for count in (5, 8, 0, 1):
        check(
            data,
            {"x": ones(count), "y": np.array(0.4, np.float32), "v": np.float32([1, 2])},
            module,
        )


def test_sizes_of_one_name_at_two_depths():
    # Both nodes have the name that their sizes are named after.
    inside = body(
        [
            node("NonZero", ["s"], "near"),
            node("Shape", ["near"], "a", start=1),
            node("Shape", ["where"], "b", start=1),
            node("Sub", ["a", "b"], "d"),
            keep_going(),
        ],
        [("s", FLOAT, [4])],
        [("s", FLOAT, [4]), ("d", INT64, [1])],
    )
    inside.node[0].name = "find"
    find = node("NonZero", ["x"], "where")
    find.name = "find"
    data = model(
        count_of("x", "k") + [find, loop(["k", "", "v"], ["last", "all"], inside)],
        [("x", FLOAT, [8]), ("v", FLOAT, [4])],
        [("last", FLOAT, [4]), ("all", INT64, [None, 1])],
        CONSTANTS,
    )
    check(data, {"x": ones(3), "v": np.float32([1, 0, 2, 3])})


def test_parts_of_one_size_that_iterations_compute():
    part = body(
        [
            node("Slice", ["s", "zero", "ends", "zero"], "p"),
            node("NonZero", ["p"], "w"),
            node("Add", ["s", "i_f"], "t"),
            keep_going(),
        ],
        [("s", FLOAT, [6])],
        [("t", FLOAT, [6]), ("w", INT64, [1, None])],
    )
    part.node.insert(0, node("Cast", ["i"], "i_f", to=FLOAT))
    data = model(
        count_of()
        + [node("Reshape", ["k", "one"], "ends"), loop(["three", "", "v"], ["last", "all"], part)],
        [("x", FLOAT, [8]), ("v", FLOAT, [6])],
        [("last", FLOAT, [6]), ("all", INT64, [None, 1, None])],
        CONSTANTS,
    )
    module = tc.compile(data)
    for count in (2, 6, 0):
        check(data, {"x": ones(count), "v": np.float32([1, 2, 3, 4, 5, 6])}, module)
    with pytest.raises(tc.Error, match="has to be"):
        module.run({"x": ones(3), "v": np.float32([0, 2, 3, 4, 5, 6])})
    check(data, {"x": ones(2), "v": np.float32([1, 2, 3, 4, 5, 6])}, module)


def test_errors():
    ranks = body(
        [node("Unsqueeze", ["s", "zero"], "t"), keep_going()],
        [("s", FLOAT, [None])],
        [("t", FLOAT, [None, None])],
    )
    with pytest.raises(
        tc.Error, match=r"state 0 changes from f32\[2\] to f32\[1, 2\] in an iteration"
    ):
        tc.compile(
            model(
                [loop(["three", "", "v"], ["last"], ranks)],
                [("v", FLOAT, [2])],
                [("last", FLOAT, None)],
                CONSTANTS,
            )
        )
    several = body([keep_going()], [("s", FLOAT, [2])], [("s", FLOAT, [2])])
    with pytest.raises(tc.Error, match=r"has an output 'more', which Loop does not give"):
        tc.compile(
            model(
                [loop(["three", "", "v"], ["last", "more"], several)],
                [("v", FLOAT, [2])],
                [("last", FLOAT, None)],
                CONSTANTS,
            )
        )


def test_scans_collect_parts_of_known_sizes():
    each = helper.make_graph(
        [node("NonZero", ["e"], "w")],
        "each",
        [info(("e", FLOAT, [3]))],
        [info(("w", INT64, [1, None]))],
    )
    scan = helper.make_node("Scan", ["x"], ["all"], name="scan", body=each, num_scan_inputs=1)
    with pytest.raises(
        tc.UnsupportedError,
        match=r"each iteration computes 'w_node_count_in1'; parts of equal sizes are needed",
    ):
        tc.compile(model([scan], [("x", FLOAT, [4, 3])], [("all", INT64, None)]))


def test_loops_in_loops_that_all_change_sizes():
    """Each level takes the imports of the next twice."""
    inner = None
    for level in range(16):
        i, c, s, t, g = (f"{stem}{level}" for stem in "icstg")
        nodes = (
            [node("Concat", [s, s], t, axis=0)]
            if inner is None
            else [loop(["three", "", s], [t], inner, name=f"loop{level}")]
        )
        ports = [(i, INT64, []), (c, BOOL, []), (s, FLOAT, [None])]
        inner = helper.make_graph(
            [*nodes, node("Identity", [c], g)],
            "body",
            [info(port) for port in ports],
            [info((g, BOOL, [])), info((t, FLOAT, [None]))],
        )
    with pytest.raises(
        tc.UnsupportedError,
        match="is in loops whose iterations change the sizes of states, which takes more than "
        "32768 nodes; give the states of loops inside of others one size",
    ):
        tc.compile(
            model(
                [loop(["three", "", "x"], ["y"], inner)],
                [("x", FLOAT, [1])],
                [("y", FLOAT, [None])],
                CONSTANTS,
            )
        )


def test_conditions_that_are_none():
    several = body(
        [node("Greater", ["s", "limit"], "go")], [("s", FLOAT, [2])], [("s", FLOAT, [2])]
    )
    with pytest.raises(
        tc.ShapeError, match=r"the condition that its body gives is bool\[2\]; one bool is needed"
    ):
        tc.compile(
            model(
                [loop(["three", "", "v"], ["last"], several)],
                [("v", FLOAT, [2])],
                [("last", FLOAT, None)],
                CONSTANTS,
            )
        )
    endless = body(
        [keep_going(), node("Neg", ["s"], "t")], [("s", FLOAT, [2])], [("t", FLOAT, [2])]
    )
    with pytest.raises(
        tc.UnsupportedError,
        match="never ends: it has no trip count, and no iteration changes its condition",
    ):
        tc.compile(
            model(
                [loop(["", "", "v"], ["last"], endless)],
                [("v", FLOAT, [2])],
                [("last", FLOAT, None)],
                CONSTANTS,
            )
        )


def test_memory_ends():
    double = body(
        [node("Concat", ["s", "s"], "t", axis=0), keep_going()],
        [("s", FLOAT, [None])],
        [("t", FLOAT, [None])],
    )
    data = model(
        [loop(["n", "", "v"], ["last"], double)],
        [("n", INT64, []), ("v", FLOAT, [1000])],
        [("last", FLOAT, [None])],
        CONSTANTS,
    )
    module = tc.compile(data, max_ram=1 << 26)
    with pytest.raises(tc.Error, match="memory"):
        module.run({"n": np.array(60), "v": np.ones(1000, np.float32)})
    assert module.run({"n": np.array(3), "v": np.ones(1000, np.float32)})["last"].shape == (8000,)
