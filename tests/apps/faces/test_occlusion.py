"""Distances that bear things in front of a face."""

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from scipy.optimize import minimize
from sklearn.preprocessing import normalize

from visionnmf.apps.faces import FaceRecognizer, occlusion
from visionnmf.apps.faces.occlusion import RobustResidual

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.fixture
def gallery(rng):
    """Return the images (n_images, n_pixels) of six people, five each, and one more image of each person."""
    images, _ = made_faces(rng, 6, 6)
    pictures, y = rows(images).astype(np.float64), np.repeat(np.arange(6), 6)
    new = np.arange(len(y)) % 6 == 0
    return pictures[~new], y[~new], pictures[new], y[new]


def textured(images, rng):
    """Cover the left half of each image with stripes of random direction and grey."""
    height, width = SHAPE
    y, x = np.mgrid[:height, :width]
    covered = images.reshape(-1, height, width).copy()
    for image in covered:
        angle, period, grey = rng.uniform(0, np.pi), rng.uniform(3, 6), rng.uniform(60, 180)
        stripes = grey + 50 * np.sin(2 * np.pi * (np.cos(angle) * x + np.sin(angle) * y) / period)
        image[:, : width // 2] = stripes[:, : width // 2]
    return covered.reshape(len(images), -1)


def test_without_a_limit_it_is_the_likeliest_explanation(gallery, monkeypatch):
    """The distance is then the minimum of a quadratic, which a general minimiser finds too."""
    X, y, new, _ = gallery
    monkeypatch.setattr(occlusion, "LIMIT", 30.0)  # residuals are far below it
    monkeypatch.setattr(occlusion, "SHARE", 1e-6)
    monkeypatch.setattr(occlusion, "MOST_EXPONENT", 700.0)
    model = RobustResidual().fit(X, y)
    image = normalize(new[:1])[0]
    images = normalize(X)
    means = np.array([images[y == person].mean(axis=0) for person in range(6)])
    deviations = images - means[y]
    spread, directions = np.linalg.eigh(deviations.T @ deviations / (len(X) - 6))
    spread, directions = spread[::-1][:24], directions[:, ::-1][:, :24].T  # 30 images of 6 people
    ridge = occlusion.USUAL**2 / X.shape[1]
    for person in range(6):
        own = deviations[y == person]
        own_spread, own_directions = np.linalg.eigh(own.T @ own / 4)  # of five images
        variances = np.concatenate([spread, own_spread[-4:]])
        basis = np.concatenate([means[person][None], directions, own_directions[:, -4:].T])

        def cost(z, basis=basis, variances=variances):
            return ((image - z @ basis) ** 2).sum() + ridge * (z[1:] ** 2 / variances).sum()

        least = minimize(cost, np.append(1, np.zeros(28)), method="BFGS", options={"gtol": 1e-9}).fun
        share = least / (occlusion.LIMIT**2 / X.shape[1]) / X.shape[1]
        assert np.log(model.distances(new[:1])[0, person]) == pytest.approx(share / occlusion.SHARE, rel=1e-3)


def test_people_are_found_whose_images_differ_in_their_own_way(rng):
    """Common directions could be those of all people together, who differ here in 40 ways."""
    people = rng.random((20, 256)) + 0.5
    ways = rng.normal(size=(20, 2, 256))
    X, new = (np.concatenate([people[k] + 0.15 * rng.normal(size=(n, 2)) @ ways[k] for k in range(20)]) for n in (8, 4))
    y, true = np.repeat(np.arange(20), 8), np.repeat(np.arange(20), 4)
    model = RobustResidual().fit(np.maximum(X, 0), y)
    own = model.distances(np.maximum(new, 0))
    model.own_ *= 0
    common = model.distances(np.maximum(new, 0))
    others = [np.sort(np.delete(row, k))[0] for row, k in zip(own, true, strict=True)]
    assert (own.argmin(axis=1) == true).all()
    assert np.median(np.log(own[np.arange(80), true])) < 0.5 * np.median(np.log(common[np.arange(80), true]))
    assert np.median(others) > np.e * np.median(own[np.arange(80), true])


def test_dense_noise_does_not_hide_people(gallery, rng, monkeypatch):
    """All pixels together choose people to compare, because no pixels are well explained."""
    X, y, new, people = gallery
    X = np.concatenate([X, rows(made_faces(np.random.default_rng(1), 40, 5)[0])])
    y = np.concatenate([y, np.repeat(np.arange(6, 46), 5)])
    noisy = np.clip(np.tile(new, (8, 1)) + rng.normal(0, 60, (8 * len(new), 256)), 0, 255)
    model = RobustResidual(SHAPE).fit(X, y)
    found = (model.distances(noisy).argmin(axis=1) == np.tile(people, 8)).mean()
    monkeypatch.setattr(model, "_unweighted", lambda image, visible: model._start(image, visible)[0])
    without = (model.distances(noisy).argmin(axis=1) == np.tile(people, 8)).mean()
    assert found > max(0.6, without + 0.2)


def test_a_covered_half_does_not_decide(gallery, rng):
    X, y, new, people = gallery
    covered = np.concatenate([textured(new, rng) for _ in range(5)])
    answers = np.tile(people, 5)
    scores = {
        rule: FaceRecognizer(rule=rule, image_shape=SHAPE, random_state=0).fit(X, y).score(covered, answers)
        for rule in ("residual", "occluded")
    }
    assert scores["occluded"] >= 0.85 and scores["occluded"] > scores["residual"] + 0.2


def test_missing_pixels_do_not_count(gallery):
    X, y, new, _ = gallery
    missing = np.zeros(new.shape, bool)
    missing[:, 40:120] = True
    model = RobustResidual(SHAPE).fit(X, y)
    first, second = (model.distances(np.where(missing, value, new), missing) for value in (0.0, 200.0))
    assert np.array_equal(first, second)
    assert not np.allclose(first, model.distances(new))


def test_large_images_are_averaged(gallery):
    """Images of 64 x 64 pixels whose squares are even are those of 32 x 32."""
    X, y, new, _ = gallery
    small, large = ([np.kron(part.reshape(-1, *SHAPE), np.ones((1, n, n))) for part in (X, new)] for n in (2, 4))
    assert small[0].shape[1:] == (32, 32)
    found = [
        RobustResidual(images[0].shape[1:]).fit(rows(images[0]), y).distances(rows(images[1]))
        for images in (small, large)
    ]
    assert np.allclose(*found)


def test_one_image_each_and_black_images(gallery):
    X, y, new, people = gallery
    single = RobustResidual(SHAPE).fit(X[::5], y[::5])
    assert (single.distances(new).argmin(axis=1) == people).mean() >= 0.8
    assert np.isfinite(single.distances(np.zeros_like(new))).all()
    assert np.isfinite(single.distances(new, np.ones(new.shape, bool))).all()


def test_float32_stays(gallery):
    X, y, new, _ = gallery
    exact = RobustResidual(SHAPE).fit(X, y).distances(new)
    rounded = RobustResidual(SHAPE).fit(X.astype(np.float32), y).distances(new.astype(np.float32))
    assert rounded.dtype == np.float32 and np.allclose(exact, rounded, rtol=1e-2)
