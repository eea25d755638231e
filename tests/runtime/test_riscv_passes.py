"""What passes and choices of their own leave in the code of RISC-V's vectors; each test fails where
its pass is left out."""

import re

import numpy as np
import onnx
import pytest
import tc

from ..support import run_under_qemu, worst_error
from .test_riscv_spills import convolution, draw, model, pooling


def assembly_of(tmp_path, network, target="rv64gcv_zvl256b"):
    """The assembly of the model's one kernel."""
    path = tmp_path / "model.onnx"
    onnx.save(network, path)
    kernels = tc.kernels(path, target, threads=1)
    return max((kernel.schedule().assembly for kernel in kernels), key=len)


def widths_of_products(text):
    """The registers (LMUL) of each product of a vector and an element."""
    widths = []
    width = None
    for line in text.splitlines():
        if found := re.match(r"\tvset\w*vli\t.*, m(\d)", line):
            width = int(found[1])
        if re.match(r"\tvfmacc\.vf\t", line):
            widths.append(width)
    return widths


# lower_maximum_chains (codegen/llvm/passes/lower_maximum_chains.h): two instructions for an element
# of a window of nine. A comparison for each would be there without it, as `llvm.maximum` is
# expanded.
def test_maxima_of_windows_compare_once(tmp_path):
    text = assembly_of(tmp_path, pooling("MaxPool", 3, 2))
    maxima, comparisons = (
        len(re.findall(rf"\t{name}\.v", text)) for name in ("vfmax", "vmf(?:eq|ne|gt|lt|ge|le)")
    )
    assert maxima > 0 and 2 * comparisons < maxima, (maxima, comparisons)


# may_double (scheduler/default/choices.cc): sums of four registers share a scalar load where sums
# are long, of two where they are short.
@pytest.mark.parametrize("depth, lanes", [(1200, 4), (32, 2)])
def test_products_of_long_sums_have_twice_the_lanes(tmp_path, depth, lanes):
    text = assembly_of(
        tmp_path, model({"x": [128, depth]}, [("MatMul", "x w", "y", {})], w=draw(depth, 256))
    )
    widths = widths_of_products(text)
    assert widths and np.median(widths) == lanes, sorted(widths)


# touch_stores (codegen/llvm/emit/tile_store_prefetch.cc): lines that a convolution's epilogue
# stores come near while its sum is made, where the second cache does not hold the map, in a loop
# (48 channels) and in straight code (16).
@pytest.mark.parametrize(
    "channels, features, touches",
    [(48, 512, True), (48, 64, False), (16, 512, True), (16, 64, False)],
)
def test_stored_lines_are_touched(tmp_path, channels, features, touches):
    text = assembly_of(tmp_path, convolution(channels, features, 12, 1))
    assert ("lbu\tzero, " in text) == touches, text


# join_vectors (codegen/llvm/passes/join_vectors.h): two blocks of channels of a 1x1 convolution are
# one vector of four registers where the sum is long.
@pytest.mark.parametrize("channels, lanes", [(128, 4), (16, 2)])
def test_blocks_of_long_sums_are_joined(tmp_path, channels, lanes):
    widths = widths_of_products(assembly_of(tmp_path, convolution(channels, 128, 12, 1)))
    assert widths and np.median(widths) == lanes, sorted(widths)


# may_join (scheduler/default/choices.cc): at 512 bits the last of three blocks of 32 channels
# follows a pair; a map of 64 is one.
@pytest.mark.parametrize("features, widths", [(96, {4, 2}), (64, {4})])
def test_a_block_follows_pairs(tmp_path, features, widths):
    assert (
        set(
            widths_of_products(
                assembly_of(tmp_path, convolution(128, features, 14, 1), "rv64gcv_zvl512b")
            )
        )
        == widths
    )


# Target::width_for: 48 channels are three registers of 512 bits, of which joins_in_part
# (codegen/llvm/passes/join_vectors.cc) joins no two.
def test_three_registers_stay_apart(tmp_path):
    widths = widths_of_products(
        assembly_of(tmp_path, convolution(128, 48, 13, 1), "rv64gcv_zvl512b")
    )
    assert set(widths) == {1}, sorted(widths)


# unroll_copies_of_sums (scheduler/default/tile_plan.cc): a block of channels is one stretch, of 16
# at 256 bits and of 32 at 512.
@pytest.mark.parametrize("target, block", [("rv64gcv_zvl256b", 16), ("rv64gcv_zvl512b", 32)])
def test_a_block_of_channels_is_one_stretch(tmp_path, target, block):
    path = tmp_path / "model.onnx"
    onnx.save(convolution(128, 64, 14, 1), path)
    traces = [kernel.schedule().trace for kernel in tc.kernels(path, target, threads=1)]
    assert any(f"unroll macc_c_i {block}" in trace for trace in traces), traces


# create_tie_accumulators (codegen/llvm/passes/tie_accumulators.h): no multiply-add overwrites its
# weights.
def test_sums_stay_in_their_registers(tmp_path):
    text = assembly_of(tmp_path, convolution(128, 128, 56, 3, groups=128))
    assert "vfmacc.vv" in text and "vfmadd.vv" not in text, text


# The same pass: where one operand of a multiply-add has to be copied, it is the constant, not the
# factor that was computed just before.
def test_polynomials_copy_their_constants(tmp_path):
    text = assembly_of(tmp_path, model({"x": [4096]}, [("Sigmoid", "x", "y", {})]))
    assert len(re.findall(r"\tvmv\dr\.v\t", text)) > 0, text
    copied = re.findall(r"\tvmv\dr\.v\t(v\d+), v\d+\n(?:.*\n){,3}\tvfmadd\.vf\t\1,", text)
    assert not copied, text


# pays_in_words (scheduler/default/choices.cc): of a matrix that the second cache does not hold, two
# loads bring three vectors of weights, of which the middle one takes a multiply-add of integers
# (add_multiple in codegen/llvm/units/riscv_vector_instructions.cc).
@pytest.mark.parametrize(
    "features, tolerance, words", [(1200, 1e-4, True), (1200, 0, False), (96, 1e-4, False)]
)
def test_weights_of_a_large_matrix_are_words(tmp_path, features, tolerance, words):
    path = tmp_path / "model.onnx"
    onnx.save(model({"x": [1, 400]}, [("MatMul", "x w", "y", {})], w=draw(400, features)), path)
    text = max(
        (
            kernel.schedule().assembly
            for kernel in tc.kernels(path, "rv64gcv_zvl256b", threads=1, tolerance=tolerance)
        ),
        key=len,
    )
    sums, conversions, products = (
        len(re.findall(rf"\t{name}\t", text))
        for name in (r"vmacc\.vx", r"vfcvt\.f\.x\.v", r"vfm(?:acc|add)\.vf")
    )
    assert products > 0 and (sums > 0) == words and (conversions > 0) == words, (
        sums,
        conversions,
        products,
    )
    assert not words or 2 * sums < conversions <= 3 * sums and products >= 0.9 * conversions, (
        sums,
        conversions,
        products,
    )


# is_even_matrix (frontend/pipeline/plan_builder.cc): weights that are all equal stay floats, so
# that a softmax of large results does not tell features apart.
def test_equal_weights_give_equal_results(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(
        model(
            {"x": [1, 400]},
            [("MatMul", "x w", "p", {}), ("Softmax", "p", "y", {})],
            w=np.full((400, 1200), 0.3, np.float32),
        ),
        path,
    )
    module = tc.compile(path, "rv64gcv_zvl256b", threads=1, log=False)
    module.export(str(tmp_path / "program"), kind="executable")
    outputs = run_under_qemu(tmp_path / "program", {"x": 1e17 * np.abs(draw(1, 400))}, tmp_path)
    assert worst_error(outputs["y.npy"], np.full((1, 1200), 1 / 1200)) < 1e-6


def test_other_weights_are_words_beside_equal_ones(tmp_path):
    path = tmp_path / "model.onnx"
    nodes = [("Gemm", "x w b", "p", {}), ("Gemm", "p v b", "y", {})]
    onnx.save(
        model(
            {"x": [1, 600]},
            nodes,
            w=draw(600, 600),
            v=np.full((600, 600), 0.3, np.float32),
            b=np.full((1, 600), 0.5, np.float32),
        ),
        path,
    )
    kernels = tc.compile(path, "rv64gcv_zvl256b", threads=1, log=False).kernels
    assert ["int21" in "\n".join(kernel["trace"]) for kernel in kernels] == [True, False]
    assert kernels[1]["tolerance"] < kernels[0]["tolerance"] == 1e-4
    # A schedule that is found for one is not the other's.
    assert kernels[0]["workload"] != kernels[1]["workload"]


# add_product (codegen/llvm/emit/tile_emitter.cc; at 1024 bits) and choose_zeros
# (codegen/llvm/passes/branchless_borders.cc; at 256): where a product is left out at a border, its
# element is read from zeros, whose address is computed, and its weights are read as they are.
@pytest.mark.parametrize("target", ["rv64gcv_zvl256b", "rv64gcv_zvl1024b"])
def test_weights_are_not_chosen_at_borders(tmp_path, target):
    path = tmp_path / "model.onnx"
    onnx.save(convolution(64, 64, 27, 5), path)
    text = max((kernel.schedule().llvm for kernel in tc.kernels(path, target, threads=1)), key=len)
    assert "@kernel.zeros" in text
    assert not re.findall(
        r"select i1 %\S+, (?:<\d+ x float>|ptr @kernel\.zeros|ptr %\S+, ptr @kernel\.zeros).*", text
    )


# kCoreInOrder (codegen/llvm/passes/order_instructions.cc): a store holds the memory port for as
# long as an operation holds the vector unit, so an epilogue has at most two stores in a row. By an
# out-of-order core's table LLVM puts three and more side by side.
def test_stores_of_an_epilogue_alternate_with_arithmetic(tmp_path):
    text = assembly_of(tmp_path, convolution(64, 256, 56, 1))
    vectors = re.findall(r"^\t(v\w+)\.", text, re.M)
    kinds = "".join("s" if re.fullmatch(r"vse\d+", name) else "v" for name in vectors)
    assert "s" in kinds and "sss" not in kinds, max(re.findall("s+", kinds), key=len)
