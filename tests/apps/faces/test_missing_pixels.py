"""Which pixels count as missing is chosen by what names left-out training images."""

import copy

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows
from scipy.ndimage import gaussian_filter

from visionnmf.apps.faces import FaceClustering, FaceRecognizer, cluster_faces, clustering
from visionnmf.apps.faces.images import flat_background, missing_pixels
from visionnmf.datasets import Faces, corrupt
from visionnmf.exceptions import ParameterError
from visionnmf.io import output_folder, write_image


@pytest.fixture
def quick(monkeypatch):
    """Do without thresholds, which are none of this file's matter."""
    monkeypatch.setattr("visionnmf.apps.faces.distances.PEOPLE_FOLDS", 2)


def before_black(n_objects, n_views):
    """Views of textured ellipsoids that turn before a black background, as in COIL-20 (Nene, Nayar, Murase 1996)."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[-1.05:1.05:24j, -1.05:1.05:24j]
    images = []
    for _ in range(n_objects):
        texture, flatness = gaussian_filter(rng.random((24, 24 + 2 * n_views)), 1), rng.uniform(0.4, 0.7)
        for view in range(n_views):
            inside = x**2 + (y / (1 - flatness * np.sin(np.pi * view / n_views))) ** 2 < 1
            images.append(np.where(inside, 400 * texture[:, 2 * view : 2 * view + 24], 0).clip(0, 250).astype(np.uint8))
    return Faces(np.stack(images), np.repeat(np.arange(1, n_objects + 1), n_views), tuple(map(str, range(n_objects))))


@pytest.mark.slow
def test_an_object_before_black_has_no_missing_blocks(quick):
    objects = before_black(10, 12)
    train = np.tile(np.arange(12) % 2 == 0, 10)
    X, y = rows(objects.images), objects.labels
    options = {"image_shape": (24, 24), "n_components": 40, "random_state": 0}
    recognizer = FaceRecognizer(**options).fit(X[train], y[train])
    assert recognizer.background_ == 0 and missing_pixels(objects.images, "blocks", 255, 255, 0).mean() < 0.02
    assert missing_pixels(objects.images, "blocks", 255, 255).mean() > 0.2  # without knowing of a background
    bad, mask = corrupt(objects.images, "occlusion", 9, return_mask=True, random_state=0)
    covered = FaceRecognizer(missing="blocks", **options).fit(rows(bad)[train], y[train])
    assert covered.background_ == 0
    found = missing_pixels(bad[train], "blocks", 255, covered.brightest_, covered.background_)
    assert found[mask[train]].all() and found[~mask[train]].mean() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "severity", "choice"), [("occlusion", 8, "blocks"), ("salt_and_pepper", 0.6, "saturated")]
)
def test_what_is_bad_is_missing(quick, rng, kind, severity, choice):
    images, y = made_faces(rng, 12, 5)
    bad = corrupt(images, kind, severity, random_state=0)
    recognizer = FaceRecognizer(image_shape=SHAPE, n_components=20, random_state=0).fit(rows(bad), y)
    assert recognizer.missing_ == choice == max(recognizer.missing_scores_, key=recognizer.missing_scores_.get)


def test_where_nothing_tells_blocks_are_looked_for_and_few_missing_pixels_are_left_as_they_are(quick, rng):
    images, y = made_faces(rng, 4, 4)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), y)
    assert recognizer.missing_ == "blocks" and recognizer.missing_scores_ == {}
    covered = corrupt(images, "occlusion", 8, random_state=0)
    alone = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(covered[::4]), y[::4])
    assert alone.missing_ == "blocks" and alone.missing_scores_ == {}  # one image each
    given = FaceRecognizer(image_shape=SHAPE, missing="none", random_state=0).fit(rows(covered), y)
    assert given.missing_ == "none" and given.missing_scores_ == {}
    images[0, :4, :4] = 90  # one block, too few pixels to be worth another fit
    options = {"image_shape": SHAPE, "random_state": 0}
    chosen, plain = (FaceRecognizer(missing=m, **options).fit(rows(images), y) for m in ("auto", "none"))
    assert FaceRecognizer(missing="blocks", **options).fit(rows(images), y).corrupted_[0].sum() >= 16
    assert chosen.missing_ == "blocks" and np.array_equal(chosen.cleaned_, plain.cleaned_)
    assert chosen.explain(rows(images[:1])).corrupted.reshape(SHAPE)[:4, :4].all()  # a new image's block is missing


def test_the_background_of_things_to_group_is_not_missing(tmp_path, monkeypatch):
    objects = before_black(3, 6)
    for number, (image, label) in enumerate(zip(objects.images, objects.labels, strict=True)):
        write_image(output_folder(tmp_path / str(label)) / f"{number}.png", image)
    seen = []
    monkeypatch.setattr(
        clustering, "cluster_faces", lambda X, k, *, mask, **_: seen.append(mask.mean()) or np.zeros(len(X), int)
    )
    clustering.cluster(tmp_path, clustering=FaceClustering(missing="blocks"))
    assert seen[0] < 0.02


@pytest.fixture(scope="module")
def masked():
    """A fitted recognizer, new images, a mask of a third of each, and these images with other values under it."""
    images, y = made_faces(np.random.default_rng(3), 5, 6)
    X = rows(images)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(X[::2], y[::2])
    new = X[1::2]
    mask = np.zeros((len(new), *SHAPE), bool)
    for number, image in enumerate(mask):
        image[number % 6 : number % 6 + 9, 2:12] = True
    mask = mask.reshape(len(new), -1)
    rng = np.random.default_rng(4)
    hidden = [0, 255, np.nan, np.inf, -1e6, 1e6, rng.uniform(0, 255, new.shape)]
    return recognizer, new, y[1::2], mask, [np.where(mask, value, new).astype(np.float32) for value in hidden]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* added image")
def test_what_lies_under_a_mask_does_not_matter_on_new_images(masked):
    recognizer, new, y, mask, others = masked
    distances, parts, found = (getattr(recognizer, name)(new, mask) for name in ("distances", "explain", "identify"))
    # twice as many people: copying the recognizer keeps the fixture as it is
    added = copy.deepcopy(recognizer).add(new, np.char.add(y, "!"), mask)
    for other in others:
        assert np.array_equal(recognizer.distances(other, mask), distances)
        assert all(np.array_equal(*pair) for pair in zip(recognizer.explain(other, mask), parts, strict=True))
        assert recognizer.identify(other, mask) == found
        again = copy.deepcopy(recognizer).add(other, np.char.add(y, "!"), mask)
        assert np.array_equal(again.cleaned_, added.cleaned_) and np.array_equal(again.unlike_, added.unlike_)


@pytest.mark.slow
def test_the_noise_of_an_image_is_that_of_its_visible_pixels(masked):
    recognizer, new, _, _, _ = masked
    rng = np.random.default_rng(5)
    noisy = np.maximum(new + rng.normal(0, 30, new.shape), 0).astype(np.float32)
    mask = rng.random(new.shape) < 0.7  # so much that no estimate can take the others for outliers
    whole, part = (recognizer.explain(noisy, given).noise[:, 0] * 255 for given in (None, mask))
    assert part.mean() == pytest.approx(whole.mean(), rel=0.5)  # 5 times as much if hidden pixels count


@pytest.mark.slow
@pytest.mark.parametrize("shape", [None, SHAPE])
def test_what_lies_under_a_mask_does_not_matter_in_training(masked, shape):
    _, new, y, mask, others = masked
    fits = [
        FaceRecognizer(image_shape=shape, n_components=8, random_state=0).fit(X, y, mask=mask) for X in (new, *others)
    ]
    for name in ("white_", "brightest_", "background_", "threshold_", "scale_", "outliers_", "cleaned_", "corrupted_"):
        for other in fits[1:]:
            assert np.array_equal(getattr(other, name), getattr(fits[0], name), equal_nan=name == "background_"), name
    assert fits[0].white_ == 255 and fits[0].brightest_ == new[~mask].max()


def test_a_mask_on_the_border_is_no_even_background(rng):
    images = rng.uniform(0, 255, (6, 20, 20))
    outside = np.ones((20, 20), bool)
    outside[5:15, 5:15] = False
    assert flat_background(np.where(outside, 0.0, images), 255) == 0
    seen = np.where(outside, np.nan, images)
    seen[:, 0, 0] = images[:, 0, 0]
    assert np.isnan(flat_background(seen, 255)) and not missing_pixels(seen, "blocks", 255, 255).any()
    seen[:, 5:15, 5:10] = 7  # half of what is seen is even
    assert (missing_pixels(seen, "blocks", 255, 255) == (seen == 7)).all()
    seen[:, 5:15, 5:15] = 7  # nearly everything that is seen is even: the search has failed
    assert not missing_pixels(seen, "blocks", 255, 255).any()


def test_a_white_wall_behind_a_face_is_not_missing(rng):
    images = rng.uniform(1, 254, (3, 20, 20))
    images[:2, 12:, :6] = 255  # beside the chin of two of them
    images[2, 8:14, 8:14] = 255  # a patch, which does not reach the border
    wall = np.zeros(images.shape, bool)
    wall[:2, 12:, :6] = True
    dead = ~wall & (rng.random(images.shape) < 0.1)
    images[dead] = np.where(rng.random(dead.sum()) < 0.5, 0, 255)
    found = missing_pixels(images, "saturated", 255, 255)
    assert not found[wall].any() and found[dead].mean() > 0.95 and found[2, 8:14, 8:14].all()


@pytest.mark.parametrize("image_shape", [None, SHAPE])
def test_what_lies_under_a_mask_does_not_matter_for_clusters(rng, image_shape):
    images, _ = made_faces(rng, 4, 5)
    images = corrupt(images, "occlusion", 5, random_state=0)
    mask = rng.random((len(images), SHAPE[0] * SHAPE[1])) < 0.02
    groups = cluster_faces(rows(images), 4, mask=mask, image_shape=image_shape)
    for value in (np.nan, -1.0, 1e6):
        hidden = np.where(mask, value, rows(images))
        assert np.array_equal(cluster_faces(hidden, 4, mask=mask, image_shape=image_shape), groups)
    with pytest.raises(ParameterError, match=r"mask must have the shape of X, \(20, 256\); got \(16, 16\)"):
        cluster_faces(rows(images), 4, mask=np.zeros(SHAPE, bool))
