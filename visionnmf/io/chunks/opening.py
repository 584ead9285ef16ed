"""One door: whatever holds samples, as chunks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.io.inputs import check_is_path

from .arrays import DaskRows, InMemory, Stored, kind_of
from .base import Chunks, Iterated
from .files import HDF5Rows, NpyRows, open_zarr
from .text import STANDARD_INPUT, TextRows

__all__ = ["open_chunks"]

HDF5 = (".h5", ".hdf5", ".hdf", ".he5")
TABLES = (".csv", ".tsv", ".txt", ".dat")


def open_chunks(source: Any, *, dataset: str | None = None, longest_side: int | None = None) -> Chunks:
    """Open whatever holds samples, to be read by chunks.

    Parameters
    ----------
    source : Chunks, array-like, sparse matrix, str, Path or iterable of array-like
        See the table of :mod:`visionnmf.io.chunks`. A string is a file or folder.
    dataset : str or None, default=None
        Which array of an HDF5 file or a Zarr group; None takes the only one there is.
    longest_side : int or None, default=None
        Pixels, of images and frames: they are scaled down where a side of the first is longer.

    Returns
    -------
    Chunks
        A context manager, which closes the file.

    Raises
    ------
    UnreadableError
        If a file is missing, damaged, or without the dataset.
    UnsupportedError
        If it holds no rows of numbers, or reading it needs a library that is not installed.
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
        return _open_path(Path(source), dataset, longest_side)
    kind = kind_of(source)
    if kind == "dask" and hasattr(source, "blocks"):
        return DaskRows(source)
    if kind in ("h5py", "zarr") and hasattr(source, "chunks"):
        return Stored(source)
    if sp.issparse(source) or hasattr(source, "__array__"):
        return InMemory(source)
    if isinstance(source, Iterable):
        return Iterated(source)
    raise ParameterError(f"source must be an array, a file, a folder or an iterable of arrays; got {shown(source)}")


def _open_path(path: Path, dataset: str | None, longest_side: int | None) -> Chunks:
    suffix = path.suffix.lower()
    if suffix == ".zarr" or (path.is_dir() and any((path / name).is_file() for name in ("zarr.json", ".zarray"))):
        return open_zarr(path, dataset)
    if path.is_dir():
        from .pictures import PictureRows, pictures_of

        return PictureRows(pictures_of(path), str(path), longest_side)
    if suffix == ".npy":
        return NpyRows(path)
    if suffix in HDF5:
        return HDF5Rows(path, dataset)
    if suffix in TABLES or str(path) == "-":
        return TextRows(path)
    if suffix in (".npz", ".mat", ".pkl", ".parquet"):
        raise UnsupportedError(f"{path}: a file of this kind cannot be read by chunks; save the array as .npy")
    from .pictures import PictureRows

    return PictureRows([path], str(path), longest_side)
