"""Least-squares solvers with which the papers of NeNMF and sBCD compare theirs, one function for each half-problem.

All minimise ``<F, G F> / 2 - <B, F>`` over ``F >= 0``, with the Gram matrix ``G`` of the fixed factor and its product
``B`` with the data. Equations are those of NeNMF (Guan, Tao, Luo & Yuan 2012, section II.C), which reviews the first
five. Numbers of steps that no source gives are constants here.

======  ===============================================================================  =============================
solver  half-problem                                                                     source
======  ===============================================================================  =============================
pnls    the least-squares solution, clipped at 0 (equation 24); may rise                 Berry et al. 2007
qn      one Newton step with a regularised Hessian, clipped (equation 26); may rise      Zdunek & Cichocki 2006
pbb     projected Barzilai-Borwein steps, non-monotone line search (equation 29)         Han, Neumann & Prasad 2009
cbgp    a few projected gradient steps with Armijo's line search (equation 30)           Bonettini 2011
as      exactly, by active sets that change by one variable                              Kim & Park 2008 (SIMAX)
cg      conjugate gradients on the variables that are free, for each point               Hestenes & Stiefel 1952
gcd     coordinate descent that takes the variable with the largest gain first           Hsieh & Dhillon 2011
======  ===============================================================================  =============================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.quadratic import largest_eigenvalue
from visionnmf.engine.stopping import Iteration

from .least_squares import alternate

Array = NDArray[Any]
Improve = Callable[[Array, Array, Array, Penalties], None]


def solver(improve: Improve) -> Callable[..., Iterator[Iteration]]:
    """Return the solver that updates `Wt`, then `H`, by ``improve(F, gram, right, penalty)``, in place."""

    def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
        """Update `Wt`, then `H`, in place by ``improve(F, gram, right, penalty)``; yield the objective before."""
        return alternate(problem, Wt, H, (improve, improve), max_iter)

    return iterate


# --- projected least squares and Newton steps -------------------------------------------------------------------------

RELAXATION = 0.9  # of a Newton step; that of the authors' NMFLAB
FIRST_RIDGE = 1e-12  # relative to the mean of the Hessian's diagonal; grows tenfold while the condition is worse than
CONDITION = 1e7


def projected_least_squares(F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
    """Overwrite `F` by the least-squares solution without the bound, clipped at 0; `penalty` is not used."""
    F[:] = np.maximum(np.linalg.pinv(gram, hermitian=True) @ right, 0)


def quasi_newton(F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
    """Take a Newton step on `F`, shortened by :data:`RELAXATION` and clipped at 0; `penalty` is not used.

    A ridge on the diagonal grows until the Hessian's condition is at most :data:`CONDITION`.
    """
    ridge = FIRST_RIDGE * float(np.trace(gram, dtype=np.float64)) / len(gram)
    if not ridge > 0:
        return
    system, eye = gram.astype(np.float64), np.eye(len(gram))
    while np.linalg.cond(system + ridge * eye) > CONDITION:
        ridge *= 10
    step = np.linalg.solve(system + ridge * eye, gram @ F - right)
    F[:] = np.maximum(F - RELAXATION * step, 0)


# --- projected gradient with a line search ----------------------------------------------------------------------------

DECREASE = 1e-4  # sufficient decrease, as a share of the first-order decrease
TRIALS = 50  # maximum number of shortenings in one line search


def gradient_projection(
    F: Array, gram: Array, right: Array, penalty: Penalties, *, spectral: bool, memory: int, steps: int
) -> None:
    """Take projected gradient steps on `F` in place, each halved until the objective decreases enough.

    The objective ``<F, gram F> / 2 - <right, F>`` is compared with the largest of its last `memory` values. The first
    length is one over the largest curvature. With `spectral`, the next ones are those of Barzilai & Borwein, ``<s, s> /
    <s, y>`` for the last change s of `F` and y of the gradient. `penalty`, which :func:`.alternate` passes to every
    update, is not used: this solver refuses all but non-negativity.
    """
    largest = largest_eigenvalue(gram)
    if not largest > 0:
        return
    gradient, length, values = gram @ F - right, 1 / largest, [0.0]  # values relative to the first
    for _ in range(steps):
        move = np.maximum(F - F.dtype.type(length) * gradient, 0) - F
        curve = gram @ move
        slope, bend = float(np.vdot(gradient, move)), float(np.vdot(move, curve))
        if not (slope < 0 and bend > 0):
            break
        # `above`: how far the present objective is below the largest of the last `memory` values
        # the change of the objective for a share of the move is exact, because the objective is quadratic
        share, above = 1.0, max(values[-memory:]) - values[-1]
        for _ in range(TRIALS):
            if share * slope + share**2 * bend / 2 <= above + DECREASE * share * slope:
                break
            share /= 2
        F += F.dtype.type(share) * move
        gradient += F.dtype.type(share) * curve
        values.append(values[-1] + share * slope + share**2 * bend / 2)
        if spectral:
            length = float(np.vdot(move, move)) / bend


# --- active sets ------------------------------------------------------------------------------------------------------

ACTIVE_TOLERANCE = 1e-12  # of the derivative, relative to the largest entry of the right-hand side
EXCHANGES = 10  # maximum number for each variable


def active_sets(F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
    """Overwrite each point f of `F` by the minimiser of ``f gram f / 2 - right f`` over ``f >= 0``.

    `penalty`, which :func:`.alternate` passes to every update, is not used: this solver refuses all but non-negativity.
    """
    wide = gram.astype(np.float64)
    for i, b in enumerate(right.T.astype(np.float64)):
        F[:, i] = active_set_solution(wide, b)


def active_set_solution(G: Array, b: Array) -> Array:
    """Return the minimiser ``f >= 0`` of ``f G f / 2 - b f`` (Lawson & Hanson 1974, with products as Bro & de Jong).

    The bounded variable with the steepest descent becomes free. A free variable that would become negative stops the
    step towards the solution on the free set, and is bounded again.
    """
    f, free = np.zeros(len(b)), np.zeros(len(b), bool)
    enough = ACTIVE_TOLERANCE * float(np.abs(b).max(initial=0))
    for _ in range(EXCHANGES * len(b)):
        descent = np.where(free, -np.inf, b - G @ f)
        if not descent.max(initial=-np.inf) > enough:
            break
        free[descent.argmax()] = True
        # solve on the free set until no variable stops the step
        while True:
            goal = np.zeros(len(b))
            goal[free] = np.linalg.pinv(G[np.ix_(free, free)], hermitian=True) @ b[free]
            stopping = free & (goal <= 0)
            if not stopping.any():
                break
            # go towards the goal until an entry reaches 0, and bound those that have reached it again
            f += (f[stopping] / (f[stopping] - goal[stopping])).min() * (goal - f)
            free &= ~(stopping & (f <= np.finfo(float).eps * f.max(initial=0)))
            f[~free] = 0
        f = goal
    return f


# --- conjugate gradients ----------------------------------------------------------------------------------------------

CONJUGATE_STEPS = 20  # for each point in one update


def conjugate_gradients(F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
    """Take conjugate gradient steps on the free variables of each point of `F`, in place; `penalty` is not used.

    A variable is free if it is positive, or if the objective falls where it grows. A step ends at the first bound that
    it meets. Where the free variables change, the next direction is the negative gradient again (Polyak 1969).
    """
    f, G, B = F.astype(np.float64), gram.astype(np.float64), right.astype(np.float64)  # squares could overflow
    direction, face = np.zeros_like(f), np.zeros(f.shape, bool)
    last = np.zeros(f.shape[1])  # squared norms of the last gradients on the face; 0 after a bound was met
    for _ in range(CONJUGATE_STEPS):
        gradient = G @ f - B
        free = (f > 0) | (gradient < 0)
        slope = np.where(free, gradient, 0)
        size = (slope * slope).sum(axis=0)
        same = (free == face).all(axis=0) & (last > 0)  # points whose free variables have not changed
        # the new direction (Fletcher & Reeves), the length to the minimum along it, and to each bound
        direction = np.where(free, _quotient(size, last) * same * direction - slope, 0)
        length = _quotient(-(direction * slope).sum(axis=0), (direction * (G @ direction)).sum(axis=0))
        with np.errstate(over="ignore"):  # a bound that is too far away for a float is met by no step
            room = np.where(direction < 0, f / np.where(direction < 0, -direction, 1), np.inf)
        share = np.minimum(length, room.min(axis=0))
        f = np.where(room <= share, 0, f + share * direction)
        face, last = free, np.where(share < length, 0, size)
    F[:] = f


def _quotient(above: Array, below: Array) -> Array:
    """Return ``above / below``, or 0 where the denominator is not positive."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


# --- greedy coordinate descent ----------------------------------------------------------------------------------------

GREEDY_TOLERANCE = 1e-3  # of the largest gain at the start of an update, below which a point is done
GREEDY_STEPS = 10  # maximum number for each variable


def greedy_descent(F: Array, gram: Array, right: Array, penalty: Penalties) -> None:
    """Change the variable of the largest gain of each point of `F` at a time, in place; `penalty` is not used.

    The gain is how much a move lowers ``<F, gram F> / 2 - <right, F>``. All points take their steps together until none
    gains more than the share :data:`GREEDY_TOLERANCE` of the largest first gain.
    """
    squares = gram.diagonal()
    used = squares > 0
    curvatures, places = np.where(used, squares, 1)[:, None], np.arange(F.shape[1])
    gradient, first = gram @ F - right, 0.0
    for step in range(GREEDY_STEPS * len(F)):
        moves = np.where(used[:, None], np.maximum(F - gradient / curvatures, 0) - F, 0)
        gains = -moves * (gradient + curvatures * moves / 2)
        best = gains.argmax(axis=0)
        gain = gains[best, places]
        first = first if step else float(gain.max(initial=0))
        going = places[gain > GREEDY_TOLERANCE * first]
        if not len(going):
            break
        chosen = best[going]
        F[chosen, going] += moves[chosen, going]
        gradient[:, going] += gram[:, chosen] * moves[chosen, going]


_IMPROVE: dict[str, Improve] = {
    "pnls": projected_least_squares,
    "qn": quasi_newton,
    "pbb": partial(gradient_projection, spectral=True, memory=10, steps=20),
    "cbgp": partial(gradient_projection, spectral=False, memory=1, steps=5),
    "as": active_sets,
    "cg": conjugate_gradients,
    "gcd": greedy_descent,
}
METHODS = {name: solver(improve) for name, improve in _IMPROVE.items()}
