"""scikit-learn's contract."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from visionnmf import NMF, SymmetricNMF

ESTIMATORS = [
    NMF(),
    NMF(2),
    NMF(solver="rri"),
    NMF(loss="frobenius"),
    NMF(loss="kullback-leibler"),
    SymmetricNMF(),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few checks set max_iter to 1 or 2
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # optional array libraries, pandas
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_in_a_pipeline_and_a_grid_search(rng):
    y = np.repeat([0, 1], 20)
    parts = np.repeat([[1, 0.1], [0.1, 1]], 6, axis=1)  # each class has features of its own
    X = rng.gamma(1, 1, (40, 12)) * parts[y]
    pipeline = make_pipeline(NMF(random_state=0, max_iter=50, tol=1e-2), KNeighborsClassifier(1))
    search = GridSearchCV(pipeline, {"nmf__n_components": [2, 3], "nmf__loss": ["manhattan", "frobenius"]}, cv=2)
    search.fit(X, y)
    assert search.best_score_ > 0.8


def test_names_clone_and_pickle(rng):
    X = rng.random((10, 6))
    model = NMF(3, random_state=0).fit(X)
    assert list(model.get_feature_names_out()) == ["nmf0", "nmf1", "nmf2"]
    assert not hasattr(clone(model), "components_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_symmetric_codes_feed_a_clustering():
    blocks = np.kron(np.eye(2), np.ones((4, 4)))
    codes = SymmetricNMF(2, random_state=0).fit_transform(blocks)
    labels = KMeans(2, n_init=3, random_state=0).fit_predict(codes)
    assert len(set(labels[:4])) == len(set(labels[4:])) == 1 and labels[0] != labels[-1]
