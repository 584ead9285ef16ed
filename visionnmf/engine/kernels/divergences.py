"""The numba kernels of the beta-divergences; they call none of those in :mod:`.medians`.

With ``beta = 1`` the divergence is Kullback and Leibler's, with 0 Itakura and Saito's, with 2 half the squared
distance.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

# --- elementary functions --------------------------------------------------------------------------------------------
# LLVM turns these loops into SIMD code; a call of the C library's log in a loop stays one entry at a time.

LOG_2 = 0.6931471805599453
LOG2_E = 1.4426950408889634

LEAST_CURVATURE = 1e-6  # in units of Fisher's
LEAST_SHARE = 0.01  # of Newton's curvature in Fisher's, for the model to be recovered from the residual
REFITS = 3  # of the model of a row whose divergence rose, at most
HALVINGS = 12  # of a step, at most
ROUNDING = 4.0  # of a sum over a row, in units of its mean and the dtype's precision


@kernel(reassociate=True)
def log_of(values, bits, exponents):  # type: ignore[no-untyped-def]
    """Overwrite positive normal numbers by their natural logarithms.

    A number is ``2^e m`` with m between the roots of 1/2 and 2, and ``log m = 2 atanh((m - 1) / (m + 1))``.

    Parameters
    ----------
    values : ndarray (n,)
    bits : ndarray (n,)
        The same memory as integers of the same size.
    exponents : ndarray (n,)
        Scratch.
    """
    number = values.dtype.type
    integer = bits.dtype.type
    single = number(1) + number(1e-12) == number(1)  # known to the compiler, unlike the item size
    shift = integer(23 if single else 52)
    root = integer(0x3F3504F3 if single else 0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
    for i in range(values.shape[0]):
        e = (bits[i] - root) >> shift
        exponents[i] = e
        bits[i] -= e << shift
    one = number(1)
    two = number(2)
    log_2 = number(LOG_2)
    if single:
        c1, c2, c3, c4 = number(1 / 3), number(1 / 5), number(1 / 7), number(1 / 9)
        for i in range(values.shape[0]):
            s = (values[i] - one) / (values[i] + one)
            q = s * s
            series = one + q * (c1 + q * (c2 + q * (c3 + q * c4)))
            values[i] = exponents[i] * log_2 + two * s * series
    else:
        for i in range(values.shape[0]):
            s = (values[i] - one) / (values[i] + one)
            q = s * s
            high = 1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q * (1 / 21))))
            series = one + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * high)))))
            values[i] = exponents[i] * log_2 + two * s * series


@kernel(reassociate=True)
def power_of(values, bits, exponents, exponent):  # type: ignore[no-untyped-def]
    """Overwrite positive normal numbers v by ``v**exponent``, kept within the range of normal numbers.

    ``exp(y) = 2^k exp(y - k log 2)``, the second factor from its Taylor series. See :func:`log_of`.
    """
    log_of(values, bits, exponents)
    number = values.dtype.type
    integer = bits.dtype.type
    single = number(1) + number(1e-12) == number(1)
    shift = integer(23 if single else 52)
    limit = number(125 if single else 1021)
    factor = number(exponent * LOG2_E)
    half = number(0.5)
    log_2 = number(LOG_2)
    one = number(1)
    c2, c3, c4, c5, c6 = number(1 / 2), number(1 / 6), number(1 / 24), number(1 / 120), number(1 / 720)
    for i in range(values.shape[0]):
        y = min(max(values[i] * factor, -limit), limit)
        k = np.floor(y + half)
        exponents[i] = k
        z = (y - k) * log_2
        if single:
            rest = c6
        else:
            rest = c6 + z * (1 / 5040 + z * (1 / 40320 + z * (1 / 362880 + z * (1 / 3628800 + z / 39916800))))
        values[i] = one + z * (one + z * (c2 + z * (c3 + z * (c4 + z * (c5 + z * rest)))))
    for i in range(values.shape[0]):
        bits[i] += integer(exponents[i]) << shift


@kernel
def copy_row(source, target):  # type: ignore[no-untyped-def]
    """Copy a row; numba takes a second to compile an assignment to a slice."""
    for i in range(source.shape[0]):
        target[i] = source[i]


# --- the divergence of one row ---------------------------------------------------------------------------------------


@kernel
def floor_of(beta):  # type: ignore[no-untyped-def]
    """Return the level, as a share of a row's mean, that is as good as 0 in a model, but can be divided by."""
    return 1e-7 if beta >= 1.0 else 1e-10


@kernel(reassociate=True)
def row_mean(x, m):  # type: ignore[no-untyped-def]
    """Return the mean of the observed entries of a row; 0 also where it is too small to divide by."""
    total = 0.0
    count = 0.0
    for i in range(x.shape[0]):
        if m is None or m[i] > 0:
            total += np.float64(x[i])
            count += 1.0
    mean = total / count if count > 0 else 0.0
    least = 1e-30 if x.itemsize == 4 else 1e-290
    return mean if mean > least else 0.0


@kernel(reassociate=True)
def divergence(y, p, m, beta, y_beta, values, bits, exponents):  # type: ignore[no-untyped-def]
    """Evaluate ``sum m d(y | p)`` for positive p; the last three arguments are scratch of a row's length.

    `y_beta` holds ``y**beta``, where beta is not 0, 1 or 2.
    """
    number = y.dtype.type
    one = number(1)
    tiny = number(1e-30)
    n = y.shape[0]
    total = 0.0
    if beta == 2.0:
        for i in range(n):
            e = y[i] - p[i]
            term = e * e * number(0.5)
            total += term if m is None else m[i] * term
    elif beta == 1.0:
        for i in range(n):
            values[i] = max(y[i] / p[i], tiny)
        log_of(values, bits, exponents)
        for i in range(n):
            term = y[i] * values[i] - y[i] + p[i]
            total += term if m is None else m[i] * term
    elif beta == 0.0:
        for i in range(n):
            values[i] = max(y[i] / p[i], tiny)
        log_of(values, bits, exponents)
        for i in range(n):
            term = y[i] / p[i] - values[i] - one
            total += term if m is None else m[i] * term
    else:
        for i in range(n):
            values[i] = p[i]
        power_of(values, bits, exponents, beta - 1.0)
        b = number(beta)
        c = number(beta - 1.0)
        factor = number(1.0 / (beta * (beta - 1.0)))
        for i in range(n):
            term = (y_beta[i] + values[i] * (c * p[i] - b * y[i])) * factor
            total += term if m is None else m[i] * term
    return total


@kernel(reassociate=True)
def weigh(y, p, m, beta, u, b, values, bits, exponents):  # type: ignore[no-untyped-def]
    """Write the entries' falls ``u = m p^(beta - 2) (y - p)`` and curvatures ``b`` in the model.

    The curvature is Fisher's, ``m p^(beta - 2)``, or, where the divergence is convex, the harmonic mean of Fisher's and
    Newton's. The least of the ratios of Newton's to Fisher's is returned.
    """
    number = y.dtype.type
    one = number(1)
    share = number(LEAST_CURVATURE)
    n = y.shape[0]
    if beta == 2.0:
        for i in range(n):
            values[i] = one
    elif beta == 1.0:
        for i in range(n):
            values[i] = one / p[i]
    elif beta == 0.0:
        for i in range(n):
            inverse = one / p[i]
            values[i] = inverse * inverse
    else:
        for i in range(n):
            values[i] = p[i]
        power_of(values, bits, exponents, beta - 2.0)
    first = number(beta - 1.0)
    second = number(2.0 - beta)
    convex = 1.0 <= beta <= 2.0
    least = one
    for i in range(n):
        weight = values[i] if m is None else values[i] * m[i]
        u[i] = weight * (y[i] - p[i])
        # in units of Fisher's; not 0, where the model would have a gradient but no residual
        newton = max(first + second * y[i] / p[i], share) if convex else one
        if m is None or m[i] > 0:
            least = min(least, newton)
        b[i] = weight * number(2) * newton / (newton + one)
    return least


@kernel(reassociate=True)
def model_of(codes, A, floor, p):  # type: ignore[no-untyped-def]
    """Write ``max(codes @ A, floor)``, four components a pass."""
    n = p.shape[0]
    r = A.shape[0]
    for i in range(n):
        p[i] = p.dtype.type(0)
    whole = r - r % 4
    for k in range(0, whole, 4):
        c0, c1, c2, c3 = codes[k], codes[k + 1], codes[k + 2], codes[k + 3]
        a0, a1, a2, a3 = A[k], A[k + 1], A[k + 2], A[k + 3]
        for i in range(n):
            p[i] += c0 * a0[i] + c1 * a1[i] + c2 * a2[i] + c3 * a3[i]
    for k in range(whole, r):
        c0 = codes[k]
        a0 = A[k]
        for i in range(n):
            p[i] += c0 * a0[i]
    for i in range(n):
        p[i] = max(p[i], floor)


# --- coordinate descent for the Kullback-Leibler divergence ----------------------------------------------------------


@kernel(reassociate=True)
def _kl_sums(y, p, m, a):  # type: ignore[no-untyped-def]
    """Return ``sum m a``, ``sum m a y / p`` and ``sum m a^2 y / p^2``."""
    number = y.dtype.type
    one = number(1)
    target = number(0)
    total = number(0)
    slope = number(0)
    for i in range(y.shape[0]):
        inverse = one / p[i]
        share = a[i] if m is None else m[i] * a[i]
        term = y[i] * inverse * share
        target += share
        total += term
        slope += term * inverse * a[i]
    return target, total, slope


@kernel
def ccd_row(y, p, m, codes, A, low, high, l1, l2, sweeps, floor):  # type: ignore[no-untyped-def]
    """Sweep over the codes of one row, whose model is `p`; both are updated in place.

    As in Hsieh & Dhillon (2011), one variable at a time, but with a better step than Newton's: the derivative is
    ``sum(m a) + l1 + l2 f - S(f)`` with ``S = sum m a y / p``, a sum of hyperbolas; the step is Newton's on ``1 / S``,
    which is exact for a single hyperbola (``docs/derivations/kullback_leibler.md``).
    """
    zero = y.dtype.type(0)
    n = y.shape[0]
    for _ in range(sweeps):
        for k in range(A.shape[0]):
            a = A[k, :n]
            f = codes[k]
            target, total, slope = _kl_sums(y, p, m, a)
            target += l1[k] + l2[k] * f
            if not target > zero:
                continue  # a component that is zero everywhere: its codes do not matter
            new = f + (total - target) * total / (target * slope + l2[k] * total) if slope > zero else low[k]
            new = min(max(new, low[k]), high[k])
            change = new - f
            if change != zero:
                for i in range(n):
                    p[i] = max(p[i] + change * a[i], floor)
                codes[k] = new


# --- damped sBCD -----------------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def _first_pass(e, b, change, before, a):  # type: ignore[no-untyped-def]
    """Take the last variable's change out of the residual; return ``sum b e a`` and ``sum b a^2``."""
    numerator = e.dtype.type(0)
    denominator = e.dtype.type(0)
    for i in range(e.shape[0]):
        v = e[i] - change * before[i]
        e[i] = v
        share = b[i] * a[i]
        numerator += v * share
        denominator += share * a[i]
    return numerator, denominator


@kernel(reassociate=True)
def _pass(e, b, change, before, a):  # type: ignore[no-untyped-def]
    """Take the last variable's change out of the residual; return ``sum b e a``."""
    numerator = e.dtype.type(0)
    for i in range(e.shape[0]):
        v = e[i] - change * before[i]
        e[i] = v
        numerator += v * (b[i] * a[i])
    return numerator


@kernel
def least_squares(e, b, A, codes, low, high, l1, l2, sweeps, curvatures):  # type: ignore[no-untyped-def]
    """Cyclic coordinate descent on ``sum b (e - (f - codes) A)^2 / 2 + l1 . f + l2 . f^2 / 2`` over f.

    Parameters
    ----------
    e : ndarray (n,)
        Residual; brought to the new codes.
    b : ndarray (n,), >= 0
    A : ndarray (r, n), >= 0
    codes : ndarray (r,)
        Updated in place.
    low, high, l1, l2 : ndarray (r,), >= 0
    sweeps : int
        From the second on, codes that stayed at `low` in the first are left there.
    curvatures : ndarray (r,)
        Receives the second derivatives.
    """
    number = e.dtype.type
    zero = number(0)
    change = zero
    before = A[0]
    for sweep in range(sweeps):
        for k in range(A.shape[0]):
            a = A[k]
            f = codes[k]
            if sweep == 0:
                numerator, denominator = _first_pass(e, b, change, before, a)
                curvature = denominator + l2[k]
                curvatures[k] = curvature
            else:
                curvature = curvatures[k]
                if curvature < zero:
                    continue
                numerator = _pass(e, b, change, before, a)
            before = a
            change = zero
            if curvature > zero:
                new = min(max(f + (numerator - l1[k] - l2[k] * f) / curvature, low[k]), high[k])
                if sweep == 0 and new == low[k] and f == low[k]:
                    curvatures[k] = -curvature
                change = new - f
                codes[k] = new
            elif numerator < l1[k]:  # all it explains is 0, where the model is linear
                change = low[k] - f
                codes[k] = low[k]
    for i in range(e.shape[0]):
        e[i] -= change * before[i]


@kernel
def penalty_of(codes, l1, l2):  # type: ignore[no-untyped-def]
    """Evaluate ``l1 . f + l2 . f^2 / 2``."""
    total = 0.0
    for k in range(codes.shape[0]):
        total += codes[k] * (l1[k] + l2[k] * codes[k] / 2)
    return total


@kernel(reassociate=True)
def _residual(gradient, b, e):  # type: ignore[no-untyped-def]
    """Write the residual with which the curvatures `b` give the gradient."""
    for i in range(e.shape[0]):
        e[i] = gradient[i] / b[i] if b[i] > 0 else e.dtype.type(0)


@kernel(reassociate=True)
def _model_after(p, gradient, e, b, floor, full):  # type: ignore[no-untyped-def]
    """Write the model after the sweeps have brought the residual to `e`; return the divergence's slope towards it."""
    slope = 0.0
    for i in range(p.shape[0]):
        full[i] = max(p[i] + (gradient[i] / b[i] - e[i]), floor) if b[i] > 0 else p[i]
        slope -= gradient[i] * (full[i] - p[i])
    return slope


@kernel(reassociate=True)
def _raise_curvature(y, p, m, beta, full, b, nearest, values, bits, exponents):  # type: ignore[no-untyped-def]
    """Make `b` at least the divergence's greatest curvature between p and `full`; not below a tenth of p."""
    number = y.dtype.type
    tenth = number(0.1)
    for i in range(y.shape[0]):
        nearest[i] = min(p[i], max(full[i], tenth * p[i]))
        values[i] = nearest[i]
    power_of(values, bits, exponents, beta - 2.0)
    first = number(beta - 1.0)
    second = number(2.0 - beta)
    for i in range(y.shape[0]):
        curvature = values[i] * (first + second * y[i] / nearest[i])
        b[i] = max(b[i], curvature if m is None else m[i] * curvature)


@kernel
def _damped(y, m, codes, new, step, beta, l1, l2, slope, start, reached, work, bits):  # type: ignore[no-untyped-def]
    """Take the new codes back towards the old ones until the objective has not risen; return the divergence.

    `start` and `reached` are the divergences at the codes and at the new ones; `step` is scratch.
    """
    number = y.dtype.type
    p, full, trial, y_beta, values, exponents = work[1], work[2], work[3], work[4], work[5], work[6]
    before = start + penalty_of(codes, l1, l2)
    objective = reached + penalty_of(new, l1, l2)
    for k in range(codes.shape[0]):
        slope += (l1[k] + l2[k] * codes[k]) * (new[k] - codes[k])
    share = 1.0
    for _ in range(HALVINGS):
        rise = objective - before - slope * share
        best = -slope * share * share / (2 * rise) if rise > 0 else 0.0
        share = min(max(best, 0.1 * share), 0.5 * share)
        for k in range(codes.shape[0]):
            step[k] = codes[k] + number(share) * (new[k] - codes[k])
        for i in range(y.shape[0]):
            trial[i] = p[i] + number(share) * (full[i] - p[i])
        reached = divergence(y, trial, m, beta, y_beta, values, bits, exponents)
        objective = reached + penalty_of(step, l1, l2)
        if objective <= before:
            copy_row(step, new)
            return reached
    copy_row(codes, new)
    return start


@kernel
def sbcd_row(  # type: ignore[no-untyped-def]
    m, codes, A, A_step, beta, exact, lows, highs, l1, l2, rounds, sweeps, tol, floor, work, bits, steps, rough
):
    """Improve the codes of the row in ``work[0]``, whose model is in ``work[1]``; return its divergence.

    See :func:`sbcd_rows`.
    """
    y, p, full, y_beta, values, exponents = work[0], work[1], work[2], work[4], work[5], work[6]
    n = y.shape[0]
    e, b, gradient = steps[0], steps[1], steps[2]
    change, low, high, short_l1, short_l2, curvatures = rough[0], rough[1], rough[2], rough[3], rough[4], rough[5]
    loss = divergence(y, p, m, beta, y_beta, values, bits, exponents)
    slack = ROUNDING * n * (1e-7 if y.itemsize == 4 else 2e-16)
    new, step = np.empty(codes.shape[0], codes.dtype), np.empty(codes.shape[0], codes.dtype)
    for turn in range(rounds):
        if turn > 0:
            model_of(codes, A, floor, p)
        # low precision is enough for the change of the codes, not for the codes
        for k in range(codes.shape[0]):
            low[k] = lows[k] - codes[k]
            high[k] = highs[k] - codes[k]
            short_l1[k] = l1[k] + l2[k] * codes[k]
            short_l2[k] = l2[k]
        copy_row(codes, new)
        least = weigh(y, p, m, beta, gradient[:n], b[:n], values, bits, exponents)
        for attempt in range(REFITS + 1):
            if exact or (beta == 1.0 and attempt > 0):
                copy_row(codes, new)
                ccd_row(y, p, m, new, A, lows, highs, l1, l2, sweeps, floor)
                loss = divergence(y, p, m, beta, y_beta, values, bits, exponents)
                break
            _residual(gradient, b, e)
            for k in range(codes.shape[0]):
                change[k] = rough.dtype.type(0)
            least_squares(e, b, A_step, change, low, high, short_l1, short_l2, sweeps, curvatures)
            for k in range(codes.shape[0]):
                new[k] = min(max(codes[k] + change[k], lows[k]), highs[k]) if change[k] > low[k] else lows[k]
            slope = _model_after(p, gradient, e, b, floor, full)
            if least < LEAST_SHARE or rounds > 1:
                model_of(new, A, floor, full)
            reached = divergence(y, full, m, beta, y_beta, values, bits, exponents)
            rise = reached + penalty_of(new, l1, l2) - loss - penalty_of(codes, l1, l2)
            if rise <= slack:
                loss = reached
                break
            if attempt < REFITS:
                _raise_curvature(y, p, m, beta, full, b[:n], work[3], values, bits, exponents)
            else:
                loss = _damped(y, m, codes, new, step, beta, l1, l2, slope, loss, reached, work, bits)
        largest = 0.0
        moved = 0.0
        for k in range(codes.shape[0]):
            largest = max(largest, abs(new[k]))
            moved = max(moved, abs(new[k] - codes[k]))
        copy_row(new, codes)
        if moved <= tol * largest:
            break
    return loss


@kernel
def set_power(y, beta, y_beta, bits, exponents, values):  # type: ignore[no-untyped-def]
    """Write ``y**beta`` for :func:`divergence`, where it needs it."""
    if beta == 0.0 or beta == 1.0 or beta == 2.0:
        return
    for i in range(y.shape[0]):
        values[i] = max(y[i], y.dtype.type(1e-30))
    power_of(values, bits, exponents, beta)
    for i in range(y.shape[0]):
        y_beta[i] = values[i] if y[i] > 0 else y[i]


@kernel
def sbcd_rows(  # type: ignore[no-untyped-def]
    X, M, P, Ft, A, A_step, scale, beta, exact, low, high, l1, l2, rounds, sweeps, tol, start, stop,
    work, bits, steps, out,
):  # fmt: skip
    """Damped scalar block coordinate descent on the beta-divergence of rows ``start:stop`` from ``Ft.T @ A``.

    Each round replaces the divergence of a row by a weighted least-squares model (Li, Lebanon & Park 2012) and improves
    the codes by coordinate descent on it. Where the divergence rises, the row does it again with
    greater curvatures, or, for ``beta = 1``, with :func:`ccd_row`. Works in units in which the row's mean and each
    component's maximum are 1. See ``docs/derivations/sbcd.md``.

    Parameters
    ----------
    X : ndarray (n_rows, n), >= 0
    M : ndarray (n_rows, n) or None
        Weights of the entries.
    P : ndarray (stop - start, n) or (0, n)
        ``Ft[:, start:stop].T`` times the components, where a matrix product has made it; rows made here do not depend
        on the other rows to the last bit.
    Ft : ndarray (r, n_rows)
        Codes, one column a row of `X`; updated in place.
    A : ndarray (r, >= n)
        Components, divided by their maxima; padded with zeros.
    A_step : ndarray (r, >= n)
        The same in the precision of the steps: single is enough but for the last digits.
    scale : ndarray (r,)
        The maxima; 0 of a component that is zero everywhere, whose codes are left alone.
    beta : float
    exact : bool
        Use :func:`ccd_row` for all rows; beta must be 1.
    low, high : float
    l1, l2 : ndarray (r,), >= 0
    rounds, sweeps : int
    tol : float
        A row is left when a round changes no code by more than this share of its largest one.
    start, stop : int
    work : ndarray (7, n)
        Scratch in the dtype of `X`.
    bits : ndarray (n,)
        ``work[5]`` as integers of the same size.
    steps : ndarray (3, >= n)
        Scratch in that precision, zero beyond n.
    out : ndarray (n_rows,)
        Receives each row's divergence at the end.
    """
    number = X.dtype.type
    n = X.shape[1]
    r = A.shape[0]
    y, p = work[0], work[1]
    codes, lows, highs = np.empty(r, X.dtype), np.empty(r, X.dtype), np.empty(r, X.dtype)
    l1_row, l2_row = np.empty(r, X.dtype), np.empty(r, X.dtype)
    rough = np.empty((6, r), steps.dtype)
    for j in range(start, stop):
        m = None if M is None else M[j]
        mean = row_mean(X[j], m)
        empty = mean == 0.0
        if empty:
            mean = 1.0
            for k in range(r):
                Ft[k, j] = low if scale[k] > 0 else Ft[k, j]
        floor = number(floor_of(beta) if not empty else 1e-30)
        for i in range(n):
            y[i] = X[j, i] / number(mean) if not empty else number(0)
        for k in range(r):
            unit = scale[k] / mean if scale[k] > 0 else 1.0
            codes[k] = Ft[k, j] * unit
            lows[k] = low * unit
            highs[k] = high * unit
            l1_row[k] = l1[k] / (mean**beta * unit)
            l2_row[k] = l2[k] / (mean**beta * unit * unit)
        if empty or P.shape[0] == 0:
            model_of(codes, A, floor, p)
        else:
            for i in range(n):
                p[i] = max(P[j - start, i] / number(mean), floor)
        set_power(y, beta, work[4], bits, work[6], work[5])
        loss = sbcd_row(
            m, codes, A, A_step, beta, exact, lows, highs, l1_row, l2_row, 0 if empty else rounds, sweeps, tol, floor,
            work, bits, steps, rough,
        )  # fmt: skip
        out[j] = loss * mean**beta
        for k in range(r):
            if scale[k] > 0 and not empty:
                Ft[k, j] = min(max(number(codes[k] * (mean / scale[k])), low), high)


# --- losses ----------------------------------------------------------------------------------------------------------


@kernel
def _divergence_rows(X, P, M, beta, start, stop, losses):  # type: ignore[no-untyped-def]
    n = X.shape[1]
    y, p, y_beta, values, exponents = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    bits = values.view(np.int64)
    for j in range(start, stop):
        m = None if M is None else M[j]
        mean = row_mean(X[j], m)
        floor = floor_of(beta) if mean > 0 else 1e-30
        mean = mean if mean > 0 else 1.0
        for i in range(n):
            y[i] = np.float64(X[j, i]) / mean
            p[i] = max(np.float64(P[j - start, i]) / mean, floor)
        set_power(y, beta, y_beta, bits, exponents, values)
        losses[j] = divergence(y, p, m, beta, y_beta, values, bits, exponents) * mean**beta


@kernel
def kullback_leibler_rows(X, P, M, parameter, start, stop, losses):  # type: ignore[no-untyped-def]
    """Write ``sum m (x log(x / p) - x + p)`` of each row; see :mod:`.losses` for the arguments."""
    _divergence_rows(X, P, M, 1.0, start, stop, losses)


@kernel
def itakura_saito_rows(X, P, M, parameter, start, stop, losses):  # type: ignore[no-untyped-def]
    """Write ``sum m (x / p - log(x / p) - 1)`` of each row; `X` must be positive."""
    _divergence_rows(X, P, M, 0.0, start, stop, losses)


@kernel
def beta_rows(X, P, M, parameter, start, stop, losses):  # type: ignore[no-untyped-def]
    """Write the beta-divergence of each row; the parameter is beta."""
    _divergence_rows(X, P, M, parameter, start, stop, losses)
