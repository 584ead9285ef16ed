"""TIFF files whose strips or tiles are too short, too long or missing; old contents of memory must not be pixels."""

import ctypes
import lzma
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import cv2
import numcodecs
import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import VisionNMFError
from visionnmf.io import decode_image

PERTURB = -6  # M_PERTURB of glibc's malloc.h
Tags = dict[int, tuple[int, list[int]]]  # type and values by number


def tiffs(dice: Random) -> int:
    """Decode a TIFF file that was made to do harm, and return the bytes of its picture."""
    data = make(dice)
    return same_pixels(lambda: decode_image(data, "case", max_pixels=4_000_000))


def same_pixels(read: Callable[[], NDArray[Any]]) -> int:
    """Read a picture twice over memory that holds different bytes; return its bytes, or raise what `read` raises."""
    outcomes: list[Any] = []
    for byte in (0x55, 0xAA):
        with memory_of(byte):
            try:
                outcomes.append(read())
            except VisionNMFError as error:
                outcomes.append(error)
    first, second = outcomes
    if isinstance(first, VisionNMFError):
        assert str(first) == str(second), f"a message about memory that was never written: {first}"
        raise first
    assert np.array_equal(first, second), "pixels that were never written"
    return first.nbytes


@contextmanager
def memory_of(byte: int) -> Iterator[None]:
    """Fill memory that malloc returns with a byte, which only glibc can do."""
    library = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    if library is not None:
        library.mallopt(PERTURB, byte)
    try:
        yield
    finally:
        if library is not None:
            library.mallopt(PERTURB, 0)


def make(dice: Random) -> bytes:
    """Return a TIFF file, of which most have strips or tiles that are not whole."""
    bits, kind = dice.choice(((1, 1), (2, 1), (4, 1), (8, 1), (8, 1), (16, 1), (16, 1), (32, 3), (64, 3), (16, 3)))
    colours = dice.choice((1, 3, 4)) if bits >= 8 else 1
    width, height = dice.choice((8, 13, 40, 200)), dice.choice((1, 7, 30, 100))
    tiled, planes = dice.random() < 0.3, dice.random() < 0.3 and colours > 1
    columns, rows = (16, 16) if tiled else (width, dice.choice((1, 3, height, 1000)))
    down, across = -(-height // rows), -(-width // columns) if tiled else 1
    row = (columns * (1 if planes else colours) * bits + 7) // 8
    compression = dice.choice(sorted(PACKERS))
    sizes = [
        row * (rows if tiled else min(rows, height - rows * k))
        for _ in range(colours if planes else 1)
        for k in range(down)
        for _ in range(across)
    ]
    shape = (max(1, sizes[0] // row), columns, 1 if planes else colours)
    parts = [PACKERS[compression](_content(dice, size), shape) for size in sizes]
    counts = [len(part) for part in parts]
    if dice.random() < 0.8:
        _harm(dice, parts, counts, sizes, compression, shape)
    offsets = [8 + sum(map(len, parts[:k])) for k in range(len(parts))]
    if parts and dice.random() < 0.05:
        offsets[-1] = dice.choice((0, 4, 1 << 30))
    photometric = 0 if dice.random() < 0.2 and colours == 1 else 2 if colours > 1 else 1
    tags: Tags = {
        256: (3, [width]),
        257: (3, [height]),
        258: (3, [bits] * colours),
        259: (3, [compression]),
        262: (3, [photometric if compression != 7 or colours != 3 else dice.choice((2, 6))]),
        277: (3, [colours]),
        284: (3, [2 if planes else 1]),
        317: (3, [dice.choice((1, 1, 2, 3))]),
        339: (3, [kind] * colours),
    }
    if colours == 4:
        tags[338] = (3, [dice.choice((0, 1, 2))])
    if tiled:
        tags |= {322: (3, [16]), 323: (3, [16]), 324: (4, offsets), 325: (4, counts)}
    else:
        tags |= {273: (4, offsets), 278: (3, [rows]), 279: (4, counts)}
    return assemble(b"".join(parts), tags)


def assemble(parts: bytes, tags: Tags) -> bytes:
    """Return a file of the parts, which begin at byte 8, and one directory."""
    parts += b"\0" * (len(parts) % 2)
    start, entries, beyond = 8 + len(parts), b"", b""
    end = start + 2 + 12 * len(tags) + 4
    for number, (kind, values) in sorted(tags.items()):
        packed = struct.pack(f"<{len(values)}{'H' if kind == 3 else 'I'}", *values)
        place = packed.ljust(4, b"\0") if len(packed) <= 4 else struct.pack("<I", end + len(beyond))
        entries += struct.pack("<HHI", number, kind, len(values)) + place
        beyond += packed if len(packed) > 4 else b""
    return b"II*\0" + struct.pack("<I", start) + parts + struct.pack("<H", len(tags)) + entries + bytes(4) + beyond


def _content(dice: Random, size: int) -> bytes:
    """Return bytes of which all samples are zero, or of random samples."""
    return bytes(size) if dice.random() < 0.6 else dice.randbytes(size)


def _harm(
    dice: Random, parts: list[bytes], counts: list[int], sizes: list[int], compression: int, shape: tuple[int, ...]
) -> None:
    """Make one part short or long, before or after it is packed, or leave parts out."""
    at, kind = dice.choice((0, len(parts) - 1, dice.randrange(len(parts)))), dice.randrange(6)
    if kind <= 1:  # content that ends too early or too late
        size = dice.choice((0, 1, sizes[at] // 2, sizes[at] - 1, sizes[at] + 1, 5 * sizes[at], 1 << 24))
        parts[at] = PACKERS[compression](_content(dice, size), (max(1, shape[0] * size // sizes[at]), *shape[1:]))
        counts[at] = len(parts[at])
    elif kind == 2:  # packed data that end too early
        parts[at] = parts[at][: dice.randrange(len(parts[at]) + 1)]
        counts[at] = len(parts[at])
    elif kind == 3:
        counts[at] = dice.choice((0, 1, counts[at] // 2, counts[at] - 1, counts[at] + 1, 1 << 31))
    elif kind == 4:
        del parts[dice.choice((1, len(parts) - 1)) :]
        del counts[len(parts) :]
    else:  # packed data with a byte changed
        packed = bytearray(parts[at])
        if packed:
            packed[dice.randrange(len(packed))] = dice.randrange(256)
        parts[at] = bytes(packed)


def _lzw(data: bytes, shape: tuple[int, ...]) -> bytes:
    """Return LZW data that begin a new table before its codes take ten bits."""
    data = data[: 1 << 20]
    codes = [code for start in range(0, len(data), 250) for code in (256, *data[start : start + 250])] + [257]
    bits = "".join(f"{code:09b}" for code in codes)
    return int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8))


def _packbits(data: bytes, shape: tuple[int, ...]) -> bytes:
    pieces = (data[start : start + 128] for start in range(0, len(data), 128))
    return b"".join(bytes([len(piece) - 1]) + piece for piece in pieces)


def _picture(suffix: str) -> Callable[[bytes, tuple[int, ...]], bytes]:
    """Return a function that packs samples as a picture file."""

    def pack(data: bytes, shape: tuple[int, ...]) -> bytes:
        size = int(np.prod(shape))
        samples = np.frombuffer(data.ljust(size, b"\0"), np.uint8, size).reshape(shape)
        encoded: Any = cv2.imencode(suffix, samples[:4000, :, : min(3, shape[2])])[1]
        return bytes(encoded)

    return pack


PACKERS: dict[int, Callable[[bytes, tuple[int, ...]], bytes]] = {
    1: lambda data, shape: data,
    5: _lzw,
    7: _picture(".jpg"),
    8: lambda data, shape: zlib.compress(data, 1),
    32773: _packbits,
    32946: lambda data, shape: zlib.compress(data, 1),
    34925: lambda data, shape: lzma.compress(data, preset=0),
    50000: lambda data, shape: bytes(numcodecs.Zstd().encode(data)),
    50001: _picture(".webp"),
}
