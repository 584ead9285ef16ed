"""The kernel of the symmetric model with the Frobenius loss, against SciPy's non-negative least squares."""

import numpy as np
import pytest
from scipy.optimize import nnls

from visionnmf.engine import symmetric


@pytest.mark.parametrize("nodes", [1, 4, 64])
def test_frobenius_sweeps_solve_each_node_by_least_squares(nodes, rng, monkeypatch):
    monkeypatch.setattr(symmetric, "PASSES", 500)
    monkeypatch.setattr(symmetric, "NODES", nodes)
    A = rng.random((9, 9))
    A += A.T
    c = rng.random(len(A)) + 0.5
    c[2] = 0
    H = rng.random((3, len(A)))
    expected = H.copy()
    symmetric.fit_symmetric(A, H, c, max_iter=2, tol=0, loss="frobenius")
    for j in [*range(len(A)), *range(len(A))]:
        others = np.arange(len(A)) != j
        root = np.sqrt(c[others])
        expected[:, j] = nnls(expected[:, others].T * root[:, None], A[j, others] * root)[0]
    np.testing.assert_allclose(H, expected, atol=1e-4)


def test_components_that_nothing_uses_stay_as_they_are():
    H = np.zeros((2, 3))
    H[0] = 1
    symmetric.fit_symmetric(np.ones((3, 3)), H, np.ones(3), max_iter=3, tol=0, loss="frobenius")
    np.testing.assert_allclose(H, [[1, 1, 1], [0, 0, 0]])
