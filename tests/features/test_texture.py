"""HOG, LBP, CENTRIST: scikit-image's own, loops, and what must not change them."""

import numpy as np
import pytest
from skimage.data import camera
from skimage.feature import hog, local_binary_pattern

from visionnmf.features import CENTRIST, HOG, LBP
from visionnmf.features.texture import census_transform


@pytest.fixture(scope="module")
def photograph():
    return np.ascontiguousarray(camera()[100:228, 150:278])


def test_hog_is_scikit_images(photograph):
    expected = hog(photograph / 255, pixels_per_cell=(16, 16), cells_per_block=(2, 2))
    np.testing.assert_allclose(HOG().fit_transform([photograph])[0], expected, atol=1e-6)


@pytest.mark.parametrize(("turns", "cell", "size"), [(9, 7, 30), (4, 5, 29), (6, 8, 64), (1, 4, 8)])
def test_hog_is_scikit_images_for_even_angles_too(turns, cell, size, rng):
    """Few grey levels give many slopes of exactly 45 and 90 degrees, where bins meet."""
    coarse = rng.integers(0, 3, (size, size), dtype=np.uint8) * 40
    expected = hog(np.float32(coarse) / 255, orientations=turns, pixels_per_cell=(cell, cell), cells_per_block=(2, 2))
    found = HOG(n_orientations=turns, cell=cell, size=size).fit_transform([coarse])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_lbp_counts_scikit_images_patterns_in_each_cell(photograph):
    patterns = local_binary_pattern(photograph, 8, 1, "nri_uniform").astype(int)
    found = LBP(layout=(2, 4)).fit_transform([photograph])[0].reshape(2, 4, 59)
    for row in range(2):
        for column in range(4):
            cell = patterns[64 * row : 64 * row + 64, 32 * column : 32 * column + 32]
            np.testing.assert_allclose(found[row, column], np.bincount(cell.ravel(), minlength=59) / 128**2, atol=1e-7)


def naive_census(grey):
    height, width = grey.shape
    codes = np.zeros((max(0, height - 2), max(0, width - 2)), np.uint8)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            around = [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)]
            codes[y - 1, x - 1] = int("".join(str(int(grey[y, x] >= grey[place])) for place in around), 2)
    return codes


@pytest.mark.parametrize("shape", [(9, 13), (3, 3), (2, 5), (1, 1)])
def test_the_census_transform_against_a_loop(shape, rng):
    grey = rng.integers(0, 5, shape, dtype=np.uint8)
    np.testing.assert_array_equal(census_transform(grey), naive_census(grey))


def test_centrist_counts_codes_but_the_flat_ones_and_patterns_do_not_change_with_brightness(photograph):
    counts = np.bincount(census_transform(photograph).ravel(), minlength=256) / 126**2
    np.testing.assert_allclose(CENTRIST().fit_transform([photograph])[0], counts[1:-1], atol=1e-7)
    # scikit-image interpolates four of the eight neighbours, so that LBP bears straight lines alone.
    dark = photograph // 4
    np.testing.assert_allclose(*LBP().fit_transform([dark, 2 * dark + 30]), atol=1e-4)  # a pixel or two by rounding
    table = np.sort(np.random.default_rng(0).choice(np.arange(256), 200, replace=False)).astype(np.uint8)
    dark = np.minimum(photograph, 199)
    np.testing.assert_array_equal(*CENTRIST().fit_transform([dark, table[dark]]))
