"""The kernel of codes on the simplex, against scipy on single rows; also run without the compiler."""

import numpy as np
import pytest

from visionnmf.engine.divergence import floor_of
from visionnmf.engine.kernels.penalties import simplex_codes


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_codes_against_a_grid(beta, weighted, rng):
    A, X = rng.gamma(1, 1, (2, 4)), rng.gamma(1, 1, (3, 4))
    M = np.array([[1, 0, 2, 1.0]] * 3) if weighted else None
    data = X if M is None else X * (M > 0)
    Ft = np.empty((2, 3))
    simplex_codes(data, M, A, Ft, beta, floor_of(beta), np.zeros(2), np.full(2, 0.3), 200, 1e-8)
    shares = np.linspace(0, 1, 2001)
    for i in range(3):
        P = np.outer(shares, A[0]) + np.outer(1 - shares, A[1])
        x, p = X[i], P
        if beta == 1:
            d = x * np.log(x / p) - x + p
        elif beta == 0:
            d = x / p - np.log(x / p) - 1
        else:
            d = (x**beta + (beta - 1) * p**beta - beta * x * p ** (beta - 1)) / (beta * (beta - 1))
        value = (d if M is None else d * M[i]).sum(axis=1) + 0.15 * (shares**2 + (1 - shares) ** 2)
        assert abs(Ft[0, i] - shares[value.argmin()]) < 1e-3 or value.max() - value.min() < 1e-6
        np.testing.assert_allclose(Ft[:, i].sum(), 1, rtol=1e-12)
