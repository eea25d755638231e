"""Which layers stay in floats whatever the options ask for, and why."""

import numpy as np

from .prepare import _plain
from .rounding import ARITHMETIC, OTHERS, SUMS

# Operators that compute products (with weights or of their operands) and that are not turned into
# integers.
PRODUCTS = (
    "LSTM",
    "GRU",
    "RNN",
    "Einsum",
    "Attention",
    "MultiHeadAttention",
    "GroupQueryAttention",
    "FusedMatMul",
    "FusedConv",
    "FusedGemm",
    "DeformConv",
    "LinearAttention",
)
# Operators that only move, count or choose elements; they are not listed among the floats.
NOT_REPORTED = (
    *OTHERS,
    *ARITHMETIC,
    "Relu",
    "Clip",
    "Constant",
    "ConstantOfShape",
    "Shape",
    "Size",
    "Gather",
    "Cast",
    "Range",
    "Expand",
    "Split",
    "Where",
    "Pad",
    "Tile",
    "NonZero",
    "ArgMax",
    "ArgMin",
    "TopK",
)


def why_sum_stays(network, node):
    """Why rounding.sums_of does not turn this Conv, ConvTranspose, Gemm or MatMul into a sum of
    integers."""
    weights = network.constant(node, 1)
    if weights is None:
        return "its second operand is computed by the network, and only constant weights become integers"
    if weights.dtype != np.float32:
        return f"its weights are {weights.dtype}, and only those of float32 become integers"
    if weights.size == 0:
        return "its weights are empty"
    if not np.isfinite(weights).all():
        return "its weights hold NaN or infinite numbers"
    if node.input[0] in network.constants:
        return "it reads a constant alone"
    if node.op_type == "Gemm" and not _plain(node):
        return "it has alpha, beta or transA, which sums of integers have not"
    return f"its weights have {weights.ndim} axes, and only matrices become integers"


def floating_layers(network, sums, is_float):
    """[(node, why)] of all nodes that compute floats and are not among `sums`, in the network's
    order."""
    known = {node.name for node in sums}
    found = []
    for node in network.nodes:
        if node.name in known:
            continue
        if node.op_type in SUMS:
            found.append((node, why_sum_stays(network, node)))
        elif node.op_type in PRODUCTS:
            found.append(
                (
                    node,
                    f"{node.op_type} has no form in integers; Conv, ConvTranspose, Gemm and MatMul by constants have",
                )
            )
        elif node.op_type not in NOT_REPORTED and any(name in is_float for name in node.output):
            found.append((node, "it adds up no products by constants"))
    return found


def floats_text(layers):
    """Lines of a report: each layer with products by name, and one line per operator and reason for
    the others."""
    lines, groups = [], {}
    for layer in layers:
        if layer.op in SUMS or layer.op in PRODUCTS:
            lines.append(f"  floats    {layer.op} '{layer.node}'  ({layer.why})")
        else:
            groups.setdefault((layer.op, layer.why), []).append(f"'{layer.node}'")
    return lines + [
        f"  floats    {op} {', '.join(names)}  ({why})" for (op, why), names in groups.items()
    ]
