"""Segmentation: made pictures with known segments, invariances, odd input, files."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.cluster import KMeans

from visionnmf._text import counted
from visionnmf.apps.segmentation import WantedSegments, hierarchy, overlay, process_image, segment, segmenter
from visionnmf.apps.segmentation.overlays import colours
from visionnmf.apps.segmentation.pictures import remove_impulses, remove_noise
from visionnmf.apps.segmentation.scores import covering
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import ParameterError
from visionnmf.features import reduce_image
from visionnmf.io import read_image, write_image


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    return make_mosaic(120, 160, n_segments=5, random_state=3).image


@pytest.mark.parametrize("n_segments", [2, 3, 5, 8])
def test_segments_of_a_mosaic_are_found(n_segments: int) -> None:
    mosaic = make_mosaic(160, 240, n_segments=n_segments, noise=0.05, random_state=10 * n_segments)
    result = segment(mosaic.image, n_segments)
    assert len(result.sizes) == n_segments
    score = covering(result.labels, [mosaic.labels])
    assert score > 0.9
    if n_segments >= 5:  # two or three colours are told apart by k-means too
        colours = mosaic.image.reshape(-1, 3).astype(float)
        baseline = KMeans(n_segments, n_init=2, random_state=0).fit_predict(colours).reshape(mosaic.labels.shape)
        assert score > covering(baseline, [mosaic.labels]) + 0.2


def test_the_number_of_segments_is_found() -> None:
    mosaic = make_mosaic(160, 240, n_segments=4, random_state=8)
    result = segment(mosaic.image)
    assert 3 <= len(result.sizes) <= 6
    assert covering(result.labels, [mosaic.labels]) > 0.85


def test_labels_are_ordered_by_size_and_then_as_read(picture):
    result = segment(picture)
    assert result.labels.dtype == np.uint8
    assert result.labels.shape == picture.shape[:2]
    np.testing.assert_array_equal(np.bincount(result.labels.ravel()), result.sizes)
    assert (np.diff(result.sizes) <= 0).all()
    image = np.zeros((40, 40), np.uint8)
    image[:20, 20:], image[20:, :20], image[20:, 20:] = 80, 160, 240
    labels = segment(image, 4).labels
    np.testing.assert_array_equal(labels[::39, ::39], [[0, 1], [2, 3]])


def test_other_numbers_and_scales_come_from_the_same_tree_and_properties_are_those_of_the_pixels(picture):
    result = segment(picture, 4)
    np.testing.assert_array_equal(result.at(n_segments=4), result.labels)
    np.testing.assert_array_equal(result.at(scale=result.scale), result.labels)
    np.testing.assert_array_equal(result.at(n_segments=7), segment(picture, 7).labels)
    np.testing.assert_array_equal(result.at(scale=0.2), segment(picture, scale=0.2).labels)
    assert result.at(scale=1).max() == 0
    finer = result.at(n_segments=9)
    for k in range(9):  # nested
        assert len(np.unique(result.labels[finer == k])) == 1
    found = result.properties()
    assert [row["label"] for row in found] == [0, 1, 2, 3]
    for row in found:
        inside = result.labels == row["label"]
        places = np.argwhere(inside)
        assert row["area"] == inside.sum()
        np.testing.assert_allclose(row["colour"], picture[inside].mean(axis=0))
        np.testing.assert_allclose(row["centre"], places.mean(axis=0))
        assert row["box"] == [*places.min(axis=0), *(places.max(axis=0) + 1)]
        around = cv2.dilate(inside.astype(np.uint8), cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))) > 0
        assert set(row["neighbours"]) == set(result.labels[around].tolist()) - {row["label"]}
    assert segment(np.zeros((9, 9), np.uint8)).properties()[0]["neighbours"] == []


def test_number_types_and_channels_do_not_matter(picture: np.ndarray) -> None:
    labels = segment(picture).labels
    same = {
        "opaque RGBA": np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)]),
        "16 bits": picture.astype(np.uint16) * 257,
        "float32": picture.astype(np.float32) / 255,
    }
    for name, image in same.items():
        np.testing.assert_array_equal(segment(image).labels, labels, err_msg=name)
    grey = picture[..., 1]
    np.testing.assert_array_equal(segment(grey).labels, segment(np.dstack([grey] * 3)).labels)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [lambda x: x[:, ::-1], lambda x: x[::-1], lambda x: x.swapaxes(0, 1)])
def test_turning_a_photograph_changes_little(turn: Callable[[np.ndarray], np.ndarray]) -> None:
    # not nothing: the network knows left from right, as it was learnt on photographs
    photograph = cv2.resize(read_image("sample:coffee"), (345, 230), interpolation=cv2.INTER_AREA)
    here = segment(photograph, 8).labels
    turned = segment(np.ascontiguousarray(turn(photograph)), 8).labels
    assert covering(turn(here), [turned]) > 0.75


@pytest.mark.slow
def test_large_images_keep_their_size_and_their_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmenter, "WORKING_PIXELS", 120 * 160)
    mosaic = make_mosaic(480, 640, n_segments=4, noise=0, random_state=2)
    result = segment(mosaic.image, 4)
    assert result.labels.shape == (480, 640)
    # a border one pixel off all along would miss .99
    assert covering(result.labels, [mosaic.labels]) > 0.99


def test_strips_of_large_images_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    image = make_mosaic(560, 480, n_segments=9, noise=0.1, random_state=1).image  # reduced, and its labels enlarged
    whole = segment(image)
    for module in (segmenter, hierarchy):
        monkeypatch.setattr(module, "STRIP", 50)
    result = segment(image)
    np.testing.assert_array_equal(result.labels, whole.labels)
    np.testing.assert_array_equal(result.boundaries, whole.boundaries)
    np.testing.assert_array_equal(result.overlay(), whole.overlay())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coffee", "astronaut", "rocket"])
def test_small_photographs_are_divided_nearly_as_large_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    photograph = read_image(f"sample:{name}")
    height, width = photograph.shape[:2]
    large = cv2.resize(photograph, (480, 480 * height // width), interpolation=cv2.INTER_AREA)
    small = cv2.resize(large, (80, 80 * height // width), interpolation=cv2.INTER_AREA)
    wanted = cv2.resize(segment(large).labels, small.shape[1::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    result = segment(small)
    assert result.labels.shape == small.shape[:2]
    assert sum(result.sizes) == small.shape[0] * small.shape[1]
    found = covering(result.labels, [wanted])
    assert found > 0.7
    monkeypatch.setattr(segmenter, "FEWEST_PIXELS", 0)
    assert covering(segment(small).labels, [wanted]) < found - 0.1


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 2), (7, 5), (40, 30), (1, 700), (700, 1)])
@pytest.mark.filterwarnings("ignore:[0-9]+ segments? in place of")
def test_tiny_pictures_have_a_segment_for_each_pixel_inside_the_mask(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    image, mask = rng.integers(0, 256, (*shape, 3), dtype=np.uint8), rng.random(shape) < 0.7
    mask.flat[0] = True
    for inside in (None, mask):
        result = segment(image, mask=inside)
        within = np.ones(shape, bool) if inside is None else inside
        assert (result.hierarchy.labels >= 0).tolist() == within.tolist()
        assert sorted(set(result.labels[within].tolist())) == list(range(len(result.sizes)))
        assert result.at(n_segments=1)[within].max() == 0
        assert len(np.unique(result.at(n_segments=5)[within])) == min(5, result.hierarchy.n_regions)
        assert result.boundaries.shape == shape
        assert (result.hierarchy.sizes > 0).all()
        np.testing.assert_allclose(segment(image, mask=inside, method="nmf").memberships.sum(axis=0), within, atol=1e-5)


def test_regions_that_a_sparse_mask_leaves_empty_are_no_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmenter, "WORKING_PIXELS", 4800)  # as if the picture were a large one
    mask = np.random.default_rng(0).random((200, 220)) < 0.02
    result = segment(make_mosaic(200, 220, random_state=0).image, 4, mask=mask)
    assert (result.hierarchy.sizes > 0).all()


# --- odd input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 77, 255])
def test_a_flat_image_is_one_segment(value: int) -> None:
    result = segment(np.full((50, 70), value, np.uint8))
    assert result.sizes.tolist() == [50 * 70]
    assert result.hierarchy.n_regions == 1
    assert not result.boundaries.any()


@pytest.mark.filterwarnings("ignore:[0-9]+ segments? in place of")
def test_fewer_colours_than_segments() -> None:
    image = np.zeros((60, 90, 3), np.uint8)
    image[:, 40:] = (200, 30, 30)
    image[:20, 40:] = (0, 0, 200)
    result = segment(image, 5)
    assert len(result.sizes) <= 5
    for area in (result.labels[:, :39], result.labels[21:, 41:], result.labels[:19, 41:]):
        assert np.bincount(area.ravel()).max() > 0.95 * area.size  # but for a corner where three meet


def test_many_segments_need_two_bytes(rng: np.random.Generator) -> None:
    tiles = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
    result = segment(tiles.repeat(20, axis=0).repeat(20, axis=1), 300)
    assert result.labels.dtype == np.uint16
    assert 256 < len(result.sizes) <= 300


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_segments": 0}, "n_segments must be a whole number from 1 to 1000; got 0"),
        ({"n_segments": 2.5}, "n_segments must be a whole number"),
        ({"n_segments": True}, "got True"),
        ({"scale": 1.5}, "scale must be a number from 0 to 1; got 1.5"),
        ({"scale": 0.1, "n_segments": 3}, "n_segments must be left out where a scale is given"),
        ({"loss": "frobenius"}, "loss must be left out with the method tree, because only nmf has one; got frobenius"),
    ],
)
def test_arguments_out_of_range(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        segment(np.zeros((9, 9), np.uint8), **options)


# --- corrupted pictures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.2, 0.3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_salt_and_pepper_changes_little(
    picture: np.ndarray, share: float, dtype: type, rng: np.random.Generator
) -> None:
    noisy = picture.copy()
    hit = rng.random(picture.shape[:2])
    noisy[hit < share / 2], noisy[hit > 1 - share / 2] = 0, 255
    scaled = noisy.astype(dtype) * {np.uint8: 1, np.uint16: 257, np.float32: 1 / 255}[dtype]
    labels = segment(scaled.astype(dtype), 5).labels
    assert covering(labels, [segment(picture, 5).labels]) > 0.9


def test_impulses_are_replaced_and_nothing_else(picture: np.ndarray, rng: np.random.Generator) -> None:
    noisy = picture.copy()
    hit = rng.random(picture.shape)  # each channel apart
    noisy[hit < 0.1], noisy[hit > 0.9] = 0, 255
    clean = remove_impulses(noisy)
    before, after = (np.abs(x.astype(float) - picture).mean() for x in (noisy, clean))
    assert after < before / 8
    kept = (noisy > 10) & (noisy < 245)
    np.testing.assert_array_equal(clean[kept], noisy[kept])


def test_noise_is_blurred_and_photographs_without_it_stay_as_they_are(rng):
    photograph = read_image("sample:coffee")
    assert remove_impulses(photograph) is photograph
    small = reduce_image(photograph, 2**16)
    assert remove_noise(small) is small
    noisy = np.clip(small + rng.normal(0, 20 / 255, small.shape), 0, 1).astype(np.float32)
    quiet = remove_noise(noisy)
    assert quiet.dtype == np.float32
    assert np.square(quiet - small).mean() < 0.5 * np.square(noisy - small).mean()


# --- overlay and files -----------------------------------------------------------------------------------------------


def test_overlay_tints_and_draws_borders(picture: np.ndarray) -> None:
    labels = np.zeros(picture.shape[:2], np.uint8)
    labels[:, 80:] = 1
    drawn = overlay(picture, labels)
    assert drawn.dtype == np.uint8
    assert drawn.shape == picture.shape
    assert (drawn[:50, 80] == 255).all()
    left, right = drawn[:30, :70], drawn[:30, 100:]
    np.testing.assert_allclose(left, 0.6 * picture[:30, :70] + 0.4 * colours(2)[0], atol=1.5)
    np.testing.assert_allclose(right, 0.6 * picture[:30, 100:] + 0.4 * colours(2)[1], atol=1.5)
    assert len(np.unique(drawn[30:90, :70].reshape(-1, 3), axis=0)) > len(np.unique(left.reshape(-1, 3), axis=0))  # 0
    np.testing.assert_array_equal(overlay(picture.astype(np.uint16) * 257, labels), drawn)
    np.testing.assert_array_equal(overlay(picture / 255, labels), drawn)
    with pytest.raises(ParameterError, match="labels must have the image's shape"):
        overlay(picture, labels[1:])


def test_borders_on_a_long_strip_are_as_thin_as_its_area_asks() -> None:
    strip = np.full((1, 200_000, 3), 120, np.uint8)
    drawn = overlay(strip, np.arange(200_000)[None] // 50_000)
    assert 0 < (drawn == 255).all(axis=2).sum() < 50


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16])
def test_labels_of_any_type_with_gaps_are_drawn_alike(picture: np.ndarray, dtype: type) -> None:
    height, width = picture.shape[:2]
    labels = np.repeat([3, 90, 200], [height // 2, height // 4, height - height // 2 - height // 4])[:, None]
    expected = overlay(picture, np.broadcast_to(labels, (height, width)))
    np.testing.assert_array_equal(overlay(picture, np.broadcast_to(labels, (height, width)).astype(dtype)), expected)


@pytest.mark.parametrize(("grey", "ink"), [(20, 255), (100, 255), (140, 0), (250, 0)])
def test_numbers_are_white_on_dark_segments_and_black_on_bright_ones(grey: int, ink: int) -> None:
    palette = np.array([[grey] * 3, [grey] * 3], np.uint8)
    labels = np.zeros((400, 500), np.uint8)
    labels[:, 250:] = 1
    drawn = overlay(np.full((400, 500, 3), grey, np.uint8), labels, palette)[100:150, 100:150, 0]
    changed, inside = (np.argwhere(where) for where in (drawn != grey, drawn == ink))  # digit and outline; digit
    assert len(inside)
    assert (changed.min(axis=0) < inside.min(axis=0)).all() and (inside.max(axis=0) < changed.max(axis=0)).all()


def test_numbers_of_large_pictures_lie_within_their_segments() -> None:
    """A place found among some rows and columns still lies where it was found."""
    picture = np.full((2000, 2000, 3), 100, np.uint8)
    labels = np.zeros((2000, 2000), np.uint8)
    labels[1300:1800, 1100:1900] = 1
    drawn = overlay(picture, labels)
    tints = [drawn[100, 100], drawn[1310 + 40, 1100 + 40]]
    # Apart from the borders, a digit and its outline are all that is neither tint.
    other = ~np.any([(drawn == tint).all(axis=2) for tint in tints], axis=0)
    inside = other[1340:1760, 1140:1860]
    rows, columns = np.nonzero(inside)
    assert 200 < len(rows) and abs(rows.mean() - 210) < 20 and abs(columns.mean() - 360) < 160
    edge = other.copy()
    edge[1340:1760, 1140:1860] = False
    edge[1280:1820, 1080:1920] = False
    rows, columns = np.nonzero(edge)  # the number 0, which lies far from the other segment
    assert len(rows) > 200 and rows.max() < 1280 and np.ptp(rows) < 100 and np.ptp(columns) < 100


def test_process_image_writes_labels_and_overlay(tmp_path: Path, picture: np.ndarray) -> None:
    source = tmp_path / "tiles.png"
    cv2.imwrite(str(source), picture[..., ::-1])
    report = process_image(source, wanted=WantedSegments(n_segments=4), out=tmp_path / "new" / "out")
    kinds = ("labels", "segments", "overlay", "boundaries")
    written = [tmp_path / "new" / "out" / f"tiles_{kind}.png" for kind in kinds]
    labels_file, _, overlay_file, boundary_file = written
    assert report.outputs == [str(file) for file in written]
    boundaries = cv2.imread(str(boundary_file), cv2.IMREAD_UNCHANGED)
    np.testing.assert_allclose(boundaries / 65535, segment(picture).boundaries, atol=1e-5)
    labels = cv2.imread(str(labels_file), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(labels, segment(picture, 4).labels)
    assert cv2.imread(str(overlay_file)).shape == picture.shape
    document = report.as_dict()
    assert document["shape"] == list(picture.shape[:2]) and document["sizes"] == np.bincount(labels.ravel()).tolist()
    assert "160 x 120 pixels, 4 segments" in str(report)


def test_fewer_segments_than_were_asked_for_are_reported(tmp_path):
    write_image(tmp_path / "a.png", np.full((40, 50, 3), 90, np.uint8))
    write_image(tmp_path / "b.png", make_mosaic(60, 80, random_state=0).image)
    write_image(tmp_path / "c.png", make_mosaic(20, 30, random_state=0).image)
    for name, asked in (("a.png", 5), ("c.png", 1000)):
        report = process_image(tmp_path / name, wanted=WantedSegments(n_segments=asked), out=tmp_path / "out")
        (note,) = report.notes
        assert note.startswith(f"{counted(len(report.sizes), 'segment')} in place of {asked}: ") and note in str(report)
    for asked in (3, 700):
        wanted = WantedSegments(n_segments=asked)
        enough = process_image(tmp_path / "b.png", wanted=wanted, out=tmp_path / "out", force=True)
        assert enough.notes == [] and len(enough.sizes) == asked


@pytest.mark.parametrize(("method", "asked"), [("tree", 50), ("nmf", 50)])
def test_fewer_segments_than_were_asked_for_are_a_warning(method, asked):
    flat = np.zeros((40, 50), np.uint8)
    flat[:, 20:] = 200
    with pytest.warns(UserWarning, match=f"^[0-9]+ segments? in place of {asked}: ") as told:
        result = segment(flat, asked, method=method)
    assert told[0].filename == __file__ and len(result.sizes) < asked
    with pytest.warns(UserWarning, match=rf"^{result.hierarchy.n_regions} segments? in place of 900: the tree has"):
        assert result.at(n_segments=900).max() + 1 == result.hierarchy.n_regions
    assert len(result.recut(n_segments=1).sizes) == 1


@pytest.mark.parametrize("masked", [False, True])
def test_superpixels_are_as_many_as_are_asked_for(masked, rng):
    mosaic = make_mosaic(120, 160, n_segments=6, noise=0.1, random_state=4)
    mask = np.ones((120, 160), bool)
    mask[:40, :50] = not masked
    for asked in (150, 500):
        many = segment(mosaic.image, asked, mask=mask if masked else None)
        assert len(many.sizes) == asked and many.sizes.sum() == mask.sum()
        own = [np.bincount(mosaic.labels[mask & (many.labels == label)]).max() for label in range(asked)]
        assert sum(own) > 0.97 * mask.sum()  # each lies within one tile, but for few pixels at the borders
