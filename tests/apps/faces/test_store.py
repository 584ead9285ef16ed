"""Model files of faces: what was learnt comes back, and what is damaged is refused."""

import json
import zipfile

import numpy as np
import pytest
from helpers import SHAPE, rows

from visionnmf import NMF
from visionnmf.apps.faces import FaceModel, FaceRecognizer, load, save
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError, UnsupportedError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.mark.parametrize("rule", ["residual", "whitened", "codes", "pseudo-inverse"])
def test_a_saved_model_says_the_same(faces, tmp_path, rule):
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(rule=rule, image_shape=SHAPE, random_state=0).fit(rows(faces.images), names)
    save(FaceModel(recognizer, detect=True), tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.detect
    assert np.allclose(again.recognizer.distances(rows(faces.images)), recognizer.distances(rows(faces.images)), 1e-4)
    assert again.recognizer.identify(rows(faces.images[:3])) == recognizer.identify(rows(faces.images[:3]))


def test_what_a_new_fit_needs_comes_back(faces, tmp_path):
    """Also an own model's parameters; files of before had none of it."""
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(
        NMF(9, loss="huber", max_iter=40, random_state=1), image_shape=SHAPE, missing="saturated", outliers=2.0
    )
    recognizer.fit(rows(faces.images), names).save(tmp_path / "m.npz")
    again = FaceRecognizer.load(tmp_path / "m.npz")
    assert repr(again) == repr(recognizer) and again.get_params().keys() == recognizer.get_params().keys()
    rewritten(tmp_path / "m.npz", header=lambda header: header.pop("given"))
    assert FaceRecognizer.load(tmp_path / "m.npz").missing == recognizer.missing_
    rewritten(tmp_path / "m.npz", header=lambda header: header.update(given={"random_state": "now"}))
    with pytest.raises(UnreadableError):
        FaceRecognizer.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"image_shape": [200000, 200000]},
        {"rule": "codes"},
        {"n_components": 10**9},
        {"n_components": True},
        {"n_components": 0},
        {"random_state": -1},
        {"random_state": True},
        {"random_state": 2**32},
        {"outliers": [1]},
        {"outliers": 10**400},
        {"outliers": -1.0},
        {"missing": ["none"]},
        {"model": 1},
    ],
)
def test_parameters_of_a_file_undo_no_check(model, change):
    changed = rewritten(model[0], header=lambda header: header["given"].update(change))
    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(changed)


@pytest.mark.parametrize("given", [None, {}, [], "all", {"missing": "none"}])
def test_the_parameters_of_a_file_are_all_there(model, given):
    with pytest.raises(UnreadableError, match="its parameters cannot be"):
        load(rewritten(model[0], header=lambda header: header.update(given=given)))


def test_parameters_that_nothing_used_do_not_keep_a_model_from_its_file(faces, tmp_path):
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(NMF(4, max_iter=5, tol=0, random_state=0), image_shape=SHAPE, n_components=10**9)
    recognizer.set_params(random_state=-1, outliers=3).fit(rows(faces.images), names).save(tmp_path / "m.npz")
    assert FaceRecognizer.load(tmp_path / "m.npz").random_state is None


def test_a_model_is_not_overwritten_unasked(model):
    with pytest.raises(OutputExistsError, match="force=True"):
        save(FaceModel(model[1]), model[0])


def test_only_named_people_and_known_shapes_are_saved(faces, tmp_path):
    recognizer = FaceRecognizer(random_state=0).fit(rows(faces.images), faces.labels)
    with pytest.raises(ParameterError, match="recognizer must have named people, an image_shape"):
        save(FaceModel(recognizer), tmp_path / "m.npz")


def rewritten(path, **changes):
    """Change arrays of a model, or its header through a function."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    for name, change in changes.items():
        if name == "header":
            change(header)
        else:
            arrays[name] = change(arrays[name])
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"model.components_": lambda a: a[:, 1:]},
        {"model.components_": lambda a: -a},
        {"model.components_": lambda a: a * np.nan},
        {"people": lambda a: a * 0},
        {"people": lambda a: a + 1},
        {"model.component_norms_": lambda a: a * 0},
        {"cleaned": lambda a: a[:-1]},
        {"header": lambda h: h.update(names=h["names"][:-1])},
        {"header": lambda h: h.update(names=h["names"][::-1])},
        {"header": lambda h: h.update(names=[*h["names"][:-1], "z" * 8_000_000])},  # of an array all are as long
        {"header": lambda h: h["numbers"].update(threshold_="infinity")},
        {"header": lambda h: h.update(noise=[[0, 0], [1, 1]])},
        {"header": lambda h: h.update(noise=[[0, 0, 0, 0], [1, 1, 1, float("inf")]])},
        {"header": lambda h: h["parameters"].update(rule="svm")},
        {"header": lambda h: h.update(image_shape=[1, 1])},
        {"header": lambda h: h.pop("model")},
        {"header": lambda h: h["model"].update({"class": "ProjectiveNMF", "parameters": {}})},
        {"header": lambda h: h["model"]["fitted"].update(ridge_=-1.0)},
        {"header": lambda h: h["model"]["fitted"].pop("solver_")},
    ],
)
def test_a_damaged_model_is_refused(model, changes):
    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(rewritten(model[0], **changes))


def test_other_files_are_refused(model, tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(tmp_path / "text.npz")
    with pytest.raises(UnsupportedError, match="written by a later version"):
        load(rewritten(model[0], header=lambda h: h.update(version=5)))
    with pytest.raises(UnsupportedError, match="written by an earlier version of visionnmf; train it again"):
        load(rewritten(model[0], header=lambda h: h.update(version=1)))
    with pytest.raises(UnreadableError, match="not a model of faces; make one with"):
        load(rewritten(model[0], header=lambda h: h.update(format="other")))


def test_compressed_models_are_refused(model, tmp_path):
    packed = tmp_path / "packed.npz"
    with zipfile.ZipFile(model[0]) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(UnreadableError, match="it is compressed"):
        load(packed)
