"""Boxes of foreground as COCO annotations."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from visionnmf.apps.background.frame_arrays import Separated
from visionnmf.io import output_file

from .events import find_parts

__all__ = ["CocoFile"]

CATEGORY = {"id": 1, "name": "foreground", "supercategory": ""}


class CocoFile:
    """A file with an image for each frame and an annotation for each connected part of its mask.

    Annotations are written as they come, and the memory holds a row for each frame. Parts that cover a smaller share of
    the picture than `min_area` are left out; `force` replaces an existing file.
    """

    def __init__(self, path: Path, min_area: float, force: bool) -> None:
        self.path = path
        self._min_area, self._force = min_area, force
        self._images: list[dict[str, Any]] = []
        self._count = 0

    def __enter__(self) -> CocoFile:
        with ExitStack() as stack:
            temporary = stack.enter_context(output_file(self.path, force=self._force))
            self._file: TextIO = stack.enter_context(temporary.open("w", encoding="utf-8"))
            self._stack = stack.pop_all()
        self._file.write('{"annotations": [')
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is None:
            rest = json.dumps({"images": self._images, "categories": [CATEGORY]})
            self._file.write(f"], {rest[1:]}\n")
        self._stack.__exit__(kind, *error)

    def add(self, part: Separated, time: float) -> None:
        """Write the boxes of a frame that is shown at `time` seconds."""
        height, width = part.mask.shape
        number = len(self._images) + 1
        image = {"id": number, "file_name": f"{part.index:06d}.png", "width": width, "height": height}
        self._images.append(image | {"frame": part.index, "time": round(time, 6)})
        for box, area in find_parts(part.mask, self._min_area):
            self._count += 1
            found = {"id": self._count, "image_id": number, "category_id": CATEGORY["id"]}
            found |= {"bbox": list(box), "area": area, "iscrowd": 0}
            self._file.write(f"{', ' if self._count > 1 else ''}{json.dumps(found)}")
