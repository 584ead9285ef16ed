"""The default model is that of NMF, without what only users of a model read."""

import pickle

import numpy as np
import pytest
from helpers import SHAPE, made_faces, rows

from visionnmf import NMF
from visionnmf.apps.faces import FaceRecognizer
from visionnmf.apps.faces.quick_model import QuickModel
from visionnmf.engine import solving
from visionnmf.exceptions import ParameterError


@pytest.mark.parametrize("masked", [False, True])
def test_a_quick_model_has_the_components_of_nmf_and_nearly_its_codes(rng, masked):
    images = rows(made_faces(rng, 4, 5)[0]) / 255
    weights = rng.random(images.shape) < 0.9 if masked else None
    quick = QuickModel(6, 12, 0)
    codes = quick.fit_transform(images, weights)
    model = NMF(6, nuclear=1.0, max_iter=12, tol=0, random_state=0).fit(images, weights=weights)
    norms = np.linalg.norm(quick.components_, axis=1)
    np.testing.assert_allclose(quick.components_ / norms[:, None], model.components_, rtol=1e-4, atol=1e-5)
    exact = model.transform(images) @ model.components_
    assert np.abs(quick.transform(images) @ quick.components_ - exact).mean() < 0.002
    assert codes.shape == (20, 6)
    # the codes of the last iteration explain the images nearly as well as those of the final components
    left, least = (np.abs(images - found @ quick.components_).mean() for found in (codes, quick.transform(images)))
    assert left < 1.2 * least


def test_its_nmf_has_what_a_fit_of_nmf_leaves(rng):
    """All but the optimality, which is not measured, and the last objective, which is that of the codes kept."""
    images = rows(made_faces(rng, 4, 5)[0]) / 255
    quick = QuickModel(6, 12, 0)
    quick.fit_transform(images)
    found, model = quick.as_nmf(), NMF(6, nuclear=1.0, max_iter=12, tol=0, random_state=0).fit(images)
    assert found.get_params() == model.get_params() and vars(found).keys() == vars(model).keys()
    np.testing.assert_allclose(found.components_, model.components_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.component_norms_, model.component_norms_, rtol=1e-4)
    np.testing.assert_allclose(found.objective_history_[:-1], model.objective_history_[:-1], rtol=1e-5)
    assert found.reconstruction_err_ == pytest.approx(model.reconstruction_err_, rel=0.2)
    assert np.isnan(found.optimality_)
    again = QuickModel.of(found)
    np.testing.assert_allclose(
        again.transform(images) @ again.components_, quick.transform(images) @ quick.components_, atol=0.02
    )


def test_the_codes_of_an_image_do_not_depend_on_the_others_nor_on_earlier_calls(rng):
    images = rows(made_faces(rng, 4, 5)[0]) / 255
    quick = QuickModel(6, 12, 0)
    quick.fit_transform(images)
    together = quick.transform(images)
    assert np.array_equal(together[7:8], quick.transform(images[7:8]))
    assert quick.transform(images[:2].astype(np.float64)).dtype == np.float64
    restored = pickle.loads(pickle.dumps(quick))
    assert not restored._fixed and np.array_equal(restored.transform(images), together)


def test_a_quick_model_refuses_images_of_which_nothing_counts(rng):
    with pytest.raises(ParameterError, match="weights must not be 0 for all entries"):
        QuickModel(2, 3, 0).fit_transform(rng.random((4, 9)), np.zeros((4, 9)))


@pytest.mark.slow
def test_no_model_is_measured(rng, monkeypatch):
    """The optimality took a tenth of the time, and nobody read it."""
    measured = []
    true = solving.optimality
    monkeypatch.setattr(solving, "optimality", lambda *given: measured.append(1) or true(*given))
    NMF(2, random_state=0).fit(rng.random((6, 5)))
    assert measured.pop()  # of a usual fit it is measured
    images, labels = made_faces(rng, 5, 4)
    recognizer = FaceRecognizer(image_shape=SHAPE, random_state=0).fit(rows(images), labels)
    assert not measured and np.isnan(recognizer.model_.optimality_)
    assert recognizer.threshold_ > 0  # so there were other fits
