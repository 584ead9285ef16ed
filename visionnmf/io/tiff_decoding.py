"""Decode TIFF files of which Pillow would lose bits, and refuse those with missing parts."""

from __future__ import annotations

import io
import logging
import math
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray

from visionnmf._pixel_range import bits_of, declared_bits
from visionnmf.exceptions import UnreadableError, UnsupportedError

from .pixel_conversion import (
    check_size,
    decode_by_opencv,
    from_float,
    of_floats,
    rgb_on_white,
    turn_upright,
    with_alpha,
)

# that tifffile decodes without further libraries: none, Deflate, PackBits
_TIFFFILE_COMPRESSIONS = {1, 8, 32773, 32946}


def decode_tiff(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any] | None:
    """Decode a TIFF file with 16-bit or float samples, Pillow decodes others (None); `notes` get what is left out."""
    if not (log := logging.getLogger("tifffile")).handlers:
        log.addHandler(logging.NullHandler())  # otherwise it prints about damaged files
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        page = tiff.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        bits = page.bitspersample
        if not isinstance(bits, int) or bits < 1:
            raise UnsupportedError(f"{name}: channels of {bits!r:.20} bits; save the picture with 8 or 16 bits in each")
        check_size(name, page.imagewidth, page.imagelength, max_pixels)
        if page.imagedepth > 1 or page.tiledepth > 1:
            raise UnsupportedError(f"{name}: a volume of {page.imagedepth} slices; save one slice as an image")
        if page.samplesperpixel > 4:
            raise UnsupportedError(f"{name}: {page.samplesperpixel} channels; save the picture as grey, RGB or RGBA")
        _check_parts(page, data, name)
        if _has_second_picture(tiff):
            notes.append("has several pages; only the first is read")
        kind = page.dtype.kind if page.dtype is not None else "?"
        if kind in ("b", "u") and bits <= 8:
            return None
        # Photometric interpretations: 0 is grey with white as zero, 1 grey with black as zero, 2 RGB.
        if kind not in ("u", "f") or (kind == "u" and bits != 16) or page.photometric not in (0, 1, 2):
            whole = page.dtype is not None and bits == 8 * page.dtype.itemsize
            described = page.dtype.name if page.dtype is not None and whole else f"{bits}-bit"
            raise UnsupportedError(
                f"{name}: {described} samples with photometric interpretation {int(page.photometric)} are not "
                "supported; save the picture as 8- or 16-bit grey or RGB"
            )
        samples = _tiff_samples(page, data, name)
    orientation = page.tags.valueof(274, 1)
    return turn_upright(_tiff_colours(page, samples, name, notes), orientation)


def _check_parts(page: tifffile.TiffPage, data: bytes, name: str) -> None:
    """Raise UnreadableError if a strip or tile is missing or cut off, where decoders would make up pixels."""
    parts = list(zip(page.dataoffsets, page.databytecounts, strict=False))
    if len(parts) < math.prod(page.chunked):
        raise UnreadableError(f"{name}: the file is damaged (it has {len(parts)} of {math.prod(page.chunked)} parts)")
    # YCbCr (6) without compression may store colours at half resolution.
    plain = page.compression == 1 and page.photometric != 6
    if any(start <= 0 or count <= 0 or start + count > len(data) for start, count in parts) or (
        plain and 8 * sum(page.databytecounts) < page.size * page.bitspersample
    ):
        raise UnreadableError(f"{name}: the file is cut off or damaged (it holds fewer data than it declares)")


def _has_second_picture(tiff: tifffile.TiffFile) -> bool:
    """Return whether a TIFF file has a second page that is not a thumbnail."""
    try:
        return not getattr(tiff.pages[1], "is_reduced", False)
    except Exception:  # there is none, or it is damaged, which does not matter for the first
        return False


def _tiff_samples(page: tifffile.TiffPage, data: bytes, name: str) -> NDArray[Any]:
    """Decode the samples of a page as (height, width, samples)."""
    height, width, channels = page.imagelength, page.imagewidth, page.samplesperpixel
    separate = page.planarconfig == 2 and channels > 1  # each channel is stored as a plane of its own
    # Without compression, libtiff (and so OpenCV) ignores a predictor, and tifffile fails.
    predictors = (1,) if page.compression == 1 else (1, 2)
    if page.compression in _TIFFFILE_COMPRESSIONS and page.predictor in predictors:
        samples = page.asarray()
        if separate:
            samples = np.moveaxis(samples, 0, -1)
    else:
        decoded = None if separate else decode_by_opencv(data)  # it would leave most memory of planes as it was
        if decoded is None or decoded.dtype != page.dtype or decoded.size != height * width * channels:
            raise UnsupportedError(
                f"{name}: {page.bitspersample}-bit samples with TIFF compression {int(page.compression)} cannot be "
                "decoded; save the picture without compression or as PNG"
            )
        # OpenCV returns blue first.
        samples = decoded if decoded.ndim == 2 else decoded[..., [2, 1, 0, *range(3, channels)]]
    return samples.reshape(height, width, channels)


def _tiff_colours(page: tifffile.TiffPage, samples: NDArray[Any], name: str, notes: list[str]) -> NDArray[Any]:
    """Separate colours and alpha in samples (height, width, channels), and return RGB on white."""
    if is_float := samples.dtype.kind == "f":
        samples = from_float(samples, name)
    colours = 3 if page.photometric == 2 else 1
    if samples.shape[2] < colours:
        raise UnreadableError(f"{name}: declares RGB with {samples.shape[2]} samples a pixel; the file is damaged")
    colour = samples[..., :colours].astype(np.uint16)
    if page.photometric == 0:  # white is stored as zero
        white = 65535 if is_float else 2 ** (declared_bits() or bits_of(colour)) - 1
        colour = white - np.minimum(colour, np.uint16(white))
    # Kinds of extra samples: 1 is alpha by which the colours are multiplied already, 2 alpha alone, 0 anything else.
    extra = [int(kind) for kind in page.extrasamples]
    alpha = samples[..., colours] if extra and extra[0] in (1, 2) and samples.shape[2] > colours else None
    blend = rgb_on_white if is_float else with_alpha
    blended = blend(colour, alpha, notes, premultiplied=bool(extra) and extra[0] == 1)
    return of_floats(blended) if is_float else blended
