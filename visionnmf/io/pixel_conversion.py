"""Check the declared size of pictures, and convert their pixels: orientation, channels, bit depth, grey."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visionnmf._pixel_range import bits_of, declared_bits, in_eight_bits, in_full_range
from visionnmf.exceptions import ParameterError, TooLargeError, UnreadableError, UnsupportedError


def to_grey8(values: NDArray[Any], bits: int | None = None) -> NDArray[np.uint8]:
    """Return a grey or RGB picture of 8 or 16 bits as grey uint8 (height, width).

    White in 16-bit values is that of `bits` bits, by default of as few as hold them. Colours are weighted as in ITU-R
    BT.601.
    """
    if getattr(values, "dtype", None) not in (np.uint8, np.uint16):
        raise ParameterError(f"values must be uint8 or uint16; got {getattr(values, 'dtype', type(values).__name__)}")
    values = in_eight_bits(values, bits)
    return values if values.ndim == 2 else np.array(Image.fromarray(values).convert("L"))


def resize_grey(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale a grey uint8 picture to `size`, (height, width); pixels are averaged if it shrinks."""
    if image.shape == size:
        return image
    return np.array(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR))


def check_size(name: str, width: int, height: int, max_pixels: int) -> None:
    """Raise TooLargeError or UnreadableError if a picture of a declared size should not be decoded."""
    if width * height > max_pixels:
        raise TooLargeError(
            f"{name}: declares {width} x {height} = {width * height} pixels; at most {max_pixels} are read; "
            "make it smaller first, for instance by: magick picture.png -resize 50% smaller.png"
        )
    if width < 1 or height < 1:
        raise UnreadableError(f"{name}: declares a size of {width} x {height} pixels; the file is damaged")


def turn_upright(image: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Apply an Exif orientation, 1 to 8, to an array: exchange axes (from 5 on), mirror, turn upside down."""
    if orientation in (5, 6, 7, 8):
        image = image.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    return np.ascontiguousarray(image)


def rgb_on_white(
    colour: NDArray[Any], alpha: NDArray[Any] | None, notes: list[str], *, premultiplied: bool = False
) -> NDArray[Any]:
    """Return three channels, with transparent parts (`alpha` 0) blended onto white, which `notes` then says.

    `colour` is (height, width[, 1 or 3]), and in a `premultiplied` picture multiplied by alpha already.
    """
    if colour.ndim == 2 or colour.shape[2] == 1:
        colour = np.repeat(colour.reshape(*colour.shape[:2], 1), 3, axis=2)
    white = int(np.iinfo(colour.dtype).max)
    if alpha is None or (alpha == white).all():
        return np.ascontiguousarray(colour)
    notes.append("has transparent parts; they are blended onto white")
    blended = np.empty_like(colour)
    for start in range(0, len(colour), 256):  # in strips: the products take four times the picture's memory
        rows = slice(start, start + 256)
        opacity = alpha[rows, :, np.newaxis].astype(np.uint32)  # 65535 squared and half of it fit into 32 bits
        light = colour[rows].astype(np.uint32) * (white if premultiplied else opacity)
        # colour * alpha + white * (1 - alpha) in whole numbers; half of white rounds to the nearest
        blended[rows] = (np.minimum(light, white * opacity) + white * (white - opacity) + white // 2) // white
    return blended


def with_alpha(colour: NDArray[Any], alpha: NDArray[Any] | None, notes: list[str], **how: bool) -> NDArray[Any]:
    """Return whole numbers as :func:`rgb_on_white` does, after giving 16 bits of a camera their full range."""
    if alpha is not None and alpha.dtype == colour.dtype == np.uint16 and (alpha < 65535).any():
        height, width = alpha.shape
        colour = np.broadcast_to(colour.reshape(height, width, -1), (height, width, 3))
        known = declared_bits()
        bits = known or bits_of(colour[alpha > 0])
        # alpha of 16 bits is 65535 where it is opaque, but some programs scale it as they do the colours
        own = bool(alpha.max() == 2**bits - 1)
        if known is not None:
            colour, alpha = in_eight_bits(colour, bits), in_eight_bits(alpha, bits if own else 16)
        else:
            colour, note = in_full_range(colour, alpha > 0)
            alpha = in_full_range(alpha)[0] if own else alpha
            notes += filter(None, [note])
    return rgb_on_white(colour, alpha, notes, **how)


def from_float(values: NDArray[Any], name: str) -> NDArray[np.uint16]:
    """Return floats in [0, 1] as 16-bit integers; raise UnsupportedError for others."""
    bad = int(values.size - np.isfinite(values).sum())
    if bad:
        raise UnsupportedError(
            f"{name}: {bad} values are NaN or infinite; replace them before saving (for instance by numpy.nan_to_num)"
        )
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        raise UnsupportedError(
            f"{name}: float values from {low:g} to {high:g}; floats must lie in [0, 1]: "
            "rescale them, or save the picture as 8- or 16-bit integers"
        )
    return np.rint(values * np.float64(65535)).astype(np.uint16)


def of_floats(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return 16-bit values of floats; as 8 bits where they would be taken for fewer bits."""
    return pixels if bits_of(pixels) == 16 and declared_bits() is None else in_eight_bits(pixels, 16)


def decode_by_opencv(data: bytes) -> NDArray[Any] | None:
    """Decode a picture without conversion, channels in OpenCV's order; None if that fails."""
    import cv2

    log: Any = getattr(cv2.utils, "logging", cv2)  # OpenCV 5, OpenCV 4
    level = log.getLogLevel()
    log.setLogLevel(0)  # it would print about damaged files, which we report ourselves
    try:
        decoded: NDArray[Any] | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    finally:
        log.setLogLevel(level)
    return decoded
