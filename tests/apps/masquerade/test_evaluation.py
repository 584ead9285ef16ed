"""The summary of the ROC curve against counting."""

import json

import numpy as np
import pytest
from helpers import make_chain, run_command, walk

from visionnmf import choices
from visionnmf.apps.masquerade import DetectorComparison, SessionCutting, evaluate, evaluation
from visionnmf.apps.masquerade.baselines import NaiveBayes
from visionnmf.apps.masquerade.evaluation import roc_summary
from visionnmf.exceptions import OutputExistsError, ParameterError
from visionnmf.io import read_image

FIFTY = SessionCutting(size=50)


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
    roc = tmp_path / "roc.png"
    found = evaluate(
        histories, cutting=FIFTY, comparison=DetectorComparison(methods=choices.MASQUERADE_METHODS), roc=roc
    )
    assert tuple(found.methods) == choices.MASQUERADE_METHODS == tuple(evaluation.METHODS)
    alone = evaluate(histories, cutting=FIFTY)
    assert (found.auc, found.missing, found.users) == (alone.auc, alone.missing, alone.users)
    assert found.methods["scorer"]["auc"] == found.auc > 0.8
    assert all(0.4 < row["auc"] <= 1 and set(row["missing"]) == {1, 5, 10} for row in found.methods.values())
    assert len(found.summary().splitlines()) == 1 + 1 + 7 + 1 and found.outputs == [str(roc)]
    assert read_image(roc).shape[1] == 1200
    with pytest.raises(OutputExistsError):
        evaluate(histories, cutting=FIFTY, roc=roc)
    with pytest.raises(ParameterError, match="methods must be one of"):
        DetectorComparison(methods=["magic"])


def test_a_baselines_figures_are_those_of_its_scores(histories, monkeypatch):
    """Each user's own later sessions and the others', scored by hand."""
    found = evaluate(histories, cutting=FIFTY, comparison=DetectorComparison(methods=["naive-bayes"])).methods[
        "naive-bayes"
    ]
    parts = [path.read_text().split() for path in histories]
    sessions = [[part[i : i + 50] for i in range(0, 600, 50)] for part in parts]
    z, y = [], []
    for user, own in enumerate(sessions):
        others = [session for other in range(3) if other != user for session in sessions[other][6:]]
        z += NaiveBayes().fit(own[:6]).anomaly_score([*own[6:], *others]).tolist()
        y += [False] * 6 + [True] * 12
    auc, missing, cost = roc_summary(z, y)
    assert (found["auc"], found["missing"], found["cost"]) == (auc, missing, cost)


@pytest.mark.slow
def test_the_command_compares_methods_in_processes(histories):
    one, two = (
        run_command("masquerade", "evaluate", *histories, "--size", 50, "--methods", "scorer,ecm", "--json", *more)
        for more in ((), ("--jobs", 2))
    )
    assert one.exit_code == two.exit_code == 0 and json.loads(one.stdout) == json.loads(two.stdout)
    assert list(json.loads(one.stdout)["methods"]) == ["scorer", "ecm"]
