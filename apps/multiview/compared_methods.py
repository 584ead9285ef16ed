"""The methods that an evaluation compares: each fits training samples and finds features of any samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as JointNMF, PCA

from visionnmf import NMF, Penalty

from .flss import FLSS
from .model_choice import ModelChoice, make_model

__all__ = ["METHODS", "ComparedMethod", "LearntFeatures", "SideBySide"]

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

EUCNMF_GROUPS, EUCNMF_RIDGE = 1e-2, 1e-4  # alpha and beta of Guan et al. 2012, equation 64


class SideBySide:
    """Prepared views side by side in a matrix of mean 1, for methods that know nothing of views.

    Each view is divided by its energy over the training samples, and missing entries are replaced by the means of their
    features. `train` is the matrix of the training samples, `groups` the view of each feature.
    """

    def __init__(self, train: ViewArrays) -> None:
        # Features without any value in the training samples have no mean; they count as zero.
        gaps = np.concatenate([np.isnan(view).all(axis=0) for view in train.values()])
        matrix = np.hstack(list(train.values()))
        matrix[:, gaps] = 0
        self.means = np.nanmean(matrix, axis=0)
        self.groups = np.repeat(np.arange(len(train)), [view.shape[1] for view in train.values()])
        self.scales = np.ones_like(self.means)
        full = self._filled(matrix)
        for v in range(len(train)):
            size = float(np.sqrt((full[:, self.groups == v] ** 2).sum(axis=1).mean()))
            self.scales[self.groups == v] = 1 / size if size > 0 else 1
        # Scale all views together so that the training matrix has mean 1; a matrix of zeros stays as it is.
        self.scales /= float((full * self.scales).mean()) or 1.0
        self.train = full * self.scales

    def test(self, views: ViewArrays) -> Array:
        """Return the matrix of other samples."""
        return self._filled(np.hstack(list(views.values()))) * self.scales

    def _filled(self, matrix: Array) -> Array:
        """Replace missing entries (NaN) by the training means of their features."""
        return np.where(np.isnan(matrix), self.means, matrix)


class LearntFeatures(NamedTuple):
    """Features of the training samples, a function that finds those of other samples, and the components if any.

    The features are coordinates of the components, which are of shape (n_components, n_features of the scaled views).
    """

    train: Array
    transform: Callable[[ViewArrays], Array]
    components: Array | None = None


class ComparedMethod(NamedTuple):
    """``learn(train, rank, seed, choice)``, whether the rank matters, and whether the choice of the model does."""

    learn: Callable[[ViewArrays, int, int, ModelChoice], LearntFeatures]
    ranked: bool = True
    chooses: bool = False


def _multiview(**options: Any) -> Callable[..., LearntFeatures]:
    """Return the `learn` function of a multi-view model that is fitted to the separate views with these options."""

    def learn(train: ViewArrays, rank: int, seed: int, choice: ModelChoice) -> LearntFeatures:
        model = make_model(rank, choice, random_state=seed, **options)
        W = model.fit_transform(dict(train))
        H = model.components_ * model.view_scales_[model.view_groups_]
        return LearntFeatures(W, lambda views: model.transform(dict(views)), H)

    return learn


def _matrix(make: Callable[[int, int, SideBySide], Any]) -> Callable[..., LearntFeatures]:
    """Return the `learn` function of a method that factorises a single matrix, the views side by side.

    ``make(rank, seed, side)`` returns an unfitted estimator with ``fit``, ``transform`` and ``components_``. The rank
    is limited to the size of the training matrix.
    """

    def learn(train: ViewArrays, rank: int, seed: int, choice: ModelChoice) -> LearntFeatures:
        side = SideBySide(train)
        model = make(min(rank, *side.train.shape), seed, side)
        model.fit(side.train)
        H = model.components_
        # scikit-learn's NMF leaves the scale of each component arbitrary. Its norm is moved from H to the features, so
        # that distances between features are meaningful. The other models are used as they are.
        sizes = np.linalg.norm(H, axis=1) if isinstance(model, JointNMF) else np.ones(len(H))
        H = H / np.where(sizes > 0, sizes, 1)[:, None]
        features = model.transform(side.train) * sizes
        return LearntFeatures(features, lambda views: model.transform(side.test(views)) * sizes, H)

    return learn


def _concatenation(train: ViewArrays, rank: int, seed: int, choice: ModelChoice) -> LearntFeatures:
    """Use the scaled views themselves as features, without any model; a baseline."""
    side = SideBySide(train)
    return LearntFeatures(side.train, side.test)


def _eucnmf_gs(rank: int, seed: int, side: SideBySide) -> NMF:
    """Return an unfitted EucNMF-GS of Guan et al. (2012): Frobenius loss with a group-sparse H, one group per view."""
    sets = [np.flatnonzero(side.groups == v) for v in np.unique(side.groups)]
    penalty = Penalty(groups=sets, group_norm="inf", group_l1=EUCNMF_GROUPS)
    return NMF(rank, loss="frobenius", penalty_W=Penalty(l2=EUCNMF_RIDGE), penalty_H=penalty, random_state=seed)


# Their names are also in :data:`.settings.COMPARED`, which loads nothing heavy.
METHODS: dict[str, ComparedMethod] = {
    "multiview": ComparedMethod(_multiview(), chooses=True),
    "multiview-all": ComparedMethod(_multiview(view_outliers=None), chooses=True),
    "multiview-constraint": ComparedMethod(_multiview(group_bound=0.01, group_norm="inf"), chooses=True),
    "multiview-frobenius": ComparedMethod(_multiview(**ModelChoice("frobenius")._asdict())),
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
