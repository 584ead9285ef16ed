"""Compile all kernels by tiny problems that together need every one of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from visionnmf import NMF, ConservativeNMF, OnlineNMF, Penalty, ProjectiveNMF, SymmetricNMF
from visionnmf.engine.losses import LOSSES
from visionnmf.engine.online import METHODS
from visionnmf.exceptions import VisionNMFError

N_SAMPLES, N_FEATURES, N_COMPONENTS = 24, 20, 3


def warm_up() -> Iterator[tuple[str, int, int]]:
    """Solve a tiny problem of each kind, so that all kernels are cached; yield name, number done, and number.

    This takes minutes if nothing is cached yet.
    """
    work = [*_losses(), *_penalties(), *_models(), *_applications()]
    for done, (name, fit) in enumerate(work):
        yield name, done, len(work)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few iterations do not converge
            fit()


Work = Iterator[tuple[str, Callable[[], Any]]]


def _data(dtype: str) -> NDArray[Any]:
    """Return a matrix (24, 20) of positive random numbers of this dtype, always the same."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.random((N_SAMPLES, N_FEATURES)) + 0.1, dtype)


def _gaps(dtype: str) -> NDArray[Any]:
    """Return the matrix of :func:`_data` with NaN in place of its small entries."""
    X = _data(dtype)
    return np.where(X < X.mean() / 2, X.dtype.type(np.nan), X)


def _fit(loss: Any, data: Any, **options: Any) -> None:
    """Fit an NMF and transform the data, to compile kernels, unless the loss or solver refuses the combination."""
    with suppress(VisionNMFError):
        model = NMF(N_COMPONENTS, loss=loss, max_iter=5, missing_values=np.nan, random_state=0, **options)
        model.fit(data).transform(data)


def _fit_online(method: str, data: Any) -> None:
    """Fit an OnlineNMF, to compile kernels, unless the method cannot learn the data: OR-NMF-IS fails on zeros."""
    with suppress(VisionNMFError):
        OnlineNMF(N_COMPONENTS, method=method, max_iter=1, missing_values=np.nan, random_state=0).fit(data)


def _losses() -> Work:
    """Yield a name and a function that fits the model, for all losses, both precisions and three kinds of data."""
    for dtype in ("float32", "float64"):
        X = _data(dtype)
        gaps = _gaps(dtype)
        stored = sp.csr_array(np.where(X < X.mean(), X.dtype.type(0), X))
        for record in LOSSES.values():
            loss = record.name if record.is_named else 1.5  # losses without a name are given by the number beta
            for kind, data in (("dense", X), ("missing entries", gaps), ("sparse", stored)):
                yield f"{loss}, {dtype}, {kind}", partial(_fit, loss, data)


def _penalties() -> Work:
    """Yield a name and a function that fits an NMF, for each penalty: simplex codes, a graph, groups."""
    # The graph is a chain: each feature is a neighbour of the next one.
    chain = sp.diags_array([np.ones(N_FEATURES - 1)] * 2, offsets=[-1, 1], format="csr")
    halves = [np.arange(N_FEATURES // 2), np.arange(N_FEATURES // 2, N_FEATURES)]
    for dtype in ("float32", "float64"):
        X = _data(dtype)
        for loss in ("manhattan", "frobenius", "kullback-leibler"):
            yield f"{loss}, {dtype}, simplex", partial(_fit, loss, X, penalty_W=Penalty(simplex=True))
            graph = Penalty(graph=chain, graph_weight=0.1)
            yield f"{loss}, {dtype}, graph", partial(_fit, loss, X, penalty_H=graph)
            groups = Penalty(groups=halves, group_l1=0.1)
            yield f"{loss}, {dtype}, groups", partial(_fit, loss, X, penalty_H=groups)


def _models() -> Work:
    """Yield a name and a function that fits the model, for the models besides NMF."""
    for dtype in ("float32", "float64"):
        X, gaps = _data(dtype), _gaps(dtype)
        for loss in ("manhattan", "frobenius"):
            symmetric = SymmetricNMF(N_COMPONENTS, loss=loss, random_state=0)
            yield f"symmetric, {loss}, {dtype}", partial(symmetric.fit, X @ X.T)
        for loss in ("frobenius", "kullback-leibler"):
            projective = ProjectiveNMF(N_COMPONENTS, loss=loss, max_iter=5, random_state=0)
            yield f"projective, {loss}, {dtype}", partial(projective.fit, X)
        yield f"conservative, {dtype}", partial(ConservativeNMF(N_COMPONENTS, random_state=0).fit, X)
        for method in METHODS.values():
            # `weights` says whether the method takes weights, which missing entries need.
            for kind, data in (("dense", X), ("missing entries", gaps))[: 1 + method.weights]:
                yield f"online, {method.name}, {dtype}, {kind}", partial(_fit_online, method.name, data)


def _applications() -> Work:
    """Yield a name and a function that solves a small problem, for each application that uses kernels."""
    yield "segmentation", _segment
    yield "background", _background
    yield "faces", _faces
    yield "masquerade", _masquerade


def _segment() -> None:
    """Segment an image of two halves, so that the kernels this needs are compiled."""
    from visionnmf.apps.segmentation import segment

    image = np.zeros((40, 60, 3), np.uint8)
    image[:, 30:] = 200
    segment(image, n_segments=2)


def _background() -> None:
    """Fit and apply a background model to colour and grey frames, so that the kernels this needs are compiled."""
    from visionnmf.apps.background import BackgroundModel

    rng = np.random.default_rng(0)
    for shape in ((12, 16, 20, 3), (12, 16, 20)):
        frames = rng.integers(90, 110, shape).astype(np.uint8)
        for _ in BackgroundModel(n_components=2).fit(frames).apply(frames[:3]):
            pass


def _faces() -> None:
    """Learn three people from random images and identify them, so that the kernels this needs are compiled."""
    from visionnmf.apps.faces import FaceRecognizer

    images = np.random.default_rng(0).integers(0, 256, (24, 64)).astype(np.uint8)
    recognizer = FaceRecognizer(n_components=4, image_shape=(8, 8), random_state=0)
    recognizer.fit(images, np.repeat([0, 1, 2], 8)).predict(images)


def _masquerade() -> None:
    """Learn and score sessions of random commands, so that the kernels this needs are compiled."""
    from visionnmf.apps.masquerade import SessionScorer

    rng = np.random.default_rng(0)
    sessions = [[f"command-{i}" for i in rng.geometric(0.2, 50)] for _ in range(12)]
    SessionScorer().fit(sessions).score_samples(sessions[:3])
