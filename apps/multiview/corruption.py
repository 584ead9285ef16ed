"""What is done to prepared views for an evaluation: corruption and missing views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONDITIONS", "corrupt", "observed"]

Array = NDArray[Any]
Views = Mapping[str, Array]

CONDITIONS = ("clean", "salt-and-pepper", "view-corrupted", "view-missing", "train-missing")
SALT_AND_PEPPER = 0.2  # share of the training entries
CORRUPTED = 1 / 3  # share of the training samples of which one view is noise
MISSING = 0.3  # share of the views of training samples


def corrupt(condition: str, train: Views, test: Views, rng: np.random.Generator) -> list[tuple[str, Any, Any]]:
    """Return training and test samples under a condition.

    Parameters
    ----------
    condition : str
        Of :data:`CONDITIONS`. "salt-and-pepper": a fifth of the training entries are 0 or the largest of their view.
        "view-corrupted": one view, at random, of a third of the training samples is noise. "view-missing": each view in
        turn is missing for all test samples, some of which may then have none. "train-missing": 30 % of the views of
        training samples are missing; each keeps one that it has.
    train, test : mapping of str to ndarray, >= 0
        Prepared.
    rng : numpy.random.Generator

    Returns
    -------
    list of (str, dict, dict)
        The name of the missing view, "" for none; training samples; test samples.
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


def observed(views: Views) -> Array:
    """Return which samples have something in any of the views.

    Parameters
    ----------
    views : mapping of str to ndarray [shape=(n_samples, n_features)]

    Returns
    -------
    ndarray of bool [shape=(n_samples,)]
    """
    return np.asarray(np.array([~np.isnan(view).all(axis=1) for view in views.values()]).any(axis=0))


def _salt(view: Array, top: float, rng: np.random.Generator) -> Array:
    hit = rng.random(view.shape)
    salted = np.where(hit < SALT_AND_PEPPER / 2, 0, np.where(hit < SALT_AND_PEPPER, top, view))
    return np.where(np.isnan(view), view, salted).astype(view.dtype)
