"""NMF: every loss with every penalty and kind of data works, or says in one sentence why not, before it fits."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from loss_checks import given, given_where, loss_of, losses_where
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, Penalty
from visionnmf.engine.losses import LOSSES as REGISTERED
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import SOLVERS, solve_codes
from visionnmf.exceptions import ParameterError

LOSSES = given_where()
POSITIVE = [*(given(loss) for loss in losses_where() if loss.needs_positive), -0.5]  # losses that zeros make infinite
SPARSE = given_where(lambda record: record.sparse is not None)
M, N, R = 14, 11, 3
UNGUARDED = {"sbcd-plain", "al-a", "al-b", "ogm-paper", "ogm-printed", "nenmf-paper"}  # as published


def penalties(n):
    """One of each kind, for a factor of n points; with a counterweight where it needs one."""
    groups = [slice(0, n // 2), slice(n // 2, n)]
    return {
        "none": None,
        "box": Penalty(low=0.05, high=2.0),
        "l1": Penalty(l1=0.3, l2=0.1),
        "l2": Penalty(l2=0.4),
        "graph": Penalty(graph="knn", n_neighbors=2, l2=0.1),
        "simplex": Penalty(simplex=True),
        "groups": Penalty(groups=groups, group_l1=0.5, l2=0.1),
        "bound": Penalty(groups=groups, group_bound=2.0, group_norm="inf", l2=0.1),
    }


KINDS = list(penalties(2))
UNABLE = {  # which of the others do not take a kind of penalty
    "none": set(),
    "box": {"mu"},
    "l1": set(),
    "graph": {"sbcd", "ccd"},
    "groups": {"sbcd", "ccd", "rri", "rri-printed", "mu"},
}


def quiet(model, X, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "the .* can be escaped")  # of one penalty alone
        warnings.filterwarnings("ignore", "none of the entries of 1 sample of X count")  # of a row without any
        return model.fit_transform(X, **arguments)


def refuses(model, X, sentence, **arguments):
    """Whether a fit raises one sentence that matches, before it does any work."""
    if model.callback is None:
        model.set_params(callback=lambda *_: pytest.fail("an iteration was run"))
    with pytest.raises(ParameterError, match=sentence) as caught:
        model.fit(X, **arguments)
    assert "\n" not in str(caught.value)


def sound(model, W, dtype=np.float64):
    """Check what every fit owes."""
    H = model.components_
    assert W.dtype == H.dtype == dtype
    assert np.isfinite(W).all() and np.isfinite(H).all() and (W >= 0).all() and (H >= 0).all()
    history = model.objective_history_
    assert np.isfinite(history).all() and history[-1] <= history[0] * (1 + 1e-6)
    assert 0 <= model.optimality_ < 2


@pytest.fixture
def X(rng):
    return rng.gamma(2, size=(M, R)) @ rng.gamma(1, size=(R, N)) + 0.1 * rng.random((M, N)) + 0.05


@pytest.fixture
def weights(rng):
    return (rng.random((M, N)) > 0.2) * rng.uniform(0.5, 2, (M, N))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind_W", KINDS)
def test_penalties_of_both_factors(loss, kind_W, X, weights):
    """Each loss with each kind for each factor, and each kind for one factor with each for the other."""
    kind_H = KINDS[(KINDS.index(kind_W) + LOSSES.index(loss)) % len(KINDS)]
    penalty_W, penalty_H = penalties(M)[kind_W], penalties(N)[kind_H]
    model = NMF(R, loss=loss, penalty_W=penalty_W, penalty_H=penalty_H, random_state=0, max_iter=20)
    for arguments in ({}, {"weights": weights}):
        W = quiet(model, X, **arguments)
        sound(model, W)
        for kind, F in ((kind_W, W.T), (kind_H, model.components_)):
            if kind == "box":
                assert F.min() >= 0.05 and F.max() <= 2.0
            elif kind == "simplex":
                np.testing.assert_allclose(F.sum(axis=0 if F is not model.components_ else 1), 1, rtol=1e-6)
            elif kind == "bound":
                half = F.shape[1] // 2
                assert all(part.max(axis=1).sum() <= 2 + 1e-6 for part in (F[:, :half], F[:, half:]))
        if kind_W not in ("graph", "groups", "bound"):
            assert (model.transform(X, **arguments) == W).all()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", UNABLE)
def test_auto_is_as_good_as_the_others(loss, kind, X):
    settings = {"penalty_W": penalties(M)[kind], "penalty_H": penalties(N)[kind], "loss": loss, "random_state": 0}
    values = {}
    name = "beta" if loss == 1.5 else loss
    for solver in ("auto", *(s for s in SOLVERS if name in SOLVERS[s].losses and s not in UNGUARDED)):
        model = NMF(R, solver=solver, max_iter=200, **settings)
        if solver in UNABLE[kind]:
            refuses(model, X, f"solver must be .*; got {solver!r}, which does not take {kind} in penalty_W")
        else:
            quiet(model, X)
            values[solver] = model.objective_history_[-1]
    assert values["auto"] <= 1.1 * min(values.values()) + 1e-3 * X.sum()  # local minima differ


def gaps(X, rng):
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


DATA = {
    "lists": lambda X, rng: X.tolist(),
    "integers": lambda X, rng: rng.integers(1, 255, X.shape, dtype=np.uint8),
    "float32": lambda X, rng: X.astype(np.float32),
    "column-major": lambda X, rng: np.asfortranarray(X),
    "every other column": lambda X, rng: np.repeat(X, 2, axis=1)[:, ::2],
    "one row": lambda X, rng: X[:1],
    "one column": lambda X, rng: X[:, :1],
    "one entry": lambda X, rng: X[:1, :1],
    "zeros": lambda X, rng: np.zeros_like(X),
    "a row of zeros": lambda X, rng: np.where(np.arange(M)[:, None] == 2, 0, X),
    "constant": lambda X, rng: np.full_like(X, 3),
    "one huge entry": lambda X, rng: np.where(np.arange(M * N).reshape(M, N) == 40, 1e8, X),
    "tiny and large": lambda X, rng: np.where(rng.random(X.shape) < 0.5, 1e-300, X),
    "missing": lambda X, rng: np.where(np.arange(M)[:, None] == 3, np.nan, gaps(X, rng)),
    "missing, float32": lambda X, rng: gaps(X, rng).astype(np.float32),
    "sparse": lambda X, rng: sp.csr_array(np.where(X > np.median(X), X, 0)),
    "sparse, float32": lambda X, rng: sp.csr_array(np.where(X > np.median(X), X, 0).astype(np.float32)),
    "sparse integers": lambda X, rng: sp.csc_matrix(rng.poisson(0.5, X.shape)),
    "sparse zeros": lambda X, rng: sp.csr_array(X.shape),
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*LOSSES, -0.5])
@pytest.mark.parametrize("kind", DATA)
def test_kinds_of_data(kind, loss, X, rng):
    data = DATA[kind](X, rng)
    # every other one with more components than there are rows or columns
    n_components = 20 if ([*LOSSES, -0.5].index(loss) + list(DATA).index(kind)) % 2 else 2
    model = NMF(n_components, loss=loss, random_state=0, max_iter=20)
    model.set_params(missing_values=np.nan if "missing" in kind else None)
    if "sparse" in kind and loss not in SPARSE:
        refuses(model, data, f"loss={loss!r}.* sparse X")
    elif loss in POSITIVE and "zeros" in kind:
        refuses(model, data, f"X must be > 0 for loss={loss!r}; got zeros")
    else:
        W = quiet(model, data)
        sound(model, W, np.float32 if "float32" in kind else np.float64)
        assert (model.transform(data) == W).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", losses_where(lambda record: record.beta in (None, 2.0)), ids=given)
@pytest.mark.parametrize("penalty", [{"l2": 0.1}, {"l2": 1.0}, {"l1": 0.3, "l2": 10.0}, {"l1": 1.0}])
def test_penalised_codes_of_data_that_fit_well(kind, penalty, rng):
    H = rng.gamma(1, size=(R, N))
    H /= np.linalg.norm(H, axis=1, keepdims=True)
    X = 5 * rng.gamma(2, size=(4, R)) @ H  # without the penalty there would be no residual at all
    Wt = solve_codes(Problem(X, kind, Penalties(**penalty)), H)
    for j in range(len(X)):
        row = Problem(X[j : j + 1], kind, Penalties(**penalty))

        def value(w, row=row):
            return row.objective(np.ascontiguousarray(w[:, None]), H)

        options = {"maxiter": 2000, "xatol": 1e-8, "fatol": 1e-10}
        starts = (Wt[:, j], np.full(R, 0.5), np.full(R, 5.0))
        found = [minimize(value, w, method="Nelder-Mead", bounds=[(0, None)] * R, options=options) for w in starts]
        assert value(Wt[:, j]) <= 1.01 * min(each.fun for each in found)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [None, Penalty(high=50.0), Penalty(l1=1e-9)])
def test_a_sample_of_weight_two_counts_twice(loss, penalty, X, rng):
    times = rng.integers(0, 3, M)
    start = {"W": rng.random((M, R)), "H": rng.random((R, N))}
    parameter = loss_of(loss).parameter if loss in REGISTERED and REGISTERED[loss].parameter else None
    weighted = NMF(R, loss=loss, loss_parameter=parameter, penalty_W=penalty)
    quiet(weighted.set_params(max_iter=100), X, sample_weight=times, **start)
    repeated = clone(weighted)
    quiet(repeated, np.repeat(X, times, axis=0), W=np.repeat(start["W"], times, axis=0), H=start["H"])
    assert weighted.reconstruction_err_ == pytest.approx(repeated.reconstruction_err_, rel=0.1, abs=5e-3 * X.sum())
    # the start's objective tells exactly, but for the codes' penalty
    assert weighted.objective_history_[0] == pytest.approx(repeated.objective_history_[0], rel=1e-6)


def test_sample_weight_of_sparse_data_and_penalised_codes(X):
    model, sentence = NMF(R, penalty_W=Penalty(l1=1.0)), "sample_weight must be None for a sparse X with penalty_W"
    refuses(model, sp.csr_array(X), sentence, sample_weight=np.ones(M))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_components_to_start_from_of_another_size(loss, scale, X, rng):
    H = rng.random((R, N))
    settings = {"loss": loss, "components_init": H, "random_state": 0, "max_iter": 100}
    here, there = NMF(R, **settings), NMF(R, **settings)
    W = quiet(here, X) @ here.components_
    there.set_params(components_init=scale * H)
    np.testing.assert_allclose(quiet(there, X) @ there.components_, W, rtol=0.02, atol=0.01 * X.mean())


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_starts_and_fixed_components(loss, X):
    model = NMF(R, loss=loss, random_state=0, n_init=2, warm_start=True, max_iter=50)
    W = quiet(model, X)
    once = model.objective_history_[-1]
    quiet(model, X)
    assert model.objective_history_[-1] <= 1.02 * once + 1e-3 * X.sum()
    for n_components in (2, None):  # another shape than that of the fit before
        sound(model, quiet(model.set_params(n_components=n_components), X))
    quiet(model.set_params(n_components=R, warm_start=False), X)
    fixed = NMF(components_init=model.components_, update_components=False, loss=loss)
    np.testing.assert_array_equal(quiet(fixed, X), model.transform(X))
    assert W.shape == fixed.transform(X).shape


def test_missing_entries_do_not_count_for_the_size_of_the_data(rng):
    for loss in given_where(lambda record: record.parameter is not None):
        model = NMF(1, loss=loss, missing_values=np.nan, max_iter=2, tol=0)
        full = model.fit(np.ones((20, 20))).loss_parameter_
        holes = np.where(rng.random((20, 20)) < 0.8, np.nan, 1.0)
        assert model.fit(holes).loss_parameter_ == pytest.approx(full)


def test_a_model_with_read_only_components_takes_missing_entries(X, rng):
    for loss in LOSSES:
        model = NMF(R, loss=loss, missing_values=np.nan, random_state=0, max_iter=20)
        W = quiet(model, gaps(X, np.random.default_rng(0)))
        model.components_.setflags(write=False)  # as joblib's memory maps are
        np.testing.assert_array_equal(model.transform(gaps(X, np.random.default_rng(0))), W)


def test_a_solver_that_diverges_is_an_error(monkeypatch, X):
    def diverge(problem, Wt, H, *, max_iter):
        Wt[:] = np.inf
        yield from ()

    monkeypatch.setitem(SOLVERS, "rri", SOLVERS["rri"]._replace(iterate=diverge))
    with pytest.raises(ParameterError, match=r"solver must be one that converges .*; got 'rri'.*; 'auto'"):
        NMF(R, solver="rri").fit(X)


@pytest.mark.parametrize(
    ("parameters", "arguments", "sentence"),
    [
        ({"zero_weight": 0.5}, {}, "zero_weight must be 1 for a dense X; got 0.5"),
        ({}, {"weights": "a"}, "weights must be an array of numbers; got 'a'"),
        ({}, {"weights": [[1, 2], [3]]}, "weights must be an array of numbers; got"),
        ({}, {"sample_weight": ["heavy"] * M}, "sample_weight must be an array of numbers; got"),
        ({"components_init": "nndsvd"}, {}, "components_init must be an array of numbers; got 'nndsvd'"),
        ({}, {"weights": sp.csr_array((M, N))}, "weights must be dense; got a sparse array"),
        ({"penalty_W": Penalty(graph="knn"), "update_components": False}, {}, "update_components must be True with"),
    ],
)
def test_settings_that_are_not_allowed(parameters, arguments, sentence, X):
    refuses(NMF(R, components_init=np.ones((R, N))).set_params(**parameters), X, sentence, **arguments)


@pytest.mark.slow
def test_the_weight_of_zeros_holds_for_new_data_too(X):
    stored = np.where(X > np.median(X), X, 0)
    model = NMF(R, zero_weight=0.3, missing_values=np.nan, random_state=0, max_iter=20)
    W = quiet(model, sp.csr_array(stored))
    np.testing.assert_array_equal(model.transform(stored), W)
    with pytest.raises(ParameterError, match="zero_weight must be 1 with weights or missing entries"):
        model.transform(stored, weights=1.0)


def test_data_of_missing_entries_alone(X):
    nothing = np.full((M, N), np.nan)
    refuses(NMF(R, missing_values=np.nan), nothing, "X must not be missing in all entries; got no observed entry")
    for loss in LOSSES:
        model = NMF(R, loss=loss, missing_values=np.nan, random_state=0, max_iter=20)
        quiet(model, X)
        alone, among = model.transform(nothing[:1]), model.transform(np.vstack([X[:3], nothing[:1]]))
        np.testing.assert_array_equal(alone[0], among[3])


@pytest.mark.slow
def test_a_refused_fit_leaves_the_codes_of_the_model_as_they_are(X):
    model = NMF(R, random_state=0, max_iter=20)
    quiet(model, X)
    W = model.transform(X)
    with pytest.raises(ParameterError, match="zero_weight must be 1 for a dense X"):
        model.set_params(nuclear=1.0, zero_weight=0.5).fit(X)
    np.testing.assert_array_equal(model.set_params(nuclear=0.0, zero_weight=1.0).transform(X), W)
