"""The elementwise part of one ADMM iteration: one kernel for losses of entries, and one for norms of rows.

Write S for the split residual X - W H, U for the scaled dual variable, b = 1 / rho for the inverse of the ADMM penalty,
and a = X - P + U. One iteration computes

    U+ = a - prox(a, b),  V = P + 2 U+ - U,

where V is the target that the next least-squares update of W H fits. S itself is never stored, and a loss enters only
through its prox (see docs/derivations/admm.md). The private functions process a contiguous part of one row: they
overwrite u with U+ and p with V, and return the loss of x - p and the l1 norm of the primal residual X - P - S = U+ -
U. Where the weight of an entry is 0, U stays 0 and V = P.

Both public kernels process rows ``start:stop``. `X` and `U` (n_rows, n) are the data and the dual, which is updated in
place. `P` (stop - start, n) holds ``W H`` of these rows and receives V. `M` (n_rows, n), >= 0, holds the entry weights,
or is None. `bounds` (n_rows,) holds ``1 / rho`` of each row. The dual is first multiplied by `decay`, which is
``1 / gamma`` after rho has grown by the factor gamma. `losses` and `residuals` (n_rows,) receive each row's loss of
``X - P`` (0 for Kullback-Leibler) and the l1 norm of its primal residual.
"""

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import CHUNK

NEWTON_STEPS = 30  # maximum number; most rows need five


@kernel(part=True)
def _end(first, n):
    """Return the end of the chunk that begins at `first` in a row of length `n`: ``min(first + CHUNK, n)``."""
    return first + CHUNK if first + CHUNK < n else n


@kernel(reassociate=True, part=True)
def _manhattan(x, p, u, m, bound, decay):
    """Manhattan loss: the prox soft-thresholds, so ``u+ = clip(a, -m b, m b)``."""
    loss = x.dtype.type(0)
    primal = x.dtype.type(0)
    for i in range(x.shape[0]):
        old = u[i] * decay
        difference = x[i] - p[i]
        limit = bound if m is None else m[i] * bound
        new = difference + old
        new = limit if new > limit else new
        new = -limit if new < -limit else new
        loss += abs(difference) if m is None else m[i] * abs(difference)
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return loss, primal


@kernel(reassociate=True, part=True)
def _elastic_net(x, p, u, m, alpha, bound, decay):
    """Elastic net: the prox soft-thresholds by ``m b``, then divides by ``1 + alpha m b``; ``u+ = a - prox(a)``."""
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


@kernel(reassociate=True, part=True)
def _huber(x, p, u, m, delta, bound, decay):
    """Huber loss: ``u+ = clip(a m b / (1 + m b), -delta m b, delta m b)``."""
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
        inner = size if size < delta else delta
        loss += weight * inner * (size - half * inner)  # both branches of the Huber loss at once
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return loss, primal


@kernel(reassociate=True, part=True)
def _kullback_leibler(x, p, u, m, bound, decay):
    """Kullback-Leibler: the model q is the positive root of ``q^2 + (m b - c) q - m b x = 0`` with ``c = p - u``."""
    number = x.dtype.type
    primal = number(0)
    for i in range(x.shape[0]):
        limit = bound if m is None else m[i] * bound
        old = u[i] * decay
        half = number(0.5) * (p[i] - old - limit)  # (c - m b) / 2
        root = np.sqrt(half * half + limit * x[i])
        # the larger root has two algebraic forms; use the one without cancellation
        q = root + half if half >= 0 else (limit * x[i] / (root - half) if limit * x[i] > 0 else number(0))
        new = q - (p[i] - old) if limit > 0 else number(0)  # a missing entry has no dual
        primal += abs(new - old)
        u[i] = new
        p[i] = p[i] + new + new - old
    return number(0), primal


@kernel(reassociate=True, part=True)
def _l21(x, p, u, m, bound, decay):
    """L21 loss ``sqrt(sum m (x - p)^2)`` of a whole row: ``u+ = a m b / (t + m b)``."""
    number = x.dtype.type
    zero = number(0)
    squares = 0.0  # sum of a^2, in double precision; used without weights only
    loss = 0.0
    for first in range(0, x.shape[0], CHUNK):
        part = zero  # sums of one chunk, in the dtype of the data
        misfit = zero
        for i in range(first, _end(first, x.shape[0])):
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
    if m is None:
        norm = np.sqrt(squares) - bound
        norm = norm if norm > 0.0 else 0.0
    else:
        norm = _l21_norm(x, p, u, m, bound, decay)
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


@kernel(reassociate=True, part=True)
def _l21_norm(x, p, u, m, bound, decay):
    """Solve ``sum m a^2 / (t + m b)^2 = 1`` for ``t >= 0`` by Newton's method; return 0 if there is no root."""
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
        if not value > 1.0 + 1e-7:  # close to the root, or 0 is already right of it
            break
        t += (value - 1.0) / slope
    return t


@kernel
def entries_pass(X, P, U, M, alpha, delta, kullback_leibler, bounds, decay, start, stop, losses, residuals):
    """Run the pass on rows ``start:stop`` for a loss of entries: Manhattan, or that whose argument is not None."""
    for j in range(start, stop):
        losses[j] = residuals[j] = 0.0
        for first in range(0, X.shape[1], CHUNK):  # the sums of chunks are added in double precision
            last = first + CHUNK
            m = None if M is None else M[j, first:last]
            x, p, u = X[j, first:last], P[j - start, first:last], U[j, first:last]
            if alpha is not None:
                loss, primal = _elastic_net(x, p, u, m, X.dtype.type(alpha), bounds[j], decay)
            elif delta is not None:
                loss, primal = _huber(x, p, u, m, X.dtype.type(delta), bounds[j], decay)
            elif kullback_leibler is not None:
                loss, primal = _kullback_leibler(x, p, u, m, bounds[j], decay)
            else:
                loss, primal = _manhattan(x, p, u, m, bounds[j], decay)
            losses[j] += loss
            residuals[j] += primal


@kernel
def l21_pass(X, P, U, M, parameter, bounds, decay, start, stop, losses, residuals):
    """Run the pass on rows ``start:stop`` for the loss of norms of rows, which are not cut into chunks."""
    for j in range(start, stop):
        m = None if M is None else M[j]
        losses[j], residuals[j] = _l21(X[j], P[j - start], U[j], m, bounds[j], decay)
