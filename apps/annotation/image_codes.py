"""Codes of images: each view is coded by its own models, and the codes stand side by side."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from visionnmf import NMF, OnlineNMF, choices
from visionnmf._checks import shown
from visionnmf._progress import Progress
from visionnmf.exceptions import ParameterError

Array = NDArray[Any]

PLAIN = "none"  # the features themselves
MAX_SHARE = 0.9  # the largest number of components, as a share of a view's features
CROWDED = 3  # images for each component, at least; chosen on one draw of 299 photographs (decisions/annotation.md)
MAX_FITTED = 10_000  # images that components are learnt from
MAX_ITERATIONS = 100
MIN_COMPONENT = 1e-12  # of the largest entry of a component that is not 0: codes of smaller ones overflow


@dataclass
class Block:
    """The columns of the codes that one distance is taken of: a view's codes by one model, None for features."""

    view: str
    coder: Any
    columns: slice

    def check(self, view: slice) -> None:
        """Raise ValueError if a coder from a file does not fit its view, or has components of extreme scales."""
        n_codes, n_features = self.columns.stop - self.columns.start, view.stop - view.start
        # the features themselves (no coder) give a code for each column of the view
        if self.coder is None and n_codes == n_features:
            return
        check_is_fitted(self.coder)
        if self.coder.components_.shape != (n_codes, n_features):
            raise ValueError("codes must be of their view")
        largest = self.coder.components_.max(axis=1)
        if not ((largest == 0) | ((largest >= MIN_COMPONENT) & (largest <= 1 / MIN_COMPONENT))).all():
            raise ValueError("components must be neither tiny nor enormous")


def check_coder(coder: Any) -> None:
    """Raise ParameterError if `coder` cannot learn codes."""
    learns = all(hasattr(coder, name) for name in ("fit", "transform", "get_params"))
    if isinstance(coder, str) and coder in choices.ANNOTATION_CODERS:
        return
    if not (learns and "n_components" in coder.get_params(deep=False)):
        raise ParameterError(
            f"coder must be one of {', '.join(choices.ANNOTATION_CODERS)}, or an estimator with n_components; "
            f"got {shown(coder)}"
        )


@dataclass(frozen=True)
class Coding:
    """How views become codes."""

    coder: Any  # "none", the name of a loss, "or-nmf", or an estimator
    ranks: Sequence[int]  # numbers of components, for each of which a view gets a model
    hellinger: bool  # whether features and codes become square roots of shares
    pseudo_inverse: bool  # whether codes are features times the pseudo-inverse of the components


def fit_blocks(
    X: Array, views: Mapping[str, slice], coding: Coding, random_state: Any, progress: Progress | None = None
) -> tuple[list[Block], Array]:
    """Learn the codes of each view; return their blocks, and the codes (n_samples, n_columns)."""
    blocks: list[Block] = []
    parts: list[Array] = []
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(len(X), MAX_FITTED, replace=False)) if len(X) > MAX_FITTED else slice(None)
    n_columns = 0
    for done, (view, columns) in enumerate(views.items(), 1):
        part = prepared(X[:, columns], coding.hellinger)
        most = max(1, min(int(MAX_SHARE * part.shape[1]), len(part) // CROWDED))  # larger ranks are lowered to this one
        models: list[Any] = [None]  # for the features themselves
        if not (isinstance(coding.coder, str) and coding.coder == PLAIN):
            ranks = sorted({min(rank, most) for rank in coding.ranks})
            models = [_learnt(part[rows], coding.coder, rank, random_state) for rank in ranks]
        for model in models:
            codes = _codes(model, part, coding)
            blocks.append(Block(view, model, slice(n_columns, n_columns + codes.shape[1])))
            parts.append(codes)
            n_columns += codes.shape[1]
        if progress is not None:
            progress("coding", done, len(views))
    return blocks, np.concatenate(parts, axis=1)


def coded(X: Array, views: Mapping[str, slice], blocks: Sequence[Block], coding: Coding) -> Array:
    """Return the codes (n_samples, n_columns) of samples by the fitted models of `blocks`, side by side."""
    names = dict.fromkeys(block.view for block in blocks)
    parts = {view: prepared(X[:, views[view]], coding.hellinger) for view in names}
    return np.concatenate([_codes(block.coder, parts[block.view], coding) for block in blocks], axis=1)


def prepared(X: Array, hellinger: bool) -> Array:
    """Return the features of a view as its models take them: with `hellinger` the signed roots of their shares."""
    # Features are not negative, but codes by pseudo-inverses may be; these keep their signs.
    if not hellinger:
        return np.ascontiguousarray(X)
    size = np.abs(X)
    return np.copysign(np.sqrt(size / np.maximum(size.sum(axis=1, keepdims=True), np.float32(1e-30))), X)


def _learnt(X: Array, coder: Any, rank: int, random_state: Any) -> Any:
    """Return a copy of `coder`, or the model of that name, fitted to `X` with `rank` components."""
    if not isinstance(coder, str):
        model = clone(coder)
    elif coder == "or-nmf":
        model = OnlineNMF(method=coder)
    else:
        model = NMF(loss=coder, max_iter=MAX_ITERATIONS, measure_optimality=False)
    model.set_params(n_components=rank)
    # An estimator with a seed of its own keeps it; 0 stands for one without this parameter.
    if model.get_params(deep=False).get("random_state", 0) is None:
        model.set_params(random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the codes are good enough for distances long before
        return model.fit(X)


def _codes(model: Any, X: Array, coding: Coding) -> Array:
    """Return the codes (n_samples, n_columns) of a view's prepared features `X` by its model; None: the features."""
    if model is None:
        return X
    codes = X @ np.linalg.pinv(model.components_) if coding.pseudo_inverse else model.transform(X)
    return prepared(np.asarray(codes, np.float32), coding.hellinger)
