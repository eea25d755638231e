"""Sizes without a bound that a run computes: memory that grows as they are known, against ONNX Runtime and numpy; relations
of sizes that nothing proves, which a run checks."""

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc
from tests.frontend.test_data_sizes import BOOL, FLOAT, INT64, check, model

INT32 = TensorProto.INT32


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, output if isinstance(output, list) else [output],
                            name=(output if isinstance(output, str) else output[0]) + "_node", **attributes)


def count_of(x="x", name="k"):
    """Nodes that count the elements of `x` that are not 0: a scalar i64 that no shape tells."""
    return [node("NonZero", [x], f"{name}_where"), node("Shape", [f"{name}_where"], f"{name}_shape", start=1),
            node("Squeeze", [f"{name}_shape"], f"{name}_bounded"),
            # The sum of the elements, so that nothing bounds it.
            node("ReduceSum", [x], f"{name}_sum", keepdims=0), node("Cast", [f"{name}_sum"], name, to=INT64)]


def ones(count, of=8):
    x = np.zeros(of, np.float32)
    x[:count] = 1
    return x


def summing(nodes, outputs, constants=(), inputs=()):
    return model(count_of() + nodes, [("x", FLOAT, [8]), *inputs], outputs, {"one": np.array([1]), **dict(constants)})


# --- operators --------------------------------------------------------------------------------------

def vector_of(name, parts, result):
    """Nodes that make a vector of scalars and vectors."""
    nodes = []
    for part in parts:
        nodes.append(node("Reshape", [part, "one"], f"{result}_{part}"))
    return [*nodes, node("Concat", [f"{result}_{part}" for part in parts], result, axis=0)]


CASES = {
    "constant_of_shape": (vector_of("", ["k", "three"], "s") + [node("ConstantOfShape", ["s"], "y")], [None, 3], FLOAT, {}),
    "expand": (vector_of("", ["k", "three"], "s") + [node("Expand", ["row", "s"], "y")], [None, 3], FLOAT, {"row": np.float32([[1, 2, 3]])}),
    "tile": (vector_of("", ["k", "three"], "s") + [node("Tile", ["block", "s"], "y")], [None, None], FLOAT,
             {"block": np.arange(6, dtype=np.float32).reshape(2, 3)}),
    "range": ([node("Range", ["zero", "k", "two"], "y")], [None], INT64, {"zero": np.array(0), "two": np.array(2)}),
    "pad": (vector_of("", ["k", "zero"], "s") + [node("Pad", ["block", "s"], "y")], [None], FLOAT,
            {"block": np.arange(3, dtype=np.float32), "zero": np.array(0)}),
    "expand_then_compute": (vector_of("", ["k", "three"], "s") + [
        node("Expand", ["row", "s"], "e"), node("Exp", ["e"], "f"), node("MatMul", ["f", "square"], "g"),
        node("Softmax", ["g"], "y", axis=-1)], [None, 3], FLOAT, {"row": np.float32([[1, 2, 3]]), "square": np.eye(3, dtype=np.float32)}),
    "reshape": (vector_of("", ["k", "three"], "s") + [
        node("Expand", ["row", "s"], "e"), node("Mul", ["k", "three"], "n"), node("Reshape", ["n", "one"], "t"),
        node("Reshape", ["e", "t"], "y")], [None], FLOAT, {"row": np.float32([[1, 2, 3]])}),
    "two_sizes": (vector_of("", ["k", "j"], "s") + [node("ConstantOfShape", ["s"], "y")], [None, None], FLOAT, {}),
    "reduced": (vector_of("", ["k", "three"], "s") + [node("Expand", ["row", "s"], "e"), node("ReduceSum", ["e", "zeros"], "y", keepdims=0)],
                [3], FLOAT, {"row": np.float32([[1, 2, 3]]), "zeros": np.array([0])}),
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
    data = summing(vector_of("", ["k", "three"], "s") + [node("Expand", ["row", "s"], "e"), node("Mul", ["e", "e"], "y")],
                   [("y", FLOAT, [None, 3])], {"three": np.array(3), "row": np.float32([[1, 2, 3]])})
    module = tc.compile(data, threads=2)
    for total in (10, 200_000, 7, 1_000_000):
        x = np.zeros(8, np.float32)
        x[0] = total
        y = module(x)
        np.testing.assert_array_equal(y, np.tile(np.float32([1, 4, 9]), (total, 1)))
    assert module.memory.arena >= 1_000_000 * 12


def test_threads_have_their_own_memory():
    data = summing(vector_of("", ["k", "three"], "s") + [node("Expand", ["row", "s"], "y")], [("y", FLOAT, [None, 3])],
                   {"three": np.array(3), "row": np.float32([[1, 2, 3]])})
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


# --- limits -----------------------------------------------------------------------------------------

def big(max_ram=None):
    data = summing(vector_of("", ["k", "wide"], "s") + [node("Expand", ["row", "s"], "e"), node("Exp", ["e"], "y")], [("y", FLOAT, [None, 1000])],
                   {"wide": np.array(1000), "row": np.zeros((1, 1000), np.float32)})
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
    assert "size 'k_count' of node 'k_node' is " + str(total) in message, message
    assert "MB" in message and "max_ram" in message
    assert module(with_sum(5)).shape == (5, 1000)


def test_negative_size():
    module = big()
    with pytest.raises(tc.Error, match="size 'k_count' of node 'k_node' is -3 for these inputs; it may be 0 or more"):
        module(with_sum(-3))
    assert module(with_sum(2)).shape == (2, 1000)


# --- relations --------------------------------------------------------------------------------------

def test_relation_of_inputs():
    """Broadcast of `seq` and the size that a table of 4 rows gives: equal up to 4, refused beyond."""
    data = model([node("Shape", ["x"], "shape"), node("Slice", ["table", "zero", "shape"], "rows"), node("Add", ["x", "rows"], "y")],
                 [("x", FLOAT, ["seq"])], [("y", FLOAT, ["seq"])], {"table": np.arange(4, dtype=np.float32), "zero": np.array([0])})
    module = tc.compile(data)
    for size in (2, 4, 3):
        check(data, {"x": np.ones(size, np.float32)}, module)
    with pytest.raises(tc.Error) as error:
        module(np.ones(6, np.float32))
    assert "'seq'" in str(error.value) and "they are" in str(error.value), error.value
    check(data, {"x": np.ones(4, np.float32)}, module)


def test_relation_of_computed_sizes():
    data = summing([node("Reshape", ["k", "one"], "s"), node("ConstantOfShape", ["s"], "a"), node("Add", ["a", "b"], "y")],
                   [("y", FLOAT, [None])], {}, [("b", FLOAT, ["n"])])
    module = tc.compile(data)
    check(data, {"x": ones(3), "b": np.ones(3, np.float32)}, module)
    with pytest.raises(tc.Error, match="node 'y_node'.*they are 2 and 5|node 'y_node'.*they are 5 and 2"):
        module.run({"x": ones(2), "b": np.ones(5, np.float32)})
    check(data, {"x": ones(6), "b": np.ones(6, np.float32)}, module)


def test_reshape_that_does_not_divide():
    data = model([node("Reshape", ["x", "s"], "y")], [("x", FLOAT, ["n", 3])], [("y", FLOAT, [None, 2])], {"s": np.array([-1, 2])})
    module = tc.compile(data)
    check(data, {"x": np.ones((4, 3), np.float32)}, module)
    with pytest.raises(tc.Error, match="cannot|has to be"):
        module(np.ones((3, 3), np.float32))


# --- branches ---------------------------------------------------------------------------------------

def test_branch_without_a_bound():
    then = helper.make_graph([node("Reshape", ["k", "one"], "ts"), node("ConstantOfShape", ["ts"], "t")], "then", [],
                             [helper.make_tensor_value_info("t", FLOAT, [None])])
    other = helper.make_graph([node("Identity", ["x"], "o")], "else", [], [helper.make_tensor_value_info("o", FLOAT, [None])])
    data = summing([node("Greater", ["k", "three"], "c"), node("If", ["c"], "r", then_branch=then, else_branch=other),
                    node("Exp", ["r"], "y")], [("y", FLOAT, [None])], {"three": np.array(3)})
    module = tc.compile(data, threads=2)
    for total in (2, 100, 5, 0, 7000):
        check(data, {"x": with_sum(total)}, module)


# --- artefacts --------------------------------------------------------------------------------------

def test_saved_and_executable(tmp_path):
    import subprocess
    module = big()
    module.save(tmp_path / "big.so")
    assert tc.load(tmp_path / "big.so")(with_sum(3)).shape == (3, 1000)
    module.export(tmp_path / "big", kind="executable")
    np.save(tmp_path / "x.npy", with_sum(4))
    subprocess.run([tmp_path / "big", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out"], check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), np.ones((4, 1000), np.float32))
