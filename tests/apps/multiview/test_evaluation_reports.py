"""What ``visionnmf multiview evaluate`` prints, for people and as JSON."""

import json

import pytest

from visionnmf.apps.multiview.evaluation import NO_SCORES, EvaluationReport, summarise


def evaluated(*accuracies, **more):
    """Return the report of an evaluation with these accuracies of its splits."""
    head = {"condition": "clean", "method": "pca", "missing": "", "rank": 4, "inner": 0.5, **NO_SCORES, **more}
    rows = [{**head, "split": split, "accuracy": accuracy} for split, accuracy in enumerate(accuracies)]
    plan = {"n_splits": len(accuracies), "conditions": ("clean",)}
    return EvaluationReport(samples=20, views=2, classes=2, plan=plan, scores=summarise(rows))


def refuse(word):
    raise AssertionError(f"{word} is not JSON")


def test_what_is_not_known_is_null_in_json():
    """The document had NaN, which is not JSON, and a deviation of 0 for a single split."""
    row = json.loads(json.dumps(evaluated(0.5, nmi=0.25).as_dict()), parse_constant=refuse)["scores"][0]
    assert row["deviation"] is None and row["average_precision"] is None and row["cluster_accuracy"] is None
    assert row["accuracy"] == 0.5 and row["nmi"] == 0.25
    again = evaluated(0.5, 0.7, 0.9)
    assert again.as_dict()["scores"][0]["deviation"] == pytest.approx((0.08 / 3) ** 0.5)
    assert again.scores[0]["average_precision"] != again.scores[0]["average_precision"]  # still NaN in Python


def test_the_table_has_the_deviation_over_splits():
    assert evaluated(0.5, 0.7, 0.9, nmi=0.25).summary().splitlines() == [
        "20 samples, 2 views, 2 classes, 3 splits",
        "  clean, pca: accuracy 70.0 ± 16.3 %, NMI 25.0 %",
    ]
    assert evaluated(0.5).summary().splitlines()[1] == "  clean, pca: accuracy 50.0 %"


def test_words_have_the_deviation_of_their_score():
    nan = float("nan")
    report = evaluated(nan, nan, average_precision=0.75)
    assert report.summary().splitlines()[1] == "  clean, pca: mean average precision 75.0 ± 0.0 %"
