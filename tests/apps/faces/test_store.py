"""Model files of faces: what was learnt comes back, and what is damaged is refused."""

from functools import partial

import numpy as np
import pytest
from helpers import SHAPE, rows

from visionnmf.apps.faces import FaceModel, FaceRecognizer, load, save
from visionnmf.exceptions import OutputExistsError, ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands


@pytest.mark.parametrize("rule", ["auto", "residual"])
def test_a_saved_model_says_the_same(faces, tmp_path, rule):
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(rule=rule, image_shape=SHAPE, random_state=0).fit(rows(faces.images), names)
    save(FaceModel(recognizer, detect=True), tmp_path / "m.npz")
    with pytest.raises(OutputExistsError, match="force=True"):
        save(FaceModel(recognizer), tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.detect
    assert np.allclose(again.recognizer.distances(rows(faces.images)), recognizer.distances(rows(faces.images)), 1e-4)
    assert again.recognizer.identify(rows(faces.images[:3])) == recognizer.identify(rows(faces.images[:3]))


def test_what_a_new_fit_needs_comes_back(faces, tmp_path):
    names = np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(n_components=9, image_shape=SHAPE, missing="saturated", outliers=2.0)
    recognizer.fit(rows(faces.images), names).save(tmp_path / "m.npz")
    again = FaceRecognizer.load(tmp_path / "m.npz")
    assert repr(again) == repr(recognizer) and again.get_params().keys() == recognizer.get_params().keys()


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (True, r"must have texts as labels to be saved; got 1; fit it with numpy.asarray\(y\).astype\(str\)$"),
        (False, "must have an image_shape to be saved; got None; give the height and width$"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_the_cure(faces, tmp_path, numbers, sentence):
    labels = faces.labels if numbers else np.array(faces.names)[faces.labels - 1]
    recognizer = FaceRecognizer(random_state=0).fit(rows(faces.images), labels)
    for store in (recognizer.save, partial(save, FaceModel(recognizer))):
        with pytest.raises(ParameterError, match=sentence):
            store(tmp_path / "m.npz")


def test_a_loaded_model_lacks_only_what_the_guide_says(model):
    def attributes(recognizer):
        return {name for name in vars(recognizer) if name.endswith("_") and not name.startswith("_")}

    path, recognizer = model
    read = FaceRecognizer.load(path)
    lacking = attributes(recognizer) - attributes(read)
    assert lacking == {"reconstructions_", "corrupted_", "copies_", "threshold_pixels_"}
    assert read.outliers_scores_ == {} == read.missing_scores_
    assert read.corrupted_rate_ == recognizer.corrupted_rate_
    assert all(f"``{name}``" in load.__doc__ for name in lacking)
