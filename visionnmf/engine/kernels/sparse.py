"""The numba kernels of sparse data in compressed rows; the weighted medians are in :mod:`.manhattan`.

``data, indices, indptr`` are those of a CSR array. Factors that are looked up by the column or row of an entry are
stored point-major, ``(n_points, r)``, so that an entry reads one contiguous row instead of `r` scattered numbers.
"""

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import CHUNK, short_dot
from .divergences import LEAST_RATIO, log

TILE = 64  # rows per tile, so that a tile of codes and right-hand sides stays in the first-level cache


@kernel(reassociate=True, part=True)
def _product_of_row(data, indices, begin, end, points, part, total):
    """Write the sum of ``data[e] * points[indices[e]]`` over ``begin:end`` to `part` (r,), by chunks in `total`."""
    r = points.shape[1]
    for k in range(r):
        total[k] = 0.0
    for chunk in range(begin, end, CHUNK):
        stop = min(end, chunk + CHUNK)
        fours = chunk + (stop - chunk) // 4 * 4
        for k in range(r):
            part[k] = part.dtype.type(0)
        # four entries at a time, so that the sums are read and written a quarter as often
        for e in range(chunk, fours, 4):
            x0, x1, x2, x3 = data[e], data[e + 1], data[e + 2], data[e + 3]
            a0, a1 = points[indices[e]], points[indices[e + 1]]
            a2, a3 = points[indices[e + 2]], points[indices[e + 3]]
            for k in range(r):
                part[k] += (x0 * a0[k] + x1 * a1[k]) + (x2 * a2[k] + x3 * a3[k])
        for e in range(fours, stop):
            x = data[e]
            a = points[indices[e]]
            for k in range(r):
                part[k] += x * a[k]
        for k in range(r):
            total[k] += part[k]
    for k in range(r):
        part[k] = total[k]


@kernel(allocates=True)
def product_rows(data, indices, indptr, points, start, stop, out):
    """Write rows ``start:stop`` of ``X @ points`` for a CSR array; a row does not depend on the others, to the bit."""
    total = np.empty(points.shape[1], np.float64)
    for j in range(start, stop):
        _product_of_row(data, indices, indptr[j], indptr[j + 1], points, out[j], total)


@kernel(reassociate=True, allocates=True)
def hals_rows(
    data, indices, indptr, offset, points, G, totals, ahead, last, momentum, low, high, l1, l2, sweeps, start, stop
):  # fmt: skip
    """Compute the products ``X @ points``, then run coordinate descent (HALS) and extrapolate, for rows ``start:stop``.

    `offset` is the row of the data that belongs to the first code. `G` (r, r) is ``points.T @ points``, or the sum of
    these if the data come in several parts. `totals` (n_rows, r) collects the products of the parts and is the
    right-hand side; if it is empty, the products themselves are. `ahead` (n_rows, r) holds the extrapolated start and
    `last` the previous result. Afterwards `last` holds the new result, and `ahead` the result plus `momentum` times its
    change, within the bounds. With `sweeps` = 0 the call only adds to `totals`.
    """
    number = points.dtype.type
    r = points.shape[1]
    fours = r // 4 * 4  # components that are combined four at a time
    part = np.empty(r, points.dtype)
    scratch = np.empty(r, np.float64)
    # right-hand sides and codes of one tile, component-major so that the inner loops run along its rows
    rights, tile = np.empty((r, TILE), points.dtype), np.empty((r, TILE), points.dtype)
    for k in range(r):
        for t in range(TILE):
            rights[k, t] = tile[k, t] = number(0)  # the last tile may be only partly filled
    work = np.empty(TILE, points.dtype)  # negative gradient of one component's codes
    for begin in range(start, stop, TILE):
        size = min(TILE, stop - begin)
        for t in range(size):
            i = begin + t
            j = offset + i
            _product_of_row(data, indices, indptr[j], indptr[j + 1], points, part, scratch)
            if totals.shape[0] > 0:
                for k in range(r):
                    totals[i, k] += part[k]
                    part[k] = number(totals[i, k])
            for k in range(r):
                rights[k, t] = part[k] - l1[k]
                tile[k, t] = ahead[i, k]
        if sweeps == 0:
            continue
        for _ in range(sweeps):
            for k in range(r):
                denominator = G[k, k] + l2[k]
                if not denominator > number(0):
                    continue  # the component is zero everywhere and its codes are arbitrary
                row = tile[k]
                for t in range(TILE):  # right-hand side minus (G + l2) times the codes
                    work[t] = rights[k, t] - l2[k] * row[t]
                for m in range(0, fours, 4):
                    g0, g1, g2, g3 = G[k, m], G[k, m + 1], G[k, m + 2], G[k, m + 3]
                    f0, f1, f2, f3 = tile[m], tile[m + 1], tile[m + 2], tile[m + 3]
                    for t in range(TILE):
                        work[t] -= (g0 * f0[t] + g1 * f1[t]) + (g2 * f2[t] + g3 * f3[t])
                for m in range(fours, r):
                    g = G[k, m]
                    other = tile[m]
                    for t in range(TILE):
                        work[t] -= g * other[t]
                inverse = number(1) / denominator
                for t in range(TILE):
                    new = row[t] + work[t] * inverse
                    new = low if new < low else new
                    row[t] = high if new > high else new
        for t in range(size):
            i = begin + t
            for k in range(r):
                new = tile[k, t]
                far = new + momentum * (new - last[i, k])  # extrapolated along the last change
                far = low if far < low else far
                ahead[i, k] = high if far > high else far
                last[i, k] = new


@kernel(reassociate=True)
def model_entries(indices, indptr, codes, points, start, stop, out):
    """Write the model ``codes[j] . points[i]`` at the stored entries of rows ``start:stop`` to `out`, in double."""
    first = indptr[start]
    for j in range(start, stop):
        f = codes[j]
        for e in range(indptr[j], indptr[j + 1]):
            a = points[indices[e]]
            total = 0.0
            for k in range(f.shape[0]):
                total += np.float64(f[k]) * np.float64(a[k])
            out[e - first] = total


@kernel(reassociate=True, part=True)
def _divergence_at_support(x, p):
    """Return ``sum x log(x / p) - x``, 0 log 0 = 0: Kullback-Leibler at stored entries, without the model's sum."""
    tiny = x.dtype.type(LEAST_RATIO)
    total = 0.0
    for e in range(x.shape[0]):
        ratio = x[e] / p[e]
        total += x[e] * log(ratio if ratio > tiny else tiny) - x[e]
    return total


@kernel(reassociate=True, part=True)
def _hyperbola(x, inverse, a):
    """Return ``sum a x / p``, a hyperbola in the code of the component a, and minus its slope, ``sum a^2 x / p^2``."""
    total = x.dtype.type(0)
    slope = x.dtype.type(0)
    for e in range(x.shape[0]):
        term = x[e] * inverse[e] * a[e]
        total += term
        slope += term * inverse[e] * a[e]
    return total, slope


@kernel(part=True)
def _invert(p, inverse, count):
    """Write the inverses of the first `count` entries of the model."""
    for e in range(count):
        inverse[e] = p.dtype.type(1) / p[e]


@kernel(reassociate=True, part=True)
def move_model(p, change, a, count, floor):
    """Add ``change * a`` to the model `p` of a row's first `count` stored entries, which stays at least `floor`."""
    for e in range(count):
        new = p[e] + change * a[e]
        p[e] = floor if new < floor else new  # rounding may go below


@kernel(reassociate=True, part=True)
def _squares_at_support(x, p):
    """Return ``sum (x - p)^2`` over the stored entries `x` (count,) with model `p` (>= count,), in double precision."""
    loss = 0.0
    for e in range(x.shape[0]):
        loss += np.float64(x[e] - p[e]) ** 2
    return loss


@kernel(reassociate=True, part=True)
def _correlations(a, p, x, count):
    """Return ``sum a (x - p)`` and ``sum a^2``, a least-squares step and its curvature, over `count` entries."""
    total = a.dtype.type(0)
    square = a.dtype.type(0)
    for e in range(count):
        total += a[e] * (x[e] - p[e])
        square += a[e] * a[e]
    return total, square


@kernel(reassociate=True, allocates=True)
def descend_rows(data, indices, indptr, Ft, points, sums, low, high, l1, l2, sweeps, tol, floors, start, stop, losses):
    """Run coordinate descent on the loss of the stored entries plus penalties for rows ``start:stop`` of sparse data.

    The loss is the Kullback-Leibler divergence, where entries that are not stored enter only through the sums of the
    components, so that a sweep costs O(nnz r). The step is that of ``docs/derivations/kullback_leibler.md``, with
    ``T(f) = sum(a) + l1 + l2 f`` in place of ``sum(a)``. If `sums` and `floors` are None, the loss is ``sum (x - p)^2 /
    2`` and entries that are not stored are missing. `sums` (r,) are the column sums of `points` (n, r), or empty if
    entries that are not stored are missing instead of 0. Sweeps run over the codes that are not 0, and every other one
    also over those that would grow. A row is done when such a sweep changes no code by more than `tol` times its
    largest.
    """
    zero, one = data.dtype.type(0), data.dtype.type(1)
    r = Ft.shape[0]
    longest = 0  # largest number of stored entries in a row
    for j in range(start, stop):
        longest = max(longest, indptr[j + 1] - indptr[j])
    A = np.empty((r, longest), data.dtype)  # the chosen components at the stored entries of a row
    # at these entries the model, its inverse, and what is correlated with components: ratios or residuals
    p, inverse, left = np.empty(longest, data.dtype), np.empty(longest, data.dtype), np.empty(longest, data.dtype)
    f, own, total = np.empty(r, data.dtype), np.empty(r, data.dtype), np.empty(r, data.dtype)
    wide, chosen, is_chosen = np.empty(r, np.float64), np.empty(r, np.int64), np.empty(r, np.bool_)
    for j in range(start, stop):
        x, support = data[indptr[j] : indptr[j + 1]], indices[indptr[j] : indptr[j + 1]]
        count, floor = x.shape[0], zero if floors is None else floors[j]
        n_chosen = 0
        for k in range(r):
            f[k], is_chosen[k] = Ft[k, j], (Ft[k, j] != zero) | (low > zero)
            if is_chosen[k]:
                chosen[n_chosen] = k
                n_chosen += 1
        for e in range(count):
            p[e] = zero
            a = points[support[e]]
            for t in range(n_chosen):
                A[t, e] = a[chosen[t]]
        for t in range(n_chosen):
            move_model(p, f[chosen[t]], A[t], count, zero)
        for e in range(count):
            p[e] = floor if p[e] < floor else p[e]
        if sums is None:
            losses[j] = _squares_at_support(x, p) / 2.0
        else:
            if sums.shape[0] == 0:  # the sums over the stored entries
                for e in range(count):
                    left[e] = one
                _product_of_row(left, support, 0, count, points, own, wide)
            loss = _divergence_at_support(x, p)
            for k in range(r):
                own[k] = sums[k] if sums.shape[0] > 0 else own[k]
                loss += np.float64(f[k]) * own[k]
            losses[j] = loss if loss > 0.0 else 0.0
            _invert(p, inverse, count)
        for sweep in range(sweeps):
            n_before = n_chosen
            if sweep % 2 == 0:  # codes of 0 that would grow are chosen as well
                for e in range(count):
                    left[e] = x[e] - p[e] if sums is None else x[e] * inverse[e]
                _product_of_row(left, support, 0, count, points, total, wide)
                for k in range(r):
                    target = l1[k] if sums is None else own[k] + l1[k]
                    if not is_chosen[k] and total[k] > target:
                        is_chosen[k] = True
                        chosen[n_chosen] = k
                        for e in range(count):
                            A[n_chosen, e] = points[support[e], k]
                        n_chosen += 1
            largest = zero  # largest code, and largest change of a code, in this sweep
            moved = zero
            for t in range(n_chosen):
                k = chosen[t]
                if sums is None:
                    correlation, square = _correlations(A[t], p, x, count)
                    denominator = square + l2[k]
                    if not denominator > zero:
                        if l1[k] > zero or count == 0:  # only the penalty matters, or the row has no data
                            f[k] = low
                        continue  # no stored entry of this row depends on the component
                    new = f[k] + (correlation - l1[k] - l2[k] * f[k]) / denominator
                else:
                    target = own[k] + l1[k] + l2[k] * f[k]
                    if not target > zero:
                        continue  # the component is zero everywhere and its codes are arbitrary
                    height, slope = _hyperbola(x, inverse, A[t])
                    # Newton's step on T / S = 1, where T = target, S = height and S' = -slope
                    new = f[k] + (height - target) / (l2[k] + target * (slope / height)) if slope > zero else low
                new = low if new < low else new
                new = high if new > high else new
                change = new - f[k]
                if change != zero:
                    move_model(p, change, A[t], count, floor)
                    if sums is not None:
                        _invert(p, inverse, count)
                    f[k] = new
                largest = new if new > largest else largest
                change = abs(change)
                moved = change if change > moved else moved
            if sweep % 2 == 0 and moved <= tol * largest and n_chosen == n_before:
                break
        for k in range(r):
            Ft[k, j] = f[k]


@kernel(reassociate=True)
def manhattan_codes_rows(
    data, indices, indptr, codes, points, terms, sweeps, coupling, decay, iterations, start, stop, A, vectors, G, work
):
    """Minimise ``sum |x - f @ A| + cost . f + ridge . f^2 / 2`` approximately for sparse rows ``start:stop``.

    The method is ADMM in the consensus form of :func:`.solvers.admm.codes`, started from the least-squares codes. It is
    one kernel, because separate parts would take 50 % longer to compile. `terms` (stop - start, 5, r) holds, for each
    code, the lower and upper bound, cost, ridge and the scale by which its component is divided; the `codes` are in
    units of the scales. `F` are the codes of the linear step and `f` their copy in the box, `dual` the scaled dual
    variable of ``F = f`` and `u` that of ``x = model + residual``, `V` the model and then its target, and `bound` is
    ``1 / rho``. The scratch arrays are `A` (r + 1, longest) for components and data, `vectors` (2, longest), `G` (r +
    1, r + 1) and `work` (3, r).
    """
    r = points.shape[1]
    F, dual, right = work[0], work[1], work[2]
    u, V, x = vectors[0], vectors[1], A[r]
    for j in range(start, stop):
        begin, end = indptr[j], indptr[j + 1]
        n = end - begin
        f, limits = codes[j - start], terms[j - start]  # limits: lower and upper bounds, costs, ridges, scales
        for e in range(n):
            p = points[indices[begin + e]]
            for k in range(r):
                A[k, e] = p[k] / limits[4, k]
            x[e] = data[begin + e]
            u[e] = 0.0
        # coordinate descent on least squares from the lower bounds; row r of A is the data, so G[r] is A @ x
        for k in range(r + 1):
            for m in range(k + 1):
                G[k, m] = G[m, k] = short_dot(A[k], A[m], n)
        for k in range(r):
            f[k] = limits[0, k]
        for _ in range(sweeps):
            for k in range(r):
                if G[k, k] > 0.0:
                    new = f[k] - (short_dot(G[k], f, r) - G[r, k]) / G[k, k]
                    new = limits[0, k] if new < limits[0, k] else new
                    f[k] = limits[1, k] if new > limits[1, k] else new
        for k in range(r):  # from here on G is the matrix of the linear step, which `coupling` makes invertible
            G[k, k] += coupling
            F[k] = f[k]
            dual[k] = 0.0
        for k in range(r):  # invert G in place by Gauss-Jordan elimination
            pivot = 1.0 / G[k, k]
            G[k, k] = 1.0
            for m in range(r):
                G[k, m] *= pivot
            for i in range(r):
                if i != k:
                    factor = G[i, k]
                    G[i, k] = 0.0
                    for m in range(r):
                        G[i, m] -= factor * G[k, m]
        bound = 0.0
        for iteration in range(iterations + 1):
            for e in range(n):
                V[e] = 0.0
            for k in range(r):
                a = A[k]
                for e in range(n):
                    V[e] += F[k] * a[e]
            if iteration == 0:  # initialise here, because a second copy of the model's loops takes long to compile
                for e in range(n):
                    bound += abs(x[e] - V[e]) / n  # the mean residual of the start
                bound = bound if bound > 0.0 else 1.0  # the fit is exact already, so any value works
            for e in range(n):  # update the scaled dual variables; V becomes the model's target
                new = x[e] - V[e] + u[e]
                new = -bound if new < -bound else new
                new = bound if new > bound else new
                V[e] += 2.0 * new - u[e]
                u[e] = new * decay
            for k in range(r):  # right-hand side of the linear step, with the cost as a constant slope
                right[k] = coupling * (f[k] - dual[k]) - bound * limits[2, k] + short_dot(A[k], V, n)
            for k in range(r):  # the linear step, then its copy in the box and the dual variable
                F[k] = short_dot(G[k], right, r)
                goal = F[k] + dual[k]
                new = goal / (1.0 + bound * limits[3, k] / coupling)  # the ridge shrinks it, then the box clips it
                new = limits[0, k] if new < limits[0, k] else new
                f[k] = limits[1, k] if new > limits[1, k] else new
                dual[k] = (goal - f[k]) * decay
            bound *= decay
