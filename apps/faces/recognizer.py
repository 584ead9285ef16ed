"""Recognition of faces from corrupted training images, as a scikit-learn classifier."""

from __future__ import annotations

import math
import warnings
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from visionnmf import NMF, choices
from visionnmf._checks import check_callable, check_count, check_number, shown
from visionnmf._progress import Progress
from visionnmf.apps.saving import SaveableEstimator
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError

from . import calibration, choosing, cleaning, input_checks, likeness
from .classifiers import relative_distance, relative_distances
from .cleaning import Decomposition
from .comparison import Comparison
from .identities import Identity, Limits, Measures, identities
from .mixture import ALONE, Weights
from .nearest import NearestPerson
from .occlusion import RobustResidual

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Labels = NDArray[np.intp]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
ITERATIONS = 100  # of the default model
CHOOSING_ITERATIONS = 30  # of fits that only serve a choice: distances and noise are equal to a few per cent
OUTLIERS = (1.5, 3.0, 6.0, 12.0, math.inf)  # limits among which cross-validation chooses
OUTLIERS_UNSURE = 3.0  # the limit where there is nothing to choose by
CLEANING = ("auto", "residual", "whitened")  # rules that compare cleaned probes
MISSING = ("blocks", "saturated")  # searches for missing pixels that are compared with no search at all
CLEAN_SCALE, CLEAN_MISSING = 0.02, 0.02  # noise over white, share of missing pixels: up to these a grid is enough
# Integers become float32, which takes half of the time. Values are checked later, because a mask may hide NaN.
FLOATS: dict[str, Any] = {"dtype": [np.float32, np.float64], "order": "C", "ensure_all_finite": False}
# A search is compared if it finds between these shares of the training pixels. If it finds more, it finds what images
# show: of digits with salt and pepper of 0.3, 0.65 to 0.72 are black or white.
NOTICED, MOST_FOUND = 0.005, 0.6


class FaceRecognizer(SaveableEstimator, NearestPerson, BaseEstimator):
    """Identify the person on an image, after training on images that may be corrupted.

    A robust low-rank model of all training images predicts each image. Pixels far from the prediction are pulled
    towards it, and missing pixels are replaced by it. A `rule` then compares new images (probes) with the gallery of
    cleaned training images:

    ==================  ==========================================  ==================================================
    rule                features                                    distance
    ==================  ==========================================  ==================================================
    "auto"              the cleaned images                          "residual", mixed with that of linear
                                                                    discriminants
    "residual"          the cleaned images                          what a person's images leave unexplained
                                                                    (Zhang et al.); noisier probes get a larger ridge
    "occluded"          images; only the gallery is cleaned         visible pixels left unexplained (Deng et al.)
    "whitened"          ``X H+``, whitened                          cosine, nearest image
    "codes"             the model's codes (MahNMF, Algorithm 5)     cosine, nearest image
    "pseudo-inverse"    ``X H+`` (MahNMF, Algorithm 4)              Euclidean, nearest image
    ==================  ==========================================  ==================================================

    ``H+`` is the pseudo-inverse of the components, scaled to unit norm, and codes are scaled to match. The first two
    and "whitened" also clean the probes. With ``outliers=math.inf`` "pseudo-inverse" is the paper's rule; with
    ``outliers=0`` the gallery keeps the model's own codes.

    Parameters
    ----------
    model : estimator or None, default=None
        An estimator with ``fit_transform``, ``transform`` and ``components_``, such as :class:`~visionnmf.NMF`. None
        stands for the Manhattan loss with ``nuclear=1``. Missing pixels need a model whose methods take ``weights``.
    rule : {"auto", "residual", "occluded", "whitened", "codes", "pseudo-inverse"}, default="auto"
        The features and the distance; see the table. With "auto" the mixture of the two distances is chosen by
        cross-validation on the training images.
    n_components : int, default=100
        Of the default model; superfluous components shrink to zero.
    outliers : float or "auto", default="auto"
        How many standard deviations of the noise a training pixel may be away from the model; probes are allowed twice
        as much. "auto" chooses among 1.5, 3, 6, 12 and infinity by cross-validation on the training images.
    missing : {"auto", "blocks", "saturated", "none"}, default="auto"
        Which pixels are missing besides those of a `mask`: even blocks, opaque or in deep shadow; black and white ones;
        or none. "auto" takes the search by which the right people are most probable on left-out training images, and
        "blocks" if nothing can be compared, unless these are more than 60 % of the pixels.
    image_shape : tuple of (int, int) or None, default=None
        Height and width. Blocks are not searched for if it is None.
    unknown_rate : float, default=0.05
        Share of unknown people who may be taken for a known one; sets the threshold.
    thorough : bool, default=False
        Whether all pixels of clean images with more than 1300 pixels set the threshold, instead of a grid of them. It
        takes twice as long. All pixels of noisy images set it in any case.
    calibrate : bool, default=True
        Whether `fit` sets the threshold and the other limits of :meth:`identify`. Without them it takes about half of
        the time, and :meth:`predict` returns the same, but :meth:`identify` needs a threshold.
    random_state : int, RandomState instance or None, default=None
        Seed of the default model.

    Attributes
    ----------
    classes_ : ndarray [shape=(n_people,)]
        The labels.
    labels_ : ndarray of int [shape=(n_samples,)]
        Who is on each training image, as a position in ``classes_``.
    model_, classifier_ : estimator
        The fitted model, and what finds the distances from people.
    components_ : ndarray [shape=(n_components, n_pixels)]
        The model's components, scaled to unit norm.
    missing_, outliers_, mixture_ : str, float, Weights
        What was chosen, or given. The weights of the mixture are those of class residuals and linear discriminants;
        with rules other than "auto" the first is 1.
    missing_scores_, outliers_scores_, mixture_scores_ : dict
        How probable the right person is, by each choice, on training images that were left out: the geometric mean of
        their probabilities, 0 to 1. Empty if there was nothing to choose.
    reconstructions_, cleaned_ : ndarray [shape=(n_samples, n_pixels)]
        The model's reconstructions of the training images, and the training images after cleaning.
    corrupted_ : ndarray of bool [shape=(n_samples, n_pixels)]
        Training pixels that are missing, or further from the model than 4 ``scale_`` and 15 % of white.
    corrupted_rate_ : float
        Their mean share on left-out training images of known people, with which to compare new images; or NaN.
    scale_ : float
        Standard deviation of the noise of training pixels.
    white_, brightest_, background_ : float
        The value of white (1, 255 or 65535, whichever the largest training pixel suggests), that pixel, and the value
        of an even background; NaN without one.
    threshold_ : float
        Relative distance beyond which :meth:`identify` rejects, by cross-validation on left-out people. With two people
        it rejects a share `unknown_rate` of their own images; with one, or one image each, everything. NaN without
        `calibrate`.
    threshold_pixels_ : ndarray of int
        The pixels that set the threshold.
    false_acceptance_rate_, false_rejection_rate_ : float
        Shares of images of unknown people that pass, and of known people that are rejected, by cross-validation. NaN if
        fewer than three people, or fewer than two with several images, can tell.
    rate_intervals_ : ndarray [shape=(2, 2)]
        90 % confidence intervals of these rates, ``[[low, high], [low, high]]``; 0 to 1 where a rate is NaN.
    noise_ : ndarray or None [shape=(2, n_measures)]
        Range of the noise measures (see :class:`Decomposition`) of images like the training images, for which both
        rates hold. None with fewer than 50 images to tell by.
    unlike_ : ndarray [shape=(n_people,)]
        Limit of the unlikeness (:func:`.likeness.unlikeness`) beyond which :meth:`identify` does not name a person: 1.1
        times the 0.99 quantile of left-out images of people who stay, and for a person who was added at least
        ``faceless_``. Infinite without an `image_shape` and with fewer than ten images to tell by.
    faceless_ : float
        The same of people who are left out: a picture beyond this and the nearest person's limit is probably no face.
    unexplained_ : float
        Share of an image's coarse contrast beyond which the model explains so little of it that it is noise.
    n_features_in_, feature_names_in_
        As in scikit-learn. :func:`load` says which attributes a model that was read from a file does not have.

    References
    ----------
    N. Guan, D. Tao, Z. Luo, J. Shawe-Taylor, "MahNMF: Manhattan non-negative matrix factorization", 2012, section 5.2.
    L. Zhang, M. Yang, X. Feng, "Sparse representation or collaborative representation: ...?", ICCV 2011.
    W. Deng, J. Hu, J. Guo, "Extended SRC: undersampled face recognition via intraclass variant dictionary", 2012.

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

    saved_attributes = (
        *("classes_", "labels_", "cleaned_", "model_", "missing_", "scale_", "white_", "brightest_", "threshold_"),
        *("false_acceptance_rate_", "false_rejection_rate_", "background_", "corrupted_rate_", "mixture_", "outliers_"),
        *("faceless_", "unexplained_", "unlike_", "rate_intervals_", "noise_"),
    )

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
        thorough: bool = False,
        calibrate: bool = True,
        random_state: Any = None,
    ) -> None:
        self.model = model  # an estimator, or None for the default NMF
        self.rule = rule  # how probes are compared with the gallery
        self.n_components = n_components  # of the default model
        self.outliers = outliers  # standard deviations that a pixel may be away from the model, or "auto"
        self.missing = missing  # the search for missing pixels, or "auto"
        self.image_shape = image_shape  # (height, width)
        self.unknown_rate = unknown_rate  # share of unknown people who may pass the threshold
        self.thorough = thorough  # whether cross-validation uses all pixels of large images
        self.calibrate = calibrate  # whether to set the threshold of unknown people, by cross-validation
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that images must not be negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def fit(
        self, X: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None, progress: Progress | None = None
    ) -> FaceRecognizer:
        """Learn people `y` from images as the rows of `X`, in which float64 stays float64, integers become float32.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        y : array-like [shape=(n_samples,)]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            Pixels to count as missing, besides those that `missing` finds. Their values, even NaN, do not matter.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` after each fit of a model, and each iteration of the default one
            that learns the people. The stages choose the search for missing pixels, learn, and set the threshold.

        Raises
        ------
        ValueError
            If a parameter is not allowed, or `X`, `y` and `mask` do not fit together.
        """
        step = check_callable(progress, "progress") or (lambda *_: None)
        self._check_parameters()
        input_checks.check_images(X)
        input_checks.check_labels(y, X)
        data, labels = validate_data(self, X, y, **FLOATS)
        data, given = self._masked(data, mask)  # missing pixels by the caller, besides those that a search finds
        # Two of each, because scikit-learn takes labels of which most are different for a regression.
        check_classification_targets(np.repeat(np.unique(labels), 2))
        self.classes_, people = np.unique(labels, return_inverse=True)
        self.brightest_ = float(data.max(initial=0))  # the largest grey value
        self.white_ = input_checks.white_of(self.brightest_)  # the value of white in these units: 1, 255 or 65535
        self.background_ = math.nan  # the value of an even background; NaN if there is none
        if self.image_shape is not None:
            seen = cleaning.as_images(cleaning.hidden(data, given), self.image_shape)
            self.background_ = cleaning.flat_background(seen, self.brightest_)
        if given.all():
            raise ParameterError("mask must leave pixels of the training images; got True for all of them")
        input_checks.warn_of_shared(data, labels, input_checks.warn_of_empty(data, given, labels))
        self.missing_, self.missing_scores_ = self._choose_missing(data, given, people, step)
        missing = given | self._find_missing(data, given, self.missing_)
        if self.missing == choices.FACE_MISSING_AUTO and (missing & ~given).mean() < NOTICED:
            missing = given  # so few are chance, and leaving them out would give another fit
        model = self._model(data.shape, ITERATIONS, lambda done, _: step("learning the people", done, ITERATIONS))
        self._learn(data, missing, people, model)
        # How recognizers judged training images that they had not seen sets the threshold and all limits.
        found, self.threshold_pixels_ = calibration.NONE, np.empty(0, np.intp)  # `_left_out` sets the pixels it uses
        if self.calibrate:
            input_checks.warn_of_few(len(self.classes_), self.unknown_rate)
            found = calibration.calibrated(self._left_out(data, missing, step), len(self.classes_), self.unknown_rate)
        self.threshold_, self.noise_ = found.threshold, found.noise  # and the range of usual noise measures, or None
        self.false_acceptance_rate_, self.false_rejection_rate_ = found.acceptance.mean, found.rejection.mean
        self.rate_intervals_ = np.array([found.acceptance[1:], found.rejection[1:]])  # low and high, without the mean
        # Beyond `unlike_`, how unlike the training images an image may be, it gets no name; beyond `faceless_` it is
        # probably not a face. Each person has a limit of their own, because `add` sets others for further people.
        self.unlike_, self.faceless_ = np.full(len(self.classes_), found.unlike), found.faceless
        self.unexplained_, self.corrupted_rate_ = found.unexplained, found.corrupted  # beyond the first, it is noise
        return self

    def _model(self, shape: tuple[int, int], iterations: int, callback: Any = None) -> Any:
        """Return an unfitted model for images of `shape`, (n_images, n_pixels); the default one has `iterations`."""
        if self.model is not None:
            return clone(self.model)
        # without what would only be read by a user of the model itself; docs/decisions/faces.md has the times
        options: dict[str, Any] = {"exact_codes": False, "measure_optimality": False, "callback": callback}
        model = NMF(
            min(self.n_components, *shape), nuclear=1.0, max_iter=iterations, tol=0, random_state=self.random_state,
            **options,
        )  # fmt: skip
        return model.set_output(transform="default")  # codes stay arrays, whatever scikit-learn's global setting is

    @one_blas_thread()  # here and below: most matrices are so small that threads wait for each other
    def _learn(self, data: Array, missing: Mask, people: Labels, model: Any, mixture: Weights | None = None) -> None:
        """Fit all but the threshold: the model, the cleaned images and the classifier.

        `data` are the images (n_images, n_pixels), `missing` a mask of that shape, and `people` (n_images,) positions
        in ``classes_``. `model` is unfitted; some take no weights. With no `mixture` of distances one is chosen.
        """
        self.labels_, self.mixture_ = people, mixture or ALONE
        self.mixture_scores_: dict[Weights, float] = {}
        codes = model.fit_transform(data, weights=~missing) if missing.any() else model.fit_transform(data)
        self.model_ = model if self.model is not None else model.set_params(exact_codes=True, callback=None)
        self._set_comparison()  # sets `_comparison`, what of images is compared and how
        self.reconstructions_ = (codes @ model.components_).astype(data.dtype, copy=False)
        residuals = data - self.reconstructions_
        self.scale_ = float(cleaning.noise_scale(residuals[~missing])) if not missing.all() else 0.0
        # the limit of cleaning: standard deviations of the noise that a pixel may be away from the model
        self.outliers_ = OUTLIERS_UNSURE if self.outliers == "auto" else float(self.outliers)
        self.outliers_scores_: dict[float, float] = {}
        if self.outliers == "auto" and choosing.can_choose(people):
            rows = choosing.rows_to_choose_by(people)[0]  # without who is on them, which `labels_` has
            self.outliers_scores_ = self._limit_scores(data, missing, OUTLIERS, rows)
            self.outliers_ = max(self.outliers_scores_, key=self.outliers_scores_.__getitem__)  # first of equals
        limit = cleaning.pull_limit(self.outliers_, self.scale_)
        self.corrupted_ = missing | (np.abs(residuals) > cleaning.corruption_limit(self.scale_, self.white_))
        self.cleaned_ = cleaning.winsorise(data, self.reconstructions_, limit, missing)
        if self.rule == "auto" and mixture is None and choosing.can_choose(people):
            rows, few = choosing.rows_to_choose_by(people)  # `few` says who is on them
            self.mixture_scores_ = choosing.mixture_scores(self.cleaned_[rows], few)
            self.mixture_ = max(self.mixture_scores_, key=self.mixture_scores_.__getitem__)
        # If outliers are 0, cleaned images are the model's reconstructions, whose codes need not be computed again.
        features = self._comparison.features(self.cleaned_, codes if self.outliers_ == 0 else None)
        self.classifier_ = self._comparison.classifier(self.mixture_).fit(features, people)

    def _set_comparison(self) -> None:
        """Set what depends on the fitted model: what finds codes, what the rule compares, components of unit norm."""
        self._encoder = self.model_ if self.model is not None else copy(self.model_).set_params(exact_codes=False)
        self._comparison = Comparison(self.rule, self.model_, self.image_shape)
        self.components_ = self._comparison.components

    def _fit_classifier(self) -> None:
        """Fit the classifier to the cleaned images of everybody."""
        classifier = self._comparison.classifier(self.mixture_)
        self.classifier_ = classifier.fit(self._comparison.features(self.cleaned_), self.labels_)

    def _limit_scores(
        self, data: Array, missing: Mask, limits: tuple[float, ...], rows: Labels | slice = slice(None)
    ) -> dict[float, float]:
        """Return for each of the `limits` of cleaning how probable the right person is on left-out images `rows`."""
        people = np.unique(self.labels_[rows], return_inverse=True)[1]  # who is on them, numbered without gaps
        pulled = {outliers: cleaning.pull_limit(outliers, self.scale_) for outliers in limits}
        images = data[rows], self.reconstructions_[rows], missing[rows]
        # `_comparison` has the features of images and the classifier that the rule compares by
        return choosing.limit_scores(self._comparison, *images, people, pulled)

    @one_blas_thread()
    def _choose_missing(self, data: Array, given: Mask, people: Labels, step: Progress) -> tuple[str, dict[str, float]]:
        """Return the search for missing pixels to use, and with "auto" how probable the right person is by each.

        `given` marks pixels that the caller calls missing. `people` (n_images,) are positions in ``classes_``.
        """
        if not cleaning.takes_weights(self.model):
            if self.missing not in (choices.FACE_MISSING_AUTO, "none"):
                raise ParameterError(
                    f"missing must be 'auto' or 'none' with {shown(self.model)}, which takes no weights; got "
                    f"{self.missing!r}"
                )
            return "none", {}
        if self.missing != choices.FACE_MISSING_AUTO:
            return self.missing, {}
        # With searches that find hardly anything, scores would differ by chance only.
        masks = {choice: self._find_missing(data, given, choice) for choice in (*MISSING, "none")}
        seen = [choice for choice in MISSING if NOTICED <= masks[choice].mean() <= MOST_FOUND]
        if not seen or not choosing.can_choose(people):
            noticed_too_much = masks[choices.FACE_MISSING_DEFAULT].mean() > MOST_FOUND
            return "none" if noticed_too_much else choices.FACE_MISSING_DEFAULT, {}
        rows, _ = choosing.rows_to_choose_by(people)
        scores = {}
        for number, choice in enumerate([*seen, "none"]):
            step("choosing missing pixels", number, len(seen) + 1)
            missing = (masks[choice] | given)[rows]
            part = self._fitted_part(data[rows], missing, people[rows], {"missing": choice}, ALONE)
            # The scores of each limit of cleaning; if the limit was given, only its score, found here. Each
            # search is judged at its best limit, with which it would be used.
            found = part.outliers_scores_ or part._limit_scores(data[rows], missing, (part.outliers_,))
            scores[choice] = max(found.values())
        step("choosing missing pixels", len(scores), len(scores))
        return max(scores, key=scores.__getitem__), scores

    @one_blas_thread()
    def _left_out(self, data: Array, missing: Mask, step: Progress) -> calibration.LeftOut:
        """Judge left-out training images by recognizers that saw neither them nor the people who play unknown.

        In each fold, `unknown` are the images of people who are left out, and `known` left-out images of the others.
        """
        people, found = self.labels_, []
        chosen: dict[str, Any] = {"outliers": self.outliers_, "missing": self.missing_}
        grain = self._grain(np.where(missing, self.reconstructions_, data))  # noise by finest detail, of all pixels
        pixels = self.threshold_pixels_ = np.arange(data.shape[1])
        # A grid of pixels saves time, but noise (`scale_`) cancels out less over few: the threshold would be too high.
        grid = not self.thorough and self.rule != "occluded"  # which needs neighbouring pixels
        if grid and self.scale_ <= CLEAN_SCALE * self.white_ and missing.mean() <= CLEAN_MISSING:
            pixels = self.threshold_pixels_ = calibration.pixel_grid(self.image_shape, data.shape[1])
        data, missing = data[:, pixels], missing[:, pixels]
        folds = list(calibration.people_folds(people))
        for number, (unknown, known) in enumerate(folds):
            step("setting the threshold", number, len(folds))
            rest = np.delete(np.arange(len(data)), np.concatenate([unknown, known]))
            if len(np.unique(people[rest])) < 2:  # a relative distance needs somebody else
                continue
            part = self._fitted_part(data[rest], missing[rest], people[rest], chosen, self.mixture_)
            if self.rule == "occluded":  # parts do not know the shape of images
                part.classifier_ = RobustResidual(self.image_shape).fit(part.cleaned_, part.labels_)
            # Of many images of unknown people, every second, third, ... is tested.
            new = np.concatenate([unknown[:: max(1, -(-len(unknown) // calibration.MOST_TESTED))], known])
            parts = part._decompose(data[new], missing[new])  # what the part makes of images that it has not seen
            distances = relative_distance(part._distances(data[new], missing[new], parts))
            noise, share = np.hstack([parts.noise, grain[new]]), parts.corrupted.mean(axis=1)
            images = data[new], missing[new], parts.reconstructions  # for unlikeness, and the share unexplained
            unlike = likeness.unlikeness_of(self.image_shape, self.white_, *images, grain[new], pixels)
            found.append(calibration.LeftOut(people[new], np.isin(new, unknown), distances, noise, *unlike, share))
        step("setting the threshold", len(folds), len(folds))
        if not found:  # the same fields, of no images
            return calibration.LeftOut(people[:0], np.zeros(0, bool), data[:0, 0], np.zeros((0, 4)), *np.zeros((3, 0)))
        return calibration.LeftOut(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def _fitted_part(
        self, data: Array, missing: Mask, people: Labels, parameters: dict[str, Any], mixture: Weights
    ) -> FaceRecognizer:
        """Return a recognizer with these parameters, fitted without a threshold to some images of some people.

        The images may have fewer pixels than those of this recognizer. What depends on all images, such as the value of
        white, is taken over from it. `parameters` replace its own, and the `mixture` of distances is not chosen.
        """
        part = clone(self).set_params(image_shape=None, **parameters)
        present, numbers = np.unique(people, return_inverse=True)
        part.classes_, part.missing_ = self.classes_[present], part.missing  # names the search that found `missing`
        for name in ("brightest_", "white_", "background_", "n_features_in_"):
            setattr(part, name, getattr(self, name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations are enough to choose
            part._learn(data, missing, numbers, part._model(data.shape, CHOOSING_ITERATIONS), mixture)
        return part

    def add(self, X: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None) -> FaceRecognizer:
        """Learn further people, or further images of known people, without training again.

        The model and the threshold stay as they are, and the images are cleaned like probes. Train again to add many
        people, because the model does not know what they have in common. The parameters are those of :meth:`fit`.

        Returns
        -------
        FaceRecognizer
        """
        data, missing = self._check_new(X, mask)
        input_checks.check_labels(y, data)
        labels = column_or_1d(y)
        check_consistent_length(data, labels)
        input_checks.check_like_labels(labels, self.classes_)
        input_checks.warn_of_empty(data, missing, labels)
        parts = self._decompose(data, missing)
        unlike, _ = self._unlikeness(data, missing, parts)  # how unlike the training images each is
        limits = dict(zip(self.classes_, self.unlike_, strict=True))  # of unlikeness, by person
        limits |= likeness.limits_of_added(limits, labels, unlike, self.faceless_)  # `faceless_` is their least
        everybody = np.concatenate([self.classes_[self.labels_], labels])
        self.classes_, self.labels_ = np.unique(everybody, return_inverse=True)
        self.unlike_ = np.array([limits[person] for person in self.classes_])
        self.cleaned_ = np.concatenate([self.cleaned_, parts.cleaned.astype(self.cleaned_.dtype, copy=False)])
        self._fit_classifier()
        return self

    def distances(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return the distance of each image from each person.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            Pixels to count as missing, besides those that `missing` finds. Their values, even NaN, do not matter.

        Returns
        -------
        ndarray [shape=(n_samples, n_people), >= 0]
            In the order of ``classes_``; comparable within a row.
        """
        data, missing = self._check_new(X, mask)
        cleans = self.rule in CLEANING or bool(missing.any())  # other rules compare probes as they are
        return self._distances(data, missing, self._decompose(data, missing) if cleans else None)

    def identify(
        self, X: ArrayLike, mask: ArrayLike | None = None, *, threshold: float | None = None, top: int = 1
    ) -> list[Identity]:
        """Identify the person on each image, or report that it is nobody known, or unlike the training images.

        Parameters
        ----------
        X, mask : array-like [shape=(n_samples, n_pixels)]
            As for :meth:`distances`.
        threshold : float or None, default=None, >= 0
            Replaces `threshold_`; the reported error rates do not hold then.
        top : int, default=1
            Number of nearest people in each ranking.

        Returns
        -------
        list of Identity

        Raises
        ------
        ParameterError
            If there is no threshold, because the recogniser was fitted with ``calibrate=False``.
        """
        data, missing = self._check_new(X, mask)
        input_checks.check_calibrated(self.threshold_ if threshold is None else threshold)
        limit = self.threshold_ if threshold is None else check_number(threshold, "threshold", 0)
        top = min(check_count(top, "top"), len(self.classes_))
        return self._identities(data, missing, self._decompose(data, missing), limit, top, rates_hold=threshold is None)

    def _identities(
        self, data: Array, missing: Mask, parts: Decomposition, limit: float, top: int = 1, rates_hold: bool = True
    ) -> list[Identity]:
        """Return who is on images, of which `_decompose` made `parts`, with names up to the distance `limit`."""
        alike = calibration.holds(self.noise_, parts.noise)  # which images are as noisy as those of training, or None
        measures = Measures(
            relative_distances(self._distances(data, missing, parts)),  # over the harmonic mean of those from all
            parts.corrupted.mean(axis=1),  # the share of pixels that are judged corrupted
            *self._unlikeness(data, missing, parts),  # how unlike the training images; share that is unexplained
            input_checks.empty_images(data, missing),  # the numbers of images that show nothing
            None if alike is None else alike & rates_hold,  # whether error rates hold: not with a caller's limit
        )
        limits = Limits(limit, self.unlike_, self.faceless_, self.unexplained_)  # beyond the last two: no face, noise
        return identities(self.classes_, measures, limits, top)  # each with the `top` nearest people

    def explain(self, X: ArrayLike, mask: ArrayLike | None = None) -> Decomposition:
        """Return what the recognizer makes of images before it compares them with the gallery.

        The parameters are those of :meth:`distances`. Pixels missing or unlike the model count as corrupted.

        Returns
        -------
        Decomposition
        """
        return self._decompose(*self._check_new(X, mask))

    def _check_new(self, X: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Mask]:
        """Return new images, and the mask of missing pixels: those of `mask`, and those that the search finds."""
        check_is_fitted(self)
        input_checks.check_same_shape(self.image_shape, self._comparison.image_shape)  # must stay that of fit
        input_checks.check_images(X, self.image_shape)
        data, given = self._masked(validate_data(self, X, reset=False, **FLOATS), mask)
        input_checks.check_scale(data, self.white_)
        return data, given | self._find_missing(data, given, missing=self.missing_)

    def _masked(self, data: Array, mask: ArrayLike | None) -> tuple[Array, Mask]:
        """Return checked images with 0 under the mask that the caller gave, and this mask in their shape.

        Whatever lies under the mask, even NaN, is gone before anything is checked or measured.
        """
        if mask is not None and not cleaning.takes_weights(self.model):
            raise ParameterError(f"mask must be None with {shown(self.model)}, which takes no weights; got a mask")
        given = input_checks.checked_mask(mask, data.shape)
        data = cleaning.hidden(data, given, 0)
        input_checks.check_values(data)
        return data, given

    def _find_missing(self, data: Array, given: Mask, missing: str) -> Mask:
        """Return the pixels that the search `missing`, such as "blocks", finds where the mask `given` is false."""
        values = self.white_, self.brightest_, self.background_  # white, the largest training pixel, an even background
        return cleaning.found_in_rows(cleaning.hidden(data, given), self.image_shape, missing, *values)

    @one_blas_thread()
    def _decompose(self, data: Array, missing: Mask) -> Decomposition:
        """Reconstruct new images, clean them, find corrupted pixels, and measure the noise of each image.

        `data` and `missing` are (n_images, n_pixels). `_encoder` is the model, in the form that finds codes.
        """
        known = self.scale_, self.outliers_, self.white_
        return cleaning.decomposed(self._encoder, data, missing, *known, self.image_shape)

    def _grain(self, data: Array) -> Array:
        """Return the noise of images by their finest detail, over white: (n_images, 1), or (n_images, 0) if unknown."""
        return cleaning.grain_of_rows(data, self.image_shape) / self.white_

    def _unlikeness(self, data: Array, missing: Mask, parts: Decomposition) -> tuple[Array, Array]:
        """Return how unlike the training images decomposed images are, and the share unexplained; both (n_images,)."""
        images = data, missing, parts.reconstructions
        return likeness.unlikeness_of(self.image_shape, self.white_, *images, parts.grain)

    @one_blas_thread()
    def _distances(self, data: Array, missing: Mask, parts: Decomposition | None) -> Array:
        """Return the distances (n_images, n_people) of new images; without `parts` they are not cleaned.

        Rules in CLEANING compare images with outliers pulled to the model, ``parts.cleaned``. The others compare images
        as they are, but for missing pixels. `_comparison` turns images into what the rule compares, such as codes.
        """
        if isinstance(self.classifier_, RobustResidual):  # probes as they are: it finds what is covered
            return self.classifier_.distances(data, missing)
        if parts is not None:
            data = parts.cleaned if self.rule in CLEANING else np.where(missing, parts.reconstructions, data)
        return self.classifier_.distances(self._comparison.features(data))

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; the reader of model files calls this method."""
        input_checks.check_parameters(self.get_params(deep=False))

    def _check_state(self) -> None:
        """Check the fields read from a file (ValueError if they disagree), and compute what is not stored."""
        self._check_parameters()
        input_checks.check_fitted(self)
        self.n_features_in_ = self.cleaned_.shape[1]
        self.missing_scores_, self.outliers_scores_, self.mixture_scores_ = {}, {}, {}  # files have none
        self._set_comparison()
        self._fit_classifier()
