"""The penalty and the constraint of MultiviewNMF end to end: given the codes, the components are a convex solver's."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from visionnmf import MultiviewNMF

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

WIDTHS = (4, 6)
RANK = 3
N = 20


@pytest.fixture
def views(rng):
    codes = rng.gamma(0.7, size=(N, RANK))
    codes[:, 2] *= rng.random(N) < 0.7
    parts = rng.random((RANK, 10)) * np.repeat([[1, 1], [1, 1], [0, 1]], WIDTHS, axis=1)
    X = codes @ parts + 0.05 * rng.random((N, 10))
    return [X[:, :4], X[:, 4:]]


def fitted(views, **options):
    """Return the scaled data, the codes and the components as the objective has them."""
    model = MultiviewNMF(RANK, max_iter=2000, tol=1e-9, random_state=0, **options).fit(views)
    scale = model.view_scales_[model.view_groups_]
    X = np.hstack(views) * scale
    norms = model.component_norms_
    return X, model.transform(views) / norms, model.components_ * scale * norms[:, None]


def weights(norm, eta):
    """Return the documented weight of each view: sqrt(n d_v), or sqrt(n) d_v for the max norm."""
    return [eta * np.sqrt(N) * (np.sqrt(d) if norm == 2 else d) for d in WIDTHS]


def sums(H, norm):
    order = 2 if norm == 2 else np.inf
    return np.array([np.linalg.norm(block, order, axis=1).sum() for block in np.split(H, [WIDTHS[0]], axis=1)])


def by_linear_program(X, W, eta=None, bounds=None):
    """Return the least sum of absolute residuals, with the penalty or under the bounds of max norms."""
    n, m = X.shape
    size = RANK * m
    peaks = 2 * RANK  # one a view and component
    cost = np.concatenate([np.zeros(size), np.ones(n * m), np.zeros(peaks)])
    if eta is not None:
        cost[-peaks:] = np.repeat(weights("inf", eta), RANK)
    model = np.kron(W, np.eye(m))  # of H by rows
    error, none = np.eye(n * m), np.zeros((n * m, peaks))
    rows = [np.hstack([model, -error, none]), np.hstack([-model, -error, none])]
    right = [X.ravel(), -X.ravel()]
    view = np.repeat([0, 1], WIDTHS)
    below = np.zeros((size, len(cost)))
    for k in range(RANK):
        for j in range(m):
            below[k * m + j, k * m + j] = 1
            below[k * m + j, size + n * m + view[j] * RANK + k] = -1
    rows.append(below)
    right.append(np.zeros(size))
    if bounds is not None:
        for v, bound in enumerate(bounds):
            row = np.zeros(len(cost))
            row[size + n * m + v * RANK :][:RANK] = 1
            rows.append(row[None])
            right.append([bound])
    found = linprog(cost, np.vstack(rows), np.concatenate(right), bounds=(0, None))
    assert found.status == 0
    return found.fun


def by_programming(X, W, eta=None, bounds=None):
    """Return the least sum of squares (halved), with the penalty or under the bounds of Euclidean norms."""

    def value(flat):
        H = flat.reshape(RANK, -1)
        penalty = 0 if eta is None else weights(2, eta) @ smooth(H)
        return 0.5 * ((X - W @ H) ** 2).sum() + penalty

    def smooth(H):
        return np.array([np.sqrt((b**2).sum(axis=1) + 1e-12).sum() for b in np.split(H, [WIDTHS[0]], axis=1)])

    limits = () if bounds is None else {"type": "ineq", "fun": lambda flat: bounds - smooth(flat.reshape(RANK, -1))}
    start = np.full(RANK * X.shape[1], 0.1)
    options = {"options": {"maxiter": 2000, "ftol": 1e-12}, "method": "SLSQP"}
    return minimize(value, start, bounds=[(0, None)] * len(start), constraints=limits, **options).fun


@pytest.mark.parametrize(("eta", "gap"), [(0.1, 2e-2), (0.5, 1e-5)])
def test_the_penalty_with_max_norms_is_that_of_a_linear_program(views, eta, gap):
    X, W, H = fitted(views, group_norm="inf", group_l1=eta)
    value = np.abs(X - W @ H).sum() + np.dot(weights("inf", eta), sums(H, "inf"))
    least = by_linear_program(X, W, eta=eta)
    assert least * (1 - 1e-9) <= value <= (1 + gap) * least


def test_the_constraint_with_max_norms_is_that_of_a_linear_program(views):
    X, W, H = fitted(views, group_norm="inf", group_bound=0.1)
    bounds = sums(H, "inf")
    least = by_linear_program(X, W, bounds=bounds * (1 + 1e-9))
    assert least * (1 - 1e-9) <= np.abs(X - W @ H).sum() <= 1.005 * least
    assert by_linear_program(X, W, bounds=0.9 * bounds) > 1.02 * least  # the bounds are what holds


@pytest.mark.parametrize("eta", [0.1, 0.5])
def test_the_penalty_with_euclidean_norms_is_that_of_a_convex_solver(views, eta):
    X, W, H = fitted(views, loss="frobenius", group_l1=eta)
    value = 0.5 * ((X - W @ H) ** 2).sum() + np.dot(weights(2, eta), sums(H, 2))
    least = by_programming(X, W, eta=eta)
    assert value == pytest.approx(least, rel=1e-5)


def test_the_constraint_with_euclidean_norms_is_that_of_a_convex_solver(views):
    X, W, H = fitted(views, loss="frobenius", group_bound=0.1)
    bounds = sums(H, 2)
    value, least = 0.5 * ((X - W @ H) ** 2).sum(), by_programming(X, W, bounds=bounds)
    assert value == pytest.approx(least, rel=1e-4)
    assert by_programming(X, W, bounds=0.9 * bounds) > 1.02 * least
