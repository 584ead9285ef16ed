"""Pictures that are unlike the training images get no name. Noise and blocks do not make a face such a picture."""

import math

import numpy as np
import pytest
from helpers import rows, run_command as run
from PIL import Image

from visionnmf.apps.faces import FaceModel, FaceRecognizer, likeness, save
from visionnmf.datasets import corrupt


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
    found = likeness.unlikeness(*flat, likeness.cells_of((20, 18)), noise, 255.0)
    for i in range(2):
        assert found[i] == pytest.approx(slow_unlikeness(images[i], missing[i], drawn[i], noise[i], 8))
    assert math.isnan(found[2])


def test_an_even_picture_is_unlike_unless_the_model_draws_it():
    even, cells = np.full((2, 256), 90.0), likeness.cells_of((16, 16))
    found = likeness.unlikeness(
        even, np.zeros(even.shape, bool), even + np.array([[0], [3]]), cells, np.zeros(2), 255.0
    )
    assert found[0] == 0 and found[1] > 10


def test_few_images_set_no_limit():
    assert math.isnan(likeness.limit(np.full(9, 0.5)))
    assert likeness.limit(np.append(np.full(10, 0.5), np.nan)) == pytest.approx(0.55)


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
    assert recognizer.unlike_ > 0
    found = recognizer.identify(rows(photographs))
    assert np.mean([one.reason == "unlike" for one in found]) > 0.8
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
    assert math.isnan(recognizer.unlike_)
    assert {one.reason for one in recognizer.identify(rows(photographs), threshold=10)} == {None}


def test_the_commands_say_that_a_picture_is_unlike(model, photographs, folder, tmp_path):
    path = tmp_path / "landscape.png"
    Image.fromarray(photographs[1]).save(path)
    found = run("faces", "identify", model[0], path, folder / "person 1" / "0.png")
    assert "landscape.png: unknown: unlike the training images, probably not a face (nearest: person " in found.stdout
    assert found.stderr.endswith("1 faces of known people, 0 of nobody known, 1 unlike the training images\n")
    again = run("faces", "identify", model[0], path, "--json")
    assert '"person": null' in again.stdout and '"reason": "unlike"' in again.stdout
    verified = run("faces", "verify", model[0], path, folder / "person 1" / "0.png")
    assert f"{path} is unlike the training images, probably not a face" in verified.stdout


def test_a_file_keeps_the_limit(model, photographs, tmp_path):
    from visionnmf.apps.faces import load

    save(FaceModel(model[1]), tmp_path / "copy.npz")
    again = load(tmp_path / "copy.npz").recognizer
    assert again.unlike_ == model[1].unlike_
    first, second = (r.identify(rows(photographs)) for r in (model[1], again))
    assert [one.reason for one in first] == [one.reason for one in second]
