"""ProjectiveNMF: gradients by differences, never rising, parts that are found, scikit-learn's contract."""

import numpy as np
import pytest
from naive import kullback_leibler
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf import ProjectiveNMF
from visionnmf.engine import projective
from visionnmf.exceptions import ParameterError

LOSSES = {
    "frobenius": lambda X, H: ((X - X @ H.T @ H) ** 2).sum() / 2,
    "kullback-leibler": lambda X, H: kullback_leibler(X, X @ H.T @ H),
}
NOT_CONVERGED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def parts(rng, n=80, sizes=(6, 9, 5), noise=0.0):
    """Samples made of parts that do not overlap."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    H = np.where(owner == np.arange(len(sizes))[:, None], rng.uniform(0.5, 1.5, len(owner)), 0)
    X = rng.gamma(1, size=(n, len(sizes))) @ H
    return X * rng.uniform(1 - noise, 1 + noise, X.shape), owner


@pytest.mark.parametrize("shape", [(7, 5), (5, 7)])
@pytest.mark.parametrize("loss", LOSSES)
def test_objective_and_gradient(loss, shape, rng):
    X, H = rng.random(shape) + 0.1, rng.random((3, shape[1])) + 0.1
    found = projective.SLOPES[loss](X)(H)
    assert found.objective == pytest.approx(LOSSES[loss](X, H))
    assert (found.plus >= 0).all() and (found.minus >= 0).all()
    for index in np.ndindex(*H.shape):
        step = np.zeros_like(H)
        step[index] = 1e-5
        slope = (LOSSES[loss](X, H + step) - LOSSES[loss](X, H - step)) / 2e-5
        assert (found.plus - found.minus)[index] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def naive_update(X, H, loss):
    """The corrected multiplicative updates of Yuan & Oja (2005)."""
    W, V = H.T, X.T
    if loss == "frobenius":
        W = W * 2 * (V @ V.T @ W) / (W @ W.T @ V @ V.T @ W + V @ V.T @ W @ W.T @ W)
        return (W / np.linalg.norm(W, 2)).T
    Z = V / (W @ W.T @ V)
    minus = Z @ (V.T @ W) + V @ (Z.T @ W)
    plus = np.ones_like(V) @ (V.T @ W) + V @ (np.ones_like(V).T @ W)
    return (W * np.sqrt(minus / plus)).T


@NOT_CONVERGED
@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_multiplicative_update_is_the_papers_corrected(loss, shape, rng):
    X = rng.random(shape) + 0.1
    H = rng.random((4, shape[1]))
    H /= np.linalg.norm(H, 2)
    found = H.copy()
    projective.fit(X, found, loss=loss, solver="mu", max_iter=3, tol=0)
    expected = H
    for _ in range(3):
        expected = naive_update(X, expected, loss)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@NOT_CONVERGED
@pytest.mark.parametrize("loss", LOSSES)
def test_the_quasi_newton_method_never_rises_and_ends_lower(loss, rng):
    X, _ = parts(rng, sizes=(4,) * 8, noise=0.5)
    ends = {}
    for solver in ("l-bfgs", "mu"):
        model = ProjectiveNMF(8, loss=loss, solver=solver, max_iter=60, tol=0, init="random", random_state=0).fit(X)
        history = model.objective_history_
        assert len(history) == model.n_iter_ + 1 == 61
        assert model.reconstruction_err_ == history[-1] == pytest.approx(LOSSES[loss](X, model.components_))
        ends[solver] = history[-1]
        if solver == "l-bfgs":
            assert (np.diff(history) <= 1e-12 * history[0]).all()
    assert ends["l-bfgs"] < 0.9 * ends["mu"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES)
def test_parts_are_found(loss, dtype, rng):
    X, owner = parts(rng)
    model = ProjectiveNMF(3, loss=loss, tol=1e-6, random_state=0).fit(X.astype(dtype))
    assert model.components_.dtype == model.transform(X.astype(dtype)).dtype == dtype
    H = model.components_
    groups = H.argmax(axis=0)
    assert len({(g, o) for g, o in zip(groups, owner, strict=True)}) == 3
    assert (H < 0.05 * H.max(axis=1, keepdims=True))[np.arange(3)[:, None] != groups].all()
    found = model.inverse_transform(model.transform(X))
    assert np.linalg.norm(X - found) < 0.02 * np.linalg.norm(X)
    assert model.optimality_ < 1e-2


def test_optimality_falls_and_is_free_of_scale_and_codes_are_a_linear_map_of_each_row(rng):
    X, _ = parts(rng, noise=0.3)
    H = rng.random((3, X.shape[1]))
    for loss in LOSSES:
        random = projective.optimality(X, H, loss=loss)
        assert projective.optimality(1e6 * X, H, loss=loss) == pytest.approx(random)
        found = H.copy()
        projective.fit(X, found, loss=loss, solver="l-bfgs", max_iter=2000, tol=1e-12)
        assert projective.optimality(X, found, loss=loss) < 1e-4 < 0.03 < random
    model = ProjectiveNMF(3, random_state=0)
    codes = model.fit_transform(X)
    np.testing.assert_array_equal(codes, model.transform(X))
    np.testing.assert_allclose(codes, X @ model.components_.T)
    np.testing.assert_allclose(model.transform(X[5:6] + X[7:8])[0], codes[5] + codes[7])
    np.testing.assert_allclose(model.inverse_transform(codes), X @ model.components_.T @ model.components_)


@pytest.mark.parametrize("loss", LOSSES)
def test_scale_seed_and_threads(loss, rng, monkeypatch):
    X = parts(rng, n=400, sizes=(60, 80, 40), noise=0.3)[0]
    model = ProjectiveNMF(3, loss=loss, init="random", max_iter=8, tol=0, random_state=1)
    found = model.fit(X).components_
    np.testing.assert_array_equal(clone(model).fit(X).components_, found)
    np.testing.assert_allclose(clone(model).fit(X * 2.0**20).components_, found, rtol=1e-6)
    monkeypatch.setenv("VISIONNMF_NUM_THREADS", "4")
    np.testing.assert_allclose(clone(model).fit(X).components_, found, rtol=1e-9)


@NOT_CONVERGED
@pytest.mark.parametrize("solver", ["l-bfgs", "mu"])
@pytest.mark.parametrize("loss", LOSSES)
def test_odd_shapes_and_zeros(loss, solver, rng):
    gaps = rng.random((6, 5))
    gaps[2] = gaps[:, 3] = 0
    for X in (np.zeros((4, 3)), np.ones((1, 6)), np.ones((6, 1)), gaps, np.full((3, 4), 1e-20), gaps.astype("f4")):
        model = ProjectiveNMF(7, loss=loss, solver=solver, max_iter=20, random_state=0).fit(X)
        assert model.components_.shape == (7, X.shape[1]) and np.isfinite(model.components_).all()
        assert np.isfinite(model.reconstruction_err_) and model.reconstruction_err_ >= -1e-9 * X.sum()
        assert 0 <= model.optimality_ < 1


def test_a_callback_stops_and_not_converging_is_a_warning(rng):
    X, _ = parts(rng, noise=0.3)
    seen = []
    model = ProjectiveNMF(3, callback=lambda n, value: seen.append((n, value)) or n == 4, random_state=0).fit(X)
    assert [n for n, _ in seen] == [1, 2, 3, 4] and model.n_iter_ == 4
    np.testing.assert_allclose([value for _, value in seen], model.objective_history_[1:], rtol=1e-9)
    with pytest.warns(ConvergenceWarning, match="ProjectiveNMF stopped after 2 iterations"):
        ProjectiveNMF(3, max_iter=2, random_state=0).fit(X)


def test_codes_of_another_shape_are_refused():
    with pytest.raises(ParameterError, match=r"X must have shape \(n_samples, 2\); got \(3, 4\)"):
        ProjectiveNMF(2, random_state=0).fit(np.eye(3)).inverse_transform(np.ones((3, 4)))
