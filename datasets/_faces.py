"""Images of faces from a folder or a file."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import brief, check_image_shape
from visionnmf._pixel_range import PixelRangeWarning, bits_of, in_eight_bits, note_on, of_camera
from visionnmf._text import counted
from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError
from visionnmf.io import read_arrays, read_image, read_mat, resize_grey, to_grey8
from visionnmf.io.inputs import check_bytes, check_is_path

PICTURE_SUFFIXES: tuple[str, ...] = (
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
"""Suffixes, in upper or lower case, of the files that :func:`load_faces` reads as images."""

_MAX_PIXELS = 50_000_000  # of one image
MOST_REASONS = 3  # why no picture can be used


@dataclass(frozen=True)
class Faces:
    """Photographs of faces, all of one size.

    Attributes
    ----------
    images : ndarray of uint8 [shape=(n_images, height, width)]
        Grey.
    labels : ndarray of int [shape=(n_images,)]
        The person, from 1 to ``len(names)``; 0 everywhere if the people are unknown.
    names : tuple of str
        The people: ``names[label - 1]`` (their numbers, if the set numbers them); empty if they are unknown.
    files : tuple of str
        The file of each image, relative to the folder that was read; empty if it was not a folder.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.integer]
    names: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    __repr__ = brief


def load_faces(
    path: str | Path, *, size: int | tuple[int, int] | None = None, read: Callable[[Path], NDArray[Any]] | None = None
) -> Faces:
    """Read faces from a folder with one sub-folder per person, a .npz file, or a .mat file in Deng Cai's format.

    ==================  ==============================================================================================
    `path`              what is read
    ==================  ==============================================================================================
    a folder            Each sub-folder is a person and has the person's name; the files in it with a suffix of
                        `PICTURE_SUFFIXES` are the images. Numbers in names are sorted as numbers. Hidden files and
                        deeper folders are ignored. A folder with images and no sub-folder with images holds unknown
                        people (labels 0).
    a .npz file         ``images`` (n_images, height, width) and ``labels``, numbers or strings (n_images,); without
                        ``labels`` the people are unknown. ``names``, if present, has one entry per person in the order
                        of the sorted labels.
    a .mat file         ``fea``, each row a square image **column by column**, and ``gnd``, the numbers of the people.
    ==================  ==============================================================================================

    Images are read by :func:`visionnmf.io.read_image` and become 8-bit grey. One that cannot be read is left out with a
    warning that names it.

    Parameters
    ----------
    path : str or Path
        The folder or the file.
    size : int or tuple of two ints, optional
        Side, or height and width, that every image is scaled to. Without it all images must have the same size.
    read : callable, optional
        Reads one image of a folder, for example to cut out the face: takes its path, returns an array (height, width)
        or (height, width, 3) of uint8 or uint16, and raises :class:`~visionnmf.exceptions.MediaError` for an image to
        leave out.

    Returns
    -------
    Faces
        Values of .npz and .mat files that are not uint8 are rounded; floats up to 1 are multiplied by 255.

    Raises
    ------
    ParameterError
        If `size` is neither a side nor a height and a width.
    UnreadableError
        If nothing is there, no image can be used, or the file is damaged.
    UnsupportedError
        If the images differ in size and `size` is not given, or a file does not hold images.
    TooLargeError
        If there is more than the limits that protect the process allow: 1 GiB in all, 50 million pixels per image.

    Warns
    -----
    UserWarning
        If an image was left out.

    References
    ----------
    D. Cai, "Four face databases in Matlab format", http://www.cad.zju.edu.cn/home/dengcai/Data/FaceData.html

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from visionnmf.io import write_image
    >>> rng = np.random.default_rng(0)
    >>> for name in ("ada", "ben", "cy"):
    ...     Path("people", name).mkdir(parents=True, exist_ok=True)
    ...     face = rng.integers(40, 200, (12, 10))
    ...     for i in range(4):
    ...         image = np.clip(face + rng.integers(0, 9, face.shape), 0, 255).astype(np.uint8)
    ...         write_image(f"people/{name}/{i}.png", image, force=True)
    >>> from visionnmf.datasets import load_faces
    >>> load_faces("people").names
    ('ada', 'ben', 'cy')
    """
    check_is_path(path, "images")
    path = Path(path)
    if size is not None:
        size = check_image_shape((size, size) if isinstance(size, Integral) else size, "size")
    if path.is_dir():
        return _read_folder(path, size, read)
    if not path.is_file():
        raise UnreadableError(f"{path}: no such folder or file.")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_faces_npz(path, size)
    if suffix == ".mat":
        return _read_faces_mat(path, size)
    raise UnreadableError(
        f"{path} is neither a folder with one sub-folder per person, nor a .npz file, nor a .mat file; "
        "put images into such a folder."
    )


def _read_folder(folder: Path, size: tuple[int, int] | None, read: Callable[[Path], NDArray[Any]] | None) -> Faces:
    """Return the faces of a folder, a sub-folder for each person; other images beside the sub-folders are left out."""
    people = {person.name: _pictures(person) for person in _sorted(folder) if person.is_dir()}
    pictures = [(name, picture) for name in people for picture in people[name]]
    loose = _pictures(folder)
    if pictures and loose:
        warnings.warn(f"{folder}: {len(loose)} images next to the sub-folders left out", UserWarning, stacklevel=3)
    pictures = pictures or [("", picture) for picture in loose]
    if not pictures:
        raise UnreadableError(
            f"{folder} holds no pictures; it must have one sub-folder per person with "
            f"{', '.join(PICTURE_SUFFIXES)} files in it."
        )
    images: list[NDArray[np.uint8]] = []
    used: list[tuple[str, Path]] = []  # name of the person, empty if unknown, and file of each image read
    bits: list[int] = []  # of each in 16 bits, as its own values tell; 0 for one of 8

    def grey(picture: Path) -> NDArray[Any]:
        """Read a picture, or the face on it, without warnings: only images that are left out are reported."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return read(picture) if read else of_camera(read_image(picture, max_pixels=_MAX_PIXELS), picture)

    left_out: list[tuple[Path, str]] = []
    for name, picture in pictures:
        try:
            stored = grey(picture)
        except MediaError as error:
            left_out.append((picture, str(error).removeprefix(f"{picture}: ")))
            warnings.warn(f"left out: {error}", UserWarning, stacklevel=3)
            continue
        image = to_grey8(stored)
        image = resize_grey(image, size) if size else image
        shape = images[0].shape if images else image.shape
        if image.shape != shape:
            raise UnsupportedError(
                f"{picture} has {image.shape[0]}x{image.shape[1]} pixels (height x width), but {used[0][1]} has "
                f"{shape[0]}x{shape[1]}; give a size, such as size=32, to scale all of them."
            )
        if not images:  # before the others are read
            what = f"{folder} ({len(pictures)} images of {shape[0]}x{shape[1]} pixels)"
            check_bytes(what, image.nbytes * len(pictures))
        images.append(image)
        used.append((name, picture))
        bits.append(bits_of(stored) if stored.dtype == np.uint16 else 0)
    if not images:
        raise UnreadableError(
            f"{folder}: none of {counted(len(pictures), 'picture')} can be used, {_reasons(left_out)}"
        )
    most = max(bits)
    for i, (_, picture) in enumerate(used):
        if 0 < bits[i] < most:  # a dark image of 12 bits fits into 10, but its white is that of the others
            image = to_grey8(grey(picture), most)
            images[i] = resize_grey(image, size) if size else image
    if most and note_on(most):
        warnings.warn(f"{folder}: {note_on(most)}", PixelRangeWarning, stacklevel=3)
    names = tuple(dict.fromkeys(name for name, _ in used if name))
    labels = np.array([names.index(name) + 1 if name else 0 for name, _ in used])
    files = tuple(picture.relative_to(folder).as_posix() for _, picture in used)
    return Faces(np.stack(images), labels, names, files)


_OF_SYSTEMS = ("__MACOSX", "@eaDir")  # folders that archives and servers add, with pictures of their own


def _reasons(left_out: list[tuple[Path, str]]) -> str:
    """Return why pictures were left out, each reason once, with the first of the pictures and the number of others."""
    of: dict[str, list[Path]] = {}
    for picture, reason in left_out:
        of.setdefault(reason, []).append(picture)
    several = [f"{own[0]}{f' and {len(own) - 1} more' if len(own) > 1 else ''}: {reason}" for reason, own in of.items()]
    return "; ".join(several[:MOST_REASONS]) + ("; ..." if len(several) > MOST_REASONS else "")


def _sorted(folder: Path) -> list[Path]:
    """Return the entries of a folder, without hidden ones and those of systems; numbers are sorted as numbers."""

    def key(path: Path) -> tuple[list[str | int], str]:
        """Return the parts of a name, in turn text and number; the name itself decides between equal ones."""
        parts = re.split(r"([0-9]+)", path.name.casefold())  # text, number, text, ...
        return [int(part) if i % 2 else part for i, part in enumerate(parts)], path.name

    return sorted((path for path in folder.iterdir() if not path.name.startswith((".", *_OF_SYSTEMS))), key=key)


def _pictures(folder: Path) -> list[Path]:
    """Return the visible image files of a folder, without those in folders below it."""
    return [path for path in _sorted(folder) if path.suffix.lower() in PICTURE_SUFFIXES and path.is_file()]


def _read_faces_npz(path: Path, size: tuple[int, int] | None) -> Faces:
    """Read faces from the arrays `images`, and perhaps `labels` and `names`, of an NPZ file."""
    arrays = read_arrays(path, ["images"], ["labels", "names"])
    images = arrays["images"]
    if images.ndim != 3 or images.size == 0:
        raise UnsupportedError(f"{path}: images must have the shape (n_images, height, width), got {images.shape}.")
    return _faces(path, _to_uint8(path, images), arrays.get("labels"), arrays.get("names"), size)


def _read_faces_mat(path: Path, size: tuple[int, int] | None) -> Faces:
    """Read faces from a MATLAB file: a row of `fea` for each image, column by column, and people in `gnd`."""
    arrays = read_mat(path, ["fea", "gnd"])
    rows = arrays["fea"]
    if rows.ndim != 2 or rows.size == 0:
        raise UnsupportedError(f"{path}: fea must have the shape (n_images, height * width), got {rows.shape}.")
    side = math.isqrt(rows.shape[1])
    if side**2 != rows.shape[1]:
        raise UnsupportedError(f"{path}: fea must have a row for each square image, got {rows.shape[1]} columns.")
    # The pixels of a row come column by column, so the axes are swapped.
    images = np.ascontiguousarray(_to_uint8(path, rows).reshape(-1, side, side).swapaxes(1, 2))
    return _faces(path, images, arrays["gnd"].ravel(), None, size)


def _to_uint8(path: Path, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return grey values as uint8; floats up to 1 are multiplied by 255. `path` is for messages."""
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind not in "iuf":
        raise UnsupportedError(f"{path}: images must be numbers, got {values.dtype}.")
    if values.dtype == np.uint16:
        if note := note_on(bits_of(values)):
            warnings.warn(f"{path}: {note}", PixelRangeWarning, stacklevel=4)
        return in_eight_bits(values)
    low, high = float(values.min()), float(values.max())
    if np.isnan(low):
        raise UnsupportedError(f"{path}: grey values must be known, got NaN for {np.isnan(values).sum()} of them.")
    if not (low >= 0 and high <= 255):
        raise UnsupportedError(f"{path}: grey values must lie in [0, 255], got values from {low:g} to {high:g}.")
    if values.dtype.kind == "f":
        return np.rint(values * 255 if high <= 1 else values).astype(np.uint8)
    return values.astype(np.uint8)


def _faces(
    path: Path,
    images: NDArray[np.uint8],
    labels: NDArray[Any] | None,
    names: NDArray[Any] | None,
    size: tuple[int, int] | None,
) -> Faces:
    """Return faces whose people are numbered from 1 in the order of `labels`, numbers or strings; None if unknown."""
    if size:
        check_bytes(f"{path}, scaled,", len(images) * size[0] * size[1])
        images = np.stack([resize_grey(image, size) for image in images])
    count = len(images)
    if labels is None:
        return Faces(images, np.zeros(count, int))
    whole = labels.shape == (count,) and labels.dtype.kind == "f" and (labels == np.rint(labels)).all()
    if whole:  # MATLAB's numbers are floats
        labels = labels.astype(np.int64)
    if labels.shape != (count,) or labels.dtype.kind not in "iuU":
        raise UnsupportedError(
            f"{path}: there must be one whole number or string an image to say who it is, "
            f"got {labels.dtype} of shape {labels.shape} for {count} images."
        )
    unique, positions = np.unique(labels, return_inverse=True)
    if names is not None and names.dtype.kind == "U" and names.shape == unique.shape:
        unique = names
    return Faces(images, positions.reshape(-1) + 1, tuple(map(str, unique)))
