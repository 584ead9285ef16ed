"""What a recognizer chooses and announces by its training images: parts of it are fitted to some of them."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from visionnmf import choices
from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError

from .calibration import MOST_TESTED, LeftOut, can_choose, image_folds, left_out, people_folds, some_people
from .classifiers import Labels, relative_distance
from .pixels import pull_limit, winsorise

__all__ = ["best", "choose_missing", "limit_scores", "look_at_left_out", "takes_weights"]

Array = NDArray[Any]
Mask = NDArray[np.bool_]
FaceRecognizer = Any  # it imports this file

ITERATIONS = 30  # of a default model that is fitted to choose: distances and noise are the same within a few per cent
MISSING = ("blocks", "saturated")  # what is compared with no search at all
NOTICED = 0.005  # share of the pixels that a search must find in the training images to be compared
MOST_CHOOSING = 1000  # images by which a search is chosen


def best(scores: dict[Any, float]) -> Any:
    """Return the key of the largest score, the first of equals."""
    return max(scores, key=scores.__getitem__)


def limit_scores(
    recognizer: FaceRecognizer, data: Array, missing: Mask, limits: tuple[float, ...]
) -> dict[float, float]:
    """Return the share of left-out images that is identified with each limit of cleaning.

    Parameters
    ----------
    recognizer : FaceRecognizer
        Its model is fitted to `data`.
    data : ndarray [shape=(n_samples, n_pixels)]
    missing : ndarray of bool [shape=(n_samples, n_pixels)]
    limits : tuple of float

    Returns
    -------
    dict
    """
    people, scores = recognizer.labels_, {}
    for outliers in limits:
        cleaned = winsorise(data, recognizer.reconstructions_, pull_limit(outliers, recognizer.scale_), missing)
        features = recognizer._features(cleaned, None)
        nearest, _ = left_out(recognizer._classifier(), features, people, image_folds(people))
        scores[outliers] = float((nearest == people).mean())
    return scores


def choose_missing(
    recognizer: FaceRecognizer, data: Array, mask: ArrayLike | None, people: Labels
) -> tuple[str, dict[str, float]]:
    """Take the search for missing pixels that names most left-out training images; blocks where nothing tells.

    Parameters
    ----------
    recognizer : FaceRecognizer
    data : ndarray [shape=(n_samples, n_pixels)]
    mask : array-like of bool, optional
        Pixels that are missing anyway.
    people : ndarray of int [shape=(n_samples,)]

    Returns
    -------
    missing : str
    scores : dict of str to float
        Shares that are named; empty where there was nothing to choose by.

    Raises
    ------
    ParameterError
        When pixels are missing by `mask` or by name, and the model takes no weights.
    """
    given = recognizer._given(data, mask)
    if not takes_weights(recognizer.model):
        if recognizer.missing not in (choices.FACE_MISSING_AUTO, "none"):
            raise ParameterError(
                f"missing must be 'auto' or 'none' with {shown(recognizer.model)}, which takes no weights; got "
                f"{recognizer.missing!r}"
            )
        return "none", {}
    if recognizer.missing != choices.FACE_MISSING_AUTO:
        return recognizer.missing, {}
    masks = {choice: recognizer._found(data, choice) for choice in (*MISSING, "none")}
    seen = [choice for choice in MISSING if (masks[choice] & ~given).mean() >= NOTICED]
    if not seen or not can_choose(people):
        return choices.FACE_MISSING_DEFAULT, {}
    rows = some_people(people, MOST_CHOOSING)
    scores = {}
    for choice in (*seen, "none"):
        missing = (masks[choice] | given)[rows]
        part = _fitted_part(recognizer, data[rows], missing, people[rows], {"missing": choice})
        found = part.outliers_scores_ or limit_scores(part, data[rows], missing, (part.outliers_,))
        scores[choice] = max(found.values())
    return best(scores), scores


def takes_weights(model: Any) -> bool:
    """Say whether a model can do without some of the pixels; the default one can.

    Parameters
    ----------
    model : estimator or None

    Returns
    -------
    bool
    """
    if model is None:
        return True
    return all("weights" in signature(step).parameters for step in (model.fit_transform, model.transform))


def look_at_left_out(recognizer: FaceRecognizer, data: Array, missing: Mask) -> LeftOut:
    """Look at training images with recognizers that saw neither them nor, of strangers, the person.

    Parameters
    ----------
    recognizer : FaceRecognizer
        Fitted but for its threshold.
    data : ndarray [shape=(n_samples, n_pixels)]
    missing : ndarray of bool [shape=(n_samples, n_pixels)]

    Returns
    -------
    LeftOut
    """
    people, found = recognizer.labels_, []
    chosen: dict[str, Any] = {"outliers": recognizer.outliers_, "missing": recognizer.missing_}
    for strangers, known in people_folds(people):
        rest = np.ones(len(data), bool)
        rest[strangers] = rest[known] = False
        if len(np.unique(people[rest])) < 2:
            continue
        part = _fitted_part(recognizer, data[rest], missing[rest], people[rest], chosen)
        new = np.concatenate([strangers[:: max(1, -(-len(strangers) // MOST_TESTED))], known])
        parts = part._decompose(data[new], missing[new])
        distances = relative_distance(part._distances(data[new], missing[new], parts))
        found.append(LeftOut(people[new], np.isin(new, strangers), distances, parts.noise))
    if not found:
        return LeftOut(people[:0], np.zeros(0, bool), data[:0, 0], np.zeros((0, 4)))
    return LeftOut(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _fitted_part(
    recognizer: FaceRecognizer, data: Array, missing: Mask, people: Labels, parameters: dict[str, Any]
) -> FaceRecognizer:
    """Fit a recognizer, but for its threshold, to some of the images; that its model stops early says nothing."""
    part = clone(recognizer).set_params(**parameters)
    present, numbers = np.unique(people, return_inverse=True)
    part.classes_, part.missing_ = recognizer.classes_[present], part.missing
    for name in ("brightest_", "white_", "background_", "n_features_in_"):
        setattr(part, name, getattr(recognizer, name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        part._learn(data, missing, numbers, part._model(data.shape, ITERATIONS))
    return part
