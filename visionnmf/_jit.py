"""The one place that owns numba's options."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba

__all__ = ["REASSOCIATE", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

# Lets LLVM turn a sum into SIMD lanes. NaN and infinity keep their meaning ("nnan" and "ninf" are not given).
REASSOCIATE = frozenset({"reassoc", "contract", "nsz"})


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(*, reassociate: bool = ...) -> Callable[[F], F]: ...


def kernel(function: F | None = None, *, reassociate: bool = False) -> Any:
    """Compile a kernel with the options of the house.

    - ``nogil``: blocks of rows run in ordinary Python threads (:mod:`visionnmf.engine.blocks`), so kernels must
      release the interpreter lock. ``parallel`` stays off: a second pool of threads beside the BLAS's costs
      milliseconds an iteration, and compiles slowly.
    - ``cache``: the second process does not compile. Where neither the source folder nor the home folder can be
      written, numba refuses to cache; the kernel is then compiled in memory, once a process.
    - ``error_model="numpy"``: division by zero gives inf, as in numpy, and costs no branch.
    - ``boundscheck`` and ``fastmath`` stay at numba's defaults (off); `reassociate` names the only exception.

    Parameters
    ----------
    function : callable, optional
        The kernel; given when the decorator is used without parentheses.
    reassociate : bool, default=False
        Allow sums to be reordered (:data:`REASSOCIATE`). For kernels whose time is a long sum.

    Returns
    -------
    callable
        The compiled kernel, or a decorator.
    """

    def decorate(f: F) -> Any:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        if reassociate:
            options["fastmath"] = set(REASSOCIATE)
        try:
            return numba.njit(cache=True, **options)(f)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            warnings.warn(
                "No folder can be written for compiled kernels: each process compiles anew (seconds). "
                "Set NUMBA_CACHE_DIR to a folder that can be written.",
                RuntimeWarning,
                stacklevel=2,
            )
            return numba.njit(**options)(f)

    return decorate(function) if function is not None else decorate
