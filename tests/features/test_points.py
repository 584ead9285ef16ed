"""Points and the descriptors there: OpenCV's SIFT, Harris-Laplace."""

import cv2
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from skimage.data import camera
from skimage.transform import rescale

from visionnmf.features import DenseSift, harris_laplace
from visionnmf.features.interest_points import dense_grid, grid_size
from visionnmf.features.sift import SIFT_SCALES, grid_descriptors, sift_descriptors


@pytest.fixture(scope="module")
def photograph():
    return np.ascontiguousarray(camera()[100:300, 150:400])


def test_a_grid_is_centred_and_its_descriptors_are_opencvs(photograph):
    points = dense_grid(60, 90, (1.0, 2.0), 3.0)
    for scale, shape in ((1.0, (20, 30)), (2.0, (10, 15))):
        rows, columns = points[points[:, 2] == scale, :2].reshape(*shape, 2).transpose(2, 0, 1)
        assert (np.diff(rows, axis=0) == 3 * scale).all() and (np.diff(columns, axis=1) == 3 * scale).all()
        assert rows.mean() == 29.5 and columns.mean() == 44.5
    assert dense_grid(1, 1, (5.0,), 3.0).tolist() == [[0, 0, 5]]
    points = dense_grid(*photograph.shape, (1.6,), 4.0)
    keypoints = [cv2.KeyPoint(float(x), float(y), 3.2, 0) for y, x, _ in points]
    expected = cv2.SIFT_create().compute(photograph, keypoints)[1]
    np.testing.assert_array_equal(sift_descriptors(photograph, points), expected)


@pytest.mark.parametrize(
    ("shape", "scales"), [((200, 250), SIFT_SCALES), ((47, 90), (0.8, 7.0, 1.6)), ((3, 2), (30.0,))]
)
def test_descriptors_of_a_grid_are_opencvs(photograph, shape, scales):
    image = photograph[: shape[0], : shape[1]]
    points = dense_grid(*shape, scales, 3.0)
    found = grid_descriptors(image, points, grid_size(*shape, scales, 3.0))
    apart = np.abs(found - sift_descriptors(image, points))
    assert found.shape == (len(points), 128) and apart.max() <= 1 and (apart > 0).mean() < 5e-4


def test_each_scale_is_taken_from_its_layer(photograph):
    """Where OpenCV itself finds a point, it knows the layer."""
    sift = cv2.SIFT_create()
    found = [point for point in sift.detect(photograph) if 1.7 < point.size / 2 < 12]
    upright = [cv2.KeyPoint(*point.pt, point.size, 0, point.response, point.octave) for point in found]
    expected = sift.compute(photograph, upright)[1]
    points = np.array([(*point.pt[::-1], point.size / 2) for point in found])
    ours = sift_descriptors(photograph, points)
    cosines = (ours * expected).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(expected, axis=1)
    assert len(found) > 100 and np.median(cosines) > 0.99 and (cosines > 0.9).mean() > 0.97


def test_sift_does_not_change_with_brightness_and_contrast(photograph):
    points = dense_grid(*photograph.shape, (2.3,), 8.0)
    first = sift_descriptors(photograph, points)
    other = sift_descriptors((0.6 * photograph + 60).astype(np.uint8), points)
    clear = np.array([photograph[int(y) - 8 : int(y) + 9, int(x) - 8 : int(x) + 9].std() > 20 for y, x, _ in points])
    cosines = (first * other).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(other, axis=1)
    assert clear.sum() > 30 and np.median(cosines[clear]) > 0.98


def test_a_dictionary_has_the_words_that_there_are(photograph):
    """Tiles of two textures: two words suffice, whatever was asked for."""
    flat = np.full((40, 40), 99, np.uint8)
    extractor = DenseSift(7).fit([flat])
    assert len(extractor.dictionary_) == 1 and extractor.transform([flat, photograph]).tolist() == [[1], [1]]


def squares(side=24):
    image = np.zeros((120, 160), np.float32)
    image[48 : 48 + side, 64 : 64 + side] = 1
    return gaussian_filter(image, 1)


def test_corners_are_found_where_they_are_and_none_in_flat_images():
    points = harris_laplace(squares())
    corners = np.array([(r, c) for r in (47.5, 71.5) for c in (63.5, 87.5)])
    distances = np.linalg.norm(points[:, np.newaxis, :2] - corners, axis=-1)
    assert len(points) >= 4 and (distances.min(axis=0) < 3).all()
    assert (distances.min(axis=1) < 2 * points[:, 2] + 1).all()  # and nowhere else
    assert len(harris_laplace(np.full((40, 50), 0.3))) == 0
    assert len(harris_laplace(np.zeros((1, 1)))) == 0


def test_corners_do_not_change_with_contrast_and_turn_and_grow_with_the_image(photograph):
    grey = photograph / np.float32(255)
    points = harris_laplace(grey)
    np.testing.assert_allclose(harris_laplace(0.5 * grey), points)
    turned = harris_laplace(np.ascontiguousarray(np.rot90(grey, 2)))
    back = np.column_stack([np.array(grey.shape) - 1 - turned[:, :2], turned[:, 2]])
    same = {tuple(np.round(point, 2)) for point in points.astype(float)} & {tuple(np.round(point, 2)) for point in back}
    assert len(points) > 50 and len(same) > 0.95 * len(points)
    # Repeatability: twice the image, twice the places and the scales.
    twice = harris_laplace(rescale(grey, 2, order=3).astype(np.float32))
    middle = points[(points[:, 2] > 1.3) & (points[:, 2] < 4)]
    halved = np.column_stack([(twice[:, :2] - 0.5) / 2, twice[:, 2] / 2])
    near = [
        ((np.hypot(*(halved[:, :2] - point[:2]).T) < 2.5) & (np.abs(np.log(halved[:, 2] / point[2])) < 0.4)).any()
        for point in middle
    ]
    assert len(middle) > 30 and np.mean(near) > 0.6
