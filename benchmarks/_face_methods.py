"""Methods of face recognition that only published tables compare, beside those of the application.

==========================  ============================================================================================
"manhattan-light"           "manhattan" with a nuclear penalty of 0.3: closer to the images, less robust
"manhattan-blocks"          "manhattan" with opaque blocks missing, as :class:`FaceRecognizer` finds them
"manhattan-cv"              "manhattan" or "manhattan-light", for each rule the one with which cross-validation
                            identifies most training images
"sklearn-frobenius"         scikit-learn's NMF, coordinate descent
"sklearn-kullback-leibler"  scikit-learn's NMF, multiplicative updates
"recognizer-seeing-all"     "recognizer" with ``missing="none"``: it searches for no blocks
"recognizer-nearest"        "recognizer" with ``rule="whitened"`` and 150 components: the nearest code
==========================  ============================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.model_selection import StratifiedKFold

from visionnmf import NMF
from visionnmf.apps.faces import FaceEvaluation
from visionnmf.apps.faces.cleaning import flat_background, missing_pixels
from visionnmf.apps.faces.methods import (
    METHODS,
    DirectMethod,
    FaceMethod,
    FaceSplit,
    Factorisation,
    FittedFactorisation,
    make_nmf,
    nearest_by,
    recognizer_distances,
)

__all__ = ["ALL_METHODS"]

FOLDS = 5


@dataclass(frozen=True)
class BlockFactorisation(Factorisation):
    """A factorisation that does not see opaque blocks."""

    def seen(self, images: NDArray[Any], split: FaceSplit) -> NDArray[Any]:
        """Return images with NaN in opaque blocks."""
        brightest, shape = float(split.train.max()), (-1, *split.image_shape)
        background = flat_background(split.train.reshape(shape), brightest)
        mask = missing_pixels(images.reshape(shape), "blocks", 1.0, brightest, background)
        return np.where(mask.reshape(images.shape), np.float32(np.nan), images)


@dataclass(frozen=True)
class ChosenFactorisation:
    """The factorisation that cross-validation on the training images chooses for each rule.

    The models have seen all training images, but no names; the left-out images are as corrupted as the others.
    """

    candidates: tuple[Factorisation, ...]
    ranked: ClassVar[bool] = True

    def score(self, split: FaceSplit, rank: int | None, evaluation: FaceEvaluation) -> list[dict[str, Any]]:
        """Return the rows of :meth:`FittedFactorisation.score`, in the order of the rules."""
        assert rank is not None
        rules = tuple(dict.fromkeys(evaluation.rules))
        fits = [candidate.fit(split, rank, evaluation.iterations) for candidate in self.candidates]
        chosen = {rule: int(np.argmax([cross_validated(fitted, rule) for fitted in fits])) for rule in rules}
        rows = []
        for number in dict.fromkeys(chosen.values()):
            rows += fits[number].score(tuple(rule for rule in rules if chosen[rule] == number))
        return sorted(rows, key=lambda row: rules.index(row["rule"]))


def cross_validated(fitted: FittedFactorisation, rule: str) -> float:
    """Return the share of left-out training images that a rule identifies; 0 if somebody has a single image."""
    people = fitted.split.people
    folds = min(FOLDS, int(np.bincount(people).min()))
    if folds < 2:
        return 0.0
    gallery = new = fitted.gallery(rule)
    if fitted.projects(rule):
        new = fitted.project(fitted.split.train)[0]
    hits = []
    for rest, left_out in StratifiedKFold(folds, shuffle=True, random_state=0).split(gallery, people):
        distances = nearest_by(rule).fit(gallery[rest], people[rest]).distances(new[left_out])
        hits.append(distances.argmin(axis=1) == people[left_out])
    return float(np.concatenate(hits).mean())


def _nmf_with_gaps(n_components: int, random_state: int, iterations: int) -> NMF:
    return make_nmf("manhattan", 1.0, n_components, random_state, iterations).set_params(missing_values=np.nan)


def _sklearn_nmf(loss: str, solver: str, n_components: int, random_state: int, iterations: int) -> SklearnNMF:
    return SklearnNMF(  # its iterations do less each
        n_components, init="random", beta_loss=loss, solver=solver, max_iter=2 * iterations, random_state=random_state
    )


_PENALISED = Factorisation(partial(make_nmf, "manhattan", 1.0))
_LIGHT = Factorisation(partial(make_nmf, "manhattan", 0.3))

ALL_METHODS: dict[str, FaceMethod] = METHODS | {
    "manhattan-light": _LIGHT,
    "manhattan-blocks": BlockFactorisation(_nmf_with_gaps),
    "manhattan-cv": ChosenFactorisation((_PENALISED, _LIGHT)),
    "sklearn-frobenius": Factorisation(partial(_sklearn_nmf, "frobenius", "cd")),
    "sklearn-kullback-leibler": Factorisation(partial(_sklearn_nmf, "kullback-leibler", "mu")),
    "recognizer-seeing-all": DirectMethod(partial(recognizer_distances, missing="none")),
    "recognizer-nearest": DirectMethod(partial(recognizer_distances, rule="whitened", n_components=150)),
}
