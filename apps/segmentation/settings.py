"""The settings of ``visionnmf segment``: which segments are wanted, and what is written. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from visionnmf import choices
from visionnmf.apps.settings import Option, comma_separated, settings
from visionnmf.exceptions import ParameterError

AUTO = "auto"


class Format(NamedTuple):
    """A file format: the end of the file's name, and what makes text, bytes or a dict to be written as JSON."""

    ending: str
    # of the module :mod:`.formats`, the name of the picture and the :class:`.SegmentationResult`
    make: Callable[[Any, str, Any], str | bytes | dict[str, Any]]


FORMATS = {
    "coco": Format("coco.json", lambda formats, name, result: formats.to_coco([(name, result)])),
    "coco-polygons": Format(
        "coco_polygons.json", lambda formats, name, result: formats.to_coco([(name, result)], polygons=True)
    ),
    "geojson": Format("segments.geojson", lambda formats, _, result: formats.to_geojson(result)),
    "svg": Format("segments.svg", lambda formats, _, result: formats.to_svg(result)),
    "csv": Format("segments.csv", lambda formats, _, result: formats.to_csv(result)),
}
"""The formats that can be written besides the pictures. A new format is a row here and its function."""


def parse_segments(text: str) -> int | str:
    """Read a number of segments, or "auto"."""
    if text == AUTO:
        return text
    number = int(text) if text.isdecimal() else 0  # 0 is refused below
    if not 1 <= number <= choices.MAX_SEGMENTS:
        raise ValueError(f"{text} is neither auto nor a whole number from 1 to {choices.MAX_SEGMENTS}")
    return number


def parse_formats(text: str) -> tuple[str, ...]:
    """Read names of formats with commas between, or "all"."""
    names = tuple(FORMATS) if text == "all" else comma_separated(text)
    for name in names:
        if name not in FORMATS:
            raise ValueError(f"{name} is not a format; give all, or some of {', '.join(FORMATS)}")
    return names


@settings
class WantedSegments:
    """Which segments are wanted: a number, a scale, those marked by a person, or as many as there are; and how."""

    method: Annotated[
        str,
        Option(
            "How segments are found. tree: a tree of regions, cut; nmf: symmetric NMF of how well these regions are "
            "connected; paper: the MahNMF paper's method, beside normalised and spectral cuts",
            choices=choices.SEGMENT_METHODS,
        ),
    ] = "tree"
    loss: Annotated[
        str | None,
        Option(
            f"With --method nmf: the loss of the factorisation, {choices.SEGMENT_LOSSES[0]} if not given",
            choices=choices.SEGMENT_LOSSES,
        ),
    ] = None
    n_segments: Annotated[
        Any,
        Option(
            "The number of segments, 1 to 1000, or auto (the default): as many as the image has. More than 100 are "
            "superpixels.",
            flag="--segments",
            metavar="K",
            parse=parse_segments,
        ),
    ] = None
    scale: Annotated[
        float | None, Option("In place of a number: smaller values give more segments.", low=0.0, high=1.0)
    ] = None
    markers: Annotated[
        Path | None,
        Option(
            "Lines drawn on an empty layer of the image's size, in a different colour for each segment.", metavar="FILE"
        ),
    ] = None

    def check(self) -> None:
        """Raise ParameterError if the number is not allowed, or options are given together that exclude each other.

        `n_segments`, `scale` and `markers` are None where they are not given; `n_segments` may also be "auto". Only the
        `method` "tree" takes a scale and markers.
        """
        if self.loss is not None and self.method != "nmf":
            raise ParameterError(
                f"loss must be left out with the method {self.method}, because only nmf has one; got {self.loss}"
            )
        for name in ("scale", "markers"):
            if self.method != "tree" and getattr(self, name) is not None:
                raise ParameterError(
                    f"{name} must be left out with the method {self.method}, because it only applies to a tree; "
                    f"got {getattr(self, name)}"
                )
        if self.n_segments is not None and self.scale is not None:
            raise ParameterError(
                f"n_segments must be left out where a scale is given; got {self.n_segments!r} and {self.scale!r}"
            )
        if self.n_segments is not None and not (isinstance(self.n_segments, str) and self.n_segments == AUTO):
            from visionnmf._checks import check_count  # loads NumPy, which a command's help does not need

            check_count(self.n_segments, "n_segments", 1, choices.MAX_SEGMENTS)


@settings
class Outputs:
    """What is written besides the four pictures."""

    formats: Annotated[
        Any,
        Option(
            f"Also write files for other programs, comma-separated: all, or some of {', '.join(FORMATS)}.",
            metavar="LIST",
            parse=parse_formats,
        ),
    ] = None
    cutouts: Annotated[bool, Option("Also write each segment alone, as NAME_cutouts/NAME_0.png and so on.")] = False
    memberships: Annotated[
        bool,
        Option(
            "With --method nmf: also write how far each pixel belongs to each segment, as NAME_memberships/NAME_0.png "
            "and so on, and all of them in colour as NAME_memberships.png."
        ),
    ] = False

    def check(self) -> None:
        """Raise ParameterError if `formats`, names from FORMATS or None for none, holds a name that is not known."""
        if self.formats is None:
            return
        from visionnmf._checks import check_choice, shown  # loads NumPy, which a command's help does not need

        if isinstance(self.formats, str) or not isinstance(self.formats, Iterable):
            raise ParameterError(f"formats must be a list of names; got {shown(self.formats)}")
        for name in self.formats:
            check_choice(name, "formats", FORMATS)

    @property
    def names(self) -> list[str]:
        """The formats that are wanted, each once."""
        return list(dict.fromkeys(self.formats or ()))
