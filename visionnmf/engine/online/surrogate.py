r"""Online matrix factorisation with a quadratic surrogate (OMF), for the Frobenius loss.

For each batch the codes for the components as they are, then block coordinate descent of the components on

.. math:: \sum_t \rho_t\, \tfrac12 \|x_t - w_t H\|^2 + n\, p_H(H)

which is known from two matrices (:mod:`.statistics`) and lies above the loss with the best codes (Mairal, Bach, Ponce &
Sapiro 2010, Algorithms 1 and 2, with mini-batches and forgetting: section 3.4). Missing entries are filled in by the
model, which lies above the loss again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from visionnmf.engine.codes import solve_codes
from visionnmf.engine.penalties import ANY, SEPARABLE, Penalty, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import features_of, product, right_sides, squares
from visionnmf.engine.quadratic import improve

from . import statistics
from .record import Method, Options, State

__all__ = ["METHOD", "is_free", "least_squares_codes"]

Array = NDArray[Any]

SWEEPS = 5  # of coordinate descent between two looks at the codes
ROUNDS = 10  # looks, at most
CODES_TOLERANCE = 0.02  # change of the codes by a round, relative to them, that is small enough
COMPONENTS_SWEEPS = 1  # a batch; more gain nothing where batches are small, as the surrogate hardly changes


def learn(problem: Problem, H: Array, state: State, options: Options, rng: RandomState) -> float:
    """Learn a batch; see :class:`.record.Method`."""
    gram = product(H, H.T)
    if problem.weights is None:
        right = right_sides(problem.X, H)
        Wt = least_squares_codes(gram, right, problem.penalty_W)
        features = features_of(problem)
    else:
        Wt = solve_codes(problem, H)
        features = np.where(problem.weights > 0, problem.X, product(np.ascontiguousarray(Wt.T), H)).T
    codes_gram = statistics.add(state, Wt, features, options.forgetting(Wt.shape[1]))
    if problem.weights is None:
        inner = float(np.einsum("ij,ij->", right, Wt, dtype=np.float64))
        model = float(np.einsum("ij,ij->", gram, codes_gram, dtype=np.float64))
        loss = max(0.0, (squares(problem.X) - 2 * inner + model) / 2)
    else:
        loss = problem.loss_value(Wt, H)
    improve(H, state["A"], state["B"], problem.penalty_H, sweeps=COMPONENTS_SWEEPS, scale=state["weight"])
    if is_free(problem):
        statistics.normalise(H, state)
    return loss


def is_free(problem: Problem) -> bool:
    """Tell whether the scale of components is arbitrary."""
    return not problem.penalty_W.parts and not problem.penalty_H.parts


def least_squares_codes(gram: Array, right: Array, penalty: Penalty) -> Array:
    """Find codes by coordinate descent until they hardly change.

    Parameters
    ----------
    gram : ndarray [shape=(n_components, n_components)]
        ``H @ H.T``.
    right : ndarray [shape=(n_components, n_samples)]
        ``H @ X.T``.
    penalty : Penalty

    Returns
    -------
    ndarray [shape=(n_components, n_samples)]
    """
    Wt = np.zeros_like(right)
    penalty.feasible(Wt)
    for _ in range(ROUNDS):
        before = Wt.copy()
        improve(Wt, gram, right, penalty, sweeps=SWEEPS)
        change = np.linalg.norm(np.subtract(before, Wt, out=before))
        if change <= CODES_TOLERANCE * np.linalg.norm(Wt):
            break
    return Wt


METHOD = Method(
    name="surrogate",
    losses=("frobenius",),
    start=statistics.start,
    learn=learn,
    check=statistics.check,
    batch_size=256,
    codes_terms=(*SEPARABLE, Simplex),
    components_terms=ANY,
    sparse=True,
    missing=True,
)
