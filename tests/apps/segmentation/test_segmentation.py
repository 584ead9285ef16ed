"""Segmentation: made pictures with known segments, invariances, odd input, files."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from sklearn.cluster import KMeans

from benchmarks.metrics import covering
from visionnmf.apps.segmentation import model as segmentation
from visionnmf.apps.segmentation import overlay, process_image, run, segment
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import OutputExistsError, ParameterError, UnreadableError


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    return make_mosaic(120, 160, n_segments=5, random_state=3).image


@pytest.mark.slow
@pytest.mark.parametrize("n_segments", [2, 3, 5, 8])
def test_segments_of_a_mosaic_are_found(n_segments: int) -> None:
    mosaic = make_mosaic(160, 240, n_segments=n_segments, noise=0.05, random_state=10 * n_segments)
    result = segment(mosaic.image, n_segments, n_components=max(5, n_segments))
    assert len(result.sizes) == n_segments
    score = covering(result.labels, [mosaic.labels])
    assert score > 0.9
    if n_segments >= 5:  # two or three colours are told apart by k-means too
        colours = mosaic.image.reshape(-1, 3).astype(float)
        rival = KMeans(n_segments, n_init=2, random_state=0).fit_predict(colours).reshape(mosaic.labels.shape)
        assert score > covering(rival, [mosaic.labels]) + 0.2


def test_labels_are_ordered_by_size(picture: np.ndarray) -> None:
    result = segment(picture)
    assert result.labels.dtype == np.uint8
    assert result.labels.shape == picture.shape[:2]
    np.testing.assert_array_equal(np.bincount(result.labels.ravel()), result.sizes)
    assert (np.diff(result.sizes) <= 0).all()
    assert result.codes.shape == (result.n_superpixels, 5)
    assert result.objective == result.objectives.min() < 1


def test_equal_sizes_are_ordered_as_read() -> None:
    image = np.zeros((40, 40), np.uint8)
    image[:20, 20:], image[20:, :20], image[20:, 20:] = 80, 160, 240
    labels = segment(image, 4).labels
    np.testing.assert_array_equal(labels[::20, ::20], [[0, 1], [2, 3]])


@pytest.mark.slow
def test_same_seed_same_labels_for_any_number_of_threads(picture: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("VISIONNMF_NUM_THREADS", threads)
        results.append(segment(picture, random_state=7))
    np.testing.assert_array_equal(results[0].labels, results[1].labels)
    np.testing.assert_array_equal(results[0].objectives, results[1].objectives)
    assert (segment(picture, random_state=8).objectives != results[0].objectives).any()


@pytest.mark.slow
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
def test_transposing_the_image_transposes_the_labels() -> None:
    # not exactly: superpixels are seeded along rows
    mosaic = make_mosaic(160, 200, n_segments=4, random_state=1)
    labels = segment(mosaic.image, 4).labels
    turned = segment(mosaic.image.transpose(1, 0, 2), 4).labels
    assert covering(turned.T, [labels]) > 0.95


def test_large_images_keep_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "WORKING_PIXELS", 120 * 160)
    mosaic = make_mosaic(480, 640, n_segments=4, random_state=2)
    result = segment(mosaic.image, 4)
    assert result.superpixels.shape == (120, 160)
    assert result.labels.shape == (480, 640)
    assert covering(result.labels, [mosaic.labels]) > 0.9


def test_codes_come_from_the_best_start(picture: np.ndarray) -> None:
    result = segment(picture)
    regions = segmentation.find_superpixels(segmentation.reduce_image(picture, 10**6), 500)
    affinity = segmentation.region_affinity(regions, 5)
    weights = np.outer(regions.sizes, regions.sizes)
    np.fill_diagonal(weights, 0)
    misfit = (weights * np.abs(affinity - result.codes @ result.codes.T)).sum() / (weights * affinity).sum()
    assert misfit == pytest.approx(result.objective, rel=1e-6)


# --- odd input -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (4, 4), (1, 700), (700, 1), (2, 400)])
@pytest.mark.parametrize("n_segments", [1, 5])
def test_tiny_images(shape: tuple[int, int], n_segments: int, rng: np.random.Generator) -> None:
    result = segment(rng.integers(0, 256, (*shape, 3), dtype=np.uint8), n_segments)
    assert result.labels.shape == shape
    np.testing.assert_array_equal(np.bincount(result.labels.ravel()), result.sizes)
    assert 1 <= len(result.sizes) <= min(n_segments, shape[0] * shape[1])


@pytest.mark.parametrize("value", [0, 77, 255])
def test_a_flat_image_is_one_segment(value: int) -> None:
    result = segment(np.full((50, 70), value, np.uint8))
    assert result.sizes.tolist() == [50 * 70]
    assert result.n_superpixels == 1
    assert result.objective == 0


def test_fewer_colours_than_segments() -> None:
    image = np.zeros((60, 90, 3), np.uint8)
    image[:, 40:] = (200, 30, 30)
    image[:20, 40:] = (0, 0, 200)
    result = segment(image, 5)
    assert result.sizes.tolist() == [60 * 40, 40 * 50, 20 * 50]


@pytest.mark.slow
def test_many_segments_need_two_bytes(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    result = segment(image, 400, n_superpixels=600)
    assert result.labels.dtype == np.uint16
    assert 256 < len(result.sizes) <= 400


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_segments": 0}, "n_segments must be a whole number from 1 to 1000; got 0"),
        ({"n_segments": 2.5}, "n_segments must be a whole number"),
        ({"n_segments": True}, "got True"),
        ({"n_components": 0}, "n_components must be a whole number from 1 to 100"),
        ({"n_superpixels": 1}, "n_superpixels must be a whole number from 2 to 5000"),
        (
            {"n_segments": 6, "n_superpixels": 5},
            "n_segments must be at most n_superpixels, 5; got 6; ask for fewer segments",
        ),
        ({"random_state": -1}, "random_state must be None, a whole number from 0"),
    ],
)
def test_arguments_out_of_range(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        segment(np.zeros((9, 9), np.uint8), **options)


def test_unusable_image() -> None:
    with pytest.raises(ParameterError, match="NaN or infinite"):
        segment(np.full((9, 9), np.nan))


# --- overlay and files -----------------------------------------------------------------------------------------------


def test_overlay_tints_and_draws_borders(picture: np.ndarray) -> None:
    labels = np.zeros(picture.shape[:2], np.uint8)
    labels[:, 80:] = 1
    drawn = overlay(picture, labels)
    assert drawn.dtype == np.uint8
    assert drawn.shape == picture.shape
    assert (drawn[:, 80] == 255).all()
    left = np.s_[:, :70]
    mean = picture[:, :80].reshape(-1, 3).mean(axis=0)
    np.testing.assert_allclose(drawn[left], 0.4 * picture[left] + 0.6 * mean, atol=1.5)
    np.testing.assert_array_equal(overlay(picture.astype(np.uint16) * 257, labels), drawn)
    np.testing.assert_array_equal(overlay(picture / 255, labels), drawn)
    with pytest.raises(ParameterError, match="labels must have the image's shape"):
        overlay(picture, labels[1:])


def test_process_image_writes_labels_and_overlay(tmp_path: Path, picture: np.ndarray) -> None:
    source = tmp_path / "tiles.png"
    cv2.imwrite(str(source), picture[..., ::-1])
    report = process_image(source, n_segments=4, out=tmp_path / "new" / "out")
    labels_file, overlay_file = (tmp_path / "new" / "out" / f"tiles_{kind}.png" for kind in ("labels", "overlay"))
    assert report.outputs == [str(labels_file), str(overlay_file)]
    labels = cv2.imread(str(labels_file), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(labels, segment(picture, 4).labels)
    assert cv2.imread(str(overlay_file)).shape == picture.shape
    document = report.as_dict()
    assert document["shape"] == list(picture.shape[:2])
    assert document["segments"] == [{"label": k, "pixels": int(n)} for k, n in enumerate(np.bincount(labels.ravel()))]
    assert document["files"] == report.outputs
    assert "160 x 120 pixels, 4 segments" in report.summary()


def test_sample_names_give_the_stem(tmp_path: Path) -> None:
    report = process_image("sample:coffee", out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coffee_labels.png", "coffee_overlay.png"]
    assert report.inputs == ["sample:coffee"]


def test_existing_results_are_kept_without_force(tmp_path: Path, picture: np.ndarray) -> None:
    source = tmp_path / "a.png"
    cv2.imwrite(str(source), picture)
    (tmp_path / "a_overlay.png").write_bytes(b"mine")
    with pytest.raises(OutputExistsError, match=r"a_overlay\.png: exists already"):
        process_image(source, out=tmp_path)
    assert not (tmp_path / "a_labels.png").exists()
    process_image(source, out=tmp_path, force=True)
    assert (tmp_path / "a_labels.png").exists()
    assert (tmp_path / "a_overlay.png").read_bytes() != b"mine"


def test_both_files_or_neither(tmp_path: Path, picture: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "a.png"
    cv2.imwrite(str(source), picture)
    out = tmp_path / "out"
    real, calls = run.io.write_image, []

    def second_fails(path: Path, *rest: object, **options: object) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise OSError("no space")
        real(path, *rest, **options)

    monkeypatch.setattr(run.io, "write_image", second_fails)
    with pytest.raises(OSError, match="no space"):
        process_image(source, out=out)
    assert list(out.iterdir()) == []


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no such file"):
        process_image(tmp_path / "missing.png", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
