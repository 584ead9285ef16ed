"""The fits of cross-validation are those of NMF, without what only users of a model read."""

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows

from visionnmf import NMF
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.quick_model import QuickModel
from visionnmf.exceptions import ParameterError
from visionnmf.models import nmf as _nmf


@pytest.mark.parametrize("masked", [False, True])
def test_a_quick_model_has_the_components_and_codes_of_nmf(rng, masked):
    images = rows(made_faces(rng, 4, 5)[0]) / 255
    weights = rng.random(images.shape) < 0.9 if masked else None
    quick = QuickModel(6, 12, 0)
    codes = quick.fit_transform(images, weights)
    model = NMF(6, nuclear=1.0, max_iter=12, tol=0, random_state=0).fit(images, weights=weights)
    norms = np.linalg.norm(quick.components_, axis=1)
    np.testing.assert_allclose(quick.components_ / norms[:, None], model.components_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(quick.transform(images) * norms, model.transform(images), rtol=1e-3, atol=1e-3)
    assert codes.shape == (20, 6)
    # the codes of the last iteration explain the images nearly as well as those of the final components
    left, least = (np.abs(images - found @ quick.components_).mean() for found in (codes, quick.transform(images)))
    assert left < 1.2 * least


def test_a_quick_model_refuses_images_of_which_nothing_counts(rng):
    with pytest.raises(ParameterError, match="weights must not be 0 for all entries"):
        QuickModel(2, 3, 0).fit_transform(rng.random((4, 9)), np.zeros((4, 9)))


@pytest.mark.slow
def test_only_the_model_that_is_kept_is_measured(rng, monkeypatch):
    """The optimality of the fits of cross-validation took a fifth of the time, and nobody read it."""
    measured = []
    true = _nmf.optimality
    monkeypatch.setattr(_nmf, "optimality", lambda *given: measured.append(1) or true(*given))
    images, labels = made_faces(rng, 5, 4)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), labels)
    assert len(measured) == 1 and recognizer.model_.optimality_ > 0
    assert recognizer.threshold_ > 0  # so there were other fits
