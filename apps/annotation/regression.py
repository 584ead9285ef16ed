"""Kernel ridge regression of words on the distances of images.

A word's score is ``mean + sum over j of exp(-d_j / width) c_j``: all training images vote, near ones most, and the
votes are such that images which look alike do not count double. With ``K`` the kernel of the training images and `Y`
their words, ``C = (K + RIDGE I)^-1 (Y - mean)``; what an image would get without itself is
``y_i - C_i / [(K + RIDGE I)^-1]_ii``, in closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, get_lapack_funcs

from visionnmf.engine.blocks import one_blas_thread

__all__ = ["LEAST_WIDTH", "Regression", "fit_regression"]

Array = NDArray[Any]

WIDTH = 0.75  # of the mean distance
LEAST_WIDTH = np.float32(1e-6)
RIDGE = 0.1


class Regression(NamedTuple):
    """Scores of words by the distances to some training images.

    Attributes
    ----------
    rows : ndarray of int32 [shape=(n_landmarks,)]
        The training images that vote.
    votes : ndarray of float32 [shape=(n_landmarks, n_words)]
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
        """Return the scores of images.

        Parameters
        ----------
        D : ndarray of float32 [shape=(n_images, n_landmarks), >= 0]

        Returns
        -------
        ndarray of float32 [shape=(n_images, n_words)]
        """
        with one_blas_thread():
            return np.asarray(self.mean + np.exp(D / -self.width) @ self.votes)


def fit_regression(D: Array, Y: Array, rows: Array) -> tuple[Regression, Array]:
    """Learn the votes.

    Parameters
    ----------
    D : ndarray of float32 [shape=(n, n), >= 0]
        Distances of training images; overwritten.
    Y : ndarray of float32 [shape=(n, n_words), 0 or 1]
        Their words.
    rows : ndarray of int [shape=(n,)]
        Which training images they are.

    Returns
    -------
    regression : Regression
    left_out : ndarray of float32 [shape=(n, n_words)]
        What each of them would get without itself.
    """
    mean = Y.mean(axis=0)
    width = np.maximum(np.float32(WIDTH * D.mean(dtype=float)), LEAST_WIDTH)
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
