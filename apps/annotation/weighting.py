"""TagProp (Guillaumin et al. 2009): what each distance counts, and a sigmoid for each word, learnt from training rows.

A word's share among the neighbours of an image is ``x = sum over j of p_j y_j`` with ``p_j`` proportional to
``exp(-sum over d of w_d D_dj)``. The weights maximise the likelihood of the training rows' own words, predicted from
their neighbours without themselves (equations 2 to 7 there); a word's probability is ``sigmoid(a sqrt(x) + b)``.
The root is ours: a word that one of many neighbours has is likelier than the share says, the more so the rarer it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from visionnmf.engine.blocks import one_blas_thread

__all__ = ["START", "Sigmoids", "fit_sigmoids", "learn_weights", "share_of_words"]

Array = NDArray[Any]

LEAST_SHARE = 1e-4  # a word that no neighbour has is not impossible (epsilon of the paper)
STEPS = 20  # of L-BFGS, and of Newton
START = 50.0  # sum of the weights: a neighbour that is nearer by a fiftieth of the largest distance counts e times
SLOPE_RIDGE, OFFSET_RIDGE = 1e-4, 0.3  # to the sigmoid of all words, for words with few images
COMMON_RIDGE = 0.1  # to a sigmoid that is usual, for few images
LARGEST_STEP = 3.0


class Sigmoids(NamedTuple):
    """A sigmoid for each word: of the root of its share, times `slope`, plus `offset`.

    Attributes
    ----------
    slope, offset : ndarray [shape=(n_words,)]
    """

    slope: Array
    offset: Array

    def logits(self, shares: Array) -> Array:
        """Return the logits of the words' probabilities.

        Parameters
        ----------
        shares : ndarray [shape=(n_images, n_words), in [0, 1]]

        Returns
        -------
        ndarray [shape=(n_images, n_words)]
        """
        return np.sqrt(shares) * self.slope + self.offset


def share_of_words(distance: Array, which: Array, Y: Any) -> tuple[Array, Array]:
    """Return what each neighbour counts, and each word's share.

    Parameters
    ----------
    distance : ndarray [shape=(n_images, k)]
        Weighted.
    which : ndarray of int [shape=(n_images, k)]
    Y : scipy.sparse.csr_array [shape=(n_rows, n_words)]

    Returns
    -------
    counts : ndarray [shape=(n_images, k)]
        Rows sum to 1.
    shares : ndarray [shape=(n_images, n_words)]
    """
    counts = _softmax(-distance)
    n_images, k = which.shape
    starts = np.arange(0, n_images * k + 1, k)
    P = sp.csr_array((counts.ravel(), which.ravel(), starts), shape=(n_images, Y.shape[0]))
    return counts, np.clip((P @ Y).toarray(), 0, 1)


def learn_weights(D: Array, which: Array, Y: Any, rows: Array, start: Array) -> Array:
    """Find the weights of the distances.

    Parameters
    ----------
    D : ndarray [shape=(n_images, k, n_distances), >= 0]
        Of training rows to their neighbours, themselves excepted.
    which : ndarray of int [shape=(n_images, k)]
    Y : scipy.sparse.csr_array [shape=(n_rows, n_words)]
        Words of all rows.
    rows : ndarray of int [shape=(n_images,)]
        Which rows they are.
    start : ndarray [shape=(n_distances,), >= 0]

    Returns
    -------
    ndarray [shape=(n_distances,), >= 0]
    """
    objective = _Likelihood(D, which, Y, rows)
    with one_blas_thread():
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options={"maxiter": STEPS}
        )
    return np.asarray(found.x)


class _Likelihood:
    """The negative log-likelihood of rows' words and its gradient; a word's images count as much as those without."""

    def __init__(self, D: Array, which: Array, Y: Any, rows: Array) -> None:
        n_images, k = which.shape
        self.D = D
        self.shape = (n_images, Y.shape[1])
        neighbours = Y[which.ravel()]  # the words of all pairs
        self.pair = np.repeat(np.arange(n_images * k), np.diff(neighbours.indptr))
        self.cell = (self.pair // k) * Y.shape[1] + neighbours.indices
        self.truth = Y[rows].toarray().astype(bool)
        have = self.truth.sum(axis=0)
        weight = np.where(self.truth, 1 / np.maximum(have, 1), 1 / np.maximum(n_images - have, 1))
        self.weight = (weight / weight.sum()).astype(np.float32)

    def __call__(self, w: Array) -> tuple[float, Array]:
        p = _softmax(-(self.D @ w.astype(np.float32)))
        shares = np.bincount(self.cell, p.ravel()[self.pair], self.truth.size).reshape(self.shape)
        q = (1 - 2 * LEAST_SHARE) * np.clip(shares, 0, 1) + LEAST_SHARE
        value = -(self.weight * np.log(np.where(self.truth, q, 1 - q))).sum()
        slope = -self.weight / np.where(self.truth, q, q - 1)
        of_pair = np.bincount(self.pair, slope.ravel()[self.cell], p.size).reshape(p.shape)
        of_exponent = p * (of_pair - (p * of_pair).sum(axis=1, keepdims=True))
        return float(value), -np.einsum("ij,ijd->d", of_exponent, self.D).astype(float)


def fit_sigmoids(shares: Array, truth: Array, frequency: Array) -> Sigmoids:
    """Fit a sigmoid to each word, drawn to that of all words where it has few images.

    Parameters
    ----------
    shares : ndarray [shape=(n_images, n_words), in [0, 1]]
        Of training rows among their neighbours, themselves excepted.
    truth : ndarray of bool [shape=(n_images, n_words)]
    frequency : ndarray [shape=(n_words,), in (0, 1)]
        Share of all training images that have a word.

    Returns
    -------
    Sigmoids
        By Newton's method; slopes are not negative.
    """
    x, prior = np.sqrt(shares).astype(float), logit(frequency)
    common, of_prior, offset = _common_sigmoid(x, truth, prior)
    common = max(common, 0.0)
    a0, b0 = common, of_prior * prior + offset
    a, b = np.full(x.shape[1], a0), b0.copy()
    for _ in range(STEPS):
        q = expit(a * x + b)
        rest, h = q - truth, q * (1 - q)
        g_slope = (rest * x).sum(axis=0) + SLOPE_RIDGE * (a - a0)
        g_offset = rest.sum(axis=0) + OFFSET_RIDGE * (b - b0)
        aa, ab, bb = (h * x * x).sum(axis=0) + SLOPE_RIDGE, (h * x).sum(axis=0), h.sum(axis=0) + OFFSET_RIDGE
        determinant = aa * bb - ab**2
        a -= np.clip((bb * g_slope - ab * g_offset) / determinant, -10 * LARGEST_STEP, 10 * LARGEST_STEP)
        b -= np.clip((aa * g_offset - ab * g_slope) / determinant, -LARGEST_STEP, LARGEST_STEP)
        a = np.maximum(a, 0)
    return Sigmoids(a.astype(np.float32), b.astype(np.float32))


def _common_sigmoid(x: Array, truth: Array, prior: Array) -> tuple[float, float, float]:
    """Fit one sigmoid to all words, of the root of the share and of the logit of the frequency."""
    terms = [x, np.broadcast_to(prior, x.shape), np.ones_like(x)]
    first = np.array([10.0, 0.5, 0.0])
    theta = first
    for _ in range(STEPS):
        q = expit(sum(part * term for part, term in zip(theta, terms, strict=True)))
        rest, h = q - truth, q * (1 - q)
        gradient = np.array([(rest * term).sum() for term in terms])
        hessian = np.array([[(h * one * other).sum() for other in terms] for one in terms])
        pull = COMMON_RIDGE * (theta - first)
        step = np.linalg.solve(hessian + COMMON_RIDGE * np.eye(3), gradient + pull)
        theta = theta - np.clip(step, -LARGEST_STEP, LARGEST_STEP)
    return float(theta[0]), float(theta[1]), float(theta[2])


def _softmax(values: Array) -> Array:
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
