"""The background model of a whole clip, after MahNMF (Guan, Tao, Luo, Shawe-Taylor 2012, section 5.4.1).

Frames are the rows of `X`, pixels times channels its columns, and ``X ~ W H`` in the Manhattan loss. What goes beyond
the paper (stillness weights, smooth illuminations, noise, difficult scenes) is in ``docs/decisions/background.md``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from visionnmf import choices
from visionnmf._checks import (
    RandomState,
    check_count,
    check_generator,
    check_number,
    check_saved,
    check_type,
)
from visionnmf._pixel_range import check_bits
from visionnmf.apps.background import tuning
from visionnmf.apps.background.frame_arrays import (
    Floats,
    FrameArray,
    FrameSample,
    Separated,
    check_frame_shape,
    enlarged,
    enlargement_of,
    reduced,
    reduced_mask,
    temporal_median,
    timed_frames,
    to_uint8,
)
from visionnmf.apps.background.kernels import show_background
from visionnmf.apps.saving import SaveableEstimator
from visionnmf.engine.blocks import blocks, map_blocks, n_threads, one_blas_thread
from visionnmf.io.video.timeline import TimedFrame

from .camera_shake import shifted
from .learning import LearntBackground, find_codes, learn_background, with_median
from .mask import MaskDecision


@dataclass(eq=False, repr=False)
class BackgroundModel(SaveableEstimator, BaseEstimator):
    """Low-rank background of a fixed camera in the Manhattan loss, and the foreground that stands out from it.

    Minimises ``sum_tp m_tp |x_tp - sum_k w_tk h_kp|`` over ``W, H >= 0`` for evenly spaced frames `t` and all pixels
    and channels `p`, by rank-one residual iteration (Guan et al. 2012, Algorithm 1) started from the temporal median.
    The components are one scene under at most `n_components` smooth illuminations.

    Parameters
    ----------
    n_components : int, default=2
        Maximum number of illumination components. With 1 there is one scene, with a factor for the illumination of each
        frame. 2 also follows illumination that changes more on one side of the scene than on the other, as when a cloud
        passes. One component is kept where more explain hardly more of the clip.
    n_frames : int, default=100
        Learn from at most this many frames, evenly spaced over the clip, and from at least half as many if the clip has
        them. Large frames take fewer, so that they stay below 340 MiB.
    threshold : float, default=3.0
        Foreground deviates by this many times the noise. A lower value finds more, also more that is not there.
    random_state : int, RandomState, Generator or None, default=0
        Chooses the pixels that determine the codes. The same int gives the same result, for any number of threads.

    Attributes
    ----------
    n_components_ : int
        Components kept: `n_components`, or 1.
    background_ : ndarray of uint8 [shape of a frame]
        Median, over the clip, of the modelled background.
    temporal_median_ : ndarray of uint8 [shape of a frame]
        Median of the learnt frames, the baseline to compare with.
    components_ : ndarray of float32 [shape=(n_components_, height, width[, 3]), >= 0]
        The components H.
    codes_ : ndarray of float32 [shape=(n_learnt, n_components_), >= 0]
        The codes W of the learnt frames.
    learnt_frames_ : ndarray of int [shape=(n_learnt,)]
        Positions of the learnt frames in the clip.
    noise_scale_ : ndarray of float32 [shape=(height, width)]
        The noise of each pixel in grey levels, between 3 and 7. It is below 6 only for a camera with little noise, and
        counts as 6 where the background is bright.
    dynamic_ : DynamicBackground or None
        Where the background moves, as leaves and water do, in frames that are enlarged if they are small.
    n_frames_seen_ : int
        Number of frames given to `fit`.
    frame_shape_ : tuple of int
        Shape of the frames.
    bits_ : int
        Bits of the values of the 16-bit frames that were learnt, of which the largest is white; 0 for other frames.

    Examples
    --------
    >>> from visionnmf.apps.background import BackgroundModel
    >>> from visionnmf.datasets import make_surveillance
    >>> clip = make_surveillance(40, random_state=0)
    >>> model = BackgroundModel().fit(clip.frames)
    >>> [part.mask.shape for part in model.apply(clip.frames[:2])]
    [(120, 160), (120, 160)]
    """

    saved_attributes = ("frame_shape_", "bits_", "_learnt", "learnt_frames_", "n_frames_seen_")

    n_components: int = choices.BACKGROUND_COMPONENTS
    _: KW_ONLY
    n_frames: int = 100
    threshold: float = 3.0
    random_state: RandomState = choices.RANDOM_STATE

    def fit(self, frames: Iterable[FrameArray]) -> BackgroundModel:
        """Learn the background from frames (height, width) or (height, width, channels), all of one shape.

        Frames are of uint8, uint16, or floating point from 0 to 1. One channel is grey; three are red, green and blue
        in this order, as readers of visionnmf give them; of four the last, opacity, is left out. OpenCV's order is
        blue first: give both `fit` and `apply` the same one. `frames` is an array of frames, a
        :class:`~visionnmf.io.VideoReader` or any other iterable, which is gone through once. Raises ParameterError if
        it holds no frame or anything else, and warns if it holds a single one.
        """
        self._check_parameters()
        rng = check_generator(self.random_state)
        sample = FrameSample.of(frames, self.n_frames)  # at most so many frames, evenly spaced
        with one_blas_thread():
            learnt = learn_background(sample, n_components=int(self.n_components), rng=rng)
        self.frame_shape_, self.n_frames_seen_, self.bits_ = sample.frame_shape, sample.seen, sample.bits
        self._learnt, self.learnt_frames_ = learnt, sample.taken()[1]  # positions of the sampled frames in the clip
        self._derive()  # sets the public attributes, and what `apply` needs, from `_learnt`
        return self

    def _check_parameters(self) -> None:
        """Raise ParameterError for a parameter that is out of its range."""
        check_count(self.n_components, "n_components")
        check_count(self.n_frames, "n_frames", 2)
        check_number(self.threshold, "threshold", without_low=True)

    def _check_state(self) -> None:
        """Check what was read from a file, and compute everything that the file does not hold."""
        self._check_parameters()
        check_frame_shape(self.frame_shape_)
        check_bits(self.bits_)
        check_count(self.n_frames_seen_, "n_frames_seen_")
        (n_frames,) = check_saved(self.learnt_frames_, "learnt_frames_", (None,), "int64")
        check_type(self._learnt, "_learnt", LearntBackground).check(self.frame_shape_, n_frames)
        self._derive()

    def _derive(self) -> None:
        """Compute the public attributes and what `apply` needs from ``_learnt``, after `fit` or loading from a file."""
        learnt = self._learnt
        shape = (*learnt.noise_scale.shape, *self.frame_shape_[2:])  # of the frames that were learnt
        times = self._times = enlargement_of(learnt.noise_scale, self.frame_shape_)  # more than 1 for small frames
        n_components = self.n_components_ = len(learnt.H)
        with one_blas_thread():
            background = _median_background(learnt.H, learnt.Wt)
        # At least half of the pixels have the noise floor of the camera, which therefore is the minimum. `dynamic` has
        # the places where the background itself moves, such as water, and the noise there; None if there are none.
        self.dynamic_ = learnt.dynamic
        self._decision = MaskDecision(learnt.noise_scale, float(learnt.noise_scale.min()), learnt.dynamic)
        # What `find_codes` needs for a new frame: how near a pixel must be to agree, the components at the pixels that
        # determine the codes, and the learnt codes with their median as starting points.
        self._near = learnt.near()
        self._chosen_H = learnt.H[:, learnt.chosen].reshape(n_components, -1)
        self._candidates = with_median(learnt.Wt)
        components = learnt.H.reshape(n_components, *shape)
        self.components_ = components if times == 1 else np.stack([reduced(each, times) for each in components])
        self.codes_ = np.ascontiguousarray(learnt.Wt.T)
        self.noise_scale_ = reduced(learnt.noise_scale, times)
        self.temporal_median_ = learnt.median.reshape(self.frame_shape_)
        self.background_ = reduced(background.reshape(shape), times)

    def apply(self, frames: Iterable[Any]) -> Generator[Separated, None, None]:
        """Separate frames into background and foreground, each frame independently of the others.

        Threads work on a few frames ahead of the one that is delivered. Memory does not grow with their number.

        Parameters
        ----------
        frames : iterable of ndarray
            Frames of the kinds that `fit` takes, and of the shape that it has seen; or a single one. They may come with
            their times, as from :meth:`.VideoReader.timed`.

        Yields
        ------
        Separated
            In the order of `frames`.

        Raises
        ------
        ParameterError
            If there is no frame, one has another shape or dtype, or `threshold` is out of its range.
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        check_number(self.threshold, "threshold", without_low=True)  # > 0
        threads = n_threads()
        pending: deque[Future[Separated]] = deque()
        # How many frames may wait: two a thread, or fewer large ones, but at least one a thread.
        ahead = min(2 * threads, max(threads, tuning.TUNING.learning.ahead_pixels // self._learnt.noise_scale.size))
        with ThreadPoolExecutor(threads, thread_name_prefix="visionnmf-apply") as pool:
            try:
                for index, frame in enumerate(timed_frames(frames, self.frame_shape_, self.bits_)):
                    # copied, because a caller may use one buffer for all frames
                    copy = frame._replace(picture=frame.picture.copy())
                    pending.append(pool.submit(self._separate, index, copy))
                    if len(pending) > ahead:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()

    def _separate(self, index: int, timed: TimedFrame) -> Separated:
        """Separate one uint8 frame, registered if the camera shakes; background and mask fit the frame as seen."""
        frame, time, is_doubtful = timed
        registration = self._learnt.registration  # None if the camera stands still
        shift = registration.shift(frame) if registration is not None else (0.0, 0.0)
        registered = shifted(frame, shift) if registration is not None else frame
        large = enlarged(registered, self._times)
        pixels = np.ascontiguousarray(large).reshape(self._learnt.noise_scale.size, -1)
        X = pixels[self._learnt.chosen].reshape(1, -1).astype(np.float32)
        codes = find_codes(X, self._chosen_H, self._near, self._candidates)[:, 0]
        background = np.empty_like(pixels)
        show_background(self._learnt.H, np.ascontiguousarray(codes), background)
        shown = background.reshape(large.shape)
        mask = self._decision.mask(large, shown, float(self.threshold))
        shown, mask = reduced(shown, self._times), reduced_mask(mask, self._times)
        if registration is not None:
            back = -shift[0], -shift[1]
            shown, mask = shifted(shown, back), shifted(mask, back, mask=True)
        return Separated(index, frame, shown, mask, time, is_doubtful, shift)


def _median_background(H: Floats, Wt: Floats) -> FrameArray:
    """Return the median (n_pixels, channels) of the backgrounds ``W H``, for some evenly spaced codes of `Wt`."""
    some = Wt[:, np.unique(np.linspace(0, Wt.shape[1] - 1, tuning.TUNING.learning.median_codes).round().astype(int))]
    result = np.empty(H.shape[1:], np.uint8)

    def fill(block: tuple[int, int]) -> None:
        """Write the median at the pixels from block[0] to block[1] over the codes `some` (n_components, n_some)."""
        part = slice(*block)
        result[part] = to_uint8(temporal_median(to_uint8(np.tensordot(some.T, H[:, part], 1))))

    map_blocks(fill, blocks(H.shape[1], tuning.TUNING.sample.block_pixels))
    return result
