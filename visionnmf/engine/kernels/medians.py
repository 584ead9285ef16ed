"""Coordinate descent by weighted medians: the one-dimensional problem, and sweeps of dense, sparse, symmetric data.

The kernels of the engine are private to it, release the interpreter lock, and work on a range of rows or columns, so
that ranges can run in threads. How quickly they compile decides how long a user's first fit takes: what is cheap and
what is dear is written down in CONTRIBUTING.

Layout, of all kernels: both factors are stored component-major, ``(n_components, n_points)``: the codes as
``Wt = W.T``, the components as ``H``. A sweep over a factor then runs along contiguous memory for either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import CHUNK, clipped, dot, sum_abs, weighted_dot, weighted_sum_abs


def sum_rounding(dtype: Any) -> float:
    """Return the relative error to allow for in a sum by chunks."""
    return 8 * float(np.finfo(dtype).eps)


# --- the one-dimensional problem: minimise sum_i c_i |a_i x - z_i| + s x + b (x - d)^2 over a box --------------------


@kernel(part=True)
def select_step(steps, weights, count, slope, curvature, rounding):  # type: ignore[no-untyped-def]
    """Find the step at which a rising piecewise-linear derivative reaches zero.

    The derivative is ``slope + curvature * t + sum of weights[i] over steps[i] < t`` for ``t > 0``, with
    ``slope < 0``. Quickselect on the weighted prefix sums: expected O(count), where the sort of Guan et al. (2012),
    Algorithm 1, takes O(count log count).

    Parameters
    ----------
    steps, weights : ndarray (>= count,)
        Breakpoints ``> 0`` and the jumps ``> 0`` of the derivative there; reordered in place.
    count : int
        How many of them are in use.
    slope : float
        The derivative just right of 0, negative.
    curvature : float
        ``2 b >= 0``.
    rounding : float
        Absolute error of the sums of weights.

    Returns
    -------
    float
        The step ``t >= 0``; infinite when the derivative stays negative.
    """
    left: Any = np.int64(0)  # not a literal: typing it would take five rounds in place of two
    right = count
    reached = slope  # the derivative just left of steps[left:right], without the curvature term
    furthest = 0.0
    while right > left:
        if right - left > 2:
            # the median of three guards against sorted input
            first, middle, last = steps[left], steps[(left + right) >> 1], steps[right - 1]
            if middle < first:
                first, middle = middle, first
            pivot = middle if middle < last else last
            pivot = first if first > pivot else pivot
        else:
            pivot = steps[left]
        below = left  # steps[left:below] < pivot
        mass_below = 0.0
        mass_equal = 0.0
        for i in range(left, right):
            t = steps[i]
            w = weights[i]
            smaller = t < pivot
            # swap without a branch: a misprediction costs more than the writes
            steps[i] = steps[below]
            weights[i] = weights[below]
            steps[below] = t
            weights[below] = w
            below += smaller
            mass_below += w * smaller
            mass_equal += w * (t == pivot)
        before = reached + mass_below + curvature * pivot
        if before >= 0.0:
            right = below
            continue
        if before + mass_equal >= 0.0:
            return pivot
        # the root lies right of the pivot: drop what is not larger
        reached += mass_below + mass_equal
        furthest = pivot
        above = right
        i = below
        while i < above:
            if steps[i] == pivot:
                above -= 1
                t = steps[above]
                w = weights[above]
                steps[above] = steps[i]
                weights[above] = weights[i]
                steps[i] = t
                weights[i] = w
            else:
                i += 1
        # steps[below:above] > pivot
        left = below
        right = above
    if curvature > 0.0:
        step = -reached / curvature
        return step if step > furthest else furthest
    return furthest if reached >= -rounding else np.inf


@kernel(reassociate=True, part=True)
def update_variable(residual, a, weights, x, low, high, slope, curvature, eps, tiny, steps, jumps):  # type: ignore[no-untyped-def]
    """Minimise over one variable, given the residual at its present value; update the residual in place.

    Guan et al. (2012), eq. 6 to 8, restricted to the breakpoints on the descent side of `x`. When the minimiser is an
    interval its point nearest to `x` is taken (the paper takes the leftmost, which zeroes codes needlessly).

    Parameters
    ----------
    residual : ndarray (n,)
        ``z - a x``; entries within `tiny` of 0 count as 0.
    a, weights : ndarray (n,), >= 0
        Coefficients, and the same times the entries' weights (one array twice when there are no weights).
    x, low, high : float
        Present value and box.
    slope, curvature : float
        Derivatives at `x` of the penalty ``s x + b (x - d)^2``: ``s + 2 b (x - d)`` and ``2 b``.
    eps, tiny : float
        Relative rounding of sums; absolute rounding of residuals.
    steps, jumps : ndarray (>= n,)
        Scratch.

    Returns
    -------
    float
        The new value, of the dtype of `a`.
    """
    number = a.dtype.type
    zero = number(0)
    above = 0.0
    below = 0.0
    total = 0.0
    for first in range(0, a.shape[0], CHUNK):
        ws = weights[first : first + CHUNK]
        es = residual[first : first + CHUNK]
        positive = zero
        negative = zero
        both = zero
        for i in range(ws.shape[0]):
            w = ws[i]
            e = es[i]
            positive += w if e > tiny else zero
            negative += w if e < -tiny else zero
            both += w
        above += positive
        below += negative
        total += both
    at_zero = total - above - below
    at_zero = at_zero if at_zero > 0.0 else 0.0
    to_right = slope + below - above + at_zero  # one-sided derivatives at x
    to_left = slope + below - above - at_zero
    rounding = eps * total  # the error of these sums must not look like a descent
    if to_right < -rounding and x < high:
        sign, slope = number(1), to_right
    elif to_left > rounding and x > low:
        sign, slope = number(-1), -to_left
    else:
        return number(x)
    count = _breakpoints(residual, a, weights, sign, tiny, steps, jumps)
    new = clipped(number(x + sign * select_step(steps, jumps, count, slope, curvature, rounding)), low, high)
    if not abs(new) < np.inf:  # coefficients so small that the quotient overflows
        return number(x)
    change = new - number(x)
    for i in range(a.shape[0]):
        residual[i] -= change * a[i]
    return new


@kernel(part=True)
def _breakpoints(residual, a, weights, sign, tiny, steps, jumps):  # type: ignore[no-untyped-def]
    """List the steps in the direction `sign` at which a residual vanishes, and the derivative's jumps; count them."""
    count = 0
    for i in range(a.shape[0]):
        e = sign * residual[i]
        w = weights[i]
        steps[count] = e / a[i]
        jumps[count] = w + w
        count += (e > tiny) & (w > 0)
    return count


@kernel(reassociate=True, part=True)
def _set_residual(residual, target, Ft, j, A):  # type: ignore[no-untyped-def]
    """Write ``target - Ft[:, j] @ A`` into `residual`; return the largest absolute target."""
    number = A.dtype.type
    largest = number(0)
    for i in range(target.shape[0]):
        residual[i] = target[i]
        size = abs(target[i])
        largest = size if size > largest else largest
    for k in range(A.shape[0]):
        f = Ft[k, j]
        a = A[k]
        if f != 0:
            for i in range(target.shape[0]):
                residual[i] -= f * a[i]
    return largest


@kernel
def rri_rows(  # type: ignore[no-untyped-def]
    X, M, Ft, A, low, high, l1, l2, alpha, graph, sweeps, eps, start, stop, losses, weighted, scratch
):
    """Rank-one residual iteration of the codes of rows ``start:stop``.

    Guan et al. (2012), Algorithm 1, one row at a time: minimises ``sum m (|e| + alpha/2 e^2) + l1 . f + l2 . f^2 / 2``,
    ``e = X[j] - Ft[:, j] @ A``, over ``low <= f <= high`` by cyclic coordinate descent. The residual is computed anew
    from the factors, so that rounding does not build up. Rows are independent, but for a graph: then each row sees the
    new codes of the rows before.

    Parameters
    ----------
    X : ndarray (n_rows, n)
    M : ndarray (n_rows, n), >= 0, or None
        Weights of the entries.
    Ft : ndarray (r, n_rows)
        Codes, one column a row of `X`; updated in place.
    A : ndarray (r, n), >= 0
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    alpha : float, or None
        Of the elastic net; None without one.
    graph : tuple of ndarray (indptr, indices, affinities, degrees), or None
        Adds ``tr(F L F^T) / 2``; nothing on the diagonal.
    sweeps : int
        At most so many sweeps a row; a row stops early when a sweep changes nothing.
    eps : float
        Relative rounding to allow for.
    start, stop : int
    losses : ndarray (n_rows,), or None
        Receives each row's loss at the start of the call.
    weighted : ndarray (r, n)
        Scratch; `A` itself where `M` is None.
    scratch : ndarray (3, n)
    """
    residual, steps, jumps = scratch[0], scratch[1], scratch[2]
    number = A.dtype.type
    for j in range(start, stop):
        tiny = number(4 * eps) * _set_residual(residual, X[j], Ft, j, A)
        if losses is not None:
            losses[j] = _loss(residual, None if M is None else M[j], alpha)
        if M is not None:
            m = M[j]
            for k in range(A.shape[0]):
                a, product = A[k], weighted[k]
                for i in range(a.shape[0]):
                    product[i] = a[i] * m[i]
        for _ in range(sweeps):
            moved = False
            for k in range(A.shape[0]):
                x = Ft[k, j]
                slope = np.float64(l1[k] + l2[k] * x)
                curvature = np.float64(l2[k])
                if alpha is not None:
                    slope -= alpha * dot(weighted[k], residual)
                    curvature += alpha * dot(weighted[k], A[k])
                if graph is not None:
                    pull, degree = _pull_of_neighbours(graph, Ft, k, j)
                    slope += degree * np.float64(x) - pull
                    curvature += degree
                new = update_variable(
                    residual, A[k], weighted[k], x, low, high, slope, curvature, eps, tiny, steps, jumps
                )
                moved |= new != x
                Ft[k, j] = new
            if not moved:
                break


@kernel(part=True)
def _loss(residual, m, alpha):  # type: ignore[no-untyped-def]
    """Return ``sum m (|e| + alpha/2 e^2)``; `m` and `alpha` may be None."""
    total = sum_abs(residual) if m is None else weighted_sum_abs(residual, m)
    if alpha is not None:
        squares = dot(residual, residual) if m is None else weighted_dot(residual, residual, m)
        total += alpha / 2 * squares
    return total


@kernel(part=True)
def _pull_of_neighbours(graph, Ft, k, j):  # type: ignore[no-untyped-def]
    """Return ``sum_i S_ij F_ki`` and the degree of point `j`."""
    indptr, indices, affinities, degrees = graph
    total = 0.0
    for position in range(indptr[j], indptr[j + 1]):
        total += np.float64(affinities[position]) * np.float64(Ft[k, indices[position]])
    return total, np.float64(degrees[j])


@kernel(reassociate=True)
def rri_sparse_rows(  # type: ignore[no-untyped-def]
    data, indices, indptr, Ft, points, sums, zero_weight, low, high, l1, l2, sweeps, eps, start, stop, losses,
    gathered, scratch, rest,
):  # fmt: skip
    """Rank-one residual iteration as :func:`rri_rows`, of sparse rows, in O(nnz r) a sweep.

    Where nothing is stored the loss is the model itself, so all these entries of a row add one slope: that of one more
    breakpoint at 0 in the weighted median (Seraghiti et al. 2026).

    Parameters
    ----------
    data, indices, indptr : ndarray
        Of a CSR array with sorted rows.
    Ft : ndarray (r, n_rows)
        Codes; updated in place.
    points : ndarray (n, r), >= 0
        The factor that is fixed, transposed.
    sums : ndarray of float64 (r,)
        Its column sums.
    zero_weight : float
        Weight of the entries that are not stored.
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    sweeps : int
    eps : float
    start, stop : int
    losses : ndarray (n_rows,)
        Receives each row's l1 loss at the start of the call.
    gathered : ndarray (r, longest), scratch : ndarray (3, longest), rest : ndarray of float64 (r,)
        Scratch, for the largest number of stored entries in a row.
    """
    number = points.dtype.type
    r = Ft.shape[0]
    steps, jumps = scratch[1], scratch[2]
    for j in range(start, stop):
        begin = indptr[j]
        x = data[begin : indptr[j + 1]]
        count = x.shape[0]
        residual = scratch[0, :count]
        for k in range(r):
            rest[k] = sums[k]
        for e in range(count):
            p = points[indices[begin + e]]
            for k in range(r):
                gathered[k, e] = p[k]
                rest[k] -= p[k]
        tiny = number(4 * eps) * _set_residual(residual, x, Ft, j, gathered)
        loss = 0.0
        for e in range(count):
            loss += abs(residual[e])
        for k in range(r):
            rest[k] = zero_weight * rest[k] if rest[k] > 0.0 else 0.0
            loss += Ft[k, j] * rest[k]
        losses[j] = loss
        for _ in range(sweeps):
            moved = False
            for k in range(r):
                f, a = Ft[k, j], gathered[k, :count]
                slope = rest[k] + np.float64(l1[k] + l2[k] * f)
                curvature = np.float64(l2[k])
                new = update_variable(residual, a, a, f, low, high, slope, curvature, eps, tiny, steps, jumps)
                moved |= new != f
                Ft[k, j] = new
            if not moved:
                break


@kernel(allocates=True)
def rri_weighted_rows(X, M, group, Ft, A, low, high, sweeps, eps, start, stop):  # type: ignore[no-untyped-def]
    """Rank-one residual iteration as :func:`rri_rows`, with weights: minimises ``sum_i m_i |x_i - p_i|`` a row.

    Parameters
    ----------
    X : ndarray (n_rows, n)
        Of any dtype; the arithmetic is that of `A`.
    M : ndarray (n_rows / group, n), >= 0
        Weights; `group` successive rows of `X` share a row of them. Their unit does not matter.
    group : int
    Ft : ndarray (r, n_rows)
        Codes; updated in place.
    A : ndarray (r, n), >= 0
    low, high : float
    sweeps : int
    eps : float
    start, stop : int
        Range of rows of `M`.
    """
    n = X.shape[1]
    r = A.shape[0]
    residual = np.empty(n, A.dtype)
    steps = np.empty(n, A.dtype)
    jumps = np.empty(n, A.dtype)
    weighted = np.empty((r, n), A.dtype)
    number = A.dtype.type
    for block in range(start, stop):
        weights = M[block]
        for k in range(r):
            a = A[k]
            row = weighted[k]
            for i in range(n):
                row[i] = a[i] * number(weights[i])
        for j in range(block * group, (block + 1) * group):
            tiny = number(4 * eps) * _set_residual(residual, X[j], Ft, j, A)
            for _ in range(sweeps):
                moved = False
                for k in range(r):
                    x = Ft[k, j]
                    new = update_variable(residual, A[k], weighted[k], x, low, high, 0.0, 0.0, eps, tiny, steps, jumps)
                    moved |= new != x
                    Ft[k, j] = new
                if not moved:
                    break


@kernel
def rri_symmetric_sweep(S, H, HC, c, eps, scratch, diagonal):  # type: ignore[no-untyped-def]
    """One sweep of coordinate descent on ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|`` over ``H >= 0``.

    Guan et al. (2012), section 4.5, without the diagonal (it says nothing about the clustering) and with node weights.
    Row j's problem has the factor ``2 c_j`` throughout, which does not move its minimiser.

    Parameters
    ----------
    S : ndarray (n, n), symmetric
    H, HC : ndarray (r, n)
        The factor and the factor times the node weights; both updated in place.
    c : ndarray (n,), > 0
    eps : float
    scratch : ndarray (3, n)
    diagonal : float, >= 0
        0, or 1 for the diagonal as (61) has it, for ``h_j . h_j >= S_jj``: ``x^2`` beside the sum over i.
    """
    residual = scratch[0]
    n = S.shape[0]
    number = S.dtype.type
    zero = number(0)
    high = number(np.inf)
    for j in range(n):
        tiny = number(4 * eps) * _set_residual(residual, S[j], H, j, H)
        for k in range(H.shape[0]):
            HC[k, j] = zero  # the diagonal has weight 0
        for _ in range(2):
            changed = False
            for k in range(H.shape[0]):
                x = H[k, j]
                slope, curvature = 2 * diagonal * np.float64(x), 2 * diagonal
                new = update_variable(
                    residual, H[k], HC[k], x, zero, high, slope, curvature, eps, tiny, scratch[1], scratch[2]
                )
                changed |= new != x
                H[k, j] = new
            if not changed:
                break
        for k in range(H.shape[0]):
            HC[k, j] = H[k, j] * c[j]


@kernel
def symmetric_objective(S, H, c, scratch):  # type: ignore[no-untyped-def]
    """Evaluate ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|``."""
    residual = scratch[0]
    total = 0.0
    for j in range(S.shape[0]):
        _set_residual(residual, S[j], H, j, H)
        residual[j] = 0
        total += np.float64(c[j]) * weighted_sum_abs(residual, c)
    return total
