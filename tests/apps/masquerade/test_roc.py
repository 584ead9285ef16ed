"""The summary of the ROC curve against counting."""

import numpy as np
import pytest

from visionnmf.apps.masquerade import roc_summary
from visionnmf.exceptions import ParameterError


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
