"""ConservativeNMF: mixtures are taken apart, the log and the best model, a stream in any pieces, files."""

import warnings

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf import ConservativeNMF, load_model
from visionnmf.engine.online import conservative

STATE = ("components_", "encoder_", "last_components_", "last_encoder_", "errors_")


def mixtures(rng, n=400, n_parts=6, n_features=30, active=3):
    parts = rng.random((n_parts, n_features)) * (rng.random((n_parts, n_features)) < 0.4)
    codes = rng.random((n, n_parts))
    codes[np.argsort(rng.random(codes.shape)) >= active] = 0
    return codes @ parts, parts


def same_state(a, b):
    for name in STATE:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    assert (a.best_error_, a.n_samples_seen_, a._open_batch) == (b.best_error_, b.n_samples_seen_, b._open_batch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_parts_of_exact_mixtures_are_found(dtype, rng):
    X, parts = mixtures(rng)
    model = ConservativeNMF(6, w=1.0, batch_size=400, max_iter=600, random_state=0).fit(X.astype(dtype))
    assert model.components_.dtype == model.encoder_.dtype == model.transform(X.astype(dtype)).dtype == dtype
    assert model.best_error_ == model.errors_.min() < 2e-3 < 0.1 < model.errors_[0]
    found, true = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (model.components_, parts))
    match = (true @ found.T).max(axis=1)
    assert (match > 0.999).all() and len(set((true @ found.T).argmax(axis=1))) == 6
    model_of_data = model.inverse_transform(model.transform(X))
    assert np.linalg.norm(X - model_of_data) < 5e-3 * np.linalg.norm(X)


def test_the_log_is_the_mean_error_of_each_batch_and_the_best_model_is_kept(rng):
    X, _ = mixtures(rng, n=25)
    model = ConservativeNMF(4, w=0.5, batch_size=10, max_iter=4, random_state=3).fit(X)
    E, D = np.random.RandomState(3).uniform(-1, 1, (4, 30)), np.zeros((30, 4))
    errors, states = [], []
    for x in np.tile(X, (4, 1)):
        E, D, error = naive.conservative_step(E, D, x, 0.5)
        errors.append(error)
        states.append((E, D))
    means = np.mean(np.reshape(errors, (10, 10)), axis=1)
    np.testing.assert_allclose(model.errors_, means)
    best = means.argmin()
    assert model.best_error_ == model.errors_[best]
    np.testing.assert_allclose(model.encoder_, states[10 * best + 9][0])
    np.testing.assert_allclose(model.components_, states[10 * best + 9][1].T, atol=1e-12)
    np.testing.assert_allclose(model.last_encoder_, E)
    assert model.n_samples_seen_ == 100 and model.n_iter_ == 4
    np.testing.assert_allclose(model.transform(X), np.maximum(0, X @ model.encoder_.T))


@pytest.mark.parametrize("w", [1.0, 1e-3])
def test_a_step_is_the_least_change_that_brings_a_sample_out_right(w, rng):
    """The notes' problem itself, to first order, by the pseudo-inverse; one iteration of CG solves it for such D."""
    D = np.kron(np.eye(3), rng.random((4, 1)) + 0.2)
    D /= np.linalg.norm(D, axis=0) / 0.8  # columns apart and of one norm: D D' is a multiple of 1 where it acts
    x = D @ (rng.random(3) + 0.5)
    x /= np.linalg.norm(x)
    E = rng.random((3, 12)) * 0.3
    y = E @ x  # positive: nothing to change before
    # unknowns dE and dD / sqrt(w), by columns, of least norm, with D dE x + dD y = x - D y
    system = np.hstack([np.kron(x[None], D), np.sqrt(w) * np.kron(y[None], np.eye(12))])
    changes = np.linalg.pinv(system) @ (x - D @ y)
    dE, dD = changes[:36].reshape(12, 3).T, np.sqrt(w) * changes[36:].reshape(3, 12).T
    encoder, components = E.copy(), np.ascontiguousarray(D.T)
    errors = conservative.learn(7 * x[None], encoder, components, w)
    np.testing.assert_allclose(errors, [np.linalg.norm(x - D @ y)])
    np.testing.assert_allclose(encoder, E + dE, atol=1e-12)
    np.testing.assert_allclose(components.T, np.maximum(0, D + dD), atol=1e-12)
    assert np.abs(dE).max() > 1e-3 and np.abs(dD).max() > 1e-3 * w


def test_a_worse_batch_does_not_replace_the_best(rng):
    X, _ = mixtures(rng, n=200)
    model = ConservativeNMF(6, w=1.0, batch_size=200, max_iter=30, random_state=0).fit(X)
    kept = model.components_.copy()
    model.partial_fit(rng.random((200, 30)))  # of another kind
    assert model.errors_[-1] > model.best_error_
    np.testing.assert_array_equal(model.components_, kept)
    assert not np.array_equal(model.last_components_, kept)


@pytest.mark.filterwarnings("ignore:ConservativeNMF explains")  # after one pass
def test_the_pieces_of_a_stream_do_not_matter(rng):
    X, _ = mixtures(rng, n=100)
    whole = ConservativeNMF(4, batch_size=30, max_iter=1, random_state=0).fit(X)
    for cuts in (range(1, 100), [3, 33, 34, 90], [50]):
        model = ConservativeNMF(4, batch_size=30, random_state=0)
        for piece in np.split(X, cuts):
            model.partial_fit(piece)
        same_state(model, whole)
        assert model.n_iter_ == len(cuts) + 1
    sparse = clone(whole).fit(sp.csr_array(X))
    same_state(sparse, whole)
    np.testing.assert_allclose(sparse.transform(sp.csr_array(X)), whole.transform(X))


def test_fewer_samples_than_a_batch_are_one_batch_in_each_pass(rng):
    """No error was kept, and the best one was infinite."""
    X, _ = mixtures(rng, n=100)
    model = ConservativeNMF(4, w=1.0, random_state=0).fit(X)
    same_state(model, clone(model).set_params(batch_size=100).fit(X))
    assert model.errors_.shape == (10,) and model.best_error_ == model.errors_.min()


def test_a_smaller_batch_closes_the_open_one(rng):
    X, _ = mixtures(rng, n=20)
    model = ConservativeNMF(4, batch_size=30, random_state=0).partial_fit(X)
    assert not len(model.errors_) and model.best_error_ == np.inf
    np.testing.assert_array_equal(model.components_, model.last_components_)
    model.set_params(batch_size=10).partial_fit(X)
    assert len(model.errors_) == 2 and model._open_batch[0] == 9


def test_refused_chunks_leave_the_state_untouched(rng):
    X, _ = mixtures(rng, n=20)
    model = ConservativeNMF(4, batch_size=8, random_state=0)
    for bad, sentence in (
        (np.where(X == X.max(), np.nan, X), "NaN"),
        (-X, "Negative"),
        (np.full_like(X, np.inf), "infinity"),
        (X[:0], "0 sample"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.partial_fit(bad)
    same = clone(model).partial_fit(X)
    same_state(model.partial_fit(X), same)
    before = {name: value.copy() for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    for bad, sentence in ((X[:, 1:], "29 features"), (np.where(X == X.max(), np.nan, X), "NaN"), (X[0], "1D array")):
        with pytest.raises(ValueError, match=sentence):
            model.partial_fit(bad)
    for name, value in before.items():
        np.testing.assert_array_equal(vars(model)[name], value)
    same_state(model, same)


def test_scale_seed_and_order(rng):
    X, _ = mixtures(rng, n=60)
    model = ConservativeNMF(4, batch_size=20, max_iter=2, random_state=1)
    found = clone(model).fit(X)
    same_state(clone(model).fit(X), found)
    doubled = clone(model).fit(X * 2.0**40)
    np.testing.assert_allclose(doubled.components_, found.components_, rtol=1e-9)
    shuffled = clone(model).set_params(shuffle=True).fit(X)
    assert not np.allclose(shuffled.components_, found.components_)
    same_state(clone(shuffled).fit(X), shuffled)


@pytest.mark.parametrize("n", [10, 25])  # before the first batch is full, and in the midst of the third
def test_a_model_file_goes_on_where_the_model_stood(n, rng, tmp_path):
    X, _ = mixtures(rng, n=70)
    model = ConservativeNMF(4, batch_size=11, random_state=0).partial_fit(X[:n].astype(np.float32))
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    same_state(again, model)
    same_state(again.partial_fit(X[n:]), model.partial_fit(X[n:]))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize("batch_size", [8, 1024])
@pytest.mark.parametrize("n", [6, 12, 50])
def test_a_model_that_is_much_worse_than_zero_says_so(n, batch_size):
    model = ConservativeNMF(4, batch_size=batch_size, random_state=0)
    for data in (np.eye(n), sp.csr_array(np.eye(n)), np.diag(np.arange(1, n + 1.0)).astype(np.float32)):
        with pytest.warns(ConvergenceWarning, match="worse than zeros do: their error is .* a smaller w"):
            model.fit(data)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("of", ["blocks", "scattered", "sums", "counts"])
def test_a_fit_warns_if_and_only_if_zeros_explain_more(rng, of, dtype):
    X = {
        "blocks": np.kron(np.eye(20), rng.random((5, 7))),
        "scattered": sp.random_array((100, 60), density=0.1, rng=rng, format="csr"),
        "sums": mixtures(rng, n=300)[0],
        "counts": rng.poisson(3.0, (80, 12)) * 1e9,
    }[of].astype(dtype)
    for n_components in (2, 6, 20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = ConservativeNMF(n_components, random_state=0).fit(X)
        dense = (X.toarray() if sp.issparse(X) else X).astype(float)
        residual, kept = model.transform(X).astype(float) @ model.components_ - dense, dense.any(axis=1)
        unit = np.linalg.norm(residual[kept], axis=1) / np.linalg.norm(dense[kept], axis=1)
        error = max(np.linalg.norm(residual) / np.linalg.norm(dense), np.sqrt(np.mean(unit**2)))
        assert [f"error is {error:.3g} times" in str(one.message) for one in caught] == [True] * bool(error > 1)


def test_a_stream_that_diverges_says_so_although_better_factors_are_kept(rng):
    model = ConservativeNMF(4, batch_size=8, random_state=0)
    model.partial_fit(mixtures(rng, n=64)[0])
    with pytest.warns(ConvergenceWarning, match="worse than zeros do"):
        for _ in range(20):
            model.partial_fit(np.eye(model.n_features_in_))
    assert model.errors_[-1] > 10
