"""The numba kernels of exact and of weighted least squares; see :mod:`.medians` for the conventions.

Gram matrices and right-hand sides of exact solutions are in double precision, and everything that decides a point's
codes is computed from that point alone, in an order of its own: a row's codes are the same to the bit whatever rows are
beside it.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, multiply, short_dot

LOW, FREE, HIGH = -1, 0, 1  # where a variable is
FULL_EXCHANGES = 3  # exchanges of all variables that may fail to make the wrong ones fewer
RIDGE = 1e-12  # of the largest diagonal entry: where components are alike, one solution of many is taken


# --- exact codes of a point: coordinate descent, then block principal pivoting ---------------------------------------


@kernel(reassociate=True, part=True)
def _descend(g, b, f, low, high, sweeps, slope):  # type: ignore[no-untyped-def]
    """Sweep over one point's variables; `slope` is scratch."""
    r = f.shape[0]
    for k in range(r):
        slope[k] = b[k] - short_dot(g[k], f, r)
    for _ in range(sweeps):
        moved = False
        for k in range(r):
            if g[k, k] > 0:
                new = clipped(f[k] + slope[k] / g[k, k], low, high)
                change = new - f[k]
                if change != 0:
                    moved = True
                    f[k] = new
                    row = g[k]
                    for m in range(r):
                        slope[m] -= row[m] * change
        if not moved:
            break


@kernel(part=True)
def _substitute(factor, count, x):  # type: ignore[no-untyped-def]
    """Solve ``L L.T x = x`` in place."""
    for a in range(count):
        x[a] = (x[a] - short_dot(factor[a], x, a)) / factor[a, a]
    for a in range(count - 1, -1, -1):
        x[a] /= factor[a, a]
        row = factor[a]
        for c in range(a):
            x[c] -= row[c] * x[a]


@kernel(part=True)
def _factorise(g, f, low, high, state, factor, index):  # type: ignore[no-untyped-def]
    """Write the Cholesky factor of the free variables' part of `g`, and which they are; return how many.

    The others are set to their bounds.
    """
    count = 0
    for k in range(f.shape[0]):
        if state[k] == FREE:
            row = factor[count]
            for c in range(count):
                row[c] = (g[k, index[c]] - short_dot(row, factor[c], c)) / factor[c, c]
            row[count] = np.sqrt(g[k, k] - short_dot(row, row, count))
            index[count] = k
            count += 1
        else:
            f[k] = low if state[k] == LOW else high
    return count


@kernel(part=True)
def _meet_sum(factor, count, x, ones):  # type: ignore[no-untyped-def]
    """Move the solution `x` to the best one whose sum, with those at a bound, is 1; return the multiplier."""
    total = -1.0
    weight = 0.0
    for a in range(count):
        ones[a] = 1.0
    _substitute(factor, count, ones)
    for a in range(count):
        total += x[a]
        weight += ones[a]
    multiplier = total / weight
    for a in range(count):
        x[a] -= multiplier * ones[a]
    return multiplier


@kernel(part=True)
def _right_side(g, b, f, state, index, count, x):  # type: ignore[no-untyped-def]
    """Write what the free variables' equations are equal to when the others are held."""
    for a in range(count):
        k = index[a]
        x[a] = b[k]
        for m in range(f.shape[0]):
            if state[m] != FREE:
                x[a] -= g[k, m] * f[m]


@kernel(part=True)
def _stiffen(g, l2, ones):  # type: ignore[no-untyped-def]
    """Add the ridge to a Gram matrix, and enough to make it positive definite."""
    r = g.shape[0]
    largest = 0.0
    for k in range(r):
        g[k, k] += l2[k]
        largest = g[k, k] if g[k, k] > largest else largest
    if not largest > 0:
        largest = 1.0
    for k in range(r):
        g[k, k] += RIDGE * largest
    if ones is not None:
        for k in range(r):
            for m in range(r):
                g[k, m] += largest  # a constant on the simplex: components are dependent only where differences are


@kernel(part=True)
def _find_wrong(g, b, f, low, high, state, multiplier, slack, wrong):  # type: ignore[no-untyped-def]
    """List the variables on the wrong side: free ones outside the box, bound ones that the derivative would free."""
    count = 0
    for k in range(f.shape[0]):
        if state[k] == FREE:
            good = low <= f[k] <= high
        else:
            slope = short_dot(g[k], f, f.shape[0]) - b[k] + multiplier
            good = slope >= -slack if state[k] == LOW else slope <= slack
        if not good:  # also when it is not a number
            wrong[count] = k
            count += 1
    return count


@kernel(part=True)
def _set_sides(g, b, f, low, high, state, ones):  # type: ignore[no-untyped-def]
    """Write where each variable is; return the size of the derivative."""
    size = 0.0
    for k in range(f.shape[0]):
        state[k] = LOW if f[k] <= low else (HIGH if f[k] >= high else FREE)
        size = abs(b[k]) if abs(b[k]) > size else size
        if ones is not None:
            size = g[k, k] if g[k, k] > size else size
    return size


@kernel(part=True)
def _free_one(g, b, state):  # type: ignore[no-untyped-def]
    """Free the variable that is best alone, where none is free: on the simplex one must be."""
    best = 0
    for k in range(b.shape[0]):
        if state[k] == FREE:
            return
        if b[k] - g[k, k] / 2 > b[best] - g[best, best] / 2:
            best = k
    state[best] = FREE


@kernel(part=True)
def _change_sides(wrong, first, count, f, low, state):  # type: ignore[no-untyped-def]
    for i in range(first, count):
        k = wrong[i]
        if state[k] != FREE:
            state[k] = FREE
        else:
            state[k] = LOW if f[k] < low else HIGH


@kernel(part=True)
def _pivot(g, b, f, low, high, ones, tolerance, integers, scratch):  # type: ignore[no-untyped-def]
    """Find the exact minimiser for one point by block principal pivoting; return whether the conditions hold.

    Kim & Park (2008; Judice & Pires 1994 for two bounds): all variables on the wrong side change sides at once while
    that makes them fewer, else only the last of them, which cannot cycle.
    """
    state, wrong, index, x = integers[0], integers[1], integers[2], scratch[f.shape[0]]
    slack = tolerance * _set_sides(g, b, f, low, high, state, ones)
    fewest = f.shape[0] + 1
    exchanges = FULL_EXCHANGES
    for _ in range(5 * f.shape[0] + 20):
        if ones is not None:
            _free_one(g, b, state)
        free = _factorise(g, f, low, high, state, scratch, index)
        _right_side(g, b, f, state, index, free, x)
        _substitute(scratch, free, x)
        multiplier = _meet_sum(scratch, free, x, ones) if ones is not None else 0.0
        for a in range(free):
            f[index[a]] = x[a]
        count = _find_wrong(g, b, f, low, high, state, multiplier, slack, wrong)
        if count == 0:
            return True
        first = 0
        if count < fewest:
            fewest = count
            exchanges = FULL_EXCHANGES
        elif exchanges > 0:
            exchanges -= 1
        else:
            first = count - 1
        _change_sides(wrong, first, count, f, low, state)
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
    x = np.empty(A.shape[1])
    for j in range(start, stop):
        for i in range(A.shape[1]):
            x[i] = X[j, i] if M is None else np.float64(X[j, i]) * M[j, i]
        for k in range(A.shape[0]):
            B[k, j - start] = short_dot(A[k], x, A.shape[1])


@kernel
def exact_columns(F, G, B, M, A, l1, l2, low, high, ones, sweeps, tolerance, start, stop, settled):  # type: ignore[no-untyped-def]
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
    ones : ndarray (r,) or None
        Scratch, for ``sum f = 1`` and ``f >= 0`` in place of the box; None for the box.
    sweeps : int
        Of coordinate descent beforehand, which finds most of the variables at a bound; 0 for a start that is near.
    tolerance : float
        Of the derivative, relative to the largest entry of ``b``.
    start, stop : int
    settled : ndarray (n_points,), bool
        Receives whether the conditions of optimality hold.
    """
    r = F.shape[0]
    reals, integers = np.empty((r + 3, r)), np.empty((3, r), np.int64)  # the factor and three vectors
    f, b = reals[r + 1], reals[r + 2]
    g = G.copy()
    _stiffen(g, l2, ones)
    for j in range(start, stop):
        if M is not None:
            _weighted_gram(A, M[j], g)
            _stiffen(g, l2, ones)
        for k in range(r):
            f[k] = F[k, j]
            b[k] = B[k, j] - l1[k]
        if sweeps > 0 and ones is None:
            _descend(g, b, f, low, high, sweeps, reals[r])
            for k in range(r):
                F[k, j] = f[k]
        settled[j] = _pivot(g, b, f, low, high, ones, tolerance, integers, reals)
        if settled[j]:
            for k in range(r):
                F[k, j] = f[k]


@kernel(part=True)
def _weighted_gram(A, m, g):  # type: ignore[no-untyped-def]
    weighted = np.empty(A.shape)
    for k in range(A.shape[0]):
        multiply(A[k], m, weighted[k])
    np.dot(weighted, A.T, g)


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
        for i in range(n):
            residual[i] = X[j, i]
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
                new = clipped(new, low, high)
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
