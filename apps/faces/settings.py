"""The settings of the faces application: what its Python functions take and its commands have as options."""

from __future__ import annotations

from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, Seed, settings


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
