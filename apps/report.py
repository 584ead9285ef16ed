"""The report of a command on one input: one form for every application, for programs and for people."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import groupby
from typing import Any, Literal

from visionnmf._text import printable

MOST_PICTURES = 4  # that a notebook shows
MOST_NUMBERED = 3  # files whose names differ in their numbers alone that are listed one by one


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was read, what was found, and what was written.

    Each figure is an attribute as well: ``report.seconds`` is ``report.figures["seconds"]``. A printed report is text
    for people.

    Attributes
    ----------
    figures : dict
        What the application has found; the function that returns the report says which figures there are.
    lines : list of str
        The figures in words.
    inputs : list of str
        Files, folders, samples or data sets, as the caller named them.
    outputs : list of str
        The files written.
    skipped : list of str
        A sentence for each input, or part of one, that could not be used. The work went on without it.
    notes : list of str
        A sentence for each reason to doubt the result.
    warnings : list of str
        A sentence for each fault of an input, and each warning that came while a command was working.
    model : object
        The fitted model, where one was made.
    shown : dict
        What only the page of a run shows: pictures, and functions that make some.
    state : {"done", "exists", "failed"}
        Whether the input was worked on, has results already, or could not be used, of which `error` says why.
    """

    figures: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    model: Any = None
    shown: dict[str, Any] = field(default_factory=dict)
    state: Literal["done", "exists", "failed"] = "done"
    error: str = ""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["figures"][name]
        except KeyError:
            raise AttributeError(f"the report has no {name}") from None

    def __repr__(self) -> str:
        return f"Report({', '.join(self.figures)})"  # the figures may be large

    def __str__(self) -> str:
        return "\n".join(self.as_lines())

    def _repr_html_(self) -> str:
        """Show the report and its first pictures, in notebooks."""
        from html import escape
        from pathlib import Path

        from visionnmf._html import thumbnail
        from visionnmf.io import read_image

        files = [file for file in self.outputs if file.endswith(".png") and Path(file).is_file()][:MOST_PICTURES]
        pictures = [thumbnail(read_image(file), Path(file).name) for file in files]
        return f"<pre>{escape(str(self))}</pre>{''.join(pictures)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON's types, without the lines and the model; numbers that are not finite are None."""
        common = {name: getattr(self, name) for name in ("inputs", "outputs", "skipped", "notes", "warnings")}
        reason = {"error": self.error} if self.error else {}
        plain: dict[str, Any] = _plain({"state": self.state} | reason | self.figures | common)
        return plain

    def as_lines(self, *, files: bool = True) -> list[str]:
        """Return the report for a person: its lines, warnings and notes, the `files` written, and what was left out."""
        written = _shortened(self.outputs) if files else []
        more = [*self.warnings, *self.notes, *(f"wrote {name}" for name in written)]
        more += [f"left out: {each}" for each in self.skipped]
        return [printable(line) for line in (*self.lines, *(f"  {line}" for line in more))]


def _plain(value: Any) -> Any:
    """Return a value in JSON's types."""
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # an array, or a number of NumPy
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shortened(names: list[str]) -> list[str]:
    """Return lines with names of files; more than three in a row that differ in numbers alone share a line."""
    lines: list[str] = []
    for _, group in groupby(names, key=lambda name: re.sub(r"[0-9]+", "#", name)):
        alike = list(group)
        shown = [f"{alike[0]} to {alike[-1]} ({len(alike)} files)"] if len(alike) > MOST_NUMBERED else alike
        lines += shown
    return lines
