"""Open whatever holds samples as chunks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from visionnmf._checks import shown
from visionnmf.choices import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io.inputs import check_is_path, find_files

from .base import ArrayRows, Chunks, Iterated, NpyRows, SlicedRows
from .text_rows import STANDARD_INPUT, TextRows

TABLES = (".csv", ".tsv", ".txt", ".dat")
WHOLE = (".npz", ".mat", ".pkl", ".parquet", ".h5", ".hdf5", ".zarr")  # other libraries read these


def open_chunks(source: Any, *, longest_side: int | None = None) -> Chunks:
    """Open whatever holds samples, to read it in chunks.

    Parameters
    ----------
    source : Chunks, array-like, sparse matrix, str, Path or iterable of array-like
        See the table of :mod:`visionnmf.io.chunks`. A string is a file or folder.
    longest_side : int, optional
        Images and frames are scaled down if a side of the first one has more pixels.

    Returns
    -------
    Chunks
        A context manager, which closes the file.

    Raises
    ------
    UnreadableError, UnsupportedError
        If a file is missing, damaged or has no rows of numbers.
    TooLargeError
        If a single sample has more than 1 GiB.
    ParameterError
        If `source` is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io.chunks import open_chunks
    >>> with open_chunks(np.arange(10).reshape(5, 2)) as rows:
    ...     [chunk.shape for chunk in rows.chunks(3)]
    [(3, 2), (2, 2)]
    """
    if isinstance(source, Chunks):
        return source
    if isinstance(source, str | os.PathLike):
        if str(source) != STANDARD_INPUT:
            check_is_path(str(source), "data")
        return _open_path(Path(source), longest_side)
    if sp.issparse(source) or isinstance(source, np.ndarray):
        return ArrayRows(source)
    # Tables of pandas, whose slices go by their index, have no `dtype`; tensors of PyTorch have one of their own.
    if hasattr(source, "shape") and isinstance(getattr(source, "dtype", None), np.dtype):
        return SlicedRows(source)
    if hasattr(source, "__array__"):
        return ArrayRows(source)
    if isinstance(source, Iterable):
        return Iterated(source)
    raise ParameterError(f"source must be an array, a file, a folder or an iterable of arrays; got {shown(source)}")


def _open_path(path: Path, longest_side: int | None) -> Chunks:
    """Return the reader for a file or folder, chosen by its suffix; anything unknown is read as pictures."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return NpyRows(path)
    if suffix in TABLES or str(path) == STANDARD_INPUT:
        return TextRows(path)
    if suffix in WHOLE:
        raise UnsupportedError(
            f"{path}: a file of this kind cannot be read by chunks; save the array as .npy, or open it with its "
            "library and pass the array"
        )
    from .picture_rows import PictureRows

    paths = [path]
    if path.is_dir():
        paths = [path / name for name in find_files(path, (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES), recursive=True)]
    return PictureRows(paths, str(path), longest_side)
