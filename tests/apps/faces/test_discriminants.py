"""Discriminants against those of scikit-learn, and their mixture with class residuals."""

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from visionnmf.apps.faces import FaceRecognizer, load
from visionnmf.apps.faces.calibration import best_weight, image_folds, mixing_scores
from visionnmf.apps.faces.classifiers import ClassResidual
from visionnmf.apps.faces.discriminants import SHRINKAGE, WEIGHTS, Discriminant, Mixture


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


def test_a_mixture_is_the_geometric_mean_of_relative_distances(rng):
    X, y = lit_people(rng, 4, 5, 30)
    new = lit_people(rng, 4, 1, 30)[0]
    residual, discriminant = ClassResidual(adaptive=True).fit(X, y), Discriminant().fit(X, y)
    first, second = residual.distances(new), discriminant.distances(new)
    assert np.array_equal(Mixture(0.0).fit(X, y).distances(new), first)
    assert np.array_equal(Mixture(1.0).fit(X, y).distances(new), second)
    found = Mixture(0.3).fit(X, y).distances(new)
    for row in range(len(new)):
        relative = [one[row] / one[row].min() * np.mean(one[row].min() / one[row]) for one in (first, second)]
        np.testing.assert_allclose(found[row], relative[0] ** 0.7 * relative[1] ** 0.3)


def test_weights_are_scored_by_images_that_were_left_out(rng):
    X, y = lit_people(rng, 6, 6, 12)
    X += 0.8 * rng.random(X.shape)
    scores = mixing_scores(X, y)
    named = np.zeros(2)
    for new in image_folds(y):
        rest = np.delete(np.arange(len(y)), new)
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINKAGE, priors=np.full(6, 1 / 6))
        named[1] += (lda.fit(X[rest], y[rest]).predict(X[new]) == y[new]).sum()
        residual = ClassResidual(adaptive=True).fit(X[rest], y[rest])
        named[0] += (residual.distances(X[new]).argmin(axis=1) == y[new]).sum()
    assert tuple(scores) == WEIGHTS and len(set(scores.values())) > 1
    np.testing.assert_allclose([scores[0.0], scores[1.0]], named / len(y), atol=1.5 / len(y))


def test_the_weight_that_identifies_most_is_chosen_and_equal_weights_if_several_do():
    assert best_weight({0.0: 0.9, 0.3: 0.95, 0.5: 0.9, 0.7: 0.95, 1.0: 0.94}) in (0.3, 0.7)
    assert best_weight(dict.fromkeys(WEIGHTS, 1.0)) == 0.5


@pytest.mark.slow
def test_a_recogniser_keeps_the_weight_that_it_chose(rng, tmp_path):
    images, labels = made_faces(rng, 5, 6)
    X = rows(images)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(X, labels.astype(str))
    assert recognizer.discriminant_weight_ == best_weight(recognizer.discriminant_scores_)
    assert recognizer.classifier_.weight == recognizer.discriminant_weight_
    recognizer.save(tmp_path / "m.npz")
    again = load(tmp_path / "m.npz").recognizer
    assert again.discriminant_weight_ == recognizer.discriminant_weight_ and not again.discriminant_scores_
    np.testing.assert_allclose(again.distances(X), recognizer.distances(X), rtol=1e-3)
    residual = FaceRecognizer(image_shape=SHAPE, rule="residual", calibrate=False, random_state=0).fit(X, labels)
    assert residual.discriminant_weight_ == 0 and not residual.discriminant_scores_
    alone = FaceRecognizer(image_shape=SHAPE, calibrate=False, random_state=0).fit(X[::6], labels[::6])
    assert alone.discriminant_weight_ == 0  # one image each: nothing to choose by
