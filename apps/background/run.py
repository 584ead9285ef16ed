"""The work of ``visionnmf background``: read a video, separate it, write the results; see :mod:`.background`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._checks import check_frames_wanted
from visionnmf.apps.report import Report
from visionnmf.exceptions import UnreadableError
from visionnmf.io import VideoReader, VideoWriter, check_outputs, output_folder, transaction, write_image

from .model import BackgroundModel, Separated, median_mask

__all__ = ["BackgroundReport", "Masks", "process_video"]

Progress = Callable[[str, int, int | None], Any]
FrameArray = NDArray[np.uint8]

DOUBTFUL_SHARE = 0.2  # of foreground: clips of a fixed camera seldom have so much
SAMPLE = "sample:surveillance"
SLOWEST = Fraction(1, 100)  # frames per second, of results when `every` is large
QUEUED_FRAMES = 4  # frames that may wait for an encoder
# Pixels: the three parts of a wider video's preview are reduced to this, as many players refuse widths above 4096.
PREVIEW_WIDTH = 640

# The sample: half a minute of a street while a cloud passes. Its light drifts enough for one picture to fail.
SAMPLE_OPTIONS: dict[str, Any] = {"n_frames": 300, "height": 240, "width": 320, "illumination": 0.25, "random_state": 0}
SAMPLE_RATE = Fraction(10)


@dataclass(frozen=True)
class Masks:
    """One way's masks, summed up over all frames.

    Attributes
    ----------
    foreground_share : float, 0 to 1
        Share of all pixels that are foreground.
    f_measure, precision, recall : float, 0 to 1, or None
        Against the true masks, where the clip has them.
    """

    foreground_share: float
    f_measure: float | None = None
    precision: float | None = None
    recall: float | None = None


@dataclass(frozen=True)
class BackgroundReport(Report):
    """What :func:`process_video` did and found; with the attributes of :class:`~visionnmf.apps.report.Report`.

    Attributes
    ----------
    width, height : int
        Size of the results, in pixels.
    frames : int
        Frames that were separated.
    frames_read, declared_frames : int, int or None
        Frames decoded, those that `every` skips included; frames in the file according to its header.
    truncated : bool
        The file is cut off or damaged; the results cover what could be read.
    problem : str or None
        What is wrong with the file.
    n_components, learnt_frames, random_state : int
        The model: its components, how many frames it was learnt from, and the seed.
    noise : float
        Median over pixels of the noise scale, in grey levels.
    masks : Masks
        The result.
    temporal_median : Masks
        The baseline on the same frames: difference from the temporal median above 25, and the same cleaning.
    agreement : float, 0 to 1
        F-measure between the two: 1, they mark the same pixels; 0, none in common.
    frame_rate : float
        Of the video, in frames per second.
    frames_per_second : float
        Frames separated per second of `seconds`, the learning included.
    seconds : dict of str to float
        ``learning``, ``masking`` (encoding included) and ``total``.
    """

    width: int
    height: int
    frames: int
    frames_read: int
    declared_frames: int | None
    truncated: bool
    problem: str | None
    n_components: int
    learnt_frames: int
    random_state: int
    noise: float
    masks: Masks
    temporal_median: Masks
    agreement: float
    frame_rate: float
    frames_per_second: float
    seconds: dict[str, float]

    def _figures(self) -> dict[str, Any]:
        figures = super()._figures()
        # the words of the command line
        renamed = {"rank": figures.pop("n_components"), "seed": figures.pop("random_state")}
        return {"input": self.inputs[0]} | figures | renamed

    def summary(self) -> str:
        """Return the report as text for a person.

        Returns
        -------
        str
            A few lines.
        """
        frames = "frame" if self.frames == 1 else "frames"
        lines = [
            f"{self.inputs[0]}: {self.frames} {frames} of {self.width}x{self.height} in {self.seconds['total']:.1f} s "
            f"({self.frames_per_second:.0f} frames/s)"
        ]
        if self.truncated:
            lines.append(f"  cut off: {self.problem}")
        ours, baseline = self.masks, self.temporal_median
        lines.append(f"  foreground: {ours.foreground_share:.2%} of all pixels")
        lines.append(
            f"  temporal median, for comparison: {baseline.foreground_share:.2%}; agreement (F) {self.agreement:.3f}"
        )
        if ours.f_measure is not None:
            lines.append(f"  against the truth (F): {ours.f_measure:.3f}; temporal median {baseline.f_measure:.3f}")
        return "\n".join([*lines, *(f"  {line}" for line in self._ending())])


def process_video(
    source: str | Path,
    *,
    n_components: int = choices.BACKGROUND_COMPONENTS,
    out: str | Path = ".",
    scale: float = 1.0,
    every: int = 1,
    max_frames: int | None = None,
    random_state: int = choices.RANDOM_STATE,
    force: bool = False,
    progress: Progress | None = None,
    write_video: bool = True,
) -> BackgroundReport:
    """Separate a video into background and foreground and write both.

    The video is read twice, once to learn and once to separate; memory does not grow with its length. Files appear
    together when all is done: ``NAME_background.png``, the median of the modelled background; ``NAME_background.mp4``;
    ``NAME_foreground.mkv``, masks of 0 and 255, lossless (FFV1); ``NAME_preview.mp4``, frame, background and mask side
    by side, each at most 640 pixels wide. After an error or Ctrl-C there is none of them.

    Parameters
    ----------
    source : str or Path
        A video file, or ``"sample:surveillance"``, a clip that the project makes, with known masks.
    n_components : int, default=2
        Components of the model; see :class:`.BackgroundModel`.
    out : str or Path, default="."
        Folder for the results; made if missing.
    scale : float in (0, 1], default=1.0
        Work at this share of width and height.
    every : int, default=1
        Take every `every`-th frame; the results play at the accordingly lower rate.
    max_frames : int, optional
        Stop after so many frames.
    random_state : int, default=0
        Seed of the model.
    force : bool, default=False
        Overwrite results that exist already.
    progress : callable, optional
        Called with (stage, frames done, frames in all or None), the stage being ``"learning"`` or ``"masking"``.
    write_video : bool, default=True
        False writes only the image.

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
    """
    start = time.perf_counter()
    model = BackgroundModel(n_components, random_state=random_state)
    clip = _open(source, every=every, max_frames=max_frames, scale=scale)
    out = Path(out)
    paths = _output_paths(source, out, write_video)
    check_outputs(paths.values(), force, inputs=[source])
    total = _expected(clip, every, max_frames)
    model.fit(_counted(clip, "learning", total, progress))
    learnt = time.perf_counter()
    output_folder(out)
    with transaction():
        write_image(paths["image"], model.background_, force=force)
        rate = max(Fraction(clip.frame_rate) / every, SLOWEST)
        with _Encoders(paths, clip.width, clip.height, rate, force) as encoders:
            counts = _Counts(getattr(clip, "masks", None))
            with closing(model.apply(_counted(clip, "masking", model.n_frames_seen_, progress))) as parts:
                for part in parts:
                    counts.add(part, median_mask(part.frame, model.temporal_median_))
                    encoders.write(part)
        check_outputs(paths.values(), force, inputs=[source])  # again: the work took long
    done = time.perf_counter()
    masks = counts.masks(ours=True)
    return BackgroundReport(
        width=clip.width,
        height=clip.height,
        frames=counts.frames,
        frames_read=clip.frames_read,
        declared_frames=clip.declared_frames,
        truncated=clip.truncated,
        problem=clip.problem,
        n_components=n_components,
        learnt_frames=len(model.learnt_frames_),
        random_state=random_state,
        noise=float(np.median(model.noise_scale_)),
        masks=masks,
        temporal_median=counts.masks(ours=False),
        agreement=counts.agreement(),
        frame_rate=float(clip.frame_rate),
        frames_per_second=counts.frames / (done - start),
        seconds={"learning": learnt - start, "masking": done - learnt, "total": done - start},
        inputs=[str(source)],
        outputs=[str(path) for path in paths.values()],
        notes=_notes(counts.frames, masks),
    )


def _notes(n_frames: int, masks: Masks) -> list[str]:
    """Say what makes the result doubtful."""
    if n_frames == 1:
        return ["there is only one frame: nothing can be told apart"]
    if masks.foreground_share > DOUBTFUL_SHARE:
        return [f"{masks.foreground_share:.0%} of all pixels are foreground: does the camera move? (it must not)"]
    return []


def _open(source: str | Path, *, every: int, max_frames: int | None, scale: float) -> VideoReader | _SampleClip:
    if str(source) == SAMPLE:
        return _SampleClip(every=every, max_frames=max_frames, scale=scale)
    if str(source).startswith("sample:"):
        raise UnreadableError(f"{source}: no such sample; the one video is {SAMPLE}")
    return VideoReader(source, every=every, max_frames=max_frames, scale=scale)


def _output_paths(source: str | Path, out: Path, write_video: bool) -> dict[str, Path]:
    stem = Path(str(source).removeprefix("sample:")).stem
    paths = {"image": out / f"{stem}_background.png"}
    if write_video:
        paths["background"] = out / f"{stem}_background.mp4"
        paths["foreground"] = out / f"{stem}_foreground.mkv"
        paths["preview"] = out / f"{stem}_preview.mp4"
    return paths


def _expected(clip: VideoReader | _SampleClip, every: int, max_frames: int | None) -> int | None:
    if clip.declared_frames is None:
        return None
    delivered = -(-clip.declared_frames // every)
    return delivered if max_frames is None else min(delivered, max_frames)


def _counted(
    frames: Iterable[FrameArray], stage: str, total: int | None, progress: Progress | None
) -> Iterator[FrameArray]:
    for done, frame in enumerate(frames, start=1):
        yield frame
        if progress is not None:
            progress(stage, done, total)


class _SampleClip:
    """The made clip, in the shape of a :class:`.VideoReader`."""

    frame_rate = SAMPLE_RATE
    truncated = False
    problem = None

    def __init__(self, *, every: int, max_frames: int | None, scale: float) -> None:
        from visionnmf.datasets import make_surveillance

        check_frames_wanted(every, max_frames, scale)
        made = make_surveillance(**SAMPLE_OPTIONS)
        picked = slice(0, None if max_frames is None else max_frames * every, every)
        height, width = made.frames.shape[1:3]
        self.width, self.height = max(1, round(width * scale)), max(1, round(height * scale))
        self.declared_frames = self.frames_read = len(made.frames)
        size = (self.width, self.height)
        self._frames = [cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in made.frames[picked]]
        self.masks = [
            cv2.resize(mask.astype(np.uint8) * 255, size, interpolation=cv2.INTER_NEAREST)
            for mask in made.masks[picked]
        ]

    def __iter__(self) -> Iterator[FrameArray]:
        return iter(self._frames)


class _Encoder(NamedTuple):
    """One video, its thread, and the frames that wait."""

    writer: VideoWriter
    pool: ThreadPoolExecutor
    waiting: deque[Future[None]]


class _Encoders:
    """The three videos, each encoded in a thread of its own, beside the modelling."""

    def __init__(self, paths: dict[str, Path], width: int, height: int, frame_rate: Fraction, force: bool) -> None:
        self._stack = ExitStack()
        self._panel = (width, height)
        if width > PREVIEW_WIDTH:
            # even, so that H.264 takes it
            self._panel = (PREVIEW_WIDTH, max(2, 2 * round(height * PREVIEW_WIDTH / width / 2)))
        self._encoders: dict[str, _Encoder] = {}
        for kind in ("background", "foreground", "preview"):
            if kind in paths:
                preview = kind == "preview"
                writer = VideoWriter(
                    paths[kind],
                    width=3 * self._panel[0] if preview else width,
                    height=self._panel[1] if preview else height,
                    frame_rate=frame_rate,
                    codec="ffv1" if kind == "foreground" else "h264",
                    grey=kind == "foreground",
                    force=force,
                )
                self._encoders[kind] = _Encoder(writer, ThreadPoolExecutor(1), deque())

    def __enter__(self) -> _Encoders:
        with ExitStack() as stack:
            for encoder in self._encoders.values():
                stack.enter_context(encoder.writer)
                stack.enter_context(encoder.pool)  # left first: no write goes to a closed writer
            stack.push(self._flush)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, part: Separated) -> None:
        """Hand one frame to the encoders; waits while they are too far behind."""
        self._give("background", part.background)
        self._give("foreground", part.mask)
        if "preview" in self._encoders:
            mask = cv2.cvtColor(part.mask, cv2.COLOR_GRAY2RGB)
            panels = [part.frame, part.background, mask]
            if panels[0].shape[1::-1] != self._panel:
                panels = [cv2.resize(panel, self._panel, interpolation=cv2.INTER_AREA) for panel in panels]
            self._give("preview", np.hstack(panels))

    def _give(self, kind: str, frame: FrameArray) -> None:
        if kind not in self._encoders:
            return
        encoder = self._encoders[kind]
        encoder.waiting.append(encoder.pool.submit(encoder.writer.write, frame))
        if len(encoder.waiting) > QUEUED_FRAMES:
            encoder.waiting.popleft().result()

    def _flush(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Wait for every frame and raise what an encoder has raised, if all went well so far."""
        for encoder in self._encoders.values():
            while encoder.waiting and kind is None:
                encoder.waiting.popleft().result()


class _Counts:
    """Counts of pixels over all frames: ours, the temporal median's, the truth's, and what they share."""

    def __init__(self, truth: list[FrameArray] | None) -> None:
        self._truth = truth
        self.frames = 0
        self._pixels = self._true = self._shared = 0
        self._found = [0, 0]  # ours, the median's
        self._hits = [0, 0]

    def add(self, part: Separated, baseline: FrameArray) -> None:
        """Count one frame."""
        self._pixels += part.mask.size
        self._shared += cv2.countNonZero(part.mask & baseline)
        for way, mask in enumerate((part.mask, baseline)):
            self._found[way] += cv2.countNonZero(mask)
            if self._truth is not None:
                self._hits[way] += cv2.countNonZero(mask & self._truth[part.index])
        if self._truth is not None:
            self._true += cv2.countNonZero(self._truth[part.index])
        self.frames += 1

    def agreement(self) -> float:
        """Return the F-measure between the two ways; 1 where neither finds anything."""
        return _ratio(2 * self._shared, sum(self._found))

    def masks(self, *, ours: bool) -> Masks:
        """Return one way's sums."""
        way = 0 if ours else 1
        share = self._found[way] / self._pixels
        if self._truth is None:
            return Masks(share)
        hits, found, true = self._hits[way], self._found[way], self._true
        return Masks(share, _ratio(2 * hits, found + true), _ratio(hits, found), _ratio(hits, true))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
