"""Passes over code change kernels of models; tests/codegen/code_passes_test.cc has each pass on
code of its own."""

import functools

import numpy as np
import onnx
import pytest
import tc
from onnx import TensorProto, helper, numpy_helper
from tc.native import compiler

IN_ORDER, AVX512 = "rv64gcv_zvl256b", "x86-64-v4+avx512vnni"


def weights(name, *shape, dtype=np.float32):
    """Small numbers of both signs."""
    return numpy_helper.from_array(
        ((np.arange(np.prod(shape)) * 7 % 13 - 6).reshape(shape)).astype(dtype), name
    )


def model(nodes, shape, constants=(), dtype=TensorProto.FLOAT, result=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], result, None)],
        list(constants),
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    ).SerializeToString()


def node(op, inputs, output="y", **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def product(rows, depth, columns):
    return model([node("MatMul", "x w")], [rows, depth], [weights("w", depth, columns)])


def exponentials(count):
    return model([node("Exp", "x")], [count])


def short_sums_of_bytes():
    constants = [
        numpy_helper.from_array(np.array(value, dtype), name)
        for name, value, dtype in (
            ("s", 0.5, np.float32),
            ("zero", 0, np.uint8),
            ("none", 0, np.int8),
        )
    ]
    return model(
        [node("QLinearConv", "x s zero w s none s zero")],
        [1, 32, 14, 14],
        [weights("w", 32, 32, 1, 1, dtype=np.int8), *constants],
        TensorProto.UINT8,
        TensorProto.UINT8,
    )


# The pass, and a kernel that it changes, for which target.
CASES = {
    "pipeline_epilogues": (short_sums_of_bytes, AVX512),
    "reduce_register_pressure": (functools.partial(product, 16, 64, 64), IN_ORDER),
    "interleave_chains": (functools.partial(exponentials, 512), IN_ORDER),
    "pipeline_operand_loads": (functools.partial(product, 1, 64, 64), IN_ORDER),
    "order_instructions": (functools.partial(exponentials, 512), IN_ORDER),
}
STAGES = {name: stage for name, _, _, stage in compiler.code_texts() if stage}


def after(name, pass_name):
    """The longest kernel's code: others bring tensors into the form that it reads."""
    build, target = CASES[name]
    kernels = tc.kernels(onnx.load_from_string(build()), target, threads=1)
    return max((kernel.schedule().after_pass(pass_name) for kernel in kernels), key=len)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_changes_its_kernel(name):
    text, rows = after(name, name), list(STAGES)
    if name == "pipeline_epilogues":  # the first one for its target
        assert ".both:" in text
        return
    before = [row for row in rows[: rows.index(name)] if STAGES[row] == STAGES[name]]
    left = next(found for row in reversed(before) if (found := after(name, row)))
    assert text and text != left


def test_only_cores_in_order_are_ordered():
    for core, is_ordered in (("cortex-a53", True), ("neoverse-n1", False)):
        kernels = tc.kernels(onnx.load_from_string(product(4, 16, 16)), core, threads=1)
        assert bool(kernels[-1].schedule().after_pass("order_instructions")) == is_ordered


def test_machine_instructions_behind_a_pass():
    kernel = tc.kernels(onnx.load_from_string(product(4, 16, 16)), IN_ORDER, threads=1)[
        -1
    ].schedule()
    # LLVM selects the form that overwrites a factor.
    before, behind = (
        kernel.after_pass(name) for name in ("hoist_machine_invariants", "tie_accumulators")
    )
    assert "PseudoVFMADD" in before and "PseudoVFMACC" not in before
    assert "PseudoVFMACC" in behind and "PseudoVFMADD" not in behind
    with pytest.raises(
        tc.ModelError,
        match="there is no pass over code that is called 'poem'; the passes are lower_maximum_chains, expand_rounding, sink_extensions, ",
    ):
        kernel.after_pass("poem")
