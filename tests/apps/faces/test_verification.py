"""Whether two images show one person: the comparison, its threshold, and models that cannot tell."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from PIL import Image
from sklearn.metrics.pairwise import cosine_distances
from sklearn.preprocessing import normalize

from visionnmf.apps.faces import FaceModel, FaceRecognizer, Verifier, verification, verify
from visionnmf.apps.faces.verification import PairSpace, distances_of_strangers
from visionnmf.exceptions import ParameterError


def people_of(rng, n_people, n_images, n_pixels=40):
    """Return images whose people differ along six directions, whose light differs along three, and other changes."""
    identity = rng.random((n_people, 6)) @ rng.random((6, n_pixels))
    n_all = n_people * n_images
    light = 3 * rng.random((n_all, 3)) @ rng.random((3, n_pixels))
    images = np.repeat(identity, n_images, axis=0) + light + 0.3 * rng.random((n_all, n_pixels))
    return images, np.repeat(np.arange(n_people), n_images)


def test_the_space_is_white_within_people(rng, monkeypatch):
    """Without shrinkage, the covariance of the images of one person is the identity."""
    monkeypatch.setattr(verification, "SHRINKAGE", 0.0)
    monkeypatch.setattr(verification, "COMPONENTS", 12)
    images, people = people_of(rng, 10, 8)
    space = PairSpace(images, people)
    projected = normalize(images) @ space._projection.components_.T @ space._whitening
    deviations = projected - np.array([projected[people == person].mean(axis=0) for person in people])
    np.testing.assert_allclose(deviations.T @ deviations / (80 - 10), np.eye(12), atol=1e-8)


def test_distances_are_cosines_that_do_not_depend_on_brightness(rng):
    images, people = people_of(rng, 6, 4)
    space = PairSpace(images, people)
    distances = space.distances(images)
    np.testing.assert_allclose(distances, distances.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(distances), 0, atol=1e-12)
    assert distances.max() <= 2
    np.testing.assert_allclose(space.distances(images * rng.uniform(0.5, 2, (24, 1))), distances, atol=1e-9)
    assert PairSpace(images.astype(np.float32), people).distances(images.astype(np.float32)).shape == (24, 24)


def test_what_changes_between_images_of_one_person_counts_little(rng):
    """Under strong light, plain cosines confuse people whom the space tells apart, although it has not seen them."""
    images, people = people_of(rng, 40, 6)
    known, new = people < 20, people >= 20
    one, other = np.triu_indices(new.sum(), 1)
    same = people[new][one] == people[new][other]

    def separation(distances):
        """Return the share of pairs of one person that are nearer than 95 % of the pairs of two."""
        return (distances[one, other][same] < np.quantile(distances[one, other][~same], 0.05)).mean()

    unaware = separation(cosine_distances(images[new]))
    aware = separation(PairSpace(images[known], people[known]).distances(images[new]))
    assert aware > 0.8 > unaware + 0.4


def test_about_the_promised_share_of_new_pairs_passes(rng):
    images, people = people_of(rng, 120, 5)
    known, new = people < 60, people >= 60
    threshold = np.quantile(distances_of_strangers(images[known], people[known]), 0.05)
    distances = PairSpace(images[known], people[known]).distances(images[new])
    different = people[new][:, None] != people[new]
    assert 0.02 < (distances[different] <= threshold).mean() < 0.09


@pytest.mark.parametrize("sizes", [(1,), (5,), (2, 3), (1, 1, 1), (3, 1, 2, 4), (1, 1, 1, 1, 1), (2,) * 11])
def test_few_people_and_images_give_as_many_distances_as_there_are(rng, sizes):
    people = np.repeat(np.arange(len(sizes)), sizes)
    distances = distances_of_strangers(rng.random((len(people), 30)), people)
    assert (np.diff(distances) >= 0).all() and np.isfinite(distances).all()
    assert (len(distances) > 0) == (len(sizes) > 1)


def test_equal_images_are_one_person_and_no_division_by_zero(rng):
    images = np.full((6, 30), 0.5)
    distances = distances_of_strangers(images, np.repeat(np.arange(3), 2))
    assert np.isfinite(distances).all()


def test_a_gallery_beyond_the_bound_is_drawn_from(rng, monkeypatch):
    monkeypatch.setattr(verification, "MOST_IMAGES", 20)
    images, people = people_of(rng, 12, 5)
    assert 0 < len(distances_of_strangers(images, people)) <= 4 * 3 / 2 * 25


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:y has one person")
@pytest.mark.parametrize(
    ("n_people", "n_images", "doubtful"), [(1, 4, True), (3, 4, True), (14, 1, True), (15, 1, False)]
)
def test_a_model_that_cannot_tell_says_so(rng, tmp_path, n_people, n_images, doubtful):
    images, labels = made_faces(rng, n_people, n_images)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), labels)
    recognizer.threshold_ = 0.0  # nobody is known, so that the images decide
    for number, image in enumerate(made_faces(rng, 2, 1)[0]):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    pair = tmp_path / "0.png", tmp_path / "1.png"
    report = verify(FaceModel(recognizer), *pair)
    told = [note for note in report.notes if "how alike different people are" in note]
    assert report.rule == "images" and len(told) == doubtful and (not told or told[0] in report.summary())
    assert n_people > 1 or (not report.same and report.alike is None)
    assert (
        verify(FaceModel(recognizer), *pair, threshold=2).same
        and not verify(FaceModel(recognizer), *pair, threshold=2).notes
    )


def test_images_that_are_not_as_noisy_as_the_training_images_are_doubted_as_by_identify(model, folder):
    """The names of both images decide, so that a threshold of the user's changes nothing about the doubt."""
    recognizer = model[1]
    one, other = folder / "person 1" / "0.png", folder / "person 1" / "1.png"
    assert verify(FaceModel(recognizer), one, other).calibrated == [None, None]
    recognizer.noise_ = np.zeros((2, 4))  # no image is free of noise
    recognizer.false_acceptance_rate_ = np.nan  # no rate was reported
    report = verify(FaceModel(recognizer), one, other)
    assert report.rule == "people" and report.calibrated == [False, False]
    told = [f"{source}: not as noisy as the training images: the name is doubtful" for source in (one, other)]
    assert report.notes == told and told[0] in report.summary()
    assert verify(FaceModel(recognizer), one, other, threshold=1).notes == told
    recognizer.false_acceptance_rate_ = 0.05  # rates were reported
    assert verify(FaceModel(recognizer), one, other).notes[0].endswith("the error rates of the threshold do not hold")
    recognizer.noise_ = np.array([[0.0] * 4, [np.inf] * 4])
    assert verify(FaceModel(recognizer), one, other).calibrated == [True, True]


@pytest.mark.slow
def test_many_pairs_are_judged_as_each_alone(model, folder, rng):
    """Also if an image is in several pairs, and if it is an array."""
    verifier = Verifier(model[1])
    files = [str(folder / f"person {number}" / "0.png") for number in (1, 2, 3)]
    strange = made_faces(rng, 1, 2)[0].astype(np.float32)
    pairs = [(files[0], files[1]), (files[0], files[0]), (strange[0], files[2]), (strange[0], strange[1])]
    together = verifier.verify_pairs(iter(pairs))
    for pair, report in zip(pairs, together, strict=True):
        alone = verifier.verify(*pair)
        assert report.distance == pytest.approx(alone.distance, abs=1e-5)
        assert replace(report, distance=0) == replace(alone, distance=0)
    assert {report.rule for report in together} == {"people", "images"}
    assert verifier.verify_pairs([]) == []
    assert repr(verifier) == f"Verifier(4 people, threshold {verifier.threshold:.3f})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("ada.png", "'ada.png'; verify takes two images"),
        ([("ada.png",)], "for pair 0"),
        ([("a.png", "b.png"), "ben.png"], "for pair 1"),
    ],
)
def test_what_is_not_a_list_of_pairs_is_refused(model, pairs, message):
    with pytest.raises(ParameterError, match=f"pairs must be a list of pairs of images; got .*{message}"):
        Verifier(model[1]).verify_pairs(pairs)
