"""Methods of separating background and foreground, compared on clips with true masks."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf._text import counted, sized
from visionnmf.apps.background.frame_arrays import FrameArray
from visionnmf.apps.runner import Rows, settings_key
from visionnmf.apps.settings import takes_records
from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io import read_image, takes_files, to_grey8
from visionnmf.io.inputs import read_text

from .background_baselines import METHODS
from .harness import Study, averages, chosen_methods
from .settings import Comparison

Picture = NDArray[np.float64]  # grey, (height, width)

BASELINES = ("median", "mog2", "knn")  # compared with every other method
COUNTS = ("tp", "fp", "fn", "tn")
CDNET_METRICS = ("recall", "specificity", "fpr", "fnr", "pwc", "precision", "f_measure")
BACKGROUND_ERRORS = ("age", "peps", "pceps", "psnr")
COSTS = ("seconds_a_frame", "frames_per_second", "peak_mib")
COLUMNS = (*("clip", "category", "method", "frames", "masks"), *(*COUNTS, *CDNET_METRICS, *BACKGROUND_ERRORS, *COSTS))

FOREGROUND, LAST_BACKGROUND = 255, 50  # values of true masks; 50 is shadow, 85 and 170 are not scored
ERROR_PIXEL = 20  # grey levels
BACKGROUNDS = ("background_gt.png", "GT_background.png", "GT_background1.png")


@takes_records
def study(clips: Sequence[str], comparison: Comparison = Comparison()) -> Study:
    """Return the comparison of methods on clips with true masks.

    Clips are folders with `input` and `groundtruth` as changedetection.net has them, or folders of such. The baselines
    "median", "mog2" and "knn" are always compared. Several processes disturb each other's frames per second. Raises
    UnreadableError if there is no clip with true masks.
    """
    chosen = chosen_methods(comparison, tuple(METHODS), ("ours",))
    methods = list(dict.fromkeys([*chosen, *BASELINES]))
    found = list(dict.fromkeys(clip for argument in clips for clip in find_clips(argument)))
    return Study(
        jobs={
            f"{number:03d}_{Path(clip).name}_{method}": (clip, method)
            for number, clip in enumerate(found, start=1)
            for method in methods
        },
        work=score_file,
        columns=COLUMNS,
        key=settings_key({"clips": found}),
        lines=_lines,
        heading=f"{counted(len(found), 'clip')}; means over clips, and of F over categories",
        inputs=list(clips),
    )


@takes_files
def score_file(source: str, method: str) -> Rows:
    """Return the row of one clip, as :func:`find_clips` returns it, and method."""
    return [score_clip(read_clip(source), method)]


def _lines(rows: Rows) -> Rows:
    """Return the means of each method over clips; ``f_of_categories`` is that over the means of categories."""
    ordered = sorted(rows, key=lambda row: [*dict.fromkeys(one["method"] for one in rows)].index(row["method"]))
    lines = averages(ordered, ("method",), ("f_measure", *(*CDNET_METRICS[:-1], *BACKGROUND_ERRORS, *COSTS)))
    of_each = averages(ordered, ("method", "category"), ["f_measure"])
    pooled = averages(of_each, ("method",), ["f_measure"])
    return [line | {"f_of_categories": other["f_measure"]} for line, other in zip(lines, pooled, strict=True)]


# --- Scores of one clip ----------------------------------------------------------------------------------------------


def score_clip(clip: TrueClip, method: str) -> dict[str, Any]:
    """Run a method over a clip and return its scores and costs by name.

    Only frames with a true mask are scored, and only a clip with a true background has errors of the background. The
    seconds are those of the processor without reading; the memory is what the work took beyond what was held before.
    Memory is None where the system does not say.
    """
    aside = _TimeNotCounted()  # measures what is not the method's work: reading frames and scoring masks
    held = _reset_peak()  # memory of the process before the work, in KiB
    start, began = time.process_time(), time.perf_counter()
    separator = METHODS[method]().fit(aside.around(clip.frames()))
    counts = Confusion()
    with closing(separator.apply(aside.around(clip.frames()))) as parts:
        for part in parts:
            with aside:
                if part.index in clip.scored:
                    counts.add(part.mask, clip.mask(part.index))
    used = time.process_time() - start - aside.seconds
    elapsed = time.perf_counter() - began - aside.elapsed
    peak = _status("VmHWM")  # the peak of resident memory since `_reset_peak`, in KiB
    errors: dict[str, float | None] = dict.fromkeys(BACKGROUND_ERRORS)
    if clip.background is not None:
        errors = background_errors(separator.background_, clip.background)
    return {
        "clip": clip.name,
        "category": clip.category,
        "method": method,
        "frames": len(clip.numbers),
        "masks": counts.masks,
        **{name: getattr(counts, name) for name in COUNTS},
        **counts.metrics(),
        **errors,
        "seconds_a_frame": used / len(clip.numbers),
        "frames_per_second": len(clip.numbers) / elapsed,
        "peak_mib": None if held is None or peak is None else (peak - held) / 1024,
    }


class _TimeNotCounted:
    """Time of this thread that does not belong to the method: that of reading frames and of scoring masks."""

    def __init__(self) -> None:
        self.seconds = self.elapsed = 0.0  # so far: of this thread's processor, and on the clock

    def __enter__(self) -> None:
        """Begin a stretch of time that is not counted as the method's, such as reading a frame."""
        self._start, self._began = time.thread_time(), time.perf_counter()

    def __exit__(self, *error: object) -> None:
        """Add the time since `__enter__`: to `seconds` that of the processor, to `elapsed` that on the clock."""
        self.seconds += time.thread_time() - self._start
        self.elapsed += time.perf_counter() - self._began

    def around(self, frames: Iterator[FrameArray]) -> Iterator[FrameArray]:
        """Pass frames on, and measure how long reading them takes."""
        while True:
            with self:
                frame = next(frames, None)
            if frame is None:
                return
            yield frame


def _reset_peak() -> int | None:
    """Reset the peak of memory; return what is held now, in KiB, or None where the system does not say."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: 5 resets VmHWM, the peak of resident memory
    return _status("VmRSS")


def _status(name: str) -> int | None:
    """Return a figure of this process in KiB, such as "VmRSS", or None where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return None


@dataclass
class Confusion:
    """Counts of pixels: true and false positives and negatives, foreground being positive, and of true masks."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0
    masks: int = 0

    def add(self, mask: FrameArray, truth: FrameArray) -> None:
        """Count a frame: 255 is foreground; in `truth` 0 and 50 (shadow) are background, others nothing."""
        found = mask == FOREGROUND
        foreground = truth == FOREGROUND
        background = truth <= LAST_BACKGROUND
        self.tp += int(np.count_nonzero(found & foreground))
        self.fn += int(np.count_nonzero(~found & foreground))
        self.fp += int(np.count_nonzero(found & background))
        self.tn += int(np.count_nonzero(~found & background))
        self.masks += 1

    def metrics(self) -> dict[str, float | None]:
        """Return the seven metrics of CDnet by name, None where there is nothing to divide by."""
        tp, fp, fn, tn = self.tp, self.fp, self.fn, self.tn
        return {
            "recall": _ratio(tp, tp + fn),
            "specificity": _ratio(tn, tn + fp),
            "fpr": _ratio(fp, fp + tn),
            "fnr": _ratio(fn, tp + fn),
            "pwc": _ratio(100 * (fn + fp), tp + fp + fn + tn),
            "precision": _ratio(tp, tp + fp),
            "f_measure": _ratio(2 * tp, 2 * tp + fp + fn) if tp + fn else None,
        }


def _ratio(part: float, whole: float) -> float | None:
    """Return the share of a part in a whole, or None if the whole is 0."""
    return part / whole if whole else None


def background_errors(background: FrameArray, truth: FrameArray) -> dict[str, float | None]:
    """Return the errors of a background by name, as scenebackgroundmodeling.net defines them on grey pictures.

    ``age`` is the mean absolute difference in grey levels; ``peps`` the share of pixels that differ by more than 20,
    and ``pceps`` that of those whose four neighbours do too; ``psnr`` is in decibels, None for equal pictures.
    """
    found, true = _grey(background), _grey(truth)
    difference = np.abs(found - true)
    wrong = difference > ERROR_PIXEL
    inner = np.pad(wrong, 1)  # beyond the border there is no error pixel
    clustered = wrong & inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
    square = float((difference**2).mean())
    return {
        "age": float(difference.mean()),
        "peps": float(wrong.mean()),
        "pceps": float(clustered.mean()),
        "psnr": None if square == 0 else 10 * math.log10(255**2 / square),
    }


def _grey(picture: FrameArray) -> Picture:
    """Return a grey or RGB picture as grey levels (height, width), 0 to 255."""
    grey = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return grey.astype(np.float64)


# --- Clips with true masks -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrueClip:
    """A clip, its true masks and its true background."""

    name: str
    category: str
    numbers: list[int]  # of the frames, in the names of their files
    frame: Callable[[int], FrameArray]  # returns a frame by its position
    scored: Collection[int]  # positions of the frames that have a true mask
    mask: Callable[[int], FrameArray]  # returns the true mask of the frame at a position
    background: FrameArray | None

    def frames(self) -> Iterator[FrameArray]:
        """Yield all frames."""
        return (self.frame(index) for index in range(len(self.numbers)))


def find_clips(argument: str) -> list[str]:
    """Return the clips of a folder with `input` and `groundtruth`, or of one that holds such folders at any depth."""
    folder = Path(argument)
    if not folder.is_dir():
        raise UnreadableError(f"{argument}: there is no such folder")
    found = sorted(path.parent for path in [folder / "input", *folder.rglob("input")] if path.is_dir())
    clips = list(dict.fromkeys(str(path) for path in found if (path / "groundtruth").is_dir()))
    if clips:
        return clips
    raise UnreadableError(f"{argument}: holds no folder with input and groundtruth; see changedetection.net")


def read_clip(source: str | Path) -> TrueClip:
    """Open a clip in CDnet's form, of which only frames in the temporal region of interest are scored."""
    folder = Path(source)
    frames = _numbered(folder / "input")
    truths = _numbered(folder / "groundtruth")
    if not frames or not truths:
        raise UnreadableError(f"{folder}: input or groundtruth holds no numbered picture")
    first, last = _temporal_roi(folder)
    numbers = sorted(frames)
    scored = {at for at, number in enumerate(numbers) if number in truths and first <= number <= last}
    if not scored:
        raise UnreadableError(f"{folder}: no frame has a true mask")

    def frame(position: int) -> FrameArray:
        """Read the frame at a position, counted from 0."""
        return _eight_bits(frames[numbers[position]])

    def mask(position: int) -> FrameArray:
        """Read the true mask (height, width) of the frame at a position, counted from 0."""
        path, shape = truths[numbers[position]], frame(position).shape[:2]
        truth = to_grey8(read_image(path))
        if truth.shape != shape:
            raise UnsupportedError(f"{path}: has another size, {sized(truth.shape)}, than its frame, {sized(shape)}")
        return truth

    background = next((_eight_bits(folder / name) for name in BACKGROUNDS if (folder / name).is_file()), None)
    return TrueClip(
        name=folder.name,
        category=folder.resolve().parent.name,
        numbers=numbers,
        frame=frame,
        scored=scored,
        mask=mask,
        background=background,
    )


def _numbered(folder: Path) -> dict[int, Path]:
    """Return the pictures of a folder by the number at the end of their names; those without a number are left out."""
    pictures = (path for path in folder.iterdir() if path.suffix.lower() in choices.IMAGE_SUFFIXES)
    found = ((re.search(r"(\d+)$", path.stem), path) for path in sorted(pictures))
    return {int(number[1]): path for number, path in found if number}


def _temporal_roi(folder: Path) -> tuple[float, float]:
    """Return the numbers of the first and the last frame that are scored: of all frames, if no file limits them."""
    path = folder / "temporalROI.txt"
    if not path.is_file():
        return 0, float("inf")
    words = read_text(path, "text file", "latin-1").split(maxsplit=2)[:2]
    if len(words) < 2 or not all(word.isdecimal() for word in words):
        raise UnreadableError(f"{path}: must hold the first and the last frame, as in 570 2050")
    return int(words[0]), int(words[1])


def _eight_bits(path: Path) -> FrameArray:
    """Read a picture; raise UnsupportedError unless it has 8 bits a channel."""
    picture = read_image(path)
    if picture.dtype != np.uint8:
        raise UnsupportedError(f"{path}: must have 8 bits a channel")
    return np.asarray(picture)
