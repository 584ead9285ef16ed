"""What is announced of a threshold: from images, and people, that nothing had seen."""

import math

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from scipy.ndimage import gaussian_filter
from scipy.stats import binomtest
from sklearn.base import clone

from visionnmf.apps.faces import FaceRecognizer, distances
from visionnmf.apps.faces.distances import LeftOut, calibrated, other_noise, people_folds, rate_of


def left_out(people, distances, known=0):
    unknown = np.arange(len(people)) >= known
    noise, unlike = np.full((len(people), 2), 0.1), np.full(len(people), 0.2)
    return LeftOut(np.array(people), unknown, np.array(distances, float), noise, unlike, unlike, unlike)


def test_everybody_is_left_out_once_as_a_stranger_and_once_as_known(rng):
    people = rng.permutation(np.repeat(np.arange(23), 5))
    strange, tested = [], []
    for strangers, known in people_folds(people):
        assert not set(people[strangers]) & set(people[known])
        rest = np.delete(people, np.concatenate([strangers, known]))
        assert set(people[known]) <= set(rest) and len(set(rest)) >= 2
        assert len(strangers) == np.isin(people, people[strangers]).sum()
        strange += strangers.tolist()
        tested += known.tolist()
    assert sorted(strange) == sorted(tested) == list(range(115))


@pytest.mark.parametrize("sizes", [(3, 3, 3), (1, 1, 1, 1), (2, 1), (4, 4), (5,)])
def test_few_people_and_images_are_left_out_as_far_as_they_go(sizes):
    people = np.repeat(np.arange(len(sizes)), sizes)
    for strangers, known in people_folds(people):
        rest = np.delete(people, np.concatenate([strangers, known]))
        assert len(sizes) < 3 or len(set(rest)) >= 2
        assert len(sizes) >= 3 or not len(strangers)
        assert set(people[known]) <= set(rest)


def test_the_rate_is_that_of_other_people(rng):
    """Images of one person are alike: the quantile of all of them lets more of a new person's pass."""
    distances = rng.normal(0.5, 0.1, (700, 1)) + rng.normal(0, 0.1, (700, 7))
    naive, ours = [], []
    for first in range(0, 700, 10):
        own = distances[first : first + 10]
        others = np.delete(distances, np.s_[first : first + 10], axis=0)
        found = calibrated(left_out(np.repeat(np.arange(10), 7), own.ravel()), 10, 0.05)
        ours.append((others <= found.threshold).mean())
        naive.append((others <= np.quantile(own, 0.05)).mean())
    assert 0.04 < np.mean(ours) < 0.06 < 0.065 < np.mean(naive)


def test_rates_of_few_people_are_announced_with_their_uncertainty_and_their_corrupted_pixels():
    images = left_out(np.repeat(np.arange(5), 4), np.linspace(0.3, 0.9, 20), 10)
    found = calibrated(images, 5, 0.05)
    assert 0.3 < found.threshold < 0.9
    assert 0 <= found.acceptance.low < 0.02 and 0.3 < found.acceptance.high < 1
    assert found.rejection.low == found.rejection.mean == 0 and found.rejection.high > 0.3  # of three people
    assert found.noise is None and other_noise(None, np.full((2, 2), 0.1)) == [None, None]
    # the usual share of corrupted pixels is that of people who stay
    shares = np.repeat([0.02, 0.06, 0.5], [5, 5, 10])
    assert calibrated(images._replace(corrupted=shares), 5, 0.05).corrupted == pytest.approx(0.04)
    assert math.isnan(calibrated(left_out([], []), 2, 0.05).corrupted)


@pytest.mark.parametrize("n_people", [5, 10, 20, 60])
def test_intervals_cover_the_rate_of_all_people(n_people):
    """Images of one person are alike, so intervals from the number of images alone would miss it far more often."""
    rng = np.random.default_rng(0)
    covered, widths = [], []
    for _ in range(400):
        found = rate_of(rng.binomial(10, rng.beta(0.4, 3.6, n_people)) / 10, 10 * n_people)  # 0.1 on average
        covered.append(found.low <= 0.1 <= found.high)
        widths.append(found.high - found.low)
    assert np.mean(covered) > 0.87 and np.mean(widths) < 2 / n_people**0.5


def test_intervals_are_those_of_clopper_and_pearson_and_reach_an_end_where_people_are_equal():
    """With as many people as that, the uncertainty of the variance hardly counts."""
    found = rate_of(np.repeat([0.0, 1.0], [1900, 100]), 2000)
    exact = binomtest(100, 2000).proportion_ci(0.9, method="exact")
    assert found.mean == 0.05 and found[1:] == pytest.approx((exact.low, exact.high), rel=0.01)
    none, everything = rate_of(np.zeros(9), 90), rate_of(np.ones(9), 90)
    assert none[:2] == (0, 0) and 0.2 < none.high < 0.5
    assert everything[::2] == (1, 1) and everything.low == pytest.approx(1 - none.high)
    assert math.isnan(rate_of(np.ones(1), 10).mean) and rate_of(np.ones(1), 10)[1:] == (0, 1)


def test_without_strangers_the_known_set_the_threshold():
    two = calibrated(left_out([0, 0, 1, 1], [0.5, 0.6, 0.7, 0.8], known=4), 2, 0.5)
    assert two.threshold == pytest.approx(0.65) and math.isnan(two.acceptance.mean) and two.acceptance[1:] == (0, 1)
    assert calibrated(left_out([], []), 2, 0.05).threshold == 0
    assert calibrated(left_out([0, 0], [1, 1], known=2), 1, 0.05).threshold == 0


@pytest.mark.parametrize("n_people", [1, 2])
def test_strangers_are_never_named_where_nobody_can_tell(rng, n_people):
    images, labels = made_faces(rng, n_people, 8)
    with pytest.warns(UserWarning, match=f"^y has {'one person' if n_people == 1 else 'two people'}, ") as told:
        recognizer = FaceRecognizer(random_state=0).fit(rows(images), labels)
    assert len(told) == 1 and told[0].filename == __file__
    strangers = recognizer.identify(rows(made_faces(np.random.default_rng(99), 10, 2)[0]))
    assert recognizer.threshold_ < 1 and not any(found.calibrated for found in strangers)
    assert np.mean([found.person is None for found in strangers]) == (
        1 if n_people == 1 else pytest.approx(1, abs=0.15)
    )


def test_three_people_are_reported_as_few_and_four_are_not(rng):
    images, labels = made_faces(rng, 4, 8)
    with pytest.warns(UserWarning, match="^y has three people, of whom each can play unknown: .* a quarter or more"):
        FaceRecognizer(random_state=0).fit(rows(images)[:24], labels[:24])
    FaceRecognizer(random_state=0).fit(rows(images), labels)


@pytest.mark.slow
def test_left_out_images_were_not_seen_and_other_noise_is_refused(monkeypatch):
    """Announced rates are those of new people; an image with other noise than the training images' is none of these."""
    rng = np.random.default_rng(5)
    images, labels = made_faces(rng, 40, 9)
    noisy = np.clip(rows(images) + rng.normal(0, 40, (360, 256)), 0, 255).astype(np.float32)
    known, trained = np.repeat(np.arange(40) < 20, 9), np.tile(np.arange(9) < 7, 40)
    monkeypatch.setattr(distances, "PEOPLE_FOLDS", 5)
    recognizer = FaceRecognizer(image_shape=SHAPE, n_components=30, unknown_rate=0.2, random_state=0).fit(
        noisy[known & trained], labels[known & trained]
    )
    found = recognizer.identify(noisy[~known])
    assert np.mean([one.calibrated for one in found]) > 0.85
    passed = np.mean([one.person is not None for one in found if one.calibrated])
    (least, most), (_, rejected_most) = recognizer.rate_intervals_
    assert least <= passed <= most and least < recognizer.false_acceptance_rate_ < most < 0.5
    rejected = np.mean([one.person is None for one in recognizer.identify(noisy[known & ~trained])])
    assert recognizer.false_rejection_rate_ / 2 <= rejected <= rejected_most
    cleaner = recognizer.identify(rows(images)[~known])
    assert not any(one.calibrated for one in cleaner) and {one.noise for one in cleaner} == {"less"}


@pytest.mark.slow
def test_folds_of_large_images_use_a_grid_of_pixels(rng, monkeypatch):
    """The threshold is about that of all pixels, and the noise is measured as on new images."""
    images, names = made_faces(rng, 5, 4)
    X = rows(np.kron(images, np.ones((2, 2), np.uint8)))
    shape = (32, 32)
    recognizer = FaceRecognizer(image_shape=shape, missing="none", random_state=0)
    exact = clone(recognizer).fit(X, names)
    monkeypatch.setattr(distances, "GRID_PIXELS", 300)
    fewer = clone(recognizer).fit(X, names)
    assert (len(exact.threshold_pixels_), len(fewer.threshold_pixels_)) == (1024, 256)
    assert fewer.threshold_ == pytest.approx(exact.threshold_, rel=0.1)
    np.testing.assert_array_equal(fewer.cleaned_, exact.cleaned_)
    noisy = np.clip(X + rng.normal(0, 40, X.shape), 0, 255)
    assert len(FaceRecognizer(image_shape=shape, missing="none").fit(noisy, names).threshold_pixels_) == 1024


def test_training_images_are_as_noisy_as_the_training_images(rng):
    """They are nearer to the model than any image that was left out; less detail than theirs is still noticed."""
    images, labels = made_faces(rng, 12, 6)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), labels)
    assert np.mean([one.calibrated for one in recognizer.identify(rows(images))]) > 0.9
    blurred = gaussian_filter(images.astype(np.float32), (0, 3, 3))
    found = recognizer.identify(rows(blurred))
    assert np.mean([one.calibrated for one in found]) < 0.1 and np.mean([one.noise == "less" for one in found]) > 0.9
    noisy = np.clip(images + rng.normal(0, 30, images.shape), 0, 255)
    assert np.mean([one.noise == "more" for one in recognizer.identify(rows(noisy))]) > 0.9
