"""The method that OnlineNMF chooses on its first chunk: "manhattan" or "surrogate"."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits

from visionnmf import OnlineNMF, Penalty, load_model
from visionnmf.exceptions import ParameterError
from visionnmf.models.method_choice import MARGIN, OUTLIERS, _errors


def stream(rng, n=600, n_features=40, rank=4, salt=0.0, noise=0.1):
    """Low-rank samples with Gaussian noise, of which a share of the entries becomes large."""
    X = rng.gamma(0.5, size=(n, rank)) @ rng.gamma(0.5, size=(rank, n_features))
    X = np.maximum(X + noise * X.mean() * rng.standard_normal(X.shape), 0)
    return np.where(rng.random(X.shape) < salt, X.max() / 2, X)


def same(one, other):
    """Whether two models are the same to the last bit, whatever their parameters are."""
    for name in ("A", "B", "weight"):
        np.testing.assert_array_equal(one.state_[name], other.state_[name])
    np.testing.assert_array_equal(one.components_, other.components_)
    assert one.chunk_loss_ == other.chunk_loss_ and one.method_ == other.method_
    return True


@pytest.mark.parametrize(("salt", "method"), [(0.0, "surrogate"), (0.05, "manhattan"), (0.2, "manhattan")])
@pytest.mark.parametrize("seed", range(3))
def test_the_robust_method_learns_streams_with_outliers(salt, method, seed):
    X = stream(np.random.default_rng(seed), salt=salt)
    model = OnlineNMF(4, random_state=seed).partial_fit(X)
    assert model.method_ == method
    assert same(model, OnlineNMF(4, method=method, random_state=seed).partial_fit(X))
    named = OnlineNMF(4, method=method, random_state=seed).partial_fit(X)
    assert same(model.partial_fit(X[:50]), named.partial_fit(X[:50]))


def test_digits_are_learnt_by_least_squares_which_ten_components_explain_in_part():
    X = load_digits().data / 16
    assert OnlineNMF(10, random_state=0).partial_fit(X).method_ == "surrogate"
    spoilt = np.where(np.random.default_rng(0).random(X.shape) < 0.05, 1.0, X)
    errors = {}
    for method in ("auto", "manhattan", "surrogate"):
        model = OnlineNMF(10, method=method, random_state=0).partial_fit(spoilt)
        codes = clone(model).set_params(method="surrogate", components_init=model.components_)
        errors[method] = np.linalg.norm(codes.partial_fit(X[:1]).transform(X) @ codes.components_ - X)
    assert errors["auto"] <= 1.02 * min(errors["manhattan"], errors["surrogate"])


def test_fit_chooses_too_and_a_loaded_model_keeps_its_method_and_goes_on(rng, tmp_path):
    X = stream(rng, salt=0.1)
    one = OnlineNMF(4, max_iter=2, random_state=3).fit(X)
    assert same(one, OnlineNMF(4, method="manhattan", max_iter=2, random_state=3).fit(X))
    model = OnlineNMF(4, random_state=0).partial_fit(X)
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert again.method_ == "manhattan" and again.method == "auto"
    clean = stream(rng)
    assert same(again.partial_fit(clean), model.partial_fit(clean))
    with pytest.raises(ParameterError, match="method must be the one that the stream began with, 'manhattan'"):
        again.set_params(method="surrogate").partial_fit(clean)
    again.set_params(method="manhattan").partial_fit(clean)
    again.set_params(method="auto").state_["method"] = "or-nmf"
    with pytest.raises(ParameterError, match="cannot be saved like this"):
        again.save(tmp_path / "other.npz")


def test_weights_missing_entries_sparse_data_maps_and_blocks_choose_as_arrays_do(rng, tmp_path):
    X = stream(rng, salt=0.1)
    gaps = rng.random(X.shape) < 0.1
    expected = OnlineNMF(4, random_state=0).partial_fit(np.where(gaps, 0, X), weights=~gaps)
    assert expected.method_ == "manhattan"
    found = OnlineNMF(4, random_state=0, missing_values=np.nan).partial_fit(np.where(gaps, np.nan, X))
    assert same(found, expected)
    dense = OnlineNMF(4, random_state=0).partial_fit(X)
    assert OnlineNMF(4, random_state=0).partial_fit(sp.csr_array(X)).method_ == dense.method_ == "manhattan"
    np.save(tmp_path / "X.npy", X)
    assert same(OnlineNMF(4, random_state=0).partial_fit(np.load(tmp_path / "X.npy", mmap_mode="r")), dense)
    da = pytest.importorskip("dask.array")
    assert same(OnlineNMF(4, random_state=0).partial_fit(da.from_array(X, chunks=(130, 40))), dense)


def test_wide_data_are_judged_by_a_part_of_the_features(rng, monkeypatch):
    monkeypatch.setattr("visionnmf.models.method_choice.FEATURES", 30)
    X = stream(rng, salt=0.1)
    given = rng.random((4, 40))
    for init in ({}, {"components_init": given}):
        model = OnlineNMF(4, random_state=0, **init).partial_fit(X)
        assert same(model, OnlineNMF(4, method="manhattan", random_state=0, **init).partial_fit(X))


@pytest.mark.parametrize(
    ("loss", "method"),
    [("manhattan", "manhattan"), ("frobenius", "surrogate"), ("itakura-saito", "or-nmf"), (None, "surrogate")],
)
def test_a_loss_names_its_method(loss, method, rng):
    model = OnlineNMF(3, loss=loss, random_state=0).partial_fit(0.1 + rng.random((60, 9)))
    assert model.method_ == method


def test_few_samples_and_penalties_of_one_method_leave_no_choice(rng):
    X = stream(rng, salt=0.2)
    assert OnlineNMF(4, random_state=0).partial_fit(X[:80]).method_ == "surrogate"
    simplex = Penalty(simplex=True)
    assert OnlineNMF(4, penalty_W=simplex, random_state=0).partial_fit(X).method_ == "surrogate"


def test_the_errors_by_loops(rng):
    X, models, hidden = rng.random((6, 5)), rng.random((2, 6, 5)), rng.random((6, 5)) < 0.5
    places = [tuple(place) for place in np.argwhere(hidden)]
    closest = {place: min(abs(model[place] - X[place]) for model in models) for place in places}
    doubtful = sorted(places, key=closest.get)[len(places) - int(OUTLIERS * len(places)) :]
    assert doubtful
    expected = []
    for model in models:
        total = 0.0
        for i, j in places:
            total += (X[i, j] - model[i, j]) ** 2
            if (i, j) in doubtful:
                total -= np.mean([(X[i, j] - model[k, j]) ** 2 for k in range(6)])
        expected.append(total)
    spread = sum((X[i, j] - np.mean([X[k, j] for k in range(6) if hidden[k, j]])) ** 2 for i, j in places)
    np.testing.assert_allclose(_errors(X, models, hidden), np.array(expected) / spread + [MARGIN, 0])


def test_outliers_do_not_prefer_a_model_that_they_bend(rng):
    X = rng.random((2000, 5))
    models = np.array([X + 0.05 * rng.standard_normal(X.shape), X + 0.1 * (3 - X)])  # the second is nearer to 3
    hidden = rng.random(X.shape) < 0.5
    spoilt = np.where(rng.random(X.shape) < 0.1, 3.0, X)
    squares = [((spoilt - model)[hidden] ** 2).mean() for model in models]
    assert squares[1] < squares[0]
    for data in (X, spoilt):
        robust, bent = _errors(data, models, hidden)
        assert robust < bent
