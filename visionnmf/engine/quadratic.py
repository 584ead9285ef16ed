r"""The quadratic half-problem: one factor against a Gram matrix, with any penalty.

.. math:: \min_F\; \tfrac12 \langle F, G F \rangle - \langle B, F \rangle + s\, p(F)

with ``G = A A^T`` and ``B = A V`` for data ``V`` and the other factor ``A``: what least squares, ADMM and majorised
losses come down to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread
from .kernels import least_squares as _exact_kernels
from .kernels import penalties as _penalty_kernels
from .kernels.hals import TILE, hals_columns
from .penalties import SEPARABLE, Graph, Penalty

__all__ = ["accelerate", "improve", "largest_eigenvalue", "solve"]

Array = NDArray[Any]

RIDGE = 1e-12  # of the largest diagonal entry: where components are alike, one solution of many is taken
STEPS_A_SWEEP = 4  # of proximal gradient, which gains less a step than coordinate descent does a sweep


def improve(
    F: Array,
    gram: Array,
    right: Array,
    penalty: Penalty,
    *,
    sweeps: int,
    scale: float = 1.0,
    alternate: bool = False,
) -> None:
    """Decrease ``<F, gram F> / 2 - <right, F> + scale * penalty(F)``, in place.

    - box, l1, l2: HALS (:func:`.kernels.hals.hals_columns`), in threads over the points;
    - a graph beside these: coordinate descent point after point (:func:`.kernels.penalties.graph_points`);
    - what ties no two components together, as groups in penalty form: a proximal step a component, an exact minimiser
      without a graph;
    - else accelerated proximal gradient (:func:`accelerate`).

    Parameters
    ----------
    F : ndarray [shape=(n_components, n_points)]
        Feasible (:meth:`.penalties.Penalty.feasible`); overwritten.
    gram : ndarray [shape=(n_components, n_components)], symmetric, positive semi-definite
    right : ndarray [shape=(n_components, n_points)]
        Like `gram` in the dtype of `F`.
    penalty : Penalty
    sweeps : int
        Passes over the components; a few times as many steps of proximal gradient.
    scale : float, > 0, default=1
        Of the penalty.
    alternate : bool, default=False
        Whether every second sweep of HALS goes backward.
    """
    if not penalty.beyond(SEPARABLE):
        _improve_points(F, gram, right, penalty, sweeps, scale, alternate)
    elif not penalty.beyond((*SEPARABLE, Graph)):
        _improve_on_graph(F, gram, right, penalty, sweeps, scale)
    elif not penalty.couples_components:
        _improve_components(F, gram, right, penalty, sweeps, scale)
    else:
        accelerate(F, gram, right, penalty, steps=STEPS_A_SWEEP * sweeps, scale=scale)


def _improve_points(
    F: Array, gram: Array, right: Array, penalty: Penalty, sweeps: int, scale: float, alternate: bool
) -> None:
    # a component that is as good as zero beside the others has no use, and its inverse would leave its range
    squares = gram.diagonal()
    dead = squares < np.finfo(gram.dtype).tiny / np.finfo(gram.dtype).eps
    if dead.any():
        gram, right = np.where(dead[:, None] | dead, 0, gram), np.where(dead[:, None], 0, right)
    low, high = penalty.box(F.dtype)
    l1, l2 = (F.dtype.type(scale) * weights for weights in penalty.weights(len(F), F.dtype))

    def columns(block: tuple[int, int]) -> None:
        hals_columns(F, gram, right, 0, low, high, l1, l2, sweeps, alternate, *block)

    map_blocks(columns, blocks(F.shape[1], 4 * TILE), parallel=F.size * len(F) > 4 * BLOCK_ELEMENTS)


def _improve_on_graph(F: Array, gram: Array, right: Array, penalty: Penalty, sweeps: int, scale: float) -> None:
    dtype, graph = F.dtype, penalty.graph
    points = np.ascontiguousarray(F.T)
    _penalty_kernels.graph_points(
        points,
        gram,
        np.ascontiguousarray(right.T),
        *penalty.box(dtype),
        *penalty.weights(len(F), dtype),
        graph.indptr,
        graph.indices,
        graph.data.astype(dtype, copy=False),
        penalty.degrees.astype(dtype),
        dtype.type(scale),
        sweeps,
    )
    F[:] = points.T


def _improve_components(F: Array, gram: Array, right: Array, penalty: Penalty, sweeps: int, scale: float) -> None:
    """Take a proximal gradient step on each component in turn, with its own step length (block coordinate descent)."""
    curvatures = np.asarray(gram.diagonal(), np.float64)
    # a component that the other factor does not use has no curvature, but its penalty should still vanish
    curvatures = np.maximum(curvatures, np.finfo(F.dtype).eps * curvatures.max(initial=0))
    parts = [penalty.component(k) for k in range(len(F))]
    ridges = [scale * part.lipschitz() for part in parts]
    with one_blas_thread():
        for _ in range(sweeps):
            for k, part in enumerate(parts):
                curvature = curvatures[k] + ridges[k]
                if not curvature > 0:
                    continue
                row = F[k : k + 1]
                slope = gram[k] @ F
                slope -= right[k]
                slope = slope[None, :]
                if ridges[k]:
                    slope += F.dtype.type(scale) * part.gradient(row)
                slope *= F.dtype.type(-1 / curvature)
                slope += row
                part.prox(slope, scale / curvature)
                row[:] = slope


def accelerate(
    F: Array,
    gram: Array,
    right: Array,
    penalty: Penalty,
    *,
    steps: int,
    tol: float | None = None,
    scale: float = 1.0,
) -> tuple[int, float]:
    r"""Minimise by accelerated proximal gradient with restarts, in place; the objective never rises.

    Nesterov's method as in NeNMF (Guan et al. 2012), with a prox in place of the projection. A step that would raise
    the objective is not taken; the momentum starts anew instead (O'Donoghue & Candes 2015). The product with `gram` is
    linear, so that of the extrapolated point is extrapolated: one product a step gives gradient and objective.

    Parameters
    ----------
    F, gram, right, penalty, scale
        As for :func:`improve`.
    steps : int
        At most so many.
    tol : float, optional
        Stop when the norm of the projected gradient, ``|L (Y - prox(Y - gradient / L))|``, is at most this. None does
        without measuring it.

    Returns
    -------
    n_steps : int
        Steps taken.
    size : float
        Norm of the projected gradient at the first point; 0 when not measured.
    """
    curvatures = _curvatures(gram, penalty) + scale * penalty.lipschitz()
    if not curvatures.max(initial=0) > 0:
        return 0, 0.0
    with one_blas_thread():
        half = F.dtype.type(0.5)
        Q = _slopes(F, gram, penalty, scale)
        ahead, Q_ahead = F, Q
        value = scale * penalty.nonsmooth_value(F)
        t, first = 1.0, 0.0
        for step in range(steps):
            new = _proximal_step(ahead, Q_ahead, right, penalty, scale, curvatures)
            size = 0.0 if tol is None else _scaled_norm(new - ahead, curvatures)
            first = size if step == 0 else first
            Q_new = _slopes(new, gram, penalty, scale)
            value_new = scale * penalty.nonsmooth_value(new)
            move = new - F
            # the change of the objective as one product, which cancellation does not spoil
            middle = Q_new + Q
            middle *= half
            middle -= right
            change = float(np.vdot(move, middle)) + value_new - value
            if change > 0 and t == 1:
                return step, first  # a plain step cannot rise but by rounding
            if change > 0:
                t, ahead, Q_ahead = 1.0, F, Q
                continue
            t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
            momentum = F.dtype.type((t - 1) / t_new)
            F[:] = new
            move *= momentum
            ahead = np.add(new, move, out=new)
            Q_ahead = np.subtract(Q_new, Q, out=Q)
            Q_ahead *= momentum
            Q_ahead += Q_new
            Q, value, t = Q_new, value_new, t_new
            if tol is not None and size <= tol:
                return step + 1, first
    return steps, first


def _slopes(F: Array, gram: Array, penalty: Penalty, scale: float) -> Array:
    """Evaluate the part of the gradient that is linear in `F`."""
    result = np.matmul(gram, F)
    if penalty.smooth:
        result += F.dtype.type(scale) * penalty.gradient(F)
    return result


def _proximal_step(F: Array, slopes: Array, right: Array, penalty: Penalty, scale: float, curvatures: Array) -> Array:
    """Return where a proximal gradient step leads."""
    new = right - slopes
    new *= (1 / curvatures[:, None]).astype(F.dtype)
    new += F
    penalty.prox(new, scale / curvatures)
    return new


def _curvatures(gram: Array, penalty: Penalty) -> Array:
    """Return numbers d, one a component, with ``gram <= diag(d)``.

    With ``gram = S C S`` for correlations C, ``d = largest eigenvalue of C times S^2``: components of different sizes
    get steps of their own. Where the penalty ties components together, its prox wants one number for all.
    """
    if penalty.couples_components:
        return np.full(len(gram), largest_eigenvalue(gram))
    squares = gram.diagonal().astype(np.float64)
    # a component that the other factor does not use has no curvature, but its penalty should still vanish
    squares = np.maximum(squares, np.finfo(gram.dtype).eps * squares.max(initial=0))
    roots = np.sqrt(np.where(squares > 0, squares, 1))
    return squares * largest_eigenvalue(gram / np.outer(roots, roots))


def largest_eigenvalue(gram: Array) -> float:
    """Return the largest eigenvalue of a Gram matrix, with a margin for rounding.

    Parameters
    ----------
    gram : ndarray [shape=(n_components, n_components)], symmetric

    Returns
    -------
    float
    """
    if not len(gram):
        return 0.0
    largest = float(np.linalg.eigvalsh(gram.astype(np.float64))[-1])
    return max(0.0, largest) * (1 + len(gram) * float(np.finfo(gram.dtype).eps))


def _scaled_norm(move: Array, curvatures: Array) -> float:
    rows = np.einsum("ij,ij->i", move, move, dtype=np.float64)
    return float(np.sqrt(np.dot(rows, curvatures**2)))


def solve(F: Array, grams: Array, right: Array, penalty: Penalty, *, sweeps: int, tol: float) -> Array:
    """Minimise ``f G f / 2 - b f + penalty(f)`` for each point, exactly: Cholesky factors and block principal pivoting.

    In double precision; a point's result does not depend on the other points, to the bit.

    Parameters
    ----------
    F : ndarray of float64 [shape=(n_points, n_components)]
        Start, in the box; overwritten. A point that cannot be settled, for rounding, keeps its start, or what
        coordinate descent has made of it.
    grams : ndarray of float64 [shape=(n_points, n_components, n_components)], or (1, ...) for all
    right : ndarray of float64 [shape=(n_points, n_components)]
    penalty : Penalty
        Separable, or the simplex.
    sweeps : int
        Of coordinate descent beforehand, which finds most of the variables at a bound; 0 for a start that is near.
    tol : float
        Of the derivative, relative to the largest entry of a point's right-hand side.

    Returns
    -------
    ndarray of bool [shape=(n_points,)]
        Whether the conditions of optimality hold.
    """
    r = F.shape[1]
    on_simplex = penalty.simplex is not None
    l1, l2 = penalty.weights(r, np.float64)
    G, B = grams + np.diag(l2), np.subtract(right, l1, order="C")
    largest = G.diagonal(axis1=1, axis2=2).max(axis=1, initial=0)
    largest[~(largest > 0)] = 1
    G += (RIDGE * largest)[:, None, None] * np.eye(r)
    if on_simplex:
        G += largest[:, None, None]  # a constant there: components are dependent only where differences are
    settled = np.empty(len(F), np.bool_)
    _exact_kernels.exact_rows(
        F,
        B,
        G,
        *penalty.box(np.float64),
        np.empty(r) if on_simplex else None,
        0 if on_simplex else sweeps,
        tol,
        np.empty((3, r), np.int64),
        np.empty((r + 2, r)),
        settled,
    )
    return settled
