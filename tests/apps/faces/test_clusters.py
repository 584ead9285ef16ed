"""Groups of images without names: by faces, by objects, with missing pixels, with copies and few images."""

import numpy as np
import pytest
from helpers import made_faces, rows
from scipy.linalg import sqrtm
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from visionnmf import NMF
from visionnmf.apps.faces import cluster_faces
from visionnmf.apps.faces.clustering import whitened_codes
from visionnmf.datasets import corrupt
from visionnmf.metrics import clustering_accuracy, clustering_information


@pytest.fixture
def people(rng):
    images, labels = made_faces(rng)
    train = np.tile(np.arange(8) < 5, 6)
    return images[train], labels[train]


def test_people_are_found_without_names(people):
    train, y = people
    found = cluster_faces(rows(train), 6)
    assert clustering_accuracy(y, found) > 0.8 and clustering_information(y, found) > 0.8


def test_missing_pixels_do_not_decide_on_clusters(people):
    train, y = people
    bad, mask = corrupt(train, "occlusion", 8, return_mask=True, random_state=0)
    choices = ({"mask": mask.reshape(len(bad), -1)}, {"image_shape": bad.shape[1:]}, {})
    known, found, ignored = (clustering_information(y, cluster_faces(rows(bad), 6, **choice)) for choice in choices)
    assert known > 0.7 and found > 0.7 and min(known, found) > ignored + 0.1


def test_codes_to_compare_are_white_and_have_unit_norm(rng):
    images, _ = made_faces(rng, 5, 8)
    model = NMF(10, nuclear=1.0, max_iter=50, tol=0, random_state=0)
    found = whitened_codes(model.fit_transform(rows(images)), model.components_)
    codes = model.transform(rows(images)).astype(float) * np.linalg.norm(model.components_, axis=1)
    moments = codes.T @ codes / len(codes)
    expected = codes @ np.linalg.inv(sqrtm(moments + np.trace(moments) / 10 * np.eye(10)))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(found @ found.T, expected @ expected.T, atol=1e-3)


def test_objects_are_compared_by_pixels_where_these_group_them_better():
    X, labels = load_digits(return_X_y=True)
    X, labels = X[800:1300], labels[800:1300]
    assert clustering_accuracy(labels, cluster_faces(X, 10)) > 0.75  # by codes 0.6
    zeros = np.zeros((4, 3), np.float32)
    assert np.isfinite(whitened_codes(zeros, np.ones((3, 5), np.float32))).all()


def test_faces_under_changing_light_are_compared_by_codes(rng):
    images, labels = made_faces(rng, 6, 12)
    lights = np.linspace(*rng.uniform(0.1, 1, (2, len(images))), images.shape[2], axis=-1)  # weaker towards one side
    X = rows(images * lights[:, None, :])
    by_pixels = KMeans(6, n_init=10, random_state=0).fit_predict(normalize(X))
    assert clustering_accuracy(labels, cluster_faces(X, 6)) > clustering_accuracy(labels, by_pixels) + 0.2


@pytest.mark.parametrize(("n_images", "n_clusters"), [(1, 1), (2, 1), (2, 2), (3, 2), (6, 5), (30, 29)])
def test_few_images_make_as_many_groups_as_were_asked_for(rng, n_images, n_clusters):
    assert len(set(cluster_faces(rng.random((n_images, 40)), n_clusters))) == n_clusters


def test_copies_of_images_share_their_groups_and_accuracy_matches_groups_to_people(rng):
    X = np.repeat(rng.random((4, 40)), 3, axis=0)
    assert clustering_accuracy(np.repeat(range(4), 3), cluster_faces(X, 4)) == 1
    with pytest.warns(UserWarning, match="only 4 different images, and 5 groups"):
        assert clustering_accuracy(np.repeat(range(4), 3), cluster_faces(X, 5)) == 1
    assert clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 0]) == 1
    assert clustering_accuracy([0, 0, 1, 1], [5, 5, 5, 5]) == 0.5
    assert clustering_accuracy(["a", "a", "b"], [0, 1, 2]) == pytest.approx(2 / 3)
