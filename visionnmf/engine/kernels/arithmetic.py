"""Sums and products of vectors that the other kernels call."""

from visionnmf._jit import kernel

CHUNK = 4096  # entries summed in the dtype of the data; the sums of chunks are added in double precision


@kernel(reassociate=True, part=True)
def dot(a, b, weights):
    """Return ``sum weights a b``, `weights` None for 1: chunks are summed in the dtype of `a`, then in double."""
    total = 0.0
    for first in range(0, a.shape[0], CHUNK):
        part, other = a[first : first + CHUNK], b[first : first + CHUNK]
        factors = None if weights is None else weights[first : first + CHUNK]
        partial = a.dtype.type(0)
        for i in range(part.shape[0]):
            partial += part[i] * other[i] if factors is None else part[i] * other[i] * factors[i]
        total += partial
    return total


@kernel(reassociate=True, part=True)
def short_dot(a, b, n):
    """Return the inner product of the first `n` entries of `a` and `b`, accumulated in double precision."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@kernel(reassociate=True, part=True)
def sum_abs(values, weights):
    """Return ``sum weights |values|``, `weights` None for 1; sums of chunks are added in double as in :func:`dot`."""
    total = 0.0
    for first in range(0, values.shape[0], CHUNK):
        part = values[first : first + CHUNK]
        factors = None if weights is None else weights[first : first + CHUNK]
        partial = values.dtype.type(0)
        for i in range(part.shape[0]):
            partial += abs(part[i]) if factors is None else abs(part[i]) * factors[i]
        total += partial
    return total


@kernel(part=True)
def clipped(value, low, high):
    """Return ``min(max(value, low), high)``. Comparisons compile much faster than ``min`` and ``max``."""
    value = low if value < low else value
    return high if value > high else value
