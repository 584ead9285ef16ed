"""The settings of evaluations: what all of them share, and what each application adds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from visionnmf import choices
from visionnmf.apps.masquerade.settings import FalseAlarmRate
from visionnmf.apps.settings import Option, Seed, comma_separated, comma_separated_numbers, settings
from visionnmf.exceptions import ParameterError

# What is done to the samples of several views.
VIEW_CONDITIONS = ("clean", "salt-and-pepper", "view-corrupted", "view-missing", "train-missing")

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
class Comparison:
    """Which methods are compared, and how the work is done."""

    methods: Annotated[
        tuple[str, ...] | None,
        Option("Methods, separated by commas, or all. See above.", metavar="LIST", parse=comma_separated),
    ] = None
    plots: Annotated[bool, Option("Draw the results into the folder of --out (needs matplotlib).")] = False
    jobs: Annotated[int, Option("Use N processes.", short="-j", metavar="N", low=1, high=256)] = 1
    out: Annotated[
        Path | None,
        Option("Folder for results.csv, where an interrupted run continues.", short="-o", metavar="DIR"),
    ] = None
    force: Annotated[bool, Option("Overwrite existing results.")] = False

    def check(self) -> None:
        """Raise ParameterError for plots without a folder."""
        if self.plots and self.out is None:
            raise ParameterError("out must be a folder for the plots; got none; name one")


@settings
class RandomSplits:
    """The random splits over which scores are averaged."""

    splits: Annotated[
        int | None,
        Option("Number of random splits; more take longer, and the means vary less.", metavar="N", low=1, high=1000),
    ] = None
    random_state: Seed = choices.RANDOM_STATE


@settings
class FaceConditions:
    """On what methods of face recognition are compared.

    `most_test`, the maximum number of test images per person, is not an option. Ranks above the number of training
    images or pixels are lowered to it.
    """

    corruptions: Annotated[
        tuple[str, ...],
        Option("Corruption of the training images; repeatable.", flag="--corruption", metavar="KIND[:SEVERITY]"),
    ] = ("none",)
    ranks: Annotated[
        tuple[int, ...], Option("Ranks of the factorisations: 100 or 10,50,100 or 10-150/10.", parse=parse_ranks)
    ] = (choices.FACE_COMPONENTS,)
    both: Annotated[bool, Option("Also test on corrupted images, besides the clean ones.")] = False
    per_person: Annotated[
        int,
        Option("Training images per person, at most all but one of a person's.", flag="--train", metavar="N", low=1),
    ] = 7
    most_test: int | None = None

    def check(self) -> None:
        """Raise ParameterError if a value is not allowed."""
        if not 1 <= len(self.ranks) <= MOST_RANKS or min(self.ranks) < 1:
            raise ParameterError(f"ranks must be 1 to {MOST_RANKS} whole numbers from 1; got {self.ranks!s:.40}")
        kinds = [parse_corruption(text)[0] for text in self.corruptions]
        if kinds != ["none"]:  # the default is known to be allowed
            from visionnmf.datasets import CORRUPTIONS  # loads NumPy

            check_some_of(kinds, "corruptions", CORRUPTIONS)
            for text in self.corruptions:
                _check_severity(text)


@settings
class DetectorConditions:
    """How detectors of masqueraders are trained."""

    training_share: Annotated[float, Option("The share of each user's sessions used for training.", metavar="S")] = 0.5
    false_alarm_rate: FalseAlarmRate = choices.FALSE_ALARM_RATE

    def check(self) -> None:
        """Raise ParameterError for a share of all or nothing."""
        if not 0 < self.training_share < 1:
            raise ParameterError(f"training_share must be a number > 0 and < 1; got {self.training_share!r}")


@settings
class Labels:
    """Where the classes or words of the samples are."""

    labels: Annotated[
        str | None,
        Option(
            "File with one label in each line, or words separated by semicolons. If left out, labels are those in the "
            "file of the views.",
            metavar="FILE",
        ),
    ] = None
    column: Annotated[str | None, Option("Column of the labels in a .csv file.")] = None


@settings
class ViewConditions:
    """With which ranks, and under which conditions, methods for several views are compared."""

    ranks: Annotated[
        tuple[int, ...], Option("Numbers of components, separated by commas.", parse=comma_separated_numbers)
    ] = (20, 40, 60)
    conditions: Annotated[
        tuple[str, ...], Option("Conditions, separated by commas; see above.", parse=comma_separated)
    ] = ("clean",)
    prepare: Annotated[str, Option("What is done to each view first.", choices=choices.VIEW_PREPARATIONS)] = "auto"
    test_share: Annotated[float, Option("Share of the samples that are tested.", low=0.01, high=0.99)] = 0.5

    def check(self) -> None:
        """Raise ParameterError for names that are not known and for empty lists."""
        from visionnmf._checks import check_count

        if not self.ranks:
            raise ParameterError("ranks must not be empty; got ()")
        check_some_of(self.conditions, "conditions", VIEW_CONDITIONS)
        for rank in self.ranks:
            check_count(rank, "ranks")
