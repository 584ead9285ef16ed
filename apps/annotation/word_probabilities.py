"""Probabilities of words from the nearest training images, and everything that is learnt for them.

TagProp (Guillaumin et al. 2009): a word's share among the neighbours of an image is ``x = sum over j of p_j y_j`` with
``p_j`` proportional to ``exp(-sum over d of w_d D_dj)``. The weights maximise the likelihood of the words of training
images, predicted from their neighbours (equations 2 to 7 there). A word's probability is
``sigmoid(a sqrt(x) + c f + b)``. Two things are ours: the root, because a word that one of many neighbours has is more
probable than its share, especially a rare one; and `f`, the word's score by a kernel ridge regression on the same
distances.

The regression's score is ``mean + sum over j of exp(-d_j / width) c_j``. All training images vote, near ones most, and
the votes are such that images which look alike do not count twice. With the kernel `K` of the training images and their
words `Y`, ``C = (K + RIDGE I)^-1 (Y - mean)``. The score that an image gets from the other images is
``y_i - C_i / [(K + RIDGE I)^-1]_ii``, in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cholesky, get_lapack_funcs
from scipy.optimize import minimize
from scipy.special import expit, logit

from visionnmf.engine.blocks import one_blas_thread

Array = NDArray[Any]

MIN_SHARE = 1e-4  # a word that no neighbour has is not impossible (epsilon of the paper)
STEPS = 20  # of L-BFGS and of Newton's method
START = 50.0  # sum of the weights: being nearer by a fiftieth of the largest distance multiplies the count by e
SLOPE_RIDGE, OFFSET_RIDGE = 1e-4, 0.3  # pull a word with few images towards the sigmoid of all words
COMMON_RIDGE = 0.1  # pulls the sigmoid of all words towards START_SLOPES
START_SLOPES = (10.0, 5.0)  # for the root of the share, and for the regression
WIDTH = 0.75  # of the kernel, relative to the mean distance
MIN_WIDTH = np.float32(1e-6)
RIDGE = 0.1  # of the regression


class Sigmoids(NamedTuple):
    """A sigmoid for each word, of a weighted sum of terms."""

    slope: Array  # (n_terms, n_words), >= 0: the weights of the terms
    offset: Array  # (n_words,): added to the sum

    def logits(self, terms: Sequence[Array]) -> Array:
        """Return the logits of the words' probabilities for terms of shape (n_images, n_words)."""
        return np.asarray(sum(slope * term for slope, term in zip(self.slope, terms, strict=True)) + self.offset)


def share_of_words(distance: Array, which: Array, Y: Any) -> tuple[Array, Array]:
    """Return the weights of neighbours (n_images, k), and the words' shares among them (n_images, n_words)."""
    weights = _softmax(-distance)
    n_images, k = which.shape
    starts = np.arange(0, n_images * k + 1, k)  # each row of the sparse matrix P has k entries
    P = sp.csr_array((weights.ravel(), which.ravel(), starts), shape=(n_images, Y.shape[0]))
    return weights, np.clip((P @ Y).toarray(), 0, 1)


def learn_weights(D: Array, which: Array, Y: Any, rows: Array, start: Array) -> Array:
    """Return the weights >= 0 of the distances `D` (n_images, k, n_distances) that maximise the likelihood of words."""
    objective = _Likelihood(D, which, Y, rows)  # of weights: minus the log-likelihood, and its gradient
    with one_blas_thread():
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options={"maxiter": STEPS}
        )
    return np.asarray(found.x)


class _Likelihood:
    """The negative log-likelihood of the words and its gradient; images with a word count as much as those without."""

    def __init__(self, D: Array, which: Array, Y: Any, rows: Array) -> None:
        """Take distances (n_images, k, n_distances) to neighbours `which` (n_images, k); images are `rows` of `Y`."""
        # Words are sparse, so the loops go over entries: one for each word of each neighbour of each image.
        n_images, k = which.shape
        self.D = D
        self.shape = (n_images, Y.shape[1])
        neighbours = Y[which.ravel()]  # (n_images * k, n_words), sparse: words of each neighbour of each image
        # For each entry: its pair of image and neighbour, and its cell in a matrix of images and words, both flat.
        self.pair = np.repeat(np.arange(n_images * k), np.diff(neighbours.indptr))
        self.cell = (self.pair // k) * Y.shape[1] + neighbours.indices
        self.truth = Y[rows].toarray().astype(bool)
        # Images with a word weigh as much in total as images without it, however rare the word is.
        have = self.truth.sum(axis=0)
        weight = np.where(self.truth, 1 / np.maximum(have, 1), 1 / np.maximum(n_images - have, 1))
        self.weight = (weight / weight.sum()).astype(np.float32)

    def __call__(self, w: Array) -> tuple[float, Array]:
        """Return the weighted cross-entropy of words and its gradient for weights `w` (n_distances,) of distances."""
        # p (n_images, k): how much each neighbour counts
        p = _softmax(-(self.D @ w.astype(np.float32)))
        shares = np.bincount(self.cell, p.ravel()[self.pair], self.truth.size).reshape(self.shape)
        # q (n_images, n_words): probabilities of the words, kept away from 0 and 1, where the logarithm is infinite
        q = (1 - 2 * MIN_SHARE) * np.clip(shares, 0, 1) + MIN_SHARE
        value = -(self.weight * np.log(np.where(self.truth, q, 1 - q))).sum()
        # Chain rule: slope is the derivative by q, of_pair that by p, and of_exponent that by the softmax's exponents.
        slope = -self.weight / np.where(self.truth, q, q - 1)
        of_pair = np.bincount(self.pair, slope.ravel()[self.cell], p.size).reshape(p.shape)
        of_exponent = p * (of_pair - (p * of_pair).sum(axis=1, keepdims=True))
        return float(value), -np.einsum("ij,ijd->d", of_exponent, self.D).astype(float)


def fit_sigmoids(terms: Sequence[Array], truth: Array, frequency: Array) -> Sigmoids:
    """Fit a sigmoid of `terms` to each word; words with few images are pulled towards the sigmoid of all words."""
    inputs = [*(np.asarray(term, float) for term in terms), np.ones(truth.shape)]
    start = _common_sigmoid(inputs, truth, logit(frequency))
    found = _logistic(inputs, truth, start, np.array([*[SLOPE_RIDGE] * len(terms), OFFSET_RIDGE]))
    return Sigmoids(found[:-1].astype(np.float32), found[-1].astype(np.float32))


def _common_sigmoid(inputs: list[Array], truth: Array, prior: Array) -> Array:
    """Fit one sigmoid of terms and logit of the frequency to all words; return slopes and offsets per word."""
    columns = [np.reshape(x, (-1, 1)) for x in (*inputs[:-1], np.broadcast_to(prior, truth.shape), inputs[-1])]
    start = np.array([*START_SLOPES[: len(inputs) - 1], 0.5, 0.0])[:, np.newaxis]  # of terms, prior, offset
    *slopes, of_prior, offset = _logistic(columns, truth.reshape(-1, 1), start, np.full(len(start), COMMON_RIDGE))
    return np.stack([*(np.full(prior.shape, slope) for slope in slopes), of_prior * prior + offset])


def _logistic(inputs: list[Array], truth: Array, start: Array, ridge: Array) -> Array:
    """Fit a logistic regression to each column, pulled towards `start`; all parameters but the last stay >= 0."""
    # Levenberg-Marquardt: if a step does not improve a column, its parameters stay and its damping grows
    pull, theta = ridge[:, np.newaxis], start.copy()
    damping = np.full(truth.shape[1], 1e-6)
    value, gradient, hessian = _derivatives(inputs, truth, theta, start, pull)
    for _ in range(STEPS):
        scale = np.einsum("wii->wi", hessian)  # the diagonals, which damping enlarges
        damped = hessian + damping[:, np.newaxis, np.newaxis] * scale[:, :, np.newaxis] * np.eye(len(inputs))
        step = np.linalg.solve(damped, gradient.T[:, :, np.newaxis])[:, :, 0].T
        trial = theta - step
        trial[:-1] = np.maximum(trial[:-1], 0)
        found = _derivatives(inputs, truth, trial, start, pull)
        better = found[0] <= value
        damping = np.where(better, damping / 10, np.maximum(100 * damping, 0.01))
        theta[:, better], gradient[:, better] = trial[:, better], found[1][:, better]
        value, hessian = np.where(better, found[0], value), np.where(better[:, None, None], found[2], hessian)
    return theta


def _derivatives(inputs: list[Array], truth: Array, theta: Array, start: Array, pull: Array) -> tuple[Array, ...]:
    """Return values (n_columns,), gradients (n_inputs, n_columns) and Hessians of the logistic losses."""
    logits = sum(part * x for part, x in zip(theta, inputs, strict=True))
    value = (
        np.logaddexp(0, np.where(truth, -logits, logits)).sum(axis=0) + (pull * (theta - start) ** 2).sum(axis=0) / 2
    )
    q = expit(logits)
    rest, h = q - truth, q * (1 - q)  # first and second derivatives of the loss by the logits
    gradient = np.stack([np.einsum("ij,ij->j", rest, x) for x in inputs]) + pull * (theta - start)
    hessian = np.empty((truth.shape[1], len(inputs), len(inputs)))
    for a, one in enumerate(inputs):
        weighted = h * one
        for b in range(a, len(inputs)):
            hessian[:, a, b] = hessian[:, b, a] = np.einsum("ij,ij->j", weighted, inputs[b])
    return value, gradient, hessian + np.diag(pull[:, 0])


def _softmax(values: Array) -> Array:
    """Return the exponentials of each row, scaled to the sum 1; the maximum is subtracted against overflow."""
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


class Regression(NamedTuple):
    """What predicts scores of words from the distances to some training images."""

    rows: Array  # (n_landmarks,): the training images that vote
    votes: Array  # (n_landmarks, n_words)
    mean: Array  # (n_words,): the share of these images that has each word
    width: Array  # (1,), > 0: the distance at which a vote counts 1/e

    def predict(self, D: Array) -> Array:
        """Return the mean plus votes, which fall to 1/e at `width`, for distances (n_images, n_landmarks)."""
        with one_blas_thread():
            return np.asarray(self.mean + np.exp(D / -self.width) @ self.votes)


def fit_regression(D: Array, Y: Array, rows: Array) -> tuple[Regression, Array]:
    """Return a kernel ridge regression of `Y` on mutual distances `D`, now overwritten, and leave-one-out scores."""
    mean = Y.mean(axis=0)
    width = np.maximum(np.float32(WIDTH * D.mean(dtype=float)), MIN_WIDTH)
    kernel = np.exp(np.divide(D, -width, out=D), out=D)
    kernel[np.diag_indices_from(kernel)] = 1 + RIDGE
    with one_blas_thread():
        # K^-1 = inverse.T @ inverse, where `inverse` is the inverse of the Cholesky factor.
        factor = cholesky(kernel, lower=True, overwrite_a=True, check_finite=False)
        (invert,) = get_lapack_funcs(("trtri",), (factor,))
        inverse, _ = invert(factor, lower=1, overwrite_c=1)  # and a status
        votes = inverse.T @ (inverse @ (Y - mean))
    left_out = Y - votes / np.einsum("ij,ij->j", inverse, inverse)[:, np.newaxis]
    found = Regression(rows.astype(np.int32), votes.astype(np.float32), mean.astype(np.float32), np.array([width]))
    return found, left_out
