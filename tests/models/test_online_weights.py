"""OnlineNMF with samples and entries that count more or less, and the robust method on sparse data."""

import numpy as np
import pytest
from sklearn.base import clone

from visionnmf import NMF, OnlineNMF
from visionnmf.engine.losses import Loss, loss_value
from visionnmf.engine.online import METHODS, record
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

WEIGHTS = [name for name, method in METHODS.items() if method.weights]


@pytest.fixture
def X(rng):
    return 0.1 + rng.gamma(0.5, size=(60, 4)) @ rng.gamma(0.5, size=(4, 20)) + 0.05 * rng.random((60, 20))


@pytest.fixture
def model(rng):
    start = rng.random((3, 20))

    def model(method, **options):
        return OnlineNMF(3, method=method, batch_size=500, components_init=start, random_state=0, **options)

    return model


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", [name for name in METHODS if not name.startswith("or-nmf")])
def test_a_sample_of_weight_2_is_two_samples(method, dtype, X, model, rng):
    times = rng.integers(0, 4, 60)
    X = X.astype(dtype)
    weighted = model(method).partial_fit(X, sample_weight=times)
    repeated = model(method).partial_fit(np.repeat(X, times, axis=0))
    tolerance = 1e-4 if dtype == np.float32 else 1e-7
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=tolerance)
    assert weighted.chunk_loss_ == pytest.approx(repeated.chunk_loss_, rel=1e-4)
    assert weighted.components_.dtype == dtype
    plain = model(method).partial_fit(X)
    assert np.abs(plain.components_ - repeated.components_).max() > 10 * tolerance


def test_weights_multiply_the_gradients_of_or_nmf(X, model, rng):
    """Then twice the weights for all are steps of the same lengths along the same directions."""
    s = rng.integers(1, 4, 60).astype(float)
    one, two, plain = (model("or-nmf").partial_fit(X, sample_weight=w) for w in (s, 2 * s, None))
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-12)
    assert two.state_["largest_gradient"] == pytest.approx(2 * one.state_["largest_gradient"])
    assert np.abs(plain.components_ - one.components_).max() > 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_of_weight_0_is_not_there(method, X, rng):
    kept = rng.random(60) < 0.6
    odd = np.where(kept[:, None], X, 100.0)
    model = OnlineNMF(3, method=method, batch_size=10, random_state=0, max_iter=2, shuffle=False)
    for learn in ("fit", "partial_fit"):
        found = getattr(clone(model), learn)(odd, sample_weight=kept)
        expected = getattr(clone(model), learn)(X[kept], sample_weight=np.ones(kept.sum()))
        np.testing.assert_array_equal(found.components_, expected.components_)
        assert found.chunk_loss_ == expected.chunk_loss_ and found.n_samples_seen_ == expected.n_samples_seen_


@pytest.mark.parametrize("method", WEIGHTS)
def test_entries_of_weight_0_are_missing(method, X, rng):
    gone = rng.random(X.shape) < 0.2
    model = OnlineNMF(3, method=method, batch_size=10, random_state=0, max_iter=2)
    found = clone(model).fit(np.where(gone, 99, X), weights=1.0 - gone)
    gaps = np.where(gone, np.nan, X)
    expected = clone(model).set_params(missing_values=np.nan).fit(gaps)
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.transform(X, weights=1.0 - gone), expected.transform(gaps))
    codes = clone(model).fit_transform(np.where(gone, 99, X), weights=1.0 - gone)
    np.testing.assert_array_equal(codes, expected.transform(gaps))


@pytest.mark.parametrize("method", WEIGHTS)
def test_the_loss_of_a_chunk_is_weighted(method, X, model, rng):
    M, s = rng.random(X.shape), rng.integers(1, 4, 60)
    learnt = model(method).partial_fit(X, sample_weight=s, weights=M)
    loss = Loss(METHODS[method].losses[0])
    H = np.array(model(method).components_init)
    if METHODS[method].constrain is not None:
        METHODS[method].constrain(H, Problem(X, loss))
    W = solve_codes(Problem(X, loss, weights=M), H)
    expected = loss_value(X, W, H, loss, weights=M * s[:, None]) / s.sum()
    # the robust method's codes are near the best ones only
    assert learnt.chunk_loss_ == pytest.approx(expected, rel=0.05 if method == "manhattan" else 1e-6)


def test_weighted_entries_are_replaced_by_what_lies_above(rng):
    X, P, Q, M = rng.random((4, 7, 9))
    V, largest_weights = record.filled(X, P, M)

    def gap(Q):
        return (largest_weights[:, None] * (V - Q) ** 2).sum(axis=1) - (M * (X - Q) ** 2).sum(axis=1)

    assert (gap(Q) >= gap(P)).all()
    assert (gap(P + 1e-6 * (Q - P)) - gap(P)).max() < 1e-9  # they touch


@pytest.mark.parametrize("method", ["surrogate", "manhattan"])
def test_weights_of_entries_are_those_of_the_batch_solver(method, X, rng):
    noise = np.where(rng.random(X.shape) < 0.5, 0, rng.random(X.shape))  # half of the entries are good
    M = np.where(noise > 0, 0.02, 1.0)
    loss = METHODS[method].losses[0]
    online = OnlineNMF(4, method=method, batch_size=60, forget_factor=0.1, max_iter=150, random_state=0)
    batch = NMF(4, loss=loss, max_iter=500, tol=0, random_state=0).fit(X + noise, weights=M)
    values = []
    for model in (online.fit(X + noise, weights=M), batch, clone(online).fit(X + noise)):
        W = model.transform(X + noise, weights=M)
        values.append((M * np.abs(X + noise - W @ model.components_) ** (1 if loss == "manhattan" else 2)).sum())
    assert values[0] < 1.3 * values[1] < 0.8 * values[2]


@pytest.mark.parametrize("shuffle", [False, True])
def test_memory_maps_are_learnt_as_arrays_batch_by_batch(X, rng, tmp_path, shuffle):
    s = rng.integers(0, 3, 60)
    np.save(tmp_path / "x.npy", X)
    model = OnlineNMF(3, method="manhattan", batch_size=16, shuffle=shuffle, random_state=0)
    expected = clone(model).fit(X, sample_weight=s)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(clone(model).fit(mapped, sample_weight=s).components_, expected.components_)
    for M in (rng.random(X.shape) * (rng.random(X.shape) < 0.8), np.arange(20.0)):
        expected = clone(model).fit(X, weights=M)
        np.testing.assert_array_equal(clone(model).fit(mapped, weights=M).components_, expected.components_)
    with pytest.raises(ParameterError, match=r"weights must have the shape of X, \(60, 20\)"):
        clone(model).fit(mapped, weights=np.ones(7))
