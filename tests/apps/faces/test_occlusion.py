"""Distances that bear things in front of a face."""

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from scipy.optimize import minimize
from sklearn.preprocessing import normalize

from visionnmf.apps.faces import FaceRecognizer, distances, occlusion
from visionnmf.apps.faces.distances import ALONE, Mixture, relative_distances
from visionnmf.apps.faces.occlusion import CoveredFaces, RobustResidual

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.fixture
def gallery(rng):
    """Return the images (n_images, n_pixels) of six people, five each, and one more image of each person."""
    images, _ = made_faces(rng, 6, 6)
    pictures, y = rows(images).astype(np.float64), np.repeat(np.arange(6), 6)
    new = np.arange(len(y)) % 6 == 0
    return pictures[~new], y[~new], pictures[new], y[new]


def textured(images, rng, below=False):
    """Cover the left or the lower half of each image with stripes of random direction and grey."""
    height, width = SHAPE
    y, x = np.mgrid[:height, :width]
    half = np.s_[height // 2 :] if below else np.s_[:, : width // 2]
    covered = images.reshape(-1, height, width).copy()
    for image in covered:
        angle, period, grey = rng.uniform(0, np.pi), rng.uniform(3, 6), rng.uniform(60, 180)
        stripes = grey + 50 * np.sin(2 * np.pi * (np.cos(angle) * x + np.sin(angle) * y) / period)
        image[half] = stripes[half]
    return covered.reshape(len(images), -1)


def robust(model, images, visible=None, noise=0.0):
    """Return the relative distances of images (n_images, n_pixels) from everybody."""
    everybody = np.arange(len(model.means_))
    reduced = model.reduced(images)
    seen = np.ones_like(reduced) if visible is None else visible
    return np.array([model.distances(*pair, everybody, noise) for pair in zip(reduced, seen, strict=True)])


def test_without_a_limit_it_is_the_likeliest_explanation(gallery, monkeypatch):
    """The distance is then the minimum of a quadratic, which a general minimiser finds too."""
    X, y, new, _ = gallery
    # Residuals are far below the limit, and neighbours are apart.
    changed = {"LIMIT": 30.0, "SHARE": 1e-6, "MOST_EXPONENT": 700.0, "SMOOTHING": 0, "DIFFERENCES": 24}
    for name, value in changed.items():
        monkeypatch.setattr(occlusion, name, value)
    model = RobustResidual(SHAPE).fit(X, y)
    image = normalize(new[:1])[0]
    images = normalize(X)
    means = np.array([images[y == person].mean(axis=0) for person in range(6)])
    deviations = images - means[y]
    spread, directions = np.linalg.eigh(deviations.T @ deviations / (len(X) - 6))
    spread, directions = spread[::-1][:24], directions[:, ::-1][:, :24].T  # 30 images of 6 people
    ridge = occlusion.USUAL**2 / X.shape[1]
    shares = []
    for person in range(6):
        own = deviations[y == person]
        own_spread, own_directions = np.linalg.eigh(own.T @ own / 4)  # of five images
        variances = np.concatenate([spread, own_spread[-4:]])
        basis = np.concatenate([means[person][None], directions, own_directions[:, -4:].T])

        def cost(z, basis=basis, variances=variances):
            return ((image - z @ basis) ** 2).sum() + ridge * (z[1:] ** 2 / variances).sum()

        least = minimize(cost, np.append(1, np.zeros(28)), method="BFGS", options={"gtol": 1e-9}).fun
        shares.append(least / occlusion.LIMIT**2 / occlusion.SHARE)
    expected = relative_distances(np.exp([shares]))[0]
    np.testing.assert_allclose(np.log(robust(model, new[:1])[0]), np.log(expected), rtol=1e-3, atol=1e-3)


def test_people_are_found_whose_images_differ_in_their_own_way(rng, monkeypatch):
    """Common directions could be those of all people together, who differ here in 40 ways."""
    people = rng.random((20, 256)) + 0.5
    ways = rng.normal(size=(20, 2, 256))
    X, new = (np.concatenate([people[k] + 0.15 * rng.normal(size=(n, 2)) @ ways[k] for k in range(20)]) for n in (8, 4))
    y, true = np.repeat(np.arange(20), 8), np.repeat(np.arange(20), 4)
    monkeypatch.setattr(occlusion, "SHARE", 0.5)  # so that no distance is the largest that there is
    model = RobustResidual((16, 16)).fit(np.maximum(X, 0), y)
    assert (robust(model, np.maximum(new, 0)).argmin(axis=1) == true).all()
    own = np.log(np.sort(robust(model, np.maximum(new, 0)))[:, :2])
    model.own_[:] = 0
    common = np.log(np.sort(robust(model, np.maximum(new, 0)))[:, :2])
    # how much further the second person is, on a logarithmic scale
    assert np.median(np.diff(own)) > 1.2 * np.median(np.diff(common))


@pytest.mark.parametrize("below", [False, True])
def test_a_covered_half_does_not_decide(gallery, rng, below):
    X, y, new, people = gallery
    covered = np.concatenate([textured(new, rng, below) for _ in range(5)])
    answers = np.tile(people, 5)
    scores = {
        rule: FaceRecognizer(rule=rule, image_shape=SHAPE, random_state=0).fit(X, y).score(covered, answers)
        for rule in ("residual", "auto")
    }
    assert scores["auto"] >= 0.85 and scores["auto"] > scores["residual"] + 0.2


def test_clear_images_keep_their_distances(gallery):
    """Whoever is clearly the nearest by all pixels is named by them alone."""
    X, y, new, _ = gallery
    whole = relative_distances(Mixture(ALONE).fit(X, y).distances(new))
    found = CoveredFaces(ALONE, SHAPE).fit(X, y).distances(new, np.zeros_like(new), np.zeros(len(new)))
    clear = (6 * whole.min(axis=1) - 1) / 5 < occlusion.CLEAR
    assert clear.any() and np.array_equal(found[clear], whole[clear])


def test_covered_unknown_people_are_not_named_more_often_than_announced(rng):
    images, labels = made_faces(rng, 60, 6)
    pictures, known = rows(images).astype(np.float32), labels < np.unique(labels)[40]
    recognizer = FaceRecognizer(image_shape=SHAPE, n_components=20, random_state=0).fit(pictures[known], labels[known])
    for below in (False, True):
        named = recognizer.identify(textured(pictures[~known], rng, below))
        assert np.mean([one.person is not None for one in named]) <= recognizer.rate_intervals_[0, 1]


def test_pixels_that_do_not_count(gallery):
    X, y, new, _ = gallery
    missing = np.zeros(new.shape, bool)
    missing[:, 40:120] = True
    model = RobustResidual(SHAPE).fit(X, y)
    image = model.reduced(new[:1])[0]
    visible, everybody = 1.0 - missing[0], np.arange(6)
    first, second = (
        model.distances(np.where(missing[0], value, image), visible, everybody, 0.0) for value in (0.0, 0.1)
    )
    assert np.array_equal(first, second)
    assert not np.allclose(first, model.distances(image, np.ones_like(visible), everybody, 0.0))


def test_large_images_are_averaged_and_float32_stays(gallery):
    """Images of 64 x 64 pixels whose squares are even are those of 32 x 32."""
    X = gallery[0]
    small, large = (np.kron(X.reshape(-1, *SHAPE), np.ones((1, n, n))) for n in (2, 4))
    assert small.shape[1:] == (32, 32)
    found = [RobustResidual(images.shape[1:]).reduced(rows(images)) for images in (small, large)]
    assert np.allclose(*found)
    X, y, new, _ = gallery
    exact = robust(RobustResidual(SHAPE).fit(X, y), new)
    rounded = robust(RobustResidual(SHAPE).fit(X.astype(np.float32), y), new.astype(np.float32))
    assert rounded.dtype == np.float32 and np.allclose(exact, rounded, rtol=1e-2)


def test_one_image_each_and_black_images(gallery):
    X, y, new, people = gallery
    single = CoveredFaces(ALONE, SHAPE).fit(X[::5], y[::5])
    assert (single.distances(new, new, np.zeros(6)).argmin(axis=1) == people).mean() >= 0.8
    assert np.isfinite(single.distances(np.zeros_like(new), np.zeros_like(new), np.zeros(6))).all()


def test_a_threshold_is_that_of_the_distance_which_is_used(monkeypatch, rng):
    """Also where images are large enough to be divided, and the grid of pixels by which folds measure is not."""
    used = []
    make = FaceRecognizer._new_classifier

    def noted(self, shape):
        used.append(make(self, shape))
        return used[-1]

    monkeypatch.setattr(FaceRecognizer, "_new_classifier", noted)
    images, labels = made_faces(rng, 6, 6)
    large = np.kron(images, np.ones((3, 2), np.uint8))[:, :44, :30]
    monkeypatch.setattr(distances, "GRID_PIXELS", 300)
    fitted = FaceRecognizer(image_shape=(44, 30), missing="none", random_state=0).fit(rows(large), labels)
    assert len(fitted.threshold_pixels_) < 16**2
    assert len(used) > 2 and {type(one) for one in used} == {CoveredFaces}
