"""Methods to compare with: one contract, each better than what its failure would give, none by chance."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from visionnmf.apps.evaluate.background_baselines import METHODS
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow

# F on the made clip below; the masks of a method that sees nothing, or everything, are at 0 and at .09.
FLOORS = {"ours": 0.7, "mahnmf": 0.6, "rpca": 0.6, "godec": 0.65, "median": 0.6, "mog2": 0.3, "knn": 0.35}


@pytest.fixture(scope="module")
def made():
    return make_surveillance(60, 72, 96, illumination=0.1, random_state=1)


def f_measure(masks, truth):
    return 2 * (masks & truth).sum() / (masks.sum() + truth.sum())


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_each_separates(made, method):
    separator = METHODS[method]().fit(iter(made.frames))
    assert separator.n_frames_seen_ == 60
    assert separator.background_.shape == separator.temporal_median_.shape == (72, 96, 3)
    parts = list(separator.apply(iter(made.frames)))
    assert [part.index for part in parts] == list(range(60))
    assert all(part.background.dtype == part.mask.dtype == np.uint8 for part in parts)
    assert {*np.unique([part.mask for part in parts])} <= {0, 255}
    masks = np.stack([part.mask for part in parts]) > 0
    assert f_measure(masks, made.masks) > FLOORS[method]
    assert f_measure(np.ones_like(masks), made.masks) < 0.1
    for part, frame in zip(parts, made.frames, strict=True):
        np.testing.assert_array_equal(part.frame, frame)
    again = np.stack([part.mask for part in separator.apply(made.frames)]) > 0
    np.testing.assert_array_equal(again, masks)  # MOG2 and KNN start again


@pytest.mark.parametrize("method", METHODS)
def test_grey_frames_one_frame_and_frames_of_another_shape(made, method):
    grey = made.frames[:12, ..., 1].copy()
    separator = METHODS[method]().fit(grey)
    assert all(part.background.shape == part.mask.shape == (72, 96) for part in separator.apply(grey))
    with pytest.raises(ParameterError, match="must have the shape of the first learnt"):
        next(separator.apply(made.frames))
    with pytest.raises(NotFittedError):
        next(METHODS[method]().apply(grey))
    with pytest.raises(ParameterError, match="frames must hold at least one frame; got none"):
        METHODS[method]().fit([])
    assert len(list(METHODS[method]().fit(grey[:1]).apply(grey[:1]))) == 1
