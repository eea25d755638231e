"""What each pass over a kernel's code makes of a small kernel: not what the passes before it leave,
and of some the golden text."""

import functools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc.native import compiler
from tests.support import ROOT, expect_golden

IN_ORDER, AVX2, AVX512 = "rv64gcv_zvl256b", "x86-64-v3", "x86-64-v4+avx512vnni"


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


def convolution(channels, results, size, kernel):
    return model(
        [node("Conv", "x w")],
        [1, channels, size, size],
        [weights("w", results, channels, kernel, kernel)],
    )


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
        [1, 8, 8, 8],
        [weights("w", 32, 8, 1, 1, dtype=np.int8), *constants],
        TensorProto.UINT8,
        TensorProto.UINT8,
    )


# The pass, a kernel that it changes, for which target, and whether its text is golden.
CASES = {
    "overlap_sums": (short_sums_of_bytes, AVX512, True),
    "split_masked_accesses": (functools.partial(product, 3, 4, 11), AVX2, True),
    "join_vectors": (functools.partial(convolution, 4, 32, 6, 1), IN_ORDER, False),
    "fit_registers": (functools.partial(product, 16, 64, 64), IN_ORDER, False),
    "interleave": (functools.partial(exponentials, 512), IN_ORDER, True),
    "preload_sums": (functools.partial(product, 1, 64, 64), IN_ORDER, False),
    "order": (functools.partial(exponentials, 512), IN_ORDER, True),
}
# What has a test on functions of a few lines.
ELSEWHERE = {
    "maxima": "tests/runtime/test_riscv_maxima.py",
    "choose_addresses": "tests/codegen/choose_addresses_test.cc",
    "run_through_borders": "tests/codegen/choose_addresses_test.cc",
    "spill_sums": "tests/codegen/in_order_test.cc",
    "loop_invariants": "tests/runtime/test_riscv_passes.py",
    "sums_in_place": "tests/runtime/test_riscv_passes.py",
}
STAGES = {name: stage for name, _, _, stage in compiler.code_texts() if stage}


def after(name, pass_name):
    build, target, _ = CASES[name]
    kernels = tc.kernels(onnx.load_from_string(build()), target, threads=1)
    return kernels[-1].schedule().after_pass(pass_name)


def test_every_pass_has_a_test():
    assert {*CASES, *ELSEWHERE} == set(STAGES) and not CASES.keys() & ELSEWHERE.keys()
    assert all((ROOT / file).is_file() for file in ELSEWHERE.values())


@pytest.mark.parametrize("name", CASES)
def test_a_pass_changes_its_kernel(name):
    text, rows = after(name, name), list(STAGES)
    before = [row for row in rows[: rows.index(name)] if STAGES[row] == STAGES[name]]
    left = next((found for row in reversed(before) if (found := after(name, row))), "")
    assert text and text != left
    if CASES[name][2]:
        expect_golden(ROOT / "tests" / "golden" / "code_passes" / f"{name}.ll", text)


def test_the_order_of_arm_cores():
    """A core that executes in order loads ahead, and NEON's registers hold the scalars, too; one
    out of order is left alone."""
    texts = {
        core: tc.kernels(onnx.load_from_string(product(4, 16, 16)), core, threads=1)[-1]
        .schedule()
        .after_pass("order")
        for core in ("cortex-a53", "neoverse-n1")
    }
    assert texts["neoverse-n1"] == ""
    expect_golden(
        ROOT / "tests" / "golden" / "code_passes" / "order_cortex_a53.ll", texts["cortex-a53"]
    )


def test_machine_instructions_behind_a_pass():
    kernel = tc.kernels(onnx.load_from_string(product(4, 16, 16)), IN_ORDER, threads=1)[
        -1
    ].schedule()
    # LLVM selects the form that overwrites a factor.
    before, behind = (kernel.after_pass(name) for name in ("loop_invariants", "sums_in_place"))
    assert "PseudoVFMADD" in before and "PseudoVFMACC" not in before
    assert "PseudoVFMACC" in behind and "PseudoVFMADD" not in behind
    with pytest.raises(
        tc.ModelError,
        match="there is no pass over code that is called 'poem'; the passes are maxima, overlap_sums, ",
    ):
        kernel.after_pass("poem")
