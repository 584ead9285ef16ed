"""The comparison of methods: plans, splits, what is kept."""

import re

import numpy as np
import pytest
from helpers import run_command as run

from visionnmf.apps.evaluate import Comparison, FaceConditions, RandomSplits, evaluate, faces as application
from visionnmf.apps.evaluate.faces import METHODS, make_split, study
from visionnmf.apps.evaluate.settings import parse_corruption, parse_ranks
from visionnmf.datasets import CORRUPTIONS, Faces
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


THREE = FaceConditions(per_person=3)
RAW = Comparison(methods=("raw",))


def compare(faces, comparison=RAW, conditions=THREE, splits=1, **others):
    """Compare methods on splits of faces in memory."""
    made = study(faces, comparison, splits=RandomSplits(splits=splits), conditions=conditions)
    return evaluate(made, comparison, **others)


def test_every_method_recognises_made_people_if_there_are_two(faces):
    found = compare(faces, Comparison(methods=("all",)), FaceConditions(ranks=(8,), per_person=4))
    accuracy = {line["method"]: line["accuracy"] for line in found.table}
    assert set(accuracy) == set(METHODS)
    assert min(accuracy.values()) > 60 and accuracy["recognizer"] == 100
    alone = Faces(faces.images[:6], faces.labels[:6], faces.names[:1])
    with pytest.raises(ParameterError, match="faces must have at least two people"):
        compare(alone)


def test_one_image_of_each_person_is_left_to_test(faces):
    """The default asks for more training images than these people have."""
    few = Faces(faces.images[:10], faces.labels[:10], faces.names[:2])  # six images of one person, four of the other
    found = compare(few, conditions=FaceConditions())
    assert found.notes[0].startswith("2 of 2 people have no more than 7 images: all but one")
    split = make_split(few, "none", 0, FaceConditions(per_person=5))
    assert np.bincount(split.people).tolist() == [5, 3] and np.bincount(split.answers).tolist() == [1, 1]
    assert compare(few).notes == []
    alone = Faces(faces.images[:7], faces.labels[:7], faces.names[:2])
    with pytest.raises(ParameterError, match="two images or more of each person; got one of person 'person 1'"):
        compare(alone, conditions=FaceConditions())


def test_corrupted_tests_are_corrupted(faces):
    conditions = FaceConditions(corruptions=("occlusion:14",), per_person=4, both=True)
    task = make_split(faces, conditions.corruptions[0], 0, conditions)
    assert (task.tests["clean"] < 1).all() and (task.tests["corrupted"] == 1).mean() > 0.5
    assert (task.train == 1).mean() > 0.5


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"corruptions": ("rain",)}, "corruptions must be some of .* got 'rain'"),
        ({"corruptions": ("none", "salt_and_pepper:3")}, "severity must be a number from 0 to 1; got 3"),
        ({"ranks": ()}, "ranks must be 1 to 1000 whole numbers from 1"),
    ],
)
def test_conditions_that_make_no_sense(values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        FaceConditions(**values)


def test_ranks_are_taken_down_to_what_there_is_and_severities_of_kinds_allowed(faces):
    found = compare(faces, Comparison(methods=("pca",)), FaceConditions(ranks=(2, 500, 900), per_person=3))
    assert {row["rank"] for row in found.rows} == {2, 12}
    FaceConditions(corruptions=("occlusion:12", "gaussian:40", "poisson:0.05", "dead_lines", "laplace:30"))


def test_ranks_and_corruptions_are_read():
    assert parse_ranks("5,10-30/10,5") == (5, 10, 20, 30)
    for text in ("", "a", "1-9/0"):
        with pytest.raises(ParameterError, match="ranks must be like"):
            parse_ranks(text)
    assert parse_corruption("laplace:20") == ("laplace", 20) and parse_corruption("none") == ("none", None)
    assert repr(parse_corruption("occlusion:12")) == "('occlusion', 12)"  # an int: the side of a block
    for text in ("laplace:nan", "laplace:inf", "laplace:many"):
        with pytest.raises(ParameterError, match="corruptions must be KIND or KIND:SEVERITY"):
            parse_corruption(text)


def test_the_command_draws_curves(folder, tmp_path):
    pytest.importorskip("matplotlib")
    options = ("--methods", "raw,pca", "--ranks", "2,3", "--splits", 2, "--train", 3, "--plots", "--both")
    corruptions = ("--corruption", "occlusion:6", "--corruption", "none")
    result = run("evaluate", "faces", folder, *corruptions, *options, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "occlusion:6" in result.stdout and "corrupted" in result.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.csv", "jobs", "accuracy.png"}
    bad = run("evaluate", "faces", folder, "--corruption", "rain")
    assert bad.exit_code == 2 and "--corruption must be some of" in " ".join(bad.stderr.split())


def test_pictures_do_not_lie_among_the_faces(folder):
    options = ("--plots", "--methods", "raw", "--splits", 1, "--train", 3, "--out", folder / "p")
    refused = run("evaluate", "faces", folder, *options)
    assert refused.exit_code == 2 and "would be taken for faces" in refused.stderr, refused.output
    assert not (folder / "p").exists()


def test_what_is_left_out_is_said_once_and_an_interrupted_evaluation_ends_quietly(folder, tmp_path, monkeypatch):
    (folder / "person 0" / "7.png").write_text("no picture")
    result = run("evaluate", "faces", folder, "--methods", "raw", "--splits", 1, "--train", 3)
    assert result.exit_code == 1 and result.stdout.count("left out: ") == 1 and "7.png" in result.stdout

    def stops(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "run_split", stops)
    result = run("evaluate", "faces", folder, "--train", 3, "--splits", 1, "--out", tmp_path / "out")
    assert result.exit_code == 130 and not result.stderr


def test_the_help_names_what_is_allowed_and_a_severity_out_of_range_its_option(folder, tmp_path):
    found = run("evaluate", "faces", folder, "--corruption", "salt_and_pepper:30", "--out", tmp_path / "out")
    said = " ".join(found.stderr.replace("│", " ").split())
    assert found.exit_code == 2 and "--corruption must have a severity that its kind allows; got" in said
    assert "salt_and_pepper:30" in said and not (tmp_path / "out").exists()
    text = " ".join(run("evaluate", "faces", "--help").stdout.replace("-\n", "-").split()).replace("- ", "-")
    for name in (*METHODS, *CORRUPTIONS):
        assert name == "none" or re.search(rf"(?<![\w-]){name}(?![\w-])", text), name
