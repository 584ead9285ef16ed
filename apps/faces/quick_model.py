"""The default model of faces: that of NMF, without what only a user of the model itself reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf import NMF
from visionnmf._checks import check_random_state
from visionnmf.engine.arrays.namespace import norms_of
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.engine.losses import Loss
from visionnmf.engine.penalties import Penalties
from visionnmf.engine.problem import Problem
from visionnmf.engine.solvers.admm import FixedComponents
from visionnmf.engine.solving import fit
from visionnmf.engine.starts import Start, start_factors
from visionnmf.models.data_checks import check_weights

Array = NDArray[Any]

# Iterations that find the codes of a new image. NMF has 200, for images that are 0.1 % of white more exact;
# docs/decisions/faces.md has the table.
CODES_ITERATIONS = 30


class QuickModel:
    """The model ``NMF(n_components, nuclear=1, max_iter=iterations, tol=0)``, in a third to half of the time.

    `fit_transform` returns the codes of the last iteration, which :class:`~visionnmf.NMF` would find again for the
    final components, and it does not measure how far the fit is from an optimum. `transform` needs fewer iterations,
    and computes what depends on the components only once.
    """

    def __init__(
        self,
        n_components: int,
        iterations: int,
        random_state: Any,
        callback: Callable[[int, float], Any] | None = None,
    ) -> None:
        """Keep the numbers of components and of iterations, the seed, and what is called after each iteration."""
        self.n_components, self.iterations, self.random_state = n_components, iterations, random_state
        self.callback = callback  # called as ``callback(iteration, objective)`` after each iteration of a fit
        # By dtype of images: the components in it and what `transform` computes from them alone, such as products.
        self._fixed: dict[Any, FixedComponents] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again, and the callback, which could not be pickled."""
        return vars(self) | {"_fixed": {}, "callback": None}

    def fit_transform(self, X: Array, weights: Array | None = None) -> Array:
        """Learn components from images, and return their codes (n_images, n_components).

        `X` and `weights` are (n_images, n_pixels); pixels of weight 0 do not count, and None counts all.
        """
        self.ridge_ = float(np.sqrt(max(X.shape)))  # on both factors: a nuclear penalty of robust PCA's size
        penalty = Penalties(l2=self.ridge_)
        data, entries = check_weights(weights, None, X, fitting=True)
        problem = Problem(data, Loss("manhattan"), penalty, penalty, entries)
        rng = check_random_state(self.random_state)
        # Random codes (n_components, n_images), and components; no factors are given to start from, nor scales of rows.
        Wt, self.components_ = start_factors(problem, Start(self.n_components, None, False, rng), None, None)
        # By which the components were divided: by 1, because here they stay as they are.
        self.component_norms_ = np.ones(len(self.components_), self.components_.dtype)
        with one_blas_thread():  # `fit` changes both factors in place
            found = fit(
                problem, Wt, self.components_, solver="admm", max_iter=self.iterations, tol=0, callback=self.callback
            )
        self.objective_history_ = np.array(found.history)
        self.reconstruction_err_ = problem.loss_value(Wt, self.components_)
        return np.ascontiguousarray(Wt.T)

    def transform(self, X: Array, weights: Array | None = None) -> Array:
        """Return the codes (n_images, n_components) of new images; those of an image do not depend on the others."""
        # `entries` are the weights of all pixels, None if all count alike.
        data, entries = check_weights(weights, None, X, fitting=False)
        if X.dtype not in self._fixed:
            components = np.array(self.components_, X.dtype)
            # The penalty was that of codes of the components before these were divided by their norms.
            penalty = Penalties(l2=self.ridge_).rescaled(self.component_norms_.astype(np.float64))
            self._fixed[X.dtype] = FixedComponents(penalty, components, iterations=CODES_ITERATIONS)
        fixed = self._fixed[X.dtype]
        Wt = np.empty((len(self.components_), len(X)), X.dtype)
        # Writes the codes into Wt. `Problem` takes penalties of both factors; that of the components plays no part.
        fixed.codes(Problem(data, Loss("manhattan"), fixed.penalty, fixed.penalty, entries), Wt)
        return np.ascontiguousarray(Wt.T)

    def as_nmf(self) -> NMF:
        """Return the fitted :class:`~visionnmf.NMF` of which this is the quick form; its optimality is not measured.

        Its components have unit norm, and it keeps the norms by which they were divided. NMF turns its parameter
        ``nuclear``, the weight of a nuclear norm, into the same ridge on both factors as `fit_transform` does.
        """
        settings = {"max_iter": self.iterations, "tol": 0, "random_state": self.random_state}
        model = NMF(self.n_components, nuclear=1.0, **settings)
        model.component_norms_ = norms_of(self.components_)
        model.components_ = self.components_ / model.component_norms_[:, None]
        model.n_components_, model.n_features_in_ = self.components_.shape
        model.ridge_, model.solver_, model.loss_parameter_ = self.ridge_, "admm", 0.0
        model.n_iter_, model.objective_history_ = self.iterations, self.objective_history_
        model.reconstruction_err_, model.optimality_ = self.reconstruction_err_, math.nan
        return model

    @classmethod
    def of(cls, model: NMF) -> QuickModel:
        """Return the quick form of the default model, which finds codes for the same components."""
        quick = cls(len(model.components_), model.max_iter, model.random_state)
        quick.components_, quick.component_norms_ = np.asarray(model.components_), np.asarray(model.component_norms_)
        quick.ridge_ = model.ridge_
        return quick
