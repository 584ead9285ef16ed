"""The kernel that balances signs, against SciPy's least squares with bounds."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from visionnmf.engine.kernels.manhattan import balance_signs


@pytest.mark.parametrize("weighted", [False, True])
def test_signs_are_balanced_as_well_as_they_can_be(weighted, rng):
    n_rows, n, r = 4, 9, 3
    A = rng.random((n, r))
    inside = np.full((n_rows, r), 0.5)
    G = 2 * rng.standard_normal((n_rows, r))
    zero = rng.random((n_rows, n)) < 0.6
    zero[0] = False
    rows, columns = np.nonzero(zero)
    bounds = rng.random(len(columns)) + 0.1 if weighted else np.ones(len(columns))
    starts = np.searchsorted(rows, np.arange(n_rows + 1))
    found = G.copy()
    scratch = np.zeros(len(columns)), np.empty(r)
    balance_signs(starts, columns, bounds, A, (A**2).sum(axis=1), inside, found, 0.0, 3000, *scratch)
    np.testing.assert_array_equal(found[0], G[0])
    for j in range(1, n_rows):
        own = slice(starts[j], starts[j + 1])
        best = lsq_linear(A[columns[own]].T, -G[j], (-bounds[own], bounds[own]))
        assert np.linalg.norm(found[j]) ** 2 / 2 == pytest.approx(best.cost, rel=1e-4, abs=1e-8)


def test_a_bound_takes_its_share(rng):
    A = np.array([[1.0, 1.0]])
    one = np.array([0, 1]), np.array([0]), np.ones(1), A, np.array([2.0])
    for codes, gradient, expected in (
        ([0.0, 0.5], [5.0, 0.7], [4.3, 0.0]),  # a positive derivative at the lower bound needs no balance
        ([1.0, 0.5], [-5.0, 0.7], [-5.7, 0.0]),  # nor a negative one at the upper bound
        ([0.5, 0.5], [0.7, 0.7], [0.0, 0.0]),
        ([0.5, 0.5], [3.0, 3.0], [2.0, 2.0]),
    ):
        G = np.array([gradient])
        balance_signs(*one, np.array([codes]), G, 0.0, 100, np.zeros(1), np.empty(2))
        np.testing.assert_allclose(G[0], expected, atol=1e-5)
