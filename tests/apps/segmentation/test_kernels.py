"""The kernels against scikit-image, plain loops and graphs whose merges are obvious."""

import numpy as np
import pytest

from visionnmf.apps.segmentation import kernels
from visionnmf.apps.segmentation.regions import watershed


def test_the_watershed_is_that_of_scikit_image(rng: np.random.Generator) -> None:
    from skimage.segmentation import watershed as theirs

    for trial in range(60):
        shape = rng.integers(1, 40, 2)
        values = rng.integers(0, rng.integers(1, 6), shape).astype(np.float32)  # many ties
        markers = np.where(rng.random(shape) < 0.1, rng.integers(1, 9, shape), 0).astype(np.int32)
        inside = None if trial % 2 else rng.random(shape) < 0.8
        np.testing.assert_array_equal(watershed(values, markers, inside), theirs(values, markers, mask=inside))


def slow_tree(row: np.ndarray, trees: kernels.BorderTrees) -> float:
    roots, features, thresholds, children, values = trees
    total = 0.0
    for node in roots:
        while features[node] >= 0:
            node = children[node] + (1 if row[features[node]] > thresholds[node] else 0)
        total += float(values[node])
    return total


def random_trees(rng: np.random.Generator, n_trees: int) -> kernels.BorderTrees:
    """Trees of one inner node, two leaves and one more split below the left leaf."""
    shape = np.array([1, -1, -1, -1, -1], np.int8)
    roots = 5 * np.arange(n_trees)
    features = np.tile(shape, n_trees)
    features[::5] = rng.integers(0, kernels.N_FEATURES, n_trees)
    features[1::5] = rng.integers(0, kernels.N_FEATURES, n_trees)
    children = np.tile([1, 3, 0, 0, 0], n_trees) + np.repeat(roots, 5)
    n = 5 * n_trees
    floats = (rng.random(n).astype(np.float32), (rng.random(n) / n_trees).astype(np.float32))
    return kernels.BorderTrees(roots.astype(np.int32), features, floats[0], children.astype(np.int32), floats[1])


def test_trees_are_followed_to_their_leaves(rng: np.random.Generator) -> None:
    trees = random_trees(rng, 7)
    for row in rng.random((20, kernels.N_FEATURES)):
        assert kernels.predict(row, trees) == pytest.approx(slow_tree(row, trees))


def test_a_chain_is_merged_over_its_weakest_borders(rng: np.random.Generator) -> None:
    n = 6
    regions = np.zeros((2 * n - 1, kernels.N_SUMS))
    regions[:n] = 1 + rng.random((n, kernels.N_SUMS))
    regions[:n, kernels.SIZE] = 10
    ends = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    borders = np.ones((n - 1, 3 + kernels.N_CUES))
    borders[:, 3] = order = rng.permutation(n - 1) / n  # the first cue decides
    perimeters = np.zeros(2 * n - 1)
    perimeters[:n] = 2
    picture = np.array([10.0 * n, 1, 1, 1])
    # one tree: a leaf of 0.1 k where the first cue is at most k / n
    features, thresholds, children, values = [], [], [], []
    for k in range(n - 1):
        features += [0, -1]
        thresholds += [k / n, 0]
        children += [2 * k + 1, 0]
        values += [0, 0.1 * k]
    features, thresholds, children, values = [*features, -1], [*thresholds, 0], [*children, 0], [*values, 0.9]
    trees = kernels.BorderTrees(
        np.zeros(1, np.int32),
        np.array(features, np.int8),
        np.array(thresholds, np.float32) + np.float32(1e-3),
        np.array(children, np.int32),
        np.array(values, np.float32),
    )
    record, pairs = np.empty((100, kernels.N_FEATURES)), np.empty((100, 2), np.int64)
    total = regions[:n].sum(axis=0)
    graph = kernels.RegionGraph(regions, perimeters, ends.copy(), borders, picture)
    children_of, costs, n_merges, n_used, strengths = kernels.merge(graph, trees, 0.0, 0.0, record, pairs)
    assert n_merges == n - 1
    np.testing.assert_allclose(strengths, 0.1 * order * n, atol=1e-6)
    np.testing.assert_allclose(costs, np.sort(strengths))
    group = np.arange(n)
    nodes = dict(enumerate(range(n)))
    for step, border in enumerate(np.argsort(order)):
        joined = {nodes[group[border]], nodes[group[border + 1]]}
        assert set(children_of[step].tolist()) == joined
        group[group == group[border + 1]] = group[border]
        nodes[group[border]] = n + step
    np.testing.assert_allclose(graph.regions[-1], total)
    np.testing.assert_array_equal(pairs[: n - 1], ends)
    assert n_used > n - 1
