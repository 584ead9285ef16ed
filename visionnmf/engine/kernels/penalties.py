"""The numba kernels of the penalties and of codes on the simplex; :mod:`.manhattan` describes the conventions."""

import numpy as np

from visionnmf._jit import kernel

TILE = 128  # columns processed together
DECREASE = 1e-4  # required decrease, as a share of the first-order prediction (Armijo condition)
MEMORY = 10  # the next value must be below the largest of this many; monotone descent spoils spectral steps
SHORTEN, LENGTHEN = 0.25, 10.0  # factor after a rejected step; maximum growth of a step


@kernel(reassociate=True)
def shorten_groups(F, points, ends, thresholds):
    """Shorten the part of each group in each row of `F` (r, n) by its threshold; group g ends before ``ends[g]``."""
    for k in range(F.shape[0]):
        row = F[k]
        start = 0
        for g in range(len(ends)):
            square = 0.0
            for i in range(start, ends[g]):
                value = float(row[points[i]])
                square += value * value
            length = np.sqrt(square)
            scale = F.dtype.type(1 - thresholds[k, g] / length if length > thresholds[k, g] else 0.0)
            for i in range(start, ends[g]):
                row[points[i]] *= scale
            start = ends[g]


@kernel(reassociate=True, allocates=True)
def graph_points(F, G, B, low, high, l1, l2, starts, ends, affinities, degrees, scale, sweeps):
    """Run coordinate descent on ``<F, F G> / 2 - <B, F> + scale * (l1 . F + l2 . F^2 / 2 + tr(F' L F) / 2)`` in place.

    Points, the rows of `F` and `B` (n, r), are updated one after the other with the current values of their neighbours.
    Each step is the exact minimiser in one variable (MahNMF's equation 37 with a quadratic loss). `starts`, `ends` and
    `affinities` are the graph's CSR arrays without a diagonal, and `degrees` (n,) its row sums.
    """
    n, r = F.shape
    zero = F.dtype.type(0)
    slope = F[0].copy() if n else F.copy().ravel()  # scratch (r,); for a point, the negative gradient without the ridge
    for _ in range(sweeps):
        for j in range(n):
            f = F[j]
            for k in range(r):
                slope[k] = zero
            for edge in range(starts[j], starts[j + 1]):  # the pull of the neighbours
                s = affinities[edge]
                other = F[ends[edge]]
                for k in range(r):
                    slope[k] += s * other[k]
            for k in range(r):
                slope[k] = B[j, k] + scale * (slope[k] - l1[k])
            for m in range(r):
                value = f[m]
                if value != zero:
                    g = G[m]
                    for k in range(r):
                        slope[k] -= g[k] * value
            for k in range(r):
                ridge = scale * (l2[k] + degrees[j])  # the graph's Laplacian has the degrees on its diagonal
                denominator = G[k, k] + ridge
                if not denominator > zero:  # the component is zero everywhere, and its codes are arbitrary
                    continue
                old = f[k]
                new = old + (slope[k] - ridge * old) / denominator
                new = low if new < low else new
                new = high if new > high else new
                if new != old:
                    f[k] = new
                    change = new - old
                    g = G[k]
                    for m in range(r):
                        slope[m] -= g[m] * change


@kernel(part=True)
def _depth_of_level(row, top, radius):
    """Return how far the t with ``sum max(row - t, 0) = radius`` is below `top`, the largest entry (Michelot 1986)."""
    n = row.shape[0]
    depth = np.inf  # in the first round every entry is above the level
    count = n + 1  # entries above the level in the round before
    while True:
        total = np.float64(radius)
        above = 0
        for i in range(n):
            below = min(top - row[i], radius)  # the level is never deeper than the radius
            if below < depth:
                total += below
                above += 1
        if above == 0 or above >= count:
            break
        count = above
        depth = total / count
    return depth if count <= n else 0.0  # 0 if no round found an entry above the level


@kernel
def row_levels(V, radii, tops, depths):
    """Write the largest entry of each row and its distance to the t with ``sum max(v - t, 0) = radius``."""
    for k in range(V.shape[0]):
        row = V[k]
        top = row[0]
        for i in range(row.shape[0]):
            top = max(top, row[i])
        tops[k] = top
        depths[k] = _depth_of_level(row, top, radii[k])


@kernel(reassociate=True, allocates=True)
def simplex_columns(F, start, stop):
    """Project columns ``start:stop`` of `F` onto the unit simplex, by tiles, as :func:`_depth_of_level` does."""
    number = F.dtype.type
    zero, one = number(0), number(1)
    r = F.shape[0]
    # copy to full tiles, because LLVM vectorises loops of fixed length
    tile = np.zeros((r, TILE), F.dtype)
    depth = np.zeros(TILE, F.dtype)  # of each column's level below its largest entry
    total = np.zeros(TILE, F.dtype)  # used for several quantities of a column
    count = np.zeros(TILE, F.dtype)
    for first in range(start, stop, TILE):
        size = min(TILE, stop - first)
        for k in range(r):
            tile[k, :size] = F[k, first : first + size]
        total[:] = tile[0]  # the largest entry of each column
        for k in range(1, r):
            for i in range(TILE):
                total[i] = max(total[i], tile[k, i])
        for k in range(r):
            for i in range(TILE):
                tile[k, i] = min(total[i] - tile[k, i], one)  # the level is never deeper than 1
        depth[:] = number(2)  # so that every entry is above the level in the first round
        last = number(r + 1) * TILE  # entries above the levels in the round before
        for _ in range(r + 1):
            total[:] = one
            count[:] = zero
            for k in range(r):
                row = tile[k]
                for i in range(TILE):
                    above = row[i] < depth[i]
                    total[i] += row[i] if above else zero
                    count[i] += one if above else zero
            entries = zero
            for i in range(TILE):
                depth[i] = total[i] / count[i]
                entries += count[i]
            if entries >= last:
                break
            last = entries
        total[:] = zero  # the sum of each column, 1 apart from rounding
        for k in range(r):
            for i in range(TILE):
                value = max(depth[i] - tile[k, i], zero)
                tile[k, i] = value
                total[i] += value
        for i in range(TILE):
            total[i] = one / total[i]
        for k in range(r):
            for i in range(TILE):
                tile[k, i] *= total[i]
            F[k, first : first + size] = tile[k, :size]


# --- codes on the simplex ---------------------------------------------------------------------------------------------


@kernel(part=True, allocates=True)
def project(f):
    """Project the vector `f` (n,) onto the unit simplex, in place: keep the parts above its level for the sum 1."""
    top = f.max()
    depth = _depth_of_level(f, top, 1.0)
    for k in range(f.shape[0]):
        f[k] = max(depth - (top - f[k]), 0.0)  # relative to the top, because the level itself would be rounded


@kernel(reassociate=True)
def _evaluate(y, m, A, f, beta, floor, l1, l2, p, slope):
    """Return a row's beta-divergence plus penalties, and how many positive entries have a model below `floor`."""
    n = y.shape[0]
    p[:] = 0.0
    for k in range(f.shape[0]):
        if f[k] != 0:
            for j in range(n):
                p[j] += f[k] * A[k, j]
    total = 0.0
    vanishing = 0
    for j in range(n):
        q = max(p[j], floor)
        weight = 1.0 if m is None else m[j]
        vanishing += 1 if p[j] < floor and y[j] > 0 else 0
        if beta == 1:
            total += weight * (q - y[j] + (y[j] * np.log(y[j] / q) if y[j] > 0 else 0.0))
            p[j] = weight * (1 - y[j] / q)
        elif beta == 0:
            ratio = y[j] / q if weight > 0 else 1.0  # missing entries are stored as 0
            total += weight * (ratio - np.log(ratio) - 1)
            p[j] = weight * (1 - ratio) / q
        else:
            power = q ** (beta - 1)
            # missing entries are stored as 0, whose power may be infinite
            own = y[j] ** beta if weight > 0 else 0.0
            total += weight * ((own - beta * y[j] * power) / (beta * (beta - 1)) + q * power / beta)
            p[j] = weight * power * (1 - y[j] / q)
    for k in range(f.shape[0]):
        inner = 0.0
        for j in range(n):
            inner += A[k, j] * p[j]
        slope[k] = inner + l1[k] + l2[k] * f[k]
        total += (l1[k] + l2[k] * f[k] / 2) * f[k]
    return total, vanishing


@kernel(allocates=True)
def simplex_codes(X, M, A, Ft, beta, floor, l1, l2, most, tol):
    """Find the codes of each row on the simplex by projected gradient with spectral step lengths.

    Birgin, Martinez & Raydan (2000). The objective may increase between steps; the best codes are kept. A row is done
    after `most` steps, or when a step is shorter than `tol` (steps are at most sqrt(2) long).
    """
    r, n = A.shape
    y, p = np.empty(n), np.empty(n)
    f, slope, new, slope_new = np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    units, best, memory = np.empty((r, n)), np.empty(r), np.empty(MEMORY)
    for i in range(X.shape[0]):
        total, count = 0.0, 0
        for j in range(n):
            if M is None or M[i, j] > 0:
                total += X[i, j]
                count += 1
        # solve in units of the row's mean; the divergence is then `scale` times as large, and so must the penalties be
        unit = total / count if total > 0 else 1.0
        scale = unit ** (-beta)
        for j in range(n):
            y[j] = X[i, j] / unit
        for k in range(r):
            for j in range(n):
                units[k, j] = A[k, j] / unit
            f[k] = 1 / r
        m = None if M is None else M[i]
        value, vanishing = _evaluate(y, m, units, f, beta, floor, scale * l1, scale * l2, p, slope)
        length = 1 / max(np.abs(slope).max(), 1e-300)  # the first step moves no code by more than 1
        for k in range(r):
            best[k] = f[k]
        least = value  # objective of the best codes
        memory[:] = value  # the last accepted objectives
        for step in range(most):
            for k in range(r):
                new[k] = f[k] - length * slope[k]
            project(new)
            square, product = 0.0, 0.0  # squared length of the step, and its inner product with the gradient
            for k in range(r):
                square += (new[k] - f[k]) ** 2
                product += (new[k] - f[k]) * slope[k]
            if square <= tol * tol:
                break
            found, lost = _evaluate(y, m, units, new, beta, floor, scale * l1, scale * l2, p, slope_new)
            # for beta <= 1 the divergence is infinite where the model of a positive entry vanishes
            if (lost > vanishing and beta <= 1) or not found <= memory.max() + DECREASE * product:
                length *= SHORTEN
                continue
            bend = 0.0  # step times change of the gradient, that is, square times the curvature along the step
            for k in range(r):
                bend += (new[k] - f[k]) * (slope_new[k] - slope[k])
                f[k], slope[k] = new[k], slope_new[k]
            memory[step % MEMORY], vanishing = found, lost
            if found < least:
                least = found
                for k in range(r):
                    best[k] = f[k]
            # the spectral (Barzilai-Borwein) length: the inverse of that curvature
            length = min(square / bend, LENGTHEN * length) if bend > 0 else LENGTHEN * length
        for k in range(r):
            Ft[k, i] = best[k]
