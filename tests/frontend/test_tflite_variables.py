"""Variables of TensorFlow Lite's files: what a module keeps from call to call."""

import threading

import numpy as np
import pytest

import tc

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .tflite_files import Graph, Operator, Tensor, file_of  # noqa: E402

RESOURCE = 13
START = np.array([[1, 2, 3]], np.float32)


def handle(name):
    return Tensor(name, (), np.int32, type_number=RESOURCE)


def named(output, name):
    return Operator("VAR_HANDLE", [], [output], "VarHandleOptions", Container="c", SharedName=name)


def first_values(name="sum", data=START):
    """A graph that is called once: it assigns a constant to the variable."""
    return Graph(
        [handle("h"), Tensor("start", data=data)],
        [named(0, name), Operator("ASSIGN_VARIABLE", [0, 1], [])],
    )


def running_sum(read_again=False):
    """y = sum = sum + x; with `read_again` the result is what is read behind the assignment, else
    the sum itself."""
    tensors = [
        Tensor("x", (1, 3)),
        handle("h"),
        Tensor("before", (1, 3)),
        Tensor("after", (1, 3)),
        Tensor("read", (1, 3)),
    ]
    operators = [
        Operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1),
        named(1, "sum"),
        Operator("READ_VARIABLE", [1], [2]),
        Operator("ADD", [0, 2], [3], "AddOptions"),
        Operator("ASSIGN_VARIABLE", [1, 3], []),
    ]
    if read_again:
        operators.append(Operator("READ_VARIABLE", [1], [4]))
    return file_of(tensors, operators, [0], [4 if read_again else 3], more=[first_values()])


def kernels_results(data, arrays):
    """What TensorFlow Lite's kernels give, call by call, or None where they are not installed."""
    try:
        from ai_edge_litert import interpreter as package
    except ImportError:
        return None
    interpreter = package.Interpreter(
        model_content=data, experimental_op_resolver_type=package.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    found = []
    for array in arrays:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], array)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy())
    return found


@pytest.mark.parametrize("read_again", [False, True])
def test_a_variable_is_kept_from_call_to_call(read_again):
    data = running_sum(read_again)
    module = tc.compile(data, log=False)
    assert [port.name for port in module.inputs] == ["x"] and len(module.outputs) == 1
    arrays = [
        np.random.default_rng(seed).standard_normal((1, 3)).astype(np.float32) for seed in range(4)
    ]
    np.testing.assert_array_equal(module.state["sum"], START)
    expected, total = kernels_results(data, arrays), START
    for number, x in enumerate(arrays):
        total = total + x
        found = module(x)
        np.testing.assert_allclose(found, total, rtol=1e-6)
        np.testing.assert_array_equal(module.state["sum"], found)
        if expected is not None:
            np.testing.assert_allclose(found, expected[number], rtol=1e-6)
    module.reset_state()
    np.testing.assert_allclose(
        module.run({"x": arrays[0]})[module.outputs[0].name], START + arrays[0], rtol=1e-6
    )


def test_the_artefact_takes_states_and_gives_them(tmp_path):
    path = tmp_path / "sum.so"
    tc.compile(running_sum(), log=False).export(path)
    loaded = tc.load(path)
    assert [port.name for port in loaded.inputs] == ["x", "state.sum"] and [
        port.name for port in loaded.outputs
    ] == ["after", "next.sum"]
    y, behind = loaded(np.ones((1, 3), np.float32), 2 * START)
    np.testing.assert_array_equal(y, 2 * START + 1)
    np.testing.assert_array_equal(behind, y)


def test_calls_of_several_threads_run_one_after_the_other():
    module = tc.compile(running_sum(), log=False)
    threads = [
        threading.Thread(target=lambda: [module(np.ones((1, 3), np.float32)) for _ in range(100)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(module.state["sum"], START + 400)
    assert module.profile(np.ones((1, 3), np.float32), seconds=0.01) is not None


def test_a_variable_that_no_run_changes_is_a_constant():
    # The result's shape is left out in the file.
    tensors = [Tensor("x", (1, 3)), handle("h"), Tensor("v", ()), Tensor("y", (1, 3))]
    operators = [
        Operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1),
        named(1, "sum"),
        Operator("READ_VARIABLE", [1], [2]),
        Operator("MUL", [0, 2], [3], "MulOptions"),
    ]
    module = tc.compile(file_of(tensors, operators, [0], [3], more=[first_values()]), log=False)
    assert not hasattr(module, "state")
    np.testing.assert_array_equal(module(np.full((1, 3), 2, np.float32)), 2 * START)


def test_what_is_assigned_before_it_is_read_is_no_state():
    tensors = [Tensor("x", (1, 3)), handle("h"), Tensor("y", (1, 3))]
    data = file_of(
        tensors,
        [
            named(1, "v"),
            Operator("ASSIGN_VARIABLE", [1, 0], []),
            Operator("READ_VARIABLE", [1], [2]),
        ],
        [0],
        [2],
    )
    module = tc.compile(data, log=False)
    assert not hasattr(module, "state")
    np.testing.assert_array_equal(module(START), START)


def test_two_variables_of_integers():
    """A pair that swaps: each gets what the other had."""
    tensors = [
        Tensor("x", (2,), np.int8, scale=0.5),
        handle("a"),
        handle("b"),
        Tensor("old a", (2,), np.int8, scale=0.5),
        Tensor("old b", (2,), np.int8, scale=0.5),
        Tensor("y", (2,), np.int8, scale=0.5),
    ]
    start = Graph(
        [
            handle("a"),
            handle("b"),
            Tensor("s", data=np.array([1, -2], np.int8), scale=0.5),
            Tensor("t", data=np.array([3, 100], np.int8), scale=0.5),
        ],
        [
            named(0, "a"),
            named(1, "b"),
            Operator("ASSIGN_VARIABLE", [0, 2], []),
            Operator("ASSIGN_VARIABLE", [1, 3], []),
        ],
    )
    operators = [
        Operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1),
        named(1, "a"),
        named(2, "b"),
        Operator("READ_VARIABLE", [1], [3]),
        Operator("READ_VARIABLE", [2], [4]),
        Operator("ASSIGN_VARIABLE", [1, 4], []),
        Operator("ASSIGN_VARIABLE", [2, 3], []),
        Operator("MAXIMUM", [0, 3], [5]),
    ]
    module = tc.compile(file_of(tensors, operators, [0], [5], more=[start]), log=False)
    least = np.array([-128, -128], np.int8)
    assert [module(least).tolist() for _ in range(3)] == [[1, -2], [3, 100], [1, -2]]


X, H, Y = Tensor("x", (1, 3)), handle("h"), Tensor("y", (1, 3))
ONCE = Operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
REFUSED = {
    "not assigned": (
        lambda: file_of([X, H, Y], [named(1, "v"), Operator("READ_VARIABLE", [1], [2])], [0], [2]),
        "READ_VARIABLE (operator 1, 'y'): variable 'v' is read before anything is assigned to it",
    ),
    "no handle": (
        lambda: file_of(
            [Tensor("x", (), np.int32), Y], [Operator("READ_VARIABLE", [0], [1])], [0], [1]
        ),
        "READ_VARIABLE (operator 0, 'y'): 'x' is no variable that an operator VAR_HANDLE names",
    ),
    "another shape": (
        lambda: file_of(
            [Tensor("x", (1, 4)), H, Y],
            [
                ONCE,
                named(1, "sum"),
                Operator("ASSIGN_VARIABLE", [1, 0], []),
                Operator("READ_VARIABLE", [1], [2]),
            ],
            [0],
            [2],
            more=[first_values()],
        ),
        "ASSIGN_VARIABLE (operator 2): variable 'sum' is f32 of shape [1, 3], and 'x' is f32 of shape [1, 4]",
    ),
    "no graph": (
        lambda: file_of([X, Y], [ONCE, Operator("ABS", [0], [1])], [0], [1]),
        "CALL_ONCE (operator 0): it calls graph 1, and the file has 1",
    ),
    "computes": (
        lambda: file_of(
            [X, Y],
            [ONCE, Operator("ABS", [0], [1])],
            [0],
            [1],
            more=[Graph([Tensor("a", (2,)), Tensor("b", (2,))], [Operator("EXP", [0], [1])])],
        ),
        "CALL_ONCE (operator 0): graph 1 has the operator EXP; only variables that get constants are supported where it is called once",
    ),
    "no constant": (
        lambda: file_of(
            [X, Y],
            [ONCE, Operator("ABS", [0], [1])],
            [0],
            [1],
            more=[
                Graph(
                    [handle("h"), Tensor("a", (2,))],
                    [named(0, "v"), Operator("ASSIGN_VARIABLE", [0, 1], [])],
                )
            ],
        ),
        "CALL_ONCE (operator 0): what operator 1 assigns to variable 'v' is no constant",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_of_variables(what):
    make, text = REFUSED[what]
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(make(), log=False)
    assert str(raised.value) == f"model.tflite uses what tc cannot compile: {text}"


def test_a_variable_is_no_result():
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(file_of([H], [named(0, "v")], [], [0]), log=False)
    assert str(raised.value) == "model.tflite: output 'h' is a variable, which is not supported"
