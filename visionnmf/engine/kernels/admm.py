"""The numba kernels of least squares through Gram matrices and of ADMM, which uses it; see :mod:`.medians`."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

TILE = 128  # columns at a time: a tile of both factors stays in the first-level cache
UNROLL = 4  # components whose products are taken together: one load and store of the sum serves them all
CHUNK = 4096  # entries that are summed in the data's dtype; sums of chunks are taken in double precision

# --- least squares through Gram matrices ----------------------------------------------------------------------------


@kernel(reassociate=True)
def hals_columns(F, G, B, offset, low, high, l1, l2, sweeps, start, stop, alternate=False):  # type: ignore[no-untyped-def]
    """Coordinate descent (HALS) on ``|V - A.T F|^2 / 2 + l1 . F + l2 . F^2 / 2`` for columns ``start:stop`` of `F`.

    In place. Cichocki & Phan (2009), Algorithm 2, in Gram form. Columns are independent; the inner loops run along
    them.

    Parameters
    ----------
    F : ndarray (r, n)
        In the box.
    G : ndarray (r, r), symmetric
        ``A A.T``.
    B : ndarray (r, >= stop - offset)
        ``A V``; its first column belongs to column `offset` of `F`.
    offset : int
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    sweeps : int
    start, stop : int
    alternate : bool, default=False
        Whether every second sweep goes backward.
    """
    number = F.dtype.type
    r = F.shape[0]
    padded = -(-r // UNROLL) * UNROLL
    gram = np.zeros((padded, padded), F.dtype)
    inverse = np.zeros(padded, F.dtype)  # stays 0 for a component that is zero everywhere: its codes do not matter
    for k in range(r):
        gram[k, :r] = G[k]
        gram[k, k] += l2[k]
        if gram[k, k] > number(0):
            inverse[k] = number(1) / gram[k, k]
    # whole tiles of scratch copies: loops of a fixed length over row views become SIMD code without checks (6 x faster)
    tile, right = np.zeros((padded, TILE), F.dtype), np.zeros((padded, TILE), F.dtype)
    w0, w1, w2, w3 = np.zeros(TILE, F.dtype), np.zeros(TILE, F.dtype), np.zeros(TILE, F.dtype), np.zeros(TILE, F.dtype)
    for first in range(start, stop, TILE):
        size = min(TILE, stop - first)
        for k in range(r):
            lean = l1[k]
            for i in range(size):
                tile[k, i] = F[k, first + i]
                right[k, i] = B[k, first - offset + i] - lean
        for sweep in range(sweeps):
            backward = alternate and sweep % 2 == 1
            for begin in range(0, padded, UNROLL):
                k = padded - UNROLL - begin if backward else begin
                k0, k1, k2, k3 = (k + 3, k + 2, k + 1, k) if backward else (k, k + 1, k + 2, k + 3)
                # four by four: a load of a factor serves four sums, one of a sum four factors (twice as fast)
                b0, b1, b2, b3 = right[k0], right[k1], right[k2], right[k3]
                for i in range(TILE):
                    w0[i], w1[i], w2[i], w3[i] = b0[i], b1[i], b2[i], b3[i]
                g0, g1, g2, g3 = gram[k0], gram[k1], gram[k2], gram[k3]
                for m in range(0, padded, UNROLL):
                    a0, a1, a2, a3 = g0[m], g0[m + 1], g0[m + 2], g0[m + 3]
                    e0, e1, e2, e3 = g1[m], g1[m + 1], g1[m + 2], g1[m + 3]
                    c0, c1, c2, c3 = g2[m], g2[m + 1], g2[m + 2], g2[m + 3]
                    d0, d1, d2, d3 = g3[m], g3[m + 1], g3[m + 2], g3[m + 3]
                    f0, f1, f2, f3 = tile[m], tile[m + 1], tile[m + 2], tile[m + 3]
                    for i in range(TILE):
                        x0, x1, x2, x3 = f0[i], f1[i], f2[i], f3[i]
                        w0[i] -= a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                        w1[i] -= e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
                        w2[i] -= c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                        w3[i] -= d0 * x0 + d1 * x1 + d2 * x2 + d3 * x3
                # then one after the other, as ever: the change of each moves the slopes of those after it
                i0, i1, i2, i3 = inverse[k0], inverse[k1], inverse[k2], inverse[k3]
                e0, c0, d0, c1, d1, d2 = g1[k0], g2[k0], g3[k0], g2[k1], g3[k1], g3[k2]
                f0, f1, f2, f3 = tile[k0], tile[k1], tile[k2], tile[k3]
                for i in range(TILE):
                    old = f0[i]
                    new = old + w0[i] * i0
                    new = low if new < low else new
                    new = high if new > high else new
                    t0 = new - old
                    f0[i] = new
                    old = f1[i]
                    new = old + (w1[i] - e0 * t0) * i1
                    new = low if new < low else new
                    new = high if new > high else new
                    t1 = new - old
                    f1[i] = new
                    old = f2[i]
                    new = old + (w2[i] - c0 * t0 - c1 * t1) * i2
                    new = low if new < low else new
                    new = high if new > high else new
                    t2 = new - old
                    f2[i] = new
                    old = f3[i]
                    new = old + (w3[i] - d0 * t0 - d1 * t1 - d2 * t2) * i3
                    new = low if new < low else new
                    new = high if new > high else new
                    f3[i] = new
        for k in range(r):
            F[k, first : first + size] = tile[k, :size]


# --- ADMM -----------------------------------------------------------------------------------------------------------

# With S for X - W H, the scaled dual U and b = 1 / rho, everything elementwise of one iteration is
#     a = X - P + U,  U+ = a - prox(a, b),  V = P + 2 U+ - U,
# so that S is never stored, and a loss enters by its prox only (docs/derivations/admm.md has them all). Each function
# below does it for a stretch of one row: it writes U+ over u and V over p, and returns the loss of x - p and the l1
# norm of the primal residual X - P - S = U+ - U. Where an entry's weight is 0 its U stays 0 and V = P.

MANHATTAN, ELASTIC_NET, HUBER, L21, KULLBACK_LEIBLER = range(5)
NEWTON_STEPS = 30  # most rows need five


@kernel(reassociate=True)
def _manhattan(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Clip: ``U+ = clip(a, -m b, m b)``."""
    loss = x.dtype.type(0)
    primal = x.dtype.type(0)
    if m is None:
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
    else:
        for i in range(x.shape[0]):
            old = u[i] * decay
            difference = x[i] - p[i]
            limit = m[i] * bound
            new = difference + old
            new = limit if new > limit else new
            new = -limit if new < -limit else new
            loss += m[i] * abs(difference)
            primal += abs(new - old)
            u[i] = new
            p[i] = p[i] + new + new - old
    return loss, primal


@kernel(reassociate=True)
def _elastic_net(x, p, u, m, alpha, bound, decay):  # type: ignore[no-untyped-def]
    """Soft-threshold, then shrink: ``U+ = clip((a alpha + sign(a)) m b / (1 + alpha m b), -|a|, |a|)``."""
    one = x.dtype.type(1)
    half = alpha / x.dtype.type(2)
    loss = x.dtype.type(0)
    primal = x.dtype.type(0)
    for i in range(x.shape[0]):
        weight = one if m is None else m[i]
        limit = weight * bound
        old = u[i] * decay
        difference = x[i] - p[i]
        a = difference + old
        soft = a - limit if a > limit else (a + limit if a < -limit else x.dtype.type(0))
        new = a - soft / (one + alpha * limit)
        size = abs(difference)
        loss += weight * (size + half * size * size)
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return loss, primal


@kernel(reassociate=True)
def _huber(x, p, u, m, delta, bound, decay):  # type: ignore[no-untyped-def]
    """Shrink, then clip: ``U+ = clip(a m b / (1 + m b), -delta m b, delta m b)``."""
    one = x.dtype.type(1)
    half = x.dtype.type(0.5)
    loss = x.dtype.type(0)
    primal = x.dtype.type(0)
    for i in range(x.shape[0]):
        weight = one if m is None else m[i]
        curvature = weight * bound
        limit = delta * curvature
        old = u[i] * decay
        difference = x[i] - p[i]
        new = (difference + old) * (curvature / (one + curvature))
        new = limit if new > limit else new
        new = -limit if new < -limit else new
        size = abs(difference)
        inner = min(size, delta)
        loss += weight * inner * (size - half * inner)
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return loss, primal


@kernel(reassociate=True)
def _kullback_leibler(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Take the root of a quadratic: ``q^2 + (m b - c) q - m b x = 0`` with ``c = P - U``; ``U+ = q - c``.

    The loss needs a logarithm an entry, and is left to the caller.
    """
    number = x.dtype.type
    primal = number(0)
    for i in range(x.shape[0]):
        limit = bound if m is None else m[i] * bound
        old = u[i] * decay
        half = number(0.5) * (p[i] - old - limit)
        root = np.sqrt(half * half + limit * x[i])
        # of the two forms of the larger root the one without cancellation
        q = root + half if half >= 0 else (limit * x[i] / (root - half) if limit * x[i] > 0 else number(0))
        new = q - (p[i] - old) if limit > 0 else number(0)
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return number(0), primal


@kernel(reassociate=True)
def _l21(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Shrink the row: ``U+ = a m b / (t + m b)``, t the weighted norm of the row's prox; a whole row at once."""
    number = x.dtype.type
    zero = number(0)
    squares = 0.0
    loss = 0.0
    for first in range(0, x.shape[0], CHUNK):
        part = zero
        misfit = zero
        for i in range(first, min(first + CHUNK, x.shape[0])):
            difference = x[i] - p[i]
            a = difference + u[i] * decay
            if m is None:
                part += a * a
                misfit += difference * difference
            else:
                part += m[i] * a * a
                misfit += m[i] * difference * difference
        squares += part
        loss += misfit
    norm = max(0.0, np.sqrt(squares) - bound) if m is None else _l21_norm(x, p, u, m, bound, decay)
    t = number(norm)
    primal = zero
    for i in range(x.shape[0]):
        limit = bound if m is None else m[i] * bound
        old = u[i] * decay
        new = (x[i] - p[i] + old) * (limit / (t + limit)) if limit > zero else zero
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return np.sqrt(loss), primal


@kernel(reassociate=True)
def _l21_norm(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Solve ``sum m a^2 / (t + m b)^2 = 1`` for ``t >= 0`` by Newton's method; 0 where there is no root.

    The sum falls and is convex in t, so that Newton's steps from 0 rise to the root.
    """
    t = 0.0
    for _ in range(NEWTON_STEPS):
        value = 0.0
        slope = 0.0
        for i in range(x.shape[0]):
            if m[i] > 0:
                a = np.float64(x[i] - p[i] + u[i] * decay)
                denominator = t + np.float64(m[i]) * bound
                term = np.float64(m[i]) * a * a / (denominator * denominator)
                value += term
                slope += 2.0 * term / denominator
        if not value > 1.0 + 1e-7:
            break
        t += (value - 1.0) / slope
    return t


@kernel
def admm_pass(X, P, U, M, code, parameter, bounds, decay, start, stop, losses, residuals):  # type: ignore[no-untyped-def]
    """Everything elementwise of one ADMM iteration in one pass over rows ``start:stop`` of the data.

    Parameters
    ----------
    X, U : ndarray (n_rows, n)
        Data; dual, updated in place.
    P : ndarray (stop - start, n)
        ``W H`` for these rows; receives the target V.
    M : ndarray (n_rows, n), >= 0, or None
        Weights of the entries.
    code : int
        Of the loss: MANHATTAN, ...
    parameter : float
        Of the loss, in the dtype of the data.
    bounds : ndarray (n_rows,)
        ``1 / rho`` of each row.
    decay : float
        The dual is first multiplied by this: ``1 / gamma`` after rho has grown by gamma.
    start, stop : int
    losses, residuals : ndarray (n_rows,)
        Receive each row's loss of ``X - P`` (0 for Kullback-Leibler) and the l1 norm of the primal residual.
    """
    n = X.shape[1]
    step = n if code == L21 else CHUNK
    for j in range(start, stop):
        loss = 0.0
        primal = 0.0
        for first in range(0, n, step):
            last = min(n, first + step)
            x, p, u = X[j, first:last], P[j - start, first:last], U[j, first:last]
            m = None if M is None else M[j, first:last]
            if code == MANHATTAN:
                one, other = _manhattan(x, p, u, m, bounds[j], decay)
                loss += one
                primal += other
            elif code == ELASTIC_NET:
                one, other = _elastic_net(x, p, u, m, parameter, bounds[j], decay)
                loss += one
                primal += other
            elif code == HUBER:
                one, other = _huber(x, p, u, m, parameter, bounds[j], decay)
                loss += one
                primal += other
            elif code == L21:
                norm, other = _l21(x, p, u, m, bounds[j], decay)
                loss += norm
                primal += other
            else:
                primal += _kullback_leibler(x, p, u, m, bounds[j], decay)[1]
        losses[j] = loss
        residuals[j] = primal
