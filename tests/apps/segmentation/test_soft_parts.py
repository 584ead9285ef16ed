"""Soft parts: memberships, and that connection follows weak borders."""

import numpy as np
import pytest

from visionnmf.apps.segmentation import segment
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.scores import covering
from visionnmf.apps.segmentation.soft_parts import connection
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError


def test_connection_goes_over_the_weakest_borders() -> None:
    # three regions in a row, and a fourth beside the middle one
    edges = np.array([[0, 1], [1, 2], [1, 3], [2, 3]])
    strengths = np.array([0.1, 0.6, 0.2, 0.3])
    tree = Hierarchy(np.zeros((1, 4), np.int32), edges, np.zeros((3, 2), np.int64), np.zeros(3), strengths)
    found = -np.log(connection(tree, np.arange(4))) * 0.4**2
    expected = np.array([[0, 0.01, 0.14, 0.05], [0.01, 0, 0.13, 0.04], [0.14, 0.13, 0, 0.09], [0.05, 0.04, 0.09, 0]])
    np.testing.assert_allclose(found, expected**2, atol=1e-12)


@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_parts_are_memberships_that_find_the_segments(loss: str) -> None:
    mosaic = make_mosaic(120, 160, n_segments=4, random_state=3)
    parts = segment(mosaic.image).parts(4, loss=loss)
    assert parts.shape == (4, 120, 160)
    assert parts.min() >= 0
    np.testing.assert_allclose(parts.sum(axis=0), 1, atol=1e-5)
    assert (np.diff(parts.sum(axis=(1, 2))) <= 1e-2).all()
    assert covering(parts.argmax(axis=0), [mosaic.labels]) > 0.7  # the whole image: .3


def test_more_parts_than_regions_and_refusals() -> None:
    result = segment(np.zeros((20, 30), np.uint8))
    parts = result.parts(3)
    np.testing.assert_array_equal(parts[0], 1)
    assert not parts[1:].any()
    with pytest.raises(ParameterError, match="n_components must be a whole number >= 1; got 0"):
        result.parts(0)
