"""The tree against its definition, the kernel that makes it against loops, and what comes with the package."""

import numpy as np
import pytest

from visionnmf.apps.segmentation import cues, hierarchy, kernels, regions
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.network import load_network
from visionnmf.apps.segmentation.regions import load_border_model, merge_regions
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return make_mosaic(90, 120, n_segments=6, noise=0.1, random_state=5).image.astype(np.float32) / 255


@pytest.fixture(scope="module")
def partition(image: np.ndarray) -> regions.Partition:
    found = cues.find_cues(image, load_network())
    return regions.measure(found, regions.find_regions(found.energy))


@pytest.fixture(scope="module")
def tree(partition: regions.Partition) -> Hierarchy:
    merged = merge_regions(partition, load_border_model())
    return Hierarchy(partition.labels, partition.edges, merged.children, merged.heights, merged.strengths)


@pytest.mark.parametrize("masked", [False, True])
def test_a_mask_is_left_out_of_all_sums(image: np.ndarray, masked: bool) -> None:
    found = cues.find_cues(image, load_network())
    inside = np.hypot(*(np.indices(image.shape[:2]) - np.array([[[45]], [[60]]]))) < 40 if masked else None
    labels = regions.find_regions(found.energy, inside)
    np.testing.assert_array_equal(labels < 0, np.zeros(labels.shape, bool) if inside is None else ~inside)
    partition = regions.measure(found, labels)
    assert len(partition.regions) == labels.max() + 1
    around = np.pad(labels, 1, constant_values=-1)
    for region, sums in enumerate(partition.regions):
        own = labels == region
        sides = np.pad(own, 1)
        outer = sum(np.count_nonzero(sides & (np.roll(around, step, axis) < 0)) for step in (-1, 1) for axis in (0, 1))
        assert sums[kernels.SIZE] == own.sum() and sums[kernels.FRAME] == outer
        assert sums[kernels.ENERGY] == pytest.approx(found.energy[own].sum(dtype=float))
        np.testing.assert_allclose(sums[kernels.LAB : kernels.LAB + 3], found.lab[own].sum(axis=0, dtype=float))
        assert sums[kernels.HISTOGRAMS : kernels.BOUNDARY].sum() == pytest.approx(3 * own.sum())
        assert sums[kernels.BOUNDARY] == pytest.approx(found.boundary[own].sum(dtype=float))
        np.testing.assert_allclose(sums[kernels.VECTOR :], found.vectors[own].sum(axis=0, dtype=float), rtol=1e-4)
    pairs = {
        tuple(sorted(pair))
        for a, b in ((labels[1:], labels[:-1]), (labels[:, 1:], labels[:, :-1]))
        for pair in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        if pair[0] != pair[1]
    }
    assert sorted(pair for pair in pairs if pair[0] >= 0) == [tuple(edge) for edge in partition.edges.tolist()]


def test_the_tree_is_ultrametric_and_nested(tree: Hierarchy) -> None:
    assert (np.diff(tree.heights) >= 0).all()
    n = tree.n_regions
    assert n > 20
    met = np.full((n, n), np.inf)
    np.fill_diagonal(met, 0)
    for count in range(n - 1, 0, -1):
        cut = tree.cut(n_segments=count)
        assert cut.max() == count - 1
        together = cut[:, np.newaxis] == cut
        assert together[np.isfinite(met)].all()  # what has met stays together
        met[together & np.isinf(met)] = tree.heights[n - count - 1]
    for middle in range(n):
        assert (met <= np.maximum(met[:, middle, np.newaxis], met[middle])).all()
    np.testing.assert_array_equal(tree.heights[tree.find_merges(tree.edges)], met[tuple(tree.edges.T)])


def test_a_scale_does_all_merges_up_to_it_and_the_boundary_map_shows_them(tree):
    for scale in (0, 0.1, float(tree.heights[7]), 0.9, 1):
        count = tree.n_regions - (tree.heights <= scale).sum()
        np.testing.assert_array_equal(tree.cut(scale=scale), tree.cut(n_segments=int(count)))
    assert tree.cut(n_segments=10**6).max() == tree.n_regions - 1
    drawn = tree.boundary_map()
    for scale in (0.05, 0.3):
        labels = tree.cut(scale=scale)[tree.labels]
        border = np.zeros(labels.shape, bool)
        border[:, :-1] |= labels[:, 1:] != labels[:, :-1]
        border[:-1] |= labels[1:] != labels[:-1]
        np.testing.assert_array_equal(drawn > np.float32(scale), border)


@pytest.mark.parametrize("arguments", [{}, {"n_segments": 2, "scale": 0.5}])
def test_one_of_number_and_scale_is_needed(tree: Hierarchy, arguments: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match="one of n_segments and scale must be given, and not both"):
        tree.cut(**arguments)


# --- first regions and sums ------------------------------------------------------------------------------------------


def test_first_regions_are_pieces_with_the_sums_of_their_pixels(partition, image):
    from skimage.measure import label

    n = len(partition.regions)
    assert label(partition.labels, connectivity=1, background=-1).max() == n
    found = cues.find_cues(image, load_network())
    k = len(partition.regions) // 2
    inside = partition.labels == k
    sums = partition.regions[k]
    shares = list(cues.soft_bins(found.lab[..., 0], cues.L_BINS))
    np.testing.assert_allclose(sums[kernels.HISTOGRAMS :][:10], [s[inside].sum() for s in shares], atol=1e-2)
    # a border is as long as the sides between its two regions
    i, j = partition.edges[0]
    labels = partition.labels
    length = sum(
        ((a == i) & (b == j)).sum() + ((a == j) & (b == i)).sum()
        for a, b in ((labels[:, 1:], labels[:, :-1]), (labels[1:], labels[:-1]))
    )
    assert partition.borders[0, 0] == length


def test_cues_are_strong_across_a_border_and_weak_along_it() -> None:
    image = np.zeros((60, 80, 3), np.float32)
    image[:, 40:] = 0.7
    found = cues.find_cues(image, load_network())
    for name, (xx, yy, _) in zip(kernels.CUES, found.tensors, strict=True):
        if not name.startswith("ab"):
            assert xx[30, 39:41].mean() > 20 * yy[30, 39:41].mean() + 0.01, name
    turned = cues.find_cues(np.ascontiguousarray(image.swapaxes(0, 1)), load_network())
    # but for the network, which was trained on photographs, where the world is not the same along x and y
    energies = [
        each.energy - cues.BOUNDARY_WEIGHT * np.maximum(each.boundary - cues.LEAST, 0) for each in (found, turned)
    ]
    np.testing.assert_allclose(energies[1].T, energies[0], atol=1e-5 * energies[0].max())


# --- merging --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_merging_takes_the_weakest_border_and_judges_anew(partition: regions.Partition) -> None:
    """The kernel against dictionaries: regions as sums, borders as sums, all judged again before every merge."""
    learnt = load_border_model()
    merged = merge_regions(partition, learnt, n_recorded=100_000)
    judged = {tuple(sorted(pair)): row for pair, row in zip(merged.pairs.tolist(), merged.features, strict=True)}
    n = len(partition.regions)
    sums = dict(enumerate(partition.regions))
    sides = {tuple(edge): border for edge, border in zip(partition.edges.tolist(), partition.borders, strict=True)}
    total = partition.regions[:, kernels.SIZE].sum()
    at = kernels.FEATURES.index
    highest = 0.0
    for step, (i, j) in enumerate(merged.children.tolist()):
        costs = {}
        for pair, border in sides.items():
            row = judged[pair]
            small, large = sorted((sums[pair[0]], sums[pair[1]]), key=lambda s: s[kernels.SIZE])
            assert row[at("mean energy")] == pytest.approx(border[1] / border[0])
            assert row[at("log share of the smaller")] == pytest.approx(np.log(small[kernels.SIZE] / total))
            means = [s[kernels.LAB : kernels.LAB + 3] / s[kernels.SIZE] for s in (small, large)]
            assert row[at("colour difference")] == pytest.approx(np.linalg.norm(means[0] - means[1]))
            strength = min(max(learnt.base + kernels.predict(row, learnt.trees), 0), 1)
            costs[pair] = strength * (small[kernels.SIZE] / total) ** 0.15
        least = min(costs.values())
        pair = tuple(sorted((i, j)))
        assert costs[pair] == pytest.approx(least)
        highest = max(highest, costs[pair])
        assert merged.heights[step] == pytest.approx(highest)
        sums[n + step] = sums.pop(i) + sums.pop(j)
        del sides[pair]
        for (a, b), border in list(sides.items()):
            if {a, b} & {i, j}:
                del sides[a, b]
                other = ({a, b} - {i, j}).pop()
                sides[other, n + step] = sides.get((other, n + step), 0) + border
    assert len(sums) == 1


def test_region_adjacency_lists_each_touching_pair() -> None:
    labels = np.array([[0, 0, 2], [1, 1, 2], [1, 3, 3]])
    np.testing.assert_array_equal(hierarchy.region_adjacency(labels), [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]])
    assert hierarchy.region_adjacency(np.zeros((1, 1), int)).shape == (0, 2)


def test_without_empty_regions_the_others_meet_where_they_met() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        n = int(rng.integers(3, 12))
        nodes, children = list(range(n)), []
        for merge in range(n - 1):
            pair = sorted(rng.choice(nodes, 2, replace=False).tolist())
            nodes = [node for node in nodes if node not in pair] + [n + merge]
            children.append(pair)
        heights = np.sort(rng.random(n - 1))
        kept = np.flatnonzero(rng.random(n) < 0.6)
        kept = kept if len(kept) else np.array([n - 1])
        edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
        tree = Hierarchy(kept[None].astype(np.int32), edges, np.array(children), heights, np.arange(len(edges)) / n**2)
        found = tree.without_empty()
        assert found.n_regions == len(kept) and (found.sizes == 1).all()
        np.testing.assert_array_equal(found.labels, np.arange(len(kept))[None])
        pairs = np.array([(i, j) for i in range(len(kept)) for j in range(i + 1, len(kept))], int).reshape(-1, 2)
        wanted = heights[tree.find_merges(kept[pairs])]
        np.testing.assert_array_equal(found.heights[found.find_merges(pairs)], wanted)
        np.testing.assert_array_equal(found.edges, pairs)
