"""Scores of masks and backgrounds: by hand, against published definitions, and a broken mask that must score badly."""

import csv
import itertools
import json

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.evaluate import Comparison, background as evaluation, evaluate
from visionnmf.apps.evaluate.background import METHODS, Confusion, find_clips, read_clip
from visionnmf.datasets import make_surveillance
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import write_image

pytestmark = pytest.mark.slow

N = 24


def compare(clips, *methods, out=None, progress=None):
    comparison = Comparison(methods=methods, out=out)
    return evaluate(evaluation.study(clips, comparison), comparison, progress=progress)


def test_the_seven_metrics_by_hand_are_none_where_they_are_not_defined():
    mask = np.array([[255, 255, 255, 0, 0, 0, 255, 0, 255, 0]], np.uint8)
    truth = np.array([[255, 255, 0, 255, 0, 50, 50, 0, 85, 170]], np.uint8)
    counts = Confusion()
    counts.add(mask, truth)
    assert (counts.tp, counts.fp, counts.fn, counts.tn, counts.masks) == (2, 2, 1, 3, 1)
    rates = {"recall": 2 / 3, "specificity": 3 / 5, "fpr": 2 / 5, "fnr": 1 / 3, "pwc": 100 * 3 / 8, "precision": 2 / 4}
    assert counts.metrics() == pytest.approx(rates | {"f_measure": 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)})
    counts.add(mask, np.full_like(truth, 170))
    assert counts.metrics()["recall"] == 2 / 3 and counts.masks == 2
    empty = Confusion(fp=3, tn=5).metrics()
    assert empty["recall"] is empty["fnr"] is empty["f_measure"] is None
    assert empty["specificity"] == 5 / 8 and empty["precision"] == 0
    assert Confusion(fn=3).metrics()["f_measure"] == 0
    assert set(Confusion().metrics().values()) == {None}


def test_background_errors_by_hand():
    truth = np.full((5, 5), 100, np.uint8)
    found = truth.copy()
    found[1, 2] = found[2, 1:4] = found[3, 2] = 121  # a cross: its centre alone has four wrong neighbours
    found[0, 0] = 120
    errors = evaluation.background_errors(found, truth)
    assert errors["age"] == pytest.approx((5 * 21 + 20) / 25)
    assert errors["peps"] == pytest.approx(5 / 25) and errors["pceps"] == pytest.approx(1 / 25)
    assert errors["psnr"] == pytest.approx(10 * np.log10(255**2 / ((5 * 21**2 + 20**2) / 25)))
    same = evaluation.background_errors(truth, truth)
    assert (same["age"], same["peps"], same["psnr"]) == (0, 0, None)


def write_clip(folder, made, *, first=1, roi=None, background=True):
    for number, (frame, mask) in enumerate(zip(made.frames, made.masks, strict=True), start=first):
        for name in ("input", "groundtruth"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        write_image(folder / "input" / f"in{number:06d}.png", frame)
        write_image(folder / "groundtruth" / f"gt{number:06d}.png", mask.astype(np.uint8) * 255)
    if roi:
        (folder / "temporalROI.txt").write_text(roi)
    if background:
        write_image(folder / "background_gt.png", made.background)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    made = make_surveillance(N, 48, 64, random_state=1)
    write_clip(folder / "street" / "one", made)
    write_clip(folder / "street" / "two", made, first=101, roi="111 120", background=False)
    (folder / "street" / "empty" / "input").mkdir(parents=True)
    (folder / "street" / "empty" / "groundtruth").mkdir()
    return folder, made


def test_a_data_set_is_scored(data, tmp_path):
    folder, made = data
    report = compare([str(folder)], "godec", out=tmp_path)
    rows = {(row["clip"], row["method"]): row for row in report.rows}
    assert set(rows) == set(itertools.product(("one", "two"), ("godec", "median", "mog2", "knn")))
    (left_out,) = report.skipped
    assert left_out.endswith(": input or groundtruth holds no numbered picture")
    for (clip, method), row in rows.items():
        parts = METHODS[method]().fit(iter(made.frames)).apply(iter(made.frames))
        masks = np.stack([part.mask for part in parts]) > 0
        scored = slice(None) if clip == "one" else slice(10, 20)
        truth = made.masks[scored]
        assert (row["frames"], row["masks"]) == (N, len(truth))
        assert row["tp"] == (masks[scored] & truth).sum() and row["fp"] == (masks[scored] & ~truth).sum()
        assert (row["age"] is None) == (clip == "two")
        assert row["seconds_a_frame"] > 0 and row["frames_per_second"] > 0
    means = {line["method"]: line for line in report.table}
    two = [rows[clip, "median"]["f_measure"] for clip in ("one", "two")]
    assert means["median"]["f_measure"] == pytest.approx(np.mean(two)) == means["median"]["f_of_categories"]
    expected = evaluation.background_errors(METHODS["median"]().fit(made.frames).background_, made.background)
    assert {name: means["median"][name] for name in expected} == pytest.approx(expected)
    assert expected["age"] < 3
    with (tmp_path / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(report.rows)
    summary = str(report)
    assert "godec" in summary and "left out" in summary


def test_the_command(data, tmp_path):
    one = data[0] / "street" / "one"
    result = run_command("evaluate", "background", one, "--methods", "median", "--out", tmp_path, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and [row["method"] for row in document["table"]] == ["median", "mog2", "knn"]
    assert run_command("evaluate", "background", data[0], "--methods", "median").exit_code == 1  # one was left out
    assert run_command("evaluate", "background", tmp_path / "none").exit_code == 2


def test_what_cannot_be_evaluated(data, tmp_path):
    with pytest.raises(UnreadableError, match="holds no folder with input and groundtruth"):
        find_clips(str(tmp_path))
    with pytest.raises(UnreadableError, match="moon: there is no such folder"):
        find_clips("moon")
    with pytest.raises(ParameterError, match=r"methods must be some of .*; got 'moon'"):
        compare([str(data[0])], "moon")
    made = make_surveillance(2, 48, 64, random_state=1)
    write_clip(tmp_path / "c", made, roi="five six")
    with pytest.raises(UnreadableError, match=r"temporalROI.txt: must hold the first and the last frame"):
        read_clip(str(tmp_path / "c"))
    (tmp_path / "c" / "temporalROI.txt").write_text("100 200")
    with pytest.raises(UnreadableError, match="no frame has a true mask"):
        read_clip(str(tmp_path / "c"))
