"""Lines of a comparison of methods for several views, and what it does not overwrite."""

import numpy as np
import pytest
from helpers import run_command

from visionnmf.apps.evaluate.harness import as_text
from visionnmf.apps.evaluate.multiview import NO_SCORES, by_method


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


def test_inputs_are_not_overwritten(tmp_path, rng):
    np.savez(tmp_path / "both.npz", view_a=rng.random((20, 3)), view_b=rng.random((20, 3)))
    labels = tmp_path / "scores.png"
    labels.write_text("\n".join("ab" * 10))
    options = ("--labels", labels, "--plots", "--out", tmp_path, "--force")
    pytest.importorskip("matplotlib")
    result = run_command("evaluate", "multiview", tmp_path / "both.npz", *options)
    assert result.exit_code == 2 and "would overwrite the input" in result.stderr, result.stderr
