"""The numba kernels of Newton's method for codes of fixed components: a quadratic model of each row, on a box."""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, short_dot

SWEEPS = 10  # of coordinate descent, before the curvature of a face is inverted
FACES = 40  # of the box on which a quadratic model is minimised, at most


@kernel(reassociate=True, part=True)
def _eight_sums(lines, a, c):  # type: ignore[no-untyped-def]
    """Return the inner products of four lines with two rows: a load serves two sums or four."""
    s0, s1, s2, s3, t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(a.shape[0]):
        s0 += lines[0, i] * a[i]
        s1 += lines[1, i] * a[i]
        s2 += lines[2, i] * a[i]
        s3 += lines[3, i] * a[i]
        t0 += lines[0, i] * c[i]
        t1 += lines[1, i] * c[i]
        t2 += lines[2, i] * c[i]
        t3 += lines[3, i] * c[i]
    return s0, s1, s2, s3, t0, t1, t2, t3


@kernel(reassociate=True, part=True)
def _move(row, change, s):  # type: ignore[no-untyped-def]
    """Change the gradient with a variable."""
    for m in range(s.shape[0]):
        s[m] += change * row[m]


@kernel
def newton_steps(  # type: ignore[no-untyped-def]
    A, curvatures, diagonals, gradients, below, above, free, counts, face, lines, G, factor, x, steps
):
    """Write the changes of the codes that Newton's method wants, row by row.

    With ``G = A diag(curvatures) A.T`` it minimises ``gradient . d + d G d / 2`` over the box, nearly. Coordinate
    descent finds a face of the box, Cholesky's factor the minimum on it (as Moré & Toraldo 1991 do with projected and
    conjugate gradients); no step is taken where `G` is not positive definite, since the factor is NaN there.

    Parameters
    ----------
    A : ndarray (r, n)
    curvatures : ndarray (n_rows, n)
    diagonals : ndarray (n_rows, r)
        Of G, with the penalties.
    gradients : ndarray (n_rows, r)
        Are brought to those at the end.
    below, above : ndarray (n_rows, r)
    free : ndarray of int (n_rows, r + 3)
        The variables, those that may change first.
    counts : ndarray of int (n_rows,)
        How many may.
    face : ndarray of int (r,)
        Scratch.
    lines : ndarray (4, n), G : ndarray (r, r), factor : ndarray (r, r), x : ndarray (r,)
        Scratch.
    steps : ndarray (n_rows, r)
        Zeros; NaN where the curvature is not positive definite.
    """
    for j in range(steps.shape[0]):
        low, high, index, count, d, s = below[j], above[j], free[j], counts[j], steps[j], gradients[j]
        for block in range((count + 3) >> 2):
            four = index[4 * block : 4 * block + 4]
            for t in range(4):
                line = A[four[t]]
                for i in range(line.shape[0]):
                    lines[t, i] = curvatures[j, i] * line[i]
            for m in range(2 * block + 2):
                sums = _eight_sums(lines, A[index[2 * m]], A[index[2 * m + 1]])
                for t in range(8):
                    k, other = four[t & 3], index[2 * m + (t >> 2)]
                    G[k, other] = G[other, k] = sums[t]
        for t in range(count):
            G[index[t], index[t]] = diagonals[j, index[t]]
        for _ in range(FACES):
            for _ in range(SWEEPS):
                for t in range(count):
                    k = index[t]
                    goal = clipped(d[k] - s[k] / G[k, k], low[k], high[k])
                    if goal != d[k]:
                        _move(G[k], goal - d[k], s)
                        d[k] = goal
            size: Any = np.int64(0)  # variables on the face; not a literal: typing it would take twice the rounds
            for t in range(count):
                k = index[t]
                if low[k] < d[k] and d[k] < high[k]:
                    face[size] = k
                    g, row = G[k], factor[size]
                    for c in range(size):
                        row[c] = (g[face[c]] - short_dot(row, factor[c], c)) * factor[c, c]
                    row[size] = 1 / np.sqrt(g[k] - short_dot(row, row, size))
                    x[size] = (-s[k] - short_dot(row, x, size)) * row[size]
                    size += 1
            for t in range(size):
                a = size - 1 - t
                row = factor[a]
                x[a] *= row[a]
                for c in range(a):
                    x[c] -= row[c] * x[a]
            share = 1.0
            for t in range(size):
                k = face[t]
                room = (high[k] if x[t] > 0 else low[k]) - d[k]
                share = room / x[t] if abs(room) < share * abs(x[t]) else share
            for t in range(size):
                k = face[t]
                goal = clipped(d[k] + share * x[t], low[k], high[k])
                _move(G[k], goal - d[k], s)
                d[k] = goal
            inward = share < 1
            for t in range(count):
                k = index[t]
                inward |= (d[k] <= low[k]) & (s[k] < 0) | (d[k] >= high[k]) & (s[k] > 0)
            if not inward:
                break
