"""Boundaries and their matching against full assignments, and scores by hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist


@pytest.fixture
def boundaries(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    import _boundaries

    return _boundaries


def test_boundaries_are_one_pixel_wide_and_match_within_the_tolerance(boundaries):
    labels = np.zeros((20, 30), int)
    labels[:, 15:] = 4
    np.testing.assert_array_equal(np.argwhere(boundaries.label_boundaries(labels))[:, 1], 14)
    truth = np.zeros((300, 400), bool)
    truth[:, 200] = True  # tolerance: .0075 of 500 pixels
    for shift, share in ((0, 1), (3, 1), (4, 0)):
        found, matched = boundaries.match_boundaries(np.roll(truth, shift, 1), truth)
        assert found.sum() == matched.sum() == share * truth.sum()
    # one pixel has one partner
    truth = np.zeros((100, 100), bool)
    truth[50, 50] = True
    found = np.zeros_like(truth)
    found[49:52, 50] = True
    ours, theirs = boundaries.match_boundaries(found, truth, tolerance=0.02)
    assert ours[50, 50]  # the nearest
    assert ours.sum() == theirs.sum() == 1


def test_matching_is_the_cheapest(boundaries, rng):
    for _ in range(10):
        found, truth = rng.random((2, 30, 40)) < 0.05
        tolerance = 0.06
        ours, theirs = boundaries.match_boundaries(found, truth, tolerance=tolerance)
        radius = tolerance * 50
        distances = cdist(np.argwhere(truth), np.argwhere(found))
        cost = np.where(distances <= radius, distances, 100 * radius)
        rows, columns = linear_sum_assignment(cost)
        pairs = (cost[rows, columns] <= radius).sum()
        assert ours.sum() == theirs.sum() == pairs
    assert boundaries.match_boundaries(found, np.zeros_like(truth))[0].sum() == 0
    assert boundaries.match_boundaries(np.zeros_like(found), truth)[0].sum() == 0


def test_scores_by_hand(boundaries):
    # annotators: one column, and another one; found: the first, at a finer scale also a false one
    first, second, false = (np.zeros((100, 100), bool) for _ in range(3))
    first[:, 20] = second[:, 80] = false[:, 50] = True
    counts = [boundaries.count_matches(found, [first, second]) for found in (first | false, first)]
    assert counts == [[100, 200, 100, 200], [100, 200, 100, 100]]
    scores = boundaries.score_boundaries([counts])
    assert scores.ods == scores.ois == pytest.approx(2 * 1 * 0.5 / 1.5)  # at the second scale
    assert (scores.precision, scores.recall) == (1, 0.5)
    # two pictures, each with its own best scale
    other = [[100, 100, 100, 100], [0, 100, 0, 0]]
    both = boundaries.score_boundaries([counts, other])
    assert both.ods == pytest.approx(2 * (200 / 300) ** 2 / (400 / 300))
    assert both.ois == pytest.approx(2 * 1 * (200 / 300) / (5 / 3))
