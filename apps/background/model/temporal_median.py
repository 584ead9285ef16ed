"""The median over frames at each value of a picture, ten times faster than by sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.apps.background.kernels import select_next_rank, select_rank
from visionnmf.engine.blocks import blocks, map_blocks

__all__ = ["temporal_median"]

BLOCK_VALUES = 8192  # their medians and counts stay in a first-level cache


def temporal_median(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the median over contiguous frames (n, ...)."""
    n = len(frames)
    flat = frames.reshape(n, -1)
    result = np.empty(flat.shape[1], np.float32)
    counter: Any = np.min_scalar_type(n)

    def fill(block: tuple[int, int]) -> None:
        start, stop = block
        low, high = np.empty((2, stop - start), np.uint8)
        count = np.empty(stop - start, counter)
        select_rank(flat, low, count, (n - 1) // 2, start)
        if n % 2:
            result[start:stop] = low
            return
        select_next_rank(flat, low, count, high, (n - 1) // 2, start)
        np.add(low, high, out=result[start:stop], dtype=np.float32)
        result[start:stop] /= 2

    map_blocks(fill, blocks(flat.shape[1], BLOCK_VALUES))
    return result.reshape(frames.shape[1:])
