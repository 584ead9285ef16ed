"""Lines of a comparison of methods for several views, and what it does not overwrite."""

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.evaluate.harness import as_text
from visionnmf.apps.evaluate.multiview import NO_SCORES, _draw, by_method


def table(*accuracies, **more):
    """Return the printed table of an evaluation with these accuracies of its splits."""
    head = {"condition": "clean", "method": "pca", "missing": "", "rank": 4, "inner": 0.5, **NO_SCORES, "seconds": 1.0}
    rows = [{**head, "split": split, "accuracy": accuracy, **more} for split, accuracy in enumerate(accuracies)]
    return by_method(rows)


def test_the_table_has_the_deviation_over_splits_and_no_column_of_nothing():
    assert as_text(table(0.5, 0.7, 0.9, nmi=0.25)) == [
        "condition  method    accuracy       nmi  rank  seconds",
        "clean      pca     0.7 ± 0.16  0.25 ± 0     4    1 ± 0",
    ]
    assert table(0.5)[0] == {
        **{"condition": "clean", "missing": "", "method": "pca", "accuracy": 0.5, "cluster_accuracy": None},
        **{"nmi": None, "average_precision": None, "rank": 4.0, "seconds": 1.0},
    }


def test_the_panel_of_missing_views_is_of_those_and_a_single_rank_has_bars():
    """Under "view-missing" the rows with all views were drawn, which are those of "clean"."""
    pytest.importorskip("matplotlib")
    head = {"method": "pca", **NO_SCORES}
    rows = [
        {**head, "condition": condition, "missing": missing, "rank": rank, "split": split, "accuracy": accuracy}
        for rank, more in ((2, 0.0), (3, 0.1))
        for split in (0, 1)
        for condition, missing, accuracy in (
            ("clean", "", 0.8 + more),
            ("view-missing", "", 0.8 + more),
            ("view-missing", "a", 0.2 + 0.2 * split + more),
            ("view-missing", "b", 0.4 + 0.2 * split + more),
        )
    ]
    rows += [{**row, "method": "concatenation", "accuracy": 0.5} for row in rows if row["rank"] == 2]
    figure = _draw(rows)
    left, right = figure.axes
    assert [axes.get_title() for axes in (left, right)] == ["clean", "view-missing (mean)"]
    for axes, expected in ((left, [0.8, 0.9]), (right, [0.4, 0.5])):
        curve, flat = axes.get_lines()
        np.testing.assert_allclose(curve.get_xydata(), [[2, expected[0]], [3, expected[1]]])
        np.testing.assert_allclose(flat.get_xydata(), [[2, 0.5], [3, 0.5]])  # has no rank
        assert all(tick == round(tick) for tick in axes.get_xticks())
    band = right.collections[0].get_paths()[0].vertices  # the deviation over splits, not over views
    np.testing.assert_allclose([band[:, 1].min(), band[:, 1].max()], [0.3, 0.6])
    (bars,) = _draw([row for row in rows if row["rank"] == 2]).axes
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], [0.8, 0.4, 0.5, 0.5])
    assert [label.get_text() for label in bars.get_yticklabels()] == [
        f"{condition}, {method}"
        for method in ("pca", "concatenation")
        for condition in ("clean", "view-missing (mean)")
    ]
    one = [row for row in rows if row["condition"] == "view-missing" and not row["missing"]]  # data of a single view
    assert [axes.get_title() for axes in _draw(one).axes] == ["view-missing"]


def test_inputs_are_not_overwritten(tmp_path, rng):
    np.savez(tmp_path / "both.npz", view_a=rng.random((20, 3)), view_b=rng.random((20, 3)))
    labels = tmp_path / "scores.png"
    labels.write_text("\n".join("ab" * 10))
    options = ("--labels", labels, "--plots", "--out", tmp_path, "--force")
    pytest.importorskip("matplotlib")
    result = run_command("evaluate", "multiview", tmp_path / "both.npz", *options)
    assert result.exit_code == 2 and "would overwrite the input" in result.stderr, result.stderr
