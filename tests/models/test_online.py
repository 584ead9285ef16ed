"""OnlineNMF: streams, resuming, refusals, forgetting, memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from visionnmf import NMF, OnlineNMF, Penalty, load_model
from visionnmf.engine.online import METHODS
from visionnmf.exceptions import ParameterError

UNGUARDED = {"or-nmf-is"}  # as printed: an infinite gradient ends it
SPARSE = [name for name, method in METHODS.items() if method.sparse]
GAPS = [name for name, method in METHODS.items() if method.weights]


def made(rng, n=600, n_features=30, rank=4, salt=0.0):
    """Low-rank data, all positive, and what they were before the salt."""
    clean = 0.1 + rng.gamma(0.5, size=(n, rank)) @ rng.gamma(0.5, size=(rank, n_features))
    return np.where(rng.random(clean.shape) < salt, clean.max() / 2, clean), clean


def chunks(X, size=100):
    return [X[start : start + size] for start in range(0, len(X), size)]


def relative(model, X):
    return np.linalg.norm(model.inverse_transform(model.transform(X)) - X) / np.linalg.norm(X)


def online(method, n_components=3, **options):
    """An estimator of any method, with batches that keep the slow ones quick."""
    return OnlineNMF(n_components, method=method, batch_size=options.pop("batch_size", 50), random_state=0, **options)


def state_of(model):
    """All that a fitted model is, as bytes and numbers."""

    def plain(value):
        if isinstance(value, np.ndarray):
            return value.shape, value.dtype.str, value.tobytes()
        return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value

    return {key: plain(value) for key, value in vars(model).items() if key.endswith("_")}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_model_goes_on_as_if_it_had_not_been_interrupted(method, dtype, rng, tmp_path):
    X = made(rng, 400)[0].astype(dtype)
    whole = online(method)
    for chunk in chunks(X):
        whole.partial_fit(chunk)
    broken = clone(whole)
    for i, chunk in enumerate(chunks(X)):
        broken.partial_fit(chunk)
        broken.save(tmp_path / f"{i}.npz")
        broken = load_model(tmp_path / f"{i}.npz")
    assert state_of(broken) == state_of(whole)
    assert whole.components_.dtype == whole.transform(X).dtype == dtype
    assert whole.n_samples_seen_ == 400 and whole.n_steps_ == 8


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("chunk", "given", "sentence"),
    [
        (np.empty((0, 30)), {}, "0 sample"),
        (np.ones((3, 29)), {}, "29 features"),
        (np.full((3, 30), np.nan), {}, "NaN"),
        (-np.ones((3, 30)), {}, "Negative"),
        (np.ones(30), {}, "2D"),
        (np.full((3, 30), 1e200), {}, "X must have a mean"),
        (np.ones((3, 30)), {"sample_weight": np.ones(2)}, r"sample_weight must have shape \(3,\); got \(2,\)"),
        (np.ones((3, 30)), {"sample_weight": np.zeros(3)}, "sample_weight must not be 0 for all samples"),
    ],
)
def test_a_chunk_that_is_refused_leaves_the_model_as_it_was(method, chunk, given, sentence, rng):
    model = online(method).partial_fit(made(rng, 100)[0])
    before = state_of(model)
    with pytest.raises(ValueError, match=sentence):
        model.partial_fit(chunk, **given)
    assert state_of(model) == before


@pytest.mark.parametrize("method", [name for name in METHODS if name not in UNGUARDED])
def test_chunks_of_one_sample_and_of_zeros_are_learnt(method, rng):
    X = made(rng, 20)[0]
    model = OnlineNMF(3, method=method, random_state=0)
    if METHODS[method].losses[0] != "itakura-saito":
        model.partial_fit(np.zeros((1, 30)))
    for row in X:
        model.partial_fit(row[None])
    assert np.isfinite(model.components_).all() and (model.components_ >= 0).all()
    assert relative(model, X) < 0.7  # Itakura-Saito is no least squares: .586, and .607 without vector instructions


@pytest.mark.parametrize(("name", "value"), [("method", "surrogate"), ("n_components", 4)])
def test_a_stream_keeps_what_it_began_with(name, value, rng):
    X = made(rng)[0]
    model = OnlineNMF(3, method="manhattan", random_state=0).partial_fit(X)
    before = state_of(model)
    with pytest.raises(ParameterError, match=f"{name} must be .* began with"):
        model.set_params(**{name: value}).partial_fit(X)
    assert state_of(model) == before


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_does_not_take_is_refused_in_one_sentence(method, rng):
    X = made(rng)[0]
    if method not in SPARSE:
        with pytest.raises((ParameterError, TypeError), match=r"dense|[Ss]parse"):
            OnlineNMF(3, method=method).fit(sp.csr_array(X))
    if method not in GAPS:
        gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
        with pytest.raises(ParameterError, match=f"got '{method}', which does not take missing entries"):
            OnlineNMF(3, method=method, missing_values=np.nan).fit(gaps)
    for refused, word in (
        (Penalty(graph="knn"), "graph"),
        (Penalty(low=np.full((3, len(X)), 0.1)), "low of each entry"),
    ):
        with pytest.raises(ParameterError, match=f"penalty_W must be without graph, groups and bounds.*got {word}"):
            OnlineNMF(3, method=method, penalty_W=refused).fit(X)
    with pytest.raises(ParameterError, match="graph of penalty_H must be None or a matrix"):
        OnlineNMF(3, method=method, penalty_H=Penalty(graph="knn")).fit(X)


@pytest.mark.parametrize("method", SPARSE)
def test_sparse_data_give_what_dense_ones_give(method, rng):
    X = np.where(rng.random((200, 20)) < 0.7, 0, made(rng, 200, 20)[0])
    dense, sparse = (OnlineNMF(3, method=method, max_iter=2, random_state=0).fit(Y) for Y in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in GAPS if name not in UNGUARDED])
def test_missing_entries_are_found_again(method, rng):
    X, clean = made(rng, 1000)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    model = online(method, 5, missing_values=np.nan, max_iter=8).fit(gaps)
    found = model.inverse_transform(model.transform(gaps))
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), X)
    assert np.linalg.norm(found - clean) < 0.25 * np.linalg.norm(filled - clean)


@pytest.mark.slow
def test_outliers_leave_no_trace_with_manhattan_and_do_with_surrogate(rng):
    X, clean = made(rng, 3000, 80, salt=0.1)
    error = {
        method: relative(OnlineNMF(5, method=method, random_state=0).fit(X), clean)
        for method in ("manhattan", "surrogate")
    }
    assert error["manhattan"] < 0.02 and error["surrogate"] > 10 * error["manhattan"]


def test_the_past_is_forgotten(rng):
    old, new = made(rng, 2000)[0], made(rng, 500)[0]
    models = [OnlineNMF(4, method="surrogate", batch_size=50, forget_factor=f, random_state=0) for f in (0.7, 1.0)]
    errors = [relative(model.partial_fit(old).partial_fit(new), new) for model in models]
    assert errors[0] < 0.5 * errors[1]


def test_three_passes_come_near_the_batch_solver(rng):
    X = made(rng, 3000, 60, 8)[0] * rng.gamma(20, 1 / 20, size=(3000, 60))
    train, held_out = X[:2500], X[2500:]
    batch = NMF(8, loss="frobenius", max_iter=300, random_state=0).fit(train)
    online = OnlineNMF(8, method="surrogate", max_iter=3, random_state=0).fit(train)
    assert relative(online, held_out) ** 2 < 1.02 * relative(batch, held_out) ** 2


def test_passes_are_counted_and_can_be_stopped(rng):
    X = made(rng, 100)[0]
    model = OnlineNMF(3, max_iter=4, random_state=0, callback=lambda i, loss: i == 2).fit(X)
    assert model.n_iter_ == 2 == len(model.objective_history_) and model.n_samples_seen_ == 200
    assert model.chunk_loss_ == model.objective_history_[-1]
    assert model.partial_fit(X).n_samples_seen_ == 300
