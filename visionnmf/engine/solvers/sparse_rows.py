"""sBCD on the stored entries of rows of sparse data, for the beta-divergences whose other entries must be missing.

As for dense data (:mod:`.sbcd`), a round replaces the divergence of each row by least squares with the weights
``p^(beta - 2)`` of the model p, on which each code takes one step. A row whose objective has risen goes back, and takes
a multiplicative update instead, which cannot raise it (Fevotte & Idier 2011). All rows of a block take their steps
together, in NumPy and in double precision, at a cost of O(nnz r). Rows are in units of their means.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.engine import divergence
from visionnmf.engine.problem import Problem

Array = NDArray[Any]

ROUNDING = 1e-12  # relative rise of an objective that is none


class DivergenceRows:
    """Rows of sparse data with their penalties: :meth:`improve` improves their codes for fixed components.

    All arrays (n_stored,) hold the stored entries of all rows one after the other: `x` the data, `row_of_entry` the
    row of each, and `components` (r, n_stored) each component's value there.
    """

    def __init__(self, problem: Problem, A: Array, block: tuple[int, int]) -> None:
        """Gather rows, divided by the mean of their stored entries (`units`), and the components at their entries."""
        X, penalty, beta = problem.X, problem.penalty_W, problem.loss.beta
        start, stop = block
        self.beta, self.n_rows = beta, stop - start
        counts = np.diff(X.indptr[start : stop + 1])
        self.empty = counts == 0  # (n_rows,) rows without stored entries
        self.row_of_entry = np.repeat(np.arange(self.n_rows), counts)  # (n_stored,) the row to which each entry belongs
        stored = slice(X.indptr[start], X.indptr[stop])
        x = X.data[stored].astype(np.float64)
        means = self.sum_by_row(x) / np.maximum(counts, 1)
        self.units = np.where(means > 0, means, 1)
        # data (n_stored,), and the components at the columns of these entries (r, n_stored)
        self.x, self.components = x / self.units[self.row_of_entry], A[:, X.indices[stored]]
        low, high = penalty.box(np.float64)
        self.low, self.high = low / self.units, high / self.units
        # in these units, the penalties are relative to units**beta, by which the divergence is divided
        l1, l2 = (weights[:, None] for weights in penalty.weights(len(A), np.float64))
        self.l1, self.l2 = l1 * self.units ** (1 - beta), l2 * self.units ** (2 - beta)

    def sum_by_row(self, entries: Array) -> Array:
        """Return for each row the sum of those `entries` (n_stored,) that belong to it."""
        return np.bincount(self.row_of_entry, entries, self.n_rows)

    def model(self, codes: Array) -> Array:
        """Return the model (n_stored,) at the stored entries, > 0, for codes (r, n_rows)."""
        p = np.zeros(len(self.x))
        for code, a in zip(codes, self.components, strict=True):  # a (n_stored,): the component at these entries
            p += code[self.row_of_entry] * a
        return np.maximum(p, divergence.floor_of(self.beta), out=p)

    def objective(self, codes: Array, p: Array) -> Array:
        """Return the divergence of the stored entries plus the penalties ``l1 f + l2 f^2 / 2`` of each row.

        The codes f are (r, n_rows), and `p` (n_stored,) is their model at the stored entries, whose data are `x`.
        Entries that are not stored are missing and cost nothing.
        """
        penalties = ((self.l1 + self.l2 / 2 * codes) * codes).sum(axis=0)
        return np.asarray(self.sum_by_row(divergence.entries(self.x, p, self.beta)) + penalties)

    def improve(self, codes: Array, rounds: int, tol: float) -> tuple[Array, float]:
        """Return better codes (r, n_rows), and the loss of the given ones.

        A row is done after `rounds` rounds, or when a round changes no code by more than `tol` times its largest one.
        Inside, codes are divided by the mean of their row's data, `units`, and divergences by ``units^beta``. A row
        without stored entries (`empty`) gets its lower bounds.
        """
        F = codes / self.units
        loss = self.sum_by_row(divergence.entries(self.x, self.model(F), self.beta)) * self.units**self.beta
        F[:, self.empty] = self.low[self.empty]
        return self._rounds(F, rounds, tol) * self.units, float(loss.sum())

    def _rounds(self, F: Array, rounds: int, tol: float) -> Array:
        """Return the codes after `rounds` rounds from `F` (r, n_rows), all divided by the mean of their row's data.

        A round is one sweep on a least-squares model of the divergence. A row whose objective it has raised takes a
        multiplicative update instead. `p` and `q` are the models at the stored entries before and after a round,
        ``self.row_of_entry`` is the row of each of these entries, and `going` marks the rows that are not done.
        """
        p = self.model(F)
        value, going = self.objective(F, p), ~self.empty
        for turn in range(rounds):
            new = np.where(going, self._descend(F, p), F)
            q = self.model(new)
            after = self.objective(new, q)
            if (risen := after > value * (1 + ROUNDING)).any():
                new = np.where(risen, self._multiply(F, p), new)
                q = self.model(new)
                after = self.objective(new, q)
                kept = after > value * (1 + ROUNDING)  # keep these codes: what has raised it now is rounding
                new, after = np.where(kept, F, new), np.where(kept, value, after)
                q = np.where(kept[self.row_of_entry], p, q)
            going &= (np.abs(new - F) > tol * new.max(axis=0, initial=0)).any(axis=0)
            F, p, value = new, q, after
            if 2 * going.sum() < len(going):  # leave out the rows that are done
                if going.any():
                    F[:, going] = self._subset(going)._rounds(F[:, going], rounds - turn - 1, tol)
                break
        return F

    def _subset(self, rows: Array) -> DivergenceRows:
        """Return a copy of this object with the `rows` only, a mask (n_rows,), on which :meth:`_rounds` goes on.

        Its `units` are not reduced, because only :meth:`improve` of the whole object uses them. `x` (n_stored,) and
        `components` (r, n_stored) are data and components at the stored entries, `empty` (n_rows,) rows without any.
        """
        some = copy(self)
        kept = rows[self.row_of_entry]  # (n_stored,) which stored entries belong to these rows
        # the remaining rows are numbered again: row i becomes the number of true values before i
        some.n_rows, some.row_of_entry = int(rows.sum()), (np.cumsum(rows) - 1)[self.row_of_entry[kept]]
        some.x, some.components = self.x[kept], self.components[:, kept]
        some.empty, some.low, some.high = self.empty[rows], self.low[rows], self.high[rows]
        some.l1, some.l2 = self.l1[:, rows], self.l2[:, rows]
        return some

    def _descend(self, F: Array, p: Array) -> Array:
        """Return the codes after one sweep of coordinate descent on weighted least squares, weights ``p^(beta - 2)``.

        Code by code, all rows take their step together: a (n_stored,) is the component at the stored entries,
        ``self.row_of_entry`` the row of each, and ``self.sum_by_row`` adds entries up. Where the curvature is 0, a
        code stays, or falls to its lower bound if it only costs.
        """
        F, e, weights = F.copy(), self.x - p, p ** (self.beta - 2)
        for code, a, l1, l2 in zip(F, self.components, self.l1, self.l2, strict=True):
            share = weights * a
            curvature = self.sum_by_row(share * a) + l2
            slope = self.sum_by_row(share * e) - l1 - l2 * code
            step = np.divide(slope, curvature, out=np.where(slope < 0, -np.inf, 0.0), where=curvature > 0)
            new = np.clip(code + step, self.low, self.high)
            e -= (new - code)[self.row_of_entry] * a
            code[:] = new
        return F

    def _multiply(self, F: Array, p: Array) -> Array:
        """Return the codes after one multiplicative update, by a power of ``above / below``.

        These are ``sum a x p^(beta - 2)``, and ``sum a p^(beta - 1)`` plus the penalty's gradient. The sums run over a
        row's stored entries, with their data x, model `p` (n_stored,) and component a, a row of ``self.components``.
        A code whose denominator is 0 stays as it is.
        """
        down, up = p ** (self.beta - 2) * self.x, p ** (self.beta - 1)
        above = np.array([self.sum_by_row(down * a) for a in self.components])
        below = np.array([self.sum_by_row(up * a) for a in self.components]) + self.l1 + self.l2 * F
        ratio = np.divide(above, below, out=np.ones_like(F), where=below > 0)
        return np.clip(F * ratio ** divergence.exponent(self.beta), self.low, self.high)
