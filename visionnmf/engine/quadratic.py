r"""The quadratic half-problem: one factor against a Gram matrix, with any penalty.

.. math:: \min_F\; \tfrac12 \langle F, G F \rangle - \langle B, F \rangle + s\, p(F)

with ``G = A A^T`` and ``B = A V`` for data ``V`` and the fixed factor ``A``. Least squares, ADMM and majorised losses
all lead to this problem.
"""

from __future__ import annotations

import numpy as np

from visionnmf._typing import Array

from .arrays.factors import Sweeps
from .arrays.namespace import is_not_numpy
from .blocks import BLOCK_ELEMENTS, blocks, map_blocks, one_blas_thread
from .kernels import least_squares as _exact_kernels, penalties as _penalty_kernels
from .kernels.hals import TILE, hals_columns
from .penalties import SEPARABLE, Graph, Penalties

RIDGE = 1e-12  # relative to the largest diagonal entry: picks one of many solutions if components are alike
STEPS_A_SWEEP = 4  # proximal gradient steps in place of one sweep, because a step gains less than a sweep


def improve(
    F: Array,
    gram: Array,
    right: Array,
    penalty: Penalties,
    *,
    sweeps: int,
    scale: float = 1.0,
    alternate: bool = False,
) -> None:
    """Decrease ``<F, gram F> / 2 - <right, F> + scale * penalty(F)``, in place, by the method that suits the penalty.

    - box, l1 and l2: HALS (:func:`.kernels.hals.hals_columns`), in threads over the columns;
    - these with a graph: coordinate descent, one column after the other (:func:`.kernels.penalties.graph_points`);
    - penalties that do not couple components, such as groups in penalty form: one proximal step for each component,
      which is the exact minimiser if there is no graph;
    - all others: accelerated proximal gradient (:func:`accelerate`), :data:`STEPS_A_SWEEP` steps for each sweep.

    `F` must be feasible. If `alternate` is true, every second sweep of HALS runs backward.
    """
    if is_not_numpy(F):  # recording the sweeps as a CUDA graph would take longer than a single call
        Sweeps(penalty, sweeps, alternate=alternate, recorded=False)(F, gram, right, scale)
    elif not penalty.beyond(SEPARABLE):
        _improve_points(F, gram, right, penalty, sweeps, scale, alternate)
    elif not penalty.beyond((*SEPARABLE, Graph)):
        _improve_on_graph(F, gram, right, penalty, sweeps, scale)
    elif not penalty.couples_components:
        _improve_components(F, gram, right, penalty, sweeps, scale)
    else:
        accelerate(F, gram, right, penalty, steps=STEPS_A_SWEEP * sweeps, scale=scale)


def _improve_points(
    F: Array, gram: Array, right: Array, penalty: Penalties, sweeps: int, scale: float, alternate: bool
) -> None:
    """Run HALS sweeps over `F` for a box, l1 and l2 times `scale`; every second one backward if `alternate`."""
    # a component whose squared norm is nearly zero is left out: dividing by that norm would overflow
    squares = gram.diagonal()
    dead = squares < np.finfo(gram.dtype).tiny / np.finfo(gram.dtype).eps
    if dead.any():
        gram, right = np.where(dead[:, None] | dead, 0, gram), np.where(dead[:, None], 0, right)
    low, high = penalty.box(F.dtype)
    l1, l2 = (F.dtype.type(scale) * weights for weights in penalty.weights(len(F), F.dtype))

    def columns(block: tuple[int, int]) -> None:
        offset = 0  # column of `F` at which `right` begins
        hals_columns(F, gram, right, offset, low, high, l1, l2, sweeps, alternate, *block)

    map_blocks(columns, blocks(F.shape[1], 4 * TILE), parallel=F.size * len(F) > 4 * BLOCK_ELEMENTS)


def _improve_on_graph(F: Array, gram: Array, right: Array, penalty: Penalties, sweeps: int, scale: float) -> None:
    """Run coordinate descent on `F` in place, one point (column of `F`) after the other, with a graph penalty."""
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


def _improve_components(F: Array, gram: Array, right: Array, penalty: Penalties, sweeps: int, scale: float) -> None:
    """Take `sweeps` proximal gradient steps on each component in turn, with its own step length."""
    curvatures = np.asarray(gram.diagonal(), np.float64)
    # a component that the fixed factor does not use has zero curvature; the floor lets its penalty still reach zero
    curvatures = np.maximum(curvatures, np.finfo(F.dtype).eps * curvatures.max(initial=0))
    parts = [penalty.component(k) for k in range(len(F))]  # the penalty of each component alone
    ridges = [scale * part.lipschitz() for part in parts]
    with one_blas_thread():
        for _ in range(sweeps):
            for k, part in enumerate(parts):
                curvature = curvatures[k] + ridges[k]
                if not curvature > 0:
                    continue
                row = F[k : k + 1]
                # derivative with respect to this row; below it becomes the point after the step
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
    penalty: Penalties,
    *,
    steps: int,
    tol: float | None = None,
    scale: float = 1.0,
) -> tuple[int, float]:
    """Minimise the objective of :func:`improve` by accelerated proximal gradient, in place; it never rises.

    This is Nesterov's method as in NeNMF (Guan et al. 2012), with a prox instead of the projection. A step that would
    raise the objective is rejected, and the momentum is reset (O'Donoghue & Candes 2015). With `tol`, it stops when the
    norm of the projected gradient is at most `tol`. Returns the number of steps, and that norm at the first point (0
    without `tol`).
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
            new = right - Q_ahead  # becomes the point of a proximal step of length 1 / curvatures[k]
            new *= (1 / curvatures[:, None]).astype(F.dtype)
            new += ahead
            penalty.prox(new, scale / curvatures)
            size = 0.0 if tol is None else _scaled_norm(new - ahead, curvatures)
            first = size if step == 0 else first
            Q_new = _slopes(new, gram, penalty, scale)
            value_new = scale * penalty.nonsmooth_value(new)
            move = new - F
            # the change of a quadratic is the inner product of the move and the mean gradient: no cancellation
            middle = Q_new + Q
            middle *= half
            middle -= right
            change = float(np.vdot(move, middle)) + value_new - value
            if change > 0 and t == 1:
                return step, first  # a step without momentum raises the objective only by rounding
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


def _slopes(F: Array, gram: Array, penalty: Penalties, scale: float) -> Array:
    """Return ``gram @ F`` plus `scale` times the gradient of the smooth penalties: no ``-right``, which is constant."""
    result = np.matmul(gram, F)
    if penalty.smooth:
        result += F.dtype.type(scale) * penalty.gradient(F)
    return result


def _curvatures(gram: Array, penalty: Penalties) -> Array:
    """Return one number d for each component so that ``diag(d) - gram`` is positive semi-definite."""
    # With ``gram = S C S`` for a diagonal S and correlations C, d is the largest eigenvalue of C times ``S^2``, so that
    # components of different norms get their own. A prox that couples components needs one number for all.
    if penalty.couples_components:
        return np.full(len(gram), largest_eigenvalue(gram))
    squares = gram.diagonal().astype(np.float64)
    # a component that the fixed factor does not use has zero curvature; the floor lets its penalty still reach zero
    squares = np.maximum(squares, np.finfo(gram.dtype).eps * squares.max(initial=0))
    roots = np.sqrt(np.where(squares > 0, squares, 1))
    return squares * largest_eigenvalue(gram / np.outer(roots, roots))


def largest_eigenvalue(gram: Array) -> float:
    """Return the largest eigenvalue of a symmetric Gram matrix, slightly enlarged to allow for rounding."""
    if not len(gram):
        return 0.0
    largest = float(np.linalg.eigvalsh(gram.astype(np.float64))[-1])
    return max(0.0, largest) * (1 + len(gram) * float(np.finfo(gram.dtype).eps))


def _scaled_norm(move: Array, curvatures: Array) -> float:
    """Return the norm of `move` (r, n_points), after row k was multiplied by ``curvatures[k]``."""
    rows = np.einsum("ij,ij->i", move, move, dtype=np.float64)
    return float(np.sqrt(np.dot(rows, curvatures**2)))


def solve(F: Array, grams: Array, right: Array, penalty: Penalties, *, sweeps: int, tol: float) -> Array:
    """Minimise ``f G f / 2 - b f + penalty(f)`` for each point exactly, by block principal pivoting and Cholesky.

    `F` and `right` are (n_points, r) and `grams` (n_points or 1, r, r), in float64. The penalty must be separable or
    the simplex. `sweeps` of coordinate descent beforehand find most of the variables at a bound; 0 suits a start near
    the solution. Points do not influence each other, not even in the last bit. Returns for each point whether the
    optimality conditions hold; one for which rounding prevents this keeps its start, or the result of coordinate
    descent.
    """
    # the kernel has no penalties: l2 is added to the diagonal of G (.., r, r), l1 subtracted from B (n_points, r)
    r = F.shape[1]
    on_simplex = penalty.simplex is not None
    l1, l2 = penalty.weights(r, np.float64)
    G, B = grams + np.diag(l2), np.subtract(right, l1, order="C")
    largest = G.diagonal(axis1=1, axis2=2).max(axis=1, initial=0)
    largest[~(largest > 0)] = 1
    G += (RIDGE * largest)[:, None, None] * np.eye(r)
    if on_simplex:
        # On the simplex this adds a constant to the objective, and G is then singular only if the differences of
        # components are linearly dependent.
        G += largest[:, None, None]
    settled = np.empty(len(F), np.bool_)  # a result of the kernel; the other new arrays are its working memory
    _exact_kernels.exact_rows(
        F,
        B,
        G,
        *penalty.box(np.float64),
        np.empty(r) if on_simplex else None,  # an array, whatever it holds, chooses the simplex; None the box
        0 if on_simplex else sweeps,
        tol,
        np.empty((3, r), np.int64),
        np.empty((r + 2, r)),
        settled,
    )
    return settled
