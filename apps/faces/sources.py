"""Faces, whatever they lie in."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import choices
from visionnmf.datasets import Faces, load_faces
from visionnmf.exceptions import ParameterError
from visionnmf.io import resize_grey

from .detect import read_face

__all__ = ["as_rows", "open_faces"]


def open_faces(source: str | Path, *, size: int | None = None, detect: bool = False) -> tuple[Faces, list[str]]:
    """Read faces, whatever they lie in.

    Parameters
    ----------
    source : str or Path
        A folder with a sub-folder a person, a ``.npz`` or ``.mat`` file, or the name of a data set to fetch: ``orl``,
        ``yale`` or ``yaleb``.
    size : int or None, default=None
        Side that images are scaled to; None keeps their size (64 with `detect`).
    detect : bool, default=False
        Find the face on each photograph of a folder, and cut it out.

    Returns
    -------
    faces : Faces
    skipped : list of str
        A sentence for each image that was left out.

    Raises
    ------
    ParameterError
        When faces are to be found where there are no photographs.
    MediaError
        When the images cannot be read, or fetched.

    Examples
    --------
    >>> from visionnmf.apps.faces import open_faces
    >>> faces, left_out = open_faces("people")
    >>> faces.images.shape, left_out
    ((12, 12, 10), [])
    """
    from visionnmf import datasets

    fetchers = {"orl": datasets.fetch_orl, "yale": datasets.fetch_yale, "yaleb": datasets.fetch_yaleb}
    name = str(source)
    if detect and not Path(source).is_dir():
        raise ParameterError(f"detect must be False where the source is no folder of photographs; got {source}")
    if name.lower() in fetchers and not Path(source).exists():
        faces = fetchers[name.lower()]()
        if size:
            faces = replace(faces, images=np.stack([resize_grey(image, (size, size)) for image in faces.images]))
        return faces, []
    side = size or (choices.FACE_SIZE if detect else None)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        faces = load_faces(source, size=(side, side) if side else None, read=read_face if detect else None)
    skipped = [str(note.message).removeprefix("left out: ") for note in notes if note.category is UserWarning]
    return faces, skipped


def as_rows(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return images (n_images, height, width) as rows."""
    return images.reshape(len(images), -1).astype(np.float32)
