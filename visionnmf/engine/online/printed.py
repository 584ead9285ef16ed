r"""OMF, OMF-DA and OMF-CG as the paper of OR-NMF prints them (Guan, Tao, Luo & Yuan 2012, section IV, E and F).

Each sample is encoded exactly and enters the sums ``A = sum h h^T`` and ``B = sum h v`` (:mod:`.record`). Then the
components minimise the surrogate (equation 44) over the set C, the simplex for each component (equation 8) unless they
have a box. One of these updates is repeated until the components no longer change:

==========  =========================================================================================  ================
method      update of the components                                                                   source
==========  =========================================================================================  ================
omf         one component after the other, ``H_j <- P_C(H_j - (A_j H - B_j) / A_jj)``                  equation 45
omf-da      all together, ``H <- P_C(H - diag(A)^-1 (A H - B))``                                       section IV.F
omf-cg      all together, ``H <- P_C(H - Q)``, where conjugate gradients solve ``A Q = A H - B``       section IV.F
==========  =========================================================================================  ================

The last two need not settle, because a projected Newton step can lead away from the minimum; :data:`UPDATES` ends them.
:mod:`.surrogate` is the form to use: codes that are nearly exact, one sweep a batch, and steps that cannot rise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.penalties import SEPARABLE, Box, Penalties, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.quadratic import improve
from visionnmf.engine.solving import solve_codes

from .record import Batch, Method, Sums

Array = NDArray[Any]

UPDATES = 200  # maximum number for each batch
SETTLED = 1e-9  # relative change of the components at which they have converged
SOLVED = 1e-13  # relative residual at which conjugate gradients stop
SOLVING_STEPS = 5  # maximum number of conjugate gradient steps for each component

Update = Callable[[Array, Array, Array, Penalties], None]
"""A function ``update(H, A, B, penalty)`` that improves the components `H` (r, n) once, in place."""


def _learn(batch: Batch, H: Array, state: Sums, *, update: Update) -> float:
    """Encode a batch, add it to the sums in `state`, repeat `update` until all settles; return the loss before.

    The sums are `A` (r, r) of products of codes and `B` (r, n) of codes and data. ``update(H, A, B, penalty)`` improves
    the components `H` (r, n) in place.
    """
    problem = batch.problem
    Wt = solve_codes(problem, H)
    loss = batch.loss(Wt, H)
    state.add(Wt, problem.X.T, batch.forgetting, batch.sample_weight)
    penalty = _set_of(problem)  # the constraint of the components, without one the simplex
    for _ in range(UPDATES):
        before = H.copy()
        update(H, state.A, state.B, penalty)
        if np.linalg.norm(H - before) <= SETTLED * np.linalg.norm(before):
            break
    return loss


def _set_of(problem: Problem) -> Penalties:
    """Return the constraint of the components: that of the problem, or else the simplex, as the paper has it."""
    return problem.penalty_H if problem.penalty_H.active_terms else Penalties(simplex="rows")


def _one_by_one(H: Array, A: Array, B: Array, penalty: Penalties) -> None:
    """Lower ``<H, A H> / 2 - <B, H>`` by a step on each component in turn, in place (OMF).

    Components that no sample has used, whose entry of the diagonal of `A` is 0, stay.
    """
    improve(H, A, B, penalty, sweeps=1)


def _diagonal(H: Array, A: Array, B: Array, penalty: Penalties) -> None:
    """Take a projected Newton step on ``<H, A H> / 2 - <B, H>`` with the Hessian's diagonal (OMF-DA), in place.

    Components that no sample has used, whose entry of the diagonal is 0, stay.
    """
    curvatures = A.diagonal()[:, None]
    H -= np.divide(A @ H - B, curvatures, out=np.zeros_like(H), where=curvatures > 0)
    # the prox of step length 0 is the projection
    penalty.prox(H, 0.0)


def _conjugate(H: Array, A: Array, B: Array, penalty: Penalties) -> None:
    """Take a projected Newton step on ``<H, A H> / 2 - <B, H>``, in place (OMF-CG).

    Conjugate gradients solve ``A Q = A H - B`` for the step Q.
    """
    H -= _solution(A, A @ H - B)
    # the prox of step length 0 is the projection
    penalty.prox(H, 0.0)


def _solution(A: Array, G: Array) -> Array:
    """Return the solution Q of ``A Q = G`` by conjugate gradients from 0, for all columns together.

    `A` is (r, r) and `G` (r, n); at most ``SOLVING_STEPS * r`` steps are taken. `size` is the squared norm of the
    residual R, and `bend` is ``<D, A D>`` for the direction D; their ratio is the length of a step.
    """
    Q, R, D = np.zeros_like(G), G.copy(), G.copy()  # solution, residual and direction
    size = first = float(np.vdot(R, R))
    for _ in range(SOLVING_STEPS * len(A)):
        AD = A @ D
        bend = float(np.vdot(D, AD))
        if not (size > SOLVED**2 * first and bend > 0):
            break
        Q += G.dtype.type(size / bend) * D
        R -= G.dtype.type(size / bend) * AD
        before, size = size, float(np.vdot(R, R))
        D = R + G.dtype.type(size / before) * D
    return Q


def _onto_set(H: Array, problem: Problem) -> None:
    """Move initial components `H` (r, n) into their constraint set, or the simplex if they have none, in place."""
    _set_of(problem).feasible(H)


METHODS = tuple(
    Method(
        name=name,
        losses=("frobenius",),
        state=Sums,
        learn=partial(_learn, update=update),
        constrain=_onto_set,
        batch_size=1,
        codes_terms=(*SEPARABLE, Simplex),
        components_terms=(Box, Simplex),
    )
    for name, update in (("omf", _one_by_one), ("omf-da", _diagonal), ("omf-cg", _conjugate))
)
