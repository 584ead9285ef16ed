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


def test_every_method_recognises_made_people(faces):
    rows = ours.compare(faces, [("none", None)], tuple(ours.METHODS), (5, 8), 3, 2, 30, corrupted=True, per_person=4)
    for method in ours.METHODS:
        for tests in ("clean", "corrupted"):
            for rank in (5, 8):
                splits = ours.figures_of(rows, tests, "none", method, rank)
                assert len(splits) == (2 if method in ours.PRINTED else 3)
            assert np.mean(splits) > 60


def test_both_algorithms_by_hand(faces):
    """The nearest projection of a clean image on components of norm 1, and the nearest code of a corrupted in angle."""
    task, clean = (
        make_split(faces, kind, 0, FaceConditions(per_person=4, both=True, most_test=2), ours.FIRST_SPLIT)
        for kind in ("laplace:60.0", "none")
    )
    model = ours.METHODS["EucNMF"](5, 0, 30)
    codes = model.fit_transform(task.train)
    norms = np.linalg.norm(model.components_, axis=1)
    inverse = np.linalg.pinv(model.components_ / norms[:, None])
    projections, own = task.tests["clean"] @ inverse, model.transform(task.tests["corrupted"])
    (row,) = ours.compare(faces, [("laplace", 60.0)], ["EucNMF"], (5,), 1, 2, 30, corrupted=True, per_person=4)
    for name, distances in (
        ("clean", cdist(projections, task.train @ inverse)),
        ("corrupted", cdist(own * norms, codes * norms, "cosine")),
    ):
        assert row[name] == pytest.approx(100 * (task.people[distances.argmin(axis=1)] == task.answers).mean())
    for column, images, codes_of in (
        ("train_error", clean.train, codes),
        ("test_error", task.tests["clean"], projections / norms),
    ):
        error = np.square(codes_of @ model.components_ - images).sum() / np.square(images).sum()
        assert row[column] == pytest.approx(error, rel=1e-4)
