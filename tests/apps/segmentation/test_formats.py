"""Outlines and the formats of other programs, against independent readers."""

import csv
import dataclasses
import io
import json
import re
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest
from helpers import json_lines, run_command

from visionnmf.apps.segmentation import (
    Outputs,
    SegmentationResult,
    WantedSegments,
    cut_out,
    process_image,
    segment,
    to_coco,
    to_csv,
    to_geojson,
    to_svg,
)
from visionnmf.apps.segmentation.formats import find_outlines, find_simple_outlines
from visionnmf.apps.segmentation.hierarchy import Hierarchy
from visionnmf.apps.segmentation.overlays import colours
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import OutputExistsError, ParameterError
from visionnmf.io import write_image


def result_of(labels: np.ndarray, image: np.ndarray | None = None) -> SegmentationResult:
    """A result with given labels."""
    count = int(labels.max()) + 1
    tree = Hierarchy(
        labels.astype(np.int32), np.zeros((0, 2), int), np.zeros((count - 1, 2), int), np.ones(count - 1), np.zeros(0)
    )
    if image is None:
        image = np.zeros((*labels.shape, 3), np.uint8)
    return SegmentationResult(labels.astype(np.uint8), np.bincount(labels.ravel()), 0.5, tree, image, 0.0)


@pytest.fixture(scope="module")
def result() -> SegmentationResult:
    return segment(make_mosaic(60, 90, n_segments=6, noise=0.3, random_state=4).image, scale=0.1)


def signed_area(ring: np.ndarray) -> float:
    x, y = np.asarray(ring, float).T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def inside(rings: list[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Pixels whose centre is left of an odd number of upright sides, one by one."""
    found = np.zeros(shape, bool)
    for ring in rings:
        for (x, y), (next_x, next_y) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            assert x == next_x or y == next_y  # along pixels
            if x == next_x:
                found[min(y, next_y) : max(y, next_y), :x] ^= True
    return found


def masks() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    ring, pinch = np.ones((3, 3), bool), np.ones((4, 4), bool)
    ring[1, 1] = False
    pinch[1, 1] = pinch[0, 2] = pinch[2, 2] = pinch[3, 3] = False
    random = [rng.random(rng.integers(1, 10, 2)) < share for share in (0.3, 0.5, 0.7, 0.9) for _ in range(40)]
    return [np.ones((1, 1), bool), np.zeros((3, 2), bool), np.ones((1, 5), bool), ring, pinch, *random]


def test_outlines_enclose_exactly_the_mask() -> None:
    for mask in masks():
        polygons = find_outlines(mask)
        assert len(polygons) == cv2.connectedComponents(mask.astype(np.uint8), connectivity=4)[0] - 1
        rings = [ring for polygon in polygons for ring in (polygon.exterior, *polygon.holes)]
        np.testing.assert_array_equal(inside(rings, mask.shape), mask)
        # y is downwards: what is seen as counter-clockwise has a negative area
        assert all(signed_area(p.exterior) < 0 and all(signed_area(hole) > 0 for hole in p.holes) for p in polygons)
        for ring in rings:  # no corner twice, none that is none
            assert len(np.unique(ring, axis=0)) == len(ring)
            assert (np.diff(np.vstack([ring, ring[:1]]), axis=0) != 0).sum(axis=1).tolist() == [1] * len(ring)
            assert not (np.roll(ring, 1, axis=0) == np.roll(ring, -1, axis=0)).any()
        simple = find_simple_outlines(mask)  # without holes
        np.testing.assert_array_equal(inside(simple, mask.shape), mask)
        assert -sum(map(signed_area, simple)) == mask.sum()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools' own
@pytest.mark.parametrize("polygons", [False, True])
def test_pycocotools_reads_what_is_written(result: SegmentationResult, polygons: bool) -> None:
    coco_mask = pytest.importorskip("pycocotools.mask")
    cases = [
        result.labels,
        np.zeros((1, 1), int),
        np.zeros((3, 4), int),
        np.repeat([[0, 1, 1, 2, 0]], 4, axis=0),  # whole columns side by side are one run
        np.repeat([[0], [1], [0]], 5, axis=1),
        np.pad(np.zeros((2, 3), int), 2, constant_values=1),
    ]
    document = json.loads(
        json.dumps(to_coco([(f"{k}.png", result_of(c)) for k, c in enumerate(cases)], polygons=polygons))
    )
    assert [image["file_name"] for image in document["images"]] == [f"{k}.png" for k in range(len(cases))]
    assert [entry["id"] for entry in document["annotations"]] == list(range(1, len(document["annotations"]) + 1))
    for image, labels in zip(document["images"], cases, strict=True):
        assert (image["height"], image["width"]) == labels.shape
        own = [entry for entry in document["annotations"] if entry["image_id"] == image["id"]]
        assert [entry["label"] for entry in own] == list(range(labels.max() + 1))
        for entry in own:
            coded = coco_mask.frPyObjects(entry["segmentation"], *labels.shape)
            coded = coco_mask.merge(coded) if polygons else coded
            np.testing.assert_array_equal(coco_mask.decode(coded), labels == entry["label"])
            assert polygons or coded == coco_mask.encode(np.asfortranarray(labels == entry["label"], np.uint8))
            assert coco_mask.area(coded) == entry["area"]
            assert coco_mask.toBbox(coded).tolist() == entry["bbox"]


def test_results_are_taken_one_by_one(result: SegmentationResult) -> None:
    alive: list[weakref.ref[SegmentationResult]] = []

    def pairs() -> Iterator[tuple[str, SegmentationResult]]:
        for k in range(5):
            assert sum(each() is not None for each in alive) <= 1  # the last one, until the next is there
            made = dataclasses.replace(result)
            alive.append(weakref.ref(made))
            yield f"{k}.png", made
            del made

    once = pairs()
    assert len(to_coco(once)["images"]) == len(alive) == 5
    with pytest.raises(ParameterError, match="pictures must hold at least one picture; got none"):
        to_coco(once)  # a generator that was gone through


def test_geojson_has_the_areas_and_closed_rings(result: SegmentationResult) -> None:
    document = json.loads(json.dumps(to_geojson(result)))
    assert document["type"] == "FeatureCollection"
    for feature, row in zip(document["features"], result.properties(), strict=True):
        geometry = feature["geometry"]
        polygons = [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
        area, rings = 0.0, []
        for exterior, *holes in polygons:
            assert exterior[0] == exterior[-1] and signed_area(exterior[:-1]) > 0  # counter-clockwise: RFC 7946, 3.1.6
            assert all(hole[0] == hole[-1] and signed_area(hole[:-1]) < 0 for hole in holes)
            area += sum(signed_area(ring[:-1]) for ring in (exterior, *holes))
            rings += [np.array(ring[:-1]) * (1, -1) for ring in (exterior, *holes)]
        assert feature["type"] == "Feature" and feature["properties"]["label"] == row["label"]
        assert area == row["area"] == feature["properties"]["area"]
        np.testing.assert_array_equal(inside(rings, result.labels.shape), result.labels == row["label"])


def test_svg_paths_enclose_their_segments(result: SegmentationResult) -> None:
    root = ElementTree.fromstring(to_svg(result))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("viewBox") == "0 0 90 60"
    paths = root.findall(f"{space}g/{space}path")
    assert len(paths) == len(result.sizes)
    for label, path in enumerate(paths):
        assert path.get("id") == f"segment-{label}"
        assert path.get("fill") == "#" + colours(len(paths))[label].tobytes().hex()
        rings = [
            np.array([point.split() for point in ring.removesuffix("Z").split("L")], int)
            for ring in str(path.get("d")).split("M")[1:]
        ]
        np.testing.assert_array_equal(inside(rings, result.labels.shape), result.labels == label)


def test_csv_says_what_properties_say(result: SegmentationResult) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(result))))
    for row, found in zip(rows, result.properties(), strict=True):
        assert (int(row["label"]), int(row["area"])) == (found["label"], found["area"])
        np.testing.assert_allclose([float(row[name]) for name in ("red", "green", "blue")], found["colour"], atol=1e-6)
        np.testing.assert_allclose([float(row["row"]), float(row["column"])], found["centre"], atol=1e-3)
        assert [int(row[name]) for name in ("top", "left", "bottom", "right")] == found["box"]
        assert [int(name) for name in row["neighbours"].split()] == found["neighbours"]
        assert float(row["share"]) == pytest.approx(found["area"] / 5400, abs=1e-6)


@pytest.mark.parametrize("factor", [1, 257])
def test_cutouts_put_back_are_the_picture(result: SegmentationResult, factor: int) -> None:
    picture = result.image.astype(np.uint8 if factor == 1 else np.uint16) * factor
    again = np.zeros_like(picture)
    total = 0
    for row, alone in zip(result.properties(), cut_out(result_of(result.labels, picture)), strict=True):
        top, left, bottom, right = row["box"]
        assert alone.dtype == picture.dtype and alone.shape == (bottom - top, right - left, 4)
        seen = alone[..., 3] > 0
        assert set(np.unique(alone[..., 3])) <= {0, np.iinfo(picture.dtype).max}
        again[top:bottom, left:right][seen] = alone[seen, :3]
        assert not alone[~seen].any()
        total += seen.sum()
    assert total == result.labels.size
    np.testing.assert_array_equal(again, picture)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, result: SegmentationResult) -> Path:
    found = tmp_path / "photographs"
    found.mkdir()
    for name in ("a.png", "b.PNG"):
        (found / name).write_bytes(cv2.imencode(".png", result.image)[1].tobytes())
    (found / "notes.txt").write_text("no picture")
    (found / ".a.png").write_text("a file of the system")
    return found


def test_pictures_of_one_name_in_several_folders_have_their_paths_in_coco(folder: Path, tmp_path: Path) -> None:
    for below in ("x", "y/z"):
        (folder / below).mkdir(parents=True)
        shutil.copy(folder / "a.png", folder / below)
    out = tmp_path / "out"
    assert run_command("segment", folder, "-r", "--segments", 2, "--formats", "coco", "-o", out).exit_code == 0
    joined = json.loads((out / "coco.json").read_text())
    assert [image["file_name"] for image in joined["images"]] == ["a.png", "b.PNG", "x/a.png", "y/z/a.png"]
    two = ("segment", folder / "x", folder / "y" / "z", "--segments", 2, "--formats", "coco", "-o", tmp_path / "two")
    assert run_command(*two).exit_code == 0
    joined = json.loads((tmp_path / "two" / "coco.json").read_text())
    assert [image["file_name"] for image in joined["images"]] == ["x/a.png", "y/z/a.png"]


def test_all_formats_and_cutouts_of_a_folder(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run_command("segment", folder, "--segments", 3, "--formats", "all", "--cutouts", "--out", out, "--json")
    assert found.exit_code == 0, found.output
    reports = json_lines(found)
    assert [Path(report["inputs"][0]).name for report in reports] == ["a.png", "b.PNG"]
    kinds = ["labels.png", "segments.png", "overlay.png", "boundaries.png", "coco.json", "coco_polygons.json"]
    kinds += ["segments.geojson", "segments.svg", "segments.csv"]
    for name, report in zip("ab", reports, strict=True):
        expected = [f"{name}_{kind}" for kind in kinds] + [f"{name}_cutouts/{name}_{k}.png" for k in range(3)]
        assert [str(Path(file).relative_to(out)) for file in report["outputs"]] == expected
        assert all(Path(file).stat().st_size for file in report["outputs"])
    for kind in ("coco.json", "coco_polygons.json"):
        joined = json.loads((out / kind).read_text())
        assert [(image["id"], image["file_name"]) for image in joined["images"]] == [(1, "a.png"), (2, "b.PNG")]
        assert [entry["id"] for entry in joined["annotations"]] == [1, 2, 3, 4, 5, 6]
        assert [entry["image_id"] for entry in joined["annotations"]] == [1, 1, 1, 2, 2, 2]
    text = run_command("segment", folder, "--formats", "coco", "--out", tmp_path / "coco")
    assert text.stdout.splitlines()[-1] == f"wrote {tmp_path / 'coco' / 'coco.json'}"
    joined = tmp_path / "coco" / "coco.json"
    complete = joined.read_bytes()
    joined.write_text("{}")
    for file in (tmp_path / "coco").glob("b_*"):
        file.unlink()
    added = run_command("segment", folder, "--formats", "coco", "--out", tmp_path / "coco", "--skip-existing")
    assert added.exit_code == 0 and joined.read_bytes() == complete  # with the image that was done before
    again = ("segment", folder, "--formats", "coco", "--out", tmp_path / "coco")
    assert run_command(*again).exit_code == 0 and joined.read_bytes() == complete
    (folder / "c.png").write_bytes((folder / "a.png").read_bytes())
    assert run_command(*again).exit_code == 0
    assert [image["file_name"] for image in json.loads(joined.read_text())["images"]] == ["a.png", "b.PNG", "c.png"]
    complete = joined.read_bytes()
    other = run_command(*again, "--skip-existing", "--segments", 4)  # of other settings
    assert other.exit_code == 2 and "wrote" not in other.stdout and joined.read_bytes() == complete
    others = run_command("segment", folder / "a.png", folder / "b.PNG", *again[2:])  # would lose c.png
    assert others.exit_code == 2 and "coco.json: exists already; give --force" in others.stderr
    plain = run_command("segment", folder, "--segments", 4, "--out", tmp_path / "coco", "--force")
    assert plain.exit_code == 0 and "of an earlier run: a_coco.json" in plain.stdout
    assert plain.stdout.splitlines()[-1] == f"{joined}: of an earlier run"
    labels = cv2.imread(str(out / "a_labels.png"), cv2.IMREAD_UNCHANGED)
    assert labels.dtype == np.uint16
    seen = cv2.imread(str(out / "a_segments.png"))[..., ::-1]
    np.testing.assert_array_equal(seen, colours(3)[labels])
    alone = cv2.imread(str(out / "a_cutouts" / "a_0.png"), cv2.IMREAD_UNCHANGED)
    picture = cv2.imread(str(folder / "a.png"))
    rows, columns = np.nonzero(labels == 0)
    np.testing.assert_array_equal(alone[alone[..., 3] > 0][:, :3], picture[rows, columns])


def test_cutouts_of_before_are_kept_or_replaced(folder: Path, tmp_path: Path) -> None:
    process_image(folder / "a.png", wanted=WantedSegments(n_segments=4), outputs=Outputs(cutouts=True), out=tmp_path)
    (tmp_path / "a_cutouts" / "a_mine.png").write_bytes(b"mine")
    for file in tmp_path.glob("a_*.png"):
        file.unlink()
    fewer = {"wanted": WantedSegments(n_segments=2), "outputs": Outputs(cutouts=True), "out": tmp_path}
    with pytest.raises(OutputExistsError, match="holds pictures of segments already"):
        process_image(folder / "a.png", **fewer)
    process_image(folder / "a.png", **fewer, force=True)
    assert sorted(file.name for file in (tmp_path / "a_cutouts").iterdir()) == ["a_0.png", "a_1.png", "a_mine.png"]


def test_wrong_use_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"formats must be one of \['coco', .*\]; got 'pdf'"):
        Outputs(formats=["pdf"])
    with pytest.raises(ParameterError, match="formats must be a list of names; got 'csv'"):
        Outputs(formats="csv")
    found = run_command("segment", folder, "--formats", "coco,pdf", "--out", tmp_path)
    assert found.exit_code == 2 and "pdf is not a format; give all, or some of coco" in found.output
    (tmp_path / "empty").mkdir()
    found = run_command("segment", tmp_path / "empty", folder / "a.png", "--out", tmp_path)
    assert found.exit_code == 1 and "no file in this folder" in found.stderr
    assert run_command("segment", tmp_path / "empty", "--out", tmp_path).exit_code == 2


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools' own
def test_the_lines_of_the_guide_join_what_was_drawn_under_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pycocotools.coco import COCO

    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    drawn = {"a": {2: 8, 1: 50}, "b": {2: 30}, "c": {3: 20, 1: 60}}  # columns of scribbles by label
    for seed, (name, columns) in enumerate(drawn.items()):
        write_image(tmp_path / f"{name}.png", make_mosaic(48, 64, random_state=seed).image)
        scribbles = np.full((48, 64), 65535, np.uint16)
        for label, column in columns.items():
            scribbles[5:40, column : column + 2] = label - 1  # as the viewer saves them
        write_image(tmp_path / f"{name}_scribbles.png", scribbles)
        wanted = WantedSegments(n_segments=4, markers=tmp_path / f"{name}_scribbles.png")
        process_image(tmp_path / f"{name}.png", wanted=wanted, outputs=Outputs(formats=["coco"]), out="folder")
    guide = Path(__file__).parents[3] / "docs" / "view.md"
    (example,) = re.findall(r"```python\n(.*?)```", guide.read_text("utf-8"), re.DOTALL)
    exec(example, {})
    coco = COCO("coco.json")
    assert [one["file_name"] for one in coco.loadImgs(coco.getImgIds())] == ["a.png", "b.png", "c.png"]
    assert {one["id"]: one["name"] for one in coco.loadCats(coco.getCatIds())} == {1: "cup", 2: "spoon"}
    found = [(one["image_id"], one["category_id"], coco.annToMask(one)) for one in coco.loadAnns(coco.getAnnIds())]
    assert sorted((image, category) for image, category, _ in found) == [(1, 1), (1, 2), (2, 2), (3, 1)]
    for image, category, mask in found:
        assert mask[5:40, [*drawn.values()][image - 1][category]].all()
