"""Work at one size, results of another: a model of small frames is fast, and a mask may be larger than its model."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .frames import Separated

__all__ = ["Sizes"]

FrameArray = NDArray[np.uint8]
HALF = 127


@dataclass(frozen=True)
class Sizes:
    """The size of results, and the one that is worked at; where they are one, nothing is changed.

    Parameters
    ----------
    full : (int, int)
        Height and width of the results.
    work : (int, int)
        Of the frames that a model sees.
    """

    full: tuple[int, int]
    work: tuple[int, int]

    def reduced(self, frame: FrameArray) -> FrameArray:
        """Return a frame as the model sees it, its pixels averaged over areas."""
        return frame if self.full == self.work else self._resized(frame, self.work, cv2.INTER_AREA)

    def enlarged(self, picture: FrameArray) -> FrameArray:
        """Return a background in the size of the results; it has no more detail than before."""
        return picture if self.full == self.work else self._resized(picture, self.full, cv2.INTER_LINEAR)

    def enlarged_mask(self, mask: FrameArray) -> FrameArray:
        """Return a mask in the size of the results, its edges where the enlarged one passes a half."""
        if self.full == self.work:
            return mask
        enlarged = self._resized(mask, self.full, cv2.INTER_LINEAR)
        return np.asarray(cv2.threshold(enlarged, HALF, 255, cv2.THRESH_BINARY)[1], np.uint8)

    def apply(self, model: Any, frames: Iterable[FrameArray]) -> Generator[Separated, None, None]:
        """Separate frames of the full size by a model of reduced ones.

        Parameters
        ----------
        model : Separator
        frames : iterable of ndarray of uint8

        Yields
        ------
        Separated
            In full size, the frame as it came.
        """
        if self.full == self.work:
            yield from model.apply(frames)
            return
        waiting: deque[FrameArray] = deque()  # those that the model is ahead of what it delivers

        def small() -> Iterator[FrameArray]:
            for frame in frames:
                waiting.append(frame)
                yield self.reduced(frame)

        for part in model.apply(small()):
            background, mask = self.enlarged(part.background), self.enlarged_mask(part.mask)
            yield Separated(part.index, waiting.popleft(), background, mask)

    @staticmethod
    def _resized(picture: FrameArray, shape: tuple[int, int], interpolation: int) -> FrameArray:
        return np.asarray(cv2.resize(picture, shape[::-1], interpolation=interpolation), np.uint8)
