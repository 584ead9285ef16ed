"""Parts of patches: found again where they were put, and pooled where they are."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from visionnmf.features import PatchNMF
from visionnmf.features.patches import split_patches


def naive_patches(rgb, patch, step):
    rows = []
    for y in range(0, rgb.shape[0] - patch + 1, step):
        rows.append([])
        for x in range(0, rgb.shape[1] - patch + 1, step):
            values = rgb[y : y + patch, x : x + patch].ravel()
            values = values - values.mean()
            values = values / (np.linalg.norm(values) + 0.1 * np.sqrt(values.size))
            rows[-1].append([*(max(v, 0) for v in values), *(max(-v, 0) for v in values)])
    return np.array(rows)


def test_patches_are_those_of_a_loop_and_do_not_change_with_brightness(rng):
    rgb = rng.random((17, 22, 3)).astype(np.float32)
    np.testing.assert_allclose(split_patches(rgb, 5, 3), naive_patches(rgb, 5, 3), atol=1e-6)
    dark = rgb * np.float32(0.5)
    np.testing.assert_allclose(split_patches(dark + np.float32(0.4), 5, 3), split_patches(dark, 5, 3), atol=1e-5)


@pytest.fixture(scope="module")
def tiles():
    """Images of 4 x 4 tiles, each tile one of five patterns."""
    rng = np.random.default_rng(3)
    patterns = (rng.random((5, 8, 8, 1)) < 0.5).repeat(3, axis=3)
    which = rng.integers(0, 5, (30, 4, 4))
    images = [patterns[each].transpose(0, 2, 1, 3, 4).reshape(32, 32, 3) for each in which]
    return patterns, which, [(200 * image + 20).astype(np.uint8) for image in images]


def test_the_parts_of_made_images_are_found(tiles):
    patterns, which, images = tiles
    extractor = PatchNMF(5, step=8, layout=(1, 1), n_samples=400).fit(images)
    true = split_patches((200 * patterns.reshape(40, 8, 3) + 20).astype(np.float32) / 255, 8, 8).reshape(5, -1)
    likeness = extractor.components_ @ (true / np.linalg.norm(true, axis=1, keepdims=True)).T
    rows, columns = linear_sum_assignment(-likeness)
    assert likeness[rows, columns].min() > 0.95
    shares = np.array([np.bincount(each.ravel(), minlength=5) for each in which]) / 16
    features = extractor.transform(images)[:, rows]
    for feature, column in zip(features.T, columns, strict=True):
        assert np.corrcoef(feature, shares[:, column])[0, 1] > 0.95


def test_cells_are_pooled_apart(tiles):
    images = tiles[2]
    extractor = PatchNMF(5, step=8, n_samples=400).fit(images)
    swapped = [np.concatenate([image[16:], image[:16]]) for image in images]
    upper, lower = np.split(extractor.transform(images), 2, axis=1)
    np.testing.assert_allclose(extractor.transform(swapped), np.hstack([lower, upper]), atol=1e-6)
