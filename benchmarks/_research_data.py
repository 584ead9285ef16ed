"""Readers for the photographs and faces of :func:`visionnmf.datasets.local.data_folder`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visionnmf.datasets import Faces, load_faces
from visionnmf.datasets.local import data_file
from visionnmf.exceptions import UnreadableError
from visionnmf.io import read_arrays, read_image

__all__ = ["FACE_SETS", "SegmentedImage", "load_bsds", "load_face_set"]

# the set, and height and width of its images
FACE_SETS = (
    "orl_32x32", "orl_112x92", "yale_32x32", "yale_64x64", "yaleb_32x32", "yaleb27_96x84", "umist_28x23",
    "lfw20_120x120", "cbcl_19x19",
)  # fmt: skip


@dataclass(frozen=True)
class SegmentedImage:
    """A photograph (height, width, 3) and the segmentations (n_annotators, height, width) of several people.

    Segments are numbered from 1; `name` is the number of the photograph in the data set.
    """

    name: str
    image: NDArray[np.uint8]
    segmentations: NDArray[np.uint8]


def load_bsds(part: str = "test") -> Iterator[SegmentedImage]:
    """Yield the photographs of BSDS500 (Arbelaez et al. 2011) that are here, sorted by number.

    "test" photographs are for reporting only, "train" photographs for choosing and learning.
    """
    folder = data_file({"test": "bsds", "train": "bsds_train"}[part])
    photographs = sorted(folder.glob("*.jpg"), key=lambda path: (len(path.stem), path.stem))
    if not photographs:
        raise UnreadableError(f"{folder} holds no photographs (*.jpg).")
    for path in photographs:
        segmentations = read_arrays(path.with_suffix(".npz"), ["segmentations"])["segmentations"]
        yield SegmentedImage(path.stem, read_image(path), segmentations)


def load_face_set(name: str) -> Faces:
    """Return one of `FACE_SETS`: ORL, Yale, Extended Yale B, UMIST, LFW, or CBCL, whose faces have no names."""
    return load_faces(data_file(f"{name}.npz"))
