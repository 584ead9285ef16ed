"""The background model; :mod:`.background` is the public name of what stands here.

The model, after Guan, Tao, Luo and Shawe-Taylor, "MahNMF: Manhattan non-negative matrix factorization" (2012),
section 5.4.1. Frames are the rows of `X`, pixels times channels its columns; ``X ~ W H`` at low rank in the Manhattan
loss, so that what passes in front of a pixel less than half the time does not count. The background of frame `t` is
``W[t] H``. Where this module goes beyond the paper:

- **Light.** The components are one scene under several lights, ``h_k = scene * light_k`` with lights that are smooth
  over the frame: with a value of their own at each pixel they would also hold what stood still for a while. Several
  are kept only where they explain more of the clip than one does.
- **Weights.** Each pixel of each learnt frame weighs ``1 / (1 + (d / s)^2)``, with `d` its difference from the
  neighbouring frames and `s` the noise scale: what moves says little about the background, so that it may even hide
  it more than half the time.
- **Codes by consensus.** A frame's code is the Manhattan optimum, unless a code of the learnt frames explains more
  pixels within twice the noise: an object that fills half the frame must not pass for a change of light.
- **Levels.** Where still samples are densest elsewhere than at that median, the scene is there; and of two levels that
  both rest, as before and after somebody leaves, the one that continues the picture around (:mod:`.modes`).
- **Shaking.** Frames of a camera that shakes are laid upon each other before (:mod:`.shake`).
- **Noise scale.** A pixel's noise is estimated from differences of neighbouring frames, and held between two bounds, as
  foreground that passes all the time inflates them. Where the scene sways (:mod:`.sway`) the smoothed residual decides.
- **What comes back.** Where the scene sways further, a pixel has several values; what comes back all over the clip is
  background (:mod:`.recurring`).
- **Masks.** The residual in units of the noise, root mean square over channels, darkening without change of colour
  (shadow) counting half; smoothed, and compared with `threshold` more strictly where the neighbourhood is background,
  less so where it is foreground (one step of a Potts prior); a 5 by 5 median cleans the mask.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import RandomState, check_count, check_generator, check_number
from visionnmf.apps.saving import Saveable
from visionnmf.engine.blocks import blocks, map_blocks, n_threads, one_blas_thread
from visionnmf.exceptions import ParameterError

from .fit import BLOCK_PIXELS, Learnt, Sample, find_codes, learn, with_median
from .frames import Separated, as_frames, to_uint8
from .mask import MaskDecision
from .medians import temporal_median
from .online.model import OnlineBackgroundModel
from .score import show_background
from .shake import SMALLEST, moved_by

__all__ = ["BackgroundModel", "Separated"]

FrameArray = NDArray[np.uint8]
Floats = NDArray[np.float32]

AHEAD_PIXELS = 4 << 20  # at most so many, but always a frame for each thread, may wait to be taken apart
MEDIAN_CODES = 15  # codes whose backgrounds are averaged into `background_`


class BackgroundModel(Saveable, BaseEstimator):
    """Low-rank background of a fixed camera, in the Manhattan loss, and what stands out from it.

    Minimises ``sum_tp m_tp |x_tp - sum_k w_tk h_kp|`` over ``W, H >= 0`` for evenly spaced frames `t` and all pixels
    and channels `p`, by rank-one residual iteration (Guan et al. 2012, Algorithm 1) started from the temporal median;
    the components are one scene under at most `n_components` smooth lights.

    Parameters
    ----------
    n_components : int, default=2
        Most components. 1: one scene, with a factor for the light of each frame; 2 follows light that changes
        more on one side of the scene than on the other, as when a cloud passes. Where more explain hardly more of the
        clip than one does, one is kept.
    n_frames : int, default=100
        Learn from at most so many frames, evenly spaced over the clip, and from at least half of them if there are as
        many. Large frames take fewer, so that they stay below 340 MiB.
    threshold : float, default=3.0
        Foreground deviates by this many times the noise. Lower finds more, and more that is not there.
    random_state : int, RandomState, Generator or None, default=0
        Chooses the pixels that determine the codes. The same int gives the same result, for any number of threads.

    Attributes
    ----------
    n_components_ : int
        Components kept: `n_components`, or 1.
    background_ : ndarray of uint8 [shape of a frame]
        Median, over the clip, of the modelled background.
    temporal_median_ : ndarray of uint8 [shape of a frame]
        Median of the learnt frames: the baseline to compare with.
    components_ : ndarray of float32 [shape=(n_components_, height, width[, 3]), >= 0]
        H.
    codes_ : ndarray of float32 [shape=(n_learnt, n_components_), >= 0]
        W of the learnt frames.
    learnt_frames_ : ndarray of int [shape=(n_learnt,)]
        Their positions.
    noise_scale_ : ndarray of float32 [shape=(height, width)]
        The noise of each pixel in grey levels, between 6 and 7.
    n_frames_seen_ : int
        Length of the iterable given to `fit`.
    online_ : OnlineBackgroundModel
        What `partial_fit` learns; after it `mask_` and `background_` are those of the latest frame.

    Examples
    --------
    >>> from visionnmf.apps.background import BackgroundModel
    >>> from visionnmf.datasets import make_surveillance
    >>> clip = make_surveillance(40, random_state=0)
    >>> model = BackgroundModel().fit(clip.frames)
    >>> [part.mask.shape for part in model.apply(clip.frames[:2])]
    [(120, 160), (120, 160)]
    """

    def __init__(
        self,
        n_components: int = choices.BACKGROUND_COMPONENTS,
        *,
        n_frames: int = 100,
        threshold: float = 3.0,
        random_state: RandomState = choices.RANDOM_STATE,
    ) -> None:
        self.n_components = n_components
        self.n_frames = n_frames
        self.threshold = threshold
        self.random_state = random_state

    def fit(self, frames: Iterable[FrameArray]) -> BackgroundModel:
        """Learn the background.

        Parameters
        ----------
        frames : iterable of ndarray [shape=(height, width) or (height, width, channels)]
            uint8, uint16, or floating point from 0 to 1; grey, or of 1, 3 or 4 channels, of which a fourth, opacity, is
            left out; all are made uint8, grey or colour. An array of frames, a single one, a
            :class:`~visionnmf.io.VideoReader`, or any other iterable,
            gone through once, from beginning to end.

        Returns
        -------
        BackgroundModel
            The same object.

        Raises
        ------
        ParameterError
            A parameter is not allowed, there is no frame, or a frame is of another kind, has another shape than the
            first, or numbers out of range.
        """
        self._check_parameters()
        rng = check_generator(self.random_state)
        sample = Sample(self.n_frames)
        for frame in as_frames(frames):
            sample.add(frame)
        if sample.seen == 0:
            raise ParameterError("frames must hold at least one frame; got none")
        with one_blas_thread():
            learnt = learn(sample, n_components=int(self.n_components), rng=rng)
        self._restore(sample.frame_shape, learnt, sample.taken()[1], sample.seen)
        return self

    def partial_fit(self, frame: FrameArray, time: float | None = None) -> BackgroundModel:
        """Mask the next frame of a stream, then learn from it; see :class:`.OnlineBackgroundModel`, which does it.

        After `fit` the scene learnt then is what it starts from; otherwise the first two seconds are learnt first.

        Parameters
        ----------
        frame : ndarray [shape=(height, width) or (height, width, channels)]
            Of any kind that `fit` takes.
        time : float, optional
            When it is shown, in seconds; 1/25 after the one before when not given.

        Returns
        -------
        BackgroundModel
            The same object, with `mask_` and `background_` of this frame.

        Raises
        ------
        ParameterError
            A parameter is not allowed, or the frame is of another kind or size, or not later than the one before.

        Examples
        --------
        >>> from visionnmf.apps.background import BackgroundModel
        >>> from visionnmf.datasets import make_surveillance
        >>> model = BackgroundModel()
        >>> masks = [model.partial_fit(frame).mask_ for frame in make_surveillance(60, random_state=0).frames]
        >>> bool(masks[0].any()), bool(masks[-1].any())
        (False, True)
        """
        if not hasattr(self, "online_"):
            self._check_parameters()
            self.online_ = OnlineBackgroundModel(threshold=self.threshold, random_state=self.random_state)
            if hasattr(self, "_learnt"):
                scene = (self._learnt.H * np.median(self._learnt.Wt, axis=1)[:, None, None]).sum(axis=0)
                self.online_.begin_from(scene.reshape(self._shape), self.noise_scale_, len(self.learnt_frames_))
        self.online_.partial_fit(frame, time)
        self.background_, self.mask_ = self.online_.background_, self.online_.mask_
        return self

    def _check_parameters(self) -> None:
        check_count(self.n_components, "n_components")
        check_count(self.n_frames, "n_frames", 2)
        check_number(self.threshold, "threshold", without_low=True)

    def _restored(self) -> None:
        self._check_parameters()
        anchors = self._learnt.anchors
        if anchors is not None and min(anchors.scene.shape) < SMALLEST:
            raise ValueError(f"frames must have at least {SMALLEST} pixels a side where the camera shakes")
        self._restore(self._shape, self._learnt, self.learnt_frames_, self.n_frames_seen_)

    def _restore(self, shape: tuple[int, ...], learnt: Learnt, positions: NDArray[np.intp], n_seen: int) -> None:
        """Set what a fit leaves, of what was learnt now or is in a file."""
        n_components = self.n_components_ = len(learnt.H)
        if hasattr(self, "online_"):
            del self.online_
        self._shape, self.n_frames_seen_, self.learnt_frames_ = shape, n_seen, positions
        with one_blas_thread():
            background = _median_background(learnt.H, learnt.Wt)
        self._learnt = learnt
        self._last_decision: MaskDecision | None = None
        self._near = learnt.near()
        self._few_H = learnt.H[:, learnt.chosen].reshape(n_components, -1)
        self._candidates = with_median(learnt.Wt)
        self.components_ = learnt.H.reshape(n_components, *self._shape)
        self.codes_ = np.ascontiguousarray(learnt.Wt.T)
        self.noise_scale_ = learnt.noise_scale
        self.temporal_median_ = learnt.median.reshape(self._shape)
        self.background_ = background.reshape(self._shape)

    def apply(self, frames: Iterable[FrameArray]) -> Generator[Separated, None, None]:
        """Separate frames into background and foreground, one by one and each by itself.

        Frames are worked on in threads, a few ahead of the one that is delivered; memory does not grow with their
        number.

        Parameters
        ----------
        frames : iterable of ndarray, or a single frame
            Frames of the size that `fit` has seen, these or others, of any kind that it takes.

        Yields
        ------
        Separated
            In the order of `frames`.

        Raises
        ------
        ParameterError
            If a frame has another shape or dtype, or `threshold` was set to what is not allowed.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        check_number(self.threshold, "threshold", without_low=True)
        if hasattr(self, "online_"):
            yield from self.online_.apply(frames)
            return
        threads = n_threads()
        pending: deque[Future[Separated]] = deque()
        ahead = min(2 * threads, max(threads, AHEAD_PIXELS // self.noise_scale_.size))
        with ThreadPoolExecutor(threads, thread_name_prefix="visionnmf-apply") as pool:
            try:
                for index, frame in enumerate(as_frames(frames, self._shape)):
                    # a caller may use one buffer for all frames
                    pending.append(pool.submit(self._separate, index, frame.copy()))
                    if len(pending) > ahead:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()

    def _separate(self, index: int, frame: FrameArray) -> Separated:
        height, width = self._shape[:2]
        anchors = self._learnt.anchors
        shift = anchors.shift(frame) if anchors is not None else (0.0, 0.0)
        laid = moved_by(frame, shift) if anchors is not None else frame
        pixels = np.ascontiguousarray(laid).reshape(height * width, -1)
        X = pixels[self._learnt.chosen].reshape(1, -1).astype(np.float32)
        codes = find_codes(X, self._few_H, self._near, self._candidates)[:, 0]
        background = np.empty_like(pixels)
        show_background(self._learnt.H, np.ascontiguousarray(codes), background, 0, len(pixels))
        shown = background.reshape(self._shape)
        mask = self._decision(float(self.threshold)).mask(laid, shown)
        if anchors is not None:
            back = -shift[0], -shift[1]
            shown, mask = moved_by(shown, back), moved_by(mask, back, mask=True)
        return Separated(index, frame, shown, mask)

    def _decision(self, threshold: float) -> MaskDecision:
        if self._last_decision is None or self._last_decision.threshold != threshold:
            self._last_decision = MaskDecision(self.noise_scale_, threshold, self._learnt.sway, self._learnt.recurring)
        return self._last_decision


def _median_background(H: Floats, Wt: Floats) -> FrameArray:
    """Return the median over codes (n_components, n) of the backgrounds (n_pixels, channels)."""
    some = Wt[:, np.unique(np.linspace(0, Wt.shape[1] - 1, MEDIAN_CODES).round().astype(int))]
    result = np.empty(H.shape[1:], np.uint8)

    def fill(block: tuple[int, int]) -> None:
        part = slice(*block)
        result[part] = to_uint8(temporal_median(to_uint8(np.tensordot(some.T, H[:, part], 1))))

    map_blocks(fill, blocks(H.shape[1], BLOCK_PIXELS))
    return result
