"""Kernel ridge regression of words on the distances of images.

The score of a word is ``mean + sum over j of exp(-d_j / width) c_j``. All training images vote, near ones most, and the
votes are such that images which look alike do not count twice. With the kernel `K` of the training images and their
words `Y`, ``C = (K + RIDGE I)^-1 (Y - mean)``. The score that an image gets from the other images is
``y_i - C_i / [(K + RIDGE I)^-1]_ii``, in closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, get_lapack_funcs

from visionnmf.engine.blocks import one_blas_thread

__all__ = ["MIN_WIDTH", "Regression", "fit_regression"]

Array = NDArray[Any]

WIDTH = 0.75  # of the kernel, relative to the mean distance
MIN_WIDTH = np.float32(1e-6)
RIDGE = 0.1


class Regression(NamedTuple):
    """What predicts scores of words from the distances to some training images.

    Attributes
    ----------
    rows : ndarray of int32 [shape=(n_landmarks,)]
        The training images that vote.
    votes : ndarray of float32 [shape=(n_landmarks, n_words)]
        Their votes.
    mean : ndarray of float32 [shape=(n_words,)]
        The share of them that has each word.
    width : ndarray of float32 [shape=(1,), > 0]
        The distance at which a vote counts 1/e.
    """

    rows: Array
    votes: Array
    mean: Array
    width: Array

    def predict(self, D: Array) -> Array:
        """Return scores (n_images, n_words) for distances (n_images, n_landmarks)."""
        with one_blas_thread():
            return np.asarray(self.mean + np.exp(D / -self.width) @ self.votes)


def fit_regression(D: Array, Y: Array, rows: Array) -> tuple[Regression, Array]:
    """Learn the votes of training images from their mutual distances `D` (overwritten) and their words `Y`.

    `rows` says which training images they are. Also returns the scores that each of them gets from the others.
    """
    mean = Y.mean(axis=0)
    width = np.maximum(np.float32(WIDTH * D.mean(dtype=float)), MIN_WIDTH)
    kernel = np.exp(np.divide(D, -width, out=D), out=D)
    kernel[np.diag_indices_from(kernel)] = 1 + RIDGE
    with one_blas_thread():
        factor = cholesky(kernel, lower=True, overwrite_a=True, check_finite=False)
        (invert,) = get_lapack_funcs(("trtri",), (factor,))
        inverse, _ = invert(factor, lower=1, overwrite_c=1)
        votes = inverse.T @ (inverse @ (Y - mean))
    left_out = Y - votes / np.einsum("ij,ij->j", inverse, inverse)[:, np.newaxis]
    found = Regression(rows.astype(np.int32), votes.astype(np.float32), mean.astype(np.float32), np.array([width]))
    return found, left_out
