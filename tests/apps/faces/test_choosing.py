"""What training images choose: the mixture of distances and its parts, by images that were left out."""

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows

from visionnmf.apps.faces import FaceRecognizer, distances, load
from visionnmf.apps.faces.distances import MIXTURES, ClassResidual, Discriminant, Mixture, Weights


def kinds(rng, n_people=4, n_images=8, n_pixels=30, noise=0.3):
    """Return images of objects that come in two kinds each, and which object is on them."""
    y = np.repeat(np.arange(n_people), n_images)
    objects = rng.random((n_people, 2, n_pixels))
    return objects[y, np.arange(len(y)) % 2] + noise * rng.random((len(y), n_pixels)), y


def test_a_mixture_is_the_geometric_mean_of_relative_distances_with_weights_that_sum_to_one(rng):
    X, y = kinds(rng)
    new = kinds(rng)[0]
    parts = [one.fit(X, y).distances(new) for one in (ClassResidual(adaptive=True), Discriminant())]
    for number, one in enumerate(parts):  # a single one is taken as it is
        assert np.array_equal(Mixture(Weights(*np.eye(2)[number])).fit(X, y).distances(new), one)
    found = Mixture(Weights(0.7, 0.3)).fit(X, y).distances(new)
    for row in range(len(new)):
        first, second = (one[row] / one[row].min() * np.mean(one[row].min() / one[row]) for one in parts)
        np.testing.assert_allclose(found[row], first**0.7 * second**0.3)
    np.testing.assert_allclose(np.sum(MIXTURES, axis=1), 1)
    assert len(set(MIXTURES)) == len(MIXTURES) and np.array_equal(np.unique(np.max(MIXTURES, axis=0)), [1])


@pytest.mark.parametrize("counts", [(900, 40), (6000, 6000, 7000), (3, 4, 2), (200, 200, 200)])
def test_choices_look_at_500_images_at_most_and_two_of_each_person(counts):
    people = np.repeat(np.arange(len(counts)), counts)
    rows, numbers = distances.rows_to_choose_by(people)
    assert len(rows) <= 500 and (np.diff(rows) > 0).all()
    found = np.bincount(numbers)
    assert len(found) >= 2 and found.min() >= 2
    assert np.array_equal(np.unique(people[rows], return_inverse=True)[1], numbers)


def test_the_probability_is_that_of_the_most_likely_power():
    far = np.array([[1.0, 2.0, 4.0], [2.0, 1.0, 4.0], [4.0, 4.0, 1.0], [1.0, 1.5, 1.0]])
    people = np.array([0, 0, 2, 2])
    best = 0.0
    for power in (1, 2, 4, 8, 16, 32, 64):
        shares = far**-power / (far**-power).sum(axis=1, keepdims=True)
        best = max(best, np.prod(shares[np.arange(4), people]) ** 0.25)
    assert distances.probability(np.log(far), people) == round(best, 3)
    assert distances.probability(np.zeros((4, 3)), people) == 0.333


def test_mixtures_are_scored_by_images_that_were_left_out(rng):
    X, y = kinds(rng, noise=1.5)
    scores = distances.mixture_scores(X, y)
    assert tuple(scores) == MIXTURES
    further = np.empty((len(y), 4))
    for new in distances.image_folds(y):
        rest = np.delete(np.arange(len(y)), new)
        further[new] = np.log(Discriminant().fit(X[rest], y[rest]).distances(X[new]))
    assert scores[Weights(0, 1)] == distances.probability(further, y)


def hard_kinds(rng):
    """Return images of which residuals say less than other distances, because a third of each varies in brightness."""
    X, y = kinds(rng, n_images=30, noise=1.2)
    X[:, :10] += 3 * rng.random((len(X), 1))
    return X, y


def test_limits_of_cleaning_are_scored_by_cleaned_images(rng):
    X, y = hard_kinds(rng)
    components = rng.random((4, 30))
    drawn, unseen = X @ np.linalg.pinv(components) @ components, np.zeros(X.shape, bool)
    scores = distances.limit_scores(X, drawn, unseen, y, 0.05, (1.0, np.inf))
    for outliers, score in scores.items():
        cleaned = drawn + np.clip(X - drawn, -0.05 * outliers, 0.05 * outliers)
        one = distances.probability(distances.left_out(ClassResidual(adaptive=True), cleaned, y), y)
        assert score == one


@pytest.mark.slow
def test_a_recogniser_keeps_the_mixture_that_it_chose(rng, tmp_path):
    images, labels = made_faces(rng, 5, 6)
    X = rows(images)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(X, labels.astype(str))
    assert recognizer.mixture_ == max(recognizer.mixture_scores_, key=recognizer.mixture_scores_.get)
    assert recognizer.classifier_.weights == recognizer.mixture_
    recognizer.save(tmp_path / "m.npz")
    again = load(tmp_path / "m.npz").recognizer
    assert again.mixture_ == recognizer.mixture_ and not again.mixture_scores_
    np.testing.assert_allclose(again.distances(X), recognizer.distances(X), rtol=1e-3)
    residual = FaceRecognizer(image_shape=SHAPE, rule="residual", calibrate=False, random_state=0).fit(X, labels)
    assert residual.mixture_ == Weights(1, 0) and not residual.mixture_scores_
    alone = FaceRecognizer(image_shape=SHAPE, calibrate=False, random_state=0).fit(X[::6], labels[::6])
    assert alone.mixture_ == Weights(1, 0)  # one image each: nothing to choose by
