"""Fits of arrays of other libraries: array-api-strict, which knows only the standard, and PyTorch if it is there.

The oracle is the fit of the same data in an array of NumPy, which takes other code: compiled kernels.
"""

import importlib.util

import numpy as np
import pytest
import sklearn

from visionnmf import NMF, MultiviewNMF, OnlineNMF, Penalty, ProjectiveNMF, SymmetricNMF, load_model
from visionnmf.engine.arrays import factors, passes
from visionnmf.engine.kernels import admm as kernels
from visionnmf.engine.losses import LOSSES, Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.quadratic import improve
from visionnmf.engine.solving import SOLVERS

pytestmark = pytest.mark.slow  # all of it runs whole fits or commands

LIBRARIES = ["array_api_strict", "torch"]


@pytest.fixture(params=LIBRARIES)
def xp(request, monkeypatch):
    """A library; PyTorch in one thread, because its threads wait for each other on a busy machine."""
    library = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    if request.param == "torch":
        library.set_num_threads(1)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without which scikit-learn refuses to dispatch
    with sklearn.config_context(array_api_dispatch=True):
        yield library


def data(rng, shape=(50, 24), rank=4, dtype=np.float64):
    clean = rng.gamma(0.5, size=(shape[0], rank)) @ rng.gamma(0.5, size=(rank, shape[1]))
    return (np.where(rng.random(shape) < 0.1, clean.max(), clean) + 0.05 * rng.random(shape)).astype(dtype)


def there(xp, array):
    return xp.asarray(np.array(array))


def here(array):
    return np.asarray(array)


PENALTIES = {"penalty_W": Penalty(l1=0.05, high=1.5), "penalty_H": Penalty(l2=0.1)}
LOSSES_ELSEWHERE = [name for name in LOSSES if any(one.elsewhere and name in one.losses for one in SOLVERS.values())]


@pytest.mark.parametrize(
    "options",
    [{}, *(pytest.param(more, marks=pytest.mark.long) for more in (PENALTIES, {"missing_values": np.nan}))],
    ids=["plain", "penalties", "missing"],
)
@pytest.mark.parametrize("loss", LOSSES_ELSEWHERE)
def test_a_fit_elsewhere_equals_the_fit_in_memory(xp, loss, options, rng):
    X = data(rng)
    if "missing_values" in options:
        X[rng.random(X.shape) < 0.2] = np.nan
    solver = "admm" if loss == "kullback-leibler" else "auto"
    weight = rng.uniform(0.5, 2, len(X))
    models = [NMF(4, loss=loss, solver=solver, max_iter=20, tol=0, random_state=3, **options) for _ in range(2)]
    models[0].fit(X, sample_weight=weight)
    given = there(xp, X)
    V = models[1].fit_transform(given, sample_weight=weight)
    np.testing.assert_array_equal(here(given), X)  # the caller's array does not change
    assert type(V) is type(there(xp, X)) and type(models[1].components_) is type(V)
    np.testing.assert_allclose(here(models[1].components_), models[0].components_, atol=1e-9)
    # the last objective is that of the final codes
    np.testing.assert_allclose(models[1].objective_history_[:-1], models[0].objective_history_[:-1], rtol=1e-9)
    assert models[1].objective_history_[-1] <= models[0].objective_history_[-1] * (1 + CODES_BAR)
    assert models[1].solver_ == models[0].solver_ and models[1].n_iter_ == models[0].n_iter_
    assert models[1].loss_parameter_ == pytest.approx(models[0].loss_parameter_, rel=1e-12)
    assert np.isnan(models[1].optimality_)


CODES_BAR = 1e-3  # objectives of codes on a device are at most by this share above those of the host


@pytest.mark.parametrize("options", [{}, PENALTIES], ids=["plain", "penalties"])
@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("loss", LOSSES_ELSEWHERE)
def test_codes_agree_with_those_of_the_host(xp, loss, weighted, options, rng):
    X, more = data(rng), data(rng, (40, 24))
    M = rng.uniform(0, 1, more.shape) * (rng.random(more.shape) < 0.8) if weighted else None
    model = NMF(4, loss=loss, max_iter=40, tol=0, random_state=3, **options).fit(X)
    expected = model.transform(more, weights=M)
    found = here(model.transform(there(xp, more), weights=M))
    if model.loss == "frobenius" or (model.loss == "l21" and not options):  # HALS ends at the exact codes
        np.testing.assert_allclose(found, expected, atol=1e-8 * expected.max())

    def objective(W):
        loss = Loss(model.loss, model.loss_parameter_)
        penalty = 0.05 * (W * model.component_norms_).sum() if options else 0  # the penalty is that before normalising
        return loss.record.values(more, W @ model.components_, M, loss.parameter).sum() + penalty

    assert objective(found) <= objective(expected) * (1 + CODES_BAR)
    assert (found >= 0).all()
    if options:
        assert (found * model.component_norms_ <= 1.5 * (1 + 1e-12)).all()


@pytest.mark.parametrize("loss", LOSSES_ELSEWHERE)
def test_single_precision_stays_and_agrees(xp, loss, rng):
    X = data(rng, dtype=np.float32)
    solver = "admm" if loss == "kullback-leibler" else "auto"
    models = [NMF(4, loss=loss, solver=solver, max_iter=15, tol=0, random_state=3) for _ in range(2)]
    models[0].fit(X)
    V = models[1].fit_transform(there(xp, X))
    assert V.dtype == xp.float32 and models[1].components_.dtype == xp.float32
    assert models[1].reconstruction_err_ == pytest.approx(models[0].reconstruction_err_, rel=CODES_BAR)
    # extrapolated least squares keeps or drops a step by its last digits, and goes on from another point
    bar = 1e-3 if loss == "frobenius" else 3e-4
    H, expected = here(models[1].components_), models[0].components_
    assert np.linalg.norm(H - expected) < bar * np.linalg.norm(expected)


def test_whole_numbers_become_double(xp, rng):
    X = rng.integers(0, 9, (30, 8))
    models = [NMF(2, loss="l21", random_state=0, max_iter=20, tol=0) for _ in range(2)]
    V = models[0].fit_transform(there(xp, X))
    assert V.dtype == xp.float64
    np.testing.assert_allclose(here(V), models[1].fit_transform(X), atol=1e-8)


def test_given_factors_and_fixed_components(xp, rng):
    X, W, H = data(rng), rng.random((50, 3)), rng.random((3, 24))
    for start in ({"W": W, "H": H}, {"H": H}, {"W": W}):
        expected = NMF(3, loss="l21", max_iter=20, tol=0, random_state=0).fit_transform(X, **start)
        mixed = {key: there(xp, value) for key, value in start.items()}
        found = NMF(3, loss="l21", max_iter=20, tol=0, random_state=0).fit_transform(there(xp, X), **mixed)
        np.testing.assert_allclose(here(found), expected, atol=1e-8 * expected.max())
        assert all((here(mixed[key]) == value).all() for key, value in start.items())
    fixed = [NMF(3, loss="l21", components_init=H, update_components=False).fit(A) for A in (X, there(xp, X))]
    assert (here(fixed[1].components_) == H).all() and fixed[1].n_iter_ == 0
    assert fixed[1].reconstruction_err_ == pytest.approx(fixed[0].reconstruction_err_, rel=1e-9)


def test_weights_of_entries(xp, rng):
    X, M = data(rng), rng.uniform(0, 1, (50, 24)) * (rng.random((50, 24)) < 0.8)
    expected = NMF(3, loss="l21", max_iter=20, tol=0, random_state=0).fit_transform(X, weights=M)
    for weights in (M, there(xp, M)):
        found = NMF(3, loss="l21", max_iter=20, tol=0, random_state=0).fit_transform(there(xp, X), weights=weights)
        np.testing.assert_allclose(here(found), expected, atol=1e-8 * expected.max())
    row = NMF(3, loss="l21", max_iter=20, tol=0, random_state=0).fit(there(xp, X), weights=M[0])
    again = NMF(3, loss="l21", max_iter=20, tol=0, random_state=0).fit(X, weights=M[0])
    assert row.reconstruction_err_ == pytest.approx(again.reconstruction_err_, rel=1e-9)


def test_a_model_goes_from_one_library_to_another(xp, rng, tmp_path):
    X = data(rng)
    model = NMF(3, loss="l21", random_state=0, max_iter=30, tol=0).fit(there(xp, X))
    codes = model.transform(there(xp, X))
    np.testing.assert_allclose(model.transform(X), here(codes), atol=1e-8)  # components there, data here
    back = model.inverse_transform(codes)
    assert type(back) is type(codes)
    np.testing.assert_allclose(here(back), here(codes) @ here(model.components_), rtol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(here(codes)), here(back), rtol=1e-12)
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert isinstance(loaded.components_, np.ndarray) and not isinstance(model.components_, np.ndarray)
    np.testing.assert_allclose(here(loaded.transform(there(xp, X))), here(codes), atol=1e-12)
    assert list(model.get_feature_names_out()) == ["nmf0", "nmf1", "nmf2"]


def test_without_dispatch_arrays_become_those_of_numpy(xp, rng):
    X = data(rng)
    with sklearn.config_context(array_api_dispatch=False):
        found = NMF(3, max_iter=5, tol=0, random_state=0).fit_transform(there(xp, X))
    assert isinstance(found, np.ndarray)


BAD = {
    "negative": (lambda X: -X, {}, "must be >= 0"),
    "NaN": (lambda X: np.where(X > X.mean(), np.nan, X), {}, "missing_values=numpy.nan"),
    "infinite": (lambda X: np.where(X > X.mean(), np.inf, X), {}, "finite"),
    "one axis": (lambda X: X[0], {}, "two dimensions"),
    "large": (lambda X: 1e80 * X, {}, "divide X by its mean"),
    "nndsvd": (lambda X: X, {"init": "nndsvd"}, "init must be 'random'"),
    "simplex": (lambda X: X, {"penalty_W": Penalty(simplex=True)}, "penalty_W must be of box, l1 and l2"),
    "graph": (lambda X: X, {"penalty_H": Penalty(graph=np.eye(24)[::-1])}, "penalty_H must be of box, l1 and l2"),
    "bounds": (lambda X: X, {"penalty_H": Penalty(low=np.ones((3, 24)))}, "of box.*; got low of each entry"),
    "loss": (lambda X: X, {"loss": "itakura-saito"}, r"loss must be one of .*'frobenius'.* for an array on a device"),
    "solver": (lambda X: X, {"loss": 2, "solver": "nenmf"}, r"as \['hals'\] can; got 'nenmf', which does not take an"),
    "multiplicative": (lambda X: X, {"loss": "kullback-leibler", "solver": "mu"}, r"as \['admm'\] can; got 'mu'"),
    "no components": (lambda X: X, {"update_components": False}, "components_init must be given"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_fits_elsewhere_do_not_take(xp, case, rng):
    change, options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        NMF(3, **options).fit(there(xp, change(data(rng))))


@pytest.mark.parametrize("other", [SymmetricNMF, MultiviewNMF, ProjectiveNMF])
def test_other_estimators_name_the_one_that_takes_the_array(xp, other, rng):
    X = there(xp, data(rng, (24, 24)))
    with pytest.raises(ValueError, match=r"array of NumPy here; got one of .*visionnmf\.NMF"):
        other(3).fit([X, X] if other is MultiviewNMF else X)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_tensors_with_gradients_or_without_storage(monkeypatch, rng):
    import torch

    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    torch.set_num_threads(1)
    X = torch.asarray(data(rng))
    with sklearn.config_context(array_api_dispatch=True):
        codes = NMF(3, random_state=0, max_iter=5, tol=0).fit_transform(X.clone().requires_grad_(True))
        assert not codes.requires_grad
        assert (codes == NMF(3, random_state=0, max_iter=5, tol=0).fit_transform(X)).all()
        with pytest.raises(ValueError, match=r"layout torch.sparse_coo; call X.to_dense\(\)"):
            NMF(3).fit(X.to_sparse())


def test_a_model_of_another_loss_and_codes_of_another_shape_have_no_counterpart_there(xp, rng):
    X = data(rng)
    model = NMF(3, loss="itakura-saito", max_iter=5, tol=0).fit(X)
    with pytest.raises(ValueError, match=r"loss must be one of .*'manhattan'\] for an array on a device; got"):
        model.transform(there(xp, X))
    model = NMF(3, max_iter=5, tol=0).fit(there(xp, data(rng)))
    with pytest.raises(ValueError, match=r"\(n_samples, 3\)"):
        model.inverse_transform(there(xp, np.ones((4, 2))))
    with pytest.raises(ValueError, match="features"):
        model.transform(there(xp, np.ones((4, 2))))


# --- online learning --------------------------------------------------------------------------------------------------

ONLINE = {
    "manhattan": {},
    "surrogate": {"method": "surrogate"},
    "start": {"init": "batch"},
    "penalties": PENALTIES,
    "penalties of surrogate": {"method": "surrogate", **PENALTIES},
    "missing": {"missing_values": np.nan},
    "missing in surrogate": {"method": "surrogate", "missing_values": np.nan},
}


def online(**options):
    return OnlineNMF(4, **{"batch_size": 16, "max_iter": 2, "random_state": 0, "init": "random", **options})


def assert_learnt_alike(found, expected, bar=1e-9):
    scale = expected.components_.max()
    np.testing.assert_allclose(here(found.components_), expected.components_, atol=bar * scale)
    for name in ("A", "B"):
        wanted = expected.state_[name]
        np.testing.assert_allclose(here(found.state_[name]), wanted, atol=bar * wanted.max())
    assert found.chunk_loss_ == pytest.approx(expected.chunk_loss_, rel=bar)
    assert found.state_["weight"] == pytest.approx(expected.state_["weight"], rel=1e-12)
    for name in ("n_samples_seen_", "n_steps_", "n_iter_", "n_features_in_"):
        assert getattr(found, name) == getattr(expected, name)


@pytest.mark.parametrize("case", ONLINE)
def test_online_learning_elsewhere_equals_that_in_memory(xp, case, rng):
    X, more, options = data(rng), data(rng, (37, 24)), ONLINE[case]
    weighted = list(ONLINE).index(case) % 2  # with each method there are cases with weights and without
    if "missing_values" in options:
        X[rng.random(X.shape) < 0.2] = np.nan
    s = rng.integers(0, 3, 50) if weighted else None
    M = rng.uniform(0, 1, (37, 24)) * (rng.random((37, 24)) < 0.8) if weighted else None
    expected = online(**options).fit(X, sample_weight=s)
    found = online(**options).fit(there(xp, X), sample_weight=None if s is None else there(xp, s))
    assert type(found.components_) is type(found.state_["B"]) is type(there(xp, X))
    assert_learnt_alike(found, expected)
    expected.partial_fit(more, weights=M)
    found.partial_fit(there(xp, more), weights=None if M is None else there(xp, M))
    assert_learnt_alike(found, expected)
    codes, W = found.transform(there(xp, X)), expected.transform(X)
    assert type(codes) is type(there(xp, X))
    np.testing.assert_allclose(here(codes), W, atol=1e-7 * W.max())  # single codes differ by 1e-8
    np.testing.assert_allclose(found.transform(X), here(codes), atol=1e-7 * W.max())


@pytest.mark.parametrize("method", ["manhattan", "surrogate"])
def test_online_learning_in_single_precision(xp, method, rng):
    X = data(rng, dtype=np.float32)
    expected, found = online(method=method).fit(X), online(method=method).fit(there(xp, X))
    assert found.components_.dtype == xp.float32 and found.state_["A"].dtype == xp.float32
    assert_learnt_alike(found, expected, 1e-4)
    found.partial_fit(there(xp, X.astype(np.float64)))  # is converted to the dtype of the first chunk
    assert found.components_.dtype == xp.float32


@pytest.mark.parametrize("method", ["manhattan", "surrogate"])
def test_a_stream_goes_on_in_another_library(xp, method, rng, tmp_path):
    chunks = [data(rng, (40, 24)) for _ in range(3)]
    expected, found = online(method=method), online(method=method)
    for number, chunk in enumerate(chunks):
        expected.partial_fit(chunk)
        found.partial_fit(there(xp, chunk) if number % 2 == 0 else chunk)
        assert isinstance(found.components_, np.ndarray) == (number % 2 == 1)
    assert_learnt_alike(found, expected)
    found.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert isinstance(loaded.state_["B"], np.ndarray) and not isinstance(found.state_["B"], np.ndarray)
    assert_learnt_alike(loaded.partial_fit(there(xp, chunks[0])), expected.partial_fit(chunks[0]))


def test_the_callers_chunks_do_not_change(xp, rng):
    X, H = data(rng), rng.random((4, 24))
    arrays = [there(xp, A) for A in (X, H)]
    model = online(components_init=arrays[1]).partial_fit(arrays[0])
    assert (here(arrays[0]) == X).all() and (here(arrays[1]) == H).all()
    assert_learnt_alike(model, online(components_init=H).partial_fit(X))


BAD_ONLINE = {
    "method": (lambda X: X, {"method": "or-nmf"}, r"method .*one of \['manhattan', 'surrogate'\]; got 'or-nmf'"),
    "negative": (lambda X: -X, {}, "must be >= 0"),
    "width": (lambda X: X[:, 1:], {}, "23 features"),
    "simplex": (lambda X: X, {"method": "surrogate", "penalty_W": Penalty(simplex=True)}, "of box, l1 and l2"),
}


@pytest.mark.parametrize("case", BAD_ONLINE)
def test_what_online_learning_elsewhere_does_not_take_leaves_the_model_as_it_was(xp, case, rng):
    change, options, message = BAD_ONLINE[case]
    X = data(rng)
    model = online(**options).partial_fit(X)
    with pytest.raises(ValueError, match=message) as error:
        model.partial_fit(there(xp, change(X)))
    assert "\n" not in str(error.value)
    expected = online(**options).partial_fit(X)
    assert (model.partial_fit(X).components_ == expected.partial_fit(X).components_).all()


# --- the parts, against the compiled kernels and brute force ----------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name, record in LOSSES.items() if record.proximal is not None])
def test_a_pass_equals_the_kernel(xp, name, weighted, rng):
    X, P, U = rng.random((5, 9)), rng.random((5, 9)) + 0.1, rng.normal(0, 0.2, (5, 9))
    M = rng.random((5, 9)) * (rng.random((5, 9)) < 0.7) if weighted else None
    loss = Loss(name, 0.3 if LOSSES[name].parameter else 0.0)
    bounds, mine = np.full(5, 0.4), there(xp, U)
    V, losses, primal = passes.pass_of(loss)(
        there(xp, X), there(xp, P), mine, None if M is None else there(xp, M),
        there(xp, bounds[:, None]), there(xp, np.float64(0.9)),
    )  # fmt: skip
    target, dual, sums, residuals = P.copy(), U.copy(), np.empty(5), np.empty(5)
    LOSSES[name].proximal.rows(X, target, dual, M, loss.parameter, bounds, np.float64(0.9), 0, 5, sums, residuals)
    for found, expected in ((V, target), (mine, dual), (losses, sums), (primal, residuals)):
        np.testing.assert_allclose(here(found), expected, atol=1e-7 if weighted and name == "l21" else 1e-12)
    assert kernels.NEWTON_STEPS == passes.NEWTON_STEPS


@pytest.mark.parametrize("alternate", [False, True])
@pytest.mark.parametrize("r", [1, 5, 13, 26])
def test_sweeps_equal_those_in_memory(xp, r, alternate, rng):
    A, B = rng.random((r, 40)), rng.random((r, 11)) * 20
    A[r // 2] = 0  # a component of zeros stays as it is
    F = rng.random((r, 11))
    penalty = Penalties(l1=0.3, l2=rng.random(r), high=0.8)
    found = there(xp, F)
    factors.Sweeps(penalty, 4, alternate=alternate)(found, there(xp, A @ A.T), there(xp, B), 0.7)
    improve(F, A @ A.T, B, penalty, sweeps=4, scale=0.7, alternate=alternate)
    np.testing.assert_allclose(here(found), F, atol=1e-12)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_what_pytorch_compiles_on_a_gpu_is_one_graph(rng):
    import torch

    block = [torch.rand(4, 30, dtype=torch.float64) for _ in range(3)]
    square = torch.eye(4, dtype=torch.float64)
    arguments = (*block, square, square.diagonal(), torch.tensor(0.0), torch.tensor(1.0))
    for function in (factors._forward, factors._backward):
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)  # without a compiler of C++
        torch.testing.assert_close(compiled(*arguments), function(*arguments))
    E = torch.rand(8, 30)
    for name in [name for name, record in LOSSES.items() if record.proximal is not None]:
        one_pass = passes.pass_of(Loss(name, 0.3 if LOSSES[name].parameter else 0.0))
        numbers = torch.tensor(0.1), torch.tensor(0.9)
        first, second = E.clone(), E.clone()
        compiled = torch.compile(one_pass, backend="aot_eager", fullgraph=True)
        expected = one_pass(E, E + 0.1, second, None, *numbers)
        torch.testing.assert_close(compiled(E, E + 0.1, first, None, *numbers), expected)
        torch.testing.assert_close(first, second)
