"""The numba kernels of Newton's method for the codes of fixed components: a quadratic model of each row on a box."""

from __future__ import annotations

from typing import Any

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, short_dot

SWEEPS = 10  # coordinate descent sweeps before the Cholesky step on a face
FACES = 40  # maximum number of faces of the box to try


@kernel(reassociate=True, part=True)
def _eight_sums(lines, a, c):  # type: ignore[no-untyped-def]
    """Return the inner products of `lines` (4, n) with `a` and `c` (n,); each load serves several sums."""
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
    """Update the gradient `s` for a `change` of the variable whose row of the Hessian is `row`."""
    for m in range(s.shape[0]):
        s[m] += change * row[m]


@kernel
def newton_steps(  # type: ignore[no-untyped-def]
    A, curvatures, diagonals, gradients, below, above, free, counts, face, lines, G, factor, x, steps
):
    """Write to `steps` the Newton step of each row's codes, which nearly minimises a quadratic model on the box.

    The model of a step d is ``gradient . d + d G d / 2`` with ``G = A diag(curvatures) A.T``. Coordinate descent
    identifies a face of the box, and a Cholesky factorisation minimises on that face (Moré & Toraldo 1991 do it with
    projected and conjugate gradients). If G is not positive definite, the factor and so the step is NaN.

    `A` is (r, n), `curvatures` (n_rows, n), and `diagonals` (n_rows, r) the diagonals of G with the penalties.
    `gradients` (n_rows, r) are updated to those at the end. `below` and `above` (n_rows, r) bound the step. `free`
    (n_rows, r + 3) lists the variables, with those that may change first, and `counts` (n_rows,) their number. `steps`
    (n_rows, r) is zero on entry. `face` (r,), `lines` (4, n), `G` and `factor` (r, r) and `x` (r,) are scratch.
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
            size: Any = np.int64(0)  # variables on the face; a literal 0 would double numba's type inference
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
