"""The numba kernels that evaluate the losses, but for the divergences (:mod:`.divergences`).

All have one signature: ``rows(X, P, M, parameter, start, stop, out)`` writes the loss of rows ``start:stop`` of `X`;
`P`, their model, has these rows only; `M` are weights of the entries, or None.
"""

from __future__ import annotations

import numpy as np

from visionnmf._jit import kernel

CHUNK = 4096  # entries that are summed in the data's dtype; sums of chunks are taken in double precision


@kernel(reassociate=True)
def manhattan_rows(X, P, M, parameter, start, stop, out):  # type: ignore[no-untyped-def]
    """Write ``sum m |x - p|`` of each row."""
    number = X.dtype.type
    for j in range(start, stop):
        total = 0.0
        for first in range(0, X.shape[1], CHUNK):
            x = X[j, first : first + CHUNK]
            p = P[j - start, first : first + CHUNK]
            partial = number(0)
            if M is None:
                for i in range(x.shape[0]):
                    partial += abs(x[i] - p[i])
            else:
                m = M[j, first : first + CHUNK]
                for i in range(x.shape[0]):
                    partial += m[i] * abs(x[i] - p[i])
            total += partial
        out[j] = total


@kernel(reassociate=True)
def _squares(x, p, m):  # type: ignore[no-untyped-def]
    total = 0.0
    for first in range(0, x.shape[0], CHUNK):
        last = min(first + CHUNK, x.shape[0])
        partial = x.dtype.type(0)
        if m is None:
            for i in range(first, last):
                e = x[i] - p[i]
                partial += e * e
        else:
            for i in range(first, last):
                e = x[i] - p[i]
                partial += m[i] * e * e
        total += partial
    return total


@kernel
def frobenius_rows(X, P, M, parameter, start, stop, out):  # type: ignore[no-untyped-def]
    """Write ``sum m (x - p)^2 / 2`` of each row."""
    for j in range(start, stop):
        out[j] = _squares(X[j], P[j - start], None if M is None else M[j]) / 2.0


@kernel
def l21_rows(X, P, M, parameter, start, stop, out):  # type: ignore[no-untyped-def]
    """Write ``sqrt(sum m (x - p)^2)`` of each row."""
    for j in range(start, stop):
        out[j] = np.sqrt(_squares(X[j], P[j - start], None if M is None else M[j]))


@kernel(reassociate=True)
def elastic_net_rows(X, P, M, parameter, start, stop, out):  # type: ignore[no-untyped-def]
    """Write ``sum m (|x - p| + alpha/2 (x - p)^2)`` of each row; the parameter is alpha."""
    number = X.dtype.type
    half = number(parameter / 2)
    for j in range(start, stop):
        total = 0.0
        for first in range(0, X.shape[1], CHUNK):
            x = X[j, first : first + CHUNK]
            p = P[j - start, first : first + CHUNK]
            partial = number(0)
            if M is None:
                for i in range(x.shape[0]):
                    e = abs(x[i] - p[i])
                    partial += e + half * e * e
            else:
                m = M[j, first : first + CHUNK]
                for i in range(x.shape[0]):
                    e = abs(x[i] - p[i])
                    partial += m[i] * (e + half * e * e)
            total += partial
        out[j] = total


@kernel(reassociate=True)
def huber_rows(X, P, M, parameter, start, stop, out):  # type: ignore[no-untyped-def]
    """Write the sum of ``e^2/2`` where ``e = |x - p| <= delta``, else of ``delta (e - delta/2)``; parameter: delta."""
    number = X.dtype.type
    delta = number(parameter)
    for j in range(start, stop):
        total = 0.0
        for first in range(0, X.shape[1], CHUNK):
            x = X[j, first : first + CHUNK]
            p = P[j - start, first : first + CHUNK]
            partial = number(0)
            if M is None:
                for i in range(x.shape[0]):
                    e = abs(x[i] - p[i])
                    c = min(e, delta)
                    partial += c * (e - c / 2)
            else:
                m = M[j, first : first + CHUNK]
                for i in range(x.shape[0]):
                    e = abs(x[i] - p[i])
                    c = min(e, delta)
                    partial += m[i] * c * (e - c / 2)
            total += partial
        out[j] = total
