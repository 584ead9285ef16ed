"""Model files of faces: what was learnt comes back, and what is damaged is refused."""

import warnings
from functools import partial

import numpy as np
import pytest
from helpers import SHAPE, rows
from model_files import rewrite
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, ProjectiveNMF
from visionnmf.apps.faces import FaceModel, FaceRecognizer, load, save
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError, UnsupportedError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.mark.parametrize("rule", ["auto", "residual", "occluded", "whitened", "codes", "pseudo-inverse"])
def test_a_saved_model_says_the_same(faces, tmp_path, rule):
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(rule=rule, image_shape=SHAPE, random_state=0).fit(rows(faces.images), names)
    save(FaceModel(recognizer, detect=True), tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.detect
    assert np.allclose(again.recognizer.distances(rows(faces.images)), recognizer.distances(rows(faces.images)), 1e-4)
    assert again.recognizer.identify(rows(faces.images[:3])) == recognizer.identify(rows(faces.images[:3]))


def test_what_a_new_fit_needs_comes_back(faces, tmp_path):
    """Also the parameters of a model of one's own."""
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(
        NMF(9, loss="huber", max_iter=40, tol=0, random_state=1), image_shape=SHAPE, missing="saturated", outliers=2.0
    )
    recognizer.fit(rows(faces.images), names).save(tmp_path / "m.npz")
    again = FaceRecognizer.load(tmp_path / "m.npz")
    assert repr(again) == repr(recognizer) and again.get_params().keys() == recognizer.get_params().keys()


@pytest.mark.parametrize(
    "change",
    [
        {"image_shape": {"tuple": [200000, 200000]}},
        {"image_shape": None},
        {"rule": "svm"},
        {"n_components": True},
        {"n_components": 0},
        {"random_state": True},
        {"random_state": 0.5},
        {"outliers": [1]},
        {"outliers": -1.0},
        {"missing": ["none"]},
        {"model": 1},
        {"evil": 1},
    ],
)
def test_damaged_parameters_are_refused(model, change):
    def give(state, arrays):
        names, values = state["recognizer"]["parameters"]["dict"]
        changed = dict(zip(names, values, strict=True)) | change
        state["recognizer"]["parameters"]["dict"] = [list(changed), list(changed.values())]

    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(rewrite(model[0], give))


def test_a_model_is_not_overwritten_unasked(model):
    with pytest.raises(OutputExistsError, match="force=True"):
        save(FaceModel(model[1]), model[0])


@pytest.mark.parametrize(
    ("options", "numbers", "sentence"),
    [
        (
            {"image_shape": None},
            True,
            r"must have texts as labels to be saved; got 1; fit it with numpy.asarray\(y\).astype\(str\)$",
        ),
        ({"image_shape": None}, False, "must have an image_shape to be saved; got None; give the height and width$"),
        (
            {"image_shape": SHAPE, "model": ProjectiveNMF(3, random_state=0)},
            False,
            r"must have an NMF as its model to be saved; got ProjectiveNMF\(",
        ),
    ],
)
def test_what_cannot_be_saved_is_the_only_thing_that_is_said(faces, tmp_path, options, numbers, sentence):
    labels = faces.labels if numbers else np.array(faces.names)[faces.labels - 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        recognizer = FaceRecognizer(random_state=0, **options).fit(rows(faces.images), labels)
    for store in (recognizer.save, partial(save, FaceModel(recognizer))):
        with pytest.raises(ParameterError, match=sentence):
            store(tmp_path / "m.npz")


def test_a_loaded_model_lacks_only_what_the_guide_says(model):
    def attributes(recognizer):
        return {name for name in vars(recognizer) if name.endswith("_") and not name.startswith("_")}

    path, recognizer = model
    read = FaceRecognizer.load(path)
    lacking = attributes(recognizer) - attributes(read)
    assert lacking == {"reconstructions_", "corrupted_", "threshold_pixels_"}
    assert read.outliers_scores_ == {} == read.missing_scores_
    assert read.corrupted_rate_ == recognizer.corrupted_rate_
    said = load.__doc__ + save.__doc__
    assert all(said.count(f"``{name}``") == 2 for name in lacking)


def fitted(**changed):
    return lambda state, arrays: state["recognizer"]["fitted"].update(changed)


def array(name, change):
    return lambda state, arrays: arrays.update({f"recognizer.{name}": change(arrays[f"recognizer.{name}"])})


@pytest.mark.parametrize(
    "damage",
    [
        array("model_.components_", lambda a: a[:, 1:]),
        array("model_.components_", lambda a: -a),
        array("model_.components_", lambda a: a * np.nan),
        array("model_.component_norms_", lambda a: a * 0),
        array("labels_", lambda a: a * 0),
        array("labels_", lambda a: a + 1),
        array("cleaned_", lambda a: a[:-1]),
        lambda state, arrays: state["recognizer"]["fitted"]["classes_"].pop(),
        lambda state, arrays: state["recognizer"]["fitted"]["classes_"].reverse(),
        lambda state, arrays: state["recognizer"]["fitted"]["classes_"].__setitem__(-1, "z" * 8_000_000),  # all as long
        fitted(threshold_="infinity"),
        fitted(threshold_="inf"),
        fitted(faceless_="nan"),
        fitted(corrupted_rate_=-0.1),
        array("unlike_", lambda a: a[1:]),
        array("unlike_", lambda a: -a),
        array("unlike_", lambda a: a * np.nan),
        fitted(noise_=[[0, 0], [1, 1]]),
        fitted(missing_="evil"),
        lambda state, arrays: state["recognizer"].pop("parameters"),
        lambda state, arrays: state["recognizer"]["fitted"]["model_"].update({"class": "ProjectiveNMF"}),
        lambda state, arrays: state["recognizer"]["fitted"]["model_"]["fitted"].update(ridge_=-1.0),
        lambda state, arrays: state["recognizer"]["fitted"]["model_"]["fitted"].pop("solver_"),
        lambda state, arrays: state.update(detect="yes"),
    ],
)
def test_a_damaged_model_is_refused(model, damage):
    with pytest.raises(UnreadableError, match="damaged, or not a model of faces"):
        load(rewrite(model[0], damage))


def test_other_files_are_refused(model, tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UnreadableError, match=r"not a model of faces, because it is not an \.npz file; make one with"):
        load(tmp_path / "text.npz")
    with pytest.raises(UnsupportedError, match=r"written by an earlier version of visionnmf .*; make one with"):
        load(rewrite(model[0], header=lambda h: h.update(version=1)))
    with pytest.raises(UnreadableError, match="not a model of faces; make one with"):
        load(rewrite(model[0], header=lambda h: h.update(format="other")))
