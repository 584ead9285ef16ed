"""Copies of one photograph within a person count as one image where images are left out."""

import io

import numpy as np
import pytest
from helpers import data_file, made_faces, rows
from PIL import Image

from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.images import different_images

SHAPE = (32, 32)


def encoded(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def resized(image, share):
    small = Image.fromarray(image).resize((round(32 * share),) * 2, Image.Resampling.LANCZOS)
    return np.asarray(small.resize(SHAPE, Image.Resampling.BICUBIC))


def photographs(rng, n_people, n_images):
    """Return made faces of 32 x 32 pixels, and their names."""
    images, names = made_faces(rng, n_people, n_images)
    return np.stack([Image.fromarray(image).resize(SHAPE, Image.Resampling.BICUBIC) for image in images]), names


WAYS = {
    "equal": lambda image: image,
    "JPEG 90": lambda image: encoded(image, 90),
    "JPEG 50": lambda image: encoded(image, 50),
    "smaller": lambda image: resized(image, 0.75),
    "larger": lambda image: resized(image, 2),
    "brighter": lambda image: np.clip(image * 1.1, 0, 255).astype(np.uint8),
    "darker": lambda image: (image * 0.8).astype(np.uint8),
    "white": lambda image: np.clip(image * (255 / np.quantile(image, 0.97)), 0, 255).astype(np.uint8),
    "lifted": lambda image: np.clip(image + 12.0, 0, 255).astype(np.uint8),
    "all": lambda image: encoded(np.clip(resized(image, 0.75) * 1.08, 0, 255).astype(np.uint8), 80),
}


@pytest.mark.parametrize("way", WAYS)
def test_copies_are_found_and_other_photographs_of_a_person_are_kept(rng, way):
    images = photographs(rng, 8, 2)[0]
    people = np.tile(np.repeat(np.arange(8), 2), 2)
    both = rows(np.concatenate([images, [WAYS[way](image) for image in images]]))
    seen = np.zeros(both.shape, bool)
    assert np.array_equal(different_images(both, seen, people, SHAPE), np.arange(16))
    assert np.array_equal(different_images(both, seen, np.arange(32), SHAPE), np.arange(32))  # of other people


@pytest.mark.parametrize("name", ["orl_112x92", "orl_32x32", "yale_32x32", "lfw20_120x120"])
def test_photographs_of_people_are_no_copies_but_what_is_made_of_them_is(name):
    with np.load(data_file(f"{name}.npz")) as data:
        images, people = data["images"], data["labels"] - 1
    shape = images.shape[1:]
    assert len(different_images(rows(images), np.zeros(rows(images).shape, bool), people, shape)) == len(images)
    size = shape[1] // 2, shape[0] // 2
    for change in (
        lambda image: encoded(image, 60),
        lambda image: np.clip(image * 1.1, 0, 255).astype(np.uint8),
        lambda image: np.asarray(Image.fromarray(image).resize(size).resize(shape[::-1])),
    ):
        both = rows(np.concatenate([images[::5], [change(image) for image in images[::5]]]))
        numbers = np.tile(np.arange(len(both) // 2), 2)
        assert len(different_images(both, np.zeros(both.shape, bool), numbers, shape)) == len(both) // 2


def test_masked_pixels_make_no_copies_and_hide_none(rng):
    images = rows(photographs(rng, 4, 2)[0])
    people, mask = np.repeat(np.arange(4), 2), np.zeros(images.shape, bool)
    mask[:, :512] = True  # the same half of all
    hidden = np.where(mask, 0, images).astype(np.float32)
    assert len(different_images(hidden, mask, people, SHAPE)) == 8
    twice, masks = np.repeat(hidden, 2, axis=0), np.repeat(mask, 2, axis=0)
    assert len(different_images(twice, masks, np.repeat(people, 2), SHAPE)) == 8


def test_few_numbers_are_copies_only_if_they_are_equal(rng):
    X = np.array([[1.0, 2.0], [2.0, 4.0], [1.0, 2.0]])
    assert different_images(X, np.zeros(X.shape, bool), np.zeros(3, int), None).tolist() == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("equal",), ("JPEG 90", "brighter"), tuple(WAYS)])
def test_one_photograph_several_times_promises_nothing(rng, ways):
    """Without copies nothing can be left out of people with a single photograph, so no rate is known."""
    images, names = photographs(rng, 8, 7)
    first, new = np.arange(len(names)) % 7 == 0, np.arange(len(names)) % 7 != 0
    copies = np.concatenate([[WAYS[ways[k % len(ways)]](image) for k in range(6)] for image in images[first]])
    labels = np.repeat(names[first], 6)
    with pytest.warns(UserWarning, match=r"40 of 48 images are copies of .*: 1 \('person 0'\), 2") as told:
        fitted = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(copies), labels)
    assert len(told) == 1 and told[0].filename == __file__ and len(fitted.copies_) == 40
    assert np.isnan(fitted.false_rejection_rate_) and fitted.rate_intervals_[1].tolist() == [0, 1]
    once = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images[first]), names[first])
    assert fitted.threshold_ == pytest.approx(once.threshold_, rel=0.3) and not len(once.copies_)
    shares = [np.mean([one.person is not None for one in each.identify(rows(images[new]))]) for each in (fitted, once)]
    assert shares[0] >= shares[1] - 0.1


@pytest.mark.slow
def test_copies_of_some_images_change_no_choice_and_no_rate_by_much(rng):
    images, names = photographs(rng, 10, 6)
    copied = np.concatenate([images, [encoded(image, 90) for image in images]])
    plain = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), names)
    with pytest.warns(UserWarning, match="6. of 120 images are copies"):
        twice = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(copied), np.tile(names, 2))
    assert twice.threshold_ == pytest.approx(plain.threshold_, rel=0.15)
    assert twice.false_rejection_rate_ == pytest.approx(plain.false_rejection_rate_, abs=0.1)
    assert twice.rate_intervals_[1, 1] > 0.8 * plain.rate_intervals_[1, 1]
