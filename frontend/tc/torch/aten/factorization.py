"""Systems of linear equations, inverses and Cholesky factors of small matrices, by elimination.
Each step is some nodes of the graph that handle a whole batch of matrices (Golub and Van Loan,
Matrix Computations, 3.4 and 4.2)."""

import numpy as np
import torch

from ..describe import Value
from .table import aten

_LARGEST = 32  # rows: each is a step of about ten nodes


def _order(g, matrix):
    """Checks that the matrices are square and small enough; returns the number of their rows."""
    size = matrix.shape[-1]
    if not isinstance(size, int) or size > _LARGEST:
        g.refuse(
            f"matrices of more than {_LARGEST} rows, or of sizes that are not known while compiling, are not supported"
        )
    return size


class _Matrices:
    """Adds nodes on matrices, given by name, whose axes are `rank - 2` and `rank - 1`."""

    def __init__(self, g, rank, dtype, rows):
        self.g, self.rank, self.dtype = g, rank, dtype
        self.row_numbers = g.array(np.arange(rows, dtype=np.int64).reshape(rows, 1))

    def rows(self, value, begin, end):
        return self.g.slice(value, self.rank - 2, begin, end)

    def columns(self, value, begin, end):
        return self.g.slice(value, self.rank - 1, begin, end)

    def is_row(self, place):
        return self.g.node("Equal", [self.row_numbers, place])

    def where(self, mask, one, other):
        return self.g.node("Where", [mask, one, other])

    def less_product(self, value, column, row):
        return self.g.node("Sub", [value, self.g.node("Mul", [column, row])])


def _swapped(m, value, step, size):
    """Searches column `step`, from row `step` on, for the largest magnitude. Returns the row that
    has it, and the matrix with that row swapped with row `step`."""
    column = m.g.node("Abs", [m.columns(m.rows(value, step, size), step, step + 1)])
    place = m.g.node(
        "Add",
        [
            m.g.node("ArgMax", [column], axis=m.rank - 2, keepdims=1),
            m.g.constant(step, torch.int64),
        ],
    )
    is_pivot = m.is_row(place)
    zero = m.g.constant(0, m.dtype)
    pivot = m.g.node(
        "ReduceSum", [m.where(is_pivot, value, zero), m.g.ints([m.rank - 2])], keepdims=1
    )
    return pivot, m.where(is_pivot, m.rows(value, step, step + 1), value)


def _solved(g, matrix, right, rank, dtype, size):
    """The name of X in A X = B, by Gauss-Jordan elimination with the largest pivots."""
    m = _Matrices(g, rank, dtype, size)
    value = g.node("Concat", [matrix, right], axis=rank - 1)
    for step in range(size):
        pivot, value = _swapped(m, value, step, size)
        row = g.node("Div", [pivot, m.columns(pivot, step, step + 1)])
        rest = m.less_product(value, m.columns(value, step, step + 1), row)
        value = m.where(m.is_row(g.constant(step, torch.int64)), row, rest)
    return m.columns(value, size, 2**63 - 1)


def _identity(g, matrix, size):
    return g.node(
        "Expand",
        [
            g.array(np.eye(size))
            if matrix.dtype == torch.float64
            else g.array(np.eye(size, dtype=np.float32)),
            g.ints(matrix.shape),
        ],
    )


def _no_faults(g, matrix):
    return g.full(matrix.shape[:-2], 0, torch.int32)


@aten("linalg_inv_ex", ops="ArgMax, Where, Div, Mul, Sub")
def inverse(g, A, check_errors=False):
    size = _order(g, A)
    return _solved(g, A, _identity(g, A, size), A.rank, A.dtype, size), _no_faults(g, A)


@aten("linalg_inv", "inverse", ops="ArgMax, Where, Div, Mul, Sub")
def inverse_alone(g, A=None, self=None):
    return inverse(g, self if A is None else A)[0]


@aten("_linalg_solve_ex", ops="ArgMax, Where, Div, Mul, Sub")
def solve(g, A, B, left=True, check_errors=False):
    size = _order(g, A)
    is_vector = B.rank == 1 or (B.rank == A.rank - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    right = g.node("Unsqueeze", [B, g.ints([B.rank])]) if is_vector else B
    rank = len(g.out[0].shape) + is_vector
    shape = tuple(g.out[0].shape) + (1,) * is_vector
    # X A = B is solved as A^T X^T = B^T.
    matrix, batch = A, list(shape[:-2])
    if not left:
        right, matrix = (
            _turned(g, right, B.rank + is_vector),
            Value(_turned(g, A, A.rank), A.fake.transpose(-1, -2)),
        )
        shape = (*batch, shape[-1], shape[-2])
    matrix = g.node("Expand", [matrix, g.ints([*batch, size, size])])
    right = g.node("Expand", [right, g.ints(shape)])
    result = _solved(g, matrix, right, rank, A.dtype, size)
    if not left:
        result = _turned(g, result, rank)
    result = g.node("Squeeze", [result, g.ints([rank - 1])]) if is_vector else result
    return result, None, None, _no_faults(g, A)


def _turned(g, value, rank):
    return g.transpose(value, [*range(rank - 2), rank - 1, rank - 2])


@aten("linalg_solve_triangular", ops="Where, Div, Mul, Sub")
def solve_triangular(g, self, B, upper, left=True, unitriangular=False):
    """Substitution, row by row from the end at which the solution is known. Elements on the other
    side of the diagonal are not read."""
    size, rank = _order(g, self), len(g.out.shape)
    matrix, shape = self.name, list(g.out.shape)
    right, batch = B.name, shape[:-2]
    if not left:  # X A = B is A^T X^T = B^T
        matrix, right, upper = _turned(g, self, self.rank), _turned(g, B, B.rank), not upper
        shape[-2:] = reversed(shape[-2:])
    m = _Matrices(g, rank, self.dtype, size)
    matrix = g.node("Expand", [matrix, g.ints([*batch, size, size])])
    value = g.node("Expand", [right, g.ints(shape)])
    for step in reversed(range(size)) if upper else range(size):
        column = m.columns(matrix, step, step + 1)
        row = m.rows(value, step, step + 1)
        if not unitriangular:
            row = g.node("Div", [row, m.rows(column, step, step + 1)])
        place = g.constant(step, torch.int64)
        open_rows = g.node("Less" if upper else "Greater", [m.row_numbers, place])
        value = m.where(
            open_rows, m.less_product(value, column, row), m.where(m.is_row(place), row, value)
        )
    return value if left else _turned(g, value, rank)


@aten("linalg_cholesky_ex", ops="Sqrt, Where, Div, Mul, Sub")
def cholesky_ex(g, self, upper=False, check_errors=False):
    size, rank = _order(g, self), self.rank
    m = _Matrices(g, rank, self.dtype, size)
    # Only one half is read; it is turned so that it is the lower triangle.
    rest = _turned(g, self, rank) if upper else self.name
    zero, columns = g.constant(0, self.dtype), []
    for step in range(size):
        column = m.columns(rest, step, step + 1)
        root = g.node("Sqrt", [m.rows(column, step, step + 1)])
        above = g.node("Less", [m.row_numbers, g.constant(step, torch.int64)])
        column = m.where(above, zero, g.node("Div", [column, root]))
        columns.append(column)
        if step + 1 < size:
            rest = m.less_product(rest, column, _turned(g, column, rank))
    lower = g.node("Concat", columns, axis=rank - 1) if size > 1 else columns[0]
    return _turned(g, lower, rank) if upper else lower, _no_faults(g, self)


@aten("cholesky", "linalg_cholesky", ops="Sqrt, Where, Div, Mul, Sub")
def cholesky(g, self, upper=False):
    return cholesky_ex(g, self, upper)[0]


@aten("cholesky_solve", ops="Where, Div, Mul, Sub")
def cholesky_solve(g, self, input2, upper=False):
    """Solves L L^T X = B for X."""
    turned = Value(_turned(g, input2, input2.rank), input2.fake.transpose(-1, -2))
    lower, its_transpose = (turned, input2) if upper else (input2, turned)
    half = Value(solve_triangular(g, lower, self, upper=False), g.out)
    return solve_triangular(g, its_transpose, half, upper=True)


@aten("cholesky_inverse", ops="Where, Div, Mul, Sub")
def cholesky_inverse(g, self, upper=False):
    return cholesky_solve(g, Value(_identity(g, self, _order(g, self)), self.fake), self, upper)
