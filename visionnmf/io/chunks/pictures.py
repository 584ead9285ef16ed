"""Images of a folder and frames of a video, as grey rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_image_shape
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io.images import read_image
from visionnmf.io.pixels import resize_grey, to_grey8
from visionnmf.io.video import VideoReader

from .base import Sequential

__all__ = ["IMAGE_SUFFIXES", "FolderRows", "VideoRows"]

Array = NDArray[Any]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".pgm", ".ppm", ".pnm")


class _Pictures(Sequential):
    """Pictures of one size.

    Attributes
    ----------
    image_shape : tuple of two ints or None
        Height and width of a row; None before the first was read.
    """

    image_shape: tuple[int, int] | None = None

    def _row(self, picture: Array) -> Array:
        grey = to_grey8(picture)
        if self.image_shape is None:
            self.image_shape = (grey.shape[0], grey.shape[1])
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
    image_shape : tuple of two ints or None, default=None
        Height and width to which each is scaled; None takes those of the first.
    """

    def __init__(self, folder: str | Path, image_shape: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.name = str(folder)
        self.image_shape = None if image_shape is None else check_image_shape(image_shape)
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
    image_shape : tuple of two ints or None, default=None
        Height and width to which each is scaled; None takes them as they are.
    """

    def __init__(self, path: str | Path, image_shape: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.name = str(path)
        self._reader = VideoReader(path)
        self.image_shape = (
            (self._reader.height, self._reader.width) if image_shape is None else check_image_shape(image_shape)
        )

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
