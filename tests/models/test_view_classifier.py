"""The classifier of views and codes side by side."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from visionnmf import MultiviewNMF, ViewClassifier
from visionnmf.exceptions import ParameterError

pytestmark = [
    pytest.mark.slow,  # all of it runs fits
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture
def made(rng):
    """Two views of three classes, which the large parts of both tell apart, and a fourth that a faint part tells."""
    y = rng.integers(4, size=240)
    parts = rng.gamma(0.5, size=(3, 30))
    codes = 0.1 + np.eye(3)[np.minimum(y, 2)] + 0.05 * rng.random((240, 3))
    views = {name: codes @ rng.permutation(parts, axis=1) + 0.02 * rng.random((240, 30)) for name in ("a", "b")}
    views["b"][:, 3] += 0.4 * (y == 3)
    train = np.arange(240) % 2 == 0
    return ({name: X[rows] for name, X in views.items()} for rows in (train, ~train)), y[train], y[~train]


def fitted(train, y, n_components=3, **options):
    options = {"loss": "frobenius", "max_iter": 60, "random_state": 0, **options}
    return ViewClassifier(MultiviewNMF(n_components, **options)).fit(train, y)


def test_the_views_tell_what_the_codes_do_not_hold_and_what_cannot_be_learnt_is_refused(made):
    (train, test), y, truth = made
    classifier = fitted(train, y)
    assert classifier.classes_.tolist() == [0, 1, 2, 3] and classifier.best_score_ > 0.9
    right = classifier.predict(test) == truth
    assert right.mean() > 0.9 and right[truth == 3].mean() > 0.8
    # the third and the fourth class have the same codes but for noise
    codes = classifier.model_.transform(test)
    assert np.ptp([codes[truth == c].mean(axis=0) for c in (2, 3)], axis=0).max() < 0.05 * codes.max()
    assert classifier.decision_function(test).argmax(axis=1).tolist() == classifier.predict(test).tolist()
    with pytest.raises(ParameterError, match="y must have two classes or more; got one class"):
        classifier.fit(train, np.zeros_like(y))
    with pytest.raises(ParameterError, match="y must have a label for each of the 120 samples; got 119"):
        classifier.fit(train, y[1:])
    for bad, sentence in (
        (y[:1], "y must have a label for each of the 120 samples; got 1"),
        (np.array([*map(str, y[1:]), None], object), "y must have a label for each sample; got None for sample 119"),
        ([*y[1:].astype(float), np.nan], "y must have a label for each sample; got nan for sample 119; leave it out"),
        ([*map(str, y[1:]), 3], r"y must be all texts or all numbers; got \["),
        ("ada", "y must have a label for each sample; got 'ada'"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            classifier.fit(train, bad)
    with pytest.raises(ParameterError, match="X must hold at least one view; got none"):
        classifier.predict({})
    with pytest.raises(NotFittedError):
        ViewClassifier(classifier.model).predict(test)
    for model in (LinearSVC(), "multiview", FrozenEstimator(LinearSVC())):
        with pytest.raises(ParameterError, match="model must be a MultiviewNMF; got"):
            ViewClassifier(model).fit(train, y)


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_machines_converge_for_classes_that_views_do_not_tell_apart(rng):
    views = [rng.random((90, 60)), rng.random((90, 70))]
    classifier = ViewClassifier(MultiviewNMF(4, loss="frobenius", tol=0, max_iter=9, random_state=0))
    classifier.fit(views, np.arange(90) % 2)


def test_features_may_have_equal_variance(rng):
    """The class shows in features that hardly vary beside others that say nothing."""
    y = rng.integers(2, size=200)
    faint = 0.02 * (1 + y[:, None] * np.tile((-0.4, 0.4), 4)) * rng.uniform(0.8, 1.2, (200, 8))
    others = rng.random((200, 3)) @ rng.random((3, 22)) + 0.05 * rng.random((200, 22))
    views = {"a": np.hstack([others[:, :12], faint]), "b": others[:, 12:]}
    train, test = ({name: X[start::2] for name, X in views.items()} for start in (0, 1))
    model = MultiviewNMF(3, loss="frobenius", max_iter=60, random_state=0)
    classifier = ViewClassifier(model, roots=False).fit(train, y[::2])
    assert (classifier.predict(test) == y[1::2]).mean() > 0.95
    assert (classifier.predict({"a": test["a"]}) == y[1::2]).mean() > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_features_do_not_blow_up(rng, dtype):
    """A column of ones beside views in which one entry of each row is 1 varies by rounding alone."""
    y = rng.integers(3, size=301)
    classes = np.hstack([np.eye(3)[y], np.ones((301, 1))])
    views = {"a": classes, "b": np.hstack([np.eye(3)[np.where(rng.random(301) < 0.2, 0, y)], np.ones((301, 1))])}
    views = {name: X.astype(dtype) for name, X in views.items()}
    classifier = fitted(views, y, n_components=1)
    for scaling in itertools.product((False, True), repeat=2):
        classifier._scaling = type(classifier._scaling)(*scaling)
        classifier._svms = {}
        assert (classifier.predict({"a": views["a"]}) == y).mean() == 1


def test_equal_samples_are_learnt_whatever_their_class():
    views = {"a": np.ones((40, 50)), "b": np.full((40, 60), 2.0)}
    assert set(fitted(views, np.arange(40) % 2, n_components=1).predict(views)) <= {0, 1}


def test_a_view_may_be_missing(made):
    (train, test), y, truth = made
    classifier = fitted(train, y, missing_values=np.nan)
    known = truth < 2  # both views tell these from the others
    for view in ("a", "b"):
        there = {view: test[view]}
        found = classifier.predict(there)
        assert (found[known] == truth[known]).mean() > 0.95
        blank = {name: X if name == view else np.full_like(X, np.nan) for name, X in test.items()}
        np.testing.assert_array_equal(classifier.predict(blank), found)
    some = {**test, "b": np.where(np.arange(120)[:, None] % 2, test["b"], np.nan)}
    mixed = classifier.predict(some)
    np.testing.assert_array_equal(mixed[1::2], classifier.predict(test)[1::2])
    np.testing.assert_array_equal(mixed[::2], classifier.predict({"a": test["a"]})[::2])


def test_a_class_without_a_view_in_training_is_found_by_that_view(made):
    (train, test), y, truth = made
    train = {**train, "b": np.where((y == 0)[:, None], np.nan, train["b"])}
    classifier = fitted(train, y, missing_values=np.nan)
    found = classifier.decision_function({"b": test["b"]})
    assert found.shape == (120, 4)
    known = truth < 2  # of these the first has the other view alone in training
    assert (found.argmax(axis=1)[known] == truth[known]).mean() > 0.8


def test_samples_that_lack_a_view_have_a_machine_of_the_others(made):
    """As a machine that has never seen the view, nor its prediction, nor codes that are found from it."""
    (train, test), y, _ = made
    model = MultiviewNMF(3, loss="frobenius", max_iter=60, random_state=0).fit(train)
    found = ViewClassifier(FrozenEstimator(model), roots=False).fit(train, y).decision_function({"b": test["b"]})
    scale = model.view_scales_ / np.sqrt(
        np.mean([s * (X**2).sum() / 120 for s, X in zip(model.view_scales_**2, train.values(), strict=True)])
    )
    rows = [np.hstack([normalize(model.transform({"b": half["b"]})), scale[1] * half["b"]]) for half in (train, test)]
    machines = [LinearSVC(C=cost, random_state=0, dual="auto").fit(normalize(rows[0]), y) for cost in (1, 10, 100)]
    assert min(np.abs(machine.decision_function(normalize(rows[1])) - found).max() for machine in machines) < 0.02


def test_words_and_classes_of_one_sample_have_no_cross_validation(made):
    (train, test), y, _ = made
    words = np.column_stack([y == 0, y == 1])
    classifier = fitted(train, words)
    assert np.isnan(classifier.best_score_) and classifier.decision_function(test).shape == (120, 2)
    assert (classifier.predict(train) == words).mean() > 0.95


def test_a_grid_search_finds_the_number_of_components(made):
    (train, _), y, _ = made
    model = MultiviewNMF(groups=np.repeat(["a", "b"], 30), loss="frobenius", max_iter=60, random_state=0)
    search = GridSearchCV(ViewClassifier(model), {"model__n_components": [1, 3]}, cv=2)
    assert search.fit(np.hstack([*train.values()]), y).best_score_ > 0.85


def test_a_frozen_model_is_not_fitted_again(made):
    (train, test), y, _ = made
    model = MultiviewNMF(3, loss="frobenius", max_iter=60, random_state=0)
    with pytest.raises(NotFittedError):
        ViewClassifier(FrozenEstimator(model)).fit(train, y)
    components = model.fit(test).components_.copy()
    assert ViewClassifier(FrozenEstimator(model)).fit(train, y).model_ is model
    np.testing.assert_array_equal(model.components_, components)
