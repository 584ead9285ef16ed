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
    """Return ``A @ B``; an array that is elsewhere, of another library than NumPy, is multiplied by that library."""
    return namespace_of(A).matmul(A, B) if is_elsewhere(A) else products.product(A, B)


def right_sides(X: Any, A: Any) -> Any:
    """Return ``A @ X.T`` (r, n_rows), the right-hand sides of the least-squares problems of the rows of `X`.

    Arrays of another library than NumPy (`is_elsewhere`) are never sparse, which `products.right_sides` allows.
    """
    return product(A, X.T) if is_elsewhere(X) else products.right_sides(X, A)


def model_of(Wt: Any, H: Any, out: Any) -> Any:
    """Return the model ``Wt.T @ H``, in the array `out` if it is one of NumPy.

    A new array for each pass would cost a tenth of the pass. Other libraries make one, and `out` is not used.
    """
    return namespace_of(H).matmul(Wt.T, H) if is_elsewhere(H) else np.matmul(Wt.T, H, out=out)


def inner(A: Any, B: Any) -> float:
    """Return the sum of the products of the entries of two dense arrays of one shape, in double precision."""
    if is_elsewhere(A):
        return float(namespace_of(A).sum(doubled(A) * doubled(B)))  # copies in double precision, on their device
    return float(np.einsum("ij,ij->", A, B, dtype=np.float64))


def squares(X: Any, sample_weight: Any = None) -> float:
    """Return the sum of the squares of the data (n_rows, n); a row of weight 2 counts twice.

    Arrays of other libraries than NumPy (`is_elsewhere`) are summed on their device.
    """
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
    if is_elsewhere(right):  # on a device the only constraint is a box
        return factors.clipped(penalty, codes)
    penalty.feasible(codes)  # in place
    return codes


def improve(F: Any, gram: Any, right: Any, penalty: Penalties, *, sweeps: int, scale: float = 1.0) -> None:
    """Lower ``<F, gram F> / 2 - <right, F> + scale * penalty(F)`` over `F` (r, n_points), in place.

    `gram` is (r, r), `right` (r, n_points), and `sweeps` the number of passes over the components. On a device the
    penalty may hold a box, l1 and l2 only.
    """
    if is_elsewhere(F):  # not recorded, because that would take longer than a single call
        factors.Sweeps(penalty, sweeps, recorded=False)(F, gram, right, scale)
    else:
        quadratic.improve(F, gram, right, penalty, sweeps=sweeps, scale=scale)


def solve_codes(problem: Problem, H: Any) -> Any:
    """Return the codes (r, n_samples) of the data for fixed components `H` (r, n), on a device or by NumPy."""
    return (fitting if is_elsewhere(H) else solving).solve_codes(problem, H)


def loss_value(problem: Problem, Wt: Any, H: Any) -> float:
    """Return the loss of codes `Wt` (r, n_samples) and components `H` (r, n), without penalties."""
    return factors.loss_value(problem, Wt, H) if is_elsewhere(H) else problem.loss_value(Wt, H)


def manhattan_target(X: Any, V: Any, U: Any, M: Any, bounds: Any, decay: float) -> Any:
    """Return the target of ADMM's next least-squares step from the model `V`; the dual `U` changes in place.

    `X`, `V`, `U` and the weights `M`, or None, are (n_rows, n). `bounds` (n_rows,) is ``1 / rho``, and `decay` the
    factor of its last change, by which the dual is scaled as well. The target may overwrite the model.
    """
    if is_elsewhere(X):  # items 1 and 2 would be the losses and residuals of the rows
        return compiled(pass_of(MANHATTAN), X)(X, V, U, M, bounds[:, None], number(decay, X))[0]
    unused = np.empty((2, len(X)))  # receives losses and residuals
    # writes the target to `V`, for rows 0 to len(X); 0.0 is the parameter of a loss, which this one does not have
    manhattan_pass(X, V, U, M, 0.0, bounds, X.dtype.type(decay), 0, len(X), *unused)
    return V
