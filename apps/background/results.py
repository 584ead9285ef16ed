"""The files that ``visionnmf background`` writes."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import PASS_FORCE, MediaError, OutputExistsError, ParameterError
from visionnmf.io import VideoWriter, is_live, output_folder, pictures_of, write_image
from visionnmf.io.inputs import stem_of

from .frames import Separated
from .tables import time_code

__all__ = ["Encoders", "MaskFolder", "files_of", "output_paths", "tinted"]

FrameArray = NDArray[np.uint8]

QUEUED_FRAMES, QUEUED_PIXELS = 4, 4 << 20  # at most so many may wait for an encoder, but always one frame
# Pixels: the three parts of a wider video's preview are reduced to this, as many players refuse widths above 4096.
PREVIEW_WIDTH = 640
NUMBERED = "######.png"  # a mask's name, where # stands for any digit
CAPTION_HEIGHT, CAPTION_WIDTH = 20, 150  # pixels: of the line above a picture, and the least that it needs
TINT = (255, 0, 255)


def output_paths(
    stem: Path, write_video: bool, keep_model: bool, masks: str = "ffv1", overlay: bool = False
) -> dict[str, Path]:
    """Return the file of each result, whose names begin with `stem`; of masks as pictures there is none."""
    names = {"image": "background.png"}
    if keep_model:
        names["model"] = "model.npz"
    if write_video:
        names |= {"background": "background.mp4", "preview": "preview.mp4"}
    if write_video and masks != "png":
        names["foreground"] = f"foreground.{'mkv' if masks == 'ffv1' else 'mp4'}"
    if overlay:
        names["overlay"] = "overlay.mp4"
    return {kind: stem.with_name(f"{stem.name}_{name}") for kind, name in names.items()}


def files_of(source: str | Path, out: Path, *, numbered: bool) -> list[str]:
    """Return the files of a source; raises where results in `out` would be among its pictures the next time.

    Parameters
    ----------
    source : str or Path
    out : Path
    numbered : bool
        Masks are written as pictures.
    """
    pictures = [] if is_live(source) else pictures_of(source)
    folders = {os.path.realpath(os.path.dirname(picture)) for picture in pictures}
    if pictures and (os.path.realpath(out) in folders or _would_match(str(source), out, numbered)):
        raise ParameterError(
            f"out must not be a folder of the pictures of {source}, where results would be frames the next time; "
            f"got {out}; give another"
        )
    return pictures or [str(source)]


def _would_match(pattern: str, out: Path, numbered: bool) -> bool:
    """Whether a pattern (``**`` for any number of folders) would find pictures in a folder, be it there yet or not."""
    if not glob.has_magic(pattern) or os.path.isdir(pattern):
        return False
    parts = Path(os.path.abspath(pattern)).parts
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    folder = Path(os.path.realpath(Path(*parts[:fixed])))
    names = [f"{stem_of(pattern)}_background.png"] + [f"{stem_of(pattern)}_masks/{NUMBERED}"] * numbered
    found = (Path(os.path.realpath(out), name) for name in names)
    return any(path.is_relative_to(folder) and _match(path.relative_to(folder).parts, parts[fixed:]) for path in found)


def _match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_match(parts[start:], patterns[1:]) for start in range(len(parts) + 1))
    return bool(parts) and _is_named(parts[0].lower(), patterns[0].lower()) and _match(parts[1:], patterns[1:])


def _is_named(name: str, pattern: str) -> bool:
    return _meets(name, re.sub(r"\*+", "*", pattern)) if name == NUMBERED else fnmatch.fnmatch(name, pattern)


def _meets(name: str, pattern: str) -> bool:
    """Whether a pattern finds a name whose # stand for any digit: no list of a million names is asked."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return _meets(name, pattern[1:]) or (bool(name) and _meets(name[1:], pattern))
    found = re.match(r"\[!?\]?[^\]]*\]|.", pattern, re.DOTALL)
    token = found[0] if found else pattern
    letters = "0123456789" if name[:1] == "#" else name[:1]
    return any(fnmatch.fnmatchcase(letter, token) for letter in letters) and _meets(name[1:], pattern[len(token) :])


class _Encoder(NamedTuple):
    """One video, its thread, and the frames that wait."""

    writer: VideoWriter
    pool: ThreadPoolExecutor
    waiting: deque[Future[None]]


class Encoders:
    """The videos, each encoded in a thread of its own, beside the modelling; they begin with their first frame.

    Parameters
    ----------
    paths : dict of str to Path
        Of "background", "foreground", "preview" and "overlay", those that are wanted.
    width, height : int
        Of the frames, in pixels.
    frame_rate : Fraction
    varies : bool
        Frames are shown at times of their own.
    force : bool
        Replace what exists.
    alpha : float from 0 to 1, default=0.5
        Share of the colour of foreground in the overlay.
    """

    def __init__(
        self,
        paths: dict[str, Path],
        width: int,
        height: int,
        frame_rate: Fraction,
        *,
        varies: bool,
        force: bool,
        alpha: float = 0.5,
    ) -> None:
        self._varies, self._alpha = varies, alpha
        self._start: float | None = None
        self._room = min(QUEUED_FRAMES, max(1, QUEUED_PIXELS // (width * height)))
        self._stack = ExitStack()
        self._panel = (width, height)
        if width > PREVIEW_WIDTH:
            # even, so that H.264 takes it
            self._panel = (PREVIEW_WIDTH, max(2, 2 * round(height * PREVIEW_WIDTH / width / 2)))
        self._encoders: dict[str, _Encoder] = {}
        for kind in ("background", "foreground", "preview", "overlay"):
            if kind in paths:
                preview = kind == "preview"
                writer = VideoWriter(
                    paths[kind],
                    width=3 * self._panel[0] if preview else width,
                    height=self._panel[1] + CAPTION_HEIGHT if preview else height,
                    frame_rate=frame_rate,
                    codec="ffv1" if paths[kind].suffix == ".mkv" else "h264",
                    grey=kind == "foreground",
                    timed=varies,
                    force=force,
                )
                self._encoders[kind] = _Encoder(writer, ThreadPoolExecutor(1), deque())

    def __enter__(self) -> Encoders:
        with ExitStack() as stack:
            for encoder in self._encoders.values():
                stack.enter_context(encoder.writer)
                stack.enter_context(encoder.pool)  # left first: no write goes to a closed writer
            stack.push(self._flush)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, part: Separated, time: float) -> None:
        """Hand one frame, shown at `time` seconds, to the encoders; waits while they are too far behind."""
        self._start = time if self._start is None else self._start
        self._time = time - self._start if self._varies else None
        self._give("background", part.background)
        self._give("foreground", part.mask)
        if "preview" in self._encoders:
            mask = cv2.cvtColor(part.mask, cv2.COLOR_GRAY2RGB)
            panels = [part.frame, part.background, mask]
            if panels[0].shape[1::-1] != self._panel:
                panels = [cv2.resize(panel, self._panel, interpolation=cv2.INTER_AREA) for panel in panels]
            words = (f"frame {part.index}, {time_code(time)}", "background", "foreground")
            shown = [captioned(np.asarray(panel), text) for panel, text in zip(panels, words, strict=True)]
            self._give("preview", np.hstack(shown))
        if "overlay" in self._encoders:
            self._give("overlay", tinted(part.frame, part.mask, self._alpha))

    def _give(self, kind: str, frame: FrameArray) -> None:
        if kind not in self._encoders:
            return
        encoder = self._encoders[kind]
        encoder.waiting.append(encoder.pool.submit(encoder.writer.write, frame, self._time))
        if len(encoder.waiting) > self._room:
            encoder.waiting.popleft().result()

    def _flush(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Wait for every frame and raise what an encoder has raised, if all went well so far."""
        for encoder in self._encoders.values():
            while encoder.waiting and kind is None:
                encoder.waiting.popleft().result()


class MaskFolder:
    """Masks as pictures, ``000000.png`` and so on, by the numbers of their frames.

    Parameters
    ----------
    folder : Path
        Made if missing.
    force : bool
        Replace what exists.

    Raises
    ------
    OutputExistsError
        If there are files in it, and `force` is false.
    MediaError
        If it is a file.
    """

    def __init__(self, folder: Path, *, force: bool) -> None:
        self.folder, self._force = folder, force
        if os.path.lexists(folder) and not folder.is_dir():
            raise MediaError(f"{folder}: is no folder; move it, or give another output folder")
        if not force and folder.is_dir() and any(folder.iterdir()):
            raise OutputExistsError(f"{folder}: holds files already; {PASS_FORCE}")

    def write(self, part: Separated) -> None:
        """Write the mask of a frame."""
        output_folder(self.folder)
        write_image(self.folder / f"{part.index:06d}.png", part.mask, force=self._force)

    def clear(self, first: int) -> None:
        """Remove masks of a run before: those from number `first` on."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        for path in list(found):
            if re.fullmatch(r"[0-9]{6,}\.png", path.name) and int(path.stem) >= first:
                path.unlink(missing_ok=True)


def tinted(frame: FrameArray, mask: FrameArray, alpha: float) -> FrameArray:
    """Return a frame whose foreground is coloured, and outlined.

    Parameters
    ----------
    frame : ndarray of uint8 [shape=(height, width, 3)]
    mask : ndarray of uint8 [shape=(height, width)]
    alpha : float from 0 to 1
        Share of the colour.
    """
    shown = np.where(mask[..., None] > 0, np.asarray(cv2.addWeighted(frame, 1 - alpha, _like(frame), alpha, 0)), frame)
    outlines = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]
    return np.asarray(cv2.drawContours(np.ascontiguousarray(shown), outlines, -1, TINT, 1), np.uint8)


def _like(frame: FrameArray) -> FrameArray:
    return np.broadcast_to(np.array(TINT, np.uint8), frame.shape).copy()


def captioned(picture: FrameArray, text: str) -> FrameArray:
    """Return a picture with a line above it; too narrow ones are left without words."""
    above = np.zeros((CAPTION_HEIGHT, picture.shape[1], 3), np.uint8)
    if picture.shape[1] >= CAPTION_WIDTH:
        cv2.putText(above, text, (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return np.vstack([above, picture])
