"""Other methods, under the contract of :class:`.BackgroundModel`: `fit` on frames, then `apply`.

==========  =========================================================================================================
method
==========  =========================================================================================================
ours        :class:`.BackgroundModel`
mahnmf      plain Manhattan NMF of rank 2 (Guan, Tao, Luo, Shawe-Taylor 2012, 5.4.1), by the paper's Algorithm 1
rpca        principal component pursuit (Candès et al. 2011; :class:`visionnmf.RPCA`)
godec       rank 2 and a tenth of the entries as outliers (Zhou, Tao 2011; :class:`visionnmf.GoDec`)
median      temporal median: the trivial baseline
mog2        OpenCV's mixture of Gaussians (Zivkovic 2004), history 500, variance threshold 36, no shadows
knn         OpenCV's nearest neighbours (Zivkovic, van der Heijden 2006), history 500, squared distance 400, no shadows
==========  =========================================================================================================

All but ours mask by the same rule, :func:`.median_mask`. MOG2 and KNN decide themselves, and their masks get the same
cleaning. They see the frames once and in order, as they are made to; the others first learn from evenly spaced frames
of the whole clip. A new baseline is a row of `LEARNERS` (a low-rank model of frames) or of `SUBTRACTORS` (OpenCV), and
a name in `choices.BACKGROUND_METHODS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Self

import cv2
import numpy as np
from sklearn.exceptions import NotFittedError

import visionnmf
from visionnmf import choices
from visionnmf._checks import check_choice, check_random_state
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.solvers import rri
from visionnmf.exceptions import ParameterError

from . import tuning
from .frame_arrays import Floats, FrameArray, FrameSample, Separated, as_frames
from .model.estimator import BackgroundModel
from .model.mask import median_mask

__all__ = ["Baseline", "Separator", "make_separator"]


def make_separator(
    method: str, *, threshold: float | None = None, random_state: int = choices.RANDOM_STATE
) -> Separator:
    """Return a method that separates frames.

    Parameters
    ----------
    method : str
        One of `choices.BACKGROUND_METHODS`; see the table above.
    threshold : float, optional
        Of "ours"; the others have those of the literature.
    random_state : int, default=0

    Returns
    -------
    BackgroundModel or Baseline
        An object with `fit`, `apply`, and the attributes `background_`, `temporal_median_`, `n_frames_seen_` and
        `learnt_frames_`.

    Raises
    ------
    ParameterError
        If there is no such method, or `threshold` is not for it.

    Examples
    --------
    >>> from visionnmf.datasets import make_surveillance
    >>> frames = make_surveillance(8, 24, 32, random_state=0).frames
    >>> from visionnmf.apps.background import make_separator
    >>> separator = make_separator("ours").fit(frames)
    >>> [part.mask.shape for part in separator.apply(frames[:1])]
    [(24, 32)]
    """
    check_choice(method, "method", choices.BACKGROUND_METHODS)
    if method == "ours":
        options: dict[str, Any] = {} if threshold is None else {"threshold": threshold}
        return BackgroundModel(random_state=random_state, **options)
    if threshold is not None:
        raise ParameterError(f"threshold must be None for method={method!r}; got {threshold}")
    if method in LEARNERS:
        return LowRank(method, random_state=random_state)
    return TemporalMedian() if method == "median" else Subtractor(method, random_state=random_state)


class Baseline(ABC):
    """A method that learns from evenly spaced frames, under the contract of :class:`.BackgroundModel`."""

    def fit(self, frames: Iterable[FrameArray]) -> Self:
        """Learn from frames that :class:`.BackgroundModel` takes; raises TooLargeError where they exceed the memory."""
        # `learnt` (n, n_pixels, channels) are evenly spaced frames, from which `_learn` of the subclass makes the
        # background, and `learnt_frames_` (n,) their positions in the clip. `_shape` is that of a frame.
        sample = FrameSample.of(frames, tuning.TUNING.baselines.n_frames)
        self._shape = sample.frame_shape
        self.n_frames_seen_ = sample.seen
        learnt, self.learnt_frames_ = sample.taken()
        self.temporal_median_ = np.median(learnt, axis=0).round().astype(np.uint8).reshape(self._shape)
        self.background_ = self._learn(learnt)
        return self

    def apply(self, frames: Iterable[FrameArray]) -> Generator[Separated, None, None]:
        """Separate frames of the shape that `fit` has seen, one by one, by the function that `_separator` returns."""
        if not hasattr(self, "background_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted first; call fit")
        separate = self._separator()
        for index, frame in enumerate(as_frames(frames, self._shape)):
            yield Separated(index, frame.copy(), *separate(frame))

    @abstractmethod
    def _learn(self, frames: FrameArray) -> FrameArray:
        """Learn from frames (n, n_pixels, channels); return the background."""

    @abstractmethod
    def _separator(self) -> Callable[[FrameArray], tuple[FrameArray, FrameArray]]:
        """Return a function that returns the background and the mask of a frame."""


class TemporalMedian(Baseline):
    """The median of the sampled frames."""

    def _learn(self, frames: FrameArray) -> FrameArray:
        return self.temporal_median_

    def _separator(self) -> Callable[[FrameArray], tuple[FrameArray, FrameArray]]:
        return lambda frame: (self.background_, median_mask(frame, self.background_))


class LowRank(Baseline):
    """A low-rank model of values, one of `LEARNERS`; codes of a frame are found at a random sample of its pixels."""

    def __init__(self, method: str, *, random_state: int = choices.RANDOM_STATE) -> None:
        """Take the name of the model, a key of `LEARNERS`; `random_state` seeds it and the choice of pixels."""
        self.method = method
        self.random_state = random_state

    @one_blas_thread()
    def _learn(self, frames: FrameArray) -> FrameArray:
        """Fit the low-rank model to frames (n, n_pixels, channels), and return the background of the median codes."""
        # `_codes` finds a frame's codes from its values at `_at`, and `_shown` the background that codes give.
        X = frames.reshape(len(frames), -1).astype(np.float32)
        model = LEARNERS[self.method](self.random_state).fit(X)
        self.components_ = model.components_  # (r, n_values), where values are pixels times channels
        rng = check_random_state(self.random_state)
        pixels = np.sort(rng.permutation(frames.shape[1])[: tuning.TUNING.baselines.code_pixels])
        channels = frames.shape[2]
        self._at = (pixels[:, None] * channels + np.arange(channels)).ravel()  # (k,) positions of values in a frame
        self._few = np.ascontiguousarray(self.components_[:, self._at])  # (r, k) components at these values
        self._basis, self._turn = np.linalg.qr(self._few.T)  # (k, r) orthonormal, and (r, r): their product is few.T
        codes = np.stack([self._codes(x[None]) for x in np.ascontiguousarray(X[:, self._at])])
        return self._shown(np.median(codes, axis=0))

    def _codes(self, x: Floats) -> Floats:
        """Return the codes (r,) of a frame from its values `x` (1, k), by least absolute deviations.

        Those of "mahnmf" are not negative: a least-squares solution is improved by rank-one sweeps. The others are
        found for an orthonormal basis, which the solver needs, and turned into codes of the components. `_few` (r, k)
        are the components at these values, and ``_basis @ _turn``, (k, r) times (r, r), is their transpose by QR.
        """
        if self.method == "mahnmf":
            Wt = np.linalg.lstsq(self._few.T, x[0], rcond=None)[0].clip(0)[:, None].astype(np.float32)
            rri.plain_half(x, Wt, self._few, sweeps=tuning.TUNING.baselines.code_iterations)
            return Wt[:, 0]
        from visionnmf.engine import robust_pca  # not needed by the default method

        found = robust_pca.lad(
            x, np.ascontiguousarray(self._basis.T), max_iter=tuning.TUNING.baselines.code_iterations
        )[0]
        return np.linalg.lstsq(self._turn, found, rcond=None)[0].astype(np.float32)

    def _shown(self, codes: Floats) -> FrameArray:
        """Return the background, in the shape of a frame, that the components show with some codes (r,)."""
        # `components_` is (r, n_values), and `_shape` that of a frame.
        background = (codes @ self.components_).reshape(self._shape)
        return np.asarray(background.clip(0, 255).round(), np.uint8)

    def _separator(self) -> Callable[[FrameArray], tuple[FrameArray, FrameArray]]:
        """Return a function that masks a frame by its difference from the background that its codes give."""

        @one_blas_thread()
        def separate(frame: FrameArray) -> tuple[FrameArray, FrameArray]:
            """Return the background and the mask of a frame, whose codes come from its values at `_at` (k,)."""
            background = self._shown(self._codes(frame.reshape(-1)[self._at][None].astype(np.float32)))
            return background, median_mask(frame, background)

        return separate


class Subtractor(Baseline):
    """One of OpenCV's background subtractors."""

    def __init__(self, method: str, *, random_state: int = choices.RANDOM_STATE) -> None:
        """Take the name of the subtractor, a key of `SUBTRACTORS`; `random_state` seeds OpenCV's one generator."""
        self.method = method
        self.random_state = random_state

    def fit(self, frames: Iterable[FrameArray]) -> Subtractor:
        """Go through the clip once, for the background at its end; see :meth:`Baseline.fit`."""
        # Baseline.fit samples only some frames, but a subtractor has to learn from all of them as they pass.
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
        # `frames`, a sample, is not needed: OpenCV's subtractor has learnt while all frames passed.
        # `_shape` is that of a frame.
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


Separator = BackgroundModel | Baseline

LEARNERS: dict[str, Callable[[int], Any]] = {
    "mahnmf": lambda seed: visionnmf.NMF(tuning.TUNING.baselines.rank, solver="rri", random_state=seed),
    "rpca": lambda seed: visionnmf.RPCA(tol=tuning.TUNING.baselines.tolerance),
    "godec": lambda seed: visionnmf.GoDec(
        tuning.TUNING.baselines.rank, sparse_share=tuning.TUNING.baselines.outliers, random_state=seed
    ),
}
SUBTRACTORS: dict[str, Callable[[], Any]] = {
    "mog2": lambda: cv2.createBackgroundSubtractorMOG2(tuning.TUNING.baselines.history, 36, False),
    "knn": lambda: cv2.createBackgroundSubtractorKNN(tuning.TUNING.baselines.history, 400, False),
}
