"""Solvers of the beta-divergences for comparison: multiplicative updates, and scalar block coordinate descent (sBCD).

Multiplicative updates (Lee & Seung 2000; Fevotte & Idier 2011) are the baseline of all packages: simple and slow.
Gradient descent with a fixed step ("gd") is what they replaced.

sBCD as published (Li, Lebanon & Park 2012) gives every entry a weight in each iteration, and updates the components one
after the other on the weighted least-squares model. The steps are not damped, so the objective may rise.

==========  ================================  ====================
solver      weight of an entry x, model p     paper
==========  ================================  ====================
sbcd-plain  ``p^(beta - 2)``                  Algorithm 1
al-a        ``x^(beta - 2)``                  section 4.3, sBCD_AL_A
al-b        1                                 section 4.3, sBCD_AL_B
==========  ================================  ====================

Weights are divided by the weight at the mean of the data, and the penalties are multiplied by ``mean(X)^(2 - beta)`` to
match. This changes nothing for the first two solvers. The weights of AL-B are 1 in the paper, so only its l1 and l2 are
multiplied; otherwise the penalties would not keep their size relative to the loss that AL-B approximates.

The paper adds an l1 penalty to the denominator of the update, but the derivative does not vanish there. Here it is
subtracted from the numerator. The printed rule, ``h = [sum b a w]_+ / (alpha + sum b w^2)``, is that of an l2 penalty
of the weight alpha.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine.divergence import exponent, floor_of
from visionnmf.engine.kernels import divergence_descent as _sbcd_paper_kernels
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.spg import gradient_parts
from visionnmf.engine.stopping import Iteration

Array = NDArray[Any]

FIRST_CHANGE = 0.01  # of a factor in the first step of gradient descent


def _multiply(problem: Problem, Ft: Array, A: Array) -> float:
    """Multiply all codes in place by ``(G_minus / G_plus)^power``; return the loss before, without penalties."""
    penalty, dtype, beta = problem.penalty_W, Ft.dtype, problem.loss.beta
    parts = gradient_parts(problem, Ft, A)
    numerator, denominator = parts.negative, parts.positive
    # the parts are in units of each row's mean, so the penalties' gradients are scaled to match
    scale = parts.units.astype(dtype) ** dtype.type(1 - beta)
    if penalty.kinds:
        l1, l2 = (value[:, None] for value in penalty.weights(len(A), dtype))
        # the gradient of a graph penalty is F D - F S, with the affinity S (`graph`) and its row sums D (`degrees`)
        degrees = 0.0 if penalty.graph is None else penalty.degrees
        denominator += scale * (l1 + (l2 + degrees) * Ft)
    if penalty.graph is not None:
        numerator += scale * (Ft @ penalty.graph)
    ratio = numerator / np.maximum(denominator, np.finfo(dtype).tiny)
    power = dtype.type(exponent(beta))  # with this exponent the loss never rises (Fevotte & Idier 2011)
    Ft *= ratio if power == 1 else ratio**power
    return float(parts.losses.sum())


def mu(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, multiplicatively and in place; yield the objective, which never rises.

    A code that is zero stays zero. Denominators are kept above zero (Lin 2007).
    """
    for _ in range(max_iter):
        penalties = problem.penalty_value(Wt, H)
        objective = _multiply(problem, Wt, H) + penalties  # it returns the loss before the update
        _multiply(problem.transposed, H, Wt)
        yield Iteration(objective)


def gd(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, by one gradient step each with a fixed step size, clipped at 0; the objective may rise.

    These are the additive updates that Lee & Seung (2000, equation 6) and Li, Lebanon & Park (2012) compare with. Both
    leave the step size open. Here the first step changes a factor by the share :data:`FIRST_CHANGE` of its norm.
    """
    lengths = [0.0, 0.0]
    for iteration in range(max_iter):
        objective = problem.objective(Wt, H)
        for side, (half, F, A) in enumerate(((problem, Wt, H), (problem.transposed, H, Wt))):
            gradient = _gradient(half, F, A)
            size = float(np.linalg.norm(gradient))
            if iteration == 0 and size > 0:
                lengths[side] = FIRST_CHANGE * float(np.linalg.norm(F)) / size
            F[:] = np.maximum(F - F.dtype.type(lengths[side]) * gradient, 0)
        yield Iteration(objective)


def _gradient(problem: Problem, Ft: Array, A: Array) -> Array:
    """Return the derivative of a beta-divergence with respect to the codes `Ft` (r, n_rows), with `A` (r, n) fixed."""
    X, beta = problem.X, problem.loss.beta
    # the model, kept away from 0 by a negligible share of the mean of the data because of the negative power below
    P = np.maximum(np.matmul(Ft.T, A), X.dtype.type(floor_of(beta) * X.mean(dtype=np.float64)))
    slopes = P ** X.dtype.type(beta - 2) * (P - X)
    return np.asarray(A @ (slopes if problem.weights is None else problem.weights * slopes).T)


def sbcd_plain(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update both factors in place by sBCD (Li, Lebanon & Park 2012, Algorithm 1).

    Each update minimises a weighted least-squares approximation of the divergence; an entry of the model p has the
    weight ``p^(beta - 2)``.
    """
    return _iterate_weighted(problem, Wt, H, "model", max_iter)


def al_a(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update both factors in place by AL-A, a variant of sBCD (Li, Lebanon & Park 2012, section 4.3).

    Each update minimises a weighted least-squares approximation of the divergence; an entry x of the data, not of the
    model, gives the weight ``x^(beta - 2)``.
    """
    return _iterate_weighted(problem, Wt, H, "data", max_iter)


def al_b(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update both factors in place by AL-B, a variant of sBCD (Li, Lebanon & Park 2012, section 4.3).

    Each update minimises a least-squares approximation of the divergence in which every entry has the weight 1.
    """
    return _iterate_weighted(problem, Wt, H, "one", max_iter)


def _iterate_weighted(problem: Problem, Wt: Array, H: Array, source: str, max_iter: int) -> Iterator[Iteration]:
    """Update each component in turn, in place, on a weighted least-squares approximation of the loss.

    `source` selects the weights of the entries: the power ``beta - 2`` of the model ("model") or of the data ("data"),
    in units of the mean of the data, or 1 ("one").
    """
    X, M = problem.X, problem.weights
    dtype, beta = X.dtype, problem.loss.beta
    unit = float(X.mean(dtype=np.float64)) or 1.0
    floor = floor_of(beta)  # keeps the base of the power positive

    def limits(penalty: Any, count: int) -> tuple[Any, ...]:
        """Return bounds, l1 and l2 weights (count,) of a penalty, the weights divided by ``unit^(beta - 2)``."""
        # the least-squares approximation is in units of the mean of the data, `unit`, and so divided by it as well
        l1, l2 = (value * dtype.type(unit ** (2 - beta)) for value in penalty.weights(count, dtype))
        return (*penalty.box(dtype), l1, l2)

    for _ in range(max_iter):
        P = np.matmul(Wt.T, H)
        objective = problem.objective(Wt, H)
        if source == "one":
            B = np.ones_like(X)
        else:
            B = np.maximum((P if source == "model" else X) / dtype.type(unit), dtype.type(floor))
            np.power(B, dtype.type(beta - 2), out=B)
        if M is not None:
            B *= M
        # update each component and its codes in place; the residuals, the first argument, are kept up to date
        _sbcd_paper_kernels.component_by_component(
            X - P, B, Wt, H, *limits(problem.penalty_W, len(H)), *limits(problem.penalty_H, len(H))
        )
        yield Iteration(objective)
