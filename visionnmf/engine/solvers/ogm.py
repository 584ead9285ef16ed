"""Nesterov smoothing of the Manhattan loss and the elastic net (MahNMF, Guan et al. 2012, Algorithms 2 and 3).

The kink of ``|e|`` is replaced by a parabola of half-width ``smoothing * q_i``, ``q_i`` the norm of column i of the
fixed factor. Nesterov's optimal gradient method (OGM) runs on the smoothed half-problem for each factor in turn, while
the smoothing goes to 0. Two sets of options (``docs/derivations/ogm.md``):

=========  ==============================================  ========================================================
option     ``ogm``                                         ``ogm-paper`` and ``ogm-printed``
=========  ==============================================  ========================================================
centre     the present factor: a warm start                0, as in Algorithm 2
curvature  largest eigenvalue of ``A diag(1/q) A^T``       its trace
graph      a bound of the largest eigenvalue               the largest eigenvalue (section 4.2)
smoothing  relative to the data, falls geometrically       ``lambda_0 / (t + 1)`` in the units of the data
steps      a few                                           grow like the root of t, or until the stop of equation 22
=========  ==============================================  ========================================================

"ogm-paper" is the authors' code: ``lambda_0 = 1``, and the number of steps that section 3 derives. "ogm-printed" is the
text: ``lambda_0 = 0.1`` (section 5) and the stop of equation 22. ``lambda_0`` is a unit
of the data: on ``X / c^2`` with both factors of the start divided by c, one run with ``lambda_0 = 1`` gives, divided by
c, what ``lambda_0 = c`` gives on ``X``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from visionnmf._typing import Array
from visionnmf.engine.blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread, rows_per_block
from visionnmf.engine.kernels import manhattan as _ogm_kernels
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.quadratic import largest_eigenvalue
from visionnmf.engine.stopping import Iteration

LOSSES = frozenset({"manhattan", "elastic-net"})  # |e| + alpha / 2 e^2

FIRST_SMOOTHING = 0.3  # half-width of the parabola at the start, in units of the mean of the data
SMOOTHING_DECAY = 30.0  # factor by which the smoothing decreases over the whole path
STEPS = 10  # for each factor in one iteration
PAPER_SMOOTHING = 1.0  # lambda_0 in the authors' code
PRINTED_SMOOTHING = 0.1  # lambda_0 in section 5 of the paper
PRINTED_PRECISION = 0.1  # below equation 22
PAPER_STEPS = 10  # gradient steps in the first round
MOST_STEPS = 1000  # gradient steps in a round that the stop of equation 22 does not end
GAP = 1e-4  # relative duality gap at which a half-problem in a finite box counts as solved


class SmoothingVariant(NamedTuple):
    """Choices in which this solver differs from the paper.

    If `centred`, the prox-function is centred at the current factor; a centre at 0 discards the warm start. If `trace`,
    the curvature is bounded by a trace instead of the largest eigenvalue. If `relative`, the smoothing is in units of
    the data. If `stopped`, steps end by equation 22 of the paper.
    """

    centred: bool
    trace: bool
    relative: bool
    stopped: bool = False


OURS = SmoothingVariant(centred=True, trace=False, relative=True)
PUBLISHED = SmoothingVariant(centred=False, trace=True, relative=False)
PRINTED = PUBLISHED._replace(stopped=True)


def iterate(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Update `Wt`, then `H`, in place by a few gradient steps each; yield the objective before each iteration."""
    smoothing = FIRST_SMOOTHING * float(problem.X.mean(dtype=np.float64))
    decay = SMOOTHING_DECAY ** (-1 / max_iter)
    yield from follow(problem, Wt, H, [(smoothing * decay**t, STEPS) for t in range(max_iter)], OURS)


def iterate_as_published(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run Algorithm 3 of MahNMF (Guan et al. 2012) as the code of its authors does; yield as :func:`iterate` does."""
    path = [(PAPER_SMOOTHING / (t + 1), int(PAPER_STEPS * (t + 1) ** 0.5)) for t in range(max_iter)]
    yield from follow(problem, Wt, H, path, PUBLISHED)


def iterate_as_printed(problem: Problem, Wt: Array, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run Algorithm 3 of MahNMF (Guan et al. 2012) with the numbers that the paper prints."""
    yield from follow(problem, Wt, H, [(PRINTED_SMOOTHING / (t + 1), MOST_STEPS) for t in range(max_iter)], PRINTED)


def follow(
    problem: Problem, Wt: Array, H: Array, path: list[tuple[float, int]], options: SmoothingVariant
) -> Iterator[Iteration]:
    """Run one iteration for each pair (smoothing, number of steps) of a path; yield the objective before each."""
    for smoothing, steps in path:
        objective = problem.penalty_value(Wt, H)
        with one_blas_thread():
            objective += half(problem, Wt, H, smoothing=smoothing, steps=steps, options=options)
            half(problem.transposed, H, Wt, smoothing=smoothing, steps=steps, options=options)
        yield Iteration(objective)


def half(
    problem: Problem, Wt: Array, H: Array, *, smoothing: float, steps: int, options: SmoothingVariant = OURS
) -> float:
    """Take at most `steps` Nesterov steps on the smoothed problem for `Wt` (Algorithm 2); return the loss before."""
    penalty, number = problem.penalty_W, Wt.dtype.type
    smooth = _Smoothed(problem, H, smoothing, options)
    if not smooth.curvature > 0:
        return smooth.gradient(Wt)[0]  # the fixed factor is 0, so the codes do not matter
    # Y is a gradient step from the current point, and Z a step from `centre` along the sum of all gradients, of which
    # that of step k has the weight (k + 1) / 2; the next point lies between them.
    down = number(1 / smooth.curvature)
    centre = Wt.copy() if options.centred else np.zeros_like(Wt)  # 0, as in the paper, forgets the warm start
    total = np.zeros_like(Wt)  # weighted sum of all gradients so far
    first, weight, smoothed = 0.0, 0.0, np.inf
    for k in range(steps):
        value, gradient, gap = smooth.gradient(Wt)  # loss, gradient of the smoothed loss, and duality gap
        first = first if k else value  # the loss before the first step
        if gap <= GAP * value:
            break
        if options.stopped:  # equation 22 of the paper: the smoothed objective hardly changes any more
            before, smoothed = smoothed, smooth.value(Wt)
            if abs(before - smoothed) <= smooth.precision:
                break
        if penalty.smooth:
            gradient += penalty.gradient(Wt)
        weight += (k + 1) / 2
        total += number((k + 1) / 2) * gradient
        Y = Wt - down * gradient
        penalty.prox(Y, 1 / smooth.curvature)
        Z = centre - down * total
        penalty.prox(Z, weight / smooth.curvature)
        Y *= number((k + 1) / (k + 3))
        Z *= number(2 / (k + 3))
        np.add(Y, Z, out=Wt)
    return first


class _Smoothed:
    """The smoothed loss as a function of the codes; `curvature` is a Lipschitz constant of its gradient."""

    def __init__(self, problem: Problem, A: Array, smoothing: float, options: SmoothingVariant) -> None:
        """Choose the width of the smoothing for each feature and bound the curvature; `A` (r, n) is fixed."""
        self.problem, self.A = problem, A
        q = np.linalg.norm(A, axis=0).astype(np.float64)
        if options.relative:
            q /= q.mean() or 1.0
        self.half_widths = (smoothing * q).astype(A.dtype)  # (n,) half-widths; 0 for a feature that no component uses
        used = self.half_widths > 0
        inverse = np.where(used, 1 / np.where(used, self.half_widths, 1), 0).astype(A.dtype)
        gram = (A * inverse) @ A.T
        curvature = float(np.trace(gram, dtype=np.float64)) if options.trace else largest_eigenvalue(gram)
        if problem.loss.parameter:  # alpha of the elastic net
            curvature += problem.loss.parameter * largest_eigenvalue(A @ A.T)
        if problem.weights is not None:
            curvature *= float(problem.weights.max(initial=0))
        penalty, n_rows = problem.penalty_W, problem.X.shape[0]
        # of the smooth penalties: the paper takes the largest eigenvalue of a graph, we a bound that costs less
        smooth = penalty.curvature() if options.trace else penalty.lipschitz()
        self.curvature = curvature + smooth if curvature > 0 else 0.0  # 0 says that the fixed factor is 0
        # Change of the smoothed objective below which the steps end (equation 22). Theorem 2 asks for at most
        # n D lambda / 2, which alone would end them after two or three.
        self.precision = min(PRINTED_PRECISION, n_rows * float(self.half_widths.sum(dtype=np.float64)) / 2)
        # (n_rows,) written by `gradient`: loss, and inner product of the data with the dual, of each row
        self.losses, self.inner = np.empty(n_rows), np.empty(n_rows)

    def gradient(self, Wt: Array) -> tuple[float, Array, float]:
        """Return the loss (not smoothed), the gradient of the smoothed loss, and the duality gap."""
        problem = self.problem
        # alpha of the elastic net ``|e| + alpha / 2 e^2``, 0 for the Manhattan loss
        X, alpha = problem.X, Wt.dtype.type(problem.loss.parameter)
        gradient = np.empty_like(Wt)
        size = rows_per_block(X.shape[1])

        def rows(block: tuple[int, int]) -> None:
            """Fill the gradient, `losses` and `inner`, the products of data and dual, of rows ``block[0]:block[1]``."""
            start, stop = block
            P = Wt[:, start:stop].T @ self.A
            # the kernel replaces the model by the derivative of the smoothed loss with respect to it, whose part from
            # ``|e|`` is the dual; within `half_widths` (n,) of 0, a residual costs a parabola
            _ogm_kernels.ogm_pass(X, P, problem.weights, self.half_widths, alpha, start, stop, self.losses, self.inner)
            np.matmul(self.A, P.T, out=gradient[:, start:stop])

        map_blocks(rows, blocks(X.shape[0], size), parallel=X.size * len(Wt) > 4 * BLOCK_ELEMENTS)
        value = float(self.losses.sum())
        return value, gradient, self._gap(value, gradient, problem.penalty_W)

    def value(self, Wt: Array) -> float:
        """Return the smoothed objective (Guan et al. 2012, equation 15) of the codes `Wt` (r, n_rows)."""
        problem, M, alpha = self.problem, self.problem.weights, self.problem.loss.parameter
        E = np.abs(Wt.T @ self.A - problem.X).astype(np.float64)
        near = E < self.half_widths
        divisors = np.where(self.half_widths > 0, self.half_widths, 1)  # a half-width of 0 has no parabola
        costs = np.where(near, E**2 / (2 * divisors), E - self.half_widths / 2)
        costs += alpha / 2 * E**2
        return float(np.sum(costs if M is None else M * costs)) + problem.penalty_W.value(Wt)

    def _gap(self, value: float, gradient: Array, penalty: Penalties) -> float:
        """Return an upper bound of the distance from the minimum, or infinity if there is none."""
        if penalty.kinds != {"box"} or np.isinf(penalty.high) or self.problem.loss.parameter:
            return float("inf")
        # The half-width of the parabola that smooths a feature's kink is 0 if no component uses the feature. It is then
        # left out, with u = 0, and its whole loss would count as a gap.
        if not self.half_widths.all():
            return float("inf")
        # For any u in [-m, m], m the entry weights, the minimum is at least ``min_f <f A - x, u>``, attained at a
        # corner.
        corners = np.where(gradient > 0, penalty.low, penalty.high)
        # `gradient` is A u, `inner` holds <x, u>, and `value` is the loss
        lower = float(np.vdot(corners, gradient.astype(np.float64))) - float(self.inner.sum())
        return value - lower
