"""Images and videos of a folder, or one video, as grey rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count
from visionnmf.choices import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io.images import read_image
from visionnmf.io.pixels import resize_grey, to_grey8
from visionnmf.io.video import VideoReader

from .base import Sequential

__all__ = ["PictureRows", "pictures_of"]

Array = NDArray[Any]


def pictures_of(folder: Path) -> list[Path]:
    """Return the images and videos of a folder and those below it, by their names.

    Raises
    ------
    UnreadableError
        If there are none, or the folder may not be read.
    """
    suffixes = (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES)
    try:
        found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
    except OSError as error:
        raise UnreadableError(f"{folder}: cannot be read ({error.strerror})") from error
    if not found:
        raise UnreadableError(f"{folder}: holds no image and no video ({', '.join(suffixes)})")
    return found


class PictureRows(Sequential):
    """Images, and frames of videos, all scaled to the size of the first; what cannot be read is left out, and noted.

    Parameters
    ----------
    paths : list of Path
        What has no suffix of an image is taken for a video.
    name : str
        For messages.
    longest_side : int or None, default=None
        Pixels. The size of the first is scaled down where a side is longer.

    Raises
    ------
    UnreadableError, UnsupportedError or TooLargeError
        If none of them can be read; what is wrong with the first.
    """

    can_reorder = True

    def __init__(self, paths: list[Path], name: str, longest_side: int | None = None) -> None:
        super().__init__()
        self.name = name
        longest = math.inf if longest_side is None else check_count(longest_side, "longest_side")
        self._paths, self._order = paths, paths
        first = next(self._pictures(), None)
        if first is None:
            raise UnreadableError(f"{self.skipped[0]}" if len(paths) == 1 else self._nothing())
        scale = min(1.0, longest / max(first.shape[:2]))
        self.image_shape = (max(1, round(scale * first.shape[0])), max(1, round(scale * first.shape[1])))
        self.n_features = math.prod(self.image_shape)

    def _nothing(self) -> str:
        return f"{self.name}: holds nothing that can be read; {self.skipped[0]}"

    def reorder(self, rng: np.random.Generator) -> None:
        """Take the files in a new order; see :meth:`Chunks.reorder`.

        Parameters
        ----------
        rng : Generator
        """
        self._order = [self._paths[i] for i in rng.permutation(len(self._paths))]

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield pictures; see :meth:`Sequential.pieces`.

        Parameters
        ----------
        size : int

        Yields
        ------
        ndarray of float32 [shape=(n, height * width), 0 to 1]
        """
        rows: list[Array] = []
        for picture in self._pictures():
            assert self.image_shape is not None
            rows.append(resize_grey(to_grey8(picture), self.image_shape).ravel())
            if len(rows) == size:
                yield np.array(rows, np.float32) / np.float32(255)
                rows = []
        if rows:
            yield np.array(rows, np.float32) / np.float32(255)

    def _pictures(self) -> Iterator[Array]:
        self.skipped = []
        for path in self._order:
            try:
                if path.suffix.lower() in IMAGE_SUFFIXES:
                    yield _image(path)
                else:
                    yield from self._frames(path)
            except MediaError as error:
                self.skipped.append(str(error))

    def _frames(self, path: Path) -> Iterator[Array]:
        with VideoReader(path) as reader:
            yield from reader
            if reader.truncated:
                self.skipped.append(f"{path}: {reader.problem}")


def _image(path: Path) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of transparency, once an image
        return read_image(path)
