"""Images and videos of a folder, or one video, as grey rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_count
from visionnmf.choices import IMAGE_SUFFIXES
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io.images import read_with_notes
from visionnmf.io.pixel_conversion import resize_grey, to_grey8
from visionnmf.io.video.reader import VideoReader

from .base import Sequential

Array = NDArray[Any]

DISTORTED = 0.1  # a ratio of the sides that changes by more distorts a picture


class PictureRows(Sequential):
    """Images and the frames of videos as grey rows, all scaled to the size of the first one.

    A path without the suffix of an image is opened as a video. What cannot be read is left out and listed in `skipped`.
    """

    can_reorder = True

    def __init__(self, paths: list[Path], name: str, longest_side: int | None = None) -> None:
        """Open the images and videos; the first that can be read gives the size, of sides up to `longest_side`.

        Raises UnreadableError if none can be read. `name` is that of their folder or file, for messages.
        """
        super().__init__()
        self.name = name
        longest = math.inf if longest_side is None else check_count(longest_side, "longest_side")
        self._paths, self._order = paths, paths  # the files as they were given, and in the order in which they are read
        first = next(self._pictures(), None)  # all pictures are scaled to its size, or to `longest` pixels a side
        if first is None:
            several = f"{name}: holds nothing that can be read; " if len(paths) > 1 else ""
            raise UnreadableError(f"{several}{self.skipped[0]}")
        self._first_shape = first.shape[:2]  # (height, width) before scaling
        scale = min(1.0, longest / max(first.shape[:2]))
        self.image_shape = (max(1, round(scale * first.shape[0])), max(1, round(scale * first.shape[1])))
        self.n_features = math.prod(self.image_shape)

    def reorder(self, rng: np.random.Generator) -> None:
        """Draw a new order in which the files (`_paths`) are read (`_order`); the frames of a video stay in theirs."""
        self._order = [self._paths[i] for i in rng.permutation(len(self._paths))]

    def pieces(self, size: int) -> Iterator[Array]:
        """Yield arrays (`size`, n_features) of float32, 0 to 1, of scaled pictures; `notes` counts other sizes."""
        rows: list[Array] = []
        count = others = distorted = 0  # pictures, those of another size than the first, those of another shape
        assert self.image_shape is not None
        for picture in self._pictures():
            height, width = picture.shape[:2]
            count += 1
            others += (height, width) != self._first_shape  # the size of the first picture
            distorted += abs(height * self.image_shape[1] / (width * self.image_shape[0]) - 1) > DISTORTED
            rows.append(resize_grey(to_grey8(picture), self.image_shape).ravel())
            if len(rows) == size:
                yield np.array(rows, np.float32) / np.float32(255)
                rows = []
        if rows:
            yield np.array(rows, np.float32) / np.float32(255)
        self.notes = [self._scaled(count, others, distorted)] if others else []

    def _scaled(self, count: int, others: int, distorted: int) -> str:
        """Return a sentence about the `others` of `count` pictures that were scaled, `distorted` of them unevenly."""
        assert self.image_shape is not None
        sizes = [f"{shape[1]} x {shape[0]}" for shape in (self._first_shape, self.image_shape)]
        return (
            f"{others} of {count} pictures do not have the size of the first, {sizes[0]}; all were scaled to "
            f"{sizes[1]} pixels" + (f", and {distorted} are distorted by that" if distorted else "")
        )

    def _pictures(self) -> Iterator[Array]:
        """Yield all images and frames in the current order of files; list those that cannot be read in `skipped`."""
        self.skipped = []
        for path in self._order:
            try:
                if path.suffix.lower() in IMAGE_SUFFIXES:
                    yield read_with_notes(path)[0]
                    continue
                with VideoReader(path) as reader:
                    yield from reader
                    if reader.truncated:
                        self.skipped.append(f"{path}: {reader.problem}")
            except MediaError as error:
                self.skipped.append(str(error))
