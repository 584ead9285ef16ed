"""NMF: weights, missing entries, sparse data, fixed components, starts."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import given_where
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import EfficiencyWarning

from visionnmf import NMF, MultiviewNMF, OnlineNMF, Penalty, select_rank
from visionnmf.exceptions import ParameterError

WEIGHTED = given_where(lambda record: record.beta in (None, 1.0, 2.0))  # those that take zeros
SPARSE = given_where(lambda record: record.sparse is not None)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def clean(rng):
    return rng.gamma(0.5, size=(80, 3)) @ rng.gamma(0.5, size=(3, 50))


@pytest.mark.slow
@pytest.mark.parametrize("loss", WEIGHTED)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_entries_are_found_and_do_not_count(loss, dtype, clean, rng):
    clean = clean.astype(dtype)
    holes = rng.random(clean.shape) < 0.3
    X = np.where(holes, np.nan, clean)
    model = NMF(3, loss=loss, missing_values=np.nan, random_state=0, max_iter=1000, tol=1e-7, n_init=2)
    W = model.fit_transform(X)
    found = W @ model.components_
    assert W.dtype == model.components_.dtype == dtype
    assert np.linalg.norm(found - clean) < 0.03 * np.linalg.norm(clean)
    junk = np.where(holes, 1e3, clean).astype(dtype)  # the same by weights, whatever the data hold there
    again = NMF(3, loss=loss, loss_parameter=model.loss_parameter_ or None, random_state=0, max_iter=1000, tol=1e-7)
    again.set_params(n_init=2).fit(junk, weights=~holes)
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.transform(junk, weights=~holes), model.transform(X))
    np.testing.assert_array_equal(model.transform(X), W)


@pytest.mark.parametrize("loss", SPARSE)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_data_are_the_dense_data(loss, kind, rng):
    X = rng.poisson(3 * rng.random((40, 3)) @ rng.random((3, 30))).astype(float)
    assert (X == 0).mean() > 0.1
    W, H = rng.random((40, 3)), rng.random((3, 30))
    solver = {"manhattan": "rri", "frobenius": "hals", "kullback-leibler": "ccd"}[loss]
    dense = NMF(3, loss=loss, solver=solver, max_iter=60, tol=0, exact_codes=True)
    dense.fit_transform(X, W=W, H=H)
    sparse = NMF(3, loss=loss, solver=solver, max_iter=60, tol=0, exact_codes=True)
    found = sparse.fit_transform(kind(X), W=W, H=H)
    assert sparse.reconstruction_err_ == pytest.approx(dense.reconstruction_err_, rel=0.03)
    residual = X - found @ sparse.components_
    if loss == "frobenius":
        assert sparse.reconstruction_err_ == pytest.approx((residual**2).sum() / 2, rel=1e-9)
    np.testing.assert_array_equal(sparse.transform(kind(X)), found)


@pytest.mark.parametrize(
    ("loss", "case"),
    [
        *[(loss, case) for loss in SPARSE for case in ({}, {"penalty_H": Penalty(l1=0.1)})],
        *[("manhattan", case) for case in ({"missing_values": 0}, {"zero_weight": 0.2}, {"nuclear": 0.1})],
        ("kullback-leibler", {"missing_values": 0}),
    ],
)
def test_the_default_fit_of_sparse_data_is_that_of_dense_data(loss, case, rng):
    W, H = (rng.gamma(1, size=shape) * (rng.random(shape) < 0.3) for shape in ((90, 5), (5, 60)))
    X = W @ H  # exact; medians alone stop far above it
    X[rng.random(X.shape) < 0.02] = 5
    sparse = NMF(5, loss=loss, random_state=0, **case)
    codes = sparse.fit_transform(sp.csr_array(X), sample_weight=np.full(90, 1.0) if not case else None)
    dense = NMF(5, loss=loss, random_state=0, **(case if "zero_weight" not in case else {}))
    dense.fit(X, weights=np.where(X > 0, 1, 0.2) if "zero_weight" in case else None)
    assert sparse.solver_ == dense.solver_
    np.testing.assert_array_equal(sparse.components_, dense.components_)
    assert sparse.objective_history_[-1] <= 1.001 * dense.objective_history_[-1]
    np.testing.assert_array_equal(sparse.transform(sp.csr_array(X)), codes)


@pytest.mark.filterwarnings("ignore::visionnmf.engine.stopping.ZeroCodesWarning")
def test_manhattan_warns_of_a_long_fit_of_sparse_data(rng):
    X = sp.random_array((2100, 2000), density=0.001, rng=rng).tocsr()
    limits = {"max_iter": 2, "tol": 0, "random_state": 0, "measure_optimality": False, "exact_codes": False}
    for name in ("fit", "fit_transform"):
        model = clone(NMF(2, **limits))
        with pytest.warns(EfficiencyWarning, match=r'"manhattan".* 2100 x 2000 entries, .*"frobenius"') as found:
            getattr(model, name)(X)
        assert found[0].filename == __file__
    for case in ({"loss": "frobenius"}, {"zero_weight": 0.1}):
        NMF(2, **limits, **case).fit(X)  # without a warning
    NMF(2, **limits).fit(X[:1000])


def test_samples_without_an_entry_that_counts_are_named(rng):
    """Their codes were 0 without a word."""
    X = rng.random((30, 6))
    gaps, weights, stored = X.copy(), np.ones_like(X), sp.csr_array(np.where(np.arange(30)[:, None] == 7, 0, X))
    gaps[4], weights[[2, 5]] = np.nan, 0
    model = NMF(2, loss="frobenius", missing_values=np.nan, random_state=0)
    ratings = NMF(2, loss="frobenius", missing_values=0, random_state=0).fit(X)
    online = OnlineNMF(2, loss="frobenius", missing_values=np.nan, random_state=0).fit(X)
    for find, sentence in (
        (lambda: model.fit(gaps), "1 sample of X count, such as sample 4"),
        (lambda: model.fit_transform(gaps), "1 sample of X count, such as sample 4"),
        (lambda: model.transform(gaps), "1 sample of X count, such as sample 4"),
        (lambda: model.transform(X, weights=weights), "2 samples of X count, such as sample 2"),
        (lambda: ratings.transform(stored), "1 sample of X count, such as sample 7"),
        (lambda: online.transform(gaps), "1 sample of X count, such as sample 4"),
        (lambda: online.transform(X, weights=weights), "2 samples of X count, such as sample 2"),
    ):
        with pytest.warns(UserWarning, match=f"none of the entries of {sentence}: predictions") as found:
            find()
        assert [warning.filename for warning in found] == [__file__]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "none of the entries")
        NMF(2, loss="frobenius", random_state=0).fit(stored).transform(stored)  # a sample of zeros is known
        graph = Penalty(graph="knn", graph_weight=0.1)  # neighbours stand in for it
        model.set_params(penalty_W=graph, penalty_H=Penalty(l2=0.1)).fit(gaps)


def test_features_without_an_entry_that_counts_are_named(rng):
    X = rng.random((30, 6))
    gaps, weights = X.copy(), np.ones_like(X)
    gaps[:, 4] = np.nan
    weights[:, [2, 5]] = 0
    stored = sp.csr_array(np.where(np.arange(6) == 3, 0, X))
    for fit, sentence in (
        (lambda: NMF(2, missing_values=np.nan).fit(gaps), "1 feature of X count, such as feature 4"),
        (lambda: OnlineNMF(2, missing_values=np.nan).fit(gaps), "1 feature of X count, such as feature 4"),
        (lambda: NMF(2, loss="frobenius").fit(X, weights=weights), "2 features of X count, such as feature 2"),
        (lambda: NMF(2, loss="frobenius", missing_values=0).fit(stored), "1 feature of X count, such as feature 3"),
    ):
        with pytest.warns(UserWarning, match=f"none of the entries of {sentence}: predictions") as found:
            fit()
        assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "none of the entries")
        for seed in range(3):  # these hide entries themselves
            select_rank(rng.random((8, 40)) + 0.1, [1, 2], fraction=0.5, random_state=seed)
        NMF(2, loss="frobenius", missing_values=np.nan, random_state=0).fit(np.where(gaps > 0.2, gaps, np.nan)[:, :4])


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_a_large_sparse_matrix_is_fitted_from_two_starts_that_are_compared(loss, rng):
    shape = (3000, 2000)  # a dense copy would take long
    W, H = (sp.random_array(part, density=0.04, rng=rng).tocsr() for part in ((shape[0], 4), (4, shape[1])))
    X = sp.csr_array(W @ H)
    exact = NMF(4, loss=loss, random_state=0).fit(X)
    assert exact.objective_history_[-1] < 1e-6 * X.sum()
    X += sp.random_array(shape, density=0.001, rng=rng, data_sampler=lambda size: 10 * rng.pareto(1, size))
    with pytest.warns(UserWarning, match="several starts of a large sparse X.*increase n_init, or pass X.toarray"):
        NMF(12, loss=loss, random_state=0, max_iter=100).fit(X)


def test_a_fit_goes_on_from_components_init_or_its_last_result(clean):
    model = NMF(3, loss="frobenius", random_state=0, max_iter=500, tol=1e-9).fit(clean)
    started = NMF(3, loss="frobenius", components_init=model.components_, max_iter=2, random_state=1).fit(clean)
    random = NMF(3, loss="frobenius", max_iter=2, random_state=1).fit(clean)
    assert started.reconstruction_err_ < 0.1 * random.reconstruction_err_
    noisy = clean + 0.05 * clean.mean()
    model = NMF(3, loss="frobenius", warm_start=True, max_iter=5, tol=0, random_state=0)
    values = [model.fit(noisy).reconstruction_err_ for _ in range(6)]
    assert values[-1] < values[0]
    cold = NMF(3, loss="frobenius", max_iter=5, tol=0, random_state=0)
    assert values[-1] < cold.fit(noisy).fit(noisy).reconstruction_err_


def test_the_best_of_several_starts_is_kept(rng):
    X = rng.random((25, 20))
    arguments = {"loss": "frobenius", "max_iter": 30, "tol": 0}
    model = NMF(6, n_init=6, random_state=3, **arguments).fit(X)
    state = np.random.RandomState(3)
    single = [NMF(6, random_state=state, **arguments).fit(X).reconstruction_err_ for _ in range(6)]
    assert model.reconstruction_err_ == pytest.approx(min(single), rel=1e-6)
    assert max(single) > 1.001 * min(single)


@pytest.mark.parametrize("loss", ["manhattan", "frobenius"])
def test_penalised_codes_are_those_of_the_fit(loss, clean, rng):
    X = clean + 0.1 * rng.random(clean.shape)
    model = NMF(3, loss=loss, penalty_W=Penalty(l1=2.0, l2=1.0), penalty_H=Penalty(l2=1.0), random_state=0)
    model.set_params(max_iter=3000, tol=1e-6)
    W = model.fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-6)
    # the codes solved for again, with components of unit norm, are no worse than those the iterations ended with
    assert model.objective_history_[-1] <= model.objective_history_[-2] * (1 + 1e-3)
    E = X - W @ model.components_
    value = np.abs(E).sum() if loss == "manhattan" else (E**2).sum() / 2
    codes, components = W / model.component_norms_, model.components_ * model.component_norms_[:, None]
    penalty = 2 * codes.sum() + (codes**2).sum() / 2 + (components**2).sum() / 2
    assert model.objective_history_[-1] == pytest.approx(value + penalty, rel=1e-6)


def test_nuclear_keeps_superfluous_components_from_fitting_outliers(clean, rng):
    X = np.where(rng.random(clean.shape) < 0.1, clean.max(), clean)
    errors = {}
    for nuclear in (0.0, 1.0):
        model = NMF(20, nuclear=nuclear, random_state=0).fit(X)
        errors[nuclear] = np.linalg.norm(model.inverse_transform(model.transform(X)) - clean)
    assert errors[1.0] < 0.5 * errors[0.0]
    values = np.linalg.svd(model.inverse_transform(model.transform(X)), compute_uv=False)
    assert (values > 0.02 * values[0]).sum() <= 4  # nearly of the true rank 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_penalties_of_both_factors_keep_many_components_from_missing_entries_far_outside_the_data():
    """The cure of the guide, with the weight that it begins with."""
    X = load_digits().data[:300]
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    gaps = np.where(hidden, np.nan, X)
    weight = np.nanvar(gaps, axis=0).mean() * np.sqrt(300) / (4 * np.nanmean(gaps))
    error = ((X - np.nanmean(gaps, axis=0))[hidden] ** 2).mean()
    shares = []
    for penalty in (None, Penalty(l2=weight)):
        options = {"penalty_W": penalty, "penalty_H": penalty, "max_iter": 60, "random_state": 0}
        model = NMF(40, loss="frobenius", missing_values=np.nan, **options)
        predicted = model.fit_transform(gaps) @ model.components_
        shares.append(((X - predicted)[hidden] ** 2).mean() / error)
    assert shares[0] > 1 and shares[1] < 0.7


def test_beta_numbers_are_the_named_losses(rng):
    X = rng.random((20, 10)) + 0.1
    for beta, name in ((2, "frobenius"), (1.0, "kullback-leibler"), (0, "itakura-saito")):
        by_number = NMF(2, loss=beta, random_state=0, max_iter=20).fit(X)
        by_name = NMF(2, loss=name, random_state=0, max_iter=20).fit(X)
        np.testing.assert_array_equal(by_number.components_, by_name.components_)


@pytest.mark.parametrize(
    ("fit", "sentence"),
    [
        ({"weights": np.ones((3, 3))}, r"weights must have the shape of X, \(80, 50\); got \(3, 3\)"),
        ({"weights": -1.0}, "weights must be finite and >= 0"),
        ({"weights": np.nan}, "weights must be finite and >= 0"),
        ({"weights": 0.0}, "weights must not be 0 for all entries"),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape \\(80,\\); got \\(3,\\)"),
        ({"sample_weight": np.zeros(80)}, "sample_weight must not be 0 for all samples"),
    ],
)
def test_weights_that_are_not_allowed(fit, sentence, clean):
    with pytest.raises(ParameterError, match=sentence):
        NMF(2).fit(clean, **fit)


def test_sparse_data_that_are_not_allowed(clean):
    X = sp.csr_array(clean)
    with pytest.raises(ParameterError, match="weights must be None for a sparse X"):
        NMF(2).fit(X, weights=1.0)
    X.data[3] = np.nan
    with pytest.raises(ParameterError, match="X must not hold NaN if it is sparse"):
        NMF(2, missing_values=np.nan).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        NMF(2).fit(X)
    for loss in given_where(lambda record: record.sparse is None):
        with pytest.raises(ParameterError, match=f"loss={loss!r}.*sparse"):
            NMF(2, loss=loss).fit(sp.csr_array(clean))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize(
    "model",
    [NMF(2, loss="frobenius", max_iter=5, tol=0, random_state=0), OnlineNMF(2, method="surrogate", random_state=0)],
    ids=lambda value: type(value).__name__,
)
def test_codes_that_overflow_are_an_error(model, rng):
    X = rng.random((9, 6), np.float32) + 1
    model = clone(model).fit(X)
    model.components_ = (model.components_.astype(float) * 1e-40).astype(np.float32)
    with pytest.raises(ParameterError, match="X must have codes within float32; got some beyond"):
        model.transform(X)


@pytest.mark.filterwarnings("ignore:MultiviewNMF takes X for a single view")
@pytest.mark.parametrize("make", [NMF, MultiviewNMF, OnlineNMF])
def test_negative_data_are_refused_with_a_scaler_to_use(make, rng):
    X = rng.standard_normal((20, 20))
    with pytest.raises(ValueError, match=f"Negative values in data passed to {make.__name__} .*MinMaxScaler"):
        make(2).fit(X)


@pytest.mark.parametrize("make", [NMF, OnlineNMF])
def test_rows_or_views_that_differ_in_shape_are_refused_with_a_cure(make, rng):
    for X in ([[1.0, 2.0], [3.0]], [rng.random((5, 3)), rng.random((5, 2))]):
        with pytest.raises(ParameterError, match=r"rows all have the same number of features.*MultiviewNMF"):
            make(2).fit(X)
