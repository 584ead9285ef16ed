"""The Manhattan loss: coordinate descent by weighted medians, Nesterov smoothing, and subgradients.

The kernels of the engine are private to it. They release the interpreter lock and work on a range of rows or columns,
so that threads can share the work. Their compile time decides how long a user's first fit takes; CONTRIBUTING explains
which constructs are expensive to compile.

All kernels store both factors component-major, ``(n_components, n_points)``: the codes as ``Wt = W.T``, the components
as ``H``. A sweep over either factor then runs along contiguous memory.
"""

from typing import Any

import numpy as np

from visionnmf._jit import kernel

from .arithmetic import CHUNK, clipped, dot, sum_abs

# --- the one-dimensional problem: minimise sum_i c_i |a_i x - z_i| + s x + b (x - d)^2 over a box --------------------


@kernel(part=True)
def select_step(steps, weights, count, slope, curvature, rounding):
    """Find the step t > 0 at which ``slope + curvature t + sum of weights[i] over steps[i] < t`` reaches zero.

    Quickselect takes O(count), whereas the sort of Guan et al. (2012), Algorithm 1, takes O(count log count). The first
    `count` entries of `steps` > 0 and `weights` > 0 are reordered in place. Return infinity if the sum stays negative;
    `rounding` is the absolute error of the sums of weights.
    """
    # the breakpoints steps[left:right] are still undecided
    left: Any = np.int64(0)  # a literal 0 would more than double numba's type inference
    right = count
    reached = slope  # the derivative just left of steps[left:right], without the curvature term
    furthest = 0.0  # largest breakpoint known to be left of the root
    while right > left:
        if right - left > 2:
            # the median of three avoids quadratic time on sorted input
            first, middle, last = steps[left], steps[(left + right) >> 1], steps[right - 1]
            if middle < first:
                first, middle = middle, first
            pivot = middle if middle < last else last
            pivot = first if first > pivot else pivot
        else:
            pivot = steps[left]
        below = left  # steps[left:below] < pivot
        mass_below = 0.0  # sums of the weights at breakpoints below the pivot, and equal to it
        mass_equal = 0.0
        for i in range(left, right):
            t = steps[i]
            w = weights[i]
            smaller = t < pivot
            # swap without a branch: a misprediction costs more than the writes
            steps[i] = steps[below]
            weights[i] = weights[below]
            steps[below] = t
            weights[below] = w
            below += smaller
            mass_below += w * smaller
            mass_equal += w * (t == pivot)
        before = reached + mass_below + curvature * pivot  # the derivative just left of the pivot
        if before >= 0.0:  # the root is not right of the pivot: keep only the smaller breakpoints
            right = below
            continue
        if before + mass_equal >= 0.0:
            return pivot
        # the root lies right of the pivot: keep only the larger breakpoints
        reached += mass_below + mass_equal
        furthest = pivot
        above = right
        i = below
        while i < above:
            if steps[i] == pivot:
                above -= 1
                t = steps[above]
                w = weights[above]
                steps[above] = steps[i]
                weights[above] = weights[i]
                steps[i] = t
                weights[i] = w
            else:
                i += 1
        # steps[below:above] > pivot
        left = below
        right = above
    # no breakpoint is left: the derivative is linear from `furthest` on
    if curvature > 0.0:
        step = -reached / curvature
        return step if step > furthest else furthest
    return furthest if reached >= -rounding else np.inf


@kernel(reassociate=True, part=True)
def update_variable(residual, a, weights, x, low, high, slope, curvature, eps, tiny, steps, jumps):
    """Minimise ``sum_i m_i |z_i - a_i x| + penalty`` over one x in [`low`, `high`], given the residual; return it.

    This is Guan et al. (2012), eq. 6 to 8, restricted to the breakpoints on the side of `x` on which the objective
    falls. If the minimiser is an interval, its point nearest to `x` is taken (the paper takes the leftmost, which sets
    codes to zero needlessly). `residual` (n,) is ``z - a x`` and is updated; entries within `tiny` of 0 count as 0.
    `weights` (n,) are `a` times the entry weights m. The penalty is ``s x + b (x - d)^2``; `slope` is its derivative at
    `x`, and `curvature` 2 b.
    """
    number = a.dtype.type
    zero = number(0)
    # sums of the weights where the residual is above 0, below 0, and over all entries
    above = 0.0
    below = 0.0
    total = 0.0
    for first in range(0, a.shape[0], CHUNK):
        ws = weights[first : first + CHUNK]
        es = residual[first : first + CHUNK]
        positive = zero
        negative = zero
        both = zero
        for i in range(ws.shape[0]):
            w = ws[i]
            e = es[i]
            positive += w if e > tiny else zero
            negative += w if e < -tiny else zero
            both += w
        above += positive
        below += negative
        total += both
    at_zero = total - above - below
    at_zero = at_zero if at_zero > 0.0 else 0.0
    to_right = slope + below - above + at_zero  # one-sided derivatives at x
    to_left = slope + below - above - at_zero
    rounding = eps * total  # rounding errors of these sums must not look like a descent direction
    if to_right < -rounding and x < high:
        sign, slope = number(1), to_right  # from here on the slope in the direction of the step
    elif to_left > rounding and x > low:
        sign, slope = number(-1), -to_left
    else:
        return number(x)
    count = _breakpoints(residual, a, weights, sign, tiny, steps, jumps)
    new = clipped(number(x + sign * select_step(steps, jumps, count, slope, curvature, rounding)), low, high)
    if not abs(new) < np.inf:  # the quotient overflows if the coefficients are tiny
        return number(x)
    change = new - number(x)
    for i in range(a.shape[0]):
        residual[i] -= change * a[i]
    return new


@kernel(part=True)
def _breakpoints(residual, a, weights, sign, tiny, steps, jumps):
    """Write the steps in direction `sign` at which a residual vanishes and the jumps there; return their count."""
    count: Any = np.int64(0)
    for i in range(a.shape[0]):
        e = sign * residual[i]
        w = weights[i]
        steps[count] = e / a[i]
        jumps[count] = w + w
        count += (e > tiny) & (w > 0)
    return count


@kernel(reassociate=True, part=True)
def _set_residual(residual, target, Ft, j, A):
    """Write ``target - Ft[:, j] @ A`` to `residual` (n,); return the largest absolute entry of `target`."""
    number = A.dtype.type
    largest = number(0)
    for i in range(target.shape[0]):
        residual[i] = target[i]
        size = abs(target[i])
        largest = size if size > largest else largest
    for k in range(A.shape[0]):
        f = Ft[k, j]
        a = A[k]
        if f != 0:
            for i in range(target.shape[0]):
                residual[i] -= f * a[i]
    return largest


@kernel
def rri_rows(X, M, group, Ft, A, low, high, l1, l2, alpha, graph, sweeps, eps, start, stop, losses, weighted, scratch):
    """Update the codes of rows ``start:stop`` by rank-one residual iteration (RRI), that is, coordinate descent.

    This is Guan et al. (2012), Algorithm 1, for one row at a time. It minimises ``sum m (|e| + alpha/2 e^2) + l1 . f +
    l2 . f^2 / 2`` with ``e = X[j] - Ft[:, j] @ A`` over ``low <= f <= high``. The residual is recomputed from the
    factors in each call, so that rounding errors do not accumulate.

    `M`, `alpha` and `losses` may be None; `group` consecutive rows of `X` share one of `M`. `graph` is None or the
    arrays (indptr, indices, affinities, degrees) of an affinity without a diagonal; it adds ``tr(F L F^T) / 2``, and
    each row then sees the new codes of the rows before it. A row stops after `sweeps` sweeps or when one changes
    nothing. `eps` is the relative rounding of sums. `weighted` (r, n) is scratch for the components times the weights
    of a row, or `A` itself if `M` is None; `scratch` is (3, n).
    """
    residual, steps, jumps = scratch[0], scratch[1], scratch[2]
    number = A.dtype.type
    for j in range(start, stop):
        largest = _set_residual(residual, X[j], Ft, j, A)  # returns the largest entry of row j
        tiny = number(4 * eps) * largest  # residuals below this rounding error count as 0
        if losses is not None:
            losses[j] = _loss(residual, None if M is None else M[j // group], alpha)
        if M is not None and (j == start or j % group == 0):
            m = M[j // group]
            for k in range(A.shape[0]):
                a, product = A[k], weighted[k]
                for i in range(a.shape[0]):
                    product[i] = a[i] * number(m[i])
        for _ in range(sweeps):
            moved = False
            for k in range(A.shape[0]):
                x = Ft[k, j]
                slope = np.float64(l1[k] + l2[k] * x)  # derivatives of the terms other than the absolute values
                curvature = np.float64(l2[k])
                if alpha is not None:
                    slope -= alpha * dot(weighted[k], residual, None)
                    curvature += alpha * dot(weighted[k], A[k], None)
                if graph is not None:
                    pull, degree = _pull_of_neighbours(graph, Ft, k, j)
                    slope += degree * np.float64(x) - pull
                    curvature += degree
                new = update_variable(
                    residual, A[k], weighted[k], x, low, high, slope, curvature, eps, tiny, steps, jumps
                )
                moved |= new != x
                Ft[k, j] = new
            if not moved:
                break


@kernel(part=True)
def _loss(residual, m, alpha):
    """Return ``sum m (|e| + alpha/2 e^2)`` over `residual` (n,); the weights `m` (n,) and `alpha` may be None."""
    total = sum_abs(residual, m)
    if alpha is not None:
        total += alpha / 2 * dot(residual, residual, m)
    return total


@kernel(part=True)
def _pull_of_neighbours(graph, Ft, k, j):
    """Return the affinity-weighted sum of the neighbours' codes, ``sum_i S_ij F_ki``, and the degree of point `j`."""
    indptr, indices, affinities, degrees = graph
    total = 0.0
    for position in range(indptr[j], indptr[j + 1]):
        total += np.float64(affinities[position]) * np.float64(Ft[k, indices[position]])
    return total, np.float64(degrees[j])


@kernel(reassociate=True)
def rri_sparse_rows(
    data, indices, indptr, Ft, points, sums, zero_weight, low, high, l1, l2, sweeps, eps, start, stop, losses,
    gathered, scratch, rest,
):  # fmt: skip
    """Update codes by rank-one residual iteration as :func:`rri_rows`, for sparse rows, in O(nnz r) per sweep.

    At entries that are not stored the loss is the model itself, so together they add one constant slope for each code,
    like one more breakpoint at 0 in the weighted median (Seraghiti et al. 2026). `points` (n, r) is the fixed factor,
    transposed, and `sums` (r,) its column sums in float64. `gathered` (r, longest), `scratch` (3, longest) and `rest`
    (r,) are scratch, where longest is the largest number of stored entries in a row.
    """
    number = points.dtype.type
    r = Ft.shape[0]
    steps, jumps = scratch[1], scratch[2]
    for j in range(start, stop):
        begin = indptr[j]
        x = data[begin : indptr[j + 1]]
        count = x.shape[0]
        residual = scratch[0, :count]
        # `rest` becomes the sum of each component over the entries that are not stored: the slope of their loss
        for k in range(r):
            rest[k] = sums[k]
        for e in range(count):
            p = points[indices[begin + e]]
            for k in range(r):
                gathered[k, e] = p[k]
                rest[k] -= p[k]
        largest = _set_residual(residual, x, Ft, j, gathered)  # returns the largest entry of x
        tiny = number(4 * eps) * largest  # residuals below this rounding error count as 0
        loss = 0.0
        for e in range(count):
            loss += abs(residual[e])
        for k in range(r):
            rest[k] = zero_weight * rest[k] if rest[k] > 0.0 else 0.0  # below 0 only by rounding
            loss += Ft[k, j] * rest[k]
        losses[j] = loss
        for _ in range(sweeps):
            moved = False
            for k in range(r):
                f, a = Ft[k, j], gathered[k, :count]
                slope = rest[k] + np.float64(l1[k] + l2[k] * f)
                curvature = np.float64(l2[k])
                # the exact minimiser, a weighted median; the residual is updated with it. `a` is passed as coefficients
                # and again as their products with the entry weights, which are 1.
                new = update_variable(residual, a, a, f, low, high, slope, curvature, eps, tiny, steps, jumps)
                moved |= new != f
                Ft[k, j] = new
            if not moved:
                break


@kernel
def rri_symmetric_sweep(S, H, HC, c, eps, scratch, diagonal):
    """Run one sweep of coordinate descent on ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|`` over ``H >= 0``.

    This is Guan et al. (2012), section 4.5, with node weights. The problem of node j has the constant factor ``2 c_j``,
    which is dropped. `HC` = ``H * c`` is updated with `H`. `diagonal` is 0, or 1 to include the diagonal as in equation
    61 where ``h_j . h_j >= S_jj``: there it is ``h_j . h_j - S_jj``, in which a code x has the term ``x^2``.
    """
    residual = scratch[0]
    n = S.shape[0]
    number = S.dtype.type
    zero = number(0)
    high = number(np.inf)
    for j in range(n):
        # the model is H.T @ H, so H holds the codes and the components; returns the largest entry of row j of S
        largest = _set_residual(residual, S[j], H, j, H)
        tiny = number(4 * eps) * largest  # residuals below this rounding error count as 0
        for k in range(H.shape[0]):
            HC[k, j] = zero  # the diagonal has weight 0
        for _ in range(2):  # both sweeps over the node's codes use the same residual
            changed = False
            for k in range(H.shape[0]):
                x = H[k, j]
                slope, curvature = 2 * diagonal * np.float64(x), 2 * diagonal  # of diagonal * x^2
                new = update_variable(
                    residual, H[k], HC[k], x, zero, high, slope, curvature, eps, tiny, scratch[1], scratch[2]
                )
                changed |= new != x
                H[k, j] = new
            if not changed:
                break
        for k in range(H.shape[0]):
            HC[k, j] = H[k, j] * c[j]


@kernel
def symmetric_objective(S, H, c, scratch):
    """Return ``sum_{i != j} c_i c_j |S_ij - h_i . h_j|``; `scratch` (>= 1, n) is used for residuals."""
    residual = scratch[0]
    total = 0.0
    for j in range(S.shape[0]):
        _set_residual(residual, S[j], H, j, H)  # S_j - h_j H
        residual[j] = 0  # the diagonal does not count
        total += np.float64(c[j]) * sum_abs(residual, c)
    return total


# --- Nesterov smoothing -----------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def _dual(x, p, m, widths, alpha):
    """Overwrite a part of the model `p` with ``m clip((p - x) / width, -1, 1) + alpha m (p - x)``.

    Return the loss that is not smoothed and the inner product of x and the clipped part, the dual variable.
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
def ogm_pass(X, P, M, widths, alpha, start, stop, losses, inner):
    """Compute the dual variables of the smoothed loss for rows ``start:stop`` (Guan et al. 2012, Algorithm 2, line 3).

    `P` (stop - start, n) holds the model and receives the derivative of the smoothed loss. `losses` and `inner`
    (n_rows,) receive each row's unsmoothed loss, and the inner product of its data and its dual.
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


# --- subgradients that prove a point stationary -----------------------------------------------------------------------


@kernel(reassociate=True)
def balance_signs(starts, columns, bounds, A, squares, places, G, enough, sweeps, signs, distance):
    """Choose the subgradients at zero residuals so that the gradient of each row nearly vanishes, and update it.

    The subdifferential of ``m |e|`` at 0 is [-m, m]. For each row, projected coordinate descent minimises the distance
    of the gradient `G` (n_rows, r) to the cone of allowed gradients (0 for codes inside the box, one sign at a bound),
    which is a bounded least-squares problem. Each step decreases it, because the gradient of half the squared distance
    is 1-Lipschitz. `places` (n_rows, r) is 0 where a code is at the lower bound, 1 at the upper one, 0.5 between.

    `starts` (n_rows + 1,) marks where each row's zero residuals begin in `columns` and `bounds` (their weights m > 0).
    `A` (n, r) >= 0 is the fixed factor, transposed, and `squares` (n,) the squared norms of its rows, infinite for zero
    rows. A row is done when its distance is below `enough`. `signs`, as long as `columns`, receives the subgradients.
    """
    for j in range(places.shape[0]):
        g, at = G[j], places[j]
        # The call adds a multiple of a row of A to the gradient g, writes to `distance` the part of g that the bounds
        # do not allow, and returns its squared norm; a change of 0 only computes that.
        left = _add_and_split(g, A[0], 0.0, at, distance)
        for _ in range(sweeps):
            if left <= enough * enough:
                break
            moved = 0.0  # largest change of a subgradient, relative to its bound
            for e in range(starts[j], starts[j + 1]):
                a = A[columns[e]]
                old, bound = signs[e], bounds[e]
                slope = 0.0
                for k in range(a.shape[0]):
                    slope += a[k] * distance[k]
                new = clipped(old - slope / squares[columns[e]], -bound, bound)
                if new != old:
                    signs[e] = new
                    share = abs(new - old) / bound
                    moved = share if share > moved else moved
                    left = _add_and_split(g, a, new - old, at, distance)
            if moved < 1e-6:  # no subgradient moved noticeably: the least-squares problem is solved
                break


@kernel(part=True)
def _add_and_split(g, a, change, at, distance):
    """Add ``change * a`` to the gradient `g`; write to `distance` what bounds do not absorb, and return its square."""
    total = 0.0
    for k in range(g.shape[0]):
        d = g[k] + change * a[k]
        g[k] = d
        if (at[k] <= 0.0 and d > 0.0) or (at[k] >= 1.0 and d < 0.0):
            d = 0.0
        distance[k] = d
        total += d * d
    return total
