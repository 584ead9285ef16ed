"""The numba kernels of exact and of weighted least squares; see :mod:`.medians` for the conventions.

Exact solutions are in double precision, and everything that decides a point's codes is computed from that point alone,
in an order of its own: a row's codes are the same to the bit whatever rows are beside it.
"""

from __future__ import annotations

import math

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, short_dot

LOW, FREE, HIGH = -1, 0, 1  # where a variable is
FULL_EXCHANGES = 3  # exchanges of all variables that may fail to make the wrong ones fewer


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
def _solve(g, b, f, state, factor, x, index):  # type: ignore[no-untyped-def]
    """Minimise over the free variables, which are 0 before, with the others held, by a Cholesky factor of their part.

    `index` receives which they are; return how many.
    """
    count = 0
    for k in range(f.shape[0]):
        if state[k] == FREE:
            row = factor[count]
            for c in range(count):
                row[c] = (g[k, index[c]] - short_dot(row, factor[c], c)) / factor[c, c]
            row[count] = math.sqrt(g[k, k] - short_dot(row, row, count))
            x[count] = (b[k] - short_dot(g[k], f, f.shape[0]) - short_dot(row, x, count)) / row[count]
            index[count] = k
            count += 1
    for a in range(count - 1, -1, -1):
        row = factor[a]
        x[a] /= row[a]
        for c in range(a):
            x[c] -= row[c] * x[a]
        f[index[a]] = x[a]
    return count


@kernel(part=True)
def _meet_sum(factor, count, index, f, ones):  # type: ignore[no-untyped-def]
    """Move the solution to the best one whose sum is 1; return the multiplier."""
    for a in range(count):
        ones[a] = (1.0 - short_dot(factor[a], ones, a)) / factor[a, a]
    total = -1.0
    weight = 0.0
    for a in range(count - 1, -1, -1):
        row = factor[a]
        ones[a] /= row[a]
        for c in range(a):
            ones[c] -= row[c] * ones[a]
        total += f[index[a]]
        weight += ones[a]
    multiplier = total / weight
    for a in range(count):
        f[index[a]] -= multiplier * ones[a]
    return multiplier


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
def _find_wrong(g, b, f, low, high, state, multiplier, slack, wanted):  # type: ignore[no-untyped-def]
    """Write where the variables should be: free ones in the box, and those free that the derivative would move inside.

    Return how many are elsewhere, and the last of them.
    """
    count = 0
    last = 0
    for k in range(f.shape[0]):
        if state[k] == FREE:
            good = low <= f[k] <= high
            wanted[k] = FREE if good else (HIGH if f[k] > high else LOW)
        else:
            good = state[k] * (short_dot(g[k], f, f.shape[0]) - b[k] + multiplier) <= slack
            wanted[k] = state[k] if good else FREE
        if not good:  # also when it is not a number
            count += 1
            last = k
    return count, last


@kernel
def exact_rows(F, B, G, low, high, ones, sweeps, tolerance, integers, reals, settled):  # type: ignore[no-untyped-def]
    """Minimise ``f G f / 2 - b f`` for each row of `F`, exactly; all arrays in double precision.

    By block principal pivoting (Kim & Park 2008; Judice & Pires 1994 for two bounds): all variables on the wrong side
    change sides at once while that makes them fewer, else only the last of them, which cannot cycle.

    Parameters
    ----------
    F : ndarray (n_points, r)
        Start and result. A row that cannot be settled keeps its start, or what coordinate descent has made of it.
    B : ndarray (n_points, r)
    G : ndarray (n_points, r, r), or (1, r, r) for all
        Positive definite.
    low, high : float
    ones : ndarray (r,) or None
        Scratch, for ``sum f = 1`` and ``f >= 0`` in place of the box; None for the box.
    sweeps : int
        Of coordinate descent beforehand, which finds most of the variables at a bound; 0 for a start that is near, and
        on the simplex.
    tolerance : float
        Of the derivative, relative to the largest entry of a row of `B`.
    integers : ndarray of int64 (3, r)
        Scratch, as is the next.
    reals : ndarray (r + 2, r)
    settled : ndarray (n_points,), bool
        Receives whether the conditions of optimality hold.
    """
    r = F.shape[1]
    f, x = reals[r], reals[r + 1]
    state, wanted, index = integers[0], integers[1], integers[2]
    for j in range(F.shape[0]):
        g, b = G[j % G.shape[0]], B[j]
        if sweeps > 0:
            _descend(g, b, F[j], low, high, sweeps, x)
        slack = 0.0
        for k in range(r):
            state[k] = LOW if F[j, k] <= low else (HIGH if F[j, k] >= high else FREE)
            slack = abs(b[k]) if abs(b[k]) > slack else slack
            if ones is not None:
                slack = g[k, k] if g[k, k] > slack else slack
        slack *= tolerance
        settled[j] = False
        fewest = r + 1
        exchanges = FULL_EXCHANGES
        for _ in range(5 * r + 20):
            if ones is not None:
                _free_one(g, b, state)
            for k in range(r):
                f[k] = 0.0 if state[k] == FREE else (low if state[k] == LOW else high)
            free = _solve(g, b, f, state, reals, x, index)
            multiplier = _meet_sum(reals, free, index, f, ones) if ones is not None else 0.0
            count, last = _find_wrong(g, b, f, low, high, state, multiplier, slack, wanted)
            if count == 0:
                settled[j] = True
                for k in range(r):
                    F[j, k] = f[k]
                break
            exchanges = FULL_EXCHANGES if count < fewest else exchanges - 1
            fewest = count if count < fewest else fewest
            for k in range(r):
                if exchanges >= 0 or k == last:
                    state[k] = wanted[k]


# --- weights of the entries ------------------------------------------------------------------------------------------


@kernel(reassociate=True, allocates=True)
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
