"""The solvers with which the papers of NeNMF and sBCD compare theirs; none has options, penalties or sparse data.

Those for least squares are functions that lower ``<F, G F> / 2 - <B, F>`` over ``F >= 0`` in place, with the Gram
matrix ``G`` of the fixed factor and its product ``B`` with the data. Numbers of steps that no source gives are
constants here.

===========  ============================================================================  ===========================
solver       half-problem (equations are those of Guan, Tao, Luo & Yuan 2012, section II)  source
===========  ============================================================================  ===========================
pnls         the least-squares solution, clipped at 0 (24); may rise                       Berry et al. 2007
pg           projected gradient, the step length found by factors of ten                    Lin 2007 (NECO)
qn           one Newton step with a regularised Hessian, clipped (26); may rise            Zdunek & Cichocki 2006
bfgs         the same steps, several and shorter, as the inexact BFGS (28); may rise       Kim, Sra & Dhillon 2007
pbb          projected Barzilai-Borwein steps, non-monotone line search (29)               Han, Neumann & Prasad 2009
cbgp         a few projected gradient steps with Armijo's line search (30)                 Bonettini 2011
as           exactly, by active sets that change by one variable: SciPy's ``nnls``         Kim & Park 2008 (SIMAX)
bpp          exactly, by block principal pivoting                                          Kim & Park 2008 (ICDM)
cg           conjugate gradients on the variables that are free, for each point            Hestenes & Stiefel 1952
gcd          coordinate descent that takes the variable with the largest gain first        Hsieh & Dhillon 2011
modified     multiplicative updates whose denominators and growing entries are not 0       Lin 2007 (TNN)
accelerated  the best length along the step of a multiplicative update                     Guan et al. 2011
gd-cls       exact codes with an l2 norm, and multiplicative updates of components         Shahnaz et al. 2006
===========  ============================================================================  ===========================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from visionnmf.engine import quadratic
from visionnmf.engine.divergence import floor_of
from visionnmf.engine.penalties import NONNEGATIVE

Array = NDArray[Any]
Improve = Callable[[Array, Array, Array], None]  # the factor, which is changed in place, and G and B of the other one

RELAXATION = 0.9  # of a Newton step; that of the authors' NMFLAB
INEXACT_LENGTH = 0.1  # of the inexact BFGS; the paper gives none
FIRST_RIDGE = 1e-12  # of the mean of the Hessian's diagonal; grows tenfold while the condition is worse than CONDITION
CONDITION = 1e7
SHORTENING, STEPS, TRIALS, DECREASE = 0.1, 10, 20, 0.01  # Lin's projected gradient
ARMIJO, HALVINGS = 1e-4, 50  # of PBB and CBGP
CONJUGATE_STEPS = 20
GREEDY_STEPS, GREEDY_TOLERANCE = 10, 1e-3  # for each variable; of the largest gain at the start of an update
TINY = 1e-8  # Lin's, of his modified multiplicative updates
ROOM = 0.99  # of the longest step along a multiplicative update that leaves all entries positive
CODES_RIDGE = 0.1  # of GD-CLS; the paper gives none
FIRST_CHANGE = 0.01  # of a factor in the first step of gradient descent


def iterate(solver: str, X: Array, Wt: Array, H: Array) -> Iterator[None]:
    """Update `Wt` (r, n_samples), then `H` (r, n), in place by a key of :data:`LEAST_SQUARES`, again and again."""
    of_codes, of_components = LEAST_SQUARES[solver]
    while True:
        of_codes(Wt, H @ H.T, H @ X.T)
        of_components(H, Wt @ Wt.T, Wt @ X)
        yield


def gradient_descent(X: Array, Wt: Array, H: Array, beta: float) -> Iterator[None]:
    """Update `Wt`, then `H`, by one gradient step each of a beta-divergence with a fixed length, clipped at 0.

    These are the additive updates that Lee & Seung (2000, equation 6) and Li, Lebanon & Park (2012) compare with. Both
    leave the length open. Here the first step changes a factor by the share :data:`FIRST_CHANGE` of its norm.
    """
    lengths: list[float] = []
    while True:
        for side, (F, A, data) in enumerate(((Wt, H, X), (H, Wt, X.T))):
            # the model, kept away from 0 by a negligible share of the mean of the data because of the negative power
            P = np.maximum(F.T @ A, floor_of(beta) * X.mean())
            gradient = A @ (P ** (beta - 2) * (P - data)).T
            if len(lengths) <= side:
                size = float(np.linalg.norm(gradient))
                lengths.append(FIRST_CHANGE * float(np.linalg.norm(F)) / size if size > 0 else 0.0)
            F[:] = np.maximum(F - lengths[side] * gradient, 0)
        yield


def _projected_least_squares(F: Array, gram: Array, right: Array) -> None:
    F[:] = np.maximum(np.linalg.pinv(gram, hermitian=True) @ right, 0)


def _rescaled(F: Array, gram: Array, right: Array) -> None:
    F *= _quotient(right, gram @ F)


def _modified_rescaled(F: Array, gram: Array, right: Array) -> None:
    gradient = gram @ F - right
    kept = np.where(gradient < 0, np.maximum(F, TINY), F)
    F -= kept / (gram @ kept + TINY) * gradient


def _accelerated_rescaled(F: Array, gram: Array, right: Array) -> None:
    move = F * (_quotient(right, gram @ F) - 1)
    bend, down = float(np.vdot(move, gram @ move)), move < 0
    if bend > 0:
        room = float((F[down] / -move[down]).min(initial=np.inf))
        F += min(float(np.vdot(move, right - gram @ F)) / bend, ROOM * room) * move


def _quasi_newton(F: Array, gram: Array, right: Array, *, length: float = RELAXATION, steps: int = 1) -> None:
    ridge, eye = FIRST_RIDGE * float(np.trace(gram)) / len(gram), np.eye(len(gram))
    if not ridge > 0:
        return
    while np.linalg.cond(gram + ridge * eye) > CONDITION:
        ridge *= 10
    for _ in range(steps):
        F[:] = np.maximum(F - length * np.linalg.solve(gram + ridge * eye, gram @ F - right), 0)


def _gradient_projection(F: Array, gram: Array, right: Array, *, spectral: bool, memory: int, steps: int) -> None:
    """Take projected gradient steps, each halved until the objective is below the largest of its last `memory` values.

    With `spectral` the lengths are those of Barzilai & Borwein, ``<s, s> / <s, y>`` for the last change s of `F` and y
    of the gradient; the first is one over the largest curvature, and so are all others without.
    """
    largest = quadratic.largest_eigenvalue(gram)
    if not largest > 0:
        return
    gradient, length, values = gram @ F - right, 1 / largest, [0.0]  # values relative to the first
    for _ in range(steps):
        move = np.maximum(F - length * gradient, 0) - F
        curve = gram @ move
        slope, bend = float(np.vdot(gradient, move)), float(np.vdot(move, curve))
        if not (slope < 0 and bend > 0):
            break
        # the change for a share of the move is exact, because the objective is quadratic
        share, above = 1.0, max(values[-memory:]) - values[-1]
        for _ in range(HALVINGS):
            if share * slope + share**2 * bend / 2 <= above + ARMIJO * share * slope:
                break
            share /= 2
        F += share * move
        gradient += share * curve
        values.append(values[-1] + share * slope + share**2 * bend / 2)
        if spectral:
            length = float(np.vdot(move, move)) / bend


def _projected_gradient(F: Array, gram: Array, right: Array) -> None:
    """Take steps of the longest length, of those ten times as long as the next, that decreases the objective enough."""
    curvature = float(np.abs(gram).sum(axis=1).max())  # an upper bound of the largest eigenvalue
    if not curvature > 0:
        return

    def moved(gradient: Array, length: float) -> tuple[Array, bool]:
        """Return a step of this length, and whether it decreases the objective enough (Lin's equation 17)."""
        move = np.maximum(F - length * gradient, 0) - F
        return move, (1 - DECREASE) * float(np.vdot(gradient, move)) + float(np.vdot(move, gram @ move)) / 2 <= 0

    length = 1 / curvature
    for _ in range(STEPS):
        gradient = gram @ F - right
        move, enough = moved(gradient, length)
        growing = enough  # lengthen the step while it is accepted, otherwise shorten it until it is
        for _ in range(TRIALS):
            trial = length / SHORTENING if growing else length * SHORTENING
            tried, accepted = moved(gradient, trial)
            if growing and (not accepted or np.array_equal(tried, move)):
                break
            length, move, enough = trial, tried, accepted
            if not growing and accepted:
                break
        if not enough:
            break  # only rounding errors are left
        F += move


def _active_sets(F: Array, gram: Array, right: Array, *, l2: float = 0.0) -> None:
    # a small ridge, because SciPy takes a factor of the Gram matrix, which may be singular
    ridge = l2 + FIRST_RIDGE * (float(np.trace(gram)) or 1.0)
    A = cholesky(gram + ridge * np.eye(len(gram)))
    targets = solve_triangular(A, right, trans="T")
    for i, target in enumerate(targets.T):
        F[:, i] = nnls(A, target)[0]


def _block_pivoting(F: Array, gram: Array, right: Array) -> None:
    points = np.array(F.T, order="C")
    quadratic.solve(points, gram[None], right.T, NONNEGATIVE, sweeps=0, tol=1e-8)
    F[:] = points.T


def _conjugate_gradients(F: Array, gram: Array, right: Array) -> None:
    """Take conjugate gradient steps; a variable is free if it is positive, or if the objective falls where it grows.

    A step ends at the first bound that it meets. Where the free variables change, the next direction is the negative
    gradient again (Polyak 1969).
    """
    f = F.copy()
    direction, face = np.zeros_like(f), np.zeros(f.shape, bool)
    last = np.zeros(f.shape[1])  # squared norms of the last gradients on the face; 0 after a bound was met
    for _ in range(CONJUGATE_STEPS):
        gradient = gram @ f - right
        free = (f > 0) | (gradient < 0)
        slope = np.where(free, gradient, 0)
        size = (slope * slope).sum(axis=0)
        same = (free == face).all(axis=0) & (last > 0)
        # the new direction (Fletcher & Reeves), the length to the minimum along it, and to each bound
        direction = np.where(free, _quotient(size, last) * same * direction - slope, 0)
        length = _quotient(-(direction * slope).sum(axis=0), (direction * (gram @ direction)).sum(axis=0))
        with np.errstate(over="ignore"):  # a bound that is too far away for a float is met by no step
            room = np.where(direction < 0, f / np.where(direction < 0, -direction, 1), np.inf)
        share = np.minimum(length, room.min(axis=0))
        f = np.where(room <= share, 0, f + share * direction)
        face, last = free, np.where(share < length, 0, size)
    F[:] = f


def _quotient(above: Array, below: Array) -> Array:
    """Return ``above / below``, or 0 where the denominator is not positive."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _greedy_descent(F: Array, gram: Array, right: Array) -> None:
    """Change the variable of the largest gain of each point at a time, until none gains a share of the first one."""
    squares = gram.diagonal()
    used = squares > 0
    curvatures, places = np.where(used, squares, 1)[:, None], np.arange(F.shape[1])
    gradient, first = gram @ F - right, 0.0
    for step in range(GREEDY_STEPS * len(F)):
        moves = np.where(used[:, None], np.maximum(F - gradient / curvatures, 0) - F, 0)
        gains = -moves * (gradient + curvatures * moves / 2)
        best = gains.argmax(axis=0)
        gain = gains[best, places]
        first = first if step else float(gain.max())
        going = places[gain > GREEDY_TOLERANCE * first]
        if not len(going):
            break
        chosen = best[going]
        F[chosen, going] += moves[chosen, going]
        gradient[:, going] += gram[:, chosen] * moves[chosen, going]


_EACH: dict[str, Improve] = {  # one function for both factors
    "pnls": _projected_least_squares,
    "pg": _projected_gradient,
    "qn": _quasi_newton,
    "bfgs": partial(_quasi_newton, length=INEXACT_LENGTH, steps=STEPS),
    "pbb": partial(_gradient_projection, spectral=True, memory=10, steps=20),
    "cbgp": partial(_gradient_projection, spectral=False, memory=1, steps=5),
    "as": _active_sets,
    "bpp": _block_pivoting,
    "cg": _conjugate_gradients,
    "gcd": _greedy_descent,
    "modified": _modified_rescaled,
    "accelerated": _accelerated_rescaled,
}
LEAST_SQUARES: dict[str, tuple[Improve, Improve]] = {name: (improve, improve) for name, improve in _EACH.items()} | {
    "gd-cls": (partial(_active_sets, l2=CODES_RIDGE), _rescaled)
}
