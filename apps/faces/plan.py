"""What to compare: the plan of an evaluation, and how it is written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from visionnmf import choices
from visionnmf.datasets import CORRUPTIONS
from visionnmf.exceptions import ParameterError

from .methods import CHOSEN, MODELS, RANKLESS, RULES

__all__ = ["Corruption", "Plan", "corruption_name", "parse_corruption", "parse_ranks"]

MOST_RANKS = 1000
TESTS = ("clean", "corrupted")

Corruption = tuple[str, float | None]


@dataclass(frozen=True)
class Plan:
    """What to compare, and on what.

    Attributes
    ----------
    corruptions : tuple of (str, float or None)
        Kinds of :func:`visionnmf.datasets.corrupt` and severities, in grey levels; None is the kind's default.
    methods : tuple of str
        Of :mod:`~visionnmf.apps.faces.methods`.
    ranks : tuple of int
        Ranks above the number of training images or pixels are taken down to it.
    rules : tuple of str
        "pseudo-inverse" and "codes", the rules of the paper for models; "mixed", the first with the model's own codes
        of the training images in place of their projections; "whitened", the second with whitened codes.
    tests : tuple of str
        "clean", and "corrupted" for test images with the same corruption.
    splits : int
        Random splits.
    per_person : int
        Training images a person; the others are for testing.
    most_test : int or None
        At most so many test images a person.
    random_state : int
        Of the first split.
    iterations : int
        Of the models.
    """

    corruptions: tuple[Corruption, ...] = (("none", None),)
    methods: tuple[str, ...] = ("manhattan", "frobenius", "kullback-leibler", "pca", "recognizer", "raw", "lda", "crc")
    ranks: tuple[int, ...] = (choices.FACE_COMPONENTS,)
    rules: tuple[str, ...] = RULES
    tests: tuple[str, ...] = ("clean",)
    splits: int = choices.FACE_SPLITS
    per_person: int = choices.FACE_TRAINING_IMAGES
    most_test: int | None = None
    random_state: int = choices.RANDOM_STATE
    iterations: int = 100

    def check(self) -> None:
        """Raise ParameterError where a value is not allowed."""
        allowed: tuple[tuple[str, Iterable[str], tuple[str, ...]], ...] = (
            ("corruption", [kind for kind, _ in self.corruptions], tuple(CORRUPTIONS)),
            ("methods", self.methods, (*MODELS, *CHOSEN, *RANKLESS)),
            ("rules", self.rules, RULES),
            ("tests", self.tests, TESTS),
        )
        for name, values, known in allowed:
            wrong = [value for value in values if value not in known]
            if wrong or not values:
                raise ParameterError(f"{name} must be some of {list(known)}; got {wrong[0] if wrong else 'none'!r}")
        for name in ("splits", "per_person", "iterations"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not self.ranks or min(self.ranks) < 1:
            raise ParameterError(f"ranks must be whole numbers from 1; got {list(self.ranks)}")


def parse_corruption(text: str) -> Corruption:
    """Read ``kind`` or ``kind:severity``.

    Parameters
    ----------
    text : str
        For instance ``salt_and_pepper:0.3``.

    Returns
    -------
    tuple of (str, float or None)

    Raises
    ------
    ParameterError
        When the severity is no number; the kind is checked by :meth:`Plan.check`.

    Examples
    --------
    >>> from visionnmf.apps.faces import parse_corruption
    >>> parse_corruption("none")
    ('none', None)
    """
    kind, _, severity = text.partition(":")
    try:
        number = float(severity or 0)
        whole = int(number)  # fails where it is not finite
    except (ValueError, OverflowError):
        raise ParameterError(f"corruption must be KIND or KIND:SEVERITY; got {text!r}") from None
    if not severity:
        return kind, None
    return kind, whole if whole == number else number  # sides of blocks must be ints


def parse_ranks(text: str) -> tuple[int, ...]:
    """Read ``100``, ``10,50,100`` or ``10-150/10`` (from, to, step).

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of int

    Raises
    ------
    ParameterError
        When it is something else, or more than 1000 ranks.

    Examples
    --------
    >>> from visionnmf.apps.faces import parse_ranks
    >>> parse_ranks("10,20,50")
    (10, 20, 50)
    """
    ranks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?:/(\d{1,6}))?)?", part.strip())
        if found is None or (found[3] is not None and int(found[3]) == 0):
            raise ParameterError(f"ranks must be like 100, 10,50,100 or 10-150/10; got {text!r}")
        first = int(found[1])
        ranks += range(first, int(found[2] or first) + 1, int(found[3] or 1))
    if not 1 <= len(ranks) <= MOST_RANKS:
        raise ParameterError(f"ranks must be 1 to {MOST_RANKS} numbers; got {text!r}")
    return tuple(dict.fromkeys(ranks))


def corruption_name(corruption: Corruption) -> str:
    """Return what files are named by."""
    kind, severity = corruption
    return kind if severity is None else f"{kind}-{severity}"
