"""Live masks: those of a source as its frames come, by the online model (:mod:`.online`)."""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2

from visionnmf import choices
from visionnmf._progress import Progress
from visionnmf._text import without_password
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError, UnsupportedError, VisionNMFError
from visionnmf.io import output_folder, write_image

from .frame_arrays import FrameArray, Separated, check_model_size, within
from .model.estimator import BackgroundModel
from .online.estimator import OnlineBackgroundModel
from .pipeline import Job
from .reports import live_lines
from .results import ResultFiles, ResultWriter
from .settings import EventSettings, LiveSettings, ModelSettings, OutputSettings, RegionSettings, VideoSettings
from .sources import counted, expected_frames, open_clip

if TYPE_CHECKING:
    from .sources import Clip

__all__ = ["LiveCallbacks", "follow_source"]


@dataclass(frozen=True)
class LiveCallbacks:
    """What is called while a source is followed.

    Parameters
    ----------
    on_frame : callable, optional
        Called with each :class:`.Separated` and its time in seconds.
    on_event : callable, optional
        Called with the row of an event that has ended.
    until : callable, optional
        Called before each frame, and while a lost source is looked for; a true result ends the run.
    """

    on_frame: Callable[[Separated, float], Any] | None = None
    on_event: Callable[[dict[str, Any]], Any] | None = None
    until: Callable[[], bool] | None = None


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
    starts again from its beginning, such as a file, the frames that are done are skipped. The names of its masks as
    video, its events and its tables then have ``_from`` and the number of its first frame. Where all frames are done,
    nothing is written, and a note says so. Where a source fails after its first mask, or a file cannot be written, the
    run ends as if it had been asked to, and `skipped` has the failure. The model starts from the first seconds of the
    stream (the warm-up), unless one is given.

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
        ``events`` as those of :func:`.process_video`.

    Raises
    ------
    MediaError
        If the source or the state cannot be used, a result exists, or a file cannot be written.
    ParameterError
        If a setting is out of its range, or is not for a stream.

    Examples
    --------
    >>> from visionnmf.apps.background import LiveCallbacks, OutputSettings, VideoSettings, follow_source
    >>> shares = []
    >>> report = follow_source(
    ...     "sample:surveillance",
    ...     video=VideoSettings(max_frames=30, scale=0.25),
    ...     outputs=OutputSettings(force=True),
    ...     callbacks=LiveCallbacks(on_frame=lambda part, time: shares.append(part.mask.mean() / 255)),
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
            raise ParameterError(f"{name} must be False for a stream; got True")
    run = _Run(job, live, callbacks)
    written: list[Path] = []
    with suppress(_AlreadyFinished), job.writer(run.files, run.clip) as writer:
        run.follow(writer, progress)  # raises _AlreadyFinished, before it writes, if no frame is new
        written, _ = writer.finish()  # the other value is about clips, which live runs do not cut
    if run.frames:
        run.save()
    clip, seconds = run.clip, time.perf_counter() - began
    figures = {
        "width": clip.width,
        "height": clip.height,
        "frames": run.frames,
        "first_frame": run.first,
        "seconds": seconds,
        "frames_per_second": run.frames / seconds,
        "foreground_share": run.foreground_pixels / max(1, run.frames * clip.width * clip.height),
        "damaged": clip.damaged,
        "reconnections": clip.reconnections,
        "events": writer.events,
    }
    return Report(
        figures=figures,
        lines=live_lines(without_password(source), figures),
        inputs=[without_password(source)],
        outputs=run.files.listed(written) if run.frames else [],
        skipped=list(dict.fromkeys(map(str, run.failures))),
        notes=run.notes(),
    )


class _AlreadyFinished(Exception):
    """The state has seen all frames of a source that starts again from its beginning; nothing is written."""


class _Run:
    """One run over a stream: what it reads and writes, what it counts, and what fails.

    `first` is the number of its first frame, which is how many frames earlier runs have done.
    """

    def __init__(self, job: Job, live: LiveSettings, callbacks: LiveCallbacks) -> None:
        """Open the source of the job, prepare its model, and refuse results that exist or cannot be written."""
        # `live` says how the stream is followed, and `callbacks` what is called for frames and events and ends the run.
        self._job, self._live, self._callbacks = job, live, callbacks
        # A model from a saved state continues after the frames that it has seen; `first` is their number.
        self.clip = open_clip(job.source, job.video, callbacks.until)
        self._model = _online_model(job, live, self.clip)
        _record_source(self._model, job, self.clip, live.state)  # refuses the saved state of another source
        self.first = getattr(self._model, "n_frames_seen_", 0)
        self._region = job.read_region(self.clip)  # where foreground counts, or None
        self.files = ResultFiles(job.source, job.out, job.outputs, first_frame=self.first)
        self.files.check()
        output_folder(job.out)
        if live.state is not None:
            _check_writable(live.state)
        if self.files.masks is not None:
            # masks that an earlier run wrote after its state was saved are made again
            self.files.masks.clear(self.first)
        self._saved_at = self._drawn_at = -math.inf  # when state and background were written last, in stream seconds
        self.failures: list[VisionNMFError] = []  # kept for the report
        self.frames = 0  # masked in this run
        # foreground pixels in all frames of this run
        self.foreground_pixels = 0

    def follow(self, writer: ResultWriter, progress: Progress | None) -> None:
        """Mask and write frames until the source ends or fails, or the end is asked for; raise without any frame.

        `_wanted` yields the frames that an earlier run has not done, and `counted` reports them to `progress`.
        `_keep_failure` ends the loop at a failure and keeps it for the report. Masks count only in `_region`, None for
        the whole picture.
        """
        clip, callbacks = self.clip, self._callbacks
        # `first` is how many frames earlier runs have done. A source that does not start again from its beginning
        # continues one frame after the last one of these.
        offset = self._model.time_ + 1 / self._model.frame_rate if self.first and not clip.begins_anew else 0.0
        times: deque[float] = deque()  # of the frames that the model was given and has not masked yet
        wanted = self._wanted(lambda: times.append(clip.time + offset))
        frames = counted(wanted, "following", expected_frames(clip, self._job.video), progress)
        with closing(self._model.follow(frames, time=lambda: times[-1])) as parts, self._keep_failure():
            for whole in parts:
                at = times.popleft()
                part = within(whole, self._region)
                self.frames += 1
                self.foreground_pixels += cv2.countNonZero(part.mask)
                self._report_events(writer.write(part, at))
                if callbacks.on_frame is not None:
                    callbacks.on_frame(part, at)
                if not times:  # the frames of the warm-up come together, when the model has seen later ones
                    self._save_when_due(at)
        if self.frames == 0:
            raise self._reason_for_nothing()
        self._report_events(writer.end_events())

    def _report_events(self, rows: list[dict[str, Any]]) -> None:
        """Pass the rows of events that have ended to the caller's function `on_event`, if there is one."""
        if self._callbacks.on_event is not None:
            for row in rows:
                self._callbacks.on_event(row)

    def notes(self) -> list[str]:
        """Return the notes of the report: what was lost, or that the run before had done all frames."""
        # `first` is how many frames earlier runs have done, and `frames` how many this one.
        if not self.frames:
            state = self._live.state
            return [f"already finished, its {self.first} frames are done; to begin again, remove the state {state}"]
        lost = ["the sound is not in the results"] * (self.clip.has_sound and self._job.outputs.overlay)
        return [*self.clip.notes, *lost]

    def _asked_to_end(self) -> bool:
        """Return whether the caller asks for the end of the run."""
        return self._callbacks.until is not None and self._callbacks.until()

    def _wanted(self, take_time: Callable[[], Any]) -> Iterator[FrameArray]:
        """Pass frames on until the caller asks for the end; `take_time` is called before each to note its time.

        An earlier run has done the first `first` frames. They come again, and are skipped, only if the source, such as
        a file, starts again from its beginning.
        """
        for number, frame in enumerate(self.clip):
            if self._asked_to_end():
                return
            if self.clip.begins_anew and number < self.first:
                continue
            take_time()
            yield frame

    def _save_when_due(self, at: float) -> None:
        """Save the state and the background where their stream time has come; failures end the run."""
        # `at` is the time of the latest frame; `_saved_at` and `_drawn_at` are those of the last writing of state and
        # background, all in seconds of the stream.
        every = self._live.background_every
        if self._live.state is not None and at - self._saved_at >= choices.LIVE_STATE_SECONDS:
            self._saved_at = at
            self._model.save(self._live.state, force=True)
        if every is not None and at - self._drawn_at >= every:
            self._drawn_at = at
            write_image(self.files.background, self._model.background_, force=True)

    def save(self) -> None:
        """Save the background as a picture and, if it is wanted, the model as the state; failures are kept."""
        with self._keep_failure():
            write_image(self.files.background, self._model.background_, force=True)
        if self._live.state is not None:
            with self._keep_failure():
                self._model.save(self._live.state, force=True)

    def _reason_for_nothing(self) -> Exception:
        """Return the exception for no frame: `_AlreadyFinished` if all are done, else the first failure."""
        # All are done if the state has seen `first` frames of a source that starts from its beginning again
        # (`begins_anew`) and no more came.
        if self.first and self.clip.begins_anew and not self.failures and not self._asked_to_end():
            return _AlreadyFinished()
        stopped = "was stopped before a frame came" if self._asked_to_end() else "no frame has come"
        done = f", after the {self.first} that are done" if self.first else ""
        return next(iter(self.failures), UnreadableError(f"{without_password(self._job.source)}: {stopped}{done}"))

    @contextmanager
    def _keep_failure(self) -> Iterator[None]:
        """Keep a failure of the block for the report, instead of raising it."""
        try:
            yield
        except VisionNMFError as error:
            self.failures.append(error)


def _online_model(job: Job, live: LiveSettings, clip: Clip) -> OnlineBackgroundModel:
    """Return the online model: a saved state, or a new one from a batch model's scene or else from a warm-up."""
    # A state keeps what it has learnt, but gets the parameters of this run.
    parameters: dict[str, Any] = {
        "forgetting": live.forgetting,
        "warm_up": live.warm_up,
        "frame_rate": float(clip.frame_rate) / job.video.every,
        "random_state": job.model.random_state,
    }
    if job.model.threshold is not None:
        parameters["threshold"] = job.model.threshold
    shape = clip.height, clip.width, 3
    if live.state is not None and os.path.lexists(live.state):
        model = OnlineBackgroundModel.load(live.state).set_params(**parameters)
        check_model_size(live.state, model.frame_shape_, shape)
        return model
    model = OnlineBackgroundModel(**parameters)
    if job.model.reuse is not None:
        kept = BackgroundModel.load(job.model.reuse)
        check_model_size(job.model.reuse, kept.frame_shape_, shape)
        model.start_from(kept.background_, kept.noise_scale_, len(kept.learnt_frames_))
    return model


def _record_source(model: OnlineBackgroundModel, job: Job, clip: Clip, state: Path | None) -> None:
    """Record the source in the model without user, password or query, or refuse the state of another source."""
    # A source that starts again, such as a file, is recorded with which of its frames are read. `state` is the file
    # that the model was read from.
    name = str(job.source)
    source: dict[str, Any]
    if clip.begins_anew:
        name = name if name.startswith("sample:") else os.path.realpath(name)
        rate = float(clip.frame_rate) / job.video.every
        source = {"name": name, "every": job.video.every, "start": float(job.video.start), "frame_rate": rate}
    else:
        source = {"name": re.sub(r"//[^/@]*@", "//", name).partition("?")[0]}
    before = getattr(model, "source_", None) or source
    if before != source:
        found, wanted = (
            " ".join([each["name"], *(f"{key}={value:g}" for key, value in each.items() if key != "name")])
            for each in (before, source)
        )
        raise UnsupportedError(f"{state}: is the state of {found}, not of {wanted}; name another file")
    model.source_ = source


def _check_writable(state: Path) -> None:
    """Refuse a file for the saved model if its folder cannot be written, before frames are masked in vain."""
    try:
        with tempfile.TemporaryFile(dir=state.parent):
            pass
    except OSError as error:
        raise MediaError(f"{state}: cannot be written ({error.strerror})") from error
