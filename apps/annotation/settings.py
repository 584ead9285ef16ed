"""The settings of the annotation application; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, Seed, comma_separated, comma_separated_numbers, settings


def _metrics(text: str) -> dict[str, str] | str:
    """Return a metric, or metrics by kind of features from ``kind=metric,...``; raise ValueError for anything else."""
    if "=" not in text:
        return text
    pairs = [part.split("=") for part in comma_separated(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"must be a metric, or kind=metric separated by commas; got {text!r:.60}")
    return {kind.strip(): metric.strip() for kind, metric in pairs}


@settings
class AnnotatorSettings:
    """The parameters of :class:`~visionnmf.apps.annotation.ImageAnnotator` that the command line has."""

    method: Annotated[str, Option("How words follow from similar photographs.", choices=choices.ANNOTATION_METHODS)] = (
        choices.ANNOTATION_METHOD
    )
    coder: Annotated[
        str,
        Option(
            "What codes each kind of features: an NMF with this loss, or-nmf, or none for the features themselves.",
            choices=choices.ANNOTATION_CODERS,
        ),
    ] = choices.ANNOTATION_CODER
    pseudo_inverse: Annotated[
        bool, Option("Codes are features times the pseudo-inverse of the components, as in the OR-NMF paper.")
    ] = False
    metrics: Annotated[
        dict[str, str] | str | None,
        Option(
            "Distance of unscaled features or codes with jec and jec-greedy: manhattan, euclidean, chi-squared or "
            "kullback-leibler, or one for each kind, such as lab=kullback-leibler,rgb=manhattan.",
            flag="--metric",
            metavar="METRIC",
            parse=_metrics,
        ),
    ] = None
    n_components: Annotated[
        tuple[int, ...],
        Option(
            "Components for each kind of features; each number gives a distance.",
            flag="--ranks",
            parse=comma_separated_numbers,
        ),
    ] = choices.ANNOTATION_COMPONENTS
    random_state: Seed = choices.RANDOM_STATE


@settings
class WordOutputs:
    """Which words images get, and where they are written."""

    top: Annotated[int, Option("The largest number of words for an image.", metavar="K", low=1)] = (
        choices.ANNOTATION_WORDS
    )
    least: Annotated[float, Option("Leave out words with a lower score.", metavar="SCORE", low=0)] = 0.0
    table: Annotated[Path | None, Option("Write a table of the words.", flag="--csv", metavar="T.csv")] = None
    sidecars: Annotated[bool, Option("Write NAME.jpg.xmp beside each image that gets words.")] = False
