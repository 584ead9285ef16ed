"""Comparisons of detectors: the summary of the ROC curve against counting, figures by hand, chance."""

import json
import math
import warnings

import numpy as np
import pytest
from helpers import make_chain, run_command, walk

from visionnmf.apps.evaluate import Comparison, DetectorConditions, RandomSplits, evaluate, masquerade as application
from visionnmf.apps.evaluate.masquerade import METHODS, roc_summary, study
from visionnmf.apps.evaluate.session_baselines import NaiveBayes
from visionnmf.apps.masquerade import SessionCutting
from visionnmf.exceptions import ParameterError, UnreadableError
from visionnmf.io import read_image

FIFTY = SessionCutting(size=50)


def compare(histories, comparison=Comparison(), cutting=FIFTY, **others):
    return evaluate(study(histories, comparison, cutting=cutting, **others), comparison)


def test_roc_summary_against_counting():
    rng = np.random.default_rng(0)
    z, y = rng.integers(0, 40, 300) / 4, rng.random(300) < 0.3
    z[y] += 2
    auc, missing, cost = roc_summary(z, y)
    own, other = z[~y], z[y]
    assert auc == pytest.approx(np.mean([(o > s) + (o == s) / 2 for o in other for s in own]))
    points = [(100 * (own > t).mean(), 100 * (other <= t).mean()) for t in [-1, *z]]
    assert missing == {rate: pytest.approx(min(m for f, m in points if f <= rate)) for rate in (1, 5, 10)}
    assert cost == pytest.approx(min(m + 6 * f for f, m in points))
    with pytest.raises(ParameterError, match="both kinds of sessions"):
        roc_summary([1, 2], [True, True])


@pytest.mark.parametrize("n", [20, 100])
def test_roc_summary_allows_just_so_many_false_alarms(n):
    own = np.arange(n, dtype=float)
    for rate in (1, 5, 10):
        allowed = rate * n // 100
        just_above = own[n - 1 - allowed] + 0.5  # missed by every threshold with fewer false alarms
        assert roc_summary([*own, just_above], [False] * n + [True])[1][rate] == 0


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    rng = np.random.default_rng(4)
    folder = tmp_path_factory.mktemp("histories")
    for name in ("ann", "bob", "eve"):
        sessions = walk(make_chain(rng), rng, 12, length=50)
        (folder / name).write_text("\n".join(command for session in sessions for command in session) + "\n")
    return sorted(folder.iterdir())


@pytest.mark.slow
def test_methods_stand_beside_each_other_and_their_curves_are_drawn(histories, tmp_path):
    pytest.importorskip("matplotlib")
    here = Comparison(methods=("all",), plots=True, out=tmp_path / "out")
    found = compare(histories, here)
    assert [line["method"] for line in found.table] == list(METHODS)
    assert found.table[0] == compare(histories).table[0] and found.table[0]["auc"] > 0.8
    assert all(0.4 < line["auc"] <= 1 for line in found.table)
    picture = tmp_path / "out" / "roc.png"
    assert read_image(picture).shape[1] > 1000 and str(picture) in found.outputs


def test_a_baselines_figures_are_those_of_its_scores(histories):
    """Each user's own later sessions and the others', scored by hand."""
    found = compare(histories, Comparison(methods=("naive-bayes",))).table[0]
    parts = [path.read_text().split() for path in histories]
    sessions = [[part[i : i + 50] for i in range(0, 600, 50)] for part in parts]
    z, y = [], []
    for user, own in enumerate(sessions):
        others = [session for other in range(3) if other != user for session in sessions[other][6:]]
        z += NaiveBayes().fit(own[:6]).anomaly_score([*own[6:], *others]).tolist()
        y += [False] * 6 + [True] * 12
    auc, missing, cost = roc_summary(z, y)
    at = [found[f"missed_at_{rate}_%"] for rate in (1, 5, 10)]
    assert (found["auc"], at, found["cost"]) == (auc, list(missing.values()), cost)


def test_the_table_has_a_row_for_each_session_and_an_interrupted_run_goes_on(histories, tmp_path, monkeypatch):
    here = Comparison(methods=("naive-bayes",), out=tmp_path)
    whole = compare(histories, here, splits=RandomSplits(splits=2))
    assert len(whole.rows) == 2 * 3 * 18 and sum(row["intruder"] for row in whole.rows) == 2 * 3 * 12
    (tmp_path / "jobs" / "naive-bayes-1-split1.json").unlink()
    done, original = [], application._scores
    monkeypatch.setattr(application, "_scores", lambda *given: done.append(given) or original(*given))
    assert compare(histories, here, splits=RandomSplits(splits=2)).table == whole.table and len(done) == 1


@pytest.mark.slow
def test_the_command_compares_methods_in_processes(histories):
    one, two = (
        run_command("evaluate", "masquerade", *histories, "--size", 50, "--methods", "scorer,ecm", "--json", *more)
        for more in ((), ("--jobs", 2))
    )
    assert one.exit_code == two.exit_code == 0 and one.stdout == two.stdout
    assert [line["method"] for line in json.loads(one.stdout)["table"]] == ["scorer", "ecm"]


def test_few_sessions_are_compared_without_a_warning_and_what_cannot_be_read_is_reported(histories, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare(histories, Comparison(methods=("scorer",)))
    assert [str(each.message) for each in caught] == []
    found = compare([*histories, tmp_path / "missing"])
    assert len(found.skipped) == 1 and found.as_dict()["skipped"] == found.skipped
    assert "left out: " in str(found) and "no such file" in str(found)


def test_users_alike_cannot_be_told_apart(tmp_path):
    commands = np.random.default_rng(0).choice([f"c{i}" for i in range(12)], 800)
    twins = [tmp_path / "one", tmp_path / "two"]
    for twin in twins:
        twin.write_text("\n".join(commands) + "\n")
    found = compare(twins, cutting=SessionCutting(size=20)).table[0]
    assert math.isclose(found["auc"], 0.5, abs_tol=0.1)


def test_what_a_comparison_needs(tmp_path):
    (tmp_path / "one").write_text("ls\ncd\nvi\n" * 150)
    with pytest.raises(UnreadableError, match="two users with 4 sessions are needed, found 1; try a smaller size"):
        compare([tmp_path / "one"], cutting=SessionCutting())
    result = run_command("evaluate", "masquerade", tmp_path / "one")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.stderr
    with pytest.raises(ParameterError, match="training_share must be a number > 0 and < 1; got 1"):
        DetectorConditions(training_share=1)
