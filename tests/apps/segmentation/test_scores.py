"""The scores of regions against their definitions, written out pixel by pixel."""

from itertools import combinations
from math import log2

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from visionnmf.apps.segmentation.scores import (
    contingency_table,
    count_matches,
    covering,
    label_boundaries,
    match_boundaries,
    score_boundaries,
    score_segmentation,
)


def slow_covering(labels: np.ndarray, annotations: list[np.ndarray]) -> float:
    covered, total = 0.0, 0
    for truth in annotations:
        for name in set(truth.ravel().tolist()):
            region = truth == name
            best = max(
                (region & (labels == k)).sum() / (region | (labels == k)).sum() for k in set(labels.ravel().tolist())
            )
            covered += region.sum() * best
        total += truth.size
    return covered / total


def slow_rand(labels: np.ndarray, annotations: list[np.ndarray]) -> float:
    flat = labels.ravel()
    scores = []
    for truth in annotations:
        other = truth.ravel()
        agree = [(flat[i] == flat[j]) == (other[i] == other[j]) for i, j in combinations(range(flat.size), 2)]
        scores.append(np.mean(agree))
    return float(np.mean(scores))


def slow_voi(labels: np.ndarray, annotations: list[np.ndarray]) -> float:
    scores = []
    for truth in annotations:
        pairs = list(zip(labels.ravel().tolist(), truth.ravel().tolist(), strict=True))
        n = len(pairs)
        score = 0.0
        for a, b in set(pairs):
            joint = pairs.count((a, b)) / n
            p, q = sum(x == a for x, _ in pairs) / n, sum(y == b for _, y in pairs) / n
            # H(S|G) + H(G|S)
            score -= joint * (log2(joint / p) + log2(joint / q))
        scores.append(score)
    return float(np.mean(scores))


@pytest.fixture(params=range(4))
def case(request: pytest.FixtureRequest) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(request.param)
    shape = (4 + request.param, 6)
    # gaps and negative names on purpose
    return rng.integers(0, 4, shape) * 7 - 3, [rng.integers(1, 2 + k, shape) for k in range(1, 5)]


def test_scores_equal_their_definitions(case: tuple[np.ndarray, list[np.ndarray]]) -> None:
    labels, annotations = case
    scores = score_segmentation(labels, annotations)
    assert scores.covering == covering(labels, annotations) == pytest.approx(slow_covering(labels, annotations))
    assert scores.pri == pytest.approx(slow_rand(labels, annotations))
    assert scores.voi == pytest.approx(slow_voi(labels, annotations))


def test_scores_of_labels_whose_scores_are_known():
    table = contingency_table(np.array([[5, 5], [9, 9]]), np.array([[0, 1], [1, 1]]))
    np.testing.assert_array_equal(table, [[1, 1], [0, 2]])
    truth = np.repeat(np.arange(3), 4).reshape(3, 4)
    assert score_segmentation((truth + 1) % 3, [truth]) == (1.0, 0.0, 1.0)
    # whole image against two halves: every region is half covered; one bit is lost
    truth = np.repeat([0, 1], 8).reshape(4, 4)
    scores = score_segmentation(np.zeros((4, 4), int), [truth])
    assert scores.covering == pytest.approx(0.5)
    assert scores.voi == pytest.approx(1.0)
    assert scores.pri == pytest.approx(2 * 28 / 120)
    assert score_segmentation(np.zeros((1, 1), int), [np.ones((1, 1), int)]) == (1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="labels must have the shape of the truth"):
        contingency_table(np.zeros((2, 2), int), np.zeros((2, 3), int))
    with pytest.raises(ValueError, match="annotations must hold at least one label map"):
        covering(np.zeros((2, 2), int), [])


# --- boundaries -------------------------------------------------------------------------------------------------------


def test_boundaries_are_one_pixel_wide_and_match_within_the_tolerance():
    labels = np.zeros((20, 30), int)
    labels[:, 15:] = 4
    np.testing.assert_array_equal(np.argwhere(label_boundaries(labels))[:, 1], 14)
    truth = np.zeros((300, 400), bool)
    truth[:, 200] = True  # tolerance: .0075 of 500 pixels
    for shift, share in ((0, 1), (3, 1), (4, 0)):
        found, matched = match_boundaries(np.roll(truth, shift, 1), truth)
        assert found.sum() == matched.sum() == share * truth.sum()
    # one pixel has one partner
    truth = np.zeros((100, 100), bool)
    truth[50, 50] = True
    found = np.zeros_like(truth)
    found[49:52, 50] = True
    ours, theirs = match_boundaries(found, truth, tolerance=0.02)
    assert ours[50, 50]  # the nearest
    assert ours.sum() == theirs.sum() == 1


def test_matching_is_the_cheapest(rng: np.random.Generator) -> None:
    for _ in range(10):
        found, truth = rng.random((2, 30, 40)) < 0.05
        tolerance = 0.06
        ours, theirs = match_boundaries(found, truth, tolerance=tolerance)
        radius = tolerance * 50
        distances = cdist(np.argwhere(truth), np.argwhere(found))
        cost = np.where(distances <= radius, distances, 100 * radius)
        rows, columns = linear_sum_assignment(cost)
        pairs = (cost[rows, columns] <= radius).sum()
        assert ours.sum() == theirs.sum() == pairs
    assert match_boundaries(found, np.zeros_like(truth))[0].sum() == 0
    assert match_boundaries(np.zeros_like(found), truth)[0].sum() == 0


def test_scores_by_hand() -> None:
    # annotators: one column, and another one; found: the first, at a finer scale also a false one
    first, second, false = (np.zeros((100, 100), bool) for _ in range(3))
    first[:, 20] = second[:, 80] = false[:, 50] = True
    counts = [count_matches(found, [first, second]) for found in (first | false, first)]
    assert counts == [[100, 200, 100, 200], [100, 200, 100, 100]]
    scores = score_boundaries([counts])
    assert scores.ods == scores.ois == pytest.approx(2 * 1 * 0.5 / 1.5)  # at the second scale
    assert (scores.precision, scores.recall) == (1, 0.5)
    # two pictures, each with its own best scale
    other = [[100, 100, 100, 100], [0, 100, 0, 0]]
    both = score_boundaries([counts, other])
    assert both.ods == pytest.approx(2 * (200 / 300) ** 2 / (400 / 300))
    assert both.ois == pytest.approx(2 * 1 * (200 / 300) / (5 / 3))
