"""Evaluations: figures that are known beforehand, what is kept, and what is refused."""

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import run_command
from scipy.io import savemat

from visionnmf.apps.evaluate import Comparison, evaluate, segment as evaluation
from visionnmf.apps.report import Report
from visionnmf.datasets import make_mosaic
from visionnmf.exceptions import MediaError, ParameterError, UnreadableError, UnsupportedError


def compare(images: Path, truth: Path, *methods: str, out: Path | None = None) -> Report:
    comparison = Comparison(methods=methods or None, out=out)
    return evaluate(evaluation.study(images, truth, comparison), comparison)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    images, truth = (tmp_path_factory.mktemp(name) for name in ("images", "truth"))
    for name, seed in (("a", 3), ("b", 4)):
        mosaic = make_mosaic(80, 120, n_segments=4, random_state=seed)
        cv2.imwrite(str(images / f"{name}.png"), mosaic.image[..., ::-1])
        if name == "a":
            np.savez(truth / "a.npz", segmentations=np.stack([mosaic.labels, mosaic.labels // 2]).astype(np.uint8))
        else:
            cv2.imwrite(str(truth / "b_1.png"), mosaic.labels.astype(np.uint8) * 50)
    cv2.imwrite(str(images / "c.png"), np.zeros((9, 9), np.uint8))
    return images, truth


def test_scores_of_the_whole_picture_and_of_ours(folders: tuple[Path, Path], tmp_path: Path) -> None:
    report = compare(*folders, "visionnmf", "whole", out=tmp_path)
    ours, default, whole = (
        next(row for row in report.table if row["method"] == name)
        for name in ("visionnmf", "visionnmf, default", "whole")
    )
    # one segment covers each region by its share of the picture
    first, second = (np.load(folders[1] / "a.npz")["segmentations"], cv2.imread(str(folders[1] / "b_1.png"), 0))
    shares = [
        np.mean([(np.unique(x, return_counts=True)[1] ** 2).sum() / x.size**2 for x in maps])
        for maps in (first, [second])
    ]
    assert whole["covering"] == whole["covering_ois"] == pytest.approx(np.mean(shares))
    assert ours["covering"] > 0.75
    assert ours["covering"] <= ours["covering_ois"] <= 1
    assert ours["voi"] >= ours["voi_ois"] >= 0
    assert default["covering"] <= ours["covering_ois"]
    assert len({row["image"] for row in report.rows}) == 2
    assert report.skipped == [f"{folders[0] / 'c.png'}: no segmentation of that name in {folders[1]}"]
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"visionnmf", "visionnmf, default", "whole"}
    assert len(rows) == 2 * (35 + 1 + 1)
    assert "best scale for all images" in str(report)


def test_truth_as_bsds_has_it(folders: tuple[Path, Path], tmp_path: Path) -> None:
    maps = np.load(folders[1] / "a.npz")["segmentations"]
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = ({"Segmentation": one.astype(np.uint16) + 1, "Boundaries": one > 0} for one in maps)
    savemat(tmp_path / "a.mat", {"groundTruth": cell}, do_compression=True)
    found = evaluation.read_truth([str(tmp_path / "a.mat")])
    np.testing.assert_array_equal(np.array(found) - 1, maps)
    assert compare(folders[0], tmp_path, "whole").heading.startswith("1 image")
    for name, value in (("b", np.ones((3, 3))), ("c", np.array([{"Boundaries": 1}], dtype=object))):
        savemat(tmp_path / f"{name}.mat", {"groundTruth": value})
        with pytest.raises(UnsupportedError, match=rf"{name}\.mat: groundTruth must be a cell of structures"):
            evaluation.read_truth([str(tmp_path / f"{name}.mat")])


def test_what_is_done_is_not_done_again(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compare(*folders, "whole", out=tmp_path)

    def fail(*arguments: object) -> None:
        raise AssertionError("done again")

    monkeypatch.setattr(evaluation, "score_image", fail)
    assert compare(*folders, "whole", out=tmp_path).table == first.table


@pytest.mark.slow
def test_baselines_run_and_beat_the_whole_picture(folders: tuple[Path, Path]) -> None:
    names = ("felzenszwalb", "slic+ncut", "k-means", "spectral", "quickshift", "whole")
    report = compare(*folders, *names)
    covering = {row["method"]: row["covering"] for row in report.table}
    assert tuple(covering) == names
    assert all(covering[name] > covering["whole"] for name in names[:-1])


def test_what_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"methods must be some of .*; got 'magic'"):
        compare(*folders, "magic")
    with pytest.raises(UnreadableError, match="no image with a segmentation"):
        compare(folders[0], tmp_path)
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((5, 5), np.uint8))
    with pytest.raises(MediaError, match=r"\d+ x \d+ pixels, and its segmentation \d+ x \d+ pixels"):
        compare(folders[0], tmp_path, "whole")


@pytest.mark.slow
def test_the_command_prints_a_table(folders: tuple[Path, Path]) -> None:
    result = run_command(
        "evaluate",
        "segment",
        *("--images", folders[0], "--truth", folders[1], "--methods", "whole,slic+ncut"),
    )
    assert result.exit_code == 1  # one image has no segmentation
    assert "slic+ncut" in result.stdout
    assert "left out:" in result.stdout
