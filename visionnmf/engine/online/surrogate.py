r"""Online matrix factorisation with a quadratic surrogate (OMF), for the Frobenius loss.

Each batch is encoded with the current components. Block coordinate descent then improves the components on

.. math:: \sum_t \rho_t\, \tfrac12 \|x_t - w_t H\|^2 + n\, p_H(H)

which depends on the past only through two matrices (:mod:`.record`) and is an upper bound of the loss with optimal
codes (Mairal, Bach, Ponce & Sapiro 2010, Algorithms 1 and 2, with the mini-batches and forgetting of section 3.4). The
model fills in missing entries, and in part entries of less weight, which again gives an upper bound
(:func:`.record.filled`).

"surrogate-diagonal" (OMF-DA: Wang, Tan, Koenig & Li 2011) instead takes projected Newton steps on all components at
once, with the Hessian approximated by its diagonal. A step that would increase the surrogate is halved.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.arrays.namespace import copied, inner, namespace_of, sum_of_squares
from visionnmf.engine.penalties import ANY, SEPARABLE, Penalties, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides
from visionnmf.engine.quadratic import improve
from visionnmf.engine.solving import solve_codes

from .record import Batch, Method, Sums, filled

Array = NDArray[Any]

SWEEPS = 5  # coordinate descent sweeps between two convergence checks of the codes
ROUNDS = 10  # maximum number of convergence checks
CODES_TOLERANCE = 0.02  # relative change of the codes in one round at which they count as converged
DIAGONAL_STEPS = 5  # per batch
SHORTEST = 1e-4  # step length at which halving stops
COMPONENTS_SWEEPS = 1  # per batch; with small batches the surrogate hardly changes and more sweeps gain nothing


def learn(batch: Batch, H: Array, state: Sums, *, diagonal: bool) -> float:
    """Learn a batch: encode it, add it to the sums and improve the components.

    `diagonal` selects diagonal Newton steps (OMF-DA) instead of block coordinate descent. Without entry weights, the
    codes and the loss follow from products with the data; with them, the model fills in the missing entries before the
    batch enters the sums. These are `A` (r, r), of products of codes, `B` (r, n), of codes and data, and `weight`, the
    number of samples, in `state`. The components `H` (r, n) and `state` are changed in place; the loss of the batch,
    half the squared error at the components before, is returned.
    """
    problem, sample_weight, forgetting = batch.problem, batch.sample_weight, batch.forgetting
    if problem.weights is None:
        gram, right = product(H, H.T), right_sides(problem.X, H)
        Wt = least_squares_codes(gram, right, problem.penalty_W)
        codes_gram = state.add(Wt, problem.features, forgetting, sample_weight)
        weighted = Wt if sample_weight is None else Wt * sample_weight
        model = inner(gram, codes_gram)  # the sum of the squares of the model
        # half of |X|^2 - 2 <X, W H> + |W H|^2, which rounding may make negative
        loss = max(0.0, (sum_of_squares(problem.X, sample_weight) - 2 * inner(right, weighted) + model) / 2)
    else:
        Wt = solve_codes(problem, H)
        # The model fills in, in part, entries of less weight than the largest of their sample. All then count with that
        # weight, and the squared error is an upper bound of the loss. Copied, so that the codes are contiguous.
        V, largest_weights = filled(problem.X, product(copied(Wt.T), H), problem.weights)
        state.add(Wt, V.T, forgetting, sample_weight, largest_weights)
        loss = batch.loss(Wt, H)
    if diagonal:
        _diagonal_steps(H, state, problem.penalty_H)
    else:
        # the penalty of the components counts once for each sample
        improve(H, state.A, state.B, problem.penalty_H, sweeps=COMPONENTS_SWEEPS, scale=state.weight)
    if is_free(problem):  # without penalties any scale is as good: keep components at norm 1
        state.normalise(H)
    return loss


def _diagonal_steps(H: Array, state: Sums, penalty: Penalties) -> None:
    """Take projected Newton steps on `H`, with the Hessian's diagonal from the sums in `state`, and step halving.

    `state` has the sums of products of codes, `A` (r, r), and of codes and data, `B` (r, n), and the number of samples,
    `weight`, which multiplies `penalty`. `slope` is the gradient and `bend` its change along a step, so
    ``<move, slope + bend / 2>`` is the exact change of the quadratic part. A shorter `length` is kept for later steps.
    """
    A, B, weight = state.A, state.B, state.weight
    curvatures = A.diagonal().astype(np.float64) + weight * penalty.lipschitz()
    # steps divide by them, so those of unused components must not be 0
    curvatures = np.maximum(curvatures, np.finfo(H.dtype).eps * curvatures.max(initial=0))
    if not curvatures.max(initial=0) > 0:
        return
    length = 1.0
    for _ in range(DIAGONAL_STEPS):
        slope = product(A, H) - B
        if penalty.smooth:
            slope += H.dtype.type(weight) * penalty.gradient(H)
        before = weight * penalty.nonsmooth_value(H)
        while length >= SHORTEST:
            new = H - (length / curvatures[:, None]).astype(H.dtype) * slope
            penalty.prox(new, weight * length / curvatures)  # in place: the constraints, and what is not smooth
            move = new - H
            bend = product(A, move)
            if penalty.smooth:
                bend += H.dtype.type(weight) * (penalty.gradient(new) - penalty.gradient(H))
            change = float(np.vdot(move, slope + bend / 2)) + weight * penalty.nonsmooth_value(new) - before
            if change <= 0:
                H[:] = new
                break
            length /= 2


def is_free(problem: Problem) -> bool:
    """Return whether the scale of the components is arbitrary, because neither factor has a penalty."""
    return not problem.penalty_W.active_terms and not problem.penalty_H.active_terms


def least_squares_codes(gram: Array, right: Array, penalty: Penalties) -> Array:
    """Return least-squares codes (r, n_samples) by coordinate descent, until they hardly change.

    `gram` is ``H @ H.T`` (r, r), and `right` ``H @ X.T`` (r, n_samples).
    """
    Wt = namespace_of(right).zeros_like(right)
    penalty.feasible(Wt)
    for _ in range(ROUNDS):
        before = copied(Wt)
        improve(Wt, gram, right, penalty, sweeps=SWEEPS)
        before -= Wt  # now the change of the codes, whose norm is compared with that of the codes
        if inner(before, before) <= CODES_TOLERANCE**2 * inner(Wt, Wt):
            break
    return Wt


def _method(name: str, *, diagonal: bool) -> Method:
    """Return the record of online matrix factorisation: with diagonal Newton steps (OMF-DA) if `diagonal`, else OMF.

    Its fields say what the method supports: kinds of penalty terms of either factor, sparse data, weights of entries,
    and data on a device, for which the diagonal steps are not written.
    """
    return Method(
        name=name,
        losses=("frobenius",),
        state=Sums,
        learn=partial(learn, diagonal=diagonal),
        batch_size=256,
        codes_terms=(*SEPARABLE, Simplex),
        components_terms=ANY,
        sparse=True,
        weights=True,
        on_device=not diagonal,
    )


METHODS = (_method("surrogate", diagonal=False), _method("surrogate-diagonal", diagonal=True))
