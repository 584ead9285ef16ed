"""Pictures that are unlike the training images get no name. Noise and blocks do not make a face such a picture."""

import copy
import json
import math
import warnings

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows, run_command as run
from PIL import Image

from visionnmf.apps.faces import FaceModel, FaceRecognizer, distances, identification, images as of_images, save
from visionnmf.datasets import corrupt
from visionnmf.exceptions import ParameterError
from visionnmf.io import read_image

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def slow_unlikeness(image, missing, reconstruction, sigma, side):
    """The definition for one image (height, width) in loops, without cells that are mostly missing."""
    height, width = image.shape
    cells = {}
    for row in range(height):
        for column in range(width):
            own = cells.setdefault((row * side // height, column * side // width), [0, [], []])
            own[0] += 1
            if not missing[row, column]:
                own[1].append(image[row, column])
                own[2].append(image[row, column] - reconstruction[row, column])
    kept = [own for own in cells.values() if len(own[1]) >= 0.3 * own[0]]
    variances = [np.pi / 2 * sigma**2 / len(own[1]) for own in kept]
    squares = np.array([np.median(own[2]) ** 2 for own in kept])
    small = squares <= np.quantile(squares, 0.8)
    left = np.mean((squares - variances)[small])
    return np.sqrt(max(left, 0) / (np.var([np.median(own[1]) for own in kept]) - np.mean(variances)))


def test_unlikeness_is_that_of_the_definition(rng):
    images = rng.uniform(50, 200, (3, 20, 18))
    missing = rng.random(images.shape) < 0.3
    missing[0, :9, :9] = True  # whole cells
    missing[2] = True
    drawn = images + rng.normal(0, 20, images.shape)
    flat = images.reshape(3, -1), missing.reshape(3, -1), drawn.reshape(3, -1)
    noise = np.array([0.0, 5.0, 0.0])
    found, unexplained = of_images.unlikeness(*flat, of_images.cells_of((20, 18)), noise, 255.0)
    for i in range(2):
        assert found[i] == pytest.approx(slow_unlikeness(images[i], missing[i], drawn[i], noise[i], 8))
        assert unexplained[i] == pytest.approx(slow_unlikeness(images[i], missing[i], drawn[i], 0, 8))
    assert math.isnan(found[2]) and math.isnan(unexplained[2])


def test_an_even_picture_is_unlike_unless_the_model_draws_it():
    even, cells = np.full((2, 256), 90.0), of_images.cells_of((16, 16))
    found, _ = of_images.unlikeness(
        even, np.zeros(even.shape, bool), even + np.array([[0], [3]]), cells, np.zeros(2), 255.0
    )
    assert found[0] == 0 and found[1] > 10


def test_people_who_stay_set_the_limit_of_a_name_and_people_who_are_left_out_that_of_a_face():
    unlike, unknown = np.repeat([0.2, 0.4], 10), np.repeat([False, True], 10)

    def limits(unlike, unknown):
        found = distances.LeftOut(np.arange(len(unlike)), unknown, *np.full((5, len(unlike)), 0.5))
        judged = distances.calibrated(found._replace(unlike=unlike, noise=np.zeros((len(unlike), 3))), 20, 0.05)
        return judged.unlike, judged.faceless

    assert limits(unlike, unknown) == pytest.approx((0.22, 0.44))
    assert limits(unlike, ~unknown) == pytest.approx((0.44, 0.44))  # a face is never more like than a name
    assert limits(unlike[unknown], unknown[unknown]) == pytest.approx((0.44, 0.44))
    assert limits(unlike[~unknown], unknown[~unknown]) == pytest.approx((0.22, math.inf))


@pytest.mark.filterwarnings("ignore:.* added image")
def test_strangers_are_people_and_added_people_are_known(rng):
    """Whoever the model has not seen is more unlike than the people it knows, and still has a face."""
    images, labels = made_faces(rng, 40, 6)
    pixels, numbers = rows(images), np.repeat(np.arange(40), 6)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(pixels[numbers < 10], labels[numbers < 10])
    unseen = recognizer.identify(pixels[numbers >= 10])
    assert np.mean([one.reason == "unlike" for one in unseen]) < 0.03
    new = np.arange(len(labels)) % 6 >= 4
    added = (numbers >= 10) & ~new
    recognizer.add(pixels[added], labels[added])
    told = recognizer.identify(pixels[(numbers >= 10) & new])
    assert np.mean([one.reason == "unlike" for one in told]) < 0.01
    # More are named than the limit of the people who were trained would let through.
    below = [one.distance <= one.threshold for one in told]
    assert np.mean([one.person is not None for one in told]) > 0.95 * np.mean(below) > 0.3
    assert recognizer.unlike_.shape == (40,) and recognizer.unlike_[recognizer.classes_ == "person 3"] < min(
        recognizer.unlike_[recognizer.classes_ == "person 30"], recognizer.faceless_ + 1e-9
    )


def test_a_landscape_among_added_images_counts_for_that_person_alone(model, faces, photographs):
    recognizer = copy.deepcopy(model[1])
    before = [one.reason for one in recognizer.identify(rows(photographs[1:]))]
    with pytest.warns(UserWarning, match="unlike a face"):
        recognizer.add(rows(photographs[:1]), ["Lake"])
    after = recognizer.identify(rows(photographs[1:]))
    assert "unlike" in before
    assert all(one.reason == was for one, was in zip(after, before, strict=True) if one.nearest != "Lake")


def test_a_warning_that_is_an_error_leaves_a_whole_recognizer(model, faces, photographs):
    recognizer = copy.deepcopy(model[1])
    with pytest.raises(ParameterError, match="names must be one for each image, 1; got 2"):
        recognizer.add(rows(photographs[:1]), ["Lake"], names=["a", "b"])
    assert "Lake" not in recognizer.classes_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="unlike a face"):
            recognizer.add(rows(photographs[:1]), ["Lake"])
    expected = copy.deepcopy(model[1])
    with pytest.warns(UserWarning):
        expected.add(rows(photographs[:1]), ["Lake"])
    pixels = rows(faces.images)
    assert recognizer.predict(pixels).tolist() == expected.predict(pixels).tolist()


def test_a_picture_that_is_too_unlike_for_a_name_and_not_for_a_face(model, folder):
    recognizer = model[1]
    recognizer.unlike_, recognizer.faceless_ = np.zeros(4), math.inf
    save(FaceModel(recognizer), model[0], force=True)
    (one,) = recognizer.identify(rows(read_image(folder / "person 1" / "0.png")[None, ..., 0]))
    assert (one.person, one.reason, one.nearest) == (None, "unknown", "person 1") and one.distance <= one.threshold
    assert one.unlikeness > one.unlikeness_limit == 0
    said = run("faces", "identify", model[0], folder / "person 1" / "0.png").stdout
    but = f"but too unlike the training images for a name: unlikeness {one.unlikeness:.3f}, at most 0.000"
    assert f"nobody known (nearest: person 1, {but}), distance" in said
    told = run("faces", "identify", model[0], folder / "person 1" / "0.png", "--json").stdout
    identity = json.loads(told)["identity"]
    assert identity["unlikeness"] == pytest.approx(one.unlikeness) and identity["unlikeness_limit"] == 0


def test_an_identity_holds_the_numbers_that_decided(model, faces, photographs):
    recognizer = model[1]
    for one in recognizer.identify(rows(np.concatenate([faces.images, photographs]))):
        nearest = list(recognizer.classes_).index(one.nearest)
        assert one.unlikeness_limit == recognizer.unlike_[nearest]
        near, noise = one.distance <= one.threshold, one.unexplained > recognizer.unexplained_
        assert (one.person is not None) == (near and one.unlikeness <= one.unlikeness_limit and not noise)
        beyond = one.unlikeness > max(one.unlikeness_limit, recognizer.faceless_)
        assert (one.reason == "unlike") == (beyond or noise)
    recognizer.unlike_ = np.full(4, math.inf)
    (one,) = recognizer.identify(rows(faces.images[:1]))
    assert one.unlikeness_limit is None and one.unlikeness > 0
    plain = FaceRecognizer(random_state=0).fit(rows(faces.images), faces.labels)
    (one,) = plain.identify(rows(faces.images[:1]))
    assert one.unlikeness is None and one.unlikeness_limit is None


def test_a_face_in_a_part_of_the_picture(model, tmp_path, photographs, monkeypatch):
    Image.fromarray(photographs[1]).save(tmp_path / "group.png")
    monkeypatch.setattr(identification, "find_faces", lambda image: [(0, 0, 8, 8)])
    hint = "there seems to be a face in a part of the picture: cut it out, or train with --detect, which looks for"
    assert hint in run("faces", "identify", model[0], tmp_path / "group.png").stdout
    monkeypatch.setattr(identification, "find_faces", lambda image: [])
    assert "part of the picture" not in run("faces", "identify", model[0], tmp_path / "group.png").stdout


@pytest.fixture
def photographs(rng):
    """Pictures without a face: stripes in random directions."""
    y, x = np.mgrid[-1:1:16j, -1:1:16j]
    angles, sizes = rng.uniform(0, np.pi, 20), rng.uniform(1, 6, 20)
    along = [np.cos(angle) * x + np.sin(angle) * y for angle in angles]
    waves = [np.sin(size * one) for size, one in zip(sizes, along, strict=True)]
    return np.round(127 + 110 * np.sign(waves)).astype(np.uint8)


def test_pictures_without_a_face_are_not_named_and_damaged_faces_are(model, faces, photographs):
    recognizer = model[1]
    assert (recognizer.unlike_ > 0).all() and recognizer.faceless_ >= recognizer.unlike_.max()
    found = recognizer.identify(rows(photographs))
    assert np.mean([one.reason == "unlike" for one in found]) > 0.5
    assert all(one.person is None for one in found if one.reason)
    # The threshold is about the distance; a picture without a face stays one at any distance.
    assert [one.reason for one in recognizer.identify(rows(photographs), threshold=10)].count("unlike") == sum(
        one.reason == "unlike" for one in found
    )
    for kind, severity in (("salt_and_pepper", 0.2), ("gaussian", 20), ("occlusion", 7)):
        damaged = corrupt(faces.images, kind, severity, random_state=0)
        reasons = [one.reason for one in recognizer.identify(rows(damaged))]
        assert reasons.count("unlike") == 0, (kind, reasons)


def test_without_a_shape_nothing_is_unlike(faces, photographs):
    recognizer = FaceRecognizer(random_state=0).fit(rows(faces.images), faces.labels)
    assert np.isinf(recognizer.unlike_).all() and math.isinf(recognizer.faceless_)
    assert {one.reason for one in recognizer.identify(rows(photographs), threshold=10)} == {None}


def test_the_commands_say_that_a_picture_is_unlike(model, photographs, folder, tmp_path):
    path = tmp_path / "landscape.png"
    Image.fromarray(photographs[1]).save(path)
    found = run("faces", "identify", model[0], path, folder / "person 1" / "0.png")
    assert "landscape.png: unknown: unlike the training images, probably not a face (nearest: person " in found.stdout
    assert found.stderr.endswith("1 face of known people, 0 of nobody known, 1 unlike the training images\n")
    again = run("faces", "identify", model[0], path, "--json")
    assert '"person": null' in again.stdout and '"reason": "unlike"' in again.stdout


def test_noise_is_unlike_the_training_images_and_noisy_faces_are_not(rng):
    made, labels = made_faces(rng, 6, 6)
    faces = made.repeat(2, axis=1).repeat(2, axis=2)  # cells of 8 x 8 in 16 x 16 pixels hold too few to tell noise
    recognizer = FaceRecognizer(image_shape=faces.shape[1:], random_state=0).fit(rows(faces), labels)
    size = (60, *faces.shape[1:])
    for images in (rng.integers(0, 256, size), np.clip(rng.normal(127, 50, size), 0, 255)):
        found = recognizer.identify(rows(images), threshold=10)  # which rejects nothing
        assert np.mean([one.reason == "unlike" for one in found]) > 0.8
        assert np.median([one.unexplained for one in found]) > recognizer.unexplained_
    noisy = recognizer.identify(rows(corrupt(faces, "gaussian", 40, random_state=0)))
    assert np.mean([one.reason == "unlike" for one in noisy]) < 0.05


def test_left_out_images_set_the_limit_of_noise_and_it_has_a_least_value():
    unknown = np.repeat([False, True], 10)
    assert distances.noise_limit(np.repeat([0.9, 0.8], 10), unknown) == 0.9
    assert distances.noise_limit(np.repeat([0.2, 1.2], 10), unknown) == 1.2
    assert distances.noise_limit(np.repeat([0.2, 0.3], 10), unknown) == distances.UNEXPLAINED
    assert distances.noise_limit(np.repeat([0.8, 1.2], 10)[:19], unknown[:19]) == 0.8
    assert math.isinf(distances.noise_limit(np.full(9, 0.5), unknown[:9]))
    assert distances.unlike_limit(np.append(np.full(10, 0.5), np.nan)) == pytest.approx(0.55)
