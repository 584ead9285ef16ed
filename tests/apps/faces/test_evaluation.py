"""The comparison of methods: plans, splits, what is kept."""

import csv

import numpy as np
import pytest

from visionnmf.apps.faces import FaceEvaluation, evaluation
from visionnmf.apps.faces.evaluation import METHODS, compare, make_split
from visionnmf.apps.faces.settings import parse_corruption, parse_ranks
from visionnmf.datasets import Faces
from visionnmf.exceptions import OutputExistsError, ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def test_every_method_recognises_made_people(faces):
    plan = FaceEvaluation(methods=tuple(METHODS), ranks=(8,), splits=1, per_person=4)
    means = compare(faces, plan).means()
    assert {method for _, method, _, _ in means} == set(METHODS)
    assert min(mean for mean, _ in means.values()) > 60
    assert means["none", "recognizer", None, "clean"][0] == 100


def test_an_interrupted_comparison_goes_on(faces, tmp_path, monkeypatch):
    plan = FaceEvaluation(
        corruptions=("none", "laplace:20"), methods=("raw", "pca"), ranks=(2, 3), splits=2, per_person=3
    )
    whole = compare(faces, plan, out=tmp_path / "whole")
    job, done = evaluation.run_split, []

    def stops(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments)
        return job(*arguments)

    monkeypatch.setattr(evaluation, "run_split", stops)
    with pytest.raises(KeyboardInterrupt):
        compare(faces, plan, out=tmp_path / "parts")
    done.clear()
    parts = compare(faces, plan, out=tmp_path / "parts")
    assert len(done) == 1  # the fourth alone
    timeless = [[{**row, "seconds": None} for row in found.rows] for found in (whole, parts)]
    assert timeless[0] == timeless[1]
    with (tmp_path / "parts" / "results.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(parts.rows) == 2 * 2 * 3


def test_another_plan_or_data_set_is_run_anew(faces, tmp_path):
    plan = FaceEvaluation(methods=("raw",), splits=1, per_person=3)
    first = compare(faces, plan, out=tmp_path).rows[0]["accuracy"]
    other = Faces(faces.images[:, ::-1].copy() // 2, faces.labels[::-1].copy(), faces.names)
    seen = []
    with pytest.raises(OutputExistsError, match="belongs to other settings or data; pass force=True"):
        compare(other, plan, out=tmp_path)
    compare(other, plan, out=tmp_path, force=True, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 1)] and first == 100


def test_results_of_somebody_else_are_kept(faces, tmp_path):
    (tmp_path / "results.csv").write_text("mine")
    plan = FaceEvaluation(methods=("raw",), splits=1, per_person=3)
    with pytest.raises(OutputExistsError, match=r"results.csv: exists already"):
        compare(faces, plan, out=tmp_path)
    assert (tmp_path / "results.csv").read_text() == "mine"


def test_one_person_cannot_be_told_apart(faces):
    alone = Faces(faces.images[:6], faces.labels[:6], faces.names[:1])
    with pytest.raises(ParameterError, match="faces must have at least two people"):
        compare(alone, FaceEvaluation(methods=("raw",), per_person=3))


def test_one_image_of_each_person_is_left_to_test(faces):
    """The default asks for more training images than these people have."""
    few = Faces(faces.images[:10], faces.labels[:10], faces.names[:2])  # six images of one person, four of the other
    found = compare(few, FaceEvaluation(methods=("raw",), splits=1))
    assert found.notes[0].startswith("2 of 2 people have no more than 7 images: all but one")
    split = make_split(few, "none", 0, FaceEvaluation(per_person=5))
    assert np.bincount(split.people).tolist() == [5, 3] and np.bincount(split.answers).tolist() == [1, 1]
    assert compare(few, FaceEvaluation(methods=("raw",), splits=1, per_person=3)).notes == []
    alone = Faces(faces.images[:7], faces.labels[:7], faces.names[:2])
    with pytest.raises(ParameterError, match="two images or more of each person; got one of person 'person 1'"):
        compare(alone, FaceEvaluation(methods=("raw",)))


@pytest.mark.long
def test_processes_find_the_same(faces):
    plan = FaceEvaluation(corruptions=("salt_and_pepper:0.2",), methods=("raw", "pca"), splits=2, per_person=3)
    one, two = (compare(faces, plan, jobs=jobs).means() for jobs in (1, 2))
    assert one == two


def test_corrupted_tests_are_corrupted(faces):
    plan = FaceEvaluation(corruptions=("occlusion:14",), per_person=4, both=True)
    task = make_split(faces, plan.corruptions[0], 0, plan)
    assert (task.tests["clean"] < 1).all() and (task.tests["corrupted"] == 1).mean() > 0.5
    assert (task.train == 1).mean() > 0.5


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"methods": ("svm",)}, "methods must be some of .* got 'svm'"),
        ({"corruptions": ("rain",)}, "corruptions must be some of .* got 'rain'"),
        (
            {"corruptions": ("none", "salt_and_pepper:3"), "per_person": 3},
            "severity must be a number from 0 to 1; got 3",
        ),
        ({"splits": 0}, "splits must be a whole number from 1 to 1000; got 0"),
        ({"ranks": ()}, "ranks must be 1 to 1000 whole numbers from 1"),
    ],
)
def test_plans_that_make_no_sense(faces, values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        compare(faces, FaceEvaluation(**values))


def test_ranks_are_taken_down_to_what_there_is(faces):
    found = compare(faces, FaceEvaluation(methods=("pca",), ranks=(2, 500, 900), splits=1, per_person=3))
    assert {row["rank"] for row in found.rows} == {2, 12}


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
