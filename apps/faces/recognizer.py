"""Recognition of faces from corrupted training images, as a scikit-learn classifier."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from visionnmf import NMF, choices
from visionnmf._checks import (
    check_callable,
    check_choice,
    check_count,
    check_flag,
    check_image_shape,
    check_labels,
    check_number,
    check_saved,
    check_texts,
    check_type,
    shown,
)
from visionnmf._progress import Progress
from visionnmf.apps.saving import SaveableEstimator
from visionnmf.engine.blocks import one_blas_thread
from visionnmf.exceptions import ParameterError

from . import distances as by_distance, images as of_images
from .distances import ALONE, LeftOut, Mixture, Weights, relative_distances
from .identities import Identity
from .images import Decomposition
from .occlusion import LEAST_SIDE, CoveredFaces

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Labels = NDArray[np.intp]

# Chosen on splits 0 and 1 of ORL and split 0 of Extended Yale B; docs/decisions/faces.md has the tables.
ITERATIONS = 100  # of the model
CHOOSING_ITERATIONS = 30  # of fits that only serve a choice: distances and noise are equal to a few per cent
OUTLIERS = (1.5, 3.0, 6.0, 12.0, math.inf)  # limits among which cross-validation chooses
OUTLIERS_UNSURE = 3.0  # the limit where there is nothing to choose by
MISSING = ("blocks", "saturated")  # searches for missing pixels that are compared with no search at all
CLEAN_SCALE, CLEAN_MISSING = 0.02, 0.02  # noise over white, share of missing pixels: up to these a grid is enough
# Integers become float32, which takes half of the time. Values are checked later, because a mask may hide NaN.
FLOATS: dict[str, Any] = {"dtype": [np.float32, np.float64], "order": "C", "ensure_all_finite": False}
# A search is compared if it finds between these shares of the training pixels. If it finds more, it finds what images
# show: of digits with salt and pepper of 0.3, 0.65 to 0.72 are black or white.
NOTICED, MOST_FOUND = 0.005, 0.6
FEW = "y has (one person|two people|three people)"
FEW_PEOPLE = (
    "y has one person, so that identify will name nobody",
    "y has two people, who do not show how unknown people differ: the threshold rejects {rate:.0%} of the images of "
    "these two, and most unknown people may pass",
    # an unknown fourth person is as likely as each of the three to be the least unlike the others
    "y has three people, of whom each can play unknown: of other unknown people a quarter or more may pass",
)
MAX_NAMES = 64 << 20  # bytes of the array of names of a file, where each takes as many as the longest
# fitted attributes that are NaN where nothing tells them, and that are infinite where nothing limits them
RATES = ("threshold_", "false_acceptance_rate_", "false_rejection_rate_", "background_", "corrupted_rate_")
LIMITS = ("outliers_", "faceless_", "unexplained_")


@dataclass(eq=False, repr=False)
class FaceRecognizer(SaveableEstimator, ClassifierMixin, BaseEstimator):
    """Identify the person on an image, after training on images that may be corrupted.

    A robust low-rank model of all training images, :class:`~visionnmf.NMF` with the Manhattan loss and ``nuclear=1``,
    predicts each image. Pixels far from the prediction are pulled towards it, and missing pixels are replaced by it. A
    `rule` then compares new images (probes) with the gallery of cleaned training images. Copies of one photograph, also
    encoded again, resized or a little brighter, count as one image where images are left out to choose or to judge.

    Parameters
    ----------
    rule : {"auto", "residual"}, default="auto"
        The distance: "residual" is what a person's images leave unexplained of the cleaned probe (Zhang et al.);
        noisier probes get a larger ridge. "auto" mixes it with that of linear discriminants, as cross-validation on the
        training images chooses; if nobody is clearly the nearest, it compares what is left without parts that may be
        covered, and counts visible pixels that are left unexplained (Deng et al.). This needs an `image_shape` of at
        least 16 × 16 pixels.
    n_components : int >= 1, default=100
        Of the model; superfluous components shrink to zero.
    outliers : float > 0 or "auto", default="auto"
        How many standard deviations of the noise a training pixel may be away from the model; probes are allowed twice
        as much. "auto" chooses among 1.5, 3, 6, 12 and infinity by cross-validation on the training images.
    missing : {"auto", "blocks", "saturated", "none"}, default="auto"
        Which pixels are missing besides those of a `mask`: even blocks, opaque or in deep shadow; black and white ones;
        or none. "auto" takes the search by which the right people are most probable on left-out training images, and
        "blocks" if nothing can be compared, unless these are more than 60 % of the pixels.
    image_shape : tuple of (int, int) or None, default=None
        Height and width, without which blocks are not searched for.
    unknown_rate : float in (0, 1), default=0.05
        Share of unknown people who may be taken for a known one; sets the threshold.
    calibrate : bool, default=True
        Whether `fit` sets the threshold and the other limits of :meth:`identify`. Without them it takes about half of
        the time, and :meth:`predict` returns the same, but :meth:`identify` needs a threshold.
    random_state : int, RandomState instance or None, default=None
        Seed of the model.

    Attributes
    ----------
    classes_ : ndarray [shape=(n_people,)]
        The labels.
    labels_, copies_ : ndarray of int
        Who is on each training image, as a position in ``classes_``; and the numbers of the training images that are
        copies of an earlier image of the same person.
    model_, classifier_
        The fitted model, and what finds the distances from people.
    components_ : ndarray [shape=(n_components, n_pixels), >= 0]
        The model's components, scaled to unit norm.
    missing_, outliers_, mixture_ : str, float > 0, Weights
        What was chosen, or given. The weights of the mixture are those of class residuals and linear discriminants;
        with rules other than "auto" the first is 1.
    missing_scores_, outliers_scores_, mixture_scores_ : dict
        How probable the right person is, by each choice, on training images that were left out: the geometric mean of
        their probabilities, 0 to 1. Empty if there was nothing to choose.
    reconstructions_, cleaned_ : ndarray [shape=(n_samples, n_pixels), >= 0]
        The model's reconstructions of the training images, and the training images after cleaning.
    digests_ : ndarray of int64 [shape=(n_samples,)]
        Digests of the training images as they were given, by which :meth:`add` knows them again.
    scale_ : float >= 0
        Standard deviation of the noise of training pixels.
    corrupted_ : ndarray of bool [shape=(n_samples, n_pixels)]
        Training pixels that are missing, or further from the model than 4 ``scale_`` and 15 % of white.
    corrupted_rate_ : float in [0, 1]
        Their mean share on left-out training images of known people, with which to compare new images; or NaN.
    white_, brightest_, background_ : float
        The value of white (1, or that of 8, 10, 12, 14 or 16 bits, as the largest training pixels suggest), the largest
        pixel, and the value of an even background; NaN without one.
    threshold_, threshold_pixels_ : float >= 0, ndarray of int
        Relative distance beyond which :meth:`identify` rejects, by cross-validation on left-out people, and the pixels
        that set it. With two people it rejects a share `unknown_rate` of their own images; with one, everything. NaN
        without `calibrate`.
    false_acceptance_rate_, false_rejection_rate_ : float in [0, 1]
        Shares of images of unknown people that pass, and of known people that are rejected, by cross-validation. NaN if
        fewer than three people, or fewer than two with several images, can tell.
    rate_intervals_ : ndarray [shape=(2, 2), in [0, 1]]
        90 % confidence intervals of these rates, ``[[low, high], [low, high]]``; 0 to 1 where a rate is NaN. They hold
        for images taken like the training images, and not for known people at a later time or in another light.
    left_out_ : LeftOut
        The images that were left out to set the threshold: ``distances`` from the nearest person, and whether that
        person was ``unknown``, as :class:`~visionnmf.plotting.ThresholdDisplay` draws them. Files have none.
    noise_ : ndarray or None [shape=(2, n_measures)]
        Range of the noise measures (see :class:`Decomposition`) of images like the training images, for which both
        rates hold. None with fewer than 50 images to tell by.
    unlike_ : ndarray [shape=(n_people,), > 0]
        Limit of the unlikeness (:func:`.images.unlikeness`) beyond which :meth:`identify` does not name a person: 1.1
        times the 0.99 quantile of left-out images of people who stay, and for a person who was added at least
        ``faceless_``. Infinite without an `image_shape` and with fewer than ten images to tell by.
    faceless_ : float > 0
        The same of people who are left out: a picture beyond this and the nearest person's limit is probably no face.
        Infinite if fewer than three people, or ten images of them, can tell; then no picture is said to be no face.
    unexplained_ : float > 0
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
        *("faceless_", "unexplained_", "unlike_", "rate_intervals_", "noise_", "digests_"),
    )

    _: KW_ONLY
    rule: str = choices.FACE_RULE_DEFAULT
    n_components: int = choices.FACE_COMPONENTS
    outliers: float | str = "auto"
    missing: str = choices.FACE_MISSING_AUTO
    image_shape: tuple[int, int] | None = None
    unknown_rate: float = choices.FACE_UNKNOWN_RATE
    calibrate: bool = True
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that images must not be negative."""
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        mask: ArrayLike | None = None,
        progress: Progress | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> FaceRecognizer:
        """Learn people `y` from images as the rows of `X`, in which float64 stays float64, integers become float32.

        Parameters
        ----------
        X : array-like [shape=(n_samples, n_pixels), >= 0, finite]
        y : array-like [shape=(n_samples,)]
        mask : array-like of bool [shape=(n_samples, n_pixels)], optional
            Pixels to count as missing, besides those that `missing` finds. Their values, even NaN, do not matter.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` after each fit of a model, and each iteration of the one that
            learns the people. The stages choose the search for missing pixels, learn, and set the threshold.
        names : sequence of str, optional
            What warnings call the images; by default their numbers.

        Raises
        ------
        ValueError
            If a parameter is not allowed, or `X`, `y` and `mask` do not fit together.
        """
        step = check_callable(progress, "progress") or (lambda *_: None)
        data, given, labels = self._check_training(X, y, mask)
        _check_names(names, data)
        if self.calibrate:
            warn_of_few(len(self.classes_), self.unknown_rate)
        # Copies would recognise each other where images are left out.
        different = of_images.different_images(data, given, self.labels_, self.image_shape)
        self.copies_ = np.delete(np.arange(len(data)), different)
        for sentence in of_images.doubts_of_training(data, given, labels, self.copies_, names):
            warnings.warn(sentence, UserWarning, stacklevel=2)
        self.digests_ = of_images.digests(data, self.white_)
        self._learn(data, given, different, step)
        return self

    @one_blas_thread()  # here and below: most matrices are so small that threads wait for each other
    def _learn(self, data: Array, given: Mask, different: Labels, step: Progress) -> None:
        """Reduce and clean the images, choose a distance, and set the threshold; only `different` images judge."""
        rows, people = by_distance.rows_to_choose_by(self.labels_[different])  # `people` are on these rows
        rows, can_choose = different[rows], by_distance.can_choose(self.labels_[different])
        self.missing_, self.missing_scores_ = self._choose_missing(
            data, given, rows, people if can_choose else None, step
        )
        missing = given | self._find_missing(data, given, self.missing_)
        if self.missing == choices.FACE_MISSING_AUTO and (missing & ~given).mean() < NOTICED:
            missing = given  # so few are chance, and leaving them out would give another fit

        self.model_ = self._new_model(data.shape, ITERATIONS)
        self.model_.set_params(callback=lambda done, _: step("learning the people", done, ITERATIONS))
        self.reconstructions_, self.scale_ = of_images.fitted_to(self.model_, data, missing)
        self.model_.set_params(exact_codes=True, callback=None)
        limit = of_images.corruption_limit(self.scale_, self.white_)
        self.corrupted_ = missing | (np.abs(data - self.reconstructions_) > limit)

        self.outliers_ = OUTLIERS_UNSURE if self.outliers == "auto" else float(self.outliers)
        self.outliers_scores_: dict[float, float] = {}
        if self.outliers == "auto" and can_choose:
            parts = data[rows], self.reconstructions_[rows], missing[rows]
            self.outliers_scores_ = by_distance.limit_scores(*parts, people, self.scale_, OUTLIERS)
            self.outliers_ = max(self.outliers_scores_, key=self.outliers_scores_.__getitem__)  # first of equals
        self.cleaned_ = of_images.winsorise(data, self.reconstructions_, self.outliers_, self.scale_, missing)

        self.mixture_ = ALONE
        self.mixture_scores_: dict[Weights, float] = {}
        if self.rule == "auto" and can_choose:
            self.mixture_scores_ = by_distance.mixture_scores(self.cleaned_[rows], people)
            self.mixture_ = max(self.mixture_scores_, key=self.mixture_scores_.__getitem__)
        self._fit_classifier()

        found, self.threshold_pixels_ = by_distance.Calibration(), np.empty(0, np.intp)
        self.left_out_ = by_distance.NOBODY
        if self.calibrate:
            self.left_out_ = self._judge_left_out(data, missing, different, step)
            found = by_distance.calibrated(self.left_out_, len(self.classes_), self.unknown_rate)
        self.threshold_, self.noise_ = found.threshold, found.noise
        self.false_acceptance_rate_, self.false_rejection_rate_ = found.acceptance.mean, found.rejection.mean
        self.rate_intervals_ = np.array([found.acceptance[1:], found.rejection[1:]])  # low and high, without the mean
        self.unlike_, self.faceless_ = np.full(len(self.classes_), found.unlike), found.faceless
        self.unexplained_, self.corrupted_rate_ = found.unexplained, found.corrupted

    def _check_training(self, X: ArrayLike, y: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Mask, Array]:
        """Return checked images, the caller's mask, and labels; set who is on the images, and what grey values mean."""
        self._check_parameters()
        of_images.check_images(X)
        check_labels(y, len(X) if isinstance(X, list | tuple | np.ndarray) else None, "image")
        data, labels = validate_data(self, X, y, **FLOATS)
        data, given = of_images.masked(data, mask)
        # Two of each, because scikit-learn takes labels of which most are different for a regression.
        check_classification_targets(np.repeat(np.unique(labels), 2))
        self.classes_, self.labels_ = np.unique(labels, return_inverse=True)
        self.white_ = of_images.white_in(data, X)
        if getattr(X, "dtype", None) == np.uint16:
            data = np.minimum(data, self.white_)  # hot pixels
            of_images.warn_of_bits(data)
        self.brightest_ = float(data.max(initial=0))
        self.background_ = math.nan
        if self.image_shape is not None:
            seen = of_images.as_images(of_images.hidden(data, given), self.image_shape)
            self.background_ = of_images.flat_background(seen, self.brightest_)
        of_images.check_seen(given)
        return data, given, labels

    def _new_model(self, shape: tuple[int, int], iterations: int) -> NMF:
        """Return an unfitted model for images of `shape`, (n_images, n_pixels)."""
        # without what would only be read by a user of the model itself; docs/decisions/faces.md has the times
        model = NMF(
            min(self.n_components, *shape), nuclear=1.0, max_iter=iterations, tol=0, random_state=self.random_state,
            exact_codes=False, measure_optimality=False,
        )  # fmt: skip
        return model.set_output(transform="default")  # codes stay arrays, whatever scikit-learn's global setting is

    def _choose_missing(
        self, data: Array, given: Mask, rows: Labels, people: Labels | None, step: Progress
    ) -> tuple[str, dict[str, float]]:
        """Return the search for missing pixels, and how probable the right `people` of `rows` are by each."""
        if self.missing != choices.FACE_MISSING_AUTO:
            return self.missing, {}
        # With searches that find hardly anything, scores would differ by chance only.
        masks = {choice: self._find_missing(data, given, choice) for choice in (*MISSING, "none")}
        seen = [choice for choice in MISSING if NOTICED <= masks[choice].mean() <= MOST_FOUND]
        if not seen or people is None:
            noticed_too_much = masks[choices.FACE_MISSING_DEFAULT].mean() > MOST_FOUND
            return "none" if noticed_too_much else choices.FACE_MISSING_DEFAULT, {}
        # Each search is judged at its best limit of cleaning, with which it would be used.
        limits = OUTLIERS if self.outliers == "auto" else (float(self.outliers),)
        scores = {}
        for number, choice in enumerate([*seen, "none"]):
            step("choosing missing pixels", number, len(seen) + 1)
            images, missing = data[rows], (masks[choice] | given)[rows]
            drawn, scale = of_images.fitted_to(self._new_model(images.shape, CHOOSING_ITERATIONS), images, missing)
            scores[choice] = max(by_distance.limit_scores(images, drawn, missing, people, scale, limits).values())
        step("choosing missing pixels", len(scores), len(scores))
        return max(scores, key=scores.__getitem__), scores

    def _find_missing(self, data: Array, given: Mask, missing: str) -> Mask:
        """Return the pixels that the search `missing`, such as "blocks", finds where the mask `given` is false."""
        values = self.white_, self.brightest_, self.background_
        return of_images.found_in_rows(of_images.hidden(data, given), self.image_shape, missing, *values)

    def _new_classifier(self, image_shape: tuple[int, int] | None) -> Mixture | CoveredFaces:
        """Return what finds distances of images of this shape, unfitted."""
        # The images decide, not the grid of their pixels: the threshold must be that of the distance which is used.
        large = self.image_shape is not None and min(self.image_shape) >= LEAST_SIDE
        if self.rule == "auto" and large and image_shape is not None:
            return CoveredFaces(self.mixture_, image_shape)
        return Mixture(self.mixture_)

    def _fit_classifier(self) -> None:
        """Set what depends on the fitted model, and learn the cleaned images of everybody."""
        self._encoder = copy(self.model_).set_params(exact_codes=False)
        self._fitted_shape = self.image_shape
        norms = np.linalg.norm(self.model_.components_, axis=1, keepdims=True)
        self.components_ = self.model_.components_ / np.where(norms > 0, norms, 1)  # zeros stay zeros
        self.classifier_ = self._new_classifier(self.image_shape).fit(self.cleaned_, self.labels_)

    def _judge_left_out(self, data: Array, missing: Mask, different: Labels, step: Progress) -> LeftOut:
        """Judge the `different` images by what is learnt without them, and without the people who play unknown."""
        data, missing, people = data[different], missing[different], self.labels_[different]
        drawn = self.reconstructions_[different]
        grain = of_images.grain(np.where(missing, drawn, data), self.image_shape) / self.white_  # of all pixels
        pixels, shape = np.arange(data.shape[1]), self.image_shape
        # A grid of pixels saves time, but noise (`scale_`) cancels out less over few: the threshold would be too high.
        if self.scale_ <= CLEAN_SCALE * self.white_ and missing.mean() <= CLEAN_MISSING:
            pixels, shape = by_distance.pixel_grid(shape, data.shape[1])
        self.threshold_pixels_ = pixels
        data, missing, found = data[:, pixels], missing[:, pixels], []
        folds = list(by_distance.people_folds(people))
        for number, (unknown, known) in enumerate(folds):
            step("setting the threshold", number, len(folds))
            rest = np.delete(np.arange(len(data)), np.concatenate([unknown, known]))
            others, who = np.unique(people[rest], return_inverse=True)
            if len(others) < 2:  # a relative distance needs somebody else
                continue
            model = self._new_model((len(rest), len(pixels)), CHOOSING_ITERATIONS)
            drawn, scale = of_images.fitted_to(model, data[rest], missing[rest])
            cleaned = of_images.winsorise(data[rest], drawn, self.outliers_, scale, missing[rest])
            classifier = self._new_classifier(shape).fit(cleaned, who)
            # Of many images of unknown people, every second, third, ... is tested.
            new = np.concatenate([unknown[:: max(1, -(-len(unknown) // by_distance.MOST_TESTED))], known])
            images, hidden = data[new], missing[new]
            parts = of_images.decomposed(model, images, hidden, scale, self.outliers_, self.white_, None)
            relative = by_distance.relative_distance(
                by_distance.distances_of(classifier, images, hidden, parts, self.white_)
            )
            unlike = of_images.unlikeness_of(
                images, hidden, parts.reconstructions, grain[new], self.white_, self.image_shape, pixels
            )
            noise, share = np.hstack([parts.noise, grain[new]]), parts.corrupted.mean(axis=1)
            found.append(LeftOut(people[new], np.isin(new, unknown), relative, noise, *unlike, share))
        step("setting the threshold", len(folds), len(folds))
        if not found:
            return by_distance.NOBODY
        return LeftOut(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def add(
        self, X: ArrayLike, y: ArrayLike, mask: ArrayLike | None = None, *, names: Sequence[str] | None = None
    ) -> FaceRecognizer:
        """Learn further people, or further images of known people, without training again.

        The model and the threshold stay as they are, and the images are cleaned like probes. Train again to add many
        people, because the model does not know what they have in common. A UserWarning says which images are known
        already, show nobody's face, or would be identified as somebody else; they are learnt all the same.

        Parameters
        ----------
        X, y, mask, names : array-like
            As for :meth:`fit`.

        Returns
        -------
        FaceRecognizer
        """
        data, missing = self._check_new(X, mask)
        check_labels(y, len(data), "image")
        labels = column_or_1d(y)
        check_consistent_length(data, labels)
        _check_names(names, data)
        first = self.classes_.tolist()[0]
        if {isinstance(label, str) for label in labels.tolist()} != {isinstance(first, str)}:  # all would become texts
            raise ParameterError(f"y must be labels like those of fit, such as {first!r:.40}; got {shown(labels)}")
        parts = self._decompose(data, missing)
        unlike, _ = self._unlikeness(data, missing, parts)
        limits = dict(zip(self.classes_, self.unlike_, strict=True))
        limits |= by_distance.limits_of_added(limits, labels, unlike, self.faceless_)
        threshold = 0.0 if math.isnan(self.threshold_) else self.threshold_  # nobody is identified without one
        identities = self._identities(data, missing, parts, threshold, 1)
        everybody = np.concatenate([self.classes_[self.labels_], labels])
        self.classes_, self.labels_ = np.unique(everybody, return_inverse=True)
        self.unlike_ = np.array([limits[person] for person in self.classes_])
        self.cleaned_ = np.concatenate([self.cleaned_, parts.cleaned.astype(self.cleaned_.dtype, copy=False)])
        owners, before = dict(zip(self.digests_.tolist(), everybody.tolist(), strict=False)), []
        new = of_images.digests(data, self.white_)
        for number, person in zip(new.tolist(), labels.tolist(), strict=True):
            before.append(owners.get(number))
            owners.setdefault(number, person)
        self.digests_ = np.concatenate([self.digests_, new])
        self._fit_classifier()
        empty = of_images.empty_images(data, missing).tolist()
        for sentence in of_images.doubts_of_added(identities, before, labels, empty, names):
            warnings.warn(sentence, UserWarning, stacklevel=2)
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
        return self._distances(data, missing, self._decompose(data, missing))

    def predict(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return the label of the nearest person on each image, at any distance; see :meth:`distances`."""
        distances = self.distances(X, mask)  # raises if there are no people yet
        return np.asarray(self.classes_[distances.argmin(axis=1)])

    def decision_function(self, X: ArrayLike, mask: ArrayLike | None = None) -> Array:
        """Return how near each person is to each image, for scorers such as "top_k_accuracy".

        Parameters
        ----------
        X, mask : array-like [shape=(n_samples, n_pixels)]
            As for :meth:`distances`.

        Returns
        -------
        ndarray [shape=(n_samples, n_people), or (n_samples,) with two people]
            Distances over the harmonic mean of those from all people, times -1, so that the nearest person has the
            largest number and rows can be compared. With two people, as scikit-learn has it, the number of the second
            one minus that of the first.
        """
        near = -relative_distances(self.distances(X, mask))
        return near[:, 1] - near[:, 0] if near.shape[1] == 2 else near

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, mask: ArrayLike | None = None
    ) -> float:
        """Return the share of images on which the nearest person is that of `y`; see :meth:`distances`."""
        shape: tuple[int, ...] = getattr(sample_weight, "shape", ())
        if len(shape) > 1:
            raise ParameterError(
                f"sample_weight must have a weight for each image; got an array of shape {shape}; if it is a mask of "
                "pixels, write mask= before it"
            )
        return float(accuracy_score(y, self.predict(X, mask), sample_weight=sample_weight))

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
        limit = self.threshold_ if threshold is None else check_number(threshold, "threshold", 0)
        if math.isnan(limit):
            raise ParameterError(
                "threshold must be given for a recogniser that was fitted with calibrate=False; got none"
            )
        top = min(check_count(top, "top"), len(self.classes_))
        found = self._identities(data, missing, self._decompose(data, missing), limit, top)
        return found if threshold is None else [replace(one, calibrated=one.calibrated and False) for one in found]

    def _identities(self, data: Array, missing: Mask, parts: Decomposition, limit: float, top: int) -> list[Identity]:
        """Return who is on new images, as :meth:`identify` does by its own threshold."""
        relative = relative_distances(self._distances(data, missing, parts))
        unlikeness, unexplained = self._unlikeness(data, missing, parts)
        noise = by_distance.other_noise(self.noise_, parts.noise)
        shares, empty = parts.corrupted.mean(axis=1), set(of_images.empty_images(data, missing).tolist())
        judged = math.isfinite(self.faceless_)  # people who were left out tell how unlike an unknown face may be
        found = []
        for row, nearest in enumerate(np.argsort(relative, axis=1, kind="stable")[:, :top]):
            ranking = tuple(zip(self.classes_[nearest].tolist(), relative[row, nearest].tolist(), strict=True))
            person, distance = ranking[0]
            allowed = self.unlike_[nearest[0]]  # NaN, an unlikeness that is not known, is beyond no limit
            noise_alone = unexplained[row] > self.unexplained_
            reason = "unknown" if unlikeness[row] > allowed or distance > limit or noise_alone else None
            if row in empty or (judged and (noise_alone or unlikeness[row] > max(allowed, self.faceless_))):
                reason = "unlike"
            calibrated = None if self.noise_ is None else noise[row] is None
            numbers = (float(value) for value in (unlikeness[row], allowed, unexplained[row]))
            # the unlikeness, its limit, and the share that is unexplained
            unlike, most, rest = (value if math.isfinite(value) else None for value in numbers)
            named, share = person if reason is None else None, float(shares[row])
            known = named, person, distance, limit, share, calibrated, ranking, reason
            found.append(Identity(*known, unlike, most, rest, noise[row]))
        return found

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
        now, then = (None if shape is None else tuple(shape) for shape in (self.image_shape, self._fitted_shape))
        if now != then:
            raise ParameterError(f"image_shape must stay that of fit, {then}; got {now}; set it back, or fit again")
        of_images.check_images(X, self.image_shape)
        data, given = of_images.masked(validate_data(self, X, reset=False, **FLOATS), mask)
        data = of_images.in_units(data, X, self.white_, self.brightest_)
        return data, given | self._find_missing(data, given, self.missing_)

    @one_blas_thread()
    def _decompose(self, data: Array, missing: Mask) -> Decomposition:
        """Reconstruct new images, clean them, find corrupted pixels, and measure the noise of each image."""
        known = self.scale_, self.outliers_, self.white_
        return of_images.decomposed(self._encoder, data, missing, *known, self.image_shape)

    def _unlikeness(self, data: Array, missing: Mask, parts: Decomposition) -> tuple[Array, Array]:
        """Return how unlike the training images images are, and the share of them that is unexplained."""
        detail = parts.noise[:, 3:]
        return of_images.unlikeness_of(data, missing, parts.reconstructions, detail, self.white_, self.image_shape)

    @one_blas_thread()
    def _distances(self, data: Array, missing: Mask, parts: Decomposition) -> Array:
        """Return the distances (n_images, n_people) of new images."""
        return by_distance.distances_of(self.classifier_, data, missing, parts, self.white_)

    def _check_parameters(self) -> None:
        """Raise ParameterError if a parameter is not allowed; the reader of model files calls this method."""
        check_choice(self.rule, "rule", choices.FACE_RULES)
        check_choice(self.missing, "missing", (choices.FACE_MISSING_AUTO, *choices.FACE_MISSING))
        check_count(self.n_components, "n_components")
        check_flag(self.calibrate, "calibrate")
        check_number(self.unknown_rate, "unknown_rate", 0, 1, without_low=True, without_high=True)
        given: Any = self.outliers
        number = isinstance(given, Real) and not isinstance(given, bool)
        if not (given >= 0 if number else given == "auto"):
            raise ParameterError(f"outliers must be 'auto' or a number >= 0; got {shown(self.outliers)}")
        if self.image_shape is not None:
            check_image_shape(self.image_shape)
        elif self.missing == "blocks":
            raise ParameterError(
                "image_shape must be given with missing='blocks', which are squares of pixels; got None"
            )

    def _check_state(self) -> None:
        """Check the fields read from a file (ValueError if they disagree), and compute what is not stored."""
        self._check_parameters()
        n_images, n_pixels = check_saved(self.cleaned_, "cleaned_", (None, None), low=0)
        if self.image_shape is None or math.prod(self.image_shape) != n_pixels:
            raise ValueError(f"image_shape must be that of images of {n_pixels} pixels")
        names = check_texts(self.classes_.tolist(), "classes_")
        # NumPy takes 4 bytes a character; a small file could ask for a huge array by one long name among many
        if not all(a < b for a, b in pairwise(names)) or 4 * len(names) * max(map(len, names)) > MAX_NAMES:
            raise ValueError("classes_ must be sorted names of usual length")
        self.classes_ = np.array(names)
        check_saved(self.labels_, "labels_", (n_images,), "int64", low=0, high=len(names) - 1)
        check_saved(self.digests_, "digests_", (n_images,), "int64")
        if len(np.unique(self.labels_)) != len(names):
            raise ValueError("labels_ must have all of classes_")
        check_is_fitted(check_type(self.model_, "model_", NMF))
        if self.model_.n_features_in_ != n_pixels:
            raise ValueError("model_ must be of the pixels of the images")
        check_choice(self.missing_, "missing_", choices.FACE_MISSING)
        check_type(self.mixture_, "mixture_", Weights)
        for name, weight in self.mixture_._asdict().items():
            check_number(weight, name, 0, 1)
        if not math.isclose(sum(self.mixture_), 1, abs_tol=1e-6):
            raise ValueError("mixture_ must be weights whose sum is 1")
        for name in ("scale_", "white_", "brightest_", *RATES, *LIMITS):
            value = getattr(self, name)
            if not ((name in RATES and math.isnan(value)) or (name in LIMITS and value == math.inf)):
                check_number(value, name)
        check_saved(self.unlike_, "unlike_", (len(names),), "float64", low=0, finite=False)
        check_saved(self.rate_intervals_, "rate_intervals_", (2, 2), "float64", low=0, high=1)
        if self.noise_ is not None and check_saved(self.noise_, "noise_", (2, None))[1] not in (3, 4):
            # the fourth measure, of the finest detail, is known for images of 3 × 3 pixels and more
            raise ValueError(f"noise_ must have 3 or 4 columns; got {self.noise_.shape[1]}")
        self.n_features_in_ = n_pixels
        self.missing_scores_, self.outliers_scores_, self.mixture_scores_ = {}, {}, {}  # files have none
        self.left_out_ = by_distance.NOBODY
        self._fit_classifier()


def _check_names(names: Sequence[str] | None, data: Array) -> None:
    """Raise ParameterError unless there is a name for each image, where there are names."""
    if names is not None and len(names) != len(data):
        raise ParameterError(f"names must be one for each image, {len(data)}; got {len(names)}")


def warn_of_few(n_people: int, unknown_rate: float) -> None:
    """Warn if people are so few that nothing shows how unknown people differ."""
    if n_people > len(FEW_PEOPLE):
        return
    sentence = FEW_PEOPLE[n_people - 1].format(rate=unknown_rate)
    warnings.warn(f"{sentence}; train more people, or give identify a threshold", UserWarning, stacklevel=3)
