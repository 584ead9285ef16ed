"""Discriminants against those of scikit-learn."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from visionnmf.apps.faces.distances import SHRINKAGE, Discriminant


def lit_people(rng, n_people, n_images, n_pixels):
    """Return images of people who differ little, under light that differs much, and who is on them."""
    people = 5 + rng.random((n_people, n_pixels))
    y = np.repeat(np.arange(n_people), n_images)
    light = 4 * rng.random((len(y), 3)) @ rng.random((3, n_pixels))
    return people[y] + light + 0.1 * rng.random((len(y), n_pixels)), y


@pytest.mark.parametrize("n_pixels", [12, 90])  # fewer than images, and more
def test_squared_distances_differ_as_the_scores_of_linear_discriminant_analysis(rng, n_pixels):
    X, y = lit_people(rng, 5, 6, n_pixels)
    new = lit_people(rng, 5, 2, n_pixels)[0]
    squares = Discriminant().fit(X, y).distances(new) ** 2
    scores = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINKAGE).fit(X, y).decision_function(new)
    scores *= (30 - 5) / 30  # scikit-learn divides sums of squares by the number of images
    np.testing.assert_allclose(squares[:, :1] - squares, 2 * (scores - scores[:, :1]), rtol=1e-6, atol=1e-6)
    single = Discriminant().fit(X.astype(np.float32), y).distances(new.astype(np.float32))
    np.testing.assert_allclose(single, np.sqrt(squares), rtol=0.02)


def test_nothing_is_left_beside_the_discriminants(rng):
    """A person's own mean image is at distance 0, also if something is added that tells nobody from another."""
    X, y = lit_people(rng, 4, 5, 30)
    fitted = Discriminant().fit(X, y)
    means = np.array([X[y == person].mean(axis=0) for person in range(4)])
    np.testing.assert_allclose(np.diag(fitted.distances(means)), 0, atol=1e-5)
    beside = rng.normal(size=30)
    beside -= fitted.projection_ @ np.linalg.lstsq(fitted.projection_, beside, rcond=None)[0]
    np.testing.assert_allclose(fitted.distances(means + beside), fitted.distances(means), atol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 3), (2, 1, 5)])
def test_people_with_one_image_and_equal_images_have_finite_distances(rng, sizes):
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.random((len(y), 9))
    assert (Discriminant().fit(X, y).distances(X).argmin(axis=1) == y).all()
    assert np.isfinite(Discriminant().fit(np.ones((len(y), 9)), y).distances(X)).all()
