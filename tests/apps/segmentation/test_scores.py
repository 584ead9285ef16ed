"""The scores of regions against their definitions, written out pixel by pixel."""

from itertools import combinations
from math import log2

import numpy as np
import pytest

from visionnmf.apps.segmentation.scores import contingency_table, covering, score_segmentation


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
