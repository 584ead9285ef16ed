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


def test_without_matplotlib_it_is_said(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("visionnmf._checks.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match="matplotlib must be installed for plots"):
        evaluate(study(folder), Comparison(plots=True, out=tmp_path / "out"))
