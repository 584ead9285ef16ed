"""One rule for what white is in 16 bits: segments and features do not depend on the bits that a camera stores."""

import warnings

import av
import numpy as np
import pytest
from av import VideoFrame

from visionnmf._pixel_range import BITS, PixelRangeWarning, bits_of, in_eight_bits
from visionnmf.apps.background import BackgroundModel
from visionnmf.apps.segmentation import segment
from visionnmf.datasets import load_faces, make_mosaic, make_surveillance
from visionnmf.exceptions import ParameterError
from visionnmf.features import FeatureExtraction, make_extractor
from visionnmf.features.extractor import differing
from visionnmf.io import PictureSequence, VideoReader, write_image
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


def write_video(path, codec, pixel_format, picture, source, transfer=None):
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=25)
        pictures = picture if isinstance(picture, list) else [picture] * 3
        stream.height, stream.width, stream.pix_fmt = *pictures[0].shape[:2], pixel_format
        if transfer is not None:
            stream.codec_context.color_trc = transfer
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


def test_hdr_is_shown_as_sdr(tmp_path):
    """An object that is a little brighter than the scene stays as visible in PQ as in SDR."""
    light = np.full((32, 48), 0.1)  # of the white of paper, 203 nits
    light[8:24, 8:24] = 0.2
    power = (light * 203 / 10_000) ** (2610 / 16384)
    code = ((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32)
    picture = np.repeat(np.rint(65535 * code).astype(np.uint16)[..., None], 3, axis=2)
    write_video(tmp_path / "a.mkv", "libx264", "yuv420p10le", picture, "rgb48le", transfer=16)
    with VideoReader(tmp_path / "a.mkv") as reader:
        (first, *_) = list(reader)
    assert int(first[16, 16, 0]) - int(first[28, 40, 0]) > 20
    assert any("HDR" in note for note in reader.notes)


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
