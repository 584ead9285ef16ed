"""Models that are 0 where the data are not are told, and are not called perfect."""

import math
import warnings

import numpy as np
import pytest
from helpers import random_array
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, Penalty, load_model, select_loss
from visionnmf.models import sparse_data

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def counts(rng):
    return random_array((120, 300), density=0.03, rng=rng, format="csr")


def test_a_zero_model_of_sparse_data_warns_and_names_the_cure(counts, tmp_path):
    with pytest.warns(UserWarning, match=r'NMF found codes 0 for \d+ of 1\d\d .*"kullback-leibler".*zero_weight'):
        NMF(4, random_state=0).fit(counts)
    model = NMF(4, solver="rri", init="custom")  # from 0, which it keeps
    with pytest.warns(UserWarning, match=r"NMF found codes 0 for (1\d\d) of \1 "):
        W = model.fit_transform(counts, W=np.zeros((120, 4)), H=np.zeros((4, 300)))
    assert not W.any() and math.isnan(model.optimality_)
    model.save(tmp_path / "model.npz")
    assert math.isnan(load_model(tmp_path / "model.npz").optimality_)


def test_codes_that_are_0_for_most_samples_and_penalties_that_leave_nothing_warn(rng):
    X = random_array((120, 300), density=0.2, rng=rng).toarray()
    with pytest.warns(UserWarning, match='use loss="kullback-leibler"'):
        model = NMF(4, random_state=0).fit(X)
    assert model.optimality_ >= 0
    with pytest.warns(UserWarning, match="smaller penalties"):
        model = NMF(2, loss="frobenius", penalty_W=Penalty(l1=1e3), random_state=0).fit(rng.random((20, 10)))
    assert math.isnan(model.optimality_)


def test_fits_that_try_losses_leave_the_warning_to_the_fit_that_follows(rng):
    X = random_array((100, 80), density=0.05, rng=rng).toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select_loss(X, ("manhattan", "frobenius"), estimator=NMF(8), random_state=0)


@pytest.mark.parametrize("cure", [{"loss": "kullback-leibler"}, {"loss": "frobenius"}, {"zero_weight": 0.02}])
def test_the_cures_cure(counts, cure):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = NMF(4, random_state=0, max_iter=30, **cure).fit_transform(counts)
    assert W.any(axis=1).mean() > 0.5


def test_data_that_are_0_may_have_codes_that_are(rng):
    X = np.zeros((30, 8))
    X[:5] = rng.random((5, 8))
    for data in (X, np.zeros((3, 4))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = NMF(2, random_state=0, max_iter=4000).fit(data)
        assert not math.isnan(model.optimality_)


@pytest.mark.filterwarnings("ignore:NMF found codes 0", "ignore:the l1 of penalty_W can be escaped")
def test_a_zero_factor_is_fitted_again_unless_the_user_has_named_the_fit(rng):
    X, penalty = rng.random((12, 8)), Penalty(l1=1e3)
    for parameters, end, n_fits in (
        ({}, 400, 2),
        ({"solver": "admm"}, 400, 1),
        ({"init": "nndsvda"}, 400, 1),
        ({}, 9, 1),
    ):
        seen = []

        def callback(iteration, objective, seen=seen, end=end):
            seen.append(iteration)
            return iteration == end

        model = NMF(2, penalty_W=penalty, random_state=0, tol=0, max_iter=60, callback=callback, **parameters).fit(X)
        assert math.isnan(model.optimality_) and seen.count(1) == n_fits


@pytest.mark.filterwarnings("ignore:NMF found codes 0")
def test_the_tolerance_of_least_squares_is_a_share_whatever_the_rule(counts, monkeypatch):
    given = []
    fit = sparse_data.fit

    def heard(*factors, **limits):
        given.append(limits["tol"])
        return fit(*factors, **limits)

    monkeypatch.setattr(sparse_data, "fit", heard)
    for stop, tol in (("auto", 0.02), ("decrease", 50.0)):
        NMF(2, stop=stop, tol=tol, random_state=0).fit(counts)
    assert given == [0.02, 1e-3]
