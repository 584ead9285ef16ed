"""The user's Penalty: what it resolves to, what it refuses, and how it behaves as an object of scikit-learn."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from visionnmf import NMF, Penalty
from visionnmf.exceptions import ParameterError


def resolve(penalty, side="W", X=None, dtype=np.float64):
    return penalty.resolve(side, np.arange(24.0).reshape(6, 4) if X is None else X, dtype)


def test_what_numbers_and_nothing_resolve_to():
    assert resolve(Penalty()).kinds == frozenset()
    found = resolve(Penalty(low=0.1, high=2, l1=0.3, l2=np.float32(0.5)))
    assert (found.low, found.high, found.l1, found.l2) == (0.1, 2.0, 0.3, 0.5)
    assert resolve(Penalty(high=None)).high == np.inf
    # weights of zero are no penalty, so that a grid of weights may hold 0
    assert not resolve(Penalty(groups=[[0, 1]], group_l1=0), "H").kinds
    assert not resolve(Penalty(graph="knn", graph_weight=0, n_neighbors=2)).kinds
    # without data, graph and groups are left out
    penalty = Penalty(l1=0.1, graph="knn", groups=[[0, 99]], group_l1=1.0)
    assert penalty.resolve("W", None, np.float64).kinds == {"l1"}


@pytest.mark.parametrize(("side", "axis"), [("W", "columns"), ("H", "rows")])
def test_simplex_is_of_a_samples_codes_or_of_a_components_entries(side, axis):
    assert resolve(Penalty(simplex=True), side).simplex == axis
    assert resolve(Penalty(simplex=True), side, X=np.ones((1, 1))).simplex == axis


@pytest.mark.parametrize("data", [np.asarray, sp.csr_array])
def test_knn_joins_the_nearest(data):
    """On a line of points with growing gaps, the nearest of each is the one before it."""
    places = np.array([0.0, 1, 3, 6, 10])
    X = np.column_stack([places, np.zeros(5)])
    chain = np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)
    found = resolve(Penalty(graph="knn", n_neighbors=1, graph_weight=2.5), "W", data(X), np.float32).graph
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), 2.5 * chain)
    found = resolve(Penalty(graph="knn", n_neighbors=1), "H", data(X.T.copy())).graph
    np.testing.assert_array_equal(found.toarray(), chain)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.coo_array, lambda S: S.tolist()])
def test_a_given_graph_loses_its_diagonal(make):
    S = np.array([[9.0, 1, 0], [1, 0, 2], [0, 2, 9]])
    found = resolve(Penalty(graph=make(S), graph_weight=0.5), X=np.ones((3, 2)))
    np.testing.assert_array_equal(found.graph.toarray(), (S - np.diag(S.diagonal())) / 2)
    assert S[0, 0] == 9  # the user's own array is left alone


GROUPS = [
    [[0, 1], [3, 2]],
    [np.array([1, 0]), slice(2, None)],
    (slice(0, 2), slice(-2, 4)),
    ["a", "a", "b", "b"],
    np.array([7, 7, 9, 9]),
]


@pytest.mark.parametrize("groups", GROUPS)
def test_groups_as_index_sets_slices_or_labels(groups):
    found = resolve(Penalty(groups=groups, group_l1=0.5, group_norm="inf", group_bound=[1, 2]), "H")
    assert [g.tolist() for g in found.groups] == [[0, 1], [2, 3]]
    assert (found.group_l1, found.group_norm, found.group_bounds) == (0.5, np.inf, (1.0, 2.0))
    assert resolve(Penalty(groups=groups, group_bound=3.0), "H").group_bounds == (3.0, 3.0)


ASYMMETRIC = np.triu(np.ones((6, 6)))
REFUSED = [
    ({"low": -1}, r"low of penalty_W must be a finite number >= 0; got -1"),
    ({"low": 2, "high": 1}, r"high of penalty_W must be above low; got low=2 and high=1"),
    ({"high": "much"}, r"high of penalty_W must be a finite number >= 0; got 'much'"),
    ({"l1": -0.5}, r"l1 of penalty_W must be a finite number >= 0; got -0.5"),
    ({"l2": np.nan}, r"l2 of penalty_W must be a finite number >= 0; got nan"),
    ({"l1": np.inf}, r"l1 of penalty_W must be a finite number >= 0; got inf"),
    ({"simplex": "rows"}, r"simplex of penalty_W must be True or False; got 'rows'"),
    ({"graph": "nearest"}, r"graph of penalty_W must be one of \['knn'\]; got 'nearest'"),
    ({"graph": 3}, r"graph of penalty_W must be None, 'knn', or a matrix of affinities; got int"),
    ({"graph": np.ones((4, 4))}, r"graph of penalty_W must have shape \(6, 6\), the samples; got \(4, 4\)"),
    ({"graph": -np.ones((6, 6))}, r"graph of penalty_W must hold finite numbers >= 0"),
    ({"graph": np.full((6, 6), np.nan)}, r"graph of penalty_W must hold finite numbers >= 0"),
    ({"graph": ASYMMETRIC}, r"graph of penalty_W must be symmetric"),
    ({"graph": "knn", "graph_weight": -1}, r"graph_weight of penalty_W must be a finite number >= 0; got -1"),
    ({"graph": "knn", "n_neighbors": 6}, r"n_neighbors of penalty_W must be below the number of samples, 6; got 6"),
    ({"graph": "knn", "n_neighbors": 0}, r"n_neighbors of penalty_W must be a whole number >= 1; got 0"),
    ({"group_l1": 1.0}, r"groups of penalty_W must be given with group_l1 and group_bound; got None"),
    ({"groups": [[0]], "group_l1": -1}, r"group_l1 of penalty_W must be a finite number >= 0; got -1"),
    ({"groups": [[0]], "group_norm": 3}, r"group_norm of penalty_W must be 2 or 'inf'; got 3"),
    ({"groups": [[0]], "group_bound": [1, 2]}, r"group_bound of penalty_W must be one number, or one for each of"),
    ({"groups": [[0]], "group_bound": -1}, r"group_bound of penalty_W must be a finite number >= 0; got -1"),
    ({"groups": []}, r"groups of penalty_W must be index sets, or a label for each of 6 samples; got \[\]"),
    ({"groups": "ab"}, r"groups of penalty_W must be index sets, or a label for each of 6 samples; got 'ab'"),
    ({"groups": [0, 1]}, r"groups of penalty_W must be index sets, or a label for each of 6 samples; got \[0, 1\]"),
    (
        {"groups": [[0], []]},
        r"groups of penalty_W must hold indices from 0 to 5, of the samples, none empty; got 1: \[\]",
    ),
    (
        {"groups": [[0.5]]},
        r"groups of penalty_W must hold indices from 0 to 5, of the samples, none empty; got 0: \[0.5\]",
    ),
    (
        {"groups": [[0, 6]]},
        r"groups of penalty_W must hold indices from 0 to 5, of the samples, none empty; got 0: \[0, 6\]",
    ),
    (
        {"groups": [[-1, 0]]},
        r"groups of penalty_W must hold indices from 0 to 5, of the samples, none empty; got 0: \[-1, 0\]",
    ),
    ({"groups": {1: [0], "1": [1]}}, "groups of penalty_W must be one or more groups of different names"),
    ({"groups": {}}, "groups of penalty_W must be one or more groups of different names"),
    ({"groups": [[0, 1], [1]]}, r"groups of penalty_W must not share points; got some of the samples twice"),
    ({"simplex": True, "high": 2}, r"penalty_W: simplex must stand without bounds"),
    ({"simplex": True, "groups": [[0]], "group_l1": 1}, r"penalty_W: simplex must stand without groups"),
    ({"low": 0.1, "groups": [[0]], "group_l1": 1}, r"penalty_W: groups must stand without bounds"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_what_is_refused(options, sentence):
    penalty = Penalty(**options)  # anything goes until a fit
    with pytest.raises(ParameterError, match=sentence):
        resolve(penalty)


def test_clone_pickle_and_nested_parameters():
    graph = sp.csr_array(np.ones((6, 6)))
    penalty = Penalty(l1=0.2, graph=graph, groups=[slice(0, 2), [2, 3]], group_l1=0.1)
    model = NMF(2, loss="frobenius", penalty_W=penalty)
    twin = clone(model)
    assert twin.penalty_W is not penalty and twin.penalty_W.l1 == 0.2
    assert model.set_params(penalty_W__l1=0.7).penalty_W.l1 == 0.7
    again = pickle.loads(pickle.dumps(penalty))
    assert again == penalty == clone(penalty) and again is not penalty
    for name, value in (("l1", 0.3), ("graph", 2 * graph), ("graph", "knn"), ("groups", [slice(0, 2), [2, 4]])):
        assert clone(penalty).set_params(**{name: value}) != penalty
    assert Penalty(low=np.zeros((2, 6))) == Penalty(low=np.zeros((2, 6))) != Penalty() != Penalty(l2=1)
    groups = {"a": [0, 1], "b": np.array([2, 3])}
    assert Penalty(groups=groups) == Penalty(groups={**groups, "a": np.array([0, 1])}) != Penalty(groups={"a": [0, 1]})
    assert Penalty() == Penalty(l1=0.0) and Penalty() != "penalty"
    assert "l1=0.7" in repr(penalty)


@pytest.mark.parametrize("penalty", [{"l1": 0.1}, {"l2": 0.1}, {"graph": "knn", "n_neighbors": 2}])
def test_a_penalty_that_a_scale_escapes_is_reported(penalty, rng):
    """sBCD's footnote 3: without a norm of W the l1 norm of H is only moved to W."""
    X, options = rng.random((12, 6)), {"loss": "frobenius", "random_state": 0, "max_iter": 30, "tol": 0}
    with pytest.warns(UserWarning, match=f"the {next(iter(penalty))} of penalty_H can be escaped: H may shrink"):
        NMF(2, penalty_H=Penalty(**penalty), **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for held in ({"l2": 0.1}, {"high": 1}, {"simplex": True}):
            NMF(2, penalty_H=Penalty(**penalty), penalty_W=Penalty(**held), **options).fit(X)
        NMF(2, penalty_H=Penalty(high=1), **options).fit(X)


def test_the_warning_of_scale_names_the_users_line_once(rng):
    da = pytest.importorskip("dask.array")
    X, penalty_H = rng.random((12, 6)), Penalty(l1=0.1)
    for n_components, data in ((2, X), (2, da.from_array(X, chunks=(5, 6)))):
        model = NMF(n_components, penalty_H=penalty_H, loss="frobenius", random_state=0, max_iter=5, tol=0)
        for fit in (model.fit, model.fit_transform):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fit(data)
            found = [warning for warning in caught if "can be escaped" in str(warning.message)]
            assert [warning.filename for warning in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the codes alone of given components cannot grow in their place
        model.set_params(components_init=rng.random((2, 6)), update_components=False).fit(X)


def test_bounds_hold_a_factor_by_what_they_bound():
    l2, low, high = {"l2": 0.1}, np.zeros((2, 6)), np.ones((2, 6))
    low[:, 0] = 0.1
    for fixed in ({"low": 0.1}, {"low": low}, {"simplex": True}):  # no scale makes such a factor small
        assert resolve(Penalty(**l2, **fixed)).escapes == []
    low[1] = 0  # of the second component one may
    for free in ({}, {"high": 1}, {"low": low}, {"high": high}):
        assert resolve(Penalty(**l2, **free)).escapes == ["l2"]
    assert resolve(Penalty(high=high)).holds and resolve(Penalty(low=0.1, high=1)).holds
    assert not resolve(Penalty(low=low)).holds and not resolve(Penalty(low=0.1)).holds


@pytest.mark.parametrize("solver", ["nenmf", "ogm"])
def test_each_entry_may_have_its_bounds(solver, rng):
    X, loss = rng.random((12, 6)), "manhattan" if solver == "ogm" else "frobenius"
    low = rng.random((2, 6)) / 4
    high = low + rng.random((2, 6)) / 4
    model = NMF(2, loss=loss, solver=solver, penalty_H=Penalty(low=low, high=high), random_state=0, max_iter=50, tol=0)
    H = model.fit(X).components_
    assert (H >= low - 1e-12).all() and (H <= high + 1e-12).all() and (H == high).any()
    codes = NMF(2, loss=loss, solver=solver, penalty_W=Penalty(high=np.full((2, 12), 0.3)), random_state=0)
    codes.set_params(exact_codes=False, max_iter=30, tol=0)
    assert codes.fit_transform(X).max() <= 0.3 + 1e-12
    with pytest.raises(ParameterError, match=r"0 <= low <= high; got arrays of shape \(2, 6\)"):
        NMF(2, penalty_H=Penalty(low=high, high=low)).fit(X)
    with pytest.raises(ParameterError, match=r"low and high of penalty_H must have the shape of the factor, \(3, 6\)"):
        NMF(3, loss=loss, solver=solver, penalty_H=Penalty(low=low, high=high)).fit(X)


@pytest.mark.parametrize(
    ("bounds", "got"),
    [
        ({"low": [[0, 1], [0]]}, r"got \[\[0, 1\], \[0\]\] and None"),
        ({"high": [["a", "b"]]}, r"got 0 and \[\['a', 'b'\]\]"),
        ({"low": np.zeros((2, 6)), "high": np.ones((3, 6))}, "got array"),
        ({"high": sp.csr_array(np.ones((2, 6)))}, "got 0 and <"),
        ({"high": np.ones(6)}, r"got arrays of shape \(6,\)"),
        ({"low": np.full((2, 6), np.nan)}, "got arrays of shape"),
    ],
)
def test_bounds_that_are_no_array_are_refused(bounds, got):
    with pytest.raises(ParameterError, match="low and high of penalty_H must be numbers, or arrays .*" + got):
        NMF(2, penalty_H=Penalty(**bounds)).fit(np.ones((3, 6)))
