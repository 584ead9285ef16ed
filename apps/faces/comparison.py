"""What the rules compare: features of images, and the classifiers that find the distances from people."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .classifiers import ClassResidual, Nearest
from .mixture import ALONE, Mixture, Weights
from .occlusion import RobustResidual

Array = NDArray[Any]

WHITENING = 0.1  # share of the mean power that the rule "whitened" adds
CONDITION = 1e-2  # the pseudo-inverse leaves out components that are nearly combinations of others


class Comparison:
    """The features and the classifier of a `rule` of :class:`.FaceRecognizer`, with a fitted `model`.

    `components` (n_components, n_pixels) are the components of the model, scaled to unit norm, and `image_shape` is
    (height, width), or None if it is not known.
    """

    def __init__(self, rule: str, model: Any, image_shape: tuple[int, int] | None) -> None:
        """Take a rule, a fitted model, and the height and width of images, or None if they are not known."""
        # `rule` says what of images is compared and how, such as "residual" or "codes"; the shape is (height, width)
        self.rule, self._model, self.image_shape = rule, model, image_shape
        # Components of unit norm, because NMF leaves their scale arbitrary; codes are multiplied by the norms instead.
        norms = np.linalg.norm(model.components_, axis=1, keepdims=True)
        self._norms = np.where(norms > 0, norms, 1)  # (n_components, 1); components of zeros stay zeros
        self.components = model.components_ / self._norms

    @cached_property
    def _inverse(self) -> Array:
        """The pseudo-inverse (n_pixels, n_components) of the components, which two rules need and nobody else."""
        return np.asarray(np.linalg.pinv(self.components, rcond=CONDITION))

    def features(self, images: Array, codes: Array | None = None) -> Array:
        """Return the vectors that the rule compares, a row for each of the `images` (n_images, n_pixels).

        They are images, codes (None computes the model's), or projections on the pseudo-inverse of the components.
        `_norms` (n_components, 1) are those of the model's components, `_inverse` is the pseudo-inverse of unit ones.
        """
        if self.rule in ("auto", "residual", "occluded"):
            return images
        if self.rule == "codes":  # scaled as if the components had unit norm
            return np.asarray((self._model.transform(images) if codes is None else codes) * self._norms.T)
        return np.asarray(images @ self._inverse.astype(images.dtype, copy=False))

    def classifier(
        self, weights: Weights = ALONE, *, choosing: bool = False
    ) -> ClassResidual | Mixture | RobustResidual | Nearest:
        """Return an unfitted classifier of features: of the residuals of images, or of the nearest ones.

        For "auto" it mixes residuals with other distances by `weights`, and for "occluded" it finds what is covered,
        but residuals alone serve for `choosing` the limit of cleaning. `adaptive` gives noisy images a larger ridge. Of
        the nearest images, only "pseudo-inverse" compares by the Euclidean distance, the others by the cosine, and
        "whitened" evens out the directions in which all faces vary.
        """
        if self.rule == "occluded" and not choosing:
            return RobustResidual(self.image_shape)
        if self.rule == "auto" and not choosing:
            return Mixture(weights)
        if self.rule in ("auto", "residual", "occluded"):
            return ClassResidual(adaptive=True)
        return Nearest(cosine=self.rule != "pseudo-inverse", whiten=WHITENING if self.rule == "whitened" else None)
