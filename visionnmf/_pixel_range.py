"""What white is in whole numbers of 16 bits: one rule for pictures, frames and faces.

Cameras and microscopes put 10, 12 or 14 bits into 16 without saying so. Then the largest values tell what white is.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf.exceptions import ParameterError, UnsupportedError

BITS = (8, 10, 12, 14, 16)
# Values that may be larger than white, such as hot pixels: this share of all, and an RGB pixel of a tiny picture.
HOT_SHARE, HOT_VALUES = 1e-4, 3
KNOWN = "VISIONNMF_BITS"  # in the environment, which processes inherit: how many bits pictures of 16 bits use


def bits_of(values: NDArray[Any]) -> int:
    """Return into how many bits the values of a uint16 array fit, but for a few hot pixels; 8 for uint8."""
    if values.dtype == np.uint8:
        return 8
    fits = 16
    for bits in BITS[-2::-1]:
        if exceeds(values, bits):
            break
        fits = bits
    return fits


def exceeds(values: NDArray[Any], bits: int) -> bool:
    """Return whether more values than a few hot pixels are larger than the white of so many bits."""
    return bool(np.count_nonzero(values > 2**bits - 1) > HOT_SHARE * values.size + HOT_VALUES)


def check_bits(bits: Any) -> None:
    """Raise ValueError unless a value, which a file can give, is a number of bits, or 0 for none."""
    if type(bits) is not int or bits not in (0, *BITS):
        raise ValueError(f"bits_ must be 0 or one of {BITS}; got {bits!r:.40}")


def declared_bits() -> int | None:
    """Return how many bits the environment says that pictures of 16 bits use, if it does."""
    said = os.environ.get(KNOWN, "")
    if said and said not in map(str, range(8, 17)):
        raise ParameterError(f"{KNOWN} must be a whole number from 8 to 16; got {said!r:.40}")
    return int(said) if said else None


def note_on_unused() -> str:
    """Return a note for pixels that are not of 16 bits if a number of bits was declared; otherwise an empty text."""
    bits = declared_bits()
    return "" if bits is None else f"pixels that are not of 16 bits, on which bits={bits} has no effect"


def of_camera(pixels: NDArray[Any], name: object) -> NDArray[Any]:
    """Return the pixels of a photograph, those of 16 bits in 8 if :func:`declared_bits` says which value is white."""
    bits = declared_bits()
    if bits is None:
        return pixels
    if pixels.dtype != np.uint16:
        warnings.warn(note_on_unused(), PixelRangeWarning, stacklevel=3)
        return pixels
    if exceeds(pixels, bits):
        raise UnsupportedError(f"{name}: has values above {2**bits - 1}, the white of {bits} bits; take more bits")
    return in_eight_bits(pixels, bits)


class PixelRangeWarning(UserWarning):
    """Says which value was taken for white in 16-bit pixels that do not fill their range."""


def note_on(bits: int) -> str:
    """Return the sentence that says which white was taken in 16-bit values; empty if they fill their range."""
    return "" if bits == 16 else f"16-bit values are taken as {bits} bits: white is {2**bits - 1}"


def in_full_range(pixels: NDArray[Any], inside: NDArray[np.bool_] | None = None) -> tuple[NDArray[Any], str]:
    """Return pixels of which white is the largest value of their type, and a sentence if it was something else.

    Only pixels `inside` a mask tell what white is.
    """
    if pixels.dtype != np.uint16 or (bits := bits_of(pixels if inside is None else pixels[inside])) == 16:
        return pixels, ""
    white = np.uint32(2**bits - 1)
    scaled = ((np.minimum(pixels, white) * 65535 + white // 2) // white).astype(np.uint16)
    return scaled, note_on(bits) if pixels.any() else ""


def in_eight_bits(values: NDArray[Any], bits: int | None = None) -> NDArray[np.uint8]:
    """Return uint8 or uint16 values, of `bits` bits (by default what :func:`bits_of` finds), rounded to 8 bits."""
    if values.dtype == np.uint8:
        return values
    white = np.uint32(2 ** (bits or bits_of(values)) - 1)
    return ((np.minimum(values, white) * 255 + white // 2) // white).astype(np.uint8)
