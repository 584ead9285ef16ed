"""The methods of face recognition that only the benchmark compares."""

from pathlib import Path

import numpy as np
import pytest
from helpers import made_faces
from scipy.spatial.distance import cdist
from sklearn.model_selection import StratifiedKFold

from visionnmf.apps.faces import FaceEvaluation
from visionnmf.apps.faces.evaluation import compare, make_split
from visionnmf.datasets import Faces

pytestmark = pytest.mark.slow  # all of it runs whole fits


@pytest.fixture
def ours(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    import _face_methods

    return _face_methods


@pytest.fixture
def faces(rng):
    images, _ = made_faces(rng, 4, 6)
    return Faces(images, np.repeat(np.arange(1, 5), 6), tuple("abcd"))


def test_every_method_recognises_made_people(ours, faces):
    plan = FaceEvaluation(methods=tuple(ours.ALL_METHODS), ranks=(8,), splits=1, per_person=4, iterations=50)
    means = compare(faces, plan, methods=ours.ALL_METHODS).means()
    assert {key[2] for key in means} == set(ours.ALL_METHODS)
    assert min(mean for mean, _ in means.values()) > 60


def test_left_out_images_are_identified_like_new_ones(ours, faces):
    """By hand: of four folds, projected by the pseudo-inverse and as mixed, else by their own codes."""
    split = make_split(faces, ("laplace", 60), 0, FaceEvaluation(splits=1, per_person=4))
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


def test_the_penalty_is_chosen_for_each_rule(ours, faces):
    split = make_split(faces, ("salt_and_pepper", 0.3), 0, FaceEvaluation(splits=1, per_person=4))
    rules = ("pseudo-inverse", "codes", "whitened")
    chosen = ours.ALL_METHODS["manhattan-cv"]
    rows = chosen.score(split, 5, FaceEvaluation(rules=rules, iterations=50))
    fits = [candidate.fit(split, 5, 50) for candidate in chosen.candidates]
    for rule, row in zip(rules, rows, strict=True):
        best = max(fits, key=lambda fitted, rule=rule: ours.cross_validated(fitted, rule))
        assert row == best.score((rule,))[0]


def test_blocks_count_as_missing(ours, faces):
    split = make_split(faces, ("occlusion", 10), 0, FaceEvaluation(splits=1, per_person=4))
    errors = {
        name: ours.ALL_METHODS[name].fit(split, 3, 50).score(("codes",))[0]["train_error"]
        for name in ("manhattan", "manhattan-blocks")
    }
    assert errors["manhattan-blocks"] < 0.6 * errors["manhattan"]
