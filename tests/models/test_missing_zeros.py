"""``missing_values=0``: zeros, and what sparse data do not store, are missing; masked dense data are the oracle."""

import tracemalloc

import naive
import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf import NMF, Penalty
from visionnmf.engine.kernels.sparse import descend_rows
from visionnmf.exceptions import ParameterError

LOSSES = ["frobenius", "kullback-leibler"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def ratings(rng):
    clean = rng.uniform(0.5, 2, (60, 3)) @ rng.gamma(1, 1, (3, 40))
    X = np.where(rng.random(clean.shape) < 0.35, clean * rng.uniform(0.9, 1.1, clean.shape), 0)
    X[7], X[:, 5] = 0, 0  # nobody knows
    return X


@pytest.fixture
def start(rng):
    return {"W": rng.uniform(0.2, 1, (60, 3)), "H": rng.uniform(0.2, 1, (3, 40))}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.long)])
@pytest.mark.parametrize("penalty", [None, Penalty(l1=0.2, l2=0.3), Penalty(high=1.5)], ids=["none", "l1l2", "box"])
def test_sparse_data_lead_where_masked_dense_data_lead(loss, dtype, penalty, ratings, start):
    X = ratings.astype(dtype)
    arguments = {"loss": loss, "penalty_W": penalty, "penalty_H": penalty, "max_iter": 400, "tol": 1e-9}
    dense = NMF(3, **arguments)
    dense.fit_transform(X, weights=X > 0, **start)
    sparse = NMF(3, missing_values=0, **arguments)
    W = sparse.fit_transform(sp.csr_array(X), **start)
    assert W.dtype == sparse.components_.dtype == dtype
    assert sparse.objective_history_[-2] <= dense.objective_history_[-2] * (1 + 1e-2)  # other starts, other minima
    # and the masked problem has its minimum there: going on with dense data gains nothing
    norms = sparse.component_norms_
    further = NMF(3, **arguments).set_params(max_iter=20)
    further.fit_transform(X, weights=X > 0, W=W / norms, H=sparse.components_ * norms[:, None])
    assert further.objective_history_[0] == pytest.approx(sparse.objective_history_[-1], rel=1e-4)
    assert further.objective_history_[-2] >= sparse.objective_history_[-1] * (1 - 2e-3)
    assert (np.diff(sparse.objective_history_[:-1]) <= 1e-5 * sparse.objective_history_[0]).all()
    P = W.astype(float) @ sparse.components_
    seen = X > 0
    value = naive.LOSSES[loss](X[seen][None].astype(float), P[seen][None], 0)
    assert sparse.reconstruction_err_ == pytest.approx(value, rel=1e-5)
    assert sparse.optimality_ == pytest.approx(dense.optimality_, abs=0.02)


@pytest.mark.parametrize("loss", [*LOSSES, "manhattan"])
def test_codes_are_those_of_the_masked_dense_data(loss, ratings, start):
    model = NMF(3, loss=loss, missing_values=0, max_iter=100)
    model.fit_transform(sp.csr_array(ratings), **start)
    codes, dense = model.transform(sp.csr_array(ratings)), model.transform(ratings)  # zeros are missing there, too
    if loss == "manhattan":  # codes of nearly the same loss may differ
        sizes = [np.abs(ratings - W @ model.components_)[ratings > 0].sum() for W in (codes, dense)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.01)
    else:
        np.testing.assert_allclose(codes, dense, atol=5e-4 * dense.max())
    masked = NMF(3, loss=loss, components_init=model.components_, update_components=False)
    np.testing.assert_array_equal(masked.fit_transform(ratings, weights=ratings > 0), dense)
    some = [3, 7, 30]  # a row's codes do not depend on the other rows
    np.testing.assert_array_equal(model.transform(sp.csr_array(ratings[some])), codes[some])
    assert not codes[7].any()


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_missing_ratings_are_foretold(loss, rng):
    clean = rng.uniform(0.5, 2, (80, 2)) @ rng.gamma(1, 1, (2, 50))
    X = sp.csr_array(np.where(rng.random(clean.shape) < 0.3, clean, 0))
    model = NMF(2, loss=loss, missing_values=0, random_state=0, max_iter=2000, tol=1e-7)
    W = model.fit_transform(X)
    error = np.linalg.norm(W @ model.components_ - clean) / np.linalg.norm(clean)
    assert error < 0.02
    zeros = NMF(2, loss=loss, random_state=0).fit(X)  # what zeros that count make of it
    wrong = np.linalg.norm(zeros.transform(X) @ zeros.components_ - clean) / np.linalg.norm(clean)
    assert wrong > 0.5


def test_stored_zeros_are_missing_as_others_are(ratings, start):
    X = sp.csr_array(ratings)
    kept = X.copy()
    kept.data[:5] = 0
    removed = sp.csr_array(kept.toarray())
    codes = [NMF(3, loss="frobenius", missing_values=0, max_iter=20).fit_transform(A, **start) for A in (kept, removed)]
    np.testing.assert_array_equal(*codes)
    assert kept.nnz == X.nnz and (kept.data[:5] == 0).all()  # the caller's array stays


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_grows_with_what_is_not_stored(loss, rng):
    n, stored = 4_000, 8_000  # a dense array would take 128 MB
    X = sp.csr_array((rng.uniform(1, 5, stored), rng.integers(0, n, (2, stored))), (n, n))
    model = NMF(3, loss=loss, missing_values=0, random_state=0, max_iter=5, tol=0)
    model.fit_transform(X)  # loads the kernels
    tracemalloc.start()
    model.fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6


def test_what_is_refused(ratings):
    X = sp.csr_array(ratings)
    with pytest.raises(ParameterError, match=r"zero_weight must be 1 with missing_values=0; got 0\.5"):
        NMF(2, missing_values=0, zero_weight=0.5).fit(X)
    with pytest.raises(ParameterError, match="X must not be missing in all entries"):
        NMF(2, missing_values=0, loss="frobenius").fit(sp.csr_array((3, 4)))
    for loss in ("itakura-saito", 1.5):
        with pytest.raises(ParameterError, match=f"take sparse X with loss={loss!r}; make X dense by toarray"):
            NMF(2, missing_values=0, loss=loss).fit(X)
        dense = NMF(2, missing_values=0, loss=loss, random_state=0, max_iter=3, tol=0).fit(ratings)
        with pytest.raises(ParameterError, match=f"X must be dense for codes of loss={loss!r}"):
            dense.transform(X)
    with pytest.raises(ParameterError, match="does not take weights or missing entries"):
        NMF(2, missing_values=0, loss="frobenius", solver="nenmf").fit(X)
    with pytest.raises(ParameterError, match="penalty_W must be separable for a sparse X"):
        NMF(2, missing_values=0, loss="frobenius", penalty_W=Penalty(simplex=True)).fit(X)


def test_the_kernel_descends_one_variable_after_the_other(rng):
    """Against loops: one sweep over one row."""
    X, points, f = rng.random(6), rng.random((6, 3)), rng.random(3)
    Ft, losses = f[:, None].copy(), np.zeros(1)
    none = np.zeros(3)
    arguments = (None, 0.0, 1.0, none + 0.1, none + 0.2, 1, 0.0, None)
    descend_rows(X, np.arange(6), np.array([0, 6]), Ft, points, *arguments, 0, 1, losses)
    assert losses[0] == pytest.approx(((X - points @ f) ** 2).sum() / 2)
    for k in range(3):
        rest = X - points @ f + points[:, k] * f[k]
        f[k] = np.clip((points[:, k] @ rest - 0.1) / (points[:, k] @ points[:, k] + 0.2), 0, 1)
    np.testing.assert_allclose(Ft[:, 0], f)


def test_what_nobody_knows_is_no_random_start(ratings):
    model = NMF(3, loss="frobenius", missing_values=0, max_iter=5, random_state=0).fit(sp.csr_array(ratings))
    assert (model.components_[:, 5] == 0).all() and (model.inverse_transform(model.transform(ratings))[7] == 0).all()
