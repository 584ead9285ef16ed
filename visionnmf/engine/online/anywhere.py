"""The operations that online methods need, for arrays of NumPy by compiled kernels, and for others on their device.

A method that is written with them and the array API learns from both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf.engine import products, quadratic, solving
from visionnmf.engine.arrays import factors, fitting
from visionnmf.engine.arrays.namespace import compiled, doubled, is_elsewhere, namespace_of, number
from visionnmf.engine.arrays.passes import pass_of
from visionnmf.engine.kernels.admm import manhattan_pass
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem

MANHATTAN = Loss("manhattan")


def product(A: Any, B: Any) -> Any:
    """Return ``A @ B``."""
    return namespace_of(A).matmul(A, B) if is_elsewhere(A) else products.product(A, B)


def right_sides(X: Any, A: Any) -> Any:
    """Return ``A @ X.T`` (r, n_rows), the right-hand sides of the least-squares problems of the rows of `X`."""
    return product(A, X.T) if is_elsewhere(X) else products.right_sides(X, A)


def model_of(Wt: Any, H: Any, out: Any) -> Any:
    """Return the model ``Wt.T @ H``, which may overwrite `out`; a new array for each pass costs a tenth of it."""
    return namespace_of(H).matmul(Wt.T, H) if is_elsewhere(H) else np.matmul(Wt.T, H, out=out)


def inner(A: Any, B: Any) -> float:
    """Return the sum of the products of the entries of two dense arrays of one shape, in double precision."""
    if is_elsewhere(A):
        return float(namespace_of(A).sum(doubled(A) * doubled(B)))
    return float(np.einsum("ij,ij->", A, B, dtype=np.float64))


def squares(X: Any, sample_weight: Any = None) -> float:
    """Return the sum of the squares of the data; a row of weight 2 counts twice."""
    if is_elsewhere(X):
        return inner(X, X if sample_weight is None else X * sample_weight[:, None])
    return products.squares(X, sample_weight)


def norms_of(H: Any) -> Any:
    """Return the Euclidean norms (r,) by which components `H` (r, n) are divided; 1 for a component of zeros."""
    if not is_elsewhere(H):
        return products.norms_of(H)
    xp = namespace_of(H)
    norms = xp.sqrt(xp.sum(H * H, axis=1))
    return xp.where(norms > 0, norms, xp.ones_like(norms))


def first_codes(right: Any, penalty: Penalties) -> Any:
    """Return the codes (r, n_samples) that coordinate descent starts from: zeros, moved into the constraints."""
    codes = namespace_of(right).zeros_like(right)
    if is_elsewhere(right):
        return factors.clipped(penalty, codes)
    penalty.feasible(codes)
    return codes


def improve(F: Any, gram: Any, right: Any, penalty: Penalties, *, sweeps: int, scale: float = 1.0) -> None:
    """Lower the quadratic plus penalty as :func:`..quadratic.improve` does; on a device of a box, l1 and l2."""
    if is_elsewhere(F):
        factors.Sweeps(penalty, sweeps, recorded=False)(F, gram, right, scale)
    else:
        quadratic.improve(F, gram, right, penalty, sweeps=sweeps, scale=scale)


def solve_codes(problem: Problem, H: Any) -> Any:
    """Return the codes (r, n_samples) of the data for fixed components `H` (r, n)."""
    return (fitting if is_elsewhere(H) else solving).solve_codes(problem, H)


def loss_value(problem: Problem, Wt: Any, H: Any) -> float:
    """Return the loss of codes `Wt` (r, n_samples) and components `H` (r, n), without penalties."""
    return factors.loss_value(problem, Wt, H) if is_elsewhere(H) else problem.loss_value(Wt, H)


def manhattan_target(X: Any, V: Any, U: Any, M: Any, bounds: Any, decay: float) -> Any:
    """Return the target of ADMM's next least-squares step from the model `V`; the dual `U` changes in place.

    `bounds` (n_rows,) is ``1 / rho`` and `decay` the factor of its last change. The target may overwrite the model.
    """
    if is_elsewhere(X):
        return compiled(pass_of(MANHATTAN), X)(X, V, U, M, bounds[:, None], number(decay, X))[0]
    unused = np.empty((2, len(X)))  # receives losses and residuals
    manhattan_pass(X, V, U, M, 0.0, bounds, X.dtype.type(decay), 0, len(X), *unused)
    return V
