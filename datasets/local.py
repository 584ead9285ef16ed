"""Readers for research data on this machine, for tests and benchmarks.

The files are in the folder that the environment variable VISIONNMF_DATA names, or else in ``../shared/data`` next to
the checkout. Nothing is downloaded. Most of the data sets may only be used for research, so none is part of this
project; ``datasets/README.md`` lists them with their terms.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_choice
from visionnmf.exceptions import MediaError, UnreadableError
from visionnmf.io import decode_image, read_arrays, read_image, to_grey8
from visionnmf.io.inputs import check_bytes

from ._faces import Faces, load_faces

__all__ = [
    "FACE_SETS",
    "MASKED_VIDEOS",
    "MaskedVideo",
    "SegmentedImage",
    "data_folder",
    "load_bsds",
    "load_face_set",
    "load_video_with_masks",
]

FACE_SETS: tuple[str, ...] = (
    "orl_32x32", "orl_112x92", "yale_32x32", "yale_64x64", "yaleb_32x32", "yaleb27_96x84", "umist_28x23",
    "lfw20_120x120", "cbcl_19x19",
)  # fmt: skip
"""Names for :func:`load_face_set`: the set, and height and width of its images."""

MASKED_VIDEOS: tuple[str, ...] = (
    "cdnet_highway", "cdnet_traffic", "sbi_hallandmonitor", "sbi_caviar1", "sbi_caviar2", "sbi_board", "sbi_candela",
    "sbi_cavignal", "sbi_highwayii", "sbi_peopleandfoliage", "sbi_snellen", "ucsd_boats", "ucsd_bottle", "ucsd_ocean",
    "wallflower_bootstrap", "wallflower_camouflage", "wallflower_foregroundaperture", "wallflower_lightswitch",
    "wallflower_movedobject", "wallflower_timeofday", "wallflower_wavingtrees",
)  # fmt: skip
"""Names for :func:`load_video_with_masks`."""


@dataclass(frozen=True)
class SegmentedImage:
    """A photograph and its segmentations by several people.

    Attributes
    ----------
    name : str
        The image's number in the data set.
    image : ndarray of uint8 [shape=(height, width, 3)]
        RGB.
    segmentations : ndarray of uint8 [shape=(n_annotators, height, width)]
        Segment numbers from 1, one segmentation per person.
    """

    name: str
    image: NDArray[np.uint8]
    segmentations: NDArray[np.uint8]


@dataclass(frozen=True)
class MaskedVideo:
    """A clip of a fixed camera with hand-drawn masks.

    Attributes
    ----------
    name : str
        One of `MASKED_VIDEOS`.
    frames : ndarray of uint8 [shape=(n_frames, height, width) or (n_frames, height, width, 3)]
        Grey or RGB.
    gt_index : ndarray of int [shape=(n_masks,)]
        Positions in `frames` of the frames that have a mask.
    gt_masks : ndarray of uint8 [shape=(n_masks, height, width)]
        255 is foreground, 0 background, 50 shadow, which counts as background. Other values are not scored.
    background : ndarray of uint8 [shape of one frame] or None
        The empty scene, if the set has it.
    """

    name: str
    frames: NDArray[np.uint8]
    gt_index: NDArray[np.integer]
    gt_masks: NDArray[np.uint8]
    background: NDArray[np.uint8] | None


def data_folder() -> Path | None:
    """Return the folder of research data (see the module), or None if there is none.

    Returns
    -------
    Path or None
    """
    named = os.environ.get("VISIONNMF_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def load_bsds(part: str = "test") -> Iterator[SegmentedImage]:
    """Read the available photographs of the Berkeley segmentation data set (BSDS500), sorted by number.

    Parameters
    ----------
    part : {"test", "train"}, default="test"
        Test photographs are for reporting only, training photographs for choosing and learning.

    Yields
    ------
    SegmentedImage
        One image with its segmentations, 321 by 481 pixels or 481 by 321.

    Raises
    ------
    UnreadableError
        If the data is not on this machine, or a file is damaged. It is raised at the first image concerned.

    References
    ----------
    P. Arbelaez, M. Maire, C. Fowlkes, J. Malik, "Contour detection and hierarchical image segmentation", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 33(5), 2011.
    """
    folder = _existing({"test": "bsds", "train": "bsds_train"}[check_choice(part, "part", ("test", "train"))])
    photographs = sorted(folder.glob("*.jpg"), key=lambda p: (len(p.stem), p.stem))
    if not photographs:
        raise UnreadableError(f"{folder} holds no photographs (*.jpg).")
    for path in photographs:
        image = read_image(path)
        segmentations = read_arrays(path.with_suffix(".npz"), ["segmentations"])
        yield SegmentedImage(path.stem, image, segmentations["segmentations"])


def load_video_with_masks(name: str) -> MaskedVideo:
    """Read a clip with masks: CDnet, SBI, UCSD or Wallflower.

    Parameters
    ----------
    name : str
        One of `MASKED_VIDEOS`.

    Returns
    -------
    MaskedVideo
        Frames and masks; "sbi_board", "sbi_cavignal" and the "wallflower" clips are grey, the others in colour.

    Raises
    ------
    ParameterError
        If there is no clip of that name.
    MediaError
        If the data is not on this machine, or the file is damaged or too large.

    References
    ----------
    N. Goyette, P.-M. Jodoin, F. Porikli, J. Konrad, P. Ishwar, "changedetection.net", CVPR Workshops 2012.
    L. Maddalena, A. Petrosino, "Towards benchmarking scene background initialization", ICIAP Workshops 2015.
    V. Mahadevan, N. Vasconcelos, "Spatiotemporal saliency in dynamic scenes", IEEE Transactions on Pattern Analysis and
    Machine Intelligence 32(1), 2010 (UCSD).
    K. Toyama, J. Krumm, B. Brumitt, B. Meyers, "Wallflower: principles and practice of background maintenance",
    ICCV 1999.
    """
    check_choice(name, "name", MASKED_VIDEOS)
    archive = _existing(".") / f"video_{name}.zip"
    if archive.is_file():
        return _read_frames_zip(name, archive)
    arrays = read_arrays(_existing(f"video_{name}.npz"), ["frames", "gt_index", "gt_masks"])
    return MaskedVideo(name, arrays["frames"], arrays["gt_index"], arrays["gt_masks"], None)


def load_face_set(name: str) -> Faces:
    """Read a set of faces: ORL, Yale, Extended Yale B, UMIST, LFW or CBCL.

    Parameters
    ----------
    name : str
        One of `FACE_SETS`. "yaleb27_96x84" holds 27 of the 38 people at a larger size, with the angles of the light in
        `files`; "lfw20_120x120" holds 20 people with 10 images each; "cbcl_19x19" has no names, all its labels are 0.

    Returns
    -------
    Faces
        Images and people.

    Raises
    ------
    ParameterError
        If there is no set of that name.
    MediaError
        If the data is not on this machine, or the file is damaged or too large.

    References
    ----------
    F. Samaria, A. Harter, "Parameterisation of a stochastic model for human face identification", WACV 1994 (ORL).
    P. Belhumeur, J. Hespanha, D. Kriegman, "Eigenfaces vs. Fisherfaces", IEEE Transactions on Pattern Analysis and
    Machine Intelligence 19(7), 1997 (Yale).
    A. Georghiades, P. Belhumeur, D. Kriegman, "From few to many: illumination cone models for face recognition under
    variable lighting and pose", IEEE Transactions on Pattern Analysis and Machine Intelligence 23(6), 2001 (Yale B).
    D. Graham, N. Allinson, in "Face Recognition: From Theory to Applications", NATO ASI F-163, 1998 (UMIST).
    G. Huang, M. Ramesh, T. Berg, E. Learned-Miller, "Labeled Faces in the Wild", UMass TR 07-49, 2007 (LFW).
    MIT Center for Biological and Computational Learning, "CBCL Face Database #1", 2000 (CBCL).
    """
    check_choice(name, "name", FACE_SETS)
    return load_faces(_existing(f"{name}.npz"))


def _existing(name: str) -> Path:
    """Return the path of a file of the research data, or raise UnreadableError."""
    folder = data_folder()
    if folder is None:
        named = os.environ.get("VISIONNMF_DATA")
        where = f"VISIONNMF_DATA names {named!r}, which is not a folder" if named else "VISIONNMF_DATA is not set"
        raise UnreadableError(f"No research data on this machine: {where}. Set it to the folder that holds the data.")
    path = folder / name
    if not path.exists():
        raise UnreadableError(f"{path} does not exist. Set VISIONNMF_DATA to the folder that holds it.")
    return path


def _read_frames_zip(name: str, path: Path) -> MaskedVideo:
    """Read ``input/inNNNNNN.jpg`` and ``groundtruth/gtNNNNNN.png`` of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:

            def image(member: str) -> NDArray[Any]:
                check_bytes(f"{path}: {member}", archive.getinfo(member).file_size)
                return decode_image(archive.read(member), f"{path}: {member}")

            members = set(archive.namelist())
            numbers = sorted(m[len("input/in") : -len(".jpg")] for m in members if m.startswith("input/in"))
            frames = _stack((image(f"input/in{n}.jpg") for n in numbers), len(numbers), path)
            masks = _stack((to_grey8(image(f"groundtruth/gt{n}.png")) for n in numbers), len(numbers), path)
            background = image("background_gt.png") if "background_gt.png" in members else None
    except MediaError:
        raise
    except Exception as error:  # zipfile raises many kinds of errors for damaged files
        raise UnreadableError(f"{path} cannot be read: {error}.") from error
    return MaskedVideo(name, frames, np.arange(len(frames)), masks, background)


def _stack(images: Iterator[NDArray[np.uint8]], count: int, path: Path) -> NDArray[np.uint8]:
    """Return images of one size as one array."""
    first = next(images, None)
    if first is None:
        raise UnreadableError(f"{path} holds no frames.")
    check_bytes(f"{path} ({count} images of {first.nbytes} bytes)", first.nbytes * count)
    stack = np.empty((count, *first.shape), np.uint8)
    stack[0] = first
    for i, other in enumerate(images, start=1):
        if other.shape != first.shape:
            raise UnreadableError(f"{path} holds images of different sizes: {first.shape} and {other.shape}.")
        stack[i] = other
    return stack
