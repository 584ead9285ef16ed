"""What newcomers to faces stumbled over."""

import json
import re

import numpy as np
import pytest
from helpers import rows, run_command as run

from visionnmf.apps.faces import FaceRecognizer, load
from visionnmf.exceptions import ParameterError


def test_every_attribute_of_a_fit_is_documented(model):
    text = FaceRecognizer.__doc__
    told = set(re.findall(r"\b[a-z_]+_\b", text[text.index("    Attributes\n") : text.index("    References\n")]))
    for recognizer in (model[1], load(model[0]).recognizer):
        kept = {name for name in vars(recognizer) if name.endswith("_") and not name.startswith("_")}
        assert "missing_scores_" in kept and kept <= told, kept - told


def test_messages_name_what_the_user_typed(tmp_path):
    (tmp_path / "empty").mkdir()
    found = run("faces", "train", tmp_path / "empty", "--model", tmp_path / "m.npz")
    assert found.exit_code == 2 and "DIR must have a sub-folder for each person" in found.stderr
    np.savez(tmp_path / "nobody.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.zeros(4, int))
    assert "source" not in run("faces", "train", tmp_path / "nobody.npz", "--model", tmp_path / "m.npz").stderr


def test_images_that_are_not_rows_are_refused_with_a_cure(model, faces):
    told = r"X must have images as rows; got an array of shape \(24, 16, 16\); make rows of it by reshape\(len\(array\)"
    for step in (
        lambda: FaceRecognizer().fit(faces.images, faces.labels),
        lambda: model[1].predict(faces.images),
        lambda: model[1].add(faces.images, faces.labels),
    ):
        with pytest.raises(ParameterError, match=told):
            step()


def test_what_no_range_says_is_null(model, folder, tmp_path):
    """With 24 images there is no range of noise, so whether an image is as noisy is not known, rather than false."""
    recognizer = model[1]
    assert recognizer.noise_ is None
    (found,) = json.loads(run("faces", "identify", model[0], folder / "person 1" / "0.png", "--json").stdout)["images"]
    assert found["calibrated"] is None
    recognizer.noise_ = np.array([[0.0] * 4, [np.inf] * 4])
    image = rows(np.full((1, 16, 16), 90, np.uint8))
    assert recognizer.identify(image)[0].calibrated is True
    assert recognizer.identify(image, threshold=1)[0].calibrated is False  # the rates are those of another threshold
