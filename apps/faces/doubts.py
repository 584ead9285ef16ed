"""What seems wrong with images of people who are added: no face, somebody else, or two spellings of a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from .identities import Identity
from .input_checks import named_alike
from .likeness import UNLIKE_IN_WORDS


class DoubtfulImageWarning(UserWarning):
    """Images that :meth:`.FaceRecognizer.add` learns seem to show no face or somebody else, or a name is not new."""


def doubts_of(
    found: Sequence[Identity],
    labels: Iterable[Any],
    known: Iterable[Any],
    *,
    names: Sequence[str] = (),
    skipped: Collection[int] = (),
) -> list[str]:
    """Return sentences about new images that seem to show no face or somebody else, and about names that are alike.

    `found` are the identities of the images before they are added, `labels` the names that they get, and `known` the
    people before. Nothing is said of images whose numbers are `skipped`.
    """
    names = names or [f"image {number}" for number in range(len(found))]
    known, doubts = list(known), []
    people: dict[Any, list[int]] = {}  # the images of each person
    for number, person in enumerate(labels):
        if number not in skipped:
            people.setdefault(person, []).append(number)
    judged = (number for number in range(len(found)) if number not in skipped)
    faceless = [names[number] for number in judged if found[number].reason == "unlike"]
    if faceless:
        doubts.append(f"{_some(faceless)} {UNLIKE_IN_WORDS}; remove what shows no face, and add the others again")
    for person, images in people.items():
        others: dict[Any, list[str]] = {}
        for number in images:
            one = found[number]
            # Images of a known person should be nearest to that person. A new person is near somebody in any case, so
            # there only an image that would get a name is suspicious.
            somebody = one.nearest if person in known and one.reason != "unlike" else one.person
            if somebody is not None and somebody != person:
                others.setdefault(somebody, []).append(names[number])
        for other, some in others.items():
            seen = "nearer to" if person in known else "identified as"
            doubts.append(f"{_some(some)} {seen} {other}, not {person}; is the name right?")
        # Two people of the model may have names that are alike, too, but only a pair with this person is new.
        alike = named_alike([*known, person])
        if alike is not None and person in alike:
            doubts.append(two_people(*alike))
    return doubts


def two_people(one: str, other: str) -> str:
    """Return a sentence about two names that are hardly different."""
    return f"{one!r} and {other!r} are two people to the model; if they are one, use one name for all images"


def _some(images: list[str]) -> str:
    """Return the first of some images and how many more there are, with a verb."""
    return f"{images[0]} is" if len(images) == 1 else f"{images[0]} and {len(images) - 1} more of the images are"
