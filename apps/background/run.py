"""The work of ``visionnmf background``: read a video, separate it, write the results; see :mod:`.background`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from visionnmf import choices
from visionnmf._checks import check_choice, check_flag, check_number
from visionnmf._text import without_password
from visionnmf.exceptions import ParameterError
from visionnmf.io import check_outputs, is_live, output_folder, transaction, write_image
from visionnmf.io.inputs import stem_of

from .clips import Clip, Progress, Timeline, counted, expected_frames, open_clip, recorded, timed
from .events import EventSettings
from .frames import check_kept_size
from .mask import median_mask
from .methods import Separator, make_separator
from .model import BackgroundModel
from .regions import read_regions, within
from .report import BackgroundReport, Counts, Masks
from .results import Encoders, MaskFolder, files_of, output_paths
from .sizes import Sizes
from .tables import EventTable, Recorder, coco_path, frame_table_path

__all__ = ["process_video"]

DOUBTFUL_SHARE = 0.2  # of foreground: clips of a fixed camera seldom have so much
NO_SOUND = "the sound of the video is not in the results"


def process_video(
    source: str | Path,
    *,
    method: str = choices.BACKGROUND_METHODS[0],
    n_components: int = choices.BACKGROUND_COMPONENTS,
    out: str | Path = ".",
    roi: Sequence[str] = (),
    ignore: Sequence[str] = (),
    start: float = 0.0,
    end: float | None = None,
    threshold: float | None = None,
    keep_model: bool = False,
    reuse: str | Path | None = None,
    scale: float = 1.0,
    full_size: bool = False,
    every: int = 1,
    max_frames: int | None = None,
    frame_rate: float | None = None,
    size: tuple[int, int] | None = None,
    pixel_format: str | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
    progress: Progress | None = None,
    write_video: bool = True,
    events: Mapping[str, float] | None = None,
    clips: bool = False,
    frame_table: str | None = None,
    masks: str = choices.MASK_FORMATS[0],
    overlay: float | None = None,
    coco: bool = False,
    min_area: float | None = None,
) -> BackgroundReport:
    """Separate a video into background and foreground and write both.

    The video is read twice, once to learn and once to separate; memory does not grow with its length. Files appear
    together when all is done: ``NAME_background.png``, the median of the modelled background; ``NAME_background.mp4``;
    ``NAME_foreground.mkv``, masks of 0 and 255, lossless (FFV1); ``NAME_preview.mp4``, frame, background and mask side
    by side, each at most 640 pixels wide. Each frame keeps its time, counted from the first frame. After an error or
    Ctrl-C there is none of them.

    Parameters
    ----------
    source : str or Path
        Whatever :func:`visionnmf.io.open_video` opens, or ``"sample:surveillance"``, a clip that the project makes,
        with known masks. What comes but once is first written to a temporary file, lossless, up to its end or to `end`
        or `max_frames`.
    method : str, default="ours"
        Or another, to compare with: one of `choices.BACKGROUND_METHODS`; see :mod:`.methods`.
    n_components : int, default=2
        Most components of the model; see :class:`.BackgroundModel`.
    out : str or Path, default="."
        Folder for the results; made if missing.
    roi, ignore : sequence of str, default=()
        Where foreground counts, everywhere when none is given, and where it does not: boxes ``"x,y,width,height"``,
        polygons ``"x,y x,y x,y ..."`` in pixels of the video, or pictures of its size, white inside; see
        :mod:`.regions`.
    start, end : float, default=0.0 and None
        Take the frames from `start` on and before `end` only, in seconds.
    threshold : float, optional
        Foreground deviates by so many times the noise; of "ours" alone, whose default is 3.
    keep_model : bool, default=False
        Also write the model, ``NAME_model.npz``; of "ours" alone.
    reuse : str or Path, optional
        Take the model of such a file instead of learning one; `n_components` and `random_state` are then its own.
    scale : float in (0, 1], default=1.0
        Work at this share of width and height.
    full_size : bool, default=False
        Results have the size of the video all the same: what is found at `scale` is enlarged.
    every : int, default=1
        Take every `every`-th frame; the results play at the accordingly lower rate.
    max_frames : int, optional
        Stop after so many frames.
    frame_rate : float, optional
        Of pictures and raw frames.
    size : (int, int), optional
        Width and height of raw frames on standard input.
    pixel_format : str, optional
        Of raw frames on standard input, as FFmpeg names it.
    random_state : int, default=0
        Seed of the model.
    force : bool, default=False
        Overwrite results that exist already.
    progress : callable, optional
        Called with (stage, frames done, frames in all or None), the stage being ``"learning"`` or ``"masking"``.
    write_video : bool, default=True
        False writes no video.
    events : mapping of str to float, optional
        Parameters of :class:`.EventSettings`, ``{}`` for its defaults. Also write ``NAME_events.csv``, a row an event;
        ``NAME_event_001.png``, a thumbnail of each; and ``NAME_events.png``, a sheet of them.
    clips : bool, default=False
        Also cut the events out of the video without encoding it anew, as ``NAME_event_001.mp4``, in the container of
        the video or Matroska; each begins with the last key frame before it.
    frame_table : {"csv", "jsonl"}, optional
        Also write ``NAME_frames.csv`` or ``.jsonl``: time, share of foreground and boxes of each frame.
    masks : {"ffv1", "h264", "png"}, default="ffv1"
        As ``NAME_foreground.mkv``, ``NAME_foreground.mp4``, which browsers play, or ``NAME_masks/000000.png``, the
        number of the frame.
    overlay : float from 0 to 1, optional
        Also write ``NAME_overlay.mp4``, the frames, their foreground in this share of magenta and outlined.
    coco : bool, default=False
        Also write ``NAME_coco.json``, the boxes of each frame as COCO's annotations.
    min_area : float from 0 to 1, optional
        Share of the picture that a box of `frame_table` and `coco` covers; by default that of `events`.

    Returns
    -------
    BackgroundReport
        Sizes, times, the baseline's result beside ours, the files.

    Raises
    ------
    MediaError
        The video cannot be used (:class:`UnreadableError`, :class:`UnsupportedError`, :class:`TooLargeError`), a
        result exists (:class:`OutputExistsError`), or the folder cannot be written.
    ParameterError
        An argument is out of its range.

    Examples
    --------
    >>> from visionnmf.apps.background import process_video
    >>> report = process_video("sample:surveillance", max_frames=8, scale=0.25, write_video=False, force=True)
    >>> report.outputs
    ['surveillance_background.png']
    """
    options = {name: value for name, value in locals().items() if name not in ("source", "size", "pixel_format")}
    if not is_live(source):
        return _process(source, size=size, pixel_format=pixel_format, **options)
    wanted = None if max_frames is None or start > 0 else every * max_frames
    raw = {"frame_rate": frame_rate, "size": size, "pixel_format": pixel_format}
    with recorded(str(source), end=end, max_frames=wanted, **raw) as (copy, reader):
        report = _process(copy, **options | {"frame_rate": None})
    lost = [note for note in reader.notes if note != reader.problem] + [NO_SOUND] * reader.has_sound
    return replace(
        report,
        inputs=[without_password(source)],
        truncated=reader.truncated,
        problem=reader.problem,
        notes=[*lost, *report.notes],
    )


def _process(
    source: str | Path,
    *,
    method: str,
    n_components: int,
    out: str | Path,
    roi: Sequence[str],
    ignore: Sequence[str],
    start: float,
    end: float | None,
    threshold: float | None,
    keep_model: bool,
    reuse: str | Path | None,
    scale: float,
    full_size: bool,
    every: int,
    max_frames: int | None,
    frame_rate: float | None,
    random_state: int,
    force: bool,
    progress: Progress | None,
    write_video: bool,
    events: Mapping[str, float] | None,
    clips: bool,
    frame_table: str | None,
    masks: str,
    overlay: float | None,
    coco: bool,
    min_area: float | None,
    size: tuple[int, int] | None = None,
    pixel_format: str | None = None,
) -> BackgroundReport:
    """Do what :func:`process_video` says with what can be gone through twice."""
    began = time.perf_counter()
    if method != "ours" and (check_flag(keep_model, "keep_model") or reuse is not None):
        raise ParameterError(f"method must be 'ours' where a model is kept or reused; got {method!r}")
    model: Separator
    if reuse is None:
        model = make_separator(method, n_components=n_components, threshold=threshold, random_state=random_state)
    else:
        model = kept = BackgroundModel.load(reuse)
        if threshold is not None:
            kept.set_params(threshold=threshold)
    clip = open_clip(
        source,
        every=every,
        max_frames=max_frames,
        scale=1.0 if check_flag(full_size, "full_size") else scale,
        start=start,
        end=end,
        frame_rate=frame_rate,
        size=size,
        pixel_format=pixel_format,
    )
    full = work = (clip.height, clip.width)
    if full_size:
        check_number(scale, "scale", 0, 1, without_low=True)
        work = max(1, round(clip.height * scale)), max(1, round(clip.width * scale))
    sizes = Sizes(full, work)
    if reuse is not None:
        check_kept_size(reuse, model.background_.shape, (*work, 3))
    region = read_regions(roi, ignore, full, 1.0 if full_size else scale)
    out = Path(out)
    if check_flag(clips, "clips") and str(source).startswith("sample:"):
        raise ParameterError(f"clips must be False for {source}, which is no file; got True")
    settings = EventSettings(**(events or {})) if clips or events is not None else None
    if min_area is not None:
        check_number(min_area, "min_area", 0, 1)
    if frame_table is not None:
        check_choice(frame_table, "frame_table", choices.FRAME_TABLES)
    check_choice(masks, "masks", choices.MASK_FORMATS)
    if overlay is not None:
        check_number(overlay, "overlay", 0, 1)
    stem = out / stem_of(source)
    paths = output_paths(stem, write_video, keep_model, masks, overlay is not None)
    pictures = None
    if write_video and masks == "png":
        pictures = MaskFolder(stem.with_name(f"{stem.name}_masks"), force=force)
    extra = [] if settings is None else EventTable.paths(stem)
    extra += [path for path in [frame_table_path(stem, frame_table)] if path is not None]
    extra += [coco_path(stem)] * check_flag(coco, "coco")
    files = files_of(source, out, numbered=pictures is not None)
    check_outputs([*paths.values(), *extra], force, inputs=files)
    total = expected_frames(clip, every, max_frames, start, end)
    timeline = Timeline(clip.frame_rate / every)
    frames = counted(timed(clip, timeline.add), "learning" if reuse is None else "reading", total, progress)
    if reuse is None:
        model.fit(map(sizes.reduced, frames))
    else:
        for _ in frames:  # for the times alone
            pass
    learnt = time.perf_counter()
    output_folder(out)
    with transaction():
        write_image(paths["image"], sizes.enlarged(model.background_), force=force)
        if isinstance(model, BackgroundModel) and keep_model:
            model.save(paths["model"], force=force)
        step = float(1 / timeline.frame_rate)
        with (
            Encoders(
                paths,
                clip.width,
                clip.height,
                timeline.frame_rate,
                varies=timeline.varies,
                force=force,
                alpha=overlay or 0.0,
            ) as encoders,
            Recorder(stem, settings, frame_table, step, force=force, coco=coco, min_area=min_area) as recorder,
        ):
            counts = Counts(getattr(clip, "masks", None))
            times: deque[float] = deque()  # of the frames that are worked on
            frames = counted(timed(clip, times.append), "masking", timeline.count, progress)
            with closing(sizes.apply(model, frames)) as parts:
                for whole in parts:
                    part = within(whole, region)
                    baseline = sizes.enlarged_mask(median_mask(sizes.reduced(part.frame), model.temporal_median_))
                    counts.add(part, baseline if region is None else baseline & region)
                    at = times.popleft()
                    encoders.write(part, at)
                    if pictures is not None:
                        pictures.write(part)
                    recorder.add(part, at)
        written, found, uncut = recorder.finish(source if clips else None)
        check_outputs([*paths.values(), *written], force, inputs=files)  # again: the work took long
    if pictures is not None:
        pictures.clear(counts.frames)
    folder = [] if pictures is None else [pictures.folder]
    done = time.perf_counter()
    found_masks = counts.masks(ours=True)
    return BackgroundReport(
        width=clip.width,
        height=clip.height,
        frames=counts.frames,
        frames_read=clip.frames_read,
        declared_frames=clip.declared_frames,
        truncated=clip.truncated,
        problem=clip.problem,
        method=method,
        n_components=len(model.components_) if hasattr(model, "components_") else None,
        most_components=model.n_components if isinstance(model, BackgroundModel) else None,
        learnt_frames=len(model.learnt_frames_),
        random_state=random_state,
        noise=float(np.median(model.noise_scale_)) if isinstance(model, BackgroundModel) else None,
        masks=found_masks,
        temporal_median=counts.masks(ours=False),
        agreement=counts.agreement(),
        frame_rate=float(clip.frame_rate),
        variable_frame_rate=timeline.varies,
        frames_per_second=counts.frames / (done - began),
        seconds={"learning": learnt - began, "masking": done - learnt, "total": done - began},
        inputs=[str(source)],
        events=found,
        outputs=[str(path) for path in [*paths.values(), *folder, *written]],
        skipped=uncut,
        notes=_notes(counts.frames, found_masks, clip),
    )


def _notes(n_frames: int, masks: Masks, clip: Clip) -> list[str]:
    """Say what makes the result doubtful, and what is not in it."""
    notes = []
    if n_frames == 1:
        notes.append("there is only one frame: nothing can be told apart")
    elif masks.foreground_share > DOUBTFUL_SHARE:
        notes.append(f"{masks.foreground_share:.0%} of all pixels are foreground: does the camera move? (it must not)")
    if not clip.truncated:
        notes += clip.notes
    if clip.has_sound:
        notes.append(NO_SOUND)
    return notes
