"""One rule for what white is in 16 bits: segments and features do not depend on the bits that a camera stores."""

import warnings

import av
import numpy as np
import pytest
import tifffile
from av import VideoFrame
from typer.testing import CliRunner

from visionnmf._pixel_range import BITS, PixelRangeWarning, bits_of, in_eight_bits
from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.cli import app
from visionnmf.apps.faces.reading import read_probe
from visionnmf.apps.segmentation import segment
from visionnmf.apps.segmentation.process import process_image
from visionnmf.apps.segmentation.settings import WantedSegments
from visionnmf.datasets import load_faces, make_mosaic, make_surveillance
from visionnmf.exceptions import ParameterError, UnsupportedError
from visionnmf.features import FeatureExtraction, make_extractor
from visionnmf.features.extractor import differing
from visionnmf.io import PictureSequence, VideoReader, open_video, read_image, record_of, write_image
from visionnmf.io.images import read_photograph
from visionnmf.io.video.pixels import FrameConverter

PICTURE = make_mosaic(60, 80, random_state=3).image


def in_bits(values, bits):
    """The same picture as a camera of `bits` bits stores it in 16, with a hot pixel."""
    stored = np.rint(values / 255 * (2**bits - 1)).astype(np.uint16)
    stored[5, 7] = 65535
    return stored


def without_hot(values):
    clean = values.copy()
    clean[5, 7] = 255
    return clean


@pytest.mark.parametrize("bits", BITS)
def test_bits_are_found_beside_a_hot_pixel(bits):
    stored = in_bits(PICTURE, bits)
    assert bits_of(stored) == bits
    assert np.array_equal(in_eight_bits(stored), without_hot(PICTURE))
    assert bits_of(np.full((9, 9), 2**bits - 1, np.uint16)) == bits


def test_a_few_stars_more_than_hot_pixels_keep_the_range():
    sky = np.full((100, 100), 300, np.uint16)
    sky[40:43, 40:43] = 60000
    assert bits_of(sky) == 16


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.filterwarnings("ignore:image. 16-bit values")
def test_segments_are_those_of_eight_bits(bits):
    assert np.mean(segment(in_bits(PICTURE, bits)).labels == segment(without_hot(PICTURE)).labels) > 0.99


@pytest.mark.parametrize("bits", BITS[:-1])
@pytest.mark.parametrize("kind", ["rgb", "hog", "lab"])
def test_features_are_those_of_eight_bits(kind, bits):
    extractor = make_extractor(kind).fit([PICTURE])
    with pytest.warns(UserWarning, match=f"taken as {bits} bits"):
        found = extractor.transform([in_bits(PICTURE, bits)])
    assert np.array_equal(found, extractor.transform([without_hot(PICTURE)]))


def test_files_say_what_was_taken(tmp_path):
    for number, bits in enumerate((12, 12, 16)):
        write_image(tmp_path / f"{number}.png", in_bits(PICTURE, bits))
    found = FeatureExtraction(["rgb"]).extract([tmp_path / f"{number}.png" for number in range(3)], fit=True)
    assert found.notes == [
        "16-bit values are taken as 12 bits: white is 4095, in 2 of 3 images",
        *differing({"1", "2"}),
    ]
    assert np.allclose(found.X, found.X[0])


@pytest.mark.filterwarnings("ignore:.*not of 16 bits")
@pytest.mark.parametrize("bits", [*BITS, "float"])
def test_known_bits_hold_for_dark_pictures_too(tmp_path, monkeypatch, bits):
    """With the number of bits given, a bright and a dark picture of one camera have one white in all commands."""
    pictures = {"bright": PICTURE, "dark": (PICTURE // 5).astype(np.uint8)}
    for name, picture in pictures.items():
        write_image(tmp_path / f"{name}_8.png", picture)
        if bits == "float":
            tifffile.imwrite(tmp_path / f"{name}.tif", np.float32(picture / 255), photometric="rgb")
        else:
            write_image(tmp_path / f"{name}.png", np.rint(picture / 255 * (2**bits - 1)).astype(np.uint16))
    eight, deep = ([next(tmp_path.glob(f"{name}{end}")) for name in pictures] for end in ("_8.*", ".*"))
    extraction = FeatureExtraction(["rgb", "lab", "gist"]).fit(eight)
    expected = extraction.transform(eight)
    labels = [segment(picture, n_segments=6).labels for picture in pictures.values()]
    seen = [read_probe((12, 10), False, 1, 255.0, path).rows for path in eight]
    monkeypatch.setenv("VISIONNMF_BITS", "12" if bits == "float" else str(bits))
    assert np.array_equal(extraction.transform(deep), expected)
    for path, own, rows in zip(deep, labels, seen, strict=True):
        process_image(path, wanted=WantedSegments(n_segments=6), out=tmp_path / "out")
        assert np.array_equal(read_image(tmp_path / f"out/{path.stem}_labels.png")[..., 0], own)
        assert np.array_equal(read_probe((12, 10), False, 1, 255.0, path).rows, rows)


@pytest.mark.parametrize("part", [1, 8], ids=["bright", "dark"])
@pytest.mark.parametrize("white", [255, 1023, 4095, 16383])
def test_pnm_files_declare_their_white(tmp_path, part, white):
    eight = PICTURE // part
    stored = np.rint(eight / 255 * white).astype(">u2" if white > 255 else np.uint8)
    (tmp_path / "a.ppm").write_bytes(b"P6\n80 60\n%d\n" % white + stored.tobytes())
    found = in_eight_bits(read_image(tmp_path / "a.ppm"))
    assert np.abs(found.astype(int) - eight).max() <= 1


@pytest.mark.parametrize("white", [1023, 4095, 65535])
def test_plain_pgm_keeps_the_values_of_a_camera(tmp_path, monkeypatch, white):
    stored = np.rint(PICTURE[..., 0] / 255 * white).astype(int)
    text = " ".join(map(str, stored.ravel().tolist()))
    (tmp_path / "a.pgm").write_text(f"P2\n80 60\n65535\n{text}\n")
    monkeypatch.setenv("VISIONNMF_BITS", str(int(white).bit_length()))
    found = read_photograph(tmp_path / "a.pgm")
    assert np.abs(found[..., 0].astype(int) - PICTURE[..., 0]).max() <= 1


@pytest.mark.parametrize("opacity", [0.05, 0.2, 0.24])
def test_a_faint_layer_of_16_bits_stays_faint(tmp_path, opacity):
    layer = np.zeros((60, 80, 4), np.uint16)
    layer[..., 3] = round(65535 * opacity)
    write_image(tmp_path / "a.png", layer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = in_eight_bits(read_photograph(tmp_path / "a.png"))
    assert np.abs(found.astype(int) - 255 * (1 - opacity)).max() <= 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("bits", BITS[1:])
@pytest.mark.parametrize("form", ["whole", "own", "part", "inverted"])
def test_transparent_and_inverted_pictures_have_the_white_of_their_values(tmp_path, monkeypatch, bits, form, known):
    white = 2**bits - 1
    stored, expected = np.rint(PICTURE / 255 * white).astype(np.uint16), PICTURE.copy()
    alpha = np.full((60, 80, 1), white if form == "own" else 65535, np.uint16)
    if form == "part":
        alpha[:20], expected[:20] = 0, 255
    if known:
        monkeypatch.setenv("VISIONNMF_BITS", str(bits))
    if form == "inverted":
        expected = np.repeat(PICTURE[..., :1], 3, axis=2)
        tifffile.imwrite(tmp_path / "a.tif", white - stored[..., 0], photometric="miniswhite")
    else:
        write_image(tmp_path / "a.png", np.concatenate([stored, alpha], axis=2))
        tifffile.imwrite(
            tmp_path / "a.tif", np.concatenate([stored, alpha], axis=2), photometric="rgb", extrasamples=[2]
        )
    for path in tmp_path.iterdir():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = in_eight_bits(read_photograph(path))
        assert np.abs(found.astype(int) - expected).max() <= 1, path.name


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_known_bits_hold_for_dark_films(tmp_path, monkeypatch, bits):
    dark = np.ascontiguousarray(PICTURE[..., 0] // 9)
    stored = np.rint(dark / 255 * (2**bits - 1)).astype(np.uint16)
    monkeypatch.setenv("VISIONNMF_BITS", str(bits))
    write_video(tmp_path / "a.mkv", "ffv1", "gray16le", stored, "gray16le")
    tifffile.imwrite(tmp_path / "a.tif", np.stack([stored] * 3), photometric="minisblack")
    (tmp_path / "a").mkdir()
    for number in range(2):
        write_image(tmp_path / f"a/{number}.png", stored)
    for source in ("a.mkv", "a.tif", "a"):
        with open_video(tmp_path / source) as reader:
            (first, *_) = list(reader)
        assert np.abs(first[..., 0].astype(int) - dark).max() <= 1, source
        assert not any("has no effect" in note for note in reader.notes)


def test_bits_have_no_effect_on_films_of_eight(tmp_path, monkeypatch):
    stored = np.ascontiguousarray(PICTURE[..., 0])
    write_video(tmp_path / "a.mkv", "ffv1", "gray", stored, "gray")
    tifffile.imwrite(tmp_path / "a.tif", np.stack([stored] * 3), photometric="minisblack")
    (tmp_path / "a").mkdir()
    write_image(tmp_path / "a/0.png", PICTURE)
    for bits, count in (("12", 1), ("", 0)):
        monkeypatch.setenv("VISIONNMF_BITS", bits)
        for source in ("a.mkv", "a.tif", "a"):
            with open_video(tmp_path / source) as reader:
                list(reader)
            assert sum("not of 16 bits, on which bits=12 has no effect" in note for note in reader.notes) == count


def test_bits_that_are_too_few_are_refused(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", np.rint(PICTURE / 255 * 4095).astype(np.uint16))
    monkeypatch.setenv("VISIONNMF_BITS", "10")
    with pytest.raises(UnsupportedError, match=r"a\.png: has values above 1023, the white of 10 bits; take more bits"):
        read_photograph(tmp_path / "a.png")
    monkeypatch.setenv("VISIONNMF_BITS", "7.5")
    with pytest.raises(ParameterError, match="VISIONNMF_BITS must be a whole number from 8 to 16"):
        read_photograph(tmp_path / "a.png")


def test_the_command_line_takes_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("VISIONNMF_BITS", "")  # so that it is as before afterwards
    monkeypatch.chdir(tmp_path)
    write_image("dark.png", np.rint(PICTURE / 255 * 800).astype(np.uint16))
    write_image("dark_8.png", np.rint(PICTURE / 255 * 800 / 4095 * 255).astype(np.uint8))
    write_image("bright.png", np.rint(PICTURE / 255 * 4095).astype(np.uint16))
    words = ["features", "bright.png", "dark.png", "--kind", "rgb", "--jobs", "1", "--out", "both.npz"]
    said = " ".join(CliRunner().invoke(app, words).output.split())
    assert "white differs between the 16-bit images; if one camera took them, give its --bits, such as 12" in said
    for name in ("dark", "dark_8"):
        words = ["features", f"{name}.png", "--kind", "rgb", "--jobs", "1", "--out", f"{name}.npz", "--bits", "12"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    found, expected = (np.load(f"{name}.npz")["X"] for name in ("dark", "dark_8"))
    assert np.array_equal(found, expected)
    assert CliRunner().invoke(app, ["segment", "dark.png", "--segments", "5", "--bits", "12"]).exit_code == 0
    assert record_of("dark_labels.png")["settings"] == {"n_segments": 5, "bits": 12}
    again = CliRunner().invoke(app, ["segment", "dark.png", "--segments", "5", "--bits", "10"])
    assert again.exit_code == 2 and "bits" in again.stderr


@pytest.mark.parametrize("bits", BITS[1:-1])
def test_faces_of_a_folder_share_their_white(tmp_path, bits):
    rng = np.random.default_rng(0)
    for person in range(2):
        for folder in (8, bits):
            (tmp_path / f"{folder}/{person}").mkdir(parents=True)
        for number in range(3):
            eight = rng.integers(0, 60 if number == 2 else 256, (12, 10))  # the last is dark, and fits into fewer bits
            write_image(tmp_path / f"8/{person}/{number}.png", eight.astype(np.uint8))
            stored = np.rint(eight / 255 * (2**bits - 1)).astype(np.uint16)
            write_image(tmp_path / f"{bits}/{person}/{number}.png", stored)
    with pytest.warns(PixelRangeWarning, match=f"taken as {bits} bits"):
        found = load_faces(tmp_path / str(bits))
    assert np.array_equal(found.images, load_faces(tmp_path / "8").images)


@pytest.fixture(scope="module")
def clip():
    return make_surveillance(40, 60, 80, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [10, 12, 16])
def test_masks_of_frames_are_those_of_eight_bits(clip, bits):
    stored = np.rint(clip.frames / 255 * (2**bits - 1)).astype(np.uint16)
    stored[:, 5, 7] = 65535
    frames = clip.frames.copy()
    frames[:, 5, 7] = 255
    expected = [part.mask for part in BackgroundModel(random_state=0).fit(frames).apply(frames)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BackgroundModel(random_state=0).fit(iter(stored))
        assert model.bits_ == bits
        found = [part.mask for part in model.apply(stored)]
        dark = next(iter(model.apply(stored[0] // 8)))  # in the range that was learnt, not in its own
    assert np.array_equal(found, expected)
    assert np.quantile(dark.frame, 0.99) <= 32


def test_a_frame_beyond_the_first_ones_range_is_refused():
    frames = [np.full((8, 9), 900, np.uint16), np.full((8, 9), 4000, np.uint16)]
    with pytest.raises(ParameterError, match="frame 1 must have values of 10 bits"), pytest.warns(UserWarning):
        BackgroundModel().fit(iter(frames))


def test_pictures_of_a_folder_share_their_white(tmp_path):
    bright = np.rint(PICTURE / 255 * 4095).astype(np.uint16)
    for number, picture in enumerate((bright // 8, bright, bright // 2)):
        write_image(tmp_path / f"{number}.png", picture)
    with PictureSequence(tmp_path) as sequence:
        frames = list(sequence)
    assert np.abs(frames[1].astype(int) - PICTURE).max() <= 1
    assert frames[0].max() <= 32
    assert any("taken as 12 bits" in note for note in sequence.notes)


def write_video(path, codec, pixel_format, picture, source):
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25)
        pictures = picture if isinstance(picture, list) else [picture] * 3
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape[:2], pixel_format
        for each in pictures:
            frame = VideoFrame.from_ndarray(each, format=source).reformat(format=pixel_format)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_grey_video_of_sixteen_bits_has_the_white_of_its_values(tmp_path, bits):
    grey = np.ascontiguousarray(PICTURE[..., 0])
    write_video(
        tmp_path / "a.mkv", "ffv1", "gray16le", np.rint(grey / 255 * (2**bits - 1)).astype(np.uint16), "gray16le"
    )
    with VideoReader(tmp_path / "a.mkv") as reader:
        (first, *_) = list(reader)
    assert np.abs(first[..., 0].astype(int) - grey).max() <= 1
    assert any(f"taken as {bits} bits" in note for note in reader.notes) == (bits < 16)


@pytest.mark.parametrize(("codec", "pixel_format"), [("apng", "rgba"), ("prores_ks", "yuva444p10le"), ("ffv1", "bgra")])
def test_transparent_video_is_on_white_and_says_so(tmp_path, codec, pixel_format):
    picture = np.zeros((32, 48, 4), np.uint8)
    picture[..., 0], picture[:, :24, 3] = 200, 255
    file = tmp_path / ("a.apng" if codec == "apng" else "a.mov" if codec == "prores_ks" else "a.mkv")
    write_video(file, codec, pixel_format, picture, "rgba")
    with VideoReader(file) as reader:
        (first, *_) = list(reader)
    assert np.abs(first[10, 40].astype(int) - 255).max() <= 2 and np.abs(first[10, 5] - [200, 0, 0.0]).max() <= 4
    assert any("transparent" in note for note in reader.notes)


def test_a_dark_first_frame_does_not_tell_the_white_of_a_clip(tmp_path):
    bright = np.rint(PICTURE[..., 0] / 255 * 4095).astype(np.uint16)
    frames = [bright // 16, bright, bright // 2]
    write_video(tmp_path / "a.mkv", "ffv1", "gray16le", frames, "gray16le")
    with VideoReader(tmp_path / "a.mkv") as reader:
        dark, found, half = (frame[..., 0].astype(int) for frame in reader)
    assert dark.max() <= 16 and half.max() <= 128 and np.abs(found - PICTURE[..., 0]).max() <= 1
    assert reader.notes == ["16-bit values are taken as 12 bits: white is 4095"]
    live = FrameConverter()  # which knows what has come so far
    first, second = (live.rgb(VideoFrame.from_ndarray(frame, format="gray16le")) for frame in (0 * bright, bright))
    assert not first.any() and np.abs(second[..., 0].astype(int) - PICTURE[..., 0]).max() <= 1
