"""The online background model: learns from each frame as it comes, in constant memory.

It minimises what :class:`.BackgroundModel` minimises, with one component and a past that is forgotten:
``sum_tp f^(T - t) m_tp |x_tp - g_t b_p|`` over the scene `b` and the gain `g` of each frame, by stochastic
approximation, one step a frame, after a warm-up that is learnt like a clip. Beside the scene each pixel has one other
value, which becomes the scene when it has more support.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from visionnmf import choices
from visionnmf._checks import (
    RandomState,
    check_count,
    check_generator,
    check_number,
    check_saved,
    check_type,
    shown,
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
    enlargement,
    enlargement_of,
    known_bits,
    reduced,
    reduced_mask,
    timed_frames,
)
from visionnmf.apps.background.model.alternating_modes import left_behind
from visionnmf.apps.background.model.camera_shake import Registration, shifted
from visionnmf.apps.background.model.dynamic_background import DynamicBackground
from visionnmf.apps.background.model.learning import learn_background
from visionnmf.apps.background.model.mask import MaskDecision, camera_floor, median
from visionnmf.apps.saving import SaveableEstimator
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError
from visionnmf.io.video.timeline import TimedFrame

from .kernels import OnlineScene, OnlineSteps, count_explained, update_rows


@dataclass(eq=False, repr=False)
class OnlineBackgroundModel(SaveableEstimator, BaseEstimator):
    """Background and masks of a stream, frame by frame, in constant memory.

    Parameters
    ----------
    forgetting : float, default=60.0
        Seconds in which the weight of what was seen falls to 1/e. Something that stands still becomes background after
        0.7 times as long. A larger value keeps it in the foreground for longer and follows a changed scene later.
    warm_up : float, default=2.0
        Seconds that are learnt before the first mask, at most 100 frames or 200 MiB of them.
    frame_rate : float, default=25.0
        Frames per second, for frames that come without a time.
    threshold : float, default=3.0
        Foreground deviates by this many times the noise.
    random_state : int, RandomState, Generator or None, default=0
        Chooses the pixels that determine the gain.

    Attributes
    ----------
    mask_ : ndarray of uint8 [shape=(height, width)]
        Mask of the latest frame: 255 foreground, 0 background. It is empty until the warm-up ends.
    background_ : ndarray of uint8 [shape of a frame]
        The scene in the illumination of the latest frame; that frame itself until the warm-up ends.
    gain_ : float
        Illumination of the latest frame relative to the scene.
    frame_shape_ : tuple of int
        Shape of the frames.
    bits_ : int
        Bits of the values of the 16-bit frames that were learnt, of which the largest is white; 0 for other frames.
    n_frames_seen_ : int
        Number of frames so far.
    time_ : float
        When the latest frame is shown, in seconds; minus infinity before the first.
    source_ : dict or None
        The source that the frames come from, where :func:`.follow_source` has recorded it.

    Examples
    --------
    >>> from visionnmf.apps.background import OnlineBackgroundModel
    >>> from visionnmf.datasets import make_surveillance
    >>> model = OnlineBackgroundModel(frame_rate=10)
    >>> for part in model.follow(make_surveillance(40, random_state=0).frames):
    ...     part.index, part.background, part.mask  # doctest: +SKIP
    """

    saved_attributes = (
        *("frame_shape_", "_scene", "_alternative", "_support", "_alternative_support", "_noise", "_chosen", "_before"),
        *("_registration", "_dynamic", "_unexplained", "bits_", "source_", "n_frames_seen_", "time_", "gain_"),
    )

    _: KW_ONLY
    forgetting: float = choices.LIVE_FORGETTING
    warm_up: float = choices.LIVE_WARM_UP
    frame_rate: float = 25.0
    threshold: float = 3.0
    random_state: RandomState = choices.RANDOM_STATE

    def fit(self, frames: Iterable[FrameArray]) -> OnlineBackgroundModel:
        """Forget everything, then learn from frames, one after the other, as :meth:`partial_fit` does.

        What was learnt is in the attributes whose names begin or end with an underscore.
        """
        for name in [name for name in vars(self) if name.startswith("_") or name.endswith("_")]:
            delattr(self, name)
        for _ in self.follow(frames):
            pass
        return self

    def partial_fit(self, frame: FrameArray, time: float | None = None) -> OnlineBackgroundModel:
        """Mask the next frame, then learn from it; afterwards `mask_` and `background_` are those of this frame.

        The frame is an array of one of the kinds that :meth:`.BackgroundModel.fit` takes, and of the shape of the
        first. `time` is when it is shown, in seconds, by default ``1 / frame_rate`` after the previous one. Raises
        ParameterError for another kind or shape, and for a time that is not later.
        """
        for _ in self._take(TimedFrame(frame, math.nan), time):
            pass
        return self

    def follow(self, frames: Iterable[Any]) -> Generator[Separated, None, None]:
        """Mask frames as they come, and learn from them.

        Nothing is yielded during the warm-up; at its end all frames of the warm-up are.

        Parameters
        ----------
        frames : iterable of ndarray
            Frames as :meth:`partial_fit`, which also takes times of your own, takes them; or with their times, as
            :meth:`.VideoReader.timed` yields them.

        Yields
        ------
        Separated
            In the order of `frames`, for each of them.

        Raises
        ------
        ParameterError
            If a parameter is out of its range, there is no frame, one is of another kind or shape, or a time is not
            later than the one before.
        """
        if not getattr(self, "bits_", 0):
            frames, self.bits_ = known_bits(frames)
        for frame in timed_frames(frames, getattr(self, "frame_shape_", None), self.bits_):
            yield from self._take(frame, None if math.isnan(frame.time) else frame.time)
        if getattr(self, "_held", None):  # the frames ended during the warm-up, in which they are only held
            yield from self._end_warm_up()

    def start_from(
        self,
        scene: NDArray[Any],
        noise: NDArray[Any],
        weight: float | Floats,
        *,
        dynamic: DynamicBackground | None = None,
    ) -> OnlineBackgroundModel:
        """Start from a known scene instead of learning the first seconds.

        Parameters
        ----------
        scene, noise : ndarray [shape=(height, width[, 3])], ndarray [shape=(height, width)]
            The scene and the standard deviation of each pixel's noise, both in grey levels.
        weight : float or ndarray [shape=(height, width)]
            How many frames the scene stands for.
        dynamic : DynamicBackground or None
            The attribute `dynamic_` of a :class:`.BackgroundModel`.

        Returns
        -------
        OnlineBackgroundModel
        """
        self._check_parameters()
        self.frame_shape_ = scene.shape
        times = enlargement(scene.shape)
        support = np.broadcast_to(np.asarray(weight, np.float32), scene.shape[:2])
        self._start(*(enlarged(each, times) for each in (scene, np.asarray(noise), support)))
        self._dynamic = dynamic
        return self

    def _start(self, scene: NDArray[Any], noise: NDArray[Any], weight: float | Floats) -> OnlineBackgroundModel:
        """Start from what :meth:`start_from` takes, enlarged if frames of the shape `frame_shape_` are small."""
        height, width = scene.shape[:2]
        self._scene = np.array(scene, np.float32).reshape(height, width, -1)  # (height, width, channels), grey levels
        self._alternative = np.zeros_like(self._scene)  # the one other value of each pixel
        self._support = np.full((height, width), weight, np.float32)  # weight of the frames that show the scene
        self._alternative_support = np.zeros((height, width), np.float32)  # weight of those that show the alternative
        self._noise = np.array(noise, np.float32)  # (height, width), grey levels, without its bounds
        rng = check_generator(self.random_state)
        count = min(height * width, tuning.TUNING.online.gain_pixels)
        # (count,): flat indices of the pixels that determine the gain
        self._chosen = np.sort(rng.choice(height * width, count, replace=False))
        self._before: FrameArray | None = None  # the previous frame, registered where the camera shakes
        self._registration: Registration | None = None  # where the camera shakes, what frames are registered to
        self._dynamic = None  # where the background moves
        self.gain_, self._unexplained = 1.0, 0.0  # the second: for how many seconds no gain has explained most pixels
        self.source_ = getattr(self, "source_", None)
        if not hasattr(self, "n_frames_seen_"):
            self.n_frames_seen_, self.time_ = 0, -math.inf
        self.bits_ = getattr(self, "bits_", 0)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_scene")

    def _check_parameters(self) -> None:
        """Raise ParameterError for a parameter that is out of its range."""
        for name in ("forgetting", "frame_rate", "threshold"):
            check_number(getattr(self, name), name, without_low=True)  # > 0
        check_number(self.warm_up, "warm_up")

    def _check_state(self) -> None:
        """Check what was read from a file: a model that has seen frames needs the latest one, `_before`."""
        self._check_parameters()
        check_frame_shape(self.frame_shape_)
        check_bits(self.bits_)
        enlargement_of(self._noise, self.frame_shape_)  # raises if it is not a whole number
        shape, channels = self._noise.shape, self.frame_shape_[2:]
        for name in ("_noise", "_support", "_alternative_support"):
            check_saved(getattr(self, name), name, shape, "float32", low=0)
        for name in ("_scene", "_alternative"):
            check_saved(getattr(self, name), name, (*shape, *(channels or (1,))), "float32", low=0)
        check_saved(self._chosen, "_chosen", (None,), "int64", low=0, high=self._noise.size - 1)
        check_count(self.n_frames_seen_, "n_frames_seen_", 0)
        check_number(self._unexplained, "_unexplained")
        check_number(self.gain_, "gain_", without_low=True)
        if check_type(self.time_, "time_", float) != -math.inf:
            check_number(self.time_, "time_", -math.inf)
        for key, value in ({} if self.source_ is None else {"name": "", **self.source_}).items():
            check_type(value, "source_", *((str,) if key == "name" else (int, float)))
        if (self._before is None) != (self.n_frames_seen_ == 0):
            raise ValueError("the latest frame is missing, or there was none")
        if self._before is not None:
            check_saved(self._before, "_before", (*shape, *channels), "uint8")
        if self._dynamic is not None:
            check_type(self._dynamic, "_dynamic", DynamicBackground).check("_dynamic", shape)
        if self._registration is not None:  # what frames are registered to, because the camera shakes
            check_type(self._registration, "_registration", Registration).check("_registration", self.frame_shape_)

    def _take(self, timed: TimedFrame, time: float | None) -> Generator[Separated, None, None]:
        """Separate and learn a frame, and yield the result; the last frame of the warm-up yields those of all."""
        self._check_parameters()  # each time, because they may have been set since
        if not hasattr(self, "n_frames_seen_"):
            self.n_frames_seen_, self.time_ = 0, -math.inf
            # of the warm-up, which ends early if frames are too many or too large; and the seconds since the one before
            self._held: list[tuple[TimedFrame, float]] = []
        if not getattr(self, "bits_", 0):
            _, self.bits_ = known_bits([timed])
        (timed,) = timed_frames([timed], getattr(self, "frame_shape_", None), self.bits_)
        frame = timed.picture.copy()  # because a caller may use one buffer for all frames
        seconds = self._advance(time)
        timed = timed._replace(picture=frame)
        if hasattr(self, "_scene"):
            yield self._track(self.n_frames_seen_ - 1, timed, seconds)
            return
        online = tuning.TUNING.online
        self.frame_shape_ = frame.shape
        self._held.append((timed, seconds))
        self.background_, self.mask_ = frame, np.zeros(frame.shape[:2], np.uint8)
        held = len(self._held)
        enough = sum(seconds for _, seconds in self._held) >= self.warm_up - 1e-9
        if enough or held == online.held_frames or (held + 1) * frame.size > online.held_bytes:
            yield from self._end_warm_up()

    def _advance(self, time: float | None) -> float:
        """Return the seconds since the previous frame, at most `longest_gap`; `time` None is one frame on."""
        # It also sets `time_`, in seconds, and counts the frame. What was not seen for longer than the gap is not
        # forgotten faster.
        first = self.time_ == -math.inf
        if time is None:
            time = 0.0 if first else self.time_ + 1 / self.frame_rate
        elif not (isinstance(time, Real) and math.isfinite(time) and time > self.time_):
            raise ParameterError(
                f"time must be a number, later than that of the frame before, {self.time_}; got {shown(time)}"
            )
        seconds = 1 / self.frame_rate if first else min(time - self.time_, tuning.TUNING.online.longest_gap)
        self.time_ = time
        self.n_frames_seen_ += 1
        return seconds

    def _end_warm_up(self) -> Generator[Separated, None, None]:
        """Learn the scene from the frames of the warm-up, then track these frames and yield the results."""
        sample = FrameSample(tuning.TUNING.online.held_frames)
        for frame, _ in self._held:
            sample.add(frame.picture)
        with one_blas_thread():
            learnt = learn_background(sample, n_components=1, rng=check_generator(self.random_state))
        scene = learnt.H[0] * np.median(learnt.Wt)
        near = 2 * learnt.noise_scale.reshape(-1, 1)
        support = np.zeros(len(scene), np.float32)
        times = enlargement_of(learnt.noise_scale, self.frame_shape_)
        frames = sample.taken()[0]
        for seen in frames:
            large = enlarged(seen.reshape(*self.frame_shape_[:2], -1), times).reshape(scene.shape)
            explained = (np.abs(large - scene) < near).all(axis=1)
            support += explained
        # The more frames the scene explains, the longer something may rest there before it becomes the scene. Where
        # objects passed, the scene is doubtful.
        online = tuning.TUNING.online
        share = support / len(frames)
        evidence: Floats = np.asarray(online.start_weight * len(frames) * share**online.start_power, np.float32)
        shape = learnt.noise_scale.shape
        self._start(scene.reshape(*shape, -1), learnt.noise_scale, evidence.reshape(shape))
        self._registration, self._dynamic = learnt.registration, learnt.dynamic
        held, self._held = self._held, []
        first = self.n_frames_seen_ - len(held)
        for index, (frame, seconds) in enumerate(held, first):
            yield self._track(index, frame, seconds)

    def _track(self, index: int, timed: TimedFrame, seconds: float) -> Separated:
        """Separate a frame, registered if the camera shakes, then learn; results fit the frame as the camera saw it."""
        frame, time, is_doubtful = timed
        right, down = (0.0, 0.0) if self._registration is None else self._registration.shift(frame)
        if self._registration is None:
            self._track_registered(index, frame, seconds)
        else:
            self._track_registered(index, shifted(frame, (right, down)), seconds)
            self.background_ = shifted(self.background_, (-right, -down))
            self.mask_ = shifted(self.mask_, (-right, -down), mask=True)
        return Separated(index, frame, self.background_, self.mask_, time, is_doubtful, (right, down))

    def _track_registered(self, index: int, frame: FrameArray, seconds: float) -> None:
        """Set background and mask of a registered frame; then update the scene and its alternative in place."""
        online, noise = tuning.TUNING.online, tuning.TUNING.noise
        times = enlargement_of(self._noise, self.frame_shape_)
        frame = enlarged(frame, times)
        before = frame if self._before is None else self._before
        change = cv2.absdiff(frame, before)
        if change.ndim == 3:
            change = cv2.cvtColor(change, cv2.COLOR_RGB2GRAY)
        moved = np.asarray(cv2.blur(change, (5, 5)), np.uint8)
        noise_there = self._noise.reshape(-1)[self._chosen]
        self.gain_, explained = self._find_gain(frame, noise_there)
        shown_scene = np.asarray(cv2.convertScaleAbs(self._scene, alpha=self.gain_), np.uint8)
        shown_scene = shown_scene.reshape(frame.shape)
        self.background_ = reduced(shown_scene, times)
        # the least standard deviation that a pixel counts with, which is lower for a camera of little noise
        floor = camera_floor(noise_there)
        decision = MaskDecision(np.clip(self._noise, floor, noise.ceiling), floor, self._dynamic)
        mask = decision.mask(frame, shown_scene, float(self.threshold))
        self.mask_ = reduced_mask(mask, times)
        self._notice_new_scene(moved, explained, seconds)  # such as after the camera was turned
        # Only every `rows`-th row learns from a frame, which saves time; forgetting counts the time between its turns.
        kept = math.exp(-online.rows * seconds / self.forgetting)
        longest = online.value_seconds * self.frame_rate  # weight beyond which steps do not shrink, to follow changes
        steps = OnlineSteps(keep=kept, longest=longest, low=noise.floor, high=noise.ceiling)
        known = OnlineScene(self._scene, self._alternative, self._support, self._alternative_support, self._noise)
        image = frame.reshape(self._scene.shape)
        scratch = np.empty((4 + image.shape[2], image.shape[1]), np.float32)
        update_rows(image, change, moved, self.gain_, known, steps, index % online.rows, online.rows, scratch)
        if index % online.ghost_frames == 0:
            seen = self._alternative_support >= online.ghost_seconds * self.frame_rate
            self._forget_ghosts((mask > 0) & seen)
        self._before = frame

    def _forget_ghosts(self, found: NDArray[np.bool_]) -> None:
        """Show the alternative where, in `found` (height, width), the scene holds an object that has left."""
        if np.count_nonzero(found) < tuning.TUNING.alternating_modes.region_share * found.size:
            return
        ghost = left_behind(self._scene, self._alternative, found)
        scene, support = self._scene[ghost], self._support[ghost]
        self._scene[ghost], self._alternative[ghost] = self._alternative[ghost], scene
        self._support[ghost] = np.maximum(support, self._alternative_support[ghost])
        self._alternative_support[ghost] = np.minimum(support, self._alternative_support[ghost])

    def _find_gain(self, frame: FrameArray, noise: Floats) -> tuple[float, float]:
        """Return the gain of a frame, its brightness relative to the scene, and the share of pixels it explains."""
        size, chosen = self._noise.size, self._chosen
        x = frame.reshape(size, -1).take(chosen, axis=0).astype(np.float32)  # a third of the time of an index
        b = self._scene.reshape(size, -1).take(chosen, axis=0)
        near = 2 * noise.clip(tuning.TUNING.noise.floor, tuning.TUNING.noise.ceiling)
        # The ratio of dark pixels is mostly noise.
        dark = tuning.TUNING.online.dark
        if 2 * np.count_nonzero(b < dark) >= b.size:  # a dark scene, of which the brighter half counts
            dark = min(dark, median(b.ravel()))
        bright = b > dark
        ratios = x[bright] / b[bright]
        if not len(ratios):  # a black scene tells no gain
            return 1.0, 1.0
        found = np.empty(x.shape, np.bool_)
        candidates = [self.gain_, 1.0, median(ratios)]
        # the first of those that explain most
        best = max(candidates, key=lambda gain: count_explained(x, b, near, gain, found)[0])
        votes, pixels = count_explained(x, b, near, best, found)
        agreed = ratios[found[bright]]
        if len(agreed):
            better = median(agreed)
            more = count_explained(x, b, near, better, found)
            if more[0] >= votes:
                best, pixels = better, more[1]
        return max(best, 1e-3), pixels / len(x)

    def _notice_new_scene(self, moved: FrameArray, explained: float, seconds: float) -> None:
        """Forget the past if most of the picture is still and has been unexplained for long enough."""
        online = tuning.TUNING.online
        still = float((moved.reshape(-1)[self._chosen] < tuning.TUNING.noise.floor).mean())
        other = 1 - explained > online.new_share and still > online.still_share
        self._unexplained = self._unexplained + seconds if other else 0.0
        if self._unexplained >= online.new_seconds:
            self._support *= np.float32(online.new_weight)
            self._alternative_support *= np.float32(online.new_weight)
            # What swayed in the old scene says nothing about this one.
            self._unexplained, self._dynamic = 0.0, None
