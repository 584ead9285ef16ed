"""Check TIFF files, and decode those of which Pillow would lose bits or that would take too much memory."""

from __future__ import annotations

import io
import logging
import zlib
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray

from visionnmf.exceptions import UnreadableError, UnsupportedError

from .pixel_conversion import check_scans, check_size, decode_by_opencv, from_float, rgb_on_white, turn_upright

# Compressions that tifffile decodes itself and in bounded memory.
_TIFFFILE_COMPRESSIONS = {1, 8, 32773, 32946}
_DEFLATE = {8, 32946}
_JPEG = {6, 7}
_SIZES = (256, 257, 277, 278, 322, 323, 32997, 32998)  # tags that hold one number each


def decode_tiff(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any] | None:
    """Check a TIFF file, and decode it if it has 16-bit or float samples; Pillow decodes others (None).

    Segments are the strips or tiles of the first page, given by start and length. `notes` gets what is left out.
    """
    if not (log := logging.getLogger("tifffile")).handlers:
        log.addHandler(logging.NullHandler())  # otherwise it prints about damaged files
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        page = tiff.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        for tag in (page.tags.get(number) for number in _SIZES):
            # Python repeats a tuple or text instead of multiplying it, which can take gigabytes.
            if tag is not None and tag.count != 1:
                raise UnreadableError(f"{name}: the file is damaged (its {tag.name} has {tag.count} values)")
            if tag is not None and not isinstance(tag.value, int):
                raise UnreadableError(f"{name}: the file is damaged (its {tag.name} is {tag.value!r:.20})")
        bits = page.bitspersample
        if not isinstance(bits, int) or bits < 1:
            raise UnsupportedError(f"{name}: channels of {bits!r:.20} bits; save the picture with 8 or 16 bits in each")
        check_size(name, page.imagewidth, page.imagelength, max_pixels)
        if page.imagedepth > 1 or page.tiledepth > 1:
            raise UnsupportedError(f"{name}: a volume of {page.imagedepth} slices; save one slice as an image")
        if page.samplesperpixel > 4:
            raise UnsupportedError(f"{name}: {page.samplesperpixel} channels; save the picture as grey, RGB or RGBA")
        segments = _checked_segments(page, data, name, max_pixels)
        if page.compression in _JPEG:
            for start, count in segments:
                check_scans(data, name, start, start + count)  # each scan takes a pass over the whole picture
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
        samples = _tiff_samples(page, data, segments, name, max_pixels)
    return turn_upright(_tiff_colours(page, samples, name, notes), _tiff_orientation(page))


def _checked_segments(page: tifffile.TiffPage, data: bytes, name: str, max_pixels: int) -> list[tuple[int, int]]:
    """Return start and length of each strip or tile, after checking that each lies within the file and is whole."""
    if page.planarconfig not in (1, 2):  # colours together in each pixel, or each in a plane of its own
        raise UnreadableError(f"{name}: the file is damaged (its PlanarConfiguration is {page.planarconfig!r:.20})")
    segments = list(zip(page.dataoffsets, page.databytecounts, strict=False))
    if not segments or any(start <= 0 or count <= 0 or start + count > len(data) for start, count in segments):
        raise UnreadableError(f"{name}: the file is cut off or damaged (image data lie beyond its end)")
    if page.compression != 6:  # JPEG data of the old style are found by other tags
        sizes = _declared_sizes(page, len(segments), name, max_pixels)
        plain = page.compression == 1 and page.photometric != 6  # 6 is YCbCr, with colours at half resolution
        if plain and any(count < size for (_, count), size in zip(segments, sizes, strict=True)):
            raise UnreadableError(f"{name}: the file is cut off or damaged (it holds fewer data than it declares)")
    return segments


def _declared_sizes(page: tifffile.TiffPage, n_segments: int, name: str, max_pixels: int) -> list[int]:
    """Return how many bytes each strip or tile must unpack to; raise UnreadableError if there are too few."""
    height, width = page.imagelength, page.imagewidth
    rows, columns = (page.tilelength, page.tilewidth) if page.is_tiled else (min(page.rowsperstrip, height), width)
    check_size(name, columns, rows, max_pixels)
    planes = page.samplesperpixel if page.planarconfig == 2 else 1  # 2: each colour has segments of its own
    row_size = (columns * page.samplesperpixel // planes * page.bitspersample + 7) // 8  # rows end at whole bytes
    down, across = -(-height // rows), -(-width // columns)
    needed = planes * down * across
    if n_segments < needed:
        raise UnreadableError(f"{name}: the file is damaged (it has {n_segments} of {needed} parts)")
    # tiles are always whole; only the last strip of a plane may have fewer rows
    last = row_size * (rows if page.is_tiled else height - (down - 1) * rows)
    plane = [row_size * rows] * (down * across - 1) + [last]
    # nothing is needed of surplus segments
    return plane * planes + [0] * (n_segments - needed)


def _has_second_picture(tiff: tifffile.TiffFile) -> bool:
    """Return whether a TIFF file has a second page that is not a thumbnail."""
    try:
        return not getattr(tiff.pages[1], "is_reduced", False)  # a thumbnail does not count
    except Exception:  # there is none, or it is damaged, which does not matter for the first
        return False


def _tiff_orientation(page: tifffile.TiffPage) -> int:
    """Return the orientation of a page (tag 274), from 1 to 8; 1, upright, if it is missing or not valid."""
    tag = page.tags.get(274)
    value = tag.value if tag is not None else 1
    return value if value in range(1, 9) else 1


def _tiff_samples(
    page: tifffile.TiffPage, data: bytes, segments: list[tuple[int, int]], name: str, max_pixels: int
) -> NDArray[Any]:
    """Decode the samples of a page as (height, width, samples) from its strips or tiles, (start, length) in `data`."""
    height, width, channels = page.imagelength, page.imagewidth, page.samplesperpixel
    # Without compression, libtiff (and so OpenCV) ignores a predictor, and tifffile fails.
    predictors = (1,) if page.compression == 1 else (1, 2)
    if page.compression in _TIFFFILE_COMPRESSIONS and page.predictor in predictors:
        if page.compression != 1:
            _check_decoded_size(page, data, segments, name, max_pixels)  # because tifffile unpacks without a limit
        samples = page.asarray()
        if page.planarconfig == 2 and channels > 1:  # each channel is stored as a plane of its own
            samples = np.moveaxis(samples, 0, -1)
    else:
        separate = page.planarconfig == 2 and channels > 1  # OpenCV would leave most of its memory as it was
        decoded = None if separate else decode_by_opencv(data)
        if decoded is None or decoded.dtype != page.dtype or decoded.size != height * width * channels:
            raise UnsupportedError(
                f"{name}: {page.bitspersample}-bit samples with TIFF compression {int(page.compression)} cannot be "
                "decoded; save the picture without compression or as PNG"
            )
        # OpenCV returns blue first.
        samples = decoded if decoded.ndim == 2 else decoded[..., [2, 1, 0, *range(3, channels)]]
    return samples.reshape(height, width, channels)


def _check_decoded_size(
    page: tifffile.TiffPage, data: bytes, segments: list[tuple[int, int]], name: str, max_pixels: int
) -> None:
    """Raise UnreadableError unless each strip or tile unpacks to its declared size, because tifffile has no limit."""
    unpacked_size = _inflated_size if page.compression in _DEFLATE else _packbits_size
    sizes = _declared_sizes(page, len(segments), name, max_pixels)
    for (start, count), size in zip(segments, sizes, strict=True):
        unpacked = unpacked_size(memoryview(data)[start : start + count], max(sizes))
        if unpacked > max(sizes):  # the last strip may have as many rows as the others
            raise UnreadableError(f"{name}: compressed image data are larger than the image; the file is damaged")
        if unpacked < size:
            raise UnreadableError(f"{name}: compressed image data end too early; the file is damaged")


def _inflated_size(data: memoryview, limit: int) -> int:
    """Return how many bytes Deflate data unpack to, or `limit` + 1 if more than `limit`."""
    return len(zlib.decompressobj().decompress(data, limit + 1))


def _packbits_size(data: memoryview, limit: int) -> int:
    """Return how many bytes PackBits data unpack to, stopping beyond `limit`: runs of n + 1 or 257 - n bytes."""
    position, size = 0, 0
    while position < len(data) and size <= limit:
        head = data[position]
        if head < 128:  # head + 1 bytes are copied
            # a run that the data cut off has fewer bytes
            position, size = position + head + 2, size + min(head + 1, len(data) - position - 1)
        elif head > 128:  # the next byte is repeated 257 - head times
            position, size = position + 2, size + 257 - head
        else:  # 128 does nothing
            position += 1
    return size


def _tiff_colours(page: tifffile.TiffPage, samples: NDArray[Any], name: str, notes: list[str]) -> NDArray[Any]:
    """Separate colours and alpha in samples (height, width, channels), and return RGB on white as uint16."""
    if samples.dtype.kind == "f":
        samples = from_float(samples, name)
    colours = 3 if page.photometric == 2 else 1
    if samples.shape[2] < colours:
        raise UnreadableError(f"{name}: declares RGB with {samples.shape[2]} samples a pixel; the file is damaged")
    colour = samples[..., :colours].astype(np.uint16)
    if page.photometric == 0:  # white is stored as zero
        colour = 65535 - colour
    # Kinds of extra samples: 1 is alpha by which the colours are multiplied already, 2 alpha alone, 0 anything else.
    extra = [int(kind) for kind in page.extrasamples]
    alpha = samples[..., colours] if extra and extra[0] in (1, 2) and samples.shape[2] > colours else None
    return rgb_on_white(colour, alpha, notes, premultiplied=bool(extra) and extra[0] == 1)
