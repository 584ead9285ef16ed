"""Arrays in files: ``.npy``, HDF5, Zarr. Files come from strangers, so each is looked at before it is read.

A ``.npy`` file is mapped anew for each chunk and the chunk copied, so that its pages do not stay in memory. An HDF5
file may name other files as the place of its data: links and datasets of that kind are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._text import one_line
from visionnmf.exceptions import MediaError, UnreadableError, UnsupportedError
from visionnmf.io.archive import check_npy
from visionnmf.io.inputs import regular_file

from .arrays import Stored
from .base import Indexed, flat

__all__ = ["HDF5Rows", "NpyRows", "open_zarr"]

Array = NDArray[Any]

MOST_LINKS = 10  # one after the other
CHECKSUM = 4  # bytes of a chunk that are one
MOST_NAMES = 10  # of a file's datasets, in a message


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what a library raises on a damaged file into one sentence."""
    try:
        yield
    except MediaError:
        raise
    except Exception as error:  # these libraries have many ways to say that a file is damaged
        raise UnreadableError(f"{path}: cannot be read ({one_line(error):.200})") from error


def library(name: str, path: Path, extra: str) -> Any:
    """Import what an extra brings."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"{path}: reading it needs {name}; pip install 'visionnmf[{extra}]'") from error


class NpyRows(Indexed):
    """The rows of an array that ``numpy.save`` has written.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = regular_file(path, "array")
        self.name = str(path)
        array = self._mapped()
        self._set_shape(array.shape, array.dtype)
        self._shape = array.shape

    def _mapped(self) -> Array:
        with readable(self.path):  # objects are refused, and a file shorter than it says
            with self.path.open("rb") as file:
                check_npy(file)
            return np.lib.format.open_memmap(self.path, mode="r")

    def at(self, start: int, stop: int) -> Array:
        """Return a range of rows; see :meth:`Indexed.at`.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        ndarray
        """
        return self.take(slice(start, stop))

    def take(self, rows: Any) -> Array:
        """Return rows by their numbers; see :meth:`Indexed.take`.

        Parameters
        ----------
        rows : ndarray of int or slice

        Returns
        -------
        ndarray
        """
        array = self._mapped()
        if array.shape != self._shape:
            raise UnreadableError(f"{self.path}: it has changed while it was read")
        return np.array(flat(array[rows]))


class HDF5Rows(Stored):
    """The rows of a dataset of an HDF5 file.

    Parameters
    ----------
    path : str or Path
    dataset : str or None, default=None
        Its name; None takes the only one there is.
    """

    def __init__(self, path: str | Path, dataset: str | None = None) -> None:
        path = regular_file(path, "array")
        h5py = library("h5py", path, "hdf5")
        with readable(path):
            self._file = h5py.File(path, "r")
        try:
            with readable(path):
                name = dataset or _only_dataset(path, _hdf5_names(self._file, h5py))
                super().__init__(_hdf5_dataset(path, self._file, name, h5py), f"{path}: {name}")
        except BaseException:
            self._file.close()
            raise

    def at(self, start: int, stop: int) -> Array:
        """Return a range of rows; see :meth:`Indexed.at`.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        ndarray
        """
        with readable(Path(self._file.filename)):
            return np.asarray(super().at(start, stop))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _hdf5_names(file: Any, h5py: Any) -> list[str]:
    """Return the names of the datasets that could be meant; links to other files are not followed."""
    names: list[str] = []

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim >= 2 and item.dtype.kind in "biuf":
            names.append(name)

    file.visititems(note)
    return names


def _hdf5_dataset(path: Path, file: Any, name: str, h5py: Any) -> Any:
    _check_links(path, file, name, h5py)
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise UnreadableError(f"{path}: has no dataset {name!r:.60}; it holds {_listed(_hdf5_names(file, h5py))}")
    if found.external or found.is_virtual:
        raise UnsupportedError(f"{path}: the data of {name} lie in other files; copy them into one")
    if found.chunks is not None:
        _check_stored_chunks(path, found)
    return found


def _check_stored_chunks(path: Path, dataset: Any) -> None:
    """Refuse an index of chunks that are not in the file: HDF5 reads beyond its memory where a chunk is too small."""
    end, least = path.stat().st_size, CHECKSUM if dataset.fletcher32 else 1

    def wrong(chunk: Any) -> bool | None:  # None goes on
        begins = all(start < length for start, length in zip(chunk.chunk_offset, dataset.shape, strict=True))
        return None if begins and chunk.size >= least and chunk.byte_offset + chunk.size <= end else True

    if dataset.id.chunk_iter(wrong):
        raise UnreadableError(f"{path}: the file is cut off or damaged (its index of chunks is wrong)")


def _check_links(path: Path, file: Any, name: str, h5py: Any, depth: int = 0) -> None:
    """Refuse a name that leads into another file, also by way of links within this one."""
    parts = [part for part in name.split("/") if part]
    for i in range(len(parts)):
        where = "/".join(parts[: i + 1])
        link = file.get(where, getlink=True)
        if isinstance(link, h5py.ExternalLink) or depth > MOST_LINKS:
            raise UnsupportedError(f"{path}: {where:.60} is a link to another file; name that file")
        if isinstance(link, h5py.SoftLink):
            target = link.path if link.path.startswith("/") else "/".join([*parts[:i], link.path])
            _check_links(path, file, "/".join([target, *parts[i + 1 :]]), h5py, depth + 1)
            return


class _ZarrRows(Stored):
    """The rows of an array of Zarr that lies in a folder."""

    def __init__(self, array: Any, path: Path, name: str) -> None:
        super().__init__(array, f"{path}: {name}" if name else str(path))
        self._path = path

    def at(self, start: int, stop: int) -> Array:
        with readable(self._path):
            return np.asarray(super().at(start, stop))


def open_zarr(path: str | Path, dataset: str | None = None) -> Stored:
    """Open an array of Zarr, or of a group of them, that lies in a folder.

    Parameters
    ----------
    path : str or Path
    dataset : str or None, default=None
        Its name in a group; None takes the only one there is.

    Returns
    -------
    Stored

    Raises
    ------
    UnreadableError
        If there is no such array, or it is damaged.
    UnsupportedError
        If zarr is not installed, or the array holds no rows of numbers.
    """
    path = Path(path)
    zarr = library("zarr", path, "zarr")
    with readable(path):
        found, name = zarr.open(str(path), mode="r"), dataset or ""
        if isinstance(found, zarr.Group):
            arrays = dict(found.arrays())
            name = dataset or _only_dataset(path, [key for key, array in arrays.items() if array.ndim >= 2])
            if name not in arrays:
                raise UnreadableError(f"{path}: has no array {name!r:.60}; it holds {_listed(list(arrays))}")
            found = arrays[name]
        codecs = [*(found.filters or ()), *(found.compressors or ())]
        if any("pickle" in str(getattr(codec, "codec_id", type(codec).__name__)).lower() for codec in codecs):
            raise UnsupportedError(f"{path}: holds pickled objects, which are never read")
        return _ZarrRows(found, path, name)


def _only_dataset(path: Path, names: list[str]) -> str:
    if not names:
        raise UnreadableError(f"{path}: holds no rows of numbers")
    if len(names) > 1:
        raise UnsupportedError(f"{path}: holds {_listed(names)}; name the dataset")
    return names[0]


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in sorted(names)[:MOST_NAMES]) or "none"  # a stranger chose them
    return f"{shown}, and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown
