"""The comparison of methods: plans, splits, rules of classification, what is kept."""

import csv
import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist

from visionnmf import NMF
from visionnmf.apps.faces import FaceEvaluation, FaceRecognizer, evaluation
from visionnmf.apps.faces.evaluation import compare, make_split
from visionnmf.apps.faces.methods import METHODS
from visionnmf.apps.faces.settings import parse_corruption, parse_ranks
from visionnmf.datasets import Faces
from visionnmf.exceptions import OutputExistsError, ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def test_every_method_recognises_made_people(faces):
    plan = FaceEvaluation(methods=tuple(METHODS), ranks=(8,), splits=1, per_person=4, iterations=50)
    means = compare(faces, plan).means()
    assert {key[2] for key in means} == set(METHODS)
    assert min(mean for mean, _ in means.values()) > 60
    assert means["none", None, "recognizer", None, None, "clean"][0] == 100


def test_rules_of_classification(faces):
    """By hand: nearest in angle to the codes, as they are and after division by the root of their second moments;
    nearest projection, of training images with the codes that the model gave them, and of projected ones."""
    plan = FaceEvaluation(corruptions=(("laplace", 60),), splits=1, per_person=3)
    rules = ("codes", "whitened", "mixed", "pseudo-inverse")
    table = []
    for split in range(4):
        task = make_split(faces, plan.corruptions[0], split, plan)
        fitted = METHODS["frobenius"].fit(task, 5, 20)
        model = fitted.model
        norms = np.linalg.norm(model.components_, axis=1)
        train, test = fitted.codes * norms, model.transform(task.tests["clean"]) * norms
        moments = train.T.astype(float) @ train / len(train)
        root = np.linalg.inv(sqrtm(moments + 0.1 * np.trace(moments) / 5 * np.eye(5)))
        inverse = np.linalg.pinv(model.components_ / norms[:, None])
        pseudo, gallery = task.tests["clean"] @ inverse, task.train @ inverse
        by_codes = (cdist(test, train, "cosine"), cdist(test @ root, train @ root, "cosine"))
        distances = (*by_codes, cdist(pseudo, train), cdist(pseudo, gallery))
        expected = [100 * (task.people[each.argmin(axis=1)] == task.answers).mean() for each in distances]
        rows = fitted.score(rules)
        assert [row["accuracy"] for row in rows] == pytest.approx(expected)
        assert rows[0]["test_error"] == rows[1]["test_error"] >= 0.9999 * rows[2]["test_error"]  # nearest: projection
        table.append(expected)
        assert rows[2]["test_error"] == rows[3]["test_error"]
    assert len(set(zip(*table, strict=True))) == 4  # else the rules could not be told apart


@pytest.mark.parametrize(("outliers", "rule"), [(math.inf, "pseudo-inverse"), (0, "mixed")])
def test_a_rule_has_one_name(faces, outliers, rule):
    """The recognizer projects its gallery: images as they are, as MahNMF's Algorithm 4, or the model's of them."""
    task = make_split(faces, ("salt_and_pepper", 0.4), 0, FaceEvaluation(splits=1, per_person=4))
    (row,) = METHODS["manhattan"].fit(task, 4).score((rule,))
    model = NMF(4, nuclear=1.0, max_iter=100, tol=0, random_state=0)
    recognizer = FaceRecognizer(model, rule="pseudo-inverse", outliers=outliers, missing="none")
    recognizer.fit(task.train, task.people)
    assert 100 * recognizer.score(task.tests["clean"], task.answers) == pytest.approx(row["accuracy"])


def test_an_interrupted_comparison_goes_on(faces, tmp_path, monkeypatch):
    plan = FaceEvaluation(
        corruptions=(("none", None), ("laplace", 20)), methods=("raw", "pca"), ranks=(2, 3), splits=2, per_person=3
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
        assert len(list(csv.DictReader(file))) == len(parts.rows) == 2 * 2 * (1 + 2 * 4)


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


def test_ranks_are_taken_down_to_what_there_is(faces):
    found = compare(faces, FaceEvaluation(methods=("pca",), ranks=(2, 500, 900), splits=1, per_person=3))
    assert {row["rank"] for row in found.rows} == {2, 12}


def test_one_person_cannot_be_told_apart(faces):
    alone = Faces(faces.images[:6], faces.labels[:6], faces.names[:1])
    with pytest.raises(ParameterError, match="faces must have at least two people"):
        compare(alone, FaceEvaluation(methods=("raw",), per_person=3))


def test_processes_find_the_same(faces):
    plan = FaceEvaluation(
        corruptions=(("salt_and_pepper", 0.2),), methods=("raw", "pca"), ranks=(4,), splits=2, per_person=3
    )
    one, two = (compare(faces, plan, jobs=jobs).means() for jobs in (1, 2))
    assert one == two


def test_corrupted_tests_are_corrupted(faces):
    plan = FaceEvaluation(corruptions=(("occlusion", 14),), per_person=4, both=True)
    task = make_split(faces, plan.corruptions[0], 0, plan)
    assert (task.tests["clean"] < 1).all() and (task.tests["corrupted"] == 1).mean() > 0.5
    assert (task.train == 1).mean() > 0.5 and (task.clean < 1).all()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"methods": ("svm",)}, "methods must be some of .* got 'svm'"),
        ({"corruptions": (("rain", None),)}, "corruption must be some of .* got 'rain'"),
        ({"per_person": 6}, "per_person must leave images to test; got 6 of the 6 of person"),
        (
            {"corruptions": (("none", None), ("salt_and_pepper", 3)), "per_person": 3},
            "severity must be a number from 0 to 1; got 3",
        ),
        ({"splits": 0}, "splits must be a whole number from 1 to 1000; got 0"),
        ({"ranks": ()}, "ranks must be whole numbers from 1"),
    ],
)
def test_plans_that_make_no_sense(faces, values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        compare(faces, FaceEvaluation(**values))


def test_ranks_and_corruptions_are_read():
    assert parse_ranks("5,10-30/10,5") == (5, 10, 20, 30)
    assert parse_corruption("laplace:20") == ("laplace", 20) and parse_corruption("none") == ("none", None)
    assert repr(parse_corruption("occlusion:12")) == "('occlusion', 12)"  # an int: the side of a block
    for text in ("laplace:nan", "laplace:inf"):
        with pytest.raises(ParameterError, match="corruption must be KIND or KIND:SEVERITY"):
            parse_corruption(text)
    for text in ("", "a", "3-1", "1-9/0", "1-99999"):
        with pytest.raises(ParameterError, match="ranks must be"):
            parse_ranks(text)
    with pytest.raises(ParameterError, match="corruption must be KIND or KIND:SEVERITY"):
        parse_corruption("laplace:many")
