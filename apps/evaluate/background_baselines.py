"""Baselines of background and foreground, under the contract of :class:`.BackgroundModel`: `fit`, then `apply`.

MOG2 and KNN see the frames once and in order, as they are made to; the others first learn from evenly spaced frames of
the whole clip. All masks get the same cleaning. A new baseline is an entry of `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import cv2
import numpy as np

from visionnmf import choices
from visionnmf.apps.background import make_separator, tuning
from visionnmf.apps.background.frame_arrays import Floats, FrameArray, as_frames
from visionnmf.apps.background.model.mask import median_mask
from visionnmf.apps.background.separators import LowRank, Sampled, Separator

from . import robust_pca


class TemporalMedian(Sampled):
    """The median of the sampled frames."""

    def _learn(self, frames: FrameArray) -> FrameArray:
        return self.temporal_median_

    def _separator(self) -> Callable[[FrameArray], tuple[FrameArray, FrameArray]]:
        return lambda frame: (self.background_, median_mask(frame, self.background_))


class Signed(LowRank):
    """A low-rank model by a robust PCA, "rpca" or "godec", whose codes may be negative."""

    def __init__(self, method: str, *, random_state: int = choices.RANDOM_STATE) -> None:
        """Take the name of the model; `random_state` seeds it and the choice of pixels."""
        super().__init__(random_state=random_state)
        self.method = method

    def _found(self, X: Floats) -> Floats:
        settings = tuning.TUNING.baselines
        if self.method == "rpca":
            return robust_pca.rpca(X, tol=settings.tolerance).components
        return robust_pca.godec(X, settings.rank, settings.outliers, random_state=self.random_state).components

    def _codes(self, x: Floats) -> Floats:
        """Return the codes that are found for an orthonormal basis, which the solver needs, and turned back."""
        basis = np.ascontiguousarray(self._basis.T)
        found = robust_pca.lad(x, basis, max_iter=tuning.TUNING.baselines.code_iterations)[0]
        return np.linalg.lstsq(self._turn, found, rcond=None)[0].astype(np.float32)


class Subtractor(Sampled):
    """One of OpenCV's background subtractors."""

    def __init__(self, method: str, *, random_state: int = choices.RANDOM_STATE) -> None:
        """Take the name of the subtractor, a key of `SUBTRACTORS`; `random_state` seeds OpenCV's one generator."""
        self.method = method
        self.random_state = random_state

    def fit(self, frames: Iterable[FrameArray]) -> Subtractor:
        """Go through the clip once, for the background at its end; see :meth:`Sampled.fit`."""
        # Sampled.fit samples only some frames, but a subtractor has to learn from all of them as they pass.
        self._subtractor = self._new_subtractor()
        return super().fit(self._apply_to_each(frames))

    def _new_subtractor(self) -> Any:
        """Return a new subtractor of OpenCV, with its random numbers seeded."""
        cv2.setRNGSeed(self.random_state % 2**31)  # OpenCV takes signed numbers of 32 bits
        return SUBTRACTORS[self.method]()

    def _apply_to_each(self, frames: Iterable[FrameArray]) -> Iterator[FrameArray]:
        """Pass frames on, after OpenCV's subtractor has learnt from each; the mask that it returns is not needed."""
        for frame in as_frames(frames):
            self._subtractor.apply(np.ascontiguousarray(frame))
            yield frame

    def _learn(self, frames: FrameArray) -> FrameArray:
        """Return the background that OpenCV's subtractor has at the end of the clip, having seen all its frames."""
        return np.asarray(self._subtractor.getBackgroundImage(), np.uint8).reshape(self._shape)

    def _separator(self) -> Callable[[FrameArray], tuple[FrameArray, FrameArray]]:
        """Return a function that separates frames of the shape `_shape` by a subtractor that starts from nothing."""
        subtractor = self._new_subtractor()

        def separate(frame: FrameArray) -> tuple[FrameArray, FrameArray]:
            """Return the background and the mask of the next frame, from which the subtractor also learns."""
            # a median of 5 by 5 pixels, by which the masks of the other methods are cleaned as well
            mask = np.asarray(cv2.medianBlur(subtractor.apply(np.ascontiguousarray(frame)), 5), np.uint8)
            return np.asarray(subtractor.getBackgroundImage(), np.uint8).reshape(self._shape), mask

        return separate


# Zivkovic 2004, variance threshold 36; Zivkovic and van der Heijden 2006, squared distance 400; both without shadows
SUBTRACTORS: dict[str, Callable[[], Any]] = {
    "mog2": lambda: cv2.createBackgroundSubtractorMOG2(tuning.TUNING.baselines.history, 36, False),
    "knn": lambda: cv2.createBackgroundSubtractorKNN(tuning.TUNING.baselines.history, 400, False),
}
METHODS: dict[str, Callable[[], Separator]] = {
    **{name: partial(make_separator, name) for name in choices.BACKGROUND_METHODS},
    **{name: partial(Signed, name) for name in ("rpca", "godec")},
    "median": TemporalMedian,
    **{name: partial(Subtractor, name) for name in SUBTRACTORS},
}
