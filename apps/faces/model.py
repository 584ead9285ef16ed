"""Recognition of faces from corrupted training images, as a scikit-learn classifier."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from visionnmf import NMF, choices
from visionnmf._checks import brief, check_choice, check_count, check_image_shape, check_number, shown
from visionnmf.apps.saving import Saveable
from visionnmf.exceptions import ParameterError

from .calibration import MOST_TESTED, Calibration, LeftOut, calibrated, image_folds, left_out, people_folds, some_people
from .classifiers import ClassResidual, Nearest, relative_distance
from .identity import Decomposition, Identity, Parts
from .pixels import grain, missing_pixels, noise_scale, winsorise

__all__ = ["FaceRecognizer"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
ITERATIONS = 100  # of the default model
CALIBRATION = 30  # of those that calibrate: distances and noise are the same within a few per cent
OUTLIERS = (1.5, 3.0, 6.0, 12.0, math.inf)  # what cross-validation chooses among
MISSING = ("blocks", "saturated")  # what is compared with no search at all
NOTICED = 0.005  # share of the pixels that a search must find in the training images to be compared
MOST_CHOOSING = 1000  # images that are missed by nobody in choosing
OUTLIERS_UNSURE = 3.0  # where there is nothing to choose by
QUERY_FACTOR = 2.0  # new images are cleaned less: their errors do not spread to other images
JUDGED = 4.0  # standard deviations of the noise ...
VISIBLE = 0.15  # ... and share of white, beyond which a pixel is called corrupted
WHITENING = 0.1
CONDITION = 1e-2  # components that are so nearly combinations of others are left out of the pseudo-inverse

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
    missing : {"auto", "blocks", "saturated", "none"}, default="auto"
        Which pixels count as missing: even blocks, opaque or in deep shadow; all that are black or white; or none but
        those given. "auto" takes of these three what names most training images by cross-validation, and blocks where
        nothing tells: a black background is no block to fill in, and neither is a dark eye a dead pixel.
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
        Relative distance beyond which :meth:`identify` rejects. With fewer than three people there are no strangers to
        set it by: it then rejects a share `unknown_rate` of left-out images of the known, or, where there are none of
        these either, all.
    false_acceptance_rate_ : float
        Share of strangers' images that pass, by cross-validation: strangers and tested images were left out of the
        model, of cleaning and of the threshold. NaN with fewer than 15 people, whose rates say little.
    false_rejection_rate_ : float
        Share of the known people's images that the threshold rejects, likewise; NaN also where everybody has one image.
    noise_ : ndarray or None [shape=(2, n_measures)]
        Noise of the new images for which both rates hold: least and largest noise scale, as a share of white; share of
        outlying pixels; with `image_shape` the scale of the finest detail, too. :class:`Identity` says of each image
        whether it lies between. None where nothing is announced.
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
        self._choose_missing(data, mask, people)
        missing = self._missing(data, mask)
        self._learn(data, missing, people, self._model(data.shape, ITERATIONS))
        found = calibrated(self._left_out(data, missing), len(self.classes_), self.unknown_rate)
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
        if self.outliers == "auto" and _can_choose(people):
            self.outliers_ = max(OUTLIERS, key=self._scores(data, missing, OUTLIERS).__getitem__)
        limit = _limit(self.outliers_, self.scale_)
        self.corrupted_ = missing | (np.abs(residuals) > self._judged(self.scale_))
        self.cleaned_ = winsorise(data, self.reconstructions_, limit, missing)
        features = self._features(self.cleaned_, codes if self.outliers_ == 0 else None)
        self.classifier_ = self._classifier().fit(features, people)

    def _left_out(self, data: Array, missing: Mask) -> LeftOut:
        """Look at training images with recognizers that saw neither them nor, of strangers, the person."""
        found = []
        for strangers, known in people_folds(self.labels_):
            rest = np.ones(len(data), bool)
            rest[strangers] = rest[known] = False
            if len(np.unique(self.labels_[rest])) < 2:
                continue
            present, people = np.unique(self.labels_[rest], return_inverse=True)
            part = self._part(present, outliers=self.outliers_)
            part._learn(data[rest], missing[rest], people, self._model((int(rest.sum()), data.shape[1]), CALIBRATION))
            new = np.concatenate([strangers[:: -(-len(strangers) // MOST_TESTED) or 1], known])
            parts = part._decompose(data[new], missing[new])
            distances = relative_distance(part._distances(data[new], missing[new], parts))
            found.append(LeftOut(self.labels_[new], np.isin(new, strangers), distances, parts.noise))
        if not found:
            return LeftOut(self.labels_[:0], np.zeros(0, bool), data[:0, 0], np.zeros((0, 3)))
        return LeftOut(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

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
        alike = self._calibration().holds(parts.noise)
        found = []
        for row, nearest in enumerate(self.classes_[distances.argmin(axis=1)].tolist()):
            distance, share = float(relative[row]), float(parts.corrupted[row].mean())
            known = distance <= self.threshold_
            like = bool(alike[row])
            found.append(Identity(nearest if known else None, nearest, distance, self.threshold_, share, like))
        return found

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
        self.missing_, self.missing_scores_ = self.missing, {}
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
        found = np.zeros(data.shape, bool)
        if mask is not None:
            found |= np.broadcast_to(np.asarray(mask, bool), data.shape)
        return found | self._found(data, self.missing_)

    def _found(self, data: Array, missing: str) -> Mask:
        """Find pixels that count as missing."""
        if missing == "saturated":
            return missing_pixels(data[:, None], missing, self.white_, self.brightest_)[:, 0]
        if missing == "blocks" and self.image_shape is not None:
            images = data.reshape(-1, *check_image_shape(self.image_shape, n_pixels=data.shape[1]))
            return missing_pixels(images, missing, self.white_, self.brightest_).reshape(data.shape)
        return np.zeros(data.shape, bool)

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
        limit = _limit(QUERY_FACTOR * self.outliers_, scale)
        cleaned = winsorise(data, reconstructions, limit, missing)
        corrupted = missing | (residuals > self._judged(scale))
        noise = [own[:, 0] / self.white_, outlying]
        if self.image_shape is not None and min(self.image_shape) > 2:
            images = np.where(missing, reconstructions, data).reshape(-1, *self.image_shape)
            noise.append(grain(images) / self.white_)
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

    def _scores(self, data: Array, missing: Mask, limits: tuple[float, ...]) -> dict[float, float]:
        """Return the share of left-out images that are identified with each limit; the first of equals is best."""
        scores = {}
        for outliers in limits:
            cleaned = winsorise(data, self.reconstructions_, _limit(outliers, self.scale_), missing)
            features = self._features(cleaned, None)
            nearest, _ = left_out(self._classifier(), features, self.labels_, image_folds(self.labels_))
            scores[outliers] = float((nearest == self.labels_).mean())
        return scores

    def _choose_missing(self, data: Array, mask: ArrayLike | None, people: NDArray[np.intp]) -> None:
        """Take what names most training images that are left out; blocks where nothing tells."""
        self.missing_scores_: dict[str, float] = {}
        self.missing_ = self.missing if self.missing != choices.FACE_MISSING_AUTO else choices.FACE_MISSING_DEFAULT
        if self.missing != choices.FACE_MISSING_AUTO or not _can_choose(people):
            return
        given = np.zeros(data.shape, bool) if mask is None else np.broadcast_to(np.asarray(mask, bool), data.shape)
        masks = {choice: self._found(data, choice) for choice in (*MISSING, "none")}
        seen = [choice for choice in MISSING if (masks[choice] & ~given).mean() >= NOTICED]
        if not seen:
            return
        rows = some_people(people, MOST_CHOOSING)
        classes, numbers = np.unique(people[rows], return_inverse=True)
        for choice in (*seen, "none"):
            part = self._part(classes, missing=choice)
            missing = (masks[choice] | given)[rows]
            part._learn(data[rows], missing, numbers, self._model((len(rows), data.shape[1]), CALIBRATION))
            limits = OUTLIERS if self.outliers == "auto" else (part.outliers_,)
            self.missing_scores_[choice] = max(part._scores(data[rows], missing, limits).values())
        self.missing_ = max(self.missing_scores_, key=self.missing_scores_.__getitem__)

    def _part(self, classes: NDArray[np.intp], **parameters: Any) -> FaceRecognizer:
        """Return a recognizer of some of the people, for cross-validation; not fitted."""
        part = clone(self).set_params(**parameters)
        part.classes_ = self.classes_[classes]
        part.missing_ = part.missing if part.missing != choices.FACE_MISSING_AUTO else self.missing_
        part.brightest_, part.white_, part.n_features_in_ = self.brightest_, self.white_, self.n_features_in_
        return part


def _can_choose(people: NDArray[np.intp]) -> bool:
    counts = np.bincount(people)
    return len(counts) > 1 and counts.min() > 1


def _limit(outliers: float, scale: Any) -> Any:
    return outliers * scale if 0 < outliers < math.inf else np.full_like(scale, outliers)
