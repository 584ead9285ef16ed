"""Drawings of faces and of comparisons."""

import sys

import numpy as np
import pytest
from helpers import SHAPE
from PIL import Image

from visionnmf.apps.faces import FaceComparisonReport, FaceEvaluation
from visionnmf.apps.faces.evaluation import compare, curves_picture, montage_picture
from visionnmf.apps.faces.pictures import shadows_picture
from visionnmf.exceptions import ParameterError


def test_curves_and_lines_are_drawn_in_each_panel(tmp_path):
    pytest.importorskip("matplotlib")
    rows = []
    for corruption, severity in (("none", None), ("laplace", 20)):
        place = {"corruption": corruption, "severity": severity, "test": "clean"}
        rows.append(place | {"method": "raw", "rank": None, "rule": None, "accuracy": 60.0})
        rows += [place | {"method": "pca", "rank": n, "rule": "codes", "accuracy": 30.0 * n} for n in (2, 3)]
    curves_picture(FaceComparisonReport(rows), tmp_path / "curves.png")
    drawn = np.asarray(Image.open(tmp_path / "curves.png"))[..., :3].astype(int)
    for panel in np.array_split(drawn[: len(drawn) * 3 // 4], 2, axis=1):  # side by side, above the legend
        for colour in ([31, 119, 180], [23, 190, 207]):  # the first curve, pca; the first line, raw
            assert (np.abs(panel - colour).sum(axis=-1) < 60).sum() > 150


def test_montages_have_a_row_of_images_each(tmp_path):
    pytest.importorskip("matplotlib")
    rows = {"one": np.zeros((3, 256)), "two": np.full((3, 256), 0.6)}
    montage_picture(rows, SHAPE, tmp_path / "m.png")
    drawn = np.asarray(Image.open(tmp_path / "m.png"))[..., 0]
    half = drawn.shape[0] // 2
    assert (drawn[:half] == 0).mean() > 0.4 and (drawn[half:] == 153).mean() > 0.4


def test_shadows_are_dark_and_highlights_bright():
    images, shadows = np.full((2, 256), 100.0), np.zeros((2, 256))
    shadows[0], shadows[1] = -100, 100
    sheet = shadows_picture(images, images, shadows, SHAPE)
    assert sheet[0, 0, 0] == 100 and sheet[-1, 0, 0] < 100 < sheet[-1, -1, 0]


def test_without_matplotlib_it_is_said(faces, tmp_path, monkeypatch):
    found = compare(faces, FaceEvaluation(methods=("raw",), splits=1, per_person=3))
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(
        ParameterError, match=r"matplotlib must be installed for plots; got none; pip install 'visionnmf\[plots\]'"
    ):
        curves_picture(found, tmp_path / "curves.png")
