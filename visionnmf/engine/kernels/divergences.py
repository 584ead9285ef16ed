"""The numba kernels that evaluate beta-divergences, and logarithms and powers that LLVM can vectorise.

Calls of the C library would process one entry at a time. :mod:`visionnmf.engine.divergence` selects a divergence. `Y`
and the model `P` > 0 are blocks of rows of shape (n_rows, n), `M` holds weights of the entries or is None, and `out`
(n_rows,) receives the divergence of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_builtin, overload, type_callable

from visionnmf._jit import kernel

LEAST_RATIO = 1e-30  # smaller ratios are raised to this before the logarithm

# Logarithms and powers take positive normal numbers and work in the precision of their argument. A number is split into
# 2^e m with m between sqrt(1/2) and sqrt(2), and log m = 2 atanh((m - 1) / (m + 1)) is summed as a series. Likewise
# exp(y) = 2^k exp(y - k log 2), where the second factor is a Taylor series.
LOG_2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
ROOT = 0x3FE6A09E667F3BCD, np.int32(0x3F3504F3)  # the bits of sqrt(1/2), in double and in single precision
SHIFT = 52, np.int32(23)  # number of mantissa bits below the exponent
LIMIT = 1021.0, np.float32(125)  # largest absolute binary exponent of a power

float32, int32 = np.float32, np.int32


def same_bits(x: Any) -> Any:
    """Reinterpret a float as an integer of the same bits, or the reverse; compiled, :func:`_lower_same_bits`."""
    return x.view({"i": "f", "f": "i"}[x.dtype.kind] + str(x.dtype.itemsize))


_OTHER = {
    types.int32: types.float32, types.float32: types.int32, types.int64: types.float64, types.float64: types.int64,
}  # fmt: skip


@type_callable(same_bits)
def _type_of_same_bits(context):
    """Tell numba the result type of :func:`same_bits`: the other type of the same size, or None if there is none."""
    return lambda x: _OTHER.get(x)


@lower_builtin(same_bits, types.Number)
def _lower_same_bits(context, builder, signature, arguments):
    """Compile :func:`same_bits` to an LLVM bitcast."""
    return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))


@kernel(reassociate=True, part=True)
def log_double(x):
    """Return the natural logarithm of a positive normal float64."""
    bits = same_bits(x)
    e = (bits - ROOT[0]) >> SHIFT[0]
    m = same_bits(bits - (e << SHIFT[0]))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    high = 1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q * (1 / 21))))
    series = 1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * high)))))
    return e * LOG_2 + 2.0 * s * series


@kernel(reassociate=True, part=True)
def log_single(x):
    """Return the natural logarithm of a positive normal float32, by the steps of :func:`log_double`."""
    bits = same_bits(x)
    e = (bits - ROOT[1]) >> SHIFT[1]
    m = same_bits(int32(bits - (e << SHIFT[1])))
    s = (m - float32(1)) / (m + float32(1))
    q = s * s
    series = float32(1 / 5) + q * (float32(1 / 7) + q * float32(1 / 9))
    series = float32(1) + q * (float32(1 / 3) + q * series)
    return float32(e) * float32(LOG_2) + float32(2) * s * series


def log(x: Any) -> Any:
    """Return the natural logarithm; in kernels the precision is selected at compile time."""
    return log_single(x) if x.dtype == np.float32 else log_double(x)


@overload(log, jit_options={"nogil": True})
def _log(x):
    """Return the implementation of :func:`log` for a numba type, which numba compiles in its place."""
    return (lambda x: log_single(x)) if x == types.float32 else (lambda x: log_double(x))


# Powers take two loops with one comparison each: LLVM turns two comparisons into branches and does not vectorise.


@kernel(reassociate=True)
def power_double(values, exponent, out):
    """Write ``values ** exponent`` to `out`, clipped to the normal range, for positive normal float64 `values` (n,)."""
    exponent *= LOG2_E
    for i in range(values.shape[0]):
        y = exponent * log_double(values[i])  # the binary logarithm of the power
        out[i] = y if y > -LIMIT[0] else -LIMIT[0]  # a comparison vectorises; numba's min and max do not
    for i in range(values.shape[0]):
        y = out[i]
        y = y if y < LIMIT[0] else LIMIT[0]
        k = np.floor(y + 0.5)
        z = (y - k) * LOG_2
        high = 1 / 720 + z * (1 / 5040 + z * (1 / 40320 + z * (1 / 362880 + z * (1 / 3628800 + z * (1 / 39916800)))))
        m = 1.0 + z * (1.0 + z * (1 / 2 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z * high)))))
        out[i] = same_bits(same_bits(m) + (np.int64(k) << SHIFT[0]))


@kernel(reassociate=True)
def power_single(values, exponent, out):
    """Write ``values ** exponent`` to `out`, clipped to the normal range, for positive normal float32 `values` (n,)."""
    factor = float32(exponent * LOG2_E)
    for i in range(values.shape[0]):
        y = factor * log_single(values[i])  # the binary logarithm of the power
        out[i] = y if y > -LIMIT[1] else -LIMIT[1]
    for i in range(values.shape[0]):
        y = out[i]
        y = y if y < LIMIT[1] else LIMIT[1]
        k = np.floor(y + float32(0.5))
        z = (y - k) * float32(LOG_2)
        high = float32(1 / 24) + z * (float32(1 / 120) + z * float32(1 / 720))
        m = float32(1) + z * (float32(1) + z * (float32(1 / 2) + z * (float32(1 / 6) + z * high)))
        out[i] = same_bits(int32(same_bits(m) + (int32(k) << SHIFT[1])))


# --- divergences ------------------------------------------------------------------------------------------------------


@kernel(reassociate=True)
def kullback_leibler(Y, P, M, out):
    """Write ``sum m (y log(y / p) - y + p)`` of each row to `out` (n_rows,), in double precision."""
    tiny = Y.dtype.type(LEAST_RATIO)
    for j in range(Y.shape[0]):
        total = 0.0
        for i in range(Y.shape[1]):
            y = Y[j, i]
            p = P[j, i]
            ratio = y / p
            term = y * log(ratio if ratio > tiny else tiny) - y + p
            total += term if M is None else M[j, i] * term
        out[j] = total


@kernel(reassociate=True)
def itakura_saito(Y, P, M, out):
    """Write ``sum m (y / p - log(y / p) - 1)`` of each row to `out`, in double precision; ratios are >= `tiny`."""
    number = Y.dtype.type
    tiny = number(LEAST_RATIO)
    for j in range(Y.shape[0]):
        total = 0.0
        for i in range(Y.shape[1]):
            ratio = Y[j, i] / P[j, i]
            term = ratio - log(ratio if ratio > tiny else tiny) - number(1)
            total += term if M is None else M[j, i] * term
        out[j] = total


@kernel(reassociate=True)
def beta_divergence(Y, powers, P, V, M, beta, out):
    """Write ``sum m (y^b + (b - 1) p^b - b y p^(b - 1)) / (b (b - 1))`` of each row to `out`."""
    number = Y.dtype.type
    b = number(beta)
    c = number(beta - 1.0)
    for j in range(Y.shape[0]):
        total = 0.0
        for i in range(Y.shape[1]):
            p = P[j, i]  # V p = p^(b - 1)
            term = powers[j, i] + V[j, i] * p * (c * p - b * Y[j, i])
            total += term if M is None else M[j, i] * term
        out[j] = total / (beta * (beta - 1.0))
