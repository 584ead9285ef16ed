"""Conditions of an evaluation: corrupted entries, corrupted views, missing views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["apply_condition", "observed"]

Array = NDArray[Any]
ViewArrays = Mapping[str, Array]

SALT_AND_PEPPER = 0.2  # share of the training entries
CORRUPTED = 1 / 3  # share of the training samples of which one view is replaced by noise
MISSING = 0.3  # share of the views of training samples


def apply_condition(
    condition: str, train: ViewArrays, test: ViewArrays, rng: np.random.Generator
) -> list[tuple[str, Any, Any]]:
    """Return training and test samples of prepared views under a condition, each with the name of the missing view.

    "salt-and-pepper": a fifth of the training entries are 0 or the largest of their view. "view-corrupted": one random
    view of a third of the training samples is noise. "view-missing": each view in turn is missing for all test samples,
    of which some may then have none; the first result, named "", has all views. "train-missing": 30 % of the views of
    training samples are missing, but each sample keeps one that it has.
    """
    names = list(train)
    n = len(train[names[0]])
    tops = {name: float(np.nanmax(view)) for name, view in train.items()}
    if condition == "salt-and-pepper":
        return [("", {name: _salt(view, tops[name], rng) for name, view in train.items()}, dict(test))]
    if condition == "view-corrupted":
        hit = np.where(rng.random(n) < CORRUPTED, rng.integers(len(names), size=n), -1)
        noisy = {
            name: np.where((hit == v)[:, None], rng.random(view.shape) * tops[name], view).astype(view.dtype)
            for v, (name, view) in enumerate(train.items())
        }
        return [("", noisy, dict(test))]
    if condition == "view-missing":
        blank = [
            (name, dict(train), {**test, name: np.full_like(test[name], np.nan)}) for name in names if len(names) > 1
        ]
        return [("", dict(train), dict(test)), *blank]
    if condition == "train-missing":
        there = rng.random((n, len(names))) >= MISSING
        seen = np.array([observed({name: view}) for name, view in train.items()]).T
        lost = np.flatnonzero(~(there & seen).any(axis=1) & seen.any(axis=1))
        for i, which in zip(lost, rng.integers(seen[lost].sum(axis=1)), strict=True):
            there[i, np.flatnonzero(seen[i])[which]] = True  # one that the sample has
        gaps = {
            name: np.where(there[:, [v]], view, np.nan).astype(view.dtype)
            for v, (name, view) in enumerate(train.items())
        }
        return [("", gaps, dict(test))]
    return [("", dict(train), dict(test))]


def observed(views: ViewArrays) -> Array:
    """Return which samples have an entry in any of the views, as bool of shape (n_samples,)."""
    return np.asarray(np.array([~np.isnan(view).all(axis=1) for view in views.values()]).any(axis=0))


def _salt(view: Array, top: float, rng: np.random.Generator) -> Array:
    hit = rng.random(view.shape)
    salted = np.where(hit < SALT_AND_PEPPER / 2, 0, np.where(hit < SALT_AND_PEPPER, top, view))
    return np.where(np.isnan(view), view, salted).astype(view.dtype)
