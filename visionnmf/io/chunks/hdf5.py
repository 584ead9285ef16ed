"""Rows of a dataset in an HDF5 file, which may come from anybody.

An HDF5 file can name other files as the place of its data, can nest groups without end, and can hold chunks that
unpack to any size. The first is refused; the other two are bounded.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray

from visionnmf.exceptions import UnreadableError, UnsupportedError
from visionnmf.io.inputs import regular_file
from visionnmf.io.npz_files import NUMBERS

from .base import StoredRows, listed, only_dataset, readable

Array = NDArray[Any]

LINKS = 10  # soft links that lead to each other
DEPTH = 32  # groups within each other
OBJECTS = 10_000  # groups and datasets that are looked at
CHECKSUM = 4  # bytes that the Fletcher-32 checksum takes of a chunk
DEFLATE_RATIO = 1032  # deflate packs no better than this ...
LZF_RATIO = 88  # ... and LZF not better than this, 264 bytes in 3
SMALL = 256 << 20  # bytes that a chunk may unpack to without being looked at before
COMPRESSORS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SZIP, h5py.h5z.FILTER_LZF}
COUNTING = {h5py.h5z.FILTER_NBIT, h5py.h5z.FILTER_SCALEOFFSET}  # HDF5 allocates what their third option says


class HDF5Rows(StoredRows):
    """The rows of a dataset of an HDF5 file; `dataset` None takes the only one there is."""

    def __init__(self, path: str | Path, dataset: str | None = None) -> None:
        """Open the dataset of this name, or the only one, in the file `path`; refuse what may need too much memory."""
        # Also set: `_filters`, the codes of the filters that chunks went through when they were written, in that order;
        # and `_large`, the offsets of chunks that may unpack to too much and were not checked yet, by their first row.
        self._path = regular_file(path, "array")
        with readable(self._path):
            self._file = h5py.File(self._path, "r")
        try:
            with readable(self._path):
                name = dataset or only_dataset(self._path, _matrices(self._path, self._file))
                self._dataset = _dataset(self._path, self._file, name)
                self._filters = _filters(self._path, self._dataset)
                ratio = LZF_RATIO if h5py.h5z.FILTER_LZF in self._filters else DEFLATE_RATIO
                self._large = _large_chunks(self._path, self._dataset, ratio)
                super().__init__(self._dataset, f"{path}: {name}")
        except BaseException:
            self._file.close()
            raise

    def read(self, start: int, stop: int) -> Array:
        """Return the samples ``start:stop`` by one read, after checking the large chunks in it."""
        with readable(self._path):
            # `_large`: offsets of the chunks that may unpack to too much and were not checked yet, by their first row
            for row in [row for row in self._large if row < stop and row + self._dataset.chunks[0] > start]:
                for offset in self._large.pop(row):
                    self._check_unpacked(offset)
            return super().read(start, stop)

    def _check_unpacked(self, offset: tuple[int, ...]) -> None:
        """Raise if the chunk at `offset` unpacks to more than its declared size.

        HDF5 would unpack all of it. `_filters` has the filters' codes in the order of application; `skipped` masks
        those not applied.
        """
        skipped, packed = self._dataset.id.read_direct_chunk(offset)
        used = [code for number, code in enumerate(self._filters) if not skipped >> number & 1]
        if used[-1:] == [h5py.h5z.FILTER_FLETCHER32]:  # the last filter is undone first
            used, packed = used[:-1], packed[:-CHECKSUM]
        # a checksum may also have been added before the chunk was compressed
        most, size = math.prod(self._dataset.chunks) * self._dataset.dtype.itemsize + CHECKSUM, 0
        if used[-1:] == [h5py.h5z.FILTER_DEFLATE]:
            size = len(zlib.decompressobj().decompress(packed, most + 1))
        elif used[-1:] == [h5py.h5z.FILTER_LZF]:
            size = _lzf_size(packed, most)
        if size > most:
            raise ValueError("a chunk unpacks to more than its declared size")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _matrices(path: Path, file: h5py.File) -> list[str]:
    """Return the names of the datasets that have rows of numbers; soft and external links are not followed."""
    names: list[str] = []
    # Addresses of the groups that were met, and the groups to look at: the path to each, the group and its depth.
    seen = {h5py.h5o.get_info(file.id).addr}  # a group can hold itself
    waiting: list[tuple[str, h5py.Group, int]] = [("", file, 0)]
    while waiting:
        above, group, depth = waiting.pop()
        for key in group:
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                continue
            item, name = group[key], f"{above}{key}"
            if isinstance(item, h5py.Dataset) and item.ndim >= 2 and item.dtype.kind in NUMBERS:
                names.append(name)
            if isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address not in seen:
                    waiting.append((f"{name}/", item, depth + 1))
                seen.add(address)
            if depth >= DEPTH or len(seen) + len(names) > OBJECTS:
                raise UnsupportedError(
                    f"{path}: has more than {OBJECTS} groups and datasets, or more than {DEPTH} groups within each "
                    "other; name the dataset"
                )
    return names


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """Return a dataset by its name, when its data lie in this file."""
    _check_links(path, file, name)
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise UnreadableError(f"{path}: has no dataset {name!r:.60}; it holds {listed(_matrices(path, file))}")
    if found.external or found.is_virtual:
        raise UnsupportedError(f"{path}: the data of {name!r:.60} lie in other files; copy them into one")
    return found


def _check_links(path: Path, file: h5py.File, name: str, followed: int = 0) -> None:
    """Refuse the name of a data set that leads into another file, also through soft links. `followed` counts links."""
    parts = [part for part in name.split("/") if part]
    if len(parts) > DEPTH:
        raise UnsupportedError(f"{path}: {name!r:.60} lies in more than {DEPTH} groups")
    for i in range(len(parts)):
        where = "/".join(parts[: i + 1])
        link = file.get(where, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise UnsupportedError(f"{path}: {where!r:.60} is a link to another file; name that file")
        if followed > LINKS:
            raise UnsupportedError(f"{path}: {where!r:.60} leads through more than {LINKS} links, perhaps in a circle")
        if isinstance(link, h5py.SoftLink):
            target = link.path if link.path.startswith("/") else "/".join([*parts[:i], link.path])
            # again, with the target in place of the link
            _check_links(path, file, "/".join([target, *parts[i + 1 :]]), followed + 1)
            return


def _filters(path: Path, dataset: h5py.Dataset) -> list[int]:
    """Return the codes of a data set's filters in the order in which they were applied when a chunk was written.

    A compressor must be the last of them, apart from checksums: :meth:`HDF5Rows._check_unpacked` bounds what that one
    unpacks to, and a chunk that is compressed twice could unpack to the square of that.
    """
    plan = dataset.id.get_create_plist()  # its filters are tuples (code, flags, options, name)
    filters = [plan.get_filter(i) for i in range(plan.get_nfilters())]
    codes = [code for code, *_ in filters]
    from_last = [code for code in codes[::-1] if code != h5py.h5z.FILTER_FLETCHER32]
    if any(code in COMPRESSORS for code in from_last[1:]):
        raise UnsupportedError(f"{path}: its chunks are compressed more than once, which is not read")
    # The third option of these filters is a number of entries, for which HDF5 allocates memory; it must be that of a
    # chunk.
    for code, _, options, _ in filters:
        if code in COUNTING and options[2:3] != (math.prod(dataset.chunks),):
            raise UnreadableError(f"{path}: the file is damaged (its filters do not fit its chunks)")
    return codes


def _lzf_size(packed: bytes, most: int) -> int:
    """Return how many bytes LZF data unpack to, or some number above `most` if that is more."""
    place = size = 0
    while place < len(packed) and size <= most:
        head = packed[place]
        if head < 32:  # head + 1 bytes follow as they are
            place, size = place + head + 2, size + head + 1
        elif head < 224:  # two bytes stand for 3 to 8 earlier ones
            place, size = place + 2, size + (head >> 5) + 2
        elif place + 1 == len(packed):
            raise ValueError("LZF data end too early")
        else:  # three bytes stand for 9 to 264 earlier ones
            place, size = place + 3, size + packed[place + 1] + 9
    return size


def _large_chunks(path: Path, dataset: h5py.Dataset, ratio: int) -> dict[int, list[tuple[int, ...]]]:
    """Return the offsets of chunks that could unpack to more than `SMALL`, by their first row; refuse wrong indices.

    The compressor packs data to ``1 / ratio`` at best, so the size of a chunk in the file bounds its unpacked size.
    """
    large: dict[int, list[tuple[int, ...]]] = {}
    if dataset.chunks is None:
        return large
    # `end`: bytes of the file; `least`: bytes that a chunk has at least
    end, least = path.stat().st_size, CHECKSUM if dataset.fletcher32 else 1

    def wrong(chunk: Any) -> bool | None:  # None goes on to the next chunk
        """Return whether the chunk's place in the file is impossible; note it in `large` if it may be large.

        Unpacked it is at most `ratio` times as large. A chunk has at least `least` bytes, and the file `end`.
        """
        if chunk.size * ratio > SMALL:
            large.setdefault(chunk.chunk_offset[0], []).append(chunk.chunk_offset)
        begins = all(start < length for start, length in zip(chunk.chunk_offset, dataset.shape, strict=True))
        return None if begins and chunk.size >= least and chunk.byte_offset + chunk.size <= end else True

    if dataset.id.chunk_iter(wrong):
        raise UnreadableError(f"{path}: the file is cut off or damaged (its index of chunks is wrong)")
    return large
