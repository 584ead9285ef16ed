"""The numba kernel of coordinate descent for the Kullback-Leibler divergence (after Hsieh & Dhillon 2011)."""

from __future__ import annotations

from visionnmf._jit import kernel


@kernel(reassociate=True, part=True)
def _sums(y, p, m, a):  # type: ignore[no-untyped-def]
    """Return ``sum m a``, ``sum m a y / p`` and ``sum m a^2 y / p^2``."""
    zero = y.dtype.type(0)
    target, total, slope = zero, zero, zero
    for i in range(y.shape[0]):
        share = a[i] if m is None else m[i] * a[i]
        inverse = y.dtype.type(1) / p[i]
        term = y[i] * inverse * share
        target += share
        total += term
        slope += term * inverse * a[i]
    return target, total, slope


@kernel(part=True)
def _move(p, change, a, floor):  # type: ignore[no-untyped-def]
    """Add ``change * a`` to the model `p`, which stays at least `floor`."""
    for i in range(p.shape[0]):
        new = p[i] + change * a[i]
        p[i] = new if new > floor else floor


@kernel
def ccd_rows(Y, P, M, codes, A, limits, units, floor, sweeps):  # type: ignore[no-untyped-def]
    """Run coordinate descent for the Kullback-Leibler divergence over the codes of each row, in place.

    As in Hsieh & Dhillon (2011), one code f is updated at a time. Its derivative is ``sum(m a) + l1 + l2 f - S(f)``
    with ``S = sum m a y / p``, a sum of hyperbolas. Newton's method is applied to ``1 / S`` instead of S, which is
    exact for a single hyperbola (``docs/derivations/kullback_leibler.md``).

    `Y` and the model `P` are (n_rows, n); `P` is updated with the codes and stays at least `floor`. `M` (n_rows, n)
    holds entry weights, or is None. `codes` is (n_rows, r), and the fixed factor `A` is (r, >= n). The rows of `limits`
    (4, r) are the lower bounds, upper bounds, l1 and l2 weights; `units` (n_rows, 3) holds each row's factors for
    bounds, l1 and l2.
    """
    r = A.shape[0]
    for j in range(Y.shape[0]):
        p, m = P[j], None if M is None else M[j]
        for turn in range(sweeps * r):
            k = turn % r
            f = codes[j, k]
            target, total, slope = _sums(Y[j], p, m, A[k])
            low = limits[0, k] * units[j, 0]
            l2 = limits[3, k] * units[j, 2]
            target += limits[2, k] * units[j, 1] + l2 * f
            if target > 0:  # otherwise the component is zero everywhere and its codes are arbitrary
                new = f + (total - target) * total / (target * slope + l2 * total) if slope > 0 else low
                new = low if new < low else new
                new = new if new < limits[1, k] * units[j, 0] else limits[1, k] * units[j, 0]
                if new != f:
                    _move(p, new - f, A[k], floor)
                    codes[j, k] = new
