"""One rule for what white is in 16 bits: segments and features do not depend on the bits that a camera stores."""

import numpy as np
import pytest

from visionnmf._pixel_range import BITS, PixelRangeWarning, bits_of, in_eight_bits
from visionnmf.apps.segmentation import segment
from visionnmf.datasets import load_faces, make_mosaic
from visionnmf.features import FeatureExtraction, make_extractor
from visionnmf.io import write_image

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
    assert found.notes == ["16-bit values are taken as 12 bits: white is 4095, in 2 of 3 images"]
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
