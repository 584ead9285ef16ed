"""Images of a folder and frames of a video, as grey rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io.images import read_image
from visionnmf.io.pixels import resize_grey, to_grey8
from visionnmf.io.video import VideoReader

from .base import Sequential

__all__ = ["IMAGE_SUFFIXES", "FolderRows", "VideoRows"]

Array = NDArray[Any]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".pgm", ".ppm", ".pnm")


class _Pictures(Sequential):
    """Pictures of one size: that of the first, scaled down where a side is longer than is wanted."""

    def __init__(self, name: str, longest_side: int | None) -> None:
        super().__init__()
        self.name = name
        self._longest = math.inf if longest_side is None else check_count(longest_side, "longest_side")

    def _set_shape(self, height: int, width: int) -> None:
        scale = min(1.0, self._longest / max(height, width))
        self.image_shape = (max(1, round(scale * height)), max(1, round(scale * width)))

    def _row(self, picture: Array) -> Array:
        grey = to_grey8(picture)
        if self.image_shape is None:
            self._set_shape(*grey.shape)
        assert self.image_shape is not None
        return resize_grey(grey, self.image_shape).ravel()


def _gathered(rows: Iterator[Array], size: int) -> Iterator[Array]:
    """Yield rows of bytes as matrices of numbers from 0 to 1."""
    gathered: list[Array] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) == size:
            yield np.array(gathered, np.float32) / np.float32(255)
            gathered = []
    if gathered:
        yield np.array(gathered, np.float32) / np.float32(255)


class FolderRows(_Pictures):
    """The images of a folder and those below it, by their names; what cannot be read is left out, and noted.

    Parameters
    ----------
    folder : str or Path
    longest_side : int or None, default=None
        Pixels. All are scaled to the size of the first, which is scaled down where a side is longer.
    """

    def __init__(self, folder: str | Path, longest_side: int | None = None) -> None:
        super().__init__(str(folder), longest_side)
        try:
            found = (path for path in Path(folder).rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
            self.paths = sorted(path for path in found if path.is_file())
        except OSError as error:
            raise UnreadableError(f"{folder}: cannot be read ({error.strerror})") from error
        if not self.paths:
            raise UnreadableError(f"{folder}: holds no image ({', '.join(IMAGE_SUFFIXES)})")

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield images; see :meth:`Sequential.pieces`.

        Parameters
        ----------
        size : int

        Yields
        ------
        ndarray of float32 [shape=(n, height * width), 0 to 1]

        Raises
        ------
        UnreadableError
            If none of them can be read.
        """
        self.skipped = []
        yield from _gathered(self._rows(), size)
        if len(self.skipped) == len(self.paths):
            raise UnreadableError(f"{self.name}: holds no image that can be read; {self.skipped[0]}")

    def _rows(self) -> Iterator[Array]:
        for path in self.paths:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of transparency, once an image
                    picture = read_image(path)
            except MediaError as error:
                self.skipped.append(str(error))
                continue
            yield self._row(picture)


class VideoRows(_Pictures):
    """The frames of a video.

    Parameters
    ----------
    path : str or Path
    longest_side : int or None, default=None
        Pixels; frames are scaled down where a side is longer.
    """

    def __init__(self, path: str | Path, longest_side: int | None = None) -> None:
        super().__init__(str(path), longest_side)
        self._reader = VideoReader(path)
        self._set_shape(self._reader.height, self._reader.width)
        assert self.image_shape is not None
        self.n_features = math.prod(self.image_shape)

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield frames; see :meth:`Sequential.pieces`.

        Parameters
        ----------
        size : int

        Yields
        ------
        ndarray of float32 [shape=(n, height * width), 0 to 1]
        """
        self.skipped = []
        yield from _gathered(map(self._row, self._reader), size)
        if self._reader.truncated:
            self.skipped = [f"{self.name}: {self._reader.problem}"]

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
