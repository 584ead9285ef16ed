"""Methods under the contract of :class:`.BackgroundModel`; they mask by :func:`.median_mask`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

import visionnmf
from visionnmf import choices
from visionnmf._checks import check_choice, check_random_state
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.solvers import rri
from visionnmf.exceptions import ParameterError

from . import tuning
from .frame_arrays import Floats, FrameArray, FrameSample, Separated, timed_frames
from .model.estimator import BackgroundModel
from .model.mask import median_mask


def make_separator(
    method: str, *, threshold: float | None = None, random_state: int = choices.RANDOM_STATE
) -> Separator:
    """Return a method that separates frames.

    Parameters
    ----------
    method : str
        "ours", :class:`.BackgroundModel`, or "mahnmf", the plain Manhattan NMF of the MahNMF paper.
    threshold : float, optional
        Of "ours".
    random_state : int, default=0

    Returns
    -------
    BackgroundModel or ManhattanNMF
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
        raise ParameterError(f"threshold must be left out with the method {method}; got {threshold}")
    return ManhattanNMF(random_state=random_state)


class Sampled(ABC):
    """A method that learns from evenly spaced frames, under the contract of :class:`.BackgroundModel`."""

    def fit(self, frames: Iterable[FrameArray]) -> Self:
        """Learn from frames that :class:`.BackgroundModel` takes; raises TooLargeError where they exceed the memory."""
        sample = FrameSample.of(frames, tuning.TUNING.baselines.n_frames)
        self._shape, self._bits = sample.frame_shape, sample.bits
        self.n_frames_seen_ = sample.seen
        learnt, self.learnt_frames_ = sample.taken()
        self.temporal_median_ = np.median(learnt, axis=0).round().astype(np.uint8).reshape(self._shape)
        self.background_ = self._learn(learnt)
        return self

    def apply(self, frames: Iterable[Any]) -> Generator[Separated, None, None]:
        """Separate frames of the shape that `fit` has seen, one by one, by the function that `_separator` returns."""
        if not hasattr(self, "background_"):
            raise NotFittedError(f"{type(self).__name__} must be fitted first; call fit")
        separate = self._separator()
        for index, (frame, time, is_doubtful) in enumerate(timed_frames(frames, self._shape, self._bits)):
            yield Separated(index, frame.copy(), *separate(frame), time, is_doubtful)

    @abstractmethod
    def _learn(self, frames: FrameArray) -> FrameArray:
        """Learn from frames (n, n_pixels, channels); return the background."""

    @abstractmethod
    def _separator(self) -> Callable[[FrameArray], tuple[FrameArray, FrameArray]]:
        """Return a function that returns the background and the mask of a frame."""


class LowRank(Sampled):
    """A low-rank model of values; codes of a frame are found at a random sample of its pixels."""

    def __init__(self, *, random_state: int = choices.RANDOM_STATE) -> None:
        self.random_state = random_state

    @one_blas_thread()
    def _learn(self, frames: FrameArray) -> FrameArray:
        """Fit the low-rank model to frames (n, n_pixels, channels), and return the background of the median codes."""
        X = frames.reshape(len(frames), -1).astype(np.float32)
        self.components_ = self._found(X)  # (r, n_values), where values are pixels times channels
        rng = check_random_state(self.random_state)
        pixels = np.sort(rng.permutation(frames.shape[1])[: tuning.TUNING.baselines.code_pixels])
        channels = frames.shape[2]
        self._at = (pixels[:, None] * channels + np.arange(channels)).ravel()  # (k,) positions of values in a frame
        self._few = np.ascontiguousarray(self.components_[:, self._at])  # (r, k) components at these values
        self._basis, self._turn = np.linalg.qr(self._few.T)  # (k, r) orthonormal, and (r, r): their product is few.T
        codes = np.stack([self._codes(x[None]) for x in np.ascontiguousarray(X[:, self._at])])
        return self._shown(np.median(codes, axis=0))

    @abstractmethod
    def _found(self, X: Floats) -> Floats:
        """Return the components (r, n_values) of the frames `X`, seeded by `random_state`."""

    @abstractmethod
    def _codes(self, x: Floats) -> Floats:
        """Return the codes (r,) of a frame from its values `x` (1, k), by least absolute deviations."""

    def _shown(self, codes: Floats) -> FrameArray:
        """Return the background, in the shape of a frame, that the components show with some codes (r,)."""
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


class ManhattanNMF(LowRank):
    """Plain Manhattan NMF of rank 2 (Guan, Tao, Luo, Shawe-Taylor 2012, 5.4.1), by the paper's Algorithm 1."""

    def _found(self, X: Floats) -> Floats:
        model = visionnmf.NMF(tuning.TUNING.baselines.rank, solver="rri", random_state=self.random_state)
        return model.fit(X).components_

    def _codes(self, x: Floats) -> Floats:
        """Return codes that are not negative: a least-squares solution, improved by rank-one sweeps."""
        Wt = np.linalg.lstsq(self._few.T, x[0], rcond=None)[0].clip(0)[:, None].astype(np.float32)
        rri.plain_half(x, Wt, self._few, sweeps=tuning.TUNING.baselines.code_iterations)
        return Wt[:, 0]


Separator = BackgroundModel | Sampled
