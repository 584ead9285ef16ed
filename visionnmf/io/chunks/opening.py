"""Open whatever holds samples as chunks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from visionnmf._checks import shown
from visionnmf.choices import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from visionnmf.exceptions import ParameterError, UnsupportedError, installed_by
from visionnmf.io.inputs import check_is_path, find_files

from .base import ArrayRows, Chunks, DaskRows, Iterated, NpyRows, StoredRows
from .text_rows import STANDARD_INPUT, TextRows

HDF5 = (".h5", ".hdf5", ".hdf", ".he5")
TABLES = (".csv", ".tsv", ".txt", ".dat")
ZARR_METADATA = ("zarr.json", ".zarray", ".zgroup")


def open_chunks(source: Any, *, dataset: str | None = None, longest_side: int | None = None) -> Chunks:
    """Open whatever holds samples, to read it in chunks.

    Parameters
    ----------
    source : Chunks, array-like, sparse matrix, str, Path or iterable of array-like
        See the table of :mod:`visionnmf.io.chunks`. A string is a file or folder.
    dataset : str, optional
        Which array of an HDF5 file or a Zarr group to read; by default the only one there is.
    longest_side : int, optional
        Images and frames are scaled down if a side of the first one has more pixels.

    Returns
    -------
    Chunks
        A context manager, which closes the file.

    Raises
    ------
    UnreadableError, UnsupportedError
        If a file is missing, damaged, has no such dataset or no rows of numbers, or needs a library that is missing.
    TooLargeError
        If a single sample, or a chunk that is stored together, has more than 1 GiB, or a sample lies in more than
        10,000 stored chunks.
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
    library = type(source).__module__.partition(".")[0]  # known without importing it
    if library == "dask" and hasattr(source, "blocks"):
        return DaskRows(source)
    if library in ("h5py", "zarr") and hasattr(source, "chunks"):
        return StoredRows(source)
    if sp.issparse(source) or hasattr(source, "__array__"):
        return ArrayRows(source)
    if isinstance(source, Iterable):
        return Iterated(source)
    raise ParameterError(f"source must be an array, a file, a folder or an iterable of arrays; got {shown(source)}")


def _open_path(path: Path, dataset: str | None, longest_side: int | None) -> Chunks:
    """Return the reader for a file or folder, chosen by its suffix; anything unknown is read as pictures."""
    suffix = path.suffix.lower()
    if suffix == ".zarr" or (path.is_dir() and any(os.path.lexists(path / name) for name in ZARR_METADATA)):
        _require("zarr", path, "zarr")
        from .zarr_folder import open_zarr

        return open_zarr(path, dataset)
    if suffix in HDF5:
        _require("h5py", path, "hdf5")
        from .hdf5 import HDF5Rows

        return HDF5Rows(path, dataset)
    if suffix == ".npy":
        return NpyRows(path)
    if suffix in TABLES or str(path) == STANDARD_INPUT:
        return TextRows(path)
    if suffix in (".npz", ".mat", ".pkl", ".parquet"):
        raise UnsupportedError(f"{path}: a file of this kind cannot be read by chunks; save the array as .npy")
    from .picture_rows import PictureRows

    paths = [path]
    if path.is_dir():
        paths = [path / name for name in find_files(path, (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES), recursive=True)]
    return PictureRows(paths, str(path), longest_side)


def _require(name: str, path: Path, extra: str) -> None:
    """Raise UnsupportedError where the optional library `name` is missing; `extra` is what installs it."""
    try:
        import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"{path}: reading it needs {name}; {installed_by(extra)}") from error
