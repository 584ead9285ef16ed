"""Images, superpixels and affinities against slow definitions and pictures whose answer is obvious."""

import heapq

import numpy as np
import pytest

from visionnmf.exceptions import ParameterError
from visionnmf.features import (
    check_image,
    diffuse_affinity,
    find_superpixels,
    geodesic_affinity,
    geodesic_distances,
    proximity_affinity,
    reduce_image,
    region_adjacency,
)

# --- images ----------------------------------------------------------------------------------------------------------


def test_grey_and_opaque_alpha_become_rgb(rng: np.random.Generator) -> None:
    colour = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    opaque = np.dstack([colour, np.full((5, 7), 255, np.uint8)])
    np.testing.assert_array_equal(check_image(opaque), colour)
    np.testing.assert_array_equal(check_image(colour[..., 0]), np.repeat(colour[..., :1], 3, axis=2))
    np.testing.assert_array_equal(check_image(colour[..., :1]), np.repeat(colour[..., :1], 3, axis=2))


def test_transparency_is_blended_onto_white() -> None:
    half = np.array([[[0, 100, 200, 128], [9, 9, 9, 0]]], np.uint8)
    opacity = 128 / 255
    expected = [[np.array([0, 100, 200]) / 255 * opacity + 1 - opacity, [1, 1, 1]]]
    np.testing.assert_allclose(check_image(half), expected, atol=1e-6)
    np.testing.assert_allclose(check_image(half / 255.0), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (np.zeros(4), r"must have shape \(height, width\).*got \(4,\)"),
        (np.zeros((4, 4, 2)), r"got \(4, 4, 2\)"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        (np.zeros((4, 4), np.int64), "got int64; convert it"),
        (np.zeros((4, 4), bool), "got bool; convert it"),
        (np.full((4, 4), np.nan), "16 NaN or infinite values; replace them"),
        (np.array([[0.5, np.inf]]), "1 NaN or infinite values"),
        (np.full((4, 4), 255.0), r"must lie in \[0, 1\] where it is float; got values from 255 to 255; divide"),
        (np.full((4, 4), -0.1), "from -0.1 to -0.1"),
    ],
)
def test_unusable_images_are_refused(image: np.ndarray, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        check_image(image)


@pytest.mark.parametrize("shape", [(300, 200), (1, 9000), (9000, 1), (3, 5000), (20, 30)])
def test_reduced_images_fit(shape: tuple[int, int]) -> None:
    reduced = reduce_image(check_image(np.full(shape, 100, np.uint8)), 1000)
    assert reduced.shape[0] * reduced.shape[1] <= 1000
    assert reduced.shape[0] * reduced.shape[1] >= min(0.7 * 1000, shape[0] * shape[1])
    np.testing.assert_allclose(reduced, 100 / 255, rtol=1e-6)
    if min(shape) >= 20:
        assert reduced.shape[0] / reduced.shape[1] == pytest.approx(shape[0] / shape[1], rel=0.1)


def test_sixteen_bits_reduce_like_eight(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    wide = image.astype(np.uint16) * 257
    np.testing.assert_array_equal(reduce_image(image, 10**6), reduce_image(wide, 10**6))
    np.testing.assert_allclose(reduce_image(image, 300), reduce_image(wide, 300), atol=0.5 / 255)


# --- superpixels -----------------------------------------------------------------------------------------------------


def test_superpixels_describe_their_pixels(rng: np.random.Generator) -> None:
    image = np.repeat(np.repeat(rng.random((6, 8, 3), dtype=np.float32), 20, axis=0), 20, axis=1)
    found = find_superpixels(image, 400)
    assert found.sizes.sum() == 120 * 160
    for k in (0, len(found.sizes) - 1):
        rows, columns = np.nonzero(found.labels == k)
        assert found.sizes[k] == len(rows)
        np.testing.assert_allclose(found.centres[k], [rows.mean(), columns.mean()])
    # 48 flat tiles: superpixels do not straddle them
    tiles = np.arange(48).reshape(6, 8).repeat(20, axis=0).repeat(20, axis=1)
    purity = sum(np.bincount(tiles[found.labels == k]).max() for k in range(len(found.sizes))) / tiles.size
    assert purity > 0.95


def test_colours_are_cielab() -> None:
    image = np.zeros((20, 20, 3), np.float32)
    image[:, 10:] = 1
    colours = find_superpixels(image, 40).colours
    np.testing.assert_allclose(sorted(colours[:, 0]), [0, 100], atol=0.5)
    np.testing.assert_allclose(colours[:, 1:], 0, atol=0.5)


def test_flat_areas_are_one_superpixel() -> None:
    image = np.zeros((60, 90, 3), np.float32)
    image[:, 40:] = (0.8, 0.2, 0.1)
    found = find_superpixels(image, 100)
    assert sorted(found.sizes) == [60 * 40, 60 * 50]
    np.testing.assert_array_equal(found.edges, [[0, 1]])


def test_few_pixels_are_their_own_superpixels(rng: np.random.Generator) -> None:
    image = rng.random((4, 5, 3), dtype=np.float32)
    np.testing.assert_array_equal(find_superpixels(image, 20).labels, np.arange(20).reshape(4, 5))


def test_region_adjacency_lists_each_touching_pair() -> None:
    labels = np.array([[0, 0, 2], [1, 1, 2], [1, 3, 3]])
    np.testing.assert_array_equal(region_adjacency(labels), [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]])
    assert region_adjacency(np.zeros((1, 1), int)).shape == (0, 2)


# --- affinities ------------------------------------------------------------------------------------------------------


def slow_shortest_paths(colours: np.ndarray, edges: np.ndarray) -> np.ndarray:
    n = len(colours)
    neighbours: dict[int, list[tuple[int, float]]] = {k: [] for k in range(n)}
    for i, j in edges.tolist():
        step = float(np.sqrt(((colours[i] - colours[j]) ** 2).sum()))
        neighbours[i].append((j, step))
        neighbours[j].append((i, step))
    result = np.full((n, n), np.inf)
    for source in range(n):
        queue = [(0.0, source)]
        while queue:
            length, node = heapq.heappop(queue)
            if length < result[source, node]:
                result[source, node] = length
                for other, step in neighbours[node]:
                    heapq.heappush(queue, (length + step, other))
    return result


def grid_regions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    edges = region_adjacency(np.arange(30).reshape(5, 6))
    colours = 100 * rng.random((30, 3))
    colours[7] = colours[8]  # a step of length 0 is an edge too
    return colours, edges


def test_geodesic_distances_are_shortest_paths(rng: np.random.Generator) -> None:
    colours, edges = grid_regions(rng)
    distances = geodesic_distances(colours, edges)
    np.testing.assert_allclose(distances, slow_shortest_paths(colours, edges), atol=1e-9)
    np.testing.assert_array_equal(distances, distances.T)


def test_geodesic_affinity_scales_with_the_contrast(rng: np.random.Generator) -> None:
    colours, edges = grid_regions(rng)
    sizes = rng.uniform(1, 9, 30)
    distances = geodesic_distances(colours, edges)
    affinity = geodesic_affinity(distances, sizes)
    np.testing.assert_allclose(affinity, geodesic_affinity(distances / 7, sizes))
    np.testing.assert_array_equal(affinity.diagonal(), 1)
    # the scale: the weighted share of pairs closer than it
    pairs = np.triu_indices(30, 1)
    weights = np.outer(sizes, sizes)[pairs]
    closer = weights[affinity[pairs] > np.exp(-1) + 1e-12].sum() / weights.sum()
    assert closer < 0.05 < closer + weights.max() / weights.sum()


def test_diffusion_is_the_power_of_the_random_walk(rng: np.random.Generator) -> None:
    sizes = rng.uniform(1, 9, 8)
    c = sizes / sizes.mean()
    base = rng.random((8, 8))
    affinity = base @ base.T  # positive semidefinite, as a power of any order asks for
    walk = affinity * c / (affinity @ c)[:, np.newaxis]  # row-stochastic: from region to region
    one = diffuse_affinity(affinity, sizes, n_blocks=8)
    degrees = affinity @ c
    np.testing.assert_allclose(one, affinity / np.sqrt(np.outer(degrees, degrees)))
    trace = float(np.trace(np.linalg.matrix_power(walk, 3)))
    three = diffuse_affinity(affinity, sizes, n_blocks=trace)
    # D^(-1/2) (walk kernel) D^(1/2), divided by the sizes of the targets
    expected = np.linalg.matrix_power(walk, 3) * np.sqrt(degrees[:, None] / degrees[None, :]) / c
    np.testing.assert_allclose(three, expected, rtol=1e-4)


def test_diffusion_fills_blocks() -> None:
    # two chains: neighbours only before, whole blocks after
    chain = np.eye(10) + np.eye(10, k=1) + np.eye(10, k=-1)
    affinity = np.kron(np.eye(2), chain) + 1e-4
    filled = diffuse_affinity(affinity, np.ones(20), n_blocks=2.1)
    inside = np.kron(np.eye(2), np.ones((10, 10))) > 0
    assert filled[inside].min() > 5 * filled[~inside].max()


def test_proximity_affinity_is_the_papers_formula(rng: np.random.Generator) -> None:
    features, centres = rng.random((12, 3)), rng.random((12, 2))
    affinity = proximity_affinity(features, centres)
    d_feature = np.linalg.norm(features[:, None] - features[None], axis=2)
    d_place = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    d_feature, d_place = d_feature / d_feature.max(), d_place / d_place.max()
    for i, j in ((0, 1), (3, 7), (5, 5)):
        near = d_place[i, j] <= np.median(d_place)
        value = np.exp(-((d_feature[i, j] / 0.3) ** 2)) * np.exp(-((d_place[i, j] / 0.7) ** 2)) if near else 0
        assert affinity[i, j] == pytest.approx(value)
    assert (affinity == 0).any()
