"""Masks, bands and batches."""

import numpy as np
import pytest

from visionnmf.apps.segmentation import overlay, segment, segmenter
from visionnmf.apps.segmentation.overlays import OUTSIDE
from visionnmf.apps.segmentation.pictures import false_colours, fill_outside
from visionnmf.apps.segmentation.scores import covering
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError

MOSAIC = make_mosaic(120, 160, n_segments=5, random_state=3)
DISC = np.hypot(*(np.indices((120, 160)) - np.array([[[60]], [[80]]]))) < 50


# --- mask ------------------------------------------------------------------------------------------------------------


def test_outside_a_mask_nothing_counts_and_everything_else_knows_of_it(rng):
    result = segment(MOSAIC.image, 4, mask=DISC)
    assert result.labels.dtype == np.uint16
    np.testing.assert_array_equal(result.labels == OUTSIDE, ~DISC)
    np.testing.assert_array_equal((result.labels + 1 == 0), ~DISC)
    np.testing.assert_array_equal(np.bincount(result.labels[DISC]), result.sizes)
    assert len(result.sizes) == 4
    elsewhere = MOSAIC.image.copy()
    elsewhere[~DISC] = rng.integers(0, 256, (np.count_nonzero(~DISC), 3))
    missing = np.where(DISC[..., np.newaxis], MOSAIC.image / 255, np.nan)
    for image in (elsewhere, missing):
        other = segment(image, 4, mask=DISC.astype(np.uint8) * 255)
        np.testing.assert_array_equal(other.labels, result.labels)
        np.testing.assert_array_equal(other.boundaries, result.boundaries)
    assert covering(result.labels[DISC], [MOSAIC.labels[DISC]]) > 0.8
    assert not result.boundaries[~DISC].any()
    assert not result.boundaries[DISC & ~np.roll(DISC, -1, 1) & ~np.roll(DISC, -1, 0)].any()  # the edge is no border
    assert result.adjacency.max() == 3
    for row in result.properties():
        inside = result.labels == row["label"]
        np.testing.assert_allclose(row["colour"], MOSAIC.image[inside].mean(axis=0))
        assert row["area"] == inside.sum() and max(row["neighbours"]) <= 3
    np.testing.assert_array_equal(result.at(n_segments=2) == OUTSIDE, ~DISC)
    drawn = result.overlay()
    np.testing.assert_allclose(drawn[~DISC][:50], 0.6 * MOSAIC.image[~DISC][:50], atol=1.5)
    np.testing.assert_array_equal(overlay(result.image, result.labels), drawn)


def test_a_mask_that_leaves_all_is_none() -> None:
    whole = segment(MOSAIC.image, 5, mask=np.ones((120, 160)))
    np.testing.assert_array_equal(whole.labels, segment(MOSAIC.image, 5).labels)


def test_islands_are_segments_of_their_own() -> None:
    mask = np.zeros((120, 160), bool)
    mask[10:50, 10:60] = mask[60:110, 90:150] = mask[5, 150] = True  # one of a single pixel
    image = np.full((120, 160), 100, np.uint8)
    result = segment(image, mask=mask)
    assert result.sizes.tolist() == [3000, 2000, 1]
    assert result.hierarchy.heights.tolist() == [1, 1]
    assert result.adjacency.size == 0
    assert segment(image, 1, mask=mask).sizes.tolist() == [5001]
    one = segment(image, mask=np.pad([[1]], ((0, 119), (0, 159))))
    assert one.sizes.tolist() == [1] and one.labels[0, 0] == 0


@pytest.mark.slow
def test_a_mask_of_a_large_picture_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmenter, "WORKING_PIXELS", 120 * 160)
    mosaic = make_mosaic(480, 640, n_segments=4, noise=0, random_state=2)
    mask = np.hypot(*(np.indices((480, 640)) - np.array([[[240]], [[320]]]))) < 200
    mask[5, 5] = True
    result = segment(mosaic.image, 5, mask=mask)  # the pixel in the corner is one
    np.testing.assert_array_equal(result.labels == OUTSIDE, ~mask)
    inside = mask & (np.arange(480)[:, np.newaxis] > 10)
    assert covering(result.labels[inside], [mosaic.labels[inside]]) > 0.99
    assert result.boundaries.shape == mask.shape


def test_filling_takes_the_nearest(rng: np.random.Generator) -> None:
    mask = rng.random((12, 15)) < 0.1
    values = rng.integers(0, 9, (12, 15, 3))
    filled = fill_outside(values, mask)
    np.testing.assert_array_equal(filled[mask], values[mask])
    places = np.argwhere(mask)
    for row, column in np.argwhere(~mask):
        distances = np.hypot(*(places - (row, column)).T)
        near = places[distances <= distances.min() + 0.3]  # OpenCV's distances are good to some percent
        assert (values[tuple(near.T)] == filled[row, column]).all(axis=1).any()


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.zeros((120, 160)), "mask must leave at least one pixel; got only zeros"),
        (np.ones((160, 120)), r"mask must have the image's shape \(120, 160\); got \(160, 120\)"),
        (np.full((120, 160), np.nan), "mask must hold True and False, or finite numbers"),
        ([["a", "b"]], "mask must"),
    ],
)
def test_unusable_masks(mask: object, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        segment(MOSAIC.image, mask=mask)


def test_what_is_missing_must_be_outside() -> None:
    image = MOSAIC.image / 255
    image[60, 80] = np.nan
    for mask in (DISC, None):
        with pytest.raises(ParameterError, match="3 NaN or infinite values"):
            segment(image, mask=mask)


# --- bands -----------------------------------------------------------------------------------------------------------


def spectra(rng: np.random.Generator, n_bands: int) -> np.ndarray:
    """The mosaic's tiles, each with a spectrum of its own."""
    levels = rng.random((5, n_bands)) + 0.5 * np.arange(5)[:, np.newaxis]
    return (1000 * levels[MOSAIC.labels] + 20 * rng.standard_normal((120, 160, n_bands))).astype(np.float32)


@pytest.mark.parametrize("n_bands", [1, 2, 4, 7, 40])
def test_areas_of_one_spectrum_are_found(rng: np.random.Generator, n_bands: int) -> None:
    cube = spectra(rng, n_bands)
    result = segment(cube, 5, bands=True)
    assert covering(result.labels, [MOSAIC.labels]) > 0.9
    assert result.image.shape == (120, 160, 3)
    for row in result.properties():
        np.testing.assert_allclose(row["colour"], cube[result.labels == row["label"]].mean(axis=0), rtol=1e-4)


def test_order_gain_and_offset_of_bands_do_not_matter(rng: np.random.Generator) -> None:
    cube = spectra(rng, 6)
    expected = false_colours(cube)
    assert expected.min() == 0 and expected.max() == 1  # the tails
    np.testing.assert_allclose(false_colours(cube[..., ::-1]), expected, atol=2e-4)
    np.testing.assert_allclose(false_colours(3.0 * cube - 700), expected, atol=2e-4)


def test_false_colours_keep_distances(rng: np.random.Generator) -> None:
    # three components hold all there is, and none is beyond black and white
    factors = rng.random((30, 40, 3))
    factors[..., 0] += np.linspace(0, 20, 40)
    cube = factors @ rng.standard_normal((3, 8))
    shown = false_colours(cube).reshape(-1, 3)
    inner = np.flatnonzero(((shown > 0.01) & (shown < 0.99)).all(axis=1))
    first, second = rng.choice(inner, (2, 200))
    before = np.linalg.norm(cube.reshape(-1, 8)[first] - cube.reshape(-1, 8)[second], axis=1)
    after = np.linalg.norm(shown[first] - shown[second], axis=1)
    apart = before > 0
    np.testing.assert_allclose(after[apart] / before[apart], np.median(after[apart] / before[apart]), rtol=1e-3)


def test_odd_bands() -> None:
    assert segment(np.full((20, 30, 9), 7.0), bands=True).sizes.tolist() == [600]
    assert segment(np.zeros((1, 1, 5), np.int64), bands=True).sizes.tolist() == [1]
    assert segment(np.arange(600).reshape(20, 30), 2, bands=True).labels.shape == (20, 30)
    for image, sentence in (
        (np.zeros((5, 5, 0)), r"image must be numbers of shape \(height, width, n_bands\); got shape \(5, 5, 0\)"),
        (np.zeros((2, 5, 5, 5)), "image must be numbers of shape"),
        (np.full((5, 5, 5), np.inf), "125 NaN or infinite values; leave them out by a mask"),
        (np.full((5, 5, 5), "x"), "image must be numbers of shape"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            segment(image, bands=True)
    with pytest.raises(ParameterError, match="bands must be True or False; got 7"):
        segment(np.zeros((5, 5)), bands=7)


def test_twelve_bits_keep_their_own_units() -> None:
    twelve = MOSAIC.image.astype(np.uint16) * 16
    with pytest.warns(UserWarning, match="taken as 12 bits"):
        result = segment(twelve, 4)
    assert result.image.max() > 60000
    np.testing.assert_allclose(result.properties()[0]["colour"], twelve[result.labels == 0].mean(axis=0))
