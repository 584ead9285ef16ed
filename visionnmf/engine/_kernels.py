"""The numba kernels of the engine.

They share this file because numba's cache notices a change only in the file of the kernel itself. All are private to
the engine, release the interpreter lock, and work on a range of rows or columns, so that ranges can run in threads.

Layout: both factors are stored component-major, ``(n_components, n_points)``: the codes as ``Wt = W.T``, the components
as ``H``. A sweep over a factor then runs along contiguous memory for either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._jit import kernel

CHUNK = 4096  # entries that are summed in the data's dtype; sums of chunks are taken in double precision


def sum_rounding(dtype: Any) -> float:
    """Return the relative error to allow for in a sum by chunks."""
    return 8 * float(np.finfo(dtype).eps)


# --- the one-dimensional problem: minimise sum_i c_i |a_i x - z_i| + s x + b (x - d)^2 over a box --------------------


@kernel
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
    left = 0
    right = count
    reached = slope  # the derivative just left of steps[left:right], without the curvature term
    furthest = 0.0
    while right > left:
        if right - left > 2:
            # the median of three guards against sorted input
            first, middle, last = steps[left], steps[(left + right) >> 1], steps[right - 1]
            pivot = max(min(first, middle), min(max(first, middle), last))
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
        return max(furthest, -reached / curvature)
    return furthest if reached >= -rounding else np.inf


@kernel(reassociate=True)
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
        last = min(first + CHUNK, a.shape[0])
        ws = weights[first:last]
        es = residual[first:last]
        positive = zero
        negative = zero
        both = zero
        for i in range(last - first):
            w = ws[i]
            e = es[i]
            positive += w if e > tiny else zero
            negative += w if e < -tiny else zero
            both += w
        above += positive
        below += negative
        total += both
    at_zero = max(0.0, total - above - below)
    to_right = slope + below - above + at_zero  # one-sided derivatives at x
    to_left = slope + below - above - at_zero
    rounding = eps * total  # the error of these sums must not look like a descent
    count = 0
    if to_right < -rounding and x < high:
        for i in range(a.shape[0]):
            e = residual[i]
            w = weights[i]
            steps[count] = e / a[i]
            jumps[count] = w + w
            count += (e > tiny) & (w > zero)
        new = number(min(x + select_step(steps, jumps, count, to_right, curvature, rounding), np.float64(high)))
    elif to_left > rounding and x > low:
        for i in range(a.shape[0]):
            e = residual[i]
            w = weights[i]
            steps[count] = -e / a[i]
            jumps[count] = w + w
            count += (e < -tiny) & (w > zero)
        new = number(max(x - select_step(steps, jumps, count, -to_left, curvature, rounding), np.float64(low)))
    else:
        return number(x)
    if not abs(new) < np.inf:  # coefficients so small that the quotient overflows
        return number(x)
    change = new - number(x)
    for i in range(a.shape[0]):
        residual[i] -= change * a[i]
    return new


@kernel(reassociate=True)
def _set_residual(residual, target, Ft, j, A):  # type: ignore[no-untyped-def]
    """Write ``target - Ft[:, j] @ A`` into `residual`; return the largest absolute target."""
    number = A.dtype.type
    largest = number(0)
    for i in range(target.shape[0]):
        residual[i] = target[i]
        largest = max(largest, abs(residual[i]))
    for k in range(A.shape[0]):
        f = Ft[k, j]
        a = A[k]
        if f != 0:
            for i in range(target.shape[0]):
                residual[i] -= f * a[i]
    return largest


@kernel
def rri_rows(X, Ft, A, low, high, l1, l2, sweeps, eps, start, stop, losses):  # type: ignore[no-untyped-def]
    """Rank-one residual iteration of the codes of rows ``start:stop``; rows are independent.

    Guan et al. (2012), Algorithm 1, one row at a time: minimises ``||X[j] - Ft[:, j] @ A||_1 + l1 sum(f) + l2/2 |f|^2``
    over ``low <= f <= high`` by cyclic coordinate descent. The residual is computed anew from the factors, so that
    rounding does not build up.

    Parameters
    ----------
    X : ndarray (n_rows, n)
    Ft : ndarray (r, n_rows)
        Codes, one column a row of `X`; updated in place.
    A : ndarray (r, n), >= 0
    low, high, l1, l2 : float
    sweeps : int
        At most so many sweeps a row; a row stops early when a sweep changes nothing.
    eps : float
        Relative rounding to allow for.
    start, stop : int
    losses : ndarray (n_rows,)
        Receives each row's l1 residual at the start of the call.
    """
    n = X.shape[1]
    residual = np.empty(n, X.dtype)
    steps = np.empty(n, X.dtype)
    jumps = np.empty(n, X.dtype)
    number = A.dtype.type
    for j in range(start, stop):
        tiny = number(4 * eps) * _set_residual(residual, X[j], Ft, j, A)
        losses[j] = _sum_abs(residual)
        for _ in range(sweeps):
            moved = False
            for k in range(A.shape[0]):
                x = Ft[k, j]
                new = update_variable(residual, A[k], A[k], x, low, high, l1 + l2 * x, l2, eps, tiny, steps, jumps)
                moved |= new != x
                Ft[k, j] = new
            if not moved:
                break


@kernel
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


@kernel(reassociate=True)
def _sum_abs(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for first in range(0, values.shape[0], CHUNK):
        part = values[first : first + CHUNK]
        partial = values.dtype.type(0)
        for i in range(part.shape[0]):
            partial += abs(part[i])
        total += partial
    return total


@kernel(reassociate=True)
def _weighted_sum_abs(values, weights):  # type: ignore[no-untyped-def]
    total = 0.0
    for first in range(0, values.shape[0], CHUNK):
        part = values[first : first + CHUNK]
        factors = weights[first : first + CHUNK]
        partial = values.dtype.type(0)
        for i in range(part.shape[0]):
            partial += abs(part[i]) * factors[i]
        total += partial
    return total


@kernel
def rri_symmetric_sweep(S, H, HC, c, eps, scratch):  # type: ignore[no-untyped-def]
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
                new = update_variable(residual, H[k], HC[k], x, zero, high, 0.0, 0.0, eps, tiny, scratch[1], scratch[2])
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
        total += np.float64(c[j]) * _weighted_sum_abs(residual, c)
    return total


# --- least squares through Gram matrices ----------------------------------------------------------------------------

TILE = 128  # columns at a time: a tile of both factors stays in the first-level cache


@kernel(reassociate=True)
def hals_columns(F, G, B, offset, low, high, ridge, sweeps, start, stop):  # type: ignore[no-untyped-def]
    """Coordinate descent (HALS) on ``|V - A.T F|^2 + ridge |F|^2`` for columns ``start:stop`` of `F`, in place.

    Cichocki & Phan (2009), Algorithm 2, in Gram form. Columns are independent; the inner loops run along them.

    Parameters
    ----------
    F : ndarray (r, n)
    G : ndarray (r, r)
        ``A A.T``.
    B : ndarray (r, >= stop - offset)
        ``A V``; its first column belongs to column `offset` of `F`.
    low, high, ridge : float
    sweeps : int
    start, stop : int

    Returns
    -------
    float
        The largest change of an entry in the last sweep.
    """
    number = F.dtype.type
    zero = number(0)
    r = F.shape[0]
    # whole tiles of a scratch copy: loops of a fixed length over row views become SIMD code without checks (6 x faster)
    tile = np.zeros((r, TILE), F.dtype)
    work = np.zeros(TILE, F.dtype)
    largest = zero
    for first in range(start, stop, TILE):
        size = min(TILE, stop - first)
        for k in range(r):
            tile[k, :size] = F[k, first : first + size]
        for sweep in range(sweeps):
            last = sweep == sweeps - 1
            for k in range(r):
                denominator = G[k, k] + ridge
                if not denominator > zero:
                    continue  # a component that is zero everywhere: its codes do not matter
                row = tile[k]
                work[:size] = B[k, first - offset : first - offset + size]
                for i in range(TILE):
                    work[i] -= ridge * row[i]
                for m in range(r):
                    g = G[k, m]
                    other = tile[m]
                    for i in range(TILE):
                        work[i] -= g * other[i]
                inverse = number(1) / denominator
                for i in range(TILE):
                    old = row[i]
                    new = old + work[i] * inverse
                    new = low if new < low else new
                    new = high if new > high else new
                    row[i] = new
                    work[i] = abs(new - old)
                if last:
                    for i in range(size):
                        largest = max(largest, work[i])
        for k in range(r):
            F[k, first : first + size] = tile[k, :size]
    return np.float64(largest)


# --- ADMM -----------------------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def admm_manhattan_pass(X, P, U, bounds, decay, start, stop, losses, residuals):  # type: ignore[no-untyped-def]
    """Everything elementwise of one ADMM iteration in one pass over rows ``start:stop`` of the data.

    With ``S = X - W H`` as a variable and the scaled dual ``U``:
    ``U+ = clip(X - P + U, -1/rho, 1/rho)``, target ``V = P + 2 U+ - U``; S itself is never stored.

    Parameters
    ----------
    X, U : ndarray (n_rows, n)
        Data; dual, updated in place.
    P : ndarray (stop - start, n)
        ``W H`` for these rows; receives the target V.
    bounds : ndarray (n_rows,)
        ``1 / rho`` of each row.
    decay : float
        The dual is first multiplied by this: ``1 / gamma`` after rho has grown by gamma.
    start, stop : int
    losses, residuals : ndarray (n_rows,)
        Receive each row's l1 norms of ``X - P`` and of the primal residual ``X - P - S = U+ - U``.
    """
    number = X.dtype.type
    for j in range(start, stop):
        x = X[j]
        p = P[j - start]
        u = U[j]
        bound = bounds[j]
        loss = number(0)
        primal = number(0)
        for i in range(x.shape[0]):
            old = u[i] * decay
            difference = x[i] - p[i]
            new = difference + old
            new = bound if new > bound else new
            new = -bound if new < -bound else new
            loss += abs(difference)
            primal += abs(new - old)
            u[i] = new
            p[i] = p[i] + new + new - old
        losses[j] = loss
        residuals[j] = primal


@kernel
def admm_manhattan_rows(  # type: ignore[no-untyped-def]
    X, Wt, H, U, gram, bounds, decay, low, high, sweeps, size, start, stop, right, losses, residuals
):
    """One ADMM iteration for rows ``start:stop``: products, pass and codes, a cache-sized block of rows at a time.

    In one kernel, so that a thread needs the interpreter once an iteration. The products go to SciPy's BLAS.

    Parameters
    ----------
    X, U : ndarray (n_rows, n)
        Data; dual, updated in place.
    Wt : ndarray (r, n_rows)
        Codes; updated in place.
    H : ndarray (r, n)
    gram : ndarray (r, r)
        ``H @ H.T``.
    bounds : ndarray (n_rows,)
    decay, low, high : float
    sweeps : int
        Of HALS.
    size : int
        Rows of a block.
    start, stop : int
    right : ndarray (r, n)
        Receives ``Wt @ V`` of these rows, with the new codes.
    losses, residuals : ndarray (n_rows,)
    """
    r, n = H.shape
    zero = X.dtype.type(0)
    right[:] = zero
    product = np.empty((size, n), X.dtype)
    share = np.empty((r, n), X.dtype)
    for first in range(start, stop, size):
        last = min(stop, first + size)
        V = product[: last - first]
        np.dot(np.ascontiguousarray(Wt[:, first:last].T), H, V)
        admm_manhattan_pass(X, V, U, bounds, decay, first, last, losses, residuals)
        B = np.dot(H, V.T)
        hals_columns(Wt, gram, B, first, low, high, zero, sweeps, first, last)
        np.dot(np.ascontiguousarray(Wt[:, first:last]), V, share)
        right += share


# --- losses ----------------------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def manhattan_rows(X, P, start, stop, losses):  # type: ignore[no-untyped-def]
    """Write the sum of ``|x - p|`` of each row; `P` has rows ``start:stop`` only."""
    number = X.dtype.type
    for j in range(start, stop):
        total = 0.0
        for first in range(0, X.shape[1], CHUNK):
            x = X[j, first : first + CHUNK]
            p = P[j - start, first : first + CHUNK]
            partial = number(0)
            for i in range(x.shape[0]):
                partial += abs(x[i] - p[i])
            total += partial
        losses[j] = total


@kernel(reassociate=True)
def frobenius_rows(X, P, start, stop, losses):  # type: ignore[no-untyped-def]
    """Write half the sum of ``(x - p)^2`` of each row; `P` has rows ``start:stop`` only."""
    number = X.dtype.type
    for j in range(start, stop):
        total = 0.0
        for first in range(0, X.shape[1], CHUNK):
            x = X[j, first : first + CHUNK]
            p = P[j - start, first : first + CHUNK]
            partial = number(0)
            for i in range(x.shape[0]):
                e = x[i] - p[i]
                partial += e * e
            total += partial
        losses[j] = total / 2.0
