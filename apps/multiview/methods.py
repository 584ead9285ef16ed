"""Methods that are compared: each fits training samples and finds features of any samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as JointNMF
from sklearn.decomposition import PCA

from visionnmf import NMF, MultiviewNMF, Penalty, choices

from .corruption import observed
from .flss import FLSS
from .preparation import Preparation, is_sparse

__all__ = ["METHODS", "Method", "SideBySide", "choose_loss", "make_model"]

Array = NDArray[Any]

LOSSES = ("manhattan", "frobenius")
HIDDEN = 0.1  # share of the entries by which the loss is chosen
EUCNMF_GROUPS, EUCNMF_RIDGE = 1e-2, 1e-4  # alpha and beta of Guan et al. 2012, equation 64


class SideBySide:
    """Views side by side, each divided by its energy over the training samples, missing entries by their means.

    Parameters
    ----------
    train : mapping of str to ndarray [shape=(n_samples, n_features)]
        Prepared; NaN where something is missing.

    Attributes
    ----------
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    train : ndarray [shape=(n_samples, n_features), >= 0]
        Of mean 1.
    """

    def __init__(self, train: Mapping[str, Array]) -> None:
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
        self.scales /= float((full * self.scales).mean()) or 1.0
        self.train = full * self.scales

    def test(self, views: Mapping[str, Array]) -> Array:
        """Return other samples in the same way.

        Parameters
        ----------
        views : mapping of str to ndarray

        Returns
        -------
        ndarray [shape=(n_samples, n_features), >= 0]
        """
        return self._filled(np.hstack(list(views.values()))) * self.scales

    def _filled(self, matrix: Array) -> Array:
        return np.where(np.isnan(matrix), self.means, matrix)


Views = Mapping[str, Array]
Transform = Callable[[Views], Array]


class Fit(Protocol):
    """``fit(train, rank, seed, loss)`` returns the features of training samples, and what finds those of others."""

    def __call__(self, train: Views, rank: int, seed: int, loss: str) -> tuple[Array, Transform]:
        """Fit to training samples."""


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes
    ----------
    fit : callable
        See :class:`Fit`.
    source : str
    ranked : bool
        Whether the rank matters.
    chooses : bool
        Whether the loss matters, and is chosen before.
    """

    fit: Fit
    source: str
    ranked: bool = True
    chooses: bool = False


def choose_loss(preparation: Preparation, views: Views, *, random_state: int = 0) -> str:
    """Choose the Manhattan loss or least squares by which foretells hidden entries better.

    Single entries that are wrong speak for the Manhattan loss, dense noise for least squares; views of counts take the
    second: the Manhattan loss of data that are 0 nearly everywhere is least at a model of zeros.

    Parameters
    ----------
    preparation : Preparation
        Fitted.
    views : mapping of str to ndarray [shape=(n_samples, n_features)]
        Prepared training samples; a tenth of their entries is hidden from two small fits.
    random_state : int, default=0

    Returns
    -------
    {"manhattan", "frobenius"}
        With the lower sum of absolute errors in shares of the sum of the data, in the mean over the views.
    """
    if "rows" in preparation.kinds_.values() or any(is_sparse(view) for view in views.values()):
        return LOSSES[1]
    rng = np.random.default_rng([random_state, len(views)])
    hidden = {name: _hide(view, rng) for name, view in views.items()}
    shown = {name: np.where(hidden[name], np.nan, view) for name, view in views.items()}
    there = observed(shown)
    rank = min(choices.VIEW_COMPONENTS, max(1, int(there.sum()) // 2))
    errors = []
    for loss in LOSSES:
        model = MultiviewNMF(
            rank,
            loss=loss,
            group_l1=0,
            view_outliers=choices.VIEW_OUTLIERS,
            missing_values=np.nan,
            max_iter=100,
            random_state=random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that are only compared
            codes = model.fit_transform({name: view[there] for name, view in shown.items()})
        foretold = model.inverse_transform(codes)
        shares = []
        for v, (name, view) in enumerate(views.items()):
            counts = hidden[name][there] & ~model.outlying_views_[:, [v]]
            left, total = np.abs(view[there] - foretold[name])[counts].sum(), view[there][counts].sum()
            shares.append(float(left / total) if total > 0 else 0.0)
        errors.append(sum(shares))
    return LOSSES[int(np.argmin(errors))]


def _hide(view: Array, rng: np.random.Generator) -> Array:
    given = ~np.isnan(view)
    hidden = given & (rng.random(view.shape) < HIDDEN)
    if not (given & ~hidden).any():  # a view of a few entries; none is learnt from nothing
        hidden.flat[np.flatnonzero(given)[:1]] = False
    return hidden


def make_model(n_components: int, loss: str, *, random_state: int = 0, **options: Any) -> MultiviewNMF:
    """Return the model that the application takes: it leaves out views that do not belong to their samples.

    Parameters
    ----------
    n_components : int
    loss : str
        See :func:`choose_loss`.
    random_state : int, default=0
    **options
        Parameters of :class:`.MultiviewNMF`, in place of these.

    Returns
    -------
    MultiviewNMF
    """
    chosen = {"view_outliers": choices.VIEW_OUTLIERS, "missing_values": np.nan} | options
    return MultiviewNMF(n_components, loss=loss, random_state=random_state, **chosen)


def _multiview(**options: Any) -> Fit:
    def fit(train: Views, rank: int, seed: int, loss: str) -> tuple[Array, Transform]:
        chosen: dict[str, Any] = {"loss": loss} | options
        model = make_model(rank, random_state=seed, **chosen)
        return model.fit_transform(dict(train)), lambda views: model.transform(dict(views))

    return fit


def _matrix(make: Callable[[int, int, SideBySide], Any]) -> Fit:
    def fit(train: Views, rank: int, seed: int, loss: str) -> tuple[Array, Transform]:
        side = SideBySide(train)
        model = make(min(rank, *side.train.shape), seed, side)
        model.fit(side.train)
        sizes = np.linalg.norm(model.components_, axis=1) if isinstance(model, JointNMF) else 1.0
        return model.transform(side.train) * sizes, lambda views: model.transform(side.test(views)) * sizes

    return fit


def _concatenation(train: Views, rank: int, seed: int, loss: str) -> tuple[Array, Transform]:
    side = SideBySide(train)
    return side.train, side.test


def _eucnmf_gs(rank: int, seed: int, side: SideBySide) -> NMF:
    sets = [np.flatnonzero(side.groups == v) for v in np.unique(side.groups)]
    penalty = Penalty(groups=sets, group_norm="inf", group_l1=EUCNMF_GROUPS)
    return NMF(rank, loss="frobenius", penalty_W=Penalty(l2=EUCNMF_RIDGE), penalty_H=penalty, random_state=seed)


METHODS: dict[str, Method] = {
    "multiview": Method(_multiview(), "MultiviewNMF", chooses=True),
    "multiview-all": Method(_multiview(view_outliers=None), "MultiviewNMF that leaves no view out", chooses=True),
    "multiview-nuclear": Method(_multiview(loss="manhattan", nuclear=1.0), "MultiviewNMF with a ridge of both factors"),
    "multiview-constraint": Method(
        _multiview(group_bound=0.01, group_norm="inf"), "Guan et al. 2012, equation 40", chooses=True
    ),
    "multiview-frobenius": Method(_multiview(loss="frobenius"), "MultiviewNMF by least squares"),
    "eucnmf-gs": Method(_matrix(_eucnmf_gs), "Kim et al. 2012, equation 64 of Guan et al."),
    "flss": Method(_matrix(lambda rank, seed, side: FLSS(rank, side.groups, random_state=seed)), "Jia et al. 2010"),
    "manhattan": Method(_matrix(lambda rank, seed, side: NMF(rank, random_state=seed)), "views side by side"),
    "frobenius": Method(
        _matrix(lambda rank, seed, side: NMF(rank, loss="frobenius", random_state=seed)), "views side by side"
    ),
    "joint": Method(
        _matrix(lambda rank, seed, side: JointNMF(rank, init="nndsvda", max_iter=400, random_state=seed)),
        "scikit-learn's NMF of the views side by side",
    ),
    "pca": Method(_matrix(lambda rank, seed, side: PCA(rank, random_state=seed)), "views side by side"),
    "concatenation": Method(_concatenation, "the views themselves", ranked=False),
}
