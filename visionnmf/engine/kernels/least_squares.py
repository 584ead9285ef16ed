"""The numba kernels of exact, weighted and symmetric least squares; :mod:`.manhattan` describes the conventions.

Exact solutions use double precision. The codes of a row depend only on that row and are computed in a fixed order, so
they are identical to the bit whatever other rows are in the batch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, short_dot

LOW, FREE, HIGH = -1, 0, 1  # states of a variable: at the lower bound, free, at the upper bound
FULL_EXCHANGES = 3  # full exchanges that may fail to reduce the number of wrong variables before single exchanges


# --- exact codes of a point: coordinate descent, then block principal pivoting ---------------------------------------


@kernel(reassociate=True, part=True)
def _descend(g, b, f, low, high, sweeps, slope):
    """Run coordinate descent on ``f g f / 2 - b f`` over the box, for one point; `slope` (r,) is scratch."""
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
def _solve(g, b, f, state, factor, x, index):
    """Minimise over the free variables, whose `f` is 0 on entry, by a Cholesky factorisation; return their number."""
    count: Any = np.int64(0)  # a literal 0 would compile `short_dot` twice
    for k in range(f.shape[0]):
        if state[k] == FREE:
            row = factor[count]  # the next row of the factor, then the forward substitution
            for c in range(count):
                row[c] = (g[k, index[c]] - short_dot(row, factor[c], c)) / factor[c, c]
            row[count] = math.sqrt(g[k, k] - short_dot(row, row, count))
            # g f is the part of the variables at a bound, because the free entries of f are 0
            x[count] = (b[k] - short_dot(g[k], f, f.shape[0]) - short_dot(row, x, count)) / row[count]
            index[count] = k
            count += 1
    for a in range(count - 1, -1, -1):  # back substitution
        row = factor[a]
        x[a] /= row[a]
        for c in range(a):
            x[c] -= row[c] * x[a]
        f[index[a]] = x[a]
    return count


@kernel(part=True)
def _meet_sum(factor, count, index, f, ones):
    """Correct the solution of :func:`_solve` so that ``sum f = 1`` and return the Lagrange multiplier."""
    for a in range(count):
        ones[a] = (1.0 - short_dot(factor[a], ones, a)) / factor[a, a]
    total = -1.0  # becomes the sum of f minus 1
    weight = 0.0  # becomes the sum of the direction
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
def _free_one(g, b, state):
    """If no variable is free, free the one with the lowest objective ``g[k, k] / 2 - b[k]`` at its simplex vertex."""
    best: Any = np.int64(0)
    for k in range(b.shape[0]):
        if state[k] == FREE:
            return
        if b[k] - g[k, k] / 2 > b[best] - g[best, best] / 2:
            best = k
    state[best] = FREE


@kernel(part=True)
def _find_wrong(g, b, f, low, high, state, multiplier, slack, wanted):
    """Write to `wanted` the state that each variable should have; return how many, and which last, have another."""
    count: Any = np.int64(0)
    last: Any = np.int64(0)
    for k in range(f.shape[0]):
        if state[k] == FREE:
            good = low <= f[k] <= high
            wanted[k] = FREE if good else (HIGH if f[k] > high else LOW)
        else:
            # the derivative must be >= 0 at the lower bound and <= 0 at the upper one
            good = state[k] * (short_dot(g[k], f, f.shape[0]) - b[k] + multiplier) <= slack
            wanted[k] = state[k] if good else FREE
        if not good:  # NaN counts as wrong
            count += 1
            last = k
    return count, last


@kernel
def exact_rows(F, B, G, low, high, ones, sweeps, tolerance, integers, reals, settled):
    """Minimise ``f G f / 2 - b f`` exactly for each row of `F` (n_points, r), over a box or the simplex, in float64.

    The method is block principal pivoting (Kim & Park 2008; Judice & Pires 1994 for two bounds). All variables in the
    wrong state change at once as long as that reduces their number; otherwise only the last one changes, which cannot
    cycle. If pivoting fails, a row keeps its start or what coordinate descent made of it.

    `G` is (n_points, r, r), or (1, r, r) for all points. `ones` (r,) is scratch that selects the simplex; None selects
    the box. `tolerance` of the derivative is relative to the largest entry of a row of `B`. `integers` (3, r) and
    `reals` (r + 2, r) are scratch. `settled` (n_points,) receives whether the optimality conditions hold.
    """
    r = F.shape[1]
    f, x = reals[r], reals[r + 1]  # the first r rows are for the Cholesky factor
    state, wanted, index = integers[0], integers[1], integers[2]
    for j in range(F.shape[0]):
        g, b = G[j % G.shape[0]], B[j]  # G[0] for all points if there is only one
        if sweeps > 0:
            _descend(g, b, F[j], low, high, sweeps, x)
        slack = 0.0
        for k in range(r):
            state[k] = LOW if F[j, k] <= low else (HIGH if F[j, k] >= high else FREE)
            slack = abs(b[k]) if abs(b[k]) > slack else slack
            if ones is not None:
                slack = g[k, k] if g[k, k] > slack else slack  # on the simplex b may be 0: the curvature is a scale too
        slack *= tolerance
        settled[j] = False
        fewest = r + 1  # smallest number of wrong variables so far
        exchanges = FULL_EXCHANGES  # full exchanges left that need not reduce that number
        for _ in range(5 * r + 20):  # far more exchanges than are usually needed, about r
            if ones is not None:  # without a free variable the sum could not be met
                _free_one(g, b, state)
            # solve for the free variables (their number is `free`), with the others at their bounds; on the simplex,
            # correct them to the sum 1, and then find the state in which each variable should be
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
            for k in range(r):  # a full exchange, or only the last wrong variable
                if exchanges >= 0 or k == last:
                    state[k] = wanted[k]


# --- weights of the entries ------------------------------------------------------------------------------------------


@kernel(reassociate=True, allocates=True)
def weighted_hals_rows(X, M, Ft, A, low, high, l1, l2, sweeps, start, stop):
    """Run coordinate descent on ``sum m (x - f A)^2 / 2 + l1 . f + l2 . f^2 / 2`` for rows ``start:stop``."""
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
        for i in range(n):  # from here on the weighted residual
            residual[i] *= m[i]
        for _ in range(sweeps):
            for k in range(r):
                if not curvature[k] > zero:  # no observed entry depends on this code
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
def impute_rows(X, M, scale, P, start, stop):
    """Replace rows ``start:stop`` of the model `P` by ``P + scale m (X - P)``, `scale` one over the largest weight."""
    for j in range(start, stop):
        x, m, p = X[j], M[j], P[j]
        for i in range(x.shape[0]):
            p[i] += scale * m[i] * (x[i] - p[i])


# --- the symmetric model ----------------------------------------------------------------------------------------------


@kernel(allocates=True)
def symmetric_hals_block(S, H, HC, c, G, B, passes, first, last):
    """Run coordinate descent on ``sum_{i != j} c_i c_j (S_ij - h_i . h_j)^2 / 2``, nodes ``first:last``, H >= 0.

    Without the diagonal, the codes of one node solve a non-negative least-squares problem, ``h G h / 2 - b h`` with its
    own share taken out of `G` and `B`; with the diagonal it would be a quartic (Vandaele et al. 2016). `HC` = ``H *
    c``, `G` = ``HC @ H.T`` (float64) and `B` = ``HC @ S[:, first:last]`` are kept up to date.
    """
    r = H.shape[0]
    number = H.dtype.type
    old = np.empty(r)
    h = np.empty(r)
    b = np.empty(r)
    for j in range(first, last):
        weight = np.float64(c[j])
        for k in range(r):
            old[k] = H[k, j]
            h[k] = old[k]
            b[k] = B[k, j - first] - weight * S[j, j] * old[k]
        for k in range(r):
            for m in range(r):
                G[k, m] -= weight * old[k] * old[m]
        for _ in range(passes):
            moved = 0.0  # largest change of a code in this pass
            largest = 0.0  # largest code
            for k in range(r):
                # the diagonal of an unused component consists of rounding errors only
                if not G[k, k] > 1e-14 * (G[k, k] + weight * old[k] * old[k]):
                    continue
                slope = b[k]
                for m in range(r):
                    slope -= G[k, m] * h[m]
                new = max(0.0, h[k] + slope / G[k, k])
                moved = max(moved, abs(new - h[k]))
                largest = max(largest, new)
                h[k] = new
            if moved <= 1e-6 * largest:
                break
        for k in range(r):
            H[k, j] = number(h[k])
            h[k] = H[k, j]  # as rounded, so that G and B agree with H
            HC[k, j] = H[k, j] * c[j]
        for k in range(r):
            for m in range(r):
                G[k, m] += weight * h[k] * h[m]
        for k in range(r):  # later nodes of this block see the new codes
            change = weight * (h[k] - old[k])
            if change != 0.0:
                for i in range(j + 1, last):
                    B[k, i - first] += number(change * S[j, i])
