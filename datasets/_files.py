"""Pictures and arrays out of files that strangers made: every size is looked at before memory is taken for it."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from visionnmf.exceptions import MediaError, TooLargeError, UnreadableError, UnsupportedError

__all__ = [
    "MAX_BYTES",
    "MAX_PIXELS",
    "check_bytes",
    "check_names",
    "decode",
    "one_line",
    "read_npz",
    "resize",
    "to_grey8",
]

MAX_PIXELS = 50_000_000
MAX_BYTES = 1 << 30

# Decoders that read only the bytes they are given. Pillow has others, which start programs or follow references (EPS).
_FORMATS = ("JPEG", "PNG", "PPM", "GIF", "BMP", "WEBP", "TIFF")


def check_bytes(name: object, count: int) -> None:
    """Raise TooLargeError where `count` bytes are more than the limit."""
    if count > MAX_BYTES:
        raise TooLargeError(f"{name} has {count} bytes, more than {MAX_BYTES}.")


def decode(source: Path | io.BytesIO, name: object, mode: str) -> NDArray[np.uint8]:
    """Decode a picture, upright, as "L" (height, width) or "RGB" (height, width, 3).

    Transparent parts become white; 16-bit grey is reduced to 8 bits; of several pictures the first is taken.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # decoders warn of oddities in a file that do not concern its pixels
            with Image.open(source, formats=_FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise TooLargeError(f"{name} has {image.width}x{image.height} pixels, more than {MAX_PIXELS}.")
                return _pixels(_upright(image), name, mode)
    except MediaError:
        raise
    except Image.DecompressionBombError as error:  # Pillow looks before we can
        raise TooLargeError(f"{name} has more than {MAX_PIXELS} pixels.") from error
    except Image.UnidentifiedImageError as error:
        known = ", ".join(_FORMATS)
        raise UnreadableError(f"{name} cannot be read as an image: it is damaged, or none of {known}.") from error
    except Exception as error:  # a damaged file makes a decoder raise nearly anything
        raise UnreadableError(f"{name} cannot be read as an image: {one_line(error)}.") from error


def _upright(image: Image.Image) -> Image.Image:
    image.load()  # the whole file: half a picture is an error here
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # broken Exif data beside a healthy picture
        return image


def _pixels(image: Image.Image, name: object, mode: str) -> NDArray[np.uint8]:
    if image.mode == "F":
        raise UnsupportedError(f"{name} holds floats, whose white is not known; save it with 8 or 16 bits.")
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow would cut off at 255
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise UnsupportedError(f"{name} holds 32-bit integers; save it with 8 or 16 bits.")
        image = Image.fromarray(_to_8_bits(values))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.array(image.convert(mode))


def _to_8_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)


def to_grey8(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a picture (height, width) or (height, width, 3), uint8 or uint16, as 8-bit grey."""
    if values.dtype == np.uint16:
        values = _to_8_bits(values)
    return values if values.ndim == 2 else np.array(Image.fromarray(values).convert("L"))


def resize(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale a grey picture to (height, width), averaging where it shrinks."""
    if image.shape == size:
        return image
    return np.array(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR))


def read_npz(path: Path, names: Iterable[str], optional: Iterable[str] = ()) -> dict[str, NDArray[Any]]:
    """Read arrays of a .npz file, after a look at the sizes that it claims."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = {member.removesuffix(".npy") for member in archive.namelist()}
            check_names(path, names, held)
            wanted = [*names, *(name for name in optional if name in held)]
            for name in wanted:
                _check_claim(archive, f"{name}.npy", path)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in wanted}
    except MediaError:
        raise
    except Exception as error:  # zipfile, zlib and numpy have many ways to say that a file is damaged
        raise UnreadableError(f"{path} cannot be read: {one_line(error)}.") from error


def check_names(path: Path, names: Iterable[str], held: set[str]) -> None:
    """Raise UnreadableError where one of the names is not among those that the file holds."""
    absent = sorted(set(names) - held)
    if absent:
        shown = ", ".join(repr(name[:40]) for name in sorted(held)[:10]) or "nothing"  # a stranger chose them
        raise UnreadableError(f"{path} cannot be read: it has no {' and no '.join(absent)}, it holds {shown}.")


def _check_claim(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    # numpy allocates what the header claims before it reads: a few bytes could ask for all the memory
    size = archive.getinfo(member).file_size
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    check_bytes(f"{path}: {member}", max(size, math.prod(shape) * dtype.itemsize))


def one_line(error: Exception) -> str:
    """Return what an error says, on one line and without a full stop."""
    return (" ".join(str(error).split()) or type(error).__name__).removesuffix(".")
