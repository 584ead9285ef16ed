"""The comparison of methods: plans, splits, rules of classification, what is kept."""

import csv
import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from sklearn.model_selection import StratifiedKFold

from visionnmf import NMF
from visionnmf.apps.faces import FaceRecognizer, Plan, compare, comparison, methods, parse_corruption, parse_ranks
from visionnmf.apps.faces.methods import CHOSEN, MODELS, RANKLESS, fit_model, score_chosen, score_model
from visionnmf.datasets import Faces
from visionnmf.exceptions import OutputExistsError, ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


def test_every_method_recognises_made_people(faces):
    methods = (*MODELS, *CHOSEN, *RANKLESS)
    plan = Plan(methods=methods, ranks=(8,), splits=1, per_person=4, iterations=50)
    means = compare(faces, plan).means()
    assert {key[2] for key in means} == set(methods)
    assert min(mean for mean, _ in means.values()) > 60
    assert means["none", None, "recognizer", None, None, "clean"][0] == 100


def test_rules_of_classification(faces):
    """By hand: nearest in angle to the codes, as they are and after division by the root of their second moments;
    nearest projection, of training images with the codes that the model gave them, and of projected ones."""
    plan = Plan((("laplace", 60),), splits=1, per_person=3)
    rules = ("codes", "whitened", "mixed", "pseudo-inverse")
    table = []
    for split in range(4):
        task = comparison.make_task(faces, plan.corruptions[0], split, plan)
        fitted = fit_model("frobenius", task, 5, 0, 20)
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
        rows = score_model("frobenius", fitted, task, rules)
        assert [row["accuracy"] for row in rows] == pytest.approx(expected)
        assert rows[0]["test_error"] == rows[1]["test_error"] >= 0.9999 * rows[2]["test_error"]  # nearest: projection
        table.append(expected)
        assert rows[2]["test_error"] == rows[3]["test_error"]
    assert len(set(zip(*table, strict=True))) == 4  # else the rules could not be told apart


@pytest.mark.parametrize(("outliers", "rule"), [(math.inf, "pseudo-inverse"), (0, "mixed")])
def test_a_rule_has_one_name(faces, outliers, rule):
    """The recognizer projects its gallery: images as they are, as MahNMF's Algorithm 4, or the model's of them."""
    task = comparison.make_task(faces, ("salt_and_pepper", 0.4), 0, Plan(splits=1, per_person=4))
    fitted = fit_model("manhattan", task, 4, 0, 100)
    (row,) = score_model("manhattan", fitted, task, (rule,))
    model = NMF(4, nuclear=1.0, max_iter=100, tol=0, random_state=0)
    recognizer = FaceRecognizer(model, rule="pseudo-inverse", outliers=outliers, missing="none")
    recognizer.fit(task.train, task.people)
    assert 100 * recognizer.score(task.tests["clean"], task.answers) == pytest.approx(row["accuracy"])


def test_penalty_is_chosen_for_each_rule(faces, monkeypatch):
    """Each rule has the model that does best on left-out training images, told here; test images are not looked at."""
    task = comparison.make_task(faces, ("salt_and_pepper", 0.3), 0, Plan(splits=1, per_person=4))
    assert CHOSEN["manhattan-cv"] == ("manhattan", "manhattan-light")
    scores = {("manhattan", "codes"): 0.9, ("manhattan-light", "pseudo-inverse"): 0.9}
    names = {}

    def told(fitted, task, rule):
        assert not hasattr(task, "seen")
        return scores.get((names[fitted.model.nuclear], rule), 0.5)

    names |= {1.0: "manhattan", 0.3: "manhattan-light"}
    rules = ("pseudo-inverse", "codes", "whitened")
    with monkeypatch.context() as patch:
        patch.setattr(methods, "_cross_validated", told)
        rows = score_chosen("manhattan-cv", task, 5, 0, 50, rules)
    fits = {name: fit_model(name, task, 5, 0, 50) for name in CHOSEN["manhattan-cv"]}
    alone = [
        score_model(name, fits[name], task, (rule,))[0]
        for rule, name in zip(rules, ("manhattan-light", "manhattan", "manhattan"), strict=True)
    ]
    assert rows == alone  # in the order of the rules; the first where nothing tells


def test_left_out_images_are_named_as_new_ones_are(faces):
    """By hand: of five folds, projected by the pseudo-inverse and as mixed, else by their own codes."""
    task = comparison.make_task(faces, ("laplace", 60), 0, Plan(splits=1, per_person=4))
    fitted = fit_model("manhattan-light", task, 5, 0, 50)
    norms = np.linalg.norm(fitted.model.components_, axis=1)
    codes = fitted.codes * norms
    projected = task.train @ np.linalg.pinv(fitted.model.components_ / norms[:, None])
    for rule, new, gallery, metric in (
        ("pseudo-inverse", projected, projected, "euclidean"),
        ("mixed", projected, codes, "euclidean"),
        ("codes", codes, codes, "cosine"),
    ):
        hits = []
        for rest, left in StratifiedKFold(4, shuffle=True, random_state=0).split(codes, task.people):
            nearest = cdist(new[left], gallery[rest], metric).argmin(axis=1)
            hits += list(task.people[rest][nearest] == task.people[left])
        assert methods._cross_validated(fitted, task, rule) == pytest.approx(np.mean(hits))
    untold = task._replace(people=np.arange(len(task.people)))
    assert methods._cross_validated(fitted, untold, "codes") == 0  # one image each: nothing to choose by


def test_blocks_count_as_missing(faces):
    plan = Plan((("occlusion", 10),), splits=1, per_person=4)
    task = comparison.make_task(faces, plan.corruptions[0], 0, plan)
    errors = {}
    for name in ("manhattan", "manhattan-blocks"):
        fitted = fit_model(name, task, 3, 0, 50)
        errors[name] = score_model(name, fitted, task, ("codes",))[0]["train_error"]
    assert errors["manhattan-blocks"] < 0.6 * errors["manhattan"]


def test_an_interrupted_comparison_goes_on(faces, tmp_path, monkeypatch):
    plan = Plan((("none", None), ("laplace", 20)), ("raw", "pca"), (2, 3), splits=2, per_person=3)
    whole = compare(faces, plan, out=tmp_path / "whole")
    job, done = comparison.run_job, []

    def stops(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments)
        return job(*arguments)

    monkeypatch.setattr(comparison, "run_job", stops)
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
    plan = Plan(methods=("raw",), splits=1, per_person=3)
    first = compare(faces, plan, out=tmp_path).rows[0]["accuracy"]
    other = Faces(faces.images[:, ::-1].copy() // 2, faces.labels[::-1].copy(), faces.names)
    seen = []
    with pytest.raises(OutputExistsError, match="of another plan or other data; pass force=True"):
        compare(other, plan, out=tmp_path)
    compare(other, plan, out=tmp_path, force=True, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 1)] and first == 100


def test_results_of_somebody_else_are_kept(faces, tmp_path):
    (tmp_path / "results.csv").write_text("mine")
    plan = Plan(methods=("raw",), splits=1, per_person=3)
    with pytest.raises(OutputExistsError, match=r"results.csv: exists already"):
        compare(faces, plan, out=tmp_path)
    assert (tmp_path / "results.csv").read_text() == "mine"


def test_ranks_are_taken_down_to_what_there_is(faces):
    found = compare(faces, Plan(methods=("pca",), ranks=(2, 500, 900), splits=1, per_person=3))
    assert {row["rank"] for row in found.rows} == {2, 12}


def test_one_person_cannot_be_told_apart(faces):
    alone = Faces(faces.images[:6], faces.labels[:6], faces.names[:1])
    with pytest.raises(ParameterError, match="faces must have two people at least"):
        compare(alone, Plan(methods=("raw",), per_person=3))


def test_processes_find_the_same(faces):
    plan = Plan((("salt_and_pepper", 0.2),), ("raw", "pca"), (4,), splits=2, per_person=3)
    one, two = (compare(faces, plan, jobs=jobs).means() for jobs in (1, 2))
    assert one == two


def test_corrupted_tests_are_corrupted(faces):
    plan = Plan((("occlusion", 14),), ("raw",), splits=2, per_person=4, tests=("clean", "corrupted"))
    task = comparison.make_task(faces, plan.corruptions[0], 0, plan)
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
        ({"splits": 0}, "splits must be at least 1; got 0"),
        ({"ranks": ()}, "ranks must be whole numbers from 1"),
    ],
)
def test_plans_that_make_no_sense(faces, values, sentence):
    with pytest.raises(ParameterError, match=sentence):
        compare(faces, Plan(**values))


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
