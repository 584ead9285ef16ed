"""The problems on which the peers were measured, with their shared starts.

They are made from fixed seeds, so that every machine has the same arrays; the faces are those of Extended Yale B, from
the research data. ``l1_*`` are low-rank data with Laplace noise of 2 % of their mean and a tenth of the entries drawn
again, ``rand*`` low-rank data of half-empty factors with normal noise of 5 % of the mean, ``sparse*`` 60 words for
each of 20000 documents of 20 topics, filled up with noise to half a per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _main import is_quick
from numpy.typing import NDArray

from visionnmf.apps.reproduce.data import load_face_set

__all__ = ["NAMES", "PeerProblem", "load"]

Array = NDArray[Any]


class PeerProblem(NamedTuple):
    """``X ~ W @ H`` and a start: ndarray or csr_array, (m, n), (m, r), (r, n)."""

    X: Any
    W: Array
    H: Array


def load(name: str, dtype: Any = np.float64) -> PeerProblem:
    """Return a problem by its name, in a dtype; with ``--quick`` a small one of its kind, which needs no data.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    dtype : dtype, default=float64

    Returns
    -------
    PeerProblem

    Raises
    ------
    UnreadableError
        Where the faces that it is made of are not on this machine.
    """
    X, W, H = _small(name) if is_quick() else _made(name)
    return PeerProblem(X.astype(dtype), W.astype(dtype), H.astype(dtype))


@cache
def _made(name: str) -> PeerProblem:
    make, rank, seed = MAKERS[name]
    return _with_start(make(), rank, seed)


@cache
def _small(name: str) -> PeerProblem:
    if name.startswith("sparse"):
        return _with_start(topics(300, 200, 6, 12), 6, 0)
    return _with_start(outliers(60, 40, 5, 0) + 1e-2, 5, 0)


def _with_start(X: Any, rank: int, seed: int) -> PeerProblem:
    """Draw half-normal factors whose product is about as large as the data, and never 0."""
    rng = np.random.default_rng(seed)
    size = np.sqrt(X.mean() / rank)
    W, H = (size * np.abs(rng.standard_normal(shape)) + 1e-6 for shape in ((X.shape[0], rank), (rank, X.shape[1])))
    return PeerProblem(X, W, H)


def outliers(m: int, n: int, rank: int, seed: int) -> Array:
    """Make uniform factors' product, with Laplace noise and a tenth of the entries uniform up to the largest one."""
    rng = np.random.default_rng(seed)
    clean = rng.random((m, rank)) @ rng.random((rank, n))
    X = np.maximum(0, clean + rng.laplace(scale=0.02 * clean.mean(), size=clean.shape))
    wrong = rng.random(clean.shape) < 0.1
    X[wrong] = rng.random(wrong.sum()) * clean.max()
    return X


def half_empty() -> Array:
    """Make the product of exponential factors half of whose entries are 0, with normal noise."""
    rng = np.random.default_rng(1)
    W, H = (rng.exponential(size=shape) * (rng.random(shape) < 0.5) for shape in ((1000, 50), (50, 500)))
    clean = W @ H
    return np.maximum(0, clean + 0.05 * clean.mean() * rng.standard_normal(clean.shape))


@cache
def faces() -> Array:
    """Return Extended Yale B, a face a column, grey levels 0 to 1."""
    images = load_face_set("yaleb_32x32").images
    return np.ascontiguousarray(images.reshape(len(images), -1).T.astype(float) / 255)


def some_faces() -> Array:
    """Return 476 of the faces, in their order."""
    chosen = np.random.default_rng(3).choice(2414, 476, replace=False)
    return np.ascontiguousarray(faces()[:, np.sort(chosen)])


def topics(documents: int = 20000, words: int = 10000, n_topics: int = 20, length: int = 60) -> sp.csr_array:
    """Draw each document's words from a mixture of topics, and fill up with single words of weight .3."""
    rng = np.random.default_rng(2)
    cumulative = np.cumsum(rng.dirichlet(np.full(words, 0.02), n_topics), axis=1)
    drawn = np.empty((documents, length), int)
    for document in drawn:
        topic = rng.choice(n_topics, length, p=rng.dirichlet(np.full(n_topics, 0.1)))
        for i, (t, level) in enumerate(zip(topic, rng.random(length), strict=True)):
            document[i] = np.searchsorted(cumulative[t], level)
    where = np.repeat(np.arange(documents), length), np.minimum(drawn, words - 1).ravel()
    X = _counted(np.ones(drawn.size), where, (documents, words))
    missing = int(0.005 * documents * words) - X.nnz
    if missing > 0:
        where = rng.integers(0, documents, missing), rng.integers(0, words, missing)
        X = sp.csr_array(X + _counted(np.full(missing, 0.3), where, X.shape))
    return X


def _counted(values: Array, where: tuple[Array, Array], shape: tuple[int, int]) -> sp.csr_array:
    rows, columns = (indices.astype(np.int32) for indices in where)
    X = sp.csr_array((values, (rows, columns)), shape=shape)
    X.sum_duplicates()
    return X


MAKERS: dict[str, tuple[Callable[[], Any], int, int]] = {  # data, rank, seed of the start
    "l1_100x50": (lambda: outliers(100, 50, 5, 21), 5, 121),
    "l1_1000x500": (lambda: outliers(1000, 500, 50, 22), 50, 122),
    "face1024x476": (some_faces, 50, 23),
    "rand1000x500": (half_empty, 50, 11),
    "yaleb1024x2414": (faces, 80, 12),
    "yalebpos1024x2414": (lambda: faces() + 1e-2, 80, 12),  # for divergences that zeros make infinite
    "sparse20000x10000": (topics, 20, 13),
}
NAMES = tuple(MAKERS)
