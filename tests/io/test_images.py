"""Pictures in and out: every kind comes back right, and nothing hostile comes back at all."""

import io
import os
import struct
import sys
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from visionnmf._pixel_range import in_full_range
from visionnmf.exceptions import TooLargeError, UnreadableError, UnsupportedError
from visionnmf.io import VideoReader, read_image, sample_names
from visionnmf.io.images import decode_image

HEIGHT, WIDTH = 24, 35

_ramp = np.add.outer(np.arange(HEIGHT) * 5, np.arange(WIDTH) * 3)
RGB8 = np.stack([_ramp, 255 - _ramp, np.full_like(_ramp, 90)], axis=2).astype(np.uint8)
RGB16 = (RGB8.astype(np.uint16) << 8) + np.random.default_rng(1).integers(0, 256, RGB8.shape).astype(np.uint16)
GREY8, GREY16 = np.ascontiguousarray(RGB8[..., 0]), np.ascontiguousarray(RGB16[..., 0])


def _grey(array):
    return np.repeat(array[..., np.newaxis], 3, axis=2)


def _rgba(opacity):
    return np.dstack([RGB8, np.broadcast_to(np.asarray(opacity, np.uint8), RGB8.shape[:2])])


def _encode(array, form, **options):
    buffer = io.BytesIO()
    image = array if isinstance(array, Image.Image) else Image.fromarray(array)
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _tiff(array, **options):
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, array, **options)
    return buffer.getvalue()


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(array, colour_type, *, extra=b"", size=None, pixels=None):
    """A PNG file by hand: 16 bits (which Pillow cannot write in colour), or with lies in its header."""
    bits = 8 * array.dtype.itemsize
    height, width = size or array.shape[:2]
    rows = b"".join(b"\0" + row.astype(f">u{bits // 8}").tobytes() for row in array)
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    data = _chunk(b"IDAT", zlib.compress(rows) if pixels is None else pixels)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + extra + data + _chunk(b"IEND", b"")


def _read(tmp_path, data, name="picture.bin", **options):
    path = tmp_path / name
    path.write_bytes(data)
    return read_image(path, **options)


def _tiff_with_predictor():
    """A 16-bit TIFF without compression that names a predictor, which libtiff ignores."""
    data = _tiff(RGB16, photometric="rgb", extratags=[(65000, "H", 1, 2, True)])
    data = data.replace(struct.pack("<HHIH", 65000, 3, 1, 2), struct.pack("<HHIH", 317, 3, 1, 2))
    assert tifffile.TiffFile(io.BytesIO(data)).pages[0].predictor == 2
    return data


_ALPHA = {"photometric": "rgb", "extrasamples": ["unassalpha"]}
_palette = Image.fromarray(RGB8).quantize(16)
_indices, _colours = np.asarray(_palette), np.asarray(_palette.convert("RGB"))
EXACT = {
    "png grey": (_encode(GREY8, "PNG"), _grey(GREY8)),
    "png rgb": (_encode(RGB8, "PNG"), RGB8),
    "png opaque rgba": (_encode(_rgba(255), "PNG"), RGB8),
    "png opaque grey+alpha": (_encode(Image.fromarray(GREY8).convert("LA"), "PNG"), _grey(GREY8)),
    "png 16 grey": (_png(GREY16[..., None], 0), _grey(GREY16)),
    "png 16 rgb": (_png(RGB16, 2), RGB16),
    "png 16 opaque rgba": (_png(np.dstack([RGB16, np.full_like(GREY16, 65535)]), 6), RGB16),
    "png 16 opaque grey+alpha": (_png(np.dstack([GREY16, np.full_like(GREY16, 65535)]), 4), _grey(GREY16)),
    "png 1 bit": (_encode(Image.fromarray(GREY8 > 100), "PNG"), _grey(np.where(GREY8 > 100, 255, 0))),
    "bmp": (_encode(RGB8, "BMP"), RGB8),
    "ppm": (_encode(RGB8, "PPM"), RGB8),
    "pgm 16": (b"P5 35 24 65535\n" + GREY16.astype(">u2").tobytes(), _grey(GREY16)),
    "webp": (_encode(RGB8, "WEBP", lossless=True), RGB8),
    "tiff grey": (_tiff(GREY8), _grey(GREY8)),
    "tiff rgb": (_tiff(RGB8, photometric="rgb"), RGB8),
    "tiff lzw rgb": (_encode(RGB8, "TIFF", compression="tiff_lzw"), RGB8),
    "tiff opaque rgba": (_encode(_rgba(255), "TIFF"), RGB8),
    "tiff 1 bit": (_encode(Image.fromarray(GREY8 > 100), "TIFF"), _grey(np.where(GREY8 > 100, 255, 0))),
    "tiff 16 grey": (_tiff(GREY16), _grey(GREY16)),
    "tiff 16 big-endian": (_tiff(GREY16, byteorder=">"), _grey(GREY16)),
    "tiff 16 white is zero": (_tiff(65535 - GREY16, photometric="miniswhite"), _grey(GREY16)),
    "tiff 16 rgb": (_tiff(RGB16, photometric="rgb"), RGB16),
    "tiff 16 rgb planes": (_tiff(np.moveaxis(RGB16, 2, 0), photometric="rgb", planarconfig="separate"), RGB16),
    "tiff 16 rgb deflate": (_tiff(RGB16, photometric="rgb", compression="zlib", rowsperstrip=7), RGB16),
    "tiff 16 rgb predictor": (_tiff(RGB16, photometric="rgb", compression="zlib", predictor=True), RGB16),
    "tiff 16 rgb tiles": (_tiff(RGB16, photometric="rgb", compression="zlib", tile=(16, 16)), RGB16),
    "tiff 16 rgb lzw": (cv2.imencode(".tif", RGB16[..., ::-1])[1].tobytes(), RGB16),
    "tiff 16 opaque rgba": (_tiff(np.dstack([RGB16, np.full_like(GREY16, 65535)]), **_ALPHA), RGB16),
    "tiff float": (_tiff((GREY16 / 65535).astype(np.float32)), _grey(GREY16)),
    "tiff predictor without compression": (_tiff_with_predictor(), RGB16),
    "png broken exif": (_encode(RGB8, "PNG", exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xff junk"), RGB8),
    **{f"palette {form}": (_encode(_palette, form), _colours) for form in ("PNG", "TIFF", "GIF")},
    "tiff double rgb": (_tiff(RGB16 / 65535, photometric="rgb"), RGB16),
}


@pytest.mark.parametrize("kind", EXACT)
def test_every_lossless_kind_comes_back_exactly(tmp_path, kind):
    data, expected = EXACT[kind]
    image = _read(tmp_path, data)
    assert image.dtype == (np.uint8 if expected.max() < 256 else np.uint16)
    assert image.flags.c_contiguous
    np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_jpeg_comes_back_nearly(tmp_path, mode):
    image = _read(tmp_path, _encode(Image.fromarray(RGB8).convert(mode), "JPEG", quality=95, subsampling=0))
    expected = RGB8 if mode != "L" else _grey(np.asarray(Image.fromarray(RGB8).convert("L")))
    assert np.abs(image.astype(int) - expected).max() <= 12


def _oriented(array, orientation):
    """Store the picture so that its orientation tag makes it upright again; written out, one case a line."""
    return {
        1: array,
        2: array[:, ::-1],
        3: array[::-1, ::-1],
        4: array[::-1],
        5: array.swapaxes(0, 1),
        6: np.rot90(array, 1),
        7: array[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(array, -1),
    }[orientation]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP", "JPEG", "PNG16", "TIFF16", "TIFFLZW"])
def test_every_orientation_comes_back_upright(tmp_path, form, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    deep = form.endswith("16")
    expected = RGB16 if deep else RGB8
    stored = np.ascontiguousarray(_oriented(expected, orientation))
    if form == "PNG16":
        data = _png(stored, 2, extra=_chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")))
    elif form == "TIFF16":
        data = _tiff(stored, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    elif form == "TIFFLZW":
        data = _encode(stored, "TIFF", compression="tiff_lzw", tiffinfo={274: orientation})
    else:
        extra = {"PNG": {}, "TIFF": {}, "WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": 0}}[form]
        data = _encode(stored, form, exif=exif, **extra)
    image = _read(tmp_path, data)
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert np.abs(image.astype(int) - expected).max() <= (12 if form == "JPEG" else 0)


OPACITY = np.linspace(0, 255, WIDTH).astype(np.uint8)
_alpha16 = np.broadcast_to(OPACITY.astype(np.uint16) * 257, GREY16.shape)
_premultiplied = np.rint(RGB16 * (_alpha16[..., None] / 65535)).astype(np.uint16)


def _on_white(colour, opacity, white):
    opacity = np.broadcast_to(opacity, colour.shape[:2])[..., np.newaxis] / white
    return colour * opacity + white * (1 - opacity)


TRANSPARENT = {
    "rgba": (_encode(_rgba(OPACITY), "PNG"), _on_white(RGB8, OPACITY, 255)),
    "tiff rgba": (_encode(_rgba(OPACITY), "TIFF"), _on_white(RGB8, OPACITY, 255)),
    "rgba 16": (_png(np.dstack([RGB16, _alpha16]), 6), _on_white(RGB16, _alpha16, 65535)),
    "grey+alpha 16": (_png(np.dstack([GREY16, _alpha16]), 4), _on_white(_grey(GREY16), _alpha16, 65535)),
    "tiff rgba 16": (_tiff(np.dstack([RGB16, _alpha16]), **_ALPHA), _on_white(RGB16, _alpha16, 65535)),
    "tiff premultiplied 16": (
        _tiff(np.dstack([_premultiplied, _alpha16]), photometric="rgb", extrasamples=["assocalpha"]),
        _on_white(RGB16, _alpha16, 65535),
    ),
    "grey colour key 16": (
        _png(GREY16[..., None], 0, extra=_chunk(b"tRNS", struct.pack(">H", GREY16[3, 4]))),
        _grey(np.where(GREY16[3, 4] == GREY16, 65535, GREY16)),
    ),
    "palette": (_encode(_palette, "PNG", transparency=2), np.where(_indices[..., None] == 2, 255, _colours)),
    "rgb colour key": (
        _encode(RGB8, "PNG", transparency=tuple(RGB8[3, 4].tolist())),
        np.where((RGB8[3, 4] == RGB8).all(2, keepdims=True), 255, RGB8),
    ),
}


@pytest.mark.parametrize("kind", TRANSPARENT)
def test_transparency_is_blended_onto_white_with_a_warning(tmp_path, kind):
    data, expected = TRANSPARENT[kind]
    with pytest.warns(UserWarning, match="picture.bin: has transparent parts; they are blended onto white"):
        image = _read(tmp_path, data)
    assert np.abs(image.astype(float) - expected).max() <= 1


def test_only_the_first_of_several_pictures_is_read_with_a_warning(tmp_path):
    pages = np.stack([GREY16, GREY16[::-1]])
    with pytest.warns(UserWarning, match="several pages; only the first is read"):
        image = _read(tmp_path, _tiff(pages, photometric="minisblack"))
    np.testing.assert_array_equal(image, _grey(GREY16))
    frames = [Image.fromarray(GREY8), Image.fromarray(GREY8[::-1])]
    with pytest.warns(UserWarning, match="an animation; only its first picture is read"):
        image = _read(tmp_path, _encode(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    np.testing.assert_array_equal(image, _grey(GREY8))


def _cut(data, part):
    return data[: int(len(data) * part)]


def _floats(low, high, *odd):
    values = np.linspace(low, high, GREY8.size).reshape(GREY8.shape).astype(np.float32)
    values.flat[: len(odd)] = odd
    return _tiff(values)


def _patched_tiff(data, values):
    """Overwrite values of tags, given by number, without touching anything else."""
    patched = bytearray(data)
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        for number, value in values.items():
            tag = tiff.pages[0].tags[number]
            struct.pack_into({3: "<H", 4: "<I"}[int(tag.dtype)], patched, tag.valueoffset, value)
    return bytes(patched)


def _tiff_of_565_bits():
    data = _tiff(RGB8, photometric="rgb")
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        place = tiff.pages[0].tags[258].valueoffset
    return data[:place] + struct.pack("<HHH", 5, 6, 5) + data[place + 6 :]


def _packbits_tiff(runs):
    """A 16-bit TIFF of one strip, compressed by PackBits (which tifffile does not write by itself)."""
    data = _tiff(GREY16, rowsperstrip=HEIGHT)
    return _patched_tiff(data, {259: 32773, 273: len(data), 279: len(runs)}) + runs


def _literal_runs(content):
    pieces = [content[start : start + 100] for start in range(0, len(content), 100)]
    return b"".join(bytes([len(piece) - 1]) + piece + b"\x80" for piece in pieces)  # 128: nothing follows


def test_packbits_are_read_whole(tmp_path):
    content = GREY16.astype("<u2").tobytes()
    np.testing.assert_array_equal(_read(tmp_path, _packbits_tiff(_literal_runs(content))), _grey(GREY16))
    for short in (_literal_runs(content[:-1]), _literal_runs(content)[:-5]):  # of this its last run is cut off
        with pytest.raises(UnreadableError, match="damaged"):
            _read(tmp_path, _packbits_tiff(short))
    with pytest.raises(UnreadableError, match="it has 1 of 8 parts"):
        _read(tmp_path, _patched_tiff(_packbits_tiff(_literal_runs(content)), {278: 3}))  # three rows in each strip


@pytest.mark.parametrize("by", ["strips", "planes", "tiles"])
def test_parts_of_a_tiff_that_end_too_early_are_refused(tmp_path, by):
    """Where data were missing, memory that happened to be there became pixels."""
    options = {"strips": {"rowsperstrip": 4}, "planes": {"planarconfig": "separate"}, "tiles": {"tile": (16, 16)}}[by]
    pixels = np.moveaxis(RGB16, -1, 0) if by == "planes" else RGB16
    whole = _tiff(pixels, photometric="rgb", compression="zlib", **options)
    assert _read(tmp_path, whole).shape == RGB16.shape
    with tifffile.TiffFile(io.BytesIO(whole)) as tiff:
        page = tiff.pages[0]
        start, sizes = page.dataoffsets[-1], page.databytecounts
        tag = page.tags[325 if by == "tiles" else 279]
    end = start + sizes[-1]
    short = zlib.compress(zlib.decompress(whole[start:end])[:-1])
    patched = bytearray(whole[:start] + short + whole[end:])
    form = {3: "<H", 4: "<I"}[int(tag.dtype)]
    struct.pack_into(form, patched, tag.valueoffset + struct.calcsize(form) * (len(sizes) - 1), len(short))
    with pytest.raises(UnreadableError, match="damaged"):
        _read(tmp_path, bytes(patched))


@pytest.mark.parametrize("stored", [RGB8, RGB16])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_tiff_without_its_last_tile_is_refused(tmp_path, stored, compression):
    """The 8-bit picture was black there, and the other one held whatever the memory did."""
    data = _tiff(stored, photometric="rgb", tile=(16, 16), compression=compression)
    assert _read(tmp_path, data).shape == RGB8.shape
    with tifffile.TiffFile(io.BytesIO(data)) as tiff:
        tags = tiff.pages[0].tags
        tiles = tags[325].count
        patched = bytearray(data)
        for number in (324, 325):  # the count of a tag stands four bytes behind its number
            struct.pack_into("<I", patched, tags[number].offset + 4, tiles - 1)
    with pytest.raises(UnreadableError, match=f"it has {tiles - 1} of {tiles} parts"):
        _read(tmp_path, bytes(patched))


def test_planes_that_only_opencv_decodes_are_refused(tmp_path):
    """OpenCV decodes one plane of a TIFF file with separate planes, and leaves the other colours as they were."""
    planes = np.zeros((3, 8, 9), np.uint16)
    codes = [256, *bytes(planes[0].nbytes), 257]  # LZW begins a table, copies bytes and ends, with 9 bits for each
    bits = "".join(f"{code:09b}" for code in codes).ljust(9 * len(codes) + 7, "0")
    strip = bytes(int(bits[start : start + 8], 2) for start in range(0, 9 * len(codes), 8))
    plain = _tiff(planes, photometric="rgb", planarconfig="separate", rowsperstrip=8)
    patched = bytearray(_patched_tiff(plain, {259: 5})) + strip
    with tifffile.TiffFile(io.BytesIO(plain)) as tiff:
        for number, value in ((273, len(plain)), (279, len(strip))):
            tag = tiff.pages[0].tags[number]
            struct.pack_into({3: "<3H", 4: "<3I"}[int(tag.dtype)], patched, tag.valueoffset, *[value] * 3)
    with pytest.raises(UnsupportedError, match="16-bit samples with TIFF compression 5 cannot be decoded"):
        _read(tmp_path, bytes(patched))


_bomb, _lzw = zlib.compress(bytes(80_000_000), 9), _encode(GREY16, "TIFF", compression="tiff_lzw")

HOSTILE = {
    "empty": (b"", UnreadableError, r"the file is empty \(0 bytes\)"),
    "text": (b"hello\nworld, this is no picture\n", UnreadableError, "it looks like text; JPEG, PNG"),
    "noise": (bytes(range(128, 256)) * 8, UnreadableError, r"not a picture that can be read or damaged; JPEG, PNG"),
    "avi": (b"RIFF\0\1\0\0AVI LIST" + bytes(500), UnreadableError, r"it looks like a video"),
    "mp4": (b"\0\0\0\x20ftypisom" + bytes(500), UnreadableError, r"it looks like a video"),
    "matroska": (b"\x1aE\xdf\xa3" + bytes(500), UnreadableError, r"it looks like a video"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", UnreadableError, "not a picture"),
    "huge png": (
        _png(GREY8[..., None], 0, size=(100_000, 100_000)),
        TooLargeError,
        "10000000000 pixels; at most 100000",
    ),
    "large png": (_png(GREY8[..., None], 0, size=(11_000, 10_000)), TooLargeError, "10000 x 11000 = 110000000 pixels"),
    "huge tiff": (_patched_tiff(_tiff(GREY16), {256: 65535, 257: 65535}), TooLargeError, "65535 x 65535"),
    "huge 8-bit tiff": (_patched_tiff(_tiff(GREY8), {256: 65535, 257: 65535}), TooLargeError, "65535 x 65535"),
    "missing strip": (_patched_tiff(_lzw, {273: 10**6}), UnreadableError, "holds fewer data than it declares"),
    "grown tiff": (_patched_tiff(_tiff(GREY16), {256: 9000, 257: 9000}), UnreadableError, "it has 1 of 375 parts"),
    "wide tiff": (_patched_tiff(_tiff(GREY16, rowsperstrip=HEIGHT), {256: 9000}), UnreadableError, "holds fewer data"),
    "zero size png": (_png(GREY8[..., None], 0, size=(0, 5)), UnreadableError, "damaged"),
    "short png data": (_png(RGB8, 2, pixels=zlib.compress(bytes(50))), UnreadableError, "cut off or damaged"),
    "short deep png data": (_png(RGB16, 2, pixels=zlib.compress(bytes(50))), UnreadableError, "cut off or damaged"),
    "text bomb png": (_png(RGB8, 2, extra=_chunk(b"zTXt", b"Comment\0\0" + _bomb)), UnreadableError, "damaged"),
    "png without end": (_encode(RGB8, "PNG")[:-12], UnreadableError, "cut off before the end of the PNG data"),
    "tiff of 5, 6 and 5 bits": (_tiff_of_565_bits(), UnsupportedError, r"channels of \(5, 6, 5\) bits"),
    "float nan": (_floats(0, 1, np.nan, np.inf), UnsupportedError, r"2 values are NaN or infinite; replace them"),
    "float range": (_floats(0, 255), UnsupportedError, r"float values from 0 to 255; floats must lie in \[0, 1\]"),
    "float negative": (_floats(-0.5, 1), UnsupportedError, r"float values from -0.5 to 1"),
    "int16": (_tiff(GREY16.astype(np.int16)), UnsupportedError, r"int16 samples .* save the picture as 8- or 16-bit"),
    "uint32": (_tiff(GREY16.astype(np.uint32)), UnsupportedError, r"uint32 samples"),
    "complex": (_tiff(GREY16.astype(np.complex64)), UnsupportedError, r"complex64 samples"),
    "five channels": (_tiff(np.repeat(GREY16[..., None], 5, 2), planarconfig="contig"), UnsupportedError, "5 channels"),
} | {
    f"{kind} cut at {part}": (_cut(data, part), UnreadableError, "cut off|damaged|not a picture")
    for kind, data in {
        **{form: _encode(RGB8, form) for form in ("JPEG", "PNG", "GIF", "BMP", "WEBP")},
        "progressive JPEG": _encode(RGB8, "JPEG", progressive=True),
        "deep PNG": _png(RGB16, 2),
        "TIFF": _tiff(RGB8, photometric="rgb"),
        "LZW TIFF": _encode(RGB8, "TIFF", compression="tiff_lzw"),
        "deep TIFF": _tiff(RGB16, photometric="rgb", rowsperstrip=4),
        "float TIFF": _floats(0, 1),
    }.items()
    for part in (0.02, 0.1, 0.5, 0.9)
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_get_one_line(tmp_path, kind, capfd):
    data, error, sentence = HOSTILE[kind]
    with pytest.raises(error, match=sentence) as caught:
        _read(tmp_path, data)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(tmp_path / "picture.bin"))
    assert capfd.readouterr().err == ""


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(UnreadableError, match=r"nothing\.png: no such file"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(UnreadableError, match="a folder, not a file; name the files in it"):
        read_image(tmp_path)
    with pytest.raises(UnreadableError, match="cannot be opened"):
        read_image("a\0b.png")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "secret.png"
    path.write_bytes(EXACT["png rgb"][0])
    path.chmod(0)
    with pytest.raises(UnreadableError, match="permission to read the file is denied"):
        read_image(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_image(tmp_path / "pipe.png")


def test_limits(tmp_path, monkeypatch):
    assert _read(tmp_path, EXACT["png rgb"][0], max_pixels=RGB8.size // 3).shape == RGB8.shape
    for kind in ("png rgb", "tiff 16 rgb", "tiff rgb", "bmp"):
        with pytest.raises(TooLargeError, match=r"declares 35 x 24 = 840 pixels; at most 839 are read"):
            _read(tmp_path, EXACT[kind][0], max_pixels=839)
    monkeypatch.setattr("visionnmf.io.inputs.MAX_BYTES", 100)
    with pytest.raises(TooLargeError, match=r"has \d+ bytes, more than 100"):
        _read(tmp_path, EXACT["png rgb"][0])


def test_pictures_of_more_pixels_than_pillow_takes_by_itself_have_our_limit(tmp_path):
    Image.new("L", (16320, 12240), 77).save(tmp_path / "x", "JPEG")
    with pytest.raises(TooLargeError, match="199756800 pixels; at most 100000000 are read; make it smaller first"):
        read_image(tmp_path / "x")


def test_two_decoders_must_agree_on_deep_png(tmp_path, monkeypatch):
    half_grey = np.where(np.arange(HEIGHT)[:, None, None] < 12, RGB16[..., ::-1], 32768).astype(np.uint16)
    monkeypatch.setattr("visionnmf.io.images.decode_by_opencv", lambda data: half_grey)
    with pytest.raises(UnreadableError, match="two decoders disagree"):
        _read(tmp_path, _png(RGB16, 2))


def test_samples_are_the_bundled_ones_and_come_as_scikit_image_has_them():
    from skimage import data

    assert {"astronaut", "camera", "chelsea", "coffee", "rocket"} <= set(sample_names())
    np.testing.assert_array_equal(read_image("sample:coffee"), data.coffee())
    np.testing.assert_array_equal(read_image("sample:rocket"), data.rocket())
    np.testing.assert_array_equal(read_image("sample:camera"), _grey(data.camera()))
    with pytest.raises(UnreadableError, match=r"sample:cofee: no such sample; there are astronaut, .*, coffee, "):
        read_image("sample:cofee")


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_the_transparent_grey_of_a_png_of_any_depth_becomes_white(bits):
    most = 2**bits - 1
    row = "".join(f"{value:0{bits}b}" for value in [0, 1, most, 0] * 2)  # whole bytes
    rows = b"\0" + int(row, 2).to_bytes(bits)
    header = struct.pack(">IIBBBBB", 8, 1, bits, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"tRNS", struct.pack(">H", 1)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)
    with pytest.warns(UserWarning, match="transparent"):
        image = decode_image(data, "made.png")
    white = np.iinfo(image.dtype).max
    assert image[0, :4, 0].tolist() == [0, white, white, 0]


@pytest.mark.parametrize("light", [0.2, 0.05, 0.01])
@pytest.mark.parametrize("kind", ["rgb", "rgba", "minisblack", "miniswhite"])
def test_dark_floats_stay_dark(tmp_path, light, kind):
    """White is 1 in floats, so that a picture of few bits is a dark one."""
    shape = (HEIGHT, WIDTH) if kind.startswith("minis") else (HEIGHT, WIDTH, len(kind))
    values = np.random.default_rng(3).random(shape, np.float32) * np.float32(light)
    if kind == "rgba":
        values[..., 3] = 1
    stored = 1 - values if kind == "miniswhite" else values
    photometric = "rgb" if kind == "rgba" else kind
    tifffile.imwrite(tmp_path / "x.tif", stored, photometric=photometric, extrasamples=[2] if kind == "rgba" else None)
    shown = in_full_range(read_image(tmp_path / "x.tif"))[0]
    brightest = float(shown.max()) / np.iinfo(shown.dtype).max
    assert brightest == pytest.approx(light, abs=1 / 255)


def test_a_big_endian_bigtiff_is_refused_by_name(tmp_path):
    path = tmp_path / "x.tif"
    for pictures in (GREY8, np.stack([GREY8, GREY8])):
        tifffile.imwrite(path, pictures, byteorder=">", bigtiff=True)
        for read in (read_image, VideoReader):
            with pytest.raises(UnsupportedError, match=r"x\.tif: a big-endian BigTIFF file; save it in little-endian"):
                read(path)
    tifffile.imwrite(path, GREY16, byteorder=">", bigtiff=True)
    assert np.array_equal(read_image(path), _grey(GREY16))
