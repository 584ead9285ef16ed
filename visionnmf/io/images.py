"""Read and write pictures; :mod:`visionnmf.io` is the public name of what stands here."""

from __future__ import annotations

import io
import logging
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image

from visionnmf.exceptions import MediaError, ParameterError, TooLargeError, UnreadableError, UnsupportedError

from .inputs import SAMPLE_PREFIX, output_file, regular_file

__all__ = ["read_image", "sample_names", "write_image"]

MAX_IMAGE_PIXELS = 100_000_000
_MAX_FILE_BYTES = 2**30

# Decoders that read only the bytes they are given. Pillow has others, which start programs or follow references (EPS).
PICTURE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "PPM", "TIFF")
_READABLE = "JPEG, PNG, TIFF, WebP, BMP, GIF and PNM"

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"
_TIFF = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")

# tifffile decodes these by itself with a bounded result; it wants another package for the rest, or does not bound it.
_TIFFFILE_COMPRESSIONS = {1, 8, 32773, 32946}
_DEFLATE = {8, 32946}


def read_image(source: str | Path, *, max_pixels: int = MAX_IMAGE_PIXELS) -> NDArray[Any]:
    """Read one picture as upright RGB.

    The rotation in the Exif data is applied. Grey becomes three equal channels; a palette, CMYK and 1-bit pictures
    become 8-bit RGB. An alpha channel that is opaque everywhere is dropped; transparency is blended onto white, with
    a warning. Of a file with several pictures the first is read, with a warning. Colour profiles are ignored.

    Parameters
    ----------
    source : str or Path
        A JPEG, PNG, TIFF, WebP, BMP, GIF or PNM file, or ``sample:NAME`` for a picture that scikit-image brings along
        (:func:`sample_names`).
    max_pixels : int, default=100_000_000
        Largest width times height. It is compared with the size that the file declares, before pixels are decoded.

    Returns
    -------
    ndarray [shape=(height, width, 3), uint8 or uint16]
        The picture. uint16 for PNG and TIFF files of 16 bits a channel, 16-bit grey PGM files, and float TIFF files,
        whose values 0 to 1 become 0 to 65535.

    Raises
    ------
    UnreadableError
        If the file is missing, a folder, empty, cut off, damaged, or not a picture.
    UnsupportedError
        If its values are not finite, floats outside [0, 1], or of a type without an obvious meaning as colours.
    TooLargeError
        If it declares more than `max_pixels`, or has more than 1 GiB.

    Warns
    -----
    UserWarning
        If transparency was blended, or further pictures of the file were ignored.
    """
    name = str(source)
    path = _sample_path(name) if name.startswith(SAMPLE_PREFIX) else regular_file(source, "image")
    size = path.stat().st_size
    if size > _MAX_FILE_BYTES:
        raise TooLargeError(f"{name}: the file has {size} bytes; images may have at most {_MAX_FILE_BYTES}")
    notes: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # decoders warn of oddities in a file; what matters is said below
            image = _decode(path.read_bytes(), name, max_pixels, notes)
    except MediaError:
        raise
    except Image.DecompressionBombError as error:  # Pillow looks before we can; its sentence begins with the size
        pixels = "".join(re.findall(r"\d+", str(error))[:1])
        raise TooLargeError(f"{name}: declares {pixels} pixels; at most {max_pixels} are read") from error
    except Exception as error:  # a damaged file makes a decoder raise nearly anything
        raise UnreadableError(f"{name}: {_complaint(error)}") from error
    for note in notes:
        warnings.warn(f"{name}: {note}", UserWarning, stacklevel=2)
    return image


def sample_names() -> list[str]:
    """List the pictures that ``sample:NAME`` can name: those that lie in scikit-image's installation.

    Returns
    -------
    list of str
        Sorted names; nothing is ever downloaded.
    """
    return sorted(_samples())


def _samples() -> dict[str, Path]:
    spec = find_spec("skimage")  # the folder alone is wanted; importing skimage.data would load its downloader
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = (path for folder in folders for path in sorted((Path(folder) / "data").iterdir()))
    return {path.stem: path for path in files if path.suffix in (".png", ".jpg")}


def _sample_path(name: str) -> Path:
    samples = _samples()
    wanted = name.removeprefix(SAMPLE_PREFIX)
    if wanted not in samples:
        raise UnreadableError(f"{name}: no such sample; there are {', '.join(sorted(samples))}")
    return samples[wanted]


def _complaint(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory to decode it"
    text = " ".join(str(error).split()) or type(error).__name__
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return f"the file is cut off or damaged ({text})"
    return f"the file is damaged or not a picture that can be read ({text})"


def _check_size(name: str, width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise TooLargeError(
            f"{name}: declares {width} x {height} = {width * height} pixels; at most {max_pixels} are read"
        )
    if width < 1 or height < 1:
        raise UnreadableError(f"{name}: declares a size of {width} x {height} pixels; the file is damaged")


def _decode(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any]:
    if data[:4] in _TIFF:
        image = _decode_tiff(data, name, max_pixels, notes)
        if image is not None:
            return image
    elif data.startswith(_PNG) and _PNG_END not in data:
        raise UnreadableError(f"{name}: the file is cut off before the end of the PNG data")
    return _decode_with_pillow(data, name, max_pixels, notes)


def _decode_with_pillow(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any]:
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=PICTURE_FORMATS)
    except Image.UnidentifiedImageError as error:
        what = _looks_like(data)
        raise UnreadableError(f"{name}: not a picture that can be read{what}; {_READABLE} are") from error
    with image:
        _check_size(name, *image.size, max_pixels)
        if image.format in ("GIF", "PNG", "WEBP") and getattr(image, "is_animated", False):
            notes.append("an animation; only its first picture is read")
        image.load()  # the whole file: half a picture is an error here
        orientation = _orientation(image)
        if image.format == "PNG" and len(data) > 25 and data[24] == 16 and data[25] in (2, 4, 6):
            return _upright(_deep_png(data, image, name, notes), orientation)
        return _upright(_pixels(image, name, notes), orientation)


def _looks_like(data: bytes) -> str:
    video = (
        data[4:8] == b"ftyp" or data[8:12] == b"AVI " or data[:4] in (b"\x1aE\xdf\xa3", b"FLV\x01", b"\x00\x00\x01\xba")
    )
    if video or data[:4] in (b"OggS", b"\x00\x00\x01\xb3") or (data[0] == 0x47 and data[188:189] == b"G"):
        return ", it looks like a video"
    text = all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in data[:512])
    return ", it looks like text" if text else " or damaged"


def _orientation(image: Image.Image) -> int:
    """Return the Exif orientation, 1 to 8, that is still to be applied."""
    try:
        value = image.getexif().get(0x0112, 1)
    except Exception:  # broken Exif data beside a healthy picture
        return 1
    return value if value in range(1, 9) else 1


def _upright(image: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Apply an Exif orientation to an array (height, width, ...)."""
    if orientation in (5, 6, 7, 8):
        image = image.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    return np.ascontiguousarray(image)


def _pixels(image: Image.Image, name: str, notes: list[str]) -> NDArray[Any]:
    """Return a decoded Pillow picture as RGB."""
    mode = image.mode
    if mode.startswith("I"):  # 16-bit grey; Pillow widens it to 32 bits in some formats and versions
        values = np.asarray(image)
        if values.size and (values.min() < 0 or values.max() > 65535):
            raise UnsupportedError(f"{name}: 32-bit integers; save the picture with 8 or 16 bits a channel")
        transparent = image.info.get("transparency")
        alpha = None
        if isinstance(transparent, int):
            alpha = np.where(values == transparent, 0, 65535)
        return _finish(values.astype(np.uint16), alpha, notes)
    if mode == "F":
        return _finish(_from_float(np.asarray(image), name), None, notes)
    if mode == "RGBa" or image.has_transparency_data:
        rgba = np.asarray(image.convert("RGBA"))
        return _finish(rgba[..., :3], rgba[..., 3], notes)
    if mode not in ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV"):
        raise UnsupportedError(f"{name}: colours of mode {mode} are not supported; convert the picture to RGB")
    return _finish(np.asarray(image.convert("RGB")), None, notes)


def _finish(
    colour: NDArray[Any], alpha: NDArray[Any] | None, notes: list[str], *, premultiplied: bool = False
) -> NDArray[Any]:
    """Make three channels, and blend what is transparent onto white."""
    if colour.ndim == 2 or colour.shape[2] == 1:
        colour = np.repeat(colour.reshape(*colour.shape[:2], 1), 3, axis=2)
    white = int(np.iinfo(colour.dtype).max)
    if alpha is None or (alpha == white).all():
        return np.ascontiguousarray(colour)
    notes.append("has transparent parts; they are blended onto white")
    blended = np.empty_like(colour)
    for start in range(0, len(colour), 256):  # in strips: the products take four times the picture's memory
        rows = slice(start, start + 256)
        opacity = alpha[rows, :, np.newaxis].astype(np.uint32)  # 65535 squared and half of it still fit
        light = colour[rows].astype(np.uint32) * (white if premultiplied else opacity)
        blended[rows] = (np.minimum(light, white * opacity) + white * (white - opacity) + white // 2) // white
    return blended


def _from_float(values: NDArray[Any], name: str) -> NDArray[np.uint16]:
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


def _deep_png(data: bytes, shallow: Image.Image, name: str, notes: list[str]) -> NDArray[Any]:
    """Decode a 16-bit colour PNG, which Pillow reduces to 8 bits, by OpenCV."""
    clean = b"".join([_PNG, *_chunks(data, (b"IHDR", b"tRNS", b"IDAT", b"IEND"))])
    decoded = _opencv(clean)
    if decoded is None or decoded.dtype != np.uint16 or decoded.ndim != 3:
        raise UnreadableError(f"{name}: the 16-bit PNG data are damaged")
    colour = decoded[..., 2::-1]
    # Two decoders, one file: Pillow's 8 bits are the upper halves. A decoder that filled a gap would be found out.
    if not np.array_equal(colour >> 8, np.asarray(shallow.convert("RGB"))):
        raise UnreadableError(f"{name}: the 16-bit PNG data are damaged (two decoders disagree)")
    return _finish(colour, decoded[..., 3] if decoded.shape[2] == 4 else None, notes)


def _opencv(data: bytes) -> NDArray[Any] | None:
    with _quiet_opencv():
        decoded: NDArray[Any] | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return decoded


@contextmanager
def _quiet_opencv() -> Iterator[None]:
    """Keep OpenCV's reports on damaged files from standard error; ours is enough."""
    log: Any = getattr(cv2.utils, "logging", cv2)  # OpenCV 5, OpenCV 4
    level = log.getLogLevel()
    log.setLogLevel(0)
    try:
        yield
    finally:
        log.setLogLevel(level)


def _chunks(data: bytes, wanted: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield the wanted chunks of a PNG file, whole.

    Text, profiles and what else a stranger may put in do not reach the second decoder.
    """
    position = len(_PNG)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        end = position + 12 + length
        if data[position + 4 : position + 8] in wanted:
            yield data[position:end]
        position = end


def _decode_tiff(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any] | None:
    """Check a TIFF file, and decode it if it holds 16-bit or float samples; Pillow does the others (None)."""
    if not (log := logging.getLogger("tifffile")).handlers:
        log.addHandler(logging.NullHandler())  # else its complaints about damaged files go to standard error
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        page = tiff.pages[0]
        assert isinstance(page, tifffile.TiffPage)
        _check_size(name, page.imagewidth, page.imagelength, max_pixels)
        if page.imagedepth > 1 or page.tiledepth > 1:
            raise UnsupportedError(f"{name}: a volume of {page.imagedepth} slices; save one slice as an image")
        if page.samplesperpixel > 4:
            raise UnsupportedError(f"{name}: {page.samplesperpixel} channels; save the picture as grey, RGB or RGBA")
        segments = list(zip(page.dataoffsets, page.databytecounts, strict=False))
        if not segments or any(start <= 0 or count <= 0 or start + count > len(data) for start, count in segments):
            raise UnreadableError(f"{name}: the file is cut off or damaged (image data lie beyond its end)")
        bits = page.bitspersample
        stored = sum(count for _, count in segments)
        plain = page.compression == 1 and page.photometric != 6  # 6: YCbCr, whose colours are stored at half resolution
        if plain and stored < page.imagelength * page.imagewidth * page.samplesperpixel * bits // 8:
            raise UnreadableError(f"{name}: the file is cut off or damaged (it holds fewer data than it declares)")
        if _has_second_picture(tiff):
            notes.append("has several pages; only the first is read")
        kind = page.dtype.kind if page.dtype is not None else "?"
        if kind in ("b", "u") and bits <= 8:
            return None
        if kind not in ("u", "f") or (kind == "u" and bits != 16) or page.photometric not in (0, 1, 2):
            described = page.dtype.name if page.dtype is not None else f"{bits}-bit"
            raise UnsupportedError(
                f"{name}: {described} samples with photometric interpretation {int(page.photometric)} are not "
                "supported; save the picture as 8- or 16-bit grey or RGB"
            )
        samples = _tiff_samples(page, data, segments, name, max_pixels)
    return _upright(_tiff_colours(page, samples, name, notes), _tiff_orientation(page))


def _has_second_picture(tiff: tifffile.TiffFile) -> bool:
    try:
        return not getattr(tiff.pages[1], "is_reduced", False)  # a thumbnail is no second picture
    except Exception:  # there is none, or it is damaged, which does not concern the first
        return False


def _tiff_orientation(page: tifffile.TiffPage) -> int:
    tag = page.tags.get(274)
    value = tag.value if tag is not None else 1
    return value if value in range(1, 9) else 1


def _tiff_samples(
    page: tifffile.TiffPage, data: bytes, segments: list[tuple[int, int]], name: str, max_pixels: int
) -> NDArray[Any]:
    """Decode the samples of a page as (height, width, samples)."""
    height, width, channels = page.imagelength, page.imagewidth, page.samplesperpixel
    if page.compression in _TIFFFILE_COMPRESSIONS and page.predictor in (1, 2):
        if page.compression in _DEFLATE:
            _check_inflated_size(page, data, segments, name, max_pixels)
        samples = page.asarray()
        if page.planarconfig == 2 and channels > 1:
            samples = np.moveaxis(samples, 0, -1)
    else:
        decoded = _opencv(data)
        if decoded is None or decoded.dtype != page.dtype or decoded.size != height * width * channels:
            raise UnsupportedError(
                f"{name}: {page.bitspersample}-bit samples with TIFF compression {int(page.compression)} cannot be "
                "decoded; save the picture without compression or as PNG"
            )
        samples = decoded if decoded.ndim == 2 else decoded[..., [2, 1, 0, *range(3, channels)]]
    return samples.reshape(height, width, channels)


def _check_inflated_size(
    page: tifffile.TiffPage, data: bytes, segments: list[tuple[int, int]], name: str, max_pixels: int
) -> None:
    # tifffile inflates each strip or tile without a limit: a few kilobytes could become gigabytes
    rows, columns = min(page.rowsperstrip, page.imagelength), page.imagewidth
    if page.is_tiled:
        rows, columns = page.tilelength, page.tilewidth
    _check_size(name, columns, rows, max_pixels)
    limit = rows * columns * page.samplesperpixel * page.bitspersample // 8
    for start, count in segments:
        inflater = zlib.decompressobj()
        inflater.decompress(data[start : start + count], limit)
        if inflater.decompress(inflater.unconsumed_tail, 1):
            raise UnreadableError(f"{name}: compressed image data are larger than the image; the file is damaged")


def _tiff_colours(page: tifffile.TiffPage, samples: NDArray[Any], name: str, notes: list[str]) -> NDArray[Any]:
    """Split colours from alpha; both as uint16."""
    if samples.dtype.kind == "f":
        samples = _from_float(samples, name)
    colours = 3 if page.photometric == 2 else 1
    if samples.shape[2] < colours:
        raise UnreadableError(f"{name}: declares RGB with {samples.shape[2]} samples a pixel; the file is damaged")
    colour = samples[..., :colours].astype(np.uint16)
    if page.photometric == 0:
        colour = 65535 - colour
    extra = [int(kind) for kind in page.extrasamples]
    alpha = samples[..., colours] if extra and extra[0] in (1, 2) and samples.shape[2] > colours else None
    return _finish(colour, alpha, notes, premultiplied=bool(extra) and extra[0] == 1)


def write_image(path: str | Path, array: NDArray[Any], *, force: bool = False) -> None:
    """Write a PNG file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file; its name must end in ``.png``.
    array : ndarray [shape=(height, width) or (height, width, 3), uint8 or uint16]
        Grey values, labels or RGB.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If the name, the shape or the dtype is another.
    OutputExistsError
        If the file exists and `force` is false.
    MediaError
        If the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise ParameterError(f"path={str(path)!r}: images are written as PNG; end the name in .png")
    shape = np.shape(array)
    dtype = getattr(array, "dtype", None)
    if dtype not in (np.uint8, np.uint16) or not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)) or 0 in shape:
        raise ParameterError(
            f"array has shape {shape} and dtype {dtype}; it must be (height, width) or (height, width, 3), uint8 or "
            "uint16, and not empty"
        )
    with output_file(path, force=force) as temporary:
        done, encoded = cv2.imencode(".png", array if len(shape) == 2 else array[..., ::-1])
        if not done:
            raise MediaError(f"{path}: the image of shape {shape} cannot be encoded as PNG")
        try:
            temporary.write_bytes(encoded.tobytes())
        except OSError as error:
            raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
