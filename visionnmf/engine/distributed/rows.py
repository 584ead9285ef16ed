"""The rows of a fit in blocks, as the solvers see them, and fits and reports of such rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import RandomState

from visionnmf._typing import Array
from visionnmf.engine import quadratic
from visionnmf.engine.blocks import blocks
from visionnmf.engine.losses import ZERO
from visionnmf.engine.optimality import ENOUGH, moved_squares, penalty_gradient, places
from visionnmf.engine.problem import Lost, Problem, Report
from visionnmf.engine.solvers import admm, hals
from visionnmf.engine.solvers.momentum import imbalance, rescale
from visionnmf.engine.starts import absolute_normal, factor_to_match, scale_of
from visionnmf.engine.stopping import Callback, Fit, Iteration, run

from .block import CodesUpdate, ReportSums, Sums
from .crew import Crew

ONE_STREAM = 10**8  # up to this many codes, the random start is that of a fit in memory; beyond, each block has a seed
PANEL_ENTRIES = 1 << 26  # entries of the features that are balanced together: 20 bytes each
BALANCE_ROUNDS = 60  # maximum number of times that all blocks balance the gradient together
LIMIT = np.iinfo(np.int32).max


@dataclass
class RowsInBlocks:
    """Rows that a crew holds; ``problem.X`` is None, or an empty sparse matrix, and `sums` describes the data."""

    crew: Crew
    problem: Problem
    sums: Sums
    dtype: Any
    n_features: int

    @property
    def n_samples(self) -> int:
        """The number of rows of all blocks."""
        return sum(self.crew.sizes)

    @property
    def weighted(self) -> bool:
        """Whether entries have weights other than 1, or are missing."""
        return self.problem.weights is not None

    def start(self, n_components: int, rng: RandomState, H: Array | None, given: bool) -> Array:
        """Start all blocks; return the components to start from: given ones, or drawn as by :func:`..starts.random`."""
        crew, sums, r = self.crew, self.sums, n_components
        mean = sums.total / (sums.n_observed or 1)
        scale = scale_of(mean, r)
        components = absolute_normal(rng, (r, self.n_features), scale, self.dtype)
        crew.tell("begin", self.problem)
        crew.tell("empty_codes", r)
        self._draw(r, rng, scale)
        if given:
            crew.tell("take_codes")
        if H is not None:
            components = H.copy()
        factor = 1.0
        if given != (H is not None):  # only one of the two factors is given
            (code_sums,) = crew.sum_of("code_sums")
            factor = factor_to_match(mean, code_sums / self.n_samples, components.mean(axis=1, dtype=np.float64))
            if given:
                components *= components.dtype.type(factor)
                factor = 1.0
        crew.tell("start", factor)
        self.problem.penalty_H.feasible(components)
        return components

    def _draw(self, n_components: int, rng: RandomState, scale: float) -> None:
        """Draw codes on all blocks: up to :data:`ONE_STREAM` as a fit in memory does, otherwise from a seed a block."""
        if n_components * self.n_samples <= ONE_STREAM:
            # answers are summed over the workers; GeneratorState, whose `value` is the state, defines the sum of equal
            # states as one of them
            (state,) = self.crew.update_and_sum("draw", rng.get_state(), self.n_samples, scale)
            rng.set_state(state.value)
        else:
            self.crew.tell("draw_each", rng.randint(LIMIT, size=len(self.crew.sizes)).tolist(), scale)

    def objective(self, H: Array) -> float:
        """Return the loss plus both penalties for the present codes of all blocks and components `H` (r, n)."""
        loss, penalty = self.crew.sum_of("objective", H)
        return float(loss + (penalty + self.problem.penalty_H.value(H)))


class AdmmRowsInBlocks:
    """Rows in blocks for :func:`..solvers.admm.follow`."""

    def __init__(self, rows: RowsInBlocks) -> None:
        self.loss = rows.problem.loss
        self._rows = rows

    def totals(self) -> admm.Totals:
        """Return the sums over all rows from which :func:`..solvers.admm.follow` chooses the first rho."""
        return admm.Totals(*self._rows.crew.update_and_sum("totals"))

    def step(self, H: Array, inverse_rho: float, decay: float) -> admm.Pass:
        """Update the codes for fixed components `H`; return the sums over all blocks that the components need."""
        found = admm.Pass(*self._rows.crew.update_and_sum("admm_step", H, inverse_rho, decay))
        return found._replace(right=found.right.astype(H.dtype), gram=found.gram.astype(H.dtype))

    def improve_components(self, H: Array, sums: admm.Pass, inverse_rho: float) -> float:
        """Update the components `H` (r, n) in place, in this process; return their penalty before."""
        return admm.improve_components(self._rows.problem, H, sums, inverse_rho)

    def polish(self, H: Array, max_iter: int) -> Iterator[Iteration]:
        """Minimise the Huber loss by descent, over the codes and `H` in place, from where ADMM ends; yield progress."""
        rows = DescentRowsInBlocks(self._rows, "clipped")
        return hals.descend(rows, H, self._rows.problem.penalty_H, max_iter=max_iter)


class DescentRowsInBlocks:
    """Rows in blocks for :func:`..solvers.hals.descend`; `kind` is that of :meth:`.block.Block.prepare_descent`."""

    def __init__(self, rows: RowsInBlocks, kind: str) -> None:
        self._rows, self._crew, self._kind = rows, rows.crew, kind
        largest = float(rows.sums.largest_weight.value)  # the largest weight of an entry, over all blocks
        # factor of the penalties: with weights, the sweeps minimise an upper bound of the loss divided by `largest`
        self._scale = 1 / largest if rows.weighted else 1.0
        self._largest_codes: Array  # (r,) largest code of each component, set by `improve`
        # only for the number of sweeps, for which it matters whether the data are sparse, but not what they are
        like = rows.problem.X if rows.problem.is_sparse else np.zeros((1, 1), rows.dtype)
        self._halves = hals.Gram(replace(rows.problem, X=like, weights=None))
        self._crew.tell("prepare_descent", kind, largest)

    def objective(self, H: Array) -> float:
        """Return the loss plus both penalties of the best codes so far and of components `H` (r, n)."""
        return self._rows.objective(H)

    def improve(self, H: Array, H_new: Array, momentum: float) -> float:
        """Update the codes for fixed components `H`, and then `H_new` in place; return the objective of both."""
        found = CodesUpdate(*self._crew.update_and_sum("improve_codes", H, momentum))
        gram, right, self._largest_codes = found.gram.astype(H.dtype), found.right.astype(H.dtype), found.largest.value
        penalty_H = self._rows.problem.penalty_H
        sweeps = self._halves.sweeps(len(H), self._rows.n_samples)
        quadratic.improve(H_new, gram, right, penalty_H, sweeps=sweeps, scale=self._scale)
        loss = None
        if self._kind == "gram":
            loss = hals.loss_from_products(H_new, gram, right, self._rows.sums.squares)
        if loss is None:
            (loss,) = self._crew.sum_of("next_loss", H_new)  # of the codes of this step, which are not yet accepted
        return float(loss + (found.penalty + penalty_H.value(H_new)))

    def accept(self, components: list[Array]) -> None:
        """Keep the extrapolated codes, and rescale components of which one factor is huge and the other tiny."""
        exponents = None
        if not (self._rows.problem.penalty_W.kinds or self._rows.problem.penalty_H.kinds):
            exponents = imbalance(self._largest_codes, components[0].max(axis=1, initial=0))
        if exponents is not None:
            rescale(components, exponents)
        self._crew.tell("accept", None if exponents is None else -exponents)

    def reject(self) -> None:
        """Have all blocks, by a message, drop their last update and go on from the best codes, not extrapolated."""
        self._crew.tell("reject")


def iterate(rows: RowsInBlocks, solver: str, H: Array, *, max_iter: int) -> Iterator[Iteration]:
    """Run "admm" or "hals" on rows in blocks as in memory; update `H` in place, and yield progress."""
    if solver == "admm":
        return admm.follow(AdmmRowsInBlocks(rows), H, max_iter=max_iter)
    kind = "filled" if rows.weighted else "gram"
    return hals.descend(DescentRowsInBlocks(rows, kind), H, rows.problem.penalty_H, max_iter=max_iter)


def report(rows: RowsInBlocks, H: Array) -> Report:
    """Evaluate the final codes, which the message "finish" has found, with the components `H`."""
    sums = ReportSums(*rows.crew.sum_of("report", H))
    lost = Lost(int(sums.n_nonzero), int(sums.n_lost), sums.n_entries / rows.sums.n_entries)
    is_zero = lost.n_nonzero > 0 and not (sums.used.astype(bool) & H.any(axis=1)).any()
    return Report(float(sums.loss), float(sums.penalty + rows.problem.penalty_H.value(H)), is_zero, lost)


def optimality(rows: RowsInBlocks, H: Array) -> float:
    """Return how far codes and components are from a stationary point, as :func:`..optimality.optimality`."""
    crew, problem, sums = rows.crew, rows.problem, rows.sums
    H64 = H.astype(np.float64)
    squares_W, at_zero = crew.sum_of("code_squares")
    norms_W, norms_H = np.sqrt(squares_W), np.linalg.norm(H64, axis=1)
    size = float(np.sqrt(sums.squares)) or float(norms_W @ norms_H)
    if size == 0:
        return 0.0
    tiny = ZERO * sums.total / sums.n_entries  # residuals up to this count as 0, where a loss has a kink
    G, derivative = crew.update_and_sum("gradients", H, tiny, at_zero / rows.n_samples)
    if problem.loss.record.kink:
        derivative = at_zero
        # choose the derivatives at residuals of 0, some features at a time, so that the gradient is small
        enough = ENOUGH * float(np.sqrt(at_zero / H.shape[1]))  # norm of a feature's gradient that counts as 0
        slope, within = penalty_gradient(problem.penalty_H, H64), places(problem.penalty_H, H64)
        size_of_panel = max(1, PANEL_ENTRIES // rows.n_samples)
        for first, last in blocks(H.shape[1], size_of_panel):
            crew.tell("find_kinks", H, first, last, tiny)
            part = slice(first, last)
            G[:, part] = _balanced(rows, within[:, part], G[:, part], slope[:, part], norms_W, enough)
    sigma = float(np.sqrt(derivative)) / size or 1.0
    (moved_W,) = crew.sum_of("moved", norms_H, sigma)
    moved_H = moved_squares(H64, G, norms_W, problem.penalty_H, sigma)
    return float(np.sqrt(max(moved_W, moved_H))) / size


def _balanced(rows: RowsInBlocks, within: Array, G: Array, slope: Array, norms: Array, enough: float) -> Array:
    """Return the gradient of the components of some features, which lie `within` their bounds (see `places`)."""
    # The choice is a bounded least-squares problem for each feature, which couples all samples. Coordinate descent
    # solves it in memory (:func:`..kernels.manhattan.balance_signs`). Here each block descends as if it were alone,
    # and all blocks move towards what they have found by the share that is best for their sum, at least one over the
    # number of blocks. All is divided by the norms of the codes, so that components of all scales count alike.
    crew = rows.crew
    norms = np.where(norms > 0, norms, 1)
    total = (G + slope) / norms[:, None]

    def distances(total: Array) -> Array:
        """Return for each feature the squared norm of what the bounds do not absorb of a gradient (r, n)."""
        # at a bound, a derivative out of the box is optimal
        absorbed = ((within == 0) & (total > 0)) | ((within == 1) & (total < 0))
        return np.square(np.where(absorbed, 0, total)).sum(axis=0)

    n_blocks = len(crew.sizes)
    steps = np.geomspace(1 / n_blocks, 1, 1 + 2 * math.ceil(math.log2(n_blocks)))
    for _ in range(BALANCE_ROUNDS):
        if (distances(total) <= enough**2).all():
            break
        (change,) = crew.update_and_sum("balance", total, within, norms, enough)
        shares = steps[np.argmin([distances(total + step * change) for step in steps], axis=0)]
        crew.tell("move", shares)
        total = total + shares * change
    return total * norms[:, None] - slope


def fit(
    rows: RowsInBlocks, solver: str, H: Array, *, max_iter: int, tol: float, callback: Callback | None = None
) -> Fit:
    """Minimise a problem over the codes of all blocks and `H`, by "admm" or "hals"; as :func:`..solving.fit`."""
    return run(
        iterate(rows, solver, H, max_iter=max_iter),
        rows.problem.loss,
        tol=tol,
        callback=callback,
        objective=lambda: rows.objective(H),
        optimality=lambda: optimality(rows, H),
        exact_objective=lambda: rows.crew.sum_of("exact_objective")[0],
    )
