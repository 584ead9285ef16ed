"""Recognition of faces from corrupted training images, as a scikit-learn classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from visionnmf import NMF, choices
from visionnmf._checks import brief, check_choice, check_count, check_image_shape, check_number, shown
from visionnmf.apps.saving import Saveable
from visionnmf.exceptions import ParameterError

from .calibration import image_folds, left_out, people_folds
from .classifiers import ClassResidual, Nearest, relative_distance
from .pixels import missing_pixels, noise_scale, winsorise

__all__ = ["Decomposition", "FaceRecognizer", "Identity"]

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
CONDITION = 1e-2  # components that are so nearly combinations of others are left out of the pseudo-inverse
STRANGERS_LEAST = 3  # people, without whom no threshold can be calibrated


@dataclass(frozen=True)
class Identity:
    """Who is on an image.

    Attributes
    ----------
    person : object or None
        The label, or None when the distance is above the threshold: a stranger, or no face.
    nearest : object
        The label of the nearest person, accepted or not.
    distance : float
        From 0 to 1: the distance from the nearest person over the harmonic mean of the distances from all.
    threshold : float
        Distances above are rejected.
    corrupted : float
        Share of the pixels that were judged corrupted.
    """

    person: Any
    nearest: Any
    distance: float
    threshold: float
    corrupted: float


class Decomposition(NamedTuple):
    """Images taken apart: what the model explains of them, and what it does not.

    Attributes
    ----------
    reconstructions : ndarray [shape=(n_samples, n_pixels), >= 0]
        The model's.
    cleaned : ndarray [shape=(n_samples, n_pixels)]
        The images, with pixels pulled towards the reconstructions where they are far from them.
    corrupted : ndarray of bool [shape=(n_samples, n_pixels)]
        Pixels that are judged corrupted; see :class:`FaceRecognizer`.
    """

    reconstructions: Array
    cleaned: Array
    corrupted: Mask

    def __repr__(self) -> str:
        return brief(self)


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
        Manhattan loss with ``nuclear=1`` and `n_components`.
    rule : {"residual", "whitened", "codes", "pseudo-inverse"}, default="residual"
    n_components : int, default=100
        Of the default model; it may be generous, as what is not needed shrinks to nothing.
    outliers : float or "auto", default="auto"
        How many standard deviations of the noise a training pixel may be from the model; new images are allowed twice
        that. 0 takes the reconstructions in place of the images, infinity the images as they are. "auto" chooses
        among 1.5, 3, 6, 12 and infinity by cross-validation on the training images: the more they are corrupted, the
        stricter.
    missing : {"blocks", "saturated", "none"}, default="blocks"
        Which pixels count as missing: even blocks, opaque or in deep shadow; all that are black or white; or none but
        those given.
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
    outliers_ : float
        `outliers`, or what was chosen.
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
    threshold_ : float
        Relative distance beyond which :meth:`identify` rejects; 1, which nothing exceeds, where fewer than three
        people are known.
    false_rejection_rate_ : float
        Share of the known people's images that the threshold rejects, by cross-validation on the training images;
        NaN where there are fewer than three people or somebody has one image.
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
        missing: str = choices.FACE_MISSING_DEFAULT,
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
        missing = self._missing(data, mask)
        model = self.model
        if model is None:
            n_components = min(self.n_components, *data.shape)
            model = NMF(n_components, nuclear=1.0, max_iter=ITERATIONS, tol=0, random_state=self.random_state)
        self.model_ = clone(model)
        # only models that know weights can do without the missing pixels
        codes = self.model_.fit_transform(data, weights=~missing) if missing.any() else self.model_.fit_transform(data)
        self.labels_ = people
        self._set_components()
        self.reconstructions_ = (codes @ self.model_.components_).astype(data.dtype, copy=False)
        residuals = data - self.reconstructions_
        self.scale_ = float(noise_scale(residuals[~missing])) if not missing.all() else 0.0
        chosen = self._choose_outliers(data, missing, people) if self.outliers == "auto" else self.outliers
        self.outliers_ = float(chosen)
        limit = _limit(self.outliers_, self.scale_)
        self.corrupted_ = missing | (np.abs(residuals) > self._judged(self.scale_))
        self.cleaned_ = winsorise(data, self.reconstructions_, limit, missing)
        features = self._features(self.cleaned_, codes if self.outliers_ == 0 else None)
        self.classifier_ = self._classifier().fit(features, people)
        self._calibrate(features, people)
        return self

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

    def identify(self, X: ArrayLike, mask: ArrayLike | None = None) -> list[Identity]:
        """Name the person on each image, or nobody.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            As for :meth:`distances`.

        Returns
        -------
        list of Identity
        """
        data, missing = self._check_new(X, mask)
        parts = self._decompose(data, missing)
        distances = self._distances(data, missing, parts)
        relative = relative_distance(distances)
        found = []
        for row, nearest in enumerate(self.classes_[distances.argmin(axis=1)].tolist()):
            distance, share = float(relative[row]), float(parts.corrupted[row].mean())
            known = distance <= self.threshold_
            found.append(Identity(nearest if known else None, nearest, distance, self.threshold_, share))
        return found

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
        return self._decompose(*self._check_new(X, mask))

    def _restore(
        self, model: Any, classes: Array, people: NDArray[np.intp], cleaned: Array, numbers: dict[str, float]
    ) -> None:
        """Become what was saved; `numbers` are attributes."""
        self._check_parameters()
        self.model_, self.classes_, self.labels_, self.cleaned_ = model, classes, people, cleaned
        self.n_features_in_ = cleaned.shape[1]
        for name, number in numbers.items():
            setattr(self, name, number)
        self._set_components()
        self.classifier_ = self._classifier().fit(self._features(cleaned, None), people)

    def _check_parameters(self) -> None:
        check_choice(self.rule, "rule", choices.FACE_RULES)
        check_choice(self.missing, "missing", choices.FACE_MISSING)
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
        found = np.zeros(data.shape, bool)
        if mask is not None:
            found |= np.broadcast_to(np.asarray(mask, bool), data.shape)
        if self.missing == "saturated":
            found |= missing_pixels(data[:, None], "saturated", self.white_, self.brightest_)[:, 0]
        elif self.missing == "blocks" and self.image_shape is not None:
            images = data.reshape(-1, *check_image_shape(self.image_shape, n_pixels=data.shape[1]))
            found |= missing_pixels(images, "blocks", self.white_, self.brightest_).reshape(data.shape)
        return found

    def _set_components(self) -> None:
        H = self.model_.components_
        norms = np.linalg.norm(H, axis=1, keepdims=True)
        self._norms = np.where(norms > 0, norms, 1)
        self.components_ = H / self._norms
        self._inverse = np.linalg.pinv(self.components_, rcond=CONDITION)

    def _cleans_new(self, missing: Mask) -> bool:
        return self.rule in ("residual", "whitened") or bool(missing.any())

    def _decompose(self, data: Array, missing: Mask) -> Decomposition:
        codes = self.model_.transform(data, weights=~missing) if missing.any() else self.model_.transform(data)
        reconstructions = (codes @ self.model_.components_).astype(data.dtype, copy=False)
        residuals = np.abs(data - reconstructions)
        # at least the scale of the training images, so that an image which fits well is left alone
        scale = np.maximum(noise_scale(residuals, axis=1), self.scale_).astype(data.dtype)
        limit = _limit(QUERY_FACTOR * self.outliers_, scale)
        cleaned = winsorise(data, reconstructions, limit, missing)
        return Decomposition(reconstructions, cleaned, missing | (residuals > self._judged(scale)))

    def _judged(self, scale: Any) -> Any:
        """Return the residual beyond which a pixel is called corrupted: an outlier, and one that can be seen."""
        return np.maximum(JUDGED * scale, VISIBLE * self.white_)

    def _distances(self, data: Array, missing: Mask, parts: Decomposition | None) -> Array:
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

    def _choose_outliers(self, data: Array, missing: Mask, people: NDArray[np.intp]) -> float:
        """Take the limit with which most images that are left out are identified."""
        if np.bincount(people).min() < 2 or len(self.classes_) < 2:
            return OUTLIERS_UNSURE
        scores = []
        for outliers in OUTLIERS:
            cleaned = winsorise(data, self.reconstructions_, _limit(outliers, self.scale_), missing)
            features = self._features(cleaned, None)
            scores.append((left_out(self._classifier(), features, people, image_folds(people))[0] == people).mean())
        return OUTLIERS[int(np.argmax(scores))]

    def _calibrate(self, features: Array, people: NDArray[np.intp]) -> None:
        """Set the threshold so that people who are left out would seldom be accepted."""
        self.threshold_, self.false_rejection_rate_ = 1.0, math.nan
        if len(self.classes_) < STRANGERS_LEAST:
            return
        _, strangers = left_out(self._classifier(), features, people, people_folds(people))
        self.threshold_ = float(np.quantile(strangers, self.unknown_rate))
        if np.bincount(people).min() > 1:
            _, known = left_out(self._classifier(), features, people, image_folds(people))
            self.false_rejection_rate_ = float((known > self.threshold_).mean())


def _limit(outliers: float, scale: Any) -> Any:
    return outliers * scale if 0 < outliers < math.inf else np.full_like(scale, outliers)
