"""Group-sparse components from those of a plain fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from visionnmf._checks import check_random_state
from visionnmf.engine.penalties import Groups
from visionnmf.engine.solvers import SOLVERS
from visionnmf.engine.starts import STARTS

from ._data import find_loss
from .nmf import NMF
from .penalty import Penalty

__all__ = ["GroupForm", "fit_groups", "fit_views", "group_form", "scaled_views", "takes_sparse"]

Array = NDArray[Any]

SHORTER = 4  # the second step has a good start
TRACE = 0.01  # share of a component's energy below which a view does not use it


@dataclass(frozen=True)
class GroupForm:
    """Penalty or constraint of whole groups.

    Attributes
    ----------
    sets : list of ndarray of int
        The features of each group.
    norm : {2, "inf"}
    l1 : float
        Of the penalty, in units of what noise pulls at a block; in force where `bound` is None.
    bound : float or None
        Of the constraint, in shares of a random start's components.
    codes_l2 : float
        The counterweight, in shares of what keeps the codes where they are.
    """

    sets: list[Array]
    norm: Any
    l1: float
    bound: float | None
    codes_l2: float


def group_form(
    groups: Array, n_views: int, norm: Any, l1: float, bound: float | None, codes_l2: float
) -> GroupForm | None:
    """Return the form in which each view is a group; None where nothing asks for groups.

    Parameters
    ----------
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    n_views : int
    norm : {2, "inf"}
    l1 : float
    bound : float or None
    codes_l2 : float

    Returns
    -------
    GroupForm or None
    """
    if not l1 and bound is None:
        return None
    return GroupForm([np.flatnonzero(groups == v) for v in range(n_views)], norm, l1, bound, codes_l2)


def scaled_views(data: Any, factors: Array) -> Any:
    """Return data whose features are multiplied by `factors`, sparse where they were.

    Parameters
    ----------
    data : ndarray or csr_array [shape=(n_samples, n_features)]
    factors : ndarray [shape=(n_features,), > 0]

    Returns
    -------
    ndarray or csr_array
    """
    factors = factors.astype(data.dtype)
    return sp.csr_array(data @ sp.diags_array(factors)) if sp.issparse(data) else data * factors


def fit_views(
    model: NMF, data: Any, entries: Array | None, scales: Array, groups: Array, form: GroupForm | None
) -> tuple[NMF, Array]:
    """Fit to views multiplied by `scales`, and all by what makes their mean 1.

    Parameters
    ----------
    model : NMF
        Without penalties; fitted where there is no `form`.
    data : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
        0 where entries do not count.
    entries : ndarray [shape=(n_samples, n_features)] or None
        Weights.
    scales : ndarray [shape=(n_views,), > 0]
    groups : ndarray of int [shape=(n_features,)]
        The view of each feature.
    form : GroupForm or None

    Returns
    -------
    model : NMF
        Fitted.
    scales : ndarray [shape=(n_views,), > 0]
        What the views were multiplied by.
    """
    scaled = scaled_views(data, scales[groups])
    count = np.prod(scaled.shape) if entries is None else np.count_nonzero(entries)
    mean = float(scaled.sum(dtype=np.float64)) / float(count)
    if mean > 0:
        scales = scales / mean
        scaled = scaled_views(data, scales[groups])
    if sp.issparse(scaled) and (entries is not None or not takes_sparse(model, form)):
        scaled = scaled.toarray()
    return (model.fit(scaled, weights=entries) if form is None else fit_groups(model, scaled, entries, form)), scales


def fit_groups(model: NMF, X: Any, entries: Array | None, form: GroupForm) -> NMF:
    """Fit without groups, then with them from there.

    From a random start the penalty would remove components before they have become any. The codes of the plain fit are
    scaled to a root mean square of 1 for each component, or to what the bounds ask for. Noise then pulls at an unused
    block by about ``sqrt(n_samples d)``, and the counterweight is such that with `codes_l2` = 1 that scale of the codes
    is stationary.

    Parameters
    ----------
    model : NMF
        Without penalties; fitted.
    X : ndarray or csr_array [shape=(n_samples, n_features), >= 0]
    entries : ndarray [shape=(n_samples, n_features)] or None
        Weights.
    form : GroupForm

    Returns
    -------
    NMF
        Fitted, with the penalties.
    """
    W = model.fit_transform(X, weights=entries)
    norms = np.sqrt((W**2).mean(axis=0, dtype=np.float64))
    norms[norms == 0] = 1
    W, H = W / norms.astype(W.dtype), model.components_ * norms.astype(W.dtype)[:, None]
    order = 2 if form.norm == 2 else np.inf
    totals = np.array([np.linalg.norm(H[:, columns], order, axis=1).sum() for columns in form.sets], float)
    widths = np.array([len(columns) for columns in form.sets], float)
    pulls = math.sqrt(X.shape[0]) * (np.sqrt(widths) if form.norm == 2 else widths)
    balance = float(pulls @ totals) / (X.shape[0] * len(H)) or 1.0
    bounds = None
    if form.bound is not None:
        start = STARTS[model.init](X, len(H), check_random_state(model.random_state))[1]
        bounds = [form.bound * float(np.linalg.norm(start[:, g], order, axis=1).sum()) for g in form.sets]
        shares = [bound / total for bound, total in zip(bounds, totals, strict=True) if total > 0]
        share = min(shares, default=1.0) or 1.0
        W, H, balance = W / W.dtype.type(share), H * H.dtype.type(share), balance * share**2
    weights = tuple(float(form.l1 * pull) for pull in pulls)
    penalty = Penalty(
        groups=form.sets,
        group_norm=form.norm,
        group_l1=0.0 if bounds else weights,
        group_bound=bounds,
    )
    l2 = form.codes_l2 * balance * (form.l1 if bounds is None else 1.0)
    second = clone(model).set_params(
        penalty_W=Penalty(l2=l2), penalty_H=penalty, n_init=1, max_iter=-(-model.max_iter // SHORTER)
    )
    second.fit_transform(X, W=W, H=H, weights=entries)
    second.n_iter_ += model.n_iter_
    _leave_out_traces(second, form.sets)
    return second


def _leave_out_traces(model: NMF, sets: list[Array]) -> None:
    """Set blocks to zero that have next to none of their component's energy: what noise has left of them."""
    H = model.components_
    energy = (H.astype(np.float64) ** 2).sum(axis=1)
    for columns in sets:
        block = H[:, columns]
        block[(block.astype(np.float64) ** 2).sum(axis=1) < TRACE * energy] = 0
        H[:, columns] = block


def takes_sparse(model: NMF, form: GroupForm | None) -> bool:
    """Return whether a solver of the model's loss takes sparse data, with groups where there are some.

    Parameters
    ----------
    model : NMF
    form : GroupForm or None

    Returns
    -------
    bool
    """
    record = find_loss(model.loss)
    return any(
        entry.sparse and entry.minimises(record) and (form is None or issubclass(Groups, entry.terms))
        for name, entry in SOLVERS.items()
        if record is not None and model.solver in ("auto", name)
    )
