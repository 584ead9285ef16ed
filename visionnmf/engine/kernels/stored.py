"""The numba kernels of least squares on the stored entries of sparse data; all other entries are missing."""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

from .sparse import longest_row, model_of_row, move_model


@kernel(reassociate=True, part=True)
def _correlations(a, p, x, count):  # type: ignore[no-untyped-def]
    """Return ``sum a (x - p)`` and ``sum a^2`` over the first `count` entries."""
    total = a.dtype.type(0)
    square = a.dtype.type(0)
    for e in range(count):
        total += a[e] * (x[e] - p[e])
        square += a[e] * a[e]
    return total, square


@kernel(reassociate=True, allocates=True)
def residual_rows(  # type: ignore[no-untyped-def]
    data, indices, indptr, Ft, points, low, high, l1, l2, sweeps, tol, start, stop, losses
):
    """Run coordinate descent on ``sum (x - p)^2 / 2 + penalty`` over the stored entries of rows ``start:stop``.

    The CSR arrays, the codes `Ft` (r, n_rows), the fixed factor `points` (n, r), `tol` and `losses` are as in
    :func:`.sparse.kl_rows`.
    """
    zero = data.dtype.type(0)
    r = Ft.shape[0]
    longest = longest_row(indptr, start, stop)
    A = np.empty((r, longest), data.dtype)
    p = np.empty(longest, data.dtype)
    f = np.empty(r, data.dtype)
    for j in range(start, stop):
        x = data[indptr[j] : indptr[j + 1]]
        for k in range(r):
            f[k] = Ft[k, j]
        model_of_row(f, indices[indptr[j] : indptr[j + 1]], points, A, zero, p)
        loss = 0.0
        for e in range(x.shape[0]):
            loss += np.float64(x[e] - p[e]) ** 2
        losses[j] = loss / 2.0
        for _ in range(sweeps):
            largest = zero
            moved = zero
            for k in range(r):
                total, square = _correlations(A[k], p, x, x.shape[0])
                denominator = square + l2[k]
                if not denominator > zero:
                    if l1[k] > zero or x.shape[0] == 0:
                        f[k] = low
                    continue  # no stored entry of this row depends on the component
                new = f[k] + (total - l1[k] - l2[k] * f[k]) / denominator
                new = low if new < low else new
                new = high if new > high else new
                change = new - f[k]
                if change != zero:
                    move_model(p, change, A[k], x.shape[0], zero)
                    f[k] = new
                largest = new if new > largest else largest
                change = abs(change)
                moved = change if change > moved else moved
            if moved <= tol * largest:
                break
        for k in range(r):
            Ft[k, j] = f[k]
