"""NMF: certificates, invariances, limits, peers."""

import warnings

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, Penalty
from visionnmf.engine import penalties
from visionnmf.engine.losses import Loss, loss_value
from visionnmf.engine.penalties import Box
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS, solve_codes
from visionnmf.engine.starts import STARTS
from visionnmf.exceptions import ParameterError

BETA = 1.5  # the user's name of the loss "beta"
PAIRS = [(name, BETA if loss == "beta" else loss) for name, solver in SOLVERS.items() for loss in sorted(solver.losses)]
UNGUARDED = {"sbcd-plain", "al-a", "al-b", "ogm-printed"}  # as published: may rise, even overflow
PAIRS = [pair for pair in PAIRS if pair[0] not in UNGUARDED]
FIRST = list({loss: (solver, loss) for solver, loss in reversed(PAIRS)}.values())  # one solver of each loss
# The engine's tests of scales hold for every solver, so here one of each loss is enough.
BOXED = [pair for pair in PAIRS if issubclass(Box, SOLVERS[pair[0]].terms)]
BOUNDS = [((0, 1), (0.05, 0.8)), ((0.1, None), (0, None)), ((0, None), (0, 0.3))]


def quiet(model, X, **start):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit_transform(X, **start)


def codes(X, H, loss, **penalty):
    return solve_codes(Problem(X, Loss(loss), penalties.Penalties(**penalty)), H)


@pytest.fixture
def X(rng):
    clean = rng.gamma(0.5, size=(60, 4)) @ rng.gamma(0.5, size=(4, 40))
    return np.where(rng.random(clean.shape) < 0.1, clean.max(), clean)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "loss", "dtype"),
    [
        *((*pair, np.float64) for pair in PAIRS),
        *(pytest.param(*pair, np.float32, marks=[] if pair in FIRST else pytest.mark.long) for pair in PAIRS),
    ],
)
def test_a_fit_is_what_its_attributes_say(solver, loss, dtype, X):
    X = X.astype(dtype)
    model = NMF(4, solver=solver, loss=loss, random_state=0)
    W = quiet(model, X)
    H = model.components_
    assert W.dtype == H.dtype == dtype and W.shape == (60, 4) and H.shape == (4, 40)
    assert (W >= 0).all() and (H >= 0).all()
    name = "beta" if loss == BETA else loss
    value = naive.LOSSES[name](X.astype(float), W.astype(float) @ H, model.loss_parameter_)
    assert model.reconstruction_err_ == pytest.approx(value, rel=1e-4)
    assert model.objective_history_[-1] == model.reconstruction_err_
    assert len(model.objective_history_) == model.n_iter_ + 1
    assert model.objective_history_[-1] < 0.8 * model.objective_history_[0]
    np.testing.assert_allclose(np.linalg.norm(H, axis=1), 1, rtol=1e-5)
    own = SOLVERS[solver].published  # a paper's method, whose own codes are the result
    assert own or ((model.transform(X) == W).all() and (model.transform(X[7:8]) == W[7:8]).all())
    assert (quiet(model.set_params(exact_codes=not own), X) == W).all()
    np.testing.assert_array_equal(model.inverse_transform(W), W @ H)


@pytest.mark.parametrize(
    ("solver", "loss", "exact"),
    [("rri", "manhattan", None), ("mu", "kullback-leibler", None), ("hals", "frobenius", False)],
)
def test_a_sample_of_weight_0_has_the_codes_of_the_components(solver, loss, exact, X):
    """A fit does not see it, so nothing but the final components can give its codes."""
    model = NMF(4, solver=solver, loss=loss, exact_codes=exact, random_state=0, max_iter=20, tol=0)
    W = model.fit_transform(X, sample_weight=np.repeat([0, 1], [2, 58]))
    np.testing.assert_allclose(W[:2], codes(X[:2], model.components_, loss).T, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_exact_recovery_from_a_fifth_of_corrupted_entries(seed):
    rng = np.random.default_rng(seed)
    clean = rng.gamma(0.5, size=(300, 5)) @ rng.gamma(0.5, size=(5, 150))
    clean /= np.quantile(clean, 0.99)
    X = np.where(rng.random(clean.shape) < 0.2, rng.integers(0, 2, clean.shape), clean).astype(np.float32)
    model = NMF(5, random_state=seed)
    W = model.fit_transform(X)
    error = np.linalg.norm(W @ model.components_ - clean) / np.linalg.norm(clean)
    assert error <= 1e-3
    least_squares = NMF(5, loss="frobenius", random_state=seed)
    W = quiet(least_squares, X)
    assert np.linalg.norm(W @ least_squares.components_ - clean) / np.linalg.norm(clean) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "loss"), FIRST)
@pytest.mark.parametrize("init", ["random", "nndsvda"])
def test_scaling_the_data_scales_the_model(solver, loss, init, X):
    model = NMF(3, solver=solver, loss=loss, init=init, random_state=0, max_iter=50)
    W = quiet(model, X)
    H = model.components_
    W_scaled = quiet(model, 1024 * X)
    np.testing.assert_allclose(model.components_, H, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(W_scaled, 1024 * W, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "loss"), PAIRS)
def test_permuting_samples_permutes_the_codes(solver, loss, X, rng):
    order = rng.permutation(len(X))
    # of rank 4: for lower ones some solvers begin with a sample of the rows
    W0, H0 = rng.random((60, 4)), rng.random((4, 40))
    # the step lengths of spg enlarge any rounding
    model = NMF(4, solver=solver, loss=loss, max_iter=3 if solver == "spg" else 30)
    W = quiet(model, X, W=W0, H=H0)
    H = model.components_
    W_permuted = quiet(model, X[order], W=W0[order], H=H0)
    # sums over samples in another order, which the path of ADMM and sBCD's steps in single precision enlarge
    near = 2e-3 if solver in ("sbcd", "spg") else 1e-5
    np.testing.assert_allclose(model.components_, H, atol=near)
    np.testing.assert_allclose(W_permuted, W[order], rtol=near, atol=10 * near)  # codes are as large as 30


@pytest.mark.parametrize(
    ("solver", "loss", "bounds"),
    [
        pytest.param(*pair, bounds, marks=[] if i % len(BOUNDS) == j else [pytest.mark.slow])
        for i, pair in enumerate(BOXED)
        for j, bounds in enumerate(BOUNDS)
    ],
)
def test_box(solver, loss, bounds, X):
    (low_W, high_W), (low_H, high_H) = bounds
    model = NMF(3, solver=solver, loss=loss, random_state=0)
    model.set_params(penalty_W=Penalty(low=low_W, high=high_W), penalty_H=Penalty(low=low_H, high=high_H))
    W = quiet(model, X)
    H = model.components_
    for codes in (W, model.transform(X[:7])):
        assert codes.min() >= low_W and codes.max() <= (high_W or np.inf)
    assert H.min() >= low_H and H.max() <= (high_H or np.inf)
    assert not np.allclose(np.linalg.norm(H, axis=1), 1)  # nothing may be rescaled


@pytest.mark.parametrize("init", sorted(STARTS))
def test_starts_are_seeded_non_negative_and_of_the_size_of_the_data(init, X):
    for n_components in (3, 70):
        Wt, H = STARTS[init](X, n_components, np.random.RandomState(0))
        again = STARTS[init](X, n_components, np.random.RandomState(0))
        assert (Wt == again[0]).all() and (H == again[1]).all()
        assert Wt.shape == (n_components, 60) and H.shape == (n_components, 40)
        assert (Wt >= 0).all() and (H >= 0).all()
    Wt, H = STARTS[init](X, 4, np.random.RandomState(0))
    assert 0.1 * X.mean() < (Wt.T @ H).mean() < 3 * X.mean()


def test_nndsvd_is_a_better_start_than_random(X):
    values = {}
    for name, start in STARTS.items():
        Wt, H = start(X, 4, np.random.RandomState(0))
        values[name] = loss_value(X, Wt, H, Loss("frobenius"))
    assert values["nndsvd"] < values["random"]


def test_a_fit_that_ends_early_warns_or_is_ended_by_its_callback(X):
    with pytest.warns(ConvergenceWarning, match=r"NMF stopped after 2 iterations .* about 0\.\d+ .*max_iter"):
        NMF(3, solver="rri", max_iter=2, random_state=0).fit(X)
    seen = []

    def callback(iteration, objective):
        seen.append((iteration, objective))
        return iteration == 3

    model = NMF(3, callback=callback, random_state=0).fit(X)
    assert [i for i, _ in seen] == [1, 2, 3] and model.n_iter_ == 3
    assert [value for _, value in seen] == list(model.objective_history_[:3])
    seen.clear()
    NMF(3, callback=callback, random_state=0, n_init=3).fit(X)
    assert len(seen) == 3  # no other start either


@pytest.mark.parametrize("solver", ["mu", "sbcd-plain"])
def test_samples_of_weights_0_have_codes_of_their_own_with_solvers_of_papers(solver, X):
    weights = np.ones(X.shape)
    weights[4] = 0
    found = [
        NMF(3, loss="kullback-leibler", solver=solver, init="custom", max_iter=5, tol=0).fit_transform(
            X, W=np.full((len(X), 3), start), H=X[:3] + 0.1, weights=weights
        )[4]
        for start in (1.0, 2.0)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["manhattan", "huber", "frobenius", "kullback-leibler"])
def test_quick_codes_and_no_measure_leave_the_components_as_they_are(loss, weighted, X, rng):
    weight = rng.uniform(0.5, 2, len(X)) if weighted else None
    model = NMF(4, loss=loss, max_iter=100, tol=0, random_state=0)
    quick = NMF(4, loss=loss, max_iter=100, tol=0, random_state=0, exact_codes=False, measure_optimality=False)
    exact, found = (fitted.fit_transform(X, sample_weight=weight) for fitted in (model, quick))
    np.testing.assert_array_equal(quick.components_, model.components_)
    np.testing.assert_array_equal(quick.objective_history_[:-1], model.objective_history_[:-1])
    assert np.isnan(quick.optimality_) and model.optimality_ >= 0
    H = model.components_
    least, left, new = (np.abs(X - W @ H).mean() for W in (exact, found, quick.transform(X)))
    assert left < 1.1 * least and new < 1.02 * least
    np.testing.assert_array_equal(quick.transform(X[7:8]), quick.transform(X)[7:8])
    np.testing.assert_array_equal(quick.set_params(exact_codes=True).transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_components": "auto"}, "n_components must be a whole number >= 1, or None; got 'auto'"),
        ({"loss": "l1"}, "loss must be one of .'manhattan', .* or a number from -5 to 5 .*; got 'l1'"),
        ({"loss": 7}, "loss must be one of .*; got 7"),
        ({"loss_parameter": 1.0}, "loss_parameter must be None for loss='manhattan'; got 1.0"),
        ({"loss": "huber", "loss_parameter": 0}, "loss_parameter of loss='huber' must be a finite number > 0; got 0"),
        ({"loss": "itakura-saito"}, "X must be > 0 for loss='itakura-saito'; got zeros; add a small constant"),
        ({"solver": "hals"}, "solver must be .*, as .'admm'.* can; got 'hals', which does not minimise"),
        ({"nuclear": 1, "loss": "frobenius"}, "nuclear must be 0 for losses other than .*'elastic-net'.; got 1"),
        ({"zero_weight": 0.5, "loss": "frobenius"}, "zero_weight must be 0 or 1 for losses other than 'manhattan'"),
        ({"update_components": False}, "components_init must be given with update_components=False; got None"),
        ({"components_init": np.ones((2, 40))}, r"components_init must have shape \(3, 40\); got \(2, 40\)"),
    ],
)
def test_parameters_that_are_not_allowed(parameters, sentence, X):
    X[0, 0] = 0
    with pytest.raises(ParameterError, match=sentence):
        NMF(**{"n_components": 3, **parameters}).fit(X)


def test_factors_and_codes_of_another_shape_are_refused(X):
    model = NMF(3, random_state=0)
    with pytest.raises(ParameterError, match=r"W must have shape \(60, 3\); got \(3, 60\)"):
        model.fit_transform(X, W=np.ones((3, 60)))
    with pytest.raises(ParameterError, match="H must hold finite numbers >= 0; got -1"):
        model.fit_transform(X, H=-np.ones((3, 40)))
    quiet(model, X)
    with pytest.raises(ParameterError, match=r"X must have shape \(n_samples, 3\); got \(60, 2\)"):
        model.inverse_transform(np.ones((60, 2)))


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-30), (np.float32, 1e30), (np.float64, 1e-200)])
def test_sizes_beyond_the_dtype_are_refused(dtype, scale, X):
    with pytest.raises(ParameterError, match=r"X must have a mean from .*, too (large|small) .*; divide X"):
        NMF(2).fit((X * scale).astype(dtype))


# --- starts ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:NMF found codes 0")
@pytest.mark.parametrize("sparse", [False, True])
def test_data_of_nearly_only_zeros_are_not_left_unexplained(sparse, rng):
    """From random factors alone ADMM ends at half of these data."""
    W, H = (rng.gamma(1, size=s) * (rng.random(s) < 0.06) for s in ((300, 6), (6, 150)))
    X = W @ H
    alone = NMF(6, solver="admm", random_state=0, measure_optimality=False).fit(X).reconstruction_err_
    found = NMF(6, random_state=0).fit(sp.csr_array(X) if sparse else X).reconstruction_err_
    assert found < 0.5 * alone


def test_a_single_sample_is_explained_wherever_the_fit_starts():
    """Its best model is the sample itself; from a random start the codes of a few entries could all become 0."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.random((1, rng.integers(1, 4))) * (rng.random() < 0.7) + [[0.5]]
        X[0, : X.shape[1] // 2] = 0
        assert NMF(1, random_state=seed).fit(X).reconstruction_err_ < 1e-3 * X.sum()
