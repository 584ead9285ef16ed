"""Codes of fixed components for the beta-divergences: Newton's method, all rows of a block at a time.

In double precision, and every sum of a row is taken in an order of its own: a row's codes are the same to the bit
whatever rows are beside it. See ``docs/derivations/sbcd.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from visionnmf.engine.divergence import floor_of, row_means
from visionnmf.engine.kernels.box import descend_rows

__all__ = ["improve"]

Array = NDArray[Any]

STEPS = 100  # of Newton's method, at most
RIDGE = 1e-11  # of the largest curvature: where components are alike, one solution of many is taken
SWEEPS = 10  # of coordinate descent, before the curvature of a face is inverted
FACES = 40  # of the box on which a quadratic model is minimised, at most
EXCHANGES = 4  # of variables that leave a face, at most
HALVINGS = 30  # of a step, at most
ARMIJO = 1e-4  # share of the first-order decrease that a step must reach
ROUNDING = 1e-15  # of a sum over a row, in units of its length
LEAST_DECREASE = 1e-12  # in the same units: a step of which less is expected is the last: Newton's error is squared
STILL = 1e-9  # of the largest code: as good as no change
FEW = 16  # components, up to which the curvature of faces is inverted for all rows at once
GRAM_SIZE = 1 << 11  # numbers in the components, up to which all of them are weighted, free or not


@dataclass
class _Rows:
    """Data, weights and codes of rows, with the codes' bounds and penalties, in the rows' own units."""

    Y: Array
    M: Array
    codes: Array
    low: Array
    high: Array
    l1: Array
    l2: Array

    def take(self, index: Array) -> _Rows:
        return _Rows(*(value[index] for value in vars(self).values()))

    def penalty(self, codes: Array) -> Array:
        return np.einsum("ij,ij->i", codes, self.l1 + self.l2 * codes / 2)


def improve(
    X: Array, M: Array, Ft: Array, A: Array, beta: float, low: float, high: float, l1: Array, l2: Array
) -> None:
    """Bring codes to the minimum, or to a stationary point where the divergence is not convex; in place.

    Parameters
    ----------
    X, M : ndarray of float64 [shape=(n_rows, n), >= 0]
        Data, and weights of the entries.
    Ft : ndarray of float64 [shape=(n_components, n_rows)]
        Good codes.
    A : ndarray of float64 [shape=(n_components, n)]
    beta : float
    low, high : float
        Bounds of the codes.
    l1, l2 : ndarray [shape=(n_components,), >= 0]
    """
    means, scale = row_means(X, M), A.max(axis=1, initial=0)
    live, index = scale > 0, np.flatnonzero(means > 0)
    units = A / np.where(live, scale, 1)[:, None]
    means = means[index, None]
    unit = np.where(live, scale, means) / means
    degree = means**beta * unit
    rows = _Rows(
        X[index] / means, M[index], Ft[:, index].T * unit, low * unit, high * unit, l1 / degree, l2 / (degree * unit)
    )
    codes = _minimise(rows, units, beta)
    found = np.clip(codes / unit, low, high).T
    Ft[np.ix_(live, index)] = found[live]


def _minimise(rows: _Rows, A: Array, beta: float) -> Array:
    codes, index, floor = rows.codes.copy(), np.arange(len(rows.codes)), floor_of(beta)
    for _ in range(STEPS):
        P = np.maximum(_times(rows.codes, A), floor)
        fisher = rows.M * _power(P, beta - 2)
        gradient = _times(fisher * (P - rows.Y), A.T) + rows.l1 + rows.l2 * rows.codes
        newton = fisher * (beta - 1 + (2 - beta) * rows.Y / P)
        step, decrease = _newton_step(rows, A, newton, gradient)
        flat = np.flatnonzero(~(decrease > 0))  # Newton's curvature where it serves, else Fisher's
        if flat.size:
            step[flat], decrease[flat] = _newton_step(rows.take(flat), A, fisher[flat], gradient[flat])
        share = _search(rows, P, _times(step, A), step, np.where(decrease > 0, decrease, 0), beta)
        new = np.clip(rows.codes + share[:, None] * step, rows.low, rows.high)
        moved, largest = np.abs(new - rows.codes).max(axis=1), new.max(axis=1)
        last = decrease <= LEAST_DECREASE * rows.M.sum(axis=1)
        last[flat] = False
        going = (decrease > 0) & (share > 0) & ((share < 1) | ~(last | (moved <= STILL * largest)))
        codes[index] = rows.codes = new
        index, rows = index[going], rows.take(going)
        if not index.size:
            break
    return codes


def _times(F: Array, A: Array) -> Array:
    """Multiply ``F @ A`` row by row: no row's result depends on the others."""
    return np.matmul(F[:, None], A)[:, 0]


def _power(P: Array, exponent: float) -> Array:
    return P**exponent if exponent not in (-1, -2) else 1 / P if exponent == -1 else 1 / (P * P)


def _divergence(Y: Array, P: Array, M: Array, beta: float) -> Array:
    """Evaluate ``sum m d(y | p)`` of each row but for what does not depend on p."""
    if beta == 1:
        term = P - Y * np.log(P)
    elif beta == 0:
        term = Y / P + np.log(P)
    else:
        term = P ** (beta - 1) * ((beta - 1) * P - beta * Y) / (beta * (beta - 1))
    return np.einsum("ij,ij->i", M, term)


def _search(rows: _Rows, P: Array, ahead: Array, step: Array, decrease: Array, beta: float) -> Array:
    """Return the share of each row's step with which the objective falls enough (Armijo), or 0."""
    value = _divergence(rows.Y, P, rows.M, beta) + rows.penalty(rows.codes)
    slack = ROUNDING * (rows.M.sum(axis=1) + np.abs(value))
    shares, left, share = np.zeros(len(P)), np.flatnonzero(decrease > 0), 1.0
    for _ in range(HALVINGS):
        part = rows.take(left)
        trial = np.maximum(P[left] + share * ahead[left], floor_of(beta))
        new = np.clip(part.codes + share * step[left], part.low, part.high)
        after = _divergence(part.Y, trial, part.M, beta) + part.penalty(new)
        enough = after <= value[left] - ARMIJO * share * decrease[left] + slack[left]
        shares[left[enough]] = share
        left, share = left[~enough], share / 2
        if not left.size:
            break
    return shares


def _newton_step(rows: _Rows, A: Array, curvature: Array, gradient: Array) -> tuple[Array, Array]:
    """Return the change of the codes that Newton's method wants for curvatures of the entries, and the decrease.

    Only codes inside the box, or drawn inside by the gradient, take part. The decrease is that of the first order; it
    is not positive when the change is no descent, as when the curvature is not positive definite.
    """
    free = ((rows.codes > rows.low) | (gradient < 0)) & ((rows.codes < rows.high) | (gradient > 0))
    below, above = np.where(free, rows.low - rows.codes, 0), np.where(free, rows.high - rows.codes, 0)
    G = _weighted_gram(A, curvature, free)
    diagonal = np.einsum("ijj->ij", G)  # a view
    diagonal += rows.l2
    concave = ((diagonal < 0) & free).any(axis=1)
    largest = np.max(diagonal, axis=1, where=free, initial=0)
    diagonal += np.where(largest > 0, RIDGE * largest, 1)[:, None]
    G[concave] = np.eye(len(A))
    np.copyto(diagonal, 1, where=~free)
    step = _minimise_on_box(G, np.where(free, gradient, 0), below, above)
    step[concave] = 0
    return step, -np.einsum("ij,ij->i", gradient, step)


def _weighted_gram(A: Array, weights: Array, free: Array) -> Array:
    """Return ``A @ diag(w) @ A.T`` for each row w [shape=(n_rows, r, r)], at least where both components are free."""
    if A.size <= GRAM_SIZE:
        return np.matmul(weights[:, None] * A, A.T)
    G = np.zeros((len(weights), len(A), len(A)))
    for gram, w, chosen in zip(G, weights, free, strict=True):
        index = chosen.nonzero()[0]
        a = A[index]
        gram[index[:, None], index] = (w * a) @ a.T
    return G


def _minimise_on_box(G: Array, s: Array, below: Array, above: Array) -> Array:
    """Minimise ``s . d + d G d / 2`` over ``below <= d <= above`` for each row, nearly, from ``d = 0``.

    Coordinate descent finds a face of the box, a linear system the minimum on it (as Moré & Toraldo 1991 do with
    projected and conjugate gradients). `s` is brought to the gradients.
    """
    found, index, d = np.zeros_like(s), np.arange(len(s)), np.zeros_like(s)
    for _ in range(FACES):
        descend_rows(G, s, below, above, d, SWEEPS)
        least = _step_on_face(G, s, below, above, d)
        inward = ((d <= below) & (s < 0)) | ((d >= above) & (s > 0))
        going = ~least | (inward & (below < above)).any(axis=1)
        found[index] = d
        index = index[going]
        if not index.size:
            break
        G, s, below, above, d = (value[going] for value in (G, s, below, above, d))
    return found


def _step_on_face(G: Array, s: Array, below: Array, above: Array, d: Array) -> Array:
    """Go from `d` to the minimum on the face of the box on which it lies; return where that is reached.

    Variables that would leave the box are taken out of the face; after some tries the step ends at the box.
    """
    face, x, left = (below < d) & (d < above), np.zeros_like(d), np.arange(len(d))
    least, share = np.ones(len(d), bool), np.ones((len(d), 1))
    for exchange in range(EXCHANGES + 1):
        _solve_on_faces(G, s, face, left, x)
        goal = d[left] + x[left]
        outside = (goal < below[left]) | (goal > above[left])
        leaving = outside.any(axis=1)
        left, outside = left[leaving], outside[leaving]
        least[left] = False
        if not left.size:
            break
        if exchange < EXCHANGES:
            face[left] &= ~outside
        else:  # the last step is one on all of the face
            bound = np.where(goal[leaving] < below[left], below[left], above[left])
            room = np.where(outside, bound - d[left], 1) / np.where(outside, x[left], 1)
            share[left] = room.min(axis=1, keepdims=True, initial=1)
    change = np.clip(d + share * x, below, above) - d
    d += change
    s += np.matmul(change[:, None], G)[:, 0]
    return least


def _solve_on_faces(G: Array, s: Array, face: Array, rows: Array, x: Array) -> None:
    """Write ``-inv(G) s`` of some rows on their faces to `x`, and 0 elsewhere."""
    if G.shape[1] <= FEW:
        part = face[rows]
        system = np.where(part[:, :, None] & part[:, None], G[rows], 0)
        np.einsum("ijj->ij", system)[~part] = 1
        x[rows] = np.linalg.solve(system, -np.where(part, s[rows], 0)[..., None])[..., 0]
        return
    x[rows] = 0
    for j in rows:
        index = face[j].nonzero()[0]
        _, found, failed = dposv(G[j][index[:, None], index], -s[j, index])
        x[j, index] = np.nan if failed else found
