"""Rows of an array in a Zarr folder, which may come from anybody.

Zarr follows symbolic links, opens devices and pipes, and decompresses a chunk to whatever size it has. Here a store
reads regular files inside the folder only, and every compressor is replaced by one that stops at the declared size.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import math
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr
from numcodecs import get_codec
from numpy.typing import NDArray
from zarr.abc.codec import BytesBytesCodec
from zarr.abc.store import RangeByteRequest
from zarr.codecs import BytesCodec, ShardingCodec
from zarr.storage import LocalStore

from visionnmf.exceptions import TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io.inputs import check_bytes, check_memory
from visionnmf.io.npz_files import NUMBERS

from .base import StoredRows, listed, only_dataset, readable

Array = NDArray[Any]

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
METADATA_BYTES = 4 << 20
MEMBERS = 1000  # folders of a group that are looked at
LONGEST_END = 10.0  # seconds to wait for the rest of a reading that has failed
AT_ONCE = 10  # chunks that zarr decodes at the same time
INNER_CHUNKS = 1 << 20  # of a shard: its index takes 16 bytes for each
SLACK = 1 << 16  # bytes that a codec may add to the declared size, beside as much again
# Codecs that change the size of a chunk by a small factor at most; each can be left to zarr.
FILTERS = {
    "adler32", "astype", "bitround", "crc32", "crc32c", "delta", "fixedscaleoffset", "fletcher32", "jenkins_lookup3",
    "packbits", "quantize", "shuffle", "transpose",
}  # fmt: skip
DTYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")  # options of filters that name one


class _Folder(LocalStore):
    """A store of the regular files inside a folder."""

    _loop: asyncio.AbstractEventLoop | None = None  # that of zarr
    _abandoned = False  # whether nothing more is to be read

    def abandon(self) -> None:
        """Wait until zarr reads nothing more from this folder, after one chunk has failed.

        zarr leaves the reading of the other chunks behind, and asyncio would print a traceback for each at the end of
        the process.
        """
        self._abandoned = True  # `get` refuses to read meanwhile
        if self._loop is not None:  # the event loop of zarr, None before the first reading
            asyncio.run_coroutine_threadsafe(_other_tasks(), self._loop).result()
        self._abandoned = False

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Read a file, or a range of its bytes, after checking it; `key` is its path within the folder.

        `_loop` keeps the event loop of zarr, and while `_abandoned` is true, after another reading has failed, this
        raises.
        """
        self._loop = asyncio.get_running_loop()
        if self._abandoned:
            raise UnreadableError(f"{self.root}: another chunk cannot be read")
        self._check(key, byte_range)
        return await super().get(key, prototype, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Read a file, or a range of its bytes, after checking it, outside an event loop; otherwise as :meth:`get`."""
        self._check(key, byte_range)
        return super().get_sync(key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
        """Read several ranges of bytes one after the other, so that each is checked by :meth:`get`."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def _check(self, key: str, byte_range: Any) -> None:
        """Raise if a key leads out of the folder, also by a symbolic link, or to no file, or to too many bytes."""
        path, parts = str(self.root), key.split("/")
        try:
            for number, part in enumerate(parts, 1):
                path = os.path.join(path, part)
                status = os.lstat(path)
                wanted = stat.S_ISDIR if number < len(parts) else stat.S_ISREG
                # a folder in the place of a file passes here, because zarr treats it as a missing file
                if part == ".." or not (wanted(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                    raise UnsupportedError(
                        f"{self.root}: {key!r:.80} is a link, a device or a pipe; only regular files are read"
                    )
        except (FileNotFoundError, NotADirectoryError):
            return  # zarr takes it for a chunk that holds the fill value
        if parts[-1] in METADATA and status.st_size > METADATA_BYTES:
            raise TooLargeError(f"{self.root}: {key!r:.80} has more than {METADATA_BYTES >> 20} MiB")
        if byte_range is None:
            check_bytes(f"{self.root}: {key!r:.80}", status.st_size)
        elif isinstance(byte_range, RangeByteRequest) and byte_range.end > status.st_size:
            raise UnreadableError(f"{self.root}: {key!r:.80} is cut off or damaged")


async def _other_tasks() -> None:
    """Wait until the other tasks of this loop have ended, but not for ever: they may be those of another reader."""
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=LONGEST_END)


class ZarrRows(StoredRows):
    """The rows of a Zarr array in a folder."""

    def __init__(self, array: Any, path: Path, name: str) -> None:
        """Take an array of a Zarr folder; raise TooLargeError if less memory is free than its chunks need."""
        super().__init__(array, f"{path}: {name}" if name else str(path))
        # The chunks that zarr decodes at the same time; each may unpack to about twice its declared size.
        together = min(AT_ONCE, self.chunks_per_row)
        check_memory(self.name, 2 * together * math.prod(array.chunks) * array.dtype.itemsize)
        self._path, self._store = path, array.store

    def read(self, start: int, stop: int) -> Array:
        """Return the samples ``start:stop`` by one read; whatever zarr raises on damage becomes UnreadableError."""
        with readable(self._path):
            try:
                return super().read(start, stop)
            except BaseException:
                self._store.abandon()  # waits until zarr reads nothing more
                raise


def open_zarr(path: Path, dataset: str | None = None) -> ZarrRows:
    """Open the array of a Zarr folder, or the one that `dataset` names (None: the only one), with all limits set."""
    with readable(path):
        store = _Folder(path, read_only=True)  # refuses links and files that are too large
        found = zarr.open(store, mode="r", path=dataset or "", zarr_format=_version(path, dataset or ""))
        if isinstance(found, zarr.Group):
            names = _arrays_of(path, found)
            dataset = only_dataset(path, names)
            found = zarr.open(store, mode="r", path=dataset, zarr_format=found.metadata.zarr_format)
        # `_bounded` makes codecs refuse chunks that unpack to too much
        return ZarrRows(_bounded(found, path), path, dataset or "")


def _version(path: Path, dataset: str) -> Literal[2, 3]:
    """Return the Zarr format of the array or group `dataset` in a folder; raise where there is none."""
    place = path / dataset
    if os.path.lexists(place / "zarr.json"):
        return 3
    if any(os.path.lexists(place / name) for name in (".zarray", ".zgroup")):
        return 2
    if not dataset or not path.is_dir():
        raise UnreadableError(f"{path}: cannot be read (it holds no Zarr array)")
    group = zarr.open_group(_Folder(path, read_only=True), mode="r", zarr_format=_version(path, ""))
    raise UnreadableError(f"{path}: has no array {dataset!r:.60}; it holds {listed(_arrays_of(path, group))}")


def _arrays_of(path: Path, group: Any) -> list[str]:
    """Return the names of the arrays of a group that have rows."""
    names = []
    with os.scandir(path / group.path) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                continue
            names.append(entry.name)
            if len(names) > MEMBERS:
                raise UnsupportedError(f"{path}: holds more than {MEMBERS} folders; name the dataset")
    found = ((name, group.get(name)) for name in sorted(names))
    return [name for name, member in found if isinstance(member, zarr.Array) and member.ndim >= 2]


def _bounded(array: Any, path: Path) -> Any:
    """Return the same array with codecs that stop when a chunk unpacks to far more than its declared size."""
    metadata = array.metadata
    if array.dtype.kind not in NUMBERS:
        raise UnsupportedError(f"{path}: holds {array.dtype}, not numbers")
    if min(array.chunks, default=0) < 1:
        raise UnreadableError(f"{path}: cannot be read (its chunks have the shape {array.chunks})")
    size = math.prod(array.chunks) * array.dtype.itemsize  # bytes of an unpacked chunk
    if metadata.zarr_format == 2:
        compressor = metadata.compressor and _Unpacker.of(metadata.compressor, size, path)
        filters = tuple(_Unpacker.of(codec, size, path) for codec in metadata.filters or ())
        # The metadata are a frozen class, which refuses plain assignments.
        object.__setattr__(metadata, "compressor", compressor)
        object.__setattr__(metadata, "filters", filters or None)
    else:
        shape = array.shards or array.chunks
        object.__setattr__(metadata, "codecs", _bounded_codecs(metadata.codecs, shape, array.dtype.itemsize, path))
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path))


def _bounded_codecs(codecs: tuple[Any, ...], shape: tuple[int, ...], itemsize: int, path: Path) -> tuple[Any, ...]:
    """Return Zarr 3 codecs, inner ones of shards as well, with compressors that stop at the declared size."""
    size, bounded = math.prod(shape) * itemsize, []
    # A codec is a shard, from bytes to bytes (a compressor or checksum), from arrays to bytes, or any other filter.
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            # The number of inner chunks, with each side rounded up: the index of a shard has an entry for each.
            if (
                math.prod(-(-whole // inner) for whole, inner in zip(shape, codec.chunk_shape, strict=True))
                > INNER_CHUNKS
            ):
                raise TooLargeError(f"{path}: has shards of more than {INNER_CHUNKS} chunks")
            if len(codecs) > 1:  # a shard is then decoded whole, not chunk by chunk
                check_bytes(f"{path}: a shard", size)
            # The class of zarr is frozen, which a plain assignment would refuse.
            object.__setattr__(codec, "codecs", _bounded_codecs(codec.codecs, codec.chunk_shape, itemsize, path))
        elif isinstance(codec, BytesBytesCodec):
            about = codec.to_dict()
            name = str(about["name"]).removeprefix("numcodecs.")
            if name not in FILTERS:
                codec = _BoundedCodec(_Unpacker(name, about.get("configuration") or {}, size, path))
        elif not isinstance(codec, BytesCodec):
            about = codec.to_dict()
            _check_filter(str(about["name"]).removeprefix("numcodecs."), about.get("configuration") or {}, path)
        bounded.append(codec)
    return tuple(bounded)


def _check_filter(name: str, options: Any, path: Path) -> None:
    """Raise UnsupportedError for an unknown codec, UnreadableError for `options` that do not return numbers."""
    if name not in FILTERS:
        if "pickle" in name:
            raise UnsupportedError(f"{path}: holds pickled objects, which are never read")
        raise UnsupportedError(f"{path}: is encoded by {name!r:.40}, which is not read")
    if any(np.dtype(options[option]).kind not in NUMBERS for option in DTYPES if option in options):
        raise UnreadableError(f"{path}: cannot be read ({name} turns numbers into something else)")


@dataclass(frozen=True)
class _Unpacker:
    """A codec of Zarr 2, and what one of Zarr 3 needs: it unpacks to at most about the declared size of a chunk."""

    name: str
    options: Any
    size: int
    path: Path

    @classmethod
    def of(cls, codec: Any, size: int, path: Path) -> Any:
        """Return a codec of numcodecs bounded to `size` bytes; filters that add little stay as they are."""
        unpacker = cls(codec.codec_id, codec.get_config(), size, path)
        if codec.codec_id in UNPACK:  # a compressor
            return unpacker
        _check_filter(codec.codec_id, unpacker.options, path)  # refuses unknown codecs and other results than numbers
        return codec

    def __post_init__(self) -> None:
        """Raise UnsupportedError for a compressor whose output cannot be bounded."""
        if self.name not in UNPACK:  # must be a filter, which hardly changes the size
            _check_filter(self.name, self.options, self.path)

    def decode(self, data: Any, out: Any = None) -> bytes:
        """Unpack the bytes of a chunk; raise ValueError if they are far more than its declared `size`, in bytes.

        zarr passes `out`, which is not used here.
        """
        most = 2 * self.size + SLACK  # filters may have enlarged the chunk before it was packed
        unpacked: bytes = UNPACK[self.name](bytes(memoryview(data).cast("B")), most)
        if len(unpacked) > most:
            raise _too_large(most)
        return unpacked


@dataclass(frozen=True)
class _BoundedCodec(BytesBytesCodec):
    """A compressor of Zarr 3 that unpacks by an :class:`_Unpacker`; it never compresses."""

    unpacker: _Unpacker
    is_fixed_size = False

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        """Unpack a buffer of zarr into another one, within the declared size."""
        return chunk_spec.prototype.buffer.from_bytes(self.unpacker.decode(chunk_bytes.to_bytes()))

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        """Unpack a buffer of zarr by :meth:`_decode_sync` in a thread, so that the event loop of zarr goes on."""
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Refuse, because the size of packed data cannot be known beforehand."""
        raise NotImplementedError


def _too_large(most: int) -> ValueError:
    """Return the error for a chunk that unpacks to more than `most` bytes."""
    return ValueError(f"a chunk unpacks to more than {most} bytes, far beyond its declared size")


def _unpack_declared(data: bytes, size: int, most: int, name: str) -> bytes:
    """Unpack data whose header declares `size` bytes, of at most `most`; the decoder writes no more than declared."""
    if size > most:
        raise _too_large(most)
    return bytes(get_codec({"id": name}).decode(data))


def _blosc(data: bytes, most: int) -> bytes:
    """Unpack Blosc, whose header holds the unpacked size at byte 4 and the packed size at byte 12."""
    if len(data) < 16 or int.from_bytes(data[12:16], "little") != len(data):  # c-blosc reads as far as it says
        raise ValueError("a chunk is cut off or damaged")
    return _unpack_declared(data, int.from_bytes(data[4:8], "little"), most, "blosc")


def _zstd(data: bytes, most: int) -> bytes:
    """Unpack Zstandard to at most `most` bytes; without a declared size its blocks bound it (RFC 8878, 3.1.1)."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd":  # the magic number of a frame
        raise ValueError("a chunk is cut off or damaged")
    flags = data[4]  # widths of the dictionary's number and of the size, and whether there is a single segment
    single, width = flags >> 5 & 1, (0, 2, 4, 8)[flags >> 6]
    place = 5 + (not single) + (0, 1, 2, 4)[flags & 3]  # where the field with the size begins
    if width or single:
        width = width or 1
        return _unpack_declared(data, int.from_bytes(data[place : place + width], "little"), most, "zstd")
    # No size: add up the blocks. Each has a header of three bytes, with a bit for the last block, the kind (0 raw,
    # 1 one repeated byte, 2 compressed) in two bits, and the length. A compressed block unpacks to 128 KiB at most.
    size, last = 0, False
    while not last and place + 3 <= len(data):
        header = int.from_bytes(data[place : place + 3], "little")
        last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
        size += length if kind < 2 else 128 << 10
        place += 3 + (1 if kind == 1 else length)
    if place + 4 < len(data):  # a checksum of four bytes may follow, a second frame may not
        raise ValueError("a chunk is cut off or damaged")
    # the last block may have been counted as 128 KiB too many
    return _unpack_declared(data, size, most + (128 << 10), "zstd")


# By the name of the compressor: a function of the packed bytes and of how many bytes it may return.
# LZMA is left out: several threads that decode it have ended the process by a segmentation fault (Python 3.11).
UNPACK = {
    "blosc": _blosc,
    "gzip": lambda data, most: gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1),
    "lz4": lambda data, most: _unpack_declared(data, int.from_bytes(data[:4], "little"), most, "lz4"),
    "zlib": lambda data, most: zlib.decompressobj().decompress(data, most + 1),
    "zstd": _zstd,
}
