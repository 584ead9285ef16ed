"""The numba kernel of the codes of beta-divergences for fixed components: Newton's method, a row at a time.

In double precision, and every sum of a row is taken in an order of its own: a row's codes are the same to the bit
whatever rows are beside it. See ``docs/derivations/sbcd.md``.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

RIDGE = 1e-11  # of the largest curvature: where components are alike, one solution of many is taken
SWEEPS = 10  # of coordinate descent, before the curvature of a face is inverted
FACES = 40  # of the box on which a quadratic model is minimised, at most
EXCHANGES = 4  # of variables that leave a face, at most
HALVINGS = 30  # of a step, at most
ARMIJO = 1e-4  # share of the slope's promise that a step must keep
ROUNDING = 1e-15  # of a sum over a row, in units of its length
PROMISE = 1e-12  # in the same units: a step that promises to gain less is the last, as Newton's error is squared
LEAST_MEAN = 1e-290
STILL = 1e-9  # of the largest code: as good as no change

# --- the divergence and its derivatives ------------------------------------------------------------------------------


@kernel(reassociate=True)
def _row_mean(x, m):  # type: ignore[no-untyped-def]
    """Return the mean of the observed entries of a row; 0 also where it is too small to divide by."""
    total = 0.0
    count = 0.0
    for i in range(x.shape[0]):
        if m[i] > 0:
            total += x[i]
            count += 1.0
    mean = total / count if count > 0 else 0.0
    return mean if mean > LEAST_MEAN else 0.0


@kernel(reassociate=True)
def _divergence(y, p, m, beta):  # type: ignore[no-untyped-def]
    """Evaluate ``sum m d(y | p)`` but for what does not depend on p."""
    total = 0.0
    for i in range(y.shape[0]):
        if beta == 1.0:
            term = p[i] - y[i] * np.log(p[i]) if y[i] > 0 else p[i]
        elif beta == 0.0:
            term = y[i] / p[i] + np.log(p[i])
        else:
            power = p[i] ** (beta - 1.0) if beta != 2.0 else p[i]
            term = power * ((beta - 1.0) * p[i] - beta * y[i]) / (beta * (beta - 1.0))
        total += m[i] * term
    return total


@kernel(reassociate=True)
def _differentiate(y, p, m, beta, expected, slope, curvature):  # type: ignore[no-untyped-def]
    """Write the first and second derivatives by the model; if `expected`, the second one's expectation (Fisher's)."""
    for i in range(y.shape[0]):
        if beta == 1.0:
            weight = 1.0 / p[i]
        elif beta == 0.0:
            weight = 1.0 / (p[i] * p[i])
        else:
            weight = p[i] ** (beta - 2.0) if beta != 2.0 else 1.0
        weight *= m[i]
        slope[i] = weight * (p[i] - y[i])
        curvature[i] = weight if expected else weight * ((beta - 1.0) + (2.0 - beta) * y[i] / p[i])


@kernel(reassociate=True)
def _model(codes, A, floor, p):  # type: ignore[no-untyped-def]
    """Write ``max(codes @ A, floor)``."""
    n = p.shape[0]
    p[:] = 0.0
    for k in range(A.shape[0]):
        c = codes[k]
        if c != 0.0:
            a = A[k]
            for i in range(n):
                p[i] += c * a[i]
    for i in range(n):
        p[i] = max(p[i], floor)


@kernel(reassociate=True)
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@kernel(reassociate=True)
def _weighted_gram(A, b, free, count, rows, G):  # type: ignore[no-untyped-def]
    """Write ``A[free] @ diag(b) @ A[free].T``; eight sums at a time, so that A is read a quarter as often.

    `rows` is scratch of four rows; `G` has room for four more rows and columns.
    """
    n = b.shape[0]
    for first in range(0, count, 4):
        size = min(4, count - first)
        for t in range(size):
            a = A[free[first + t]]
            row = rows[t]
            for i in range(n):
                row[i] = b[i] * a[i]
        w0, w1, w2, w3 = rows[0], rows[1], rows[2], rows[3]
        for other in range(0, first + size, 2):
            a = A[free[other]]
            c = A[free[min(other + 1, count - 1)]]
            s0, s1, s2, s3, t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                s0 += w0[i] * a[i]
                s1 += w1[i] * a[i]
                s2 += w2[i] * a[i]
                s3 += w3[i] * a[i]
                t0 += w0[i] * c[i]
                t1 += w1[i] * c[i]
                t2 += w2[i] * c[i]
                t3 += w3[i] * c[i]
            G[first, other], G[first + 1, other], G[first + 2, other], G[first + 3, other] = s0, s1, s2, s3
            other += 1
            G[first, other], G[first + 1, other], G[first + 2, other], G[first + 3, other] = t0, t1, t2, t3
    for k in range(count):
        for other in range(k):
            G[other, k] = G[k, other]


# --- a quadratic model on a box --------------------------------------------------------------------------------------


@kernel
def _factorise(G, face, size, factor):  # type: ignore[no-untyped-def]
    """Write Cholesky's factor of ``G[face][:, face]``; return whether it is positive definite."""
    for a in range(size):
        row = factor[a]
        g = G[face[a]]
        for c in range(a):
            row[c] = (g[face[c]] - _dot(row, factor[c], c)) / factor[c, c]
        square = g[face[a]] - _dot(row, row, a)
        if not square > 0.0:
            return False
        row[a] = np.sqrt(square)
    return True


@kernel
def _substitute(factor, size, x):  # type: ignore[no-untyped-def]
    """Solve ``L L.T x = x`` in place."""
    for a in range(size):
        x[a] = (x[a] - _dot(factor[a], x, a)) / factor[a, a]
    for a in range(size - 1, -1, -1):
        x[a] /= factor[a, a]
        row = factor[a]
        for c in range(a):
            x[c] -= row[c] * x[a]


@kernel(reassociate=True)
def _move(G, k, change, d, s, count):  # type: ignore[no-untyped-def]
    """Change ``d[k]``, and with it the gradient."""
    d[k] += change
    row = G[k]
    for m in range(count):
        s[m] += change * row[m]


@kernel
def _step_on_face(G, s, below, above, count, d, face, x, factor):  # type: ignore[no-untyped-def]
    """Go from `d` to the minimum on the face of the box on which it lies.

    Variables that would leave the box are taken out of the face; after some tries the step ends at the box.

    Returns
    -------
    int
        2 when `d` is the minimum on its face, 1 when the box was in the way, 0 when `G` is not positive definite there.
    """
    size = 0
    for k in range(count):
        if below[k] < d[k] < above[k]:
            face[size] = k
            size += 1
    share = 1.0
    for exchange in range(EXCHANGES + 1):
        if not _factorise(G, face, size, factor):
            return 0
        for a in range(size):
            x[a] = -s[face[a]]
        _substitute(factor, size, x)
        kept = 0
        for a in range(size):
            k = face[a]
            goal = d[k] + x[a]
            if below[k] <= goal <= above[k]:
                if exchange < EXCHANGES:  # the last step is one on all of the face
                    face[kept] = k
                kept += 1
            elif exchange == EXCHANGES:
                bound = below[k] if goal < below[k] else above[k]
                share = min(share, (bound - d[k]) / x[a])
        if kept == size or exchange == EXCHANGES:
            break
        size = kept
    for a in range(size):
        k = face[a]
        goal = min(max(d[k] + share * x[a], below[k]), above[k])
        _move(G, k, goal - d[k], d, s, count)
    return 2 if exchange == 0 else 1


@kernel
def _minimise_on_box(G, s, below, above, count, d, face, x, factor):  # type: ignore[no-untyped-def]
    """Minimise ``s . d + d G d / 2`` over ``below <= d <= above``, nearly, from ``d = 0``.

    Coordinate descent finds a face of the box, Cholesky's factor the minimum on it (as Moré & Toraldo 1991 do with
    projected and conjugate gradients). `s` is brought to the gradient at `d`. Returns whether `G` was positive
    definite.
    """
    d[:count] = 0.0
    for _ in range(FACES):
        for _ in range(SWEEPS):
            for k in range(count):
                goal = min(max(d[k] - s[k] / G[k, k], below[k]), above[k])
                if goal != d[k]:
                    _move(G, k, goal - d[k], d, s, count)
        found = _step_on_face(G, s, below, above, count, d, face, x, factor)
        if found == 0:
            return False
        outward = found == 2
        for k in range(count):
            outward = outward and (below[k] < d[k] or s[k] >= 0.0) and (d[k] < above[k] or s[k] <= 0.0)
        if outward:
            break
    return True


# --- Newton's method for one row -------------------------------------------------------------------------------------


@kernel
def _penalty(codes, l1, l2):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(codes.shape[0]):
        total += codes[k] * (l1[k] + l2[k] * codes[k] / 2)
    return total


@kernel
def _newton_step(  # type: ignore[no-untyped-def]
    A, b, l2, codes, lows, highs, gradient, rows, G, factor, free, face, short, step
):  # fmt: skip
    """Write the change of the codes that Newton's method wants, for curvatures `b` of the entries.

    Only codes inside the box, or drawn inside by the gradient, take part. Returns what the change promises to gain in
    the first order; 0 when it is no descent, as when the curvature is not positive.
    """
    below, above, s, d, x = short[0], short[1], short[2], short[3], short[4]
    count = 0
    for k in range(codes.shape[0]):
        if (codes[k] > lows[k] or gradient[k] < 0.0) and (codes[k] < highs[k] or gradient[k] > 0.0):
            free[count] = k
            below[count] = lows[k] - codes[k]
            above[count] = highs[k] - codes[k]
            s[count] = gradient[k]
            count += 1
    _weighted_gram(A, b, free, count, rows, G)
    least = np.inf
    largest = 0.0
    for a in range(count):
        G[a, a] += l2[free[a]]
        least = min(least, G[a, a])
        largest = max(largest, G[a, a])
    if count == 0 or least < 0.0:
        return 0.0
    for a in range(count):
        G[a, a] += RIDGE * largest if largest > 0.0 else 1.0
    if not _minimise_on_box(G, s, below, above, count, d, face, x, factor):
        return 0.0
    step[:] = 0.0
    promise = 0.0
    for a in range(count):
        step[free[a]] = d[a]
        promise -= gradient[free[a]] * d[a]
    return max(promise, 0.0)


@kernel
def _newton_row(  # type: ignore[no-untyped-def]
    y, p, m, codes, A, beta, lows, highs, l1, l2, floor, rounds, lines, rows, G, factor, indices,
    vectors,
):  # fmt: skip
    """Bring the codes of one row to the minimum, or to a stationary point where the divergence is not convex."""
    n, r = y.shape[0], codes.shape[0]
    slope, curvature, ahead, trial = lines[0], lines[1], lines[2], lines[3]
    gradient, step, new, short = vectors[0], vectors[1], vectors[2], vectors[3:]
    size = m.sum()
    for _ in range(rounds):
        _model(codes, A, floor, p)
        value = _divergence(y, p, m, beta) + _penalty(codes, l1, l2)
        for expected in range(2):  # Newton's curvature where it serves, else Fisher's
            _differentiate(y, p, m, beta, expected, slope, curvature)
            for k in range(r):
                gradient[k] = _dot(A[k], slope, n) + l1[k] + l2[k] * codes[k]
            promise = _newton_step(
                A, curvature, l2, codes, lows, highs, gradient, rows, G, factor, indices[0], indices[1], short, step
            )
            if promise > 0.0:
                break
        if promise == 0.0:
            return
        _model(step, A, -np.inf, ahead)
        slack = ROUNDING * (size + abs(value))
        share = 1.0
        for _ in range(HALVINGS):
            for i in range(n):
                trial[i] = max(p[i] + share * ahead[i], floor)
            for k in range(r):
                new[k] = min(max(codes[k] + share * step[k], lows[k]), highs[k])
            after = _divergence(y, trial, m, beta) + _penalty(new, l1, l2)
            if after <= value - ARMIJO * share * promise + slack:
                break
            share /= 2.0
        else:
            return
        largest = 0.0
        moved = 0.0
        for k in range(r):
            largest = max(largest, new[k])
            moved = max(moved, abs(new[k] - codes[k]))
            codes[k] = new[k]
        if share == 1.0 and (moved <= STILL * largest or (expected == 0 and promise <= PROMISE * size)):
            return


@kernel
def newton_rows(X, M, Ft, A, scale, beta, floor, low, high, l1, l2, rounds, start, stop):  # type: ignore[no-untyped-def]
    """Solve for the codes of rows ``start:stop`` by Newton's method on the beta-divergence, from good codes.

    Works in units in which the row's mean and each component's maximum are 1.

    Parameters
    ----------
    X : ndarray of float64 (n_rows, n), >= 0
    M : ndarray of float64 (n_rows, n), >= 0
        Weights of the entries.
    Ft : ndarray of float64 (r, n_rows)
        Codes, one column a row of `X`; updated in place.
    A : ndarray of float64 (r, n)
        Components, divided by their maxima.
    scale : ndarray (r,)
        The maxima; 0 of a component that is zero everywhere, whose codes are left alone.
    beta : float
    floor : float
        The model is kept above this share of a row's mean.
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    rounds : int
        Steps a row, at most.
    start, stop : int
    """
    n, r = X.shape[1], A.shape[0]
    lines, rows = np.empty((6, n)), np.zeros((4, n))
    G, factor = np.empty((r + 4, r + 4)), np.empty((r, r))
    indices, vectors = np.empty((2, r), np.int64), np.empty((8, r))
    codes, lows, highs, l1_row, l2_row = np.empty((5, r))
    y, p = lines[4], lines[5]
    for j in range(start, stop):
        m = M[j]
        mean = _row_mean(X[j], m)
        if mean == 0.0:
            continue
        for i in range(n):
            y[i] = X[j, i] / mean
        for k in range(r):
            unit = scale[k] / mean if scale[k] > 0.0 else 1.0
            codes[k] = Ft[k, j] * unit
            lows[k] = low * unit
            highs[k] = high * unit
            l1_row[k] = l1[k] / (mean**beta * unit)
            l2_row[k] = l2[k] / (mean**beta * unit * unit)
        _newton_row(
            y, p, m, codes, A, beta, lows, highs, l1_row, l2_row, floor, rounds, lines, rows, G, factor, indices,
            vectors,
        )  # fmt: skip
        for k in range(r):
            if scale[k] > 0.0:
                Ft[k, j] = min(max(codes[k] * (mean / scale[k]), low), high)
