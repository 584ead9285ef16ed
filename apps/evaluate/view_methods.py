"""The methods that an evaluation compares: each fits training samples and finds features of any samples.

:func:`fit_classifier` finds classes from such features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as JointNMF, PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from visionnmf import NMF, MultiviewNMF, Penalty
from visionnmf._checks import check_random_state
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.projections import shrink_inf
from visionnmf.models.multiview.classifier import chosen_machine, signed_roots

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

EUCNMF_GROUPS, EUCNMF_RIDGE = 1e-2, 1e-4  # alpha and beta of Guan et al. 2012, equation 64
DICTIONARY_WEIGHT = 0.01  # lambda of the paper
CODES_WEIGHT = 0.01  # of FLSS: gamma of the paper
ITERATIONS, TOLERANCE = 200, 1e-5  # of FLSS
STEPS = 5  # of FLSS: proximal gradient steps of each factor in turn
RIDGE = 1e-6  # of FLSS: of the codes of new samples, as a share of the largest curvature

COSTS = (0.1, 1.0, 10.0)  # of the support vector machine, chosen on training samples


class FLSS:
    r"""Factorised latent spaces with structured sparsity: signed components that use whole views or none; a baseline.

    .. math:: \min_{W, H}\; \tfrac1n \|X - W H\|_F^2 + \lambda \sum_v \sum_k \max_j |H_{v,kj}|
              + \gamma \sum_k \max_i |W_{ik}|

    (Jia, Salzmann & Darrell, NIPS 2010; equation 63 of Guan et al. 2012), by alternating proximal gradient steps, until
    the objective falls by less than `TOLERANCE` of its value at the start. `groups` is the view of each feature. New
    samples get the codes of least squares, because the last term depends on all training samples together.
    """

    def __init__(self, n_components: int, groups: Array, *, random_state: int) -> None:
        """Keep the parameters; `groups` (n_features,) is the number of the view of each feature."""
        self.n_components, self.groups, self.random_state = n_components, groups, random_state

    @one_blas_thread()
    def fit(self, data: Array) -> Self:
        """Find the components of finite `data` X (n_samples, n_features), of any sign."""
        rng, n = check_random_state(self.random_state), len(data)
        # `sets`: the columns of each view. The gradients of ||X - WH||^2 / n need only the products `gram` and `cross`,
        # and the largest eigenvalue of `gram` is their Lipschitz constant, hence `step`.
        sets = [np.flatnonzero(self.groups == v) for v in np.unique(self.groups)]
        W = rng.standard_normal((n, self.n_components)).astype(data.dtype)
        H = (np.linalg.lstsq(W, data, rcond=None)[0]).astype(data.dtype)
        history = [self._objective(data, W, H, sets)]
        for _ in range(ITERATIONS):
            gram, cross = W.T @ W * (2 / n), W.T @ data * (2 / n)
            step = 1 / max(float(np.linalg.norm(gram, 2)), 1e-12)
            for _step in range(STEPS):
                H = H - data.dtype.type(step) * (gram @ H - cross)
                for columns in sets:
                    H[:, columns] = _shrink(H[:, columns], step * DICTIONARY_WEIGHT)
            gram, cross = H @ H.T * (2 / n), data @ H.T * (2 / n)
            step = 1 / max(float(np.linalg.norm(gram, 2)), 1e-12)
            for _step in range(STEPS):
                W = W - data.dtype.type(step) * (W @ gram - cross)
                W = _shrink(W.T, step * CODES_WEIGHT).T
            history.append(self._objective(data, W, H, sets))
            if history[-2] - history[-1] < TOLERANCE * history[0]:
                break
        self.components_, self.objective_history_ = H, np.array(history)
        return self

    @one_blas_thread()
    def transform(self, data: Array) -> Array:
        """Return the codes (n_samples, n_components) of least squares, with a small ridge in case some coincide."""
        gram = self.components_ @ self.components_.T  # of the components (n_components, n_features)
        gram[np.diag_indices_from(gram)] += RIDGE * max(float(np.linalg.norm(gram, 2)), 1e-12)
        return np.asarray(np.linalg.solve(gram, self.components_ @ data.T).T)

    def _objective(self, X: Array, W: Array, H: Array, sets: list[Array]) -> float:
        """Return the squared error of a sample, plus the weighted peaks of H in each view and of W, by component."""
        loss = float(((X - W @ H) ** 2).sum(dtype=np.float64)) / len(X)
        peaks = sum(float(np.abs(H[:, columns]).max(axis=1).sum()) for columns in sets)
        return loss + DICTIONARY_WEIGHT * peaks + CODES_WEIGHT * float(np.abs(W).max(axis=0).sum())


def _shrink(V: Array, threshold: float) -> Array:
    """Return the proximal step of ``threshold * max |row|`` for each row of V: it cuts off the peaks of both signs."""
    return np.asarray(np.sign(V) * shrink_inf(np.abs(V), threshold), V.dtype)


class SideBySide:
    """Prepared views side by side in a matrix of mean 1, for methods that know nothing of views.

    Each is divided by its energy over the training samples; missing entries are replaced by the means of their
    features.
    """

    def __init__(self, train: ViewArrays) -> None:
        """Learn means and scales from training views, each (n_samples, n_features) with NaN for missing entries."""
        # Features without any value in the training samples have no mean; they count as zero.
        gaps = np.concatenate([np.isnan(view).all(axis=0) for view in train.values()])
        matrix = np.hstack(list(train.values()))
        matrix[:, gaps] = 0
        self.means = np.nanmean(matrix, axis=0)  # of each feature over the training samples (n_features,)
        self.groups = np.repeat(np.arange(len(train)), [view.shape[1] for view in train.values()])
        self.scales = np.ones_like(self.means)  # what each feature is multiplied by, equal within a view
        full = self._filled(matrix)
        for v in range(len(train)):
            size = float(np.sqrt((full[:, self.groups == v] ** 2).sum(axis=1).mean()))
            self.scales[self.groups == v] = 1 / size if size > 0 else 1
        # Scale all views together so that the training matrix has mean 1; a matrix of zeros stays as it is.
        self.scales /= float((full * self.scales).mean()) or 1.0
        self.train = full * self.scales

    def test(self, views: ViewArrays) -> Array:
        """Return the matrix of other samples, with missing entries filled and features scaled."""
        return self._filled(np.hstack(list(views.values()))) * self.scales

    def _filled(self, matrix: Array) -> Array:
        """Replace missing entries (NaN) by the training means of their features, `means` (n_features,)."""
        return np.where(np.isnan(matrix), self.means, matrix)


class LearntFeatures(NamedTuple):
    """Features of the training samples, a function that finds those of others, and components if any."""

    train: Array
    transform: Callable[[ViewArrays], Array]
    components: Array | None = None
    model: MultiviewNMF | None = None  # whose codes the features are; it has a classifier of its own


class ComparedMethod(NamedTuple):
    """``learn(train, rank, seed, loss)``, with the loss of multi-view models, and whether the rank matters."""

    learn: Callable[[ViewArrays, int, int, str], LearntFeatures]
    ranked: bool = True


def _multiview(**options: Any) -> Callable[..., LearntFeatures]:
    """Return the `learn` function of a multi-view model that is fitted to the separate views with these options."""

    def learn(train: ViewArrays, rank: int, seed: int, loss: str) -> LearntFeatures:
        """Return the codes, a function that finds those of other samples, the components in scaled views, the model."""
        model = MultiviewNMF(rank, missing_values=np.nan, random_state=seed, **{"loss": loss, **options})
        W = model.fit_transform(dict(train))
        # `view_scales_` is what the model multiplies each view by, and `view_groups_` the view of each feature
        H = model.components_ * model.view_scales_[model.view_groups_]
        return LearntFeatures(W, lambda views: model.transform(dict(views)), H, model)

    return learn


def _matrix(make: Callable[[int, int, SideBySide], Any]) -> Callable[..., LearntFeatures]:
    """Return `learn` for a method of one joined matrix, by an unfitted estimator ``make(rank, seed, side)``."""

    def learn(train: ViewArrays, rank: int, seed: int, loss: str) -> LearntFeatures:
        """Fit the estimator to the joined views; return features, a function for other samples, components."""
        side = SideBySide(train)  # the views in one matrix, scaled; `side.test` makes that of other samples
        model = make(min(rank, *side.train.shape), seed, side)  # an estimator, not fitted yet
        model.fit(side.train)
        H = model.components_
        # scikit-learn's NMF (JointNMF) leaves the scale of each component arbitrary. Its norm is moved from H to the
        # features, so that distances between features are meaningful. The other models are used as they are.
        sizes = np.linalg.norm(H, axis=1) if isinstance(model, JointNMF) else np.ones(len(H))
        H = H / np.where(sizes > 0, sizes, 1)[:, None]
        features = model.transform(side.train) * sizes
        return LearntFeatures(features, lambda views: model.transform(side.test(views)) * sizes, H)

    return learn


def _concatenation(train: ViewArrays, rank: int, seed: int, loss: str) -> LearntFeatures:
    """Use the scaled views themselves as features, a baseline; return those and a function for other samples."""
    side = SideBySide(train)
    return LearntFeatures(side.train, side.test)


def _eucnmf_gs(rank: int, seed: int, side: SideBySide) -> NMF:
    """Return an unfitted EucNMF-GS of Guan et al. (2012): Frobenius loss, H group-sparse by views."""
    sets = [np.flatnonzero(side.groups == v) for v in np.unique(side.groups)]
    penalty = Penalty(groups=sets, group_norm="inf", group_l1=EUCNMF_GROUPS)
    return NMF(rank, loss="frobenius", penalty_W=Penalty(l2=EUCNMF_RIDGE), penalty_H=penalty, random_state=seed)


METHODS: dict[str, ComparedMethod] = {
    "multiview": ComparedMethod(_multiview()),
    "multiview-constraint": ComparedMethod(_multiview(group_bound=0.01, group_norm="inf")),
    "multiview-frobenius": ComparedMethod(_multiview(loss="frobenius")),
    "eucnmf-gs": ComparedMethod(_matrix(_eucnmf_gs)),
    "flss": ComparedMethod(_matrix(lambda rank, seed, side: FLSS(rank, side.groups, random_state=seed))),
    "manhattan": ComparedMethod(_matrix(lambda rank, seed, side: NMF(rank, random_state=seed))),
    "frobenius": ComparedMethod(_matrix(lambda rank, seed, side: NMF(rank, loss="frobenius", random_state=seed))),
    "joint": ComparedMethod(
        _matrix(lambda rank, seed, side: JointNMF(rank, init="nndsvda", max_iter=400, random_state=seed))
    ),
    "pca": ComparedMethod(_matrix(lambda rank, seed, side: PCA(rank, random_state=seed))),
    "concatenation": ComparedMethod(_concatenation, ranked=False),
}


def fit_classifier(features: Array, y: Array, gram: Array | None = None, *, roots: bool = True) -> tuple[Any, float]:
    """Return a linear support vector machine fitted to features of unit norm, and its accuracy in cross-validation.

    That chooses its cost, whether features are scaled, and (with `roots`) whether :func:`signed_roots` are taken. There
    is none, and the accuracy is NaN, if `y` is a matrix of words, or if a class has a single sample.
    """
    # make_pipeline names a step by its class in lower case, and "passthrough" by that word
    scaler = StandardScaler(with_mean=False)
    pipeline = make_pipeline("passthrough", Normalizer(), scaler, LinearSVC(C=COSTS[0], dual="auto", random_state=0))
    turned = [FunctionTransformer(signed_roots, kw_args={"gram": gram})] if roots else []
    grid = {
        "passthrough": ["passthrough", *turned],
        "standardscaler": [scaler, "passthrough"],
        "linearsvc__C": COSTS,
    }
    return chosen_machine(pipeline, grid, features, y)
