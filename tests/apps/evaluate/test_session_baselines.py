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


def factors(A, W, H, n):
    """Equations 2 to 4 of Mex-Perera et al."""
    rows, columns = range(len(A)), range(A.shape[1])
    for _ in range(n):
        P = W @ H
        H = np.array(
            [
                [H[a, m] * sum(A[i, m] / P[i, m] * W[i, a] for i in rows) / W[:, a].sum() for m in columns]
                for a in range(2)
            ]
        )
        P = W @ H
        W = np.array([[W[i, a] * sum(A[i, m] / P[i, m] * H[a, m] for m in columns) for a in range(2)] for i in rows])
        W /= W.sum(axis=0)
    return W, H


def start(seed=3):
    rng = np.random.default_rng(seed)
    W = rng.uniform(0.1, 1.0, (3, 2))
    return W / W.sum(axis=0), rng.uniform(0.1, 1.0, (2, 3))


TRAINING, COUNTS = [["a", "a", "b"], ["b", "c", "a"], ["a", "c", "c"]], np.array([[2, 1, 1], [1, 1, 0], [0, 1, 2]])


def test_the_papers_model_to_the_letter():
    training = TRAINING
    model = MexPereraNMF(random_state=3).fit(training)
    p = {"a": 4 / 9, "b": 2 / 9, "c": 3 / 9}
    A = np.array([-math.log(p[c]) / 3 for c in "abc"])[:, None] * COUNTS
    W, H = factors(A, *start(), 50)
    np.testing.assert_allclose(model.basis_, W)
    np.testing.assert_allclose(model.codes_, H)
    # a test session with one unseen command: L = 4, N = 1
    a = np.array([-math.log(p["a"]) * 2, -math.log(p["b"]), 0]) / (4 - 1)
    h = np.full(2, a.sum() / 2)
    for _ in range(10):
        h = h * (W.T @ (a / (W @ h))) / W.sum(axis=0)
    assert model.anomaly_score([["a", "b", "a", "z"]])[0] == pytest.approx(np.linalg.norm(a - W @ h) * 2)
    assert model.anomaly_score([["y", "z"]])[0] == 3
    assert MexPereraNMF(unseen_distance=0.0).fit(training).anomaly_score([["y", "z"]])[0] == 0
    model.update(["c", "b", "b"])  # accepted: new weights, then two updates, for which its code is found first
    V = np.concatenate([COUNTS, [[0], [2], [1]]], axis=1)
    A = -np.log(V.sum(axis=1) / 12)[:, None] / 3 * V
    h = np.full(2, A[:, 3].sum() / 2)
    for _ in range(10):
        h = h * (W.T @ (A[:, 3] / np.maximum(W @ h, 1e-12))) / W.sum(axis=0)
    expected = factors(A, W, np.column_stack([H, h]), 2)
    for one, other in zip((model.basis_, model.codes_), expected, strict=True):
        np.testing.assert_allclose(one, other)


def test_wangs_model_to_the_letter_and_its_share_of_unseen_commands_in_the_limit(users):
    model = WangNMF(random_state=3).fit(TRAINING)
    W, H = factors(COUNTS / 3, *start(), 50)
    np.testing.assert_allclose(model.codes_, H)
    v, h = np.array([2, 0, 1]) / 4, np.full(2, 0.5)  # of four commands one is unseen
    for _ in range(10):
        h = h * (W.T @ (v / np.maximum(W @ h, 1e-12))) / W.sum(axis=0)
    assert model.anomaly_score([["a", "a", "c", "z"]])[0] == pytest.approx(abs(h.sum() - 1))
    training, own, _ = users[0]
    model = type("Converged", (WangNMF,), {"n_iterations": (50, 200, 2)})().fit(training)
    test = [["new"] * n + s[n:] for n, s in zip((0, 10, 40, 100), own, strict=False)]
    known = {c for s in training for c in s}
    np.testing.assert_allclose(
        model.anomaly_score(test), [np.mean([c not in known for c in s]) for s in test], atol=1e-9
    )
