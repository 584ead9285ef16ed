"""Figures of comparisons."""

import numpy as np
import pytest
from helpers import SHAPE
from PIL import Image

from visionnmf.apps.evaluate import Comparison, evaluate
from visionnmf.apps.evaluate.drawing import draw_curves, draw_rows
from visionnmf.apps.evaluate.faces import study
from visionnmf.exceptions import ParameterError


def test_curves_and_lines_are_drawn_in_each_panel(tmp_path):
    pytest.importorskip("matplotlib")
    lines = []
    for corruption in ("none", "laplace:20"):
        lines.append({"test": corruption, "method": "raw", "rank": None, "accuracy": 60.0})
        for rank in (2, 3):
            found = {"accuracy": 30.0 * rank, "accuracy_deviation": 1.0}
            lines.append({"test": corruption, "method": "pca", "rank": rank, **found})
    draw_curves(lines, tmp_path / "curves.png", panels=("test",), score="accuracy")
    drawn = np.asarray(Image.open(tmp_path / "curves.png"))[..., :3].astype(int)
    for panel in np.array_split(drawn[: len(drawn) * 3 // 4], 2, axis=1):  # side by side, above the legend
        for colour in ([31, 119, 180], [23, 190, 207]):  # the first curve, pca; the first line, raw
            assert (np.abs(panel - colour).sum(axis=-1) < 60).sum() > 80


def test_each_array_is_a_row_of_images(tmp_path):
    pytest.importorskip("matplotlib")
    draw_rows({"one": np.zeros((3, 256)), "two": np.full((3, 256), 0.6)}, SHAPE, tmp_path / "m.png")
    drawn = np.asarray(Image.open(tmp_path / "m.png"))[..., 0]
    half = drawn.shape[0] // 2
    assert (drawn[:half] == 0).mean() > 0.4 and (drawn[half:] == 153).mean() > 0.4


def test_without_matplotlib_it_is_said(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf._checks.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match="matplotlib must be installed for plots"):
        evaluate(study(folder), Comparison(plots=True, out=tmp_path / "out"))
