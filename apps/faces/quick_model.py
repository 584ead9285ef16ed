"""The default model of faces for fits that only serve a choice: the folds of the threshold, and missing pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import check_random_state
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solving import fit, solve_codes
from visionnmf.models.data_checks import check_weights
from visionnmf.models.initialisation import start_factors

Array = NDArray[Any]


class QuickModel:
    """The model ``NMF(n_components, nuclear=1, max_iter=iterations, tol=0)``, in a third of the time.

    `fit_transform` returns the codes of the last iteration and not of the final components, which do not have unit
    norm.
    """

    def __init__(self, n_components: int, iterations: int, random_state: Any) -> None:
        self.n_components, self.iterations, self.random_state = n_components, iterations, random_state

    def fit_transform(self, X: Array, weights: Array | None = None) -> Array:
        """Learn components from images, and return their codes; pixels of weight 0 do not count."""
        self.ridge_ = float(np.sqrt(max(X.shape)))  # on both factors: a nuclear penalty of robust PCA's size
        problem = self._problem(X, weights, fitting=True)
        rng = check_random_state(self.random_state)
        Wt, self.components_ = start_factors(problem, self.n_components, "random", rng, None, None, None)
        with one_blas_thread():
            fit(problem, Wt, self.components_, solver="admm", max_iter=self.iterations, tol=0)
        return np.ascontiguousarray(Wt.T)

    def transform(self, X: Array, weights: Array | None = None) -> Array:
        """Return the codes (n_images, n_components) of new images, as exactly as those of :class:`~visionnmf.NMF`."""
        problem = self._problem(X, weights, fitting=False)
        with one_blas_thread():
            return np.ascontiguousarray(solve_codes(problem, self.components_).T)

    def _problem(self, X: Array, weights: Array | None, *, fitting: bool) -> Problem:
        """Return the problem whose minimum is the model of images (n_images, n_pixels) with these weights."""
        penalty = Penalties(l2=self.ridge_)
        data, entries = check_weights(weights, None, X, fitting=fitting)
        return Problem(data, Loss("manhattan"), penalty, penalty, entries)
