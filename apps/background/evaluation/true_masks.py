"""Clips with true masks: folders as changedetection.net has them, and the research data of :mod:`.datasets.local`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf.datasets.local import MASKED_VIDEOS, load_video_with_masks
from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io import read_image, to_grey8

__all__ = ["TrueClip", "find_clips", "read_clip"]

FrameArray = NDArray[np.uint8]

BACKGROUNDS = ("background_gt.png", "GT_background.png", "GT_background1.png")
_NUMBER = re.compile(r"(\d+)$")


@dataclass(frozen=True)
class TrueClip:
    """A clip, its true masks and its true background.

    Attributes
    ----------
    name, category : str
    numbers : list of int
        The numbers of the frames in the names of their files.
    frame : callable
        Returns a frame by its position.
    masks : dict of int to callable
        By position, what returns the true mask of a frame that has one.
    background : ndarray of uint8 or None
    """

    name: str
    category: str
    numbers: list[int]
    frame: Callable[[int], FrameArray]
    masks: dict[int, Callable[[], FrameArray]]
    background: FrameArray | None

    def frames(self) -> Iterator[FrameArray]:
        """Yield all frames."""
        return (self.frame(index) for index in range(len(self.numbers)))


def find_clips(argument: str) -> list[str]:
    """Return the clips of a folder with `input` and `groundtruth`, or of one that holds such folders at any depth.

    The name of a clip of the research data is itself. Raises UnreadableError where there is none.
    """
    folder = Path(argument)
    if folder.is_dir():
        found = sorted(path.parent for path in [folder / "input", *folder.rglob("input")] if path.is_dir())
        clips = list(dict.fromkeys(str(path) for path in found if (path / "groundtruth").is_dir()))
        if clips:
            return clips
        raise UnreadableError(f"{argument}: holds no folder with input and groundtruth; see changedetection.net")
    if argument in MASKED_VIDEOS:
        return [argument]
    raise UnreadableError(f"{argument}: there is no such folder, and no clip of the research data has that name")


def read_clip(source: str) -> TrueClip:
    """Open a clip that :func:`find_clips` returned; raises UnreadableError for one without frames or true masks."""
    return _of_research(source) if source in MASKED_VIDEOS and not Path(source).is_dir() else _of_folder(Path(source))


def _of_research(name: str) -> TrueClip:
    video = load_video_with_masks(name)
    masks: dict[int, Callable[[], FrameArray]] = {
        int(index): partial(_one_of, video.gt_masks, i) for i, index in enumerate(video.gt_index)
    }
    return TrueClip(
        name,
        name.split("_")[0],
        list(range(1, len(video.frames) + 1)),
        partial(_one_of, video.frames),
        masks,
        video.background,
    )


def _one_of(pictures: FrameArray, index: int) -> FrameArray:
    return pictures[index]


def _of_folder(folder: Path) -> TrueClip:
    frames = _numbered(folder / "input")
    truths = _numbered(folder / "groundtruth")
    if not frames or not truths:
        raise UnreadableError(f"{folder}: input or groundtruth holds no numbered picture")
    first, last = _temporal_roi(folder)
    numbers = sorted(frames)

    def mask(number: int) -> FrameArray:
        truth = to_grey8(read_image(truths[number]))
        shape = read_image(frames[number]).shape[:2]
        if truth.shape != shape:
            raise UnsupportedError(f"{truths[number]}: has another size, {truth.shape}, than its frame, {shape}")
        return truth

    masks: dict[int, Callable[[], FrameArray]] = {
        position: partial(mask, number)
        for position, number in enumerate(numbers)
        if number in truths and first <= number <= last
    }
    if not masks:
        raise UnreadableError(f"{folder}: no frame has a true mask")
    background = next((folder / name for name in BACKGROUNDS if (folder / name).is_file()), None)
    return TrueClip(
        folder.name,
        folder.resolve().parent.name,
        numbers,
        lambda index: _eight_bits(frames[numbers[index]]),
        masks,
        None if background is None else _eight_bits(background),
    )


def _numbered(folder: Path) -> dict[int, Path]:
    """Return the pictures of a folder by the number at the end of their names."""
    pictures = (path for path in folder.iterdir() if path.suffix.lower() in choices.IMAGE_SUFFIXES)
    found = ((_NUMBER.search(path.stem), path) for path in sorted(pictures))
    return {int(number[1]): path for number, path in found if number}


def _temporal_roi(folder: Path) -> tuple[float, float]:
    """Return the first and the last frame that are scored."""
    path = folder / "temporalROI.txt"
    if not path.is_file():
        return 0, float("inf")
    words = path.read_text(errors="replace").split()[:2]
    if len(words) < 2 or not all(word.isdecimal() for word in words):
        raise UnreadableError(f"{path}: must hold the first and the last frame, as in 570 2050")
    return int(words[0]), int(words[1])


def _eight_bits(path: Path) -> FrameArray:
    picture = read_image(path)
    if picture.dtype != np.uint8:
        raise UnsupportedError(f"{path}: must have 8 bits a channel")
    return np.asarray(picture)
