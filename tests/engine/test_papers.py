"""The methods of the papers as printed, against the loops of `naive_papers.py` and `naive_online.py`: 20 iterations."""

from functools import partial
from itertools import permutations

import naive
import naive_online
import naive_papers
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import random_array
from numpy.random import RandomState

from visionnmf import NMF, Penalty, SymmetricNMF
from visionnmf.apps.evaluate.view_methods import FLSS
from visionnmf.apps.reproduce.projective import truncated_svd
from visionnmf.engine.losses import Loss
from visionnmf.engine.online import METHODS, Batch, OnlineOptions
from visionnmf.engine.penalties import Graph, Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import fit
from visionnmf.exceptions import ParameterError
from visionnmf.metrics import clustering_accuracy, clustering_information
from visionnmf.models.multiview.view_measures import sparseness

FROBENIUS, ITERATIONS = Loss("frobenius"), 20
RING = np.roll(np.eye(24), 1, axis=1) + np.roll(np.eye(24), -1, axis=1)
LAPLACIAN = 2 * np.eye(24) - RING


@pytest.fixture
def X(rng):
    return rng.gamma(0.5, size=(24, 4)) @ rng.gamma(0.5, size=(4, 16)) + 0.1 * rng.random((24, 16))


@pytest.fixture
def start(rng):
    """Codes, transposed, and components."""
    return rng.random((4, 24)), rng.random((4, 16))


def run(problem, start, solver, iterations=ITERATIONS):
    Wt, H = (F.copy() for F in start)
    fit(problem, Wt, H, solver=solver, max_iter=iterations, tol=0)
    return Wt, H


def agree(found, expected, atol=1e-10):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


# --- NeNMF and MahNMF -------------------------------------------------------------------------------------------------

REGULARISED = {
    "none": (Penalties(), {}),
    "l1": (Penalties(l1=0.2), {"l1": 0.2}),
    "l2": (Penalties(l2=0.3), {"l2": 0.3}),
    "manifold": (Penalties(graph=sp.csr_array(RING)), {"laplacian": LAPLACIAN}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", REGULARISED)
def test_nenmf_is_algorithms_1_and_2(kind, X, start):
    penalty, options = REGULARISED[kind]
    agree(
        run(Problem(X, FROBENIUS, penalty), start, "nenmf-paper"), naive_papers.nenmf(X, *start, ITERATIONS, **options)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "manifold"])
def test_nesterov_smoothing_is_algorithm_3(kind, X, start):
    penalty, options = REGULARISED[kind]
    Wt, H = start
    for t in range(ITERATIONS):
        Wt = naive_papers.smoothing_half(X.T, H, Wt, 0.1 / (t + 1), **options)
        H = naive_papers.smoothing_half(X, Wt, H, 0.1 / (t + 1))
    agree(run(Problem(X, Loss("manhattan"), penalty), start, "ogm-printed"), (Wt, H))


# --- what the estimator returns: W, H and the rules that end a fit ----------------------------------------------------


def halves(improve, rounds=ITERATIONS, sides=({}, {})):
    """The loop that improves codes, then components, by ``improve(x, A, F, t, **options)``."""

    def loop(X, Wt, H):
        for t in range(rounds):
            Wt = improve(X.T, H, Wt, t, **sides[0])
            H = improve(X, Wt, H, t, **sides[1])
        return Wt, H

    return loop


def medians(x, A, F, t, **options):
    return naive_papers.median_half(x, A, F, **options)


def printed_smoothing(x, A, F, t, **options):
    return naive_papers.smoothing_half(x, A, F, 0.1 / (t + 1), **options)


def authors_smoothing(x, A, F, t, **options):
    return naive_papers.smoothing_half(x, A, F, 1 / (t + 1), steps=int(10 * (t + 1) ** 0.5), **options)


def rounds_of(update):
    """The loop of an update of both factors, ``update(X, W, H)``."""

    def loop(X, Wt, H):
        W = Wt.T
        for _ in range(ITERATIONS):
            W, H = update(X, W, H)
        return W.T, H

    return loop


def shorter(F, step, views):
    """The prox of 0.1 times the norms of groups of points (equation 41)."""
    F = np.maximum(F, 0)
    for view in views:
        norms = np.linalg.norm(F[:, view], axis=1, keepdims=True)
        F[:, view] *= np.maximum(1 - 0.1 * step / np.maximum(norms, 1e-300), 0)
    return F


def grouped(prox, views, norm=2):
    """The options of the loop with a prox of groups: what these cost is 0.1 times the sum of their norms."""

    def cost(F):
        return 0.1 * sum(np.linalg.norm(F[:, view], norm, axis=1).sum() for view in views)

    return {"prox": partial(prox, views=views), "cost": cost}


def unit_box(F, step):
    return np.clip(F, 0, 1)


def cut(F, step, views):
    """The prox of 0.1 times the largest entries: what is left after the projection onto the l1 ball."""
    F = np.maximum(F, 0)
    for view in views:
        for row in F:
            v, size = row[view], 0.1 * step
            row[view] = v - size * naive_online.on_simplex(v / size) if v.sum() > size else 0
    return F


def in_balls(F, step, views, bounds, largest):
    """The nearest point whose norms, or `largest` entries, of groups have at most these sums (equation 40)."""
    F = np.maximum(F, 0)
    for view, bound in zip(views, bounds, strict=True):
        norms = np.linalg.norm(F[:, view], axis=1)
        if largest:
            F[:, view] = naive.l1_inf_by_bisection(F[:, view], bound)
        elif norms.sum() > bound:
            F[:, view] *= (bound * naive_online.on_simplex(norms / bound) / norms)[:, None]
    return F


VIEWS, SOME = [slice(0, 10), slice(10, 16)], [slice(0, 9), slice(9, 24)]  # features, samples
BOX, GRAPH = Penalty(high=1), Penalty(graph=RING)
AFEW = 4  # rounds of loops that take long
OWN = {  # parameters of NMF, and the loop; the rows of docs/papers.md
    "rri": ({"solver": "rri"}, halves(medians, AFEW)),
    "rri to (8)": ({"solver": "rri-printed"}, halves(medians, AFEW, ({"precision": 0.1},) * 2)),
    "rri in a box to (8)": (
        {"solver": "rri-printed", "penalty_W": BOX, "penalty_H": BOX},
        halves(medians, AFEW, ({"high": 1, "precision": 0.1},) * 2),
    ),
    "rri with a graph to (8)": (
        {"solver": "rri-printed", "penalty_W": GRAPH},
        halves(medians, AFEW, ({"laplacian": LAPLACIAN, "precision": 0.1}, {"precision": 0.1})),
    ),
    "rri, elastic net": (
        {"solver": "rri", "loss": "elastic-net", "loss_parameter": 0.5}, halves(medians, AFEW, ({"alpha": 0.5},) * 2)
    ),
    "ogm-printed": ({"solver": "ogm-printed"}, halves(printed_smoothing)),
    "ogm-printed with a graph": (
        {"solver": "ogm-printed", "penalty_W": GRAPH}, halves(printed_smoothing, sides=({"laplacian": LAPLACIAN}, {}))
    ),
    "ogm-paper": ({"solver": "ogm-paper"}, halves(authors_smoothing)),
    "ogm in a box": (
        {"solver": "ogm-printed", "penalty_W": BOX, "penalty_H": BOX},
        halves(printed_smoothing, sides=({"prox": unit_box},) * 2),
    ),
    "ogm with groups": (
        {"solver": "ogm-printed", "penalty_H": Penalty(groups=VIEWS, group_l1=0.1)},
        halves(printed_smoothing, sides=({}, grouped(shorter, VIEWS))),
    ),
    "ogm with groups of samples": (
        {"solver": "ogm-printed", "penalty_W": Penalty(groups=SOME, group_l1=0.1)},
        halves(printed_smoothing, sides=(grouped(shorter, SOME), {})),
    ),
    "ogm with groups, largest entries": (
        {"solver": "ogm-printed", "penalty_H": Penalty(groups=VIEWS, group_norm="inf", group_l1=0.1)},
        halves(printed_smoothing, sides=({}, grouped(cut, VIEWS, np.inf))),
    ),
    **{
        f"ogm within bounds of groups, {norm}": (
            {"solver": "ogm-printed", "penalty_H": Penalty(groups=VIEWS, group_norm=norm, group_bound=[1.0, 0.5])},
            halves(
                printed_smoothing,
                sides=({}, {"prox": partial(in_balls, views=VIEWS, bounds=(1.0, 0.5), largest=norm == "inf")}),
            ),
        )
        for norm in (2, "inf")
    },
    "GNMF": (
        {"solver": "mu", "loss": "frobenius", "penalty_W": GRAPH}, rounds_of(partial(naive_papers.gnmf, affinity=RING))
    ),
    "ogm, elastic net": (
        {"solver": "ogm-printed", "loss": "elastic-net", "loss_parameter": 0.5},
        halves(printed_smoothing, sides=({"alpha": 0.5},) * 2),
    ),
    **{
        f"nenmf, {kind}": (
            {"solver": "nenmf-paper", "loss": "frobenius", "penalty_W": penalty},
            lambda X, Wt, H, options=options: naive_papers.nenmf(X, Wt, H, ITERATIONS, **options),
        )
        for kind, penalty, options in (
            ("none", None, {}), ("l1", Penalty(l1=0.2), {"l1": 0.2}), ("l2", Penalty(l2=0.3), {"l2": 0.3}),
            ("manifold", GRAPH, {"laplacian": LAPLACIAN}),
        )
    },
    **{
        f"Lee and Seung, {loss}": (
            {"solver": "mu", "loss": loss}, rounds_of(partial(naive_papers.lee_seung, divergence=loss != "frobenius"))
        )
        for loss in ("frobenius", "kullback-leibler")
    },
    **{
        f"{solver}, {beta}": (
            {"solver": solver, "loss": beta}, rounds_of(partial(naive_papers.sbcd, beta=beta, weights=weights))
        )
        for solver, weights in (("sbcd-plain", "model"), ("al-a", "data"), ("al-b", "nothing"))
        for beta in (0.0, 1.0, 2.0, 3.0)
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_the_estimator_returns_the_factors_of_the_paper(name, X, start):
    parameters, loop = OWN[name]
    X, (Wt, H) = X + 0.5, [F + 0.1 for F in start]
    if "box" in name:
        Wt, H = Wt / 1.2, H / 1.2  # starts outside the box are scaled in
    if "bounds" in name:
        H = in_balls(H, 1, VIEWS, (1.0, 0.5), name.endswith("inf"))
    rounds = AFEW if name.startswith("rri") else ITERATIONS
    model = NMF(4, init="custom", max_iter=rounds, tol=0, **parameters)
    W = model.fit_transform(X, W=Wt.T, H=H)
    expected = loop(X, Wt, H)
    norms = model.component_norms_[:, None]
    agree((W.T / norms, model.components_ * norms), expected, 1e-7 if "(8)" in name else 1e-10)  # hundreds of sweeps
    other = NMF(4, init="custom", max_iter=rounds, tol=0, exact_codes=True, **parameters).fit_transform(X, W=Wt.T, H=H)
    of_samples = any(word in name for word in ("manifold", "graph", "GNMF", "samples"))
    assert of_samples or np.abs(other - W).max() > 1e-4  # codes that are found again are others


def test_the_rules_of_papers_end_a_fit(X, start):
    Wt, H = start
    values = [np.abs(X - Wt.T @ H).sum()]
    while len(values) < 3 or abs(values[-2] - values[-1]) > 0.5:  # equation 4
        Wt = naive_papers.median_half(X.T, H, Wt)
        H = naive_papers.median_half(X, Wt, H)
        values.append(np.abs(X - Wt.T @ H).sum())
    model = NMF(4, solver="rri", init="custom", stop="decrease", tol=0.5, max_iter=100)
    model.fit_transform(X, W=start[0].T, H=start[1])
    assert model.n_iter_ == len(values) - 1
    np.testing.assert_allclose(model.objective_history_, values)

    # HALS undoes steps that raise the objective, which changes nothing and is no end
    least = NMF(4, loss="frobenius", random_state=0, tol=0, max_iter=500, exact_codes=False).fit(X)
    ended = NMF(4, loss="frobenius", random_state=0, stop="decrease", tol=1e-9, max_iter=500, exact_codes=False).fit(X)
    assert ended.objective_history_[-1] == pytest.approx(least.objective_history_[-1], rel=1e-3)

    Wt, H = start

    def size(Wt, H):
        return np.hypot(
            naive_papers.projected_norm(Wt, H @ (H.T @ Wt - X.T)), naive_papers.projected_norm(H, Wt @ (Wt.T @ H - X))
        )

    count, first = 0, size(Wt, H)
    while size(Wt, H) > 1e-2 * first:  # equation 22 of NeNMF
        count += 1
        Wt, H = naive_papers.nenmf(X, *start, count)
    model = NMF(4, loss="frobenius", solver="nenmf-paper", init="custom", stop="projected-gradient", tol=1e-2)
    model.fit_transform(X, W=start[0].T, H=start[1])
    assert model.n_iter_ == count > 1
    with pytest.raises(ParameterError, match="stop must be another rule for loss='manhattan'"):
        NMF(2, stop="projected-gradient").fit(X)

    model = NMF(4, loss="kullback-leibler", solver="mu", stop="clusters", random_state=0, max_iter=5000).fit(X)
    largest = []
    for count in (model.n_iter_ - 41, model.n_iter_ - 40, model.n_iter_):
        part = NMF(4, loss="kullback-leibler", solver="mu", random_state=0, max_iter=count, tol=0)
        largest.append((part.fit_transform(X) / part.component_norms_).argmax(axis=1))
    assert (largest[1] == largest[2]).all() and (largest[0] != largest[1]).any()
    with pytest.warns(UserWarning, match="the rule that was asked for does not hold yet"):
        NMF(4, loss="kullback-leibler", solver="mu", stop="clusters", random_state=0, max_iter=10).fit(X)


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("missing", [False, True])
def test_multiplicative_updates_take_sparse_data(loss, missing, rng, start):
    X = random_array((24, 16), density=0.4, rng=rng)
    dense = Problem(X.toarray(), Loss(loss), weights=(X.toarray() > 0).astype(float) if missing else None)
    sparse = Problem(sp.csr_array(X), Loss(loss), zero_weight=0.0 if missing else 1.0)
    found, expected = (run(problem, start, "mu") for problem in (sparse, dense))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-8)


def test_lambda_0_is_a_unit_of_the_data(X, start):
    """What `ogm-paper` does on ``X / c^2``, times c, is what the method does on `X` with ``lambda_0 = c``."""
    c = 0.1
    found = run(Problem(X / c**2, Loss("manhattan")), [F / c for F in start], "ogm-paper", 3)
    Wt, H = start
    for t in range(3):
        for half in range(2):
            F, A, x = (Wt, H, X.T) if half == 0 else (H, Wt, X)
            q = np.sqrt((A**2).sum(axis=0))
            width, total = c / (t + 1), 0.0
            for k in range(int(10 * (t + 1) ** 0.5)):
                gradient = A @ np.clip((A.T @ F - x) / (width * q[:, None]), -1, 1)
                total = total + (k + 1) / 2 * gradient
                Y, Z = np.maximum(0, F - gradient * width / q.sum()), np.maximum(0, -total * width / q.sum())
                F = 2 / (k + 3) * Z + (k + 1) / (k + 3) * Y
            Wt, H = (F, H) if half == 0 else (Wt, F)
    agree([F * c for F in found], (Wt, H))


def test_a_graph_has_the_largest_eigenvalue_of_its_laplacian(rng):
    for n in (5, 600):  # all eigenvalues of the small one, a search for that of the large one
        near = random_array((n, n), density=0.1, rng=rng)
        affinity = sp.csr_array(near + near.T)
        affinity.setdiag(0)
        graph = Graph(affinity)
        laplacian = np.diag(affinity.sum(axis=0)) - affinity.toarray()
        assert graph.largest_eigenvalue == pytest.approx(np.linalg.norm(laplacian, 2), rel=1e-10)
        assert graph.largest_eigenvalue <= graph.lipschitz() * (1 + 1e-10)


def test_symmetric_nmf_is_equation_61(rng):
    S, start = rng.random((12, 12)), rng.random((3, 12))
    S = (S + S.T) / 2
    model = SymmetricNMF(3, loss="manhattan-paper", init=start, n_init=1, max_iter=ITERATIONS, tol=0).fit(S)
    H = start.copy()
    for _ in range(ITERATIONS):
        for c in range(3):
            Z = S - H.T @ H + np.outer(H[c], H[c])
            for j in range(12):
                others = [i for i in range(12) if i != j]
                H[c, j] = naive.minimise_1d(H[c, others], Z[j, others], np.ones(11), b=1.0)[1]
    agree([model.components_], [H])
    assert model.objective_history_[-1] == pytest.approx(np.abs(S - H.T @ H).sum())  # equation 59


@pytest.mark.slow
def test_the_bound_of_groups_is_a_share_of_the_initial_one(rng, X):
    """MahNMF-GS as section 5.5 uses it: 1 % of the norm of the initial components, p infinite."""
    views, H = [slice(0, 10), slice(10, 16)], rng.random((4, 16))
    bounds = [0.01 * H[:, view].max(axis=1).sum() for view in views]
    groups = Penalty(groups=views, group_norm="inf", group_bound=bounds)
    model = NMF(4, solver="ogm-paper", penalty_H=groups, max_iter=ITERATIONS, tol=0, random_state=0)
    model.fit_transform(X, H=H)
    sums = [model.components_[:, view].max(axis=1).sum() for view in views]
    np.testing.assert_allclose(sums, bounds)  # the bounds hold, and they bind


def test_measures_are_those_of_the_papers(rng):
    truth, found = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    matches = [np.mean(np.take(order, found) == truth) for order in permutations(range(4))]
    assert clustering_accuracy(truth, found) == pytest.approx(max(matches))
    joint = np.array([[np.mean((truth == c) & (found == k)) for k in range(4)] for c in range(4)])
    entropies = [-sum(p * np.log(p) for p in joint.sum(axis=axis)) for axis in (0, 1)]
    shared = sum(
        joint[c, k] * np.log(joint[c, k] / joint[c].sum() / joint[:, k].sum()) for c, k in np.argwhere(joint > 0)
    )
    assert clustering_information(truth, found) == pytest.approx(shared / max(entropies))

    X, groups = rng.random((12, 16)), np.repeat([0, 1], [10, 6])
    for value, x in zip(sparseness(X, groups, 2)[:, 0], X, strict=True):  # equation 65
        size = np.sqrt(10)
        assert value == pytest.approx((size - sum(x[:10]) / np.sqrt(sum(x[:10] ** 2))) / (size - 1))

    def peaks(F):
        return sum(max(abs(row)) for row in F)

    model = FLSS(3, groups, random_state=0).fit(X)
    W = np.linalg.lstsq(model.components_.T, X.T, rcond=None)[0].T  # the best codes, without the last term of (63)
    H = model.components_
    least = ((X - W @ H) ** 2).sum() / 12 + 0.01 * (peaks(H[:, :10]) + peaks(H[:, 10:]))
    assert least < model.objective_history_[-1] < least + 0.02 * peaks(W.T)
    penalty = Penalty(groups=VIEWS, group_norm="inf", group_l1=1e-2)
    model = NMF(3, loss="frobenius", penalty_W=Penalty(l2=1e-4), penalty_H=penalty, random_state=0, exact_codes=False)
    W, H = model.fit_transform(X), model.components_
    W, H = W / model.component_norms_, H * model.component_norms_[:, None]
    value = ((X - W @ H) ** 2).sum() / 2 + 1e-2 * (peaks(H[:, :10]) + peaks(H[:, 10:])) + 1e-4 / 2 * (W**2).sum()
    assert model.objective_history_[-1] == pytest.approx(value, rel=1e-3)  # equation 64


# --- sBCD and projective NMF ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0, 3.0])
def test_the_printed_l1_rule_of_sbcd_is_an_l2_penalty(beta, X, start):
    X, start = X + 1, [F + 0.5 for F in start]  # away from a model of 0, by which the weights divide
    W, H = start[0].T, start[1]
    for _ in range(ITERATIONS):
        W, H = naive_papers.sbcd(X, W, H, beta, alpha=0.3)
    agree(run(Problem(X, Loss("beta", beta), penalty_H=Penalties(l2=0.3)), start, "sbcd-plain"), (W.T, H))


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_the_truncated_svd_searches_ranks(rank, rng):
    blocks = np.kron(np.eye(3), np.ones((4, 4))) + 0.05 * rng.random((12, 12))
    for X in (rng.random((10, 8)), blocks):
        found = truncated_svd(X, rank)
        agree([found], [naive_papers.truncated_svd(X, rank)])
        assert np.linalg.matrix_rank(found) <= rank and (found >= 0).all()


# --- online -----------------------------------------------------------------------------------------------------------


def learnt(method, X, H, *, seed=0):
    """Learn one sample after the other without forgetting; return the start in the method's set, and the components."""
    record, H, rng = METHODS[method], H.copy(), RandomState(seed)
    options = OnlineOptions(batch_size=1, forget_factor=1.0, buffer=None, horizon=len(X))
    if record.constrain is not None:
        record.constrain(H, Problem(X, Loss(record.losses[0])))
    start, state = H.copy(), record.state.start(H)
    for x in X:
        record.learn(Batch(Problem(x[None], Loss(record.losses[0])), options, rng), H, state)
    return start, H


def test_or_nmf_is_has_no_floors(X, start):
    X = X + 1  # so that no component is 0 where the data are not

    def gradient(H, x, w):
        return np.outer(w, (w @ H - x) / (w @ H) ** 2)

    def codes(x, H):
        return naive_online.itakura_codes(x, np.ones(4), H)

    H, found = learnt("or-nmf-is", X[:ITERATIONS], start[1], seed=3)
    project = lambda H: np.array([naive_online.on_simplex(row) for row in H])  # noqa: E731
    expected, _ = naive_online.or_nmf(
        X[:ITERATIONS], H, RandomState(3), horizon=ITERATIONS, buffer=None, project=project, diameter=np.sqrt(8),
        find_codes=codes, gradient=gradient,
    )  # fmt: skip
    agree([found], [expected])


def test_or_nmf_is_refuses_an_infinite_gradient():
    X = np.array([[1.0, 1.0, 1e-3]])
    H = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    with pytest.raises(ParameterError, match="whose gradient is infinite where the model is 0; take method='or-nmf'"):
        learnt("or-nmf-is", X, H)
    method = METHODS["or-nmf-is"]
    state = method.state.start(H)
    with pytest.raises(ParameterError):
        method.learn(Batch(Problem(X, Loss("itakura-saito")), OnlineOptions(60, 1.0), RandomState(0)), H, state)
    assert state.steps == 0 and len(state.samples) == 0  # so that the next batch is learnt as the first
