"""Live masks: those of a source as its frames come; see :mod:`.online`."""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_choice, check_flag, check_number
from visionnmf._text import without_password
from visionnmf.apps.report import Report
from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError, VisionNMFError
from visionnmf.io import check_outputs, output_folder, write_image
from visionnmf.io.inputs import stem_of

from .clips import Clip, Progress, counted, expected_frames, open_clip
from .events import EventSettings
from .frames import Separated, check_kept_size
from .model import BackgroundModel
from .online.model import OnlineBackgroundModel
from .regions import read_regions, within
from .results import Encoders, MaskFolder, files_of, output_paths
from .tables import EventTable, Recorder, coco_path, frame_table_path

__all__ = ["LiveReport", "follow_source"]

FrameArray = NDArray[np.uint8]


@dataclass(frozen=True)
class LiveReport(Report):
    """What :func:`.follow_source` did; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    width, height : int
        Size of the frames, in pixels.
    frames : int
        Frames of this run.
    first_frame : int
        The number of its first one: above 0 where it went on from a state.
    seconds : float
        How long it ran.
    frames_per_second : float
    foreground_share : float, 0 to 1
        Share of all pixels that were foreground.
    damaged : int
        Frames that came damaged and were left out.
    reconnections : int
        How often the source was lost and found again.
    events : list of dict or None
        As those of :class:`.BackgroundReport`.
    """

    width: int
    height: int
    frames: int
    first_frame: int
    seconds: float
    frames_per_second: float
    foreground_share: float
    damaged: int
    reconnections: int
    events: list[dict[str, Any]] | None

    def summary(self) -> str:
        """Return the report as text for a person.

        Returns
        -------
        str
            A few lines.
        """
        went_on = f", from frame {self.first_frame} on" if self.first_frame else ""
        lines = [
            f"{self.inputs[0]}: {self.frames} frames of {self.width}x{self.height} in {self.seconds:.1f} s "
            f"({self.frames_per_second:.0f} frames/s){went_on}",
            f"  foreground: {self.foreground_share:.2%} of all pixels",
        ]
        if self.events is not None:
            lines.append(f"  events: {len(self.events)}")
        return "\n".join([*lines, *(f"  {line}" for line in self._ending())])


def follow_source(
    source: str | Path,
    *,
    out: str | Path = ".",
    state: str | Path | None = None,
    reuse: str | Path | None = None,
    forgetting: float = choices.LIVE_FORGETTING,
    warm_up: float = choices.LIVE_WARM_UP,
    threshold: float | None = None,
    roi: Sequence[str] = (),
    ignore: Sequence[str] = (),
    start: float = 0.0,
    end: float | None = None,
    scale: float = 1.0,
    every: int = 1,
    max_frames: int | None = None,
    frame_rate: float | None = None,
    size: tuple[int, int] | None = None,
    pixel_format: str | None = None,
    masks: str | None = None,
    overlay: float | None = None,
    coco: bool = False,
    background_every: float | None = None,
    events: Mapping[str, float] | None = None,
    frame_table: str | None = None,
    min_area: float | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
    on_frame: Callable[[Separated, float], Any] | None = None,
    on_event: Callable[[dict[str, Any]], Any] | None = None,
    until: Callable[[], bool] | None = None,
    progress: Progress | None = None,
) -> LiveReport:
    """Mask each frame of a source as it comes.

    ``NAME_background.png`` is the scene at the end, and every `background_every` seconds before. Memory does not grow
    with the length of the stream. A run that was killed goes on from its `state`, and gives the same masks as one that
    was not: of a source that begins anew, such as a file, the frames that are done are passed over, of others the run
    goes on with what comes; its masks as video, its events and its table have ``_from`` and the number of its first
    frame in their names. Where a source fails after its first mask, or a file cannot be written, the run ends as one
    that is asked to, and the report has the failure in `skipped`.

    Parameters
    ----------
    source : str or Path
        Whatever :func:`visionnmf.io.open_video` opens, or ``"sample:surveillance"``.
    out : str or Path, default="."
        Folder for the results; made if missing.
    state : str or Path, optional
        A file to go on from if it is there, of the same source, `every`, `start` and frame rate. It is written every
        ten seconds of the stream, and at the end.
    reuse : str or Path, optional
        A model of :meth:`.BackgroundModel.save`, to start from in place of learning the first seconds.
    forgetting, warm_up : float, default=60.0 and 2.0
        Seconds; see :class:`.OnlineBackgroundModel`.
    threshold : float, optional
        Foreground deviates by so many times the noise; 3 by default.
    roi, ignore : sequence of str, default=()
    start, end : float, default=0.0 and None
    scale : float in (0, 1], default=1.0
    every : int, default=1
    max_frames : int, optional
        See :func:`.process_video`.
    frame_rate : float, optional
        Of pictures and raw frames.
    size : (int, int), optional
        Width and height of raw frames.
    pixel_format : str, optional
        Of raw frames, as FFmpeg names it.
    masks : {"png", "ffv1", "h264"}, optional
        Also write the masks: ``NAME_masks/000000.png`` as they come, ``NAME_foreground.mkv`` or ``.mp4``.
    overlay, coco : optional
        See :func:`.process_video`.
    background_every : float, optional
        Seconds of the stream.
    events, frame_table, min_area : optional
        See :func:`.process_video`.
    random_state : int, default=0
    force : bool, default=False
    on_frame : callable, optional
        Called with each :class:`.Separated` and its time in seconds.
    on_event : callable, optional
        Called with the row of an event that is over.
    until : callable, optional
        Asked before each frame, and while a lost source is looked for; true ends the run.
    progress : callable, optional

    Returns
    -------
    LiveReport

    Raises
    ------
    MediaError
        The source or the state cannot be used, a result exists, or a file cannot be written.
    ParameterError
        An argument is out of its range.

    Examples
    --------
    >>> from visionnmf.apps.background import follow_source
    >>> shares = []
    >>> report = follow_source(
    ...     "sample:surveillance", max_frames=30, scale=0.25, force=True,
    ...     on_frame=lambda part, time: shares.append(part.mask.mean() / 255),
    ... )
    >>> report.frames, len(shares)
    (30, 30)
    """
    began = time.perf_counter()
    clip = open_clip(
        source,
        every=every,
        max_frames=max_frames,
        scale=scale,
        start=start,
        end=end,
        frame_rate=frame_rate,
        size=size,
        pixel_format=pixel_format,
        until=until,
    )
    rate = float(clip.frame_rate) / every
    parameters = {"forgetting": forgetting, "warm_up": warm_up, "frame_rate": rate, "random_state": random_state}
    if threshold is not None:
        parameters["threshold"] = threshold
    model = _started(parameters, (clip.height, clip.width, 3), state, reuse)
    _check_source(model, _origin(source, clip, every, start, rate), state)
    first = getattr(model, "n_frames_seen_", 0)
    out = Path(out)
    stem = out / stem_of(source)
    run_stem = stem if first == 0 else stem.with_name(f"{stem.name}_from{first:06d}")
    region = read_regions(roi, ignore, (clip.height, clip.width), scale)
    picture = stem.with_name(f"{stem.name}_background.png")
    settings = EventSettings(**events) if events is not None else None
    if min_area is not None:
        check_number(min_area, "min_area", 0, 1)
    if background_every is not None:
        check_number(background_every, "background_every", without_low=True)
    if frame_table is not None:
        check_choice(frame_table, "frame_table", choices.FRAME_TABLES)
    pictures = None
    if masks is not None and check_choice(masks, "masks", choices.MASK_FORMATS) == "png":
        pictures = MaskFolder(stem.with_name(f"{stem.name}_masks"), force=force or first > 0)
    if overlay is not None:
        check_number(overlay, "overlay", 0, 1)
    wanted = output_paths(run_stem, masks is not None, False, masks or "png", overlay is not None)
    paths = {kind: path for kind, path in wanted.items() if kind in ("foreground", "overlay")}
    extra = [] if settings is None else EventTable.paths(run_stem)
    extra += [path for path in [frame_table_path(run_stem, frame_table)] if path is not None]
    extra += [coco_path(run_stem)] * check_flag(coco, "coco")
    files = files_of(source, out, numbered=pictures is not None)
    check_outputs([picture], force or first > 0, inputs=files)
    check_outputs([*paths.values(), *extra], force, inputs=files)
    output_folder(out)
    if state is not None:
        _check_writable(Path(state))
    if pictures is not None:
        pictures.clear(first)

    offset = model.time_ + 1 / rate if first and not clip.begins_anew else 0.0
    times: deque[float] = deque()
    frames = _wanted(clip, first, until, lambda: times.append(clip.time + offset))
    total = expected_frames(clip, every, max_frames, start, end)
    frames = counted(frames, "following", total, progress)
    done = marked = 0
    state_due = picture_due = -math.inf
    failures: list[VisionNMFError] = []
    with ExitStack() as stack:
        even = clip.frame_rate / every
        encoders = Encoders(paths, clip.width, clip.height, even, varies=True, force=force, alpha=overlay or 0.0)
        stack.enter_context(encoders)
        recorder = stack.enter_context(
            Recorder(run_stem, settings, frame_table, 1 / rate, force=force, coco=coco, min_area=min_area)
        )
        parts = stack.enter_context(closing(model.follow(frames, time=lambda: times[-1])))
        with _kept(failures):
            for whole in parts:
                at = times.popleft()
                part = within(whole, region)
                done += 1
                marked += cv2.countNonZero(part.mask)
                encoders.write(part, at)
                if pictures is not None:
                    pictures.write(part)
                event = recorder.add(part, at)
                if event is not None and on_event is not None:
                    on_event(event)
                if on_frame is not None:
                    on_frame(part, at)
                if times:  # of the start, whose frames come together: the model has seen later ones
                    continue
                if state is not None and at - state_due >= choices.LIVE_STATE_SECONDS:
                    state_due = at
                    model.save(state, force=True)
                if background_every is not None and at - picture_due >= background_every:
                    picture_due = at
                    write_image(picture, model.background_, force=True)
        if done == 0:
            stopped = "was stopped before a frame came" if until is not None and until() else "no frame has come"
            done_before = f", after the {first} that are done" if first else ""
            raise next(iter(failures), UnreadableError(f"{without_password(source)}: {stopped}{done_before}"))
        written, found, _ = recorder.finish(None)
    with _kept(failures):
        write_image(picture, model.background_, force=True)
    if state is not None:
        with _kept(failures):
            model.save(state, force=True)
    folder = [] if pictures is None else [pictures.folder]
    seconds = time.perf_counter() - began
    return LiveReport(
        width=clip.width,
        height=clip.height,
        frames=done,
        first_frame=first,
        seconds=seconds,
        frames_per_second=done / seconds,
        foreground_share=marked / (done * clip.width * clip.height),
        damaged=clip.damaged,
        reconnections=clip.reconnections,
        events=found,
        inputs=[without_password(source)],
        outputs=[str(path) for path in [picture, *paths.values(), *folder, *written]],
        skipped=list(dict.fromkeys(map(str, failures))),
        notes=[*clip.notes, *["the sound is not in the results"] * (clip.has_sound and overlay is not None)],
    )


def _started(
    parameters: dict[str, Any], shape: tuple[int, ...], state: str | Path | None, reuse: str | Path | None
) -> OnlineBackgroundModel:
    """Return the model of the state, of what is reused, or a new one."""
    model = OnlineBackgroundModel(**parameters)
    model._check_parameters()
    if state is not None and os.path.lexists(state):
        model = OnlineBackgroundModel.load(state).set_params(**parameters)
        found, name = model._shape, state
    elif reuse is not None:
        kept = BackgroundModel.load(reuse)
        scene, found, name = kept.background_, kept.background_.shape, reuse
        model.begin_from(scene, kept.noise_scale_, len(kept.learnt_frames_))
    else:
        return model
    check_kept_size(name, found, shape)
    return model


def _origin(source: str | Path, clip: Clip, every: int, start: float, rate: float) -> dict[str, Any]:
    """Return what a state is of: a source and, where it begins anew, which of its frames; without a password."""
    name = str(source)
    if not clip.begins_anew:
        return {"name": re.sub(r"//[^/@]*@", "//", name).partition("?")[0]}
    if not name.startswith("sample:"):
        name = os.path.realpath(name)
    return {"name": name, "every": every, "start": float(start), "frame_rate": rate}


def _check_source(model: OnlineBackgroundModel, origin: dict[str, Any], state: str | Path | None) -> None:
    """Refuse the state of another source; one that does not say, and a new model, are of this one from now on."""
    before = getattr(model, "_source", None) or origin
    if before != origin:
        found, wanted = (
            " ".join([each["name"], *(f"{key}={value:g}" for key, value in each.items() if key != "name")])
            for each in (before, origin)
        )
        raise UnsupportedError(f"{state}: is the state of {found}, not of {wanted}; name another file")
    model._source = origin


def _check_writable(state: Path) -> None:
    """Refuse a state that cannot be written, before there are masks to lose."""
    try:
        with tempfile.TemporaryFile(dir=state.parent):
            pass
    except OSError as error:
        raise MediaError(f"{state}: cannot be written ({error.strerror})") from error


@contextmanager
def _kept(failures: list[VisionNMFError]) -> Iterator[None]:
    """Keep a failure for the end."""
    try:
        yield
    except VisionNMFError as error:
        failures.append(error)


def _wanted(
    clip: Clip, seen: int, until: Callable[[], bool] | None, take_time: Callable[[], Any]
) -> Iterator[FrameArray]:
    """Pass frames on until the end is asked for, without those that are done."""
    for number, frame in enumerate(clip):
        if until is not None and until():
            return
        if clip.begins_anew and number < seen:
            continue
        take_time()
        yield frame
