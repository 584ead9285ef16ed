"""Readers for research data that the user has; for tests and benchmarks.

The files lie in the folder that the environment variable VISIONNMF_DATA names, else in ``../shared/data`` beside the
checkout. Nothing is downloaded. Most of the sets are for research only, so none is part of this project;
``datasets/README.md`` lists them with their terms.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError

__all__ = [
    "MASKED_VIDEOS",
    "Faces",
    "MaskedVideo",
    "SegmentedImage",
    "data_folder",
    "load_bsds",
    "load_video_with_masks",
    "load_yaleb",
]

MASKED_VIDEOS: tuple[str, ...] = (
    "cdnet_highway",
    "cdnet_traffic",
    "sbi_hallandmonitor",
    "sbi_caviar1",
    "sbi_board",
    "sbi_cavignal",
    "wallflower_bootstrap",
    "wallflower_camouflage",
    "wallflower_foregroundaperture",
    "wallflower_lightswitch",
    "wallflower_movedobject",
    "wallflower_timeofday",
    "wallflower_wavingtrees",
)
"""Names for :func:`load_video_with_masks`."""

# No file of these sets comes near; a damaged or foreign one is refused before it is decoded.
_MAX_PIXELS = 4_000_000
_MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class SegmentedImage:
    """A photograph and how several people segmented it.

    Attributes
    ----------
    name : str
        The image's number in the data set.
    image : ndarray of uint8 [shape=(height, width, 3)]
        RGB.
    segmentations : ndarray of uint8 [shape=(n_annotators, height, width)]
        Segment numbers from 1, one segmentation a person.
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
        255 foreground, 0 background, 50 shadow, which counts as background; every other value is not scored.
    background : ndarray of uint8 [shape of one frame] or None
        The empty scene, where the set has it.
    """

    name: str
    frames: NDArray[np.uint8]
    gt_index: NDArray[np.integer]
    gt_masks: NDArray[np.uint8]
    background: NDArray[np.uint8] | None


@dataclass(frozen=True)
class Faces:
    """Photographs of faces, aligned.

    Attributes
    ----------
    images : ndarray of uint8 [shape=(n_images, height, width)]
        Grey.
    labels : ndarray of int [shape=(n_images,)]
        The person, from 1.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.integer]


def data_folder() -> Path | None:
    """Return the folder of research data, or None where there is none.

    Returns
    -------
    Path or None
        The folder that the environment variable VISIONNMF_DATA names when it is set, else ``../shared/data`` beside
        the checkout; None if it is not a folder.
    """
    named = os.environ.get("VISIONNMF_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def load_bsds() -> Iterator[SegmentedImage]:
    """Read the photographs of the Berkeley segmentation data set (BSDS500) that are there, by number.

    Yields
    ------
    SegmentedImage
        One image with its segmentations, 321 by 481 pixels or 481 by 321.

    Raises
    ------
    UnreadableError
        The data is not on this machine, or a file is damaged; raised at the first image it concerns.

    References
    ----------
    P. Arbelaez, M. Maire, C. Fowlkes, J. Malik, "Contour detection and hierarchical image segmentation", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 33(5), 2011.
    """
    photographs = sorted(_existing("bsds").glob("*.jpg"), key=lambda p: (len(p.stem), p.stem))
    if not photographs:
        raise UnreadableError(f"{_existing('bsds')} holds no photographs (*.jpg).")
    for path in photographs:
        image = _decode(path, path, "RGB")
        yield SegmentedImage(path.stem, image, _read_npz(path.with_suffix(".npz"), "segmentations")["segmentations"])


def load_video_with_masks(name: str) -> MaskedVideo:
    """Read a clip with masks: CDnet, SBI or Wallflower.

    Parameters
    ----------
    name : str
        One of `MASKED_VIDEOS`.

    Returns
    -------
    MaskedVideo
        Frames and masks; the "cdnet" clips, "sbi_hallandmonitor" and "sbi_caviar1" are in colour.

    Raises
    ------
    ParameterError
        There is no clip of that name.
    UnreadableError
        The data is not on this machine, or the file is damaged.
    TooLargeError
        The file holds more than the limits that protect the process allow.

    References
    ----------
    N. Goyette, P.-M. Jodoin, F. Porikli, J. Konrad, P. Ishwar, "changedetection.net", CVPR Workshops 2012.
    L. Maddalena, A. Petrosino, "Towards benchmarking scene background initialization", ICIAP Workshops 2015.
    K. Toyama, J. Krumm, B. Brumitt, B. Meyers, "Wallflower: principles and practice of background maintenance",
    ICCV 1999.
    """
    if name not in MASKED_VIDEOS:
        raise ParameterError(f"name must be one of {', '.join(map(repr, MASKED_VIDEOS))}, got {name!r}.")
    archive = _existing(".") / f"video_{name}.zip"
    if archive.is_file():
        return _read_frames_zip(name, archive)
    arrays = _read_npz(_existing(f"video_{name}.npz"), "frames", "gt_index", "gt_masks")
    return MaskedVideo(name, arrays["frames"], arrays["gt_index"], arrays["gt_masks"], None)


def load_yaleb() -> Faces:
    """Read the Extended Yale B faces, 2414 images of 38 people under 64 lights, 32 by 32 pixels.

    Returns
    -------
    Faces
        Images and people.

    Raises
    ------
    UnreadableError
        The data is not on this machine, or the file is damaged.

    References
    ----------
    A. Georghiades, P. Belhumeur, D. Kriegman, "From few to many: illumination cone models for face recognition under
    variable lighting and pose", IEEE Transactions on Pattern Analysis and Machine Intelligence 23(6), 2001.
    """
    arrays = _read_npz(_existing("yaleb_32x32.npz"), "images", "labels")
    return Faces(arrays["images"], arrays["labels"])


def _existing(name: str) -> Path:
    folder = data_folder()
    if folder is None:
        named = os.environ.get("VISIONNMF_DATA")
        where = f"VISIONNMF_DATA names {named!r}, which is no folder" if named else "VISIONNMF_DATA is not set"
        raise UnreadableError(f"No research data on this machine: {where}. Set it to the folder that holds the data.")
    path = folder / name
    if not path.exists():
        raise UnreadableError(f"{path} does not exist. Set VISIONNMF_DATA to the folder that holds it.")
    return path


def _decode(source: Path | io.BytesIO, name: Path | str, mode: str) -> NDArray[np.uint8]:
    """Decode an image in `mode` ("L" or "RGB")."""
    try:
        with Image.open(source, formats=("JPEG", "PNG")) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise TooLargeError(f"{name} has {image.width}x{image.height} pixels, more than {_MAX_PIXELS}.")
            return np.array(image.convert(mode))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnreadableError(f"{name} cannot be read as an image: {error}.") from error


def _read_npz(path: Path, *names: str) -> dict[str, NDArray[Any]]:
    """Read arrays of a .npz file, after a look at the sizes that it claims."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in names:
                _check_claim(archive, f"{name}.npy", path)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UnreadableError(f"{path} cannot be read: {error}.") from error


def _check_claim(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    # numpy allocates what the header claims before it reads: a few bytes could ask for all the memory
    size = archive.getinfo(member).file_size
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    claimed = math.prod(shape) * dtype.itemsize
    if size > _MAX_BYTES or claimed > _MAX_BYTES:
        raise TooLargeError(f"{path}: {member} has {max(size, claimed)} bytes, more than {_MAX_BYTES}.")


def _read_frames_zip(name: str, path: Path) -> MaskedVideo:
    """Read ``input/inNNNNNN.jpg`` and ``groundtruth/gtNNNNNN.png`` of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:

            def image(member: str, mode: str) -> NDArray[np.uint8]:
                if archive.getinfo(member).file_size > 4 * _MAX_PIXELS:
                    raise TooLargeError(f"{path}: {member} has more than {4 * _MAX_PIXELS} bytes.")
                return _decode(io.BytesIO(archive.read(member)), f"{path}: {member}", mode)

            members = set(archive.namelist())
            numbers = sorted(m[len("input/in") : -len(".jpg")] for m in members if m.startswith("input/in"))
            frames = _stack((image(f"input/in{n}.jpg", "RGB") for n in numbers), len(numbers), path)
            masks = _stack((image(f"groundtruth/gt{n}.png", "L") for n in numbers), len(numbers), path)
            background = image("background_gt.png", "RGB") if "background_gt.png" in members else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UnreadableError(f"{path} cannot be read: {error}.") from error
    return MaskedVideo(name, frames, np.arange(len(frames)), masks, background)


def _stack(images: Iterator[NDArray[np.uint8]], count: int, path: Path) -> NDArray[np.uint8]:
    first = next(images, None)
    if first is None:
        raise UnreadableError(f"{path} holds no frames.")
    if first.nbytes * count > _MAX_BYTES:
        raise TooLargeError(f"{path} holds {count} images of {first.nbytes} bytes, more than {_MAX_BYTES} bytes.")
    stack = np.empty((count, *first.shape), np.uint8)
    stack[0] = first
    for i, other in enumerate(images, start=1):
        if other.shape != first.shape:
            raise UnreadableError(f"{path} holds images of different sizes: {first.shape} and {other.shape}.")
        stack[i] = other
    return stack
