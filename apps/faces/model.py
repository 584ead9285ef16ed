"""Recognition of faces from corrupted training images, as a scikit-learn classifier."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_non_negative,
    column_or_1d,
    validate_data,
)

from visionnmf import NMF, choices
from visionnmf._checks import check_choice, check_count, check_image_shape, check_number, shown
from visionnmf.apps.saving import Saveable
from visionnmf.exceptions import ParameterError

from .calibration import Calibration, calibrated, can_choose
from .classifiers import ClassResidual, Nearest, relative_distance
from .identity import Decomposition, Identity, Parts
from .pixels import flat_background, grain, missing_pixels, noise_scale, pull_limit, winsorise
from .selection import NOTICED, best, choose_missing, limit_scores, look_at_left_out, takes_weights

__all__ = ["FaceRecognizer"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
ITERATIONS = 100  # of the default model
OUTLIERS = (1.5, 3.0, 6.0, 12.0, math.inf)  # what cross-validation chooses among
OUTLIERS_UNSURE = 3.0  # where there is nothing to choose by
QUERY_FACTOR = 2.0  # new images are cleaned less: their errors do not spread to other images
JUDGED = 4.0  # standard deviations of the noise ...
VISIBLE = 0.15  # ... and share of white, beyond which a pixel is called corrupted
WHITENING = 0.1
FEW_MISSING = 0.02  # share of the pixels: none are like so many
FURTHEST = 1e-6  # the nearest distance over that of the furthest people in a ranking
CONDITION = 1e-2  # components that are so nearly combinations of others are left out of the pseudo-inverse


class FaceRecognizer(Saveable, ClassifierMixin, BaseEstimator):
    """Name the person on an image, after training on images that may be corrupted.

    A robust low-rank model of all training images says what each should look like; pixels that are far from it are
    pulled towards it (:func:`~visionnmf.apps.faces.pixels.winsorise`), missing ones take its value. A `rule` then
    compares new images with the cleaned ones. "residual" is ridged the more, the noisier the new image is:

    ==================  ========================================================================  ==================
    rule                features                                                                  distance
    ==================  ========================================================================  ==================
    "residual"          the cleaned images themselves                                             what a person's
                                                                                                  images leave
                                                                                                  unexplained
                                                                                                  (Zhang et al.)
    "whitened"          ``X H+``, whitened                                                        cosine, nearest
    "codes"             the model's codes, by its own loss (MahNMF, Algorithm 5)                  cosine, nearest
    "pseudo-inverse"    ``X H+`` (MahNMF, Algorithm 4)                                            Euclidean, nearest
    ==================  ========================================================================  ==================

    ``H+`` is the pseudo-inverse of the components, whose rows are given unit norm; codes are scaled to match. Without
    that, distances between codes mean little. New images are cleaned by "residual" and "whitened", and taken as they
    are by the rules of the paper. "pseudo-inverse" is the paper's with ``outliers=math.inf``, which projects the
    training images as they are, too; with ``outliers=0`` they keep the model's codes ("mixed" in :class:`Plan`).

    Parameters
    ----------
    model : estimator or None, default=None
        With ``fit_transform``, ``transform`` and ``components_``, such as any :class:`~visionnmf.NMF`. None is the
        Manhattan loss with ``nuclear=1`` and `n_components`. Missing pixels need one whose methods take ``weights``.
    rule : {"residual", "whitened", "codes", "pseudo-inverse"}, default="residual"
    n_components : int, default=100
        Of the default model; it may be generous, as what is not needed shrinks to nothing.
    outliers : float or "auto", default="auto"
        How many standard deviations of the noise a training pixel may be from the model; new images are allowed twice
        that. 0 takes the reconstructions in place of the images, infinity the images as they are. "auto" chooses
        among 1.5, 3, 6, 12 and infinity by cross-validation on the training images: the more they are corrupted, the
        stricter.
    missing : {"auto", "blocks", "saturated", "none"}, default="auto"
        Which pixels count as missing: even blocks, opaque or in deep shadow; all that are black or white; or none but
        those given. "auto" takes of these three what names most training images by cross-validation, and blocks in
        new images where nothing tells: a black background is no block to fill in, and neither is a dark eye a dead
        pixel. Only none are missing with a model that takes no ``weights``.
    image_shape : tuple of (int, int) or None, default=None
        Height and width; None looks for no blocks.
    unknown_rate : float, default=0.05
        Share of strangers who may be taken for someone known; sets the threshold.
    random_state : int, RandomState instance or None, default=None
        Of the default model.

    Attributes
    ----------
    classes_ : ndarray [shape=(n_people,)]
        The labels.
    labels_ : ndarray of int [shape=(n_samples,)]
        Who is on the training images, as positions in ``classes_``.
    model_ : estimator
        The fitted model.
    components_ : ndarray [shape=(n_components, n_pixels)]
        Of unit norm.
    reconstructions_ : ndarray [shape=(n_samples, n_pixels)]
        The model's, of the training images.
    missing_ : str
        `missing`, or what was chosen.
    missing_scores_ : dict of str to float
        Share of left-out training images that each choice named; empty where there was nothing to choose.
    outliers_ : float
        `outliers`, or what was chosen.
    outliers_scores_ : dict of float to float
        Share of left-out training images that was named with each limit; empty where there was nothing to choose.
    cleaned_ : ndarray [shape=(n_samples, n_pixels)]
        The training images after cleaning.
    corrupted_ : ndarray of bool [shape=(n_samples, n_pixels)]
        Judged corrupted: missing, or further from the model than 4 ``scale_`` and 15 % of white.
    scale_ : float
        Standard deviation of the noise of training pixels.
    white_ : float
        The value of white: 255 where training images exceed 1, else 1.
    brightest_ : float
        The largest value of the training images.
    background_ : float
        Value of an even background of the training images, whose blocks are not missing; NaN where there is none.
    threshold_ : float
        Relative distance beyond which :meth:`identify` rejects. With fewer than three people there are no strangers to
        set it by: it then rejects a share `unknown_rate` of left-out images of the known, or, where there are none of
        these either, all.
    false_acceptance_rate_ : float
        Share of strangers' images that pass, by cross-validation: strangers and tested images were left out of the
        model, of cleaning and of the threshold. NaN with fewer than 15 people, and where people differ so much that
        nine times in ten it would not be known to a factor of two: some 45 people tell a rate of 5 %.
    false_rejection_rate_ : float
        Share of the known people's images that the threshold rejects, likewise; NaN also where everybody has one image,
        or strangers' rate is.
    noise_ : ndarray or None [shape=(2, n_measures)]
        Noise of the new images for which both rates hold: least and largest noise scale, as a share of white; shares of
        outlying and of missing pixels; with `image_shape` the scale of the finest detail, too. :class:`Identity` says
        of each image whether it lies between. None where nothing is announced.
    n_features_in_ : int
        Pixels of an image.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan Non-negative Matrix Factorization",
    arXiv:1207.3438, 2012, section 5.2.
    L. Zhang, M. Yang, X. Feng, "Sparse representation or collaborative representation: which helps face
    recognition?", ICCV 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from visionnmf.apps.faces import FaceRecognizer
    >>> rng = np.random.default_rng(0)
    >>> people = rng.random((4, 64))
    >>> y = np.repeat(["Ada", "Ben", "Cy", "Di"], 6)
    >>> X = np.repeat(people, 6, axis=0) * rng.uniform(0.5, 1, (24, 1))
    >>> corrupted = np.where(rng.random(X.shape) < 0.2, 1, X)
    >>> recognizer = FaceRecognizer(random_state=0).fit(corrupted, y)
    >>> recognizer.predict(people).tolist()
    ['Ada', 'Ben', 'Cy', 'Di']
    """

    def __init__(
        self,
        model: Any = None,
        *,
        rule: str = choices.FACE_RULE_DEFAULT,
        n_components: int = choices.FACE_COMPONENTS,
        outliers: float | str = "auto",
        missing: str = choices.FACE_MISSING_AUTO,
        image_shape: tuple[int, int] | None = None,
        unknown_rate: float = choices.FACE_UNKNOWN_RATE,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.rule = rule
        self.n_components = n_components
        self.outliers = outliers
        self.missing = missing
        self.image_shape = image_shape
        self.unknown_rate = unknown_rate
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None) -> FaceRecognizer:
        """Learn people from images.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
            Images as rows; float32 stays float32.
        y : array-like [shape=(n_samples,)]
            Who is on them.
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            Pixels to count as missing, beside those that `missing` finds.

        Returns
        -------
        FaceRecognizer

        Raises
        ------
        ValueError
            When a parameter is not allowed, or `X`, `y` and `mask` do not fit together.
        """
        self._check_parameters()
        data, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
        check_non_negative(data, "FaceRecognizer (input X)")
        check_classification_targets(labels)
        self.classes_, people = np.unique(labels, return_inverse=True)
        self.brightest_ = float(data.max(initial=0))
        self.white_ = 255.0 if self.brightest_ > 1 else 1.0
        self.background_ = math.nan
        if self.image_shape is not None:
            self.background_ = flat_background(self._as_images(data), self.brightest_)
        self.missing_, self.missing_scores_ = choose_missing(self, data, mask, people)
        missing, given = self._missing(data, mask), self._given(data, mask)
        if self.missing == choices.FACE_MISSING_AUTO and (missing & ~given).mean() < NOTICED:
            missing = given  # so few are chance, and a fit that leaves them out is another
        self._learn(data, missing, people, self._model(data.shape, ITERATIONS))
        found = calibrated(look_at_left_out(self, data, missing), len(self.classes_), self.unknown_rate)
        self.threshold_, self.false_acceptance_rate_, self.false_rejection_rate_, self.noise_ = found
        return self

    def _model(self, shape: tuple[int, int], iterations: int) -> Any:
        """Return a model, not fitted, for so many images and pixels."""
        if self.model is None:
            n_components = min(self.n_components, *shape)
            return NMF(n_components, nuclear=1.0, max_iter=iterations, tol=0, random_state=self.random_state)
        return clone(self.model)

    def _learn(self, data: Array, missing: Mask, people: NDArray[np.intp], model: Any) -> None:
        """Fit all but the threshold."""
        self.model_, self.labels_ = model, people
        # only models that know weights can do without the missing pixels
        codes = self.model_.fit_transform(data, weights=~missing) if missing.any() else self.model_.fit_transform(data)
        self._set_components()
        self.reconstructions_ = (codes @ self.model_.components_).astype(data.dtype, copy=False)
        residuals = data - self.reconstructions_
        self.scale_ = float(noise_scale(residuals[~missing])) if not missing.all() else 0.0
        self.outliers_ = OUTLIERS_UNSURE if self.outliers == "auto" else float(self.outliers)
        self.outliers_scores_: dict[float, float] = {}
        if self.outliers == "auto" and can_choose(people):
            self.outliers_scores_ = limit_scores(self, data, missing, OUTLIERS)
            self.outliers_ = best(self.outliers_scores_)
        limit = pull_limit(self.outliers_, self.scale_)
        self.corrupted_ = missing | (np.abs(residuals) > self._judged(self.scale_))
        self.cleaned_ = winsorise(data, self.reconstructions_, limit, missing)
        features = self._features(self.cleaned_, codes if self.outliers_ == 0 else None)
        self.classifier_ = self._classifier().fit(features, people)

    def distances(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return the distance of each image from each person.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            Pixels to count as missing, beside those that `missing` finds.

        Returns
        -------
        ndarray [shape=(n_samples, n_people), >= 0]
            In the order of ``classes_``; comparable within a row.
        """
        data, missing = self._check_new(X, mask)
        return self._distances(data, missing, self._decompose(data, missing) if self._cleans_new(missing) else None)

    def predict(self, X: ArrayLike) -> Array:
        """Name the nearest person on each image, however far.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]

        Returns
        -------
        ndarray [shape=(n_samples,)]
            Labels.
        """
        nearest = self.distances(X).argmin(axis=1)
        return np.asarray(self.classes_[nearest])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return inverse distances with the sum 1: an order of preference, not calibrated probabilities.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]

        Returns
        -------
        ndarray [shape=(n_samples, n_people), in [0, 1]]
        """
        distances = self.distances(X)
        least = np.maximum(distances.min(axis=1, keepdims=True), np.finfo(distances.dtype).tiny)
        closeness = least / np.maximum(distances, least)
        return np.asarray(closeness / closeness.sum(axis=1, keepdims=True))

    def identify(
        self, X: ArrayLike, mask: ArrayLike | None = None, *, threshold: float | None = None, top: int = 1
    ) -> list[Identity]:
        """Name the person on each image, or nobody.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            As for :meth:`distances`.
        threshold : float or None, default=None, >= 0
            In place of `threshold_`; what is announced of that does not hold then.
        top : int, default=1
            Nearest people in each ranking.

        Returns
        -------
        list of Identity
        """
        limit = self.threshold_ if threshold is None else check_number(threshold, "threshold", 0)
        top = min(check_count(top, "top"), len(self.classes_))
        data, missing = self._check_new(X, mask)
        parts = self._decompose(data, missing)
        distances = self._distances(data, missing, parts)
        relative = relative_distance(distances)
        least = np.maximum(distances.min(axis=1, keepdims=True), np.finfo(distances.dtype).tiny)
        # of all people, in units of the nearest one's
        ratios = relative[:, None] / np.maximum(least / np.maximum(distances, least), FURTHEST)
        order = np.argsort(distances, axis=1, kind="stable")[:, :top]
        alike = self._calibration().holds(parts.noise) & (threshold is None)
        found = []
        for row, nearest in enumerate(order):
            ranking = tuple(zip(self.classes_[nearest].tolist(), ratios[row, nearest].tolist(), strict=True))
            person, distance = ranking[0]
            share, named = float(parts.corrupted[row].mean()), person if distance <= limit else None
            found.append(Identity(named, person, distance, limit, share, bool(alike[row]), ranking))
        return found

    def add(self, X: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None) -> FaceRecognizer:
        """Learn further people, or further images of known ones, without training anew.

        The model and the threshold stay; new images are cleaned as those to be named are. Many new people want
        training: the model knows nothing of what they have in common.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        y : array-like [shape=(n_samples,)]
            Who is on them.
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            As for :meth:`distances`.

        Returns
        -------
        FaceRecognizer
        """
        data, missing = self._check_new(X, mask)
        labels = column_or_1d(y)
        check_consistent_length(data, labels)
        cleaned = self._decompose(data, missing).cleaned
        everybody = np.concatenate([self.classes_[self.labels_], labels])
        self.classes_, self.labels_ = np.unique(everybody, return_inverse=True)
        self.cleaned_ = np.concatenate([self.cleaned_, cleaned.astype(self.cleaned_.dtype, copy=False)])
        self.classifier_ = self._classifier().fit(self._features(self.cleaned_, None), self.labels_)
        return self

    def _calibration(self) -> Calibration:
        return Calibration(self.threshold_, self.false_acceptance_rate_, self.false_rejection_rate_, self.noise_)

    def explain(self, X: ArrayLike, mask: ArrayLike | None = None) -> Decomposition:
        """Show what the model makes of images, and which pixels it judges corrupted.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            As for :meth:`distances`.

        Returns
        -------
        Decomposition
        """
        found = self._decompose(*self._check_new(X, mask))
        return Decomposition(found.reconstructions, found.cleaned, found.corrupted)

    def _restore(
        self, model: Any, classes: Array, people: NDArray[np.intp], cleaned: Array, numbers: dict[str, Any]
    ) -> None:
        """Become what was saved; `numbers` are attributes."""
        self._check_parameters()
        self.model_, self.classes_, self.labels_, self.cleaned_ = model, classes, people, cleaned
        self.n_features_in_ = cleaned.shape[1]
        self.missing_, self.missing_scores_, self.outliers_scores_ = self.missing, {}, {}
        for name, number in numbers.items():
            setattr(self, name, number)
        self._set_components()
        self.classifier_ = self._classifier().fit(self._features(cleaned, None), people)

    def _check_parameters(self) -> None:
        check_choice(self.rule, "rule", choices.FACE_RULES)
        check_choice(self.missing, "missing", (choices.FACE_MISSING_AUTO, *choices.FACE_MISSING))
        check_count(self.n_components, "n_components")
        check_number(self.unknown_rate, "unknown_rate", 0, 1, without_low=True, without_high=True)
        if self.model is not None and not hasattr(self.model, "fit_transform"):
            raise ParameterError(f"model must be None or an estimator with fit_transform; got {shown(self.model)}")
        given = isinstance(self.outliers, Real) and not isinstance(self.outliers, bool)
        if not (self.outliers >= 0 if given else self.outliers == "auto"):  # type: ignore[operator]
            raise ParameterError(f"outliers must be 'auto' or a number >= 0; got {shown(self.outliers)}")
        if self.image_shape is not None:
            check_image_shape(self.image_shape)

    def _check_new(self, X: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Mask]:
        check_is_fitted(self)
        data = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
        check_non_negative(data, "FaceRecognizer (input X)")
        return data, self._missing(data, mask)

    def _missing(self, data: Array, mask: ArrayLike | None) -> Mask:
        return self._given(data, mask) | self._found(data, self.missing_)

    def _given(self, data: Array, mask: ArrayLike | None) -> Mask:
        if mask is None:
            return np.zeros(data.shape, bool)
        if not takes_weights(self.model):
            raise ParameterError(f"mask must be None with {shown(self.model)}, which takes no weights; got a mask")
        return np.broadcast_to(np.asarray(mask, bool), data.shape)

    def _found(self, data: Array, missing: str) -> Mask:
        """Find pixels that count as missing."""
        if missing == "none" or (missing == "blocks" and self.image_shape is None):
            return np.zeros(data.shape, bool)
        images = self._as_images(data) if self.image_shape is not None else data[:, None]
        found = missing_pixels(images, missing, self.white_, self.brightest_, self.background_)
        return found.reshape(data.shape)

    def _as_images(self, data: Array) -> Array:
        return data.reshape(-1, *check_image_shape(self.image_shape, n_pixels=data.shape[1]))

    def _set_components(self) -> None:
        H = self.model_.components_
        norms = np.linalg.norm(H, axis=1, keepdims=True)
        self._norms = np.where(norms > 0, norms, 1)
        self.components_ = H / self._norms
        self._inverse = np.linalg.pinv(self.components_, rcond=CONDITION)

    def _cleans_new(self, missing: Mask) -> bool:
        return self.rule in ("residual", "whitened") or bool(missing.any())

    def _decompose(self, data: Array, missing: Mask) -> Parts:
        codes = self.model_.transform(data, weights=~missing) if missing.any() else self.model_.transform(data)
        reconstructions = (codes @ self.model_.components_).astype(data.dtype, copy=False)
        residuals = np.abs(data - reconstructions)
        own = noise_scale(residuals, axis=1)
        outlying = ((residuals > self._judged(own)) & ~missing).mean(axis=1)
        # at least the scale of the training images, so that an image which fits well is left alone
        scale = np.maximum(own, self.scale_).astype(data.dtype)
        limit = pull_limit(QUERY_FACTOR * self.outliers_, scale)
        cleaned = winsorise(data, reconstructions, limit, missing)
        corrupted = missing | (residuals > self._judged(scale))
        noise = [own[:, 0] / self.white_, outlying, np.maximum(missing.mean(axis=1), FEW_MISSING)]
        if self.image_shape is not None and min(self.image_shape) > 2:
            noise.append(grain(self._as_images(np.where(missing, reconstructions, data))) / self.white_)
        return Parts(reconstructions, cleaned, corrupted, np.column_stack(noise))

    def _judged(self, scale: Any) -> Any:
        """Return the residual beyond which a pixel is called corrupted: an outlier, and one that can be seen."""
        return np.maximum(JUDGED * scale, VISIBLE * self.white_)

    def _distances(self, data: Array, missing: Mask, parts: Parts | None) -> Array:
        if parts is not None:
            cleans = self.rule in ("residual", "whitened")
            data = parts.cleaned if cleans else np.where(missing, parts.reconstructions, data)
        return self.classifier_.distances(self._features(data, None))

    def _features(self, data: Array, codes: Array | None) -> Array:
        if self.rule == "residual":
            return data
        if self.rule == "codes":
            found = self.model_.transform(data) if codes is None else codes
            return np.asarray(found * self._norms.T)
        return np.asarray(data @ self._inverse.astype(data.dtype, copy=False))

    def _classifier(self) -> ClassResidual | Nearest:
        if self.rule == "residual":
            return ClassResidual(adaptive=True)
        return Nearest(cosine=self.rule != "pseudo-inverse", whiten=WHITENING if self.rule == "whitened" else None)
