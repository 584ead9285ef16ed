"""The settings of the annotation application; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from visionnmf import choices
from visionnmf.apps.settings import Option, Seed, comma_separated_numbers, settings


@settings
class AnnotatorSettings:
    """The parameters of :class:`~visionnmf.apps.annotation.ImageAnnotator` that the command line has."""

    method: Annotated[str, Option("How words follow from similar photographs.", choices=choices.ANNOTATION_METHODS)] = (
        choices.ANNOTATION_METHOD
    )
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
    verbatim: Annotated[bool, Option("Write texts to the table as they are, also where spreadsheets see formulas.")] = (
        False
    )
