"""Read and write images."""

from __future__ import annotations

import io
import threading
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, features

from visionnmf._pixel_range import of_camera
from visionnmf.exceptions import (
    MediaError,
    ParameterError,
    UnreadableError,
    UnsupportedError,
    installed_by,
)

from .decoding import apart
from .inputs import SAMPLE_PREFIX, check_bytes, regular_file
from .outputs import output_file
from .pixel_conversion import (
    check_size,
    decode_by_opencv,
    from_float,
    of_floats,
    rgb_on_white,
    turn_upright,
    with_alpha,
)

MAX_IMAGE_PIXELS = 100_000_000

# Decoders that read only the bytes they are given. Others of Pillow start programs or follow references (EPS).
PICTURE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "PPM", "TIFF")
_READABLE = "JPEG, PNG, TIFF, WebP, BMP, GIF, PNM, AVIF and HEIC"
_AVIF = (b"avif", b"avis")  # brands in the first box of a file
_HEIC = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis")
_ANY_HEIF = (b"mif1", b"msf1")  # of these, the brands that follow decide

TIFF_STARTS = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")
BIG_TIFF = b"MM\x00+"  # of which tifffile reads more than 8 bits, and Pillow nothing
UNREAD_TIFF = "a big-endian BigTIFF file; save it in little-endian order, for instance by: tiffcp -L -8 old.tif new.tif"
# Matroska, Flash video, Ogg, MPEG program streams and MPEG-1 video; MP4 and AVI begin with sizes.
_VIDEO_STARTS = (b"\x1aE\xdf\xa3", b"FLV\x01", b"OggS", b"\x00\x00\x01\xba", b"\x00\x00\x01\xb3")
_OPENING = threading.Lock()
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"


def read_image(source: str | Path, *, max_pixels: int = MAX_IMAGE_PIXELS) -> NDArray[Any]:
    """Read one picture as upright RGB.

    The rotation in the Exif data is applied. Grey becomes three equal channels; palettes, CMYK and 1-bit pictures
    become 8-bit RGB. Transparency is blended onto white, with a warning. If a file holds several pictures, the first is
    read, with a warning. Colour profiles are ignored.

    Parameters
    ----------
    source : str or Path
        A JPEG, PNG, TIFF, WebP, BMP, GIF, PNM, AVIF or (with pillow-heif) HEIC file, or ``sample:NAME`` for a picture
        of scikit-image (:func:`sample_names`).
    max_pixels : int, default=100_000_000
        Largest width times height. The declared size is checked before pixels are decoded.

    Returns
    -------
    ndarray [shape=(height, width, 3), uint8 or uint16]
        The dtype is uint16 for PNG and TIFF files of 16 bits a channel, 16-bit grey PGM files, and float TIFF files,
        whose values 0 to 1 become 0 to 65535.

    Raises
    ------
    UnreadableError
        If the file is missing, a folder, empty, cut off, damaged, or not a picture.
    UnsupportedError
        If its values are not finite, floats outside [0, 1], or of a type that means no colours, or if a decoder for
        HEIC or AVIF is missing.
    TooLargeError
        If it declares more than `max_pixels`, or has more than 1 GiB.

    Warns
    -----
    UserWarning
        If transparency was blended, or further pictures of the file were ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import read_image, write_image
    >>> write_image("photo.png", np.full((8, 9, 3), 200, np.uint8), force=True)
    >>> read_image("photo.png").shape
    (8, 9, 3)
    """
    image, notes = read_with_notes(source, max_pixels=max_pixels)
    _warn(source, notes)
    return image


def read_photograph(source: str | Path) -> NDArray[Any]:
    """Read one picture as :func:`read_image` does; 16 bits of which VISIONNMF_BITS says how many are used become 8."""
    image, notes = read_with_notes(source)
    _warn(source, notes)
    return of_camera(image, source)


def _warn(name: object, notes: list[str]) -> None:
    """Warn the caller of a public function of what was left out of a picture."""
    for note in notes:
        warnings.warn(f"{name}: {note}", UserWarning, stacklevel=3)


@apart
def read_with_notes(source: str | Path, *, max_pixels: int = MAX_IMAGE_PIXELS) -> tuple[NDArray[Any], list[str]]:
    """Return one picture, and the warnings of :func:`read_image` for callers that read thousands."""
    name = str(source)
    if name.startswith(SAMPLE_PREFIX):
        samples = _samples()
        if name.removeprefix(SAMPLE_PREFIX) not in samples:
            raise UnreadableError(f"{name}: no such sample; there are {', '.join(sorted(samples))}")
        path = samples[name.removeprefix(SAMPLE_PREFIX)]
    else:
        path = regular_file(source, "image")
    check_bytes(name, path.stat().st_size)
    return _decoded(path.read_bytes(), name, max_pixels)


def decode_image(data: bytes, name: str) -> NDArray[Any]:
    """Decode one picture from the bytes of a file, as :func:`read_image` does; `name` is for messages."""
    image, notes = _decoded(data, name, MAX_IMAGE_PIXELS)
    _warn(name, notes)
    return image


def _decoded(data: bytes, name: str, max_pixels: int) -> tuple[NDArray[Any], list[str]]:
    """Decode a picture as RGB, with notes on what was left out; any error becomes one of ours."""
    notes: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # decoders warn of oddities; what matters is reported below
            image = _decode(data, name, max_pixels, notes)
    except (MediaError, MemoryError):
        raise
    except Exception as error:  # decoders raise nearly anything on damaged files
        raise UnreadableError(f"{name}: {_complaint(error)}") from error
    return image, notes


def sample_names() -> list[str]:
    """List the pictures that ``sample:NAME`` can name: those installed with scikit-image.

    Returns
    -------
    list of str
        Sorted names.

    Examples
    --------
    >>> from visionnmf.io import sample_names
    >>> sample_names()[:2]
    ['astronaut', 'brick']
    """
    return sorted(_samples())


def _samples() -> dict[str, Path]:
    """Return the files of the sample pictures by name; they come with scikit-image."""
    spec = find_spec("skimage")  # only the folder: importing skimage.data would load its downloader
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = (path for folder in folders for path in sorted((Path(folder) / "data").iterdir()))
    return {path.stem: path for path in files if path.suffix in (".png", ".jpg")}


def _complaint(error: Exception) -> str:
    """Return what is wrong with a picture in words, for an error of a decoder."""
    text = " ".join(str(error).split()) or type(error).__name__
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return f"the file is cut off or damaged ({text})"
    return f"the file is damaged or not a picture that can be read ({text})"


def _decode(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any]:
    """Decode a picture, by tifffile or else by Pillow; add to `notes` what is left out."""
    if data[:4] in TIFF_STARTS:
        from .tiff_decoding import decode_tiff  # here, because tifffile takes 0.1 s to import

        image = decode_tiff(data, name, max_pixels, notes)
        if image is not None:
            return image
    elif data.startswith(_PNG) and _PNG_END not in data:
        raise UnreadableError(f"{name}: the file is cut off before the end of the PNG data")
    return _decode_with_pillow(data, name, max_pixels, notes)


def _decode_with_pillow(data: bytes, name: str, max_pixels: int, notes: list[str]) -> NDArray[Any]:
    """Decode a picture by Pillow, after checking its declared size, and turn it upright."""
    try:
        image = open_any_size(io.BytesIO(data), _formats(data, name))
    except Image.UnidentifiedImageError as error:
        if data.startswith(BIG_TIFF):
            raise UnsupportedError(f"{name}: {UNREAD_TIFF}") from error
        what = _looks_like(data)
        raise UnreadableError(f"{name}: not a picture that can be read{what}; {_READABLE} are") from error
    with image:
        check_size(name, *image.size, max_pixels)
        # Byte 24 of a PNG file is the bit depth, byte 25 the kind: 2 is RGB, 4 grey with alpha, 6 RGB with alpha.
        deep = image.format == "PNG" and len(data) > 25 and data[24] == 16 and data[25] in (2, 4, 6)
        if image.format in ("GIF", "PNG", "WEBP") and getattr(image, "is_animated", False):
            notes.append("an animation; only its first picture is read")
        # Pillow scales the values of PNM files by the white that they declare, but for 65535, which may not be meant
        scaled = image.format == "PPM" and image.tile[0][0] != "raw" and (image.tile[0][3] or "")[-1:] != (65535,)
        image.load()  # decodes the whole file, so that half a picture is an error
        orientation = _orientation(image)
        if deep:
            return turn_upright(_deep_png(data, image, name, notes), orientation)
        # Pillow spreads grey of 2 and 4 bits over 8, but not the grey value that stands for transparent.
        if image.mode == "L" and image.format == "PNG" and data[24] in (2, 4) and "transparency" in image.info:
            image.info["transparency"] *= 255 // (2 ** data[24] - 1)
        pixels = _pixels(image, name, notes)
        return turn_upright(of_floats(pixels) if scaled else pixels, orientation)


def open_any_size(file: Path | io.BytesIO, formats: tuple[str, ...] = PICTURE_FORMATS) -> ImageFile.ImageFile:
    """Open a picture by Pillow without its own limit of pixels; nothing is decoded yet."""
    with _OPENING:  # one thread, because that limit is global
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file, formats=formats)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _formats(data: bytes, name: str) -> tuple[str, ...]:
    """Return Pillow's decoders for a picture; a HEIC or AVIF file is known by the brand in its ``ftyp`` box."""
    brands = data[8:64] if data[4:8] == b"ftyp" else b""
    if brands[:4] in _AVIF or (brands[:4] in _ANY_HEIF and b"avif" in brands):
        if features.check("avif"):
            return ("AVIF",)
        raise UnsupportedError(f"{name}: AVIF, which this Pillow does not read; install a newer one")
    if brands[:4] in _HEIC or (brands[:4] in _ANY_HEIF and b"heic" in brands):
        try:
            from pillow_heif import register_heif_opener
        except ImportError as error:
            raise UnsupportedError(f"{name}: HEIC, which needs pillow-heif; {installed_by('heif')}") from error
        register_heif_opener()
        return ("HEIF",)
    return PICTURE_FORMATS


def _looks_like(data: bytes) -> str:
    """Return what a file that is not a picture seems to be, by its first bytes, to be added to a message."""
    # MPEG transport streams have packets of 188 bytes that all begin with "G".
    packets = data[:1] == data[188:189] == b"G"
    if data.startswith(_VIDEO_STARTS) or data[4:8] == b"ftyp" or data[8:12] == b"AVI " or packets:
        return ", it looks like a video"
    text = all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in data[:512])
    return ", it looks like text" if text else " or damaged"


def _orientation(image: Image.Image) -> int:
    """Return the Exif orientation, 1 to 8, that is still to be applied."""
    try:
        value = image.getexif().get(0x0112, 1)  # the tag Orientation; 1 is upright
    except Exception:  # damaged Exif data; the picture itself may be good
        return 1
    return value if value in range(1, 9) else 1


def _pixels(image: Image.Image, name: str, notes: list[str]) -> NDArray[Any]:
    """Return a decoded Pillow picture as RGB with 8 or 16 bits, transparent parts on white (said in `notes`)."""
    mode = image.mode
    if mode.startswith("I"):  # 16-bit grey; Pillow widens it to 32 bits in some formats and versions
        values = np.asarray(image)
        if values.size and (values.min() < 0 or values.max() > 65535):
            raise UnsupportedError(f"{name}: 32-bit integers; save the picture with 8 or 16 bits a channel")
        transparent = image.info.get("transparency")  # the one grey value that stands for transparent
        alpha = None
        if isinstance(transparent, int):
            alpha = np.where(values == transparent, 0, 65535).astype(np.uint16)
        return with_alpha(values.astype(np.uint16), alpha, notes)
    if mode == "F":
        return of_floats(rgb_on_white(from_float(np.asarray(image), name), None, notes))
    if mode == "RGBa" or image.has_transparency_data:
        rgba = np.asarray(image.convert("RGBA"))  # also of "RGBa", multiplied by alpha already
        return rgb_on_white(rgba[..., :3], rgba[..., 3], notes)
    if mode not in ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV"):
        raise UnsupportedError(f"{name}: colours of mode {mode} are not supported; convert the picture to RGB")
    return rgb_on_white(np.asarray(image if mode == "RGB" else image.convert("RGB")), None, notes)


def _deep_png(data: bytes, shallow: Image.Image, name: str, notes: list[str]) -> NDArray[Any]:
    """Decode a 16-bit colour PNG with OpenCV, because Pillow reduces it to 8 bits (`shallow`)."""
    decoded = decode_by_opencv(data)
    if decoded is None or decoded.dtype != np.uint16 or decoded.ndim != 3:
        raise UnreadableError(f"{name}: the 16-bit PNG data are damaged")
    colour = decoded[..., 2::-1]  # OpenCV returns blue, green, red[, alpha]
    # Pillow's 8 bits must be the upper halves of OpenCV's 16: OpenCV fills gaps in damaged files silently.
    if not np.array_equal(colour >> 8, np.asarray(shallow.convert("RGB"))):
        raise UnreadableError(f"{name}: the 16-bit PNG data are damaged (two decoders disagree)")
    return with_alpha(colour, decoded[..., 3] if decoded.shape[2] == 4 else None, notes)


def write_image(path: str | Path, array: NDArray[Any], *, force: bool = False) -> None:
    """Write a PNG file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file, which must end in ``.png``.
    array : ndarray [shape=(height, width) or (height, width, 3 or 4), uint8 or uint16]
        Grey values, labels, RGB or RGBA.
    force : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    ParameterError
        If the name, the shape or the dtype is not one of these.
    OutputExistsError, MediaError
        If the file exists and `force` is false, or cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.io import read_image, write_image
    >>> write_image("grey.png", np.full((4, 5), 9, np.uint8), force=True)
    >>> read_image("grey.png").ravel()[0].item()
    9
    """
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise ParameterError(f"path must end in .png, as images are written as PNG; got {str(path)!r}")
    shape = np.shape(array)
    dtype = getattr(array, "dtype", None)
    drawable = len(shape) == 2 or (len(shape) == 3 and shape[2] in (3, 4))
    if dtype not in (np.uint8, np.uint16) or not drawable or 0 in shape:
        raise ParameterError(
            "array must have shape (height, width) or (height, width, 3 or 4), be uint8 or uint16, and not be empty; "
            f"got shape {shape} and dtype {dtype}"
        )
    import cv2

    with output_file(path, force=force) as temporary:
        blue_first = array if len(shape) == 2 else array[..., [2, 1, 0, 3][: shape[2]]]  # the order of OpenCV
        done, encoded = cv2.imencode(".png", blue_first)
        if not done:
            raise MediaError(f"{path}: the image of shape {shape} cannot be encoded as PNG")
        try:
            temporary.write_bytes(encoded.tobytes())
        except OSError as error:
            raise MediaError(f"{path}: cannot be written ({error.strerror})") from error
