"""Figures of comparisons."""

import numpy as np
import pytest
from PIL import Image

from visionnmf.apps.drawing import save_figure
from visionnmf.apps.evaluate import Comparison, evaluate
from visionnmf.apps.evaluate.drawing import rank_figure
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
    save_figure(rank_figure(lines, panels=("test",), score="accuracy"), tmp_path / "curves.png")
    drawn = np.asarray(Image.open(tmp_path / "curves.png"))[..., :3].astype(int)
    for panel in np.array_split(drawn[: len(drawn) * 4 // 5], 2, axis=1):  # side by side, above the legend
        for colour in ([31, 119, 180], [255, 127, 14]):  # the first method, raw; the second, pca
            assert (np.abs(panel - colour).sum(axis=-1) < 60).sum() > 80


def test_methods_without_a_rank_and_studies_without_a_drawing_get_bars(tmp_path):
    """Widths are the scores, the first line is at the top, and only texts that differ name a bar."""
    pytest.importorskip("matplotlib")
    lines = [
        {"corruption": "none", "method": "raw", "rank": None, "accuracy": 60.0, "accuracy_deviation": 5.0},
        {"corruption": "none", "method": "crc", "rank": None, "accuracy": 80.0, "seconds": 0.5},
    ]
    figure = rank_figure(lines, panels=("corruption",), score="accuracy")
    left, right = figure.axes
    assert [bar.get_width() for bar in left.patches] == [60, 80] and left.get_xlabel() == "accuracy"
    assert [label.get_text() for label in left.get_yticklabels()] == ["raw", "crc"]
    assert left.yaxis_inverted() and np.isnan(right.patches[0].get_width()) and right.patches[1].get_width() == 0.5
    (bar,) = left.collections  # the first line alone has a deviation that can be seen
    np.testing.assert_allclose([segment[:, 0] for segment in bar.get_segments()], [[55, 65], [80, 80]])


def test_without_matplotlib_it_is_said(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf._checks.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match="matplotlib must be installed for plots"):
        evaluate(study(folder), Comparison(plots=True, out=tmp_path / "out"))
