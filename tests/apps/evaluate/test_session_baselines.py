"""The paper's model and the baselines: to the letter, and that they find what is foreign."""

import math

import numpy as np
import pytest

from visionnmf.apps.evaluate.session_baselines import EigenCooccurrence, HiddenMarkov, MexPereraNMF, NaiveBayes, WangNMF
from visionnmf.exceptions import ParameterError

BASELINES = {"mex": MexPereraNMF, "wang": WangNMF, "ecm": EigenCooccurrence, "bayes": NaiveBayes, "hmm": HiddenMarkov}


@pytest.mark.parametrize("name", ["mex", "wang", "ecm", "bayes", pytest.param("hmm", marks=pytest.mark.slow)])
def test_baselines_find_foreign_commands_learn_them_and_repeat_themselves(name, users):
    if name == "hmm":
        pytest.importorskip("hmmlearn")
    training, own, _ = users[0]
    model = BASELINES[name]().fit(training)
    foreign = [["x1", "x2", "x3", "x4"] * 10 + s[:60] for s in own]
    assert model.anomaly_score(foreign).min() > model.anomaly_score(own).max()
    np.testing.assert_array_equal(BASELINES[name]().fit(training).anomaly_score(foreign), model.anomaly_score(foreign))
    before = model.anomaly_score(foreign[:1])[0]
    for session in foreign[:10]:
        model.update(session)
    assert model.anomaly_score(foreign[:1])[0] < before
    with pytest.raises(ParameterError, match="X must hold at least one session; got none"):
        BASELINES[name]().fit([])


def test_the_papers_model_to_the_letter():
    training = [["a", "a", "b"], ["b", "c", "a"], ["a", "c", "c"]]
    model = MexPereraNMF(random_state=3).fit(training)
    p = {"a": 4 / 9, "b": 2 / 9, "c": 3 / 9}
    V = np.array([[2, 1, 1], [1, 1, 0], [0, 1, 2]], float)
    A = np.array([-math.log(p[c]) / 3 for c in "abc"])[:, None] * V
    rng = np.random.default_rng(3)
    W = rng.uniform(0.1, 1.0, (3, 2))
    W /= W.sum(axis=0)
    H = rng.uniform(0.1, 1.0, (2, 3))
    for _ in range(50):
        H = np.array(
            [
                [H[a, m] * sum(A[i, m] / (W @ H)[i, m] * W[i, a] for i in range(3)) / W[:, a].sum() for m in range(3)]
                for a in range(2)
            ]
        )
        W = np.array(
            [[W[i, a] * sum(A[i, m] / (W @ H)[i, m] * H[a, m] for m in range(3)) for a in range(2)] for i in range(3)]
        )
        W /= W.sum(axis=0)
    np.testing.assert_allclose(model.basis_, W)
    # a test session with one unseen command: L = 4, N = 1
    a = np.array([-math.log(p["a"]) * 2, -math.log(p["b"]), 0]) / (4 - 1)
    h = np.full(2, a.sum() / 2)
    for _ in range(10):
        h = h * (W.T @ (a / (W @ h))) / W.sum(axis=0)
    assert model.anomaly_score([["a", "b", "a", "z"]])[0] == pytest.approx(np.linalg.norm(a - W @ h) * 2)
    assert model.anomaly_score([["y", "z"]])[0] == 3
    assert MexPereraNMF(unseen_distance=0.0).fit(training).anomaly_score([["y", "z"]])[0] == 0


def test_wangs_score_is_the_share_of_unseen_commands_in_the_limit(users):
    training, own, _ = users[0]
    model = type("Converged", (WangNMF,), {"n_iterations": (50, 200, 2)})().fit(training)
    test = [["new"] * n + s[n:] for n, s in zip((0, 10, 40, 100), own, strict=False)]
    known = {c for s in training for c in s}
    np.testing.assert_allclose(
        model.anomaly_score(test), [np.mean([c not in known for c in s]) for s in test], atol=1e-9
    )
