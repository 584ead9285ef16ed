"""Colour histograms and hue descriptors against loops, and what must not change them."""

import math

import numpy as np
import pytest
from skimage.color import rgb2hsv, rgb2lab

from visionnmf.features import ColorHistogram, DenseHue
from visionnmf.features.bag_of_words import nearest_words
from visionnmf.features.hue import hue_histograms


def naive_histogram(colours, low, extent, n_bins, layout):
    """Count pixel by pixel."""
    height, width = colours.shape[:2]
    counts = np.zeros((*layout, n_bins, n_bins, n_bins))
    for row in range(height):
        for column in range(width):
            bins = [
                min(max(int((value - a) * n_bins / b), 0), n_bins - 1)
                for value, a, b in zip(colours[row, column], low, extent, strict=True)
            ]
            counts[row * layout[0] // height, column * layout[1] // width, *bins] += 1
    return counts.ravel() / (height * width)


@pytest.mark.parametrize("layout", [(1, 1), (3, 2)])
@pytest.mark.parametrize(
    ("space", "convert", "low", "extent"),
    [
        ("rgb", lambda x: x, (0, 0, 0), (1, 1, 1)),
        ("hsv", rgb2hsv, (0, 0, 0), (1, 1, 1)),
        ("lab", rgb2lab, (0, -136, -136), (100, 256, 256)),
    ],
)
def test_histograms_are_counts(space, convert, low, extent, layout, rng):
    image = rng.integers(0, 256, (23, 31, 3), dtype=np.uint8)
    found = ColorHistogram(space, layout=layout).fit_transform([image])[0]
    expected = naive_histogram(convert((image / 255).astype(np.float32)), low, extent, 16, layout)
    assert found.sum() == pytest.approx(1)
    # two conversions differ by rounding: a pixel at the border of two bins may be in either
    assert np.abs(found - expected).sum() <= (1e-6 if space == "rgb" else 0.06)


def test_grey_is_one_colour_but_for_its_lightness_and_extreme_colours_are_inside():
    """And so it stays, whatever the rounding of the conversion."""
    ramp = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 256, 3)
    used = np.flatnonzero(ColorHistogram("lab").fit_transform([ramp])[0])
    assert {(i // 16 % 16, i % 16) for i in used.tolist()} == {(8, 8)} and len(used) == 16
    corners = np.array([[[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)]], np.uint8)
    for space in ("rgb", "lab", "hsv"):
        assert np.count_nonzero(ColorHistogram(space).fit_transform([corners])) >= 7


def naive_hues(rgb, row, column, scale, n_bins):
    """A patch's histogram: 12 x 12 samples, each counted in the two bins that its hue lies between."""
    counts = [0.0] * n_bins
    for i in range(12):
        for j in range(12):
            dy, dx = i - 5.5, j - 5.5
            y, x = round(row + scale * dy), round(column + scale * dx)
            if not (0 <= y < rgb.shape[0] and 0 <= x < rgb.shape[1]):
                continue
            r, g, b = (float(value) for value in rgb[y, x])
            saturation = math.sqrt(2 / 3 * (r * r + g * g + b * b - r * g - r * b - g * b))  # equation (10)
            hue = math.atan2(math.sqrt(3) * (r - g), r + g - 2 * b) % (2 * math.pi)
            weight = saturation * math.exp(-(dx * dx + dy * dy) / 18)
            place = hue * n_bins / (2 * math.pi)
            low = int(place)
            counts[low % n_bins] += weight * (1 - place + low)
            counts[(low + 1) % n_bins] += weight * (place - low)
    norm = math.sqrt(sum(count * count for count in counts))
    return np.array(counts) / (norm or 1)


def test_hue_histograms_against_a_loop_and_exchanged_channels_turn_the_hue(rng):
    rgb = rng.random((40, 50, 3))
    points = np.array([[20.0, 25, 1.6], [3, 4, 2.3], [38.2, 11.4, 3.2], [0, 0, 1]])
    expected = [naive_hues(rgb, *point, 36) for point in points]
    np.testing.assert_allclose(hue_histograms(rgb, points), expected, atol=1e-5)
    # A third of the circle: light of another colour does change it, in a known way.
    points = np.array([[20.0, 25, 1.6]])
    turned = hue_histograms(rgb[..., [2, 0, 1]], points)
    np.testing.assert_allclose(turned, np.roll(hue_histograms(rgb, points), -12, axis=1), atol=1e-4)


def test_hue_does_not_change_with_shading_nor_with_white_highlights(rng):
    rgb = rng.random((40, 50, 3)) * 0.6
    points = np.array([[20.0, 25, 1.6], [15, 20, 2.5]])
    expected = hue_histograms(rgb, points)
    np.testing.assert_allclose(hue_histograms(0.3 * rgb, points), expected, atol=1e-4)
    np.testing.assert_allclose(hue_histograms(rgb + 0.4, points), expected, atol=1e-4)


def test_grey_patches_count_less_and_keep_their_hues_of_which_grey_has_none(rng):
    points = np.array([[20.0, 25, 1.6]])
    pale, vivid = (
        hue_histograms(0.5 + share * (rng.random((40, 50, 3)) - 0.5), points, grey=0.3) for share in (0.05, 1)
    )
    assert np.linalg.norm(pale) < 0.3 * np.linalg.norm(vivid) < 0.3
    rgb = rng.random((40, 50, 3))
    soft, hard = (hue_histograms(rgb, points, grey=grey)[0] for grey in (0.3, 0))
    np.testing.assert_allclose(soft / np.linalg.norm(soft), hard, atol=1e-5)
    assert not hue_histograms(np.full((30, 30, 3), 0.5), np.array([[15.0, 15, 2]])).any()
    assert hue_histograms(np.zeros((30, 30, 3)), np.empty((0, 3))).shape == (0, 36)


def test_words_are_the_nearest(rng):
    descriptors, dictionary = rng.random((50, 7), np.float32), rng.random((9, 7), np.float32)
    expected = [min(range(9), key=lambda j: ((x - dictionary[j]) ** 2).sum()) for x in descriptors]
    assert nearest_words(descriptors, dictionary).tolist() == expected


def test_bags_find_the_colours_of_an_image(rng):
    """Two colours, two words: the share of each is the share of its area, in each band too."""
    red, blue = np.array([200, 30, 30], np.uint8), np.array([30, 30, 200], np.uint8)
    image = np.where(np.arange(120)[:, np.newaxis, np.newaxis] < 80, red, blue) * np.ones((1, 90, 1), np.uint8)
    extractor = DenseHue(2, scales=(1.0,), step=2.0, layout=(3, 1)).fit([image])
    bands = extractor.transform([image])[0].reshape(3, 2)
    order = np.argsort(-bands[0])
    np.testing.assert_allclose(bands[:, order], [[1 / 3, 0], [1 / 3, 0], [0, 1 / 3]], atol=0.05)
