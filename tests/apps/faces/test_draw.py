"""Drawings of faces and of comparisons."""

import sys

import numpy as np
import pytest
from helpers import SHAPE
from PIL import Image

from visionnmf.apps.faces import Plan, compare, curves_picture, shadows_picture
from visionnmf.apps.faces.draw import montage_picture
from visionnmf.exceptions import ParameterError


@pytest.mark.slow
def test_curves_are_drawn(faces, tmp_path):
    pytest.importorskip("matplotlib")
    plan = Plan((("none", None), ("laplace", 20)), ("raw", "pca"), (2, 3), splits=2, per_person=3)
    found = compare(faces, plan)
    curves_picture(found, tmp_path / "curves.png")
    assert np.ptp(np.asarray(Image.open(tmp_path / "curves.png"))) > 200


def test_montages_have_a_row_of_images_each(tmp_path):
    pytest.importorskip("matplotlib")
    rows = {"one": np.zeros((3, 256)), "two": np.ones((3, 256))}
    montage_picture(rows, SHAPE, tmp_path / "m.png")
    drawn = np.asarray(Image.open(tmp_path / "m.png"))[..., 0]
    half = drawn.shape[0] // 2
    assert (drawn[:half] == 0).mean() > 0.4 and (drawn[half:] == 0).mean() < 0.05


def test_shadows_are_dark_and_highlights_bright():
    images, shadows = np.full((2, 256), 100.0), np.zeros((2, 256))
    shadows[0], shadows[1] = -100, 100
    sheet = shadows_picture(images, images, shadows, SHAPE)
    assert sheet[0, 0, 0] == 100 and sheet[-1, 0, 0] < 100 < sheet[-1, -1, 0]


def test_without_matplotlib_it_is_said(faces, tmp_path, monkeypatch):
    found = compare(faces, Plan(methods=("raw",), splits=1, per_person=3))
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(
        ParameterError, match=r"matplotlib must be installed for plots; got none; pip install 'visionnmf\[plots\]'"
    ):
        curves_picture(found, tmp_path / "curves.png")
