"""The settings of the faces application: what its Python functions take and its commands have as options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, Seed, comma_separated, settings
from visionnmf.exceptions import ParameterError


@settings
class FaceReading:
    """How images of faces are read."""

    size: Annotated[int | None, Option("Scale the images to N x N pixels.", metavar="N", low=8, high=512)] = None
    detect: Annotated[bool, Option("Find the face on each photograph and cut it out.")] = False


@settings
class FaceTraining:
    """How :func:`train` learns people; see :class:`FaceRecognizer`."""

    n_components: Annotated[
        int, Option("Components of the model; too many do no harm.", flag="--rank", low=1, high=1000)
    ] = choices.FACE_COMPONENTS
    rule: Annotated[str, Option("How images are compared.", choices=choices.FACE_RULES)] = choices.FACE_RULE_DEFAULT
    missing: Annotated[
        str,
        Option(
            "Pixels that count as missing; auto takes what makes the right people most probable on left-out images.",
            choices=(choices.FACE_MISSING_AUTO, *choices.FACE_MISSING),
        ),
    ] = choices.FACE_MISSING_AUTO
    unknown_rate: Annotated[
        float,
        Option(
            "Share of unknown people who may be given a name.",
            flag="--strangers",
            metavar="RATE",
            low=0.001,
            high=0.5,
        ),
    ] = choices.FACE_UNKNOWN_RATE
    thorough: Annotated[bool, Option("Set the threshold by all pixels of large images, also if they are clean.")] = (
        False
    )
    random_state: Seed = choices.RANDOM_STATE


@settings
class FaceIdentification:
    """What is reported about the faces on an image."""

    top: Annotated[int, Option("Number of nearest people to report.", metavar="K", low=1, high=1000)] = 1
    threshold: Annotated[
        float | None, Option("Distance beyond which a face is unknown.", metavar="D", low=0, high=10)
    ] = None
    all_faces: Annotated[bool, Option("Report every face of a photograph, with its box.")] = False


@settings
class FaceClustering:
    """How images are grouped by person."""

    n_clusters: Annotated[
        int | None, Option("Number of groups.", flag="--clusters", metavar="K", low=1, high=1_000_000)
    ] = None
    missing: Annotated[str, Option("Pixels that count as missing.", choices=choices.FACE_MISSING)] = (
        choices.FACE_MISSING_DEFAULT
    )
    random_state: Seed = choices.RANDOM_STATE


@settings
class ShadowRemoval:
    """How shadows are removed."""

    n_components: Annotated[
        int, Option("Dimensions of a person's images; more keep more of the shadows.", flag="--rank", low=1, high=100)
    ] = choices.FACE_SHADOW_COMPONENTS
    random_state: Seed = choices.RANDOM_STATE


MOST_RANKS = 1000


def check_some_of(values: Sequence[str], name: str, known: Sequence[str]) -> None:
    """Raise ParameterError unless there are values and all of them are known."""
    wrong = [value for value in values if value not in known]
    if wrong or not values:
        raise ParameterError(f"{name} must be some of {list(known)}; got {wrong[0] if wrong else 'none'!r}")


def parse_corruption(text: str) -> tuple[str, float | None]:
    """Return a kind and severity of :func:`visionnmf.datasets.corrupt` from KIND or KIND:SEVERITY, as `laplace:30`."""
    kind, _, severity = text.partition(":")
    try:
        number = float(severity or 0)
        whole = int(number)  # fails for infinity and NaN
    except (ValueError, OverflowError):
        raise ParameterError(f"corruptions must be KIND or KIND:SEVERITY; got {text!r}") from None
    if not severity:
        return kind, None
    # the side of a block must be an int
    return kind, whole if whole == number else number


def _check_severity(text: str) -> None:
    """Raise ParameterError if images cannot be corrupted by KIND:SEVERITY, which is tried on an image of one pixel."""
    import numpy as np

    from visionnmf.datasets import corrupt

    try:
        corrupt(np.zeros((1, 1, 1), np.uint8), *parse_corruption(text))
    except ParameterError as error:
        raise ParameterError(f"corruptions must have a severity that its kind allows; got {text!r}: {error}") from None


def parse_ranks(text: str) -> tuple[int, ...]:
    """Return the ranks of ``100``, ``10,50,100`` or ``10-150/10`` (from, to, step), without repetitions."""
    ranks: list[int] = []
    for part in comma_separated(text):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?:/(\d{1,6}))?)?", part)
        if found is None or (found[3] is not None and int(found[3]) == 0):
            raise ParameterError(f"ranks must be like 100, 10,50,100 or 10-150/10; got {text!r}")
        first = int(found[1])
        ranks += range(first, int(found[2] or first) + 1, int(found[3] or 1))
    return tuple(dict.fromkeys(ranks))


@settings
class FaceEvaluation:
    """Which methods are compared, and on what.

    `most_test`, the maximum number of test images per person, is not an option. Ranks above the number of training
    images or pixels are lowered to it. The methods are explained in :mod:`visionnmf.apps.faces.evaluation`.
    """

    corruptions: Annotated[
        tuple[str, ...],
        Option("Corruption of the training images; repeatable.", flag="--corruption", metavar="KIND[:SEVERITY]"),
    ] = ("none",)
    methods: Annotated[tuple[str, ...], Option("Comma-separated.", parse=comma_separated)] = (
        "recognizer", "manhattan", "frobenius", "kullback-leibler", "pca", "raw", "lda", "crc",
    )  # fmt: skip
    ranks: Annotated[
        tuple[int, ...], Option("Ranks of the factorisations: 100 or 10,50,100 or 10-150/10.", parse=parse_ranks)
    ] = (choices.FACE_COMPONENTS,)
    both: Annotated[bool, Option("Also test on corrupted images, besides the clean ones.")] = False
    splits: Annotated[int, Option("Random splits.", low=1, high=1000)] = choices.FACE_SPLITS
    per_person: Annotated[
        int,
        Option("Training images per person, at most all but one of a person's.", flag="--train", metavar="N", low=1),
    ] = choices.FACE_TRAINING_IMAGES
    most_test: int | None = None
    random_state: Seed = choices.RANDOM_STATE

    def check(self) -> None:
        """Raise ParameterError if a value is not allowed."""
        if not 1 <= len(self.ranks) <= MOST_RANKS or min(self.ranks) < 1:
            raise ParameterError(f"ranks must be 1 to {MOST_RANKS} whole numbers from 1; got {self.ranks!s:.40}")
        check_some_of(self.methods, "methods", choices.FACE_METHODS)
        kinds = [parse_corruption(text)[0] for text in self.corruptions]
        if kinds != ["none"]:  # the default is known to be allowed
            from visionnmf.datasets import CORRUPTIONS  # loads NumPy

            check_some_of(kinds, "corruptions", CORRUPTIONS)
            for text in self.corruptions:
                _check_severity(text)
