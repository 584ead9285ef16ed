"""Methods that are compared: each fits training samples and finds features of any samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as JointNMF
from sklearn.decomposition import PCA

from visionnmf import NMF, MultiviewNMF, Penalty, choices

from .corruption import observed
from .flss import FLSS
from .preparation import Preparation, is_sparse

__all__ = ["METHODS", "Fitted", "Form", "Method", "SideBySide", "choose_form", "make_model"]

Array = NDArray[Any]

LOSSES = ("manhattan", "frobenius")
HIDDEN = 0.1  # share of the entries by which the form is chosen
ENOUGH = 600  # samples for that
SHARE = 6  # of them for each component, at least: more components have room for what is wrong
MARGIN = 0.04  # by which leaving views out must foretell better: two fits of clean data differ by as much
FEW = 10  # views left out, of all samples: their neighbours' entries are too few to tell whether that helps
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


class Form(NamedTuple):
    """How :class:`.MultiviewNMF` is fitted, chosen by :func:`choose_form`."""

    loss: str = LOSSES[0]
    view_outliers: float | None = choices.VIEW_OUTLIERS


@dataclass(frozen=True)
class Fitted:
    """What a method has learnt.

    Attributes
    ----------
    train : ndarray [shape=(n_samples, n_features)]
        Features of the training samples.
    transform : callable
        Finds those of other samples.
    components : ndarray [shape=(n_features, n_features of the scaled views side by side)] or None
        Of which the features are the coordinates.
    """

    train: Array
    transform: Transform
    components: Array | None = None


class Fit(Protocol):
    """``fit(train, rank, seed, form)``; `form` is for the methods that choose it."""

    def __call__(self, train: Views, rank: int, seed: int, form: Form) -> Fitted:
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
        Whether the form matters, and is chosen before.
    """

    fit: Fit
    source: str
    ranked: bool = True
    chooses: bool = False


def choose_form(
    preparation: Preparation,
    views: Views,
    *,
    loss: str | None = None,
    view_outliers: float | None = choices.VIEW_OUTLIERS,
    random_state: int = 0,
) -> Form:
    """Choose by hidden entries which loss is taken, and whether views that do not fit their sample are left out.

    Single entries that are wrong speak for the Manhattan loss, dense noise for least squares; views of counts take the
    second: the Manhattan loss of data that are 0 nearly everywhere is least at a model of zeros. Where a view of a
    sample is noise, the entries of its other views are foretold better without it; where it is only rare, worse.

    Parameters
    ----------
    preparation : Preparation
        Fitted.
    views : mapping of str to ndarray [shape=(n_samples, n_features)]
        Prepared training samples; a tenth of the entries of 600 of them, at most, is hidden from small fits.
    loss : str or None, default=None
        Chosen when None.
    view_outliers : float or None, default=3
        What is taken where leaving views out foretells hidden entries 4 % better.
    random_state : int, default=0

    Returns
    -------
    Form
        With the lowest sum of absolute errors, at entries of views that fit by every loss tried, in shares of the sum
        of the data, in the mean over the views. Leaving views out must be better by 4 %.
    """
    if "rows" in preparation.kinds_.values() or any(is_sparse(view) for view in views.values()):
        return Form(loss or LOSSES[1], view_outliers)
    if loss is not None and view_outliers is None:
        return Form(loss, None)
    rng = np.random.default_rng([random_state, len(views)])
    there = rng.permutation(np.flatnonzero(observed(views)))[:ENOUGH]
    given = {name: view[there] for name, view in views.items()}
    hidden = {name: _hide(view, rng) for name, view in given.items()}
    shown = {name: np.where(hidden[name], np.nan, view) for name, view in given.items()}
    seen = observed(shown)
    drawn = [name for name, view in shown.items() if not np.isnan(view).all()]  # a rare view may have been missed
    given, hidden, shown = ({name: part[name][seen] for name in drawn} for part in (given, hidden, shown))
    found: dict[Form, Views] = {}
    judged = np.ones((int(seen.sum()), len(drawn)), bool)  # all forms by the same entries: what every loss keeps
    for kind in LOSSES if loss is None else (loss,):
        kept = np.ones_like(judged)
        for limit in dict.fromkeys((view_outliers, None)):
            model = make_model(
                min(choices.VIEW_COMPONENTS, max(1, len(kept) // SHARE)),
                Form(kind, limit),
                random_state=random_state,
                group_l1=0,
                max_iter=100,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of fits that are only compared
                found[Form(kind, limit)] = model.inverse_transform(model.fit_transform(shown))
            if limit is not None:
                kept = ~model.outlying_views_
            if np.count_nonzero(~kept) <= FEW:
                break
        judged &= kept

    def error(form: Form) -> float:
        chosen = form.view_outliers is not None and form._replace(view_outliers=None) in found
        return _error(given, found[form], hidden, judged) * (1 + MARGIN if chosen else 1)

    return min(found, key=error)


def _error(views: Views, foretold: Views, hidden: Views, kept: Array) -> float:
    """Return the sum over the views of the absolute errors at hidden entries, in shares of the sum of the data."""
    shares = []
    for v, (name, view) in enumerate(views.items()):
        counts = hidden[name] & kept[:, [v]]
        left, total = np.abs(view - foretold[name])[counts].sum(), view[counts].sum()
        shares.append(float(left / total) if total > 0 else 0.0)
    return sum(shares)


def _hide(view: Array, rng: np.random.Generator) -> Array:
    given = ~np.isnan(view)
    hidden = given & (rng.random(view.shape) < HIDDEN)
    if not (given & ~hidden).any():  # a view of a few entries; none is learnt from nothing
        hidden.flat[np.flatnonzero(given)[:1]] = False
    return hidden


def make_model(n_components: int, form: Form, *, random_state: int = 0, **options: Any) -> MultiviewNMF:
    """Return the model that the application takes.

    Parameters
    ----------
    n_components : int
    form : Form
    random_state : int, default=0
    **options
        Parameters of :class:`.MultiviewNMF`, in place of these.

    Returns
    -------
    MultiviewNMF
    """
    chosen: dict[str, Any] = {**form._asdict(), "missing_values": np.nan, **options}
    return MultiviewNMF(n_components, random_state=random_state, **chosen)


def _multiview(**options: Any) -> Fit:
    def fit(train: Views, rank: int, seed: int, form: Form) -> Fitted:
        model = make_model(rank, form, random_state=seed, **options)
        W = model.fit_transform(dict(train))
        H = model.components_ * model.view_scales_[model.view_groups_]
        return Fitted(W, lambda views: model.transform(dict(views)), H)

    return fit


def _matrix(make: Callable[[int, int, SideBySide], Any]) -> Fit:
    def fit(train: Views, rank: int, seed: int, form: Form) -> Fitted:
        side = SideBySide(train)
        model = make(min(rank, *side.train.shape), seed, side)
        model.fit(side.train)
        H = model.components_
        sizes = np.linalg.norm(H, axis=1) if isinstance(model, JointNMF) else np.ones(len(H))
        H = H / np.where(sizes > 0, sizes, 1)[:, None]
        return Fitted(model.transform(side.train) * sizes, lambda views: model.transform(side.test(views)) * sizes, H)

    return fit


def _concatenation(train: Views, rank: int, seed: int, form: Form) -> Fitted:
    side = SideBySide(train)
    return Fitted(side.train, side.test)


def _eucnmf_gs(rank: int, seed: int, side: SideBySide) -> NMF:
    sets = [np.flatnonzero(side.groups == v) for v in np.unique(side.groups)]
    penalty = Penalty(groups=sets, group_norm="inf", group_l1=EUCNMF_GROUPS)
    return NMF(rank, loss="frobenius", penalty_W=Penalty(l2=EUCNMF_RIDGE), penalty_H=penalty, random_state=seed)


METHODS: dict[str, Method] = {
    "multiview": Method(_multiview(), "MultiviewNMF", chooses=True),
    "multiview-all": Method(_multiview(view_outliers=None), "MultiviewNMF that leaves no view out", chooses=True),
    "multiview-nuclear": Method(
        _multiview(loss="manhattan", view_outliers=choices.VIEW_OUTLIERS, nuclear=1.0),
        "MultiviewNMF, both factors ridged",
    ),
    "multiview-constraint": Method(
        _multiview(group_bound=0.01, group_norm="inf"), "Guan et al. 2012, equation 40", chooses=True
    ),
    "multiview-frobenius": Method(_multiview(**Form("frobenius")._asdict()), "MultiviewNMF by least squares"),
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
