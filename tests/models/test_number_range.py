"""Numbers at the ends of their range: components that die away, scales that drift apart, byte orders."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from visionnmf import NMF, ConservativeNMF, MultiviewNMF, OnlineNMF, ProjectiveNMF, SymmetricNMF
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import solve_codes
from visionnmf.exceptions import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", ["random", "ones"])
def test_scales_of_superfluous_components_do_not_drift_apart(seed, rows):
    row = np.random.RandomState(seed).random(24) if rows == "random" else np.ones(24)
    X = np.tile(row, (23, 1)).astype(np.float32)
    more = {"solver": "sbcd", "init": "nndsvd", "tol": 1, "max_iter": 30, "n_init": 2, "random_state": 695}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = NMF(40, loss="kullback-leibler", **more).fit(X)
    assert np.isfinite(model.component_norms_).all() and np.isfinite(model.components_).all()


@pytest.mark.parametrize("penalty", [Penalties(), Penalties(l1=3.0), Penalties(l2=3.0), Penalties(high=5.0)])
@pytest.mark.parametrize("size", [1e-12, 1e-50, 1e-120, 1e-200, 1e-308, 5e-324])
@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_sparse_codes_of_components_that_are_nearly_zero(penalty, size, scale, weight, rng):
    X = rng.random((12, 6)) * (rng.random((12, 6)) < 0.4)
    H = rng.random((3, 6))
    H[1] *= size
    H[2, ::2] *= size
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        problem = Problem(sp.csr_array(scale * X), Loss("manhattan"), penalty_W=penalty, zero_weight=weight)
        assert np.isfinite(solve_codes(problem, H)).all()


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in (50, 100, 150))])
def test_sparse_views_without_a_seed_never_overflow(first):
    for seed in range(first, first + 50):
        rng = np.random.RandomState(seed)
        X = rng.uniform(size=(40, 3))
        X[X < 0.8] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            model = MultiviewNMF(max_iter=50, random_state=seed).fit([sp.csr_array(X)])
            assert np.isfinite(model.transform([sp.csr_array(X)])).all()


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (OnlineNMF(3, method="or-nmf"), np.full((20, 8), 1e77)),
        (SymmetricNMF(2), np.full((5, 5), 1.7e308)),
        (SymmetricNMF(2, loss="frobenius"), np.full((5, 5), 1e38, np.float32)),
    ],
)
def test_numbers_near_the_end_of_the_range_are_refused(model, data):
    with pytest.raises(ParameterError, match=r"X must have .*divide X by its mean"):
        model.fit(data)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:NMF found codes 0")  # of 5e-324 a model of zeros is as good as any
def test_one_huge_entry_and_one_tiny_entry(rng):
    X = rng.random((40, 12))
    X[3, 4] = 1e20
    model = OnlineNMF(3, random_state=0).fit(X)
    assert np.isfinite(model.components_).all() and np.isfinite(model.objective_history_).all()
    tiny = np.zeros((10, 8))
    tiny[2, 3] = 5e-324
    assert np.isfinite(NMF(2, loss="frobenius", init="nndsvda").fit(tiny).components_).all()


@pytest.mark.parametrize(
    "model",
    [
        *(NMF(2), OnlineNMF(2), ProjectiveNMF(2), SymmetricNMF(2), ConservativeNMF(2)),
        MultiviewNMF(2, groups=[0] * 8),
    ],
    ids=lambda model: type(model).__name__,
)
def test_big_endian_float32_stays_float32(model, rng):
    X = rng.random((8, 8)).astype(np.float32)
    X = X + X.T
    if hasattr(model, "random_state"):
        model.set_params(random_state=0)
    swapped = model.fit(X.astype(">f4")).components_
    assert swapped.dtype == np.float32 and swapped.dtype.isnative
    np.testing.assert_array_equal(swapped, model.fit(X).components_)
