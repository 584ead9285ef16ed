"""How much memory a fit needs, known before it begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["MemoryEstimate", "estimate_memory"]

THREAD_ENTRIES = 1 << 20  # of the blocks of rows that all threads work on together, in any dtype


class MemoryEstimate(NamedTuple):
    """Bytes that a fit needs.

    Attributes
    ----------
    data : int
        The data, in the dtype of the fit.
    weights : int
        The weights of the entries, if there are any.
    dual : int
        What the solver keeps for each entry: the dual of ADMM, or a copy of the data.
    codes : int
        The codes, and what their evaluation needs.
    components : int
        The components, and what their evaluation needs.
    blocks : int
        The rows that threads work on at a time.
    total : int
        The sum.
    """

    data: int
    weights: int
    dual: int
    codes: int
    components: int
    blocks: int
    total: int


def estimate_memory(
    shape: tuple[int, int], dtype: Any, n_components: int, *, plain_squares: bool, weighted: bool
) -> MemoryEstimate:
    """Return the bytes of a fit of dense data, from the arrays that it holds; ``benchmarks/memory.py`` measures them.

    With `plain_squares`, the loss of least squares, a fit needs only products of the data, unless entries have weights
    (`weighted`). Other fits hold the dual of ADMM, as large as the data. Threads work on blocks of rows that have
    :data:`THREAD_ENTRIES` entries in all.
    """
    (n_samples, n_features), size = shape, np.dtype(dtype).itemsize
    data = n_samples * n_features * size
    weights = data if weighted else 0
    dual = 0 if plain_squares and not weighted else data
    # three copies in the dtype of the fit; codes, their gradient and a temporary in double precision
    codes = n_samples * n_components * (3 * size + 3 * 8)
    components = n_features * n_components * (4 * size + 4 * 8)  # one copy more of each kind
    blocks = THREAD_ENTRIES * size
    parts = (data, weights, dual, codes, components, blocks)
    return MemoryEstimate(*parts, sum(parts))
