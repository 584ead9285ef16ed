"""Images and affinities against slow definitions and pictures whose answer is obvious."""

import numpy as np
import pytest

from visionnmf.exceptions import ParameterError
from visionnmf.features import check_image, proximity_affinity, reduce_image

# --- images ----------------------------------------------------------------------------------------------------------


def test_grey_and_opaque_alpha_become_rgb_and_transparency_is_blended_onto_white(rng):
    colour = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    opaque = np.dstack([colour, np.full((5, 7), 255, np.uint8)])
    np.testing.assert_array_equal(check_image(opaque), colour)
    np.testing.assert_array_equal(check_image(colour[..., 0]), np.repeat(colour[..., :1], 3, axis=2))
    np.testing.assert_array_equal(check_image(colour[..., :1]), np.repeat(colour[..., :1], 3, axis=2))
    half = np.array([[[0, 100, 200, 128], [9, 9, 9, 0]]], np.uint8)
    opacity = 128 / 255
    expected = [[np.array([0, 100, 200]) / 255 * opacity + 1 - opacity, [1, 1, 1]]]
    np.testing.assert_allclose(check_image(half), expected, atol=1e-6)
    np.testing.assert_allclose(check_image(half / 255.0), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (np.zeros(4), r"must have shape \(height, width\).*got \(4,\)"),
        (np.zeros((4, 4, 2)), r"got \(4, 4, 2\)"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        (np.zeros((4, 4), np.int64), "got int64; convert it"),
        (np.zeros((4, 4), bool), "got bool; convert it"),
        (np.full((4, 4), np.nan), "16 NaN or infinite values; replace them"),
        (np.array([[0.5, np.inf]]), "1 NaN or infinite values"),
        (np.full((4, 4), 255.0), r"must lie in \[0, 1\] where it is float; got values from 255 to 255; divide"),
        (np.full((4, 4), -0.1), "from -0.1 to -0.1"),
    ],
)
def test_unusable_images_are_refused(image: np.ndarray, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        check_image(image)


@pytest.mark.parametrize("shape", [(300, 200), (1, 9000), (9000, 1), (3, 5000), (20, 30)])
def test_reduced_images_fit(shape: tuple[int, int]) -> None:
    reduced = reduce_image(check_image(np.full(shape, 100, np.uint8)), 1000)
    assert reduced.shape[0] * reduced.shape[1] <= 1000
    assert reduced.shape[0] * reduced.shape[1] >= min(0.7 * 1000, shape[0] * shape[1])
    np.testing.assert_allclose(reduced, 100 / 255, rtol=1e-6)
    if min(shape) >= 20:
        assert reduced.shape[0] / reduced.shape[1] == pytest.approx(shape[0] / shape[1], rel=0.1)


def test_sixteen_bits_reduce_like_eight(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    wide = image.astype(np.uint16) * 257
    np.testing.assert_array_equal(reduce_image(image, 10**6), reduce_image(wide, 10**6))
    np.testing.assert_allclose(reduce_image(image, 300), reduce_image(wide, 300), atol=0.5 / 255)


# --- affinities ------------------------------------------------------------------------------------------------------


def test_proximity_affinity_is_the_papers_formula(rng: np.random.Generator) -> None:
    features, centres = rng.random((12, 3)), rng.random((12, 2))
    affinity = proximity_affinity(features, centres)
    d_feature = np.linalg.norm(features[:, None] - features[None], axis=2)
    d_place = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    d_feature, d_place = d_feature / d_feature.max(), d_place / d_place.max()
    for i, j in ((0, 1), (3, 7), (5, 5)):
        near = d_place[i, j] <= np.median(d_place)
        value = np.exp(-((d_feature[i, j] / 0.3) ** 2)) * np.exp(-((d_place[i, j] / 0.7) ** 2)) if near else 0
        assert affinity[i, j] == pytest.approx(value)
    assert (affinity == 0).any()
