"""The numba kernels that minimise beta-divergences: coordinate descent (sBCD and CCD) and Newton's method.

In sBCD, `E`, `B`, `A` and the scratch arrays may have lower precision than data and codes. The rows of `limits` (4, r)
are lower bounds, upper bounds, l1 and l2 weights of the codes; `units` (n_rows, 3) holds each row's factors for bounds,
l1 and l2.
"""

from typing import Any

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import clipped, short_dot

LEAST_CURVATURE = 1e-6  # as a share of Fisher's; with 0 an entry would have a gradient but no finite residual
FLAT = 0.01  # share of Fisher's curvature below which an entry counts as flat
SWEEPS = 10  # coordinate descent sweeps before the Cholesky step on a face
FACES = 40  # maximum number of faces of the box to try


# --- sBCD -------------------------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def improve_rows(Y, P, V, M, beta, convex, A, codes, limits, units, sweeps, floor, lines, stays, model, flat):
    """Replace the divergence of each row by a quadratic approximation and improve the codes (n_rows, r) on it.

    This is cyclic coordinate descent on ``sum b (e - (f - codes) A)^2 / 2 + l1 . f + l2 . f^2 / 2`` over the codes f.
    The residuals e and curvatures b are such that ``-b e`` is the gradient ``-m v (y - p)`` with respect to the model
    p. The curvature is Fisher's, ``m v``, or the harmonic mean of Fisher's and Newton's if the divergence is `convex`.

    `V` is ``P**(beta - 2)``. `A` (r, >= n) and the scratch `lines` (3, >= n) are zero beyond n; `stays` (r,) is
    scratch. `model` (n_rows, n) receives the model at the new codes, at least `floor`, and `flat` (n_rows,) how many
    entries have so little curvature that `model`, which follows from the residuals, is inexact there.
    """
    e, b, start = lines[0], lines[1], lines[2]  # residuals, curvatures, and the residuals before any change
    number, zero = Y.dtype.type, lines.dtype.type(0)
    one, least, flat_share = number(1), number(LEAST_CURVATURE), number(FLAT)
    constant, slope = number(beta - 1.0), number(2.0 - beta)
    for j in range(Y.shape[0]):
        y, p, v = Y[j], P[j], V[j]
        m = None if M is None else M[j]
        flats = 0
        if convex:  # two loops, because the second one needs no division
            for i in range(y.shape[0]):
                newton = constant + slope * y[i] / p[i]  # Newton's curvature (the second derivative) over Fisher's
                newton = newton if newton > least else least
                share = (newton + newton) / (newton + one)  # the harmonic mean of `newton` and 1
                weight = v[i] if m is None else v[i] * m[i]
                flats += newton < flat_share and weight > 0
                e[i] = start[i] = (y[i] - p[i]) / share
                b[i] = weight * share
        else:
            for i in range(y.shape[0]):
                e[i] = start[i] = y[i] - p[i]
                b[i] = v[i] if m is None else v[i] * m[i]
        flat[j] = flats
        change = zero  # of code `last`; the next pass subtracts its effect, so each step reads the row once
        last: Any = np.int64(0)  # a literal 0 would double numba's type inference
        for sweep in range(sweeps):
            for k in range(A.shape[0]):
                if sweep > 0 and stays[k]:
                    continue
                numerator = curvature = zero
                before, a = A[last], A[k]
                for i in range(e.shape[0]):
                    left = e[i] - change * before[i]
                    e[i] = left
                    share = b[i] * a[i]
                    numerator += left * share
                    curvature += share * a[i]
                last = k
                old = codes[j, k]
                ridge = limits[3, k] * units[j, 2]
                fall = numerator - limits[2, k] * units[j, 1] - ridge * old  # the negative derivative
                low = limits[0, k] * units[j, 0]
                new = old
                if curvature + ridge > 0:
                    new = old + fall / (curvature + ridge)
                    new = low if new < low else new
                    new = new if new < limits[1, k] * units[j, 0] else limits[1, k] * units[j, 0]
                elif fall < 0:  # without curvature the model is linear, so its minimum is at the bound
                    new = low
                codes[j, k] = new
                change = e.dtype.type(codes[j, k] - old)
                if sweep == 0:
                    stays[k] = codes[j, k] == low and change == 0
        a = A[last]
        for i in range(p.shape[0]):
            left = e[i] - change * a[i]  # apply the last change
            after = p[i] + (start[i] - left)  # what has left the residual is in the model
            model[j, i] = after if after > floor else floor


# --- sBCD as published ------------------------------------------------------------------------------------------------


@kernel(reassociate=True, allocates=True)
def component_by_component(E, B, Wt, H, low_W, high_W, l1_W, l2_W, low_H, high_H, l1_H, l2_H):
    """Update each row of `H` and then its codes by weighted least squares (Li, Lebanon & Park 2012, lines 6 to 14).

    The residual `E` (n_rows, n) is kept up to date; `B` (n_rows, n) >= 0 are entry weights. An l1 penalty is subtracted
    from the numerator.
    """
    number = E.dtype.type
    rows, n = E.shape
    numerators, denominators = np.empty(n, E.dtype), np.empty(n, E.dtype)
    for k in range(H.shape[0]):
        h = H[k]
        # the component: each of its entries is a weighted least-squares problem in one variable
        for i in range(n):
            numerators[i] = number(0)
            denominators[i] = l2_H[k]
        for j in range(rows):
            w = Wt[k, j]
            e, b = E[j], B[j]
            for i in range(n):
                share = b[i] * w
                numerators[i] += share * e[i]
                denominators[i] += share * w
        for i in range(n):
            step = (numerators[i] - l1_H[k] - l2_H[k] * h[i]) / denominators[i] if denominators[i] > 0 else number(0)
            numerators[i] = min(max(h[i] + step, low_H), high_H) - h[i]  # from here on the change of h
            h[i] += numerators[i]
        # the codes of this component, one row at a time
        for j in range(rows):
            w = Wt[k, j]
            e, b = E[j], B[j]
            total = number(0)
            curvature = number(0)
            for i in range(n):
                e[i] -= w * numerators[i]
                share = b[i] * h[i]
                total += share * e[i]
                curvature += share * h[i]
            curvature += l2_W[k]
            if curvature > number(0):
                new = min(max(w + (total - l1_W[k] - l2_W[k] * w) / curvature, low_W), high_W)
                for i in range(n):
                    e[i] -= (new - w) * h[i]
                Wt[k, j] = new


# --- the Kullback-Leibler divergence (after Hsieh & Dhillon 2011) -----------------------------------------------------


@kernel(reassociate=True, part=True)
def _sums(y, p, m, a):
    """Return ``sum m a``, ``sum m a y / p`` and ``sum m a^2 y / p^2`` for one row and one component."""
    zero = y.dtype.type(0)
    target, total, slope = zero, zero, zero  # the three sums, in this order
    for i in range(y.shape[0]):
        share = a[i] if m is None else m[i] * a[i]
        inverse = y.dtype.type(1) / p[i]
        term = y[i] * inverse * share
        target += share
        total += term
        slope += term * inverse * a[i]
    return target, total, slope


@kernel(part=True)
def _move_model(p, change, a, floor):
    """Add ``change * a`` to the model `p` (n,) of a row, which stays at least `floor`; `a` is (>= n,)."""
    for i in range(p.shape[0]):
        new = p[i] + change * a[i]
        p[i] = new if new > floor else floor


@kernel
def ccd_rows(Y, P, M, codes, A, limits, units, floor, sweeps):
    """Run coordinate descent for the Kullback-Leibler divergence over the codes (n_rows, r), and update the model `P`.

    As in Hsieh & Dhillon (2011), one code f is updated at a time. Its derivative is ``sum(m a) + l1 + l2 f - S(f)``
    with ``S = sum m a y / p``, a sum of hyperbolas. Newton's method is applied to ``1 / S`` instead of S, which is
    exact for a single hyperbola (``docs/derivations/kullback_leibler.md``).
    """
    r = A.shape[0]
    for j in range(Y.shape[0]):
        p, m = P[j], None if M is None else M[j]
        for turn in range(sweeps * r):
            k = turn % r
            f = codes[j, k]
            target, total, slope = _sums(Y[j], p, m, A[k])  # sum(m a), S and -S'
            low = limits[0, k] * units[j, 0]
            l2 = limits[3, k] * units[j, 2]
            target += limits[2, k] * units[j, 1] + l2 * f  # the derivative without -S
            if target > 0:  # otherwise the component is zero everywhere and its codes are arbitrary
                # Newton's step on T / S = 1, where T = target, S = total and S' = -slope
                new = f + (total - target) * total / (target * slope + l2 * total) if slope > 0 else low
                new = low if new < low else new
                new = new if new < limits[1, k] * units[j, 0] else limits[1, k] * units[j, 0]
                if new != f:
                    _move_model(p, new - f, A[k], floor)
                    codes[j, k] = new


# --- Newton's method for the codes of fixed components: a quadratic model of each row on a box ------------------------


@kernel(reassociate=True, part=True)
def _eight_sums(lines, a, c):
    """Return the inner products of four `lines` (4, n) with `a` and `c`, in one loop, as loads serve several sums."""
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
def _move_gradient(row, change, s):
    """Update the gradient `s` (r,) for a `change` of the variable whose row of the Hessian is `row` (r,)."""
    for m in range(s.shape[0]):
        s[m] += change * row[m]


@kernel
def newton_steps(A, curvatures, diagonals, gradients, below, above, free, counts, face, lines, G, factor, x, steps):
    """Write to `steps` the Newton step of each row's codes, which nearly minimises a quadratic model on the box.

    The model of a step d is ``gradient . d + d G d / 2`` with ``G = A diag(curvatures) A.T``. Coordinate descent
    identifies a face of the box, and a Cholesky factorisation minimises on that face (Moré & Toraldo 1991 do it with
    projected and conjugate gradients). If G is not positive definite, the factor and so the step is NaN.

    `diagonals` (n_rows, r) are those of G with the penalties, `below` and `above` (n_rows, r) bound the step, and
    `free` (n_rows, r + 3) lists the variables, with the `counts` (n_rows,) that may change first, and three more that
    fill the last block of four. `face` (r,), `lines` (4, n), `G` and `factor` (r, r) and `x` (r,) are scratch.
    """
    for j in range(steps.shape[0]):
        low, high, index, count, d, s = below[j], above[j], free[j], counts[j], steps[j], gradients[j]
        # the lower triangle of G on the free variables: four rows against two columns at a time
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
        for t in range(count):  # the given diagonal includes the penalties
            G[index[t], index[t]] = diagonals[j, index[t]]
        for _ in range(FACES):
            # coordinate descent; s is the gradient of the quadratic model at the step d
            for _ in range(SWEEPS):
                for t in range(count):
                    k = index[t]
                    goal = clipped(d[k] - s[k] / G[k, k], low[k], high[k])
                    if goal != d[k]:
                        _move_gradient(G[k], goal - d[k], s)
                        d[k] = goal
            # factorise G on the variables strictly between their bounds, and solve for the rest x of the step. The
            # diagonal of the factor is stored inverted, so that products replace divisions.
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
            for t in range(size):  # back substitution
                a = size - 1 - t
                row = factor[a]
                x[a] *= row[a]
                for c in range(a):
                    x[c] -= row[c] * x[a]
            share = 1.0  # the largest share of x that stays inside the box
            for t in range(size):
                k = face[t]
                room = (high[k] if x[t] > 0 else low[k]) - d[k]
                share = room / x[t] if abs(room) < share * abs(x[t]) else share
            for t in range(size):
                k = face[t]
                goal = clipped(d[k] + share * x[t], low[k], high[k])
                _move_gradient(G[k], goal - d[k], s)
                d[k] = goal
            # go on if a bound stopped the step, or if the gradient at a bound points into the box
            inward = share < 1
            for t in range(count):
                k = index[t]
                inward |= (d[k] <= low[k]) & (s[k] < 0) | (d[k] >= high[k]) & (s[k] > 0)
            if not inward:
                break
