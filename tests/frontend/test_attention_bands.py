"""Attentions whose scores would leave the cache run as one kernel, in bands of rows."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc
from tests.support import run_under_qemu

# A mask's shape, for scores of [batch, heads, queries, keys]; None: there is none.
MASKS = {
    "none": None,
    "keys": (1, 1, 1, "keys"),
    "square": (1, 1, "queries", "keys"),
    "heads": (1, "heads", "queries", "keys"),
}


def attention(batch, heads, queries, keys, size, mask, scale=0.125, kept=False, causal=False):
    """A model of one attention over plain operands, and a function that computes it in float64."""
    sizes = {"heads": heads, "queries": queries, "keys": keys}
    inputs = [
        helper.make_tensor_value_info("q", TensorProto.FLOAT, [batch, queries, heads, size]),
        helper.make_tensor_value_info("k", TensorProto.FLOAT, [batch, keys, heads, size]),
        helper.make_tensor_value_info("v", TensorProto.FLOAT, [batch, keys, heads, size]),
    ]
    constants = [helper.make_tensor("scale", TensorProto.FLOAT, [], [scale])]
    nodes = [
        helper.make_node("Transpose", ["q"], ["qt"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["v"], ["vt"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["qt", "kt"], ["products"]),
    ]
    scores = "products"
    if scale != 1:
        nodes.append(helper.make_node("Mul", [scores, "scale"], ["scaled"]))
        scores = "scaled"
    shape = mask and [sizes.get(each, each) for each in mask]
    if shape:
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, shape))
        nodes.append(helper.make_node("Add", [scores, "mask"], ["masked"]))
        scores = "masked"
    nodes += [
        helper.make_node("Softmax", [scores], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "vt"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["y"], perm=[0, 2, 1, 3]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, queries, heads, size])]
    if kept:
        outputs.append(
            helper.make_tensor_value_info(
                "weights", TensorProto.FLOAT, [batch, heads, queries, keys]
            )
        )
    model = helper.make_model(
        helper.make_graph(nodes, "attention", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model)
    random = np.random.default_rng(queries + keys)
    arrays = {
        each.name: random.standard_normal(
            [d.dim_value for d in each.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for each in inputs
    }
    if causal:
        arrays["mask"] = (
            np.where(np.tri(queries, keys, keys - queries, dtype=bool), 0, -np.inf)
            .astype(np.float32)
            .reshape(shape)
        )
    return model, arrays


def expected(arrays, scale):
    q, k, v = (arrays[name].astype(np.float64).transpose(0, 2, 1, 3) for name in "qkv")
    scores = scale * (q @ k.transpose(0, 1, 3, 2)) + arrays.get("mask", 0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v).transpose(0, 2, 1, 3)


def kernels_of(model, **options):
    return tc.kernels(model.SerializeToString(), **options)


def run(model, arrays, **options):
    return np.asarray(tc.compile(model.SerializeToString(), log=False, **options)(**arrays))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("queries, keys, size", [(260, 260, 64), (197, 309, 32), (709, 300, 16)])
def test_an_attention_is_one_kernel(mask, queries, keys, size):
    model, arrays = attention(1, 4, queries, keys, size, MASKS[mask])
    (kernel,) = kernels_of(model, target="x86-64-v3")
    assert any(line.startswith("compute_at ") and line.endswith("_band") for line in kernel.trace)
    for threads, tolerance in ((1, 0), (2, 1e-4)):
        got = run(model, arrays, threads=threads, tolerance=tolerance)
        np.testing.assert_allclose(got, expected(arrays, 0.125), rtol=2e-5, atol=2e-6)


def test_a_causal_mask_leaves_out_later_keys():
    model, arrays = attention(1, 4, 260, 260, 64, MASKS["square"], causal=True)
    assert len(kernels_of(model, target="x86-64-v3")) == 1
    np.testing.assert_allclose(run(model, arrays), expected(arrays, 0.125), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("batch, heads", [(1, 1), (2, 3), (3, 1)])
def test_batches_and_heads(batch, heads):
    # Without a scale the scores are the accumulators themselves.
    model, arrays = attention(
        batch, heads, 512, 384, 32, MASKS["keys"] if heads == 3 else None, scale=1
    )
    kernels = kernels_of(model, target="x86-64-v3")
    # With one head there is no loop in which its keys would be packed once.
    assert len(kernels) == (1 if batch * heads > 1 else 3), [each.label for each in kernels]
    np.testing.assert_allclose(
        run(model, arrays, threads=1), expected(arrays, 1), rtol=2e-5, atol=2e-5
    )


@pytest.mark.parametrize("vlen", [128, 256])
def test_on_the_simulated_board(vlen, tmp_path):
    model, arrays = attention(1, 2, 350, 350, 32, MASKS["square"])
    assert len(kernels_of(model, target="rv64gcv")) == 1
    compiled = tc.compile(model.SerializeToString(), target="rv64gcv", log=False)
    compiled.export(tmp_path / "attention", kind="executable")
    (got,) = run_under_qemu(tmp_path / "attention", arrays, tmp_path, vlen=vlen).values()
    want = expected(arrays, 0.125)
    np.testing.assert_allclose(np.asarray(got).reshape(want.shape), want, rtol=2e-5, atol=2e-6)


def test_where_it_would_not_pay_or_could_not_be_it_stays_three_kernels():
    small, _ = attention(1, 4, 64, 64, 64, None)
    assert len(kernels_of(small, target="x86-64-v3")) == 3
    # One and a half times the second cache.
    larger, _ = attention(1, 12, 128, 128, 32, None)
    assert len(kernels_of(larger, target="x86-64-v3")) == 3
    # The weights are asked for as well.
    kept, _ = attention(1, 4, 260, 260, 64, None, kept=True)
    assert len(kernels_of(kept, target="x86-64-v3")) >= 3
    # Threads without heads of their own would wait.
    few, _ = attention(1, 2, 520, 520, 64, None)
    assert len(kernels_of(few, target="x86-64-v3", threads=2)) == 1
    assert len(kernels_of(few, target="x86-64-v3", threads=4)) == 3


def test_the_scores_are_not_in_the_arena():
    model, _ = attention(1, 4, 709, 709, 16, None)
    compiled = tc.compile(model.SerializeToString(), log=False, target="x86-64-v3")
    assert compiled.memory.arena < 4 * 709 * 709 * 4 / 4
