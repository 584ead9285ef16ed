r"""Online matrix factorisation with a quadratic surrogate (OMF), for the Frobenius loss.

Each batch is encoded with the current components. Block coordinate descent then improves the components on

.. math:: \sum_t \rho_t\, \tfrac12 \|x_t - w_t H\|^2 + n\, p_H(H)

which depends on the past only through two matrices (:mod:`.record`) and is an upper bound of the loss with optimal
codes (Mairal, Bach, Ponce & Sapiro 2010, Algorithms 1 and 2, with the mini-batches and forgetting of section 3.4).
"""

from __future__ import annotations

from visionnmf._typing import Array
from visionnmf.engine.arrays.namespace import copied, inner, namespace_of, sum_of_squares
from visionnmf.engine.penalties import ANY, SEPARABLE, Penalties, Simplex
from visionnmf.engine.problem import Problem
from visionnmf.engine.products import product, right_sides
from visionnmf.engine.quadratic import improve
from visionnmf.engine.solving import solve_codes

from .record import Batch, Method, Sums, filled

SWEEPS = 5  # coordinate descent sweeps between two convergence checks of the codes
ROUNDS = 10  # maximum number of convergence checks
CODES_TOLERANCE = 0.02  # relative change of the codes in one round at which they count as converged
COMPONENTS_SWEEPS = 1  # per batch; with small batches the surrogate hardly changes and more sweeps gain nothing


def learn(batch: Batch, H: Array, state: Sums) -> float:
    """Encode a batch, add it to the sums and improve the components; return its loss at the components before."""
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
    improve_components(problem, H, state)
    return loss


def improve_components(problem: Problem, H: Array, state: Sums) -> None:
    """Sweep over the components once, in place; without penalties any scale is as good, and they get norm 1."""
    improve(H, state.A, state.B, problem.penalty_H, sweeps=COMPONENTS_SWEEPS, scale=state.weight)
    if not problem.penalty_W.active_terms and not problem.penalty_H.active_terms:
        state.normalise(H)


def least_squares_codes(gram: Array, right: Array, penalty: Penalties) -> Array:
    """Return codes (r, n_samples) for ``H @ H.T`` and ``H @ X.T`` by coordinate descent until they hardly change."""
    Wt = namespace_of(right).zeros_like(right)
    penalty.feasible(Wt)
    for _ in range(ROUNDS):
        before = copied(Wt)
        improve(Wt, gram, right, penalty, sweeps=SWEEPS)
        before -= Wt  # now the change of the codes, whose norm is compared with that of the codes
        if inner(before, before) <= CODES_TOLERANCE**2 * inner(Wt, Wt):
            break
    return Wt


METHOD = Method(
    name="surrogate",
    losses=("frobenius",),
    state=Sums,
    learn=learn,
    batch_size=256,
    codes_terms=(*SEPARABLE, Simplex),
    components_terms=ANY,
    sparse=True,
    weights=True,
    on_device=True,
)
