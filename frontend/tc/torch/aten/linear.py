"""Matrix products."""

import string

import torch

from .arithmetic import scaled
from .table import aten


@aten("linear", ops="Gemm, MatMul, Add")
def linear(g, input, weight, bias=None):
    if input.rank == 2:
        return g.node("Gemm", [input, weight, bias], transB=1)
    product = g.node("MatMul", [input, g.transpose(weight, [1, 0]) if weight.rank == 2 else weight])
    return product if bias is None else g.node("Add", [product, bias])


@aten("mm", "bmm", "matmul", "mv", "dot", "vdot", ops="MatMul")
def matmul(g, self, mat2=None, other=None, vec=None, tensor=None):
    second = next(each for each in (mat2, other, vec, tensor) if each is not None)
    return g.node("MatMul", [self, second])


@aten("addmm", ops="Gemm")
def addmm(g, self, mat1, mat2, beta=1, alpha=1):
    if not self.dtype.is_floating_point:
        product = g.node("MatMul", [mat1, mat2])
        return g.node("Add", [_by(g, self, beta), _by(g, product, alpha, self.dtype)])
    return g.node("Gemm", [mat1, mat2, self], alpha=float(alpha), beta=float(beta))


def _by(g, value, factor, dtype=None):
    return (
        value if factor == 1 else g.node("Mul", [value, g.constant(factor, dtype or g.out.dtype)])
    )


@aten("baddbmm", "addmv", ops="MatMul, Add")
def baddbmm(g, self, batch1=None, batch2=None, mat=None, vec=None, beta=1, alpha=1):
    product = g.node("MatMul", [batch1 or mat, batch2 or vec])
    product = _by(g, product, alpha)
    return product if beta == 0 else g.node("Add", [scaled(g, self, beta, g.out.dtype), product])


@aten("einsum", ops="Einsum, ReduceSum")
def einsum(g, equation, tensors, path=None):
    if any(c not in string.ascii_letters + ",.-> " for c in equation):
        g.refuse(f"the equation '{equation}' is not of letters")
    equation = equation.replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    if not arrow or "..." not in inputs or "..." in output:
        return g.node("Einsum", tensors, equation=equation)
    # ONNX's Einsum cannot sum over the axes of an ellipsis.
    axes = max(
        tensor.rank - len(term.replace("...", ""))
        for term, tensor in zip(inputs.split(","), tensors)
        if "..." in term
    )
    product = g.node("Einsum", tensors, equation=f"{inputs}->...{output}")
    return g.node("ReduceSum", [product, g.ints(range(axes))], keepdims=0) if axes else product


@aten("outer", "ger", ops="Mul")
def outer(g, self, vec2):
    dtype = g.out.dtype
    return g.node(
        "And" if dtype == torch.bool else "Mul",
        [g.node("Unsqueeze", [g.cast(self, dtype), g.ints([1])]), g.cast(vec2, dtype)],
    )


@aten("linalg_det", "det", ops="Det")
def det(g, self=None, A=None):
    return g.node("Det", [A if self is None else self])


@aten("_linalg_slogdet", ops="Det, Sign, Log")
def slogdet(g, A):
    value = g.node("Det", [A])
    return g.node("Sign", [value]), g.node("Log", [g.node("Abs", [value])]), None, None


@aten("_pdist_forward", ops="Sub, ReduceL2, Gather")
def pdist(g, self, p=2):
    """The distance of each pair of rows, once per pair."""
    count = self.shape[0]
    if not isinstance(count, int):
        g.refuse("the number of rows is not known while compiling")
    places = torch.triu_indices(count, count, 1)
    flat = g.reshape(cdist(g, self, self, p), [-1])
    return g.node("Gather", [flat, g.array((places[0] * count + places[1]).numpy())], axis=0)


@aten("bilinear", ops="Einsum, Add")
def bilinear(g, input1, input2, weight, bias=None):
    product = g.node("Einsum", [input1, weight, input2], equation="...i,oij,...j->...o")
    return product if bias is None else g.node("Add", [product, bias])


@aten("cosine_similarity", ops="ReduceSum, Div")
def cosine_similarity(g, x1, x2, dim=1, eps=1e-8):
    dtype = g.out.dtype
    a, b = g.cast(x1, dtype), g.cast(x2, dtype)
    axes = g.ints([dim])
    total = g.node("ReduceSum", [g.node("Mul", [a, b]), axes], keepdims=0)
    lengths = [
        g.node(
            "Max",
            [
                g.node(
                    "Sqrt", [g.node("ReduceSum", [g.node("Mul", [each, each]), axes], keepdims=0)]
                ),
                g.constant(eps, dtype),
            ],
        )
        for each in (a, b)
    ]
    return g.node("Div", [total, g.node("Mul", lengths)])


@aten("addbmm", ops="MatMul, ReduceSum, Add")
def addbmm(g, self, batch1, batch2, beta=1, alpha=1):
    product = _by(
        g, g.node("ReduceSum", [g.node("MatMul", [batch1, batch2]), g.ints([0])], keepdims=0), alpha
    )
    return product if beta == 0 else g.node("Add", [scaled(g, self, beta, g.out.dtype), product])


@aten("_cdist_forward", "_euclidean_dist", ops="Sub, ReduceL2")
def cdist(g, x1, x2, p=2, compute_mode=None):
    """Distances of all pairs of rows."""
    rows = g.node("Unsqueeze", [x1, g.ints([-2])])
    columns = g.node("Unsqueeze", [x2, g.ints([-3])])
    apart = g.node("Sub", [rows, columns])
    axes = g.ints([-1])
    if p in (1, 2):
        return g.node(f"ReduceL{int(p)}", [apart, axes], keepdims=0)
    size = g.node("Abs", [apart])
    if p == float("inf"):
        return g.node("ReduceMax", [size, axes], keepdims=0)
    if p == 0:
        unlike = g.node("Greater", [size, g.constant(0, g.out.dtype)])
        return g.node("ReduceSum", [g.cast(unlike, g.out.dtype, torch.bool), axes], keepdims=0)
    total = g.node(
        "ReduceSum", [g.node("Pow", [size, g.constant(p, g.out.dtype)]), axes], keepdims=0
    )
    return g.node("Pow", [total, g.constant(1 / p, g.out.dtype)])
