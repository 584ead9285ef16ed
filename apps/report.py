"""The report of an application: the same form for every command and its Python function."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from typing import Any

MOST_NUMBERED = 3  # files whose names differ in their numbers alone that are listed one by one


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """What was read, what was found, and what was written.

    A report is a frozen dataclass with the figures of its application. :meth:`as_dict` returns it for programs,
    :meth:`summary` for people.

    Attributes
    ----------
    inputs : list of str
        Files, folders, samples or data sets, as the caller named them.
    outputs : list of str
        The files written.
    skipped : list of str
        A sentence for each input, or part of one, that could not be used. The work went on without it.
    notes : list of str
        A sentence for each reason to doubt the result.
    """

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON: the figures of the application, then inputs, outputs, skipped and notes."""
        return self._figures() | {name: list(getattr(self, name)) for name in _COMMON}

    def __str__(self) -> str:
        """Return :meth:`summary`, so that a printed report can be read."""
        return self.summary()

    @abstractmethod
    def summary(self) -> str:
        """Return the report for a person, in one line or a few."""

    def _figures(self) -> dict[str, Any]:
        """Return the application's own figures: by default all attributes but inputs, outputs, skipped and notes."""
        return {name: value for name, value in asdict(self).items() if name not in _COMMON}

    def _notes_and_outputs(self) -> list[str]:
        """Return the last lines of a summary: the notes, the files written, and what was left out and why."""
        return [
            *self.notes,
            *(f"wrote {name}" for name in _shortened(self.outputs)),
            *(f"left out: {sentence}" for sentence in self.skipped),
        ]


_COMMON = tuple(attribute.name for attribute in fields(Report))


def _shortened(names: list[str]) -> list[str]:
    """Return lines with names of files; more than three in a row that differ in numbers alone share a line."""
    lines: list[str] = []
    for _, group in groupby(names, key=lambda name: re.sub(r"[0-9]+", "#", name)):
        alike = list(group)
        shown = [f"{alike[0]} to {alike[-1]} ({len(alike)} files)"] if len(alike) > MOST_NUMBERED else alike
        lines += shown
    return lines
