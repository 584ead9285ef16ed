"""Logarithms and powers that LLVM turns into SIMD code in a loop; a call of the C library stays one entry at a time.

For positive normal numbers, in the number's own precision. A number is ``2^e m`` with m between the roots of 1/2 and 2,
and ``log m = 2 atanh((m - 1) / (m + 1))``; ``exp(y) = 2^k exp(y - k log 2)``, the second factor from its Taylor series.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from visionnmf._jit import kernel

__all__ = ["log", "power"]

LOG_2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
ROOT = 0x3FE6A09E667F3BCD, np.int32(0x3F3504F3)  # the bits of sqrt(1/2), in double and in single precision
SHIFT = 52, np.int32(23)  # to the bits of the exponent
LIMIT = 1021.0, np.float32(125)  # of the exponent of a power

float32, int32 = np.float32, np.int32


@kernel(reassociate=True, part=True)
def log_double(x):  # type: ignore[no-untyped-def]
    """Return the natural logarithm of a positive normal number."""
    bits = np.float64(x).view(np.int64)
    e = (bits - ROOT[0]) >> SHIFT[0]
    m = np.int64(bits - (e << SHIFT[0])).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    high = 1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q * (1 / 21))))
    series = 1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * high)))))
    return e * LOG_2 + 2.0 * s * series


@kernel(reassociate=True, part=True)
def log_single(x):  # type: ignore[no-untyped-def]
    """Return the natural logarithm of a positive normal number."""
    bits = float32(x).view(np.int32)
    e = (bits - ROOT[1]) >> SHIFT[1]
    m = int32(bits - (e << SHIFT[1])).view(np.float32)
    s = (m - float32(1)) / (m + float32(1))
    q = s * s
    series = float32(1 / 5) + q * (float32(1 / 7) + q * float32(1 / 9))
    series = float32(1) + q * (float32(1 / 3) + q * series)
    return float32(e) * float32(LOG_2) + float32(2) * s * series


@kernel(reassociate=True, part=True)
def power_double(x, exponent):  # type: ignore[no-untyped-def]
    """Return ``x**exponent`` of a positive normal number, kept within the range of normal numbers."""
    y = log_double(x) * (exponent * LOG2_E)
    y = y if y > -LIMIT[0] else -LIMIT[0]  # numba compiles min and max one by one
    y = y if y < LIMIT[0] else LIMIT[0]
    k = np.floor(y + 0.5)
    z = (y - k) * LOG_2
    high = 1 / 720 + z * (1 / 5040 + z * (1 / 40320 + z * (1 / 362880 + z * (1 / 3628800 + z / 39916800))))
    m = 1.0 + z * (1.0 + z * (1 / 2 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z * high)))))
    return np.int64(np.float64(m).view(np.int64) + (np.int64(k) << SHIFT[0])).view(np.float64)


@kernel(reassociate=True, part=True)
def power_single(x, exponent):  # type: ignore[no-untyped-def]
    """Return ``x**exponent`` of a positive normal number, kept within the range of normal numbers."""
    y = log_single(x) * float32(exponent * LOG2_E)
    y = y if y > -LIMIT[1] else -LIMIT[1]
    y = y if y < LIMIT[1] else LIMIT[1]
    k = np.floor(y + float32(0.5))
    z = (y - k) * float32(LOG_2)
    high = float32(1 / 24) + z * (float32(1 / 120) + z * float32(1 / 720))
    m = float32(1) + z * (float32(1) + z * (float32(1 / 2) + z * (float32(1 / 6) + z * high)))
    return int32(float32(m).view(np.int32) + (int32(k) << SHIFT[1])).view(np.float32)


def log(x: Any) -> Any:
    """Return the natural logarithm, in kernels; the precision is chosen when they are compiled."""
    return log_single(x) if x.dtype == np.float32 else log_double(x)


def power(x: Any, exponent: Any) -> Any:
    """Return ``x**exponent``, in kernels; the precision is chosen when they are compiled."""
    return power_single(x, exponent) if x.dtype == np.float32 else power_double(x, exponent)


@overload(log, jit_options={"nogil": True})
def _log(x):  # type: ignore[no-untyped-def]
    return (lambda x: log_single(x)) if x == types.float32 else (lambda x: log_double(x))


@overload(power, jit_options={"nogil": True})
def _power(x, exponent):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x, exponent: power_single(x, exponent)
    return lambda x, exponent: power_double(x, exponent)
