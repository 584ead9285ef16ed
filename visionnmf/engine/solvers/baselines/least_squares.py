"""Least-squares solvers for comparison: NeNMF, block principal pivoting, projected gradient and the truncated SVD.

All minimise ``|X - W H|_F^2 / 2 + p_W(W) + p_H(H)``. HALS is faster than each of them (:mod:`..hals`).

References
----------
N. Guan, D. Tao, Z. Luo, B. Yuan, "NeNMF: An optimal gradient method for nonnegative matrix factorization", IEEE
Transactions on Signal Processing 60(6), 2012.
J. Kim, H. Park, "Toward faster nonnegative matrix factorization: A new algorithm and comparisons", ICDM 2008.
C.-J. Lin, "Projected gradient methods for nonnegative matrix factorization", Neural Computation 19(10), 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import svd_flip

from visionnmf.engine import quadratic
from visionnmf.engine.arrays.namespace import sum_of_squares
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides
from visionnmf.engine.solvers.hals import value_from_products
from visionnmf.engine.stopping import Iteration

Array = NDArray[Any]


# --- NeNMF: Nesterov's optimal gradient method ------------------------------------------------------------------------

INNER_STEPS = 100  # maximum number of gradient steps for each factor in one iteration
FIRST_TOLERANCE = 1e-3  # of the inner solver, relative to the first projected gradient, as in the paper
TIGHTENING = 0.1


def nenmf(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run NeNMF (Guan et al. 2012): update `Wt`, then `H`, in place, each by accelerated proximal gradient.

    An update stops when the norm of the projected gradient is below a tolerance, relative to the first one, which is
    multiplied by :data:`TIGHTENING` whenever one step is enough. Three things differ from the paper: a prox replaces
    the projection, so that every penalty works; each component has its own step length; and the momentum is restarted,
    so that the objective never rises.
    """
    square = sum_of_squares(problem.X)
    # for each half: the factor to update, the fixed factor, the data with one row per column of the former, the penalty
    halves = [
        (Wt, H, problem.X, problem.penalty_W),
        (H, Wt, problem.features, problem.penalty_H),
    ]
    # norm of the projected gradients of both factors in the first iteration; until it is known the tolerance is 0
    first = 0.0
    tolerances = [FIRST_TOLERANCE, FIRST_TOLERANCE]
    for _ in range(max_iter):
        sizes = [0.0, 0.0]
        objective = 0.0
        for side, (F, A, data, penalty) in enumerate(halves):
            gram, right = product(A, A.T), right_sides(data, A)
            if side == 0:
                objective = value_from_products(problem, Wt, H, gram, right, square, other_factor=Wt)
            # it returns the number of its steps, and the norm of the projected gradient before the first
            steps, sizes[side] = quadratic.accelerate(
                F, gram, right, penalty, steps=INNER_STEPS, tol=tolerances[side] * first
            )
            if steps <= 1:
                tolerances[side] *= TIGHTENING
        size = (sizes[0] ** 2 + sizes[1] ** 2) ** 0.5
        first = first or size
        yield Iteration(objective)


# --- block principal pivoting -----------------------------------------------------------------------------------------

COLUMNS = 64  # columns that one thread solves at a time
PIVOTING_TOLERANCE = 1e-8  # of the derivative, relative to a column's right-hand side; for double precision


def bpp(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Solve for the codes, then for the components, each exactly and in place (Kim & Park 2008)."""
    return alternate(problem, Wt, H, (_solve_exactly, _solve_exactly), max_iter)


def alternate(
    problem: Problem, Wt: Array, H: Array, improve: tuple[Callable[..., None], Callable[..., None]], max_iter: int
) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, by ``improve[side](F, gram, right, penalty)``; yield the objective before.

    Each function of `improve`, of which `side` 0 is for the codes, changes its factor `F` in place, from the Gram
    matrix of the fixed factor and its product `right` with the data.
    """
    features, square = problem.features, sum_of_squares(problem.X)
    objective = problem.objective(Wt, H)
    for _ in range(max_iter):
        before = objective
        improve[0](Wt, product(H, H.T), right_sides(problem.X, H), problem.penalty_W)
        gram, right = product(Wt, Wt.T), right_sides(features, Wt)
        improve[1](H, gram, right, problem.penalty_H)
        objective = value_from_products(problem, Wt, H, gram, right, square, other_factor=H)  # the products are Wt's
        yield Iteration(before)


def _solve_exactly(F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
    """Minimise over `F` exactly; a column that pivoting cannot solve because of rounding keeps its codes."""
    grams = gram.astype(np.float64)[None]
    # products in single precision are only as exact as their rounding
    tolerance = max(PIVOTING_TOLERANCE, float(np.finfo(F.dtype).eps))

    def columns(block: tuple[int, int]) -> None:
        """Solve for some columns of `F` by block principal pivoting, from their present sets at a bound."""
        part = slice(*block)
        # one point in a row, in double precision; all share `grams` (1, r, r), the Gram matrix of the fixed factor
        points = F[:, part].T.astype(np.float64, order="C")
        # no sweeps of coordinate descent beforehand: pivoting begins from the sets of the iteration before
        quadratic.solve(points, grams, right[:, part].T, penalty, sweeps=0, tol=tolerance)
        F[:, part] = points.T

    map_blocks(columns, blocks(F.shape[1], COLUMNS), parallel=F.size * len(F) > BLOCK_ELEMENTS)


# --- projected gradient -----------------------------------------------------------------------------------------------

STEPS = 10  # gradient steps for each factor in one iteration
TRIALS = 20  # maximum number of step lengths tried in one line search
FACTOR = 0.1  # ratio of two successive trial step lengths (Lin's beta)
DECREASE = 0.01  # sufficient decrease, as a share of the first-order decrease (Lin's sigma)


def pg(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run alternating projected gradient (Lin 2007), in place.

    The search for the step length starts from the previous one and multiplies or divides it by ten until it is the
    longest that gives a sufficient decrease (Lin's Algorithm 4).
    """
    return alternate(problem, Wt, H, (_ProjectedGradient(), _ProjectedGradient()), max_iter)


class _ProjectedGradient:
    """Projected gradient steps on one factor; `length` is the last step length, in units of 1 / (largest curvature)."""

    def __init__(self) -> None:
        """Start with a step of one over the largest curvature, which is never too long.

        `length` counts in units of that step, so that it can serve again when the other factor has changed.
        """
        self.length = 1.0

    def __call__(self, F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
        """Decrease ``<F, gram F> / 2 - <right, F> + penalty(F)`` in place by steps of length ``length / curvature``."""
        l1, l2 = penalty.weights(len(F), F.dtype)
        system = gram + np.diag(l2)
        curvature = float(np.abs(system).sum(axis=1).max(initial=0))  # an upper bound of the largest eigenvalue
        if not curvature > 0:
            return
        with one_blas_thread():
            for _ in range(STEPS):
                gradient = system @ F
                gradient -= right
                gradient += l1[:, None]
                move, enough = _move(F, gradient, system, penalty, self.length / curvature)
                # `move` and `enough`: the best step so far, and whether it decreases the objective enough
                growing = enough  # lengthen the step while it is accepted, otherwise shorten it until it is
                for _ in range(TRIALS):
                    trial = self.length / FACTOR if growing else self.length * FACTOR
                    tried, accepted = _move(F, gradient, system, penalty, trial / curvature)
                    if growing and (not accepted or np.array_equal(tried, move)):
                        break
                    self.length, move, enough = trial, tried, accepted
                    if not growing and accepted:
                        break
                if not enough:
                    break  # no trial length decreases the objective: only rounding errors are left
                F += move
                np.clip(F, *penalty.box(F.dtype), out=F)


def _move(F: Array, gradient: Array, system: Array, penalty: Penalties, length: float) -> tuple[Array, bool]:
    """Return the step ``P(F - length * gradient) - F``, and whether it decreases enough (Lin's equation 17).

    P clips to the bounds of the `penalty`, whose l1 and l2 terms are in `gradient` and the Hessian `system` (r, r)
    already.
    """
    move = np.clip(F - F.dtype.type(length) * gradient, *penalty.box(F.dtype))
    move -= F
    slope = float(np.vdot(gradient, move))
    return move, (1 - DECREASE) * slope + float(np.vdot(move, system @ move)) / 2 <= 0


# --- the truncated singular value decomposition: the trivial baseline, without non-negativity -------------------------


def svd(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Overwrite both factors by the truncated decomposition ``U S V^T``, in a single iteration: ``W = U S, H = V^T``.

    No factorisation with the same number of components has a smaller loss (Eckart & Young 1936), so it is a lower bound
    for every other solver. The factors have both signs. Components beyond the rank that the shape of `X` allows are
    zero, and the largest entry of each is positive.
    """
    if max_iter < 1:
        return
    X = problem.X
    before = problem.objective(Wt, H)
    Wt[:], H[:] = 0, 0
    if X.sum() > 0:
        count = min(len(H), *X.shape)
        with one_blas_thread():
            size = X.dtype.type(X.max())
            left, values, right = _decomposition(X / size, count)  # squares of tiny numbers underflow
            values = values * size
        left, right = svd_flip(left, right, u_based_decision=False)
        Wt[:count], H[:count] = (left * values).T, right
    # the minimum in closed form, so there is no other iteration
    yield Iteration(before, done=True)


def _decomposition(X: Any, count: int) -> tuple[Array, Array, Array]:
    """Return the leading singular vectors and values, in descending order: a few by ARPACK, many densely."""
    smaller = min(X.shape)
    if 2 * count > smaller:  # as fast as ARPACK, which cannot find all singular values
        dense = X.toarray() if count == smaller and not isinstance(X, np.ndarray) else X
        if isinstance(dense, np.ndarray):
            left, values, right = np.linalg.svd(dense, full_matrices=False)
            return left[:, :count], values[:count], right[:count]
    start = np.random.default_rng(0).standard_normal(smaller).astype(X.dtype)
    left, values, right = svds(X, count, v0=start)
    return left[:, ::-1], values[::-1], right[::-1]


def svd_codes(problem: Problem, Wt: Array, H: Array) -> None:
    """Overwrite `Wt` by ``H X^T``, the best codes of any sign, because components are orthonormal or 0."""
    with one_blas_thread():
        Wt[:] = right_sides(problem.X, H)
