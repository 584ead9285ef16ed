"""What newcomers to faces stumbled over."""

import copy
import json
import re
import shutil
import warnings
from inspect import cleandoc

import numpy as np
import pytest
from helpers import SHAPE, json_lines, made_faces, rows, run_command as run

from visionnmf.apps.faces import FaceModel, FaceRecognizer, add_person, identify, load, save, train
from visionnmf.exceptions import ParameterError, UnreadableError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def test_every_attribute_of_a_fit_is_documented(model):
    text = cleandoc(FaceRecognizer.__doc__)
    told = set(re.findall(r"\b[a-z_]+_\b", text[text.index("\nAttributes\n") : text.index("\nReferences\n")]))
    for recognizer in (model[1], load(model[0]).recognizer):
        kept = {name for name in vars(recognizer) if name.endswith("_") and not name.startswith("_")}
        assert "missing_scores_" in kept and kept <= told, kept - told


def test_what_no_range_says_is_null(model, folder, tmp_path):
    """With 24 images there is no range of noise, so whether an image is as noisy is not known, rather than false."""
    recognizer = model[1]
    assert recognizer.noise_ is None
    (found,) = json_lines(run("faces", "identify", model[0], folder / "person 1" / "0.png", "--json"))
    assert found["identity"]["calibrated"] is None
    recognizer.noise_ = np.array([[0.0] * 4, [np.inf] * 4])
    image = rows(np.full((1, 16, 16), 90, np.uint8))
    assert recognizer.identify(image)[0].calibrated is True
    assert recognizer.identify(image, threshold=1)[0].calibrated is False  # the rates are those of another threshold


def test_calls_in_another_order_or_with_several_images_are_refused_with_a_cure(model, folder, tmp_path):
    image = str(folder / "person 1" / "0.png")
    with pytest.raises(ParameterError, match="person must be a name, which comes before the images; got"):
        add_person(model[0], [image], "Ada", tmp_path / "m.npz")
    with pytest.raises(ParameterError, match=r"sources must be a list of images; got .*; put it into a list"):
        add_person(model[0], "Ada", image, tmp_path / "m.npz")
    with pytest.raises(ParameterError, match=r"source must be the file of one image, or .*; got .*; call it for each"):
        identify(model[0], [image])
    with pytest.raises(UnreadableError, match="person 1 is a folder, and one image is needed; give its files one by"):
        identify(model[0], folder / "person 1")
    with pytest.raises(UnreadableError, match=r"people.npz is a model or a data set, and an image is needed; give"):
        identify(model[0], folder.parent / "people.npz")
    assert not (tmp_path / "m.npz").exists()


def test_labels_of_another_type_are_refused_and_change_nothing(rng):
    images, labels = made_faces(rng, 4, 4)
    for known, added in ((labels, [7, 8]), (np.arange(16) // 4, ["Eve", "Eve"])):
        recognizer = FaceRecognizer(random_state=0).fit(rows(images), known)
        before = recognizer.predict(rows(images))
        with pytest.raises(ParameterError, match=r"y must be labels like those of fit, such as .*; got"):
            recognizer.add(rows(images[:2]), added)
        assert len(recognizer.classes_) == 4 and len(recognizer.cleaned_) == 16
        np.testing.assert_array_equal(recognizer.predict(rows(images)), before)


def test_the_folder_for_pictures_is_made_before_training_and_the_rates_say_for_which_images_they_hold(folder, tmp_path):
    report = train(folder, tmp_path / "p.npz", pictures=tmp_path / "new" / "pictures")
    assert len(report.outputs) == 3 and (tmp_path / "new" / "pictures" / "components.png").is_file()
    (line,) = [
        line
        for line in run("faces", "train", folder, "--model", tmp_path / "m.npz").stdout.splitlines()
        if line.startswith("threshold ")
    ]
    assert "new pictures like the training pictures" in line and "another day, pose or light" in line


@pytest.mark.filterwarnings("default:the same image of two people", "default:this model is of no use")
def test_one_photograph_of_two_people_is_reported_and_folders_of_archives_are_no_people(folder, tmp_path):
    (folder / "person 2" / "9.png").write_bytes((folder / "person 0" / "3.png").read_bytes())
    for name in ("__MACOSX", ".thumbnails"):
        (folder / name).mkdir()
        (folder / name / "0.png").write_bytes((folder / "person 3" / "0.png").read_bytes())
    found = run("faces", "train", folder, "--model", tmp_path / "m.npz", "--json")
    report = json.loads(found.stdout)
    assert report["people"] == [f"person {i}" for i in range(4)]
    sentence = "the same image of two people: person 0/3.png and person 2/9.png; keep each image for one person only"
    # how many of so few people are rejected depends on the machine
    assert [one for one in report["warnings"] if "of no use" not in one] == [sentence]


@pytest.mark.filterwarnings("always")
def test_a_model_of_no_use_says_so_first(folder, tmp_path):
    """Two people with the same pictures: 95 % of known people were rejected, which stood among the figures."""
    shutil.rmtree(folder / "person 3")
    shutil.rmtree(folder / "person 1")
    shutil.copytree(folder / "person 0", folder / "person 1")
    found = run("faces", "train", folder, "--model", tmp_path / "m.npz", "-q")
    assert found.exit_code == 0 and "the same image of two people: person 0/" in found.stderr
    useless = "this model is of no use: it would reject "
    assert useless in found.stderr and "check who is on the images" in found.stderr
    with pytest.warns(UserWarning) as caught:
        report = train(folder, tmp_path / "n.npz")
    assert report.false_rejection_rate > 0.5 and len(caught) == 2 and caught[1].filename == __file__
    assert f"{useless}{report.false_rejection_rate:.0%} of new images" in str(caught[1].message)


def test_fit_warns_of_one_image_of_two_people(rng):
    images, labels = made_faces(rng, 4, 3)
    X = rows(images)
    X[7] = X[2]
    X[4] = X[3]  # of one person
    sentence = r"the same image of two people: 2 \('person 0'\) and 7 \('person 2'\); keep each image for one"
    with pytest.warns(UserWarning, match=sentence):
        FaceRecognizer(image_shape=SHAPE, calibrate=False, random_state=0).fit(X, labels.astype(str))


def doubts(call):
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught]


def test_images_that_are_added_to_somebody_else_are_named(rng):
    """Anybody was added as anybody, without a word."""
    images, labels = made_faces(rng, 10, 10)
    learnt = np.arange(len(labels)) % 10 < 7
    X, new = rows(images[learnt]), rows(images[~learnt])
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(X, labels[learnt])
    found = recognizer.identify(new)
    first = next(number for number, one in enumerate(found) if one.person == "person 1")
    stripes = rows(np.broadcast_to(np.repeat([20, 230], 4).astype(np.uint8), (1, *SHAPE[:1], 8)).repeat(2, axis=2))
    assert recognizer.identify(stripes)[0].reason == "unlike"
    for added, name, told in (
        (new[first], "person 1", []),
        (new[first], "person 0", ["1 added image looks like somebody else: 0 ('person 0') (like 'person 1')"]),
        (X[7], "person 1", ["1 added image is already there: 0 ('person 1') (of 'person 1')"]),
        (X[7], "Eve", ["1 added image is already there: 0 ('Eve') (of 'person 1')"]),
        (stripes[0], "Eve", ["1 added image is unlike a face: 0 ('Eve')"]),
    ):
        other = copy.deepcopy(recognizer)
        said = doubts(lambda other=other, added=added, name=name: other.add(added[None], [name]))
        assert [sentence.partition(";")[0] for sentence in said] == told
        assert other.classes_[other.labels_[-1]] == name and len(other.cleaned_) == len(X) + 1  # added nevertheless
    # twice in one call, and after the first was added
    (said,) = doubts(lambda: recognizer.add(np.repeat(new[first : first + 1], 2, axis=0), ["person 1"] * 2))
    assert said.startswith("1 added image is already there: 1 ('person 1')")
    (said,) = doubts(lambda: recognizer.add(new[first : first + 1], ["person 1"]))
    assert said.startswith("1 added image is already there: 0")
    (said,) = doubts(lambda: recognizer.add(X[:7], ["Eve"] * 7))
    assert said.startswith("7 added images are already there: 0") and "4 ('Eve') (of 'person 0') and 2 more; " in said


@pytest.mark.parametrize("white", [255, 1])
def test_a_learnt_image_is_known_again_in_its_model_file_and_others_are_not(rng, tmp_path, white):
    images, labels = made_faces(rng, 6, 8)
    images[rng.random(images.shape) < 0.3] = 255
    X = rows(images) * (white / 255)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(X[::2], labels[::2])
    save(FaceModel(recognizer), tmp_path / "m.npz")
    recognizer = load(tmp_path / "m.npz").recognizer
    said = doubts(lambda: recognizer.add(rows(images).astype(np.uint8), labels))  # in other units
    there = "24 added images are already there: 0 ('person 0')"
    assert [one[: len(there)] for one in said if "there" in one] == [there]


def test_the_command_names_the_files_that_are_added_in_doubt(model, folder, tmp_path):
    image = folder / "person 1" / "0.png"
    found = run("faces", "add", model[0], image, "--name", "Imp", "--model", tmp_path / "m.npz", "--json")
    assert found.exit_code == 0 and not found.stderr
    (report,) = json_lines(found)
    assert report["notes"][0] == (
        f"1 added image is already there: {image} (of 'person 1'); added nevertheless; check the names and the images"
    )
    assert report["people"] == 5


@pytest.mark.parametrize("n_people", [1, 2, 3])
def test_with_one_or_two_people_no_face_is_called_none(rng, n_people):
    """Unknown faces were "probably not a face": with two people none is left out to tell how unlike one may be."""
    images, labels = made_faces(rng, 20, 8)
    some = np.arange(len(labels)) < 8 * n_people
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images[some]), labels[some])
    recognizer.unexplained_ = 0.01  # everything is unexplained
    found = recognizer.identify(rows(images[~some]))
    assert {one.reason for one in found} == ({"unlike"} if n_people == 3 else {"unknown"})
    assert recognizer.identify(rows(np.full((1, *SHAPE), 90, np.uint8)))[0].reason == "unlike"  # it shows nothing
