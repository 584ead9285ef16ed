"""The numba kernels of Nesterov smoothing; they call none of those in :mod:`.medians`."""

from __future__ import annotations

from visionnmf._jit import kernel

from .arithmetic import CHUNK


@kernel(reassociate=True)
def _dual(x, p, m, widths, alpha):  # type: ignore[no-untyped-def]
    """Overwrite `p` with ``m clip((p - x) / width, -1, 1) + alpha m (p - x)`` for a contiguous part of one row.

    Return the loss ``sum m (|x - p| + alpha/2 (x - p)^2)`` and the inner product of x and the clipped part.
    """
    zero = x.dtype.type(0)
    one = x.dtype.type(1)
    half = alpha / x.dtype.type(2)
    loss = zero
    inner = zero
    for i in range(x.shape[0]):
        weight = one if m is None else m[i]
        e = p[i] - x[i]
        size = abs(e)
        # the width is 0 for a feature that no component uses; do not divide by it
        u = e / widths[i] if size < widths[i] else (one if e > zero else -one)
        u = u * weight if widths[i] > zero else zero
        loss += weight * (size + half * size * size)
        inner += x[i] * u
        p[i] = u + alpha * weight * e
    return loss, inner


@kernel
def ogm_pass(X, P, M, widths, alpha, start, stop, losses, inner):  # type: ignore[no-untyped-def]
    """Compute the dual variables of the smoothed loss for rows ``start:stop`` (Guan et al. 2012, Algorithm 2, line 3).

    `P` (stop - start, n) holds the model of these rows and receives the derivative of the smoothed loss with respect to
    it. `X` is (n_rows, n), and `M` (n_rows, n) holds entry weights or is None. `widths` (n,) is the half-width, for
    each feature, of the parabola that replaces the kink; 0 leaves the feature out. `alpha` >= 0 is the weight of the
    elastic net. `losses` and `inner` (n_rows,) receive each row's unsmoothed loss and the inner product of data and
    dual.
    """
    n = X.shape[1]
    for j in range(start, stop):
        loss = 0.0
        dot = 0.0
        for left in range(0, n, CHUNK):
            right = min(n, left + CHUNK)
            m = None if M is None else M[j, left:right]
            one, other = _dual(X[j, left:right], P[j - start, left:right], m, widths[left:right], alpha)
            loss += one
            dot += other
        losses[j] = loss
        inner[j] = dot
