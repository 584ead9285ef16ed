"""Model files that earlier states of version 0.1.0 wrote: they load, and give the numbers recorded then.

`old_models/` has one of each kind and variant, fitted to made data, and in expected.json what each gave when it was
written: codes, distances, scores.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from visionnmf import load_model
from visionnmf.apps import annotation, faces, masquerade

FOLDER = Path(__file__).parent / "old_models"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
DATA = np.array(EXPECTED["data"])


def test_each_file_is_looked_at():
    told = [
        *EXPECTED["models"],
        *(f"{kind}_{name}" for kind in ("faces", "masquerade", "annotation") for name in EXPECTED[kind]),
    ]
    assert sorted(path.stem for path in FOLDER.glob("*.npz")) == sorted(told)


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_estimators(name, tmp_path):
    expected = EXPECTED["models"][name]
    model = load_model(FOLDER / f"{name}.npz")
    assert type(model).__name__ == expected["class"]
    assert model.components_.dtype == expected["dtype"]
    np.testing.assert_array_equal(model.components_, np.array(expected["components"], expected["dtype"]))
    model.save(tmp_path / "again.npz")
    again = load_model(tmp_path / "again.npz")
    np.testing.assert_array_equal(again.components_, model.components_)
    if "codes" in expected:
        new = DATA[:4].astype(expected["dtype"])
        if name == "nmf_missing":
            new[[0, 3], [1, 4]] = np.nan
        tolerance = 1e-5 if expected["dtype"] == "float32" else 1e-9  # of another processor's sums
        np.testing.assert_allclose(model.transform(new), expected["codes"], tolerance, tolerance)
        np.testing.assert_array_equal(again.transform(new), model.transform(new))


@pytest.mark.parametrize("name", EXPECTED["faces"])
def test_faces(name, tmp_path):
    expected = EXPECTED["faces"][name]
    rows = np.array(EXPECTED["images"], np.float32).reshape(3, -1)
    model = faces.load(FOLDER / f"faces_{name}.npz")
    assert model.detect == (name == "residual")
    faces.save(model, tmp_path / "again.npz")
    for one in (model, faces.load(tmp_path / "again.npz")):
        assert [identity.nearest for identity in one.recognizer.identify(rows)] == expected["names"]
        # Which pixels count as corrupted turns on a rounding, so on the processor: .4 % between AVX-512 and plain x86.
        rtol = 1e-2 if model.detect else 1e-4
        np.testing.assert_allclose(one.recognizer.distances(rows), expected["distances"], rtol, 1e-5)


@pytest.mark.parametrize("name", EXPECTED["masquerade"])
def test_scorers(name, tmp_path):
    key = "secret" if name == "key" else None
    model = masquerade.load(FOLDER / f"masquerade_{name}.npz", key=key)
    assert (model.size, model.idle, model.whole_lines) == (12, 3.5, True)
    masquerade.save(model, tmp_path / "again.npz")
    for one in (model, masquerade.load(tmp_path / "again.npz", key=key)):
        scores = {user: scorer.anomaly_score(EXPECTED["sessions"]) for user, scorer in one.scorers.items()}
        assert list(scores) == list(EXPECTED["masquerade"][name])
        for user, expected in EXPECTED["masquerade"][name].items():
            np.testing.assert_allclose(scores[user], expected, 1e-12)


def test_annotators_without_a_regression(tmp_path):
    expected = EXPECTED["annotation"]["weighted"]
    model = annotation.load(FOLDER / "annotation_weighted.npz")
    assert model.annotator.regression_ is None and model.annotator.balance == 0
    annotation.save(model, tmp_path / "again.npz")
    for one in (model, annotation.load(tmp_path / "again.npz")):
        scores = one.annotator.predict_proba(np.array(expected["X"], np.float32))
        np.testing.assert_allclose(scores, expected["scores"], 1e-3, 1e-5)
