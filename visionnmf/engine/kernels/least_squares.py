"""The numba kernels of exact and of weighted least squares; see :mod:`.medians` for the conventions.

Gram matrices and right-hand sides of exact solutions are in double precision, and everything that decides a point's
codes is computed from that point alone, in an order of its own: a row's codes are the same to the bit whatever rows are
beside it.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

LOW, FREE, HIGH = -1, 0, 1  # where a variable is
CHANCES = 3  # exchanges of all variables that may fail to make the wrong ones fewer
RIDGE = 1e-12  # of the largest diagonal entry: where components are alike, one solution of many is taken


# --- exact codes of a point: coordinate descent, then block principal pivoting ---------------------------------------


@kernel(reassociate=True)
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@kernel(reassociate=True)
def _descend(g, b, f, low, high, sweeps, slope):  # type: ignore[no-untyped-def]
    """Sweep over one point's variables; `slope` is scratch."""
    r = f.shape[0]
    for k in range(r):
        slope[k] = b[k] - _dot(g[k], f, r)
    for _ in range(sweeps):
        moved = False
        for k in range(r):
            if g[k, k] > 0:
                new = min(max(f[k] + slope[k] / g[k, k], low), high)
                change = new - f[k]
                if change != 0:
                    moved = True
                    f[k] = new
                    row = g[k]
                    for m in range(r):
                        slope[m] -= row[m] * change
        if not moved:
            break


@kernel
def _substitute(factor, count, x):  # type: ignore[no-untyped-def]
    """Solve ``L L.T x = x`` in place."""
    for a in range(count):
        x[a] = (x[a] - _dot(factor[a], x, a)) / factor[a, a]
    for a in range(count - 1, -1, -1):
        x[a] /= factor[a, a]
        row = factor[a]
        for c in range(a):
            x[c] -= row[c] * x[a]


@kernel
def _solve_free(g, b, f, state, on_simplex, factor, index, x, ones):  # type: ignore[no-untyped-def]
    """Set the free variables to their minimiser, the others held; return the multiplier of ``sum f = 1``."""
    r = f.shape[0]
    count = 0
    for k in range(r):
        if state[k] != FREE:
            continue
        row = factor[count]
        for c in range(count):
            row[c] = (g[k, index[c]] - _dot(row, factor[c], c)) / factor[c, c]
        row[count] = np.sqrt(g[k, k] - _dot(row, row, count))
        index[count] = k
        count += 1
    for a in range(count):
        k = index[a]
        x[a] = b[k]
        for m in range(r):
            if state[m] != FREE:
                x[a] -= g[k, m] * f[m]
    _substitute(factor, count, x)
    multiplier = 0.0
    if on_simplex:
        total = -1.0
        weight = 0.0
        ones[:count] = 1.0
        _substitute(factor, count, ones)
        for a in range(count):
            total += x[a]
            weight += ones[a]
        multiplier = total / weight
        for a in range(count):
            x[a] -= multiplier * ones[a]
    for a in range(count):
        f[index[a]] = x[a]
    return multiplier


@kernel
def _stiffen(g, l2, on_simplex):  # type: ignore[no-untyped-def]
    """Add the ridge to a Gram matrix, and enough to make it positive definite."""
    r = g.shape[0]
    largest = 0.0
    for k in range(r):
        g[k, k] += l2[k]
        largest = max(largest, g[k, k])
    if not largest > 0:
        largest = 1.0
    for k in range(r):
        g[k, k] += RIDGE * largest
    if on_simplex:
        g += largest  # a constant on the simplex: components are dependent only where their differences are


@kernel
def _find_wrong(g, b, f, low, high, state, multiplier, slack, wrong):  # type: ignore[no-untyped-def]
    """List the variables on the wrong side: free ones outside the box, bound ones that the derivative would free."""
    count = 0
    for k in range(f.shape[0]):
        if state[k] == FREE:
            good = low <= f[k] <= high
        else:
            slope = _dot(g[k], f, f.shape[0]) - b[k] + multiplier
            good = slope >= -slack if state[k] == LOW else slope <= slack
        if not good:  # also when it is not a number
            wrong[count] = k
            count += 1
    return count


@kernel
def _pivot(g, b, f, low, high, on_simplex, tolerance, state, wrong, index, scratch):  # type: ignore[no-untyped-def]
    """Find the exact minimiser for one point by block principal pivoting; return whether the conditions hold.

    Kim & Park (2008; Judice & Pires 1994 for two bounds): all variables on the wrong side change sides at once while
    that makes them fewer, else only the last of them, which cannot cycle.
    """
    r = f.shape[0]
    size = 0.0
    best = 0
    for k in range(r):
        size = max(size, abs(b[k]), g[k, k] * on_simplex)
        state[k] = LOW if f[k] <= low else (HIGH if f[k] >= high else FREE)
        if b[k] - g[k, k] / 2 > b[best] - g[best, best] / 2:
            best = k
    fewest = r + 1
    chances = CHANCES
    for _ in range(5 * r + 20):
        if on_simplex and not (state == FREE).any():
            state[best] = FREE
        for k in range(r):
            if state[k] != FREE:
                f[k] = low if state[k] == LOW else high
        multiplier = _solve_free(g, b, f, state, on_simplex, scratch[2:], index, scratch[0], scratch[1])
        count = _find_wrong(g, b, f, low, high, state, multiplier, tolerance * size, wrong)
        if count == 0:
            return True
        first = 0
        if count < fewest:
            fewest = count
            chances = CHANCES
        elif chances > 0:
            chances -= 1
        else:
            first = count - 1
        for i in range(first, count):
            k = wrong[i]
            if state[k] != FREE:
                state[k] = FREE
            else:
                state[k] = LOW if f[k] < low else HIGH
    return False


@kernel
def right_columns(X, M, A, B, start, stop):  # type: ignore[no-untyped-def]
    """Write ``A @ (m x)`` of rows ``start:stop`` of the data to the columns of `B`.

    Not a product of matrices, of which the BLAS rounds the last bit by its shape.

    Parameters
    ----------
    X : ndarray (n_rows, n)
    M : ndarray (n_rows, n), or None
        Weights of the entries.
    A : ndarray (r, n), float64
    B : ndarray (r, stop - start), float64
    start, stop : int
    """
    r, n = A.shape
    x = np.empty(n)
    for j in range(start, stop):
        for i in range(n):
            x[i] = X[j, i]
        if M is not None:
            for i in range(n):
                x[i] *= M[j, i]
        for k in range(r):
            B[k, j - start] = _dot(A[k], x, n)


@kernel
def exact_columns(F, G, B, M, A, l1, l2, low, high, on_simplex, sweeps, tolerance, start, stop, settled):  # type: ignore[no-untyped-def]
    """Minimise ``f G f / 2 - b f + l1 . f + l2 . f^2 / 2`` for columns ``start:stop`` of `F`, exactly.

    Parameters
    ----------
    F : ndarray (r, n_points)
        Start and result. A column that cannot be settled keeps its start, or what coordinate descent has made of it.
    G : ndarray (r, r), float64
    B : ndarray (r, n_points)
    M : ndarray (n_points, n), >= 0, or None
        Weights of the entries: ``(m A) A.T`` takes the place of `G`.
    A : ndarray (r, n), float64
    l1, l2 : ndarray (r,), float64
    low, high : float
    on_simplex : bool
        ``sum f = 1`` and ``f >= 0`` in place of the box.
    sweeps : int
        Of coordinate descent beforehand, which finds most of the variables at a bound; 0 for a start that is near.
    tolerance : float
        Of the derivative, relative to the largest entry of ``b``.
    start, stop : int
    settled : ndarray (n_points,), bool
        Receives whether the conditions of optimality hold.
    """
    r = F.shape[0]
    f, b = np.empty(r), np.empty(r)
    state, wrong, index = np.empty(r, np.int64), np.empty(r, np.int64), np.empty(r, np.int64)
    scratch = np.empty((r + 2, r))
    weighted = np.empty(A.shape)
    g = G.copy()
    _stiffen(g, l2, on_simplex)
    for j in range(start, stop):
        if M is not None:
            for k in range(r):
                for i in range(A.shape[1]):
                    weighted[k, i] = A[k, i] * M[j, i]
            np.dot(weighted, A.T, g)
            _stiffen(g, l2, on_simplex)
        for k in range(r):
            f[k] = F[k, j]
            b[k] = B[k, j] - l1[k]
        if sweeps > 0 and not on_simplex:
            _descend(g, b, f, low, high, sweeps, scratch[0])
            for k in range(r):
                F[k, j] = f[k]
        settled[j] = _pivot(g, b, f, low, high, on_simplex, tolerance, state, wrong, index, scratch)
        if settled[j]:
            for k in range(r):
                F[k, j] = f[k]


# --- weights of the entries ------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def weighted_hals_rows(X, M, Ft, A, low, high, l1, l2, sweeps, start, stop):  # type: ignore[no-untyped-def]
    """Coordinate descent on ``sum m (x - f A)^2 / 2 + l1 . f + l2 . f^2 / 2`` for rows ``start:stop`` of the data.

    Through the weighted residual of the row, in cache; a code that stays at its bound costs one product of vectors.

    Parameters
    ----------
    X, M : ndarray (n_rows, n)
        Data and weights.
    Ft : ndarray (r, n_rows)
        Codes; updated in place.
    A : ndarray (r, n)
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    sweeps : int
    start, stop : int
    """
    number = A.dtype.type
    zero = number(0)
    r, n = A.shape
    residual = np.empty(n, A.dtype)
    curvature = np.empty(r, A.dtype)
    for j in range(start, stop):
        m = M[j]
        residual[:] = X[j]
        for k in range(r):
            f = Ft[k, j]
            a = A[k]
            total = zero
            for i in range(n):
                residual[i] -= f * a[i]
                total += m[i] * a[i] * a[i]
            curvature[k] = total + l2[k]
        for i in range(n):
            residual[i] *= m[i]
        for _ in range(sweeps):
            for k in range(r):
                if not curvature[k] > zero:
                    continue
                a = A[k]
                slope = zero
                for i in range(n):
                    slope += residual[i] * a[i]
                old = Ft[k, j]
                new = old + (slope - l1[k] - l2[k] * old) / curvature[k]
                new = min(max(new, low), high)
                change = new - old
                if change != zero:
                    Ft[k, j] = new
                    for i in range(n):
                        residual[i] -= change * m[i] * a[i]


@kernel
def impute_rows(X, M, scale, P, start, stop):  # type: ignore[no-untyped-def]
    """Replace rows ``start:stop`` of the model `P` by ``P + scale m (X - P)``.

    Parameters
    ----------
    X, M, P : ndarray (n_rows, n)
    scale : float
        One over the largest weight.
    start, stop : int
    """
    for j in range(start, stop):
        x, m, p = X[j], M[j], P[j]
        for i in range(x.shape[0]):
            p[i] += scale * m[i] * (x[i] - p[i])
