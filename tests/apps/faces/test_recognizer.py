"""Faces: the classifiers against loops, the search for bad pixels, and recognition of made people."""

import io
import math

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from PIL import Image
from scipy.ndimage import binary_opening
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer

from visionnmf.apps.faces import FaceRecognizer, remove_shadows
from visionnmf.apps.faces.distances import ClassResidual
from visionnmf.apps.faces.images import flat_blocks, missing_pixels, noise_scale, winsorise
from visionnmf.datasets import corrupt
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.fixture
def people(rng):
    images, labels = made_faces(rng)
    train = np.tile(np.arange(8) < 5, 6)
    return images[train], labels[train], images[~train], labels[~train]


def test_an_image_that_shows_nothing_is_nobody(people):
    images, labels, new, _ = people
    images, new = (rows.reshape(len(rows), -1) for rows in (images, new))
    recognizer = FaceRecognizer(image_shape=(16, 16), random_state=0).fit(images, labels)
    blank = np.stack([np.zeros_like(new[0]), np.full_like(new[0], 0.4), new[0]])
    found = recognizer.identify(blank)
    assert [identity.reason for identity in found[:2]] == ["unlike", "unlike"] and found[2].reason != "unlike"
    assert [identity.person for identity in found[:2]] == [None, None]
    mask = np.ones_like(blank, dtype=bool)
    assert {identity.reason for identity in recognizer.identify(blank, mask)} == {"unlike"}


# --- classifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [20, 6])
def test_class_residuals_are_those_of_the_formula(rng, n_features):
    X, new = rng.random((9, n_features)), rng.random((4, n_features))
    y = np.array([0, 1, 2] * 3)
    A, B = (Z / np.linalg.norm(Z, axis=1)[:, None] for Z in (X, new))
    found = ClassResidual(ridge=0.5).fit(X, y).distances(new)
    for i, b in enumerate(B):
        c = np.linalg.solve(A @ A.T + 0.5 * 9 / 700 * np.eye(9), A @ b)
        for person in range(3):
            own = y == person
            expected = np.linalg.norm(b - c[own] @ A[own]) / np.linalg.norm(c[own])
            assert found[i, person] == pytest.approx(expected)


@pytest.mark.parametrize("n_features", [30, 7])
def test_folds_are_fitted_as_if_their_images_had_never_been_there(rng, n_features):
    """With more pixels than images and with fewer, where another side is decomposed."""
    X, y, new = rng.random((12, n_features)), np.arange(12) % 4, rng.random((3, n_features))
    classifier, folds = ClassResidual(adaptive=True), [np.arange(0, 12, 5), np.arange(4)]
    expected = []
    for fold in folds:
        rest = np.delete(np.arange(12), fold)
        expected.append(ClassResidual(adaptive=True).fit(X[rest], y[rest]).distances(new))
    for fitted, distances in zip(classifier.folds(X, y, folds), expected, strict=True):
        assert fitted.distances(new) == pytest.approx(distances)


@pytest.mark.parametrize("n_features", [15, 6])
def test_the_adaptive_ridge_is_the_likeliest_less_ten(rng, n_features):
    X, y = rng.random((9, n_features)), np.array([0, 1, 2] * 3)
    new = np.concatenate([X[:1] + X[3:4], rng.random((4, n_features)), rng.normal(size=(3, n_features))])
    found = ClassResidual(ridge=0.5, adaptive=True).fit(X, y).distances(new)
    A, B = (Z / np.linalg.norm(Z, axis=1)[:, None] for Z in (X, new))
    least, taken = 0.5 * 9 / 700, []
    for i, b in enumerate(B):
        likelihoods = []
        for ridge in least * 2.0 ** np.arange(0, 16, 0.5):
            shape = A.T @ A + ridge * np.eye(n_features)
            variance = b @ np.linalg.solve(shape, b) / n_features  # the likeliest
            likelihoods.append(multivariate_normal(np.zeros(n_features), variance * shape).logpdf(b))
        taken.append(max(2 ** (np.argmax(likelihoods) / 2) - 10, 1))
        fixed = ClassResidual(ridge=0.5 * taken[-1]).fit(X, y).distances(new[i : i + 1])
        assert found[i] == pytest.approx(fixed[0])
    assert min(taken) == 1 and max(taken) > 20


def test_the_adaptive_ridge_bears_repeated_empty_and_known_images(rng):
    X = np.repeat(rng.random((4, 30)), 3, axis=0).astype(np.float32)
    y = np.repeat(np.arange(4), 3)
    found = ClassResidual(adaptive=True).fit(X, y).distances(np.concatenate([X, np.zeros((1, 30), np.float32)]))
    assert np.isfinite(found).all() and found.dtype == np.float32
    assert np.array_equal(found[:-1].argmin(axis=1), y)
    noisy = np.repeat(X[::3] + rng.normal(0, 0.3, (4, 30)).astype(np.float32), 5, axis=0)
    new = rng.random((20, 30)).astype(np.float32)
    single, double = (
        ClassResidual(adaptive=True).fit(noisy.astype(kind), np.arange(20) // 5).distances(new.astype(kind))
        for kind in (np.float32, np.float64)
    )
    assert single == pytest.approx(double, rel=1e-3)  # directions that only rounding has are left out


def test_noisy_new_images_need_the_adaptive_ridge(rng):
    images, labels = made_faces(rng, 20, 10)
    noisy = np.maximum(rows(images) + rng.normal(0, 60, (200, 256)), 0)
    train, numbers = np.tile(np.arange(10) < 5, 20), np.unique(labels, return_inverse=True)[1]
    hits = {}
    for adaptive in (False, True):
        classifier = ClassResidual(adaptive=adaptive).fit(noisy[train], numbers[train])
        for name, new in (("clean", rows(images)), ("noisy", noisy)):
            hits[name, adaptive] = (classifier.distances(new[~train]).argmin(axis=1) == numbers[~train]).mean()
    assert hits["noisy", True] >= hits["noisy", False] + 0.1
    assert hits["clean", True] >= hits["clean", False] - 0.02


# --- bad pixels -------------------------------------------------------------------------------------------------------


def test_blocks_are_found_whatever_their_value_and_noise_is_not(rng):
    images = rng.integers(1, 255, (3, 20, 25)).astype(np.uint8)
    mask = np.zeros(images.shape, bool)
    mask[0, 3:9, 4:15] = mask[2, 12:20, 0:8] = True
    images[mask] = 255
    images[2, 12:20, 0:8] = 77
    assert np.array_equal(flat_blocks(images, 255), mask)
    assert np.array_equal(flat_blocks(images / np.float32(255), 1), mask)


def test_blocks_are_found_after_jpeg(rng):
    """Also where a patch cuts through JPEG's squares of 8 pixels; one level more of unevenness, and it is none."""
    image = rng.integers(1, 255, (64, 64)).astype(np.uint8)
    image[16:51, 16:51] = 128
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95)
    found = flat_blocks(np.asarray(Image.open(file))[None], 255)[0]
    assert found[16:51, 16:51].mean() > 0.8 and not found[:14].any() and not found[:, 53:].any()
    stripes = np.tile(np.array([0, 1], np.uint8), (1, 12, 6))
    assert flat_blocks(100 + 4 * stripes, 255).all() and not flat_blocks(100 + 5 * stripes, 255).any()


def test_evenness_is_relative_to_the_brightest_of_the_set(people):
    """Underexposed images have no more blocks than others."""
    train, y, _, _ = people
    dark = rows(train) * np.float32(0.15)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(dark, y)
    assert recognizer.brightest_ == dark.max() and recognizer.explain(dark).corrupted.mean() < 0.05
    assert missing_pixels(dark.reshape(-1, *SHAPE), "blocks", 255, 255).mean() > 0.3


def test_blocks_are_openings_and_saturated_pixels_are_found(rng):
    images = (rng.random((2, 21, 22)) < 0.2).astype(float)
    expected = [
        np.logical_or.reduce([binary_opening(image == value, np.ones((4, 4))) for value in (0, 1)]) for image in images
    ]
    assert np.array_equal(flat_blocks(images, 1), expected)
    found = missing_pixels(np.array([[[0, 7, 7], [9, 100, 254], [0, 255, 9]]], float), "saturated", 255, 255)
    assert found.tolist() == [[[True, False, False], [False] * 3, [True, True, False]]]


@pytest.mark.parametrize("share", [0, 0.3, 0.5])
def test_the_scale_of_the_noise_is_found_among_outliers(rng, share):
    noise = rng.normal(0, 3, 20000)
    noise[rng.random(20000) < share] = 200
    assert noise_scale(noise) == pytest.approx(3, rel=0.05)
    median = np.median(np.abs(noise)) / 0.6745  # the usual estimate fails where half of the pixels are bad
    assert (median < 4) == (share < 0.3)


def test_winsorising_pulls_outliers_to_the_limit():
    images, reconstructions = np.array([[1.0, 5, 9, 4]]), np.array([[1.0, 4, 4, 9]])
    found = winsorise(images, reconstructions, 2.0, 1.0, np.array([[False, False, False, True]]))
    assert found.tolist() == [[1, 5, 6, 9]]


# --- recognition ------------------------------------------------------------------------------------------------------


def test_salt_and_pepper_is_cleaned(people):
    train, y, test, answers = people
    bad, mask = corrupt(train, "salt_and_pepper", 0.4, return_mask=True, random_state=0)
    recognizer = FaceRecognizer(random_state=0).fit(rows(bad), y)
    assert recognizer.score(rows(test), answers) >= 0.9
    clean = np.linalg.norm(rows(train))
    error, raw = (np.linalg.norm(Z - rows(train)) / clean for Z in (recognizer.cleaned_, rows(bad)))
    assert error < 0.5 * raw
    judged = recognizer.corrupted_
    visible = mask.reshape(judged.shape) & (np.abs(rows(bad) - rows(train)) > 80)
    assert judged[visible].mean() > 0.9 and judged[~mask.reshape(judged.shape)].mean() < 0.15


def test_blocks_are_missing_only_where_they_are_looked_for_and_a_mask_is_as_good_as_a_search(people):
    train, y, test, answers = people
    bad, mask = corrupt(train, "occlusion", 8, return_mask=True, random_state=0)
    with_, without = (
        FaceRecognizer(image_shape=SHAPE, missing=missing, random_state=0).fit(rows(bad), y)
        for missing in ("blocks", "none")
    )
    assert with_.corrupted_[mask.reshape(len(bad), -1)].all()
    errors = [np.linalg.norm(found.cleaned_ - rows(train)) for found in (with_, without)]
    assert errors[0] < 0.5 * errors[1]
    assert with_.score(rows(test), answers) >= 0.9
    given = FaceRecognizer(missing="none", random_state=0).fit(rows(bad), y, mask=rows(mask).astype(bool))
    searched = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(bad), y)
    assert np.array_equal(given.cleaned_, searched.cleaned_)


def test_the_share_of_corrupted_pixels_of_new_images_is_told_by_left_out_ones(people, rng):
    """Also if the training images are damaged: then it is that of new images with the same damage."""
    train, y, test, _ = people
    for share in (0, 0.2):
        damaged, new = (np.where(rng.random(X.shape) < share, 255, X) for X in (rows(train), rows(test)))
        recognizer = FaceRecognizer(missing="none", random_state=0).fit(damaged, y)
        seen = recognizer.explain(new).corrupted.mean()
        assert share / 2 < recognizer.corrupted_rate_ and recognizer.corrupted_rate_ == pytest.approx(seen, abs=0.03)


def test_float32_stays(people):
    train, y, test, _ = people
    for dtype in (np.float32, np.float64):
        recognizer = FaceRecognizer(n_components=10, random_state=0).fit(rows(train).astype(dtype), y)
        found = recognizer.distances(rows(test).astype(dtype)), recognizer.cleaned_, recognizer.components_
        assert {array.dtype for array in found} == {np.dtype(dtype)}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"outliers": "many"}, "outliers must be 'auto' or a number >= 0; got 'many'"),
        ({"image_shape": (16, 15)}, r"image_shape must be the height and width .* product 256; got \(16, 15\)"),
        ({"missing": "blocks"}, "image_shape must be given with missing='blocks', which are squares"),
    ],
)
def test_what_is_not_allowed_is_said(people, parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        FaceRecognizer(**parameters).fit(rows(people[0]), people[1])


@pytest.mark.parametrize("n_people", [2, 3])
def test_decision_function_is_largest_for_the_nearest_person(people, n_people):
    X, y = rows(people[0]), np.asarray(people[1])
    kept = np.isin(y, np.unique(y)[:n_people])
    recognizer = FaceRecognizer(n_components=4, calibrate=False).fit(X[kept], y[kept])
    near, distances = recognizer.decision_function(X), recognizer.distances(X)
    if n_people == 2:
        assert near.shape == (len(X),)
        np.testing.assert_array_equal(near > 0, distances[:, 1] < distances[:, 0])
    else:
        np.testing.assert_array_equal(near.argsort(axis=1), (-distances).argsort(axis=1))
        np.testing.assert_array_equal(recognizer.classes_[near.argmax(axis=1)], recognizer.predict(X))
        assert get_scorer("top_k_accuracy")(recognizer, X[kept], y[kept]) == 1.0  # two of three


def test_a_recogniser_that_is_not_fitted_says_so(people):
    """Of what scikit-learn's checks do not know."""
    X, y = rows(people[0]), people[1]
    for name, arguments in (("identify", [X]), ("distances", [X]), ("explain", [X]), ("add", [X, y])):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(FaceRecognizer(), name)(*arguments)


# --- shadows ----------------------------------------------------------------------------------------------------------


def test_shadows_are_removed(rng):
    normals, lights = rng.random((3, 400)), rng.random((20, 3))
    clean = lights @ normals
    dark = rng.random(clean.shape) < 0.15
    shadowed = np.where(dark, 0, clean)
    faces, shadows = remove_shadows(shadowed)
    left, values, right = np.linalg.svd(shadowed, full_matrices=False)
    squares = (left[:, :3] * values[:3]) @ right[:3]
    assert np.linalg.norm(faces - clean) < 0.3 * np.linalg.norm(squares - clean)
    assert (shadows[dark & (clean > 0.2)] < -0.1).mean() > 0.95


def test_without_calibration_there_is_no_threshold_and_the_same_predictions(rng, tmp_path):
    images, labels = made_faces(rng, 4, 5)
    X, y = rows(images), labels.astype(str)
    full = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(X, y)
    quick = FaceRecognizer(image_shape=SHAPE, random_state=0, calibrate=False)
    stages = set()
    quick.fit(X, y, progress=lambda stage, done, total: stages.add(stage))
    assert "setting the threshold" not in stages
    assert np.array_equal(quick.distances(X), full.distances(X))
    assert math.isnan(quick.threshold_) and math.isnan(quick.false_acceptance_rate_) and quick.noise_ is None
    with pytest.raises(ParameterError, match="threshold must be given for a recogniser that was fitted with calibrate"):
        quick.identify(X)
    found = quick.identify(X, threshold=1)
    assert [one.distance for one in found] == [one.distance for one in full.identify(X, threshold=1)]
    assert {one.person is None for one in found} == {False} and found[0].calibrated is None
    quick.save(tmp_path / "m.npz")
    again = FaceRecognizer.load(tmp_path / "m.npz")
    assert not again.calibrate and math.isnan(again.threshold_) and again.identify(X, threshold=1) == found
    with pytest.warns(UserWarning, match=r"2 added images are already there: 0 \('new'\) \(of 'person 0'\), 1 "):
        assert "new" in quick.add(X[:2], ["new", "new"]).classes_
