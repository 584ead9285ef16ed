"""The factorisations of faces that the MahNMF paper compares, by its Algorithms 4 and 5."""

import numpy as np
import pytest
from helpers import made_faces
from scipy.spatial.distance import cdist

from visionnmf.apps.evaluate import FaceConditions
from visionnmf.apps.evaluate.faces import make_split
from visionnmf.apps.reproduce import face_methods as ours
from visionnmf.datasets import Faces

pytestmark = pytest.mark.slow  # all of it runs whole fits


@pytest.fixture
def faces(rng):
    images, _ = made_faces(rng, 4, 6)
    return Faces(images, np.repeat(np.arange(1, 5), 6), tuple("abcd"))


def plan(condition, rule, **options):
    values = {"methods": tuple(ours.METHODS), "ranks": (5, 8), "splits": 2, "per_person": 4, "iterations": 30}
    return ours.FacePlan(corruptions=(condition,), rule=rule, random_state=0, most_test=2, **values | options)


@pytest.mark.parametrize("rule", ["pseudo-inverse", "codes"])
def test_every_method_recognises_made_people(faces, rule):
    rows = ours.compare(faces, plan(("none", None), rule))
    for method in ours.METHODS:
        assert len(ours.figures_of(rows, "accuracy", "none", method)) == 4
        assert np.mean(ours.figures_of(rows, "accuracy", "none", method, 8)) > 60


@pytest.mark.parametrize("corrupted", [False, True])
def test_both_algorithms_by_hand(faces, corrupted):
    """The nearest projection on components of norm 1, and the nearest code in angle."""
    condition, tests = ("laplace", 60.0), "corrupted" if corrupted else "clean"
    task, clean = (
        make_split(faces, kind, 0, FaceConditions(per_person=4, both=True, most_test=2))
        for kind in ("laplace:60.0", "none")
    )
    model = ours.METHODS["EucNMF"](5, 0, 30)
    codes = model.fit_transform(task.train)
    norms = np.linalg.norm(model.components_, axis=1)
    inverse = np.linalg.pinv(model.components_ / norms[:, None])
    images = task.tests[tests]
    own = model.transform(images)
    for rule, distances, found in (
        ("pseudo-inverse", cdist(images @ inverse, task.train @ inverse), images @ inverse / norms),
        ("codes", cdist(own * norms, codes * norms, "cosine"), own),
    ):
        options = {"methods": ("EucNMF",), "ranks": (5,), "splits": 1, "corrupted": corrupted}
        (row,) = ours.compare(faces, plan(condition, rule, **options))
        assert row["accuracy"] == pytest.approx(100 * (task.people[distances.argmin(axis=1)] == task.answers).mean())
        for column, images_of, codes_of in (
            ("train_error", clean.train, codes),
            ("test_error", task.tests["clean"], found),
        ):
            error = np.square(codes_of @ model.components_ - images_of).sum() / np.square(images_of).sum()
            assert row[column] == pytest.approx(error, rel=1e-4)
