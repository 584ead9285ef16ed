"""A person's hand: markers against a slow forest, and what they must keep."""

import csv
import heapq
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.segmentation import (
    Outputs,
    SegmentationResult,
    WantedSegments,
    process_image,
    segment,
    to_coco,
    to_csv,
)
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.markers import cut_at_markers
from visionnmf.apps.segmentation.process import read_markers
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError, UnsupportedError

MOSAIC = make_mosaic(60, 90, n_segments=5, noise=0.2, random_state=3)


@pytest.fixture(scope="module")
def result() -> SegmentationResult:
    return segment(MOSAIC.image, 5)


def random_tree(rng: np.random.Generator, n: int) -> Hierarchy:
    """A tree over a chain of regions with some more edges, merged in random order along edges."""
    edges = {(i, i + 1) for i in range(n - 1)} | {tuple(sorted(rng.choice(n, 2, replace=False))) for _ in range(n)}
    pairs = np.array(sorted(edges))
    node = list(range(n))
    children = []
    for i, j in rng.permutation(pairs).tolist():
        if node[i] != node[j]:
            children.append((node[i], node[j]))
            node = [n + len(children) - 1 if k in children[-1] else k for k in node]
    heights, strengths = np.sort(rng.random(n - 1)), rng.permutation(len(pairs)) / len(pairs)
    return Hierarchy(np.arange(n, dtype=np.int32)[np.newaxis], pairs, np.array(children), heights, strengths)


def slow_forest(tree: Hierarchy, markers: np.ndarray) -> list[int]:
    """Grow from all markers at once, always over the weakest border: Prim's algorithm."""
    merges = tree.find_merges(tree.edges)
    found = markers.tolist()
    border: list[tuple[int, float, int, int]] = []

    def reach(region: int) -> None:
        for (i, j), merge, strength in zip(tree.edges.tolist(), merges.tolist(), tree.strengths.tolist(), strict=True):
            if region in (i, j):
                heapq.heappush(border, (merge, strength, found[region], i + j - region))

    for region in np.flatnonzero(markers >= 0).tolist():
        reach(region)
    while border:
        *_, marker, region = heapq.heappop(border)
        if found[region] < 0:
            found[region] = marker
            reach(region)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_regions_go_to_the_marker_that_a_slow_forest_gives_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(3, 14)))
    markers = np.full(tree.n_regions, -1)
    marked = rng.choice(tree.n_regions, int(rng.integers(1, tree.n_regions)), replace=False)
    markers[marked] = np.unique(rng.integers(0, 3, len(marked)), return_inverse=True)[1]
    cut, height = cut_at_markers(tree, markers)
    assert cut.tolist() == slow_forest(tree, markers)
    assert height in (0, *tree.heights)


def test_without_a_conflict_the_tree_is_cut_as_ever(result: SegmentationResult) -> None:
    tree = result.hierarchy
    for n_merges in (0, 3, tree.n_regions - 2):
        markers = np.full(tree.n_regions, -1)
        markers[0] = 0
        cut, height = cut_at_markers(tree, markers, n_merges)
        expected = tree.cut(n_segments=tree.n_regions - n_merges)
        assert len(np.unique(np.stack([cut, expected]), axis=1).T) == len(np.unique(cut)) == len(np.unique(expected))
        assert height == (tree.heights[n_merges - 1] if n_merges else 0)


def write(path: Path, picture: np.ndarray) -> Path:
    path.write_bytes(cv2.imencode(path.suffix, picture)[1].tobytes())
    return path


def scribbles(*points: tuple[int, int, int]) -> np.ndarray:
    markers = np.zeros(MOSAIC.labels.shape, np.uint8)
    for row, column, number in points:
        markers[row, column] = number
    return markers


def test_one_marker_in_each_area_gives_the_areas() -> None:
    # a pixel in the middle of each tile is all that a person says
    points = []
    for label in range(5):
        inside = np.pad(MOSAIC.labels == label, 1).astype(np.uint8)
        _, _, _, (x, y) = cv2.minMaxLoc(cv2.distanceTransform(inside, cv2.DIST_L2, 3))
        points.append((y - 1, x - 1, 10 * label + 10))
    found = segment(MOSAIC.image, markers=scribbles(*points))
    assert len(found.sizes) == 5
    assert np.mean(found.labels == MOSAIC.labels) > 0.9  # named after the markers' order


def test_marked_pixels_are_where_their_marker_says(result: SegmentationResult, rng: np.random.Generator) -> None:
    for _ in range(20):
        markers = np.where(rng.random(result.labels.shape) < 0.004, rng.integers(0, 5, result.labels.shape) * 3, 0)
        names = np.unique(markers[markers > 0])
        for options in ({}, {"scale": 0.3}, {"n_segments": 4}):
            cut = result.recut(markers=markers, **options)
            for place, name in enumerate(names):
                assert (cut.labels[markers == name] == place).all()
            assert len(cut.sizes) == len(names) or options
            np.testing.assert_array_equal(np.bincount(cut.labels.ravel()), cut.sizes)
            # what is left has been divided, but is still a tree over the same picture
            assert cut.hierarchy.n_regions >= result.hierarchy.n_regions
            np.testing.assert_array_equal(cut.at(scale=0.5), result.at(scale=0.5))
            np.testing.assert_array_equal(cut.at(n_segments=3), result.at(n_segments=3))
            np.testing.assert_array_equal(
                cut.boundaries > 0, cut.boundaries >= result.boundaries[result.boundaries > 0].min()
            )


def test_segments_are_split_and_joined_and_others_stay(result: SegmentationResult) -> None:
    tree_cut = result.labels
    first, second = (tuple(np.argwhere(tree_cut == label)[0]) for label in (0, 3))
    joined = result.at(n_segments=5, markers=scribbles((*first, 7), (*second, 7)))
    np.testing.assert_array_equal(joined == 0, np.isin(tree_cut, (0, 3)))
    for label in (1, 2, 4):
        assert len(np.unique(joined[tree_cut == label])) == 1
    a, b = np.argwhere(tree_cut == 1)[[0, -1]]
    split = result.at(n_segments=5, markers=scribbles((*a, 1), (*b, 2)))
    np.testing.assert_array_equal(split <= 1, tree_cut == 1)
    assert len(np.unique(split)) == 6


def test_two_markers_in_one_region_divide_it() -> None:
    flat = segment(np.full((40, 60), 90, np.uint8))
    assert flat.hierarchy.n_regions == 1
    markers = np.zeros((40, 60), int)
    markers[20, 5], markers[20, 54] = 1, 2
    found = flat.recut(markers=markers)
    assert found.hierarchy.n_regions == 2
    assert found.sizes.min() > 0.45 * 2400  # nothing to go by but place
    assert found.labels[20, 5] == 0 and found.labels[20, 54] == 1
    assert found.boundaries.max() == 0  # the tree's own border there has no strength
    image = np.full((40, 60), 90, np.uint8)
    image[:, 20:] = 91  # a step too small to be a border
    stepped = segment(image, markers=markers)
    np.testing.assert_array_equal(stepped.labels[:, :18], 0)
    np.testing.assert_array_equal(stepped.labels[:, 22:], 1)


def test_markers_with_a_mask_and_islands_and_on_one_pixel():
    mask = np.zeros(MOSAIC.labels.shape, bool)
    mask[5:50, 5:40] = mask[5:50, 50:85] = True
    result = segment(MOSAIC.image, mask=mask)
    found = result.recut(markers=scribbles((10, 10, 1), (40, 35, 2), (0, 0, 1)))
    assert len(found.sizes) == 2 and found.sizes.sum() == mask.sum()
    assert len(np.unique(found.labels[5:50, 50:85])) == 1  # no marker in it: it goes where it merges
    with pytest.raises(ParameterError, match="markers must lie inside the mask; got 3 outside alone"):
        result.at(markers=scribbles((10, 10, 1), (0, 0, 3)))
    found = segment(np.zeros((1, 1), np.uint8), markers=[[4]])
    assert found.labels.tolist() == [[0]]


@pytest.mark.parametrize(
    ("markers", "sentence"),
    [
        (np.zeros((5, 5), int), r"markers must have the image's shape \(60, 90\); got \(5, 5\)"),
        (np.zeros((60, 90), int), "markers must have from 1 to 1000 different values beside 0; got 0"),
        (np.arange(5400).reshape(60, 90), "from 1 to 1000 different values beside 0; got 5399"),
        (np.full((60, 90), -1), "markers must be whole numbers >= 0, 0 where nothing is marked; got -1"),
        (np.full((60, 90), 1.0), "got dtype float64"),
        ([["a"]], "markers must"),
    ],
)
def test_what_is_no_marker_is_refused(result: SegmentationResult, markers: object, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        result.at(markers=markers)
    with pytest.raises(ParameterError, match=sentence):
        segment(MOSAIC.image, markers=markers)


# --- files -----------------------------------------------------------------------------------------------------------


def test_scribbles_are_read_from_any_ground(tmp_path: Path) -> None:
    expected = np.zeros((30, 40), int)
    expected[5:8, 3:30], expected[20, 10:20] = 2, 1
    blue_first = {0: (255, 255, 255), 1: (0, 255, 0), 2: (0, 0, 255)}  # green comes before red: less red in it
    picture = np.array([blue_first[k] for k in range(3)], np.uint8)[expected]
    found = read_markers(write(tmp_path / "white.png", picture))
    np.testing.assert_array_equal(found.numbers, expected)
    assert found.names == ["#00ff00", "#ff0000"] and found.colours.tolist() == [[0, 255, 0], [255, 0, 0]]
    clear = np.dstack([picture, np.where(expected > 0, 255, 0).astype(np.uint8)])
    clear[expected == 0, :3] = 0
    np.testing.assert_array_equal(read_markers(write(tmp_path / "clear.png", clear)).numbers, expected)
    labels = read_markers(write(tmp_path / "labels.png", expected.astype(np.uint16)))
    np.testing.assert_array_equal(labels.numbers, expected)
    assert labels.colours is None and labels.names == ["label 1", "label 2"]  # alike in 8 bits
    mostly = np.where(expected > 0, 0, expected + 2).astype(np.uint16)
    mostly[expected > 1] = 65535  # what no scribble is in labels, though less frequent than two markers
    labels = read_markers(write(tmp_path / "mostly.png", mostly))
    np.testing.assert_array_equal(labels.numbers, np.choose(expected, [2, 1, 0]))
    assert labels.names == ["label 1", "label 3"]  # as napari shows 0 and 2
    deep = np.where(expected[..., None] > 0, expected[..., None] + np.uint16([0, 1, 2]), 65535).astype(np.uint16)
    assert read_markers(write(tmp_path / "deep.png", deep)).names == ["(3, 2, 1)", "(4, 3, 2)"]
    with pytest.raises(UnsupportedError, match=r"flat\.png: 1 different colour; markers are 1 to 100 colours"):
        read_markers(write(tmp_path / "flat.png", np.zeros((9, 9), np.uint8)))
    noise = np.random.default_rng(0).integers(0, 255, (30, 30, 3), np.uint8)
    with pytest.raises(UnsupportedError, match=r"different colours; .* on an empty layer, not on a copy of the image"):
        read_markers(write(tmp_path / "noise.png", noise))


def test_segments_have_the_colours_that_were_drawn(tmp_path: Path, result: SegmentationResult) -> None:
    photo = write(tmp_path / "photo.png", MOSAIC.image[..., ::-1])
    layer = np.full((*MOSAIC.labels.shape, 3), 255, np.uint8)
    first, second, third = (np.argwhere(result.labels == label)[5] for label in (0, 3, 1))
    colours = {"#ff1a1a": first, "#0000ff": third}  # the first is one that would be given to a segment anyway
    for name, place in (*colours.items(), ("#ff1a1a", second)):
        layer[tuple(place)] = list(bytes.fromhex(name[1:]))
    lines = write(tmp_path / "lines.png", layer[..., ::-1])
    wanted = WantedSegments(n_segments=5, markers=lines)
    report = process_image(photo, wanted=wanted, outputs=Outputs(formats=["svg", "coco", "csv"]), out=tmp_path)
    rows = {row["colour"]: row for row in report.as_dict()["markers"]}
    assert rows["#ff1a1a"]["joined"] == [0, 3] and rows["#0000ff"]["joined"] == []
    labels, segments = (
        cv2.imread(str(tmp_path / f"photo_{name}.png"), cv2.IMREAD_UNCHANGED) for name in ("labels", "segments")
    )
    svg = (tmp_path / "photo_segments.svg").read_text()
    for name, place in colours.items():
        assert labels[tuple(place)] == rows[name]["segment"]
        assert bytes(segments[tuple(place)][::-1]).hex() == name[1:]
        assert f'<path id="segment-{rows[name]["segment"]}" fill="{name}"' in svg
    assert len(np.unique(segments.reshape(-1, 3), axis=0)) == len(report.sizes) == 4
    assert "#ff1a1a joined 2 segments" in str(report)
    coco = json.loads((tmp_path / "photo_coco.json").read_text())
    names = {category["id"]: category["name"] for category in coco["categories"]}
    found = {entry["label"]: names[entry["category_id"]] for entry in coco["annotations"]}
    assert found == {rows[name]["segment"]: name for name in colours} | {2: "segment", 3: "segment"}
    table = csv.DictReader((tmp_path / "photo_segments.csv").read_text().splitlines())
    assert {int(row["label"]): row["marker"] or "segment" for row in table} == found
    assert "marker" not in to_csv(result)
    alone = process_image(photo, wanted=WantedSegments(markers=lines), out=tmp_path / "alone")
    assert [row["joined"] for row in alone.markers] == [[], []] and "markers: #0000ff is segment 0" in str(alone)


def test_categories_of_coco_are_the_labels_that_were_drawn(tmp_path: Path) -> None:
    markers = scribbles((10, 10, 7), (50, 80, 2))
    write(tmp_path / "photo.png", MOSAIC.image[..., ::-1])
    write(tmp_path / "other.png", MOSAIC.image)
    (tmp_path / "lines").mkdir()
    lines = write(tmp_path / "lines" / "lines.png", markers.astype(np.uint16))
    document = to_coco([("a", segment(MOSAIC.image, markers=markers)), ("b", segment(MOSAIC.image, 2))])
    coco = ("segment", "--formats", "coco", "--out", tmp_path / "out")
    assert run_command(*coco, tmp_path / "photo.png", "--markers", lines).exit_code == 0
    written = json.loads((tmp_path / "out" / "photo_coco.json").read_text())
    assert [each["name"] for each in written["categories"]] == ["2", "7"]
    assert [each["name"] for each in document["categories"]] == ["2", "7", "segment"]
    assert [each["category_id"] for each in document["annotations"]] == [1, 2, 3, 3]
    joined = run_command(*coco, tmp_path, "--skip-existing")
    assert joined.exit_code == 1 and not (tmp_path / "out" / "coco.json").exists()  # it was made with markers


@pytest.mark.parametrize(
    "colours", [((0, 0, 255), (255, 0, 0)), ((0, 0, 255), (0, 0, 0)), ((160, 160, 255),), ((0, 0, 0),)]
)
def test_lines_with_smooth_edges_are_refused_and_hard_ones_stay(
    tmp_path: Path, colours: tuple[tuple[int, int, int], ...]
) -> None:
    for kind in (cv2.LINE_AA, cv2.LINE_8):
        layer = np.full((*MOSAIC.labels.shape, 3), 255, np.uint8)
        for number, colour in enumerate(colours):
            cv2.line(layer, (5, 5 + 8 * number), (30, 9 + 8 * number), colour, 1, kind)
        lines = write(tmp_path / "lines.png", layer)
        if kind == cv2.LINE_AA:
            with pytest.raises(UnsupportedError, match=r"are smooth edges of lines, .* draw with a hard pencil"):
                read_markers(lines)
        else:
            markers = read_markers(lines)
            assert len(markers.names) == len(colours)
            assert np.array_equal(markers.numbers > 0, (layer != 255).any(axis=2))


def test_markers_of_shades_and_label_maps_are_no_smooth_edges(tmp_path: Path) -> None:
    numbers = np.zeros(MOSAIC.labels.shape, np.uint8)
    numbers[2:12, 3] = np.arange(10)  # a label map
    assert len(read_markers(write(tmp_path / "numbers.png", numbers)).names) == 9
    shades = np.array([0, 64, 96, 128, 192, 224], np.uint8)  # of red on black, as in palettes of label maps
    areas = np.zeros((60, 60, 3), np.uint8)
    for number, shade in enumerate(shades):
        areas[10 * number : 10 * number + 10, 5:50, 2] = shade
    assert len(read_markers(write(tmp_path / "areas.png", areas)).names) == 5


@pytest.mark.slow
def test_the_command_divides_or_corrects(tmp_path: Path, result: SegmentationResult) -> None:
    photo = write(tmp_path / "photo.png", MOSAIC.image[..., ::-1])
    markers = scribbles((10, 10, 1), (50, 80, 2))
    lines = write(tmp_path / "lines.png", markers)

    def labels(name: str, *options: object) -> np.ndarray:
        found = run_command("segment", photo, "--markers", lines, *options, "--out", tmp_path / name, "--json")
        assert found.exit_code == 0 and json.loads(found.stdout)["state"] == "done"
        return cv2.imread(str(tmp_path / name / "photo_labels.png"), cv2.IMREAD_UNCHANGED)

    default = segment(MOSAIC.image)
    np.testing.assert_array_equal(labels("all"), result.at(markers=markers))
    np.testing.assert_array_equal(
        labels("auto", "--segments", "auto"), default.at(scale=default.scale, markers=markers)
    )
    np.testing.assert_array_equal(labels("five", "--segments", 5), result.at(n_segments=5, markers=markers))
    two = run_command("segment", photo, lines, "--markers", lines, "--out", tmp_path / "two")
    assert two.exit_code == 2 and "markers must be given with one image; got 2 images" in two.stderr
    small = write(tmp_path / "small.png", markers[::2])
    wrong = run_command("segment", photo, "--markers", small, "--out", tmp_path / "wrong")
    assert wrong.exit_code == 2 and "small.png: 90 x 30 pixels, and the image has 90 x 60 pixels" in wrong.stderr
    assert not (tmp_path / "wrong").exists()
