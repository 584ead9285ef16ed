"""What training images choose: the mixture of distances and its parts, by images that were left out."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from scipy.spatial.distance import cdist, pdist
from sklearn.kernel_ridge import KernelRidge

from visionnmf.apps.faces import FaceRecognizer, choosing, kernel_machine, load
from visionnmf.apps.faces.classifiers import ClassResidual
from visionnmf.apps.faces.comparison import Comparison
from visionnmf.apps.faces.discriminants import Discriminant
from visionnmf.apps.faces.kernel_machine import POWER, RIDGE, KernelMachine
from visionnmf.apps.faces.mixture import MIXTURES, Mixture, Weights
from visionnmf.exceptions import ParameterError


def kinds(rng, n_people=4, n_images=8, n_pixels=30, noise=0.3):
    """Return images of objects that come in two kinds each, and which object is on them."""
    y = np.repeat(np.arange(n_people), n_images)
    objects = rng.random((n_people, 2, n_pixels))
    return objects[y, np.arange(len(y)) % 2] + noise * rng.random((len(y), n_pixels)), y


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_kernel_machine_is_that_of_scikit_learn(rng, dtype):
    X, y = kinds(rng)
    new = kinds(rng)[0]
    gamma = 1 / np.median(pdist(unit(X)) ** 2)
    outputs = KernelRidge(alpha=RIDGE, kernel="rbf", gamma=gamma).fit(unit(X), np.eye(4)[y]).predict(unit(new))
    found = KernelMachine().fit(X.astype(dtype), y).distances(new.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, cdist(outputs, np.eye(4)) ** POWER, rtol=1e-3 if dtype == np.float32 else 1e-8)


def test_folds_of_the_kernel_machine_are_fits_without_them(rng):
    X, y = kinds(rng)
    folds = [np.arange(3), np.arange(20, 30)]
    for new, fitted in zip(folds, KernelMachine().folds(X, y, folds), strict=True):
        rest = np.delete(np.arange(len(y)), new)
        gamma = 1 / np.median(pdist(unit(X)) ** 2)  # the width is that of all images
        ridge = KernelRidge(alpha=RIDGE, kernel="rbf", gamma=gamma).fit(unit(X)[rest], np.eye(4)[y[rest]])
        np.testing.assert_allclose(fitted.distances(X[new]), cdist(ridge.predict(unit(X)[new]), np.eye(4)) ** POWER)


def test_many_images_need_kernels_of_some_only(rng, monkeypatch):
    """Distances are nearer to those by all images than those of a machine that knows only the images drawn."""
    X, y = kinds(rng, n_images=40)
    exact = KernelMachine().fit(X, y).distances(X)
    monkeypatch.setattr(kernel_machine, "LANDMARKS", 60)
    fitted = KernelMachine().fit(X, y)
    drawn = np.isclose(unit(X)[:, None], fitted.images_).all(axis=2).any(axis=1)
    assert drawn.sum() == len(fitted.images_) == 60 and (fitted.distances(X).argmin(axis=1) == y).all()
    few = KernelMachine().fit(X[drawn], y[drawn]).distances(X)
    assert np.abs(fitted.distances(X) - exact).mean() < 0.7 * np.abs(few - exact).mean()
    equal = KernelMachine().fit(np.ones((80, 9)), np.arange(80) % 2)
    np.testing.assert_allclose(equal.distances(np.ones((2, 9))), 0.25, rtol=1e-3)  # half of each, the distance from it


@pytest.mark.parametrize("images", [np.zeros((6, 9)), np.ones((6, 9)), np.eye(6, 9)[[0, 0, 1, 1, 2, 2]]])
def test_equal_and_black_images_have_finite_distances(images):
    y = np.array([0, 0, 1, 1, 2, 2])
    assert np.isfinite(KernelMachine().fit(images, y).distances(images)).all()
    assert np.isfinite(KernelMachine().fit(images[:1], y[:1]).distances(images)).all()


def test_a_mixture_is_the_geometric_mean_of_relative_distances(rng):
    X, y = kinds(rng)
    new = kinds(rng)[0]
    parts = [one.fit(X, y).distances(new) for one in (ClassResidual(adaptive=True), Discriminant(), KernelMachine())]
    for number, one in enumerate(parts):  # a single one is taken as it is
        assert np.array_equal(Mixture(Weights(*np.eye(3)[number])).fit(X, y).distances(new), one)
    found = Mixture(Weights(0.5, 0.2, 0.3)).fit(X, y).distances(new)
    for row in range(len(new)):
        first, second, third = (one[row] / one[row].min() * np.mean(one[row].min() / one[row]) for one in parts)
        np.testing.assert_allclose(found[row], first**0.5 * second**0.2 * third**0.3)


def test_weights_of_a_mixture_sum_to_one():
    np.testing.assert_allclose(np.sum(MIXTURES, axis=1), 1)
    assert len(set(MIXTURES)) == len(MIXTURES) and np.array_equal(np.unique(np.max(MIXTURES, axis=0)), [1])


@pytest.mark.parametrize("weights", [Weights(0, 0, 0), Weights(0.5, 0.2, 0.2), Weights(1, 1, 0)])
def test_weights_with_another_sum_are_refused(rng, weights):
    with pytest.raises(ParameterError, match="weights must sum to 1"):
        Mixture(weights).fit(*kinds(rng))


@pytest.mark.parametrize("counts", [(900, 40), (6000, 6000, 7000), (3, 4, 2), (200, 200, 200)])
def test_choices_look_at_500_images_at_most_and_two_of_each_person(counts):
    people = np.repeat(np.arange(len(counts)), counts)
    rows, numbers = choosing.rows_to_choose_by(people)
    assert len(rows) <= 500 and (np.diff(rows) > 0).all()
    found = np.bincount(numbers)
    assert len(found) >= 2 and found.min() >= 2
    assert np.array_equal(np.unique(people[rows], return_inverse=True)[1], numbers)


def test_the_probability_is_that_of_the_most_likely_power():
    distances = np.array([[1.0, 2.0, 4.0], [2.0, 1.0, 4.0], [4.0, 4.0, 1.0], [1.0, 1.5, 1.0]])
    people = np.array([0, 0, 2, 2])
    best = 0.0
    for power in (1, 2, 4, 8, 16, 32, 64):
        shares = distances**-power / (distances**-power).sum(axis=1, keepdims=True)
        best = max(best, np.prod(shares[np.arange(4), people]) ** 0.25)
    assert choosing.probability(np.log(distances), people) == round(best, 3)
    assert choosing.probability(np.zeros((4, 3)), people) == 0.333


def test_mixtures_are_scored_by_images_that_were_left_out(rng):
    X, y = kinds(rng, noise=1.5)
    scores = choosing.mixture_scores(X, y)
    assert tuple(scores) == MIXTURES
    further = np.empty((len(y), 4))
    for new in choosing.image_folds(y):
        rest = np.delete(np.arange(len(y)), new)
        further[new] = np.log(Discriminant().fit(X[rest], y[rest]).distances(X[new]))
    assert scores[Weights(0, 1, 0)] == choosing.probability(further, y)


def hard_kinds(rng):
    """Return images of which residuals say less than other distances, because a third of each varies in brightness."""
    X, y = kinds(rng, n_images=30, noise=1.2)
    X[:, :10] += 3 * rng.random((len(X), 1))
    return X, y


def test_objects_of_several_kinds_choose_the_kernel_machine(rng):
    X, y = hard_kinds(rng)
    scores = choosing.mixture_scores(X, y)
    best = max(scores, key=scores.get)
    assert best.kernel > 0 and scores[best] > max(scores[Weights(1, 0, 0)], scores[Weights(0, 1, 0)])


def test_limits_of_cleaning_are_scored_by_cleaned_images(rng):
    X, y = hard_kinds(rng)
    model = SimpleNamespace(components_=rng.random((4, 30)))
    images, unseen = (X, X @ np.linalg.pinv(model.components_) @ model.components_), np.zeros(X.shape, bool)
    limits = {1.0: 0.05, np.inf: np.inf}
    scores = choosing.limit_scores(Comparison("residual", model, None), *images, unseen, y, limits)
    for outliers, limit in limits.items():
        cleaned = images[1] + np.clip(X - images[1], -limit, limit)
        one = choosing.probability(choosing.left_out(ClassResidual(adaptive=True), cleaned, y), y)
        assert scores[outliers] == one
    mixed = choosing.limit_scores(Comparison("auto", model, None), *images, unseen, y, limits)
    assert all(mixed[outliers] >= scores[outliers] for outliers in limits) and mixed[np.inf] > scores[np.inf]


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
    assert residual.mixture_ == Weights(1, 0, 0) and not residual.mixture_scores_
    alone = FaceRecognizer(image_shape=SHAPE, calibrate=False, random_state=0).fit(X[::6], labels[::6])
    assert alone.mixture_ == Weights(1, 0, 0)  # one image each: nothing to choose by
