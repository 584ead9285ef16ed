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

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import CHUNK

NEWTON_STEPS = 30  # maximum number; most rows need five


@kernel(part=True)
def _end(first, n):  # type: ignore[no-untyped-def]
    """Return the end of the chunk that begins at `first` in a row of length `n`: ``min(first + CHUNK, n)``."""
    return first + CHUNK if first + CHUNK < n else n


@kernel(reassociate=True, part=True)
def _manhattan(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Manhattan loss: the prox soft-thresholds, so ``u+ = clip(a, -m b, m b)``.

    A part of one row, all (n,): data `x`, model `p`, overwritten by ``p + 2 u+ - u``, the target of least squares,
    scaled dual `u`, first multiplied by `decay` and then overwritten by u+, and weights `m` or None; b is `bound` = 1 /
    rho and ``a = x - p + u``. Return the loss and ``sum |u+ - u|``, the primal residual.
    """
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
def _elastic_net(x, p, u, m, alpha, bound, decay):  # type: ignore[no-untyped-def]
    """Elastic net: the prox soft-thresholds by ``m b``, then divides by ``1 + alpha m b``; ``u+ = a - prox(a)``.

    A part of one row, all (n,): data `x`, model `p`, overwritten by ``p + 2 u+ - u``, the target of least squares,
    scaled dual `u`, first multiplied by `decay` and then overwritten by u+, and weights `m` or None; b is `bound` = 1 /
    rho and ``a = x - p + u``. Return the loss and ``sum |u+ - u|``, the primal residual.
    """
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
def _huber(x, p, u, m, delta, bound, decay):  # type: ignore[no-untyped-def]
    """Huber loss: ``u+ = clip(a m b / (1 + m b), -delta m b, delta m b)``.

    A part of one row, all (n,): data `x`, model `p`, overwritten by ``p + 2 u+ - u``, the target of least squares,
    scaled dual `u`, first multiplied by `decay` and then overwritten by u+, and weights `m` or None; b is `bound` = 1 /
    rho and ``a = x - p + u``. Return the loss and ``sum |u+ - u|``, the primal residual.
    """
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
def _kullback_leibler(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Kullback-Leibler: the new model q is the positive root of ``q^2 + (m b - c) q - m b x = 0`` with ``c = p - u``.

    Then ``u+ = q - c``, where b is `bound` = 1 / rho. All arrays are (n,), a part of one row: `x` the data, `p` the
    model, overwritten by ``p + 2 u+ - u``, the target of the next least-squares step, `u` the scaled dual, first
    multiplied by `decay` and then overwritten by u+, and `m` the weights or None. Return 0 in place of the loss, which
    would need a logarithm for each entry and is computed by the caller, and ``sum |u+ - u|``, the primal residual.
    """
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
def _l21(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """L21 loss ``sqrt(sum m (x - p)^2)`` of a whole row: ``u+ = a m b / (t + m b)``.

    Here t is the norm ``sqrt(sum m s^2)`` of the prox s of a: ``max(0, |a| - b)`` without weights, otherwise the root
    that :func:`_l21_norm` finds.

    A row, all (n,): data `x`, model `p`, overwritten by ``p + 2 u+ - u``, the target of least squares, scaled dual `u`,
    first multiplied by `decay` (old rho over new rho) and then overwritten by u+, and weights `m` or None; b is `bound`
    = 1 / rho and ``a = x - p + u``. Return the loss and ``sum |u+ - u|``, the primal residual.
    """
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
def _l21_norm(x, p, u, m, bound, decay):  # type: ignore[no-untyped-def]
    """Solve ``sum m a^2 / (t + m b)^2 = 1`` for ``t >= 0`` by Newton's method; return 0 if there is no root.

    The root is the weighted norm of the prox of a row for the L21 loss. Here ``a = x - p + decay u``, with the data
    `x`, the model `p`, the scaled dual `u` and the weights `m`, all (n,), and b is `bound` = 1 / rho. The sum is
    decreasing and convex in t, so Newton's iterates increase monotonically from 0 to the root.
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
        if not value > 1.0 + 1e-7:  # close to the root, or 0 is already right of it
            break
        t += (value - 1.0) / slope
    return t


@kernel
def entries_pass(  # type: ignore[no-untyped-def]
    X, P, U, M, alpha, delta, kullback_leibler, bounds, decay, start, stop, losses, residuals
):
    """Run the elementwise part of one ADMM iteration for a loss that is a sum over entries, on rows ``start:stop``.

    The loss is the elastic net if `alpha` is a number, the Huber loss if `delta` is one, the Kullback-Leibler
    divergence if `kullback_leibler` is True, and otherwise the Manhattan loss; the arguments that do not belong to it
    are None, which removes their branches at compile time.

    The data `X`, their weights `M`, or None, and the scaled dual `U`, which is updated in place, are (n_rows, n). `P`
    (stop - start, n), the model of these rows, receives the target of least squares. `bounds` (n_rows,) are ``1 / rho``
    of the rows, and `decay` rescales the dual because rho has changed. `losses` and `residuals` (n_rows,) receive each
    row's loss and the l1 norm of its primal residual. For Kullback-Leibler the losses are 0: they would need a
    logarithm for each entry, and the caller computes them elsewhere.
    """
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
def l21_pass(X, P, U, M, parameter, bounds, decay, start, stop, losses, residuals):  # type: ignore[no-untyped-def]
    """Run the elementwise part of one ADMM iteration for the loss of l2 norms of rows, on rows ``start:stop``.

    The norm couples the entries of a row, so rows are processed as wholes and not in chunks.

    `P` (stop - start, n), the model of these rows, receives the target of least squares, and the scaled dual `U` is
    updated in place. `bounds` (n_rows,) are ``1 / rho`` of the rows, and `decay` rescales the dual because rho has
    changed. `losses` and `residuals` (n_rows,) receive each row's loss and the l1 norm of its primal residual.
    `parameter` is unused.
    """
    for j in range(start, stop):
        m = None if M is None else M[j]
        losses[j], residuals[j] = _l21(X[j], P[j - start], U[j], m, bounds[j], decay)
