"""What users of other libraries type first: it works, or the message names what does."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.exceptions import ConvergenceWarning

from visionnmf import NMF, MultiviewNMF, OnlineNMF, Penalty, ProjectiveNMF, select_rank
from visionnmf.exceptions import ParameterError

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "coming_from.md").read_text()


@pytest.fixture
def X(rng):
    return rng.random((20, 3)) @ rng.random((3, 12)) + 0.05 * rng.random((20, 12))


def test_nan_is_answered_with_missing_values(X):
    X[0, 0] = np.nan
    for fit in (lambda: NMF(3).fit(X), lambda: OnlineNMF(3).fit(X), lambda: select_rank(X, [1, 2])):
        with pytest.raises(ParameterError, match=r"X must not hold NaN; got some; pass missing_values=numpy\.nan"):
            fit()
    with pytest.raises(ParameterError, match=r"fill them, or use visionnmf.NMF\(missing_values=numpy.nan\)"):
        ProjectiveNMF(2).fit(X)


@pytest.mark.parametrize("make", [NMF, OnlineNMF])
def test_penalties_that_are_not_there_yet_can_be_set(make):
    model = make(3).set_params(penalty_W__l2=0.5, penalty_H__l1=2.0)
    assert model.penalty_W.l2 == 0.5 and model.penalty_H.l1 == 2.0 and make(3).penalty_W is None
    assert clone(model).penalty_W.l2 == 0.5
    assert make(3, penalty_W=Penalty(l1=1)).set_params(penalty_W__l2=0.5).penalty_W.l1 == 1
    assert make(3, penalty_W=Penalty(l1=1)).set_params(penalty_W=None, penalty_W__l2=0.5).penalty_W.l1 == 0


def test_verbose_prints_some_iterations_or_every_one_and_calls_back(X, capsys):
    NMF(2, verbose=1, random_state=0, max_iter=23, tol=0).fit(X)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"iteration {number}" for number in (10, 20, 23)
    ]
    NMF(2, verbose=True, random_state=0, max_iter=10, tol=0, n_init=2).fit(X)
    assert len(capsys.readouterr().out.splitlines()) == 2  # one line for each start
    seen = []
    model = NMF(2, verbose=2, random_state=0, max_iter=3, tol=0, callback=lambda *step: seen.append(step)).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(seen) == model.n_iter_ and lines[0].startswith("iteration 1: objective ")
    NMF(2, verbose=False, random_state=0, max_iter=3, tol=0).fit(X)
    assert not capsys.readouterr().out


def test_a_custom_start_is_that_of_scikit_learn(X, rng):
    W, H = rng.random((20, 3)), rng.random((3, 12))
    arguments = {"init": "custom", "tol": 0, "max_iter": 300}
    ours = NMF(3, loss="frobenius", **arguments)
    ours.fit_transform(X, W=W, H=H)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = SklearnNMF(3, **arguments)
        theirs.fit_transform(X, W=W.copy(), H=H.copy())
    # as the guide for newcomers says: half a square against a norm
    assert ours.reconstruction_err_ == pytest.approx(theirs.reconstruction_err_**2 / 2, rel=1e-3)
    for given in ({}, {"W": W}, {"H": H}):
        with pytest.raises(ParameterError, match='W and H must be given to fit_transform with init="custom"'):
            NMF(3, init="custom").fit_transform(X, **given)


def test_alpha_and_l1_ratio_are_the_penalties_that_the_message_names(X):
    alpha_W, alpha_H, l1_ratio = 0.01, 0.02, 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        options = {"init": "nndsvda", "tol": 1e-12, "max_iter": 3000}
        theirs = SklearnNMF(3, alpha_W=alpha_W, alpha_H=alpha_H, l1_ratio=l1_ratio, **options)
        W = theirs.fit_transform(X)
    H = theirs.components_
    n_samples, n_features = X.shape
    ours = NMF(3, loss="frobenius", max_iter=20, tol=0).set_params(
        penalty_W=Penalty(l1=alpha_W * l1_ratio * n_features, l2=alpha_W * (1 - l1_ratio) * n_features),
        penalty_H=Penalty(l1=alpha_H * l1_ratio * n_samples, l2=alpha_H * (1 - l1_ratio) * n_samples),
    )
    ours.fit_transform(X, W=W, H=H)
    # their minimum is ours: it starts there and stays there
    assert ours.objective_history_[-2] == pytest.approx(ours.objective_history_[0], rel=1e-5)
    assert ours.optimality_ < 1e-3


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
def test_the_examples_of_the_guide_run(example):
    exec(example, {})


def test_arrays_of_three_axes_are_refused_with_their_shape_and_a_cure(rng):
    cube = rng.random((20, 6, 5))
    cure = r"make rows of it by reshape\(len\(array\), -1\)"
    with pytest.raises(ParameterError, match=rf"X must have samples as rows; got .* \(20, 6, 5\); {cure}"):
        NMF(2).fit(cube)
    for views in ([cube, cube], {"0": cube, "b": cube[:, 0]}):
        with pytest.raises(ParameterError, match=rf"view 0 must have samples as rows; got .* \(20, 6, 5\); {cure}"):
            MultiviewNMF(2).fit(views)


VIEWS = {"sounds": np.arange(1.0, 41).reshape(10, 4), "images": np.arange(1.0, 31).reshape(10, 3)}
JOINED = np.hstack([*VIEWS.values()])


def several(**options):
    return MultiviewNMF(2, max_iter=2, random_state=0, **options)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (-1, "be >= 0; got -1 in sample 3, feature 1; scale each feature of this view to 0 ... 1, .*MinMaxScaler"),
        (np.nan, "not hold NaN; got nan in sample 3, feature 1; pass missing_values=numpy.nan"),
        (np.inf, "be finite; got inf in sample 3, feature 1; leave such samples out, or put NaN there"),
    ],
)
@pytest.mark.parametrize("form", ["dict", "groups", "sparse", "new"])
def test_values_that_are_refused_name_their_view(value, sentence, form):
    """The message spoke of X, and its cure could not be applied to a dict of views."""
    bad = {name: view.copy() for name, view in VIEWS.items()}
    bad["images"][3, 1] = value
    model = several(loss="frobenius")
    X = bad
    if form == "groups":
        X = np.hstack([*bad.values()])
        model.set_params(groups=["sounds"] * 4 + ["images"] * 3)
    if form == "sparse":
        X, sentence = {name: csr_array(view) for name, view in bad.items()}, sentence.partition("; pass")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model.fit(VIEWS) if form == "new" else None
    with pytest.raises(ParameterError, match=f"view images must {sentence}"):
        model.fit(X) if fitted is None else fitted.transform(X)


@pytest.mark.parametrize(
    ("X", "options", "sentence"),
    [
        (None, {}, "X must hold the views, a list or a dict of arrays, or one matrix; got None; pass"),
        ({"sounds": VIEWS["sounds"][0]}, {}, r"got one of shape \(4,\); numpy.reshape\(view, \(1, -1\)\) is"),
        ([], {}, "X must hold at least one view; got none"),
        ({}, {}, "X must hold at least one view; got none"),
        ([VIEWS["sounds"][0]] * 2, {}, r"view 0 must .*; got one of shape \(4,\); a view of one feature is numpy.resh"),
        ("views.csv", {}, "X must hold the views, .* got 'views.csv'; pass"),
        ([{"a": VIEWS["sounds"][i]} for i in range(10)], {}, r"each a dict of views; pass {name: numpy.array\(\[sa"),
        ([[view[i] for view in VIEWS.values()] for i in range(10)], {}, r"each a list of views; pass \[numpy.array\("),
        (JOINED, {"groups": [None] * 4 + ["a"] * 3}, "a label for each of the features; got None for number 0; give"),
        (JOINED, {"groups": ["a"] * 6 + [np.nan]}, "a label for each of the features; got nan for number 6; give"),
        ({"a": [[1.0, 2.0], [3.0]]}, {}, "view a must be an array of shape .*; got rows of different lengths"),
        (VIEWS, {"init": "custom"}, r"init must be one of \['random', .*'nndsvdar'\]; got 'custom'"),
        (
            JOINED,
            {"groups": [np.ones(6, bool)]},
            "groups must hold indices from 0 to 6, of the features, none empty; got 0",
        ),
        (
            JOINED,
            {"groups": {"a": ["x"], "b": [1]}},
            "groups must hold indices from 0 to 6, of the features, none empty; got a",
        ),
        (
            JOINED,
            {"groups": {"a": "x", "b": [1]}},
            "groups must hold indices from 0 to 6, of the features, none empty; got a",
        ),
    ],
)
def test_views_in_a_form_that_is_not_taken_are_told_the_one_that_is(X, options, sentence):
    """These ended in errors of NumPy and Python."""
    with pytest.raises(ParameterError, match=sentence):
        several(**options).fit(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_new_samples_of_another_size_and_views_in_place_of_codes_are_refused():
    model = several().fit(VIEWS)
    with pytest.raises(ValueError, match="X has 3 features, but MultiviewNMF is expecting 7"):
        model.transform([VIEWS["images"][0], VIEWS["images"][1]])
    with pytest.raises(ParameterError, match="X must be the codes of samples; got a dict; views get"):
        model.inverse_transform(VIEWS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_masks_of_features_are_groups():
    expected = several().fit_transform(VIEWS)
    mask = np.arange(7) < 4
    for groups in ([mask, ~mask], {"sounds": mask, "images": list(~mask)}):
        np.testing.assert_array_equal(several(groups=groups).fit_transform(JOINED), expected)
    np.testing.assert_array_equal(several(groups=[mask, ~mask]).fit_transform([*JOINED]), expected)  # rows of a matrix


@pytest.mark.parametrize(
    ("observed", "cure"),
    [
        (np.ones((2, 10), bool), "pass observed.T"),
        (np.ones((10, 2)), r"got float64 of shape \(10, 2\); pass observed.astype\(bool\)"),
        (np.ones((10, 7), bool), "pass NaN in the views for single entries"),
        (np.ones((10, 3), bool), "pass a column for each view"),
        ([[True], [True, False]], "pass a column for each view"),
        (dict.fromkeys(VIEWS, np.ones(10, bool)), r"got a dict; pass numpy.column_stack.*'sounds', 'images'"),
    ],
)
def test_masks_of_another_shape_name_their_cure(observed, cure):
    with pytest.raises(ParameterError, match=rf"observed must be True or False .* of shape \(10, 2\); .*{cure}"):
        several().fit(VIEWS, observed=observed)


def test_views_warn_once_and_in_their_own_name(rng):
    """Each of the two steps warned, and of codes of 0 as an NMF with a parameter that views lack."""
    views = [(rng.random((60, 30)) < 0.05) * 1.0 for _ in range(2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MultiviewNMF(5, max_iter=2, random_state=0).fit(views)
    messages = [str(warning.message) for warning in caught]
    assert [warning.category.__name__ for warning in caught] == ["ConvergenceWarning", "ZeroCodesWarning"]
    assert messages[0].startswith("MultiviewNMF stopped after 2 iterations")
    assert messages[1].startswith("MultiviewNMF found codes 0") and "zero_weight" not in messages[1]
    assert {warning.filename for warning in caught} == {__file__}


def test_codes_of_0_are_blamed_on_the_penalty_that_causes_them(rng):
    """The warning said that the loss treats all entries as outliers."""
    views = [rng.gamma(1, size=(60, 3)) @ rng.random((3, 20)) for _ in range(2)]
    for loss in ("manhattan", "frobenius"):
        with pytest.warns(UserWarning) as caught:
            MultiviewNMF(3, loss=loss, group_l1=100, random_state=0).fit(views)
        (told,) = [str(warning.message) for warning in caught if "codes 0" in str(warning.message)]
        assert "group_l1 is stronger than the data; use a weaker group_l1" in told


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_samples_with_nothing_but_noise_are_named(rng):
    codes = rng.gamma(1, size=(60, 2))
    views = {"a": codes @ rng.random((2, 10)), "b": codes @ rng.random((2, 12)), "noise": rng.random((60, 15))}
    with pytest.warns(UserWarning, match="leaves out views that look like noise: noise"):
        model = several().fit(views)
    observed = np.ones((60, 3), bool)
    observed[[7, 9], :2] = False
    with pytest.warns(UserWarning, match="views of weight 0: 2 samples, the first of which is sample 7"):
        codes = model.transform(views, observed=observed)
    np.testing.assert_allclose(codes[7], codes[9])
