"""The work of ``visionnmf background``: read a video, learn its background, separate it and write the results."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visionnmf import choices
from visionnmf._progress import Progress
from visionnmf._text import counted, without_password
from visionnmf.apps.made import traceable
from visionnmf.apps.report import Report
from visionnmf.apps.settings import takes_records
from visionnmf.io import PictureSequence, is_live, output_folder, together, write_image
from visionnmf.io.video.timeline import SLOWEST, FrameReader, Timeline

from .frame_arrays import FrameArray, Region, check_model_size
from .model.estimator import BackgroundModel
from .model.mask import median_mask
from .reports import MaskCounts, batch_lines, little_notes
from .results import ResultFiles, ResultWriter, VideoFormat
from .settings import EventSettings, ModelSettings, OutputSettings, RegionSettings, VideoSettings
from .sources import expected_frames, file_of, open_clip, recorded, true_masks
from .watch import Watch, as_rows, faults_of, fit_pictures, sentences_of, unseen_in

if TYPE_CHECKING:
    from .separators import Separator
    from .sources import Clip

FEW_FRAMES = 40  # mean F of eight SBI clips: whole 0.93, learnt from 40 consecutive frames 0.75, from 20 0.66
NO_SOUND = "the sound of the video is not in the results"


@dataclass(frozen=True)
class Job:
    """A source, and what is to be done with it: in a batch (this module), or live (:mod:`.live`)."""

    source: str | Path
    out: Path
    video: VideoSettings
    region: RegionSettings
    model: ModelSettings
    outputs: OutputSettings
    events: EventSettings

    def read_region(self, clip: Clip) -> Region:
        """Return where foreground counts."""
        if not self.region.roi and not self.region.ignore:
            return Region(None, [])
        from .region import read_region

        return read_region(self.region, (clip.height, clip.width), self.video.scale)

    def cut_from(self, clip: Clip) -> str | Path | Callable[..., FrameReader] | None:
        """Return the file that events are cut out of, or what opens parts of pictures; None if no clips are wanted."""
        if not self.outputs.clips:
            return None
        if isinstance(clip, PictureSequence):
            return partial(PictureSequence, self.source, frame_rate=self.video.frame_rate)
        return file_of(self.source)

    def writer(self, files: ResultFiles, clip: Clip, timeline: Timeline | None = None) -> ResultWriter:
        """Return the writer of the results; without a `timeline`, of a live source, videos keep each frame's time."""
        rate = clip.frame_rate / self.video.every if timeline is None else timeline.frame_rate
        is_timed = timeline is None or timeline.varies or self.video.every / clip.frame_rate > 1 / SLOWEST
        video = VideoFormat(clip.width, clip.height, rate, is_timed)  # the writer knows no slower rates
        step = float(self.video.every / clip.frame_rate)
        watch = Watch(step, adopts=files.is_live, threshold=self.model.threshold)
        return ResultWriter(files, video, self.outputs, self.events, watch, step)


@takes_records
@traceable
def process_video(
    source: str | Path,
    *,
    out: str | Path = ".",
    video: VideoSettings = VideoSettings(),
    region: RegionSettings = RegionSettings(),
    model: ModelSettings = ModelSettings(),
    outputs: OutputSettings = OutputSettings(),
    events: EventSettings = EventSettings(),
    progress: Progress | None = None,
) -> Report:
    """Separate a video into background and foreground, and write both.

    The video is read twice, once to learn and once to separate, and memory does not grow with its length. The names of
    all files begin with that of the source: the background as a picture and as a video, the masks, a preview with
    frame, background and mask side by side, and what `outputs` asks for. They appear together when the work is done;
    after an error or Ctrl-C there is none of them. Each frame keeps its time, counted from the first frame.

    Parameters
    ----------
    source : str or Path
        Whatever :func:`visionnmf.io.open_video` opens, or ``"sample:surveillance"``, a clip with known masks that
        comes with the package. A source that can be read only once is first copied, without loss, to a temporary file.
    out : str or Path, default="."
        Folder for the results. It is made if it is missing.
    video, region, model, outputs, events : records of settings, optional
        Which frames are read, where foreground counts, how the background is modelled, which results are written, and
        what counts as an event.
    progress : callable, optional
        Called with (stage, frames done, frames in all or None); the stage is ``"learning"`` or ``"masking"``.

    Returns
    -------
    Report
        Its figures are:

        - ``width``, ``height`` of the results, in pixels;
        - ``frames`` separated, ``frames_read`` (decoded, those that `every` skips included), ``declared_frames`` (in
          the header, or None);
        - ``truncated``, ``problem``: whether the file is cut off or damaged, and what is wrong with it, or None; the
          results cover what could be read;
        - ``method``, ``random_state``, ``n_components``, ``most_components`` (asked for; None for a method that has
          none), ``learnt_frames``, ``noise`` (median over pixels, in grey levels);
        - ``masks``, ``temporal_median``: the :class:`MaskStatistics` of the result and of a baseline on the same
          frames, a difference from the temporal median above 25, and ``agreement``, the F-measure between both;
        - ``frame_rate``, the mean where ``variable_frame_rate``;
        - ``camera_shake``: the largest displacement of a frame that was compensated, in pixels, 0.0 for a still camera;
        - ``unseen``: a row for each reason why the camera could not see: ``reason``, ``start``, ``end`` (None where it
          lasts; damage may be anywhere) and ``frames``; `warnings` says the same in words;
        - ``events``: a row for each, as in the table of events, or None where none were asked for; times are in seconds
          from the beginning of the video, and `peak_area` is a share of the picture;
        - ``frames_per_second``, and ``seconds`` by ``learning``, ``masking`` (encoding included) and ``total``.

    Raises
    ------
    MediaError
        If the video cannot be used (:class:`UnreadableError`, :class:`UnsupportedError`, :class:`TooLargeError`), a
        result exists (:class:`OutputExistsError`), or the folder cannot be written.
    ParameterError
        If a setting is out of its range.

    Examples
    --------
    >>> from visionnmf.apps.background import OutputSettings, VideoSettings, process_video
    >>> report = process_video(
    ...     "sample:surveillance",
    ...     video=VideoSettings(max_frames=8, scale=0.25),
    ...     outputs=OutputSettings(videos=False, force=True),
    ... )
    >>> report.outputs
    ['surveillance_background.png']
    """
    job = Job(source, Path(out), video, region, model, outputs, events)
    if not is_live(source):
        return _separate(job, progress)
    with recorded(str(source), video) as (copy, reader):
        report = _separate(replace(job, source=copy), progress)
    # there is a figure for `problem`
    lost = [note for note in reader.notes if note != reader.problem] + [NO_SOUND] * reader.has_sound
    name = without_password(source)
    figures = report.figures | {"truncated": reader.truncated, "problem": reader.problem}
    faults = faults_of(reader)
    figures["unseen"] = as_rows(faults) + figures["unseen"]
    notes, warnings = [*lost, *report.notes], [*sentences_of(faults), *report.warnings]
    lines = batch_lines(name, figures)
    return replace(report, figures=figures, lines=lines, inputs=[name], notes=notes, warnings=warnings)


def _separate(job: Job, progress: Progress | None) -> Report:
    """Separate the foreground of a video in two passes, learning (or reading, for a model) and masking."""
    began = time.perf_counter()
    model = _prepared_model(job.model)
    clip = open_clip(job.source, job.video)
    if job.model.reuse is not None:
        check_model_size(job.model.reuse, model.background_.shape, (clip.height, clip.width, 3))
    region = job.read_region(clip)
    files = ResultFiles(job.source, job.out, job.outputs, keep_model=job.model.keep_model)
    files.check()
    timeline, n_pictures = _learn(job, model, clip, progress)
    learnt = time.perf_counter()
    output_folder(job.out)
    with together():
        write_image(files.background, model.background_, force=job.outputs.force)
        if isinstance(model, BackgroundModel) and files.model is not None:
            model.save(files.model, force=job.outputs.force)
        counts, shake = MaskCounts(true_masks(job.source, clip, job.video)), 0.0
        with job.writer(files, clip, timeline) as writer, closing(model.apply(clip.timed())) as parts:
            for whole in parts:
                baseline = median_mask(whole.frame, model.temporal_median_)
                part = region.within(whole)
                counts.add(part, region.inside(baseline))
                writer.watch.add(part)
                shake = max(shake, math.hypot(*part.shift))
                writer.write(part)
                if progress is not None:
                    progress("masking", counts.frames, timeline.count)
            written, uncut = writer.finish(job.cut_from(clip))
    writer.clear(written)
    if files.masks is not None:
        files.masks.clear(counts.frames)  # an earlier run may have left masks of more frames
    done = time.perf_counter()
    seconds = {"learning": learnt - began, "masking": done - learnt, "total": done - began}
    figures = _figures(job, model, clip, counts, timeline, seconds)
    share, threshold = figures["masks"].foreground_share, job.model.threshold
    unseen = unseen_in(clip, writer.watch, model.background_, threshold)
    figures |= {"camera_shake": shake, "events": writer.events, "unseen": as_rows(unseen)}
    little = little_notes(figures, share, threshold, region, writer.why_no_event)
    return Report(
        figures=figures,
        lines=batch_lines(str(job.source), figures),
        inputs=[str(job.source)],
        outputs=files.listed(written),
        skipped=uncut,
        notes=[*region.notes, *writer.watch.doubts(), *_notes(job, n_pictures, clip, little)],
        warnings=sentences_of(unseen),
        shown={"first_time": timeline.first, "last_time": clip.time, "padding": job.events.padding},
    )


def _prepared_model(settings: ModelSettings) -> Separator:
    """Return a new model, not fitted, or the one that is read from the file `settings.reuse`."""
    if settings.method != choices.BACKGROUND_METHODS[0]:
        from .separators import make_separator  # loads all models of visionnmf

        return make_separator(settings.method, threshold=settings.threshold, random_state=settings.random_state)
    if settings.reuse is None:
        model = BackgroundModel(settings.n_components, random_state=settings.random_state)
    else:
        model = BackgroundModel.load(settings.reuse)
    return model if settings.threshold is None else model.set_params(threshold=settings.threshold)


def _learn(job: Job, model: Separator, clip: Clip, progress: Progress | None) -> tuple[Timeline, int]:
    """Learn the background unless a model is used again; return the frames' timeline, and how many could be learnt."""
    timeline = Timeline(0.0)
    stage = "learning" if job.model.reuse is None else "reading"
    total = expected_frames(clip, job.video)

    def pictures() -> Iterator[FrameArray]:
        """Yield the pictures, once their times are noted."""
        nonlocal timeline
        timeline = Timeline(float(job.video.every / clip.frame_rate))  # a scene of one colour is read twice
        for frame in clip.timed():
            timeline.add(frame.time)
            yield frame.picture
            if progress is not None:
                progress(stage, timeline.count, total)

    if job.model.reuse is None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "frames hold a single frame")  # a note says so
            n_learnt = fit_pictures(model, pictures)
    else:
        n_learnt = sum(1 for _ in pictures())
    return timeline, n_learnt


def _figures(
    job: Job, model: Separator, clip: Clip, counts: MaskCounts, timeline: Timeline, seconds: dict[str, float]
) -> dict[str, Any]:
    """Return the figures of the report, without the events."""
    return {
        "width": clip.width,
        "height": clip.height,
        "frames": counts.frames,
        "frames_read": clip.frames_read,
        "declared_frames": clip.declared_frames,
        "truncated": clip.truncated,
        "problem": clip.problem,
        "method": job.model.method,
        "n_components": len(model.components_) if hasattr(model, "components_") else None,
        "most_components": model.n_components if isinstance(model, BackgroundModel) else None,
        "learnt_frames": len(model.learnt_frames_),
        "random_state": job.model.random_state,
        "noise": float(np.median(model.noise_scale_)) if isinstance(model, BackgroundModel) else None,
        "masks": counts.statistics("masks"),
        "temporal_median": counts.statistics("temporal_median"),
        "agreement": counts.agreement(),
        "frame_rate": float(timeline.frame_rate * job.video.every if timeline.varies else clip.frame_rate),
        "variable_frame_rate": timeline.varies,
        "frames_per_second": counts.frames / seconds["total"],
        "seconds": seconds,
    }


def _notes(job: Job, frames: int, clip: Clip, little: list[str]) -> list[str]:
    """Return sentences about what makes the result doubtful, and about what is not in it."""
    notes = list(little)
    if frames < FEW_FRAMES and job.model.reuse is None:
        step = f", or frames closer together than every={job.video.every}" * (job.video.every > 1)
        notes.append(
            f"the background was learnt from {counted(frames, 'frame')}; with fewer than {FEW_FRAMES} it often holds "
            f"what moves, so take more of the video{step}"
        )
    notes += [note for note in clip.notes if note not in map(str, faults_of(clip))]
    if clip.has_sound:
        notes.append(NO_SOUND)
    return notes
