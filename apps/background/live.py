"""Live masks: those of a source as its frames come, by the online model (:mod:`.online`)."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2

from visionnmf import choices
from visionnmf._progress import Progress
from visionnmf._text import without_password
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import ParameterError, UnreadableError, UnsupportedError, VisionNMFError
from visionnmf.io import output_folder, write_image

from .frame_arrays import FrameArray, Separated, check_model_size
from .model.estimator import BackgroundModel
from .online.estimator import OnlineBackgroundModel
from .pipeline import Job
from .reports import little_notes, live_lines
from .results import ResultFiles, ResultWriter
from .settings import EventSettings, LiveSettings, ModelSettings, OutputSettings, RegionSettings, VideoSettings
from .sources import expected_frames, open_clip
from .watch import Unseen, as_rows, sentences_of, unseen_in

if TYPE_CHECKING:
    from visionnmf.io.video.timeline import TimedFrame

    from .sources import Clip


@dataclass(frozen=True)
class LiveCallbacks:
    """What is called while a source is followed.

    Parameters
    ----------
    on_frame : callable, optional
        Called with each :class:`.Separated`.
    on_event : callable, optional
        Called with the row of an event that has ended.
    on_unseen : callable, optional
        Called with an :class:`.Unseen` once it is certain that the camera does not see its scene.
    until : callable, optional
        Called before each frame, and while a lost source is looked for; a true result ends the run.
    """

    on_frame: Callable[[Separated], Any] | None = None
    on_event: Callable[[dict[str, Any]], Any] | None = None
    on_unseen: Callable[[Unseen], Any] | None = None
    until: Callable[[], bool] | None = None


@takes_records
def follow_source(
    source: str | Path,
    *,
    out: str | Path = ".",
    video: VideoSettings = VideoSettings(),
    region: RegionSettings = RegionSettings(),
    model: ModelSettings = ModelSettings(),
    outputs: OutputSettings = OutputSettings(),
    events: EventSettings = EventSettings(),
    live: LiveSettings = LiveSettings(),
    callbacks: LiveCallbacks = LiveCallbacks(),
    progress: Progress | None = None,
) -> Report:
    """Mask each frame of a source as it comes.

    Memory does not grow with the length of the stream. The results are those of :func:`.process_video`, except that
    there is no preview, masks are written only if `outputs.masks` says so, and no clips are cut out.

    A run that was killed resumes from its `live.state` and gives the same masks as one that was not. Of a source that
    starts again from its beginning, such as a file, the frames that are done are skipped. The names of masks as video,
    events and tables then have ``_from`` and the number of the first frame. Where all frames are done, nothing is
    written, and a note says so. Where a source fails after its first mask, or a file cannot be written, the run ends as
    if it had been asked to, and `skipped` has the failure.

    Parameters
    ----------
    source, out, video, region : optional
        See :func:`.process_video`.
    model : ModelSettings, optional
        The threshold, the seed, and a model of :meth:`.BackgroundModel.save` that replaces the warm-up.
    outputs, events : optional
        See :func:`.process_video`.
    live : LiveSettings, optional
        How the stream is followed.
    callbacks : LiveCallbacks, optional
        What is called for each frame and each event, and what ends the run.
    progress : callable, optional
        Called with (``"following"``, frames done, frames in all or None).

    Returns
    -------
    Report
        Its figures are ``width`` and ``height`` of the frames in pixels; ``frames`` of this run, and ``first_frame``,
        the number of its first one, above 0 if the run continued from a saved state, which leaves 0 frames if it had
        seen the whole source; ``seconds`` and ``frames_per_second``; ``foreground_share`` of all pixels, 0 to 1;
        ``damaged`` (frames that were left out) and ``reconnections`` (how often the source was lost and found again);
        ``camera_shake``, ``unseen`` and ``events`` as those of :func:`.process_video`.

    Raises
    ------
    MediaError, ParameterError
        If the source or the state cannot be used, a result exists, a file cannot be written, or a setting is out of its
        range, or not for a stream.

    Examples
    --------
    >>> from visionnmf.apps.background import LiveCallbacks, OutputSettings, VideoSettings, follow_source
    >>> shares = []
    >>> report = follow_source(
    ...     "sample:surveillance",
    ...     video=VideoSettings(max_frames=30, scale=0.25),
    ...     outputs=OutputSettings(force=True),
    ...     callbacks=LiveCallbacks(on_frame=lambda part: shares.append(part.mask.mean() / 255)),
    ... )
    >>> report.frames, len(shares)
    (30, 30)
    """
    began = time.perf_counter()
    job = Job(source, Path(out), video, region, model, outputs, events)
    if model.method != choices.BACKGROUND_METHODS[0]:
        raise ParameterError(f"method must be 'ours' for a stream; got {model.method!r}")
    for name, value in (("keep_model", model.keep_model), ("clips", outputs.clips)):
        if value:
            raise ParameterError(f"{name} must be left out for a stream")
    run = _Run(job, live, callbacks)
    written: list[Path] = []
    with suppress(_AlreadyFinished), job.writer(run.files, run.clip) as writer:
        run.follow(writer, progress)
        written, _ = writer.finish()
    writer.clear(written)
    clip, seconds = run.clip, time.perf_counter() - began
    share = run.foreground_pixels / max(1, run.frames * run.clip.width * run.clip.height)
    figures = {
        "width": clip.width,
        "height": clip.height,
        "frames": run.frames,
        "first_frame": run.first,
        "seconds": seconds,
        "frames_per_second": run.frames / seconds,
        "foreground_share": share,
        "camera_shake": run.shake,
        "damaged": clip.damaged,
        "reconnections": clip.reconnections,
        "events": writer.events,
    }
    unseen = list[Unseen]()
    if run.frames:
        run.save()
        unseen = unseen_in(clip, writer.watch, run.background, model.threshold)
        figures["unseen"] = as_rows(unseen)
        notes = [*run.region.notes, *little_notes(figures, share, model.threshold, run.region, writer.why_no_event)]
        notes += [*writer.watch.doubts(), *(note for note in clip.notes if note not in map(str, unseen))]
        notes += ["the sound is not in the results"] * (clip.has_sound and outputs.overlay)
    else:
        done = f"its {run.first} frames are done; to begin again, remove the state {live.state}"
        notes = [f"already finished, {done}"]
    return Report(
        figures=figures,
        lines=live_lines(without_password(source), figures),
        inputs=[without_password(source)],
        outputs=run.files.listed(written) if run.frames else [],
        skipped=list(dict.fromkeys(map(str, run.failures))),
        notes=notes,
        warnings=sentences_of(unseen),
        shown={"first_time": run.first_time, "last_time": clip.time, "padding": events.padding},
    )


class _AlreadyFinished(Exception):
    """The state has seen all frames of a source that starts again from its beginning; nothing is written."""


class _Run:
    """One run over a stream; `first` is the number of its first frame, which is how many earlier runs have done."""

    def __init__(self, job: Job, live: LiveSettings, callbacks: LiveCallbacks) -> None:
        self._job, self._live, self._callbacks = job, live, callbacks
        self._asked_to_end = callbacks.until or (lambda: False)
        self.clip = open_clip(job.source, job.video, callbacks.until)
        self._model = _online_model(job, live, self.clip)
        self.first = getattr(self._model, "n_frames_seen_", 0)
        self.region = job.read_region(self.clip)
        self.files = ResultFiles(job.source, job.out, job.outputs, first_frame=self.first)
        self.files.check()
        output_folder(job.out)
        if self.files.masks is not None:
            # masks that an earlier run wrote after its state was saved are made again
            self.files.masks.clear(self.first)
        self._saved_at = -math.inf  # seconds of the stream
        self.failures: list[VisionNMFError] = []  # kept for the report
        self.frames = self.foreground_pixels = 0
        self.shake = 0.0  # the largest displacement of a frame, in pixels
        self.first_time = 0.0  # of its first frame, in seconds of the stream

    @property
    def background(self) -> FrameArray:
        """The background of the latest frame."""
        return self._model.background_

    def follow(self, writer: ResultWriter, progress: Progress | None) -> None:
        """Mask and write frames until the source ends or fails, or the end is asked for; raise without any frame."""
        callbacks, total = self._callbacks, expected_frames(self.clip, self._job.video)
        try:
            with closing(self._model.follow(self._wanted())) as parts:
                for whole in parts:
                    part = self.region.within(whole)
                    if not self.frames:
                        self.first_time = part.time
                    self.frames += 1
                    for unseen in writer.watch.add(part):
                        if callbacks.on_unseen is not None:
                            callbacks.on_unseen(unseen)
                    self.shake = max(self.shake, math.hypot(*part.shift))
                    self.foreground_pixels += cv2.countNonZero(part.mask)
                    self._tell(writer.write(part))
                    if callbacks.on_frame is not None:
                        callbacks.on_frame(part)
                    if progress is not None:
                        progress("following", self.frames, total)
                    # The frames of the warm-up come together, when the model has seen later ones.
                    is_latest = part.index == self._model.n_frames_seen_ - 1
                    if is_latest and part.time - self._saved_at >= choices.LIVE_STATE_SECONDS:
                        self._saved_at = part.time
                        self._attempt(self._save_state)
        except VisionNMFError as error:
            self.failures.append(error)
        if self.frames == 0:
            raise self.failures[0]
        self._tell(writer.end_events())

    def _tell(self, rows: list[dict[str, Any]]) -> None:
        """Pass the rows of events that have ended to the caller's function, if there is one."""
        if self._callbacks.on_event is not None:
            for row in rows:
                self._callbacks.on_event(row)

    def _wanted(self) -> Iterator[TimedFrame]:
        """Yield the frames that earlier runs have not done, until the caller asks for the end; raise without any."""
        # A source that does not start again from its beginning continues one frame after those that are done.
        again = self.clip.begins_anew
        offset = 0.0 if again or not self.first else self._model.time_ + 1 / self._model.frame_rate
        came = False
        for number, frame in enumerate(self.clip.timed()):
            if self._asked_to_end():
                break
            if not again or number >= self.first:
                came = True
                yield frame._replace(time=frame.time + offset)
        if came:
            return
        if self.first and again and not self._asked_to_end():
            raise _AlreadyFinished
        stopped = "was stopped before a frame came" if self._asked_to_end() else "no frame has come"
        done = f", after the {self.first} that are done" if self.first else ""
        raise UnreadableError(f"{without_password(self._job.source)}: {stopped}{done}")

    def _save_state(self) -> None:
        if self._live.state is not None:
            self._model.save(self._live.state, force=True)

    def save(self) -> None:
        """Save the background as a picture and, if it is wanted, the state; failures are kept."""
        self._attempt(lambda: write_image(self.files.background, self._model.background_, force=True))
        self._attempt(self._save_state)

    def _attempt(self, save: Callable[[], object]) -> None:
        """Save something without which the watch goes on; a failure is kept."""
        try:
            save()
        except VisionNMFError as error:
            self.failures.append(error)


def _online_model(job: Job, live: LiveSettings, clip: Clip) -> OnlineBackgroundModel:
    """Return the online model: a saved state of this source, or a new one, perhaps with the scene of a batch model."""
    # A state keeps what it has learnt, but gets the parameters of this run.
    rate = float(clip.frame_rate) / job.video.every
    parameters: dict[str, Any] = {"forgetting": live.forgetting, "warm_up": live.warm_up, "frame_rate": rate}
    parameters["random_state"] = job.model.random_state
    if job.model.threshold is not None:
        parameters["threshold"] = job.model.threshold
    # Without user, password or query; a source that starts again, such as a file, with which of its frames are read.
    source: dict[str, Any] = {"name": re.sub(r"//[^/@]*@", "//", str(job.source)).partition("?")[0]}
    if clip.begins_anew:
        name = str(job.source) if str(job.source).startswith("sample:") else os.path.realpath(job.source)
        source = {"name": name, "every": job.video.every, "start": float(job.video.start), "frame_rate": rate}
    shape = clip.height, clip.width, 3
    model = OnlineBackgroundModel(**parameters)
    if live.state is not None and os.path.lexists(live.state):
        model = OnlineBackgroundModel.load(live.state).set_params(**parameters)
        check_model_size(live.state, model.frame_shape_, shape)
        before = model.source_ or source
        if before != source:
            found, wanted = (" ".join(f"{key}={value}" for key, value in each.items()) for each in (before, source))
            raise UnsupportedError(f"{live.state}: is the state of {found}, not of {wanted}; name another file")
    elif job.model.reuse is not None:
        kept = BackgroundModel.load(job.model.reuse)
        check_model_size(job.model.reuse, kept.frame_shape_, shape)
        model.start_from(kept.background_, kept.noise_scale_, len(kept.learnt_frames_), dynamic=kept.dynamic_)
    model.source_ = source
    return model
