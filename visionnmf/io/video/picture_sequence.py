"""Read the pictures of a folder as the frames of a video."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_frames_wanted, check_number
from visionnmf.choices import IMAGE_SUFFIXES
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError
from visionnmf.io.images import read_with_notes
from visionnmf.io.inputs import pictures_of

from .reader import FALLBACK_RATE

__all__ = ["PictureSequence"]

SHOWN = 3  # names of unreadable pictures in a message


class PictureSequence:
    """Read the pictures of a folder or a pattern as frames; the attributes are those of :class:`.VideoReader`.

    A picture that cannot be read, or has another size than the first, is left out. The frames after it keep their
    times.

    Parameters
    ----------
    source : str or Path
        A folder, or a pattern such as ``"frames/*.png"``.
    frame_rate : float, optional
        Frames per second; 25 if not given.
    every, max_frames, scale, start, end : optional
        See :class:`.VideoReader`.

    Attributes
    ----------
    width, height : int
    frame_rate : Fraction
    declared_frames : int
        The number of pictures.
    time : float
    frames_read, damaged : int
        The numbers of pictures that were read and that could not be read.

    Raises
    ------
    UnreadableError
        If there is no picture, or the first one cannot be read.
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import PictureSequence, write_image
    >>> Path("frames").mkdir(exist_ok=True)
    >>> for number in (9, 10):
    ...     write_image(f"frames/{number}.png", np.full((8, 9, 3), number, np.uint8), force=True)
    >>> [int(frame[0, 0, 0]) for frame in PictureSequence("frames")]
    [9, 10]
    """

    begins_anew, has_sound, frame_rate_known, truncated, reconnections = True, False, True, False, 0

    def __init__(
        self,
        source: str | Path,
        *,
        frame_rate: float | None = None,
        every: int = 1,
        max_frames: int | None = None,
        scale: float = 1.0,
        start: float = 0.0,
        end: float | None = None,
    ) -> None:
        check_frames_wanted(every, max_frames, scale, start, end)
        self.path = Path(source)
        self._pictures = pictures_of(source)
        if not self._pictures:
            raise UnreadableError(f"{source}: no picture in it ({', '.join(IMAGE_SUFFIXES)})")
        self.frame_rate = FALLBACK_RATE
        if frame_rate is not None:
            check_number(frame_rate, "frame_rate", 0, 1000, without_low=True)
            self.frame_rate = Fraction(frame_rate).limit_denominator(1001)
        self._wanted = (every, max_frames, start, end)
        self._said: dict[str, tuple[str, int]] = {}  # by note: the first picture that has it, and how many have
        self._size = self._read(self._pictures[0]).shape[1::-1]
        self.width, self.height = (max(1, round(side * scale)) for side in self._size)
        self.declared_frames = len(self._pictures)
        self.time = 0.0
        self.frames_read = self.damaged = 0
        self.problem: str | None = None

    @property
    def notes(self) -> list[str]:
        """Sentences about the last loop."""
        said = [f"{first}: {note}{f' (and {n - 1} more)' * (n > 1)}" for note, (first, n) in self._said.items()]
        return [*([] if self.problem is None else [self.problem]), *said]

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the wanted pictures as RGB frames, from the first one again in each loop.

        A picture's time follows from its number. Pictures that cannot be read or differ in size are left out and
        described in `problem`. Raises ParameterError if no picture lies after `start`.
        """
        every, max_frames, start, end = self._wanted
        # `passed` counts the pictures between start and end, and `delivered` those that were yielded.
        self.frames_read = self.damaged = delivered = passed = 0
        self.problem = None
        self._said = {}
        left_out: list[str] = []
        for number, path in enumerate(self._pictures):
            time = float(number / self.frame_rate)
            if time < start:
                continue
            if end is not None and time >= end:
                break
            passed += 1
            if (passed - 1) % every:  # only every n-th picture is wanted, the first among them
                continue
            try:
                frame = self._read(path)
            except MediaError:
                frame = None
            if frame is None or frame.shape[1::-1] != self._size:
                left_out.append(os.path.basename(path))
                self.damaged = len(left_out)
                more = ", ..." if self.damaged > SHOWN else ""
                self.problem = (
                    f"{self.damaged} of {len(self._pictures)} pictures cannot be read or are of another size, and were "
                    f"left out ({', '.join(left_out[:SHOWN])}{more})"
                )
                continue
            self.frames_read += 1
            self.time = time
            if frame.shape[1::-1] != (self.width, self.height):
                frame = np.asarray(cv2.resize(frame, (self.width, self.height), interpolation=cv2.INTER_AREA))
            delivered += 1
            yield frame
            if delivered == max_frames:
                return
        if not passed:
            last = len(self._pictures) / float(self.frame_rate)
            raise ParameterError(f"start must lie in the video, before its end at {last:.3f} s; got {start:g}")

    def _read(self, path: str) -> NDArray[np.uint8]:
        """Read a picture as 8-bit RGB, and remember the notes on it. 16-bit values are divided by 257 and rounded."""
        picture, notes = read_with_notes(path)
        for note in notes:
            first, count = self._said.get(note, (os.path.basename(path), 0))
            self._said[note] = first, count + 1
        return picture if picture.dtype == np.uint8 else ((picture.astype(np.uint32) + 128) // 257).astype(np.uint8)
