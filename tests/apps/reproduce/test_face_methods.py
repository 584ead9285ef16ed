"""The methods of face recognition that only the papers and the benchmark compare."""

import numpy as np
import pytest
from helpers import made_faces
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from sklearn.model_selection import StratifiedKFold

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
    none = (("none", None),)
    plan = ours.FacePlan(
        corruptions=none, methods=tuple(ours.ALL_METHODS), ranks=(8,), splits=1, per_person=4, iterations=50
    )
    means = ours.means_of(ours.compare(faces, plan))
    assert {key[2] for key in means} == set(ours.ALL_METHODS)
    assert min(mean for mean, _ in means.values()) > 60


def test_left_out_images_are_identified_like_new_ones(faces):
    """By hand: of four folds, projected by the pseudo-inverse and as mixed, else by their own codes."""
    split = make_split(faces, "laplace:60", 0, FaceConditions(per_person=4))
    fitted = ours.ALL_METHODS["manhattan-light"].fit(split, 5, 50)
    norms = np.linalg.norm(fitted.model.components_, axis=1)
    codes = fitted.codes * norms
    projected = split.train @ np.linalg.pinv(fitted.model.components_ / norms[:, None])
    for rule, new, gallery, metric in (
        ("pseudo-inverse", projected, projected, "euclidean"),
        ("mixed", projected, codes, "euclidean"),
        ("codes", codes, codes, "cosine"),
    ):
        hits = []
        for rest, left in StratifiedKFold(4, shuffle=True, random_state=0).split(codes, split.people):
            nearest = cdist(new[left], gallery[rest], metric).argmin(axis=1)
            hits += list(split.people[rest][nearest] == split.people[left])
        assert ours.cross_validated(fitted, rule) == pytest.approx(np.mean(hits))
    single = fitted._replace(split=split._replace(people=np.arange(len(split.people))))
    assert ours.cross_validated(single, "codes") == 0  # nothing to choose by


def test_the_penalty_is_chosen_for_each_rule(faces):
    split = make_split(faces, "salt_and_pepper:0.3", 0, FaceConditions(per_person=4))
    rules = ("pseudo-inverse", "codes", "whitened")
    chosen = ours.ALL_METHODS["manhattan-cv"]
    plan = ours.FacePlan(corruptions=(), methods=(), rules=rules, iterations=50)
    rows = chosen.score(split, split.train, 5, plan)
    fits = [candidate.fit(split, 5, 50) for candidate in chosen.candidates]
    for rule, row in zip(rules, rows, strict=True):
        best = max(fits, key=lambda fitted, rule=rule: ours.cross_validated(fitted, rule))
        assert row == best.score((rule,), split.train)[0]


def test_blocks_count_as_missing(faces):
    split, clean = (
        make_split(faces, corruption, 0, FaceConditions(per_person=4)) for corruption in ("occlusion:10", "none")
    )
    errors = {
        name: ours.ALL_METHODS[name].fit(split, 3, 50).score(("codes",), clean.train)[0]["train_error"]
        for name in ("manhattan", "manhattan-blocks")
    }
    assert errors["manhattan-blocks"] < 0.6 * errors["manhattan"]


def test_rules_of_classification(faces):
    """By hand: nearest in angle to the codes, as they are and after division by the root of their second moments;
    nearest projection, of training images with the codes that the model gave them, and of projected ones."""
    plan = FaceConditions(per_person=3)
    rules = ("codes", "whitened", "mixed", "pseudo-inverse")
    table = []
    for split in range(4):
        task = make_split(faces, "laplace:60", split, plan)
        fitted = ours.ALL_METHODS["frobenius"].fit(task, 5, 20)
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
        rows = fitted.score(rules, task.train)
        assert [row["accuracy"] for row in rows] == pytest.approx(expected)
        assert rows[0]["test_error"] == rows[1]["test_error"] >= 0.9999 * rows[2]["test_error"]  # nearest: projection
        table.append(expected)
        assert rows[2]["test_error"] == rows[3]["test_error"]
    assert len(set(zip(*table, strict=True))) == 4  # else the rules could not be told apart
