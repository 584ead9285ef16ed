"""scikit-learn's contract."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from visionnmf import (
    NMF,
    ConservativeNMF,
    MultiviewNMF,
    OnlineNMF,
    Penalty,
    ProjectiveNMF,
    SymmetricNMF,
    ViewClassifier,
)

ESTIMATORS = [  # one with the defaults; for the others a few iterations take each branch
    NMF(),
    NMF(2, solver="rri", max_iter=20, exact_codes=True),  # a paper's solver keeps its own codes, unlike `transform`
    NMF(loss="frobenius", max_iter=20),
    NMF(loss="kullback-leibler", max_iter=20),
    NMF(loss=1.5, max_iter=20),
    NMF(loss="huber", max_iter=20),
    NMF(loss="elastic-net", max_iter=20),
    NMF(loss="l21", max_iter=20),
    NMF(2, nuclear=1.0, missing_values=np.nan, max_iter=20),
    NMF(2, penalty_W=Penalty(l1=0.1), penalty_H=Penalty(l2=0.1, high=3), max_iter=20),
    NMF(2, loss="frobenius", penalty_W=Penalty(simplex=True), max_iter=20),
    SymmetricNMF(n_init=2, max_iter=20),
    SymmetricNMF(loss="frobenius", n_init=2, max_iter=20),
    OnlineNMF(2, max_iter=2),
    OnlineNMF(method="surrogate", max_iter=2),
    ConservativeNMF(),
    ConservativeNMF(2, batch_size=7, w=1.0, shuffle=True, max_iter=2),
    ProjectiveNMF(max_iter=20),
    ProjectiveNMF(2, loss="kullback-leibler", max_iter=20),
    ProjectiveNMF(solver="mu", max_iter=20),
    MultiviewNMF(max_iter=20),
    MultiviewNMF(2, loss="frobenius", group_l1=0.1, missing_values=np.nan, max_iter=20),
    MultiviewNMF(2, group_bound=0.1, group_norm="inf", loss="frobenius", max_iter=20),
    ViewClassifier(MultiviewNMF(2, loss="frobenius", max_iter=20, random_state=0), roots=False),
    ViewClassifier(),
]

ONE_OF_EACH_CLASS = list({type(estimator): estimator for estimator in reversed(ESTIMATORS)}.values())
VARIANTS = [estimator for estimator in ESTIMATORS if estimator not in ONE_OF_EACH_CLASS]

REPEATED = (
    "a repeated row gets another random start than a weighted one, and makes other batches; from the same start and in "
    "one batch they agree (test_combinations, test_online_weights)"
)


def expected_failures(estimator):
    if isinstance(estimator, NMF | OnlineNMF):
        return {f"check_sample_weight_equivalence_on_{kind}_data": REPEATED for kind in ("dense", "sparse")}
    return {}


def with_checks_of(estimators):
    """Parametrise a test by the checks of estimators, without the warnings that they give."""
    ignored = [
        pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # few iterations
        pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),  # optional array libraries, pandas
        pytest.mark.filterwarnings("ignore:NMF found codes 0"),  # of sparse data, by the Manhattan loss
        pytest.mark.filterwarnings("ignore:MultiviewNMF takes X for a single view"),  # no check knows views
    ]

    def decorate(test):
        for mark in ignored:
            test = mark(test)
        return parametrize_with_checks(estimators, expected_failed_checks=expected_failures)(test)

    return decorate


@pytest.mark.slow
@with_checks_of(ONE_OF_EACH_CLASS)
def test_scikit_learn_checks(estimator, check, under_seeds):
    under_seeds(check, estimator)


@pytest.mark.slow
@pytest.mark.long
@with_checks_of(VARIANTS)
def test_scikit_learn_checks_of_variants(estimator, check, under_seeds):
    under_seeds(check, estimator)


def test_in_a_pipeline_and_a_grid_search(rng):
    y = np.repeat([0, 1], 20)
    parts = np.repeat([[1, 0.1], [0.1, 1]], 6, axis=1)  # each class has features of its own
    X = rng.gamma(1, 1, (40, 12)) * parts[y]
    pipeline = make_pipeline(NMF(random_state=0, max_iter=50, tol=1e-2), KNeighborsClassifier(1))
    search = GridSearchCV(pipeline, {"nmf__n_components": [2, 3], "nmf__loss": ["manhattan", "frobenius"]}, cv=2)
    search.fit(X, y)
    assert search.best_score_ > 0.8


def test_symmetric_codes_feed_a_clustering():
    blocks = np.kron(np.eye(2), np.ones((4, 4)))
    codes = SymmetricNMF(2, random_state=0).fit_transform(blocks)
    labels = KMeans(2, n_init=3, random_state=0).fit_predict(codes)
    assert len(set(labels[:4])) == len(set(labels[4:])) == 1 and labels[0] != labels[-1]
