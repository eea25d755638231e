"""Systems of equations, inverses and factors of small matrices, one or a batch of them."""

import torch

from .cases import Cases, floats

CASES = Cases()
of, each = CASES.of, CASES.each

# Far from singular; those of the batch whose largest elements are not on the diagonal need an
# exchange of rows.
MATRICES = floats(3, 4, 4) + 4 * torch.eye(4)[[1, 0, 3, 2]]
POSITIVE = MATRICES @ MATRICES.mT + torch.eye(4)

each(
    MATRICES,
    floats(3, 4, 2),
    floats(4),
    tolerance=1e-4,
    inverses=lambda a, b, v: (
        torch.linalg.inv(a),
        torch.inverse(a[0]),
        torch.linalg.inv_ex(a)[1],
        a[:, :1, :1].inverse(),
    ),
    solutions=lambda a, b, v: (
        torch.linalg.solve(a, b),
        torch.linalg.solve(a, b.mT, left=False),
        torch.linalg.solve(a[0], b),
        torch.linalg.solve(a[1], v),
    ),
    solutions_of_vectors=lambda a, b, v: (
        torch.linalg.solve(a, b[..., 0]),
        torch.linalg.solve(a.double(), b.double()),
    ),
    determinants=lambda a, b, v: (torch.linalg.det(a), *torch.linalg.slogdet(a)),
)
each(
    POSITIVE,
    floats(3, 4, 2),
    tolerance=1e-4,
    cholesky=lambda p, b: (
        torch.linalg.cholesky(p),
        torch.linalg.cholesky(p, upper=True),
        torch.linalg.cholesky_ex(p[0])[0],
    ),
    cholesky_solutions=lambda p, b: (
        torch.cholesky_solve(b, torch.linalg.cholesky(p)),
        torch.cholesky_inverse(torch.linalg.cholesky(p[0])),
    ),
    triangular=lambda p, b: (
        torch.linalg.solve_triangular(p, b, upper=True),
        torch.linalg.solve_triangular(p, b, upper=False),
    ),
    triangular_otherwise=lambda p, b: (
        torch.linalg.solve_triangular(p, b.mT, upper=True, left=False),
        torch.linalg.solve_triangular(p[0], b, upper=False, unitriangular=True),
    ),
)


@of(torch.tensor([[0.0, 1, 0], [0, 0, 2], [3, 0, 0]]))
def rows_in_another_order(a):
    return torch.linalg.inv(a), torch.linalg.solve(a, torch.eye(3)[:, :2])


@of(floats(2, 3, 3), floats(2, 5, 3))
def points_of_a_camera(pose, points):
    turned = torch.linalg.inv(pose @ pose.mT + torch.eye(3))
    return points @ turned.mT


@of(floats(40, 40), refused="more than 32 rows")
def a_large_matrix(a):
    return torch.linalg.inv(a)


@of(floats(4, 3), refused="linalg_pinv")
def a_pseudo_inverse(a):
    return torch.linalg.pinv(a)
