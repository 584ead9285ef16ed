"""What a recogniser refuses, with a sentence that says why: parameters, images, labels, masks, and the scale of grey.

scikit-learn checks the rest.
"""

from __future__ import annotations

import math
import os
import warnings
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from visionnmf import NMF, choices
from visionnmf._checks import (
    check_choice,
    check_count,
    check_flag,
    check_image_shape,
    check_number,
    check_numbers,
    check_rows,
    check_saved,
    check_texts,
    check_type,
    shown,
)
from visionnmf.exceptions import ParameterError

from .mixture import Weights

Array = NDArray[Any]
Mask = NDArray[np.bool_]

FEW_PIXELS = 16  # no image is smaller than this
EMPTY = "X has images that show nothing"  # how the warning begins
FEW = "y has (one person|two people)"
SHARED = "X has the same image of two people"
MOST_NAMED = 5  # images that the warning names
WHITES = (1.0, 255.0, 65535.0)  # the values of white that are known
MAX_NAMES = 64 << 20  # bytes of the array of names of a file, where each takes as many as the longest
# fitted attributes that are NaN where nothing tells them, and that are infinite where nothing limits them
RATES = ("threshold_", "false_acceptance_rate_", "false_rejection_rate_", "background_", "corrupted_rate_")
LIMITS = ("outliers_", "faceless_", "unexplained_")
ABOVE = 2.0  # times white: up to this, larger values come from scaling images, and beyond it white is another one


def check_parameters(given: dict[str, Any]) -> None:
    """Raise ParameterError if a parameter of a recogniser, by name, is not allowed."""
    check_choice(given["rule"], "rule", choices.FACE_RULES)
    check_choice(given["missing"], "missing", (choices.FACE_MISSING_AUTO, *choices.FACE_MISSING))
    check_count(given["n_components"], "n_components")
    check_flag(given["thorough"], "thorough")
    check_flag(given["calibrate"], "calibrate")
    check_number(given["unknown_rate"], "unknown_rate", 0, 1, without_low=True, without_high=True)  # neither 0 nor 1
    model, outliers = given["model"], given["outliers"]
    if model is not None and (isinstance(model, type) or not hasattr(model, "fit_transform")):
        cure = f"; give it as image_shape={model}" if isinstance(model, tuple) and len(model) == 2 else ""
        raise ParameterError(f"model must be None or an estimator with fit_transform; got {shown(model)}{cure}")
    number = isinstance(outliers, Real) and not isinstance(outliers, bool)
    if not (outliers >= 0 if number else outliers == "auto"):
        raise ParameterError(f"outliers must be 'auto' or a number >= 0; got {shown(outliers)}")
    if given["image_shape"] is not None:
        check_image_shape(given["image_shape"])
    elif given["missing"] == "blocks":
        raise ParameterError("image_shape must be given with missing='blocks', which are squares of pixels; got None")


def check_calibrated(threshold: float) -> None:
    """Raise ParameterError if the threshold of a recogniser is NaN, because it was fitted without one."""
    if math.isnan(threshold):
        raise ParameterError("threshold must be given for a recogniser that was fitted with calibrate=False; got none")


def check_images(X: Any, image_shape: tuple[int, int] | None = None) -> None:
    """Raise ParameterError for what is not images as rows, such as None, names of files, or a single image."""
    if X is None or isinstance(X, str | bytes | os.PathLike | dict):
        raise ParameterError(f"X must be an array with images as rows; got {shown(X)}; train and identify read files")
    if isinstance(X, list | tuple) and X and isinstance(X[0], str | os.PathLike):
        raise ParameterError(f"X must hold numbers, images as rows; got {shown(X)}; train and identify read files")
    check_rows(X, "images")
    if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) == 2:
        raise ParameterError(
            f"X must have images as rows; got a list of arrays of shape {np.shape(X[0])}; make rows of them by "
            "numpy.reshape(X, (len(X), -1))"
        )
    shape: tuple[int, ...] = np.shape(X) if hasattr(X, "shape") else ()
    if len(shape) == 1:
        # scikit-learn's own words, which its checks of estimators ask for, are among these
        raise ParameterError(
            f"X must have images as rows; got an array of shape {shape}. Reshape your data: one image is "
            "X.reshape(1, -1)"
        )
    if image_shape is not None and shape == tuple(image_shape) and shape[0] > 1:
        raise ParameterError(
            f"X must have images as rows; got an array of shape {shape}, which is that of one image; make a row of it "
            "by reshape(1, -1)"
        )


def image_rows(X: Any) -> Array:
    """Return images as rows, in an array of real numbers that has some; ParameterError for anything else."""
    if sparse.issparse(X):
        raise ParameterError(f"X must be a dense array with images as rows; got {shown(X)}; pass X.toarray()")
    check_images(X)
    data = check_numbers(X, "X", None)  # in a type of its own
    if data.dtype == object:  # Python's own numbers, perhaps
        data = check_numbers(data, "X", np.float64)
    if data.dtype.kind not in "buif":
        cure = "take its real part" if data.dtype.kind == "c" else "convert it by X.astype(float), if that is meant"
        raise ParameterError(f"X must hold real numbers; got {data.dtype}; {cure}")
    if data.ndim != 2 or not data.size:
        raise ParameterError(f"X must have images as rows, with a pixel at least; got an array of shape {data.shape}")
    return data


def check_labels(y: Any, X: Any) -> None:
    """Raise ParameterError unless there is a label for each of the images `X`, and all are texts or all numbers."""
    if isinstance(y, str):
        raise ParameterError(f"y must have a label for each image; got {shown(y)}; make a list of it")
    labels = np.asarray(y).tolist() if hasattr(y, "__array__") else y  # of pandas, too
    if not isinstance(labels, list | tuple):
        return  # scikit-learn checks the rest
    for number, label in enumerate(labels):
        # NaN is not equal to itself, and pandas has further objects for labels that are not known.
        if (
            label is None
            or type(label).__name__ in ("NAType", "NaTType")
            or (isinstance(label, float) and label != label)
        ):
            raise ParameterError(f"y must say who is on each image; got {label} for image {number}; leave it out")
    if len({isinstance(label, str) for label in labels}) > 1:  # NumPy would make texts of numbers
        raise ParameterError(f"y must be all texts or all numbers; got {shown(labels)}")
    if isinstance(X, list | tuple | np.ndarray) and len(labels) != len(X):
        raise ParameterError(f"y must have a label for each of the {len(X)} images; got {len(labels)}")


def check_like_labels(labels: Array, known: Array) -> None:
    """Raise ParameterError unless labels are texts if those of the `known` people are, and numbers otherwise."""
    first = known.tolist()[0]
    if {isinstance(label, str) for label in labels.tolist()} != {isinstance(first, str)}:  # all would become texts
        raise ParameterError(f"y must be labels like those of fit, such as {first!r:.40}; got {shown(labels)}")


def check_same_shape(image_shape: Any, fitted: Any) -> None:
    """Raise ParameterError if the `image_shape` of a recogniser is another than the one it was `fitted` with."""
    now, then = (None if shape is None else tuple(shape) for shape in (image_shape, fitted))
    if now != then:
        raise ParameterError(f"image_shape must stay that of fit, {then}; got {now}; set it back, or fit again")


def check_fitted(recognizer: Any) -> None:
    """Raise ValueError if the fitted attributes of a recogniser, which a file gave, are not possible.

    The labels become an array of text as long as the longest.
    """
    found = recognizer
    n_images, n_pixels = check_saved(found.cleaned_, "cleaned_", (None, None), low=0)
    if found.image_shape is None or math.prod(found.image_shape) != n_pixels:
        raise ValueError(f"image_shape must be that of images of {n_pixels} pixels")
    names = check_texts(found.classes_.tolist(), "classes_")
    # NumPy takes 4 bytes a character; a small file could ask for a huge array by one long name among many
    if not all(a < b for a, b in pairwise(names)) or 4 * len(names) * max(map(len, names)) > MAX_NAMES:
        raise ValueError("classes_ must be sorted names of usual length")
    found.classes_ = np.array(names)
    check_saved(found.labels_, "labels_", (n_images,), "int64", low=0, high=len(names) - 1)
    if len(np.unique(found.labels_)) != len(names):
        raise ValueError("labels_ must have all of classes_")
    check_is_fitted(check_type(found.model_, "model_", NMF))
    if found.model_.n_features_in_ != n_pixels:
        raise ValueError("model_ must be of the pixels of the images")
    check_choice(found.missing_, "missing_", choices.FACE_MISSING)
    check_type(found.mixture_, "mixture_", Weights)
    for name in ("scale_", "white_", "brightest_", *RATES, *LIMITS):
        number = getattr(found, name)
        if not ((name in RATES and math.isnan(number)) or (name in LIMITS and number == math.inf)):
            check_number(number, name)
    check_saved(found.unlike_, "unlike_", (len(names),), "float64", low=0, finite=False)
    check_saved(found.rate_intervals_, "rate_intervals_", (2, 2), "float64", low=0, high=1)
    if found.noise_ is not None and check_saved(found.noise_, "noise_", (2, None))[1] not in (3, 4):
        # the fourth measure, of the finest detail, is known for images of 3 × 3 pixels and more
        raise ValueError(f"noise_ must have 3 or 4 columns; got {found.noise_.shape[1]}")


def empty_images(images: Array, missing: Mask) -> NDArray[np.intp]:
    """Return the numbers of the images whose visible pixels are all equal, or that have none.

    Arrays are (n_images, n_pixels). Images of fewer than :data:`FEW_PIXELS` pixels in all are never called empty.
    """
    if images.shape[1] < FEW_PIXELS:
        return np.zeros(0, np.intp)
    low, high = np.where(missing, math.inf, images).min(axis=1), np.where(missing, -math.inf, images).max(axis=1)
    return np.flatnonzero(low >= high)


def warn_of_few(n_people: int, unknown_rate: float) -> None:
    """Warn if people are so few that nothing shows how unknown people differ."""
    if n_people > 2:
        return
    warnings.warn(
        "y has one person, so that identify will name nobody; train three people or more, or give identify a threshold"
        if n_people == 1
        else f"y has two people, who do not show how unknown people differ: the threshold rejects {unknown_rate:.0%} "
        "of the images of these two, and most unknown people may pass; train three people or more",
        UserWarning,
        stacklevel=3,
    )


def warn_of_empty(images: Array, missing: Mask, labels: Array) -> list[int]:
    """Warn if some of the images from which people are learnt show nothing, and return their numbers.

    `labels` (n_images,) are named in the warning.
    """
    empty = empty_images(images, missing)
    if len(empty):
        # A slice and `tolist` give the label as an object of Python, which prints without its type in NumPy.
        named = ", ".join(
            f"{number} ({shown(labels[number : number + 1].tolist()[0])})" for number in empty[:MOST_NAMED]
        )
        more = f" and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
        warnings.warn(
            f"{EMPTY}: the visible pixels are all equal, or all pixels are masked, on images {named}{more}; leave them "
            "out",
            UserWarning,
            stacklevel=3,
        )
    return [int(number) for number in empty]


def shared_images(images: Array, labels: Array) -> list[tuple[int, int]]:
    """Return the numbers of pairs of equal images (n_images, ...) that have different `labels` (n_images,)."""
    first: dict[bytes, int] = {}
    pairs = []
    for number, image in enumerate(images):
        before = first.setdefault(image.tobytes(), number)
        if labels[before] != labels[number]:  # one person may have an image twice
            pairs.append((before, number))
    return pairs


def warn_of_shared(images: Array, labels: Array, empty: list[int]) -> None:
    """Warn if people share an image; those that show nothing, whose numbers are `empty`, do not count."""
    pairs = [pair for pair in shared_images(images, labels) if pair[0] not in empty]
    if pairs:
        (one, other), more = pairs[0], f", and {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
        names = [shown(labels[number : number + 1].tolist()[0]) for number in (one, other)]
        warnings.warn(
            f"{SHARED}: images {one} ({names[0]}) and {other} ({names[1]}){more}; keep each image for one person only",
            UserWarning,
            stacklevel=3,
        )


def checked_mask(mask: ArrayLike | None, shape: tuple[int, int]) -> Mask:
    """Return the mask of missing pixels that the caller gave in the shape of the images, (n_images, n_pixels)."""
    if mask is None:
        return np.zeros(shape, bool)
    given = np.asarray(mask)
    if given.dtype != bool and not (given.dtype.kind in "iuf" and np.isin(given, (0, 1)).all()):
        raise ParameterError(f"mask must hold True for missing pixels and False for others; got {shown(mask)}")
    try:
        return np.broadcast_to(given.astype(bool), shape)
    except ValueError:
        cure = "; make rows of it by reshape" if given.size in (shape[1], shape[0] * shape[1]) else ""
        raise ParameterError(f"mask must have the shape of X, {shape}; got {given.shape}{cure}") from None


def check_values(images: Array) -> None:
    """Raise ParameterError if images hold NaN, infinity or negative values."""
    unknown = int(np.isnan(images).sum())
    if unknown:
        raise ParameterError(f"X must not hold NaN; got {unknown} of them; give a mask that is True for these pixels")
    infinite = int(np.isinf(images).sum())
    if infinite:
        raise ParameterError(
            f"X must not hold infinity; got {infinite} of them; give a mask that is True for these pixels"
        )
    least = float(images.min(initial=0))
    if least < 0:  # scikit-learn's checks of estimators ask for the first words
        raise ParameterError(
            f"Negative values in data passed to X, which must hold grey values from 0 on; got {least:.3g}; add "
            f"{-least:.3g} to X, or clip it"
        )


def white_of(brightest: float) -> float:
    """Return the value of white, 1, 255 or 65535, in images whose largest value is `brightest`."""
    return next((white for white in WHITES if brightest <= ABOVE * white), WHITES[-1])


def check_weights_of_images(sample_weight: Any) -> None:
    """Raise ParameterError for weights of images with more than one axis, which are probably a mask of pixels."""
    shape = np.shape(sample_weight) if hasattr(sample_weight, "shape") else ()
    if len(shape) > 1:
        raise ParameterError(
            f"sample_weight must have a weight for each image; got an array of shape {shape}; if it is a mask of "
            "pixels, write mask= before it"
        )


def check_scale(images: Array, white: float) -> None:
    """Raise ParameterError if new images are brighter than twice the value of `white` of the training images."""
    largest = float(images.max(initial=0))
    if largest > ABOVE * white and white != WHITES[-1]:  # no larger white is known than the last, 65535
        raise ParameterError(
            f"X must have grey values from 0 to {white:g}, as the training images; got {largest:g}; multiply X by "
            f"{white:g} / {white_of(largest):g}"
        )
